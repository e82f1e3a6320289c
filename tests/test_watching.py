"""The likelihood that is watched in a run: validation, the best machine, patience."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rapidbm.cli.terminal.console import record_line
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Split, held_out
from rapidbm.errors import DataWarning, InputError, TimeLimit
from rapidbm.estimates import Estimate
from rapidbm.likelihood.following import Follower
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.machines.files import load_tensors, save_tensors
from rapidbm.machines.spins import to_spins
from rapidbm.pictures import curve_figure
from rapidbm.runs import monitor
from rapidbm.runs.monitor import SHORTEST, Best, LikelihoodMonitor, left_out, trial, work_of
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.timing import limit_of_look, reserved, seconds_of
from rapidbm.training.negative import Persistent
from rapidbm.training.positive import MeanField
from rapidbm.training.trainer import Trainer

SMALL = {
    "hidden": (8,),
    "patterns": None,
    "replicas": 2,
    "epochs": 12,
    "rate": (0.05, 0.2),
    "batch_size": 10,
    "particles": 20,
    "sweeps": 1,
    "metrics": ("log_likelihood",),
    "evaluate": "epoch",
    "device": "cpu",
}


@pytest.fixture
def table(tmp_path):
    """Six columns, too few rows: a machine that learns them by heart gets worse."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "t.npy", rng.random((60, 6)) < rng.random(6))
    return str(tmp_path / "t.npy")


def go(run, stop=lambda: False):
    for _ in run.go(stop):
        pass
    return run


def made(folder, table, **chosen):
    return Run.create(folder, Recipe.made(table, {**SMALL, "valid": 0.3, **chosen}, "small"))


def without_times(run):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in run.metrics()]


# -- what is held out --------------------------------------------------------------------------------


def test_a_share_is_held_out_by_the_seed(table):
    whole, data = load(table), load(table, valid=0.25)
    assert (len(data.train), len(data.valid), len(data.test)) == (36, 12, 12)
    assert torch.equal(whole.test.spins, data.test.spins)
    rows = torch.cat([data.train.spins, data.valid.spins])
    assert sorted(rows.tolist()) == sorted(whole.train.spins.tolist())
    assert torch.equal(load(table, valid=0.25).valid.spins, data.valid.spins)
    assert not torch.equal(held_out(whole, 0.25, 1).valid.spins, data.valid.spins)
    assert not torch.equal(load(table, valid=0.25, seed=1).valid.spins, data.valid.spins)
    assert len(load(table, valid=0.001).valid) == 1
    assert len(load("bars4", valid=0.2, seed=3).valid) == 2  # a data set that has no seed of its own
    assert load("bars4", valid=0.2).valid.known is not None


def test_a_split_of_its_own_is_seeded_for_the_validation_part_alone(tmp_path):
    bits = np.random.default_rng(0).random((40, 5)) < 0.5
    np.savez(tmp_path / "a.npz", train=bits[:30], test=bits[30:])
    one, two = (load(tmp_path / "a.npz", valid=0.2, seed=seed) for seed in (1, 2))
    assert torch.equal(one.test.spins, two.test.spins)
    assert not torch.equal(one.valid.spins, two.valid.spins)
    with pytest.raises(InputError, match="nothing to seed"):
        load(tmp_path / "a.npz", seed=1)
    np.savez(tmp_path / "b.npz", train=bits[:30], test=bits[30:], valid=bits[:3])
    with pytest.raises(InputError, match="b has a validation part of its own, of 3; leave --valid out"):
        load(tmp_path / "b.npz", valid=0.2)


def test_a_share_of_0_trains_on_a_validation_part(tmp_path):
    bits = np.random.default_rng(0).random((40, 6)) < 0.5
    np.savez(tmp_path / "a.npz", train=bits[:30], test=bits[30:], valid=bits[30:33])
    data = load(tmp_path / "a.npz", valid=0)
    assert data.valid is None
    assert torch.equal(data.train.spins, to_spins(bits[:33]))
    assert data.train.known.shape == (6,)
    assert load("bars4", valid=0.0).valid is None


