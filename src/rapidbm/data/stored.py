"""Splits whose rows stay on disk, and are read chunk by chunk.

A chunk is `chunk_rows(V)` rows one after the other, a mebibyte when packed. A part that was not set apart
in the file is cut out of every chunk: with s its share and n the rows up to the end of a chunk

    rows of the part up to there = ⌊s n + 1/2⌋                                             (1)

which rows of the chunk these are is drawn, by a stream of the seed and the chunk's number. So a part has
its share of all regions of the file, and whether a row belongs to it is known from its chunk alone.

What is looked at instead of trained on is a sample: `some` rows of at most `SURVEYED` chunks, evenly
spread, of each chunk rows evenly spread. They are the same each time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array
from ..errors import InputError
from ..random import stream
from .packed import Levels, Packed, chunk_rows, unpacked
from .sources import Npy
from .splits import Split

SURVEYED = 32  # chunks that are looked at
ROWS = 10_000  # that are held in memory of a part, at most
SPINS = 2**26  # the same


class RowReader(Protocol):
    """Rows of spins in a file, by chunks."""

    count: int
    visible: int
    where: str  # for people

    def chunk(self, number: int) -> tuple[Array, Array | None]:
        """Rows (n, bytes) packed, checked, and their labels if there are any."""
        ...

    def digest(self) -> bytes:
        """What names them all."""
        ...


class PackedRows:
    """A part of a packed file; its digest is that file's, which covers every bit."""

    def __init__(self, file: Packed, part: str) -> None:
        self.file, self.part = file, part
        self.count, self.visible = file.parts[part].rows, file.visible
        self.labelled = file.parts[part].labels is not None
        self.where = str(file.path)

    def chunk(self, number: int) -> tuple[Array, Array | None]:
        return self.file.chunk(self.part, number)

    def digest(self) -> bytes:
        return f"{self.file.sha256} {self.part}".encode()


