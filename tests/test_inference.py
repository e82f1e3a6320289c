"""Rows with missing cells beside enumeration: log p, draws, predictions, scores; every kind of unit."""

from __future__ import annotations

import itertools
import math
import warnings
from functools import cache

import pytest
import torch
from scipy import stats

import rapidbm as rb
from rapidbm.inference import annealed_rows, chains, few_terms, labels, missing, rows, scores
from rapidbm.inference.few_terms import FewTerms, HiddenStates, MissingStates
from rapidbm.machines.cells import cells_of, places, precise

NAN = math.nan
GRID = torch.linspace(-14.0, 14.0, 561, dtype=torch.float64)  # of a real unit of deviation 1 or so
FALSE = 1e-4  # how often a right sampler fails one of these tests; seeds are fixed


class SpinOne(rb.Levels):
    kind = "spin-one"
    values = (-1.0, 0.0, 1.0)
    energies = (0.0, 0.4, 0.1)


def shaken(machine, seed=5, size=0.6):
    """With biases and precisions that are not 0."""
    rng = rb.stream(seed, "biases")
    for name, parameter in machine.named_parameters():
        if name == "biases":
            parameter.data.copy_(size * torch.randn(parameter.shape, generator=rng))
        if name.startswith("own."):
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=rng))
    return machine.double()


REALS = (rb.Categorical(3), rb.Gaussian())
TWO = (rb.Spin(), rb.Categorical(3))
MIXED = (rb.Spin(), rb.Categorical((3, 2)), rb.Binary())
MAKE = {
    "spins": lambda: rb.rbm(4, 3, scale=0.6, biases=True, replicas=2, seed=1),
    "no biases": lambda: rb.rbm(4, 3, scale=0.6, seed=1),
    "axons": lambda: rb.rbm(4, 3, 2, scale=0.5, continuous=True, biases=True, seed=1),
    "mixed": lambda: rb.rbm((2, 2, 1), 3, units=MIXED, scale=0.8, biases=True, replicas=2, seed=1),
    "levels": lambda: rb.rbm(3, 2, units=SpinOne(), scale=0.7, biases=True, seed=1),
    "reals": lambda: rb.rbm((2, 1), 3, units=REALS, scale=0.7, biases=True, seed=1),
    "two reals": lambda: rb.rbm(2, 3, units=rb.Gaussian(), scale=0.6, biases=True, seed=1),
    "real hidden": lambda: rb.rbm(4, 2, hidden_units=rb.Gaussian(), scale=0.5, biases=True, seed=1),
    "categories hidden": lambda: rb.rbm(3, 2, hidden_units=TWO[1], scale=0.8, biases=True, seed=1),
    "deep": lambda: rb.dbm((2, 1), (3, 2), units=TWO, scale=0.7, biases=True, seed=1),
    "full": lambda: rb.bm(4, 2, scale=0.5, biases=True, seed=1),
    "full categories": lambda: rb.bm(2, 2, units=rb.Categorical(3), scale=0.5, biases=True, seed=1),
    "full axons": lambda: rb.bm(4, 2, 3, scale=0.4, biases=True, continuous=True, seed=1),
}  # fmt: skip
each = pytest.mark.parametrize("name", MAKE)


@cache
def made(name):
    return shaken(MAKE[name]())


@cache
def table(name):
    """All visible rows, (s, units), real ones on a grid, and log p of each, (e, s); of a density times
    the spacing."""
    machine = made(name)
    lists, spacing = [], 0.0
    for place in places(machine):
        if place.values is None:
            lists.append(GRID)
            spacing += math.log(float(GRID[1] - GRID[0]))
        else:
            lists.append(place.values)
    values = torch.cartesian_prod(*lists)
    logs = machine.log_prob_unnormalised(values).detach() + spacing
    return values, torch.log_softmax(logs, 1)


def spacing_of(name, observed):
    """log of the spacing of the observed real units of each row, (c,)."""
    reals = torch.tensor([place.values is None for place in places(made(name))])
    return (observed & reals).sum(1).double() * math.log(float(GRID[1] - GRID[0]))


