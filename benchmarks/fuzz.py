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
import os
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

import rapidbm as rb
from rapidbm.data import files, packed, sources
from rapidbm.data.reading import child as program
from rapidbm.data.reading.parent import QUIET, Child
from rapidbm.errors import InputError
from rapidbm.machines.files import load_machine, load_tensors
from rapidbm.paper.records import Record, read_record, write_record
from rapidbm.paper.reproduction import Reproduction
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import read_mask

SLOW = 5.0  # seconds
SHOWN = 20  # cases that went wrong, of a door
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


def ends_damaged(honest: bytes, rng: random.Random) -> bytes:
    """The same for a file whose header is at its end."""
    if rng.random() < 0.3:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[-8:-4], "little")
    start = max(0, len(honest) - 8 - size) if rng.random() < 0.8 else 0
    body = bytes_damaged(honest[start:-8], rng)
    return (
        honest[:start]
        + body
        + len(body).to_bytes(4, "little") * (start > 0)
        + honest[-8 + 4 * (start > 0) :]
    )


def spins_damaged(honest: bytes, rng: random.Random) -> bytes:
    """Bytes; or what the header says, under a checksum that agrees with it."""
    if rng.random() < 0.3:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[:8], "little")
    header = json.loads(honest[8 : 8 + size])
    said = json.loads(header["__metadata__"]["rapidbm"])
    if rng.random() < 0.5:
        said = said_otherwise(said, rng)
    else:
        header = said_otherwise(header, rng)
    if (
        isinstance(said, dict)
        and isinstance(header, dict)
        and isinstance(header.get("__metadata__"), dict)
    ):
        body = honest[8 + size :]
        parts = {}
        for name in sources.PARTS:
            checks = header.get(f"{name}_checks")
            with suppress(TypeError, KeyError, ValueError, IndexError, AttributeError):
                a, b = checks["data_offsets"]
                table = np.frombuffer(body[a:b], np.uint8).reshape(-1, 16)
                labels = 0 if sources.labels_of(name) in header else None
                parts[name] = packed.Part(header[name]["shape"][0], 0, table, labels)
        with suppress(TypeError, ValueError):
            said["sha256"] = packed.identity(said, parts)
        header["__metadata__"]["rapidbm"] = json.dumps(said)
    text = json.dumps(header).replace("Infinity", "1e999").encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + honest[8 + size :]


def packed_read(path: Path) -> None:
    """A packed file, whole and as rows that stay on disk."""
    data = rb.load(path, stream=True)
    data.some()
    for number in range(len(data.train.sizes)):
        data.train.chunk(number)
    rb.load(path, stream=False)


@dataclass(frozen=True)
class Store:
    """A folder of files as one: a case damages one of them, or takes it away."""

    folder: Path

    def door(self) -> Door:
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        honest = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
        blob = json.dumps({file: content.hex() for file, content in honest.items()}).encode()
        return Door(self.folder, blob, partial(served, self.folder), self.damage, self.write)

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


def served(path: Path) -> None:
    CHILDREN.served(path, stream=True)


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
        door(name, made, partial(served, made), damage)
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
    whole = group.create_array("samples", shape=bits.shape, dtype="int8", chunks=(10, 16))
    whole[:] = bits
    group.create_array("labels", shape=labels.shape, dtype=labels.dtype, chunks=(30,))[:] = labels
    if version == 3:
        sharded = group.create_array("valid", shape=(8, 16), dtype="bool", chunks=(2, 16), shards=(4, 16))
        sharded[:] = bits[:8] > 0
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


GONE = "it made its reader end"


class Children:
    """Readers that stay, for one takes a fifth of a second to start; limited as they always are."""

    LOOP = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("child", sys.argv[1])
child = importlib.util.module_from_spec(spec)
sys.modules["child"] = child
spec.loader.exec_module(child)
module = child.reader(sys.argv[2])
child.limit(int(sys.argv[3]))
lines = iter(sys.stdin.buffer.readline, b"")
for line in lines:
    child.main(module, line.decode().rstrip("\\n"), sys.argv[4:], lines, sys.stdout.buffer)
"""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started = 0
        self.most = 0.0  # MB that one took

    def process(self, reader: str) -> subprocess.Popen[bytes]:
        old = self.processes.get(reader)
        if old is None or old.poll() is not None:
            words = [program.__file__, reader, str(2**26), *sources.NAMES]
            self.processes[reader] = subprocess.Popen(
                [sys.executable, "-P", "-c", self.LOOP, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **QUIET},
            )
            self.started += 1
        return self.processes[reader]

    def seconds(self) -> float:
        """Of work, of all that are there."""
        spent = 0.0
        for process in self.processes.values():
            with suppress(OSError):
                fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
                spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return spent

    def served(self, path: Path, stream: bool) -> None:
        """`rb.load` of a file that a C library reads, whole or some rows at a time."""
        reader, kind, _ = sources.LIBRARIES[path.suffix]
        process = self.process(reader)
        assert process.stdin is not None
        with sources.reading(path, kind, "write it again"):
            try:
                process.stdin.write(f"{path}\n".encode())
                process.stdin.flush()
                source = sources.Served(path, kind, Child(process, GONE))
            except (ValueError, OSError) as error:
                time.sleep(0.01)  # one that crashed may not be known to be dead yet
                raise ValueError(str(error)) from error
        try:
            if stream:
                for name in source.claims:
                    for block in source.blocks(name):
                        assert block.nbytes
            files.from_named(path, source.arrays())
        except InputError as error:
            if GONE in str(error):  # or in the middle of an array
                self.end(reader)
            raise
        finally:
            with suppress(OSError, ValueError):  # it may be gone
                process.stdin.write(b"\n")
                process.stdin.flush()

    def end(self, reader: str) -> None:
        process = self.processes.pop(reader)
        with suppress(OSError, IndexError):
            text = Path(f"/proc/{process.pid}/status").read_text()
            self.most = max(self.most, int(text.split("VmHWM:")[1].split()[0]) / 1024)
        process.kill()
        process.communicate()


CHILDREN = Children()


@contextmanager
def serving() -> Iterator[None]:
    """Sends the children home."""
    try:
        yield
    finally:
        for reader in list(CHILDREN.processes):
            CHILDREN.end(reader)


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
            for reader in list(CHILDREN.processes):
                CHILDREN.end(reader)  # so that its memory is known
            for line, times in list(Counter(found.wrong).items())[:SHOWN]:
                print(line, f"({times} times)" if times > 1 else "", file=sys.stderr)
            print(f"{name}: {len(found.wrong)} wrong of {options.count}", file=sys.stderr, flush=True)
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