@pytest.mark.parametrize("masks", [(1, 1), (1, 2), (2, 2), (1, 0)])
def test_splits_side_by_side(masks):
    spins, known = torch.ones(3, 4, dtype=torch.int8), torch.tensor([True, False, True, False])
    of = {0: None, 1: known, 2: ~known.expand(3, 4)}
    one, two = (Split(spins, torch.arange(3), of[mask]) for mask in masks)
    both = one + two
    assert both.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert len(both) == 6
    if 0 in masks:
        assert both.known is None
    else:
        whole = both.known.expand(6, 4)
        assert torch.equal(whole[:3], one.known.expand(3, 4))
        assert torch.equal(whole[3:], two.known.expand(3, 4))
    assert (one + Split(spins)).labels is None


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan"), "x", True])
def test_shares_that_are_none(share):
    with pytest.raises(InputError, match=r"held out to validate is in \[0, 1\), not"):
        load("bars4", valid=share)
    with pytest.raises(InputError, match=r"held out to validate is in \[0, 1\), not"):
        Recipe("bars4", valid=share)


def test_data_given_in_place_of_a_file_are_divided_too(tmp_path, table):
    recipe = Recipe.made(table, {**SMALL, "valid": 0.3, "epochs": 1}, "small")
    run = go(Run.create(tmp_path / "R", recipe, data=load(table)))
    assert (len(run.data().valid), run.info["data"]["valid"]) == (14, 14)
    assert len(Run(tmp_path / "R", load(table)).data().valid) == 14


# -- the likelihood ----------------------------------------------------------------------------------


def test_a_cut_changes_no_bit_of_a_likelihood_that_is_followed(tmp_path, table, monkeypatch):
    monkeypatch.setattr("rapidbm.likelihood.following.CHEAP", 1)
    monkeypatch.setattr("rapidbm.likelihood.following.FREE", 2**27)
    chosen = {"epochs": 6, "average": 5, "metrics": ("hamming", "log_likelihood")}
    whole = go(made(tmp_path / "whole", table, **chosen))
    lines = without_times(whole)
    watched = [line for line in lines if "log_likelihood_valid" in line]
    assert 2 < len(watched) < len(lines)  # some looks cost too much
    assert all(line["log_likelihood_error_test"][0] > 0 for line in watched)
    for cut in (0, 17):
        count = iter(range(1000))
        go(made(tmp_path / f"{cut}", table, **chosen), lambda: next(count) == cut)  # noqa: B023
        part = go(Run(tmp_path / f"{cut}"))
        assert without_times(part) == lines
        for a, b in ((whole.best, part.best), (whole.latest, part.latest)):
            one, two = load_tensors(a)[0], load_tensors(b)[0]
            assert set(one) == set(two)
            assert all(torch.equal(one[name], two[name]) for name in one)
    found = log_likelihood(whole.machine("last"), whole.data().train).value
    seen = torch.tensor(lines[-1]["log_likelihood_train"], dtype=torch.float64)
    error = torch.tensor(lines[-1]["log_likelihood_error_train"])
    assert bool(((found - seen).abs() < 6 * error).all())  # 2 of 10⁹ are farther off


def test_what_is_measured_when_nobody_says(table):
    assert Recipe.made(table, {}).metrics == ("log_likelihood",)
    assert Recipe.made(table, {}, "auto").metrics == ("log_likelihood",)
    assert Recipe.made(table, {"model": "bm"}).metrics == ("log_bound",)
    assert Recipe.made(table, {"model": "dbm", "hidden": (8, 4)}).metrics == ("log_bound",)
    assert Recipe.made(table, {"model": "dbm", "hidden": (8,)}).metrics == ("log_likelihood",)
    assert Recipe.made(table, {"model": "bm", "hidden": ()}).metrics == ("log_likelihood",)
    assert Recipe.made(table, {}, "paper-bars").metrics == ("hamming",)
    assert Recipe.made("digits", {}).metrics == ("hamming",)
    assert Recipe.made(table, {"metrics": ("free_energy",)}).metrics == ("free_energy",)


