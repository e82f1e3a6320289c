"""The lower bound of log p that is watched in deep and full machines, against enumeration."""

import numpy as np
import pytest
import torch

from conftest import machines
from rapidbm.data.splits import Split
from rapidbm.errors import TimeLimit
from rapidbm.estimates import WIDE, Estimate
from rapidbm.likelihood import following
from rapidbm.likelihood import hidden_sums as sums
from rapidbm.likelihood import log_z as likelihood
from rapidbm.likelihood.following import Follower, mean_log_p, work_of_rows
from rapidbm.likelihood.hidden_sums import bounds_of, hidden_sums
from rapidbm.likelihood.log_z import log_bound, log_likelihood, log_z
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import scaled
from rapidbm.random import stream
from rapidbm.runs import evaluation
from rapidbm.runs.evaluation import likelihood_curve, likelihoods, measured_parts
from rapidbm.runs.metrics import METRICS
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.train import train

KINDS = ["dbm", pytest.param("bm", marks=pytest.mark.slow)]
DEEP, FULL = {"model": "dbm", "hidden": (6, 4)}, {"model": "bm", "hidden": (7,)}


def clusters(seed, visible=8, rows=300, modes=3):
    rng = stream(seed, "clusters")
    centres = torch.rand((modes, visible), generator=rng) < 0.5
    noise = torch.rand((rows, visible), generator=rng) < 0.1
    data = centres[torch.randint(modes, (rows,), generator=rng)] ^ noise
    return torch.where(data, 1, -1).to(torch.int8)


def exact_sums(machine, visible):
    """log p*(v) by the sum over every hidden state, (e, d)."""
    return machine.double().log_prob_unnormalised(visible)


def inside(low, high, exact):
    """Whether all are within 5.3 standard errors, 2.7 times as far as the 95 % interval reaches, beyond
    which one of 10⁷ lies."""
    return bool(((exact - (low + high) / 2).abs() <= 2.7 * (high - low) / 2).all())


def small(kind, patterns, seed=0, scale=0.3, replicas=2):
    more = {"replicas": replicas, "biases": True, "scale": scale, "seed": seed}
    made = dbm(8, (6, 4), patterns, **more) if kind == "dbm" else bm(8, 7, patterns, **more)
    return made.requires_grad_(False)


# -- the bound ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", machines(3) + machines(2, biases=False))
def test_it_is_below_the_sum_of_every_image(machine):
    visible = machine.random(20, stream(1))[0, :, : machine.visible]
    bound, exact = bounds_of(machine, visible), exact_sums(machine, visible)
    assert bound.dtype == torch.float64
    assert bool((bound <= exact + 1e-5).all())
    assert torch.allclose(bound, exact, atol=1e-5) == machine.layers.hidden_independent


@pytest.mark.parametrize("kind", ["dbm", "bm"])
@pytest.mark.parametrize("patterns", [None, 3])
def test_it_is_tight_where_hidden_units_are_not_correlated(kind, patterns):
    """Its gap is of second order in the couplings between hidden units."""
    data, machine = clusters(0), small(kind, patterns, scale=0.6)
    gaps = []
    for beta in (0.2, 0.1, 0.05):
        colder = scaled(machine, beta)
        gaps.append((exact_sums(colder, data) - bounds_of(colder, data)).mean(1))
    assert bool((gaps[0] > 1e-6).all())
    assert bool((gaps[1] < gaps[0] / 3).all())
    assert bool((gaps[2] < gaps[1] / 3).all())


def test_it_goes_through_images_in_parts(monkeypatch):
    machine, data = small("dbm", None), clusters(0)
    whole = bounds_of(machine, data)
    monkeypatch.setattr(sums, "AT_ONCE", 2 * 18 * 7)
    assert torch.allclose(bounds_of(machine, data), whole)


# -- followed along a training -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_exact_bound_along_trainings(kind, monkeypatch):
    """16 values of two trainings, 95 % intervals: more than seven misses come once in 10⁶ times. None is
    off by more than six standard errors, which 2 of 10⁹ exceed; and log p lies above all of them."""
    monkeypatch.setattr(following, "CHEAP", 1)
    misses, errors = 0, []
    for seed, patterns in enumerate((None, 4)):
        data = clusters(seed)
        machine = small(kind, patterns, seed, scale=0.1).requires_grad_(True)
        machine.start_biases(data)
        follower = Follower(data, seed)
        steps = train(machine, data, Persistent(50, 2), adam(0.02), epochs=8, batch_size=50, seed=seed)
        for progress in steps:
            if progress.epoch not in (1, 2, 4, 8):
                continue
            found = mean_log_p(machine, data, follower.look(machine, progress.update * 200), bound=True)
            z = log_z(machine, method="exact")
            exact = log_bound(machine, data, z).value
            misses += int(((found.value - exact).abs() > WIDE * found.error).sum())
            assert bool(((found.value - exact).abs() < 6 * found.error).all())
            errors += found.error.tolist()
            assert bool((exact <= log_likelihood(machine, data, normaliser=z).value + 1e-6).all())
    assert misses <= 7
    assert 0.0 < max(errors) < 0.3


