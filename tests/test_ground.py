"""Ground states: the zonotope against enumeration, heuristics and bounds against both."""

import copy
import warnings
from itertools import islice

import hypothesis.extra.numpy as arrays
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.ground import lower_bound as bounds
from rapidbm.ground import zonotope as zonotope_module
from rapidbm.ground.ground_state import HEURISTICS, ground_state
from rapidbm.ground.lower_bound import edge_bound, lower_bound, semidefinite_bound
from rapidbm.ground.zonotope import (
    Zonotope,
    _cliques,
    _directions,
    _merge,
    _search_faces,
    _zonotope,
    zonotopes,
)
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine, stack
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.progress import watch
from rapidbm.random import stream
from rapidbm.sampling import tempering

GRAPHS = {
    "rbm": Layers((6, 5), ((0, 1),)),
    "dbm": Layers((4, 3, 3), ((0, 1), (1, 2))),
    "deeper": Layers((3, 3, 3, 2), ((0, 1), (1, 2), (2, 3))),  # two sums of overlaps on either side
    "bm": Layers((6, 4), ((0, 0), (0, 1), (1, 1))),
    "visible": Layers((9,), ((0, 0),)),
    "half": Layers((6, 4), ((0, 0), (0, 1))),  # hidden units not coupled to each other
    "alone": Layers((5, 4, 2), ((0, 1),)),  # a layer without couplings
}
EVERY = machines(1) + machines(3) + machines(2, biases=False)


def patterns_of(kind, shape, rng):
    if kind == "continuous":
        return torch.rand(shape, generator=rng, dtype=torch.float64) * 2 - 1
    if kind == "integer":
        return torch.randint(-2, 3, shape, generator=rng).double()
    xi = SPIN.random(shape, rng, torch.float64)
    if kind == "repeated" and shape[1] > 1:
        xi[:, -1] = -xi[:, 0]
    if kind == "zeros":
        xi[..., ::3] = 0
    return xi


def machine_of(graph, k, kind, biases, seed, replicas=1):
    layers, rng = GRAPHS[graph], stream(seed, graph, k, kind)
    xi = patterns_of(kind, (replicas, k, layers.columns), rng)
    b = patterns_of("integer" if kind == "integer" else "continuous", xi.shape, rng)[:, 0]
    if biases == "visible":
        b[:, layers.sizes[0] :] = 0
    if biases == "hidden":
        b[:, : layers.sizes[0]] = 0
    return Machine(Patterns(layers, xi), {"none": None, "zero": 0 * b}.get(biases, b))


def lowest(machine):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    return machine.energy(every).detach().amin(1)


def check(machine, found):
    assert torch.allclose(found.energy, lowest(machine), atol=1e-10)
    assert torch.allclose(machine.energy(found.spins[:, None])[:, 0], found.energy, atol=1e-10)
    assert bool((found.spins.abs() == 1).all())
    assert found.method == "exact"
    assert torch.equal(found.bound, found.energy)
    assert bool((found.found == 1).all())


@pytest.fixture
def no_head_start(monkeypatch):
    """The faces alone must find the best vertex: no climb before them, no descent after, and no
    short cut through all signs."""
    monkeypatch.setattr("rapidbm.ground.ground_state.quench", lambda machine, spins: spins)
    monkeypatch.setattr(zonotope_module, "CLIMBS", 1)
    monkeypatch.setattr(Zonotope, "climb", lambda self, signs: torch.ones_like(signs))
    monkeypatch.setattr(Zonotope, "by_signs", property(lambda self: self.directions.shape[1] < 2))


@pytest.fixture
def short_ladder(monkeypatch):
    """Rungs of parallel tempering after one short round, which costs more than all the rest here."""
    monkeypatch.setattr(tempering, "ROUNDS", 1)
    monkeypatch.setattr(tempering, "TURNS", 2)


# -- exact --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("biases", ["none", "zero", "visible", "hidden", "both"])
@pytest.mark.parametrize("kind", ["sign", "continuous", "integer", "repeated", "zeros"])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.usefixtures("no_head_start")
def test_the_best_corner_is_the_ground_state(graph, kind, biases):
    for k in (1, 2, 3):
        machine = machine_of(graph, k, kind, biases, seed=k)
        check(machine, ground_state(machine, method="zonotope"))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("graph", ["rbm", "bm"])
def test_sign_patterns_with_more_of_them(graph, k):
    for biases in ("none", "both"):
        machine = machine_of(graph, k, "sign", biases, seed=k, replicas=3)
        check(machine, ground_state(machine, method="zonotope"))


