"""The preset `auto`: candidates, rounds, and what comes of them."""

import json
import sys
import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rapidbm.cli.main import main
from rapidbm.data.splits import Dataset, Split
from rapidbm.errors import InputError
from rapidbm.progress import watch
from rapidbm.runs import choosing
from rapidbm.runs.choosing import candidates, chosen
from rapidbm.runs.presets import preset_for
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.rounds import Bench, Candidate, Judged, Start, independent_columns
from rapidbm.runs.run import Run
from rapidbm.runs.watching import Best


def table(columns=6, rows=80, *, valid=False):
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, (rows, 1))
    spins = 2 * (rng.random((rows, columns)) < 0.2 + 0.6 * hidden) - 1
    parts = {"train": Split(spins[20:].astype(np.int8)), "test": Split(spins[:20].astype(np.int8))}
    if valid:
        parts["valid"] = Split(spins[:10].astype(np.int8))
    return Dataset("table", shape=(1, columns), **parts)


def auto(**more):
    return Recipe.made("digits", {"budget": "2s", "device": "cpu", **more}, "auto")


class Standing:
    """A clock that stands still."""

    @staticmethod
    def monotonic():
        return 1000.0


@pytest.fixture
def standing(monkeypatch):
    monkeypatch.setattr(choosing, "time", Standing)


def judging_by(monkeypatch, score):
    """Rounds in which a candidate comes to `score`; answers what they were given."""
    rounds = []

    def judge(self, recipe, rivals, seconds):
        rounds.append(([one.candidate for one in rivals], seconds))
        judged = [
            replace(
                x,
                train=0.0,
                valid=score(x.candidate),
                error=0.0,
                updates=x.updates + 100,
                speed=1.0,
                begun=x.begun if x.updates else (x.candidate.rate, 100),
            )
            for x in rivals
        ]
        for one in judged:
            if one.worst > (-np.inf if self.best is None else self.best.worst):
                self.best = one
        return judged

    monkeypatch.setattr(Bench, "round", judge)
    return rounds


@pytest.fixture
def few(monkeypatch):
    """Few candidates, and a clock that goes on by 20 ms whenever it is read: what fits into a budget does
    not hang on the computer."""
    readings = count()
    clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: 0.02 * next(readings)})
    for name in ("choosing", "rounds", "run", "watching"):
        monkeypatch.setattr(f"rapidbm.runs.{name}.time", clock)
    # Limits are by the real clock.
    monkeypatch.setattr("rapidbm.runs.rounds.watch", lambda what, limit=None: watch(what))
    monkeypatch.setattr(choosing, "RATES", (1e-3, 1e-2))
    monkeypatch.setattr(choosing, "DECAYS", (0.0, 0.0, 100.0))
    monkeypatch.setattr(choosing, "USUAL", 1.0)
    monkeypatch.setattr(choosing, "ENDING", 0.0)


def shapes_of(recipe, fixed, data):
    return [c.shape for c in candidates(recipe, fixed, data)][:: len(choosing.RATES)]


def test_shapes_follow_the_columns():
    assert shapes_of(auto(), (), table(16)) == [((100,), None, 300), ((100,), None, 0)]
    small, dense, patterned = ((100,), None), ((400,), None), ((400,), 64)
    wide = shapes_of(auto(), (), table(100))
    assert wide[:3] == [(*small, 300), (*dense, 0), (*patterned, 0)]
    assert wide[3:] == [(*small, 0), (*dense, 300)]  # patterns have scouts
    given = {"lifetime": 7}
    assert {s[2] for s in shapes_of(auto(**given), given, table(100))} == {7}


def test_rates_follow_the_size_of_a_dense_machine_and_decays_the_rows():
    wide = list(candidates(auto(), (), table(256, rows=1520)))
    dense = [c for c in wide if c.patterns is None and c.hidden == (400,)]
    of_patterns = [c for c in wide if c.patterns is not None]
    assert sorted({c.rate for c in of_patterns}) == pytest.approx([5e-4, 1.5e-3, 4.5e-3])
    assert sorted({c.rate for c in dense}) == pytest.approx(
        [x * 128 / 320 for x in (5e-4, 1.5e-3, 4.5e-3)]
    )
    assert {c.decay for c in wide} == {0.1}
    assert choosing._decays(auto(), (), table(256, rows=1520)) == pytest.approx([0.1, 1.2, 0.4, 0.0])
    assert min(c.rate for c in candidates(auto(), (), table(16))) == 5e-4