def test_the_mean_of_some_rows_says_what_it_is_worth(monkeypatch):
    machine, data = small("dbm", 3), clusters(0)
    z = log_z(machine, method="exact")
    exact = log_bound(machine, data, z).value
    known = Estimate(z.value, torch.full_like(z.value, 0.3))
    whole = mean_log_p(machine, data, known, bound=True)
    assert torch.allclose(whole.value, exact)
    assert torch.allclose(whole.error, known.error)
    monkeypatch.setattr(following, "BOUNDED", 100)
    some = mean_log_p(machine, data, Estimate(z.value, torch.zeros_like(z.value)), bound=True)
    assert bool((some.error > 0.01).all())
    assert bool(((some.value - exact).abs() < 6 * some.error).all())  # 2 of 10⁹ are farther off


def test_what_a_look_at_rows_costs():
    machine = small("dbm", None)
    assert work_of_rows(machine, [100, 10**6], bound=True) == 6 * (100 + following.BOUNDED)
    states = 2**4  # of the layer that is not summed in closed form
    assert work_of_rows(machine, [100, 300], bound=False) == states * 400
    assert work_of_rows(rbm(8, 6), [100, 10**6], bound=False) == 100 + following.ROWS


# -- an interval of it -------------------------------------------------------------------------------


def test_its_interval_is_that_of_log_z():
    machine, data = small("bm", None), clusters(0)
    z = log_z(machine, method="ais", seed=0, chains=100)
    found, exact = log_bound(machine, data, z), log_bound(machine, data, log_z(machine, method="exact"))
    assert torch.allclose(found.upper - found.lower, z.upper - z.lower)
    assert inside(found.lower, found.upper, exact.value)
    assert exact.method == "exact"


def test_some_rows_of_many_on_disk_widen_it():
    machine, data = small("bm", None), clusters(0)
    z = log_z(machine, method="exact")
    found = log_bound(machine, Split.owning(data[:100], None, None, 300), z)
    exact = log_bound(machine, data, z).value
    assert bool((found.lower < found.value).all())
    assert inside(found.lower, found.upper, exact)
    assert found.effort.endswith("100 of 300 rows")


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_of_some_images_stand_for_all(kind, monkeypatch):
    """40 machines: the error of a mean gap over some of the images covers the others, in 95 % of cases;
    more than eleven misses come once in 10⁶ times."""
    machine, data = small(kind, None, scale=0.5, replicas=40), clusters(0, rows=50)
    exact = exact_sums(machine, data).mean(1)
    monkeypatch.setattr(sums, "FEWEST", 10)
    monkeypatch.setattr(sums, "ANNEALED", (1, 1))
    found = hidden_sums(machine, data, stream(0))
    assert found.images == 10
    assert torch.allclose(found.mean_field, bounds_of(machine, data).mean(1))
    low, high = found.interval(WIDE)
    assert int(((low <= exact) & (exact <= high)).sum()) >= 29
    plain = exact_sums(machine, data)[:, ::5].mean(1)
    near = (found.forward.value - exact).abs().mean()
    assert float(near) < 0.5 * float((plain - exact).abs().mean())  # than those images alone would be


# -- in runs -----------------------------------------------------------------------------------------

SMALL = {
    "patterns": None,
    "replicas": 2,
    "epochs": 3,
    "rate": (0.05, 0.2),
    "batch_size": 10,
    "particles": 20,
    "sweeps": 1,
    "evaluate": "epoch",
    "checkpoints": "2",
    "device": "cpu",
    "valid": 0.3,
}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "t.npy", rng.random((60, 6)) < rng.random(6))
    return str(tmp_path / "t.npy")


def go(run, stop=lambda: False):
    for _ in run.go(stop):
        pass
    return run


def without_times(run):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in run.metrics()]


