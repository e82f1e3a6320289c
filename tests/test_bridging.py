"""Bridges between machines, Bennett's ratio, and log Z along a training."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from conftest import machines
from rapidbm.data.catalogue import load
from rapidbm.errors import InputError
from rapidbm.estimates import WIDE, Bounds
from rapidbm.likelihood import bridging
from rapidbm.likelihood.bridging import log_z_along
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import Machine, scaled
from rapidbm.machines.patterns import Patterns
from rapidbm.random import stream
from rapidbm.sampling import annealing, paths
from rapidbm.sampling.paths import Crossing, mixed
from rapidbm.testing import SMALLEST_P, chi_squared, exact_distribution
from rapidbm.training.negative import Exact
from rapidbm.training.optimisers import adam
from rapidbm.training.train import train

EVERY = machines(2) + machines(1, biases=False)


def other(machine, seed=0, step=0.4):
    """A machine of the same shape elsewhere."""
    made = scaled(machine, 1.0)
    rng = stream(seed)
    for parameter in made.parameters():
        noise = torch.randn(parameter.shape, generator=rng, dtype=parameter.dtype)
        parameter.data.add_(step * noise)
    return made


@pytest.fixture
def inexact(monkeypatch):
    """Anchors are annealed, however small the machine."""
    monkeypatch.setattr(bridging, "can_be_exact", lambda *a: False)


def held(found, exact):
    """For every machine and replica, whether the interval holds the exact value."""
    return torch.stack(
        [
            (x.interval[0] <= value) & (value <= x.interval[1])
            for x, value in zip(found, exact, strict=True)
        ]
    )


def all_near(found, exact):
    """Whether all are within 5.5 standard errors, beyond which 4 of 10⁸ lie."""
    for x, value in zip(found, exact, strict=True):
        low, high = x.interval
        more = (5.5 / 1.96 - 1) / 2 * (high - low)
        if not bool(((low - more <= value) & (value <= high + more)).all()):
            return False
    return True


def exact_values(chain):
    return [log_z(machine, method="exact").lower for machine in chain]


# -- eq. (4) of paths.py -----------------------------------------------------------------------------


@pytest.mark.parametrize("machine", EVERY)
def test_energies_mix(machine):
    there = other(machine)
    spins = machine.random(20, stream(1))
    for x in (0.0, 0.3, 1.0):
        wanted = (1 - x) * machine.energy(spins) + x * there.energy(spins)
        between = mixed(machine, there, x)
        assert torch.allclose(between.energy(spins), wanted, atol=1e-12)
        for layer in range(len(machine.layers.sizes)):
            field = (1 - x) * machine.field(spins, layer) + x * there.field(spins, layer)
            assert torch.allclose(between.field(spins, layer), field, atol=1e-12)
        assert (between.biases is None) == (machine.biases is None)


@pytest.mark.parametrize("machine", EVERY)
def test_f_is_the_sum_over_the_free_layers(machine):
    there = other(machine)
    every, _ = exact_distribution(machine)
    layers = machine.layers
    free = {i for layer in layers.inferred for i in range(layers.columns)[layers.slices[layer]]}
    kept = [i for i in range(layers.columns) if i not in free]
    whole = every[None].expand(machine.replicas, -1, -1)
    log_f = Crossing(machine, there, whole).weights(whole)
    for x in (0.0, 0.35, 1.0):
        minus = -((1 - x) * machine.energy(every) + x * there.energy(every)).detach()
        found = log_f(x).detach()
        assert found.dtype == torch.float64
        for row in (0, 5, 17):
            same = (every[:, kept] == every[row, kept]).all(1)
            assert torch.allclose(found[:, row], torch.logsumexp(minus[:, same], 1), atol=1e-12)


def move_p_values(machine, x=0.6, chains=20_000):
    there = other(machine)
    every, _ = exact_distribution(machine)
    minus = -((1 - x) * machine.energy(every) + x * there.energy(every)).detach()
    p = torch.softmax(minus, 1)
    rng = stream(0)
    spins = every[torch.multinomial(p, chains, True, generator=rng)]
    path = Crossing(machine, there, spins)
    for _ in range(2):
        spins = path.move(spins, rng, x)
    powers = 2 ** torch.arange(spins.shape[2] - 1, -1, -1)
    numbers = ((spins > 0).long() * powers).sum(2)
    return [chi_squared(numbers[e].bincount(minlength=len(every)), p[e]) for e in range(machine.replicas)]


@pytest.mark.parametrize("machine", EVERY)
def test_a_move_leaves_its_distribution_in_place(machine):
    assert min(move_p_values(machine)) > SMALLEST_P


@pytest.mark.parametrize("machine", machines(2))
def test_a_wrong_mixture_shows(machine, monkeypatch):
    monkeypatch.setattr(paths, "mixed", lambda a, b, x: mixed(a, b, 0.8 * x))
    assert min(move_p_values(machine)) < SMALLEST_P


def test_a_crossing_starts_from_its_chains():
    machine = rbm(4, 3, seed=0)
    first = machine.random(3, stream(0))
    path = Crossing(machine, other(machine), first)
    assert torch.equal(path.start(5, stream(0)), first[:, [0, 1, 2, 0, 1]])
    assert path.end == 1.0


# -- eq. (2) of annealing.py ---------------------------------------------------------------------------

RATIO = 1.3


def gaussian(replicas, forward, back, spread, seed=0):
    """Gaussian log w that obey Crooks' relation, so that log Z / Z_0 is exactly `RATIO`."""
    rng = stream(seed)
    drift = spread**2 / 2

    def normal(count):
        return torch.randn((replicas, count), generator=rng, dtype=torch.float64)

    return (
        RATIO - drift + spread * normal(forward),
        -RATIO - drift + spread * normal(back),
    )


