"""Data sets from arrays and files. Nothing is ever unpickled."""

from __future__ import annotations

import math
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from .arrays import as_labels
from .errors import DataWarning, InputError
from .spins import to_spins
from .splits import Dataset, Split, divided, top_half


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


def from_file(path: str | Path, *, seed: int | None = None) -> Dataset:
    """A data set from a file.

    `.npy`: samples. `.npz` and `.h5`: `samples` and `labels`, or `train`, `test`, `train_labels`,
    `test_labels`; either way a `valid` with `valid_labels` is kept, and a warning names what is not
    read. `.csv`: a row per sample, without labels; a first line of names is passed over.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".npy": read_numpy,
        ".npz": read_numpy,
        ".csv": _csv,
        ".h5": _hdf5,
        ".hdf5": _hdf5,
    }
    if path.suffix not in readers:
        raise InputError(
            f"{path} has the ending {path.suffix!r}, known are {', '.join(readers)}; convert it"
        )
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    found = readers[path.suffix](path)
    whole = "train" in found and "test" in found
    parts = ("train", "test", "valid") if whole else ("samples", "valid")
    read = {key for part in parts for key in (part, _labels_of(part))}
    if (whole or "samples" in found) and (left := sorted(set(found) - read)):
        warnings.warn(
            f"{path} also holds {', '.join(map(repr, left))}, which nobody reads; of a file with "
            f"{parts[0]!r} are read {', '.join(sorted(read))}: rename or leave them out",
            DataWarning,
            stacklevel=2,
        )
    if whole:
        if seed is not None:
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
    if "samples" not in found:
        raise InputError(
            f"{path} must hold 'samples' (and optionally 'labels'), or 'train' and 'test'; "
            f"it holds {', '.join(map(repr, found)) or 'nothing'}"
        )
    return from_arrays(
        found["samples"],
        valid=found.get("valid"),
        train_labels=found.get("labels"),
        valid_labels=found.get("valid_labels"),
        name=path.stem,
        seed=seed or 0,
    )


def _labels_of(part: str) -> str:
    return "labels" if part == "samples" else f"{part}_labels"


def read_numpy(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"samples": loaded}
            return {key: loaded[key] for key in loaded.files}
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InputError(
            f"{path} cannot be read as a NumPy file: {error}; it may be truncated, or hold objects, "
            "which are never unpickled; write it again with numpy.save"
        ) from error


def _csv(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}; check its permissions") from error
    cells: list[list[float]] = []
    for number, line in enumerate(line for line in lines if line.strip()):
        try:
            cells.append([float(cell) for cell in line.split(",")])
        except ValueError as error:
            if number:  # the first line may hold the names of the columns
                raise InputError(f"{path} must hold numbers between commas: {error}") from error
    if not cells:
        raise InputError(f"{path} holds no row of numbers; write one row per sample")
    widths = sorted({len(row) for row in cells})
    if len(widths) > 1:
        raise InputError(
            f"{path} must have the same number of columns in every row, it has {widths} "
            "(truncated?); mend the file"
        )
    return {"samples": np.array(cells)}


def _hdf5(path: Path) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            f"reading {path} needs h5py, which is not installed: pip install 'rapidbm[hdf5]'"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            return {key: file[key][()] for key in file if isinstance(file[key], h5py.Dataset)}
    except OSError as error:
        raise InputError(f"{path} cannot be read as HDF5: {error}; is it truncated?") from error


def _flat(values: Any, what: str) -> tuple[Tensor, tuple[int, int]]:
    spins = to_spins(values, what=what)
    if spins.dim() not in (2, 3):
        raise InputError(
            f"{what} must be (samples, pixels) or (samples, rows, columns), not "
            f"{tuple(spins.shape)}"
        )
    if spins.dim() == 3:
        return spins.flatten(1), (spins.shape[1], spins.shape[2])
    side = math.isqrt(spins.shape[1])
    return spins, (side, side) if side * side == spins.shape[1] else (1, spins.shape[1])
