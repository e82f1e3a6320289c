"""Rows under conditions beside enumeration, truncated draws, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import rapidbm as rb
from rapidbm.inference import conditions
from rapidbm.inference.restricted import Chosen, Within, log_mass, truncated_normal
from rapidbm.machines.cells import places

FALSE = 1e-4  # how often a right sampler fails one of these tests; seeds are fixed
INF = math.inf


class SpinOne(rb.Levels):
    kind = "spin-one"
    values = (-1.0, 0.0, 1.0)
    energies = (0.0, 0.4, 0.1)


def shaken(machine, size=0.6):
    rng = rb.stream(5, "biases")
    machine.biases.data.copy_(size * torch.randn(machine.biases.shape, generator=rng))
    return machine


def one(*given, **more):
    return rb.Condition(*given, **more)


TWO = (rb.Spin(), rb.Categorical(3))
KINDS = (rb.Spin(), rb.Categorical((3, 4)), rb.Binary())
CASES = {  # a machine, and conditions on it
    "mixed": (
        lambda: rb.rbm((3, 2, 2), 5, units=KINDS, scale=0.8, biases=True, replicas=2, seed=1),
        (one(0, among=1), one(4, among=(1, 3)), one(6, among=False)),
    ),
    "range of codes": (
        lambda: rb.rbm(4, 5, units=rb.Categorical(4), scale=0.8, biases=True, seed=1),
        (one(1, low=1, high=2), one(2, low=2)),
    ),
    "levels": (
        lambda: rb.rbm(5, 4, units=SpinOne(), scale=0.7, biases=True, seed=1),
        (one(0, among=(-1, 1)), one(3, low=0)),
    ),
    "axons": (
        lambda: rb.rbm(8, 6, 3, scale=0.5, continuous=True, biases=True, seed=1),
        (one(0, among=1), one(1, among=0)),
    ),
    "full axons": (
        lambda: rb.bm(8, 2, 3, scale=0.4, continuous=True, biases=True, seed=1),
        (one(0, among=1), one(1, among=-1)),
    ),
    "full categories": (
        lambda: rb.bm(3, 2, units=rb.Categorical(3), scale=0.5, biases=True, seed=1),
        (one(0, among=(0, 2)), one(2, among=1)),
    ),
    "deep": (
        lambda: rb.dbm((4, 2), (4, 3), units=TWO, scale=0.6, biases=True, seed=1),
        (one(0, among=1), one(5, among=(0, 1))),
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", CASES)


def enumerated(machine, asked):
    """All rows that meet the conditions, their probabilities (e, s), and that of all of them, (e,)."""
    every = places(machine)
    values = torch.cartesian_prod(*(place.values for place in every))
    p = torch.softmax(machine.double().log_prob_unnormalised(values).detach(), 1)
    there = torch.ones(len(values), dtype=torch.bool)
    for condition in asked:
        listed = every[condition.unit].values.tolist()
        kept = [x for x in listed if conditions._in_units(condition, listed).allows(x)]
        there &= torch.isin(values[:, condition.unit], torch.tensor(kept, dtype=torch.float64))
    return values[there], p[:, there], p[:, there].sum(1)


def chi_square(values, p, drawn):
    """p of rows beside their probabilities (s,)."""
    number = {tuple(row): i for i, row in enumerate(values.tolist())}
    counts = torch.bincount(torch.tensor([number[tuple(x)] for x in drawn.tolist()]), minlength=len(p))
    expected = p / p.sum() * len(drawn)
    many = expected >= 5
    kept = torch.cat([expected[many], expected[~many].sum()[None]])
    seen = torch.cat([counts[many], counts[~many].sum()[None]]).double()
    if kept[-1] == 0:
        kept, seen = kept[:-1], seen[:-1]
    return float(stats.chisquare(seen.numpy(), kept.numpy()).pvalue) if len(kept) > 1 else 1.0


@each
@pytest.mark.parametrize("method", ["exact", "chains"])
def test_rows_under_conditions_have_their_distribution(name, method):
    make, asked = CASES[name]
    machine = shaken(make())
    values, p, whole = enumerated(shaken(make()), asked)
    found = rb.sample_given(machine, asked, 2000, method=method, seed=3)
    assert found.method == method
    assert found.rows.shape == (machine.replicas, 2000, values.shape[1])
    for drawn, mine in zip(found.rows, p, strict=True):
        assert chi_square(values, mine, drawn) > FALSE / len(CASES)
    assert bool((found.rhat < 1.1).all())
    assert bool((found.ess > 500).all())
    found = found.log_probability
    assert found.method == "exact"
    torch.testing.assert_close(found.value, whole.log(), rtol=0, atol=1e-5)


def rare():
    """A machine of 20 units, and a condition of which the probability is about 10⁻⁶: units that want to
    be equal, and are not."""
    layers = rb.Layers((14, 6), ((0, 1),))
    rng = rb.stream(0, "rare")
    weights = 0.28 + 0.1 * torch.randn((1, 14, 6), generator=rng)
    machine = rb.Machine(rb.Dense(layers, {(0, 1): weights}), 0.1 * torch.randn((1, 20), generator=rng))
    return machine, tuple(one(i, among=1 if i % 2 else -1) for i in range(9))


@pytest.mark.parametrize("method", ["exact", "chains"])
def test_a_condition_of_one_in_a_million(method):
    machine, asked = rare()
    values, p, whole = enumerated(rare()[0], asked)
    assert 2e-7 < float(whole) < 5e-6
    found = rb.sample_given(machine, asked, 2000, method=method, seed=1)
    assert chi_square(values, p[0], found.rows[0]) > FALSE
    assert float(found.log_probability.value) == pytest.approx(math.log(float(whole)), abs=1e-4)


def test_annealed_probabilities_hold_the_truth(monkeypatch):
    monkeypatch.setattr(
        conditions, "log_z", lambda machine, seed: rb.log_z(machine, method="ais", seed=seed)
    )
    machine, asked = rare()
    wanted = float(enumerated(rare()[0], asked)[2].log())
    for name in ("mixed", "full categories", "levels"):
        make, other = CASES[name]
        truth = enumerated(shaken(make()), other)[2].log()
        found = rb.sample_given(shaken(make()), other, 10, seed=2).log_probability
        assert found.method == "ais"
        assert bool((found.lower <= truth).all())
        assert bool((truth <= found.upper).all())
    found = rb.sample_given(machine, asked, 10, seed=2).log_probability
    assert float(found.lower) <= wanted <= float(found.upper)
    assert float(found.upper - found.lower) < 1.5


# -- real units ----------------------------------------------------------------------------------------


def reals():
    machine = rb.rbm((2, 2), 4, units=(rb.Categorical(3), rb.Gaussian()), scale=0.7, biases=True, seed=1)
    machine = shaken(machine)
    machine.own["1"].data.copy_(torch.tensor([[[0.4, -0.3]]]))
    return machine


def density(machine, asked, first):
    """log p of the two real units over a grid within `asked` ranges, summed over the rest."""
    grids = [torch.linspace(max(c.low, -14), min(c.high, 14), 301, dtype=torch.float64) for c in asked]
    middles = [0.5 * (g[1:] + g[:-1]) for g in grids]
    area = sum(math.log(float(g[1] - g[0])) for g in grids)
    x = torch.cartesian_prod(*middles)
    total = []
    for a in first:
        for b in range(3):
            rows = torch.cat([torch.tensor([[a, b]], dtype=torch.float64).expand(len(x), 2), x], 1)
            total.append(machine.double().log_prob_unnormalised(rows).detach()[0] + area)
    logs = torch.logsumexp(torch.stack(total), 0)
    return x, logs, grids


@pytest.mark.parametrize("method", ["exact", "chains"])
@pytest.mark.parametrize("ends", [(0.5, 1.0, -INF, INF), (-1.0, 0.2, 1.5, INF), (5.0, 5.5, -7.0, -5.0)])
def test_ranges_of_real_units(method, ends):
    asked = (
        one(2, low=ends[0], high=ends[1]),
        one(3, low=ends[2], high=ends[3]) if ends[2:] != (-INF, INF) else None,
    )
    asked = tuple(x for x in asked if x is not None)
    machine = reals()
    found = rb.sample_given(machine, (one(0, among=1), *asked), 3000, method=method, seed=7)
    drawn = found.rows[0]
    assert bool(((drawn[:, 2] >= ends[0]) & (drawn[:, 2] <= ends[1])).all())
    assert bool(((drawn[:, 3] >= ends[2]) & (drawn[:, 3] <= ends[3])).all())
    ranges = (one(2, low=ends[0], high=ends[1]), rb.Condition(3, low=max(ends[2], -20), high=ends[3]))
    x, logs, _ = density(reals(), ranges, (1,))
    whole = float(torch.logsumexp(logs, 0)) - float(rb.log_z(reals().double()).value)
    assert float(found.log_probability.value) == pytest.approx(whole, abs=2e-3)
    p = torch.softmax(logs, 0)
    for column in (0, 1):  # ten bins of equal probability, from the grid
        values, order = x[:, column].sort()
        below = p[order].cumsum(0)
        cuts = values[torch.searchsorted(below, torch.arange(0.1, 1.0, 0.1, dtype=torch.float64))]
        share = torch.stack([p[x[:, column] <= cut].sum() for cut in cuts])
        step = float(values.unique()[1] - values.unique()[0])
        expected = torch.diff(share, prepend=torch.zeros(1), append=torch.ones(1)) * len(drawn)
        seen = torch.bincount(
            torch.bucketize(drawn[:, 2 + column].contiguous(), cuts + 0.5 * step), minlength=10
        )
        assert stats.chisquare(seen.numpy(), expected.numpy()).pvalue > FALSE / 10


def test_a_real_unit_may_have_one_value():
    machine = reals().double()
    found = rb.sample_given(machine, one(2, among=0.7), 20, seed=0)
    assert found.rows[0, :, 2].unique().tolist() == [0.7]
    nan = math.nan
    wanted = rb.log_p(machine, [[nan, nan, 0.7, nan]]).value
    torch.testing.assert_close(found.log_probability.value, wanted[:, 0], rtol=0, atol=1e-9)


INTERVALS = [
    (-1, 2),
    (3, 4),
    (-INF, -8),
    (10, INF),
    (40, INF),
    (200, 201),
    (1e-9, 2e-9),
    (-50, 50),
    (-INF, INF),
]


@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_truncated_normal_numbers_in_the_tails(low, high):
    r = torch.rand(20_000, generator=rb.stream(0, "r"), dtype=torch.float64)
    left, right = (torch.full_like(r, float(x)) for x in (low, high))
    x = truncated_normal(left, right, r)
    assert bool(((x >= left) & (x <= right)).all())
    assert bool(x.isfinite().all())
    # By the masses of intervals alone: P(X ≤ x) is uniform.
    below = (log_mass(left, x) - log_mass(left, right)).exp()
    assert stats.kstest(below.nan_to_num().numpy(), "uniform").pvalue > FALSE
    if low > -38 and high < 38:
        wanted = math.log(
            stats.norm.cdf(high) - stats.norm.cdf(low)
            if low < 0
            else stats.norm.sf(low) - stats.norm.sf(high)
        )
        assert float(log_mass(left[:1], right[:1])) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_the_mean_of_a_unit_under_conditions_is_the_slope_of_its_log_sum(beta):
    within = Within(
        rb.Gaussian(torch.tensor([[[0.3, -0.4]]], dtype=torch.float64)), (-1.0, 2.0), (0.5, INF)
    )
    chosen = Chosen(rb.Categorical((3, 2)), ((0, 2), (0, 1)))
    levels = Chosen(SpinOne(), ((0, 2), (1, 2)))
    for unit, columns in ((within, 2), (chosen, 5), (levels, 2)):
        field = torch.randn((1, 7, columns), generator=rb.stream(0, "f"), dtype=torch.float64)
        field.requires_grad_()
        if unit is within:  # its mean looks at no gradient
            steps = torch.eye(2, dtype=torch.float64) * 1e-5
            slopes = [
                (unit.log_sum(field + s, beta) - unit.log_sum(field - s, beta)).sum(-1) / 2e-5
                for s in steps
            ]
            slope = torch.stack(slopes, -1)
        else:
            (slope,) = torch.autograd.grad(unit.log_sum(field, beta).sum(), field)
        torch.testing.assert_close(
            unit.mean(field.detach(), beta), slope.detach() / beta, rtol=0, atol=1e-6
        )


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((one(9, among=1),), "no unit 9 to put"),
        ((one(0, among=3, name="colour"),), "colour has no state 3; its states are 0, 1, 2"),
        ((one(0, among=1), one(0, among=2)), "on unit 0 contradict each other: among 1 and among 2"),
        ((one(0, low=0.2, high=0.8),), "on unit 0 allow nothing"),
        (
            (one(2, low=1), one(2, high=0, name="unit 2")),
            "contradict each other: from 1 to inf and from -inf to 0",
        ),
        ((one(2, among=(1, 2)),), "give it one value or a range"),
        ((3,), "conditions are rapidbm.Condition"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused(asked, words):
    with pytest.raises(rb.InputError, match=words):
        rb.sample_given(reals(), asked, 5)


def test_a_condition_asks_something():
    for given in ({}, {"low": "x"}, {"low": math.nan}, {"among": ("red",)}, {"among": ()}):
        with pytest.raises(rb.InputError, match="unit 0"):
            rb.Condition(0, **given)


def test_more_rows_than_chains_and_the_same_seed(monkeypatch):
    monkeypatch.setattr(conditions, "CHAINS", 50)
    machine = shaken(CASES["mixed"][0]())
    first, second = (
        rb.sample_given(machine, CASES["mixed"][1], 120, method="chains", probability=False, seed=4).rows
        for _ in range(2)
    )
    assert first.shape[1] == 120
    assert torch.equal(first, second)
