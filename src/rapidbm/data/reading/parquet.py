"""Rows of Parquet, for `child`: a file, or a folder of files, whose names begin with the part that they
are of, train, test or valid, or with anything else for `samples`; they are read in the order of names.

A file is a table, a column for each spin, or has one column `samples` of lists of equal length; a column
`labels` holds whole numbers. What is read is −1, 0 and 1 as int8: the column of anything else is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet
from child import LARGEST, RATIO, Found  # type: ignore[import-not-found]

LIST, LABELS = "samples", "labels"
FILES, COLUMNS, GROUPS = 10**5, 10**5, 10**5
FOOTER = 2**26  # bytes of metadata
VALUES = 2**22  # that are read at a time


@contextmanager
def opened(path: str, names: list[str]) -> Iterator[Any]:
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    parts = {part: Part(part, paths) for part, paths in _files(Path(path), names).items()}
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, part in parts.items():
        arrays[name] = ("|i1", (part.rows, part.width))
        if part.labelled:
            arrays[_labels(name)] = ("<i8", (part.rows,))
    columns = {tuple(part.columns) for part in parts.values()}
    if len(columns) > 1:
        raise ValueError("its parts have other columns than each other")
    left = sorted({word for part in parts.values() for word in part.left})

    def blocks(name: str) -> Iterator[Any]:
        for part_name, part in parts.items():
            if name == part_name:
                yield from part.spins()
            elif name == _labels(part_name):
                yield from part.label_blocks()

    yield Found(arrays, left, list(*columns), blocks)


def _labels(name: str) -> str:
    return LABELS if name == LIST else f"{name}_{LABELS}"


def _files(path: Path, names: list[str]) -> dict[str, list[Path]]:
    """The files of each part."""
    if not path.is_dir():
        return {LIST: [path]}
    found: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(".parquet"):
                if entry.is_symlink() or not entry.is_file():
                    raise ValueError(
                        f"{entry.name!r} is a link, and links are not followed; copy the file"
                    )
                found.append(entry.name)
            if len(found) > FILES:
                raise ValueError(f"it holds more than {FILES:,} files")
    parts = ("train", "test", "valid")
    by_part = {p: [path / n for n in sorted(found) if n.startswith(p)] for p in parts if p in names}
    by_part = {part: paths for part, paths in by_part.items() if paths}
    if not by_part:
        by_part = {LIST: [path / name for name in sorted(found)]}
    if not found:
        raise ValueError("it holds no file that ends in .parquet")
    return by_part


class Part:
    """The files of a part, which agree on their columns."""

    def __init__(self, name: str, paths: list[Path]) -> None:
        self.name, self.paths, self.rows = name, paths, 0
        self.columns: list[str] = []
        self.left: list[str] = []
        self.width, self.listed, self.labelled = 0, False, False
        for number, path in enumerate(paths):
            with _file(path) as file:
                self._describe(file, path, first=number == 0)

    def _describe(self, file: Any, path: Path, *, first: bool) -> None:
        schema = file.schema_arrow
        listed = LIST in schema.names and _is_list(schema.field(LIST).type)
        labelled = LABELS in schema.names
        columns = [] if listed else [n for n in schema.names if n != LABELS]
        width = _list_size(file) if listed else len(columns)
        if first:
            self.columns, self.width, self.listed, self.labelled = columns, width, listed, labelled
            self.left = [n for n in schema.names if listed and n not in (LIST, LABELS)]
        elif (self.columns, self.width, self.labelled) != (columns, width, labelled):
            raise ValueError(f"{path.name!r} has other columns than the files before it")
        for column in columns:
            kind = schema.field(column).type
            if not _is_number(kind):
                raise ValueError(f"the column {column[:40]!r} holds {kind}, not numbers or booleans")
        if labelled and not pyarrow.types.is_integer(schema.field(LABELS).type):
            raise ValueError(f"the column 'labels' holds {schema.field(LABELS).type}, not whole numbers")
        self.rows += file.metadata.num_rows
        if self.width and self.rows * self.width > RATIO * 8 * sum(p.stat().st_size for p in self.paths):
            raise ValueError(f"it claims {self.rows:,} rows, and most of them are not in the file")

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        step = max(1, VALUES // max(1, self.width))
        for path in self.paths:
            with _file(path) as file:
                yield from file.iter_batches(step, columns=columns, use_threads=False)

    def spins(self) -> Iterator[Any]:
        """(rows, columns) int8."""
        first = 0
        for batch in self._batches([LIST] if self.listed else self.columns):
            if self.listed:
                block = _of_lists(batch.column(0), self.width, first)
            else:
                block = numpy.empty((batch.num_rows, self.width), numpy.int8)
                for i, column in enumerate(self.columns):
                    block[:, i] = _small(batch.column(i), f"the column {column[:40]!r}", first)
            first += batch.num_rows
            yield block
        self._check_rows(first)

    def label_blocks(self) -> Iterator[Any]:
        first = 0
        for batch in self._batches([LABELS]):
            column = batch.column(0)
            _check_known(column, "the column 'labels'", first)
            first += batch.num_rows
            yield numpy.ascontiguousarray(column.cast(pyarrow.int64()).to_numpy(zero_copy_only=False))
        self._check_rows(first)

    def _check_rows(self, seen: int) -> None:
        if seen != self.rows:
            raise ValueError(f"it claims {self.rows:,} rows and holds {seen:,}")


def _file(path: Path) -> Any:
    """The file, if its metadata is within limits."""
    size = path.stat().st_size
    with path.open("rb") as raw:
        raw.seek(max(0, size - 8))
        end = raw.read(8)
    footer = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or footer > size:
        raise ValueError("it does not end as Parquet does")
    if footer > FOOTER:
        raise ValueError(
            f"its metadata has {footer:,} bytes, more than {FOOTER:,}; write larger row groups"
        )
    file = pyarrow.parquet.ParquetFile(
        path,
        memory_map=False,
        pre_buffer=False,
        buffer_size=2**16,
        thrift_string_size_limit=FOOTER,
        thrift_container_size_limit=10**6,
        page_checksum_verification=True,
    )
    told = file.metadata
    if told.num_columns > COLUMNS or told.num_row_groups > GROUPS:
        raise ValueError(
            f"it has {told.num_columns:,} columns in {told.num_row_groups:,} row groups, more than "
            f"{COLUMNS:,} or {GROUPS:,}"
        )
    rows = 0
    for i in range(told.num_row_groups):
        group = told.row_group(i)
        rows += group.num_rows
        if not 0 <= group.total_byte_size <= LARGEST or group.num_rows < 0:
            raise ValueError(
                f"row group {i} has {group.num_rows:,} rows, {group.total_byte_size:,} bytes to unpack, "
                f"more than {LARGEST:,}; write smaller ones"
            )
    if rows != told.num_rows:
        raise ValueError(f"it claims {told.num_rows:,} rows, and its row groups {rows:,}")
    return file


def _is_number(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _is_list(kind: Any) -> bool:
    types = pyarrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and _is_number(kind.value_type))


def _list_size(file: Any) -> int:
    """Values in the first list."""
    kind = file.schema_arrow.field(LIST).type
    if pyarrow.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in file.iter_batches(1, columns=[LIST], use_threads=False):
        _check_known(batch.column(0), "the column 'samples'", 0)
        return len(batch.column(0)[0])
    return 0


def _check_known(column: Any, what: str, first: int) -> None:
    if column.null_count:
        at = int(numpy.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{what}, row {first + at + 1}: a value is missing")


def _small(column: Any, what: str, first: int) -> Any:
    """Numbers −1, 0 and 1 as int8."""
    _check_known(column, what, first)
    values = column.to_numpy(zero_copy_only=False)
    with numpy.errstate(invalid="ignore"):
        found = values.astype(numpy.int8)
    wrong = (found != values) | (found > 1) | (found < -1)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(f"{what}, row {first + at + 1}: {values[at]} is neither 0, 1 nor −1")
    return found


def _of_lists(column: Any, width: int, first: int) -> Any:
    _check_known(column, "the column 'samples'", first)
    if not pyarrow.types.is_fixed_size_list(column.type):
        lengths = numpy.diff(column.offsets.to_numpy(zero_copy_only=False))
        if (lengths != width).any():
            at = int((lengths != width).argmax())
            raise ValueError(f"row {first + at + 1} has {lengths[at]} values, those before {width}")
    flat = column.flatten()
    if len(flat) != width * len(column):
        raise ValueError(f"rows from {first + 1} on do not have {width} values each")
    return _small(flat, f"rows from {first + 1} on", 0).reshape(-1, width)
