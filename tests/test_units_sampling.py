"""Sweeps of every kind of unit leave the machine's distribution as it is.

Chains start from exact draws that know nothing of the units' code (kinds.py). After a few sweeps the
joint states of the listed units are compared by χ², and what real units hold, standardised by hand given
the others, with a normal distribution by Kolmogorov and Smirnov, and with each listed column by its
correlation. Each limit is a false alarm in a million tests or fewer; draws at another temperature, or
with an inverted precision, fail.
"""

import copy
import math

import pytest
import torch
from scipy import stats

import rapidbm as rb
from kinds import (
    COUNTS,
    choices,
    couplings_by_hand,
    machines,
    make,
    precisions_by_hand,
    randomised,
    real_columns,
    terms_by_hand,
)
from rapidbm.errors import InputError
from rapidbm.random import stream
from rapidbm.testing import (
    SMALLEST_P,
    check_negative_phase,
    check_sampler,
    chi_squared,
    exact_distribution,
    small_machines,
)

CHAINS = 10_000
EVERY = [*machines()]
LISTED = [x for x in EVERY if not real_columns(x.values[0])]
REAL = [x for x in EVERY if real_columns(x.values[0])]


def listed_columns(machine):
    return [i for i in range(machine.layers.columns) if i not in real_columns(machine)]


def exact_draws(machine, rng, beta=1.0, chains=CHAINS):
    """Configurations (e, chains, n): listed units by their weights, real ones given them."""
    found, real = [], real_columns(machine)
    for e in range(machine.replicas):
        logs, x = terms_by_hand(machine, e, None, beta)
        p = torch.softmax(logs[0].detach(), 0)
        rows = x[0][torch.multinomial(p, chains, replacement=True, generator=rng)].clone()
        noise = torch.randn((chains, len(real)), generator=rng, dtype=torch.float64)
        rows[:, real] += noise / (beta * precisions_by_hand(machine, e)[real].detach()).sqrt()
        found.append(rows)
    return torch.stack(found).detach()


def p_values(machine, spins, beta=1.0):
    """The smallest p-value of the tests of every replica."""
    found, listed, real = [], listed_columns(machine), real_columns(machine)
    for e in range(machine.replicas):
        logs, x = terms_by_hand(machine, e, None, beta)
        states, rows = x[0][:, listed], spins[e][:, listed]
        places = 3 ** torch.arange(len(listed))  # states of listed columns are −1, 0 and 1
        keys = ((torch.cat([states, rows]) + 1).long() * places).sum(1)
        _, which = torch.unique(keys, return_inverse=True)
        number = torch.full((int(which.max()) + 1,), -1)
        number[which[: len(states)]] = torch.arange(len(states))
        assert bool((number >= 0).all())  # no row is anything but a state
        counts = number[which[len(states) :]].bincount(minlength=len(states))
        each = [chi_squared(counts, torch.softmax(logs[0].detach(), 0))]
        j = couplings_by_hand(machine, e).detach()
        for i in real:
            a = float(precisions_by_hand(machine, e)[i].detach())
            field = spins[e] @ (j + j.T)[:, i] + machine.biases[e, i].detach()
            left = (spins[e, :, i] - field / a) * math.sqrt(beta * a)
            each.append(float(stats.kstest(left.numpy(), "norm").pvalue))
            moved = rows - rows.mean(0)
            score = (left - left.mean()) @ moved / (left.std() * moved.std(0) * math.sqrt(len(left)))
            each.append(float(2 * stats.norm.sf(score.abs().max())) * len(listed))
        found.append(min(each))
    return min(found)


@pytest.mark.parametrize("beta", [1.0, 0.6])
@pytest.mark.parametrize("machine", EVERY)
def test_sweeps_leave_the_distribution(machine, beta):
    start = exact_draws(machine, stream(1), beta)
    assert p_values(machine, start, beta) > SMALLEST_P
    ends = rb.sweeps(machine, start, stream(2), 3, beta=beta)
    assert p_values(machine, ends, beta) > SMALLEST_P
    each = torch.full((CHAINS,), beta, dtype=torch.float64)
    assert p_values(machine, rb.sweeps(machine, start, stream(3), 2, beta=each), beta) > SMALLEST_P


