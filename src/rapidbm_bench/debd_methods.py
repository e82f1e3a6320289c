"""Ways to estimate the density of a binary table: what each makes of log p of its test part.

`independent`, `chow-liu` and `sklearn` are measured here, the others by `rapidbm train` and `rapidbm
evaluate`, each in a process of its own. The validation part chooses; the test part is looked at once, at
the end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import rapidbm as rb
from rapidbm.accel.devices import device_named, words
from rapidbm.errors import TimeLimit
from rapidbm.likelihood.chow_liu import ChowLiuTree

from .debd_sets import Parts

SMOOTHING = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # of a tree
COMPONENTS, RATES = 256, (0.1, 0.03, 0.01)  # of a BernoulliRBM, whose defaults are 256 and 0.1
BATCH = 10  # its default
LIMIT = 600.0  # seconds that log Z of one of them may take
CPU = f"{os.cpu_count()} CPU cores"
PATIENCE = 30.0  # seconds that an interrupted training has to save what it did


class Score(NamedTuple):
    """Mean log p of the test part in nats per row, with its 95 % interval, and how it was had."""

    log_p: float
    low: float
    high: float
    valid: float  # of the validation part
    chosen: str
    device: str
    seconds: float | None = None  # of training by the clock, trials with it; None of one that was cut
    bound: bool = False  # log_p is a lower bound of it


class Task(NamedTuple):
    """What a method is given."""

    file: Path
    parts: Parts
    folder: Path  # for a run of this task alone
    seconds: float  # of training
    seed: int
    device: str


class Failed(Exception):
    """A training or an evaluation came to no result."""


@dataclass(frozen=True)
class Method:
    """A row of the leaderboard: its title and what measures it."""

    title: str
    measure: Callable[[Task], Score]
    trained: bool = True  # in the time of the budget, from a seed


def independent(task: Task) -> Score:
    return _smoothed(task, tree=False)


def chow_liu(task: Task) -> Score:
    return _smoothed(task, tree=True)


def _smoothed(task: Task, *, tree: bool) -> Score:
    """The smoothing with the best validation part."""
    parts, began = task.parts, time.perf_counter()
    train, judges, test = (torch.from_numpy(parts[part]) for part in ("train", "valid", "test"))
    found = [ChowLiuTree.fitted(train, s, pairs=tree) for s in SMOOTHING]
    valid = [model.log_p(judges).mean() for model in found]
    seconds, best = time.perf_counter() - began, int(np.argmax(valid))
    log_p = float(found[best].log_p(test).mean())
    return Score(log_p, log_p, log_p, float(valid[best]), f"s = {SMOOTHING[best]:g}", CPU, seconds)


def bernoulli_rbm(task: Task) -> Score:
    """scikit-learn's RBM with its defaults, at three rates, a third of the time each."""
    from sklearn.neural_network import BernoulliRBM

    train, found = task.parts["train"].astype(float), []
    began = time.perf_counter()
    for number, rate in enumerate(RATES):
        rbm = BernoulliRBM(COMPONENTS, learning_rate=rate, random_state=task.seed)
        until = began + task.seconds * (number + 1) / len(RATES)
        draws, rows = np.random.default_rng(task.seed), np.empty(0, int)
        while not hasattr(rbm, "components_") or time.perf_counter() < until:
            if not len(rows):
                rows = draws.permutation(len(train))
            rbm.partial_fit(train[rows[:BATCH]])
            rows = rows[BATCH:]
        found.append((rate, rb.from_sklearn(rbm)))
    seconds, judged = time.perf_counter() - began, []
    for rate, machine in found:
        try:
            z = rb.log_z(machine, data=rb.to_spins(task.parts["train"]), seed=task.seed, limit=LIMIT)
        except TimeLimit:
            continue
        valid = rb.log_likelihood(machine, rb.to_spins(task.parts["valid"]), normaliser=z)
        judged.append((float(valid.lower), float(valid.value), rate, machine, z))
    if not judged:
        raise Failed(f"log Z of none of its machines came within {LIMIT:.0f} s")
    _, best, rate, machine, z = max(judged, key=lambda one: one[0])
    p = rb.log_likelihood(machine, rb.to_spins(task.parts["test"]), normaliser=z)
    chosen = f"{COMPONENTS} hidden units, rate {rate:g}"
    return Score(float(p.value), float(p.lower), float(p.upper), best, chosen, CPU, seconds)


def hidden_units(columns: int) -> int:
    """As many for the machines whose couplings are given, not chosen."""
    return min(1000, max(100, 4 * columns))


