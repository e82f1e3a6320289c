"""Errors of couplings against enumeration, autograd and machines whose couplings are known."""

from __future__ import annotations

import pytest
import torch

import rapidbm as rb
from rapidbm.inference import coupling_errors as module
from rapidbm.inference.coupling_errors import Statistics, _discoveries

KINDS = {"spin": rb.Spin(), "binary": rb.Binary(), "categorical": rb.Categorical((2, 3, 2))}


def machine_of(kind: str, seed: int = 1, size: float = 0.5) -> rb.Machine:
    biases = kind != "free"
    machine = rb.bm(3, units=KINDS.get(kind, rb.Spin()), biases=biases, seed=0, dtype=torch.float64)
    rng = torch.Generator().manual_seed(seed)
    for parameter in machine.parameters():
        parameter.data = size * torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    return machine


def rows_of(machine: rb.Machine, count: int, seed: int = 0) -> torch.Tensor:
    """Independent rows, drawn from the list of all states."""
    states = every(machine)
    weights = torch.softmax(-machine.energy(states)[0].double(), 0).detach()
    rng = torch.Generator().manual_seed(seed)
    return states[torch.multinomial(weights, count, replacement=True, generator=rng)]


def every(machine: rb.Machine) -> torch.Tensor:
    layers = machine.layers
    count = layers.count(layers.visible)
    return layers.states(layers.visible, torch.arange(count)).double()


@pytest.mark.parametrize("kind", ["free", *KINDS])
def test_errors_are_those_of_the_second_derivatives_of_the_likelihood(kind):
    source = machine_of(kind)
    rows = rows_of(source, 3000)
    found = rb.coupling_errors(machine_of(kind, seed=2, size=0.1), rows)
    statistics, states = Statistics(source), every(source)
    at, means = statistics.of(states), statistics.mean(rows)

    def loss(theta):
        return torch.logsumexp(at @ theta, 0) - means @ theta

    theta = torch.zeros(statistics.count, dtype=torch.float64)
    for _ in range(50):  # Newton's steps by autograd
        gradient = torch.autograd.functional.jacobian(loss, theta)
        inverse = torch.linalg.inv(torch.autograd.functional.hessian(loss, theta))
        theta = theta - inverse @ gradient
    fields, pairs = statistics.on_columns(theta)
    torch.testing.assert_close(found.pairs.value[0], pairs, rtol=0, atol=1e-4)
    torch.testing.assert_close(found.fields.value[0], fields, rtol=0, atol=1e-4)
    # An error on columns is that of a linear function of θ.
    for i, j in ((0, -1), (1, -1)):

        def entry(t, i=i, j=j):
            return statistics.on_columns(t)[1][i, j]

        slope = torch.autograd.functional.jacobian(entry, theta)
        wanted = (slope @ inverse @ slope / len(rows)).sqrt()
        torch.testing.assert_close(found.pairs.error[0, i, j], wanted, rtol=1e-3, atol=0)
    if kind == "categorical":
        assert found.pairs.value[0, :2, 2:5].sum(0).abs().max() < 1e-9
        assert found.fields.error.min() > 0
    if kind == "free":
        assert not found.fields.error.any()
    assert found.step.item() > 3
    assert not found.note


@pytest.mark.parametrize("kind", ["spin", "categorical"])
def test_samples_give_what_sums_give(kind, monkeypatch):
    machine = machine_of(kind)
    rows = rows_of(machine, 2000)
    exact = rb.coupling_errors(machine, rows)
    monkeypatch.setattr(module, "EXACT", 0)
    sampled = rb.coupling_errors(machine, rows, chains=400, sweeps=20, seed=0)
    coupled = exact.pairs.error[0] > 0
    ratio = (sampled.pairs.error / exact.pairs.error)[0][coupled]
    assert 1.0 < float(ratio.mean()) < 1.3  # what sampling adds
    apart = ((sampled.pairs.value - exact.pairs.value) / exact.pairs.error)[0][coupled]
    assert 0 < float(apart.abs().max()) < 2.0
    again = rb.coupling_errors(machine, rows, chains=400, sweeps=20, seed=0)
    assert torch.equal(again.pairs.value, sampled.pairs.value)


def test_intervals_hold_the_truth_as_often_as_they_say():
    source = rb.bm(6, biases=True, scale=0.3, seed=1, dtype=torch.float64).requires_grad_(False)
    true = rb.effective_couplings(source).pairs[0]
    first, second = torch.triu_indices(6, 6, 1)
    scores = []
    for seed in range(60):
        found = rb.coupling_errors(source, rows_of(source, 1000, seed))
        z = (found.pairs.value[0] - true) / found.pairs.error[0]
        scores.append(z[first, second])
    z = torch.cat(scores)  # 900 of them
    assert 0.92 < float((z.abs() < 1.96).double().mean()) < 0.98
    assert 0.93 < float(z.std()) < 1.07


