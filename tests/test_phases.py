"""Positive and negative phases: the contract, and the gradient of the likelihood."""

import math

import pytest
import torch

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.ensembles import AllStates, WeightedSpins
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN, Spin
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.mean_field import mean_field
from rapidbm.testing import check_negative_phase, exact_distribution
from rapidbm.training.annealer import Annealer
from rapidbm.training.negative import (
    NEGATIVE,
    ContrastiveDivergence,
    Exact,
    PatternInduced,
    Persistent,
    Tempered,
)
from rapidbm.training.optimisers import sgd
from rapidbm.training.positive import (
    POSITIVE,
    ClampedChains,
    ConditionalMean,
    Enumerated,
    MeanField,
    positive_for,
)
from rapidbm.training.train import log_likelihood_gradient
from rapidbm.training.trainer import Trainer

EVERY = machines(1) + machines(3) + machines(2, biases=False)
CHOICES = {
    "exact": [Exact()],
    "cd": [ContrastiveDivergence(), ContrastiveDivergence(3)],
    "pcd": [
        Persistent(7),
        Persistent(1, 2),
        Persistent(7, 2, lifetime=3),
        Persistent(2, lifetime=50),
        Persistent(7, 60, scouts=0.4),
        Persistent(4, lifetime=3, scouts=0.1),
    ],
    "pid": [
        PatternInduced(),
        PatternInduced(2),
        PatternInduced(0, "all"),
        PatternInduced(1, "all"),
    ],
    "pt": [Tempered(5, 3), Tempered(2, 2, 2)],
    "dimod": [Annealer("sa", 5, 3)],
}


@pytest.mark.parametrize(
    "of",
    [
        lambda machine: WeightedSpins.equal(machine.random(4, stream(0))),
        lambda machine: machine.given_visible(torch.ones((4, 3))),
    ],
)
def test_weights_times_a_factor(of):
    whole = of(rbm(3, 2, seed=0))
    assert torch.allclose(whole.times(0.5).weights, 0.5 * whole.weights)
    assert type(whole.times(0.5)) is type(whole)


def test_as_many_images_as_are_summed_at_once_are_checked(monkeypatch):
    asked = []
    monkeypatch.setattr(Enumerated, "check", lambda self, machine, images: asked.append(images))
    machine = dbm(4, (2, 2), seed=0, replicas=2)
    for shape in ((2, 5, 4), (5, 4)):
        Enumerated().step(machine, torch.ones(shape), stream(0))
    assert asked == [5, 5]


def test_every_registered_phase_is_tested():
    assert set(CHOICES) == set(NEGATIVE)
    for name, choices in CHOICES.items():
        assert all(isinstance(choice, NEGATIVE[name]) for choice in choices)


@pytest.mark.parametrize("negative", [c for cs in CHOICES.values() for c in cs], ids=str)
@pytest.mark.parametrize("machine", EVERY)
def test_contract(negative, machine):
    asks = isinstance(negative, PatternInduced) or getattr(negative, "scouts", 0)
    if asks and machine.patterns is None:
        with pytest.raises(InputError, match="patterns=K"):
            check_negative_phase(negative, machine)
    else:
        check_negative_phase(negative, machine)


@pytest.mark.parametrize("machine", EVERY)
def test_moment_gradient_is_autograd_of_the_enumerated_likelihood(machine):
    """Bar: to 1e-10 in float64, with the exact negative and the enumerated positive phase."""
    rng = stream(0)
    data = torch.where(
        torch.rand((6, machine.visible), generator=rng) < 0.7, 1.0, -1.0
    )  # shared by replicas
    positive = Enumerated().step(machine, machine.visible_spins(data), rng)
    negative, _ = Exact().step(machine, Exact().init(machine, rng), data, rng)
    found = log_likelihood_gradient(machine, positive, negative)

    every = states(machine.layers.columns, 0, 2**machine.layers.columns).double()
    energy = machine.energy(every)  # (e, x)
    total = torch.zeros((), dtype=torch.float64)
    for row in data:
        here = (every[:, : machine.visible] == row).all(1)
        log_p = torch.logsumexp(-energy[:, here], 1) - torch.logsumexp(-energy, 1)
        total = total + log_p.sum() / len(data)
    names = [name for name, _ in machine.named_parameters()]
    wanted = torch.autograd.grad(total, list(machine.parameters()))
    for name, value in zip(names, wanted, strict=True):
        assert float((found[name] - value).abs().max()) < 1e-10, name


