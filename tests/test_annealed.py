"""Annealing from several bases: machines on which one base alone was confidently wrong."""

import itertools
import math

import pytest
import torch

from conftest import machines, states
from rapidbm.data.catalogue import load
from rapidbm.errors import InputError, TimeLimit
from rapidbm.estimates import WIDE, Bounds
from rapidbm.likelihood import annealed
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.constructors import bm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine, stack
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.sampling import annealing, bases
from rapidbm.sampling.chain_shards import ChainShards
from rapidbm.sampling.paths import Cooling
from rapidbm.sampling.samplers import Annealing, ParallelTempering, sample
from rapidbm.testing import SMALLEST_P, chi_squared, exact_distribution
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.train import train
from rapidbm_bench.families import weak_units


def random_field_mattis(units=40, field=2.5, ratio=1.15, seed=0):
    """One pattern, and biases that agree with it on every other unit: near a first-order transition."""
    scale = math.sqrt(2.0 * ratio * field / units)
    machine = bm(units, 0, 1, biases=True, seed=seed, scale=scale, dtype=torch.float64)
    turns = torch.ones(units, dtype=torch.float64)
    turns[1::2] = -1.0
    machine.biases.data.copy_(field * SPIN.nearest(machine.patterns.detach()[:, 0]) * turns)
    return machine.requires_grad_(False)


def hole(visible=14, gain=1.1, seed=0):
    """One state of weight e^{gain · V log 2} beside a plain of 2^V states."""
    rng = stream(seed, "hole")
    machine = rbm(visible, 1, biases=True, seed=seed, scale=0.1, dtype=torch.float64)
    signs = 2.0 * torch.randint(2, (visible,), generator=rng).double() - 1.0
    machine.couplings.weights["0-1"].data[0, :, 0] = 3.0 * signs
    machine.biases.data[0, :visible] = 3.0 * signs
    machine.biases.data[0, visible] = 0.5 * gain * visible * math.log(2.0) - 3.0 * visible
    return machine.requires_grad_(False)


def holds(found, exact):
    """Whether all are within 5.3 standard errors, 2.7 times as far as the interval reaches, beyond which
    one of 10⁷ lies."""
    middle, half = 0.5 * (found.lower + found.upper), 0.5 * (found.upper - found.lower)
    return bool(((exact - middle).abs() <= 2.7 * half).all())


def test_biases_that_hold_the_spins_are_not_believed():
    """From the biases alone the interval was 97.485 to 97.515 for 112.859."""
    machine = random_field_mattis()
    exact = log_z(machine, method="exact").value
    assert float(exact) == pytest.approx(112.859, abs=1e-3)
    alone = Cooling(machine, bases.own_biases(machine))
    logs, _ = annealing.forward(alone, annealing.schedule(alone, stream(0)), 500, stream(1))
    one = annealing.LogMean.of(logs)
    assert float(one.value + 10 * one.error - exact) < -10
    for seed in range(3):
        found = log_z(machine, method="ais", seed=seed)
        assert holds(found, exact)
        assert float(found.upper - found.lower) < 0.5


@pytest.mark.parametrize(
    "seed", [2, 6, *(pytest.param(x, marks=pytest.mark.slow) for x in (0, 4, 8, 10))]
)
def test_machines_near_a_first_order_transition(seed):
    machine = random_field_mattis(20 + 4 * seed, 1.0 + 0.25 * seed, 0.9 + 0.03 * seed, seed)
    exact = log_z(machine, method="exact").value
    found = log_z(machine, method="ais", seed=seed)
    assert holds(found, exact)
    assert float(found.upper - found.lower) < 0.5


@pytest.mark.parametrize("coupling", [0.4, 0.7, 1.0, 1.3])
def test_layers_that_biases_pull_apart_while_couplings_hold_them_together(coupling):
    machine = rbm(8, 10, biases=True, seed=0, scale=0.1, dtype=torch.float64)
    machine.couplings.weights["0-1"].data.add_(coupling)
    machine.biases.data[:, :8], machine.biases.data[:, 8:] = 4.0, -4.0
    found = log_z(machine, method="ais", seed=0)
    assert holds(found, log_z(machine, method="exact").value)
    assert float(found.upper - found.lower) < 0.5


@pytest.mark.parametrize("gain", [0.8, 1.0, 1.2])
def test_a_hole_that_chains_never_find_is_found_by_descent(gain):
    machine = hole(gain=gain)
    exact = log_z(machine, method="exact").value
    paths, proven = bases.paths_to(machine, None, stream(0))
    assert bool((proven <= exact).all())
    assert list(paths) == ["free spins", "biases", "modes", "modes of all layers"]
    logs, _ = annealing.forward(paths["free spins"], [0.0, 0.5, 1.0], 500, stream(1))
    found = log_z(machine, method="ais", seed=0)
    assert holds(found, exact)
    plain = math.log(1.0 + math.exp(gain * 14 * math.log(2.0)) / 2**14)
    assert float(exact - annealing.LogMean.of(logs).value) > 0.5 * plain  # free spins see the plain alone
    assert "modes" in found.effort