@pytest.mark.parametrize("k", [4, 5])
@pytest.mark.usefixtures("no_head_start")
def test_faces_of_sign_patterns_are_not_in_general_position(k, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = rbm(14, 40, k, replicas=2, seed=1, dtype=torch.float64)
    wanted = ground_state(machine, method="enumeration")
    shaken = []
    search = zonotope_module._search_faces

    def searched(zonotope, directions, tick, check=True):
        shaken.append((not check, float((directions - zonotope.directions).abs().max())))
        return search(zonotope, directions, tick, check=check)

    monkeypatch.setattr(zonotope_module, "_search_faces", searched)
    found = ground_state(machine, method="zonotope")
    assert torch.allclose(found.energy, wanted.energy)
    assert any(again for again, _ in shaken)
    for again, moved in shaken:
        assert 1e-6 < moved < 1e-3 if again else moved == 0.0


def rotated(rows, seed):
    """As they are for seed 0."""
    rows = torch.tensor(rows, dtype=torch.float64)
    turn = torch.randn(2 * rows.shape[1:], generator=stream(seed, "turn"), dtype=torch.float64)
    return rows @ torch.linalg.qr(turn)[0] if seed else rows


CROWDED = {
    "plane": [[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 2, 3], [-2, 1, 5]],  # three in a plane
    "dependent": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [3, 1, 2, 5], [2, -3, 1, 4]],  # no u
    "spread": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [2, -3, 1, 4]],
}


@pytest.mark.parametrize("name", CROWDED)
def test_a_face_with_too_many_generators_is_noticed(name):
    """However the rest of it comes out: zero, rounding, or no direction at all."""
    for seed in range(20):
        rows = rotated(CROWDED[name], seed)
        units = torch.cat([rows, torch.zeros(3, rows.shape[1])]).T[None]
        layers = Layers((len(rows), 3), ((0, 1),))
        zonotope = _zonotope(Machine(Patterns(layers, units)), 0, (0,), [])
        directions = zonotope.generators / zonotope.generators.norm(dim=1, keepdim=True)
        noise = torch.randn(rows.shape, generator=stream(seed), dtype=torch.float64)
        with watch("faces") as tick:
            assert _search_faces(zonotope, directions, tick) is None
            assert _search_faces(zonotope, directions + 0.1 * noise, tick) is not None


def test_parallel_units_are_one_generator():
    """Whatever their lengths and signs; a unit without a field is of no kind."""
    rows = [[1.0, 2.0], [-0.3, -0.6], [0.0, -3.0], [0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [-1.0, 0.0]]
    sums, kind, turned = _merge(torch.tensor(rows, dtype=torch.float64))
    found = {tuple(row) for row in sums.tolist()}
    assert found == {(1.3, 2.6), (0.0, 4.0), (6.0, 0.0)}
    assert int(kind[3]) == 3
    assert turned.tolist()[:3] == [1.0, -1.0, -1.0]
    assert turned.tolist()[4:] == [1.0, 1.0, -1.0]
    for a, b in ((0, 1), (2, 4), (5, 6)):
        assert int(kind[a]) == int(kind[b])
    nothing = _merge(torch.zeros(2, 3))
    assert [len(x) for x in nothing] == [0, 2, 2]
    # Sign patterns have 2^(K−1) kinds, whatever the lengths of the units.
    signs = rbm(300, 200, 3, seed=0, dtype=torch.float64)
    signs.patterns.data *= torch.rand(500, generator=stream(0), dtype=torch.float64) + 0.5
    (plan,) = zonotopes(signs)
    assert (len(plan.generators), len(plan.rows), plan.candidates) == (4, 4, 2**3)


def test_dimensions_are_those_that_the_patterns_span():
    rng = stream(0)
    some = torch.randn((30, 2), generator=rng, dtype=torch.float64)
    mixed = some @ torch.tensor([[1.0, 0.0, 0.3], [0.0, 1.0, 0.7]], dtype=torch.float64)
    assert _directions(mixed).shape == (30, 2)
    assert _directions(some * torch.tensor([1.0, 1e-16])).shape == (30, 2)  # small is not nothing
    assert torch.allclose(_directions(mixed).square().sum(1), torch.ones(30, dtype=torch.float64))


def test_all_signs_where_those_are_fewer():
    """2^(t−1) beside C(t, 2) · 4: 64 and 84 for seven units, 128 and 112 for eight."""
    for units, told in ((7, "64 signs of 7 kinds of units"), (8, "112 corners of a zonotope in 3")):
        (plan,) = zonotopes(rbm(units, 100, 3, continuous=True, seed=0))
        assert plan.describe().startswith(told)


def test_only_sums_of_squares_are_convex():
    ring = Layers((2, 2, 2), ((0, 1), (0, 2), (1, 2)))
    for graph, chosen, wanted in (
        (GRAPHS["rbm"], (0,), []),
        (GRAPHS["rbm"], (0, 1), None),  # m_0 · m_1 has no sign
        (GRAPHS["rbm"], (), None),
        (GRAPHS["dbm"], (0, 2), []),
        (GRAPHS["dbm"], (0,), None),  # the other two are coupled
        (GRAPHS["bm"], (0, 1), [(0, 1)]),
        (GRAPHS["bm"], (0,), None),
        (GRAPHS["half"], (0,), [(0,)]),
        (GRAPHS["half"], (0, 1), None),  # the hidden units are not coupled to each other
        (ring, (0, 1), None),
    ):
        assert _cliques(graph, chosen) == wanted


def test_general_position_is_not_shaken(monkeypatch):
    machine = rbm(14, 30, 3, continuous=True, seed=0)
    wanted = ground_state(machine, method="enumeration")
    monkeypatch.setattr(zonotope_module, "SHAKE", torch.nan)
    found = ground_state(machine, method="zonotope")
    assert torch.allclose(found.energy, wanted.energy)
    assert found.effort == "364 corners of a zonotope in 3 dimensions"  # C(14, 2) · 4


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    graph=some.sampled_from(sorted(GRAPHS)),
    xi=arrays.arrays("int8", (3, 11), elements=some.integers(-2, 2)),
    k=some.integers(1, 3),
    biases=some.none() | arrays.arrays("int8", 11, elements=some.integers(-1, 1)),
)
def test_small_integers(graph, xi, k, biases):
    layers = GRAPHS[graph]
    n = layers.columns
    b = None if biases is None else torch.from_numpy(biases)[None, :n].double()
    machine = Machine(Patterns(layers, torch.from_numpy(xi)[None, :k, :n].double()), b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Zonotope, "by_signs", property(lambda self: self.directions.shape[1] < 2))
        check(machine, ground_state(machine, method="zonotope"))
    check(machine, ground_state(machine, method="zonotope"))


