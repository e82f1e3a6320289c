"""Overlaps, freezing, triangles and spectra against enumeration, closed forms and repetition."""

import math

import pytest
import torch

from conftest import machines
from rapidbm.errors import InputError
from rapidbm.estimates import Estimate
from rapidbm.glass.overlaps import (
    aligned_edges,
    edwards_anderson,
    energies_per_unit,
    freezing,
    overlap_distribution,
    overlaps,
    ultrametricity,
)
from rapidbm.glass.spectra import pattern_overlaps, spectrum
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweep
from rapidbm.testing import exact_distribution


def exact_draws(machine, chains, rng):
    every, p = exact_distribution(machine)
    return every[torch.multinomial(p, chains, replacement=True, generator=rng)]  # (e, c, n)


def exact_overlaps(machine):
    """Values of q and their probabilities (e, values), by all pairs of states."""
    every, p = exact_distribution(machine)
    n = machine.layers.columns
    agree = ((every @ every.T + n) / 2).round().long()  # 0 … n
    joint = p[:, :, None] * p[:, None]
    mass = torch.stack([torch.bincount(agree.flatten(), one.flatten(), n + 1) for one in joint])
    return torch.linspace(-1, 1, n + 1, dtype=torch.float64), mass


def z(estimate, exact):
    """How many errors the farthest replica is off. Above 5.5 by chance: 4e-8 for each number."""
    return ((estimate.value - exact) / estimate.error).abs().max()


# -- P(q) -----------------------------------------------------------------------------------------


def test_overlaps_of_three_chains_by_hand():
    spins = torch.tensor([[[1, 1, 1, 1], [1, 1, 1, -1], [-1, -1, 1, 1]]])
    assert overlaps(spins).tolist() == [[0.5, 0.0, -0.5]]
    assert overlaps(spins, fold=True).tolist() == [[0.5, 0.0, 0.5]]


@pytest.mark.parametrize("machine", machines(2) + machines(1, biases=False))
def test_distribution_of_overlaps_is_the_enumerated_one(machine):
    q, mass = exact_overlaps(machine)
    found = overlap_distribution(exact_draws(machine, 200, stream(0)))
    assert found.density.value.shape == (machine.replicas, len(found.edges) - 1)
    probability = found.density.value * found.edges.diff()
    assert torch.allclose(probability.sum(1), torch.ones(machine.replicas, dtype=torch.float64))
    # Few units: each bin holds one value of q.
    error = found.density.error * found.edges.diff()
    assert probability.shape == mass.shape
    assert (probability - mass).abs().le(6 * error + 1e-3).all()
    assert z(found.mean, (mass * q).sum(1)) < 5.5
    assert z(found.size, (mass * q.abs()).sum(1)) < 5.5
    square = (mass * q.square()).sum(1)
    assert z(found.square, square) < 5.5
    assert z(found.variance, square - (mass * q).sum(1).square()) < 5.5
    assert z(found.binder, (3 - (mass * q**4).sum(1) / square**2) / 2) < 5.5
    assert z(found.near_zero, (mass * (q.abs() < 0.2)).sum(1)) < 5.5


# Of 200 repetitions the deviation is known to 5.5 %; the logarithm of the ratio is off by more than 0.32
# with p < 1e-6. Of pairs that are independent, as in a paramagnet, a jackknife over chains is √2 too
# large.
@pytest.mark.parametrize(("scale", "ratio"), [(0.01, 2**0.5), (0.8, 1.07)])
def test_errors_of_the_square_are_what_repetition_gives(scale, ratio):
    every, p = exact_distribution(rbm(4, 3, scale=scale, seed=3, dtype=torch.float64))
    drawn = torch.multinomial(p.expand(200, -1), 40, replacement=True, generator=stream(0))
    many = overlap_distribution(every[drawn]).square
    found = many.error.square().mean().sqrt() / many.value.std()
    assert abs(math.log(found / ratio)) < 0.32


@pytest.mark.parametrize(
    "units", [3, 4, 7, 39, 40, 41, 60, 80, 81, 82, 120, 121, 128, 160, 161, 201, 1000]
)  # N and the step, both odd or even, in all four ways
def test_bins_hold_equally_many_values_and_none_on_an_edge(units):
    edges = aligned_edges(units)
    q = torch.linspace(-1, 1, units + 1, dtype=torch.float64)
    assert edges[0] <= -1 + 1e-12
    assert edges[-1] >= 1 - 1e-12
    assert (q[:, None] - edges).abs().min() > 0.4 / units
    inside = torch.histogram(q, edges).hist
    assert inside.sum() == units + 1
    assert inside[1:-1].unique().numel() <= 1
    assert torch.equal(edges, -edges.flip(0))
    assert 20 <= len(edges) - 1 <= 61 or units < 39


