"""R-hat, effective sample sizes and recorded chains."""

import sys

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.machines.constructors import rbm
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.sampling.convergence import mixing, statistics
from rapidbm.sampling.samplers import Gibbs, ParallelTempering, record, sample
from rapidbm.testing import exact_distribution

NAMES = ("energy", "direction 1", "direction 2", "direction 3")


def independent(machine, chains, steps, seed=0):
    """Exact draws, as if recorded."""
    every, exact = exact_distribution(machine)
    rows = torch.multinomial(exact, chains * steps, True, generator=stream(seed))
    return every[rows].reshape(machine.replicas, chains, steps, -1).to(torch.int8)


def test_independent_draws_have_mixed():
    machine = rbm(5, 4, replicas=3, scale=0.4, seed=0)
    found = mixing(machine, independent(machine, 4, 500))
    assert found.names == NAMES
    assert found.rhat.shape == found.ess.shape == found.time.shape == (3, 4)
    # Twelve values each, at limits that one of 10⁶ tests exceeds.
    assert float((found.rhat - 1).abs().max()) < 0.02
    assert float(found.ess.min()) > 0.6 * 2000
    assert float(found.ess.max()) < 1.6 * 2000
    assert torch.allclose(found.time, 2000 / found.ess)


def test_lazy_chains_take_as_long_as_they_are_lazy():
    """A state that is kept with probability a has τ = (1 + a) / (1 − a)."""
    machine = rbm(5, 4, scale=0.4, seed=0)
    steps = 12_000
    fresh = independent(machine, 4, steps)
    again = torch.rand(4, steps, generator=stream(1)) > 0.8
    again[:, 0] = True
    last = torch.where(again, torch.arange(steps), 0).cummax(1).values
    lazy = fresh.gather(2, last[None, ..., None].expand_as(fresh))
    found = mixing(machine, lazy)
    # √(2 · 91 / 48,000) is the error of a sum of 45 correlations: 5.6 of them, 2e-8.
    assert float((found.time / 9.0 - 1).abs().max()) < 0.35
    assert float(found.rhat.max()) < 1.05


def wells(scale=0.62):
    """±ξ, hard to cross for Gibbs."""
    return rbm(8, 10, 1, scale=scale, seed=3, dtype=torch.float64)


def test_chains_that_start_in_two_wells_disagree():
    machine = wells()
    xi = machine.patterns.detach().sign()
    start = torch.cat([xi, -xi], 1)
    series, _ = record(machine, 4, 100, sampler=Gibbs(start=start), skip=10, seed=0)
    found = mixing(machine, series)
    assert float(found.rhat[0, 1]) > 1.5  # along ξ
    assert float(found.ess[0, 1]) < 20
    assert float(found.rhat[0, 0]) < 1.1  # both wells have the same energy
    tempered, _ = record(machine, 4, 100, sampler=ParallelTempering(), every=3, seed=0)
    assert float(mixing(machine, tempered).rhat[0, :2].max()) < 1.2


def test_what_does_not_move_has_no_rhat():
    machine = rbm(4, 3, seed=0)
    still = torch.ones((1, 3, 10, 7), dtype=torch.int8)
    found = mixing(machine, still)
    for values in (found.rhat, found.ess, found.time):
        assert bool(values.isnan().all())
    stuck = still.clone()
    stuck[:, 0, :, :4] = -1  # each chain at its own place
    found = mixing(machine, stuck)
    assert float(found.rhat[0, 1]) == torch.inf
    assert float(found.ess[0, 1]) == 3  # a place for each chain
    assert bool(found.rhat[0, 2:].isnan().all())


def test_directions_without_variance_are_not_noise():
    """Two units that move as one leave a second direction of rounding errors only."""
    machine = rbm(4, 3, seed=0)
    series = torch.ones((1, 4, 50, 7), dtype=torch.int8)
    moving = torch.randint(2, (4, 50), generator=stream(0)).mul(2).sub(1).to(torch.int8)
    series[0, ..., 0], series[0, ..., 2] = moving, moving
    found = mixing(machine, series)
    assert bool(found.rhat[0, :2].isfinite().all())
    assert bool(found.rhat[0, 2:].isnan().all())


def test_statistics_by_hand():
    machine = rbm(4, 3, replicas=2, biases=True, scale=0.5, seed=0, dtype=torch.float64)
    series = machine.random(6 * 9, stream(0)).reshape(2, 6, 9, 7).to(torch.int8)
    found = statistics(machine, series)
    assert tuple(found) == NAMES
    energy = machine.energy(series.reshape(2, -1, 7).double()).reshape(2, 6, 9)
    assert torch.allclose(found["energy"], energy)
    seen = series[..., :4].reshape(2, -1, 4).double()
    for e in range(2):
        spectrum = torch.linalg.eigvalsh(torch.cov(seen[e].T)).flip(0)
        for i, name in enumerate(NAMES[1:]):
            values = found[name][e]
            assert values.shape == (6, 9)
            assert torch.isclose(values.mean(), torch.zeros(1, dtype=torch.float64))
            assert torch.isclose(values.var(), spectrum[i])
    narrow = rbm(2, 3, seed=0)
    assert tuple(statistics(narrow, narrow.random(12, stream(0)).reshape(1, 3, 4, 5))) == (
        "energy",
        "direction 1",
        "direction 2",
    )


