"""Arrays of a file by their names: whole, or some rows at a time. Nothing is ever unpickled.

What a file claims is held against its own size before memory is taken. NumPy's files are read here; HDF5,
Zarr and Parquet, which C libraries read, by a process of their own (`reading`).
"""

from __future__ import annotations

import math
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..accel.memory import memory_of
from ..arrays import Array
from ..disk import Steady, reading
from ..errors import require
from .reading.child import RATIO
from .reading.parent import Child, Claim, reading_child

Arrays = Mapping[str, Callable[[], Array]]
PARTS = ("samples", "train", "test", "valid")
MEMBERS = 1000  # of a .npz
BLOCK = 2**22  # bytes that are read at a time
NUMPY_REMEDY = "it may be truncated, or hold objects, never unpickled; write it with numpy.save"
AGAIN = "it may be truncated; write it again"
LIBRARIES = {  # of an ending: the reader in `reading`, the kind of file, the module that reads it
    ".h5": ("hdf5", "HDF5", "h5py"),
    ".hdf5": ("hdf5", "HDF5", "h5py"),
    ".zarr": ("zarr_store", "Zarr", "zarr"),
    ".parquet": ("parquet", "Parquet", "pyarrow"),
}


class Source(ABC):
    """An open file and what it claims to hold."""

    claims: dict[str, Claim]  # arrays of the names that were asked for
    left: Sequence[str] = ()  # names of others
    columns: tuple[str, ...] = ()  # of a table

    @abstractmethod
    def array(self, name: str) -> Array:
        """All of an array."""

    @abstractmethod
    def blocks(self, name: str) -> Iterator[Array]:
        """Its rows in order, some at a time."""

    def arrays(self) -> Arrays:
        """What reads each of them."""
        found = {name: partial(self.array, name) for name in self.claims}
        return {**found, **{name: _nobody for name in self.left if name not in found}}


def _nobody() -> Array:
    raise AssertionError("nobody reads this array")


def labels_of(part: str) -> str:
    return "labels" if part == "samples" else f"{part}_labels"


NAMES = tuple(name for part in PARTS for name in (part, labels_of(part)))


def room() -> int:
    """Bytes that data may take: half of this machine's memory."""
    return int(min(memory_of("cpu"), 2**45)) // 2


@contextmanager
def opened(path: Path, names: Sequence[str] = NAMES) -> Iterator[Source]:
    """The source of a file with arrays of these names, by its ending."""
    ending = path.suffix.lower()
    if ending in LIBRARIES:
        with _by_child(path, names, *LIBRARIES[ending]) as source:
            yield source
    else:
        yield numpy_source(path, names)


# -- NumPy's own files --------------------------------------------------------------------------------


def numpy_source(path: Path, names: Sequence[str] = NAMES) -> Source:
    with reading(path, "a NumPy file", NUMPY_REMEDY), path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return Npy(path)
        members = zipfile.ZipFile(file).infolist()
        if len(members) > MEMBERS:
            raise ValueError(f"it holds {len(members)} arrays, more than {MEMBERS}")
    return Npz(path, {member.filename.removesuffix(".npy"): member for member in members}, names)


def numpy_arrays(path: Path) -> Arrays:
    """The arrays of a .npy or .npz file; nothing is unpacked before it is asked for."""
    source = numpy_source(path)
    names = source.claims if isinstance(source, Npy) else [*source.claims, *source.left]
    return {name: partial(source.array, name) for name in names}


