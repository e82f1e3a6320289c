"""SIGINT and SIGTERM: each command ends with 130 or 143, says how to go on, and leaves nothing half done.

A command is a fork of this process, which has everything imported, and sends the signal to itself at a
named moment, so that nothing here depends on how fast it is.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from forked import Forked
from rapidbm import disk, interrupts, pictures
from rapidbm.__main__ import main
from rapidbm.cli.terminal.console import Stopper
from rapidbm.data import packed
from rapidbm.machines.files import load_tensors
from rapidbm.runs import run as runs
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.studies import on_ray
from rapidbm.studies import sweep as sweeps
from rapidbm.training.loop import Training

cli = import_module("rapidbm.cli.main")  # whose name in its package is that of the function
BOTH = [signal.SIGINT, signal.SIGTERM]
TRAIN = (
    "train bars4 --hidden 6 --patterns 2 --epochs 3 --negative cd --metric hamming --device cpu --out R"
)
STUDY = """
dataset = "bars4"
measure = "hamming_test"
[fixed]
hidden = 6
epochs = 3
device = "cpu"
negative = "cd"
metric = ["hamming"]
[grid]
patterns = [2, 3]
"""


def send(number):
    os.kill(os.getpid(), number)


def forked(folder, words, prepare, after=lambda: None):
    """The exit code of a command in that folder, and what it says; `prepare` is called before it, and
    `after` when it is done."""

    def call():
        warnings.simplefilter("ignore")
        pictures.curve_figure, pictures.save = print, lambda figure, path: path  # nobody looks
        sweeps.save = pictures.save
        sys.argv = ["rapidbm", *shlex.split(words)]
        prepare()
        try:
            main()
        finally:
            after()

    process = Forked(call, folder)
    code, wrong = process.wait(), process.errors
    assert "Traceback" not in wrong, wrong
    assert "ignored" not in wrong, wrong
    return code, process.said, wrong


def at(owner, name, number, *, call=1, times=1):
    """Prepares a signal in the middle of a call of a function, or as many."""

    def prepare():
        whole, calls = getattr(owner, name), [0]

        def cut(*words, **more):
            found = whole(*words, **more)
            calls[0] += 1
            if calls[0] == call:
                for _ in range(times):
                    send(number)
            return found

        setattr(owner, name, cut)

    return prepare


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    assert forked(folder, TRAIN, lambda: None)[0] == 0
    return folder / "R"


def same_end(ours, theirs):
    """Goes on with a run, or begins it, and compares."""
    fresh = Recipe.made("bars4", {"hidden": (6,), "patterns": 2, "epochs": 3, "negative": "cd",
                                  "metrics": ("hamming",), "device": "cpu"})  # fmt: skip
    run = Run(ours) if (ours / "run.json").is_file() else Run.create(ours, fresh)
    for _ in run.go():
        pass
    assert not list(ours.rglob(".*.part"))
    a, b = (load_tensors(folder / "checkpoints/latest.safetensors")[0] for folder in (ours, theirs))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    lines = [[{**x, "seconds": 0} for x in Run(folder).metrics()] for folder in (ours, theirs)]
    assert lines[0] == lines[1]


def same_table(ours, theirs):
    rows = [json.loads((folder / "table.json").read_text())["rows"] for folder in (ours, theirs)]
    for row in [*rows[0], *rows[1]]:
        row.pop("seconds")
    assert rows[0] == rows[1]


class Lost:
    """An exception in its destructor would be printed, and forgotten."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        send(self.number)


def swallowing(number):
    """A signal where another package catches everything."""
    try:
        send(number)
        for _ in range(1000):
            pass
    except BaseException:
        return


# -- before anything is written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (TRAIN, signal.SIGINT),
        ("evaluate R", signal.SIGTERM),
        ("reproduce fig1", signal.SIGINT),
        ("sweep s.toml", signal.SIGTERM),
        ("studio", signal.SIGINT),
    ],
)
def test_while_a_command_is_loaded(words, number, tmp_path):
    code, said, wrong = forked(tmp_path, words, at(cli, "import_module", number))
    assert (code, said, wrong) == (128 + number, "", f"{interrupts.AGAIN}\n")
    assert {path.name for path in tmp_path.iterdir()} == {"child.1", "child.2"}


@pytest.mark.parametrize("how", [Lost, swallowing])
def test_where_an_exception_would_be_lost(how, tmp_path):
    def prepare():
        data = Recipe.data
        Recipe.data = lambda *words: (how(signal.SIGTERM), data(*words))[1]

    code, _, wrong = forked(tmp_path, TRAIN, prepare)
    assert (code, wrong) == (143, f"{interrupts.AGAIN}\n")


