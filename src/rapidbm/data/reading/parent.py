"""The other end of `child`: arrays of a file that a C library reads in a process of its own.

What the child says is checked as if the file had written it: types, shapes, and that as many bytes come
as they take. A child that takes longer than the bytes may take is ended.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...arrays import Array
from . import child as program
from .child import LARGEST, LENGTH, RATIO

FIRST = 60.0  # seconds that a file may take until it is described
PACE = 2**24  # bytes that come in a second, at least
QUIET = {  # for the libraries in the child
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "HDF5_PLUGIN_PRELOAD": "::",  # no filters from elsewhere
}


class Claim(NamedTuple):
    """What a file says of one of its arrays."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class Child:
    """A conversation about one file."""

    def __init__(self, process: subprocess.Popen[bytes], fails: str) -> None:
        """`fails` says what it means when the child is gone."""
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.fails = process, fails
        self.heard: BinaryIO = process.stdout  # type: ignore[assignment]
        with self._within(FIRST):
            told = self._line()
        self.claims = {name: _claim(*claim) for name, claim in told["arrays"].items()}
        self.left: list[str] = told["left"]
        self.columns: tuple[str, ...] = tuple(told["columns"])

    def array(self, name: str) -> Array:
        """All of an array."""
        claim = self.claims[name]
        whole = np.empty(claim.shape, claim.dtype)
        for _ in self._raw(name, whole.reshape(-1).view(np.uint8)):
            pass
        return whole

    def blocks(self, name: str) -> Iterator[Array]:
        """Its rows in order, some at a time."""
        claim = self.claims[name]
        for raw in self._raw(name):
            yield raw.view(claim.dtype).reshape(-1, *claim.shape[1:])

    def _raw(self, name: str, whole: Array | None = None) -> Iterator[Array]:
        """The bytes of an array, block by block, or as they fill `whole`."""
        claim, seen = self.claims[name], 0
        row = max(1, claim.size // max(1, claim.shape[0] if claim.shape else 1))
        assert self.process.stdin is not None
        with self._within(FIRST + claim.size / PACE):
            try:
                self.process.stdin.write(f"{name}\n".encode())
                self.process.stdin.flush()
            except OSError as error:
                raise ValueError(self.fails) from error
            prefix = bytearray(LENGTH.size)
            while True:
                self._read_into(prefix)
                if not (length := LENGTH.unpack(prefix)[0]):
                    break
                if length < 0:
                    self._line()
                seen += length
                if seen > claim.size or length % row or length > LARGEST:
                    raise ValueError(self.fails)
                some = np.empty(length, np.uint8) if whole is None else whole[seen - length : seen]
                self._read_into(some)
                yield some
        if seen != claim.size:
            raise ValueError(self.fails)

    def _line(self) -> dict[str, Any]:
        line = self.heard.readline()
        if not line.endswith(b"\n"):
            raise ValueError(self.fails)
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise ValueError(told["error"])
        return told

    def _read_into(self, place: Any) -> None:
        if self.heard.readinto(place) != len(place):  # type: ignore[attr-defined]
            raise ValueError(self.fails)

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        late = threading.Timer(seconds, self.process.kill)
        late.daemon = True
        late.start()
        try:
            yield
        finally:
            late.cancel()
            late.join()  # no thread outlives the conversation


def _claim(dtype: str, shape: Sequence[int]) -> Claim:
    kind = np.dtype(dtype)
    if kind.kind not in "biuf" or kind.itemsize > 8 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array of {dtype} and {shape} is none")
    return Claim(kind, tuple(shape))


@contextmanager
def reading_child(kind: str, path: Path, names: Sequence[str], library: str) -> Iterator[Child]:
    """A child that has opened the file; it is ended with the block."""
    memory = min(LARGEST, RATIO * stored_bytes(path))
    command = [sys.executable, "-P", program.__file__, kind, str(path), str(memory), *names]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **QUIET},
    ) as process:
        try:
            yield Child(process, f"the {library} library cannot cope with it")
        finally:
            process.kill()


def stored_bytes(path: Path) -> int:
    """Of a file, or of all files of a folder; links count nothing."""
    if not path.is_dir():
        return path.stat().st_size
    size = 0
    for place, _, files in os.walk(path):
        size += sum(os.lstat(os.path.join(place, file)).st_size for file in files)
    return size