def test_what_was_chosen_is_not_varied():
    given = {"hidden": (30,), "patterns": 7, "rate": (0.02,), "weight_decay": (0.5,), "lifetime": 9}
    assert list(candidates(auto(**given), given, table(100))) == [Candidate((30,), 7, 0.02, 0.5, 9)]
    found = chosen(auto(**given, sweeps=9), {**given, "sweeps": 9}, table())
    recipe = found.recipe
    assert (recipe.hidden, recipe.patterns, recipe.rate, recipe.sweeps) == ((30,), 7, (0.02,), 9)
    assert found.start.what == "independent columns"  # nothing to compare, so no trial


def test_the_better_half_goes_on_and_decays_are_tried_from_the_best(monkeypatch, standing):
    rounds = judging_by(monkeypatch, lambda c: -abs(c.hidden[0] - 100) - abs(c.decay - 1.0))
    lines = []
    found = chosen(auto(budget="100s"), ("budget",), table(48, rows=1687), lines.append)
    first, second = rounds[0], rounds[1]
    assert [c.decay for c in first[0]] == [0.1] * 3
    assert first[1] == pytest.approx(20.0)
    assert len(second[0]) == 2  # the better half of three: there is time for one shape
    assert [c.decay for c in rounds[2][0]] == pytest.approx([0.1, 1.2, 0.4, 0.0])
    recipe = found.recipe
    assert recipe.weight_decay == (pytest.approx(1.2),)
    assert recipe.rate[0] < min(c.rate for c in first[0]) * 3
    assert recipe.budget == f"{100 - choosing.ENDING:.1f}s"
    assert recipe.patience == choosing.PATIENT
    assert recipe.valid == choosing.VALID
    assert "3 candidates of 1 shape, then the better half, then up to 4 weight decays" in lines[0]
    assert any("weight decay 1.2" in line for line in lines)


def test_the_rate_falls_with_the_root_of_what_is_to_come():
    one = Judged(Candidate((8,), None, 1.0, 0.0), updates=500, begun=(2e-3, 100))
    assert choosing.slower(one, 50) == 2e-3
    assert choosing.slower(one, 400) == pytest.approx(1e-3)
    assert choosing.slower(one, 1e6) == pytest.approx(2e-3 / choosing.SLOWER)


def test_a_later_round_that_did_worse_changes_nothing(monkeypatch, standing):
    value = iter(range(100))
    judging_by(monkeypatch, lambda c: -float(next(value)))
    recipe = chosen(auto(budget="100s"), ("budget",), table(16)).recipe
    assert recipe.weight_decay == (1.0,)
    assert recipe.rate[0] == pytest.approx(5e-4)  # of the first of all


def test_a_validation_part_of_the_data_is_taken(monkeypatch, standing):
    judging_by(monkeypatch, lambda c: 10.0)
    lines = []
    assert chosen(auto(), (), table(valid=True), lines.append).recipe.valid is None
    assert any("valid 10.00" in line for line in lines)


def test_where_nothing_can_be_judged_the_lowest_usual_rate_is_taken(monkeypatch, standing):
    rounds = judging_by(monkeypatch, lambda c: float("nan"))
    lines = []
    found = chosen(auto(replicas=3), ("replicas",), table(), lines.append)
    recipe = found.recipe
    assert (recipe.rate, recipe.weight_decay, recipe.replicas) == ((5e-4,), (1.0,), 3)
    assert any("could be judged" in line for line in lines)
    assert len(rounds[-1][0]) == choosing.FEWEST  # fewer of them had all the time that was left
    assert found.start.what == "independent columns"


# -- what the rounds keep ----------------------------------------------------------------------------


def spins_of(columns=6, rows=80):
    return table(columns, rows, valid=True)


def test_independent_columns_have_the_likelihood_of_their_marginals():
    data = spins_of()
    for more in ({"patterns": None}, {"patterns": 3}, {"model": "dbm", "hidden": (3, 2), "patterns": 2}):
        recipe = auto(**{"hidden": (4,), **more}, metrics=("log_likelihood",))
        if "model" in more:
            recipe = replace(recipe, metrics=("log_bound",))
        found = independent_columns(recipe, data)
        p = (data.train.spins.eq(1).sum(0) + 1.0) / (len(data.train) + 2.0)
        up = data.valid.spins.eq(1)
        wanted = torch.where(up, p.log(), (1 - p).log()).double().sum(1).mean()
        assert found.value == pytest.approx(float(wanted), abs=1e-5)
        assert found.error == 0.0


