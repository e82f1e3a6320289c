"""Annealed log Z and likelihoods of every kind of unit hold the exact values, tempering has the exact
distribution, and mean field bounds what it should."""

import pytest
import torch

import rapidbm as rb
from kinds import (
    choices,
    log_p_by_hand,
    log_z_by_hand,
    machines,
    make,
    random_rows,
    randomised,
)
from rapidbm.likelihood import hidden_sums as sums
from rapidbm.likelihood import log_z as likelihood
from rapidbm.likelihood.bridging import log_z_along
from rapidbm.likelihood.independent import fit, gain
from rapidbm.machines.machine import weakened
from rapidbm.random import stream
from rapidbm.sampling import tempering
from rapidbm.sampling.mean_field import mean_field, variational_bound
from rapidbm.testing import SMALLEST_P
from test_units_sampling import exact_draws, p_values

CHOICES = [pytest.param(c.values, id=c.id) for c in choices()]
FEW = [
    pytest.param(c.values, id=c.id)
    for c in choices(graphs=("rbm", "dbm"), sides=("visible",), couplings=("dense",))
]
DEEP = [pytest.param(c.values, id=c.id) for c in choices(graphs=("dbm",))]


def inside(found, exact):
    return int(((found.lower <= exact) & (exact <= found.upper)).sum())


@pytest.mark.parametrize("choice", FEW)
def test_annealed_intervals_hold_log_z_of_a_handful(choice):
    """Of ten intervals of 95 % more than two miss in one test of a hundred; the seeds are fixed."""
    machine = randomised(make(*choice, replicas=10))
    exact = log_z_by_hand(machine).detach()
    found = rb.log_z(machine, method="ais", seed=0, chains=100)
    assert inside(found, exact) >= 8
    assert float((found.value - exact).abs().max()) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_annealed_intervals_hold_log_z_of_sixty_machines(choice):
    machine = randomised(make(*choice, replicas=60))
    exact = log_z_by_hand(machine).detach()
    found = rb.log_z(machine, method="ais", seed=0, chains=200, data=random_rows(machine, 20))
    assert inside(found, exact) >= 56  # 93 % of 60


@pytest.mark.parametrize("choice", FEW)
def test_temperature_and_data_of_an_annealing(choice):
    machine = randomised(make(*choice, replicas=10))
    exact = log_z_by_hand(machine, 0.7).detach()
    rows = random_rows(machine, 20)
    found = rb.log_z(machine, method="ais", beta=0.7, seed=1, chains=100, data=rows)
    assert inside(found, exact) >= 8


@pytest.mark.parametrize("choice", DEEP)
def test_sums_over_hidden_units_are_annealed_and_bounded(choice, monkeypatch):
    machine = randomised(make(*choice, replicas=4))
    rows = random_rows(machine, 5)
    exact = log_p_by_hand(machine, rows).mean(1).detach() + log_z_by_hand(machine).detach()
    found = sums.hidden_sums(machine, rows, stream(0), chains=50)
    low, high = found.interval(2.0)
    assert bool((low - 0.1 <= exact).all())
    assert bool((exact <= high + 0.1).all())
    assert bool((found.mean_field <= exact + 1e-9).all())
    assert bool((found.mean_field >= exact - 3.0).all())
    monkeypatch.setattr(likelihood, "HIDDEN", 1)
    whole = rb.log_likelihood(machine, rows, seed=0)
    wanted = log_p_by_hand(machine, rows).mean(1).detach()
    assert bool((whole.lower - 0.1 <= wanted).all())
    assert bool((wanted <= whole.upper + 0.1).all())
    proven = likelihood.log_bound(machine, rows, rb.log_z(machine))
    assert bool((proven.value <= wanted + 1e-9).all())


@pytest.mark.parametrize("machine", [*machines(graphs=("rbm",))])
def test_the_bound_of_independent_hidden_units_is_the_sum(machine):
    """Given the visible units, which are held, mean field is exact: the entropy is that of the hidden."""
    rows = random_rows(machine, 6)
    found = variational_bound(machine, mean_field(machine, rows, 10), machine.layers.visible)
    assert torch.allclose(found, machine.log_prob_unnormalised(rows), atol=1e-9)


@pytest.mark.parametrize("machine", [*machines()])
def test_means_of_all_units_bound_log_z(machine):
    means = exact_draws(machine, stream(0), chains=200).mean(1, keepdim=True)
    exact = log_z_by_hand(machine)
    assert bool((variational_bound(machine, means)[:, 0] <= exact + 1e-9).all())


@pytest.mark.parametrize("machine", [*machines()])
def test_a_fit_is_judged_beside_independent_columns(machine):
    rows = random_rows(machine, 40)
    found = fit(machine, rows, stream(0))
    exact = log_p_by_hand(machine, rows).mean(1)
    assert torch.allclose(found.most.double(), exact, atol=1e-9)
    assert torch.allclose(gain(machine, rows, stream(0)), exact - found.columns, atol=1e-9)


@pytest.mark.parametrize("choice", CHOICES)
def test_followed_log_z_holds_the_exact_value(choice):
    """Along a training, from weak couplings to strong ones."""
    last = randomised(make(*choice, replicas=4))
    way = [weakened(last, share) for share in (0.3, 0.6, 1.0)]
    for machine, found in zip(way, log_z_along(way, seed=0, chains=100), strict=True):
        exact = log_z_by_hand(machine).detach()
        assert bool((found.lower - 0.1 <= exact).all())
        assert bool((exact <= found.upper + 0.1).all())


@pytest.mark.parametrize("choice", CHOICES)
def test_tempering_has_the_distribution(choice, monkeypatch):
    monkeypatch.setattr(tempering, "ROUNDS", 1)  # any ladder serves so small a machine
    machine = randomised(make(*choice))
    trajectory = (weakened(machine, 0.5), machine)
    for sampler in (rb.ParallelTempering(rungs=4), rb.TrajectoryTempering(trajectory, rungs=4)):
        found = rb.sample(machine, 3000, sampler=sampler, steps=25, seed=0)
        assert p_values(machine, found) > SMALLEST_P


@pytest.mark.parametrize("choice", FEW)
def test_annealing_draws_from_the_machine(choice):
    """Chains that were drawn again are not independent: means, within six errors of a third of them."""
    machine = randomised(make(*choice))
    found = rb.sample(machine, 3000, sampler=rb.Annealing(100), seed=0)
    moments = rb.exact_moments(machine)
    variance = moments.pairs.diagonal(dim1=1, dim2=2) - moments.mean.square()
    assert bool(((found.mean(1) - moments.mean).abs() <= 6 * (variance / 1000).sqrt() + 1e-12).all())


@pytest.mark.parametrize("kind", ["categorical", "mixed q"])
def test_a_descent_ends_where_no_unit_wants_to_change(kind):
    for graph in ("rbm", "bm"):
        machine = randomised(make(graph, "visible", kind))
        ends = rb.descend(machine, machine.random(30, seed=0))
        assert torch.equal(machine.configuration(ends), ends)
        energy = machine.energy(ends)
        start = 0
        for q in machine.layers.kinds[0].each(machine.layers.sizes[0]):
            for state in range(q):
                other = ends.clone()
                other[..., start : start + q] = torch.eye(q, dtype=torch.float64)[state]
                assert bool((machine.energy(other) >= energy - 1e-9).all())
            start += q