def test_the_bound_beside_the_paths_is_that_of_the_best_mode():
    machine = rbm(12, 8, 3, seed=0, replicas=2)
    _, proven = bases.paths_to(machine, None, stream(0))
    means, bounds = bases.modes(machine, stream(0))
    assert torch.equal(proven, bounds[:, 0])
    assert bool((bounds[:, 0] > bounds[:, -1] + 0.1).all())
    assert means.shape == (2, bounds.shape[1], 20)


def test_chains_that_look_for_modes_cool_down_to_the_machine(monkeypatch):
    betas, plain = [], bases.run_sweeps

    def sweep(machine, spins, rng, beta, **more):
        betas.append(beta)
        return plain(machine, spins, rng, beta=beta, **more)

    monkeypatch.setattr(bases, "run_sweeps", sweep)
    bases._cooled(rbm(3, 2, seed=0), stream(0))
    assert betas == pytest.approx([(i + 1) / 40 for i in range(40)])


@pytest.mark.parametrize("biases", [True, False])
def test_data_lead_to_both_sides_where_nothing_else_does(biases):
    machine = rbm(6, 4, seed=0, biases=biases)
    if biases:
        machine.start_biases(torch.ones((3, 6)))
    paths, _ = bases.paths_to(machine, torch.ones((3, 6)), stream(0))
    assert list(paths) == ["free spins", *["biases"] * biases, "data", "modes"]
    assert len(paths["data"].bases) == (1 if biases else 2)


# -- mirror images ------------------------------------------------------------------------------------


def one_sided(machine, count=200):
    rng = stream(0, "rows")
    return 2.0 * (torch.rand((count, machine.visible), generator=rng) < 0.1).double() - 1.0


@pytest.mark.parametrize("machine", machines(2, biases=False))
def test_a_machine_without_biases_is_annealed_to_both_sides(machine):
    data = one_sided(machine)
    path = bases.path_to(machine, data)
    assert path.bases.shape == (2, machine.replicas, 1, machine.layers.columns)
    assert torch.equal(path.bases[0], -path.bases[1])
    exact = log_z(machine, method="exact").value
    found = log_z(machine, method="ais", data=data, seed=0)
    assert holds(found, exact)
    assert float((found.upper - found.lower).max()) < 0.3
    betas = annealing.schedule(path, stream(0))
    logs, _ = annealing.forward(path, betas, 2000, stream(1))
    forward = annealing.LogMean.of(logs)
    assert bool(((forward.value - exact).abs() < 6 * forward.error).all())  # 2 of 10⁹ are farther off
    assert float(forward.error.max()) < 0.05


def test_trained_on_one_side_the_likelihood_has_its_log_2():
    """With the marginals alone −24.54 to −24.50 for −25.20."""
    data = load("digits")
    machine = rbm(64, 12, seed=1)
    with pytest.warns(UserWarning, match="below independent columns"):
        for _ in train(
            machine, data.train, Persistent(100, 5), adam(3e-3), epochs=20, batch_size=50, seed=0
        ):
            pass
    exact = log_likelihood(machine, data.test, method="exact").value
    found = log_likelihood(machine, data.test, method="ais", seed=0)
    assert holds(found, exact)
    assert float(found.upper - found.lower) < 0.1
    mean = data.train.spins.double().mean(0)
    for sampler, steps in (
        (Annealing(100, data=data.train), 0),
        (ParallelTempering(6, data=data.train), 20),
    ):
        spins = sample(machine, 200, sampler=sampler, steps=steps, seed=0)[0, :, :64].double()
        up = float(((spins @ mean) > 0).double().mean())
        assert 0.3 < up < 0.7  # v and −v are equally likely


def test_samples_of_both_sides_are_those_of_the_machine():
    machine = rbm(4, 3, scale=0.9, seed=3, dtype=torch.float64).requires_grad_(False)
    _, exact = exact_distribution(machine)
    spins = sample(machine, 20_000, sampler=Annealing(50, data=one_sided(machine)), seed=0)
    powers = 2 ** torch.arange(machine.layers.columns - 1, -1, -1)
    numbers = ((spins[0] > 0).long() * powers).sum(1)
    assert chi_squared(numbers.bincount(minlength=2**7), exact[0]) > SMALLEST_P


@pytest.mark.parametrize("biases", [0.0, 0.01])
def test_weak_biases_leave_both_sides(biases):
    """Samplers from data see the side on which the data do not lie."""
    machine = rbm(20, 10, 1, scale=1.0, seed=0, biases=True)
    machine.biases.data.fill_(biases)
    assert bases.mirrored(machine) == (biases == 0.0)
    data = SPIN.nearest(machine.patterns.detach()[0, :, :20]).repeat(50, 1)
    for sampler, steps in ((Annealing(100, data=data), 0), (ParallelTempering(6, data=data), 20)):
        spins = sample(machine, 400, sampler=sampler, steps=steps, seed=0)
        other = float(((spins[0, :, :20] @ data[0]) < 0).double().mean())
        exact = 1.0 / (1.0 + math.exp(2.0 * biases * float(machine.patterns.detach().sum())))
        assert abs(other - exact) < 0.15  # six standard errors of 400 independent chains