def test_given_edges_are_used_and_the_last_bin_is_closed():
    spins = torch.ones(1, 4, 6)
    found = overlap_distribution(spins, edges=torch.tensor([-1.0, 0.0, 1.0]))
    assert found.density.value.tolist() == [[0.0, 1.0]]
    assert found.density.error.tolist() == [[0.0, 0.0]]


# -- freezing -------------------------------------------------------------------------------------


def test_a_frozen_machine_has_overlap_one_and_a_free_one_zero():
    rng = stream(0)
    still = SPIN.random((2, 8, 1, 50), rng).expand(-1, -1, 20, -1)
    frozen = freezing(still)
    assert frozen.within.value.tolist() == [1.0, 1.0]
    assert frozen.within.error.tolist() == [0.0, 0.0]
    assert z(frozen.between, 0.0) < 4.5  # chains in valleys of their own
    free = SPIN.random((2, 8, 20, 50), rng)
    assert z(edwards_anderson(free), 0.0) < 5.5


def test_in_a_field_every_overlap_is_the_mean_of_tanh_squared():
    b = torch.linspace(-1.5, 1.5, 12, dtype=torch.float64)[None]
    layers = Layers((6, 6), ((0, 1),))
    machine = Machine(Dense(layers, {(0, 1): torch.zeros(1, 6, 6, dtype=torch.float64)}), b)
    rng = stream(1)
    spins = machine.random(60, rng)
    series = []
    for _ in range(40):
        spins = sweep(machine, spins, rng)
        series.append(spins)
    found = freezing(torch.stack(series, 2))
    exact = b.tanh().square().mean()
    assert z(found.within, exact) < 5.5
    assert z(found.between, exact) < 5.5
    assert z(found.gap, 0.0) < 5.5


def test_error_of_the_order_parameter_is_what_repetition_gives():
    value = torch.linspace(0.1, 0.9, 30)
    draws = torch.rand((1000, 10, 12, 30), generator=stream(2))
    many = edwards_anderson((draws < value).float() * 2 - 1)
    exact = (2 * value - 1).square().mean()
    assert abs(many.value.mean() - exact) < 5.5 * many.value.std() / math.sqrt(1000)  # no bias
    # The deviation is known to 2.3 %, and 0.96 is the ratio of errors from ten chains: p < 1e-6.
    assert 0.85 < many.error.mean() / many.value.std() < 1.15


def test_error_of_the_gap_is_what_repetition_gives():
    xi = SPIN.random((2, 100), stream(10))
    valley = (torch.rand((400, 24), generator=stream(11)) < 0.3).long()
    many = freezing(xi[valley][:, :, None].expand(-1, -1, 2, -1))
    for found in (many.between, many.gap):  # 1.03, and the deviation known to 4.5 %: p < 1e-6
        assert 0.8 < found.error.mean() / found.value.std() < 1.4


def test_patterns_of_low_energy_are_several_states():
    xi = SPIN.random((1, 2, 200), stream(3))
    chains = xi[:, torch.arange(20) % 2][:, :, None].expand(-1, -1, 4, -1)
    found = freezing(chains, fold=True)
    assert found.within.value == 1
    assert found.gap.value > 0.4  # half of the pairs sit in the other pattern
    assert found.gap.error < 0.05


def test_folded_chains_count_with_their_negatives():
    rng = stream(9)
    xi = SPIN.random((1, 1, 60), rng)
    turn = torch.where(torch.arange(10) % 2 == 0, 1.0, -1.0)[:, None]
    series = (xi * turn)[:, :, None].expand(-1, -1, 4, -1)
    folded, plain = freezing(series, fold=True), freezing(series)
    assert (float(folded.between.value), float(folded.gap.value)) == (1.0, 0.0)
    assert float(plain.between.value) == pytest.approx(-1 / 9)  # 20 pairs agree, 25 do not
    spins = SPIN.random((1, 10, 60), rng)
    one, two = (ultrametricity(x, stream(0), fold=True) for x in (spins, spins * turn))
    assert torch.equal(one.found.distances, two.found.distances)
    for triangles in (one.found, one.null):
        assert float(triangles.distances.max()) <= 0.5


def test_near_is_where_it_is_asked_for():
    spins = exact_draws(rbm(4, 3, seed=3, dtype=torch.float64), 40, stream(0))
    q = overlaps(spins)
    for near in (0.2, 0.5, 1.0):
        found = overlap_distribution(spins, near=near)
        assert found.near == near
        assert torch.allclose(found.near_zero.value, (q.abs() < near).double().mean(1))


# -- triangles ------------------------------------------------------------------------------------


