"""Data sets from arrays and files. Nothing is ever unpickled.

Files of up to `LARGE` spins are read into memory, larger ones stay on disk (`stored`); `stream` says
otherwise. Rows of `.npy` and of packed files are read where they lie, those of other files from a packed
copy (`converted`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from torch import Tensor

from ..arrays import as_labels
from ..errors import DataWarning, InputError
from ..machines.spins import to_spins
from .converted import cached, shape_of, used
from .packed import ENDING, Packed
from .sources import LIBRARIES, Arrays, Npy, Source, labels_of, opened
from .splits import SPLIT_SEED, TEST_SHARE, Dataset, Split, divided, held_out, top_half
from .stored import NumpyRows, PackedRows, Piece, Rows, Stored
from .tables import ENDINGS, read_table

FOLDERS = (".zarr", ".parquet")  # endings of files that may be folders
LARGE = 2**31  # spins from which on a file stays on disk
READERS = (".npy", ".npz", *LIBRARIES, ENDING)  # endings of files with named arrays


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
    stream: bool | None = None,
) -> Dataset:
    """A data set from a file; of the training data a share `valid` is held out to validate.

    `.npy`: samples. `.npz`, `.h5`, `.zarr` and `.spins`: `samples` and `labels`, or `train`, `test`,
    `train_labels`, `test_labels`; either way a `valid` with `valid_labels` is kept, and a warning names
    what is not read. `.parquet`: a column per spin, or lists in `samples`; `labels`. `.csv`, `.tsv`,
    `.txt` and `.data`: a row per sample, without labels; a first line may hold the names of the columns.
    `stream` leaves the rows on disk, by default those of 2^31 spins or more.
    """
    path = Path(path)
    known, ending = (*READERS, *ENDINGS), path.suffix.lower()
    if ending not in known:
        raise InputError(
            f"{path} has the ending {path.suffix!r}, known are {', '.join(known)}; convert it"
        )
    if not (path.is_file() or (path.is_dir() and ending in FOLDERS)):
        raise InputError(f"there is no file {path}; check the path")
    if ending in ENDINGS:
        if stream:
            raise InputError(
                f"a table of text is read as a whole; pack it to leave it on disk: rapidbm pack {path} "
                f"{path.stem}{ENDING}"
            )
        values, names = read_table(path)
        data = from_arrays(values, name=path.stem, seed=seed or 0)
        if names:  # a table, though there may be as many columns as a square has pixels
            data = replace(data, shape=(1, len(names)), columns=names)
    else:
        with _source(path) as source:
            if source.claims and _stays(source, stream):
                data = on_disk(path, source, seed=seed, seeded=valid is not None)
            else:
                data = from_named(path, source.arrays(), seed=seed, seeded=valid is not None)
            if source.columns:
                data = replace(data, shape=(1, data.visible), columns=source.columns)
    return data if valid is None else held_out(data, valid, seed or 0)


@contextmanager
def _source(path: Path) -> Iterator[Source]:
    if path.suffix.lower() == ENDING:
        yield Packed(path)
        return
    with opened(path) as source:
        yield source


def _stays(source: Source, stream: bool | None) -> bool:
    """Whether rows stay on disk."""
    if stream is not None:
        return stream
    return max(math.prod(claim.shape) for claim in source.claims.values()) >= LARGE


def on_disk(path: Path, source: Source, *, seed: int | None = None, seeded: bool = False) -> Dataset:
    """The data set of a file whose rows stay there, or in a packed copy."""
    whole = _told(path, source.arrays(), seed=seed, seeded=seeded)
    names = used(source)
    found: dict[str, Rows]
    if isinstance(source, Npy) and source.by_rows:
        found, shape = {"samples": NumpyRows(source)}, shape_of(source.claims["samples"].shape[1:])
    else:
        file = source if isinstance(source, Packed) else cached(path, source)
        found, shape = {name: PackedRows(file, name) for name in names}, file.shape
    known = top_half(shape)
    parts = {name: Stored([Piece(rows)], known) for name, rows in found.items()}
    if whole:
        return Dataset(path.stem, parts["train"], parts["test"], shape, parts.get("valid"))
    rest, held = parts["samples"].parted("split", seed or 0, TEST_SHARE)
    return Dataset(path.stem, rest, held, shape, parts.get("valid"), undivided=parts["samples"])


def _names(arrays: Arrays) -> tuple[bool, list[str]]:
    """Whether a file has a split of its own, and the arrays that are read of such a file."""
    whole = "train" in arrays and "test" in arrays
    parts = ("train", "test", "valid") if whole else ("samples", "valid")
    return whole, [name for part in parts for name in (part, labels_of(part))]


def _told(path: Path, arrays: Arrays, *, seed: int | None, seeded: bool) -> bool:
    """Whether a file has a split of its own; says what is missing and what nobody reads."""
    whole, names = _names(arrays)
    if not whole and "samples" not in arrays:
        raise InputError(
            f"{path} must hold 'samples' (and optionally 'labels'), or 'train' and 'test'; "
            f"it holds {', '.join(map(repr, list(arrays)[:20])) or 'nothing'}"
        )
    if left := sorted(set(arrays) - set(names)):
        warnings.warn(
            f"{path} also holds {', '.join(map(repr, left[:20]))}, which nobody reads; of a file with "
            f"{names[0]!r} are read {', '.join(sorted(names))}: rename or leave them out",
            DataWarning,
            stacklevel=4,
        )
    if whole and seed is not None and not seeded:
        raise InputError(f"{path} holds its own split, there is nothing to seed; leave it out")
    return whole


def from_named(path: Path, arrays: Arrays, *, seed: int | None = None, seeded: bool = False) -> Dataset:
    """A data set from the arrays of a file, those that it knows; `seeded` says that the seed has a use
    beside the split."""
    whole = _told(path, arrays, seed=seed, seeded=seeded)
    found = {name: arrays[name]() for name in _names(arrays)[1] if name in arrays}
    if whole:
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


def _flat(values: Any, what: str) -> tuple[Tensor, tuple[int, int]]:
    spins = to_spins(values, what=what)
    if spins.dim() not in (2, 3):
        raise InputError(
            f"{what} must be (samples, pixels) or (samples, rows, columns), not {tuple(spins.shape)}"
        )
    return spins.flatten(1), shape_of(tuple(spins.shape[1:]))