@pytest.mark.parametrize("kind", [DEEP, pytest.param(FULL, marks=pytest.mark.slow)], ids=["dbm", "bm"])
def test_a_run_watches_it_and_keeps_its_best_machine(tmp_path, table, monkeypatch, kind):
    monkeypatch.setattr(following, "CHEAP", 1)
    recipe = Recipe.made(table, {**SMALL, **kind}, "small")
    whole = go(Run.create(tmp_path / "whole", recipe))
    lines = without_times(whole)
    last = whole.machine("last")
    exact = log_bound(last, whole.data().test, log_z(last, method="exact")).value
    seen, error = (torch.tensor(lines[-1][f"log_bound_{x}test"]) for x in ("", "error_"))
    assert bool(((seen - exact).abs() <= 6 * error).all())
    assert whole.best.is_file()
    count = iter(range(1000))
    part = Run.create(tmp_path / "part", recipe)
    go(part, lambda: next(count) == 6)
    assert without_times(go(Run(tmp_path / "part"))) == lines


def test_patience_waits_for_it(tmp_path, table):
    chosen = {**SMALL, **FULL, "epochs": 300, "patience": 4, "rate": (0.2,), "replicas": 1}
    run = go(Run.create(tmp_path / "R", Recipe.made(table, chosen, "small")))
    assert "no better bound on the likelihood of the validation part in 4 looks" in run.info["stopped"]


def test_both_may_be_measured_and_log_p_counts(tmp_path, table):
    chosen = {**SMALL, **DEEP, "metrics": ("log_bound", "log_likelihood")}
    run = go(Run.create(tmp_path / "R", Recipe.made(table, chosen, "small")))
    for line in run.metrics():
        for bound, log_p in zip(line["log_bound_valid"], line["log_likelihood_valid"], strict=True):
            assert bound <= log_p + 1e-6
    best = [max(col) for col in zip(*(x["log_likelihood_valid"] for x in run.metrics()), strict=True)]
    found = log_likelihood(run.machine(), run.data().valid).value
    assert found.tolist() == pytest.approx(best, abs=1e-5)


def test_the_metric_outside_a_run():
    machine, data = small("dbm", None), clusters(0)
    found = METRICS["log_bound"](machine, Split(data), stream(0))
    assert torch.allclose(found, log_bound(machine, data, log_z(machine, method="exact")).value)


# -- evaluated ---------------------------------------------------------------------------------------


def test_an_evaluation_has_it_beside_log_p(monkeypatch):
    machine, data = small("bm", 3), clusters(0)
    exact = log_likelihood(machine, data).value
    monkeypatch.setattr(likelihood, "HIDDEN", 0)
    monkeypatch.setattr(evaluation, "HIDDEN", 0)
    rows, note = likelihoods(machine, {"test": Split(data)})
    assert bool((rows["log_bound_test"] <= exact).all())
    assert inside(rows["log_likelihood_test_from"], rows["log_likelihood_test_to"], exact)
    gap = rows["log_likelihood_test"] - rows["log_bound_test"]
    assert torch.allclose(rows["variational_gap_test"], gap, rtol=0.01)  # iterated for longer
    assert "log_bound is what mean field proves: log p is not smaller" in note


def test_where_log_p_takes_too_long_the_bound_stands_alone(monkeypatch):
    def slow(*given, limit=None, **more):
        assert limit == evaluation.WAIT
        raise TimeLimit("log-likelihood took too long")

    monkeypatch.setattr(evaluation, "HIDDEN", 0)
    monkeypatch.setattr(evaluation, "log_likelihood", slow)
    rows, note = likelihoods(small("dbm", None), {"test": Split(clusters(0))})
    assert set(rows) == {"log_z", "log_bound_test"}
    assert "no likelihood of test beside its bound" in note


def test_a_curve_of_a_deep_machine_is_one_of_bounds(tmp_path, table, monkeypatch):
    run = go(Run.create(tmp_path / "R", Recipe.made(table, {**SMALL, **DEEP}, "small")))
    monkeypatch.setattr(evaluation, "HIDDEN", 0)
    records = likelihood_curve(run)
    assert measured_parts(records[0])["test"] == "log_bound_test"
    for record in records:
        machine = run.machine(record["update"])
        exact = log_bound(machine, run.data().test, log_z(machine, method="exact")).value
        for low, high, value in zip(
            record["log_bound_test_from"], record["log_bound_test_to"], exact.tolist(), strict=True
        ):
            assert low - 1e-6 <= value <= high + 1e-6
