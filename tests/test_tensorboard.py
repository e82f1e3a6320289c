"""What TensorBoard shows of a run: that looking changes nothing, and that no point is there twice."""

import shutil
import sys
from functools import partial

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rapidbm.cli.main import main
from rapidbm.errors import InputError
from rapidbm.machines.constructors import rbm
from rapidbm.machines.files import load_tensors
from rapidbm.runs import tensorboard
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.tensorboard import TensorBoard

TINY = {"hidden": (12,), "patterns": 3, "epochs": 6, "replicas": 2, "device": "cpu", "biases": True}
TINY |= {"negative": "pcd", "particles": 9, "evaluate": "epoch"}


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    monkeypatch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=2)))


def watched(run, stop=lambda: False):
    with TensorBoard(run) as board:
        for step in run.go(stop):
            board(step)


def events(folder):
    found = EventAccumulator(str(folder / "tensorboard"), {"scalars": 0, "images": 0, "histograms": 0})
    return found.Reload()


def points(folder, tag):
    return [(event.step, event.value) for event in events(folder).Scalars(tag)]


def begun(folder, **chosen):
    return Run.create(folder, Recipe.made("bars4", {**TINY, **chosen}))


@pytest.mark.parametrize("chosen", [{}, {"negative": "cd", "particles": None, "average": 5}])
def test_watching_changes_no_bit_and_shows_what_was_measured(tmp_path, chosen):
    run, plain = begun(tmp_path / "R", **chosen), begun(tmp_path / "P", **chosen)
    watched(run)
    for _ in plain.go():
        pass
    one, two = load_tensors(run.latest)[0], load_tensors(plain.latest)[0]
    assert set(one) == set(two)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    records = run.metrics()
    assert [r["hamming_test"] for r in records] == [r["hamming_test"] for r in plain.metrics()]
    for replica in (0, 1):
        wanted = [(r["update"], r["hamming_test"][replica]) for r in records]
        assert np.allclose(points(run.folder, f"hamming/test/replica-{replica}"), wanted, atol=1e-6)
    mean = [(r["update"], sum(r["hamming_train"]) / 2) for r in records]
    assert np.allclose(points(run.folder, "hamming/train"), mean, atol=1e-6)
    shown = events(run.folder)
    assert {"rate", "norm/biases", "norm/couplings.patterns/replica-1"} <= set(shown.Tags()["scalars"])
    assert set(shown.Tags()["histograms"]) == {"biases", "couplings.patterns"}
    assert set(shown.Tags()["images"]) == {"samples", "patterns", "reconstructions"}
    assert len(shown.Images("samples")) == len(records)
    machine = run.machine("last")
    last = shown.Scalars("norm/couplings.patterns/replica-1")[-1].value
    assert last == pytest.approx(float(machine.patterns[1].detach().norm()), rel=1e-5)


def test_a_run_that_lost_some_work_shows_no_point_twice(tmp_path):
    run = begun(tmp_path / "R")
    watched(run, stop=lambda: run.metrics()[-1]["epoch"] == 2)
    shutil.copytree(tmp_path / "R", tmp_path / "before")
    run = Run(tmp_path / "R")
    watched(run, stop=lambda: run.metrics()[-1]["epoch"] == 4)
    shutil.copytree(tmp_path / "R/tensorboard", tmp_path / "before/tensorboard", dirs_exist_ok=True)
    run = Run(tmp_path / "before")  # as after a kill: points up to epoch 4, a checkpoint of epoch 2
    assert [step for step, _ in points(run.folder, "hamming/test")] == [0, 4, 8, 12, 16]
    watched(run)
    assert [step for step, _ in points(run.folder, "hamming/test")] == [0, 4, 8, 12, 16, 20, 24]
    assert [event.step for event in events(run.folder).Images("samples")] == [0, 4, 8, 12, 16, 20, 24]


def test_evaluations_before_it_was_asked_for_are_told(tmp_path):
    run = begun(tmp_path / "R")
    for _ in run.go(lambda: run.metrics()[-1]["epoch"] == 2):
        pass
    watched(Run(tmp_path / "R"))
    assert [step for step, _ in points(run.folder, "hamming/test")] == [0, 4, 8, 12, 16, 20, 24]
    assert [event.step for event in events(run.folder).Images("samples")] == [12, 16, 20, 24]


def test_the_command(tmp_path, monkeypatch, capfd):
    out = tmp_path / "R"
    small = ["--hidden", "9", "--patterns", "2", "--epochs", "2", "--device", "cpu", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["rapidbm", "train", "bars4", *small, "--tensorboard"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert f"tensorboard --logdir {out}" in capfd.readouterr().out
    assert [step for step, _ in points(out, "hamming/test")] == [0, 4, 8]


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    run = begun(tmp_path / "R")
    with pytest.raises(InputError, match=r"pip install 'rapidbm\[tensorboard\]'"):
        TensorBoard(run)
    words = ["train", "bars4", "--out", str(tmp_path / "Q"), "--tensorboard"]
    monkeypatch.setattr(sys, "argv", ["rapidbm", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert not (tmp_path / "Q").exists()


@pytest.mark.parametrize("shape", [(1, 30_000), (2000, 2000), (28, 28), (1, 7), (3, 4000)])
def test_pictures_of_large_machines_are_small(shape):
    images = torch.ones(3, shape[0] * shape[1])
    picture = tensorboard._picture(images, shape)
    assert picture.dtype == np.uint8
    assert picture.shape[0] * picture.shape[1] <= 5 * tensorboard.PIXELS
    assert (picture == np.array(tensorboard.DARK)).all(2).any()


def test_histograms_of_large_machines_take_some_of_the_values():
    class Writer:
        def add_histogram(self, name, values, update, bins):
            self.values = values

    writer = Writer()
    tensorboard._histograms(writer, 0, rbm(200, 700, replicas=2, seed=0))
    assert tensorboard.VALUES / 2 <= len(writer.values) <= tensorboard.VALUES
    assert float(writer.values.std()) == pytest.approx(0.01, rel=0.05)


def test_many_replicas_are_not_told_one_by_one(monkeypatch):
    told = {}
    monkeypatch.setattr(tensorboard, "REPLICAS", 2)

    class Writer:
        def add_scalar(self, tag, value, update):
            told[tag] = value

    tensorboard._each(Writer(), "x", [1.0, None, 6.0, float("nan")], 3)
    assert told == {"x": 3.5, "x/replica-0": 1.0}
