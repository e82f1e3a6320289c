"""Exact sums against brute force over every unit."""

import pytest
import torch

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.exact import can_be_exact
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.constructors import bm, rbm
from rapidbm.random import stream

EVERY = machines(1) + machines(3) + machines(2, biases=False)


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize("machine", EVERY)
def test_log_z(machine, beta):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    wanted = torch.logsumexp(-beta * machine.energy(every).detach(), 1)
    found = log_z(machine, beta=beta)
    assert torch.allclose(found.lower, wanted, atol=1e-12)
    assert torch.equal(found.lower, found.upper)
    assert found.method == "exact"
    cover = sum(machine.layers.sizes[i] for i in machine.layers.cover())
    count = 2**cover // (2 if machine.symmetric else 1)  # symmetry halves the work
    if not found.effort.endswith("kinds of units"):
        assert found.effort == f"{count} states"


@pytest.mark.parametrize("machine", EVERY)
def test_probabilities_sum_to_one(machine):
    every = states(machine.visible, 0, 2**machine.visible)
    each = torch.stack([log_likelihood(machine, row[None]).lower for row in every])
    assert torch.allclose(each.exp().sum(0), torch.ones(machine.replicas, dtype=torch.float64))
    cold = torch.stack([log_likelihood(machine, row[None], beta=0.5).lower for row in every])
    assert torch.allclose(cold.exp().sum(0), torch.ones(machine.replicas, dtype=torch.float64))
    mean = log_likelihood(machine, every[:5]).lower
    assert torch.allclose(mean, each[:5].mean(0))


@pytest.mark.parametrize("machine", EVERY)
def test_ground_state(machine):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    energy = machine.energy(every).detach()
    found = ground_state(machine)
    assert torch.allclose(found.energy, energy.min(1).values, atol=1e-12)
    assert torch.allclose(machine.energy(found.spins[:, None])[:, 0], found.energy, atol=1e-12)
    assert bool((found.spins.abs() == 1).all())


def test_bounds_of_log_z_change_sides_in_the_likelihood():
    machine = rbm(5, 4, replicas=2, scale=0.4, seed=0)
    rows = states(5, 0, 7)
    z = log_z(machine, method="ais", seed=0, chains=50)
    found = log_likelihood(machine, rows, normaliser=z)
    weight = log_likelihood(machine, rows).lower + log_z(machine).lower
    assert torch.allclose(found.lower, weight - z.upper)
    assert torch.allclose(found.upper, weight - z.lower)
    assert torch.allclose(found.value, weight - z.value)
    assert torch.allclose(found.forward, weight - z.forward)
    assert torch.allclose(found.back, weight - z.back)
    assert torch.allclose(found.interval[0], weight - z.interval[1])
    assert torch.allclose(found.interval[1], weight - z.interval[0])


def test_many_chunks_give_the_same(monkeypatch):
    machine = rbm(9, 11, 3, replicas=2, biases=True, seed=0)
    z, ground = log_z(machine).lower, ground_state(machine).energy
    monkeypatch.setattr("rapidbm.machines.enumeration.CHUNK_BYTES", 2 * 20 * 8 * 13)
    assert torch.allclose(log_z(machine).lower, z, atol=1e-12)
    assert torch.equal(ground_state(machine).energy, ground)


def test_single_precision_machines_are_summed_in_double():
    machine = rbm(10, 800, 4, seed=0)
    double = rbm(10, 800, 4, seed=0, dtype=torch.float64)
    assert torch.equal(machine.patterns.double(), double.patterns)
    assert float((log_z(machine).lower - log_z(double).lower).abs()) < 1e-9
    rows = states(10, 0, 8)
    gap = machine.log_prob_unnormalised(rows) - double.log_prob_unnormalised(rows)
    assert float(gap.detach().abs().max()) < 2e-3  # fields in float32, their sum in float64


def test_a_paramagnet_is_known_in_closed_form():
    machine = bm(12, 0, 2, seed=0, scale=1e-9, biases=True, dtype=torch.float64)
    machine.biases.data.copy_(torch.randn(1, 12, generator=stream(0)))
    wanted = torch.log(2 * torch.cosh(machine.biases.detach())).sum(1)
    assert torch.allclose(log_z(machine).lower, wanted, atol=1e-9)


def test_mattis_has_two_ground_states_that_are_the_pattern():
    machine = rbm(8, 50, 1, seed=0)
    found = ground_state(machine)
    xi = machine.patterns.detach()[:, 0]
    assert abs(float((found.spins * xi).sum())) == 58
    assert float(found.energy) == -8 * 50


def test_too_large_machines_are_refused_with_the_cost():
    machine = rbm(100, 200, 30, seed=0)
    assert not can_be_exact(machine)
    for call in (log_z, ground_state):
        with pytest.raises(InputError, match=r"2\^100 ≈ 10\^30 of them, each costing .* 300 units"):
            call(machine, method="exact")
    for options, words in (
        ({"chains": 1}, "chains must be a whole number of at least 2"),
        ({"most": 1}, "temperatures must be a whole number of at least 2"),
        ({"beta": -1.0}, "at least 0, not -1"),
        ({"samples": torch.ones(1, 1, 5)}, "two samples or more, not 1"),
    ):
        with pytest.raises(InputError, match=words):
            log_z(rbm(3, 2, seed=0), method="ais", seed=0, **options)
    with pytest.raises(InputError, match="known are ais, auto, exact"):
        log_z(rbm(3, 2, seed=0), method="guess")


def test_two_samples_and_two_chains_are_enough_for_both_ways():
    machine = rbm(3, 2, scale=0.1, seed=0)
    found = log_z(machine, method="ais", seed=0, chains=2, samples=torch.ones(1, 2, 5), most=20)
    assert abs(float(found.value - log_z(machine).value)) < 0.1


def test_a_likelihood_has_a_temperature_whatever_log_z_is_given():
    machine = rbm(3, 2, seed=0)
    with pytest.raises(InputError, match="at least 0, not -1"):
        log_likelihood(machine, states(3, 0, 2), beta=-1.0, normaliser=log_z(machine))


def test_within_reach_are_as_many_terms_as_there_may_be():
    machine = rbm(6, 9, seed=0)  # ±: 2^6 states, 2^5 up to a common sign
    assert can_be_exact(machine, 2**5)
    assert not can_be_exact(machine, 2**5 - 1)
    biased = rbm(6, 9, biases=True, seed=0)
    assert can_be_exact(biased, 2**6)
    assert not can_be_exact(biased, 2**6 - 1)


def test_data_of_another_kind_are_refused_or_converted():
    machine = rbm(6, 4, 2, seed=0)
    rows = states(6, 0, 10)
    for wrong in (rows[None], rows[:, :5], torch.empty(0, 6), rows * 0.5):
        with pytest.raises(InputError):
            log_likelihood(machine, wrong)
    bits = log_likelihood(machine, (rows > 0).int()).lower
    assert torch.equal(bits, log_likelihood(machine, rows).lower)
