"""Grids of settings: what runs side by side, that a cut changes no bit, what the table says."""

import csv
import json
import os
import re
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rapidbm.cli.main import main
from rapidbm.errors import InputError
from rapidbm.machines.files import load_tensors
from rapidbm.runs import run as runs
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.runs.run import Run
from rapidbm.studies import sweep as sweeps
from rapidbm.studies.drawing import axes_of
from rapidbm.studies.planning import plan, single
from rapidbm.studies.results import Row, Table, _ending
from rapidbm.studies.study import Study
from rapidbm.studies.sweep import Sweep

PAGE = (Path(__file__).parents[1] / "docs/sweeps.md").read_text()
TINY = {"hidden": 9, "epochs": 3, "device": "cpu"}
GRID = {"patterns": [2, 3], "rate": [0.01, 0.1]}


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    monkeypatch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=2)))


@pytest.fixture(autouse=True)
def no_pictures(request, monkeypatch):
    """They take longer than the trainings."""
    if "figure" not in request.node.name and "page" not in request.node.name:
        monkeypatch.setattr(sweeps, "save", lambda figure, path: None)
        monkeypatch.setattr(Table, "figure", lambda table: None)


def study(**more):
    return Study(**{"dataset": "bars4", "grid": GRID, "fixed": TINY, "seeds": 2, **more})


def same(a, b):
    for batch in sorted(path.name for path in (a / "batches").iterdir()):
        one = load_tensors(a / "batches" / batch / "checkpoints/latest.safetensors")[0]
        two = load_tensors(b / "batches" / batch / "checkpoints/latest.safetensors")[0]
        assert all(torch.equal(value, two[name]) for name, value in one.items())


# -- what is asked for --------------------------------------------------------------------------------