def test_rounds_go_on_from_where_they_are(few):
    data = spins_of(8, 200)
    recipe = replace(auto(hidden=(4,), patterns=None), particles=50, sweeps=1, batch_size=20)
    bench = Bench(data)
    rivals = [Judged(Candidate((4,), None, rate, 0.0)) for rate in (2e-3, 2e-2)]
    first = bench.round(recipe, rivals, 4.0)
    assert all(np.isfinite(one.worst) for one in first)
    before = {k: x.clone() for k, x in first[1].state.items()}
    again = [replace(first[1], candidate=replace(first[1].candidate, rate=1e-9))] * 2
    second = bench.round(recipe, again, 4.0)
    assert second[0].updates > first[1].updates
    for one in second:  # a rate of nothing: the machine is what it was
        assert one.valid == pytest.approx(first[1].valid, abs=1e-3)
        weights = "parameter/couplings.weights.0-1"
        torch.testing.assert_close(one.state[weights], before[weights], atol=1e-5, rtol=0)
    assert bench.best.worst >= max(one.worst for one in (*first, *second))  # of all looks


def test_a_trial_that_was_overrated_is_found_out(few):
    data = spins_of(8, 200)
    recipe = replace(auto(hidden=(20,), patterns=None), particles=50, sweeps=1, batch_size=20)
    bench = Bench(data)
    (one,) = bench.round(recipe, [Judged(Candidate((20,), None, 2e-3, 0.0))], 4.0)
    monkey = pytest.MonkeyPatch()
    monkey.setattr("rapidbm.runs.rounds.CHEAP", 1)  # as if its log Z were not exact
    try:
        alone = replace(recipe, rate=(2e-3,))
        good = choosing.checked(alone, data, one, 60.0)
        lied = choosing.checked(alone, data, replace(one, valid=one.valid + 5.0, error=0.01), 60.0)
    finally:
        monkey.undo()
    assert good.value == one.valid
    assert lied.value == pytest.approx(one.valid, abs=0.5)
    assert not any(name.startswith("watch/") for name in lied.state)


def started(tmp_path, value, *, replicas=2, **more):
    """A run that begins with independent columns of this value."""
    data = spins_of()
    settings = {"hidden": (4,), "patterns": None, "replicas": replicas, "epochs": 2, **more}
    settings |= {"rate": (1e-3,), "particles": 20, "sweeps": 1, "batch_size": 20, "budget": None}
    recipe = replace(auto(**settings), metrics=("log_likelihood",))
    start = replace(independent_columns(recipe, data), value=value)
    return Run.create(tmp_path / "R", recipe, "auto", data=data, start=start), start, data


def test_a_run_returns_no_less_than_it_began_with(tmp_path):
    run, start, data = started(tmp_path, -1.0)  # better than any machine can be
    assert run.machine().replicas == 2  # before the first update
    for _ in run.go():
        pass
    best = Best.read(run.best, run.machine("last"))
    assert best.value.tolist() == [-1.0, -1.0]
    assert "that of independent columns" in run.where("best")[1]
    assert json.loads((tmp_path / "R/run.json").read_text())["best_from"]["value"] == -1.0
    for name, parameter in run.machine().named_parameters():
        torch.testing.assert_close(parameter.data, start.parameters[name].expand_as(parameter))
    again = Run(tmp_path / "R", data)
    for _ in again.go(epochs=3):
        pass
    assert "that of independent columns" in again.where("best")[1]


def test_what_is_better_takes_its_place(tmp_path):
    run, _, _ = started(tmp_path, -1000.0)
    for _ in run.go():
        pass
    assert "best_from" not in json.loads((tmp_path / "R/run.json").read_text())
    assert "update" in run.where("best")[1]