def test_without_the_mirror_image_log_2_is_missing():
    machine = rbm(20, 10, 1, scale=1.0, seed=0)
    data = SPIN.nearest(machine.patterns.detach()[0, :, :20]).repeat(50, 1)
    path = Cooling(machine, bases.marginals(machine, data)[:1])
    logs, _ = annealing.forward(path, annealing.schedule(path, stream(0)), 500, stream(1))
    exact = log_z(machine, method="exact").value
    forward = annealing.LogMean.of(logs)
    assert abs(float(exact - forward.value) - math.log(2)) < 6 * float(forward.error) < 0.3


# -- modes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", machines(2) + machines(1, biases=False))
def test_modes_are_mean_field_solutions_and_their_bound_is_one(machine):
    means, bounds = bases.modes(machine, stream(0))
    assert means.shape[:2] == bounds.shape
    assert float(means.abs().max()) <= 1.0
    assert bool((bounds <= log_z(machine, method="exact").value[:, None] + 1e-9).all())
    assert bool((bounds.argmax(1) == 0).all())
    layers = machine.layers
    if not any(layers.self_coupled(i) for i in range(len(layers.sizes))):
        fields = [machine.field(means, i, means=True) for i in range(len(layers.sizes))]
        assert torch.allclose(torch.cat(fields, -1).tanh(), means, atol=0.05)


def test_all_minima_of_a_cold_machine_are_modes():
    machine = rbm(10, 40, 2, scale=1.0, seed=0, dtype=torch.float64).requires_grad_(False)
    means, _ = bases.modes(machine, stream(0))
    every = states(10, 0, 2**10).double()
    weights = machine.log_prob_unnormalised(every)[0]
    likely = every[weights > weights.max() - 3.0]
    found = {tuple(row) for row in SPIN.nearest(means[0, :, :10]).tolist()}
    found |= {tuple(-x for x in row) for row in found}
    assert {tuple(row) for row in likely.tolist()} <= found


# -- several paths ------------------------------------------------------------------------------------


def test_a_base_that_misses_a_mode_does_not_count():
    """Two walks of one machine, one of which never left a part of weight e^−3."""
    machine = rbm(3, 2, seed=0).requires_grad_(False)
    path = bases.path_to(machine)
    ends = machine.random(100, stream(0))
    noise = 0.1 * torch.randn((1, 100), generator=stream(1), dtype=torch.float64)
    whole = annealed.Walk(path, [0.0, 1.0], 5.0 + noise, ends)
    short = annealed.Walk(path, [0.0, 1.0], 2.0 + noise, -ends)
    walks = {"whole": whole, "short": short}
    sees = annealed._seeing(walks)
    assert {name: bool(x) for name, x in sees.items()} == {"whole": True, "short": False}
    drawn, apart = annealed._population(walks, sees, 100, stream(2))
    assert all(any(torch.equal(x, y) for y in ends[0]) for x in drawn[0])
    assert 30 < int(apart) < 100


def weighed(value, spread, count=100):
    """Weights that are 1 + spread and 1 − spread by turns: log (mean w) is `value`, and its error
    spread / √(count − 1)."""
    turns = torch.ones((1, count), dtype=torch.float64)
    turns[:, 1::2] = -1.0
    return value + torch.log1p(spread * turns)


@pytest.mark.parametrize("spreads", [(0.3, 0.6), (0.6, 0.3)])
@pytest.mark.parametrize("apart", [1.5, 2.5, -1.5, -2.5, 50.0, -50.0])
def test_directions_that_contradict_each_other_bring_their_own_errors(apart, spreads, monkeypatch):
    """`apart` is the distance of the two, in errors of their difference."""
    one, two = (spread / math.sqrt(99) for spread in spreads)
    forward, backward = 1.0, 1.0 + apart * math.hypot(one, two)
    logs, back = weighed(forward, spreads[0]), weighed(-backward, spreads[1])
    monkeypatch.setattr(annealing, "backward", lambda *given: back)
    walk = annealed.Walk(None, [0.0, 1.0], logs, None)
    settled = torch.ones((1, 100, 1))
    found = annealed._joined(walk, settled, None, lambda *words: stream(0), None, ChainShards())
    best = annealing.bennett(logs, back)
    ends = [float(best.value + side * WIDE * best.error) for side in (-1, 1)]
    wide = WIDE if abs(apart) > 1.96 else 0.0
    ends += [
        forward - wide * one,
        forward + wide * one,
        backward - wide * two,
        backward + wide * two,
    ]
    assert float(found.lower) == pytest.approx(min(ends), abs=1e-12)
    assert float(found.upper) == pytest.approx(max(ends), abs=1e-12)
    assert (float(found.forward), float(found.back)) == pytest.approx((forward, backward))
    few = annealed._joined(
        walk, settled, torch.tensor([4]), lambda *words: stream(0), None, ChainShards()
    )
    assert float(few.upper - few.lower) > 2 * WIDE / 4  # of four chains a quarter may miss


