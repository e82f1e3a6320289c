"""Trained machines described by few patterns: identities of the description, and what claims say."""

import copy
import math

import numpy as np
import pytest
import torch

from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm_paper import item, parts
from rapidbm_paper.bars import few_patterns
from rapidbm_paper.bars.few_patterns import (
    described,
    divergence,
    enough,
    residual,
    rounded,
    visible_weights,
)
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain


def some_machine(biases=False):
    machine = rbm(6, 9, replicas=2, scale=0.4, biases=biases, seed=1, dtype=torch.float64)
    if biases:
        machine.biases.data += 0.3
    return machine.requires_grad_(False)


TINY = few_patterns.Scale.at("tiny")


def bench_for(name, folder):
    return Lab(name, torch.device("cpu"), 0, folder, lambda share: None)


@pytest.mark.parametrize("biases", [False, True])
def test_as_many_patterns_as_visible_units_are_the_machine_itself(biases):
    whole = some_machine(biases)
    same = described(whole, 6)
    assert torch.allclose(residual(whole, same), torch.zeros(2, dtype=torch.float64), atol=1e-12)
    apart = divergence(visible_weights(whole), visible_weights(same))
    assert torch.allclose(apart, torch.zeros_like(apart), atol=1e-12)


@pytest.mark.parametrize("biases", [False, True])
def test_divergence_is_the_sum_over_all_states(biases):
    """Where v and −v weigh the same one stands for both, which must not change eq. (3)."""
    whole = some_machine(biases)
    other = described(whole, 2)
    logs = []
    for machine in (whole, other):
        plain = copy.deepcopy(machine)
        if plain.biases is None:
            plain.biases = torch.nn.Parameter(torch.zeros(2, 15, dtype=torch.float64))
        logs.append(torch.log_softmax(visible_weights(plain), 1))
    assert logs[0].shape == (2, 2**6)
    by_hand = (logs[0].exp() * (logs[0] - logs[1])).sum(1)
    found = divergence(visible_weights(whole), visible_weights(other))
    assert torch.allclose(found, by_hand, atol=1e-12)
    assert (found > 0).all()


def test_patterns_of_one_scale_are_found_again():
    spins = SPIN.random((3, 1, 15), stream(0), torch.float64)
    patterns = Patterns(Layers((6, 9), ((0, 1),)), 0.7 * spins)
    found = rounded(patterns.dense(), 1)
    assert torch.allclose(found.matrix(0, 1), patterns.matrix(0, 1), atol=1e-12)
    assert torch.allclose(found.patterns.abs(), torch.full_like(found.patterns, 0.7))


def test_the_common_scale_is_the_least_squares_one():
    whole = some_machine()
    best = described(whole, 3, "rounded")
    least = residual(whole, best)
    for factor in (0.9, 0.99, 1.01, 1.1):
        other = copy.deepcopy(best)
        other.couplings.patterns.data *= factor
        assert (residual(whole, other) > least).all()


@pytest.fixture(scope="module")
def bars_record(tmp_path_factory):
    """A part of the study for a machine whose couplings have rank 4 and almost nothing beside it."""
    folder = tmp_path_factory.mktemp("machines")
    rng = stream(3)
    left, right = torch.randn(1, 16, 4, generator=rng), torch.randn(1, 4, 20, generator=rng)
    noise = 1e-4 * torch.randn(1, 16, 20, generator=rng)
    machine = rbm(16, 20, seed=0)
    machine.couplings = Dense(machine.layers, {(0, 1): 0.3 * left @ right + noise})
    bench_for("bars.cd-update", folder).keep(machine)
    values = parts("conjecture")["conjecture.cd"].run(bench_for("conjecture.cd", folder), TINY)
    return Record("conjecture.cd", "quick", 0, {}, plain(values)), machine


def test_a_machine_of_rank_four_needs_four_patterns(bars_record):
    record, machine = bars_record
    assert record["patterns"] == [1, 4]
    assert enough(record) == 4
    assert record.array("continuous_divergence")[1] < 1e-3 < record.array("continuous_divergence")[0]
    from rapidbm.data.bars import bars4

    exact = log_likelihood(machine, bars4().train, method="exact").lower
    assert record.array("dense_likelihood_train") == pytest.approx(exact.numpy(), abs=1e-4)


def test_claims_follow_the_records(bars_record):
    record, _ = bars_record
    four = claims_of(few_patterns)[0]
    assert four.check(dict.fromkeys(four.needs, record)).holds is True
    values = {**record.values, "patterns": [1, 8]}
    more = Record(record.name, "quick", 0, {}, values)
    assert four.check(dict.fromkeys(four.needs, more)).holds is False
    never = Record(record.name, "quick", 0, {}, {**values, "dense_likelihood_train": [0.0]})
    assert four.check(dict.fromkeys(four.needs, never)).holds is None


def larger(lost, shape=(64, 64)):
    values = {
        "patterns": [8, 16, 40],
        "shape": list(shape),
        "dense_likelihood": [-20.0, -20.2],
        "likelihood": [[-20.0 - x, -20.2 - x] for x in lost],
    }
    return Record("conjecture.larger", "quick", 0, {}, values)


@pytest.mark.parametrize(
    ("lost", "holds"), [((30, 0.9, 0.1), True), ((30, 5, 0.5), False), ((30, 20, 10), None)]
)
def test_the_conjecture_asks_for_fewer_parameters(lost, holds):
    trained = Record("conjecture.trained", "quick", 0, {}, {"patterns": [], "likelihood": []})
    found = claims_of(few_patterns)[1].check(
        {"conjecture.larger": larger(lost), "conjecture.trained": trained}
    )
    assert found.holds is holds
    assert "below K = 32" in found.measured  # 64·64 / (64 + 64)


def test_digits_lose_nothing_at_full_rank_and_repeat(tmp_path):
    part = parts("conjecture")["conjecture.larger"]
    one, two = (part.run(bench_for("conjecture.larger", tmp_path / str(i)), TINY) for i in range(2))
    assert one["likelihood"] == two["likelihood"]
    assert one["patterns"][-1] == one["shape"][1]  # as many patterns as hidden units
    assert np.allclose(one["likelihood"][-1], one["dense_likelihood"], atol=1e-3)
    assert np.all(np.array(one["dense_likelihood"]) > -64 * math.log(2))  # two epochs beat chance


def test_the_figure_shows_the_record(bars_record):
    record, _ = bars_record
    fig = item("conjecture").draw({"conjecture.cd": record})
    shown = fig.axes[0].lines[0].get_ydata()
    assert np.allclose(shown, record.array("continuous_hamming_test").mean(1))
    assert len(fig.axes[1].lines) >= 2