def test_a_run_goes_on_from_a_trial(few, tmp_path):
    data = spins_of(8, 200)
    settings = {"hidden": (4,), "patterns": None, "rate": (2e-2,), "particles": 50, "sweeps": 1}
    recipe = replace(auto(**settings, batch_size=20, epochs=1), budget=None)
    (one,) = Bench(data).round(recipe, [Judged(Candidate((4,), None, 2e-2, 0.0))], 4.0)
    start = Start("a trial", one.valid, one.error, one.parameters, one.state)
    run = Run.create(tmp_path / "R", replace(recipe, replicas=2), "auto", data=data, start=start)
    for step in run.go():
        if step.update == 0:
            assert step.record["log_likelihood_valid"] == pytest.approx([one.valid] * 2, abs=1e-6)
            for name, parameter in step.progress.machine.named_parameters():
                wanted = one.parameters[name].expand_as(parameter)
                torch.testing.assert_close(parameter.data, wanted)


def test_a_budget_is_kept_with_the_last_look(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        "rapidbm.runs.run.time", SimpleNamespace(**{**vars(time), "monotonic": lambda: now[0]})
    )
    looked = Run._evaluate

    def look(self, *given):
        now[0] += 3.0
        return looked(self, *given)

    monkeypatch.setattr(Run, "_evaluate", look)
    data = spins_of(6, 200)
    settings = {"hidden": (4,), "patterns": None, "rate": (1e-3,), "particles": 20, "sweeps": 1}
    recipe = auto(**{**settings, "batch_size": 20, "budget": "100s", "evaluate": "end"})
    run = Run.create(tmp_path / "R", recipe, "auto", data=data)
    for step in run.go():
        now[0] += 0.25 if step.update else 0.0
    assert 90.0 < now[0] <= 100.0
    assert step.record is not None


# -- deep and full machines --------------------------------------------------------------------------


def test_layers_of_deep_and_full_machines_are_rules():
    def shapes(model, columns, **more):
        recipe = auto(model=model, **more)
        return {(c.hidden, c.patterns) for c in candidates(recipe, more, table(columns))}

    assert shapes("dbm", 16) == {((80, 20), None)}
    assert shapes("bm", 16) == {((50,), None)}
    of_patterns = round(0.8 * (64 * 205 + 205 * 51) / (64 + 256))
    assert shapes("dbm", 64) == {((205, 51), None), ((205, 51), of_patterns)}
    of_patterns = round(0.8 * 191 / 2)
    assert shapes("bm", 64) == {((128,), None), ((128,), of_patterns)}
    assert shapes("dbm", 16, hidden=(9, 8, 7)) == {((9, 8, 7), None)}
    assert shapes("bm", 16, hidden=()) == {((), None)}
    # Dense ones of many units that are coupled to each other are swept one by one.
    assert shapes("bm", 16, hidden=(600,)) == {((600,), round(0.8 * 615 / 2))}
    assert shapes("bm", 16, hidden=(600,), patterns=None) == {((600,), None)}


def test_couplings_are_counted():
    assert choosing.couplings("rbm", 10, (4,)) == 40
    assert choosing.couplings("dbm", 10, (4, 3)) == 52
    assert choosing.couplings("bm", 10, (4,)) == 91
    dense = [c.rate for c in candidates(auto(model="bm"), (), table(256)) if c.patterns is None]
    assert dense == pytest.approx([x * 128 / (456 * 455 / 2) ** 0.5 for x in (5e-4, 1.5e-3, 4.5e-3)])


@pytest.mark.parametrize("kind", [{"model": "dbm"}, {"model": "bm"}])
def test_deep_and_full_machines_are_judged_by_the_bound(few, monkeypatch, kind):
    lines = []
    found = chosen(auto(**kind, budget="9s"), {**kind, "budget": "9s"}, table(), lines.append)
    recipe = found.recipe
    layers = "80 + 20" if kind["model"] == "dbm" else "50"
    assert recipe.hidden == tuple(map(int, layers.split(" + ")))
    assert (recipe.positive, recipe.positive_steps, recipe.lifetime) == ("meanfield", 10, 1000)
    assert recipe.deep_start == (0.1 if kind["model"] == "dbm" else 1.0)
    assert (recipe.metrics, recipe.centred, recipe.model) == (("log_bound",), True, kind["model"])
    assert lines[0].startswith(
        f"auto: a {kind['model']} is judged by a lower bound of log p; by rule, not"
    )
    assert (
        f"{layers} hidden units, 10 steps of meanfield per update, chains that live for 1000" in lines[0]
    )
    assert any(f"auto: {layers} hidden units, dense" in x and "log p ≥ train" in x for x in lines)


