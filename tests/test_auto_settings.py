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
from rapidbm.runs import auto_settings
from rapidbm.runs.auto_settings import Candidate, Judged, candidates, compared, find_settings
from rapidbm.runs.baseline import Baseline, independent_columns
from rapidbm.runs.monitor import Best
from rapidbm.runs.presets import preset_for
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.training.trainer import Trainer


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


def settled(*given):
    """The recipe alone."""
    return find_settings(*given).recipe


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    """But where a test says otherwise, few rows count as many, and the end takes no time."""
    monkeypatch.setattr(auto_settings, "FEW_ROWS", 0)
    monkeypatch.setattr(auto_settings, "ENDING", 0.0)


class Clock:
    """A clock that stands still."""

    @staticmethod
    def monotonic():
        return 1000.0


@pytest.fixture
def few(monkeypatch):
    """Few candidates, and a clock that goes on by 20 ms whenever it is read: what fits into a budget does
    not hang on the computer."""
    readings = count()
    clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: 0.02 * next(readings)})
    for name in ("auto_settings", "run", "monitor"):
        monkeypatch.setattr(f"rapidbm.runs.{name}.time", clock)
    whole = auto_settings.trial  # whose looks the computer's own clock would limit
    monkeypatch.setattr(auto_settings, "trial", lambda *a, **more: whole(*a, **more | {"looking": None}))
    monkeypatch.setattr(auto_settings, "RATES", (1e-3, 1e-2))
    monkeypatch.setattr(auto_settings, "DECAYS", (0.0, 0.0, 100.0))
    monkeypatch.setattr(auto_settings, "USUAL", 1.0)


def test_shapes_follow_the_columns():
    narrow = list(candidates(auto(), (), table(16)))
    assert {c.shape for c in narrow} == {((100,), None, "tree"), ((100,), None, "columns")}
    wide = list(candidates(auto(), (), table(100)))
    dense = {((400,), None, "tree"), ((400,), None, "columns")}
    assert {c.shape for c in wide} == dense | {((400,), 64, "columns")}
    assert len(wide) == 3 * len(auto_settings.RATES)


def test_rates_follow_the_size_of_a_dense_machine_and_decays_the_rows():
    wide = list(candidates(auto(), (), table(256, rows=1520)))
    dense = [c for c in wide if c.patterns is None]
    of_patterns = [c for c in wide if c.patterns is not None]
    assert sorted({c.rate for c in of_patterns}) == pytest.approx([1e-3, 3e-3, 9e-3])  # five times
    assert sorted({c.rate for c in dense}) == pytest.approx(
        [x * 128 / 320 for x in (5e-4, 1.5e-3, 4.5e-3)]
    )
    assert {c.decay for c in wide} == {0.1}
    assert auto_settings._decays(auto(), (), table(256, rows=1520)) == pytest.approx([0.0, 0.1, 0.4, 1.2])
    assert min(c.rate for c in candidates(auto(), (), table(16))) == pytest.approx(1.5e-3)


def test_what_was_chosen_is_not_varied():
    given = {"hidden": (30,), "patterns": None, "start": "tree", "rate": (0.02,), "weight_decay": (0.5,)}
    assert list(candidates(auto(**given), given, table(20))) == [
        Candidate((30,), None, 0.02, 0.5, "tree")
    ]
    given = {"hidden": (30,), "patterns": 7, "rate": (0.02,), "weight_decay": (0.5,)}
    assert list(candidates(auto(**given), given, table(100))) == [Candidate((30,), 7, 0.02, 0.5)]
    recipe = settled(auto(**given, sweeps=9), {**given, "sweeps": 9}, table())
    assert (recipe.hidden, recipe.patterns, recipe.rate, recipe.sweeps) == ((30,), 7, (0.02,), 9)


def test_candidates_of_one_shape_train_side_by_side_and_the_best_comes_first(few, monkeypatch):
    rivals = [Candidate((8,), None, rate, decay) for rate in (1e-3, 1e-2) for decay in (0.0, 100.0)]
    recipe = replace(auto(), particles=50, sweeps=1, batch_size=20)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 600.0)
    monkeypatch.setattr(auto_settings, "LONGEST", 100.0)
    judged = compared(recipe, table(valid=True), rivals, 1.0)
    assert [x.valid for x in judged] == sorted((x.valid for x in judged), reverse=True)
    assert {x.candidate for x in judged} == set(rivals)
    strong = [x for x in judged if x.candidate.decay]
    assert judged[0].candidate.decay == 0.0  # a decay of 100 keeps every coupling at zero
    assert strong[-1].valid < judged[0].valid - 0.05


