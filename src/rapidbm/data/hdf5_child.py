"""Reads arrays of an HDF5 file and writes them to standard output: a program of its own, run by `files`.

A damaged file can make the HDF5 library crash, hang or ask for all memory, so that it is read outside the
process that wants it, under limits. Only arrays that lie in the file itself count: links, external
storage and virtual arrays would open other files.

    python hdf5_child.py FILE MEMORY NAME…  →  a line of JSON, then the bytes of every array

The line is {"arrays": {name: [dtype, shape]}, "left": names that nobody asked for}, or {"error": words}.
A name may be a path, group/name; text:name is a word, as bytes; who asks for / is told the groups, too,
each with a / at its end. It imports nothing of rapidbm.
"""

from __future__ import annotations

import json
import sys
from typing import Any

RATIO = 1100  # deflate packs no more into one byte; what is larger is not in the file
TEXT = "text:"


def limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # a system without it
        return
    seconds = 3 + memory // 2**24
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    space = 2**29 + 2 * memory
    resource.setrlimit(resource.RLIMIT_AS, (space, space))


def found_at(file: Any, name: str) -> Any:
    """What lies at a path, None if nothing does; no link is followed on the way."""
    import h5py

    for part in name.removeprefix(TEXT).split("/"):
        if not isinstance(file, h5py.Group) or part not in file.keys():  # noqa: SIM118
            return None
        if not isinstance(file.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{part!r} is a link, and links are not followed; copy the array itself")
        file = file[part]
    return file


def array(found: Any, name: str, memory: int) -> Any:
    import h5py
    import numpy

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
    size = found.size * found.dtype.itemsize
    if size > memory:
        raise ValueError(f"{name!r} takes {size:,} bytes, more than there is room for")
    if size > RATIO * found.id.get_storage_size():
        raise ValueError(f"{name!r} claims {size:,} bytes, and most of them are not in the file")
    return found[()]


def main(path: str, memory: int, names: list[str]) -> None:
    out = sys.stdout.buffer
    try:
        import h5py

        limit(memory)
        with h5py.File(path, "r", locking=False) as file:
            there = {name: found_at(file, name) for name in names if name != "/"}
            arrays = {
                name: array(found, name, memory) for name, found in there.items() if found is not None
            }
            kinds = {
                name: file.get(name, getclass=True)
                for name in file
                if isinstance(file.get(name, getlink=True), h5py.HardLink)
            }
            left = [name for name, kind in kinds.items() if kind is h5py.Dataset and name not in names]
            if "/" in names:
                left += [f"{name}/" for name, kind in kinds.items() if kind is h5py.Group]
    except Exception as error:
        out.write(json.dumps({"error": f"{error}" or type(error).__name__}).encode() + b"\n")
        return
    told = {name: [a.dtype.str, a.shape] for name, a in arrays.items()}
    out.write(json.dumps({"arrays": told, "left": left}).encode() + b"\n")
    for a in arrays.values():
        out.write(a.tobytes() if a.ndim == 0 else memoryview(a).cast("B") if a.size else b"")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