def test_what_was_chosen_of_a_deep_machine_stays(monkeypatch):
    judging_by(monkeypatch, lambda c: float("nan"))
    given = {"model": "dbm", "hidden": (7, 5), "lifetime": 0, "positive": "clamped", "positive_steps": 3}
    given["deep_start"] = 0.5
    lines = []
    recipe = chosen(auto(**given), given, table(), lines.append).recipe
    assert {name: getattr(recipe, name) for name in given} == given
    assert "7 + 5 hidden units, 3 steps of clamped per update, no lifetime" in lines[0]
    few = {"model": "bm", "hidden": (5,)}
    assert chosen(auto(**few), few, table()).recipe.positive == "auto"  # enumerated, which is exact
    visible = {"model": "bm", "hidden": ()}
    assert chosen(auto(**visible), visible, table()).recipe.metrics == ("log_likelihood",)


def test_the_command_trains_a_deep_machine(few, tmp_path, monkeypatch, capsys):
    rows = (table(6, 120).train.spins > 0).numpy().astype(np.uint8)
    np.savez(tmp_path / "table.npz", train=rows[:80], test=rows[80:])
    monkeypatch.chdir(tmp_path)
    words = "train table.npz --model dbm --hidden 6 --hidden 4 --dense --budget 3s --out R"
    monkeypatch.setattr("sys.argv", ["rapidbm", *words.split()])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    run = Run(tmp_path / "R")
    assert run.info["preset"] == "auto"
    assert run.best.is_file()
    assert run.metrics()[-1]["log_bound_error_valid"] is not None
    assert "judged by a lower bound of log p" in capsys.readouterr().out


@pytest.mark.parametrize(
    "other",
    [{"negative": "pid", "patterns": 4}, {"optimizer": "sgd"}],
)
def test_it_is_for_one_kind_of_training(other):
    assert not choosing.serves(other)
    with pytest.raises(InputError, match="the preset auto trains by pcd and adam, not by"):
        chosen(auto(**other), other, table())


def test_a_time_to_train_in_asks_for_it_but_for_the_papers_tasks():
    assert preset_for("digits", {}, trying=True) == "auto"
    assert preset_for("mnist", {}, trying=True) == "auto"
    assert preset_for("bars4", {}, trying=True) == "paper-bars"
    assert preset_for("digits", {}) == "small"
    assert preset_for("mnist-static", {"model": "bm"}, trying=True) == "auto"
    assert preset_for("mnist-static", {"model": "bm"}) == "bm-mnist"
    assert preset_for("mnist", {"model": "dbm"}) == "dbm-mnist"
    assert preset_for("mnist", {"model": "rbm"}) == "mnist"
    assert preset_for("digits", {"model": "dbm"}) == "small"


def test_it_is_the_default_unless_epochs_are_asked_for():
    assert choosing.tries({})
    assert choosing.tries({"hidden": (30,), "negative": "pcd"})
    assert choosing.tries({"epochs": 30, "budget": "5m"})
    assert not choosing.tries({"epochs": 30})
    assert not choosing.tries({"negative": "pid"})


def test_it_needs_something_to_judge_by():
    with pytest.raises(InputError, match="judges by a validation part; leave --valid 0 out"):
        chosen(auto(valid=0.0), ("valid",), table())


def test_the_command(few, tmp_path, monkeypatch, capsys):
    rows = (table(6, 120).train.spins > 0).numpy().astype(np.uint8)
    np.savez(tmp_path / "table.npz", train=rows[:80], test=rows[80:])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rapidbm", "train", "table.npz", "--budget", "4s", "--out", "R"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert (
        "auto: 2 candidates of 1 shape, then the better half, then up to 3 weight decays"
        in capsys.readouterr().out
    )
    info = json.loads((tmp_path / "R/run.json").read_text())
    assert info["preset"] == "auto"
    assert info["auto"]["budget"] == "4s"
    assert any("best of" in line for line in info["auto"]["found"])
    monkeypatch.setattr("sys.argv", [*sys.argv, "--resume"])  # the same words are no longer run
    with pytest.raises(SystemExit):
        main()
    assert "prolonged" not in json.loads((tmp_path / "R/run.json").read_text())
    assert info["recipe"]["valid"] == choosing.VALID
    assert Run(tmp_path / "R").best.is_file()
