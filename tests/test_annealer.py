"""Samplers of dimod: their temperature, the negative phase and ground states, against enumeration."""

import math

import dimod
import numpy as np
import pytest
import torch
from dwave.samplers import SimulatedAnnealingSampler, TreeDecompositionSampler

import rapidbm as rb
from conftest import machines
from rapidbm.exchange.dimod_samplers import read_spins
from rapidbm.machines.machine import scaled
from rapidbm.runs.recipe import Recipe
from rapidbm.testing import (
    SMALLEST_P,
    check_negative_phase,
    chi_squared,
    exact_distribution,
    small_machines,
)
from rapidbm.training.annealer import Annealer

EVERY = machines(2)


class Boltzmann(dimod.Sampler):
    """Draws from exp(−βE) by enumeration: an annealer that is perfect but for its temperature."""

    properties: dict = {}  # noqa: RUF012
    parameters = dict.fromkeys(("num_reads", "seed"), ())

    def __init__(self, beta=1.0, *, autoscale=False):
        self.beta, self.autoscale, self.seen = beta, autoscale, []

    def sample(self, bqm, num_reads=1, seed=None):
        largest = max(map(abs, [*bqm.linear.values(), *bqm.quadratic.values()]))
        self.seen.append(largest)
        states = 2 * ((np.arange(2**bqm.num_variables)[:, None] >> np.arange(bqm.num_variables)) & 1) - 1
        energies = bqm.energies((states, bqm.variables)) / (largest if self.autoscale else 1)
        p = np.exp(-self.beta * (energies - energies.min()))
        rows = np.random.default_rng(seed).choice(len(p), num_reads, p=p / p.sum())
        return dimod.SampleSet.from_samples_bqm((states[rows], bqm.variables), bqm).aggregate()


def drawn(machine, beta, count, seed=0):
    every, p = exact_distribution(machine, beta)
    return every[torch.multinomial(p, count, replacement=True, generator=rb.stream(seed))]


# -- temperature --------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.4, 1.0, 2.0])
@pytest.mark.parametrize("machine", EVERY)
def test_the_temperature_of_exact_draws_is_found_within_its_error(machine, beta):
    found = rb.effective_beta(machine, drawn(machine, beta, 4000))
    assert bool(((found.value - beta).abs() < 6 * found.error).all())  # 2 of 10⁹ are farther off
    assert bool((found.error < 0.15 * beta).all())


def test_errors_of_temperatures_are_what_they_say():
    machine = dict(small_machines())["bm-dense"]
    alike = rb.stack([machine] * 300)
    found = rb.effective_beta(alike, drawn(alike, 1.0, 200))
    z = (found.value - 1) / found.error
    # Five standard errors each, 6 of 10⁷.
    assert abs(float(z.std()) - 1) < 5 / math.sqrt(600)
    assert abs(float(z.mean())) < 5 / math.sqrt(300)


def test_quenched_states_are_cold_and_free_units_have_no_temperature():
    machine = rb.rbm(6, 5, biases=True, scale=0.5, seed=0)
    machine.biases.data += 1.0
    states = rb.descend(machine, machine.random(50, rb.stream(0)))
    few, many = (rb.effective_beta(machine, states[:, :count]) for count in (5, 50))
    assert 1 < float(few.value) < float(many.value) < torch.inf  # the more of them, the colder
    alike = torch.ones((1, 50, 11))  # against all fields
    machine.biases.data -= 9.0
    against = rb.effective_beta(machine, alike)
    assert float(against.value) < 0
    assert -float(against.value) == pytest.approx(
        float(rb.effective_beta(scaled(machine, -1.0), alike).value)
    )
    nothing = rb.effective_beta(scaled(machine, 0.0), machine.random(50, rb.stream(0)))
    assert bool(nothing.value.isnan())
    assert bool(nothing.error.isinf())


def test_frozen_samples_do_not_claim_a_temperature():
    """With no unit against its field, or few, β may be far larger than what makes them likeliest."""
    machine = dict(small_machines())["bm-dense"]
    alike = rb.stack([machine] * 100)
    frozen = rb.effective_beta(alike, drawn(alike, 30.0, 20))
    assert bool((frozen.value < 20).all())
    assert bool(frozen.error.isinf().all())
    for beta, count in ((2.0, 5), (3.0, 20)):
        found = rb.effective_beta(alike, drawn(alike, beta, count))
        assert (
            float(((found.value - beta).abs() < 2 * found.error).double().mean()) >= 0.82
        )  # of 100; fewer in one of 10⁶


