"""Trainings that are killed again and again: each goes on, and ends where an undisturbed one does.

    python -m benchmarks soak --kills 300 --seed 1
    python -m benchmarks soak --minutes 60 --command

Trainings of all negative phases, of rows in memory and on disk, are begun and resumed by the same
command, `rapidbm train … --resume`, and ended at a random moment by SIGKILL, or by SIGTERM and SIGINT,
which ask for an orderly end. Now and then a bit of the latest state is flipped while nobody runs. When a
training is finished, its parameters, optimiser, chains, generators, evaluations, checkpoints and best
machine are held against those of an undisturbed one, bit for bit. A process is a fork of this one, which
has everything imported; with --command every tenth is the command itself. Memory is the largest of
each process that came to an end, and of two trainings of 200 epochs what they have for themselves.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.machines.files import load_tensors
from rapidbm.runs.run import Run

from .processes import forked, private, spawned, waited
from .running import option_parser, tell

SIGNALS = [signal.SIGKILL] * 6 + [signal.SIGTERM, signal.SIGINT]
COMMON = "--hidden 24 --epochs 6 --batch-size 20 --checkpoints 40 --evaluate-at 60 --device cpu --seed 3"
TRAININGS = {
    "pid": "--patterns 6 --negative pid --sweeps 1 --optimizer sgd --projection clip --metric hamming",
    "cd": "--dense --negative cd --biases --optimizer adam --metric hamming --average 30",
    "pcd": "--patterns 6 --negative pcd --particles 10 --biases --valid 0.1 --metric log_likelihood",
    "pt": "--dense --negative pt --particles 5 --rungs 3 --momentum 0.5 --optimizer sgd --metric hamming",
    "replicas": "--patterns 6 --negative pcd --particles 5 --replicas 2 --rate 1e-3 --rate 3e-3",
}
DAMAGED = 0.05  # of the times before a process is started


@dataclass
class Soaked:
    """What was tried, and what came of it."""

    kills: Counter[str] = field(default_factory=Counter)
    when: Counter[str] = field(default_factory=Counter)  # how far the training was
    finished: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    wrong: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB of each process that came to the end, at most
    processes: int = 0

    @property
    def hits(self) -> int:
        """Kills of trainings that were not finished yet: others interrupt a process on its way out."""
        return sum(self.when.values()) - self.when["finished"]


@dataclass(frozen=True)
class Training:
    name: str
    words: tuple[str, ...]
    seconds: float  # that it takes undisturbed
    whole: Path  # the undisturbed run


# -- trainings ----------------------------------------------------------------------------------------


def data_in(folder: Path) -> dict[str, tuple[str, ...]]:
    """The same rows to be read into memory, and to stay on disk."""
    rng = np.random.default_rng(0)
    base = rng.random((5, 30)) < 0.5
    np.save(folder / "rows.npy", base[rng.integers(5, size=800)] ^ (rng.random((800, 30)) < 0.1))
    rb.pack(folder / "rows.npy", folder / "rows.spins")
    return {
        "memory": (str(folder / "rows.npy"),),
        "npy": (str(folder / "rows.npy"), "--stream"),
        "spins": (str(folder / "rows.spins"), "--stream"),
    }


def trainings(
    folder: Path, names: Sequence[str], kinds: Sequence[str] = ("memory", "npy", "spins")
) -> Iterator[Training]:
    """Each once undisturbed."""
    sources = data_in(folder)
    for kind in kinds:
        for name in names:
            whole = folder / f"{name}-{kind}"
            line = f"{COMMON} {TRAININGS[name]} --preset small"
            words = ("train", *sources[kind], *line.split())
            began = time.monotonic()
            code, _ = waited(forked((*words, "--out", str(whole))), None)
            if code:
                raise RuntimeError(f"the undisturbed training {name} on {kind} ends with {code}")
            yield Training(f"{name}-{kind}", words, time.monotonic() - began, whole)


def differences(ours: Path, theirs: Path) -> list[str]:
    """What differs between two finished runs."""
    a, b = Run(ours), Run(theirs)
    found = [] if a.status == b.status == "finished" else [f"status {a.status} and {b.status}"]
    names = {path.name for run in (a, b) for path in (run.folder / "checkpoints").glob("*.safetensors")}
    for name in sorted(names - {"previous.safetensors"}):
        try:
            x, y = (load_tensors(run.folder / "checkpoints" / name)[0] for run in (a, b))
        except InputError as error:
            found.append(str(error))
            continue
        if x.keys() != y.keys():
            found.append(f"{name}: other tensors")
        found += [f"{name}: {key}" for key in x if key in y and not torch.equal(x[key], y[key])]
    lines = [[{k: v for k, v in r.items() if k != "seconds"} for r in run.metrics()] for run in (a, b)]
    if lines[0] != lines[1]:
        found.append("evaluations")
    found += [f"left behind: {path.name}" for path in ours.rglob(".*.part")]
    return found


def damage(path: Path, rng: random.Random) -> None:
    """A bit of a file is another one."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def stage(folder: Path) -> str:
    """How far a training had come."""
    try:
        info = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        return "before run.json"
    if not (folder / "checkpoints" / "latest.safetensors").is_file():
        return "before a state"
    return "finished" if info["status"] == "finished" else "in training"


