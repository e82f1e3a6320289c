"""Weights from and to other conventions, and binary quadratic models: exact, by enumeration."""

import dimod
import numpy as np
import pytest
import torch

import rapidbm as rb
from conftest import machines, states
from rapidbm.machines.units.spin import Spin
from rapidbm.machines.weights import bqm_layers

LEVELS = [(0, 1), (-1, 1), (-0.5, 2.0)]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("levels", LEVELS, ids=str)
@pytest.mark.parametrize("replicas", [None, 3])
def test_energies_of_weights_are_the_machines_plus_a_constant(levels, replicas):
    lead = () if replicas is None else (replicas,)
    w, b, c = numbers(*lead, 5, 3), numbers(*lead, 5, seed=1), numbers(*lead, 3, seed=2)
    machine = rb.Machine.from_weights(w, b, c, levels)
    every = states(8, 0, 2**8).double()
    x = torch.tensor(levels, dtype=torch.float64)[(every > 0).long()].numpy()
    v, h = x[:, :5], x[:, 5:]
    theirs = -np.einsum("xv,...vh,xh->...x", v, w, h) - b @ v.T - c @ h.T
    found = machine.to_weights(levels)
    ours = machine.energy(every) + found.constant[:, None]
    assert np.allclose(ours.detach().numpy(), theirs.reshape(ours.shape), atol=1e-12, rtol=0)
    for got, want in ((found.W, w), (found.b, b), (found.c, c)):
        assert np.allclose(got.numpy(), want.reshape(got.shape), atol=1e-12, rtol=0)


def test_free_energies_have_the_same_constant():
    w, b, c = numbers(6, 4), numbers(6, seed=1), numbers(4, seed=2)
    machine = rb.Machine.from_weights(w, b, c)
    v = (states(6, 0, 2**6).numpy() + 1) // 2
    theirs = -(v @ b) - np.logaddexp(0, v @ w + c).sum(1)
    ours = machine.free_energy(v) + machine.to_weights().constant
    assert np.allclose(ours[0].detach().numpy(), theirs, atol=1e-12, rtol=0)


def test_types_and_biases_are_kept():
    w = torch.tensor(numbers(4, 2), dtype=torch.float32)
    machine = rb.Machine.from_weights(w, levels=(-1, 1))
    assert machine.dtype == torch.float32
    assert machine.symmetric
    assert torch.equal(machine.to_weights((-1, 1)).W[0].float(), w)
    assert not rb.Machine.from_weights(w).symmetric  # {0, 1} have biases as spins
    assert rb.Machine.from_weights(w.tolist()).dtype == torch.float64
    w.mul_(2)
    assert not torch.equal(machine.to_weights((-1, 1)).W[0].float(), w)


def test_patterns_have_weights():
    machine = rb.rbm(4, 3, patterns=2, replicas=2, seed=0, dtype=torch.float64)
    other = rb.Machine.from_weights(*[getattr(machine.to_weights(), x) for x in "Wbc"])
    every = states(7, 0, 2**7)
    assert torch.allclose(machine.energy(every), other.energy(every), atol=1e-12)


class Other(Spin):
    """Spins by another name."""