@pytest.mark.parametrize("kind", ["free", "categorical"])
def test_p_values_of_pairs_that_are_not_coupled_are_uniform(kind):
    source = machine_of(kind)
    for parameter in source.couplings.parameters():
        parameter.data.zero_()
    found = [rb.coupling_errors(source, rows_of(source, 1000, seed)).p_values[0] for seed in range(100)]
    first, second = torch.triu_indices(3, 3, 1)
    p = torch.cat([each[first, second] for each in found]).sort().values
    # Kolmogorov and Smirnov: 1.63 / √300 is passed once in a hundred.
    assert float((p - torch.linspace(0, 1, 300, dtype=torch.float64)).abs().max()) < 1.63 / 300**0.5


def test_discoveries_by_hand():
    p = torch.ones(4, 4, dtype=torch.float64)
    first, second = torch.triu_indices(4, 4, 1)
    # Limits 0.05 k / 6: 0.008, 0.017, 0.025, … The third passes and takes the second along.
    p[first, second] = torch.tensor([0.001, 0.5, 0.02, 0.019, 0.9, 0.05], dtype=torch.float64)
    found = _discoveries(p, 0.05)
    assert found[first, second].tolist() == [True, False, True, True, False, False]
    assert torch.equal(found, found.T)
    assert not _discoveries(torch.ones(4, 4), 0.05).any()


def test_few_rows_and_chains_that_disagree_are_noted(monkeypatch):
    machine = machine_of("spin")
    assert "5 rows for 6 parameters" in _noted(machine, torch.tensor(
        [[1, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1], [-1, -1, -1.0]]
    ))  # fmt: skip
    monkeypatch.setattr(module, "EXACT", 0)
    monkeypatch.setattr(module, "EVERY", 1)
    monkeypatch.setattr(module, "PER_ROW", 1)
    frozen = rb.bm(8, seed=0, biases=True)
    frozen.couplings.weights["0-0"].data.fill_(0.3)
    rows = rows_of(frozen, 1000)
    rows = torch.where(rows.sum(1, keepdim=True) < 0, -rows, rows)  # of one phase alone
    rows[:50] = -rows[:50]
    found = rb.coupling_errors(frozen, rows, chains=400, sweeps=1, seed=0)
    assert "averages of chains from the rows and from random states differ" in found.note


def _noted(machine, rows):
    return rb.coupling_errors(machine, rows).note


def test_rows_with_weights():
    machine = machine_of("spin")
    rows = rows_of(machine, 1000)
    split = rb.Split(rows.to(torch.int8), weights=torch.arange(1000) < 400)
    found, alone = rb.coupling_errors(machine, split), rb.coupling_errors(machine, rows[:400])
    torch.testing.assert_close(found.pairs.value, alone.pairs.value)
    torch.testing.assert_close(found.pairs.error, alone.pairs.error)


def test_replicas_have_errors_of_their_own():
    machine = rb.bm(4, replicas=2, biases=True, scale=0.2, seed=0)
    rows = rows_of(machine.replica(0), 500)
    both = rb.coupling_errors(machine, rows)
    assert both.pairs.value.shape == (2, 4, 4)
    one = rb.coupling_errors(machine.replica(1), rows)
    torch.testing.assert_close(both.pairs.error[1:], one.pairs.error)
    assert "coupled" in repr(both)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rb.rbm(3, 2, seed=0), "without hidden units"),
        (lambda: rb.bm(3, hidden=2, seed=0), "without hidden units"),
        (lambda: rb.bm(3, patterns=2, seed=0), "dense machine"),
        (lambda: rb.bm(3, units=rb.Categorical(3), seed=0), "biases=True"),
        (lambda: rb.bm(200, seed=0), "19,900 of them"),
    ],
)
def test_machines_that_have_none(make, words):
    machine = make()
    rows = machine.random(10, seed=0)[0, :, : machine.visible]
    with pytest.raises(rb.InputError, match=words):
        rb.coupling_errors(machine, rows)


def test_rows_that_give_none():
    machine = rb.bm(3, seed=0)
    with pytest.raises(rb.InputError, match="two rows"):
        rb.coupling_errors(machine, torch.ones(1, 3))
    with pytest.raises(rb.InputError, match="false-discovery rate"):
        rb.coupling_errors(machine, rows_of(machine, 100)).discoveries(1.0)
    rows = torch.ones(10, 3)
    observed = torch.ones(10, 3, dtype=torch.bool)
    observed[0, 0] = False
    with pytest.raises(rb.InputError, match="missing cells"):
        rb.coupling_errors(machine, rb.Split(rows.to(torch.int8), observed=observed))
