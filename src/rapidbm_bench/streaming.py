"""Training from a large file: private memory, and speed beside rows in memory.

    python -m benchmarks streaming --gb 20 --folder /tmp --keep

Makes a `.npy` of so many GB (784 spins a row, of 64 noisy prototypes) and a packed file of the same rows,
unless they are there, and times updates of one machine in turns: on 60,000 of the rows in memory, from
the `.npy` and from the packed file. Turns of streamed rows go over several groups, so that reading,
checking and mixing them is in it. The ratio is of medians. Memory is the largest RssAnon, what a process
has for itself, of `rapidbm train` on the file; pages of the file that the system keeps are not in it.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import rapidbm as rb
from rapidbm.training.trainer import Trainer

from .processes import private, spawned
from .running import option_parser

VISIBLE, MEMORY = 784, 60_000
BLOCK = 20_000


def generated(path: Path, size: float) -> Path:
    """A file of so many GB."""
    rows = int(size * 1e9) // VISIBLE
    rng = np.random.default_rng(0)
    base = (rng.random((64, VISIBLE)) < 0.3).astype(np.int8)
    with path.open("wb") as file:
        header = {"descr": "|i1", "fortran_order": False, "shape": (rows, VISIBLE)}
        np.lib.format.write_array_header_1_0(file, header)
        noise = rng.random((BLOCK, VISIBLE)) < 0.05
        for start in range(0, rows, BLOCK):
            count = min(BLOCK, rows - start)
            block = base[rng.integers(64, size=count)] ^ np.roll(noise, rng.integers(VISIBLE), 1)[:count]
            file.write(np.ascontiguousarray(block, np.int8).data)
    return path


def trainer(data: Any, negative: Any) -> Trainer:
    machine = rb.rbm(VISIBLE, 500, patterns=100, seed=0)
    return Trainer(machine, data, negative, rb.sgd(1e-4), epochs=10**6, batch_size=100, seed=0)


def timed(one: Trainer, updates: int) -> float:
    """Updates per second."""
    began, done = time.perf_counter(), 0
    while done < updates:
        count = one.most()
        one.step(count)
        done += count
    one.wait()
    return done / (time.perf_counter() - began)


def watched(words: tuple[str, ...]) -> tuple[float, float]:
    """The largest RssAnon of a command, in MB, and the seconds that it took."""
    began = time.perf_counter()
    code, seen = private(spawned(words))
    if code:
        raise RuntimeError(f"{' '.join(words)} ended with {code}")
    return max(seen), time.perf_counter() - began


def run(words: Sequence[str] = ()) -> dict[str, object]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--updates", type=int, default=8000, help="of a turn")
    parser.add_argument("--budget", default="60s", help="of the command whose memory is watched")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = options.folder if options.folder and options.keep else Path(scratch)
        raw, packed = folder / f"large-{options.gb:g}.npy", folder / f"large-{options.gb:g}.spins"
        table: dict[str, object] = {}
        if not raw.exists():
            generated(raw, options.gb)
        if not packed.exists():
            began = time.perf_counter()
            rb.pack(raw, packed)
            table["packing"] = {"GB/s": raw.stat().st_size / 1e9 / (time.perf_counter() - began)}
        for name, negative in {"pid": rb.PatternInduced(), "pcd": rb.Persistent(100)}.items():
            table |= _speed(name, negative, raw, packed, options)
        for path in (raw, packed):
            words = f"train {path} --stream --hidden 500 --patterns 100 --negative pid --epochs 1".split()
            words += ["--budget", options.budget, "--out", str(Path(scratch) / path.suffix)]
            most, seconds = watched(tuple(words))
            table[f"train {path.suffix}"] = {"RssAnon, MB": most, "s": seconds}
    return table


def _speed(name: str, negative: Any, raw: Path, packed: Path, options: Namespace) -> dict[str, object]:
    rows = rb.load(raw, stream=True).undivided
    assert rows is not None
    memory = torch.cat([rows.take(slice(i, i + 10_000)).spins for i in range(0, MEMORY, 10_000)])
    began = time.perf_counter()
    sources = {
        "memory": memory,
        ".npy": rb.load(raw, stream=True).train,
        ".spins": rb.load(packed, stream=True).train,
    }
    trainers = {key: trainer(data, negative) for key, data in sources.items()}
    opened = time.perf_counter() - began
    for one in trainers.values():
        timed(one, 200)
    speeds: dict[str, list[float]] = {key: [] for key in trainers}
    for _ in range(options.turns):
        for key, one in trainers.items():
            speeds[key].append(timed(one, options.updates))
    middle = {key: median(found) for key, found in speeds.items()}
    told = {f"updates/s, {key}": value for key, value in middle.items()}
    ratios = {f"ratio, {key}": middle[key] / middle["memory"] for key in (".npy", ".spins")}
    return {name: {**told, **ratios, "s to open": opened}}
