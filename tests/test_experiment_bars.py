"""Figures 2 to 5: what is counted, and verdicts on records made by hand."""

import numpy as np
import pytest
import torch

from rapidbm import load
from rapidbm.experiments import bars, fig2, fig3, fig4, fig5
from rapidbm.experiments.bench import Record
from rapidbm.reproduction import judged

EPOCHS = [0, 1, 10, 100, 1000]


def claim_of(module, name):
    return next(claim for claim in module.CLAIMS if claim.name == name)


def record(name, **values):
    return {name: Record(name, "paper", 0, {}, {"epochs": EPOCHS, **values})}


def rows(*means, instances=20, spread=0.01):
    """A course with these means, the same scatter around each."""
    scatter = spread * np.linspace(-1, 1, instances)
    return [[m + x for x in scatter] for m in means]


def verdict(module, name, records):
    return judged(claim_of(module, name), records).verdict


def test_claims_on_whole_trainings_are_not_judged_below_the_papers_scale():
    several = {}
    for name in ("cd", "pcd", "exact"):
        several |= record(f"bars.{name}", gibbs=rows(0.1, 0.2, 0.3, 0.4, 0.5))
    assert verdict(fig2, "access-ends-efficient", several) == "does not hold"
    smaller = {n: Record(n, "quick", 0, {}, r.values) for n, r in several.items()}
    assert verdict(fig2, "access-ends-efficient", smaller) == "not measured"
    assert verdict(fig2, "access-rises-in-training", smaller) == "holds"


def test_large_singular_values_are_counted():
    values = np.array([[3.0, 3.0, 3.0, 3.0, 0.1, 0.1], [10.0, 0.1, 0.05, 0.04, 0.03, 0.02]])
    assert fig4.large(values).tolist() == [4, 1]
    assert fig4.gap(values).tolist() == [4, 1]
    dropped = np.array([[5.0, 4.0, 3.0, 0.001, 0.0009, 0.0]])
    assert fig4.gap(dropped).tolist() == [3]


@pytest.mark.parametrize(("kept", "expected"), [(4, "holds"), (3, "does not hold")])
def test_four_singular_values(kept, expected):
    values = [[1.0] * kept + [1e-3 / (i + 1) for i in range(16 - kept)]] * 5
    several = {}
    for name in bars.NAMES:
        several |= record(f"bars.{name}", singular=values, start_singular=[[1.0] * 16] * 5)
    assert verdict(fig4, "four-singular-values", several) == expected
    assert verdict(fig4, "few-singular-values", several) == "holds"


def test_epochs_until_a_set_is_learnt():
    mean = np.array([0.4, 0.2, 0.05, 0.04, 0.03])
    assert fig3.first_below(EPOCHS, mean) == pytest.approx(1 + 9 * 2 / 3)  # by a straight line
    assert fig3.first_below(EPOCHS, mean, 0.25) == pytest.approx(0.75)
    assert fig3.first_below(EPOCHS, mean, 0.001) == float("inf")
    found = record("bars.rapid", hamming_test=rows(*mean, spread=0.02))["bars.rapid"]
    several = fig3.crossings(found, "hamming_test", 0.1)
    assert several[0] == pytest.approx(7.0)
    assert 0 < several[1:].std() < 2


@pytest.mark.parametrize(
    ("rapid", "others", "expected"),
    [
        ((0.4, 0.05, 0.05, 0.05, 0.05), (0.4, 0.4, 0.4, 0.05, 0.05), "holds"),
        ((0.4, 0.4, 0.05, 0.05, 0.05), (0.4, 0.4, 0.05, 0.05, 0.05), "does not hold"),
        ((0.4, 0.4, 0.05, 0.05, 0.05), (0.4,) * 5, "holds"),  # not in a hundred times as many
        (
            (0.4, 0.4, 0.4, 0.05, 0.05),
            (0.4, 0.4, 0.4, 0.4, 0.05),
            "not measured",
        ),  # about ten times
        ((0.4,) * 5, (0.4,) * 5, "not measured"),
        ((0.4, 0.4, 0.4, 0.4, 0.05), (0.4,) * 5, "not measured"),
    ],
)
def test_fewer_epochs(rapid, others, expected):
    several = record("bars.rapid", hamming_test=rows(*rapid))
    for name in ("cd", "pcd", "exact"):
        several |= record(f"bars.{name}", hamming_test=rows(*others))
    assert verdict(fig3, "fewer-epochs", several) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [(0.03, "holds"), (0.3, "does not hold"), (0.08, "not measured"), (-0.04, "does not hold")],
)
def test_training_and_test_set_together(test, expected):
    several = record(
        "bars.rapid",
        hamming_train=rows(0.4, 0.2, 0.1, 0.05, 0.03),
        hamming_test=rows(0.4, 0.2, 0.1, 0.05, test, spread=0.1 if test == 0.08 else 0.01),
    )
    assert verdict(fig3, "train-and-test-together", several) == expected


@pytest.mark.parametrize(("last", "expected"), [(0.5, "holds"), (0.9, "does not hold")])
def test_pid_early_and_late(last, expected):
    several = record("bars.rapid", method=rows(0.9, 0.8, 0.7, 0.7, last))
    for name in ("cd", "pcd"):
        several |= record(f"bars.{name}", method=rows(0.1, 0.1, 0.3, 0.6, 0.7))
    assert verdict(fig2, "pid-early-and-late", several) == expected


def test_accessibility_that_rises_but_not_to_the_top():
    several = {}
    for name in ("cd", "pcd", "exact"):
        several |= record(f"bars.{name}", gibbs=rows(0.1, 0.2, 0.3, 0.4, 0.5))
    assert verdict(fig2, "access-rises-in-training", several) == "holds"
    assert verdict(fig2, "access-ends-efficient", several) == "does not hold"


def test_samples_are_told_apart():
    data = load("bas4")
    ones = torch.ones(1, 16)
    odd = ones.clone()
    odd[0, 3] = -1
    samples = torch.cat([data.train.spins[:2].float(), data.test.spins[:1].float(), -ones, odd])
    assert fig5.kinds(samples, data).tolist() == [0, 0, 1, 2, 3]


def test_generation_is_judged_by_the_share_in_the_test_set():
    for share, expected in ((0.2, "holds"), (0.01, "does not hold"), (0.086, "not measured")):
        shares = [[0.9 - share, share + 0.001 * i, 0.1, 0.0] for i in range(10)]
        found = record("bas.rapid", shares=shares, distinct_test=[3] * 10)
        assert verdict(fig5, "generates-unseen", found) == expected
