"""Counting by kinds of units against enumeration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import states
from rapidbm.likelihood.counting import (
    Kinds,
    can_count,
    log_z_by_counting,
    rows_of,
    sides,
    terms,
    terms_of,
)
from rapidbm.likelihood.exact import can_be_exact
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.machines.machine import Machine, stack


def brute(machine, beta=1.0):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    return torch.logsumexp(-beta * machine.energy(every).detach(), 1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 7),
    st.integers(1, 7),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0.3, 1.0, 1.6]),
)
def test_it_is_the_sum_over_all_states(visible, hidden, patterns, biases, beta):
    machine = rbm(visible, hidden, patterns, replicas=2, seed=0, dtype=torch.float64)
    if biases:  # two values, so that units of one kind remain
        values = 0.3 * torch.where(torch.arange(visible + hidden) % 2 == 0, 1.0, -1.0)
        machine = Machine(machine.couplings, values.double().expand(2, -1).clone())
    assert torch.allclose(log_z_by_counting(machine, beta), brute(machine, beta), rtol=0.0, atol=1e-11)


def test_continuous_patterns_have_a_kind_for_every_unit():
    machine = rbm(5, 4, 2, seed=0, continuous=True, dtype=torch.float64)
    assert terms_of(machine) == 2**4
    assert torch.allclose(log_z_by_counting(machine), brute(machine), rtol=0.0, atol=1e-11)


def test_flipped_units_are_of_the_same_kind():
    machine = rbm(300, 40, 3, seed=0)
    kinds = Kinds.of(rows_of(machine, 0, (0,)))
    assert len(kinds.counts) == 4  # 2^(K−1)
    assert int(kinds.counts.sum()) == 300
    zero = rbm(6, 4, 1, seed=0)
    zero.couplings.patterns.data.zero_()
    assert Kinds.of(rows_of(zero, 0, (0,))).counts.tolist() == [6]
    assert float(log_z(zero, method="exact").lower) == pytest.approx(
        10 * torch.log(torch.tensor(2.0)).item()
    )


def test_terms_are_those_of_the_replica_that_has_most():
    one, other = (rbm(6, 8, 2, seed=0, continuous=x, dtype=torch.float64) for x in (False, True))
    alone = [terms_of(one), terms_of(other)]
    assert alone[0] < alone[1] == 2**6
    for pair in ([one, other], [other, one]):
        assert terms_of(stack(pair)) == 2**6


def test_many_chunks(monkeypatch):
    """Warm, so that every term has its weight: a chunk that lost one would show."""
    machine = rbm(6, 7, 2, scale=0.3, replicas=2, seed=0, dtype=torch.float64)
    whole = brute(machine)
    monkeypatch.setattr("rapidbm.likelihood.counting.CHUNK", 5)
    assert torch.allclose(log_z_by_counting(machine), whole, rtol=0.0, atol=1e-11)
    chunks = [logs for logs, _, _ in terms(machine, 0, *sides(machine, 0)[1:], 1.0)]
    assert len(chunks) > 2
    assert len(chunks[-1]) < 5
    assert float((torch.cat(chunks) - whole[0]).min()) > -7.0  # no term is below a thousandth


def test_exact_at_a_size_that_nobody_enumerates():
    """A cold machine, where annealing that adapts its steps holds the exact value in its interval."""
    machine = rbm(120, 90, 2, seed=0, dtype=torch.float64)
    exact = log_z(machine)
    assert exact.method == "exact"
    assert "terms" in exact.effort
    found = log_z(machine, method="ais", seed=0, chains=100)
    low, high = (
        found.interval
    )  # 2.7 times as far it reaches 5.3 standard errors: one of 10⁷ is farther off
    assert abs(float(exact.lower - (low + high) / 2)) < 2.7 * float(high - low) / 2
    assert float((found.lower - exact.lower).abs()) < 0.5
    large = log_z(rbm(784, 500, 2, seed=0))
    assert large.method == "exact"


def test_it_serves_machines_of_two_layers_with_patterns():
    assert can_count(rbm(4, 3, 2))
    assert not can_count(rbm(4, 3))
    assert not can_count(dbm(4, (3, 2), 2))
    assert can_be_exact(rbm(784, 500, 2, seed=0))  # by counting alone
    assert not can_be_exact(rbm(784, 500, 2, seed=0, continuous=True))
