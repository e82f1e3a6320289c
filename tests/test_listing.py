"""The runs below a folder: what is said of each, of damaged and of strangers' ones too."""

import json
import shutil
import sys
from functools import partial

import pytest
import torch

from rapidbm.cli.main import main
from rapidbm.disk import is_locked, locked
from rapidbm.display import as_html, as_text
from rapidbm.errors import InputError
from rapidbm.estimates import Estimate
from rapidbm.runs.listing import KEYS, Runs, in_bytes, in_words, with_spread
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

EVIL = "\x1b[31mdi<b>gits"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=2)))
        chosen = {"hidden": (9,), "patterns": 2, "epochs": 3, "replicas": 2, "device": "cpu"}
        for _ in Run.create(folder, Recipe.made("bars4", chosen)).go():
            pass
    return folder


@pytest.fixture
def below(tmp_path, trained):
    """Runs of every kind."""
    for name in ("done", "deep/er/killed", "busy", "strange", "broken", "headless", "led", "likely"):
        shutil.copytree(trained, tmp_path / name)
    change(tmp_path / "deep/er/killed", status="running")
    change(tmp_path / "busy", status="running")
    info = change(tmp_path / "strange", status="interrupted", update=4)
    change(tmp_path / "strange", data=info["data"] | {"name": EVIL})
    (tmp_path / "broken/run.json").write_text('{"format": ')
    (tmp_path / "headless/run.json").unlink()
    (tmp_path / "led/run.json").unlink()
    (tmp_path / "led/run.json").symlink_to(trained / "run.json")
    errors = {"log_likelihood_error_test": [0.1, 0.2], "hamming_test": [0.1, 0.2]}
    looks = [
        {"epoch": i, "update": 4 * i, "log_likelihood_test": [x, x + 2], **errors}
        for i, x in enumerate((-9.0, -5.0, -7.0))
    ]
    (tmp_path / "likely/metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in looks))
    (tmp_path / "no run here").mkdir()
    return tmp_path


def change(folder, **values):
    info = json.loads((folder / "run.json").read_text()) | values
    (folder / "run.json").write_text(json.dumps(info))
    return info


def test_every_kind_is_listed(below):
    with locked(below / "busy", "training"):
        runs = {run.name: run for run in Runs(below, "name")}
    status = {name: run.status for name, run in runs.items()}
    assert status == {
        "broken": "unreadable", "busy": "running", "deep/er/killed": "killed", "done": "finished",
        "headless": "unreadable", "led": "unreadable", "likely": "finished", "strange": "interrupted",
    }  # fmt: skip
    assert "cannot be read as the description of a run" in runs["broken"].reason
    assert "no run.json" in runs["headless"].reason
    assert "leads out of" in runs["led"].reason
    done = runs["done"]
    assert (done.data, done.machine, done.epoch, done.epochs) == ("bars4", "rbm 16×9 K=2", 3, 3)
    records = Run(below / "done").metrics()
    assert done.last.value.tolist() == records[-1]["hamming_test"]
    assert done.measure == "hamming_test"
    means = [sum(r["hamming_test"]) / 2 for r in records]
    assert float(done.best.value.mean()) == pytest.approx(min(means))
    assert done.size >= sum(p.stat().st_size for p in (below / "done/checkpoints").iterdir())
    likely = runs["likely"]
    assert likely.best.value.tolist() == [-5.0, -3.0]
    assert likely.last.value.tolist() == [-7.0, -5.0]
    assert likely.last.error.tolist() == [0.1, 0.2]


def test_a_process_that_works_is_noticed_and_one_that_asks_hinders_nobody(tmp_path):
    assert is_locked(tmp_path) is False  # there is no lock
    with locked(tmp_path, "training"):
        assert is_locked(tmp_path) is True
    assert is_locked(tmp_path) is False


def test_what_a_stranger_wrote_is_printed_safely(below):
    runs = Runs(below)
    text, page = repr(runs), runs._repr_html_()
    assert "\x1b" not in text
    assert "\x1b" not in page
    assert "<b>" not in page
    assert "[31mdi<b>gits" in text
    assert all("\x1b" not in repr(run) for run in runs)
    assert "broken: unreadable" in text


@pytest.mark.parametrize("sort", KEYS)
def test_orders(below, sort):
    runs = Runs(below, sort)
    assert len(runs) == 8
    assert runs[:2][0] is runs[0]
    if sort == "size":
        assert [run.size for run in runs] == sorted((run.size for run in runs), reverse=True)
    if sort == "best":
        found = [run.name for run in runs]
        assert found[-3:] == ["broken", "headless", "led"]
        assert found.index("done") < found.index("likely")  # by their measures, then the best of each


def rapidbm(monkeypatch, capfd, *words):
    monkeypatch.setattr(sys, "argv", ["rapidbm", "runs", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main()
    return (left.value.code or 0, *capfd.readouterr())


def test_the_command(below, monkeypatch, capfd):
    code, out, _ = rapidbm(monkeypatch, capfd, below, "--sort", "name")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["name", "status", "data"]
    assert lines[-1].startswith("killed: ")
    assert any("log p test -6.0 ± 1.4" in line and "-4.0 ± 1.4" in line for line in lines)
    code, out, _ = rapidbm(monkeypatch, capfd, below, "--json")
    told = {one["name"]: one for one in map(json.loads, out.splitlines())}
    assert told["likely"]["best_error"] == [0.1, 0.2]
    assert told["done"]["last_error"] == [None, None]
    assert told["broken"]["reason"]


@pytest.mark.parametrize(("words", "told"), [(["nowhere"], "no folder"), ([".", "--sort", "x"], "order")])
def test_what_it_refuses(tmp_path, monkeypatch, capfd, words, told):
    monkeypatch.chdir(tmp_path)
    code, _, err = rapidbm(monkeypatch, capfd, *words)
    assert code == 2
    assert told in err


def test_none(tmp_path):
    assert repr(Runs(tmp_path)) == f"no runs below {tmp_path}"
    with pytest.raises(InputError, match="there is no folder"):
        Runs(tmp_path / "x")


def test_numbers_in_words():
    assert with_spread(-98.3456, 0.0512) == "-98.346 ± 0.051"
    assert with_spread(1.0, float("nan")) == "1"
    assert with_spread(-12345.6, 120.0) == "-12346 ± 120"
    one = Estimate(torch.tensor([2.0]), torch.tensor([0.25]))
    assert in_words(one) == "2.00 ± 0.25"
    assert in_words(Estimate(torch.tensor([1.0, 3.0, torch.nan]), torch.ones(3))) == "2.0 ± 1.4"
    assert in_words(Estimate(torch.tensor([torch.nan]), torch.ones(1))) == "not finite"
    assert [in_bytes(x) for x in (7, 1500, 25_000_000, 3 * 10**12)] == [
        "7 B",
        "1.5 kB",
        "25 MB",
        "3000 GB",
    ]


def test_tables():
    text = as_text(["a", "n"], [["深x", "1"], ["y" * 99, "10"]], ["n"])
    lines = text.splitlines()
    assert lines[1].startswith("深x" + " " * 57)
    assert lines[1].endswith("   1")
    assert lines[2].endswith("…  10")
    assert as_html(["<a>"], [["&"]]).count("&lt;a&gt;") == 1