LARGER = {
    "rbm": Layers((14, 30), ((0, 1),)),
    "dbm": Layers((7, 20, 7), ((0, 1), (1, 2))),
    "bm": Layers((9, 5), ((0, 0), (0, 1), (1, 1))),
}


def larger(graph, k, kind, biased, seed=0):
    rng, layers = stream(seed, graph, kind), LARGER[graph]
    xi = patterns_of(kind, (1, k, layers.columns), rng)
    b = torch.randn((1, layers.columns), generator=rng, dtype=torch.float64)
    return Machine(Patterns(layers, xi), b if biased else None)


def misses(machine):
    found = ground_state(machine, method="zonotope").energy
    return not torch.allclose(found, ground_state(machine, method="enumeration").energy, rtol=1e-12)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", ["sign", "continuous", "integer"])
@pytest.mark.parametrize("graph", LARGER)
@pytest.mark.usefixtures("no_head_start")
def test_fewer_corners_than_states_suffice(graph, kind, biased):
    for k in (2, 3, 4):
        machine = larger(graph, k, kind, biased)
        if k == 2:
            assert zonotopes(machine)[0].candidates < 2**13
        assert not misses(machine)


def without_negatives(self, p, value=Zonotope.value):
    return value(self, p)[0], torch.zeros(len(p), dtype=torch.bool)


