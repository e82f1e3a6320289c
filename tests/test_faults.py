"""Faults: whatever happens to the disk, the process or the numbers, it is noticed, told, and gone on from
the last good state."""

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import sys
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import rapidbm as rb
from forked import Forked
from rapidbm import disk
from rapidbm.cli.main import main
from rapidbm.errors import DiskError, FitWarning, InputError, LossWarning
from rapidbm.machines.files import load_tensors
from rapidbm.runs.listing import Runs
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.report.words import remarks
from rapidbm.runs.run import Run
from rapidbm.training.trainer import Trainer

TINY = {"hidden": (6,), "patterns": 3, "epochs": 6, "replicas": 2, "device": "cpu", "valid": 0.2}
TINY |= {"metrics": ("log_likelihood",), "checkpoints": "2", "negative": "pcd", "particles": 4}


def new(folder, **chosen):
    return Run.create(folder, Recipe.made("bars4", TINY | chosen))


def trained(run):
    for _ in run.go():
        pass
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run."""
    return trained(new(tmp_path_factory.mktemp("whole") / "R"))


@pytest.fixture
def run(whole, tmp_path):
    """A copy of it, which can be prolonged."""
    return Run(shutil.copytree(whole.folder, tmp_path / "R"))


def same(a, b):
    """Whether two finished runs came to the same."""
    ours, theirs = load_tensors(a.latest)[0], load_tensors(b.latest)[0]
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name
    kept = ("epoch", "update", "log_likelihood_valid")
    seen = [[[r[k] for k in kept] for r in x.metrics()] for x in (a, b)]
    assert seen[0] == seen[1]
    assert a.checkpoints().keys() == b.checkpoints().keys()


# -- a state that is damaged or gone ------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty, os.unlink])
def test_a_damaged_state_goes_back_to_the_one_before(damage, whole, tmp_path):
    run = new(tmp_path / "R")
    updates = iter(range(1, 99))
    for _ in run.go(stop=lambda: next(updates) == 9):
        pass
    assert run.previous.is_file()
    damage(run.latest)
    again = Run(tmp_path / "R")
    with pytest.warns(
        LossWarning, match="the training goes on from the state before the latest, of update 8"
    ):
        trained(again)
    assert again.info["restored"]["update"] == 8
    assert "latest.safetensors" in again.info["restored"]["because"]
    assert any("state of update 8" in line for line in remarks(again))
    same(whole, again)


def test_a_damaged_state_does_not_push_out_the_good_one(run, monkeypatch):
    flip(run.latest)
    good = run.previous.read_bytes()
    with pytest.warns(LossWarning):
        next(Run(run.folder).go(epochs=9))
    assert run.previous.read_bytes() == good
    load_tensors(run.latest)


def test_no_state_is_left(run):
    flip(run.latest)
    flip(run.previous)
    before = sorted(path.name for path in run.folder.rglob("*"))
    with pytest.raises(InputError, match=r"no state to go on from is left: .*latest.*previous.*--update"):
        trained(Run(run.folder))
    assert sorted(path.name for path in run.folder.rglob("*")) == before
    assert run.machine(2).replicas == 2  # what is told to be kept


def test_a_damaged_best_machine_is_put_aside(run):
    flip(run.best)
    again = Run(run.folder)
    with pytest.warns(LossWarning, match=r"best machine so far is lost: .*put aside as best\.damaged"):
        for _ in again.go(epochs=9):
            pass
    assert again.status == "finished"
    assert (run.folder / "checkpoints" / "best.damaged").is_file()


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
def test_parameters_that_are_not_finite_are_refused(run, value):
    tensors, header = load_tensors(run.latest)
    tensors["parameter/couplings.patterns"][1, 0, 0] = value
    for path in (run.latest, run.previous):
        save_file(tensors, path, metadata={"rapidbm": json.dumps(header)})
    with pytest.raises(InputError, match="not finite"):
        run.machine("last")
    if value != 1e30:
        with pytest.raises(
            InputError, match=r"couplings.patterns is not finite; take another checkpoint"
        ):
            next(Run(run.folder).go(epochs=9))


def test_states_of_before_updates_were_counted_are_gone_on_from(run):
    tensors, header = load_tensors(run.latest)
    tensors.pop("training/lived")
    save_file(tensors, run.latest, metadata={"rapidbm": json.dumps(header)})
    again = Run(run.folder)
    for step in again.go(epochs=9):
        pass
    assert step.progress.trainer.status.lived.tolist() == [step.update] * 2


# -- a disk that is full, or may not be written to ----------------------------------------------------


class Full:
    """A disk on which nothing more can be written after so many calls."""

    def __init__(self, monkeypatch, left, code=errno.ENOSPC):
        self.left, self.code, self.calls = left, code, 0
        for name in ("fsync", "replace", "link", "open"):
            monkeypatch.setattr(disk.os, name, self.failing(name, getattr(os, name)))

    def failing(self, name, plain):
        def call(*args, **options):
            writes = name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR)
            if writes and not str(args[0]).endswith(".lock"):
                self.calls += 1
                if self.calls > self.left:
                    raise OSError(self.code, os.strerror(self.code))
            return plain(*args, **options)

        return call


EVERY = [13, pytest.param(1, marks=pytest.mark.slow)]  # of the writes of a training


@pytest.mark.parametrize("every", EVERY)
def test_a_disk_that_is_full_at_any_moment(whole, tmp_path, monkeypatch, every):
    """One write is the first that fails: the training says so, and goes on to the same bits."""
    with monkeypatch.context() as patch:
        counted = Full(patch, left=10**9)
        trained(new(tmp_path / "count"))
    assert counted.calls > 60
    told = set()
    for left in range(0, counted.calls, every):
        folder = tmp_path / f"R{left}"
        with monkeypatch.context() as patch:
            Full(patch, left)
            with pytest.raises(DiskError, match="No space left on device; make room") as caught:
                trained(new(folder))
        told.add(caught.value.stopped)
        assert not list(folder.rglob(".*.part"))
        if (folder / "run.json").is_file():
            assert not caught.value.stopped or "rapidbm train --resume --out" in str(caught.value)
            for path in folder.rglob("*.safetensors"):
                load_tensors(path)  # whole, whatever there is
            again = trained(Run(folder))
        else:
            again = trained(new(folder))
        same(whole, again)
        shutil.rmtree(folder)
    assert told == {True, False}


def test_a_line_that_was_cut_short_by_a_full_disk(whole, tmp_path):
    run = new(tmp_path / "R")
    updates = iter(range(1, 99))
    for _ in run.go(stop=lambda: next(updates) == 9):
        pass
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"epoch": 4, "upda')
    same(whole, trained(Run(tmp_path / "R")))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_folder_that_may_not_be_written_to(run, monkeypatch, code):
    def refused(path, *args, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk.os, "open", refused)
    with pytest.raises(
        DiskError, match=r"R cannot be written to: .*copy the folder to where you may write"
    ):
        next(Run(run.folder).go(epochs=9))


def test_a_disk_without_second_names(run, monkeypatch):
    def refused(*args, **options):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(disk.os, "link", refused)
    latest = run.latest.read_bytes()
    for _ in Run(run.folder).go(epochs=7):
        pass
    assert run.previous.is_file()
    assert run.latest.read_bytes() != latest
    same_update = [load_tensors(path)[1]["update"] for path in (run.previous, run.latest)]
    assert same_update == sorted(same_update)


def test_the_command_says_how_to_go_on(tmp_path):
    """With files that may not become larger than so many bytes, as on a full disk."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        words = "train bars4 --hidden 200 --patterns 8 --epochs 3 --out R"
        sys.argv = ["rapidbm", *words.split()]
        main()

    command = Forked(limited, tmp_path)
    assert command.wait() == 1
    assert (
        "cannot be written: File too large; make room on the disk: the training was at update 0"
        in command.errors
    )
    assert "go on with rapidbm train --resume --out R" in command.errors
    assert Run(tmp_path / "R").status == "interrupted"
    for _ in Run(tmp_path / "R").go():
        pass