def read(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return Study.read(path)


def test_a_file_says_what_python_says(tmp_path):
    text = 'dataset="bars4"\nseeds=2\n[fixed]\nhidden=9\nepochs=3\ndevice="cpu"\n'
    found = read(tmp_path, text + "[grid]\npatterns=[2,3]\nrate=[1e-2, 0.1]\n")
    assert replace(found, name="study") == study()
    assert found.grid == {"patterns": (2, 3), "rate": ((0.01,), (0.1,))}
    assert found.measure == "hamming_test"


def test_settings_are_read_as_the_command_reads_them(tmp_path):
    text = 'dataset="bars4"\n[fixed]\nmodel="dbm"\nmetric="hamming"\nevaluate-at=7\nscale=1\n'
    found = read(tmp_path, text + '[grid]\nhidden=[[9],[5,4]]\npatterns=[2,"dense"]\n')
    first, *_, last = map(found.recipe, found.points())
    assert (first.hidden, first.patterns, first.evaluate) == ((9,), 2, "7")
    assert (last.hidden, last.patterns, last.scale, last.metrics) == ((5, 4), None, 1.0, ("hamming",))
    assert found.as_dict()["grid"]["patterns"] == [2, "dense"]


def test_a_measure_asks_for_its_metric():
    found = study(measure="log_likelihood_test", grid={"preset": ["small"], "rate": [0.1]})
    assert found.recipe(next(found.points())).metrics == ("log_likelihood",)
    found = study(fixed={**TINY, "metric": ["hamming", "log_likelihood"]})
    assert found.measure == "log_likelihood_test"


BAD = {
    '[grid]\nratte=[1]': "unknown setting 'ratte': did you mean 'rate'",
    '[grid]\nfalls=[[1]]': "unknown setting 'falls'",
    '[fixed]\nseeds=3': "it stands above",
    '[fixed]\nreplicas=3': "seeds = 5 above",
    '[fixed]\ndense=true': 'patterns = "dense"',
    '[grid]\nseed=[1,2]': "seed is not varied",
    '[grid]\nrate=0.1': "grid.rate must be a list",
    '[grid]\nrate=[]': "one or more values of rate",
    '[grid]\nrate=[0.1,0.1]': "each once",
    '[grid]\nrate=["a"]': r"rate\[0\] must be a number",
    '[grid]\nrate=[[0.1,0.2]]': "rate is one number in each row",
    '[grid]\nscale=[[0.1,0.2]]': "scale is one number in each row",
    '[grid]\nrate=[-1]': "in the row rate -1: a learning rate is positive",
    '[grid]\nhidden=[2.5]': "must be a whole number",
    '[grid]\nmodel=["rrbm"]': "did you mean 'rbm'",
    '[fixed]\nrate=0.1\n[grid]\nrate=[0.2]': "both fixed and varied",
    '[fixed]\npreset="auto"': "no preset auto",
    '[fixed]\npreset="smal"': "did you mean 'small'",
    '[fixed]\nmetric=[]': "a study measures something",
    'measure="x_test"\n[grid]': "unknown metric 'x'",
    'measure="hamming"\n[grid]': "unknown measure 'hamming'",
    'x="hidden"\n[grid]\nrate=[1]': "unknown setting of the grid 'hidden'",
    'seeds=0': "seeds must be a whole number",
    'other=1': "must be of the names",
    'grid=1': "grid must be a set of names",
    'a=': "cannot be read as a study: Invalid",
    f'[grid]\nrate={[*range(1, 10_100)]}': "at most 10,000 rows, not 10,099",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_study_that_is_none_says_why(tmp_path, text):
    with pytest.raises(InputError, match=BAD[text]):
        read(tmp_path, f'dataset="bars4"\n{text}\n')


def test_data_are_needed(tmp_path):
    with pytest.raises(InputError, match="a study needs data"):
        read(tmp_path, "[grid]\nrate=[0.1]")
    with pytest.raises(InputError, match="there is no study"):
        Study.read(tmp_path / "none.toml")


# -- what runs side by side ---------------------------------------------------------------------------


def test_shapes_that_agree_run_side_by_side(tmp_path):
    grid = {**GRID, "weight_decay": [0, 0.1], "scale": [0.5, 1]}
    found = plan(study(grid=grid), tmp_path)
    assert [batch.recipe.replicas for batch in found.batches] == [16, 16]
    recipe = found.batches[0].recipe
    assert recipe.rate == (0.01,) * 8 + (0.1,) * 8
    assert recipe.weight_decay[:8] == (0.0,) * 4 + (0.1,) * 4
    assert recipe.scale[:4] == (0.5, 0.5, 1.0, 1.0)
    for point, row in zip(found.study.points(), found.rows, strict=True):
        assert len(row) == 2
        for batch, replica in row:
            own = {"replicas": 1, "seed": batch.seed, **single(batch.recipe, replica)}
            assert replace(batch.recipe, **own) == found.study.recipe(point)
    lines = repr(found).splitlines()
    assert " ".join(lines[1].split()) == "001 16 rbm 9 K=2 2 0.01, 0.1 0, 0.1 0.5, 1"


def test_other_settings_and_other_optimisers_do_not():
    many = {"rate": [0.01, 0.1], "scale": [0.5, 1]}
    for fixed, grid, batches in (
        ({"optimizer": "rmsprop"}, many, 2),
        ({"optimizer": "sgd"}, many, 1),
        ({"projection": "clip"}, {"bound": [0.5, 1.0], "momentum": [0, 0.5]}, 1),
        ({}, {"batch_size": [3, 5], "sweeps": [0, 1]}, 4),
    ):
        found = plan(study(fixed={**TINY, **fixed}, grid=grid), Path("nowhere"))
        assert len(found.batches) == batches, grid


def test_seeds_of_one_row_never_draw_the_same_numbers(tmp_path):
    found = plan(study(seeds=5, together=4, grid={"patterns": [2, 3]}), tmp_path)
    assert [batch.recipe.replicas for batch in found.batches] == [4, 1, 4, 1]
    assert [batch.recipe.seed for batch in found.batches] == [0, 1, 0, 1]
    assert [len(row) for row in found.rows] == [5, 5]
    machines = [b.recipe.machine(b.recipe.data(), torch.device("cpu")) for b in found.batches[:2]]
    starts = torch.cat([machine.patterns.detach() for machine in machines])
    assert len(starts.unique(dim=0)) == 5


def test_a_study_that_grows_trains_what_is_missing(tmp_path):
    first = Sweep(study(), tmp_path)
    first.train()
    before = (tmp_path / "batches/001/run.json").read_bytes()
    more = Sweep(study(grid={"patterns": [2, 3], "rate": [0.01, 0.1, 0.2]}, seeds=3), tmp_path)
    assert [(b.name, b.recipe.replicas) for b in more.left()] == [("003", 5), ("004", 5)]
    assert more.left()[0].recipe.rate == (0.01, 0.1, 0.2, 0.2, 0.2)
    assert more.left()[0].recipe.seed == 1
    table = more.train()
    assert [row.trained for row in table.rows] == [3] * 6
    assert (tmp_path / "batches/001/run.json").read_bytes() == before
    less = Sweep(study(grid={"patterns": [3], "rate": [0.1]}, seeds=1), tmp_path)
    assert not less.left()
    assert [batch.name for batch in less.plan.passed_over] == ["001", "003", "004"]
    assert less.table().rows[0].values["hamming_test"] == table.rows[4].values["hamming_test"][:1]
    less.write()
    assert [batch.name for batch in Sweep(study(), tmp_path).plan.batches] == ["001", "002"]


def test_what_was_planned_but_not_begun_may_change(tmp_path):
    first = Sweep(study(), tmp_path)
    for _ in first.go(lambda: True):  # the first batch has begun
        pass
    assert [b.name for b in Sweep(study(), tmp_path).plan.batches] == ["001", "002"]
    other = Sweep(study(grid={"patterns": [2, 3], "rate": [0.1, 0.5]}), tmp_path).plan
    found = {b.name: b.recipe.rate for b in other.batches}
    both = (0.1, 0.1, 0.5, 0.5)
    assert found == {"001": (0.01, 0.01, 0.1, 0.1), "002": (0.5,), "003": both}


# -- training -----------------------------------------------------------------------------------------


def test_table_and_figure_say_what_the_runs_say(tmp_path):
    sweep = Sweep(study(), tmp_path / "S")
    table = sweep.train()
    last = Run(tmp_path / "S/batches/002").metrics()[-1]
    row = table.rows[3]
    assert dict(row.settings) == {"patterns": 3, "rate": (0.1,)}
    assert row.values["hamming_test"] == last["hamming_test"][2:]
    a, b = row.values["hamming_test"]
    assert row.mean("hamming_test") == pytest.approx(((a + b) / 2, abs(a - b) / 2))
    assert table.best is min(table.rows, key=lambda row: row.mean("hamming_test")[0])
    told = list(csv.DictReader((tmp_path / "S/table.csv").read_text().splitlines()))
    assert [(line["patterns"], line["rate"], line["trained"]) for line in told[2:]] == [
        ("3", "0.01", "2"),
        ("3", "0.1", "2"),
    ]
    assert float(told[3]["hamming_test_error"]) == pytest.approx(abs(a - b) / 2, abs=1e-8)
    saved = json.loads((tmp_path / "S/table.json").read_text())
    assert saved["rows"][3]["settings"] == {"patterns": 3, "rate": 0.1}
    assert saved["study"]["seeds"] == 2
    assert repr(table).splitlines()[4].split()[:2] == ["3", "0.1"]
    assert "<td" in table._repr_html_()
    # From records alone: no checkpoint is needed, and nothing is trained again.
    for batch in ("001", "002"):
        shutil.rmtree(tmp_path / "S/batches" / batch / "checkpoints")
    (tmp_path / "S/figure.png").unlink()
    again = Sweep(study(), tmp_path / "S")
    assert list(again.go()) == []
    assert (tmp_path / "S/figure.png").stat().st_size > 5000
    assert again.table() == table


@pytest.mark.parametrize("update", [5, 17])
def test_a_cut_anywhere_changes_no_bit(tmp_path, update):
    whole = Sweep(study(), tmp_path / "whole").train()
    seen = 0

    def count():
        nonlocal seen
        seen += 1
        return seen > update

    cut = Sweep(study(), tmp_path / "cut")
    for _ in cut.go(count):
        pass
    assert len(cut.left()) == (2 if update < 12 else 1)
    rows = cut.table().rows
    assert [row.trained for row in rows] == ([0] * 4 if update < 12 else [2, 2, 0, 0])
    resumed = Sweep(study(), tmp_path / "cut").train()
    assert [row.values for row in resumed.rows] == [row.values for row in whole.rows]
    same(tmp_path / "whole", tmp_path / "cut")


def test_one_that_diverges_does_not_count(tmp_path):
    fixed = {**TINY, "projection": "none", "negative": "pcd", "particles": 3}
    found = Sweep(study(grid={"rate": [0.01, 1e6]}, fixed=fixed), tmp_path).train()
    assert [row.diverged for row in found.rows] == [0, 2]
    assert found.rows[1].values == {}
    assert "2 of 2, 2 diverged" in repr(found)
    assert found.best is found.rows[0]


def test_the_best_look_by_validation_counts():
    looks = [
        {"epoch": i, "update": i, "log_likelihood_valid": [v, -v], "log_likelihood_error_valid": [1, 2]}
        | {"log_likelihood_test": [i, 10 * i]}
        for i, v in enumerate((-3.0, -1.0, -2.0))
    ]
    assert _ending(looks, 0)["log_likelihood_test"][0] == 1
    assert _ending(looks, 0)["log_likelihood_valid"] == (-1.0, 1)
    assert _ending(looks, 1)["log_likelihood_test"][0] == 0
    plain = [{"epoch": 0, "hamming_test": [0.3]}, {"epoch": 1, "hamming_test": [None]}]
    assert _ending(plain, 0)["hamming_test"][0] == 0.3


def test_other_data_of_the_same_name_are_noticed(tmp_path):
    Sweep(study(), tmp_path).train()
    path = tmp_path / "batches/002/run.json"
    info = json.loads(path.read_text())
    info["data"]["sha256"] = "0" * 64
    path.write_text(json.dumps(info))
    with pytest.raises(InputError, match="trained on different data of the same name"):
        Sweep(study(), tmp_path).table()


def test_a_batch_that_somebody_changed_is_noticed(tmp_path):
    Sweep(study(), tmp_path).train()
    Run(tmp_path / "batches/001").prolong(5)
    with pytest.raises(InputError, match="other settings than its sweep"):
        Sweep(study(), tmp_path).left()
    saved = json.loads((tmp_path / "plan.json").read_text())
    for name, value in {"name": "../x", "recipe": 5, "seed": -1}.items():
        first = {**saved["batches"][0], name: value}
        (tmp_path / "plan.json").write_text(json.dumps({"format": 1, "batches": [first]}))
        with pytest.raises(InputError, match="cannot be read as the plan of a sweep"):
            Sweep(study(), tmp_path)
    with pytest.raises(InputError, match="is a run, not a sweep"):
        Sweep(study(), tmp_path / "batches/001")


# -- the figure ---------------------------------------------------------------------------------------


def drawn(grid, **more):
    found = study(grid=grid, fixed={}, **more)
    rows = []
    for i, point in enumerate(found.points()):
        rows.append(Row(point, 2, {"hamming_test": [0.1 * i, 0.1 * i + 0.2]}, {"hamming_test": [0, 0]}))
    return Table(found, tuple(rows))


def test_what_stands_where_in_the_figure():
    assert axes_of(drawn(GRID).study) == ("patterns", ["rate"], [])
    assert axes_of(drawn(GRID, x="rate").study) == ("rate", ["patterns"], [])
    assert axes_of(drawn({"patterns": [1, 2, "dense"], "rate": [0.1, 0.2]}).study)[0] == "rate"
    wide = {"rate": [0.1, 0.2, 0.3], "hidden": [4, 5, 6], "patterns": [1, 2, 3], "batch_size": [1, 2]}
    assert axes_of(drawn(wide).study) == ("rate", ["hidden"], ["patterns", "batch_size"])
    assert axes_of(drawn({"patterns": [2]}).study) == ("patterns", [], [])


def test_the_figure_shows_means_and_errors():
    table = drawn(GRID)
    (axes,) = table.figure().axes
    lines = {box.get_label(): box for box in axes.containers}
    assert set(lines) == {"0.01", "0.1"}
    for i, name in enumerate(("0.01", "0.1")):
        line, _, (bars,) = lines[name].lines
        means = [table.rows[j].mean("hamming_test") for j in (i, i + 2)]
        assert line.get_ydata() == pytest.approx([mean for mean, _ in means])
        ends = [(segment[0][1], segment[1][1]) for segment in bars.get_segments()]
        assert ends == [pytest.approx((mean - error, mean + error)) for mean, error in means]
    panels = drawn({**GRID, "negative": ["pid", "cd"], "hidden": [4, 5]}).figure().axes
    assert len(panels) == 2
    assert panels[0].get_ylim() == panels[1].get_ylim()
    words = drawn({"negative": ["pid", "cd"]}).figure().axes[0].get_xticklabels()
    assert [word.get_text() for word in words] == ["pid", "cd"]


# -- the command --------------------------------------------------------------------------------------


@pytest.fixture
def rapidbm(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = 'dataset="bars4"\nseeds=2\n[fixed]\nhidden=9\nepochs=3\ndevice="cpu"\n[grid]\npatterns=[2,3]\n'
    (tmp_path / "small.toml").write_text(text)

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["rapidbm", "sweep", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return (left.value.code or 0, *capfd.readouterr())

    return command


def test_a_dry_run_lists_and_writes_nothing(rapidbm, tmp_path):
    code, out, _ = rapidbm("small.toml", "--dry-run")
    assert code == 0
    assert "2 rows, 2 seeds each, in 2 batches, 0 finished; 4 trainings to go" in out
    assert not (tmp_path / "runs").exists()
    code, out, _ = rapidbm("small.toml", "--dry-run", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["points"] for one in told] == [[{"patterns": 2}], [{"patterns": 3}]]


def test_a_signal_in_the_middle_and_the_same_command_again(rapidbm, tmp_path, monkeypatch):
    write, lines = runs.append_line, []

    def interrupted(path, text):
        write(path, text)
        lines.append(text)
        if len(lines) == 6:  # in the second batch
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(runs, "append_line", interrupted)
    code, out, _ = rapidbm("small.toml", "--out", "S")
    assert code == 130
    assert "Go on with: rapidbm sweep small.toml --out S" in out
    assert Run(tmp_path / "S/batches/002").status == "interrupted"
    code, out, _ = rapidbm("small.toml", "--out", "S", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert told[-1] == {"event": "finished", "out": "S"}
    assert [one["finished"] for one in told if one["event"] == "batch"] == [True, False]
    assert [one["trained"] for one in told if one["event"] == "row"] == [2, 2]
    assert {one["batch"] for one in told if one["event"] == "evaluation"} == {"002"}
    code, out, _ = rapidbm("small.toml", "--out", "S")
    assert "0 trainings to go" in out


def test_each_batch_has_its_own_board(rapidbm, tmp_path):
    code, _, _ = rapidbm("small.toml", "--out", "S", "--tensorboard")
    assert code == 0
    for batch in ("001", "002"):
        found = EventAccumulator(str(tmp_path / "S/batches" / batch / "tensorboard")).Reload()
        assert [event.step for event in found.Scalars("hamming/test")] == [0, 4, 8, 12]


def test_data_may_be_varied(tmp_path):
    found = plan(study(dataset=None, grid={"dataset": ["bars4", "digits"]}), tmp_path)
    assert [batch.preset for batch in found.batches] == ["paper-bars", "small"]
    assert [batch.recipe.dataset for batch in found.batches] == ["bars4", "digits"]
    assert {batch.recipe.metrics for batch in found.batches} == {("hamming",)}


def test_bad_input_is_refused_before_anything_is_trained(rapidbm, tmp_path, monkeypatch):
    code, _, err = rapidbm("none.toml")
    assert (code, "there is no study" in err) == (2, True)
    text = (tmp_path / "small.toml").read_text().replace("[2,3]", '[2,"dense"]')
    (tmp_path / "small.toml").write_text(text)
    monkeypatch.setattr(sweeps, "train", None)
    code, _, err = rapidbm("small.toml")
    assert code == 2
    assert "in patterns dense: pattern-induced correlations need" in err
    assert not (tmp_path / "runs/small/plan.json").exists()


def test_the_study_of_the_page_about_sweeps(tmp_path):
    text = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    found = plan(read(tmp_path, text), tmp_path)
    assert [batch.recipe.replicas for batch in found.batches] == [15, 15, 15]
