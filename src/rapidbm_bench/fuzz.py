"""Damaged and hostile files: every reader answers with an `InputError` or with what the file says.

    python -m benchmarks fuzz --count 20000 --doors npy,csv --seed 1

A door is a reader and an honest file. The file is damaged in its bytes (bits flipped, cut, bytes put in,
taken out, set to 0 or 255, pieces doubled) or in what it says (a value of JSON replaced, dropped or
doubled; a tensor of another type, shape or value, without a checksum that would tell). Anything but a
load or an `InputError`, and any answer that takes more than 5 seconds of work, is named with its case.
"""

from __future__ import annotations

import io
import json
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rapidbm as rb
from rapidbm.data import files, sources
from rapidbm.errors import InputError
from rapidbm.machines.files import load_machine, load_tensors
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import read_mask
from rapidbm_paper.records import Record, read_record, write_record
from rapidbm_paper.reproduction import Reproduction

from .children import Children
from .damage import (
    bytes_damaged,
    checkpoint_damaged,
    ends_damaged,
    json_damaged,
    lines_damaged,
    spins_damaged,
)
from .running import option_parser, tell

SLOW = 5.0  # seconds
SHOWN = 20  # cases that went wrong, of a door


@dataclass(frozen=True)
class Door:
    """A reader, and what an honest file holds; `damage` makes another file of it."""

    path: Path
    honest: bytes
    enter: Callable[[], Any]
    damage: Callable[[bytes, random.Random], bytes]
    put: Callable[[bytes], Any] | None = None  # where that is more than to write the file

    def write(self, content: bytes) -> None:
        (self.put or self.path.write_bytes)(content)


@dataclass
class Outcome:
    """What came of the cases."""

    loaded: int = 0
    refused: int = 0
    slowest: float = 0.0  # seconds of work
    longest: float = 0.0  # seconds on the wall
    wrong: list[str] = field(default_factory=list)


# -- files ------------------------------------------------------------------------------------------


def packed_read(path: Path) -> None:
    """A packed file, whole and as rows that stay on disk."""
    data = rb.load(path, stream=True)
    data.in_memory()
    rows: Any = data.train
    for number in range(len(rows.sizes)):
        rows.chunk(number)
    rb.load(path, stream=False)


@dataclass(frozen=True)
class Store:
    """A folder of files as one: a case damages one of them, or takes it away."""

    folder: Path

    def door(self) -> Door:
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        honest = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
        blob = json.dumps({file: content.hex() for file, content in honest.items()}).encode()
        return Door(self.folder, blob, partial(rows_read, self.folder), self.damage, self.write)

    @staticmethod
    def damage(honest: bytes, rng: random.Random) -> bytes:
        found = json.loads(honest)
        name = rng.choice(sorted(found, key=lambda n: (not n.endswith(("json", ".zarray")), n)))
        if rng.random() < 0.05:
            del found[name]
        else:
            before = bytes.fromhex(found[name])
            words = name.endswith(("json", ".zarray", ".zgroup", ".zattrs"))
            found[name] = (json_damaged if words else bytes_damaged)(before, rng).hex()
        return json.dumps(found).encode()

    def write(self, blob: bytes) -> None:
        found = json.loads(blob)
        for path in self.folder.rglob("*"):
            if path.is_file() and str(path.relative_to(self.folder)) not in found:
                path.unlink()
        for name, content in found.items():
            (self.folder / name).write_bytes(bytes.fromhex(content))


def rows_read(path: Path) -> None:
    """A file that a C library reads, some rows at a time and as a whole."""
    with sources.opened(path) as source:
        for name in source.claims:
            for block in source.blocks(name):
                assert block.nbytes
        files.from_named(path, source.arrays())


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
    for name, made in {
        "h5": _hdf5(folder / "a.h5", bits, labels),
        "parquet": _parquet(folder / "a.parquet", bits, labels),
        "lists": _lists(folder / "b.parquet", bits, labels),
    }.items():
        damage = bytes_damaged if name == "h5" else ends_damaged
        door(name, made, partial(rows_read, made), damage)
    for version, name in ((3, "zarr"), (2, "zarr2")):
        found[name] = Store(_zarr(folder / f"{name}.zarr", bits, labels, version)).door()
    rb.pack(folder / "a.npz", folder / "a.spins")
    door("spins", folder / "a.spins", partial(packed_read, folder / "a.spins"), spins_damaged)
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


def _zarr(folder: Path, bits: Any, labels: Any, version: Any) -> Path:
    import zarr

    group = zarr.open_group(folder, mode="w", zarr_format=version)
    shards = (20, 16) if version == 3 else None
    whole = group.create_array("samples", shape=bits.shape, dtype="int8", chunks=(10, 16), shards=shards)
    whole[:] = bits
    group.create_array("labels", shape=labels.shape, dtype=labels.dtype, chunks=(30,))[:] = labels
    return folder


def _parquet(path: Path, bits: Any, labels: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, Any] = {f"c{i}": bits[:, i] for i in range(5)}
    columns |= {"b": bits[:, 5] > 0, "f": bits[:, 6].astype(np.float32), "labels": labels}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=12, compression="snappy")
    return path


def _lists(path: Path, bits: Any, labels: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"samples": pyarrow.array(list(bits)), "labels": labels})
    pyarrow.parquet.write_table(table, path, row_group_size=12, compression="zstd")
    return path


CHILDREN = Children()


# -- the attack ---------------------------------------------------------------------------------------


def attack(name: str, door: Door, count: int, seed: int) -> Outcome:
    """Enters with so many damaged files."""
    outcome = Outcome()
    for case in range(count):
        rng = random.Random(f"{name}/{seed}/{case}")
        door.write(door.damage(door.honest, rng))
        began, wall = time.thread_time() + CHILDREN.seconds(), time.monotonic()
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
        spent = time.thread_time() + CHILDREN.seconds() - began
        outcome.slowest = max(outcome.slowest, spent)
        outcome.longest = max(outcome.longest, time.monotonic() - wall)
        if spent > SLOW:
            outcome.wrong.append(f"{name} {seed} {case}: {spent:.1f} s")
    door.write(door.honest)
    return outcome


def run(words: Sequence[str] = ()) -> dict[str, object]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--count", type=int, default=20_000, help="files for each door")
    parser.add_argument("--doors", default="", help="some of them, with commas")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    table: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, CHILDREN.standing_in():
        known = doors(Path(folder))
        for name in options.doors.split(",") if options.doors else known:
            found = attack(name, known[name], options.count, options.seed)
            CHILDREN.end()  # so that their memory is known
            for line, times in list(Counter(found.wrong).items())[:SHOWN]:
                tell(line, f"({times} times)" if times > 1 else "")
            tell(f"{name}: {len(found.wrong)} wrong of {options.count}")
            table[name] = {
                "loaded": found.loaded,
                "refused": found.refused,
                "wrong": len(found.wrong),
                "slowest, s": found.slowest,
                "longest, s": found.longest,
                "children": CHILDREN.started,
                "peak so far, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "of children": CHILDREN.most,
            }
    return table
