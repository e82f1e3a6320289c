"""Data sets from arrays and files. Nothing is ever unpickled.

Files of up to `LARGE` spins are read into memory, larger ones stay on disk (`stored`); `stream` says
otherwise. Rows of `.npy` and of packed files are read where they lie, those of other files from a packed
copy (`converted`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from torch import Tensor

from ..accel.memory import check_room
from ..arrays import as_labels, as_tensor
from ..errors import DataWarning, InputError, check_count
from ..machines.layers import Layers
from ..machines.spins import to_spins
from ..machines.units.unit import Unit
from . import sequences
from .converted import cached, shape_of, used
from .labelled import OF_LABEL, with_labels
from .mixed import AS_UNITS, OVERRIDES, REALS, from_table, overrides_of
from .packed import ENDING, Packed
from .sources import LIBRARIES, PARTS, Arrays, Npy, Source, labels_of, opened
from .splits import SPLIT_SEED, TEST_SHARE, Dataset, Split, divided, held_out, top_half
from .stored import NumpyRows, PackedRows, Piece, RowReader, Stored
from .tables import ENDINGS, has_names, read_table
from .weights import NONE, OF_ROWS, is_weights_file, read_weights, weighted

TABLES = (".gz", ".feather", ".arrow")  # endings of files that are tables of any kind
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
    units: Unit | Sequence[tuple[int, Unit]] | None = None,
) -> Dataset:
    """A data set from arrays.

    Parameters
    ----------
    train : array of shape (samples, columns) or (samples, rows, columns)
        Training rows: {0, 1}, booleans or ±1.
    test : array, optional
        Test rows; without it a fifth of `train`, drawn by `seed`, is set aside.
    valid : array, optional
        Rows to choose by: measured like `test`, never trained on.
    train_labels : array of shape (samples,), optional
        Labels of the training rows.
    test_labels : array of shape (samples,), optional
        Labels of the test rows.
    valid_labels : array of shape (samples,), optional
        Labels of the validation rows.
    name : str, default "array"
        Name of the data set.
    seed : int, default 0
        Seed of the split.
    units : Unit or sequence of (int, Unit), optional
        The kind of the units, where they are not spins, such as `rb.Categorical(21)` for codes 0 … 20;
        of several kinds the number of columns of each, one after the other, and the kind.

    Returns
    -------
    Dataset
        Rows as spins ±1, or as columns of the units.

    Raises
    ------
    InputError
        If an array has other values than those, or shapes do not agree.

    Examples
    --------
    >>> data = rb.from_arrays([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]])
    >>> len(data.train), len(data.test)
    (4, 1)
    """
    given = {"train": train, "test": test, "valid": valid}
    labels = {"train": train_labels, "test": test_labels, "valid": valid_labels}
    arrays = {
        part: [values].pop for part, values in given.items() if part == "train" or values is not None
    }
    named = {part: [values].pop for part, values in labels.items() if values is not None}
    layers = None if units is None else _visible_layers(train, units)
    return _from_parts(arrays, named, name=name, seed=seed, units=layers)


def _visible_layers(train: Any, units: Unit | Sequence[tuple[int, Unit]]) -> Layers:
    """The visible layers of rows whose units are of these kinds."""
    if isinstance(units, Unit):
        given = as_tensor(train, what="the training data")
        units = [(given.shape[-1] if given.dim() else 0, units)]
    pairs: list[Any] = [tuple(pair) if isinstance(pair, list | tuple) else () for pair in units]
    if not pairs or any(len(pair) != 2 or not isinstance(pair[1], Unit) for pair in pairs):
        raise InputError(
            "units are a kind, such as rb.Gaussian(), or pairs of a number of columns and a kind, "
            f"(3, rb.Spin()), not {units!r}"
        )
    for count, _ in pairs:
        check_count("the number of units of a kind", count)
    kinds = tuple(kind for _, kind in pairs)
    sizes = tuple(kind.columns(count) for count, kind in pairs)
    return Layers(sizes, (), kinds, len(kinds))


def _from_parts(
    parts: Mapping[str, Callable[[], Any]],
    labels: Mapping[str, Callable[[], Any]],
    *,
    name: str,
    seed: int,
    units: Layers | None = None,
) -> Dataset:
    """A data set of the parts train, test and valid, each asked for when its turn comes, and not kept
    beside its spins."""
    spins, shape = _flat(parts["train"](), f"{name}: the training data", units)
    known = top_half(shape) if units is None else None

    def labels_of_part(part: str) -> Tensor | None:
        return as_labels(labels[part]()) if part in labels else None

    def other(part: str, what: str) -> Split | None:
        if part not in parts:
            return None
        found, _ = _flat(parts[part](), f"{name}: the {what} data", units)
        if found.shape[1] != spins.shape[1]:
            raise InputError(
                f"{name}: training and {what} data must agree on the number of pixels, they have "
                f"{spins.shape[1]} and {found.shape[1]}"
            )
        return Split.owning(found, labels_of_part(part), known)

    third = other("valid", "validation")
    train_labels = labels_of_part("train")
    held = other("test", "test")
    if held is None:
        whole = Split.owning(spins, train_labels, known)
        return replace(divided(name, whole, shape, seed), valid=third, units=units)
    return Dataset(name, Split.owning(spins, train_labels, known), held, shape, third, units=units)


def from_file(
    path: str | Path,
    *,
    seed: Annotated[int | None, SPLIT_SEED] = None,
    columns: Annotated[str | None, OVERRIDES] = None,
    reals: Annotated[str | None, AS_UNITS] = None,
    alphabet: Annotated[str | None, sequences.OF_ALPHABET] = None,
    identity: Annotated[float | None, sequences.OF_IDENTITY] = None,
    weights: Annotated[str | None, OF_ROWS] = None,
    labels: Annotated[str | None, OF_LABEL] = None,
    valid: float | None = None,
    stream: bool | None = None,
) -> Dataset:
    """A data set from a file; of the training data a share `valid` is held out to validate.

    `.npy`: samples. `.npz`, `.h5`, `.zarr` and `.spins`: `samples` and `labels`, or `train`, `test`,
    `train_labels`, `test_labels`; either way a `valid` with `valid_labels` is kept, and a warning names
    what is not read. `.parquet`: a column per spin, or lists in `samples`; `labels`. `.csv`, `.tsv`,
    `.txt` and `.data`: a row per sample, without labels; a first line may hold the names of the columns.
    `.fasta`, `.a2m`, `.sto` and the like hold aligned sequences, which are divided by identity.
    `stream` leaves the rows on disk, by default those of 2^31 spins or more. `weights` is a file with a
    number for each row, or of a table the name of a column, which is then no unit. `labels` marks the
    column of a table that is predicted; labels of other files become one more unit.
    """
    path = Path(path)
    known, ending = (*READERS, *ENDINGS, *TABLES, *sequences.ENDINGS), path.suffix.lower()
    if ending not in known:
        raise InputError(
            f"{path} has the ending {path.suffix!r}, known are {', '.join(known)}; convert it"
        )
    if not (path.is_file() or (path.is_dir() and ending in FOLDERS)):
        raise InputError(f"there is no file {path}; check the path")
    if sequences.is_alignment(path):
        if columns is not None or reals is not None or stream:
            raise InputError(
                f"{path} holds sequences, which have no columns of a table and are read as a whole; "
                "leave --columns, --reals and --stream out"
            )
        if labels is not None:
            raise InputError(f"{path} holds sequences, which have no labels; leave --labels out")
        how: Any = {"alphabet": alphabet, "identity": identity, "weights": weights}
        return sequences.of_file(path, seed=seed or 0, valid=valid, **how)
    if alphabet is not None or identity is not None:
        raise InputError(
            f"{path} is no alignment ({', '.join(sequences.ENDINGS)}); leave alphabet and identity out"
        )
    weights = None if weights == NONE else weights
    column = None if is_weights_file(weights) else weights
    if column is not None and ending in READERS and ending != ".parquet":
        raise InputError(
            f"there is no file of weights {column!r}, and {path} has no columns with names; check the "
            "path"
        )
    of_table = ending in TABLES or ending in ENDINGS or ending == ".parquet"
    asked = columns is not None or reals is not None or column is not None
    if ending in TABLES or asked or (of_table and labels is not None):
        data = _mixed(path, seed, columns, reals, column, labels)
    elif ending in ENDINGS:
        if stream:
            raise InputError(
                f"a table of text is read as a whole; pack it to leave it on disk: rapidbm pack {path} "
                f"{path.stem}{ENDING}"
            )
        try:
            values, names = read_table(path)
        except InputError as error:
            data, values, names = _mixed_instead(path, seed, error), None, ()
        rows = [values]
        del values  # kept by nobody beside its spins
        if rows[0] is not None:
            data = _from_parts({"train": rows.pop}, {}, name=path.stem, seed=seed or 0)
        if names:  # a table, though there may be as many columns as a square has pixels
            data = replace(data, shape=(1, len(names)), columns=names)
    else:
        try:
            data = _from_source(path, seed, valid is not None, stream)
        except InputError as error:
            if ending != ".parquet" or stream or path.is_dir():
                raise
            data = _mixed_parquet(path, seed, error)
    if labels is not None and not of_table:
        data = with_labels(data)
    if weights is not None and column is None:
        data = weighted(data, read_weights(weights), told=f"weights of {Path(weights).name}")
    return data if valid is None else held_out(data, valid, seed or 0)


def _from_source(path: Path, seed: int | None, seeded: bool, stream: bool | None) -> Dataset:
    """The spins of a file of arrays."""
    with _source(path) as source:
        if source.claims and _stays(source, stream):
            data = on_disk(path, source, seed=seed, seeded=seeded)
        else:
            _check_fits(path, source)
            data = from_named(path, source.arrays(), seed=seed, seeded=seeded)
        if source.columns:
            data = replace(data, shape=(1, data.visible), columns=source.columns)
    return data


def _mixed(
    path: Path,
    seed: int | None,
    columns: str | None,
    reals: str | None,
    weights: str | None = None,
    labels: str | None = None,
) -> Dataset:
    """A table of columns of any kind."""
    return from_table(
        path,
        name=Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem,
        seed=seed or 0,
        columns=overrides_of(columns),
        reals=reals or REALS[0],
        weights=weights,
        labels=labels,
    )


def _mixed_instead(path: Path, seed: int | None, error: InputError) -> Dataset:
    """A table of text that is not one of two values; where its first line names no columns, or it is no
    table of any kind, the error stands."""
    if not has_names(path):
        raise error
    return _mixed(path, seed, None, None)


def _mixed_parquet(path: Path, seed: int | None, error: InputError) -> Dataset:
    """The same of Parquet that holds no spins; where it has samples or labels by name, or is no table of
    any kind either, the error stands."""
    try:
        data = _mixed(path, seed, None, None)
    except InputError:
        raise error from None
    if {"samples", "labels"} & set(data.columns):
        raise error
    return data


def _check_fits(path: Path, source: Source) -> None:
    """Refuses, before anything is unpacked, what the memory does not hold: the largest array as the file
    has it, and all values as spins, before and after they are divided."""
    read = {name: source.claims[name] for name in _names(source.claims)[1] if name in source.claims}
    need = 0 if isinstance(source, Npy) else max((claim.size for claim in read.values()), default=0)
    for name, claim in read.items():
        rows = claim.shape[0] if claim.shape else 1
        need += 2 * math.prod(claim.shape) + 16 * rows if name in PARTS else 24 * rows
    check_room(
        f"reading {path}",
        need,
        size=1,
        remedy="free some, or leave its rows on disk (stream=True, --stream)",
        free=True,
    )


def check_unpacked(path: Path, largest: int) -> None:
    """Refuses a file of arrays that unpack to more than so many bytes, by what their headers say."""
    if path.suffix.lower() in ENDINGS:  # text: what it says is not larger than it is
        return
    with _source(path) as source:
        size = sum(claim.size for claim in source.claims.values())
    if size > largest:
        raise InputError(
            f"{path.name} unpacks to {size:,} bytes, more than {largest:,}; train it by the command"
        )


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
    whole = _has_own_split(path, source.arrays(), seed=seed, seeded=seeded)
    names = used(source)
    found: dict[str, RowReader]
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


def _names(arrays: Collection[str]) -> tuple[bool, list[str]]:
    """Whether a file has a split of its own, and the arrays that are read of such a file."""
    whole = "train" in arrays and "test" in arrays
    parts = ("train", "test", "valid") if whole else ("samples", "valid")
    return whole, [name for part in parts for name in (part, labels_of(part))]


def _has_own_split(path: Path, arrays: Arrays, *, seed: int | None, seeded: bool) -> bool:
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
    whole = _has_own_split(path, arrays, seed=seed, seeded=seeded)
    names = {"train": "train", "test": "test"} if whole else {"train": "samples"}
    names["valid"] = "valid"
    parts = {part: arrays[name] for part, name in names.items() if name in arrays}
    labels = {part: arrays[labels_of(name)] for part, name in names.items() if labels_of(name) in arrays}
    return _from_parts(parts, labels, name=path.stem, seed=0 if whole else seed or 0)


def _flat(values: Any, what: str, units: Layers | None = None) -> tuple[Tensor, tuple[int, int]]:
    """Rows of spins, or of the columns of other units, and their shape as images."""
    if units is not None:
        columns = units.encode(values, what=what)
        if columns.dim() != 2:
            raise InputError(f"{what} must be (samples, units), not {tuple(columns.shape)}")
        return columns, (1, columns.shape[1])
    spins = to_spins(values, what=what)
    if spins.dim() not in (2, 3):
        raise InputError(
            f"{what} must be (samples, pixels) or (samples, rows, columns), not {tuple(spins.shape)}"
        )
    return spins.flatten(1), shape_of(tuple(spins.shape[1:]))
