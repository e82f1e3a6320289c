"""The lattice of Gaussian fields, and exact moments, against brute force over every unit."""

import math

import pytest
import torch

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.likelihood import quadrature
from rapidbm.likelihood.log_z import log_z
from rapidbm.likelihood.moments import exact_moments
from rapidbm.likelihood.quadrature import can_integrate, log_z_by_quadrature, points_of
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.testing import exact_distribution

EVERY = machines(1) + machines(3) + machines(2, biases=False)


def brute(machine, beta=1.0):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    return torch.logsumexp(-beta * machine.energy(every).detach(), 1)


def tilted(machine, size=0.4):
    shape = (machine.replicas, machine.layers.columns)
    noise = torch.randn(shape, generator=stream(9), dtype=torch.float64)
    return Machine(machine.couplings, size * noise)


@pytest.mark.parametrize("beta", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("patterns", [1, 2, 3])
@pytest.mark.parametrize("continuous", [False, True])
def test_it_is_the_sum_over_all_states(patterns, continuous, biases, beta):
    machine = bm(
        6, 3, patterns, replicas=2, seed=0, continuous=continuous, scale=0.8, dtype=torch.float64
    )
    machine = tilted(machine) if biases else machine
    assert torch.allclose(
        log_z_by_quadrature(machine, beta), brute(machine, beta), atol=1e-12, rtol=1e-13
    )


def test_the_spacing_is_as_wide_as_its_bound_says(monkeypatch):
    machine = bm(8, 0, 2, seed=1, dtype=torch.float64)
    exact = brute(machine)
    for spacing in (1.0, 1.3):
        monkeypatch.setattr(quadrature, "SPACING", spacing)
        error = float((log_z_by_quadrature(machine) - exact).abs())
        assert error <= 4 * math.exp(-2 * math.pi**2 / spacing**2) + 1e-12
    monkeypatch.setattr(quadrature, "SPACING", 3.0)
    assert float((log_z_by_quadrature(machine) - exact).abs()) > 1e-3
    monkeypatch.setattr(quadrature, "SPACING", 0.7)
    monkeypatch.setattr(quadrature, "MARGIN", 0.0)
    assert float((log_z_by_quadrature(machine) - exact).abs()) > 1e-6


def test_points_are_those_of_the_replica_that_has_most():
    machine = bm(6, 0, 2, replicas=3, seed=0)
    machine.patterns.data.mul_(torch.tensor([1.0, 3.0, 2.0])[:, None, None])
    each = [points_of(machine.replica(i)) for i in range(3)]
    assert points_of(machine) == each[1] > each[2] > each[0]


def test_a_large_full_machine_is_exact():
    """N = 1,000 Mattis: Z is a sum over the magnetisation alone."""
    machine = bm(600, 400, 1, scale=0.04, seed=0, dtype=torch.float64)
    assert can_integrate(machine)
    n, c = 1000, 0.04**2
    up = torch.arange(n + 1, dtype=torch.float64)
    ways = math.lgamma(n + 1) - torch.lgamma(up + 1) - torch.lgamma(n - up + 1)
    wanted = torch.logsumexp(ways + 0.5 * c * ((2 * up - n) ** 2 - n), 0)
    found = log_z(machine)
    assert abs(float(found.lower) - float(wanted)) < 1e-9
    assert found.effort.endswith("points of a lattice of Gaussian fields")
    assert found.effort.startswith(f"{points_of(machine):,}")
    assert not can_integrate(rbm(4, 3, 2, seed=0))
    assert not can_integrate(bm(4, 3, seed=0))


@pytest.mark.parametrize("beta", [0.5, 1.0])
@pytest.mark.parametrize("machine", EVERY)
def test_moments(machine, beta):
    every, p = exact_distribution(machine, beta)
    found = exact_moments(machine, beta=beta)
    assert torch.allclose(found.mean, p @ every, atol=1e-12)
    pairs = torch.einsum("ex,xi,xj->eij", p, every, every)
    assert torch.allclose(found.pairs, pairs, atol=1e-12)


@pytest.mark.parametrize("beta", [0.6, 1.0])
@pytest.mark.parametrize("biases", [False, True])
def test_moments_by_every_route(biases, beta):
    seen = set()
    for machine in (
        rbm(7, 6, 2, replicas=2, seed=0, dtype=torch.float64),  # few kinds
        rbm(3, 9, 2, seed=0, dtype=torch.float64),
        bm(12, 0, 1, replicas=2, seed=0, continuous=True, scale=0.5, dtype=torch.float64),
        dbm(4, (4, 4), 2, seed=0, dtype=torch.float64),
    ):
        if biases:
            steps = 0.2 * (torch.arange(machine.layers.columns) % 2).double()
            machine = Machine(machine.couplings, steps.expand(machine.replicas, -1).clone())
        found = exact_moments(machine, beta=beta)
        seen.add(found.method)
        every, p = exact_distribution(machine, beta)
        assert torch.allclose(found.mean, p @ every, atol=1e-12)
        pairs = torch.einsum("ex,xi,xj->eij", p, every, every)
        assert torch.allclose(found.pairs, pairs, atol=1e-12)
    assert seen == {"counting", "quadrature", "enumeration"}


def test_moments_in_many_chunks(monkeypatch):
    """Parts are weighed against each other: the largest summand comes late, or early."""
    for machine, method in (
        (rbm(14, 12, 2, seed=0, dtype=torch.float64), "counting"),
        (bm(12, 0, 1, seed=0, scale=0.3, dtype=torch.float64), "quadrature"),
        (rbm(6, 7, scale=0.7, seed=0, biases=True, dtype=torch.float64), "enumeration"),
    ):
        whole = exact_moments(machine)
        with monkeypatch.context() as patch:
            patch.setattr("rapidbm.likelihood.counting.CHUNK", 3)
            patch.setattr(quadrature, "CHUNK", 7)
            patch.setattr("rapidbm.machines.enumeration.CHUNK_BYTES", 13 * 8 * 5)
            parts = exact_moments(machine)
            if method == "quadrature":
                assert torch.allclose(log_z_by_quadrature(machine), brute(machine), atol=1e-12)
        assert parts.method == method
        assert torch.allclose(parts.mean, whole.mean, atol=1e-12)
        assert torch.allclose(parts.pairs, whole.pairs, atol=1e-12)


def test_moments_of_a_large_machine_and_of_too_large_ones():
    machine = rbm(200, 100, 2, seed=0, scale=0.05)
    found = exact_moments(machine)
    assert found.method == "counting"
    assert found.pairs.shape == (1, 300, 300)
    assert float(found.pairs.abs().max()) <= 1 + 1e-12
    with pytest.raises(InputError, match="exact moments enumerates at most"):
        exact_moments(rbm(60, 50, seed=0))
    with pytest.raises(InputError, match="terms by counting"):
        exact_moments(rbm(784, 500, 5, seed=0))
