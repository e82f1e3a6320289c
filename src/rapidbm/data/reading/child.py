"""Reads arrays of a file with a C library, under limits, and writes them to standard output: a program of
its own, run by `parent`.

    python -P child.py KIND FILE MEMORY NAME…

The first line that it writes is {"arrays": {name: [dtype, shape]}, "left": names that nobody asked for,
"columns": names of the columns of a table}, or {"error": words}. Then it hears lines: the name of an
array, whose rows it writes in order and in blocks, each a `Block`, a last one of no bytes at the end. One
of −1 bytes is a line of JSON with an error in place of what is left. An empty line is the end.

A reader is a module beside this one with `opened(path, names)`, a context that gives a `Found`. It
imports nothing of rapidbm.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

RATIO = 1100  # deflate packs no more into one byte; what is larger is not in the file
LARGEST = 2**29  # bytes of a chunk of a file: what has to be unpacked at once
SMALL = 2**24  # bytes of a chunk that may be larger than its array
BLOCK = 2**22  # bytes that are written at a time, or one chunk
LENGTH = struct.Struct("<q")


class Found(NamedTuple):
    """What a file holds of what was asked for."""

    arrays: dict[str, tuple[str, tuple[int, ...]]]
    left: list[str]
    columns: list[str]
    blocks: Callable[[str], Iterator[Any]]  # arrays of numpy, rows in order


def limit(memory: int) -> None:
    """At most so many bytes beside what the libraries themselves take."""
    try:
        import resource
    except ImportError:  # a system without it
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    space = 2**29 + 2 * memory
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    allow(0)


def allow(size: int) -> None:
    """Seconds of work for so many bytes, beside those that it has had."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 3 + size // 2**24
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def rows_at_once(shape: tuple[int, ...], itemsize: int, chunk: int | None) -> int:
    """Rows of a block: whole chunks of the file, of which each is unpacked once."""
    row = itemsize
    for size in shape[1:]:
        row *= size
    chunk = min(chunk or 1, max(1, shape[0]))
    if chunk * row > LARGEST:
        raise ValueError(
            f"its chunks have {chunk:,} rows, {chunk * row:,} bytes to unpack at once, more than "
            f"{LARGEST:,}; write it in smaller ones"
        )
    return chunk * max(1, BLOCK // max(1, chunk * row))


def check_chunk(chunks: tuple[int, ...], itemsize: int, size: int) -> None:
    """Refuses chunks that are too large to be unpacked, as they are, for an array of so many bytes."""
    unpacked = itemsize
    for n in chunks:
        unpacked *= n
    if unpacked > min(LARGEST, max(size, SMALL)):
        raise ValueError(
            f"one of its chunks has {unpacked:,} bytes, and the array {size:,}; write it in smaller ones"
        )


def in_file(name: str, size: int, stored: int) -> None:
    """Refuses bytes that are not there."""
    if size > RATIO * stored:
        raise ValueError(f"{name!r} claims {size:,} bytes, and most of them are not in the file")


def reader(kind: str) -> Any:
    """The module beside this one; they find this one as `child`."""
    sys.modules["child"] = sys.modules[__name__]
    spec = importlib.util.spec_from_file_location(kind, Path(__file__).with_name(f"{kind}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(module: Any, path: str, names: list[str], heard: Iterator[bytes], out: BinaryIO) -> None:
    try:
        with module.opened(path, names) as found:
            told = {"arrays": found.arrays, "left": found.left, "columns": found.columns}
            _say(out, told)
            for line in heard:
                if not (name := line.decode().rstrip("\n")):
                    return
                _write(out, found, name)
    except Exception as error:
        _say(out, {"error": words(error)})


def _write(out: BinaryIO, found: Found, name: str) -> None:
    allow(_size(*found.arrays[name]))
    try:
        for block in found.blocks(name):
            if block.nbytes:
                out.write(LENGTH.pack(block.nbytes))
                out.write(block.tobytes() if block.ndim == 0 else memoryview(block).cast("B"))
        out.write(LENGTH.pack(0))
        out.flush()
    except Exception as error:
        out.write(LENGTH.pack(-1))
        _say(out, {"error": words(error)})


def _say(out: BinaryIO, told: dict[str, Any]) -> None:
    out.write(json.dumps(told).encode() + b"\n")
    out.flush()


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    import numpy

    size = int(numpy.dtype(dtype).itemsize)
    for n in shape:
        size *= n
    return size


def words(error: Exception) -> str:
    return f"{error}" or type(error).__name__


if __name__ == "__main__":
    module = reader(sys.argv[1])
    limit(int(sys.argv[3]))
    main(module, sys.argv[2], sys.argv[4:], iter(sys.stdin.buffer.readline, b""), sys.stdout.buffer)
