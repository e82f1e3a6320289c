"""Packed spins: eight to a byte, in a file `.spins` that says what it holds.

The file is one of safetensors. Of each part, `samples` or `train`, `test` and `valid`, it has

    NAME          uint8 (rows, ⌈V / 8⌉): a row, its first spin the highest bit of the first byte, up is 1;
                  bits after the last spin are 0
    NAME_labels   int64 (rows,), if there are labels (`labels` of samples)
    NAME_checks   uint8 (chunks, 16): BLAKE2b of each chunk of `chunk_rows(V)` rows, with their labels

and its header, under "rapidbm", {"format", "visible", "shape", "columns", "sha256"}. The SHA-256 is over
the header without it, the parts' names and sizes, and all checks: it names all that the file holds, and
takes no more reading than that of the checks. A chunk is held against its check whenever it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..arrays import Array, as_labels
from ..disk import BINARY, Steady, parse_json, part_of, reading, writing
from ..errors import InputError
from ..schema import Names, Several, Text, Whole
from .reading.parent import Claim
from .sources import PARTS, Source, check_room, labels_of

ENDING = ".spins"
FORMAT = 1
CHUNK = 2**20  # bytes of a chunk, or one row
CHECK = 16  # bytes of a check
HEADER_BYTES = 2**27  # of names of columns, mostly
REMEDY = "it may be truncated or damaged; pack it again"
SAID = Names(
    {
        "format": Whole(FORMAT, FORMAT),
        "visible": Whole(1, 2**31),
        "shape": Several(Whole(1, 2**31), count=2),
        "columns": Several(Text()),
        "sha256": Text(64),
    }
)
EMPTY = "0" * 64


def bytes_of(visible: int) -> int:
    """Of a packed row."""
    return -(-visible // 8)


def chunk_rows(visible: int) -> int:
    """Rows that are read and checked together."""
    return max(1, CHUNK // bytes_of(visible))


class Levels:
    """Packs rows; remembers which number stands for down, 0 or −1: of a file it is always the same."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.down: int | None = None

    def packed(self, rows: Array, first: int) -> Array:
        """Numbers (rows, v), the first of them row `first` of all, as (rows, bytes)."""
        if rows.dtype == np.bool_:
            return np.packbits(rows, axis=1)
        up = rows == 1
        for down in (0, -1) if self.down is None else (self.down,):
            other = rows == down
            if int(np.count_nonzero(up)) + int(np.count_nonzero(other)) == rows.size:
                if self.down is None and other.any():
                    self.down = down
                return np.packbits(up, axis=1)
        raise self._refusal(rows, first)

    def _refusal(self, rows: Array, first: int) -> InputError:
        zeros = bool((rows == 0).any()) if self.down is None else not self.down
        row, column = (int(x[0]) for x in np.nonzero(~np.isin(rows, (1, 0 if zeros else -1))))
        return InputError(
            f"{self.what} must have two levels, {{0, 1}}, {{−1, +1}} or booleans, the same in all rows, "
            f"but row {first + row + 1:,}, column {column + 1:,} holds {rows[row, column]:g} and others "
            f"1 and {0 if zeros else -1}; threshold it first, drop or fill what is missing"
        )


def unpacked(packed: Array, visible: int) -> Array:
    """±1 (rows, v) int8."""
    bits = np.unpackbits(packed, axis=1, count=visible)
    return bits.view(np.int8) * np.int8(2) - np.int8(1)


def check_of(packed: Array, labels: Array | None) -> bytes:
    """What a chunk is held against."""
    digest = hashlib.blake2b(np.ascontiguousarray(packed).data, digest_size=CHECK)
    if labels is not None:
        digest.update(np.ascontiguousarray(labels, "<i8").data)
    return digest.digest()


class Part:
    """Where a part lies in a file."""

    def __init__(self, rows: int, start: int, checks: Array, labels: int | None) -> None:
        self.rows, self.start, self.checks, self.labels = rows, start, checks, labels