# -- killed at any moment -----------------------------------------------------------------------------


class Killed(BaseException):
    """Nothing after this is run: no handler may write."""


def killing(monkeypatch, at):
    """The process is gone at call number `at` of those that change the disk, before it or after it."""
    calls = [0]

    def dying(plain, writes=lambda args: True):
        def call(*args, **options):
            if calls[0] > at:
                raise Killed  # a process that is gone does nothing more
            if writes(args):
                calls[0] += 1
                if calls[0] > at:
                    if at % 2:
                        plain(*args, **options)
                    raise Killed
            return plain(*args, **options)

        return call

    for name in ("fsync", "replace", "link"):
        monkeypatch.setattr(disk.os, name, dying(getattr(os, name)))
    opens = dying(os.open, lambda args: bool(args[1] & (os.O_WRONLY | os.O_RDWR)))
    monkeypatch.setattr(disk.os, "open", opens)
    monkeypatch.setattr(disk.Path, "unlink", dying(disk.Path.unlink))
    return calls


@pytest.mark.parametrize("every", EVERY)
def test_a_kill_at_any_moment_of_writing(whole, tmp_path, monkeypatch, every):
    with monkeypatch.context() as patch:
        calls = killing(patch, 10**9)
        trained(new(tmp_path / "count"))
    for at in range(1, calls[0], every):
        folder = tmp_path / f"R{at}"
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            killing(patch, at)
            trained(new(folder))
        again = Run(folder) if (folder / "run.json").is_file() else new(folder)
        same(whole, trained(again))
        assert not list(folder.rglob(".*.part"))
        shutil.rmtree(folder)