def least_error(forward, back, spread):
    """Bennett 1976: 1/σ² + … from the overlap of the two densities of log w, by quadrature."""
    x = torch.linspace(-40, 40, 200_001, dtype=torch.float64)

    def density(mean):
        exponent = -((x - mean) ** 2) / (2 * spread**2)
        return exponent.exp() / (spread * math.sqrt(2 * math.pi))

    one, two = forward * density(-(spread**2) / 2), back * density(spread**2 / 2)
    overlap = torch.trapezoid(one * two / (one + two).clamp(min=1e-300), x)
    return math.sqrt(1 / float(overlap) - 1 / forward - 1 / back)


@pytest.mark.parametrize(
    ("forward", "back", "spread"),
    [(300, 300, 1.0), (300, 300, 3.0), (1000, 100, 1.0), (60, 900, 2.0)],
)
def test_bennett_has_the_known_value_and_error(forward, back, spread):
    """1000 repetitions: no bias, the least possible error, and an error bar that says so."""
    found = annealing.bennett(*gaussian(1000, forward, back, spread))
    wanted = least_error(forward, back, spread)
    off = found.value - RATIO
    # Limits of 5.2 standard errors, 2e-7 each.
    assert abs(float(off.mean())) < 5.2 * wanted / math.sqrt(1000) + 0.1 * wanted**2
    assert abs(float(off.std()) / wanted - 1) < 5.2 / math.sqrt(2000)
    assert abs(float(found.error.mean()) / wanted - 1) < 0.08
    inside = (off.abs() < 1.96 * found.error).double().mean()
    assert abs(float(inside) - 0.95) < 5.2 * math.sqrt(0.05 * 0.95 / 1000)
    # Better than either direction alone.
    works = gaussian(1000, forward, back, spread)
    for one, sign in zip(works, (1, -1), strict=True):
        assert float(off.std()) < float((sign * annealing.LogMean.of(one).value - RATIO).std())


def test_bennett_ignores_no_count():
    """The numbers of chains enter as log(n / m); without them the value is off."""
    forward, back = gaussian(500, 1000, 25, 2.0)
    right = annealing.bennett(forward, back).value
    repeated = annealing.bennett(forward, back.repeat(1, 40)).value  # forty times as sure, wrongly
    assert abs(float((right - RATIO).std())) < 0.9 * abs(float((repeated - RATIO).std()))