def test_while_torch_is_imported(tmp_path):
    """A command of its own: here torch is there already."""
    cut = (
        "import os, runpy, signal, sys\n"
        "class Cut:\n"
        "    def find_spec(name, *more):\n"
        "        if name == 'torch.nn':\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Cut)\n"
        f"sys.argv[1:] = {shlex.split(TRAIN)}\n"
        "runpy.run_module('rapidbm', run_name='__main__')\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", cut], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (143, f"{interrupts.AGAIN}\n")
    assert not list(tmp_path.iterdir())


# -- in the middle ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "call", "number"),
    [
        (Training, "progress", 3, signal.SIGINT),
        (runs, "append_line", 2, signal.SIGTERM),
        (os, "fsync", 5, signal.SIGINT),
    ],
)
def test_one_signal_saves_and_ends(owner, name, call, number, tmp_path, whole):
    code, said, _ = forked(tmp_path, TRAIN, at(owner, name, number, call=call))
    assert code == 128 + number
    assert "everything is saved. Go on with: rapidbm train --resume --out R" in said
    run = Run(tmp_path / "R")
    assert run.status == "interrupted"
    assert load_tensors(run.latest)[1]["update"] == run.info["update"]
    same_end(tmp_path / "R", whole)


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (Training, "progress", 3),
        (runs, "append_line", 2),
        (os, "fsync", 3),
        (os, "replace", 3),
        (os, "link", 1),
    ],
)
def test_two_signals_end_at_once(owner, name, call, tmp_path, whole):
    code, _, wrong = forked(tmp_path, TRAIN, at(owner, name, signal.SIGTERM, call=call, times=2))
    assert code == 143
    assert wrong == ("stopped; what was finished is saved. Go on with: rapidbm train --resume --out R\n")
    same_end(tmp_path / "R", whole)


@pytest.mark.parametrize("call", [1, 2])
def test_while_the_folder_is_made(call, tmp_path, whole):
    """Before `run.json` is there, and after."""
    code, _, wrong = forked(tmp_path, TRAIN, at(os, "fsync" if call == 1 else "replace", signal.SIGINT))
    assert code == 130
    assert wrong.startswith(
        interrupts.AGAIN if call == 1 else "stopped; what was finished is saved. Go on"
    )
    assert {path.name for path in (tmp_path / "R").iterdir()} == {".lock", "run.json"} - (
        {"run.json"} if call == 1 else set()
    )
    same_end(tmp_path / "R", whole)


def test_while_curves_are_drawn(tmp_path, whole):
    code, _, wrong = forked(tmp_path, TRAIN, at(pictures, "curve_figure", signal.SIGTERM))
    assert code == 143
    assert "Go on with: rapidbm train --resume --out R" in wrong
    assert Run(tmp_path / "R").status == "finished"
    same_end(tmp_path / "R", whole)
    code, said, _ = forked(tmp_path, "train --resume --out R", lambda: None)
    assert (code, "curves in" in said) == (0, True)


def test_a_sweep_goes_on_with_the_same_command(tmp_path):
    (tmp_path / "s.toml").write_text(STUDY)
    code, _, wrong = forked(
        tmp_path, "sweep s.toml --out S", at(runs, "append_line", signal.SIGTERM, call=6, times=2)
    )
    assert code == 143
    assert "Go on with: rapidbm sweep s.toml --out S" in wrong
    assert forked(tmp_path, "sweep s.toml --out S", lambda: None)[0] == 0
    assert forked(tmp_path, "sweep s.toml --out T", lambda: None)[0] == 0
    same_table(tmp_path / "S", tmp_path / "T")


def test_nothing_is_left_of_a_file_that_was_being_packed(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((20, 16)) < 0.5)
    code, _, wrong = forked(tmp_path, "pack x.npy x.spins", at(packed, "_write_part", signal.SIGINT))
    assert (code, wrong) == (130, f"{interrupts.AGAIN}\n")
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "child.1", "child.2"}


def test_a_rank_whose_fellow_was_quicker(monkeypatch, capfd):
    """Both had the signal: the one that is lost leaves the other no error to tell of."""
    from rapidbm.errors import LostRank

    def lost(**words):
        interrupts.asked = signal.SIGTERM
        raise LostRank("another rank was lost")

    monkeypatch.setattr(cli, "app", lost)
    monkeypatch.setattr(interrupts, "asked", None)  # and afterwards again
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 143
    assert interrupts.AGAIN in capfd.readouterr().err


# -- at the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", BOTH)
def test_after_the_work_is_done(number, tmp_path):
    code, said, wrong = forked(tmp_path, "--version", lambda: None, lambda: send(number))
    assert (code, said.startswith("rapidbm "), wrong) == (0, True, "")