@pytest.mark.parametrize("machine", EVERY)
def test_another_temperature_shows(machine):
    start = exact_draws(machine, stream(1))
    assert p_values(machine, rb.sweeps(machine, start, stream(2), 3, beta=0.7)) < SMALLEST_P


def mutated(monkeypatch, kind, change):
    """Draws of a kind of units, changed."""
    for name in {"draw", "draw_ones"} & set(dir(kind)):
        whole = getattr(kind, name)
        wrong = lambda unit, *given, draw=whole, **more: change(draw, unit, *given, **more)  # noqa: E731
        monkeypatch.setattr(kind, name, wrong)


def colder(draw, unit, field, rng, beta=1.0, *out, **more):
    return draw(unit, field, rng, beta * 2.0, *out, **more)


def inverted(draw, unit, field, rng, beta=1.0, **more):
    return draw(rb.Gaussian(-unit.log_precision), field, rng, beta, **more)


FAULTS = {
    rb.Binary: [colder],
    rb.Categorical: [colder],
    rb.Gaussian: [colder, inverted],
}


def wrong_draws():
    """Every machine beside every fault of its units."""
    for choice in choices():
        kinds = {type(unit) for unit in make(*choice.values).layers.kinds}
        for kind, change in ((k, change) for k in FAULTS for change in FAULTS[k] if k in kinds):
            name = f"{choice.id}-{kind.kind}-{change.__name__}"
            yield pytest.param(choice.values, kind, change, id=name)


@pytest.mark.parametrize(("choice", "kind", "change"), [*wrong_draws()])
def test_a_wrong_draw_shows(choice, kind, change, monkeypatch):
    machine = randomised(make(*choice))
    start = exact_draws(machine, stream(1))
    mutated(monkeypatch, kind, change)
    assert p_values(machine, rb.sweeps(machine, start, stream(2), 3)) < SMALLEST_P


@pytest.mark.parametrize("machine", EVERY)
def test_what_is_clamped_stays_and_the_rest_keeps_the_distribution(machine):
    rng = stream(4)
    start = exact_draws(machine, stream(1))
    units = torch.rand(machine.layers.units, generator=rng) < 0.4
    columns = machine.layers.column_mask(units)
    ends = rb.sweeps(machine, start, stream(2), 3, clamp=units)
    assert torch.equal(ends[..., columns], start[..., columns])
    assert not torch.equal(ends[..., ~columns], start[..., ~columns])
    assert p_values(machine, ends) > SMALLEST_P
    assert torch.equal(ends, rb.sweeps(machine, start, stream(2), 3, clamp=columns))
    each = torch.rand((CHAINS, machine.layers.units), generator=rng) < 0.4
    ends = rb.sweeps(machine, start, stream(2), 3, clamp=each)
    kept = machine.layers.column_mask(each).expand(machine.replicas, -1, -1)
    assert torch.equal(ends[kept], start[kept])
    assert p_values(machine, ends) > SMALLEST_P


@pytest.mark.parametrize("machine", EVERY)
def test_a_push_is_a_bias(machine):
    push = 0.4 * torch.randn(machine.layers.columns, generator=stream(5), dtype=torch.float64)
    pushed = copy.deepcopy(machine)
    pushed.biases.data += push
    start = exact_draws(pushed, stream(1))
    assert p_values(pushed, rb.sweeps(machine, start, stream(2), 3, push=push)) > SMALLEST_P


@pytest.mark.parametrize("machine", REAL)
def test_a_push_of_real_units_takes_no_temperature(machine):
    push = torch.zeros(machine.layers.columns, dtype=torch.float64)
    with pytest.raises(InputError, match="takes β = 1"):
        rb.sweep(machine, machine.random(2, seed=0), seed=0, beta=0.5, push=push)


