"""Maps of real columns: what goes there comes back, slopes are those of the map, densities sum to one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from rapidbm.data.monotone import Bins, NormalMap, fit_bins, fit_normal, quantile_count
from rapidbm.errors import InputError

RNG = np.random.default_rng(1)
SAMPLES = {
    "normal": RNG.normal(3, 2, 400),
    "lognormal": np.exp(2 * RNG.normal(size=400)),
    "ties": np.round(RNG.normal(size=400), 1),
    "two values": np.array([1.5, 2.5, 2.5]),
    "far apart": np.r_[RNG.normal(size=200), 1e6 + RNG.normal(size=200)],
}
WHOLE = {
    "poisson": RNG.poisson(20, 400).astype(float),
    "gaps": 50.0 * RNG.poisson(20, 400) - 300,
    "two": np.array([0.0, 1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_map_and_its_inverse(name):
    x = SAMPLES[name]
    found = fit_normal(x, whole=False)
    found.check("it")
    back = found.inverse(found.forward(x))
    assert np.abs(back - x).max() <= 1e-9 * np.abs(x).max()
    far = np.r_[x.min() - 3 * np.ptp(x), x.max() + 2 * np.ptp(x)]
    assert found.inverse(found.forward(far), outside=True) == pytest.approx(far)
    assert found.inverse(found.forward(far)).tolist() == [x.min(), x.max()]
    assert (np.diff(found.forward(np.sort(np.r_[np.unique(x), far]))) > 0).all()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_slope_is_the_derivative(name):
    found = fit_normal(SAMPLES[name], whole=False)
    knots = np.array(found.knots)
    edges = np.r_[knots[0] - 5, knots, knots[-1] + 5]
    x = (edges[1:] + edges[:-1]) / 2
    step = 1e-4 * np.diff(edges)
    numeric = (found.forward(x + step) - found.forward(x - step)) / (2 * step)
    assert np.exp(found.log_slope(x)) == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("name", [*SAMPLES, *WHOLE])
def test_the_density_is_one_in_all(name):
    whole = name in WHOLE
    found = fit_normal((WHOLE if whole else SAMPLES)[name], whole=whole)
    knots, tail = np.array(found.knots), 6 * (found.knots[-1] - found.knots[0])
    edges = np.r_[knots[0] - tail, knots, knots[-1] + tail]
    total = 0.0
    for low, high in pairwise(edges):
        x = np.linspace(low, high, 4002)[1:-1]  # a slope belongs to the inside of its interval
        density = norm.pdf(found.forward(x)) * np.exp(found.log_slope(x))
        total += density.sum() * (high - low) / len(x)
    assert total == pytest.approx(1, abs=2e-3)


def test_a_map_makes_values_normal():
    x = np.exp(RNG.normal(size=3000))
    assert kstest(fit_normal(x, whole=False).forward(x), "norm").pvalue > 0.05


def test_normal_draws_come_back_with_the_shares_of_whole_numbers():
    x = RNG.poisson(4, 1000).astype(float)
    found = fit_normal(x, whole=True, quantiles=1000)
    drawn = np.rint(found.inverse(RNG.normal(size=200_000)))
    for k in range(10):  # without gaps; the share of a number beside a gap is spread over it
        share = (x == k).mean()
        assert (drawn == k).mean() == pytest.approx(share, abs=5 * (share / 200_000) ** 0.5)
    # The density at its centre is the probability of a number, but for the curvature.
    k = np.unique(x)[2:-3]
    density = norm.pdf(found.forward(k)) * np.exp(found.log_slope(k))
    assert density == pytest.approx([(x == n).mean() for n in k], rel=0.1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=60))
def test_any_values_come_back(values):
    x = np.array(values)
    assume(np.ptp(x) > 1e-6)
    found = fit_normal(x, whole=False)
    found.check("it")
    assert np.abs(found.inverse(found.forward(x)) - x).max() <= 1e-9 * np.abs(x).max()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=60))
def test_any_whole_numbers_come_back(values):
    x = np.array(values, float)
    assume(np.ptp(x) > 0)
    found = fit_normal(x, whole=True)
    found.check("it")
    assert (np.rint(found.inverse(found.forward(x))) == x).all()


@pytest.mark.parametrize("name", SAMPLES)
def test_bins_of_real_numbers(name):
    x = SAMPLES[name]
    found = fit_bins(x, whole=False, bins=8)
    found.check("it")
    code = found.code(x)
    assert found.count <= 8
    assert set(code.tolist()) == set(range(found.count))
    drawn = found.draw(code, RNG.random(len(x)))
    assert (found.code(drawn) == code).mean() > 0.99  # edges are of measure zero
    assert x.min() <= drawn.min()
    assert drawn.max() <= x.max()
    weights = np.bincount(code) / len(x)
    edges = np.array(found.edges)
    wide = 40 * np.diff(edges)
    ends = np.r_[edges[0] - wide[0], edges, edges[-1] + wide[-1]]
    total = 0.0
    for low, high in pairwise(ends):
        at = np.linspace(low, high, 20002)[1:-1]
        total += (weights[found.code(at)] * np.exp(found.log_density(at))).mean() * (high - low)
    assert total == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("name", WHOLE)
def test_bins_of_whole_numbers_are_probabilities(name):
    x = WHOLE[name]
    found = fit_bins(x, whole=True, bins=5)
    found.check("it")
    weights = np.bincount(found.code(x)) / len(x)
    span = int(np.ptp(x)) + 1
    k = np.arange(x.min() - 40 * span, x.max() + 40 * span)
    p = weights[found.code(k)] * np.exp(found.log_density(k))
    assert p.sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("whole", [False, True])
def test_draws_in_bins_and_tails_follow_their_density(whole):
    bins = Bins((-0.5, 3.5, 5.5), (0.2, 0.3), whole)
    uniform = (np.arange(400_000) + 0.5) / 400_000
    for code in (0, 1):
        drawn = bins.draw(np.full(len(uniform), code), uniform, outside=True)
        if whole:
            for k in range(-4, 9):
                expected = np.exp(bins.log_density(np.array([k + 0.0])))[0] * (bins.code(k) == code)
                assert (drawn == k).mean() == pytest.approx(expected, abs=1e-4)
        else:
            for low in np.arange(-4.0, 9.0, 0.5):
                at = np.linspace(low, low + 0.5, 1002)[1:-1]
                expected = (np.exp(bins.log_density(at)) * (bins.code(at) == code)).mean() * 0.5
                assert ((drawn >= low) & (drawn < low + 0.5)).mean() == pytest.approx(expected, abs=1e-3)
        inside = bins.draw(np.full(len(uniform), code), uniform)
        assert bins.edges[code] <= inside.min()
        assert inside.max() <= bins.edges[code + 1]


def test_one_bin_has_both_tails():
    bins = Bins((0.0, 1.0), (0.25, 0.25), False)
    drawn = bins.draw(np.zeros(4, int), np.array([0.1, 0.4, 0.6, 0.9]), outside=True)
    assert drawn[0] < 0 < drawn[1] < drawn[2] < 1 < drawn[3]


def test_a_number_that_many_have_keeps_its_own_interval():
    """Few quantiles, and a fifth of the cells at 40: its share is its own."""
    x = np.r_[RNG.integers(0, 100, 800), np.full(200, 40)].astype(float)
    found = fit_normal(x, whole=True, quantiles=12)
    assert {39.5, 40.5} <= set(found.knots)
    assert len(found.knots) <= 24
    drawn = np.rint(found.inverse(RNG.normal(size=100_000)))
    assert (drawn == 40).mean() == pytest.approx((x == 40).mean(), abs=0.01)
    assert len(fit_normal(x + 0.5 * RNG.random(1000), whole=False, quantiles=12).knots) <= 12


def test_quantiles_grow_with_the_rows_and_end():
    assert [quantile_count(n) for n in (2, 100, 3000, 10**9)] == [4, 13, 49, 1000]


@pytest.mark.parametrize(
    ("knots", "normal", "low", "high"),
    [
        ((0.0, 0.0), (0.0, 1.0), 0.0, 1.0),
        ((0.0, 1.0), (1.0, 1.0), 0.0, 1.0),
        ((0.0,), (1.0,), 0.0, 0.0),
        ((0.0, 1.0), (0.0, 1.0, 2.0), 0.0, 1.0),
        ((0.0, 1.0), (0.0, 1.0), 0.0, 2.0),
        ((0.0, 1e-320), (0.0, 1.0), 0.0, 1e-320),
    ],
)
def test_what_is_no_map(knots, normal, low, high):
    with pytest.raises(InputError, match="it: "):
        NormalMap(knots, normal, low, high).check("it")


@pytest.mark.parametrize(
    ("edges", "outside", "whole"),
    [
        ((0.0,), (0.1, 0.1), False),
        ((1.0, 0.0), (0.1, 0.1), False),
        ((0.0, 1.0), (0.1,), False),
        ((0.0, 1.0), (0.0, 0.1), False),
        ((0.0, 1.0), (0.1, 0.1), True),
    ],
)
def test_what_are_no_bins(edges, outside, whole):
    with pytest.raises(InputError, match="it: "):
        Bins(edges, outside, whole).check("it")
