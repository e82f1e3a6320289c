"""Effective couplings against means over all states, and scores of contacts against their formula."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

import rapidbm as rb

KINDS = {
    "spin": rb.Spin(),
    "binary": rb.Binary(),
    "categorical": rb.Categorical(3),
    "several q": rb.Categorical((2, 4, 3)),
}
HIDDEN = {"spin": rb.Spin(), "binary": rb.Binary(), "gaussian": rb.Gaussian()}


def strong(machine: rb.Machine, size: float) -> rb.Machine:
    """The machine in float64 with random parameters of this size."""
    rng = torch.Generator().manual_seed(3)
    for name, parameter in machine.named_parameters():
        scale = 0.3 if name.startswith("own") else size
        parameter.data = scale * torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    return machine


def states_of(layers: rb.Layers) -> list[list[Tensor]]:
    """The states of each visible unit, on its columns."""
    found = []
    for layer in layers.visible:
        unit = layers.kinds[layer]
        for where, one in unit.one_by_one(layers.sizes[layer]):
            width = where.stop - where.start
            found.append(list(one.states(width, torch.arange(one.count(width))).double()))
    return found


def table_of(machine: rb.Machine) -> Tensor:
    """log p up to a constant over all visible states, an axis for each unit."""
    each = states_of(machine.layers)
    rows = torch.stack([torch.cat(row) for row in itertools.product(*each)])
    return machine.log_prob_unnormalised(rows)[0].detach().reshape([len(states) for states in each])


def term(table: Tensor, *units: int) -> Tensor:
    """The zero-sum term of some units: means over the others, less the terms of fewer."""
    others = [i for i in range(table.dim()) if i not in units]
    found = table.mean(others) if others else table
    for axis in range(len(units)):
        found = found - found.mean(axis, keepdim=True)
    return found


def check(machine: rb.Machine, order: int = 2) -> None:
    found = rb.effective_couplings(machine, order=order)
    table, each = table_of(machine), states_of(machine.layers)
    starts = [sum(len(states[0]) for states in each[:i]) for i in range(len(each))]
    slices = [slice(a, a + len(states[0])) for a, states in zip(starts, each, strict=True)]

    def of_found(row: tuple[Tensor, ...]) -> float:
        x = torch.cat(row)
        triples = 0.0 if found.triples is None else ((found.triples[0] @ x) @ x) @ x / 6
        return float(found.fields[0] @ x + 0.5 * x @ found.pairs[0] @ x + triples)

    ours = torch.tensor([of_found(row) for row in itertools.product(*each)], dtype=torch.float64)
    ours = ours.reshape(table.shape)
    for i, j in itertools.combinations(range(len(each)), 2):
        torch.testing.assert_close(term(ours, i, j), term(table, i, j), rtol=1e-9, atol=1e-10)
        block = found.pairs[0][slices[i], slices[j]]
        if len(each[i][0]) > 1:  # one-hot: zero sums
            assert block.sum(0).abs().max() < 1e-10
    for i in range(len(each)):
        torch.testing.assert_close(term(ours, i), term(table, i), rtol=1e-9, atol=1e-10)
    for some in itertools.combinations(range(len(each)), 3) if order == 3 else ():
        torch.testing.assert_close(term(ours, *some), term(table, *some), rtol=1e-9, atol=1e-10)
    rest = (ours - table - (ours - table).mean()).abs().max()
    exact = found.complete or (order == 3 and len(each) == 3)  # then there are no terms of more units
    assert (float(rest) < 1e-9) == exact


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [3, 4])
def test_couplings_of_three_units_against_means_over_all_states(kind, hidden, units):
    unit = rb.Categorical((2, 3, 2, 2)[:units]) if kind == "several q" else KINDS[kind]
    machine = rb.rbm(units, 2, units=unit, hidden_units=HIDDEN[hidden], biases=True, seed=0)
    check(strong(machine, 1.5), order=3)


def test_couplings_of_three_units_of_several_kinds():
    kinds = (rb.Spin(), rb.Categorical((3, 2)), rb.Binary())
    check(strong(rb.rbm((1, 2, 1), 3, units=kinds, biases=True, seed=0), 1.0), order=3)
    check(strong(rb.bm(4, units=rb.Binary(), biases=True, seed=0), 1.0), order=3)


def test_couplings_of_three_units_are_symmetric_and_not_of_one_unit():
    machine = strong(rb.rbm(3, 2, units=rb.Categorical(3), replicas=2, biases=True, seed=0), 1.0)
    triples = rb.effective_couplings(machine, order=3).triples
    assert triples.shape == (2, 9, 9, 9)
    for axes in itertools.permutations((1, 2, 3)):
        torch.testing.assert_close(triples.permute(0, *axes), triples)
    assert float(triples[:, :3, 3:6, 6:].abs().min()) > 0
    for first, second, third in itertools.product(range(3), repeat=3):
        if len({first, second, third}) < 3:
            block = triples[:, 3 * first : 3 * first + 3, 3 * second : 3 * second + 3]
            assert not block[..., 3 * third : 3 * third + 3].any()
    assert rb.effective_couplings(machine).triples is None


def test_an_order_that_is_none_is_refused():
    with pytest.raises(rb.InputError, match="order 2 or 3"):
        rb.effective_couplings(rb.rbm(3, 2, seed=0), order=4)


@pytest.mark.parametrize("size", [0.3, 4.0])
@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("kind", KINDS)
def test_restricted_machines_against_means_over_all_states(kind, hidden, size):
    machine = rb.rbm(3, 2, units=KINDS[kind], hidden_units=HIDDEN[hidden], biases=True, seed=0)
    check(strong(machine, size))


def test_units_of_several_kinds():
    kinds = (rb.Spin(), rb.Categorical((3, 2)), rb.Binary())
    check(strong(rb.rbm((1, 2, 1), 3, units=kinds, biases=True, seed=0), 1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_full_machines_have_their_own_couplings(kind):
    check(strong(rb.bm(3, units=KINDS[kind], biases=True, seed=0), 1.0))


def test_patterns_are_couplings():
    check(strong(rb.rbm(3, 2, 2, units=rb.Categorical(3), biases=True, seed=0), 0.8))
    check(strong(rb.bm(3, 0, 2, units=rb.Categorical(3), biases=True, seed=0), 0.8))


def test_spins_of_a_full_machine_are_as_they_are():
    machine = rb.bm(5, biases=True, seed=0, scale=0.5, replicas=2)
    found = rb.effective_couplings(machine)
    torch.testing.assert_close(found.pairs.float(), machine.couplings.matrix(0, 0).detach())
    torch.testing.assert_close(found.fields.float(), machine.biases.detach())


def test_replicas_are_those_of_single_machines():
    machine = strong(rb.rbm(3, 2, units=rb.Categorical(3), replicas=2, biases=True, seed=0), 1.0)
    both, one = rb.effective_couplings(machine), rb.effective_couplings(machine.replica(1))
    torch.testing.assert_close(both.pairs[1:], one.pairs, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(both.fields[1:], one.fields, rtol=1e-10, atol=1e-12)


def test_a_weight_at_which_the_mean_of_a_unit_vanishes():
    machine = strong(rb.rbm(3, 1, biases=True, seed=0), 1.0)
    machine.couplings.weights["0-1"].data[:] = math.pi  # cos(πt) is 0 at half numbers
    check(machine)


def test_norms_and_average_product():
    machine = strong(rb.bm(4, units=rb.Categorical(3), biases=True, seed=0), 1.0)
    found = rb.effective_couplings(machine)
    blocks = found.pairs[0].reshape(4, 3, 4, 3)
    norms = blocks.square().sum((1, 3)).sqrt()
    torch.testing.assert_close(found.norms()[0], norms)
    kept = blocks[:, 1:, :, 1:].square().sum((1, 3)).sqrt()
    torch.testing.assert_close(found.norms(without=0)[0], kept)
    mean = [sum(float(norms[i, j]) for j in range(4) if j != i) / 3 for i in range(4)]
    scores = found.contacts()[0]
    expected = float(norms[0, 2]) - mean[0] * mean[2] / (sum(mean) / 4)
    assert scores[0, 2] == pytest.approx(expected)
    assert not scores.diagonal().any()


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (lambda: rb.rbm(3, 2, units=rb.Gaussian(), seed=0), "visible units that are"),
        (lambda: rb.rbm(3, 2, hidden_units=rb.Categorical(3), seed=0), "hidden units that are"),
        (lambda: rb.dbm(3, (2, 2), seed=0), "not coupled to each other"),
    ],
)
def test_what_has_none_is_refused(machine, words):
    with pytest.raises(rb.InputError, match=words):
        rb.effective_couplings(machine())


def test_a_state_that_is_none_is_refused():
    found = rb.effective_couplings(rb.bm(3, units=rb.Categorical(3), seed=0))
    for wrong in (3, -1, 0.5):
        with pytest.raises(rb.InputError, match="must be a state"):
            found.contacts(without=wrong)
    with pytest.raises(rb.InputError, match="leave it out"):
        rb.effective_couplings(rb.bm(3, seed=0)).norms(without=0)
