"""Identities in float64, with no randomness but the machine's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.random import stream

EVERY = machines(1) + machines(3)


def some_spins(machine, count=6):
    return machine.random(count, stream(9))


@pytest.mark.parametrize("machine", EVERY)
def test_flipping_a_spin_costs_twice_its_field(machine):
    spins = some_spins(machine)
    for layer, where in enumerate(machine.layers.slices):
        field = machine.field(spins, layer)
        for i in range(where.start, where.stop):
            up, down = spins.clone(), spins.clone()
            up[..., i], down[..., i] = 1, -1
            gap = machine.energy(down) - machine.energy(up)
            assert torch.allclose(gap, 2 * field[..., i - where.start], atol=1e-12)


@pytest.mark.parametrize("machine", EVERY)
def test_energy_counts_every_pair_once(machine):
    spins = some_spins(machine)
    total = torch.zeros(spins.shape[:2], dtype=torch.float64)
    for a, b in machine.layers.edges:
        J = machine.couplings.matrix(a, b)
        left, right = (spins[..., machine.layers.slices[x]] for x in (a, b))
        pairs = torch.einsum("eci,eij,ecj->ec", left, J, right)
        total -= pairs / 2 if a == b else pairs
        if a == b:
            assert torch.equal(J.diagonal(dim1=1, dim2=2), torch.zeros_like(J[:, 0]))
            assert torch.equal(J, J.mT)
    total -= (spins * machine.biases[:, None]).sum(-1)
    assert torch.allclose(machine.energy(spins), total, atol=1e-12)


@pytest.mark.parametrize("machine", EVERY)
def test_the_field_of_the_couplings_includes_a_layers_own(machine):
    spins = some_spins(machine)
    for layer, where in enumerate(machine.layers.slices):
        field = machine.couplings.field(spins, layer) + machine.biases[:, None, where]
        assert torch.allclose(field, machine.field(spins, layer), atol=1e-12)


@pytest.mark.parametrize("machine", [m for m in EVERY if "patterns" in m.id])
def test_patterns_equal_their_dense_matrix(machine):
    dense = Machine(machine.couplings.dense(), machine.biases.data)
    spins = some_spins(machine)
    means = 0.9 * torch.tanh(spins * torch.arange(1, machine.layers.columns + 1))
    for x in (spins, means):
        a, b = machine.energy(x, means=True), dense.energy(x, means=True)
        assert torch.allclose(a, b, atol=1e-12)
        for layer in range(len(machine.layers.sizes)):
            for own in (True, False):
                a, b = (one.field(x, layer, own=own, means=True) for one in (machine, dense))
                assert torch.allclose(a, b, atol=1e-12)


def test_couplings_are_eq_2():
    xi = torch.tensor([[[1.0, -1.0, 1.0], [1.0, 1.0, -1.0]]], dtype=torch.float64)
    J = Patterns(Layers((1, 2), ((0, 1),)), xi).matrix(0, 1)
    assert torch.allclose(J, torch.tensor([[[0.0, 0.0]]], dtype=torch.float64))
    xi[0, 1, 0] = -1
    J = Patterns(Layers((1, 2), ((0, 1),)), xi).matrix(0, 1)
    assert torch.allclose(J, torch.tensor([[[-2.0, 2.0]]], dtype=torch.float64) / 2**0.5)


@pytest.mark.parametrize("machine", EVERY)
def test_gradient_of_the_mean_energy_is_autograd(machine):
    spins = 0.8 * some_spins(machine)  # also for units that hold means
    weights = torch.rand(spins.shape[:2], generator=stream(2), dtype=torch.float64)
    loss = (machine.energy(spins, means=True) * weights).sum()  # summed over replicas
    names = [name for name, _ in machine.named_parameters()]
    wanted = torch.autograd.grad(loss, list(machine.parameters()))
    found = machine.gradient(WeightedSpins(spins, weights))
    assert set(found) == set(names)
    for name, value in zip(names, wanted, strict=True):
        assert torch.allclose(found[name], value, atol=1e-12), name


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 6),
    st.integers(1, 40),
)
def test_through_overlaps_or_through_the_matrix(sizes, patterns, chains):
    """`field` picks the cheaper way; both give the same."""
    machine = dbm(sizes[0], sizes[1:], patterns, replicas=2, seed=0, dtype=torch.float64)
    spins = machine.random(chains, stream(1))
    ways = []
    for cheaper in (True, False):
        old = Patterns._matrix_is_cheaper
        Patterns._matrix_is_cheaper = lambda *_, way=cheaper: way
        try:
            ways.append([machine.field(spins, layer) for layer in range(3)])
        finally:
            Patterns._matrix_is_cheaper = old
    for a, b in zip(*ways, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_the_matrix_is_built_only_where_that_is_cheaper(monkeypatch):
    built = []
    plain = Patterns.matrix
    monkeypatch.setattr(Patterns, "matrix", lambda self, a, b: built.append(1) or plain(self, a, b))
    wide = rbm(20, 300, 4, seed=0)  # K(V+H) < VH
    wide.field(wide.random(50, stream(0)), 1)
    assert not built
    narrow = rbm(6, 6, 30, seed=0)  # K(V+H) > VH
    narrow.field(narrow.random(2, stream(0)), 1)  # but for two chains W does not pay
    assert not built
    narrow.field(narrow.random(500, stream(0)), 1)
    assert built


@pytest.mark.parametrize("machine", machines(3))
def test_a_replica_in_an_ensemble_is_the_replica_alone(machine):
    spins = some_spins(machine)
    weights = torch.full(spins.shape[:2], 1 / 6, dtype=torch.float64)
    whole = machine.gradient(WeightedSpins(spins, weights))
    for i in range(3):
        alone, mine = machine.replica(i), spins[i : i + 1]
        assert torch.allclose(alone.energy(mine), machine.energy(spins)[i : i + 1], atol=1e-13)
        part = alone.gradient(WeightedSpins(mine, weights[:1]))
        for name, value in part.items():
            assert torch.allclose(value, whole[name][i : i + 1], atol=1e-13)


def dense_rbm(replicas=3):
    return rbm(5, 7, replicas=replicas, scale=1.0, seed=4, dtype=torch.float64).couplings


@pytest.mark.parametrize("patterns", [5, 9])  # the rank, and more than it
def test_as_many_patterns_as_the_rank_are_the_dense_couplings(patterns):
    dense = dense_rbm()
    found = Patterns.from_dense(dense, patterns)
    assert found.patterns.shape == (3, patterns, 12)
    assert torch.allclose(found.matrix(0, 1), dense.matrix(0, 1), atol=1e-12)
    assert torch.equal(found.patterns[:, 5:], torch.zeros_like(found.patterns[:, 5:]))


@pytest.mark.parametrize("patterns", [1, 3])
def test_fewer_patterns_leave_the_discarded_singular_values(patterns):
    dense = dense_rbm()
    left = dense.matrix(0, 1) - Patterns.from_dense(dense, patterns).matrix(0, 1)
    sigma = torch.linalg.svdvals(dense.matrix(0, 1))
    assert torch.allclose(left.square().sum((1, 2)), sigma[:, patterns:].square().sum(1))


def test_no_other_patterns_are_nearer():
    dense = dense_rbm()
    found = Patterns.from_dense(dense, 2)
    least = (dense.matrix(0, 1) - found.matrix(0, 1)).square().sum((1, 2))
    for i in range(50):
        step = torch.randn(found.patterns.shape, generator=stream(i), dtype=torch.float64)
        for size in (1e-3, 0.1, 1.0):
            other = Patterns(dense.layers, found.patterns.data + size * step)
            miss = (dense.matrix(0, 1) - other.matrix(0, 1)).square().sum((1, 2))
            assert (miss > least).all()


def test_patterns_of_a_replica_are_its_own():
    dense = dense_rbm()
    whole = Patterns.from_dense(dense, 2).matrix(0, 1)
    for i in range(3):
        alone = Patterns.from_dense(Machine(dense).replica(i).couplings, 2)
        assert torch.allclose(alone.matrix(0, 1), whole[i : i + 1], atol=1e-12)


@pytest.mark.parametrize("layers", [((3, 3), ((0, 1), (1, 1))), ((2, 2, 2), ((0, 1), (1, 2)))])
def test_patterns_from_dense_need_a_restricted_machine(layers):
    shape = Layers(*layers)
    weights = {(a, b): torch.ones(1, shape.sizes[a], shape.sizes[b]) for a, b in shape.edges}
    dense = Dense(shape, weights)
    with pytest.raises(InputError, match="restricted machine"):
        Patterns.from_dense(dense, 2)


def test_the_lower_triangle_of_a_self_coupled_layer_is_nothing():
    layers = Layers((3,), ((0, 0),))
    full = torch.arange(9.0).reshape(1, 3, 3)
    machine = Machine(Dense(layers, {(0, 0): full}))
    assert torch.equal(machine.couplings.weights["0-0"], full.triu(1))
    spins = states(3, 0, 8).float()
    by_hand = -(spins[:, 0] * spins[:, 1] * 1 + spins[:, 0] * spins[:, 2] * 2)
    by_hand -= spins[:, 1] * spins[:, 2] * 5
    assert torch.allclose(machine.energy(spins)[0], by_hand)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Patterns(Layers((2, 2), ((0, 1),)), torch.ones(1, 3, 5)), r"\(replicas, K, 4\)"),
        (lambda: Patterns(Layers((2, 2), ((0, 1),)), torch.ones(1, 0, 4)), "K ≥ 1"),
        (lambda: Dense(Layers((2, 3), ((0, 1),)), {}), "one matrix per edge"),
        (
            lambda: Dense(Layers((2, 3), ((0, 1),)), {(0, 1): torch.ones(1, 3, 2)}),
            r"must be \(replicas, 2, 3\)",
        ),
    ],
)
def test_bad_couplings(make, words):
    with pytest.raises(InputError, match=words):
        make()