def test_the_first_round_is_of_rates_and_the_second_of_decays(monkeypatch):
    rounds = []

    def judge(recipe, data, rivals, seconds, looking):
        rounds.append((list(rivals), seconds))
        score = {c: -abs(c.rate - 1.5e-3) - abs(c.decay - 1.0) for c in rivals}
        return [Judged(c, 0.0, score[c], 0.0, 100) for c in sorted(rivals, key=lambda c: -score[c])]

    monkeypatch.setattr(auto_settings, "compared", judge)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 400 / (0.97 * 100))
    monkeypatch.setattr(auto_settings, "time", Clock)
    lines = []
    recipe = settled(auto(budget="100s"), ("budget",), table(48, rows=1687), lines.append)
    (first, ten), (second, longer) = rounds
    assert (ten, longer) == (10.0, 25.0)
    assert [c.decay for c in first] == [0.1] * 9
    of_patterns = [c for c in second if c.patterns]
    assert len(second) == 12
    assert [c.decay for c in of_patterns] == pytest.approx([0.0, 0.1, 0.4, 1.2])
    assert {c.rate for c in of_patterns} == {pytest.approx(1e-2 / 3)}
    assert (recipe.weight_decay, recipe.replicas) == ((pytest.approx(1.2),), 1)
    assert recipe.rate[0] == pytest.approx(1.5e-3 / 2.0)  # it is four times as long
    assert recipe.budget == "100.0s"
    assert recipe.valid == auto_settings.VALID
    assert "9 pairs of couplings and rate, then 4 weight decays; 35 s of 100 s" in lines[0]
    assert any("rate 0.0015, weight decay 1.2" in line for line in lines)


def test_a_first_round_that_took_long_shortens_the_second_one(monkeypatch):
    rounds, now = [], [0.0]

    def judge(recipe, data, rivals, seconds, looking):
        rounds.append((seconds, looking))
        now[0] += 30.0
        return [Judged(rivals[0], 0.0, -1.0, 0.0, 100)]

    monkeypatch.setattr(auto_settings, "compared", judge)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 100.0)
    monkeypatch.setattr(auto_settings, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settled(auto(budget="100s"), ("budget",), table(48))
    assert rounds == [(10.0, 15.0), (15.0, 15.0)]  # 60 s for both, of which the first took 30


def test_the_speed_of_a_slow_machine_is_measured_by_few_updates(monkeypatch):
    now, step = [0.0], Trainer.step

    def slow(self, count=1):
        step(self, count)
        now[0] += 0.4 * count

    monkeypatch.setattr(Trainer, "step", slow)
    monkeypatch.setattr(auto_settings, "time", SimpleNamespace(monotonic=lambda: now[0]))
    data = spins_of(6, 2000)
    recipe = Recipe.made("digits", {"hidden": (4,), "patterns": 3, "budget": "60s"}, "auto")
    assert auto_settings._speed(
        replace(recipe, valid=None, epochs=9, batch_size=20), data
    ) == pytest.approx(2.5)
    assert now[0] < 4.0


def test_where_the_rate_is_chosen_decays_are_still_compared(monkeypatch):
    given = {"hidden": (30,), "patterns": None, "rate": (0.02,), "start": "columns"}
    tried = []
    monkeypatch.setattr(auto_settings, "compared", lambda r, d, rivals, *_: tried.append(rivals) or [])
    assert settled(auto(**given), given, table()).rate == (0.02,)
    assert [[c.decay for c in rivals] for rivals in tried] == [[0.0, 1.0, 4.0, 12.0]]


def test_where_all_is_given_nothing_is_compared(monkeypatch):
    given = {"hidden": (30,), "patterns": None, "start": "columns", "rate": (0.02,), "weight_decay": 0.1}
    monkeypatch.setattr(auto_settings, "compared", None)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 100.0)
    lines = []
    recipe = settled(auto(**given), given, table(), lines.append)
    assert recipe.rate == (0.02,)
    what = "30 hidden units, dense, rate 0.02, weight decay 0.1"
    assert lines == [f"auto: nothing to compare, all of it is given: {what}"]


def test_a_first_round_that_took_too_long_decides(monkeypatch):
    readings = iter([0.0, 50.0, *[50.0] * 9])
    monkeypatch.setattr(auto_settings, "time", SimpleNamespace(monotonic=lambda: next(readings)))
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 100.0)
    last = []

    def judge(recipe, data, rivals, seconds, looking):
        last[:] = [rivals[-1]]
        return [Judged(rivals[-1], 0.0, -1.0, 0.0, 100)]

    monkeypatch.setattr(auto_settings, "compared", judge)
    recipe = settled(auto(budget="100s"), ("budget",), table())
    assert (recipe.weight_decay, recipe.rate) == ((1.0,), (pytest.approx(13.5e-3 / 4),))
    assert last[0].decay == 1.0