class NumpyRows:
    """The rows of a `.npy` file, which are packed and checked whenever they are read. The digest is over
    their number and width, and the spins of the surveyed chunks."""

    labelled = False

    def __init__(self, file: Npy) -> None:
        self.file = file
        shape = file.claims["samples"].shape
        self.count, self.visible = shape[0], math.prod(shape[1:])
        self.where = str(file.path)
        self.levels = Levels(self.where)

    def chunk(self, number: int) -> tuple[Array, None]:
        step = chunk_rows(self.visible)
        first = number * step
        # A few rows at a time: as numbers they take eight to 64 times their memory.
        few = max(1, 2**22 // (self.visible * self.file.claims["samples"].dtype.itemsize))
        parts = []
        for start in range(first, min(first + step, self.count), few):
            rows = self.file.rows(start, min(start + few, first + step, self.count))
            parts.append(self.levels.packed(rows.reshape(len(rows), -1), start))
        return np.concatenate(parts), None

    def digest(self) -> bytes:
        digest = hashlib.sha256(f"{self.count} {self.visible}".encode())
        for number in surveyed(-(-self.count // chunk_rows(self.visible))):
            digest.update(self.chunk(number)[0].data)
        return digest.digest()


def surveyed(chunks: int) -> list[int]:
    """The numbers of at most `SURVEYED` of so many chunks, evenly spread, the first and the last among
    them."""
    return sorted({round(i) for i in np.linspace(0, chunks - 1, min(chunks, SURVEYED))})


@dataclass(frozen=True)
class HoldOut:
    """Eq. (1): what is kept of the rows that there are, the share itself or the others."""

    word: str  # of the stream
    seed: int
    share: float
    rest: bool

    def upto(self, n: int) -> int:
        held = math.floor(self.share * n + 0.5)
        return n - held if self.rest else held

    def taken(self, rows: Array, before: int, chunk: int) -> Array:
        """Those of some rows of a chunk that stay; `before` are the rows in the chunks before it."""
        held = HoldOut(self.word, self.seed, self.share, False)
        quota = held.upto(before + len(rows)) - held.upto(before)
        order = torch.randperm(len(rows), generator=stream(self.seed, self.word, "chunk", chunk)).numpy()
        return np.sort(rows[order[quota:] if self.rest else order[:quota]])


@dataclass(frozen=True)
class Piece:
    """Rows of a file, or what cuts leave of them."""

    rows: RowReader
    cuts: tuple[HoldOut, ...] = ()

    def upto(self, n: int) -> int:
        """How many of the first n rows are in it."""
        for cut in self.cuts:
            n = cut.upto(n)
        return n

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each chunk."""
        step = chunk_rows(self.rows.visible)
        ends = [self.upto(min(end, self.rows.count)) for end in range(0, self.rows.count + step, step)]
        return tuple(b - a for a, b in pairwise(ends))

    def chunk(self, number: int) -> tuple[Array, Array | None]:
        packed, labels = self.rows.chunk(number)
        if not self.cuts:
            return packed, labels
        start, kept = number * chunk_rows(self.rows.visible), np.arange(len(packed))
        for cut in self.cuts:
            kept = cut.taken(kept, start, number)
            start = cut.upto(start)
        return packed[kept], None if labels is None else labels[kept]


class Stored(Split):
    """A split whose rows stay on disk: what `train` takes; `some()` are in memory."""

    on_disk = True
    pieces: tuple[Piece, ...]
    span: slice  # of a packed row: the bytes that `chunk` gives
    bits: slice  # of these: the spins

    def __init__(
        self, pieces: Sequence[Piece], known: Tensor | None, columns: slice | None = None
    ) -> None:
        """Rows of these pieces; of their columns only some, one after the other, where that is said."""
        object.__setattr__(self, "pieces", tuple(pieces))
        wide = self.pieces[0].rows.visible
        first, last, _ = (columns or slice(None)).indices(wide)
        object.__setattr__(self, "bits", slice(first % 8, first % 8 + last - first))
        object.__setattr__(self, "span", slice(first // 8, -(-last // 8)))
        object.__setattr__(self, "known", known)
        object.__setattr__(self, "_in_memory", None)
        if not len(self):
            raise InputError(
                "a split holds at least one sample, and of these rows none is left for it; give more "
                "rows, or parts of their own"
            )

    @property
    def spins(self) -> Tensor:
        raise InputError(
            f"the {len(self):,} rows of {self.pieces[0].rows.where} stay on disk: train takes the split "
            "itself, some() gives those that memory holds, and load(…, stream=False) reads them all"
        )

    @property
    def weights(self) -> None:
        """None: rows that stay on disk all count the same."""
        return

    @property
    def rows(self) -> Stored:
        return self

    @property
    def labels(self) -> Tensor | None:
        if not self.labelled:
            return None
        raise InputError(
            f"the {len(self):,} labels of {self.pieces[0].rows.where} stay on disk; some().labels are "
            "those of the rows in memory"
        )

    @property
    def labelled(self) -> bool:
        return all(getattr(piece.rows, "labelled", False) for piece in self.pieces)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each chunk, of one piece after the other."""
        return tuple(size for piece in self.pieces for size in piece.sizes)

    def __len__(self) -> int:
        return sum(piece.upto(piece.rows.count) for piece in self.pieces)

    @property
    def visible(self) -> int:
        return int(self.bits.stop - self.bits.start)

    @property
    def share_up(self) -> float:
        return self.in_memory().share_up

    __eq__, __hash__ = object.__eq__, object.__hash__

    def _line(self) -> str:
        labels = ", with labels" if self.labelled else ""
        return f"{len(self):,} rows of {self.visible} spins, on disk{labels}"

    def chunk(self, number: int) -> tuple[Array, Array | None]:
        """Its rows (n, bytes) in a chunk, packed, and their labels."""
        for piece in self.pieces:
            if number < len(piece.sizes):
                packed, labels = piece.chunk(number)
                return packed[:, self.span], labels
            number -= len(piece.sizes)
        raise IndexError(number)

    def narrowed(self, columns: slice) -> Stored:
        """The same rows with some columns, one after the other: what a shard of units has."""
        start, stop, _ = columns.indices(self.visible)
        first = 8 * self.span.start + self.bits.start
        known = None if self.known is None else self.known[..., columns]
        return Stored(self.pieces, known, slice(first + start, first + stop))

    def digest(self) -> bytes:
        """What names its rows."""
        digest = hashlib.sha256()
        for piece in self.pieces:
            digest.update(piece.rows.digest())
            digest.update(repr(piece.cuts).encode())
        return digest.digest()  # the same of all columns

    # -- what memory holds ------------------------------------------------------------------------

    def in_memory(self) -> Split:
        """Rows that memory holds, evenly spread: 10,000 of them, and not more than 2^26 spins."""
        if self._in_memory is None:  # type: ignore[attr-defined]
            object.__setattr__(self, "_in_memory", self._read_into_memory())
        found: Split = self._in_memory  # type: ignore[attr-defined]
        return found

    def _read_into_memory(self) -> Split:
        wanted = min(len(self), ROWS, max(1, SPINS // self.visible))
        full = [i for i, size in enumerate(self.sizes) if size]
        chosen = full if wanted == len(self) else [full[i] for i in surveyed(len(full))]
        rows, labels, left = [], [], wanted
        for at, number in enumerate(chosen):
            share = -(-left // (len(chosen) - at))
            packed, own = self.chunk(number)
            kept = np.linspace(0, len(packed) - 1, min(share, len(packed))).round().astype(int)
            rows.append(packed[kept])
            labels.append(None if own is None else own[kept])
            left -= len(kept)
        return self._held(rows, labels, of=len(self) if wanted < len(self) else None)

    def _held(self, rows: list[Array], labels: Sequence[Array | None], of: int | None = None) -> Split:
        whole = unpacked(np.concatenate(rows), self.bits.stop)[:, self.bits.start :]
        spins = torch.from_numpy(np.ascontiguousarray(whole))
        known = [x for x in labels if x is not None]
        own = None
        if len(known) == len(rows):
            own = torch.from_numpy(np.concatenate(known).astype(np.int64))
        return Split.owning(spins, own, self.known, of=of)

    def take(self, rows: Tensor | slice) -> Split:
        """Some of the samples, in memory: those of a slice that it holds."""
        if not isinstance(rows, slice):
            raise InputError("of rows on disk a slice can be taken, such as slice(0, 100)")
        start, stop, step = rows.indices(len(self))
        count = len(range(start, stop, step))
        if step != 1 or not count or count * self.visible > max(SPINS, self.visible):
            raise InputError(
                f"{count:,} rows of {self.visible:,} spins are not taken into memory from disk; take "
                f"1 to {max(1, SPINS // self.visible):,}, one after the other"
            )
        kept, labels, at = [], [], 0
        for number, size in enumerate(self.sizes):
            a, b = max(start - at, 0), min(stop - at, size)
            if a < b:
                packed, own = self.chunk(number)
                kept.append(packed[a:b])
                labels.append(None if own is None else own[a:b])
            at += size
        return self._held(kept, labels)

    def __add__(self, other: Split) -> Split:
        if not isinstance(other, Stored):
            raise InputError(
                "rows on disk and rows in memory do not go together; pack them into one file"
            )
        return Stored((*self.pieces, *other.pieces), self.known)

    def parted(self, word: str, seed: int, share: float) -> tuple[Split, Split]:
        """What is left, and a share that is held out, eq. (1)."""
        both = []
        for rest in (True, False):
            cuts = [(*piece.cuts, HoldOut(word, seed, share, rest)) for piece in self.pieces]
            pieces = [Piece(p.rows, c) for p, c in zip(self.pieces, cuts, strict=True)]
            both.append(Stored(pieces, self.known))
        return both[0], both[1]

    def whole(self) -> Stored:
        """All rows of its files, as they lie there."""
        return Stored([Piece(piece.rows) for piece in self.pieces], self.known)