@pytest.mark.parametrize("number", BOTH)
def test_while_the_interpreter_ends(number):
    """The last callbacks, and the destructors of modules, when Python answers no signals any more."""
    cut = (
        "import atexit, os, runpy, sys\n"
        f"send = lambda: os.kill(os.getpid(), {int(number)})\n"
        "atexit.register(send)\n"
        "class Cut:\n"
        "    def __del__(self, send=send): send()\n"
        "last = Cut()\n"
        "sys.argv[1:] = ['--version']\n"
        "runpy.run_module('rapidbm', run_name='__main__')\n"
    )
    found = subprocess.run([sys.executable, "-c", cut], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout[:8], found.stderr) == (0, "rapidbm ", "")


# -- whose handlers they are --------------------------------------------------------------------------


@contextmanager
def own_handlers():
    """Handlers of a user's own."""
    heard, before = [], {number: signal.getsignal(number) for number in BOTH}
    handlers = {number: lambda n, frame: heard.append(n) for number in BOTH}
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        yield handlers, heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_second_signal_is_for_the_handler_before():
    with own_handlers() as (handlers, heard):
        with Stopper().listening() as stopper:
            send(signal.SIGTERM)
            assert (stopper(), stopper.code, heard) == (True, 143, [])
            send(signal.SIGINT)
            assert heard == [signal.SIGINT]
        assert all(signal.getsignal(number) is handlers[number] for number in BOTH)


def test_a_command_that_is_called_leaves_the_handlers_of_its_caller(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rapidbm", *TRAIN.split()])
    with own_handlers() as (handlers, _):
        with pytest.raises(SystemExit):
            cli.main()
        assert all(signal.getsignal(number) is handlers[number] for number in BOTH)


def test_a_fork_of_the_command_has_the_defaults(tmp_path):
    def child():
        told, tell = os.pipe()
        if not os.fork():
            found = [signal.getsignal(number) for number in BOTH]
            os.write(tell, b"%d" % (found == [signal.default_int_handler, signal.SIG_DFL]))
            os._exit(0)
        print(os.read(told, 1).decode())
        os.wait()

    assert forked(tmp_path, "--version", lambda: None, child)[1].splitlines()[-1] == "1"


def test_handlers_during_a_sweep_on_ray_are_the_users():
    """`set_sigterm_handler` is what Ray calls; what its C code and Tune do to signals is undone."""
    installed = []
    utils = SimpleNamespace(set_sigterm_handler=installed.append)
    ray = SimpleNamespace(_private=SimpleNamespace(utils=utils))
    switch = "TUNE_DISABLE_SIGINT_HANDLER"
    with own_handlers() as (handlers, heard):
        for stop, tune in ((None, None), (lambda: False, "1")):
            with on_ray._own_handlers(ray, stop) as put_back:
                assert os.environ.get(switch) == tune
                utils.set_sigterm_handler(print)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                put_back()
                send(signal.SIGTERM)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            assert all(signal.getsignal(number) is handlers[number] for number in BOTH)
            assert switch not in os.environ
        assert heard == [signal.SIGTERM] * 2
    utils.set_sigterm_handler(print)
    assert installed == [print]


# -- on Ray -------------------------------------------------------------------------------------------

USER = """
import os, signal, sys
import rapidbm as rb

heard = []
mine = lambda number, frame: heard.append(number)
signal.signal(signal.SIGTERM, mine)
before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
sweep = rb.Sweep(rb.Study.read("s.toml"), "S")
sweep.go_on_ray(lambda line: os.kill(os.getpid(), signal.SIGTERM))
during = len(heard)
assert during >= 4, heard
assert before == {n: signal.getsignal(n) for n in before}
os.kill(os.getpid(), signal.SIGTERM)
assert len(heard) == during + 1
"""


on_rays = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")  # which changes who imports it


@on_rays
@pytest.mark.slow
def test_a_user_keeps_their_handlers_through_a_sweep_on_ray(tmp_path):
    (tmp_path / "s.toml").write_text(STUDY)
    found = subprocess.run(
        [sys.executable, "-c", USER], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


@on_rays
@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", BOTH)
def test_a_signal_ends_a_sweep_on_ray_which_goes_on(number, times, tmp_path):
    (tmp_path / "s.toml").write_text(STUDY.replace("epochs = 3", "epochs = 300"))
    words = [sys.executable, "-m", "rapidbm", "sweep", "s.toml", "--on", "ray", "--out", "S"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = ""
        while "batch 001: " not in line:
            line = process.stdout.readline()
            assert line, process.stderr.read()
        for _ in range(times):
            process.send_signal(number)
        said, wrong = process.communicate(timeout=120)
    assert process.returncode == 128 + number, wrong
    assert "Go on with: rapidbm sweep s.toml --out S --on ray" in said + wrong
    # Ray logs a traceback of its own where a save of its state is overtaken; none goes through our code.
    assert "src/rapidbm/" not in wrong
    while any(disk.is_locked(path.parent) for path in tmp_path.rglob(".lock")):
        time.sleep(0.05)  # until the workers have noticed
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    assert forked(tmp_path, "sweep s.toml --out T", lambda: None)[0] == 0
    same_table(tmp_path / "S", tmp_path / "T")
