"""Annealed importance sampling against enumeration."""

import itertools
import math

import pytest
import torch

from conftest import machines
from rapidbm.accel import executors
from rapidbm.accel.executors import Repeated
from rapidbm.data.catalogue import load
from rapidbm.errors import InputError
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.machines.machine import scaled
from rapidbm.random import stream
from rapidbm.sampling import annealing
from rapidbm.sampling.bases import free_spins, marginals, own_biases, path_to
from rapidbm.sampling.paths import Cooling, Crossing, Trajectory
from rapidbm.testing import SMALLEST_P, chi_squared, exact_distribution

EVERY = machines(3) + machines(2, biases=False)


def inside(found, exact, times=2.7):
    """The exact value within 5.3 standard errors, 2.7 times as far as the interval reaches: of three
    replicas one is farther off in 4 of 10⁷ tests."""
    middle, half = 0.5 * (found.lower + found.upper), 0.5 * (found.upper - found.lower)
    return bool(((exact - middle).abs() <= times * half).all())


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("beta", [1.0, 1.8])
def test_both_directions_are_close_and_the_interval_holds(machine, beta):
    exact = log_z(machine, method="exact", beta=beta).value
    found = log_z(machine, method="ais", beta=beta, seed=0, chains=300)
    assert inside(found, exact)
    assert float((found.upper - found.lower).max()) < 0.5
    assert float((found.value - exact).abs().max()) < 0.1
    assert float((found.forward - exact).abs().max()) < 0.2
    assert float((found.back - exact).abs().max()) < 0.2
    assert float(found.ess.min()) > 20
    assert found.method == "ais"
    assert not found.note


class AsItIs:
    """In the place of a graph: the same work, run as it is."""

    def __init__(self, rng):
        pass

    def run(self, key, work):
        work()


