"""How a training ends, and is gone on with: what is saved by then, what is said, and what is noticed."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

import rapidbm as rb
from rapidbm import pictures
from rapidbm.cli.main import main
from rapidbm.disk import DiskError
from rapidbm.errors import InputError
from rapidbm.estimates import Estimate
from rapidbm.likelihood import annealed
from rapidbm.progress import Watch, watch
from rapidbm.runs import monitor
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

TINY = {"hidden": (5,), "patterns": 2, "epochs": 6, "device": "cpu", "metrics": ("hamming",)}


def made(folder, **chosen):
    return Run.create(folder, Recipe.made("bars4", {**TINY, **chosen}))


def test_what_is_not_known_has_no_error(monkeypatch):
    """A replica whose mean is not finite has null for both."""
    found = Estimate(torch.tensor([1.0, math.nan, -math.inf]), torch.tensor([0.5, 0.2, 0.3]))
    monkeypatch.setattr(monitor, "mean_log_p", lambda *_, **__: found)
    watched = object.__new__(monitor.LikelihoodMonitor)
    watched.names, watched.per_update = ("log_likelihood",), 1
    watched.follower = SimpleNamespace(asked=0, look=lambda *_, **__: None)
    data = SimpleNamespace(parts={"test": SimpleNamespace(in_memory=lambda: None)})
    record = watched.look(SimpleNamespace(update=0), None, data, last=False)
    assert record["log_likelihood_test"] == [1.0, None, None]
    assert record["log_likelihood_error_test"] == [0.5, None, None]


@pytest.mark.parametrize("error", [DiskError("No space left on device"), OSError(28, "No space left")])
def test_a_training_whose_curves_cannot_be_drawn_is_finished(tmp_path, monkeypatch, capfd, error):
    def full(*_):
        raise error

    monkeypatch.setattr(pictures, "save", full)
    words = [
        "rapidbm",
        "train",
        "bars4",
        "--out",
        str(tmp_path / "R"),
        "--hidden",
        "5",
        "--patterns",
        "2",
    ]
    monkeypatch.setattr("sys.argv", [*words, "--epochs", "2", "--device", "cpu", "--metric", "hamming"])
    try:
        main()
    except SystemExit as left:
        assert not left.code  # noqa: PT017
    told = capfd.readouterr()
    assert "finished" in told.out + told.err
    assert "the curves were not drawn: " in told.out + told.err
    assert Run(tmp_path / "R").status == "finished"


def test_a_seed_that_was_changed_is_noticed(tmp_path):
    run = made(tmp_path / "R", seed=3)
    next(iter(run.go(lambda: True)))
    steps = Run(run.folder).go(lambda: True)
    next(steps), next(steps)
    steps.close()
    path = run.folder / "run.json"
    whole = path.read_text()
    said = json.loads(whole)
    assert said["recipe"]["seed"] == 3
    said["recipe"]["seed"] = 4
    path.write_text(json.dumps(said))
    with pytest.raises(
        InputError, match="says the seed 4, and the training has the seed 3; put that back"
    ):
        next(Run(run.folder).go())
    path.write_text(whole)
    for _ in Run(run.folder).go():
        pass
    assert Run(run.folder).status == "finished"


def test_a_checkpoint_that_is_due_is_kept_wherever_the_training_ends(tmp_path):
    whole = made(tmp_path / "whole")
    for _ in whole.go():
        pass
    updates = list(whole.checkpoints())
    assert len(updates) > 3
    run = made(tmp_path / "broken")
    for _ in range(10):
        for step in Run(run.folder).go():
            if step.update in updates and step.update > Run(run.folder).info.get("update", -1):
                break  # the caller leaves at this very update
        else:
            break
        assert step.update in run.checkpoints()
    assert Run(run.folder).status == "finished"
    assert list(run.checkpoints()) == updates
    for update in updates:
        one, other = whole.machine(update), run.machine(update)
        assert all(map(torch.equal, one.parameters(), other.parameters()))


@pytest.mark.parametrize("shards", [None, 3])
def test_the_progress_of_annealing_ends_at_its_total(monkeypatch, shards):
    machine = rb.rbm(12, 8, biases=True, scale=0.5, seed=0)
    data = torch.ones(4, 12)
    seen, ends, asked = [], [], []

    class Counted(Watch):
        def look(self):
            if self.what == "annealing log Z" and self.total:
                seen.append((self.done, self.total))
            super().look()

    again = annealed._wanting

    def thrice(names, *rest):  # as where the intervals stay wide
        asked.append(names)
        ends.append(seen[-1])
        again(names, *rest)
        return {names[0]} if len(asked) < 3 else set()

    monkeypatch.setattr("rapidbm.progress.Watch", Counted)
    monkeypatch.setattr(annealed, "_wanting", thrice)
    with watch("test"):
        rb.log_z(machine, method="ais", data=data, chains=30, seed=0, shards=shards)
    assert len(asked) == 3
    assert all(done <= total for done, total in seen)
    assert ends[0][0] > 0.5 * ends[0][1]
    assert ends[2][0] > 0.5 * ends[2][1]