def test_a_line_shows_values_with_their_errors():
    record = {"epoch": 3, "update": 5, "log_likelihood_train": [-12.345], "hamming_train": [0.1]}
    record |= {"log_likelihood_error_train": [0.031], "log_likelihood_test": [None]}
    record |= {"log_likelihood_error_test": [None]}
    line = record_line(record)
    assert line == "epoch    3  log p train -12.35 ± 0.031, test not known; hamming train 0.1"
    several = {
        "epoch": 3,
        "log_likelihood_train": [-12.0, -13.0],
        "log_likelihood_error_train": [0.1, 0.2],
    }
    assert record_line(several) == "epoch    3  log p train -12.5 ± 0.71 (error 0.2)"


def test_curves_show_what_was_looked_at(tmp_path):
    records = [
        {"epoch": 0, "update": 0, "hamming_train": [0.3], "hamming_test": [0.3]},
        {"epoch": 1, "update": 4, "log_likelihood_train": [-3.0], "log_likelihood_error_train": [0.1]},
    ]
    records[0] |= records[1] | {"epoch": 0, "update": 0}
    records[1] |= {"hamming_train": [0.2], "hamming_test": [0.2]}
    records.insert(1, {"epoch": 1, "update": 3, "hamming_train": [0.2], "hamming_test": [0.2]})
    fig = curve_figure(records)
    assert [axes.get_ylabel() for axes in fig.axes] == ["Hamming distance", "log p per row, nats"]
    assert [len(axes.lines[0].get_xdata()) for axes in fig.axes] == [3, 2]
    assert len(fig.axes[1].collections) == 1  # the interval


# -- the best machine --------------------------------------------------------------------------------


def test_the_best_machine_of_every_replica_is_kept(tmp_path, table):
    run = go(made(tmp_path / "R", table))
    seen = torch.tensor([r["log_likelihood_valid"] for r in run.metrics()], dtype=torch.float64)
    updates = torch.tensor([r["update"] for r in run.metrics()])
    assert bool((seen[-1] < seen.amax(0)).all())  # it did get worse
    tensors, _ = load_tensors(run.best)
    assert torch.equal(tensors["best/value"], seen.amax(0))
    assert torch.equal(tensors["best/update"], updates[seen.argmax(0)])
    valid = run.data().valid
    assert log_likelihood(run.machine(), valid).value.tolist() == pytest.approx(seen.amax(0).tolist())
    assert log_likelihood(run.machine("last"), valid).value.tolist() == pytest.approx(seen[-1].tolist())
    assert (
        run.where()[1]
        == f"the best machine by validation, update {max(tensors['best/update'])} or earlier"
    )
    assert run.where("last") == (48, "the last machine, update 48")
    assert run.where("8") == (8, "update 8")
    with pytest.raises(InputError, match="a checkpoint is that of an update, best or last, not 'first'"):
        run.machine("first")


def test_without_a_validation_part_the_last_machine_is_meant(tmp_path, table):
    run = go(made(tmp_path / "R", table, valid=None, epochs=2))
    assert run.chosen() == "last"
    with pytest.raises(InputError, match="no best machine: no validation part was watched"):
        run.machine("best")


def test_the_average_is_what_is_best(tmp_path, table):
    run = go(made(tmp_path / "R", table, average=20))
    best = max(r["log_likelihood_valid"][0] for r in run.metrics())
    found = log_likelihood(run.machine(), run.data().valid).value
    assert float(found[0]) == pytest.approx(best)


@pytest.mark.parametrize("cut", [0, 3, 9, 14])
def test_a_cut_changes_neither_the_best_machine_nor_when_it_stops(tmp_path, table, cut):
    whole = go(made(tmp_path / "whole", table, patience=4, epochs=40))
    assert "no better likelihood of the validation part in 4 looks" in whole.info["stopped"]
    assert (whole.status, whole.info["update"] < 160) == ("finished", True)
    count = iter(range(1000))
    part = go(made(tmp_path / "part", table, patience=4, epochs=40), lambda: next(count) == cut)
    assert part.status == "interrupted"
    part = go(Run(tmp_path / "part"))
    assert part.info["stopped"] == whole.info["stopped"]
    assert without_times(part) == without_times(whole)
    for a, b in ((whole.best, part.best), (whole.latest, part.latest)):
        one, two = load_tensors(a)[0], load_tensors(b)[0]
        assert set(one) == set(two)
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_look_made_again_after_a_kill_finds_the_machine_it_left(tmp_path, table):
    whole = go(made(tmp_path / "R", table, patience=4, epochs=40))
    lines = whole.metrics()
    best = int(load_tensors(whole.best)[0]["best/update"].max())
    part = made(tmp_path / "K", table, patience=4, epochs=40)
    for step in part.go():  # leaves before the best look, whose file then comes from elsewhere
        if step.update == best - 1:
            break
    part.best.write_bytes(whole.best.read_bytes())
    part = go(Run(tmp_path / "K"))
    assert len(part.metrics()) == len(lines)
    assert part.info["update"] == whole.info["update"]