def some_rows(name, count=3, seed=0):
    """Rows with every pattern of missing cells."""
    values, logs = table(name)
    units = values.shape[1]
    masks = torch.tensor(list(itertools.product([True, False], repeat=units)))
    rng = rb.stream(seed, "rows")
    drawn = values[torch.multinomial(logs[0].exp(), count * len(masks), True, generator=rng)]
    return drawn, masks.repeat(count, 1)


def wanted_log_p(name, given, observed):
    values, logs = table(name)
    parts = []
    for row, mask in zip(given, observed, strict=True):
        there = ((values == row) | ~mask).all(1)
        parts.append(torch.logsumexp(logs[:, there], 1))
    return torch.stack(parts, 1) - spacing_of(name, observed)


def conditional(name, row, mask):
    """The rows that agree with what is observed, and their probabilities, (e, s)."""
    values, logs = table(name)
    there = ((values == row) | ~mask).all(1)
    return values[there], torch.softmax(logs[:, there], 1)


@each
def test_log_p_of_incomplete_rows_is_that_of_enumeration(name):
    given, observed = some_rows(name)
    found = rb.log_p(made(name), torch.where(observed, given, NAN))
    assert found.method == "exact"
    torch.testing.assert_close(found.value, wanted_log_p(name, given, observed), rtol=0, atol=1e-8)
    assert bool((found.value[:, ~observed.any(1)] == 0).all())
    assert torch.equal(found.lower, found.upper)


@each
def test_both_exact_sums_agree(name):
    machine = made(name)
    given, observed = some_rows(name, 1)
    cells = cells_of(machine, given, observed)
    one, two = HiddenStates.of(machine), MissingStates(machine)
    served = two.bits(cells).isfinite()
    assert bool(served.any())
    if one is None:
        assert name.startswith("full") or "real hidden" in name
        return
    rows = cells.take(served)
    torch.testing.assert_close(one.log_sums(rows), two.log_sums(rows), rtol=0, atol=1e-9)


def no_sums(monkeypatch):
    """Nothing is summed exactly: neither states of hidden layers nor those of missing cells."""
    monkeypatch.setattr(few_terms, "TERMS", 0.5)


@pytest.mark.parametrize("name", ["mixed", "reals", "two reals", "deep", "full", "full axons", "levels"])
def test_annealed_intervals_hold_the_truth(name, monkeypatch):
    no_sums(monkeypatch)
    given, observed = some_rows(name, 1, seed=2)
    z = rb.log_z(made(name))
    found = rb.log_p(made(name), given, observed, normaliser=z, seed=3)
    assert found.method == "ais"
    wanted = wanted_log_p(name, given, observed)
    inside = (found.lower - 1e-9 <= wanted) & (wanted <= found.upper + 1e-9)
    # Of 2.6 standard errors to each side fewer than one in twenty misses.
    assert int((~inside).sum()) <= stats.binom.ppf(1 - FALSE, wanted.numel(), 0.05)
    assert bool((found.value[:, ~observed.any(1)] == 0).all())
    assert float((found.upper - found.lower).max()) < 2.0


def test_what_is_missing_may_hold_anything():
    machine = made("mixed")
    given, observed = some_rows("mixed", 1)
    junk = torch.where(observed, given, 99.0)
    assert torch.equal(rb.log_p(machine, junk, observed).value, rb.log_p(machine, given, observed).value)
    by_column = machine.layers.column_mask(observed)
    columns = machine.layers.encode(given)
    found = rb.log_p(machine, columns, by_column).value
    assert torch.equal(found, rb.log_p(machine, given, observed).value)


def test_bits_are_taken_for_spins_where_cells_are_missing():
    bits = rb.log_p(made("spins"), [[0.0, NAN, 1.0, 0.0]]).value
    assert torch.equal(bits, rb.log_p(made("spins"), [[-1.0, NAN, 1.0, -1.0]]).value)