def test_the_ways_back_start_from_chains_that_have_settled(monkeypatch):
    """Whatever was drawn, here one state again and again, sweeps at the machine's own temperature
    have to bring it to the machine's distribution first."""
    machine = rbm(4, 3, scale=0.5, biases=True, seed=0, dtype=torch.float64).requires_grad_(False)
    machine.biases.data.fill_(0.2)
    one, starts, plain = torch.ones((1, 2000, 7), dtype=torch.float64), [], annealed._joined

    def joined(walk, settled, *given):
        starts.append((settled, given[0]))
        return plain(walk, settled, *given)

    monkeypatch.setattr(annealed, "_joined", joined)
    monkeypatch.setattr(annealed, "NARROW", math.inf)  # one round does
    with monkeypatch.context() as patch:
        patch.setattr(annealed, "_population", lambda *given: (one, torch.tensor([7])))
        settled = annealed.annealed(machine, 0, beta=1.5, chains=50, most=200).settled
    assert all(torch.equal(start, settled) and int(apart) == 7 for start, apart in starts)
    _, exact = exact_distribution(machine, 1.5)
    powers = 2 ** torch.arange(6, -1, -1)
    numbers = ((settled[0] > 0).long() * powers).sum(1)
    assert chi_squared(numbers.bincount(minlength=2**7), exact[0]) > SMALLEST_P
    starts.clear()
    settled = annealed.annealed(machine, 0, beta=1.5, samples=one, chains=50, most=200).settled
    assert torch.equal(settled, one)  # what is given is taken as it is
    assert all(torch.equal(start, one) and apart is None for start, apart in starts)


def test_a_walk_counts_until_its_errors_and_the_bests_are_spent():
    one, two = (spread / math.sqrt(99) for spread in (0.3, 0.6))
    for short, counts in ((0.9, True), (1.1, False)):
        gap = short * WIDE * (one + two)
        walks = {
            "high": annealed.Walk(None, [0.0, 1.0], weighed(2.0, 0.3), None),
            "low": annealed.Walk(None, [0.0, 1.0], weighed(2.0 - gap, 0.6), None),
        }
        sees = annealed._seeing(walks)
        assert (bool(sees["high"]), bool(sees["low"])) == (True, counts)


def test_the_population_has_from_each_walk_as_many_as_it_has_effective_ones():
    even = torch.zeros((2, 100), dtype=torch.float64)
    few = even.clone()
    few[:, 25:] = -torch.inf
    walks = {
        "even": annealed.Walk(None, [0.0, 1.0], even + 3.0, torch.ones(2, 100, 1)),
        "few": annealed.Walk(None, [0.0, 1.0], few - 3.0, -torch.ones(2, 100, 1)),
    }
    sees = {"even": torch.tensor([True, False]), "few": torch.tensor([True, True])}
    drawn, apart = annealed._population(walks, sees, 10_000, stream(0))
    assert float((drawn[0] > 0).double().mean()) == pytest.approx(0.8, abs=0.02)
    assert float(drawn[1].max()) == -1.0  # in the second replica the first walk does not count
    assert apart.tolist() == [125, 25]


def test_a_walk_without_an_error_sees_itself():
    """All weights of a machine without couplings are the same."""
    walk = annealed.Walk(None, [0.0, 1.0], torch.full((1, 4), 2.0, dtype=torch.float64), None)
    assert float(walk.mean.error) == 0.0
    assert bool(annealed._seeing({"free spins": walk})["free spins"])


def bounds_of(*rows):
    """One `Bounds` per row of (value, lower, upper)."""
    found = []
    for row in rows:
        value, lower, upper = (torch.tensor([x], dtype=torch.float64) for x in row)
        found.append(Bounds(value, lower, upper, value, value, value, value, "ais", ""))
    return found


def test_paths_that_contradict_each_other_are_spanned():
    def believed(proven, *rows):
        found = bounds_of(*rows)
        width = torch.stack([b.upper - b.lower for b in found])
        return annealed._believed(found, width, torch.tensor([proven], dtype=torch.float64))

    one = believed(-9.0, (1.0, 0.9, 1.1), (1.05, 0.5, 1.6))
    assert (float(one.lower), float(one.upper), one.note) == (0.9, 1.1, "")
    two = believed(-9.0, (1.0, 0.9, 1.1), (2.0, 1.5, 2.5))
    assert (float(two.value), float(two.lower), float(two.upper)) == (1.0, 0.9, 2.5)
    assert "disagree" in two.note
    near = believed(-9.0, (1.0, 0.9, 1.1), (1.2, 1.15, 1.36))
    assert (float(near.lower), float(near.upper), near.note) == (0.9, 1.36, "")  # still narrow
    below = believed(-9.0, (1.0, 0.9, 1.1), (0.0, -0.5, 0.5))
    assert (float(below.lower), float(below.upper)) == (-0.5, 1.1)
    three = believed(3.0, (1.0, 0.9, 1.1), (2.0, 0.5, 2.5))
    assert float(three.upper) == 3.0  # the proven bound lies above all
    assert "disagree" in three.note
    found = bounds_of((1.0, 0.9, 1.1), (9.0, 8.9, 9.4))  # that misses something here says nothing
    width = torch.tensor([[0.2], [torch.inf]], dtype=torch.float64)
    alone = annealed._believed(found, width, torch.tensor([-9.0], dtype=torch.float64))
    assert (float(alone.lower), float(alone.upper), alone.note) == (0.9, 1.1, "")