PATHS = {
    "one base": lambda machine: Cooling(machine, own_biases(machine)),
    "two bases": lambda machine: path_to(machine, machine.random(9, stream(1))[0, :, : machine.visible]),
    "rounded": lambda machine: path_to(machine, exact=False),
    "trajectory": lambda machine: Trajectory([scaled(machine, 0.2), scaled(machine, 0.5), machine]),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
@pytest.mark.parametrize("couplings", ["dense", "patterns"])
def test_a_graph_reads_positions_from_tensors(monkeypatch, path, couplings):
    """The work of a graph, run as it is, takes the steps of the plain walk."""
    machine = rbm(6, 5, 3 if couplings == "patterns" else None, replicas=2, biases=True, seed=0)
    way = path(machine)
    betas = [way.end * i / 8 for i in range(9)]  # exact in float32, too
    monkeypatch.setattr(executors, "Graphs", AsItIs)
    found = []
    for graph in (False, True):
        if graph:
            monkeypatch.setattr(annealing, "repeated", lambda work, rng, times: Repeated(work, rng))
        logs, ends = annealing.forward(way, betas, 20, stream(2))
        kept = ends.clone()
        found.append((logs, ends, annealing.backward(way, betas, ends, stream(3))))
        assert torch.equal(ends, kept)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_what_is_repeated_as_a_graph(monkeypatch):
    rng, heard = stream(0), []
    assert executors.repeated(print, rng, 10**6) is print  # nothing to gain on a CPU
    monkeypatch.setattr(annealing, "repeated", lambda work, rng, times: heard.append(times) or work)
    machine = rbm(4, 3, seed=0)
    annealing.forward(Cooling(machine, free_spins(machine)), [0.0, 0.5, 1.0], 5, rng)
    annealing.forward(Crossing(machine, machine, machine.random(5, rng)), [0.0, 1.0], 5, rng)
    assert heard == [2]  # a crossing looks at its machines


def test_the_pilot_says_where_its_chains_stood():
    machine = rbm(5, 4, scale=0.8, seed=0)
    betas, stood = annealing.pilot(path_to(machine), stream(0), chains=7)
    assert len(betas) > 2
    assert [tuple(spins.shape) for spins in stood] == [(1, 7, 9)] * len(betas)


def test_a_schedule_spreads_the_variance_that_it_may(monkeypatch):
    # Two steps of the pilot, 0.6² each; in p pieces they add 2 · 0.6² / p to the variance of log w.
    monkeypatch.setattr(annealing, "pilot", lambda *given, **named: ([0.0, 0.4, 1.0], []))
    for variance, most, pieces in (
        (0.25, 10_000, 3),
        (0.1, 10_000, 8),
        (1.0, 10_000, 1),
        (0.1, 9, 4),
    ):
        found = annealing.schedule(None, stream(0), variance=variance, most=most)
        assert len(found) == 2 * pieces + 1
        assert found[::pieces] == [0.0, 0.4, 1.0]


@pytest.mark.parametrize(
    "machine",
    [
        rbm(6, 5, replicas=100, scale=0.5, seed=0),
        pytest.param(dbm(5, (4, 3), 2, replicas=100, seed=1), marks=pytest.mark.slow),
    ],
    ids=["rbm", "dbm"],
)
def test_the_interval_holds_as_often_as_it_says(machine):
    """100 machines at once: of their 95 % intervals 18 may miss the exact value; more do in one of 10⁶
    tests. The standard errors lean to the safe side, by less than a factor of two; the root of the mean
    square of 100 deviations is off by a third in as many."""
    exact = log_z(machine, method="exact").lower
    found = log_z(machine, method="ais", seed=1, chains=300)
    held = (found.lower <= exact) & (exact <= found.upper)
    assert int(held.sum()) >= 82
    assert float((found.upper - found.lower).median()) < 0.3
    low, high = found.interval
    off = (0.5 * (low + high) - exact) / ((high - low) / 3.92)
    assert 0.5 * 0.67 < float(off.square().mean().sqrt()) < 1.36


def test_log_mean_by_hand():
    """Weights 1, 1, 2 and 4 have mean 2, variance 2, and squares that add up to 22."""
    logs = torch.tensor([[1.0, 1.0, 2.0, 4.0]], dtype=torch.float64).log()
    found = annealing.LogMean.of(logs)
    assert float(found.value) == pytest.approx(math.log(2))
    assert float(found.error) == pytest.approx(math.sqrt(2 / 4) / 2)
    assert float(found.ess) == pytest.approx(8**2 / 22)
    assert float(found.largest) == pytest.approx(0.5)


def test_chains_are_drawn_again_by_their_weights():
    spins = torch.arange(3.0)[None, :, None].repeat(1, 1000, 1)  # 0, 1, 2, 0, 1, 2, …
    logs = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log().repeat(1, 1000)
    drawn, apart = annealing.resample(spins, logs, stream(0))
    counts = drawn.flatten().long().bincount(minlength=3)
    assert chi_squared(counts, torch.tensor([0.125, 0.25, 0.625])) > SMALLEST_P
    one = torch.full((1, 3000), -torch.inf, dtype=torch.float64)
    one[0, [4, 8]] = 0.0
    drawn, apart = annealing.resample(spins, one, stream(0))
    assert int(apart) == 2
    assert set(drawn.flatten().tolist()) == {1.0, 2.0}


def two_components(machine):
    """A path from two bases that agree on the layers that are summed."""
    base = own_biases(machine) * 0.5 + 0.2
    other = base.clone()
    for layer, where in enumerate(machine.layers.slices):
        if layer not in machine.layers.inferred:
            other[..., where] *= -0.7
    parts = torch.tensor([[0.3, -0.2], [-0.1, 0.4]], dtype=torch.float64)
    return Cooling(machine, torch.cat([base, other]), parts)


def test_bases_have_equal_shares_unless_they_are_given():
    path = two_components(machines(2)[0].values[0])
    equal = Cooling(path.machine, path.bases).shares
    assert torch.allclose(equal.exp(), equal.new_tensor([0.5, 0.5])[:, None, None])
    given = path.shares.exp()[..., 0]
    assert torch.allclose(given, path.parts.exp() / path.parts.exp().sum(0))


def test_weights_are_in_float64_unless_they_need_not():
    machine = rbm(3, 2, seed=0)
    assert Cooling(machine, own_biases(machine)).precise.dtype == torch.float64
    assert path_to(machine).precise.dtype == torch.float64
    assert path_to(machine, exact=False).precise is machine


def test_every_component_has_its_share():
    machine = rbm(2, 1, seed=0, replicas=2)
    bases = torch.tensor([[9.0, 9.0, 0.0], [9.0, -9.0, 0.0], [-9.0, -9.0, 0.0]])[:, None, None]
    parts = torch.tensor([0.5, 0.25, 0.25]).log()[:, None].expand(-1, 2)
    path = Cooling(machine, bases.expand(-1, 2, -1, -1), parts)
    start = path.start(8, stream(0))[0, :, :2]
    assert start.tolist() == [[1, 1]] * 4 + [[1, -1]] * 2 + [[-1, -1]] * 2
    drawn = path._component(torch.zeros((2, 4000, 3)), stream(1), 1.0)  # the spins say nothing
    for each in drawn:
        assert chi_squared(each.bincount(minlength=3), torch.tensor([0.5, 0.25, 0.25])) > SMALLEST_P
    assert not torch.equal(*drawn)


def brute(path, every, beta):
    """The log of eq. (2) for whole configurations, (e, c), by hand."""
    bases = path.bases[:, :, 0].double()  # (j, e, n)
    norm = (2 * bases.cosh()).log().sum(-1, keepdim=True)
    base = torch.einsum("jen,cn->jec", bases, every.double()) - norm
    parts = torch.zeros(base.shape[:2]) if path.parts is None else path.parts
    shares = torch.log_softmax(parts.double(), 0)[..., None]
    mixed = torch.logsumexp(shares + (1 - beta) * base, 0)
    return mixed - beta * path.machine.energy(every).detach().double()


@pytest.mark.parametrize("machine", machines(2))
def test_every_machine_of_the_path_is_sampled_rightly(machine):
    """Eq. (1): a move at β leaves its distribution in place."""
    path = two_components(machine)
    beta = 0.6
    every, _ = exact_distribution(machine)
    p = torch.softmax(brute(path, every, beta), 1)
    rng = stream(0)
    spins = every[torch.multinomial(p, 30_000, replacement=True, generator=rng)]
    for _ in range(2):
        spins = path.move(spins, rng, beta)
    powers = 2 ** torch.arange(spins.shape[2] - 1, -1, -1)
    numbers = ((spins > 0).long() * powers).sum(2)
    for e in range(2):
        assert chi_squared(numbers[e].bincount(minlength=len(every)), p[e]) > SMALLEST_P


@pytest.mark.parametrize("machine", machines(2))
def test_f_is_the_sum_over_the_free_layers(machine):
    path = two_components(machine)
    every, _ = exact_distribution(machine)
    free = [
        i for layer in machine.layers.inferred for i in range(*machine.layers.slices[layer].indices(99))
    ]
    kept = [i for i in range(machine.layers.columns) if i not in free]
    for beta in (0.0, 0.4, 1.0):
        minus = brute(path, every, beta)
        found = path.weights(every[None].expand(2, -1, -1))(beta).detach()
        for row in (0, 5):
            same = (every[:, kept] == every[row, kept]).all(1)
            assert torch.allclose(found[:, row], torch.logsumexp(minus[:, same], 1), atol=1e-12)


def test_a_wrong_weight_shows(monkeypatch):
    machine = rbm(6, 5, replicas=3, scale=0.6, seed=0)
    exact = log_z(machine, method="exact").lower
    plain = Cooling.weights

    def wrong(self, spins):
        log_f = plain(self, spins)
        return lambda beta: log_f(0.9 * beta)

    monkeypatch.setattr(Cooling, "weights", wrong)
    assert not inside(log_z(machine, method="ais", seed=0, chains=300), exact)


def test_the_steps_are_even_and_the_limit_is_kept():
    machine = rbm(10, 30, 3, seed=0)
    path = path_to(machine)
    betas = annealing.schedule(path, stream(0), variance=0.25)
    assert betas[0] == 0.0
    assert betas[-1] == 1.0
    assert all(a < b for a, b in itertools.pairwise(betas))
    few = annealing.schedule(path, stream(0), most=60)
    assert len(few) <= 61 < len(betas)
    with pytest.raises(InputError, match="more than 3 temperatures"):
        annealing.schedule(path, stream(0), most=3)


def test_steps_of_the_pilot_are_divided_by_their_variance(monkeypatch):
    """Two steps of variance 0.36 each: in three pieces they add up to less than 0.25."""
    monkeypatch.setattr(annealing, "pilot", lambda *given, **named: ([0.0, 0.3, 1.0], None))
    found = annealing.schedule(None, None, variance=0.25)
    assert found == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.3 + 0.7 / 3, 1.0 - 0.7 / 3, 1.0])
    assert len(annealing.schedule(None, None, variance=0.25, most=5)) == 5
    assert len(annealing.schedule(None, None, variance=2.0)) == 3
    assert len(annealing.resized([0.0, 0.3, 1.0], 4)) == 5  # about: 1.5 pieces are two
    assert len(annealing.resized([0.0, 0.3, 1.0], 6)) == 5  # 2.5 are too