class Packed(Source):
    """An open packed file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "packed spins", REMEDY):
            self.file = Steady(path)
            said, tensors, start = self._header()
            self.visible, self.shape = said["visible"], (said["shape"][0], said["shape"][1])
            self.columns = tuple(said["columns"])
            if self.shape[0] * self.shape[1] != self.visible:
                raise ValueError(f"{self.visible} spins have no shape {self.shape}")
            if self.columns and len(self.columns) != self.visible:
                raise ValueError(f"{self.visible} columns have {len(self.columns)} names")
            self.parts = {name: self._part(name, tensors, start) for name in PARTS if name in tensors}
            self.sha256 = identity(said, self.parts)
            if self.sha256 != said["sha256"]:
                raise ValueError("its checksum differs")
        self.claims = {}
        for name, part in self.parts.items():
            self.claims[name] = Claim(np.dtype(np.int8), (part.rows, *self._row_shape()))
            if part.labels is not None:
                self.claims[labels_of(name)] = Claim(np.dtype(np.int64), (part.rows,))

    def _row_shape(self) -> tuple[int, ...]:
        return self.shape if self.shape[0] > 1 else (self.visible,)

    def _header(self) -> tuple[dict[str, Any], dict[str, Any], int]:
        """What it says, where its tensors are, and where the first of them begins."""
        length = int.from_bytes(self.file.read(0, 8), "little")
        if not 2 <= length <= min(HEADER_BYTES, self.file.size - 8):
            raise ValueError(f"its header claims {length:,} bytes")
        header = parse_json(bytes(self.file.read(8, length)))
        if not isinstance(header, dict) or not isinstance(header.get("__metadata__"), dict):
            raise ValueError("it has no header of packed spins")
        said = SAID.checked(parse_json(header.pop("__metadata__").get("rapidbm", "0")), "", REMEDY)
        return said, header, 8 + length

    def _part(self, name: str, tensors: dict[str, Any], start: int) -> Part:
        wide, step = bytes_of(self.visible), chunk_rows(self.visible)
        rows, at = self._tensor(tensors, name, "U8", (None, wide), start)
        _, checks_at = self._tensor(tensors, f"{name}_checks", "U8", (-(-rows // step), CHECK), start)
        raw = self.file.read(checks_at, -(-rows // step) * CHECK)
        checks = np.frombuffer(raw, np.uint8).reshape(-1, CHECK)
        labels = None
        if labels_of(name) in tensors:
            _, labels = self._tensor(tensors, labels_of(name), "I64", (rows,), start)
        return Part(rows, at, checks, labels)

    def _tensor(
        self, tensors: dict[str, Any], name: str, dtype: str, shape: tuple[int | None, ...], start: int
    ) -> tuple[int, int]:
        """Rows of a tensor of this type and shape, and where they begin."""
        found = tensors.get(name)
        if not isinstance(found, dict) or found.get("dtype") != dtype:
            raise ValueError(f"it has no {name} of type {dtype}")
        there: Any = found.get("shape")
        where: Any = found.get("data_offsets")
        for numbers, count in ((there, len(shape)), (where, 2)):
            right = isinstance(numbers, list) and len(numbers) == count
            if not right or not all(type(n) is int and 0 <= n < 2**60 for n in numbers):
                raise ValueError(f"its {name} is {found!r:.100}")
        if any(size not in (None, n) for size, n in zip(shape, there, strict=True)):
            raise ValueError(f"its {name} is {there}, not {list(shape)}")
        size = math.prod(there) * (8 if dtype == "I64" else 1)
        if where[1] - where[0] != size or start + where[1] > self.file.size:
            raise ValueError(f"its {name} is not in the file")
        return there[0], start + where[0]

    def chunk(self, name: str, number: int) -> tuple[Array, Array | None]:
        """The rows of a chunk, packed, and their labels, held against their check."""
        part, wide = self.parts[name], bytes_of(self.visible)
        first = number * chunk_rows(self.visible)
        count = min(chunk_rows(self.visible), part.rows - first)
        with reading(self.path, "packed spins", REMEDY):
            raw = self.file.read(part.start + first * wide, count * wide)
            packed, labels = np.frombuffer(raw, np.uint8).reshape(count, wide), None
            if part.labels is not None:
                labels = np.frombuffer(self.file.read(part.labels + 8 * first, 8 * count), "<i8")
            if check_of(packed, labels) != part.checks[number].tobytes():
                raise ValueError(
                    f"rows {first + 1:,} to {first + count:,} of {name!r} are not what was written"
                )
        return packed, labels

    def chunks(self, name: str) -> Iterator[tuple[Array, Array | None]]:
        for number in range(len(self.parts[name].checks)):
            yield self.chunk(name, number)

    def array(self, name: str) -> Array:
        claim, at = self.claims[name], 0
        with reading(self.path, "packed spins", REMEDY):
            check_room(name, claim.size)
        whole = np.empty(claim.shape, claim.dtype)
        for block in self.blocks(name):
            whole[at : at + len(block)] = block
            at += len(block)
        return whole

    def blocks(self, name: str) -> Iterator[Array]:
        part = next(part for part in self.parts if name in (part, labels_of(part)))
        for packed, labels in self.chunks(part):
            if name == part:
                yield unpacked(packed, self.visible).reshape(-1, *self._row_shape())
            else:
                assert labels is not None
                yield labels


def identity(said: dict[str, Any], parts: dict[str, Part]) -> str:
    """The SHA-256 that names what a file holds."""
    plain = {name: value for name, value in said.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, part in parts.items():
        digest.update(f"{name} {part.rows} {part.labels is not None}".encode())
        digest.update(np.ascontiguousarray(part.checks).data)
    return digest.hexdigest()


# -- writing ------------------------------------------------------------------------------------------


class Incoming:
    """A part to be written: how many rows it has, and what gives them."""

    def __init__(self, rows: int, blocks: Iterable[Array], labels: Iterable[Array] | None = None) -> None:
        self.rows, self.blocks, self.labels = rows, blocks, labels


def write_packed(
    path: Path,
    parts: dict[str, Incoming],
    visible: int,
    shape: tuple[int, int],
    columns: Sequence[str] = (),
) -> str:
    """Writes a packed file, whole or not at all; one that is there is replaced. The rows of a part come
    as numbers, or as bytes that are packed already. Answers with its SHA-256."""
    said = {"format": FORMAT, "visible": visible, "shape": list(shape), "columns": list(columns)}
    header, places = _planned(said, parts)
    with writing(path), part_of(path) as temporary:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        with os.fdopen(handle, "r+b") as file:
            file.write(header(EMPTY))
            written = {n: _write_part(file, n, part, places, visible) for n, part in parts.items()}
            name = identity(said, written)
            file.seek(0)
            file.write(header(name))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    return name


def _planned(said: dict[str, Any], parts: dict[str, Incoming]) -> tuple[Any, dict[str, int]]:
    """The header, which only lacks its SHA-256, and where each tensor begins in the file."""
    wide, step = bytes_of(said["visible"]), chunk_rows(said["visible"])
    # Numbers of several bytes first: so all of them lie where readers want them, with no gap between.
    shapes: dict[str, tuple[str, list[int]]] = {}
    shapes |= {labels_of(n): ("I64", [p.rows]) for n, p in parts.items() if p.labels is not None}
    shapes |= {f"{n}_checks": ("U8", [-(-p.rows // step), CHECK]) for n, p in parts.items()}
    shapes |= {n: ("U8", [p.rows, wide]) for n, p in parts.items()}
    tensors: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * (8 if dtype == "I64" else 1)
        tensors[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size

    def header(sha256: str) -> bytes:
        meta = {"rapidbm": json.dumps({**said, "sha256": sha256})}
        text = json.dumps({"__metadata__": meta, **tensors}).encode()
        text = text.ljust(-(-len(text) // 8) * 8)
        return len(text).to_bytes(8, "little") + text

    start = len(header(EMPTY))
    return header, {name: start + tensor["data_offsets"][0] for name, tensor in tensors.items()}


def _write_part(file: BinaryIO, name: str, part: Incoming, places: dict[str, int], visible: int) -> Part:
    """Writes the rows of a part as they come, and what they are held against."""
    levels, step, wide = Levels(f"{name!r}"), chunk_rows(visible), bytes_of(visible)
    if part.labels is not None:
        _write_labels(file, places[labels_of(name)], name, part)
    checks, at = [], 0
    for chunk in _regrouped(_packed(part.blocks, levels, visible), step):
        own = None
        if part.labels is not None:
            file.seek(places[labels_of(name)] + 8 * at)
            own = np.frombuffer(file.read(8 * len(chunk)), "<i8")
        file.seek(places[name] + at * wide)
        file.write(chunk.data)
        checks.append(check_of(chunk, own))
        at += len(chunk)
    if at != part.rows:
        raise InputError(f"{name!r} was to have {part.rows:,} rows, and {at:,} came")
    table = np.frombuffer(b"".join(checks), np.uint8).reshape(-1, CHECK)
    file.seek(places[f"{name}_checks"])
    file.write(table.data)
    return Part(at, places[name], table, places.get(labels_of(name)))


def _write_labels(file: BinaryIO, place: int, name: str, part: Incoming) -> None:
    file.seek(place)
    count = 0
    for block in part.labels or ():
        file.write(as_labels(block).numpy().astype("<i8").data)
        count += len(block)
    if count != part.rows:
        raise InputError(f"{part.rows:,} rows of {name!r} need as many labels, not {count:,}")


def _packed(blocks: Iterable[Array], levels: Levels, visible: int) -> Iterator[Array]:
    first = 0
    for block in blocks:
        if not len(block):
            continue
        rows = block.reshape(len(block), -1)
        if rows.shape[1] != visible:
            raise InputError(f"a row of {visible} spins is needed, not of {rows.shape[1]}")
        yield levels.packed(rows, first)
        first += len(rows)


def _regrouped(blocks: Iterable[Array], step: int) -> Iterator[Array]:
    """The same rows, so many at a time."""
    held: list[Array] = []
    count = 0
    for block in blocks:
        while len(block):
            taken = block[: step - count]
            held.append(taken)
            count += len(taken)
            block = block[len(taken) :]
            if count == step:
                yield np.ascontiguousarray(np.concatenate(held))
                held, count = [], 0
    if count:
        yield np.ascontiguousarray(np.concatenate(held))