@pytest.mark.parametrize(
    ("rows", "mask", "words"),
    [
        ([[1.0, 0.0]], None, "are \\(rows, 5\\), a value for each"),
        ([[1.0, 0.0, 7.0, 0.0, 1.0]], None, "number the states from 0"),
        ([[1.0, 0.0, 1.0, 0.0, 1.0]], [[True] * 4], "mask of observed cells"),
        (torch.ones(1, 8), torch.tensor([[1, 1, 1, 0, 1, 1, 1, 1]]).bool(), "unit 2 alone"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, mask, words):
    with pytest.raises(rb.InputError, match=words):
        rb.log_p(made("mixed"), rows, mask)


# -- draws ---------------------------------------------------------------------------------------------


def chi_square(name, drawn, row, mask, replica=0):
    """p of draws (d, units) beside the distribution given what is observed; of real units in tenths."""
    values, p = conditional(name, row, mask)
    keys = torch.zeros(len(values), dtype=torch.long)
    found = torch.zeros(len(drawn), dtype=torch.long)
    for i in range(values.shape[1]):
        if mask[i]:
            assert torch.equal(drawn[:, i], row[i].expand(len(drawn)))
            continue
        if len(values[:, i].unique()) > 100:  # a real one: bins that end between two points of the grid
            order = values[:, i].argsort(stable=True)
            below = p[replica][order].cumsum(0)
            half = 0.5 * float(GRID[1] - GRID[0])
            ends = (
                values[order][[int(x) for x in torch.searchsorted(below, torch.arange(0.1, 1.0, 0.1))], i]
                + half
            )
        else:
            ends = values[:, i].unique()[:-1] + 1e-6
        keys = keys * (len(ends) + 1) + torch.bucketize(values[:, i].contiguous(), ends)
        found = found * (len(ends) + 1) + torch.bucketize(drawn[:, i].contiguous(), ends)
    size = int(max(keys.max(), found.max())) + 1
    expected = torch.zeros(size, dtype=torch.float64).index_add_(0, keys, p[replica]) * len(drawn)
    counts = torch.bincount(found, minlength=size).double()
    assert float(counts[expected == 0].sum()) == 0
    many = expected >= 5
    kept, seen = expected[many], counts[many]
    if float(expected[~many].sum()) > 0:
        kept = torch.cat([kept, expected[~many].sum()[None]])
        seen = torch.cat([seen, counts[~many].sum()[None]])
    if len(kept) < 2:
        return 1.0
    return float(stats.chisquare(seen.numpy(), (kept * seen.sum() / kept.sum()).numpy()).pvalue)


def masks_of(units):
    first = torch.arange(units)
    return [first == 0, first > 0, torch.zeros(units, dtype=torch.bool)]


WAYS = [(name, way) for name in MAKE for way in ("hidden", "missing")]
BY_CHAINS = ("mixed", "reals", "levels", "deep", "full", "full axons")
WAYS += [(name, "chains") for name in BY_CHAINS]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_draws_of_missing_cells_have_their_distribution(name, way, monkeypatch):
    machine = made(name)
    given, _ = some_rows(name, 1, seed=4)
    row = given[0]
    if way == "chains":
        no_sums(monkeypatch)
    elif way == "hidden":
        monkeypatch.setattr(few_terms, "CHEAPER", 1e9)
        if HiddenStates.of(machine) is None:
            pytest.skip("its hidden states are not listed")
    else:
        monkeypatch.setattr(HiddenStates, "of", staticmethod(lambda machine: None))
    for number, mask in enumerate(masks_of(len(row))):
        if way == "missing" and not bool(
            MissingStates(machine).bits(cells_of(machine, given[:1], mask[None])) < 16
        ):
            continue
        found = rb.draw_missing(machine, row[None], mask[None], draws=1000, sweeps=60, seed=number)
        assert bool(found.exact.all()) == (way != "chains")
        assert float(found.rhat.max()) < 1.2
        for replica in range(machine.replicas):
            assert chi_square(name, found.values[replica, :, 0], row, mask, replica) > FALSE / 20


def test_a_wrong_field_is_found_by_the_chi_square(monkeypatch):
    """The test above fails when a factor in the draw is wrong."""
    machine = made("mixed")
    given, _ = some_rows("mixed", 1, seed=4)
    wrong = shaken(MAKE["mixed"]())
    wrong.biases.data *= 1.3
    mask = torch.arange(5) == 0
    found = rb.draw_missing(wrong, given[:1], mask[None], draws=2000, seed=0)
    assert chi_square("mixed", found.values[0, :, 0], given[0], mask) < FALSE / 20
    assert machine is not wrong


@pytest.mark.parametrize(
    ("name", "exactly"), [*((name, True) for name in MAKE), *((name, False) for name in BY_CHAINS)]
)
def test_means_of_missing_cells_are_conditional_means(name, exactly, monkeypatch):
    machine = made(name)
    given, observed = some_rows(name, 1, seed=6)
    if not exactly:
        no_sums(monkeypatch)
        given, observed = given[::5], observed[::5]
    draws, sweeps = (1, 1) if exactly else (40, 200)
    found = rb.draw_missing(machine, given, observed, means=True, draws=draws, seed=0, sweeps=sweeps)
    for i, (row, mask) in enumerate(zip(given, observed, strict=True)):
        values, p = conditional(name, row, mask)
        wanted = p @ machine.layers.encode(values).double()
        torch.testing.assert_close(found.means[:, i], wanted, rtol=0, atol=1e-6 if exactly else 0.1)


def test_the_same_seed_gives_the_same_draws(monkeypatch):
    given, observed = some_rows("mixed", 1)
    for _ in range(2):
        one, two = (rb.draw_missing(made("mixed"), given, observed, draws=2, seed=3) for _ in range(2))
        assert torch.equal(one.values, two.values)
        no_sums(monkeypatch)


def test_frozen_chains_are_annealed_for_longer():
    """Two modes far apart, of weights 3 to 1: chains that start in one stay there."""
    couplings = torch.full((1, 8, 8), 0.45)
    layers = rb.Layers((8, 8), ((0, 1),))
    machine = rb.Machine(rb.Dense(layers, {(0, 1): couplings}), torch.full((1, 16), 0.02))
    cells = cells_of(machine, torch.ones(2, 8), torch.zeros(2, 8, dtype=torch.bool))
    run = chains.clamped_chains(machine, cells, 400, 40, rb.stream(0, "frozen"))
    up = float((run.spins[..., :8].sum(-1) > 0).double().mean())
    values, p = all_of(machine)
    wanted = float(p[0][values.sum(1) > 0].sum() + 0.5 * p[0][values.sum(1) == 0].sum())
    assert abs(up - wanted) < 0.12
    assert 0.55 < wanted < 0.95


def all_of(machine):
    values = torch.cartesian_prod(*(place.values for place in places(machine)))
    return values, torch.softmax(machine.log_prob_unnormalised(values).detach(), 1)


def test_rhat_and_effective_draws_are_those_of_arviz():
    arviz = pytest.importorskip("arviz")
    rng = rb.stream(0, "series")
    series = torch.randn((4, 200), generator=rng, dtype=torch.float64)
    for i in range(1, 200):
        series[:, i] += 0.8 * series[:, i - 1]
    series[0] += 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = float(arviz.rhat(series.numpy(), method="split"))
        ess = float(arviz.ess(series.numpy(), method="mean"))
    assert float(chains.split_rhat(series)) == pytest.approx(wanted, rel=1e-6)
    assert float(chains.effective_draws(series)) == pytest.approx(ess, rel=0.3)
    assert float(chains.split_rhat(torch.ones(4, 10))) == 1.0
    assert float(chains.split_rhat(torch.arange(4.0)[:, None].expand(4, 10))) == math.inf
    free = torch.randn((4, 500), generator=rng, dtype=torch.float64)
    assert float(chains.effective_draws(free)) > 1500


# -- predictions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "sums") for name in MAKE), *((name, "draws") for name in BY_CHAINS)]
)
def test_predictions_are_conditional_distributions(name, way, monkeypatch):
    machine = made(name)
    given, observed = some_rows(name, 1, seed=8)
    if way == "draws":
        no_sums(monkeypatch)
        given, observed = given[::5], observed[::5]
    for unit, place in enumerate(places(machine)):
        found = rb.predict(machine, given, unit, observed, seed=unit, draws=300, sweeps=60)
        for i, (row, mask) in enumerate(zip(given, observed, strict=True)):
            known = mask.clone()
            known[unit] = False
            values, p = conditional(name, row, known)
            near = 1e-8 if way == "sums" else 0.1
            if place.values is None:
                mean = p @ values[:, unit]
                square = p @ values[:, unit] ** 2
                deviation = (square - mean**2).sqrt()
                torch.testing.assert_close(found.mean[:, i], mean, rtol=0, atol=max(near, 1e-6) * 3)
                torch.testing.assert_close(
                    found.deviation[:, i], deviation, rtol=0, atol=max(near, 1e-6) * 3
                )
                continue
            states = (values[:, unit, None] == place.values).double()
            torch.testing.assert_close(found.probabilities[:, i], p @ states, rtol=0, atol=near)
            assert torch.equal(found.states, place.values)


def test_the_cell_that_is_asked_for_is_not_looked_at():
    given = torch.tensor([[1.0, -1.0, 2.0, 1.0, 1.0]])
    other = given.clone()
    other[0, 2] = 77.0
    one, two = (rb.predict(made("mixed"), x, 2).probabilities for x in (given, other))
    assert torch.equal(one, two)
    with pytest.raises(rb.InputError, match="no unit 9"):
        rb.predict(made("mixed"), given, 9)


# -- scores --------------------------------------------------------------------------------------------


@each
def test_scores_are_log_p_and_what_each_cell_adds(name):
    machine = made(name)
    given, observed = some_rows(name, 2, seed=9)
    found = rb.scores(machine, given, observed)
    torch.testing.assert_close(found.log_p.value, wanted_log_p(name, given, observed), rtol=0, atol=1e-8)
    assert torch.equal(found.parts.isnan(), ~observed.expand_as(found.parts))
    for unit in range(given.shape[1]):
        less = observed.clone()
        less[:, unit] = False
        wanted = wanted_log_p(name, given, observed) - wanted_log_p(name, given, less)
        here = observed[:, unit]
        torch.testing.assert_close(found.parts[:, here, unit], wanted[:, here], rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["mixed", "reals", "deep", "full"])
def test_scores_of_rows_that_cannot_be_summed_average_over_draws(name, monkeypatch):
    machine = made(name)
    given, observed = some_rows(name, 1, seed=9)
    wanted = rb.scores(machine, given, observed).parts
    no_sums(monkeypatch)
    found = scores._parts(
        machine, cells_of(machine, given[::3], observed[::3]), 200, 60, rb.stream(0, "parts")
    )
    near = (found - wanted[:, ::3]).abs()[~wanted[:, ::3].isnan()]
    assert float(near.max()) < 0.6
    assert float(near.mean()) < 0.1


def test_a_cell_that_was_changed_is_the_unusual_one():
    """Columns that repeat each other, and one of them that does not."""
    layers = rb.Layers((6, 4), ((0, 1),))
    machine = rb.Machine(rb.Dense(layers, {(0, 1): torch.full((1, 6, 4), 0.6)}), torch.zeros(1, 10))
    rows = torch.ones(6, 6)
    rows[torch.arange(6), torch.arange(6)] = -1
    assert rb.scores(machine, rows).unusual.tolist() == [list(range(6))]


def test_precise_copies_leave_the_machine_as_it_was():
    machine = rb.rbm(3, 2, seed=0)
    assert precise(machine).dtype == torch.float64
    assert machine.dtype == torch.float32
    assert FewTerms.of(precise(machine)).hidden is not None
    for module in (annealed_rows, labels, missing, rows):
        assert module.__doc__
