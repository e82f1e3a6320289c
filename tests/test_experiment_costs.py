"""Both ways of the PID give the same gradient, and exponents come out of exact power laws."""

import numpy as np
import pytest
import torch

from rapidbm.machines.constructors import rbm
from rapidbm.training.negative import PatternInduced
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record
from rapidbm_paper.untrained import costs

TINY = costs.Scale.at("tiny")


def bench(tmp_path, name="costs.size"):
    return Lab(name, torch.device("cpu"), 0, tmp_path, lambda share: None)


def test_built_couplings_and_overlaps_give_one_gradient(tmp_path):
    machine = rbm(12, 20, 3, seed=0, dtype=torch.float64).requires_grad_(False)
    one = costs.built(machine)()
    other = costs.phase(bench(tmp_path), machine, PatternInduced(), 1)()
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name])


def test_exponent_of_a_power_law_over_the_upper_range():
    sizes = np.array([1.0, 2, 4, 8, 16, 32])
    times = np.outer(1e-3 * sizes**2, [0.9, 1.0, 1.1])
    times[:2] += 1.0  # overhead at small sizes is left out
    found = costs.exponent(sizes, times)
    assert found.value == pytest.approx(2)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_ratio_of_equal_times_is_one():
    times = np.array([1.0, 1.1, 0.9, 1.0])
    assert costs._ratio(times, times).value == 1
    assert costs._ratio(3 * times, times).above(1) is True


def test_the_error_of_a_ratio_is_what_repetition_gives():
    rng = np.random.default_rng(0)
    for repeats, others in ((40, 40), (160, 10), (10, 160)):
        several = [
            costs._ratio(2 + 0.2 * rng.normal(size=repeats), 1 + 0.05 * rng.normal(size=others))
            for _ in range(600)
        ]
        spread = np.std([n.value for n in several])  # known to 2.9 %: p < 1e-6
        assert np.mean([n.error for n in several]) == pytest.approx(spread, rel=0.2)
        assert several[0].count == min(repeats, others)


def record(name, values, scale="quick"):
    return Record(name, scale, 0, {}, values)


def test_verdicts_follow_the_exponents():
    sizes = [1.0, 2.0, 4.0, 8.0]

    def made(power):
        values = {}
        for name in "VHfk":
            values[f"sizes_{name}"] = sizes
            values[f"cd_{name}"] = [[s**power] * 3 for s in sizes]
        return {"costs.cd": record("costs.cd", values)}

    claim = next(c for c in claims_of(costs) if c.name == "cd-cost")
    assert claim.check(made(1)).holds is True
    assert claim.check(made(2)).holds is False
    assert claim.check(made(0.5)).holds is None  # the device was not full


PID = ("PID, couplings built", "PID, overlaps")
CD = ("CD-1, f = 100", "CD-10, f = 100")


def sized(**times):
    """Times of one negative phase: PID 1 and the whole batch 2, what does not count against it."""
    every = dict.fromkeys(PID, 1.0) | dict.fromkeys(CD, 2.0)
    every |= {"PID and 10 sweeps": 9.0, "CD-1, f = 10": 0.1, "CD-10, f = 10": 0.1} | times
    values = {
        "names": list(every),
        "times": [[t * x for x in (0.9, 0.95, 1.0, 1.05, 1.1)] for t in every.values()],
        "batches": [10, 100],
        "size": [4, 5, 3],
    }
    return {"costs.size": record("costs.size", values)}


def test_pid_is_cheaper_both_ways_than_both_cds():
    claim = next(c for c in claims_of(costs) if c.name == "pid-cheaper")
    assert claim.check(sized()).holds is True
    for name in PID:
        assert claim.check(sized(**{name: 4.0})).holds is False
        assert claim.check(sized(**{name: 2.0})).holds is None
    for name in CD:
        assert claim.check(sized(**{name: 0.5})).holds is False
        assert claim.check(sized(**{name: 1.0})).holds is None


def test_a_small_study_decides_nothing_and_draws_with_gaps(tmp_path):
    found = {}
    for name, part in costs.PARTS.items():
        full = f"costs.{name}"
        found[full] = record(full, part.run(bench(tmp_path, full), TINY), "tiny")
    assert all(claim.check(found).holds is None for claim in claims_of(costs))
    assert (found["costs.size"].array("times") > 0).all()
    del found["costs.cd"]
    fig = costs.costs.draw(found)
    names = [t.get_text() for t in fig.legends[0].get_texts()]
    assert names == ["PID, couplings built", "PID, overlaps"]