def tree(chains_per_leaf, units, rng):
    """Two levels of branches: 3 families of 3 members; each level turns a share of fair units."""
    root = SPIN.random((1, units), rng)
    leaves = []
    for _ in range(3):
        turned = torch.rand((1, units), generator=rng) < 0.5
        family = torch.where(turned, SPIN.random((1, units), rng), root)
        for _ in range(3):
            turned = torch.rand((1, units), generator=rng) < 0.4
            leaves.append(torch.where(turned, SPIN.random((1, units), rng), family))
    return torch.cat(leaves).repeat_interleave(chains_per_leaf, 0)[None]


def test_a_tree_is_ultrametric_and_points_on_a_line_are_not():
    rng = stream(4)
    branched = ultrametricity(tree(3, 20_000, rng), rng)
    assert branched.found.k.value < 0.1
    assert branched.found.isosceles.value > 0.9
    assert branched.null.k.value > 0.5
    line = torch.ones(1, 30, 300)
    for i in range(30):
        line[0, i, : 10 * i] = -1  # d is the distance along a line: d_3 = d_1 + d_2
    straight = ultrametricity(line, rng)
    sides = straight.found.distances
    assert torch.allclose(sides[..., 2], sides[..., 0] + sides[..., 1])
    assert straight.found.k.value > 0.5
    low = straight.found.isosceles
    assert low.value + 3 * low.error < branched.found.isosceles.value


def test_independent_spins_look_like_the_null():
    rng = stream(5)
    found = ultrametricity(SPIN.random((2, 100, 4000), rng), rng)
    for triangles in (found.found, found.null):
        # Spacing of the two largest of three Gaussians: 3/(2√π) = 0.846.
        assert z(triangles.k, 1.5 / math.sqrt(math.pi)) < 5.5
        assert z(triangles.isosceles, 0.5) < 5.5
        assert triangles.k.error.max() < 0.05


def test_triples_are_of_three_different_chains():
    states = SPIN.random((1, 4, 500), stream(6))
    sides = ultrametricity(states, stream(7), triples=2000).found.distances
    apart = (1 - overlaps(states)) / 2
    assert torch.allclose(sides.flatten().unique(), apart.unique())  # no 0: none with itself


def test_error_of_triangles_is_what_repetition_gives():
    rng, leaves = stream(8), tree(1, 200, stream(9))[0]
    noise = torch.where(torch.rand((200, 24, 200), generator=rng) < 0.1, -1.0, 1.0)
    chosen = leaves[torch.randint(9, (200, 24), generator=rng)]
    many = ultrametricity(chosen * noise, rng, triples=1000).found.isosceles
    # Some chains share a leaf: 1.37, and the deviation of 200 is known to 5 %, p < 1e-6.
    assert 1.0 < many.error.mean() / many.value.std() < 1.9


# -- energies and spectra -------------------------------------------------------------------------


@pytest.mark.parametrize("machine", machines(2))
def test_mean_energy_is_the_enumerated_one(machine):
    every, p = exact_distribution(machine)
    found = energies_per_unit(machine, exact_draws(machine, 2000, stream(0)))
    exact = (p * machine.energy(every)).sum(1) / machine.layers.columns
    assert found.shape == (2, 2000)
    assert z(Estimate.of(found), exact) < 5.5


@pytest.mark.parametrize("patterns", [None, 1, 3, 12])
@pytest.mark.parametrize("sizes", [(9, 7), (5, 14)])
def test_singular_values_are_those_of_the_matrix(patterns, sizes):
    machine = rbm(*sizes, patterns, scale=0.7, replicas=2, seed=1)
    found = spectrum(machine)
    matrix = machine.couplings.matrix(0, 1).double()
    exact = torch.linalg.svdvals(matrix)
    count = found.values.shape[1]
    assert count == min(*sizes, patterns or 99)
    assert torch.allclose(found.values, exact[:, :count], atol=1e-5)
    rms = matrix.square().mean((1, 2)).sqrt()
    assert torch.allclose(found.edge, rms * (math.sqrt(sizes[0]) + math.sqrt(sizes[1])))
    assert (found.limit > found.edge * 0.9).all()


@pytest.mark.parametrize("patterns", [None, 3])
def test_eigenvalues_of_a_full_machine(patterns):
    machine = bm(5, 4, patterns, scale=0.7, seed=2, dtype=torch.float64)
    found = spectrum(machine)
    whole = torch.zeros(9, 9, dtype=torch.float64)
    for i in range(9):
        unit = torch.zeros(1, 1, 9, dtype=torch.float64)
        unit[..., i] = 1.0
        whole[i] = torch.cat([machine.field(unit, layer, means=True) for layer in (0, 1)], -1)[0, 0]
    whole.fill_diagonal_(0.0)
    assert torch.allclose(found.values[0], torch.linalg.eigvalsh(whole).flip(0), atol=1e-6)
    assert found.kind == "eigenvalues"