def test_a_run_that_stopped_stays_so_until_it_is_made_longer(tmp_path, table):
    run = go(made(tmp_path / "R", table, patience=2, epochs=20))
    stopped, lines = run.info["update"], len(run.metrics())
    assert stopped < 80
    run = go(Run(tmp_path / "R"))
    assert (run.info["update"], len(run.metrics())) == (stopped, lines)
    run.prolong(30)
    assert "stopped" not in run.info
    run = go(Run(tmp_path / "R"))
    assert run.info["update"] > stopped


def test_patience_needs_something_to_watch(tmp_path, table):
    with pytest.raises(InputError, match="--patience watches the likelihood of a validation part"):
        made(tmp_path / "R", table, valid=None, patience=3)
    with pytest.raises(InputError, match="--patience watches the likelihood of a validation part"):
        made(tmp_path / "R", table, metrics=("hamming",), patience=3)
    assert not (tmp_path / "R").exists()
    with pytest.raises(InputError, match="looks to be patient for"):
        made(tmp_path / "R", table, patience=0)


def test_what_updates_cost_in_sweeps_of_a_chain():
    """Chains times sweeps, and the data's part twice; mean field of coupled hidden units with it."""

    def work(machine, positive):
        return work_of(
            SimpleNamespace(
                machine=machine,
                positive=positive,
                negative=Persistent(100, 5),
                count_of_chains=100,
                batch_size=10,
                rows_in_memory=lambda: torch.ones(30, 6),
            )
        )

    assert work(rbm(6, 4, seed=0), MeanField(20)) == 500 + 2 * 10
    assert work(dbm(6, (4, 3), seed=0), MeanField(20)) == 500 + (2 + 10) * 10
    assert work(dbm(6, (4, 3), seed=0), None) == 500 + 2 * 10
    watched = object.__new__(LikelihoodMonitor)
    watched.per_update = 520
    watched.follower = SimpleNamespace(wants=lambda machine, sweeps: sweeps)
    assert watched.affords(6, None) == 6 * 520


def test_of_a_large_machine_another_metric_is_watched(table, monkeypatch):
    recipe = Recipe.made(table, {**SMALL, "metrics": ("log_likelihood", "free_energy")}, "small")
    data = recipe.data()
    monkeypatch.setattr(monitor, "UNITS", 14)  # six columns and eight hidden units
    assert monitor.suited(recipe, data) is recipe
    monkeypatch.setattr(monitor, "UNITS", 13)
    with pytest.warns(DataWarning, match="followed for up to 13 units, and this machine has 14"):
        assert monitor.suited(recipe, data).metrics == ("hamming", "free_energy")


# -- trials ------------------------------------------------------------------------------------------


def test_a_trial_compares_replicas_by_their_validation_part(table):
    chosen = {**SMALL, "valid": 0.3, "epochs": 20, "rate": (0.001, 0.05), "weight_decay": (0.0, 0.1)}
    recipe = Recipe.made(table, chosen, "small")
    found = trial(recipe, updates=40)
    assert (found.update, list(found.curve)) == (40, [0, 16, 32, 40])
    exact = log_likelihood(found.machine, recipe.data().valid).value
    assert found.log_p["valid"].value.tolist() == pytest.approx(exact.tolist())
    assert found.log_p["train"].value[1] > found.log_p["train"].value[0]  # it learns faster
    assert found.seconds > 0
    assert not any(p.requires_grad for p in found.machine.parameters())
    again = trial(recipe, load(table), updates=40)
    assert torch.equal(again.log_p["valid"].value, found.log_p["valid"].value)
    assert trial(recipe).update == 80