def test_longer_paths_where_the_interval_is_wide():
    walks = {
        name: annealed.Walk(None, [0.0] * (steps + 1), None, None)
        for name, steps in (("a", 10), ("b", 60))
    }
    width = torch.tensor([[0.4, 0.9, 2.0], [3.0, 0.8, 1.0]])
    names = list(walks)
    assert annealed._wanting(names, width, walks, 1000) == {"b"}
    assert annealed._wanting(names, width, walks, 100) == {"a"}  # b may not grow
    assert annealed._wanting(names, width, walks, 120) == {"b"}
    assert annealed._wanting(names, width, walks, 119) == {"a"}
    assert annealed._wanting(names, width, walks, 10) == set()
    assert annealed._wanting(names, width[:, :1], walks, 1000) == set()


def test_replicas_choose_for_themselves():
    """A frozen machine beside a free one: each has the interval that it would have alone."""
    cold, warm = random_field_mattis(20, 3.0, 1.2, 1), random_field_mattis(20, 0.2, 1.0, 2)
    both = stack([cold, warm])
    exact = log_z(both, method="exact").value
    found = log_z(both, method="ais", seed=0)
    assert bool(((found.value - exact).abs() < 0.1).all())
    assert float((found.upper - found.lower).max()) < 0.5


def test_temperatures_and_time_are_limited():
    machine = rbm(12, 40, 3, scale=2.0, seed=0).requires_grad_(False)
    paths, _ = bases.paths_to(machine, None, stream(0))
    found = annealed._schedules(paths, 40, lambda *words: stream(1, *words))
    assert list(found) == ["modes"]  # free spins are too far
    with pytest.raises(InputError, match="more than 20 temperatures"):
        annealed._schedules({"free spins": paths["free spins"]}, 40, lambda *words: stream(1, *words))
    with pytest.raises(TimeLimit, match="annealing log Z stopped at its limit"):
        log_z(machine, method="ais", seed=0, limit=1e-9)
    with pytest.raises(TimeLimit, match="log-likelihood"):
        log_likelihood(machine, torch.ones(3, 12), method="ais", seed=0, limit=1e-9)


def test_a_path_of_one_component_with_given_units_has_no_mirror():
    """Hidden sums hold the visible units: E(v, h) is not E(v, −h)."""
    machine = rbm(4, 3, scale=0.5, seed=0, dtype=torch.float64).requires_grad_(False)
    given = machine.with_visible(states(4, 0, 5))
    base = torch.zeros((1, 1, 5, 7), dtype=torch.float64)
    path = Cooling(machine, base, given=given, held=given != 0)
    logs, ends = annealing.forward(path, [0.0, 1.0], 5, stream(0))
    assert torch.equal(ends[..., :4], given[..., :4])
    # The hidden layer is summed, so that a step is exact at once.
    assert torch.allclose(logs, machine.log_prob_unnormalised(states(4, 0, 5)))


def test_the_floor_of_a_path_is_a_distribution():
    """Eq. (1) of paths.py: f_0 sums to one, over the free layers too."""
    machine = rbm(4, 3, biases=True, scale=0.5, seed=0, dtype=torch.float64).requires_grad_(False)
    path = bases.path_to(machine, one_sided(machine))
    seen = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    whole = torch.cat([seen, torch.ones(16, 3, dtype=torch.float64)], 1)[None]
    logs = path.weights(whole)(0.0)
    assert float(torch.logsumexp(logs, 1)) == pytest.approx(0.0, abs=1e-12)


def test_bases_differ_on_all_layers_where_none_is_summed():
    """Eq. (1) and (2) of paths.py over all states: the sum is 1 at the floor, Z at the end."""
    machine = rbm(4, 3, biases=True, scale=0.8, seed=0, dtype=torch.float64).requires_grad_(False)
    machine.biases.data.copy_(torch.linspace(-0.5, 0.7, 7))
    means = torch.tensor([[[0.9] * 7, [-0.5] * 4 + [0.8] * 3]], dtype=torch.float64)
    path = bases.path_from_modes(machine, means, torch.tensor([[2.0, 1.0]]), summing=False)
    assert path.bases[0, 0, 0, 4:].tolist() == pytest.approx([math.atanh(0.9)] * 3)
    log_f = path.weights(states(7, 0, 2**7).double()[None])
    assert float(torch.logsumexp(log_f(0.0), 1)) == pytest.approx(0.0, abs=1e-12)
    exact = log_z(machine, method="exact").value
    assert float(torch.logsumexp(log_f(1.0), 1)) == pytest.approx(float(exact), abs=1e-9)
    logs, _ = annealing.forward(path, annealing.schedule(path, stream(0)), 2000, stream(1))
    found = annealing.LogMean.of(logs)
    assert abs(float(found.value - exact)) < 5.3 * float(found.error) < 0.3


