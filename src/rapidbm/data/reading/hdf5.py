"""Arrays of an HDF5 file, for `child`.

Only arrays that lie in the file itself count: links, external storage and virtual arrays would open other
files. A name may be a path, group/name; text:name is a word, as bytes; who asks for / is told the groups,
too, each with a / at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import numpy
from child import Found, check_chunk, in_file, rows_at_once  # type: ignore[import-not-found]

TEXT = "text:"


@contextmanager
def opened(path: str, names: list[str]) -> Iterator[Any]:
    with h5py.File(path, "r", locking=False) as file:
        there = {name: found_at(file, name) for name in names if name != "/"}
        arrays = {name: checked(found, name) for name, found in there.items() if found is not None}
        kinds = {
            name: file.get(name, getclass=True)
            for name in file
            if isinstance(file.get(name, getlink=True), h5py.HardLink)
        }
        left = [name for name, kind in kinds.items() if kind is h5py.Dataset and name not in names]
        if "/" in names:
            left += [f"{name}/" for name, kind in kinds.items() if kind is h5py.Group]
        told = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
        yield Found(told, left, [], lambda name: blocks(arrays[name]))


def found_at(file: Any, name: str) -> Any:
    """What lies at a path, None if nothing does; no link is followed on the way."""
    for part in name.removeprefix(TEXT).split("/"):
        if not isinstance(file, h5py.Group) or part not in file.keys():  # noqa: SIM118
            return None
        if not isinstance(file.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{part!r} is a link, and links are not followed; copy the array itself")
        file = file[part]
    return file


def checked(found: Any, name: str) -> Any:
    """An array of numbers in the file; of a word its bytes."""
    if not isinstance(found, h5py.Dataset):
        raise ValueError(f"{name!r} is no array")
    if found.is_virtual or found.external:
        raise ValueError(f"{name!r} lies in other files, which are not read; copy it into this one")
    if name.startswith(TEXT):
        if found.shape != () or h5py.check_string_dtype(found.dtype) is None:
            raise ValueError(f"{name!r} is no word")
        return numpy.frombuffer(bytes(found[()])[:200], numpy.uint8)
    if found.dtype.kind not in "biuf" or found.dtype.itemsize > 8:
        raise ValueError(f"{name!r} holds {found.dtype}, not numbers or booleans")
    in_file(name, found.size * found.dtype.itemsize, found.id.get_storage_size())
    check_chunk(found.chunks or (), found.dtype.itemsize, found.size * found.dtype.itemsize)
    if found.shape:
        rows_at_once(found.shape, found.dtype.itemsize, found.chunks and found.chunks[0])
    return found


def blocks(found: Any) -> Iterator[Any]:
    if not found.shape or isinstance(found, numpy.ndarray):
        yield numpy.asarray(found[()])
        return
    step = rows_at_once(found.shape, found.dtype.itemsize, found.chunks and found.chunks[0])
    for start in range(0, found.shape[0], step):
        yield found[start : start + step]