class Npy(Source):
    """One array, `samples`: mapped, not read, so that the header's claim is held against the file's
    size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "a NumPy file", NUMPY_REMEDY), _no_warnings():
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
            _of_numbers(mapped)
            self.claims = {"samples": Claim(mapped.dtype, mapped.shape)}
            self.offset = int(mapped.offset)
            self.by_rows = bool(mapped.flags.c_contiguous)
            self.file = Steady(path)

    def array(self, name: str) -> Array:
        with reading(self.path, "a NumPy file", NUMPY_REMEDY), _no_warnings():
            return _of_numbers(np.load(self.path, mmap_mode="r", allow_pickle=False))

    def blocks(self, name: str) -> Iterator[Array]:
        claim = self.claims[name]
        step = rows_of(BLOCK, claim)
        for start in range(0, claim.shape[0], step):
            yield self.rows(start, min(start + step, claim.shape[0]))

    def rows(self, start: int, stop: int) -> Array:
        """Some rows."""
        dtype, shape = self.claims["samples"]
        width = math.prod(shape[1:]) * dtype.itemsize
        with reading(self.path, "a NumPy file", NUMPY_REMEDY):
            if not self.by_rows:
                raise ValueError("its columns lie one after the other (Fortran's order), not its rows")
            raw = self.file.read(self.offset + start * width, (stop - start) * width)
        return np.frombuffer(raw, dtype).reshape(-1, *shape[1:])


class Npz(Source):
    """The members of an archive."""

    def __init__(self, path: Path, members: dict[str, zipfile.ZipInfo], names: Sequence[str]) -> None:
        self.path, self.members = path, members
        self.left = [name for name in members if name not in names]
        self.claims = {}
        for name, member in members.items():
            if name in names:
                with self._open(name) as packed:
                    self.claims[name] = claim = _header(packed)[0]
                    there = member.file_size - packed.tell()
                    if claim.size != there:
                        raise ValueError(f"{name!r} claims {claim.size:,} bytes and has {there:,}")

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        with (
            reading(self.path, "a NumPy file", NUMPY_REMEDY),
            _no_warnings(),
            zipfile.ZipFile(self.path) as file,
        ):
            member = self.members[name]
            packed = min(member.compress_size, self.path.stat().st_size)  # it may claim more
            check_unpacked(member.filename, member.file_size, packed)
            with file.open(member) as member_file:
                yield member_file  # type: ignore[misc]

    def array(self, name: str) -> Array:
        with self._open(name) as packed:
            check_room(self.members[name].filename, self.members[name].file_size)
            return _of_numbers(np.lib.format.read_array(packed, allow_pickle=False))

    def blocks(self, name: str) -> Iterator[Array]:
        with self._open(name) as packed:
            claim, by_rows = _header(packed)
            if not by_rows:
                raise ValueError("its columns lie one after the other (Fortran's order), not its rows")
            step, width = rows_of(BLOCK, claim), math.prod(claim.shape[1:]) * claim.dtype.itemsize
            for start in range(0, claim.shape[0], step):
                count = min(step, claim.shape[0] - start)
                raw = packed.read(count * width)
                if len(raw) != count * width:
                    raise ValueError(f"{name!r} ends before row {start + count:,}")
                yield np.frombuffer(raw, claim.dtype).reshape(-1, *claim.shape[1:])


def _header(file: BinaryIO) -> tuple[Claim, bool]:
    """What an array says of itself, and whether its rows lie one after the other."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"it has the version {version} of NumPy's format")
    shape, columns_first, dtype = read[version](file)
    _of_numbers(np.empty(0, dtype))
    return Claim(dtype, shape), not columns_first or len(shape) < 2


def rows_of(size: int, claim: Claim) -> int:
    """Rows that take so many bytes, or one."""
    return max(1, size // max(1, math.prod(claim.shape[1:]) * claim.dtype.itemsize))


def check_unpacked(name: str, size: int, packed: int) -> None:
    if size > RATIO * packed + 1024:
        raise ValueError(f"{name!r} claims {size:,} bytes, and most of them are not in the file")


def check_room(name: str, size: int) -> None:
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


# -- what C libraries read ----------------------------------------------------------------------------


class Served(Source):
    """What a child tells of a file."""

    def __init__(self, path: Path, kind: str, child: Child) -> None:
        self.path, self.kind, self.child = path, kind, child
        self.claims, self.left, self.columns = child.claims, child.left, child.columns

    def array(self, name: str) -> Array:
        with reading(self.path, self.kind, AGAIN):
            check_room(name, self.claims[name].size)
            return self.child.array(name)

    def blocks(self, name: str) -> Iterator[Array]:
        with reading(self.path, self.kind, AGAIN):
            yield from self.child.blocks(name)


@contextmanager
def _by_child(path: Path, names: Sequence[str], reader: str, kind: str, module: str) -> Iterator[Source]:
    require(module, f"reading {path}")
    with reading(path, kind, AGAIN):
        context = reading_child(reader, path, names, kind)
        child = context.__enter__()
    try:
        yield Served(path, kind, child)
    finally:
        context.__exit__(None, None, None)


def hdf5_arrays(path: Path, names: Sequence[str]) -> Arrays:
    """The arrays of these names that are there."""
    with _by_child(path, names, *LIBRARIES[".h5"]) as source:
        found = {name: partial(np.asarray, source.array(name)) for name in source.claims}
        return {**found, **{name: _nobody for name in source.left if name not in found}}