@pytest.mark.parametrize("machine", EVERY)
def test_all_states_carry_boltzmann_weights(machine):
    every, p = exact_distribution(machine)
    mean, pairs = p @ every, torch.einsum("ex,xi,xj->eij", p, every, every)
    found = AllStates(machine).whole()
    assert torch.allclose((found.weights[..., None] * found.spins).sum(1), mean, atol=1e-12)
    moments = torch.einsum("ec,eci,ecj->eij", found.weights, found.spins, found.spins)
    for a, b in machine.layers.edges:
        x, y = machine.layers.slices[a], machine.layers.slices[b]
        got, want = moments[:, x, y], pairs[:, x, y]
        if a == b:
            got, want = got.triu(1), want.triu(1)
        assert torch.allclose(got, want, atol=1e-12)


def test_all_states_in_many_chunks(monkeypatch):
    machine = rbm(9, 12, 3, replicas=2, seed=0, dtype=torch.float64)
    whole, written = machine.gradient(AllStates(machine)), AllStates(machine).whole()
    monkeypatch.setattr("rapidbm.machines.enumeration.CHUNK_BYTES", 2 * 21 * 8 * 7)  # 7 states at a time
    again = AllStates(machine).whole()
    assert torch.equal(again.spins.sign(), written.spins.sign())
    assert torch.allclose(again.weights, written.weights)
    assert len(list(AllStates(machine).chunks())) == -(-(2**8) // 7)
    for name, value in machine.gradient(AllStates(machine)).items():
        assert torch.allclose(value, whole[name], atol=1e-12)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("patterns", [None, 3])
@pytest.mark.parametrize("sizes", [(7, 4), (4, 7)], ids=str)
def test_products_of_two_layers_give_what_all_configurations_give(sizes, patterns, biases):
    machine = rbm(*sizes, patterns, replicas=2, biases=biases, seed=0, dtype=torch.float64)
    if machine.biases is not None:
        machine.biases.data.copy_(0.3 * torch.randn(2, 11, generator=stream(1)))
    machine.couplings.requires_grad_(False)
    for parameter in machine.couplings.parameters():
        parameter.mul_(3.0 if patterns is None else 0.7)
    quick = machine.gradient(AllStates(machine))
    plain = machine.gradient(AllStates(machine).whole())
    assert quick.keys() == plain.keys()
    for name, value in quick.items():
        assert torch.allclose(value, plain[name], atol=1e-12), name


@pytest.mark.parametrize("machine", machines(2))
@pytest.mark.parametrize(
    "negative", [ContrastiveDivergence(60), Persistent(20_000, 3)], ids=["cd", "pcd"]
)
def test_chains_in_equilibrium_give_the_exact_gradient(machine, negative):
    """Sampled moments, over many chains from exact draws, within their standard errors. CD does not
    know the hidden units and needs sweeps to find them."""
    rng = stream(3)
    count = 20_000
    every, p = exact_distribution(machine)
    chains = every[torch.multinomial(p, count, replacement=True, generator=rng)]
    weighted, _ = negative.step(machine, chains, chains[..., : machine.visible], rng)
    exact = machine.gradient(AllStates(machine))
    parts = [
        machine.gradient(WeightedSpins.equal(spins)) for spins in weighted.spins.chunk(50, dim=1)
    ]  # independent estimates, whose scatter is the error of their mean
    for name, value in exact.items():
        each = torch.stack([part[name] for part in parts])
        error = each.std(0) / len(parts) ** 0.5 + 1e-12
        assert float(((each.mean(0) - value) / error).abs().max()) < 7.5, name  # t of 49: 2e-9


@pytest.mark.parametrize("machine", machines(2))
@pytest.mark.parametrize("count", [1, 3])
def test_each_phase_makes_the_sweeps_it_says_from_where_it_says(machine, count):
    data = machine.random(4, stream(1))[..., : machine.visible]
    chains = machine.random(6, stream(2))

    def after(start):
        return machine.infer(sweeps(machine, start, stream(3), count))

    found, _ = ContrastiveDivergence(count).step(machine, chains[:, :0], data, stream(3))
    assert torch.equal(found.spins, after(machine.with_visible(data)))
    found, moved = Persistent(6, count).step(machine, chains, data, stream(3))
    assert torch.equal(found.spins, after(chains))
    assert torch.equal(moved, sweeps(machine, chains, stream(3), count))
    if machine.patterns is not None:
        xi = SPIN.nearest(machine.patterns.detach())
        found, _ = PatternInduced(count).step(machine, chains[:, :0], data, stream(3))
        assert torch.equal(found.spins, after(machine.with_visible(xi[..., : machine.visible])))
        found, _ = PatternInduced(count, "all").step(machine, chains[:, :0], data, stream(3))
        assert torch.equal(found.spins, after(xi))
        found, _ = PatternInduced().step(machine, chains[:, :0], data, stream(3))
        assert torch.equal(found.spins, mean_field(machine, xi[..., : machine.visible], 30))


def test_mean_field_of_a_full_machine_does_not_oscillate():
    """Without damping, the parallel step of this antiferromagnet flips for ever."""
    machine = bm(2, 6, seed=0, dtype=torch.float64)
    machine.couplings.weights["1-1"].data.fill_(-0.4).triu_(1)  # antiferromagnet
    machine.couplings.weights["0-1"].data.fill_(0.05)
    spins = mean_field(machine, torch.ones(1, 1, 2), 400)
    wanted = torch.tanh(machine.field(spins, 1, means=True)).detach()
    assert torch.allclose(spins[..., 2:], wanted, atol=1e-6)


def test_persistent_chains_go_on():
    machine = rbm(4, 3, seed=0)
    negative, rng = Persistent(5, 1), stream(0)
    chains = negative.init(machine, rng)
    data = torch.ones(1, 2, 4)
    weighted, after = negative.step(machine, chains, data, rng)
    assert not torch.equal(after, chains)
    assert torch.equal(weighted.spins[..., :4], after[..., :4])


@pytest.mark.parametrize("machine", machines(2))
def test_pid_uses_the_patterns_and_draws_nothing(machine):
    if machine.patterns is None:
        pytest.skip("dense couplings have no patterns")
    rng = stream(0)
    before = rng.get_state()
    chains = torch.zeros(2, 0, machine.layers.columns)
    data = torch.ones(2, 3, machine.visible)
    xi = SPIN.nearest(machine.patterns.detach())
    weighted, _ = PatternInduced().step(machine, chains, data, rng)
    assert torch.equal(weighted.spins[..., : machine.visible], xi[..., : machine.visible])
    if machine.layers.hidden_independent:
        hidden = machine.hidden_mean(xi[..., : machine.visible]).detach()
        assert torch.allclose(weighted.spins[..., machine.visible :], hidden)
    literal, _ = PatternInduced(units="all").step(machine, chains, data, rng)
    assert torch.equal(literal.spins, xi)
    assert torch.equal(rng.get_state(), before)
    assert torch.allclose(weighted.weights, torch.full_like(weighted.weights, 0.5))


def test_a_pattern_value_of_zero_still_gives_a_spin():
    machine = rbm(4, 3, 2, seed=0)
    machine.couplings.patterns.data.zero_()
    weighted, _ = PatternInduced().step(machine, torch.zeros(1, 0, 7), torch.ones(1, 1, 4), stream(0))
    assert bool((weighted.spins[..., :4] == 1).all())


# -- positive phases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", EVERY)
def test_positive_phases_keep_the_data_and_sum_to_one(machine):
    data = machine.random(4, stream(0))[..., : machine.visible]
    for kind in POSITIVE.values():
        if kind is ConditionalMean and not machine.layers.hidden_independent:
            with pytest.raises(InputError, match="meanfield"):
                kind().step(machine, data, stream(1))
            continue
        found = kind().step(machine, data, stream(1))
        assert torch.allclose(found.weights.sum(1), torch.ones(machine.replicas, dtype=torch.float64))
        images = found.spins[..., : machine.visible].unflatten(1, (4, -1))
        assert bool((images == data[:, :, None]).all())
        assert bool((found.spins.abs() <= 1).all())


@pytest.mark.parametrize("machine", [m for m in EVERY if "rbm" in m.id])
def test_all_positive_phases_of_an_rbm_have_the_same_moments(machine):
    data = machine.random(4, stream(0))[..., : machine.visible]
    exact = machine.gradient(Enumerated().step(machine, data, stream(1)))
    for phase in (ConditionalMean(), MeanField(), ClampedChains(1)):
        found = machine.gradient(phase.step(machine, data, stream(1)))
        for name, value in found.items():
            assert torch.allclose(value, exact[name], atol=1e-12)


@pytest.mark.parametrize("machine", [m for m in machines(1) if "rbm" not in m.id])
def test_clamped_chains_approach_the_enumerated_phase(machine):
    row = torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)[: machine.visible]
    exact = Enumerated().step(machine, row[None, None], stream(0))
    wanted = (exact.weights[..., None] * exact.spins).sum(1)
    count = 40_000
    found = ClampedChains(20).step(machine, row.expand(1, count, -1), stream(0))
    mean = (found.weights[..., None] * found.spins).sum(1)
    assert float((mean - wanted).abs().max()) < 4.5 / count**0.5


