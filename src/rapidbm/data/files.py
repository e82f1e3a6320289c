"""Data sets from arrays and files. Nothing is ever unpickled."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
from torch import Tensor

from ..accel.memory import memory_of
from ..arrays import Array, as_labels
from ..disk import reading
from ..errors import DataWarning, InputError, require
from ..machines.spins import to_spins
from . import hdf5_child
from .hdf5_child import RATIO
from .splits import SPLIT_SEED, Dataset, Split, divided, held_out, top_half
from .tables import ENDINGS, read_table

Arrays = Mapping[str, Callable[[], Array]]
PARTS = ("samples", "train", "test", "valid")
MEMBERS = 1000  # of a .npz
NUMPY_REMEDY = "it may be truncated, or hold objects, never unpickled; write it with numpy.save"


def from_arrays(
    train: Any,
    test: Any = None,
    valid: Any = None,
    *,
    train_labels: Any = None,
    test_labels: Any = None,
    valid_labels: Any = None,
    name: str = "array",
    seed: int = 0,
) -> Dataset:
    """A data set from arrays of {0, 1}, bool or ±1, (samples, pixels) or (samples, rows, columns).

    Without `test` a seeded fifth of the samples is set aside. `valid` is measured like `test` and
    never trained on.

    Examples:
        >>> data = rb.from_arrays([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]])
        >>> len(data.train), len(data.test)
        (4, 1)
    """
    spins, shape = _flat(train, f"{name}: the training data")
    known = top_half(shape)

    def other(values: Any, labels: Any, what: str) -> Split:
        found, _ = _flat(values, f"{name}: the {what} data")
        if found.shape[1] != spins.shape[1]:
            raise InputError(
                f"{name}: training and {what} data must agree on the number of pixels, they have "
                f"{spins.shape[1]} and {found.shape[1]}"
            )
        return Split.owning(found, None if labels is None else as_labels(labels), known)

    third = None if valid is None else other(valid, valid_labels, "validation")
    labels = None if train_labels is None else as_labels(train_labels)
    if test is None:
        return replace(divided(name, spins, labels, shape, seed), valid=third)
    held = other(test, test_labels, "test")
    return Dataset(name, Split.owning(spins, labels, known), held, shape, third)


def from_file(
    path: str | Path,
    *,
    seed: Annotated[int | None, SPLIT_SEED] = None,
    valid: float | None = None,
) -> Dataset:
    """A data set from a file; of the training data a share `valid` is held out to validate.

    `.npy`: samples. `.npz` and `.h5`: `samples` and `labels`, or `train`, `test`, `train_labels`,
    `test_labels`; either way a `valid` with `valid_labels` is kept, and a warning names what is not
    read. `.csv`, `.tsv`, `.txt` and `.data`: a row per sample, without labels; a first line may hold the
    names of the columns.
    """
    path = Path(path)
    known, ending = (*READERS, *ENDINGS), path.suffix.lower()
    if ending not in known:
        raise InputError(
            f"{path} has the ending {path.suffix!r}, known are {', '.join(known)}; convert it"
        )
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    if ending in ENDINGS:
        values, names = read_table(path)
        data = from_arrays(values, name=path.stem, seed=seed or 0)
        if names:  # a table, though there may be as many columns as a square has pixels
            data = replace(data, shape=(1, len(names)), columns=names)
    else:
        data = from_named(path, READERS[ending](path), seed=seed, seeded=valid is not None)
    return data if valid is None else held_out(data, valid, seed or 0)


def from_named(path: Path, arrays: Arrays, *, seed: int | None = None, seeded: bool = False) -> Dataset:
    """A data set from the arrays of a file, those that it knows; `seeded` says that the seed has a use
    beside the split."""
    whole = "train" in arrays and "test" in arrays
    parts = ("train", "test", "valid") if whole else ("samples", "valid")
    names = [name for part in parts for name in (part, labels_of(part))]
    if not whole and "samples" not in arrays:
        raise InputError(
            f"{path} must hold 'samples' (and optionally 'labels'), or 'train' and 'test'; "
            f"it holds {', '.join(map(repr, list(arrays)[:20])) or 'nothing'}"
        )
    if left := sorted(set(arrays) - set(names)):
        warnings.warn(
            f"{path} also holds {', '.join(map(repr, left[:20]))}, which nobody reads; of a file with "
            f"{parts[0]!r} are read {', '.join(sorted(names))}: rename or leave them out",
            DataWarning,
            stacklevel=3,
        )
    found = {name: arrays[name]() for name in names if name in arrays}
    if whole:
        if seed is not None and not seeded:
            raise InputError(f"{path} holds its own split, there is nothing to seed; leave it out")
        return from_arrays(
            found["train"],
            found["test"],
            found.get("valid"),
            train_labels=found.get("train_labels"),
            test_labels=found.get("test_labels"),
            valid_labels=found.get("valid_labels"),
            name=path.stem,
        )
    return from_arrays(
        found["samples"],
        valid=found.get("valid"),
        train_labels=found.get("labels"),
        valid_labels=found.get("valid_labels"),
        name=path.stem,
        seed=seed or 0,
    )


def labels_of(part: str) -> str:
    return "labels" if part == "samples" else f"{part}_labels"


# -- readers: names of arrays, and what reads each ----------------------------------------------------


def numpy_arrays(path: Path) -> Arrays:
    """The arrays of a .npy or .npz file; nothing is unpacked before it is asked for."""
    with reading(path, "a NumPy file", NUMPY_REMEDY), path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return {"samples": partial(_npy, path)}
        members = zipfile.ZipFile(file).infolist()
        if len(members) > MEMBERS:
            raise ValueError(f"it holds {len(members)} arrays, more than {MEMBERS}")
    return {member.filename.removesuffix(".npy"): partial(_npz, path, member) for member in members}


def _npy(path: Path) -> Array:
    with reading(path, "a NumPy file", NUMPY_REMEDY), _no_warnings():
        # Mapped, not read: the header's claim is held against the size of the file.
        return _of_numbers(np.load(path, mmap_mode="r", allow_pickle=False))


def _npz(path: Path, member: zipfile.ZipInfo) -> Array:
    with reading(path, "a NumPy file", NUMPY_REMEDY), _no_warnings(), zipfile.ZipFile(path) as file:
        _check_unpacked(member.filename, member.file_size, member.compress_size)
        with file.open(member) as packed:
            return _of_numbers(np.lib.format.read_array(packed, allow_pickle=False))


def _check_unpacked(name: str, size: int, packed: int) -> None:
    if size > RATIO * packed + 1024:
        raise ValueError(f"{name!r} claims {size:,} bytes, and most of them are not in the file")
    if size > room():
        raise ValueError(f"{name!r} takes {size:,} bytes, more than half of this machine's memory")


def _of_numbers(array: Any) -> Array:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"it holds {array.dtype}, not numbers or booleans")
    return array  # type: ignore[no-any-return]


@contextmanager
def _no_warnings() -> Iterator[None]:
    """A damaged header makes NumPy warn before it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _hdf5(path: Path) -> Arrays:
    """The arrays that a data set may have."""
    return hdf5_arrays(path, [name for part in PARTS for name in (part, labels_of(part))])