def test_random_couplings_have_no_outliers_and_patterns_have_k():
    # One replica in a hundred has an outlier by chance: six of twenty with p < 1e-6.
    assert spectrum(rbm(100, 60, scale=1.0, replicas=20, seed=0)).outliers.sum() <= 5
    assert spectrum(bm(80, scale=1.0, replicas=20, seed=0)).outliers.sum() <= 5
    few = spectrum(dbm(100, (60, 10), 3, replicas=4, seed=0))
    assert few.outliers.tolist() == [3] * 4
    assert ((few.effective_rank > 2) & (few.effective_rank <= 3 + 1e-9)).all()


def test_edges_of_random_couplings():
    """Eqs. (1) and (2): nearly all of the largest values lie just below the limit."""
    for machine in (
        rbm(30, 20, scale=1.0, replicas=500, seed=0),
        bm(30, scale=1.0, replicas=500, seed=0),
    ):
        found = spectrum(machine)
        largest = found.values.abs().amax(1)
        assert 0.8 < float((largest / found.limit).median()) < 1.0
        assert int(found.outliers.sum()) <= 20  # 5 by chance, more than 20 with p < 1e-6
        assert bool((found.limit > found.edge).all()) or found.kind == "singular values"
    full = bm(9, scale=0.7, replicas=2, seed=0, dtype=torch.float64)
    rms = (full.couplings.matrix(0, 0).square().sum((1, 2)) / (9 * 8)).sqrt().detach()
    assert torch.allclose(spectrum(full).edge, 2 * rms * 3)


def test_an_eigenvalue_far_below_is_an_outlier_too():
    machine = bm(40, scale=1.0, seed=0, dtype=torch.float64)
    xi = SPIN.random((40,), stream(0), torch.float64)
    for push in (1.0, -1.0):
        planted = machine.couplings.matrix(0, 0).detach() + push * torch.outer(xi, xi)
        planted.diagonal(dim1=1, dim2=2).zero_()
        layers = machine.layers
        assert spectrum(Machine(Dense(layers, {(0, 0): planted}))).outliers.tolist() == [1]


def test_equal_singular_values_have_full_effective_rank():
    layers = Layers((4, 4), ((0, 1),))
    found = spectrum(Machine(Dense(layers, {(0, 1): torch.eye(4)[None]})))
    assert found.effective_rank.tolist() == pytest.approx([4.0])


def test_overlaps_of_patterns():
    machine = rbm(100, 400, 20, replicas=3, seed=0)
    found = pattern_overlaps(machine)
    assert found.expected.tolist() == pytest.approx([0.1, 0.05])
    # 190 pairs: their root mean square is known to 1/√380, 5 %; six of these, p < 1e-6.
    assert ((found.rms / found.expected - 1).abs() < 0.3).all()
    xi = machine.patterns.detach()[0, :, :100]
    assert torch.allclose(found.matrices[0][0], (xi @ xi.T / 100).double(), atol=1e-6)
    layers = Layers((4, 4), ((0, 1),))
    same = Machine(Patterns(layers, torch.tensor([1.0, -2.0])[:, None].expand(2, 8)[None].clone()))
    assert pattern_overlaps(same).matrices[1][0].tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    assert pattern_overlaps(rbm(3, 2, seed=0)) is None


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: overlaps(torch.ones(3, 4)), r"\(replicas, chains, units\), not .* \(3, 4\)"),
        (lambda: overlaps(torch.ones(1, 1, 4)), "at least 2 independent chains, not 1"),
        (lambda: overlap_distribution(torch.ones(1, 3, 4)), "at least 4 .* not 3; run more"),
        (lambda: overlaps(torch.full((1, 3, 4), 0.5)), "±1, but there is a 0.5; draw"),
        (lambda: overlap_distribution(torch.ones(1, 4, 4), near=0.0), "near .* not 0.0"),
        (
            lambda: overlap_distribution(torch.ones(1, 4, 4), edges=torch.tensor([1.0, 0.0])),
            r"two rising numbers, not \[1.0, 0.0\]",
        ),
        (lambda: edwards_anderson(torch.ones(1, 3, 4)), r"times, units\) .* not \(1, 3, 4\)"),
        (lambda: edwards_anderson(torch.ones(1, 3, 1, 4)), r"not \(1, 3, 1, 4\); keep"),
        (lambda: ultrametricity(torch.ones(1, 4, 4), stream(0), triples=0), "triples .* not 0"),
    ],
)
def test_errors_say_the_rule_the_value_and_the_remedy(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_inputs_are_left_as_they_are():
    spins = SPIN.random((1, 6, 2, 10), stream(0))
    before = spins.clone()
    freezing(spins, fold=True)
    overlap_distribution(spins[:, :, 0], fold=True)
    ultrametricity(spins[:, :, 0], stream(0), fold=True)
    assert torch.equal(spins, before)
    assert isinstance(edwards_anderson(spins), Estimate)