@pytest.mark.parametrize("machine", [m for m in machines(2) if "rbm" not in m.id])
def test_mean_field_is_a_fixed_point(machine):
    data = machine.random(4, stream(0))[..., : machine.visible]
    spins = MeanField(400).step(machine, data, stream(1)).spins
    for layer in machine.layers.hidden:
        wanted = torch.tanh(machine.field(spins, layer, means=True))
        assert torch.allclose(spins[..., machine.layers.slices[layer]], wanted, atol=1e-8)


def test_which_positive_phase_serves_by_default():
    assert positive_for(rbm(4, 300)) == ConditionalMean()
    assert positive_for(dbm(4, (3, 2))) == Enumerated()
    assert positive_for(dbm(4, (30, 20))) == MeanField()
    assert positive_for(bm(40)) == ConditionalMean()  # nothing is hidden
    assert positive_for(bm(4, 30)) == MeanField()
    assert positive_for(bm(3, 6)) == Enumerated()  # 64 hidden states
    assert positive_for(bm(3, 7)) == MeanField()


def test_what_nobody_asks_of_a_phase():
    assert ContrastiveDivergence() == ContrastiveDivergence(sweeps=1)
    assert Persistent(9) == Persistent(9, sweeps=1)
    assert PatternInduced() == PatternInduced(sweeps=0, units="visible")
    assert Tempered(9, 3) == Tempered(9, 3, sweeps=1)