def test_bennett_solves_its_equation_where_the_two_ways_hardly_meet():
    forward = torch.tensor([[2.0, 2.5]], dtype=torch.float64)
    back = -torch.tensor([[0.0, 0.1, 0.2, 2.0]], dtype=torch.float64)
    c, mirrored = annealing.bennett(forward, back).value, annealing.bennett(back, forward).value
    assert torch.allclose(mirrored, -c, atol=1e-12)
    ratio = math.log(2 / 4)
    there, again = (forward - c - ratio).sigmoid().sum(), (back + c + ratio).sigmoid().sum()
    assert torch.allclose(there, again, atol=1e-12)


@pytest.mark.parametrize(
    ("forward", "back"),
    [
        ([0.0] * 4, [1.0, -20.0, -20.0, -20.0]),
        ([1.0, -20.0, -20.0, -20.0], [0.0] * 4),
        ([0.0] * 4, [-1.0, 20.0, 20.0, 20.0]),
    ],
)
def test_bennett_looks_for_its_root_as_far_as_any_weight_reaches(forward, back):
    """The root lies beyond all weights of one way, and among those of the other."""
    forward, back = (torch.tensor([x], dtype=torch.float64) for x in (forward, back))
    c = float(annealing.bennett(forward, back).value)
    assert float(torch.sigmoid(forward - c).sum()) == pytest.approx(float(torch.sigmoid(back + c).sum()))


def test_bennett_of_equal_works_is_exact():
    logs = torch.full((2, 10), 0.7, dtype=torch.float64)
    found = annealing.bennett(logs, -logs[:, :4])
    assert torch.allclose(found.value, logs[:, 0])
    # Four chains may all have missed a quarter of the states.
    assert torch.allclose(found.error, torch.full((2,), 0.25, dtype=torch.float64))
    assert torch.allclose(found.ess, torch.full((2,), 4.0, dtype=torch.float64))


def test_bennett_tells_the_worse_of_both_directions():
    even = torch.zeros((1, 4), dtype=torch.float64)
    heavy = torch.tensor([[0.0, 0.0, 0.0, math.log(3.0)]], dtype=torch.float64)
    for one, other in ((even, heavy), (heavy, even)):
        found = annealing.bennett(one, other)
        assert float(found.largest) == pytest.approx(0.5)
        assert float(found.ess) == pytest.approx(36 / 12)


# -- along a training ---------------------------------------------------------------------------------


def training(machine, epochs=6, rate=0.05):
    """Checkpoints of a short training on bars and stripes of 3 × 3."""
    chain = [scaled(machine, 1.0)]
    data = load("bas3").train
    for _ in train(machine, data, Exact(), adam(rate), epochs=epochs, batch_size=2, seed=0):
        chain.append(scaled(machine, 1.0))
    return chain