# -- modes that units of any layer open ---------------------------------------------------------------


def silent(layers, units, others, net, seed=0):
    """A dense machine, weakly coupled but for units each of which is silent except at one state of the
    others, which weighs e^net times as much as all states in which the units are silent."""
    rng = stream(seed, "silent")
    n = layers.columns
    matrix = 0.02 * torch.randn((n, n), generator=rng, dtype=torch.float64).triu(1)
    biases = torch.zeros(1, n, dtype=torch.float64)
    for unit in units:
        weights = 3.0 * (2.0 * torch.randint(2, (len(others),), generator=rng).double() - 1.0)
        matrix[others, unit] = weights * (others < unit)
        matrix[unit, others] = weights * (others > unit)
        biases[0, others] += weights
        biases[0, unit] = 0.5 * (net + len(others) * math.log(2.0)) - weights.abs().sum()
    matrix = matrix + matrix.mT
    where = layers.slices
    blocks = {(a, b): matrix[None, where[a], where[b]] for a, b in layers.edges}
    return Machine(Dense(layers, blocks), biases).requires_grad_(False)


HIDING = {  # the layers, the silent units and those whose states they name
    "above": (Layers((5, 24, 2), ((0, 1), (1, 2))), (29, 30), range(5, 29)),
    "two above": (Layers((4, 12, 14, 2), ((0, 1), (1, 2), (2, 3))), (30, 31), range(16, 30)),
    "visible": (Layers((3, 22), ((0, 1),)), (1, 2), range(3, 25)),
    "full": (Layers((16,), ((0, 0),)), (2, 7), [0, 1, *range(3, 7), *range(8, 16)]),
    "full, hidden": (Layers((12, 4), ((0, 0), (0, 1), (1, 1))), (13, 15), [*range(13), 14]),
}


@pytest.mark.parametrize("rounds", [0, bases.ROUNDS])
@pytest.mark.parametrize("name", HIDING)
def test_modes_that_units_of_any_layer_name_are_not_missed(name, rounds, monkeypatch):
    """Two holes, each of weight 3/7, beside a plain that no chain leaves for them; with one of them alone
    the biases would name it. Units name them already before any is turned over."""
    monkeypatch.setattr(bases, "ROUNDS", rounds)
    layers, units, others = HIDING[name]
    machine = silent(layers, units, torch.tensor(list(others)), math.log(3.0))
    exact = log_z(machine, method="exact").value
    means, proven = bases.modes(machine, stream(0))
    assert bool((proven <= exact[:, None] + 1e-9).all())
    open_ = means[0, :, list(units)] > 0.9  # (modes, 2)
    assert {(True, False), (False, True), (False, False)} <= {tuple(row) for row in open_.tolist()}
    for one in open_.unbind(1):
        share = torch.logsumexp(proven[0, one], 0) - exact
        assert float(share) == pytest.approx(math.log(3.0 / 7.0), abs=0.2)
    found = log_z(machine, method="ais", seed=0, chains=200)
    assert holds(found, exact)
    assert float(found.upper - found.lower) < 0.5


@pytest.mark.parametrize("named", [True, False])
def test_a_mode_that_two_units_open_together(named, monkeypatch):
    """Each names a state of half of the others and alone costs 8 nats; both together gain 1. Turned over
    in a solution that is known, as a pair, they open it by themselves."""
    if not named:
        nothing = torch.zeros((1, 1, 16), dtype=torch.float64)
        closed = torch.ones((1, 1, 16), dtype=torch.float64)
        closed[..., 14:] = -1.0
        monkeypatch.setattr(bases, "_states_of_units", lambda *given: (nothing, nothing.bool()))
        monkeypatch.setattr(bases, "_states_of_parameters", lambda *given: nothing[:, :0])
        monkeypatch.setattr(bases, "_cooled", lambda *given: closed)
    half, n, rng = 7, 16, stream(0, "together")
    matrix, biases = torch.zeros((n, n), dtype=torch.float64), torch.zeros(1, n, dtype=torch.float64)
    for unit, part in ((14, slice(0, half)), (15, slice(half, 2 * half))):
        weights = 3.0 * (2.0 * torch.randint(2, (half,), generator=rng).double() - 1.0)
        matrix[part, unit] = weights
        biases[0, part] = weights
        biases[0, unit] = 0.5 * (half * math.log(2.0) - 8.0) - 3.0 * half
    help_ = 0.25 * (1.0 + 2 * 8.0)
    matrix[14, 15] = help_
    biases[0, 14:] += help_
    machine = Machine(Dense(Layers((n,), ((0, 0),)), {(0, 0): matrix[None]}), biases)
    machine.requires_grad_(False)
    means, _ = bases.modes(machine, stream(0))
    assert bool((means[0, :, 14:] > 0.9).all(1).any())
    assert holds(log_z(machine, method="ais", seed=0), log_z(machine, method="exact").value)