def soak(known: list[Training], folder: Path, rng: random.Random, over: Any, real: float = 0.0) -> Soaked:
    """Begins, kills and resumes trainings until it is `over`; those that run then are finished."""
    soaked, number = Soaked(), 0
    while not over(soaked):
        training, number = rng.choice(known), number + 1
        out = folder / f"{number}"
        words = (*training.words, "--resume", "--out", str(out))
        broken = False
        while True:
            latest = out / "checkpoints" / "latest.safetensors"
            previous = out / "checkpoints" / "previous.safetensors"
            if latest.is_file() and previous.is_file() and not broken and rng.random() < DAMAGED:
                damage(latest, rng)
                soaked.damaged += 1
                broken = True  # the state before it is the only one until the next is written
            before = latest.stat().st_mtime_ns if latest.is_file() else 0
            slow = rng.random() < real
            process = spawned(words, OMP_NUM_THREADS="1") if slow else forked(words)
            left = None if over(soaked) else rng.random() ** 2 * (0.8 * training.seconds + 4.0 * slow)
            code, most = waited(process, None if left is None else time.monotonic() + left)
            if code is None:
                what = rng.choice(SIGNALS)
                soaked.when[stage(out)] += 1
                os.kill(process, what)
                code, _ = waited(process, time.monotonic() + 60.0)
                if code is None:
                    soaked.wrong.append(f"{training.name} does not end on {what.name}")
                    os.kill(process, signal.SIGKILL)
                    waited(process, None)
                soaked.kills[what.name] += 1
                if code not in (0, -what, 128 + what):
                    soaked.wrong.append(f"{training.name} ends on {what.name} with {code}")
            elif code:
                soaked.wrong.append(f"{training.name} ends with {code} in {out}")
                break
            soaked.processes += 1
            broken = broken and latest.is_file() and latest.stat().st_mtime_ns == before
            if code == 0:
                soaked.memory.append(most)
                break
        found = differences(out, training.whole) if code == 0 else []
        soaked.wrong += [f"{training.name}: {words}" for words in found]
        soaked.finished[training.name] += 1
        if not found and code == 0:
            shutil.rmtree(out)
    return soaked


def quarters(words: tuple[str, ...]) -> tuple[float, float]:
    """MB that a process has for itself in the second and in the last quarter of its time."""
    _, seen = private(forked(words))
    quarter = len(seen) // 4
    return median(seen[quarter : 2 * quarter]), median(seen[-quarter:])


def as_record(soaked: Soaked, steady: Mapping[str, float], seconds: float) -> dict[str, object]:
    half = max(1, len(soaked.memory) // 2)
    first, last = (median(part) for part in (soaked.memory[:half], soaked.memory[-half:]))
    return {
        "kills": sum(soaked.kills.values()),
        "of unfinished trainings": soaked.hits,
        **{f"by {name}": count for name, count in sorted(soaked.kills.items())},
        **{f"killed {name}": count for name, count in sorted(soaked.when.items())},
        "states damaged": soaked.damaged,
        "trainings finished": sum(soaked.finished.values()),
        "kinds of trainings": len(soaked.finished),
        "wrong": len(soaked.wrong),
        "processes": soaked.processes,
        "MB, first half": first,
        "MB, last half": last,
        "MB, largest": max(soaked.memory),
        **{f"MB private, {name}": value for name, value in steady.items()},
        "minutes": seconds / 60,
    }


def run(words: Sequence[str] = ()) -> dict[str, object]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--kills", type=int, default=300, help="of trainings that are not finished")
    parser.add_argument("--minutes", type=float, default=0.0, help="in place of a number of kills")
    parser.add_argument("--trainings", default="", help=f"some of {', '.join(TRAININGS)}, with commas")
    parser.add_argument(
        "--command", action="store_true", help="every tenth process is the command itself"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    began, kills, minutes = time.monotonic(), int(options.kills), float(options.minutes)

    def over(soaked: Soaked) -> bool:
        if minutes:
            return time.monotonic() - began > 60 * minutes
        return soaked.hits >= kills

    with tempfile.TemporaryDirectory() as folder:
        names = options.trainings.split(",") if options.trainings else list(TRAININGS)
        known = list(trainings(Path(folder), names))
        rng = random.Random(options.seed)
        soaked = soak(known, Path(folder), rng, over, 0.1 if options.command else 0.0)
        steady: dict[str, float] = {}
        for training in known[:1] + known[-1:]:  # in memory and on disk, thirty times as long
            words = [*training.words, "--out", f"{folder}/steady-{training.name}"]
            words[words.index("--epochs") + 1] = "200"
            words[words.index("--checkpoints") + 1] = "end"
            early, late = quarters(tuple(words))
            steady |= {f"{training.name}, second quarter": early, f"{training.name}, last": late}
    for line in soaked.wrong[:20]:
        tell(line)
    return as_record(soaked, steady, time.monotonic() - began)