def patterns(columns: int) -> int:
    """Regularized Axons of four fifths of the parameters of dense couplings."""
    hidden = hidden_units(columns)
    return max(16, round(0.8 * columns * hidden / (columns + hidden)))


def by_rapidbm(options: Callable[[int], list[str]]) -> Callable[[Task], Score]:
    """`rapidbm train FILE --budget …` with the options for so many columns, and `rapidbm evaluate`."""

    def measure(task: Task) -> Score:
        log = task.folder.with_name(f"{task.folder.name}.log")
        began, whole = time.perf_counter(), not (task.folder / "run.json").is_file()
        words = ["--out", str(task.folder)]
        if whole or command(["train", "--resume", *words], log) is None:
            whole, began = True, time.perf_counter()
            shutil.rmtree(task.folder, ignore_errors=True)
            more = ["--budget", f"{task.seconds:g}s", "--seed", str(task.seed), "--device", task.device]
            more += options(task.parts["train"].shape[1])
            if command(["train", str(task.file), *more, *words], log) is None:
                raise Failed(f"see {log}")
        seconds = time.perf_counter() - began if whole else None
        for way in ("auto", "ais"):  # the second one takes its time
            how = ["--likelihood", way, "--device", task.device, "--json"]
            said = command(["evaluate", str(task.folder), *how], log)
            if said is None:
                raise Failed(f"see {log}")
            values = json.loads(said.splitlines()[-1])
            if score := _score(values, rb.Run(task.folder), task.device, seconds):
                return score
        raise Failed(f"there is no likelihood; see {log}")

    return measure


def _score(values: Mapping[str, Any], run: rb.Run, device: str, seconds: float | None) -> Score | None:
    """What `rapidbm evaluate --json` said of the test part: log p, or else a lower bound of it."""
    for name in ("log_likelihood", "log_bound"):
        if f"{name}_test" in values:
            (value,), (valid,) = values[f"{name}_test"], values[f"{name}_valid"]
            (low,) = values.get(f"{name}_test_from", [value])
            (high,) = values.get(f"{name}_test_to", [value])
            return Score(
                value,
                low,
                high,
                valid,
                _chosen(run),
                _device(device),
                seconds,
                name == "log_bound",
            )
    return None


def _device(name: str) -> str:
    device = device_named(name)
    return CPU if device.type == "cpu" else words(device)


def _chosen(run: rb.Run) -> str:
    """The settings of a run in words."""
    recipe = run.recipe
    kind = "dense" if recipe.patterns is None else f"K={recipe.patterns}"
    kind += ", from a tree" if recipe.start == "tree" else ""
    layers = " + ".join(map(str, recipe.hidden)) or "no"
    rate, decay = (
        (value[0] if isinstance(value, tuple) else value) or 0.0
        for value in (recipe.rate, recipe.weight_decay)
    )
    return f"{recipe.model}, {layers} hidden units, {kind}, rate {rate:.2g}, weight decay {decay:.2g}"


def command(words: list[str], log: Path) -> str | None:
    """What `rapidbm` with these words printed, or None where it failed; its other lines go to the log. An
    interrupt waits until it has saved what it did."""
    with log.open("a", encoding="utf-8") as lines:
        print("rapidbm", *words, file=lines, flush=True)
        environment = {**os.environ, "RAPIDBM_PROGRESS": "off"}
        process = subprocess.Popen(
            [sys.executable, "-m", "rapidbm", *words],
            stdout=subprocess.PIPE,
            stderr=lines,
            text=True,
            env=environment,
        )
        try:
            said, _ = process.communicate()
        except BaseException:
            try:  # a terminal interrupts both; a signal to this process alone is passed on
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE)
            raise
        lines.write(said)
    return said if process.returncode == 0 else None


METHODS = {
    "independent": Method("independent columns", independent, trained=False),
    "chow-liu": Method("Chow–Liu tree", chow_liu, trained=False),
    "sklearn": Method("`BernoulliRBM`", bernoulli_rbm),
    "auto": Method("`auto`", by_rapidbm(lambda columns: [])),
    "ra": Method(
        "RBM, Regularized Axons",
        by_rapidbm(lambda v: ["--hidden", str(hidden_units(v)), "--patterns", str(patterns(v))]),
    ),
    "dense": Method("RBM, dense", by_rapidbm(lambda v: ["--hidden", str(hidden_units(v)), "--dense"])),
    "dbm": Method("DBM", by_rapidbm(lambda v: ["--model", "dbm"])),
    "bm": Method("BM", by_rapidbm(lambda v: ["--model", "bm"])),
}
USUAL = ("independent", "chow-liu", "sklearn", "auto")