def test_a_trial_ends_by_the_clock(table, monkeypatch):
    clock, step = Clock(), Trainer.step
    monkeypatch.setattr("rapidbm.runs.monitor.time", clock)
    monkeypatch.setattr(Trainer, "step", lambda *x: (step(*x), setattr(clock, "now", clock.now + 1))[0])
    recipe = Recipe.made(table, {**SMALL, "valid": 0.3, "epochs": 20}, "small")
    found = trial(recipe, seconds=20.5)
    assert (found.update, found.seconds) == (21, 21.0)


def test_looks_of_a_trial_share_their_seconds_and_the_last_one_has_half(table, monkeypatch):
    limits, look, clock = [], LikelihoodMonitor.log_p, Clock()
    monkeypatch.setattr("rapidbm.runs.monitor.time", clock)

    def slow(self, *given, limit, **how):
        limits.append(limit)
        clock.now += 3.0
        return look(self, *given, limit=None, **how)

    monkeypatch.setattr(LikelihoodMonitor, "log_p", slow)
    recipe = Recipe.made(table, {**SMALL, "valid": 0.3, "epochs": 20}, "small")
    assert trial(recipe, updates=40, looking=10.0).update == 40
    assert limits == [5.0, 2.0, 4.0]  # after 0, 16 and 40 updates; 32 would have none
    limits.clear()
    trial(recipe, updates=40, looking=1.0)
    assert limits == [0.5, SHORTEST]
    limits.clear()
    trial(recipe, updates=40)
    assert limits == [None] * 4


def test_a_trial_needs_something_to_judge_by(table):
    with pytest.raises(InputError, match="a trial is judged by a validation part"):
        trial(Recipe.made(table, SMALL, "small"), updates=1)


# -- a budget ----------------------------------------------------------------------------------------