def test_patterns_name_states_of_all_layers():
    """Two patterns, each strong in one unit of the last layer."""
    layers, n = Layers((4, 20, 2), ((0, 1), (1, 2))), 26
    rng = stream(0, "patterns")
    signs = 2.0 * torch.randint(2, (2, 20), generator=rng).double() - 1.0
    xi = 0.05 * torch.randn((2, n), generator=rng, dtype=torch.float64)
    strong = (9.0 * 2) ** 0.25
    xi[:, 4:24], xi[:, 24:] = strong * signs, strong * torch.eye(2, dtype=torch.float64)
    biases = torch.zeros(1, n, dtype=torch.float64)
    biases[0, 4:24] = 3.0 * signs.sum(0)
    biases[0, 24:] = 0.5 * 20 * math.log(2.0) - 60.0
    machine = Machine(Patterns(layers, xi[None]), biases).requires_grad_(False)
    means, _ = bases.modes(machine, stream(0))
    for unit in (24, 25):
        assert bool((means[0, :, unit] > 0.9).any())
    assert holds(log_z(machine, method="ais", seed=0), log_z(machine, method="exact").value)


def test_the_signs_of_biases_and_of_couplings_are_states_to_start_from():
    machine = rbm(6, 3, biases=True, scale=0.5, seed=0).requires_grad_(False)
    machine.biases.copy_(torch.randn((1, 9), generator=stream(0)))
    named = bases._states_of_parameters(machine)[0]
    assert named.shape == (8, 9)  # three hidden units, the biases, and the negatives of all
    assert torch.equal(named[3], machine.biases[0].sign())
    assert torch.equal(named[:3, :6], machine.couplings.matrix(0, 1)[0].mT.sign())
    assert torch.equal(named[4:], -named[:4])


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_temperatures_other_than_the_machines_own(beta):
    machine = rbm(10, 6, biases=True, scale=0.4, seed=1).requires_grad_(False)
    found = log_z(machine, method="ais", beta=beta, seed=0, chains=200)
    assert holds(found, log_z(machine, method="exact", beta=beta).value)


def test_what_is_known_stays_as_it_is_where_units_open_nothing_else():
    """Solutions that are known come first, also where later ones lie higher by rounding."""
    known = torch.tensor([[[0.9, 0.9, 0.9], [-0.9, -0.9, -0.9]]], dtype=torch.float64)
    again = known + 0.01
    both = torch.cat([known, again], 1)
    bounds = torch.tensor([[5.0, 4.0, 5.1, 4.1]], dtype=torch.float64)
    means, kept = bases._best(both, bounds, 2.0, known=2)
    assert torch.equal(means, known)
    assert kept.tolist() == [[5.0, 4.0]]
    means, kept = bases._best(both, bounds, 2.0)
    assert torch.equal(means, again)
    far = torch.tensor([[5.0, 4.0, 5.0 + bases.FAR + 1.0, 0.0]], dtype=torch.float64)
    apart = both.clone()
    apart[0, 2] = torch.tensor([0.9, -0.9, 0.9])
    means, kept = bases._best(apart, far, 2.0, known=2)  # a better one: those far below it do not count
    assert kept.tolist() == [[22.0]]
    assert torch.equal(means[0, 0], apart[0, 2])


def test_units_that_are_turned_stay_until_the_others_have_followed(monkeypatch):
    machine = rbm(4, 3, seed=0, scale=0.2, dtype=torch.float64)
    source = torch.tensor([[[0.5, -0.5, 0.2, -0.9, 0.8, -0.1, 0.3]]], dtype=torch.float64)
    units = torch.tensor([[3, 0, 4]])
    monkeypatch.setattr(bases, "FLIPPED_PAIRS", 2)
    found = bases._after_flips(machine, source, units)
    assert found.shape == (1, 4, 7)  # three alone and a pair
    assert found[0, 0, 3] == 1.0
    assert found[0, 1, 0] == -1.0
    assert found[0, 2, 4] == -1.0
    fields = machine.field(found, 1, means=True)[0, :2]
    assert torch.allclose(fields.tanh(), found[0, :2, 4:], atol=1e-3)
    change = (found[0, :3] - source[0]).abs().sum(1)
    one, two = units[0, change.argsort(descending=True)[:2]].tolist()
    assert [found[0, 3, i] for i in (one, two)] == [-source[0, 0, i].sign() for i in (one, two)]


def test_solutions_differ_by_a_spin_and_are_used_once():
    """By a spin in all: three means that differ by one each do, one spin or half of two does not."""
    zero, one, two, three = torch.zeros(4), torch.tensor([2.0, 0, 0, 0]), torch.eye(4)[0], torch.ones(4)
    three = three - torch.eye(4)[3]
    rows = torch.stack([zero, one, two, three]).double()
    assert bases._distinct(rows, 2.0) == [0, 3]
    means = torch.stack([rows, rows])
    used = torch.stack([rows[:1], rows[3:]])
    found = bases._unused(means, used, 2.0)
    assert torch.equal(found[0], rows[[3, 3]])  # the first again where there are fewer
    assert torch.equal(found[1], rows[[0, 1]])
    assert bases._unused(means, means, 2.0).shape == (2, 0, 4)