TRAINED = {
    "rbm-dense": lambda e: rbm(9, 6, replicas=e, biases=True, scale=0.1, seed=0),
    "rbm-patterns": lambda e: rbm(9, 6, 3, replicas=e, scale=0.5, seed=0),
    "dbm-dense": lambda e: dbm(9, (5, 3), replicas=e, scale=0.2, seed=0),
    "dbm-patterns": lambda e: dbm(9, (5, 3), 3, replicas=e, biases=True, scale=0.5, seed=0),
    "bm-dense": lambda e: bm(9, 2, replicas=e, biases=True, scale=0.1, seed=0),
    "bm-patterns": lambda e: bm(9, 2, 3, replicas=e, scale=0.4, seed=0),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.usefixtures("inexact")
def test_along_trainings(name):
    """Of the 95 % intervals of 20 replicas 8 may miss; more do in 2 of 10⁷ tests, even where those of
    all checkpoints go together. None is off by more than 5.5 standard errors."""
    chain = training(TRAINED[name](20))
    exact = exact_values(chain)
    assert float((exact[-1] - exact[0]).abs().median()) > 0.4  # there is something to bridge
    found = log_z_along(chain, seed=0, chains=200)
    assert len(found) == len(chain)
    assert [x.method for x in found] == ["ais", *["bridged"] * (len(chain) - 2), "ais"]
    assert float(held(found, exact).double().mean()) >= 12 / 20
    assert all_near(found, exact)
    for x, value in zip(found, exact, strict=True):
        assert float((x.lower - value).abs().max()) < 0.5
        assert float((x.upper - value).abs().max()) < 0.5
        assert float((x.interval[1] - x.interval[0]).max()) < 0.5
        assert float(x.ess.min()) > bridging.ENOUGH * 200


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_bennett_knows_how_many_chains_are_apart():
    """Back from copies of few chains: the copies add no certainty."""
    forward, back = gaussian(500, 200, 20, 1.5)
    apart = torch.full((500,), 20)
    copied = annealing.bennett(forward, back.repeat(1, 10), apart)
    spread = float((copied.value - RATIO).std())
    assert 0.8 < float(copied.error.mean()) / spread < 1.25
    assert float(annealing.bennett(forward, back.repeat(1, 10)).error.mean()) < 0.7 * spread


def test_between_two_anchors_by_hand():
    """From 1 ± 0.3 over 2 ± 0.4 it is 3 ± 0.5, from 7 ± 0.6 back over 3 ± 0.8 it is 4 ± 1."""

    def anchor(value, error):
        value, width = numbers(value), WIDE * numbers(error)
        ends = (value - width, value + width)
        return Bounds(value, *ends, value - 0.1, value + 0.2, value, value, "ais", "")

    def bridge(value, error):
        def mean(x):
            return annealing.LogMean(numbers(x), numbers(error), numbers(10.0 * value), numbers(0.1))

        ways, none = (mean(value - 0.01), mean(-value - 0.02), mean(value)), numbers(0.0)
        return bridging.Bridge(*ways, value, none == 0, none[:, None], none, 0)

    anchors, bridges = {0: anchor(1.0, 0.3), 2: anchor(7.0, 0.6)}, [bridge(2, 0.4), bridge(3, 0.8)]
    found = bridging._between(anchors, bridges, 1)
    value, error = (3 / 0.25 + 4 / 1) / (1 / 0.25 + 1), (1 / 0.25 + 1) ** -0.5
    assert [float(x) for x in found.interval] == pytest.approx(
        [value - WIDE * error, value + WIDE * error]
    )
    assert float(found.forward) == pytest.approx(1 - 0.1 + 1.99)
    assert float(found.back) == pytest.approx(1 + 0.2 + 2.02)
    assert float(found.ess) == 20.0  # of the bridge to it
    assert found.effort == "2 steps from the checkpoint before"
    # 1 + 2 + 3 = 6 and 7 differ by less than 3.5 of 1.118; 10 is too far.
    assert bridging._doubtful(anchors, bridges) is None
    assert bridging._doubtful(anchors | {2: anchor(10.0, 0.6)}, bridges) == 1
    far = {0: anchor(1.0, 0.3), 6: anchor(40.0, 0.6)}
    assert bridging._doubtful(far, bridges * 3) == 3  # the middle
    assert bridging._doubtful({0: far[0], 1: far[6]}, bridges[:1]) is None  # nothing lies between
    for i, known in anchors.items():  # what either anchor has to say
        told = anchors | {i: replace(known, note="doubt")}
        assert bridging._between(told, bridges, 1).note == "doubt"


def test_exact_anchors_are_used(monkeypatch):
    chain = training(TRAINED["rbm-dense"](3))
    ends = {id(chain[0]), id(chain[-1])}
    monkeypatch.setattr(bridging, "can_be_exact", lambda machine, _: id(machine) in ends)
    found = log_z_along(chain, seed=0, chains=200)
    exact = exact_values(chain)
    assert [x.method for x in found] == ["exact", *["bridged"] * (len(chain) - 2), "exact"]
    for i in (0, -1):
        assert torch.equal(found[i].lower, exact[i])
    for x in found:
        assert float((x.interval[1] - x.interval[0]).max()) < 0.25
    assert all_near(found, exact)


@pytest.mark.usefixtures("inexact")
def test_a_wrong_weight_shows(monkeypatch):
    chain = training(TRAINED["bm-patterns"](20), epochs=3)
    exact = exact_values(chain)
    plain = Crossing.weights

    def wrong(self, spins):
        log_f = plain(self, spins)
        return lambda at: log_f(0.5 * at)

    monkeypatch.setattr(Crossing, "weights", wrong)
    monkeypatch.setattr(bridging, "_doubtful", lambda *a: None)
    found = log_z_along(chain, seed=0, chains=200)
    assert float(held(found[1:-1], exact[1:-1]).double().mean()) < 0.5
    assert not all_near(found, exact)


def two_modes(depths):
    """One pattern stays as deep as it is and is preferred at first; the other deepens step by step."""
    first = rbm(12, 12, 2, seed=5, dtype=torch.float64)
    xi = first.patterns.detach()
    return [
        Machine(
            Patterns(first.layers, xi * torch.tensor([0.75, depth], dtype=torch.float64)[:, None]),
            0.1 * xi[:, 0],
        )
        for depth in depths
    ]


@pytest.mark.parametrize("depths", [(0.5, 0.7, 0.76, 0.79), (0.6, 0.75, 0.8, 0.85, 0.9)])
@pytest.mark.usefixtures("inexact")
def test_a_mode_that_the_bridges_miss_is_doubted(depths, monkeypatch):
    """The chains stay in the mode that they came from; the anchor at the end knows better."""
    chain = two_modes(depths)
    exact = exact_values(chain)
    plain, doubts = bridging._doubtful, []

    def doubtful(*given):
        doubts.append(plain(*given))
        return doubts[-1]

    monkeypatch.setattr(bridging, "_doubtful", doubtful)
    found = log_z_along(chain, seed=0, chains=300)
    assert doubts[0] is not None
    assert doubts[-1] is None
    assert any(x.method == "ais" for x in found[1:-1])
    assert all_near(found, exact)
    assert max(float((x.interval[1] - x.interval[0]).max()) for x in found) < 0.4
    # Without the doubt the bridges would be wrong, and sure of themselves.
    monkeypatch.setattr(bridging, "_doubtful", lambda *a: None)
    monkeypatch.setattr(bridging, "ENOUGH", 0.0)  # every bridge holds
    blind = log_z_along(chain, seed=0, chains=150)
    assert not all_near(blind, exact)


@pytest.mark.usefixtures("inexact")
def test_where_a_bridge_fails_both_ends_are_anchored(monkeypatch):
    monkeypatch.setattr(bridging, "LONGEST", 8)
    near = rbm(10, 10, 2, replicas=2, scale=0.6, seed=0)
    far = rbm(10, 10, 2, replicas=2, scale=1.0, seed=1)
    chain = [
        *(scaled(near, b) for b in (0.94, 0.97, 1.0)),
        *(scaled(far, b) for b in (1.0, 1.02, 1.04)),
    ]
    plain, made = bridging.bridge, []

    def bridge(*given):
        made.append(plain(*given)[0])
        return plain(*given)

    monkeypatch.setattr(bridging, "bridge", bridge)
    found = log_z_along(chain, seed=0, chains=200)
    assert [x.holds for x in made] == [True, True, False, True, True]
    assert all(x.steps <= 2 * 8 for x in made)
    assert [x.method for x in found] == ["ais", "bridged", "ais", "ais", "bridged", "ais"]
    assert all_near(found, exact_values(chain))


def test_a_bridge_that_is_too_long_fails_and_does_not_raise():
    """Patterns that have nothing in common: thousands of steps would be needed."""
    here, there = (rbm(250, 250, 2, seed=seed) for seed in (0, 1))
    start = here.patterns.detach().repeat(1, 10, 1)
    bridge, arrived = bridging.bridge(here, there, start, partial(stream, 0), bridging.LONGEST)
    assert not bridge.holds
    assert arrived.shape == start.shape


def test_a_bridge_goes_back_from_chains_that_have_settled_on_the_other_side(monkeypatch):
    """Whatever was drawn, here one state again and again, has to come to rest there first."""
    here = rbm(4, 3, scale=0.3, biases=True, seed=0, dtype=torch.float64).requires_grad_(False)
    there = other(here, step=0.3).requires_grad_(False)
    start = torch.ones((1, 2000, 7), dtype=torch.float64)
    seen, back, joined = [], annealing.backward, annealing.bennett
    monkeypatch.setattr(annealing, "resample", lambda *given: (start, torch.tensor([7])))
    monkeypatch.setattr(annealing, "backward", lambda *x: (seen.append(x[2]), back(*x))[1])
    monkeypatch.setattr(annealing, "bennett", lambda *x: (seen.extend(x[2:]), joined(*x))[1])
    _, arrived = bridging.bridge(here, there, start, partial(stream, 0), bridging.LONGEST)
    assert torch.equal(seen[0], arrived)
    assert int(seen[1]) == 7  # of those that were drawn so many are apart
    _, exact = exact_distribution(there)
    numbers = ((arrived[0] > 0).long() * 2 ** torch.arange(6, -1, -1)).sum(1)
    assert chi_squared(numbers.bincount(minlength=2**7), exact[0]) > SMALLEST_P


@pytest.mark.usefixtures("inexact")
def test_one_machine_and_two():
    machine = rbm(6, 5, replicas=2, scale=0.4, seed=0)
    alone = log_z_along([machine], seed=0, chains=100)
    assert len(alone) == 1
    assert alone[0].method == "ais"
    assert all_near(alone, exact_values([machine]))
    both = log_z_along([machine, machine], seed=0, chains=100)
    assert [x.method for x in both] == ["ais", "ais"]


def test_where_all_can_be_exact_all_are():
    chain = training(TRAINED["rbm-dense"](2))
    found = log_z_along(chain, seed=0, chains=200)
    assert [x.method for x in found] == ["exact"] * len(chain)
    for x, value in zip(found, exact_values(chain), strict=True):
        assert torch.equal(x.lower, value)


@pytest.mark.usefixtures("inexact")
def test_machines_that_do_not_change_cost_one_step():
    machine = rbm(6, 5, replicas=2, scale=0.4, seed=0)
    found = log_z_along([machine] * 4, seed=0, chains=50)
    for x in found[1:3]:
        assert torch.allclose(x.value, found[0].value, atol=0.1)
        assert x.effort.startswith("1 steps")


@pytest.mark.usefixtures("inexact")
def test_the_same_seed_gives_the_same_bits():
    chain = [rbm(5, 4, replicas=2, scale=s, seed=0) for s in (0.2, 0.3, 0.4)]
    before = [[p.detach().clone() for p in machine.parameters()] for machine in chain]
    seen = []

    def track(numbers):
        seen.extend(numbers)
        return iter(numbers)

    runs = [
        log_z_along(chain, seed=3, chains=50, track=track),
        log_z_along(chain, seed=3, chains=50),
        log_z_along(chain, rng=stream(1), chains=50),
        log_z_along(chain, rng=stream(1), chains=50),
    ]
    assert seen == [0, 1]
    for one, two in (runs[:2], runs[2:]):
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a.lower, b.lower)
            assert torch.equal(a.upper, b.upper)
            assert torch.equal(a.interval[0], b.interval[0])
    assert not torch.equal(runs[0][1].lower, runs[2][1].lower)
    after = [[p.detach() for p in machine.parameters()] for machine in chain]
    assert all(
        torch.equal(*p) for b, a in zip(before, after, strict=True) for p in zip(b, a, strict=True)
    )


def test_bad_input():
    machine = rbm(4, 3, 2, seed=0)
    for call, text in (
        (lambda: log_z_along([]), "there are none"),
        (lambda: log_z_along([machine], chains=1), "chains"),
        (lambda: log_z_along([machine], seed=0, rng=stream(0)), "seed= or rng="),
        (lambda: log_z_along([machine, rbm(4, 3, 3, seed=0)]), "one shape.*number 1"),
        (lambda: log_z_along([machine, rbm(4, 3, seed=0)]), "one shape"),
        (lambda: log_z_along([machine, rbm(4, 3, 2, biases=True, seed=0)]), "one shape"),
    ):
        with pytest.raises(InputError, match=text):
            call()