def test_as_many_states_as_a_phase_takes():
    assert Exact().init(rbm(20, 21), stream(0)).shape == (1, 0, 41)
    Enumerated().check(bm(2, 10), 43_690)  # · 2^10 states · 12 units: just below 2^29 numbers
    Enumerated().check(bm(6, 10), 2**15)  # 2^29 of them
    Enumerated().check(bm(6, 10, replicas=2), 2**14)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Exact().init(rbm(30, 40), stream(0)), r"2\^30 ≈ 10\^9 .* 70 units"),
        (lambda: Enumerated().step(bm(3, 40), torch.ones(1, 1, 3), stream(0)), r"2\^40"),
        (lambda: Exact().init(rbm(21, 21), stream(0)), r"at most 1,048,576 states .* 2\^21"),
        (lambda: Enumerated().check(bm(2, 11), 1), r"at most 1,024 states per image .* 2\^11"),
        (lambda: Enumerated().check(bm(2, 10), 43_691), "at once; take smaller batches"),
        (lambda: Enumerated().check(bm(6, 10, replicas=2), 2**14 + 1), "at once"),
        (
            lambda: ConditionalMean().step(bm(3, 2), torch.ones(1, 1, 3), stream(0)),
            "independent",
        ),
        (lambda: ContrastiveDivergence(0), "at least 1, not 0"),
        (lambda: Persistent(0), "particles"),
        (lambda: Persistent(1, 0), "sweeps of persistent"),
        (lambda: Tempered(0), "particles"),
        (lambda: Tempered(1, 1), "rungs"),
        (lambda: Tempered(1, 2, 0), "sweeps of tempered"),
        (lambda: PatternInduced(-1), "at least 0"),
        (lambda: PatternInduced(0, "hidden"), "known are all, visible"),
        (lambda: MeanField(0), "iterations"),
        (lambda: ClampedChains(0), "sweeps"),
    ],
)
def test_bad_phases(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_wrong_factor_in_the_field_shows_in_the_gradient(monkeypatch):
    """The mutation that the sampler tests apply, seen by the identity of the gradient."""
    machine = next(m.values[0] for m in machines(1))
    right = machine.gradient(AllStates(machine))
    monkeypatch.setattr(Spin, "mean", lambda _, field, beta=1.0: torch.tanh(field * beta / 2))
    wrong = machine.gradient(AllStates(machine))
    assert float((right["couplings.weights.0-1"] - wrong["couplings.weights.0-1"]).abs().max()) > 1e-3
    assert isinstance(machine, Machine)


@pytest.mark.parametrize(("count", "lifetime"), [(7, 3), (6, 6), (4, 30), (1, 40), (5, 1)])
def test_a_chain_lives_as_long_as_it_may_and_counts_when_it_is_old_enough(count, lifetime):
    machine = rbm(6, 3, scale=1e-9, seed=0)
    phase, rng = Persistent(count, 1, lifetime), stream(0)
    young, age = int(0.05 * lifetime), None
    chains, data = phase.init(machine, rng), machine.random(1, rng)[..., :6]
    born = torch.full((count,), -lifetime)  # the last time that each was
    for update in range(3 * lifetime):
        first = chains[..., :-1].clone()
        spins = phase._renewed(machine, first, chains[0, 0, -1].long(), lifetime, rng)
        new = (spins != first).any(2)[0]  # one in 512 starts where it was
        due = torch.tensor([math.ceil((i + 1) * lifetime / count) - 1 for i in range(count)])
        born = torch.where(due == update % lifetime, update, born)
        assert not bool((new & (born != update)).any())
        model, chains = phase.step(machine, chains, data, rng)
        if update >= lifetime:  # all have been born here
            age = update - born
            assert torch.equal(model.weights[0] > 0, (age >= young) | bool((age < young).all()))
        assert float(model.weights.sum()) == pytest.approx(1.0)
    assert age is not None
    assert int(age.max()) <= lifetime - 1


def _likelihood_of_data_on_one_side(machine, phase, rate, epochs):
    """The data point up; so do all chains; the state that points down outweighs both."""
    data = torch.ones(20, 8, dtype=torch.int8)
    data[:, ::2] -= 2 * (torch.rand(20, 4, generator=stream(3)) < 0.2).to(torch.int8)
    data[0, 1::2] = -1  # no column is constant
    trainer = Trainer(machine, data, phase, sgd(rate), epochs=epochs, batch_size=20, seed=0)
    trainer.chains[..., :12] = 1.0
    for _ in trainer.run("epoch"):
        pass
    return float(log_likelihood(machine, data).value)


def test_a_state_that_all_chains_have_left_is_found_again_and_unlearnt():
    ends = []
    for lifetime in (0, 20):
        machine = rbm(8, 4, scale=0.01, biases=True, seed=0, dtype=torch.float64)
        machine.couplings.weights["0-1"].data += 0.8
        machine.biases.data -= 0.3
        ends.append(_likelihood_of_data_on_one_side(machine, Persistent(50, 2, lifetime), 0.02, 200))
    assert ends[0] < -4.0
    assert ends[1] > ends[0] + 1.5


def test_scouts_find_a_state_that_no_chain_visits_and_training_removes_it():
    ends = []
    for scouts in (0.0, 0.2):
        machine = rbm(8, 4, 1, biases=True, seed=0, dtype=torch.float64)
        machine.patterns.data.fill_(1.2)
        machine.biases.data -= 0.5
        phase = Persistent(50, 20, scouts=scouts)
        ends.append(_likelihood_of_data_on_one_side(machine, phase, 0.005, 100))
    assert ends[0] < -14.0
    assert ends[1] > ends[0] + 1.0


def test_chains_are_born_at_the_patterns_and_at_their_mirror_images():
    machine = rbm(6, 4, 3, seed=0, replicas=2)
    phase, rng = Persistent(8, 1, lifetime=1, born="patterns"), stream(0)
    chains = phase.init(machine, rng)
    born = phase._renewed(machine, chains[..., :-1], chains[0, 0, -1].long(), 1, rng)
    signs = machine.patterns.detach().sign()
    assert torch.equal(born, torch.cat([signs, -signs, signs[:, :2]], 1))  # eight chains, three patterns
    some = Persistent(8, 1, lifetime=4, born="patterns")  # two at a time
    chains = some.init(machine, rng)
    for update in range(4):
        now = torch.tensor(update)
        new = some._renewed(machine, chains[..., :-1], now, 4, rng)
        due = torch.arange(8) // 2 == update
        assert torch.equal(new[:, due], born[:, due])
        assert torch.equal(new[:, ~due], chains[:, ~due, :-1])


def test_a_birth_at_patterns_needs_patterns_and_a_lifetime():
    with pytest.raises(InputError, match="live for ever; give a lifetime"):
        Persistent(8, born="patterns")
    with pytest.raises(InputError, match="birth"):
        Persistent(8, lifetime=2, born="data")
    with pytest.raises(InputError, match="these are dense"):
        Persistent(8, lifetime=2, born="patterns").init(rbm(4, 3, seed=0), stream(0))
    with pytest.raises(InputError, match=r"leave scouts \(--scouts\) out"):
        Persistent(8, scouts=0.5).init(rbm(4, 3, seed=0), stream(0))


@pytest.mark.parametrize("scouts", [-0.1, 1.0, 0.99, math.nan, "half"])
def test_scouts_are_some_of_the_particles(scouts):
    with pytest.raises(InputError, match="scouts are a share of the particles"):
        Persistent(8, scouts=scouts)


def test_shards_of_pid_have_patterns_of_their_own():
    machine = rbm(6, 4, 5, replicas=2, seed=0)
    for count in (1, 2, 3):
        shards = PatternInduced(1).split(machine, count)
        parts = [phase._patterns(machine) for phase, _ in shards]
        assert torch.equal(torch.cat(parts, 1), machine.patterns)
        assert [share for _, share in shards] == [part.shape[1] / 5 for part in parts]


def test_updates_are_counted_as_far_as_float32_counts_exactly():
    """The count stands beside the chains, in their type."""
    machine = rbm(4, 3, 100, seed=0)
    phase = Persistent(10, 1, lifetime=1009, scouts=0.1)
    once = 1009 * phase.foray  # both lives begin together again
    assert 2 * 100 * once > 2**23  # all patterns in turn would take longer
    assert phase._cycle(machine) == (2**23 // once) * once
    assert Persistent(10, 1, scouts=0.1)._cycle(machine) == 200 * phase.foray


def test_scouts_start_at_every_pattern_and_every_mirror_image_in_turn():
    machine = rbm(6, 4, 3, seed=0, replicas=2)
    phase, rng = Persistent(5, 50, lifetime=6, scouts=0.4), stream(0)
    assert (phase.scouting, phase.foray) == (2, 4)
    chains, data = phase.init(machine, rng), machine.random(1, rng)[..., :6]
    signs = machine.patterns.detach().sign()
    names = torch.cat([signs, -signs], 1)
    seen = []
    cycle = phase._cycle(machine)
    assert cycle == 12 * 3  # lives of 6 and of 4 updates, and three of the latter name all six states
    for update in range(cycle):
        now = chains[0, 0, -1].long()
        assert int(now) == update
        new = phase._renewed(machine, chains[:, 3:, :-1], now, phase.foray, None)
        due = [i for i in range(2) if update % 4 == math.ceil((i + 1) * 4 / 2) - 1]
        for i in due:
            number = update // 4 * 2 + i
            assert torch.equal(new[:, i], names[:, number % 6])
            seen.append(number % 6)
        stays = [i for i in range(2) if i not in due]
        assert torch.equal(new[:, stays], chains[:, 3:, :-1][:, stays])
        model, chains = phase.step(machine, chains, data, rng)
        assert float(model.weights[0].sum()) == pytest.approx(1.0)
        # A scout counts when one of its four updates is over.
        assert [bool(w > 0) for w in model.weights[0, 3:]] == [i not in due for i in range(2)]
    assert set(seen) == set(range(6))
    assert int(chains[0, 0, -1]) == 0