@pytest.mark.parametrize("shape", [(1, 4, 7), (4, 7), (2, 4, 10, 7), (1, 4, 10, 6), (7,)])
def test_records_of_the_wrong_shape(shape):
    machine = rbm(4, 3, seed=0)
    for call in (statistics, mixing):
        with pytest.raises(InputError, match=r"\(1, chains, steps, 7\), as `record` gives it"):
            call(machine, torch.ones(shape))


@pytest.mark.parametrize("shape", [(1, 1, 10, 7), (1, 4, 3, 7)])
def test_records_that_are_too_short(shape):
    with pytest.raises(InputError, match="two chains or more of four steps or more"):
        mixing(rbm(4, 3, seed=0), torch.ones(shape))


def test_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    machine = rbm(4, 3, seed=0)
    with pytest.raises(InputError, match=r"rapidbm\[diagnostics\]"):
        mixing(machine, independent(machine, 2, 8))
    assert tuple(statistics(machine, independent(machine, 2, 8))) == NAMES  # needs no arviz


class Counting:
    """A sampler whose spins spell the number of its steps in binary."""

    steps = 3

    def init(self, machine, chains, rng):
        return torch.zeros(machine.replicas, chains, dtype=torch.long)

    def step(self, machine, state, rng):
        return state + 1

    def spins(self, state):
        return ((state[..., None] >> torch.arange(7)) & 1).double() * 2 - 1


def read(series):
    """The numbers that `Counting` spelled, (e, c, t)."""
    return ((series > 0).long() << torch.arange(7)).sum(-1)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"skip": 0}, [1, 2, 3, 4]),
        ({"skip": 5}, [6, 7, 8, 9]),
        ({"skip": 0, "every": 3}, [3, 6, 9, 12]),
        ({"skip": 2, "every": 5}, [7, 12, 17, 22]),
        ({}, [5, 6, 7, 8]),  # skips as many as it keeps
        ({"every": 2}, [10, 12, 14, 16]),
    ],
)
def test_what_is_recorded(options, kept):
    machine = rbm(4, 3, replicas=2, seed=0)
    seen = []

    def track(numbers):
        seen.extend(numbers)
        return iter(numbers)

    series, state = record(machine, 3, 4, sampler=Counting(), seed=0, track=track, **options)
    assert series.shape == (2, 3, 4, 7)
    assert series.dtype == torch.int8
    assert bool((series.abs() == 1).all())
    assert bool((read(series) == torch.tensor(kept)).all())
    assert bool((state == kept[-1]).all())
    assert len(seen) == kept[-1]


def test_records_of_the_samplers():
    machine = rbm(4, 3, replicas=2, scale=0.5, seed=0)
    series, state = record(machine, 5, 6, seed=1)
    assert series.shape == (2, 5, 6, 7)
    assert torch.equal(series[:, :, -1], state.to(torch.int8))
    assert torch.equal(series, record(machine, 5, 6, seed=1)[0])
    assert torch.equal(series, record(machine, 5, 6, seed=1, sampler=Gibbs())[0])
    assert not torch.equal(series, record(machine, 5, 6, seed=2)[0])
    tempered, walkers = record(machine, 5, 6, sampler=ParallelTempering(rungs=3), seed=1)
    assert torch.equal(tempered[:, :, -1], walkers.cold.to(torch.int8))
    assert walkers.spins.shape == (2, 15, 7)


def test_a_record_goes_on_from_a_state():
    """Kept steps are steps of the chain: a cold machine hardly moves between two of them."""
    machine = Machine(wells(1.0).couplings)
    start = sample(machine, 3, steps=50, seed=0)
    series, _ = record(machine, 3, 5, sampler=Gibbs(start=start), skip=0, seed=0)
    assert torch.equal(series[:, :, 0], start.to(torch.int8))


def test_bad_records():
    machine = rbm(4, 3, seed=0)
    for options, text in (
        ({"chains": 0}, "chains"),
        ({"steps": 0}, "recorded steps"),
        ({"every": 0}, "between two recorded"),
        ({"skip": -1}, "skipped steps"),
        ({"rng": stream(0)}, "seed= or rng="),
    ):
        with pytest.raises(InputError, match=text):
            record(machine, **{"chains": 2, "steps": 4, "seed": 0} | options)