def test_a_sampler_of_dwaves_has_the_temperature_that_it_was_given():
    machine = dict(small_machines())["rbm-dense"]
    answer = TreeDecompositionSampler().sample(machine.to_bqm(), num_reads=4000, beta=0.7, seed=1)
    rows = np.repeat(answer.record.sample, answer.record.num_occurrences, axis=0)
    found = rb.effective_beta(machine, rows[:, np.argsort(list(answer.variables))])
    assert abs(float(found.value) - 0.7) < 6 * float(found.error) < 0.45


# -- the negative phase -------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", EVERY[:2])
@pytest.mark.parametrize(
    "phase",
    [
        Annealer("tree", 7),
        Annealer(SimulatedAnnealingSampler(), 6, 3, parameters={"beta_range": (0.1, 1.0)}),
        Annealer(Boltzmann(), 9, corrected=False),
    ],
    ids=["tree", "object", "plain"],
)
def test_contract(phase, machine):
    check_negative_phase(phase, machine)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("beta", [0.5, 3.0, 40.0])
def test_a_wrong_temperature_is_corrected(beta, corrected):
    machine = rb.stack([dict(small_machines())["bm-dense"]] * 2)
    phase = Annealer(Boltzmann(beta), 1000, corrected=corrected)
    rng = rb.stream(0)
    chains = phase.init(machine, rng)
    counts, (every, p) = 0, exact_distribution(machine)
    powers = 2 ** torch.arange(machine.layers.columns - 1, -1, -1)
    for update in range(14):
        average, chains = phase.step(machine, chains, chains, rng)
        if update >= 4:
            numbers = ((average.spins > 0).long() * powers).sum(2)
            counts = counts + torch.stack([row.bincount(minlength=len(every)) for row in numbers])
    values = [chi_squared(row, q) for row, q in zip(counts, p, strict=True)]
    found = phase.temperature(chains)
    if corrected:
        assert min(values) > SMALLEST_P
        assert bool(((found.value - beta).abs() < 6 * found.error).all())  # 2 of 10⁹ are farther off
        assert bool((found.error < 0.05 * beta).all())
    else:
        assert max(values) < 1e-9
        assert torch.equal(found.value, torch.ones(2, dtype=torch.float64))


def test_the_model_that_a_sampler_gets_is_scaled_by_its_temperature():
    machine = dict(small_machines())["rbm-dense"]
    phase = Annealer(Boltzmann(2.0), 500)
    chains = phase.init(machine, rb.stream(0))
    for _ in range(5):
        chains = phase.step(machine, chains, chains, rb.stream(1))[1]
    first, *_, last = phase.sampler.seen
    assert last / first == pytest.approx(0.5, rel=0.1)


def test_a_sampler_that_scales_by_itself_is_told_of():
    machine = dict(small_machines())["rbm-dense"]
    phase = Annealer(Boltzmann(9.0, autoscale=True), 200)
    chains, rng = phase.init(machine, rb.stream(0)), rb.stream(1)

    def updates(count, chains):
        for _ in range(count):
            chains = phase.step(machine, chains, chains, rng)[1]
        return chains

    with pytest.raises(rb.InputError, match="auto_scale=False"):
        updates(100, updates(2, chains))


@pytest.mark.parametrize("machine", machines(1))
def test_simulated_annealing_gives_the_moments_of_enumeration(machine):
    phase, rng = Annealer("sa", 2000, 200), rb.stream(0)  # with 40 sweeps modes miss their shares
    chains = phase.init(machine, rng)
    for _ in range(4):  # the temperature settles
        average, chains = phase.step(machine, chains, chains, rng)
    exact, _ = rb.Exact().step(machine, chains, chains, rng)
    found, wanted = machine.gradient(average), machine.gradient(exact)
    for name, value in wanted.items():
        assert float((found[name] - value).abs().max()) < 0.15, name  # a mean of 2000: ± 0.022


def test_a_training_that_goes_on_repeats_the_bits(tmp_path):
    data = rb.load("bars4")
    common = {"epochs": 6, "batch_size": 5, "seed": 3}

    def machine():
        return rb.rbm(16, 5, replicas=2, biases=True, seed=0)

    phase = Annealer("sa", 10, 5)
    whole, half, rest = machine(), machine(), machine()
    for progress in rb.train(whole, data.train, phase, rb.adam(0.05), **common):
        pass
    for progress in rb.train(half, data.train, phase, rb.adam(0.05), **common):
        if progress.epoch == 3:
            state = progress.state()
            break
    for _ in rb.train(rest, data.train, phase, rb.adam(0.05), state=state, **common):
        pass
    assert all(map(torch.equal, whole.parameters(), rest.parameters()))
    better = rb.log_likelihood(whole, data.train).value - rb.log_likelihood(machine(), data.train).value
    assert bool((better > 0.3).all())