def other_units():
    layers = rb.Layers((3, 2), ((0, 1),), (Other(), Other()))
    return rb.Machine(rb.Dense(layers, {(0, 1): numbers(1, 3, 2)}))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rb.Machine.from_weights(numbers(4)), r"\(visible, hidden\)"),
        (lambda: rb.Machine.from_weights(numbers(4, 2), numbers(3)), r"b, .* must be \(4,\), not \(3,\)"),
        (lambda: rb.Machine.from_weights(numbers(4, 2), None, numbers(4)), r"c, .* must be \(2,\)"),
        (lambda: rb.Machine.from_weights(numbers(4, 2), levels=(1, 1)), "the lower first"),
        (lambda: rb.Machine.from_weights(numbers(4, 2), levels=2), "the lower first"),
        (lambda: rb.Machine.from_weights(numbers(4, 2) * np.nan), "finite"),
        (lambda: rb.dbm(3, (2, 2), seed=0).to_weights(), "to_bqm"),
        (lambda: other_units().to_weights(), "is for spins"),
        (lambda: other_units().to_bqm(), "is for spins"),
        (lambda: rb.rbm(3, 2, replicas=2, seed=0).to_bqm(), r"machine.replica\(0\)"),
        (lambda: rb.rbm(3, 2, seed=0).to_bqm(names="abcd"), "5 different names"),
        (lambda: rb.rbm(1, 1, seed=0).to_bqm(names=[["a"], ["b"]]), "a name is a"),
        (lambda: rb.rbm(3, 2, seed=0).to_bqm(vartype="spin"), "SPIN"),
        (lambda: rb.Machine.from_bqm({}), "not 'dict'"),
        (lambda: rb.Machine.from_bqm(dimod.BQM("SPIN")), "at least one variable"),
        (lambda: rb.Machine.from_bqm(dimod.BQM({"a": 1}, {}, "SPIN"), [["b"]]), "bqm_layers"),
    ],
)
def test_what_cannot_be_converted_says_so(call, words):
    with pytest.raises(rb.InputError, match=words):
        call()


@pytest.mark.parametrize("vartype", ["SPIN", dimod.BINARY])
@pytest.mark.parametrize("machine", machines(1) + machines(1, biases=False))
def test_a_binary_quadratic_model_has_the_machines_energies(machine, vartype):
    n = machine.layers.columns
    names = [f"unit {i}" for i in range(n)]
    bqm = machine.to_bqm(names=names, vartype=vartype)
    assert list(bqm.variables) == names
    every = states(n, 0, 2**n)
    rows = (every if vartype == "SPIN" else (every + 1) // 2).numpy()
    energies = bqm.energies((rows, names))
    assert np.allclose(energies, machine.energy(every)[0].detach().numpy(), atol=1e-12)
    layers = [names[where] for where in machine.layers.slices]
    again = rb.Machine.from_bqm(bqm, layers)
    assert again.layers == machine.layers
    assert torch.allclose(
        again.energy(every) + bqm.spin.offset, machine.energy(every), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_the_graph_gives_the_machine_its_shape(vartype):
    ring = {("a", "b"): 1.0, ("c", "b"): -0.5, ("c", "d"): 0.3, ("d", "a"): 0.2}
    bqm = dimod.BQM({"e": 0.7}, ring, 1.5, vartype)  # e is on its own
    assert bqm_layers(bqm) == (("a", "c", "e"), ("b", "d"))
    machine = rb.Machine.from_bqm(bqm)
    assert machine.layers.is_restricted
    every = states(5, 0, 32)
    order = ["a", "c", "e", "b", "d"]
    rows = (every if vartype == "SPIN" else (every + 1) // 2).numpy()
    theirs = bqm.energies((rows, order))
    ours = machine.energy(every)[0] + bqm.spin.offset
    assert np.allclose(ours.detach().numpy(), theirs, atol=1e-12)
    odd = dimod.BQM({}, {**ring, ("a", "c"): 0.1}, vartype)
    assert bqm_layers(odd) == (("a", "b", "c", "d"),)
    assert rb.Machine.from_bqm(odd).layers.full
    free = rb.Machine.from_bqm(dimod.BQM({"x": 0.5, "y": -1.0}, {}, "SPIN"))
    assert torch.equal(free.energy([[1, 1], [1, -1]])[0], torch.tensor([-0.5, 1.5], dtype=torch.float64))


def test_a_missing_dimod_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dimod", None)
    with pytest.raises(rb.InputError, match=r"pip install 'rapidbm\[dwave\]'"):
        rb.rbm(3, 2, seed=0).to_bqm()