def test_a_validation_part_of_the_data_is_taken(monkeypatch):
    def judge(recipe, data, rivals, seconds, looking):
        return [Judged(rivals[0], 0.0, float(len(data.valid)), 0.0, 0)]

    monkeypatch.setattr(auto_settings, "compared", judge)
    lines = []
    assert settled(auto(), (), table(valid=True), lines.append).valid is None
    assert any("valid 10.00" in line for line in lines)


def test_where_nothing_can_be_judged_the_usual_is_taken(monkeypatch):
    monkeypatch.setattr(auto_settings, "compared", lambda *given: [])
    lines = []
    recipe = settled(auto(replicas=3), ("replicas",), table(), lines.append)
    assert (recipe.rate, recipe.weight_decay, recipe.replicas) == ((pytest.approx(4.5e-3),), (1.0,), 3)
    assert "none could be judged" in lines[-2]
    assert "a tree is better than all trials" in lines[-1]


@pytest.mark.parametrize(("few_rows", "patterns"), [(0, True), (1000, False)])
def test_of_few_rows_it_is_a_few_dense_couplings(monkeypatch, few_rows, patterns):
    monkeypatch.setattr(auto_settings, "compared", lambda *given: [])
    monkeypatch.setattr(auto_settings, "FEW_ROWS", few_rows)
    recipe = settled(auto(start="columns"), ("start",), table(60))
    assert (recipe.patterns is not None) == patterns
    assert recipe.hidden == ((240,) if patterns else (60,))


def test_a_second_round_that_did_worse_decides_nothing(monkeypatch):
    value = iter([-1.0, -2.0])

    def judge(recipe, data, rivals, seconds, looking):
        return [Judged(rivals[0], 0.0, next(value), 0.0, 100)]

    monkeypatch.setattr(auto_settings, "compared", judge)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 1.0)
    monkeypatch.setattr(auto_settings, "time", Clock)
    recipe = settled(auto(budget="100s"), ("budget",), table(16))
    assert recipe.weight_decay == (1.0,)  # the usual one of the first round, not 0.0


def test_couplings_that_a_short_round_could_not_judge_are_in_the_second(monkeypatch):
    rounds = []

    def judge(recipe, data, rivals, seconds, looking):
        rounds.append(rivals)
        known = [c for c in rivals if len(rounds) == 2 or c.patterns is None]
        score = {c: -c.rate - (c.patterns is None) for c in known}
        return [Judged(c, 0.0, score[c], 0.0, 100) for c in sorted(known, key=lambda c: -score[c])]

    monkeypatch.setattr(auto_settings, "compared", judge)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 1.0)
    monkeypatch.setattr(auto_settings, "time", Clock)
    recipe = settled(auto(budget="100s"), ("budget",), table(48))
    assert {c.rate for c in rounds[1] if c.patterns} == {pytest.approx(1e-2)}  # the usual one
    assert recipe.patterns is not None


# -- few rows, and what is never lost ------------------------------------------------------------------


def test_few_rows_want_lower_rates_and_try_few_hidden_units(monkeypatch):
    monkeypatch.setattr(auto_settings, "FEW_ROWS", 5000)
    wide = list(candidates(auto(), (), table(100)))
    assert {c.hidden for c in wide} == {(100,), (400,)}
    assert sorted({c.rate for c in wide if c.patterns}) == pytest.approx([4.8e-4, 1.6e-3, 4.8e-3])
    assert settled(auto(budget="2s"), ("budget",), table(4)).patience == auto_settings.PATIENT
    given = {"patience": 7, "hidden": (30,)}
    assert {c.hidden for c in candidates(auto(**given), given, table(100))} == {(30,)}


@pytest.mark.parametrize("start", ["columns", "tree"])
@pytest.mark.parametrize(("error", "trial"), [(0.1, True), (9.0, False)])
def test_a_run_has_to_better_the_best_trial_and_what_is_known(monkeypatch, error, trial, start):
    """By the pessimistic end: −1 ± 9 may be far below the columns, which have about −4."""

    def judge(recipe, data, rivals, seconds, looking):
        return [Judged(rivals[0], 0.0, -1.0, error, 100, {"biases": torch.ones(1, 2)})]

    monkeypatch.setattr(auto_settings, "compared", judge)
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 1.0)
    found = find_settings(auto(start=start), ("start",), table()).start
    known = {"columns": "independent columns", "tree": "a tree"}
    assert found.what == ("a trial" if trial else known[start])
    assert found.worst == (-1.0 - 2 * error if trial else found.value)
    assert found.worst > -5.0


def test_trials_are_compared_by_the_pessimistic_end():
    wide, narrow = (
        Judged(None, 0.0, -129.6, 100.0, 9),
        Judged(None, 0.0, -130.0, 0.1, 9),
    )
    assert narrow.worst > wide.worst
    assert Judged(None, 0.0, float("nan"), 0.1, 9).worst == -float("inf")
    assert Baseline("a trial", -1.0, float("nan"), {}).worst == -float("inf")


