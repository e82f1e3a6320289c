"""Damaged and hostile files: every reader answers with an `InputError` or with what the file says.

    python -m benchmarks fuzz --count 20000 --doors npy,csv --seed 1

A door is a reader and an honest file. The file is damaged in its bytes (bits flipped, cut, bytes put in,
taken out, set to 0 or 255, pieces doubled) or in what it says (a value of JSON replaced, dropped or
doubled; a tensor of another type, shape or value, without a checksum that would tell). Anything but a
load or an `InputError`, and any answer that takes more than 5 seconds of work, is named with its case.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

import rapidbm as rb
from rapidbm.data import files, hdf5_child
from rapidbm.errors import InputError
from rapidbm.machines.files import load_machine, load_tensors
from rapidbm.paper.records import Record, read_record, write_record
from rapidbm.paper.reproduction import Reproduction
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import read_mask

SLOW = 5.0  # seconds
ODD = [
    None,
    True,
    -1,
    0,
    7,
    0.5,
    1e308,
    10**30,
    2**63,
    -(2**63),
    "",
    "x",
    "\ud800",
    "a\0b",
    "\x1b[2J",
    "../../x",
    "/etc/passwd",
    [],
    {},
    [[]],
    [None],
    [0],
    [1, "x"],
    {"x": 1},
    [[[[[1]]]]],
    [2**40, 2**40],
]


@dataclass(frozen=True)
class Door:
    """A reader, and what an honest file holds; `damage` makes another file of it."""

    path: Path
    honest: bytes
    enter: Callable[[], Any]
    damage: Callable[[bytes, random.Random], bytes]


@dataclass
class Outcome:
    """What came of the cases."""

    loaded: int = 0
    refused: int = 0
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


# -- damage -------------------------------------------------------------------------------------------


def bytes_damaged(honest: bytes, rng: random.Random) -> bytes:
    """A few blows to the bytes, more often near the beginning, where headers are."""
    found = bytearray(honest)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        size = len(found)
        if not size:
            break
        where = rng.randrange(min(size, 400)) if rng.random() < 0.5 else rng.randrange(size)
        width = rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(7)
        if kind == 0:
            found[where] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[where:]
        elif kind == 2:
            found[where:where] = rng.randbytes(width)
        elif kind == 3:
            del found[where : where + width]
        elif kind == 4:
            found[where : where + width] = bytes([rng.choice((0, 255))]) * width
        elif kind == 5:
            found[where:where] = found[where : where + width]
        else:
            found[where : where + width] = rng.randbytes(width)
    return bytes(found)


def said_otherwise(value: Any, rng: random.Random) -> Any:
    """JSON with one node replaced, dropped or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if rng.random() < 0.05:
            return {**value, rng.choice(("x", "", "\ud800", key * 300)): rng.choice(ODD)}
        return {**value, key: said_otherwise(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        where = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:where] + value[where + 1 :]
        if rng.random() < 0.2:
            return [*value, value[where]]
        return [*value[:where], said_otherwise(value[where], rng), *value[where + 1 :]]
    return rng.choice(ODD)


def json_damaged(honest: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return bytes_damaged(honest, rng)
    if rng.random() < 0.02:
        return b"[" * 100_000
    text = json.dumps(said_otherwise(json.loads(honest), rng))
    return text.replace("Infinity", "1e999").encode("utf-8", "surrogatepass")


def lines_damaged(honest: bytes, rng: random.Random) -> bytes:
    lines = honest.splitlines(keepends=True)
    where = rng.randrange(len(lines))
    lines[where] = json_damaged(lines[where], rng) + (b"\n" if rng.random() < 0.8 else b"")
    return b"".join(lines)


def checkpoint_damaged(honest: bytes, rng: random.Random) -> bytes:
    """Bytes; or a header or a tensor, with no checksum left to tell."""
    if rng.random() < 0.2:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[:8], "little")
    header = json.loads(json.loads(honest[8 : 8 + size])["__metadata__"]["rapidbm"])
    header.pop("sha256")
    tensors = load(honest)
    if rng.random() < 0.5:
        header = said_otherwise(header, rng)
    else:
        name = rng.choice(list(tensors))
        if rng.random() < 0.1:
            del tensors[name]
        else:
            tensors[name] = tensor_damaged(tensors[name], rng)
    text = json.dumps(header) if rng.random() < 0.98 else "[" * 100_000
    return save(tensors, metadata={"rapidbm": text})


def tensor_damaged(value: torch.Tensor, rng: random.Random) -> torch.Tensor:
    kind = rng.randrange(6)
    if kind == 0:
        types = (torch.int64, torch.uint8, torch.bool, torch.float16, torch.float64, torch.bfloat16)
        return value.to(rng.choice(types))
    if kind == 1:
        return torch.zeros(rng.choice(((), (0,), (1,), (2, 3), (1, 1, 1), (3, 0, 2), (1, 2, 3, 4))))
    if kind == 2 and value.numel():
        return value.flatten()[: rng.randrange(value.numel()) + 1].clone()
    if kind == 3 and value.is_floating_point():
        found = value.clone().flatten()
        bad = (torch.nan, torch.inf, -torch.inf, 1e38, -3.0, 0.0)
        if found.numel():
            found[rng.randrange(found.numel())] = rng.choice(bad)
        return found.reshape(value.shape)
    if kind == 4 and value.dim():
        return torch.cat([value, value])
    if value.dtype == torch.uint8 or not value.is_floating_point():
        return (
            torch.from_numpy(np.frombuffer(rng.randbytes(value.nbytes), np.uint8).copy())
            .to(value.dtype)[: value.numel()]
            .reshape(value.shape)
        )
    return value * rng.choice((-1.0, 1e30, 0.0))


# -- doors --------------------------------------------------------------------------------------------


def doors(folder: Path) -> dict[str, Door]:
    """All of them, with their files in `folder`."""
    rng = np.random.default_rng(0)
    bits = (rng.random((30, 16)) < 0.4).astype(np.int8)
    found = {}

    def door(name: str, path: Path, enter: Callable[[], Any], damage: Any = bytes_damaged) -> None:
        found[name] = Door(path, path.read_bytes(), enter, damage)

    run = _run(folder / "run")
    trainer = run.recipe.trainer(run.data(), torch.device("cpu"))

    def resume() -> None:
        load_machine(run.latest)
        trainer.load(load_tensors(run.latest)[0])
        trainer.step()

    door("checkpoint", run.latest, resume, checkpoint_damaged)
    door("run", run.folder / "run.json", lambda: Run(run.folder), json_damaged)
    door("metrics", run.folder / "metrics.jsonl", run.metrics, lines_damaged)
    study = folder / "study"
    write_record(study / "records", Record("a.b", "tiny", 0, {"n": 3}, {"x": [1.0, None]}))
    door(
        "record",
        study / "records" / "a.b.json",
        lambda: read_record(study / "records" / "a.b.json"),
        json_damaged,
    )
    reproduction = Reproduction.open(folder / "whole", "tiny", 0)
    spent = dict.fromkeys(("device", "python", "torch", "numpy", "rapidbm"), "1")
    times = folder / "whole" / "times.json"
    times.write_text(json.dumps({"bars.rapid": {"seconds": 1.5, **spent}}))

    def told() -> float:
        return sum(float(t["seconds"]) for t in reproduction.times().values())

    door("times", times, told, json_damaged)
    np.save(folder / "a.npy", bits)
    door("npy", folder / "a.npy", lambda: rb.load(str(folder / "a.npy")))
    labels = np.arange(30) % 3
    np.savez_compressed(folder / "a.npz", samples=bits, labels=labels, valid=bits[:5])
    door("npz", folder / "a.npz", lambda: rb.load(str(folder / "a.npz")))
    text = "\n".join(",".join(map(str, row)) for row in bits)
    (folder / "a.csv").write_text("\n".join((",".join("abcdefghijklmnop"), text)) + "\n")
    door("csv", folder / "a.csv", lambda: rb.load(str(folder / "a.csv")))
    np.save(folder / "mask.npy", np.arange(16) < 8)
    data = run.data()
    door("mask", folder / "mask.npy", lambda: read_mask(folder / "mask.npy", data))
    door("h5", _hdf5(folder / "a.h5", bits, labels), lambda: served(folder / "a.h5"))
    rb.save_rbms(rb.rbm(16, 4, biases=True, seed=0), folder / "rbms.h5", chains=bits)
    door("rbms", folder / "rbms.h5", lambda: rb.load_rbms(folder / "rbms.h5"))
    return found


def _run(folder: Path) -> Run:
    chosen = {"hidden": (6,), "patterns": 3, "epochs": 4, "replicas": 2, "device": "cpu"}
    more = {"negative": "pcd", "particles": 4, "optimizer": "adam", "rate": (1e-3,), "biases": True}
    run = Run.create(folder, Recipe.made("bars4", {**chosen, **more}))
    for _ in run.go():
        pass
    return run


def _hdf5(path: Path, bits: Any, labels: Any) -> Path:
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_dataset("samples", data=bits, chunks=(10, 16), compression="gzip")
        file["labels"] = labels
        file["valid"] = bits[:5].astype(bool)
    path.write_bytes(buffer.getvalue())
    return path


LOOP = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("child", sys.argv[1])
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
child.limit = lambda memory: None
for line in sys.stdin:
    child.main(line.rstrip("\\n"), int(sys.argv[2]), sys.argv[3:])
    sys.stdout.flush()
"""
_SERVER: list[subprocess.Popen[bytes]] = []


def served(path: Path) -> None:
    """`rb.load` of an HDF5 file by a child that stays, for it takes a fifth of a second to start."""
    if not _SERVER or _SERVER[-1].poll() is not None:
        names = [name for part in files.PARTS for name in (part, files.labels_of(part))]
        command = [sys.executable, "-P", "-c", LOOP, hdf5_child.__file__, str(2**26), *names]
        pipe = subprocess.PIPE
        _SERVER.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL))
    child = _SERVER[-1]
    assert child.stdin is not None
    child.stdin.write(f"{path}\n".encode())
    child.stdin.flush()
    with files.reading(path, "HDF5", "write it again"):
        try:
            arrays = files.answer(child)
        except ValueError:
            time.sleep(0.01)  # one that crashed may not be known to be dead yet
            raise
    files.from_named(path, arrays)


@contextmanager
def serving() -> Iterator[None]:
    """Sends the children home."""
    try:
        yield
    finally:
        for child in _SERVER:
            child.kill()
            child.communicate()
        _SERVER.clear()


# -- the attack ---------------------------------------------------------------------------------------


def attack(name: str, door: Door, count: int, seed: int) -> Outcome:
    """Enters with so many damaged files."""
    outcome = Outcome()
    for case in range(count):
        rng = random.Random(f"{name}/{seed}/{case}")
        door.path.write_bytes(door.damage(door.honest, rng))
        began = time.thread_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                door.enter()
            outcome.loaded += 1
        except InputError:
            outcome.refused += 1
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            outcome.wrong.append(f"{name} {seed} {case}: {error!r:.200} ({where})")
        spent = time.thread_time() - began
        outcome.slowest = max(outcome.slowest, spent)
        if spent > SLOW:
            outcome.wrong.append(f"{name} {seed} {case}: {spent:.1f} s")
    door.path.write_bytes(door.honest)
    return outcome


def run(words: list[str] | None = None) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="files for each door")
    parser.add_argument("--doors", default="", help="some of them, with commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words or [])
    torch.set_num_threads(1)
    table: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, serving():
        known = doors(Path(folder))
        for name in options.doors.split(",") if options.doors else known:
            found = attack(name, known[name], options.count, options.seed)
            for line, times in Counter(found.wrong).items():
                print(line, f"({times} times)" if times > 1 else "", file=sys.stderr)
            print(f"{name}: {len(found.wrong)} wrong of {options.count}", file=sys.stderr, flush=True)
            table[name] = {
                "loaded": found.loaded,
                "refused": found.refused,
                "wrong": len(found.wrong),
                "slowest, s": found.slowest,
                "peak so far, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
    return table