# -- a training that diverges -------------------------------------------------------------------------

WILD = {"negative": "pid", "projection": "none", "metrics": ("hamming",), "checkpoints": "log"}
WILD |= {"rate": (1e6, 0.02), "valid": None, "particles": None}


@pytest.fixture(scope="module")
def diverged(tmp_path_factory):
    return trained(new(tmp_path_factory.mktemp("diverged") / "R", **WILD))


def test_a_divergence_says_when_which_and_why(diverged):
    run = diverged
    (told,) = run.info["divergences"]
    assert (told["replica"], run.info["diverged"]) == (0, [0])
    assert told["epoch"] == (told["update"] - 1) // 4 + 1
    assert "the step at rate 1e+06 leads from Σ|θ| = " in told["why"]
    assert "beyond 1.8e+19 energies overflow" in told["why"]
    # It is as it was before that update, and that is what it says.
    size = float(run.machine("last").patterns[0].detach().abs().sum())
    assert f"{size:.2g}" in told["why"]
    recipe = Recipe.made("bars4", TINY | WILD)
    trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
    for _ in range(told["update"] - 1):
        trainer.step()
    assert not trainer.diverged()
    assert torch.equal(trainer.machine.patterns[0], run.machine("last").patterns[0])
    trainer.step()
    assert trainer.diverged() == (0,)
    assert str(trainer.divergences()[0]).startswith(
        f"replica 0 diverged in update {told['update']}, epoch"
    )
    # Wherever one looks.
    assert any(told["why"] in line for line in remarks(run))
    (listed,) = Runs(run.folder.parent)
    assert told["why"] in repr(Runs(run.folder.parent))
    assert "finished, 1 diverged" in repr(Runs(run.folder.parent))
    assert listed.as_dict()["diverged"]


def test_a_divergence_is_told_once_and_kept_when_resumed(diverged, tmp_path):
    before = diverged.info["divergences"]
    shutil.copytree(diverged.folder, tmp_path / "R")
    for _ in Run(tmp_path / "R").go(epochs=9):
        pass
    assert Run(tmp_path / "R").info["divergences"] == before


@pytest.mark.parametrize("optimiser", [rb.sgd(1e6), rb.sgd(1e5, momentum=0.9)])
@pytest.mark.parametrize("patterns", [3, None])
def test_updates_that_replicas_lived(optimiser, patterns):
    machine = rb.rbm(16, 6, patterns, seed=0, replicas=2)
    negative = rb.ContrastiveDivergence()
    data = rb.load("bars4").train
    trainer = Trainer(machine, data, negative, optimiser, epochs=60, batch_size=5, seed=0)
    alive = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for _ in trainer.run("update"):
            alive.append(trainer.status.alive.clone())
    assert torch.equal(trainer.status.lived, torch.stack(alive).sum(0))
    for each in trainer.divergences():
        assert not alive[each.update - 1][each.replica]
        assert each.update == 1 or alive[each.update - 2][each.replica]


def test_a_step_that_is_not_a_number_says_so():
    machine = rb.rbm(4, 3, 2, seed=0)
    trainer = Trainer(
        machine, torch.ones(4, 4), rb.PatternInduced(), rb.sgd(0.1), epochs=1, batch_size=4, seed=0
    )
    trainer.update_parameters = trainer.stepper.updater.step

    def step(gradients, rates):
        trainer.update_parameters({name: value * torch.nan for name, value in gradients.items()}, rates)

    trainer.stepper.updater.step = step
    before = machine.patterns.detach().clone()
    trainer.step()
    (told,) = trainer.divergences()
    assert told.why == "the step at rate 0.1 is not a number: with Σ|θ| = 14 the fields overflow"
    assert torch.equal(machine.patterns, before)


# -- data ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0])
@pytest.mark.parametrize("stream", [False, True])
def test_data_that_are_no_spins(tmp_path, value, stream):
    bits = (np.random.default_rng(0).random((50, 16)) < 0.5).astype(float)
    bits[40, 3] = value
    np.save(tmp_path / "a.npy", bits)
    recipe = Recipe.made(str(tmp_path / "a.npy"), TINY | {"stream": stream})
    with pytest.raises(InputError, match=r"finite|two levels"):
        Run.create(tmp_path / "R", recipe)
    assert not (tmp_path / "R").exists()