def test_the_best_trial_is_handed_on_with_its_parameters(few, monkeypatch):
    rivals = [Candidate((8,), None, 1e-2, decay) for decay in (0.0, 100.0)]
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 600.0)
    monkeypatch.setattr(auto_settings, "LONGEST", 100.0)
    recipe = replace(auto(), particles=50, sweeps=1, batch_size=20)
    first, last = compared(recipe, table(valid=True), rivals, 1.0)
    sizes = [float(x.parameters["couplings.weights.0-1"].abs().sum()) for x in (first, last)]
    assert sizes[0] > 2 * sizes[1]  # a decay of 100 keeps every coupling at zero
    assert all(x.shape[0] == 1 for x in first.parameters.values())


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
    assert auto_settings.couplings("rbm", 10, (4,)) == 40
    assert auto_settings.couplings("dbm", 10, (4, 3)) == 52
    assert auto_settings.couplings("bm", 10, (4,)) == 91
    dense = [c.rate for c in candidates(auto(model="bm"), (), table(256)) if c.patterns is None]
    assert dense == pytest.approx([x * 128 / (456 * 455 / 2) ** 0.5 for x in (5e-4, 1.5e-3, 4.5e-3)])


@pytest.mark.parametrize("kind", [{"model": "dbm"}, {"model": "bm"}])
def test_deep_and_full_machines_are_judged_by_the_bound(few, monkeypatch, kind):
    lines = []
    monkeypatch.setattr(auto_settings, "_speed", lambda recipe, data: 30.0)
    monkeypatch.setattr(auto_settings, "LONGEST", 100.0)
    recipe = settled(auto(**kind, budget="4s"), {**kind, "budget": "4s"}, table(), lines.append)
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
    monkeypatch.setattr(auto_settings, "compared", lambda *given: [])
    given = {"model": "dbm", "hidden": (7, 5), "lifetime": 0, "positive": "clamped", "positive_steps": 3}
    given["deep_start"] = 0.5
    lines = []
    recipe = settled(auto(**given), given, table(), lines.append)
    assert {name: getattr(recipe, name) for name in given} == given
    assert "7 + 5 hidden units, 3 steps of clamped per update, no lifetime" in lines[0]
    few = {"model": "bm", "hidden": (5,)}
    assert settled(auto(**few), few, table()).positive == "auto"  # enumerated, which is exact
    visible = {"model": "bm", "hidden": ()}
    assert settled(auto(**visible), visible, table()).metrics == ("log_likelihood",)


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
    assert not auto_settings.applies_to(other)
    with pytest.raises(InputError, match="the preset auto trains by pcd and adam, not by"):
        find_settings(auto(**other), other, table())


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
    assert auto_settings.is_default_for({})
    assert auto_settings.is_default_for({"hidden": (30,), "negative": "pcd"})
    assert auto_settings.is_default_for({"epochs": 30, "budget": "5m"})
    assert not auto_settings.is_default_for({"epochs": 30})
    assert not auto_settings.is_default_for({"negative": "pid"})


def test_it_needs_something_to_judge_by():
    with pytest.raises(InputError, match="judges by a validation part; leave --valid 0 out"):
        settled(auto(valid=0.0), ("valid",), table())


def test_both_shapes_are_in_the_second_round():
    judged = [Judged(Candidate((400,), None, x, 0.1), 0.0, -x, 0.0, 9) for x in (1.0, 2.0, 3.0)]
    judged += [Judged(Candidate((400,), 64, x, 0.1), 0.0, -x, 0.0, 9) for x in (4.0, 5.0, 6.0)]
    assert [c.rate for c in auto_settings.best_of_shapes(judged)] == [1.0, 4.0]


def test_the_command(few, tmp_path, monkeypatch, capsys):
    rows = (table(6, 120).train.spins > 0).numpy().astype(np.uint8)
    np.savez(tmp_path / "table.npz", train=rows[:80], test=rows[80:])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rapidbm", "train", "table.npz", "--budget", "4s", "--out", "R"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert "auto: 4 pairs of couplings and rate, then 3 weight decays" in capsys.readouterr().out
    info = json.loads((tmp_path / "R/run.json").read_text())
    assert info["preset"] == "auto"
    assert info["auto"]["budget"] == "4s"
    assert any("best of" in line for line in info["auto"]["found"])
    monkeypatch.setattr("sys.argv", [*sys.argv, "--resume"])  # the same words are no longer run
    with pytest.raises(SystemExit):
        main()
    assert "prolonged" not in json.loads((tmp_path / "R/run.json").read_text())
    assert info["recipe"]["valid"] == auto_settings.VALID
    assert Run(tmp_path / "R").best.is_file()