def test_base_samples_and_likelihood():
    machine = rbm(16, 8, biases=True, replicas=2, seed=0, scale=0.4)
    data = load("bars4")
    machine.start_biases(data.train.spins)
    exact = log_z(machine, method="exact").lower
    from_data = log_z(machine, method="ais", seed=0, data=data.train, chains=300)
    assert inside(from_data, exact)
    every = exact_samples(machine, 300)
    assert inside(log_z(machine, method="ais", seed=0, samples=every, chains=300), exact)
    found = log_likelihood(machine, data.test, method="ais", seed=0)
    wanted = log_likelihood(machine, data.test, method="exact").lower
    assert inside(found, wanted)
    with pytest.raises(InputError, match=r"\(samples, 16\)"):
        log_z(machine, method="ais", data=torch.ones(3, 5))
    with pytest.raises(InputError, match="two samples or more, not 1"):
        log_z(machine, method="ais", samples=every[:, :1])


def test_what_is_given_is_used():
    """`samples` are where the way back starts, and `data` are where the way there does."""
    machine = rbm(5, 4, biases=True, replicas=2, seed=0, scale=0.3)
    options = {"method": "ais", "chains": 50}
    one, two, plain = (
        log_z(machine, seed=0, samples=samples, **options)
        for samples in (exact_samples(machine, 50), exact_samples(machine, 40), None)
    )
    assert len({float(x.back[0]) for x in (one, two, plain)}) == 3
    assert not torch.equal(log_z(machine, seed=1, **options).value, plain.value)
    data = torch.tensor([[1.0, 1, -1, 1, -1], [1, -1, -1, 1, 1], [1, 1, -1, 1, 1]])
    assert "from each of free spins" in plain.effort
    assert "data" not in plain.effort
    assert "data" in log_z(machine, seed=0, data=data, **options).effort
    base = marginals(machine, data)
    means = torch.tensor([3.0, 1, -3, 3, 1]) / 5  # of two more images, which cancel
    assert torch.allclose(base[0, ..., :5].tanh(), means.expand(2, 1, -1))
    assert torch.equal(base[1, ..., :5], -base[0, ..., :5])
    assert torch.equal(base[..., 5:], machine.biases.detach()[None, :, None, 5:].repeat(2, 1, 1, 1))
    assert torch.equal(path_to(machine).bases, free_spins(machine))
    bits = marginals(machine, (data > 0).int())
    assert torch.equal(bits, base)  # {0, 1} and ±1 are one