def test_the_command_trains_with_a_named_sampler(tmp_path):
    from typer.testing import CliRunner

    from rapidbm.cli.main import app

    words = ["train", "bars4", "--negative", "dimod", "--annealer", "sa", "--reads", "5", "--sweeps", "4"]
    more = ["--hidden", "4", "--dense", "--epochs", "2", "--batch-size", "10", "--device", "cpu"]
    result = CliRunner().invoke(app, [*words, *more, "--no-corrected", "--out", str(tmp_path / "R")])
    assert result.exit_code == 0, result.output
    recipe = rb.Run(tmp_path / "R").recipe
    assert recipe.negative_phase() == Annealer("sa", 5, 4, corrected=False)
    assert Recipe.from_dict(recipe.as_dict()) == recipe


class Plain:
    """Has `sample` alone, and answers with bits, backwards, with counts: even units up, then odd ones."""

    def sample(self, bqm, num_reads):
        rows = [[1 - i % 2 for i in bqm.variables][::-1], [i % 2 for i in bqm.variables][::-1]]
        answer = dimod.SampleSet.from_samples_bqm((rows, list(bqm.variables)[::-1]), bqm.binary)
        answer.record.num_occurrences[:] = (1, num_reads - 1)
        return answer


def test_samples_come_in_the_order_of_the_units_whatever_the_sampler_makes_of_them():
    machine = rb.rbm(3, 2, replicas=2, scale=0.3, seed=0)
    spins = read_spins(Plain(), machine, 3, rb.stream(0))
    even = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    assert torch.equal(spins, torch.stack([even, -even, -even]).expand(2, 3, 5))


# -- ground states ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler", ["sa", "tree", SimulatedAnnealingSampler()], ids=["sa", "tree", "object"]
)
@pytest.mark.parametrize("machine", EVERY)
def test_a_sampler_finds_the_ground_state(machine, sampler):
    exact = rb.ground_state(machine, method="enumeration")
    found = rb.ground_state(machine, sampler=sampler, starts=20, sweeps=20, seed=0)
    assert torch.allclose(found.energy, exact.energy)
    assert torch.allclose(machine.double().energy(found.spins[:, None])[:, 0], found.energy)
    assert bool((found.bound <= found.energy + 1e-9).all())
    assert found.method == "dimod"


def test_the_samples_are_the_search():
    """A sampler of random states would come to other minima."""
    machine = rb.rbm(12, 12, scale=1.0, seed=0)
    exact = rb.ground_state(machine, method="enumeration")
    found = rb.ground_state(machine, sampler="sa", starts=10, sweeps=200, seed=0)
    random = rb.ground_state(machine, method="descent", starts=10, seed=0)
    assert torch.allclose(found.energy, exact.energy)
    assert float(found.found) > float(random.found)


# -- bad input ----------------------------------------------------------------------------------------


class Few(Boltzmann):
    def sample(self, bqm, num_reads=1, seed=None):
        return super().sample(bqm, num_reads - 1, seed)


def step(phase):
    machine = rb.rbm(3, 2, scale=0.3, seed=0)
    chains = phase.init(machine, rb.stream(0))
    return phase.step(machine, chains, chains, rb.stream(0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Annealer("as"), "known are sa, tabu, tree"),
        (lambda: Annealer(3), r"has sample\(bqm\)"),
        (lambda: Annealer(reads=0), "number of reads"),
        (lambda: Annealer(sweeps=0), "number of sweeps"),
        (lambda: step(Annealer(Few(), 5)), "asked for 5 samples of 5 units.*answered with 4 of 5"),
        (lambda: step(Annealer("sa", parameters={"num_sweps": 3})), "no parameter 'num_sweps'; it takes"),
        (lambda: rb.ground_state(rb.rbm(3, 2, seed=0), sampler="sa", method="exact"), "its own"),
        (lambda: rb.ground_state(rb.rbm(3, 2, seed=0), parameters={}), "give sampler="),
    ],
)
def test_bad_input_says_what_to_do(call, words):
    with pytest.raises(rb.InputError, match=words):
        call()


def test_what_a_sampler_refuses_is_bad_input():
    machine = rb.rbm(visible=30, hidden=30, seed=0)
    with pytest.raises(rb.InputError, match="refuses this machine of 60 units: maximum treewidth"):
        read_spins(TreeDecompositionSampler(), machine, 1, torch.Generator())


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dwave.samplers", None)
    with pytest.raises(rb.InputError, match=r"pip install 'rapidbm\[dwave\]'"):
        step(Annealer())
    with pytest.raises(rb.InputError, match=r"pip install 'rapidbm\[dwave\]'"):
        rb.ground_state(rb.rbm(3, 2, seed=0), sampler="sa")
