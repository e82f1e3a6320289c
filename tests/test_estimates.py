"""Means and their errors, of numbers that can be added by hand."""

import math

import torch

from rapidbm.estimates import Bounds, Estimate, jackknife


def test_a_mean_comes_with_its_standard_error():
    samples = torch.tensor([[1, 2, 3, 6], [5, 5, 5, 5]])
    found = Estimate.of(samples)
    assert found.value.tolist() == [3.0, 5.0]
    # Squared deviations 4 + 1 + 0 + 9 over n − 1 = 3, and once more over n = 4.
    assert torch.allclose(found.error, torch.tensor([14 / 12, 0.0]).double().sqrt())
    assert found.value.dtype == found.error.dtype == torch.float64
    assert found.replica(1) == (5.0, 0.0)


def test_two_samples_have_an_error_and_one_has_none():
    assert float(Estimate.of(torch.tensor([[1.0, 3.0]])).error) == 1.0
    value, error = Estimate.of(torch.tensor([[7.0]])).replica(0)
    assert value == 7.0
    assert math.isnan(error)


def test_the_error_of_a_share():
    found = Estimate.share(torch.tensor([0.2, 0.5]), 16)
    assert torch.allclose(found.error, torch.tensor([0.1, 0.125]))
    assert found.value.tolist() == torch.tensor([0.2, 0.5]).tolist()


def test_the_jackknife_of_a_mean_is_its_standard_error():
    samples = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    without = torch.stack([(samples.sum() - x) / 3 for x in samples])
    found = jackknife(torch.cat([samples.mean()[None], without]))
    assert float(found.value) == 3.0
    assert math.isclose(float(found.error), math.sqrt(14 / 12))


def test_an_exact_value_is_all_of_its_interval():
    value = torch.tensor([1.5, -2.0], dtype=torch.float64)
    found = Bounds.exactly(value, "4 states")
    for each in (found.value, *found.interval, found.forward, found.back):
        assert torch.equal(each, value)
    assert found.ess.tolist() == [math.inf, math.inf]
    assert found.largest.tolist() == [0.0, 0.0]
    assert (found.method, found.effort, found.gap, found.note) == ("exact", "4 states", None, "")


def test_errors_that_are_not_known_are_counted_beside_the_largest():
    value, error = torch.arange(6.0), torch.tensor([0.1, 0.2, math.inf, 0.3, math.nan, 0.1])
    assert repr(Estimate(value, error)).endswith("errors up to 0.3, 2 of 6 not known")
