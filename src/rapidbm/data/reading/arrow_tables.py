"""Rows of Parquet and Feather as Arrow's stream, for `child`: one array `table`, its bytes.

The rows are gone through twice, once for the size of the stream. What a file claims is checked before
memory is taken, and each batch is validated before it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
from child import LARGEST, Found, allow  # type: ignore[import-not-found]

TABLE = "table"
COLUMNS, GROUPS = 20_000, 10**5
FOOTER = 2**26  # bytes of metadata
ROWS = 2**14  # of a batch
STREAM = 2**34  # bytes


@contextmanager
def opened(path: str, names: list[str]) -> Iterator[Any]:
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    size = Path(path).stat().st_size
    with open(path, "rb") as file:
        head = file.read(8)
    if head[:4] == b"PAR1":
        schema, batches = _parquet(path, size)
    elif head[:6] == b"ARROW1":
        schema, batches = _feather(path)
        allow(8 * size)
    else:
        raise ValueError("it begins neither as Parquet nor as Feather (version 2) does")
    if len(schema.names) > COLUMNS:
        raise ValueError(f"it has {len(schema.names):,} columns, more than {COLUMNS:,}")
    count = 0
    for piece in _stream(schema, batches):
        count += len(piece)
        if count > STREAM:
            raise ValueError(f"its rows take more than {STREAM:,} bytes; write it in parts")
    yield Found({TABLE: ("|u1", (count,))}, [], [], lambda name: _stream(schema, batches))


def _parquet(path: str, size: int) -> tuple[Any, Callable[[], Iterator[Any]]]:
    """The schema, and what goes through the rows."""
    with open(path, "rb") as raw:
        raw.seek(max(0, size - 8))
        end = raw.read(8)
    footer = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or not 0 < footer <= min(size, FOOTER):
        raise ValueError(
            f"it does not end as Parquet does, or its metadata has more than {FOOTER:,} bytes"
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
    told, total, rows = file.metadata, 0, 0
    if told.num_columns > COLUMNS or told.num_row_groups > GROUPS:
        raise ValueError(
            f"it has {told.num_columns:,} columns in {told.num_row_groups:,} row groups, more than "
            f"{COLUMNS:,} or {GROUPS:,}"
        )
    for i in range(told.num_row_groups):
        group = told.row_group(i)
        total, rows = total + group.total_byte_size, rows + group.num_rows
        if not 0 <= group.total_byte_size <= LARGEST or group.num_rows < 0:
            raise ValueError(
                f"row group {i} has {group.num_rows:,} rows, {group.total_byte_size:,} bytes to unpack, "
                f"more than {LARGEST:,}; write smaller ones"
            )
    if rows != told.num_rows:
        raise ValueError(f"it claims {told.num_rows:,} rows, and its row groups {rows:,}")
    allow(8 * (size + total))
    return file.schema_arrow, lambda: file.iter_batches(ROWS, use_threads=False)


def _feather(path: str) -> tuple[Any, Callable[[], Iterator[Any]]]:
    options = pyarrow.ipc.IpcReadOptions(use_threads=False)
    file = pyarrow.ipc.open_file(pyarrow.OSFile(path), options=options)
    if file.num_record_batches > GROUPS:
        raise ValueError(f"it has {file.num_record_batches:,} batches, more than {GROUPS:,}")

    def batches() -> Iterator[Any]:
        for i in range(file.num_record_batches):
            yield file.get_batch(i)

    return file.schema, batches


def _stream(schema: Any, batches: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The pieces of Arrow's stream, arrays of bytes; dictionaries are written out."""
    plain = pyarrow.schema(
        [
            pyarrow.field(f.name, f.type.value_type if pyarrow.types.is_dictionary(f.type) else f.type)
            for f in schema
        ],
        {key: value for key, value in (schema.metadata or {}).items() if key == b"pandas"},
    )
    sink = Pieces()
    writer = pyarrow.ipc.new_stream(pyarrow.PythonFile(sink, mode="w"), plain)
    for batch in batches():
        batch.validate(full=True)
        for start in range(0, batch.num_rows, ROWS):
            some = batch.slice(start, ROWS)
            columns = [
                column.cast(field.type) if column.type != field.type else column
                for column, field in zip(some.columns, plain, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=plain))
            yield sink.taken()
    writer.close()
    yield sink.taken()


class Pieces:
    """A file of which the bytes written are taken away."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        self.pieces.append(bytes(piece))
        return len(self.pieces[-1])

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> Any:
        """The bytes since the last call."""
        whole, self.pieces = b"".join(self.pieces), []
        return numpy.frombuffer(whole, numpy.uint8)