@pytest.mark.parametrize("machine", EVERY)
def test_samples_have_the_distribution_at_any_temperature(machine):
    """`sample` scales the machine, precisions too."""
    for beta in (1.0, 0.7):
        start = exact_draws(machine, stream(1), beta)
        found = rb.sample(machine, CHAINS, sampler=rb.Gibbs(start=start), steps=2, beta=beta, seed=3)
        assert p_values(machine, found, beta) > SMALLEST_P


@pytest.mark.parametrize("machine", EVERY)
def test_a_record_holds_what_was_drawn(machine):
    gibbs = rb.Gibbs(start=machine.random(3, seed=1))
    series, state = rb.record(machine, 3, 2, sampler=gibbs, skip=0, seed=0)
    assert torch.equal(series[:, :, -1].to(state), state)


@pytest.mark.parametrize("machine", LISTED)
def test_the_public_contract_of_samplers(machine):
    check_sampler(rb.sweep, machine, beta=0.8, chains=10_000)
    check_sampler(rb.Gibbs(), machine, chains=10_000)
    _, p = exact_distribution(machine, 0.8)
    for e in range(machine.replicas):
        by_hand = terms_by_hand(machine, e, None, 0.8)[0][0].detach().softmax(0)
        assert torch.allclose(p[e].sort().values, by_hand.sort().values, atol=1e-12)


@pytest.mark.parametrize("kind", ["binary", "categorical"])
def test_the_public_contract_of_samplers_finds_faults(kind):
    machine = randomised(make("rbm", "visible", kind))
    with pytest.raises(AssertionError, match="differ from the exact distribution"):
        check_sampler(lambda m, x, rng, beta: rb.sweep(m, x, rng, 0.8 * beta), machine)
    with pytest.raises(AssertionError, match="states of the units"):
        check_sampler(lambda m, x, rng, beta: x * 0.5, machine)
    with pytest.raises(AssertionError, match="differ from the exact distribution"):
        check_sampler(lambda m, x, rng, beta: m.random(x.shape[1], rng), machine)


def test_the_contract_of_samplers_needs_a_list_of_states():
    with pytest.raises(InputError, match="none that can be listed"):
        check_sampler(rb.sweep, randomised(make("rbm", "visible", "gaussian")))


PHASES = [rb.Exact(), rb.ContrastiveDivergence(2), rb.Persistent(6), rb.Tempered(4, rungs=3)]
OF_PATTERNS = [
    rb.PatternInduced(),
    rb.PatternInduced(1),
    rb.PatternInduced(units="all"),
    rb.Persistent(8, lifetime=4, born="patterns"),
    rb.Persistent(8, scouts=0.3),
]


@pytest.mark.parametrize("machine", EVERY)
def test_the_public_contract_of_negative_phases(machine):
    for phase in (*PHASES, *(OF_PATTERNS if machine.patterns is not None else ())):
        check_negative_phase(phase, machine)


class Outside(rb.ContrastiveDivergence):
    """Configurations that no units hold, twice their states."""

    def step(self, machine, chains, data, rng):
        _, after = super().step(machine, chains, data, rng)
        spins = self.configurations(machine, chains, data, rng)
        return rb.WeightedSpins.equal(2.0 * spins), after


@pytest.mark.parametrize("kind", ["spin", "binary", "categorical", "mixed q", "mixed"])
def test_the_public_contract_of_negative_phases_finds_faults(kind):
    with pytest.raises(AssertionError, match="means lie in"):
        check_negative_phase(Outside(), make("rbm", "visible", kind))


@pytest.mark.parametrize("kind", ["binary", "categorical", "gaussian"])
def test_small_machines_of_a_kind(kind):
    unit, _ = COUNTS[kind]
    names = {name for name, _ in small_machines(units=unit)}
    graphs = {name.split("-")[0] for name in names}
    assert graphs == ({"rbm", "dbm"} if kind == "gaussian" else {"rbm", "dbm", "bm"})
    for _, machine in small_machines(units=unit):
        assert machine.layers.kinds[0] == unit
        check_negative_phase(rb.ContrastiveDivergence(), machine)
    assert {m.layers.kinds[1] for _, m in small_machines(hidden_units=unit)} == {unit}