def exact_samples(machine, count):
    from rapidbm.machines.ensembles import AllStates
    from rapidbm.sampling.gibbs import sweep

    whole = AllStates(machine).whole()
    rows = torch.multinomial(whole.weights, count, True, generator=stream(7))
    known = whole.spins.gather(1, rows[..., None].expand(-1, -1, whole.spins.shape[2]))
    cover = machine.layers.cover()
    clamp = torch.zeros(machine.layers.columns, dtype=torch.bool)
    for layer in cover:
        clamp[machine.layers.slices[layer]] = True
    return sweep(machine, known, stream(8), clamp=clamp, means=True)


@pytest.mark.parametrize("machine", machines(2))
def test_scaled_energy(machine):
    spins = machine.random(5, stream(0))
    assert torch.allclose(scaled(machine, 0.3).energy(spins), 0.3 * machine.energy(spins), atol=1e-12)


def test_the_same_seed_gives_the_same_bits():
    machine = rbm(6, 5, replicas=2, seed=0)
    a, b = (log_z(machine, method="ais", seed=3, chains=50) for _ in range(2))
    assert torch.equal(a.lower, b.lower)
    assert torch.equal(a.upper, b.upper)


def test_auto_is_exact_where_it_can_be():
    assert log_z(rbm(6, 5, seed=0)).method == "exact"
    large = rbm(40, 50, seed=0)
    found = log_z(large, seed=0, chains=100)
    assert found.method == "ais"
    assert "100 chains" in found.effort