def hdf5_arrays(path: Path, names: Sequence[str]) -> Arrays:
    """The arrays of these names that are there, read by a process of their own (`hdf5_child`)."""
    require("h5py", f"reading {path}")
    with reading(path, "HDF5", "it may be truncated; write it again"):
        memory = min(room(), RATIO * path.stat().st_size)
        command = [sys.executable, "-P", hdf5_child.__file__, str(path), str(memory), *names]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        ) as child:
            late = threading.Timer(60 + memory / 2**24, child.kill)
            late.start()
            try:
                return answer(child)
            finally:
                late.cancel()
                child.kill()


def answer(child: subprocess.Popen[bytes]) -> Arrays:
    """What the child tells of one file."""
    told_by = cast(io.BufferedReader, child.stdout)
    line = told_by.readline()
    if not line.endswith(b"\n"):
        raise ValueError("the HDF5 library cannot cope with it")
    told = json.loads(line)
    if "error" in told:
        raise ValueError(told["error"])
    arrays: dict[str, Callable[[], Array]] = {}
    for name, (dtype, shape) in told["arrays"].items():
        array = np.empty(shape, dtype)
        if told_by.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
            raise ValueError("the HDF5 library cannot cope with it")
        arrays[name] = partial(np.asarray, array)
    for name in told["left"]:
        arrays.setdefault(name, _nobody)
    return arrays


def _nobody() -> Array:
    raise AssertionError("nobody reads this array")


def room() -> int:
    """Bytes that data may take: half of this machine's memory."""
    return int(min(memory_of("cpu"), 2**45)) // 2


def _flat(values: Any, what: str) -> tuple[Tensor, tuple[int, int]]:
    spins = to_spins(values, what=what)
    if spins.dim() not in (2, 3):
        raise InputError(
            f"{what} must be (samples, pixels) or (samples, rows, columns), not {tuple(spins.shape)}"
        )
    if spins.dim() == 3:
        return spins.flatten(1), (spins.shape[1], spins.shape[2])
    side = math.isqrt(spins.shape[1])
    return spins, (side, side) if side * side == spins.shape[1] else (1, spins.shape[1])


READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": numpy_arrays,
    ".npz": numpy_arrays,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
}