def test_a_unit_names_states_of_all_layers_at_either_value():
    layers = Layers((4, 3, 2), ((0, 1), (1, 2)))
    machine = silent(layers, (8,), torch.arange(4, 7), 0.0)
    spins, held = bases._states_of_units(machine, torch.arange(9)[None])
    assert spins.shape == held.shape == (1, 18, 9)
    # The others of a unit's own layer are left to mean field: a unit of 4, 3 or 2 names 5, 6 or 7 more.
    assert spins[0].abs().sum(1).tolist() == ([6.0] * 4 + [7.0] * 3 + [8.0] * 2) * 2
    assert [spins[0, i, i % 9].item() for i in range(18)] == [1.0] * 9 + [-1.0] * 9
    assert held[0].int().argmax(1).tolist() == [*range(9)] * 2
    weights = machine.couplings.matrix(1, 2)[0, :, 1].detach()
    assert torch.equal(spins[0, 8, 4:7], weights.sign())
    first = machine.couplings.matrix(0, 1)[0].detach() @ weights.sign()
    assert torch.equal(spins[0, 8, :4], first.sign())
    assert torch.equal(spins[0, 17], -spins[0, 8])


def test_one_path_sums_layers_and_one_does_not():
    layers, units, others = HIDING["above"]
    machine = silent(layers, units, torch.tensor(list(others)), math.log(3.0))
    paths, _ = bases.paths_to(machine, None, stream(0))
    assert (paths["modes"].free, paths["modes of all layers"].free) == ((1,), ())
    assert float(paths["modes"].bases[..., 5:29].abs().max()) == 0.0
    assert float(paths["modes of all layers"].bases[..., 5:29].abs().max()) == bases.STRONGEST


def test_the_strongest_units_of_each_layer():
    machine = rbm(60, 3, seed=0, scale=0.2)
    sizes = machine.couplings.matrix(0, 1).detach().abs()[0]
    visible, hidden = (sizes.sum(x).argsort(descending=True).tolist() for x in (1, 0))
    for most in (2, 40, 100):
        units = bases._strongly_coupled(machine, most)
        assert units[0].tolist() == [*visible[:most], *(60 + unit for unit in hidden[:most])]


def test_the_weakest_of_sixty_units_names_its_mode():
    machine, _ = weak_units(11)
    machine.requires_grad_(False)
    assert machine.layers.sizes[-1] > bases.FLIPPED
    means, _ = bases.modes(machine, stream(0))
    assert bool((means[0, :, -1] > 0.9).any())
    assert holds(log_z(machine, method="ais", seed=0), log_z(machine, method="exact").value)


def test_states_of_the_units_with_the_largest_couplings():
    columns = 0.1 * torch.randn((2, 250, 3), generator=stream(0))
    columns[0, 240], columns[1, 7] = 9.0, -9.0
    kept = bases._strongest(columns)
    assert kept.shape == (2, bases.UNIT_STATES, 3)
    assert torch.equal(kept[:, 0], torch.stack([columns[0, 240], columns[1, 7]]))
    for rows, all_rows in zip(kept, columns, strict=True):  # the largest of each replica
        least = all_rows.norm(dim=1).sort(descending=True).values[bases.UNIT_STATES - 1]
        assert bool((rows.norm(dim=1) >= least).all())
    assert torch.equal(bases._strongest(columns[:, :200]), columns[:, :200])


# -- few effective chains -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [40, 100])
def test_an_interval_that_few_chains_carry_is_wide(count, monkeypatch):
    few = min(30.0, 0.3 * count)
    logs = torch.zeros((1, count), dtype=torch.float64)
    logs[:, 0] = 4.0  # one chain carries half of it
    back = torch.zeros((1, count), dtype=torch.float64)
    monkeypatch.setattr(annealing, "backward", lambda *given: back)
    walk = annealed.Walk(None, [0.0, 1.0], logs, None)
    settled = torch.ones((1, count, 1))
    found = annealed._joined(walk, settled, None, lambda *words: stream(0), None, ChainShards())
    assert float(found.ess) < few
    half = 0.25 * few / float(found.ess)
    assert half > 0.25
    assert float(found.lower) <= float(found.value) - half
    assert float(found.upper) >= float(found.value) + half


def test_few_effective_chains_are_noted():
    machine = rbm(10, 8, 3, scale=1.5, biases=True, seed=0).requires_grad_(False)
    few = log_z(machine, method="ais", seed=0, chains=20)
    assert "effective chains carry the estimate" in few.note
    assert log_z(machine, method="ais", seed=0).note == ""


def test_the_replica_with_the_fewest_effective_chains_is_noted():
    zero = torch.zeros(2, dtype=torch.float64)
    for ess in ([100.0, 8.0], [8.0, 100.0]):
        few = Bounds(zero, zero, zero, zero, zero, torch.tensor(ess), zero, "ais", "")
        assert annealed._few(few).startswith("only 8 effective chains")