class Clock:
    """Every update takes a tenth of a second, whatever the machine that runs the tests."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    step = Trainer.step
    monkeypatch.setattr("rapidbm.runs.run.time", clock)

    def slow(self, count=1):
        step(self, count)
        clock.now += 0.1 * count

    monkeypatch.setattr(Trainer, "step", slow)
    return clock


PLANNED = {"metrics": ("hamming",), "evaluate": "end", "valid": None, "fall": "linear"}


def timed(folder, table, **chosen):
    given = {k: v for k, v in SMALL.items() if k != "epochs"}
    return Run.create(folder, Recipe.made(table, {**given, **PLANNED, **chosen}, "small"))


def test_a_training_fits_into_its_budget(tmp_path, table, clock):
    start = clock.now
    run = go(timed(tmp_path / "R", table, budget="1m"))
    assert run.status == "finished"
    assert 0.9 * 60 < clock.now - start <= 60
    assert run.info["wall"] == pytest.approx(clock.now - start, abs=0.01)
    plans = run.info["plan"]["made"]
    assert {plan["epochs"] for plan in plans} <= {115, 116, 117}  # it is a steady clock: 58.2 s
    assert [plan["wall"] for plan in plans] == pytest.approx([5.0, 5.8, 17.5, 34.9, 46.5], abs=0.3)
    assert run.info["updates"] == run.info["update"] == 5 * run.recipe.epochs  # the fall is complete
    assert "stopped" not in run.info


def test_a_cut_changes_no_plan(tmp_path, table, clock):
    whole = go(timed(tmp_path / "whole", table, budget="51"))
    for cut in (3, 400):
        count, folder = iter(range(10_000)), tmp_path / f"{cut}"
        part = go(timed(folder, table, budget="51"), lambda: next(count) == cut)  # noqa: B023
        assert part.status == "interrupted"
        clock.now += 1e6  # a break is not part of the budget
        part = go(Run(folder))
        assert part.recipe == whole.recipe
        one, two = load_tensors(whole.latest)[0], load_tensors(part.latest)[0]
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_slower_machine_is_noticed_in_time(tmp_path, table, clock):
    start, run = clock.now, timed(tmp_path / "R", table, budget="1m")
    for step in run.go():
        if step.update > 100:
            clock.now += 0.2  # somebody else works here
    assert 55 < clock.now - start <= 60
    assert run.status == "finished"


def test_a_faster_machine_is_noticed_in_time(tmp_path, table, clock, monkeypatch):
    """What is planned while it is slow would be over long before the budget is."""
    start, run = clock.now, timed(tmp_path / "R", table, budget="1m")
    for step in run.go():
        if step.update < 60:
            clock.now += 0.1
        else:
            clock.now -= 0.09  # ten times as fast from here on
    assert 50 < clock.now - start <= 60
    assert run.status == "finished"


def test_a_slow_beginning_does_not_use_up_the_plans(tmp_path, table, clock):
    """Plans of so few epochs that each is soon over: all are made in the first half of the time."""
    seconds = ((3, 0.8), (6, 0.37), (12, 0.06), (112, 0.012), (10**6, 0.004))  # an update up to this one
    start, run = clock.now, timed(tmp_path / "R", table, budget="14s", batch_size=3)
    for step in run.go():
        taken = next(each for last, each in seconds if step.update <= last)
        clock.now += taken - 0.1 if step.update else 0.0
    plans = run.info["plan"]["made"]
    assert plans[4]["wall"] < 7
    assert len(plans) > 5
    assert 11 < clock.now - start <= 14
    assert run.status == "finished"


def test_epochs_that_are_given_are_the_most(tmp_path, table, clock):
    run = go(timed(tmp_path / "R", table, budget="1m", epochs=30))
    assert (run.recipe.epochs, run.info["update"]) == (30, 150)


def test_a_budget_too_short_for_an_epoch_ends_the_training(tmp_path, table, clock):
    start = clock.now
    run = go(timed(tmp_path / "R", table, budget="1s", batch_size=1))
    assert clock.now - start < 1.2
    assert run.info["stopped"] == "after update 10: the budget of 1s is used up"
    assert run.metrics()[-1]["update"] == 10  # though no look was due then
    assert go(Run(tmp_path / "R")).info["update"] == 10  # there is nothing left


def test_the_start_is_no_best_machine_where_nothing_is_known_of_the_end(tmp_path, table, monkeypatch):
    look = Follower.look

    def unknown(self, machine, trained, *, last=False):
        found = look(self, machine, trained, last=last)
        return Estimate(found.value.masked_fill(torch.tensor(trained > 0), torch.nan), found.error)

    monkeypatch.setattr(Follower, "look", unknown)
    run = go(made(tmp_path / "S", table, epochs=2))
    assert run.metrics()[-1]["log_likelihood_valid"] == [None, None]
    assert run.chosen() == "best"  # those that were saved were compared
    assert load_tensors(run.best)[0]["best/update"].any()
    monkeypatch.setattr(Follower, "anneal_saved", lambda *given: (None, 0))
    run = go(made(tmp_path / "R", table, epochs=2))
    assert run.info["looks"]["compared"] == 0
    assert run.chosen() == "last"


def test_the_start_is_best_where_later_ones_are_known_to_be_worse(tmp_path, table, monkeypatch):
    look = Follower.look

    def lost(self, machine, trained, *, last=False):
        found = look(self, machine, trained, last=last)
        return Estimate(found.value + (torch.nan if last else 50.0 * (trained > 0)), found.error)

    monkeypatch.setattr(Follower, "look", lost)
    monkeypatch.setattr(Follower, "anneal_saved", lambda *given: (None, 0))
    run = go(made(tmp_path / "R", table, epochs=4))
    assert run.metrics()[-1]["log_likelihood_valid"] == [None, None]
    assert run.chosen() == "best"
    assert not load_tensors(run.best)[0]["best/update"].any()


def test_a_budget_is_made_larger(tmp_path, table, clock):
    run = go(timed(tmp_path / "R", table, budget="20s"))
    start, first = clock.now, run.recipe.epochs
    with pytest.raises(InputError, match="can only be made larger, not 10s"):
        run.prolong(budget="10s")
    with pytest.raises(InputError, match="--prolong stretch goes with --epochs"):
        run.prolong(rate="stretch", budget="1m")
    assert "as many epochs as fit, after those planned; the rate then falls again" in run.prolong(
        budget="1m"
    )
    run = go(Run(tmp_path / "R"))
    assert run.recipe.falls == (first,)
    assert 36 < clock.now - start <= 41
    assert run.recipe.epochs > 2.5 * first
    told = run.prolong(run.recipe.epochs + 10)
    assert "prolonged from" in told
    assert run.recipe.budget is None
    assert go(Run(tmp_path / "R")).status == "finished"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), ("7", 7)])
def test_times(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5 m", "m", "-5m", "5d", "0", "0.5s", "1e3", "nan", "٣m", "9" * 20])
def test_times_that_are_none(text):
    with pytest.raises(
        InputError, match="a budget is a time from a second on, such as 90s, 5m or 1h, not"
    ):
        Recipe("bars4", budget=text)


# -- what is known, and what is not ------------------------------------------------------------------


def seen(*pairs):
    values, errors = zip(*pairs, strict=True)
    return Estimate(torch.tensor(values).double(), torch.tensor(errors).double())


def test_a_value_that_is_not_known_well_is_not_better(tmp_path):
    machine, path = rbm(4, 3, replicas=2, seed=0), tmp_path / "best.safetensors"
    best = Best.read(path, machine)
    assert best.better(seen((-130.0, 0.1), (-130.0, 0.1)), 1, machine)
    assert not best.better(seen((-129.6, 100.0), (float("nan"), 0.1)), 2, machine)
    assert not best.better(seen((-129.6, float("inf")), (-129.9, 0.2)), 3, machine)
    assert best.better(seen((-129.0, 0.1), (-131.0, 0.1)), 4, machine)
    assert best.update.tolist() == [4, 1]
    best.save(path, machine)
    kept = Best.read(path, machine)
    assert torch.equal(kept.error, best.error)
    tensors, _ = load_tensors(path)
    save_tensors(path, machine, {k: v for k, v in tensors.items() if k != "best/error"}, {"update": 4})
    assert Best.read(path, machine).error.tolist() == [0.0, 0.0]
    assert not Best.read(path, machine).better(seen((-129.0, 0.01), (-130.0, 0.01)), 5, machine)


def unknown_from(monkeypatch, sweeps):
    look = Follower.look

    def unknown(self, machine, trained, *, last=False):
        found = look(self, machine, trained, last=last)
        return Estimate(found.value.masked_fill(torch.tensor(trained > sweeps), torch.nan), found.error)

    monkeypatch.setattr(Follower, "look", unknown)


def test_a_look_that_failed_is_not_counted_by_patience(tmp_path, table, monkeypatch):
    unknown_from(monkeypatch, 0)
    whole = go(made(tmp_path / "R", table, patience=2, epochs=4))
    assert "stopped" not in whole.info
    count = iter(range(1000))
    go(made(tmp_path / "S", table, patience=2, epochs=4), lambda: next(count) == 9)
    part = go(Run(tmp_path / "S"))
    assert "stopped" not in part.info
    assert without_times(part) == without_times(whole)


def test_machines_that_are_saved_are_looked_at(tmp_path, table):
    run = go(made(tmp_path / "R", table, epochs=4, metrics=("hamming", "log_likelihood")))
    lines = {record["update"]: record for record in run.metrics()}
    assert list(lines) == [0, 1, 2, 4, 8, 12, 16]
    assert "log_likelihood_valid" in lines[1]
    assert "hamming_train" not in lines[1]
    assert run.info["looks"] == {"asked": 7, "made": 7, "unknown": 0, "compared": 0}


@pytest.mark.parametrize("followed", [False, True])
def test_the_best_machine_is_the_best_of_those_saved(tmp_path, table, monkeypatch, followed):
    """Looked at the ends alone; it was better on the way."""
    chosen = {"evaluate": "end", "replicas": 1, "rate": (0.05,), "checkpoints": "4"}
    chosen |= {"bias_start": "zero", "epochs": 30}
    if followed:
        monkeypatch.setattr("rapidbm.likelihood.following.CHEAP", 1)
    run = go(made(tmp_path / "R", table, **chosen))
    valid = run.data().valid
    saved = {u: float(log_likelihood(run.machine(u), valid).value) for u in run.checkpoints()}
    assert max(saved, key=lambda u: saved[u]) not in (0, 120)
    found = float(log_likelihood(run.machine(), valid).value)
    assert found >= max(saved.values()) - (0.3 if followed else 1e-6)
    assert 0 < run.info["looks"]["compared"] <= 32
    before = load_tensors(run.best)[0]
    again = load_tensors(go(Run(tmp_path / "R")).best)[0]
    assert all(torch.equal(before[name], again[name]) for name in before)


def test_a_checkpoint_that_is_damaged_is_no_candidate(tmp_path, table, monkeypatch):
    run = made(tmp_path / "R", table, evaluate="end", checkpoints="8")
    for step in run.go():
        if step.update == 40:
            run.checkpoint(16).write_bytes(b"")
    assert run.status == "finished"
    assert 16 not in load_tensors(run.best)[0]["best/update"].tolist()


@pytest.mark.parametrize("crossed", [True, False])
def test_a_look_that_is_cut_short_says_what_is_known_by_then(tmp_path, table, monkeypatch, crossed):
    """What the bridge said, before an annealing that took too long; else nothing."""
    monkeypatch.setattr("rapidbm.likelihood.following.CHEAP", 1)
    run = made(tmp_path / "R", table, replicas=1, rate=(0.01,))
    trainer, data = run.recipe.trainer(run.data(), torch.device("cpu")), run.data()
    monitor = LikelihoodMonitor(trainer, data, ("log_likelihood",))
    first = monitor.log_p(0, trainer.current(), data, last=False)
    trainer.finish_epoch()
    exact = log_likelihood(trainer.current(), data.valid, method="exact").value

    def late(self, *given):
        raise TimeLimit("its time was up")

    monkeypatch.setattr(Follower, "_anchor" if crossed else "_cross", late)
    found = monitor.log_p(5, trainer.current(), data, last=True, limit=1.0)["valid"]
    assert bool(first["valid"].value.isfinite().all())
    assert bool(found.value.isfinite()) == crossed
    assert monitor.follower.unknown == (0 if crossed else 1)
    if crossed:
        assert abs(float(found.value - exact)) < 4 * float(found.error) + 0.01
    assert not monitor.affords(6, trainer.current())  # it has cost all that looks may cost by now
    monkeypatch.undo()
    monkeypatch.setattr("rapidbm.likelihood.following.CHEAP", 1)
    found = monitor.log_p(10, trainer.current(), data, last=True)["valid"]
    assert abs(float(found.value - exact)) < 4 * float(found.error) + 0.01


@pytest.mark.parametrize(
    ("wall", "seconds"), [(0.0, 20.0), (70.0, 20.0), (85.0, 15.0), (98.0, 5.0), (130.0, 5.0)]
)
def test_a_look_takes_a_fifth_of_a_budget_or_what_is_left_and_a_little(wall, seconds):
    assert limit_of_look("100s", wall, last=False) == pytest.approx(seconds)
    assert limit_of_look("100s", wall, last=True) == pytest.approx(max(100 - wall, 5.0))
    assert limit_of_look("10s", 20.0, last=True) == 1.0
    assert limit_of_look(None, wall, last=False) is None


def test_the_last_look_has_more_than_the_longest_one_took():
    assert reserved(100.0, 4.0) == 6.0
    assert reserved(100.0, 90.0) == 35.0
    assert (reserved(100.0, 4.0, annealed=True), reserved(100.0, 9.0, annealed=True)) == (8.0, 13.5)


@pytest.mark.parametrize("budget", [None, "50s"])
def test_looks_are_limited_where_there_is_a_budget(tmp_path, table, clock, monkeypatch, budget):
    limits, look = [], LikelihoodMonitor.look

    def spying(self, *given, limit, **how):
        limits.append(limit)
        return look(self, *given, limit=limit, **how)

    monkeypatch.setattr(LikelihoodMonitor, "look", spying)
    go(made(tmp_path / "R", table, budget=budget, evaluate="end"))
    assert limits[0] == (None if budget is None else 10.0)
    assert budget is None or limits[-1] > 10.0  # all that is left


def test_looks_that_were_left_out_are_told():
    assert left_out({}) == ""
    assert left_out({"asked": 5, "made": 5, "unknown": 0}) == ""
    told = left_out({"asked": 105, "made": 27, "unknown": 3})
    assert told.startswith("27 of 105 looks at the likelihood were made, the others would have cost too")
    assert "and 3 could not tell: look less often (--evaluate-at)" in told
    assert left_out({"asked": 5, "made": 5, "unknown": 1}).startswith("all 5 looks")