MUTATIONS = {
    "corners": ("corner_signs", lambda count: torch.ones(1, count)),
    "bound": ("Zonotope.slopes", lambda self: torch.zeros(len(self.generators))),
    "negatives": ("Zonotope.value", without_negatives),
    "faces": (
        "_rays",
        lambda directions, rays=zonotope_module._rays: islice(rays(directions), 1),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.usefixtures("no_head_start")
def test_a_broken_search_shows(name, monkeypatch):
    where, wrong = MUTATIONS[name]
    monkeypatch.setattr(f"rapidbm.ground.zonotope.{where}", wrong)
    if name == "faces":  # one chunk of sets, of several
        monkeypatch.setattr(zonotope_module, "SETS", 40)
    assert any(misses(larger("rbm", 2, "continuous", True, seed)) for seed in range(10))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("biases", ["none", "both"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_slopes_limit_every_slope(graph, biases, aligned):
    """Eq. (3), for biases that are weak beside the patterns and for strong ones."""
    for size in (1.0, 0.01):
        machine = machine_of(graph, 2, "continuous", biases, seed=0)
        if aligned:  # where the bound is all but reached
            machine.couplings.patterns.data.mul_(0.02).add_(1.0)
        machine.couplings.patterns.data *= size
        (zonotope,) = zonotopes(machine)
        count = len(zonotope.generators)
        inside = torch.rand((200, count), generator=stream(1), dtype=torch.float64) * 2 - 1
        inside[0] = 1.0
        for j, slope in enumerate(zonotope.slopes()):
            ends = []
            for inside[:, j] in (-1.0, 1.0):
                ends.append(zonotope.value(inside @ zonotope.generators)[0])
            assert bool(((ends[1] - ends[0]).abs() <= 2 * slope + 1e-9).all())


@pytest.mark.parametrize(("signs", "count"), [(False, 3), (False, 60), (True, 3)])
@pytest.mark.parametrize("kind", ["sign", "continuous"])
@pytest.mark.usefixtures("no_head_start")
def test_many_chunks_give_the_same(kind, signs, count, monkeypatch):
    """Few rows at a time, and one set of prefixes at a time, some of which lead to no face."""
    monkeypatch.setattr(Zonotope, "by_signs", property(lambda self: signs))
    monkeypatch.setattr(zonotope_module, "_rows_at_a_time", lambda zonotope: count)
    monkeypatch.setattr(zonotope_module, "SETS", count**2)
    for seed in range(5):
        small, large = machine_of("rbm", 3, kind, "both", seed), larger("rbm", 3, kind, True, seed)
        assert not misses(small if signs else large)


@pytest.mark.parametrize("count", [3, 60, 10_000])
@pytest.mark.usefixtures("no_head_start")
def test_where_nothing_is_ruled_out_every_corner_is_shown(count, monkeypatch):
    """C(14, 3) faces of eight corners each, however they are divided, after one start."""
    shown = []
    monkeypatch.setattr(zonotope_module, "_rows_at_a_time", lambda zonotope: count)
    monkeypatch.setattr(Zonotope, "slopes", lambda self: torch.full((14,), 1e9).double())
    monkeypatch.setattr(
        zonotope_module,
        "_better",
        lambda z, signs, *best: (shown.extend(signs.tolist()), best)[1],
    )
    (zonotope,) = zonotopes(larger("rbm", 4, "continuous", False))
    with watch("faces") as tick:
        _search_faces(zonotope, zonotope.directions, tick)
    assert len(shown) == 1 + 364 * 8
    assert all(abs(x) == 1 for row in shown for x in row)


def test_as_many_candidates_as_may_be_are_searched(monkeypatch):
    machine = rbm(9, 7, 2, continuous=True, seed=0)
    plan = zonotopes(machine)
    count = plan[0].candidates
    monkeypatch.setattr(zonotope_module, "LARGEST", count)
    spins, _ = zonotope_module.lowest_spins(machine, plan)
    assert spins.shape == (1, 16)
    monkeypatch.setattr(zonotope_module, "LARGEST", count - 1)
    with pytest.raises(InputError, match=f"up to {count - 1:,} candidates"):
        zonotope_module.lowest_spins(machine, plan)


def test_the_cheaper_side_is_taken():
    machine = rbm(300, 20, 2, continuous=True, seed=0)
    (plan,) = zonotopes(machine)
    assert plan.chosen == (1,)
    assert plan.candidates == 20 * 2
    assert zonotopes(Machine(machine.couplings, torch.zeros(1, 320)))[0].candidates == 20 * 2
    # A bias costs a dimension on its own side, 2^2 · C(20, 2) corners instead of 2 · 20, and only there;
    # anywhere it breaks the symmetry, which doubles the work.
    biased = Machine(machine.couplings, torch.zeros(1, 320))
    biased.biases.data[:, 300:] = 1.0
    assert zonotopes(biased)[0].chosen == (0,)
    assert zonotopes(biased)[0].candidates == 2 * 300 * 2
    biased.biases.data[:] = torch.linspace(-1, 1, 320)
    assert zonotopes(biased)[0].chosen == (1,)
    assert zonotopes(biased)[0].candidates == 2 * 190 * 4


def test_a_large_machine_with_few_patterns():
    machine = rbm(400, 300, 2, continuous=True, seed=0, replicas=2)
    found = ground_state(machine)
    assert found.method == "exact"
    assert found.effort == "600 corners of a zonotope in 2 dimensions"
    other = ground_state(machine, method="annealing", starts=20, sweeps=30, seed=0)
    assert bool((other.energy >= found.energy - 1e-6).all())
    assert torch.allclose(other.energy, found.energy, rtol=1e-3)
    assert bool((lower_bound(machine).energy <= found.energy).all())


def test_planted_signs_at_the_size_of_mnist():
    machine = rbm(784, 3000, 1, seed=0)
    found = ground_state(machine)
    assert float(found.energy) == -784 * 3000
    machine = rbm(784, 3000, 4, seed=0)
    found = ground_state(machine)
    started = ground_state(machine, method="descent", starts=50, seed=0)
    assert float(found.energy) <= float(started.energy)
    assert found.energy.item() == pytest.approx(started.energy.item(), rel=1e-6)


def test_replicas_do_not_meet():
    parts = [machine_of("rbm", 3, kind, "both", seed=3) for kind in ("sign", "continuous", "zeros")]
    whole = stack(parts)
    for method in ("exact", "enumeration", "zonotope"):
        together = ground_state(whole, method=method).energy
        alone = torch.cat([ground_state(part, method=method).energy for part in parts])
        assert torch.allclose(together, alone, rtol=1e-14)


def test_enumeration_says_how_many_states_it_saw():
    for biases, seen in (
        (False, "4 states"),
        (True, "8 states"),
    ):  # s and −s are one without biases
        machine = rbm(3, 5, biases=biases, seed=0)
        assert ground_state(machine, method="enumeration").effort == seen


# -- heuristic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "method"),
    [
        pytest.param(case.values[0], method, id=f"{case.id}-{method}")
        for case in EVERY
        for method in sorted(HEURISTICS)
        if method != "tempering" or case.values[0].replicas == 1  # the slowest
    ],
)
@pytest.mark.usefixtures("short_ladder")
def test_heuristics_find_small_ground_states(machine, method):
    found = ground_state(machine, method=method, starts=60, sweeps=20, seed=0)
    assert torch.allclose(found.energy, lowest(machine), atol=1e-10)
    assert torch.allclose(machine.energy(found.spins[:, None])[:, 0], found.energy, atol=1e-10)
    assert found.method == method
    assert bool((found.bound <= found.energy).all())
    assert bool((found.found > 0).all())
    assert bool((found.found <= 1).all())
    again = ground_state(machine, method=method, starts=60, sweeps=20, seed=0)
    assert torch.equal(again.spins, found.spins)
    assert torch.equal(again.found, found.found)


def test_found_counts_the_starts():
    # Descent from random states finds the pattern, or its negative, whatever the start.
    found = ground_state(rbm(21, 31, 1, seed=0), method="descent", starts=10, seed=0)
    assert found.found.item() == 1
    assert found.energy.item() == -21 * 31
    assert found.bound.item() == pytest.approx(-21 * 31)
    assert found.effort.startswith("14 starts;")  # ± the pattern, whole and inferred
    # A dense glass has many minima.
    glass = bm(40, 0, scale=1.0, seed=0)
    found = ground_state(glass, method="annealing", starts=20, sweeps=5, seed=0)
    assert 0 < found.found.item() < 1


@pytest.mark.parametrize(("deeper", "share"), [(1e-3, 0.7), (1e-9, 1.0)])
def test_found_is_the_share_of_the_candidates(deeper, share, monkeypatch):
    """Seven candidates come to rest in the ground state, three in a minimum above it, or as deep but
    for rounding."""
    layers = Layers((4,), ((0, 0),))
    xi = torch.ones((1, 2, 4), dtype=torch.float64)
    xi[0, 1] = torch.tensor([1.0, 1, -1, -1])
    xi[0, 1] *= 1.0 + deeper
    machine = Machine(Patterns(layers, xi))
    rows = xi.sign()[:, [1] * 7 + [0] * 3]
    monkeypatch.setitem(HEURISTICS, "descent", lambda *given: rows)
    found = ground_state(machine, method="descent", seed=0)
    assert found.found.item() == pytest.approx(share)
    assert torch.equal(found.spins, rows[:, 0])


@pytest.mark.usefixtures("short_ladder")
def test_annealing_cools_down_and_tempering_takes_its_turns(monkeypatch):
    """Eq. (2): by equal ratios from a tenth of the largest field to ten times the smallest."""
    machine = rbm(9, 16, scale=1.0, seed=0)
    betas, turns = [], []

    def sweep(machine, spins, rng, beta):
        betas.append(float(beta[0, 0]))
        return spins

    monkeypatch.setattr("rapidbm.ground.ground_state.run_sweeps", sweep)
    monkeypatch.setattr(
        "rapidbm.ground.ground_state.tempering_step", lambda path, x, rng: (turns.append(1), x)[1]
    )
    for method in ("annealing", "tempering"):
        ground_state(machine, method=method, starts=50, sweeps=11, seed=0)
    square = machine.couplings.matrix(0, 1).detach()[0].square()
    fields = [float(square.sum(side).mean().sqrt()) for side in (0, 1)]
    assert betas[0] == pytest.approx(0.1 / max(fields), rel=0.15)
    assert betas[-1] == pytest.approx(10 / min(fields), rel=0.15)
    steps = torch.tensor(betas, dtype=torch.float64).log().diff()
    assert torch.allclose(steps, steps[:1], rtol=1e-4)
    assert len(turns) == len(betas) == 11


@pytest.mark.parametrize("method", ["enumeration", "zonotope", "descent"])
def test_energies_of_single_precision_machines_are_in_double(method):
    machine = rbm(12, 300, 2, continuous=True, seed=0)
    found = ground_state(machine, method=method, starts=5, seed=0)
    double = copy.deepcopy(machine).double().requires_grad_(False)
    assert found.energy.dtype == torch.float64
    assert torch.allclose(found.energy, double.energy(found.spins[:, None])[:, 0], rtol=1e-12)


@pytest.mark.usefixtures("short_ladder")
def test_seeds_are_heard(monkeypatch):
    monkeypatch.setattr(bounds, "LARGEST", 0)  # a bound hears no seed
    glass = bm(60, 0, scale=1.0, seed=0)
    for method in HEURISTICS:
        one, two = (ground_state(glass, method=method, starts=6, sweeps=3, seed=seed) for seed in (0, 1))
        assert not torch.equal(one.spins, two.spins)


def test_descent_infers_hidden_layers_from_the_visible_one_outwards():
    layers = Layers((3, 2, 4), ((0, 2), (1, 2)))  # the last layer is next to the visible one
    xi = torch.randn(2, 3, 9, generator=stream(0), dtype=torch.float64)
    machine = Machine(Patterns(layers, xi))
    found = HEURISTICS["descent"](machine, 5, 1, stream(1)).detach()
    whole = torch.cat([xi.sign(), -xi.sign()], 1)
    assert found.shape == (2, 6 + 6 + 5, 9)
    assert torch.equal(found[:, :6], whole)
    visible = whole[..., :3]
    near = (visible @ machine.couplings.matrix(0, 2)).sign()
    far = (near @ machine.couplings.matrix(2, 1)).sign()
    assert torch.equal(found[:, 6:12], torch.cat([visible, far, near], 2))


def test_cooling_does_not_depend_on_the_units_of_energy():
    glass = bm(24, 0, scale=1.0, seed=0, dtype=torch.float64)
    cold = stack([glass, glass])
    cold.couplings.weights["0-0"].data[1] *= 1e-6
    found = ground_state(cold, method="annealing", starts=100, sweeps=30, seed=0)
    assert found.energy[1].item() == pytest.approx(1e-6 * found.energy[0].item())
    nothing = rbm(3, 2, seed=0)
    nothing.couplings.weights["0-1"].data.zero_()
    assert ground_state(nothing, method="annealing", starts=2, sweeps=3, seed=0).energy.item() == 0


@pytest.mark.usefixtures("short_ladder")
def test_auto_is_exact_where_that_is_cheap():
    assert ground_state(rbm(8, 100, seed=0), method="auto").method == "exact"
    assert ground_state(rbm(60, 50, 3, continuous=True, seed=0), method="auto").method == "exact"
    machine = rbm(40, 30, 8, continuous=True, seed=0)
    found = ground_state(machine, method="auto", starts=20, sweeps=20, seed=0)
    assert found.method == "descent+annealing"
    assert found.effort.startswith("72 starts, 20 sweeps each; bound")  # 4 K + 20, and 20
    for method in HEURISTICS:
        alone = ground_state(machine, method=method, starts=20, sweeps=20, seed=0)
        assert bool((found.bound <= alone.energy).all())


def test_bad_input():
    machine = rbm(100, 200, 30, seed=0)
    with pytest.raises(InputError, match=r"2\^100 .* zonotope has 10\^\d+ of them.*method='auto'"):
        ground_state(machine, method="exact")
    both = rbm(100, 200, 30, replicas=2, seed=0)
    with pytest.raises(InputError, match=r"2\^100 .* zonotope has 10\^\d+ of them"):
        ground_state(both, method="exact")
    with pytest.raises(InputError, match=r"up to 2,147,483,648 candidates.*30 dimensions"):
        ground_state(both, method="zonotope")
    with pytest.raises(InputError, match=r"up to 2,147,483,648 candidates.*30 dimensions"):
        ground_state(machine, method="zonotope")
    with pytest.raises(InputError, match=r"2\^100"):
        ground_state(machine, method="enumeration")
    with pytest.raises(InputError, match=r"needs patterns.*dense couplings"):
        ground_state(rbm(3, 2, seed=0), method="zonotope")
    ring = Layers((2, 2, 2), ((0, 1), (0, 2), (1, 2)))
    with pytest.raises(InputError, match="two sides"):
        ground_state(Machine(Patterns(ring, torch.ones(1, 1, 6))), method="zonotope")
    with pytest.raises(InputError, match="known are annealing, auto, descent, enumeration"):
        ground_state(machine, method="anealing")
    with pytest.raises(InputError, match="number of starts must be"):
        ground_state(machine, method="descent", starts=0)
    with pytest.raises(InputError, match="number of sweeps must be"):
        ground_state(machine, method="annealing", sweeps=0)
    with pytest.raises(InputError, match="seed= or rng="):
        ground_state(machine, method="descent", seed=0, rng=stream(0))


# -- bounds -------------------------------------------------------------------------------------------


def tight_ones():
    """Machines whose bounds are equalities but for rounding, and random ones."""
    for seed in range(35):  # all pairs of sizes below
        options = {"seed": seed, "dtype": torch.float64, "continuous": True}
        yield rbm(1 + seed % 7, 1 + seed % 5, 1, **options)
        yield dbm(3, (4, 3), 1, **options)
        yield bm(4, 3, 1, **options)
        yield rbm(5, 4, scale=1.0, seed=seed, dtype=torch.float64)
        yield bm(7, scale=1.0, seed=seed, dtype=torch.float64)


def test_the_bounds_of_an_edge_by_hand():
    """Eq. (1) of one pattern: every pair once, and no unit with itself."""
    xi = torch.tensor([[[1.0, -2.0, 3.0, 0.5]]], dtype=torch.float64)
    full = Patterns(Layers((4,), ((0, 0),)), xi)
    assert full.sum_of_sizes(0, 0).tolist() == [2 + 3 + 0.5 + 6 + 1 + 1.5]
    assert torch.allclose(full.largest_form(0, 0), (4 - 1) / 2 * xi.square().sum((1, 2)))
    pair = Patterns(Layers((3, 1), ((0, 1),)), xi)
    assert pair.sum_of_sizes(0, 1).tolist() == [(1 + 2 + 3) * 0.5]
    assert torch.allclose(pair.largest_form(0, 1), (3.0 * 14 * 0.25 * xi[:, 0, 0] ** 2).sqrt())
    for couplings in (full, pair):
        dense, edge = couplings.dense(), couplings.layers.edges[0]
        lowest = ground_state(Machine(couplings)).energy
        for bound in (dense.sum_of_sizes, dense.largest_form):
            assert bool((bound(*edge) >= -lowest - 1e-12).all())
        assert torch.allclose(dense.sum_of_sizes(*edge), couplings.sum_of_sizes(*edge))
        assert bool((couplings.norm(*edge) >= dense.norm(*edge) - 1e-12).all())


def test_biases_alone_are_bounded_by_their_sizes():
    machine = Machine(Patterns(Layers((2, 2), ((0, 1),)), torch.zeros(1, 1, 4)), [[1, -2, 3, -4]])
    assert edge_bound(machine).item() == pytest.approx(-10, abs=1e-12)
    assert semidefinite_bound(machine).item() == pytest.approx(-10, abs=1e-6)


def test_what_rounding_may_take_by_hand():
    """Eq. (4): 4 ε for each of N terms, of √(n_a n_b) |J|_F, and of the biases."""
    weights = {(0, 1): torch.tensor([[[3.0, 0.0], [0.0, 4.0]]], dtype=torch.float64)}
    dense = Dense(Layers((2, 2), ((0, 1),)), weights)
    eps = torch.finfo(torch.float64).eps
    assert bounds._rounding(Machine(dense)).tolist() == [4 * eps * 4 * 2 * 5]
    biased = Machine(dense, [[1.0, -2.0, 3.0, -4.0]])
    assert bounds._rounding(biased).tolist() == [4 * eps * 4 * (2 * 5 + 10)]
    xi = torch.tensor([[[3.0, 4.0, 1.0], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    patterns = Machine(Patterns(Layers((2, 1), ((0, 1),)), xi))
    norm = 2**0.5 * 2**-0.5 * 5 * 2**0.5  # √(n_a n_b / K) |ξ_a| |ξ_b|
    assert bounds._rounding(patterns).item() == pytest.approx(4 * eps * 3 * norm, rel=1e-12)


def test_rounding_lifts_no_bound_above_the_ground_state():
    for seed, machine in enumerate(tight_ones()):
        machine.requires_grad_(False)
        if seed % 3 == 0:  # no frustration: Σ |J_ij| is reached
            for parameter in machine.couplings.parameters():
                parameter.abs_()
        if seed % 2:
            noise = torch.randn((1, machine.layers.columns), generator=stream(seed)).double()
            machine = Machine(machine.couplings, noise)
        energy = ground_state(machine, method="enumeration").energy
        assert bool((edge_bound(machine) <= energy).all()), (seed, machine)
        assert bool((semidefinite_bound(machine, passes=20) <= energy).all()), (seed, machine)
        assert bool((lowest(machine) >= edge_bound(machine)).all()), (seed, machine)


@pytest.mark.parametrize("machine", EVERY)
def test_no_energy_lies_below_the_bounds(machine):
    energy = lowest(machine)
    for bound in (edge_bound(machine), semidefinite_bound(machine)):
        assert bool((bound <= energy).all())
    # Whatever d the mixing stops at, the eigenvalue proves the bound.
    assert bool((semidefinite_bound(machine, passes=1) <= energy).all())
    tight = lower_bound(machine).energy
    assert bool((tight >= edge_bound(machine)).all())
    assert bool((tight >= 1.3 * energy).all())


@pytest.mark.parametrize("kind", ["sign", "continuous", "integer", "zeros"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_no_energy_of_patterns_lies_below_the_bounds(graph, kind):
    for k, biases in ((1, "none"), (3, "both"), (4, "hidden")):
        machine = machine_of(graph, k, kind, biases, seed=k, replicas=2)
        energy = lowest(machine)
        assert bool((edge_bound(machine) <= energy).all())
        assert bool((semidefinite_bound(machine) <= energy).all())


def test_the_semidefinite_bound_of_a_glass_is_the_better_one():
    for seed in range(3):
        machine = rbm(12, 12, scale=1.0, seed=seed)
        energy = ground_state(machine).energy.item()
        edge, tight = edge_bound(machine).item(), semidefinite_bound(machine).item()
        assert edge < tight < energy
        assert tight > 1.2 * energy
        assert machine.couplings.weights["0-1"].detach().abs().sum().item() > -edge


def test_generators_that_are_not_in_general_position_are_noticed():
    """Signs of four patterns: some plane through the origin holds four of the eight kinds of units."""
    (zonotope,) = zonotopes(rbm(30, 30, 4, seed=0))
    with watch("faces", zonotope.faces) as tick:
        assert zonotope_module._search_faces(zonotope, zonotope.directions, tick) is None
        shaken = zonotope.directions + 1e-5 * torch.randn(zonotope.directions.shape, generator=stream(0))
        assert zonotope_module._search_faces(zonotope, shaken, tick) is not None


@pytest.mark.parametrize(("make", "sizes"), [(bm, (7, 0)), (bm, (5, 3)), (rbm, (7, 4))])
def test_a_climb_ends_where_every_sign_follows_the_slope(make, sizes):
    made = make(*sizes, 3, seed=1, scale=0.5)
    made = Machine(made.couplings, torch.randn((1, made.layers.columns), generator=stream(3)))
    zonotope = zonotopes(made)[0]

    def heights(p):  # eq. (1)
        height = (p @ zonotope.rows.T + zonotope.offsets).abs().sum(1) + p[:, -1]
        return height + sum(0.5 * zonotope.scale * p[:, x].square().sum(1) for x in zonotope.squares)

    signs = SPIN.random((200, len(zonotope.generators)), stream(0), torch.float64)
    climbed = zonotope.climb(signs.clone())
    p = (climbed @ zonotope.generators).requires_grad_()
    assert bool((heights(p) >= heights(signs @ zonotope.generators) - 1e-9).all())
    (slope,) = torch.autograd.grad(heights(p).sum(), p)
    assert torch.equal(SPIN.nearest(slope @ zonotope.generators.T), climbed)


def test_a_bound_draws_from_no_generator_but_its_own():
    machine = bm(6, 3, seed=0, scale=1.0)
    before = torch.get_rng_state()
    assert torch.equal(semidefinite_bound(machine, passes=1), semidefinite_bound(machine, passes=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_one_pattern_is_bounded_tightly():
    for machine in (rbm(30, 20, 1, continuous=True, seed=0), dbm(9, (8, 7), 1, seed=0)):
        energy = ground_state(machine, method="zonotope").energy.item()
        assert edge_bound(machine).item() == pytest.approx(energy, rel=1e-9)
        assert semidefinite_bound(machine).item() == pytest.approx(energy, rel=1e-6)


@pytest.mark.parametrize(("largest", "methods"), [(5, "semidefinite"), (4, "4 units, not 5")])
def test_machines_up_to_a_size_are_bounded_by_both(largest, methods, monkeypatch):
    monkeypatch.setattr(bounds, "LARGEST", largest)
    assert lower_bound(rbm(3, 2, seed=0)).method.endswith(methods)


def test_large_machines_are_bounded_edge_by_edge():
    machine = rbm(1500, 1600, 40, seed=0)
    bound = lower_bound(machine)
    assert "3,000 units, not 3,100" in bound.method
    # √(VH) σ(J): far tighter than Σ_k |ξ|₁ |ξ|₁ / √K once there are many patterns
    assert bound.energy.item() > -1500 * 1600 * 40**0.5 / 10
    assert bound.energy.item() < machine.energy(machine.patterns.sign()).min().item()
