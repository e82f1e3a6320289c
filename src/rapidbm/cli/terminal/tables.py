"""What the commands about tables share: a run of a table, its schema, and a table to ask about."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ...accel.devices import device_named
from ...data.arrow import read_table
from ...data.columns import Column, Numbers, Words
from ...data.table_schema import TableSchema
from ...errors import InputError
from ...machines.machine import Machine
from ...runs.pretrained.packed import open_trained
from ...runs.trained import Trained

LISTED = 20  # columns that are told one by one


def schema_of(opened: Trained, table: Any = None) -> TableSchema:
    """The schema of a run; of a named table of 0s and 1s one of columns with these values, or with −1 and
    1 where the `table` that is asked about has them. A run on other data has none."""
    schema = opened.schema
    if schema is None and opened.columns and not opened.alphabet:
        rows = max(1, int(opened.info["data"].get("train", 1)))
        values = (-1, 1) if table is not None and _has_minus_one(table) else (0, 1)
        return TableSchema(tuple(Words(name, "int64", 0, rows, values) for name in opened.columns))
    if schema is None:
        raise InputError(
            f"{opened} was not trained on a table of named columns, and this command is about tables; "
            "train one: rapidbm train TABLE.csv"
        )
    return schema


def _has_minus_one(table: Any) -> bool:
    import pyarrow
    import pyarrow.compute as pc

    numbers = (c for c in table.columns if pyarrow.types.is_integer(c.type) and c.length())
    return any(pc.min(column).as_py() == -1 for column in numbers)


def schema_lines(schema: TableSchema | None) -> list[str]:
    """What the columns of a table were taken for, a line each; of many columns how many of each kind."""
    if schema is None:
        return []
    if len(schema.columns) <= LISTED:
        return [*schema.lines(), "otherwise, name it: --columns NAME=category|integer|real|skip"]
    counts = Counter(_kind(column) for column in schema.columns)
    told = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    missing = sum(column.missing for column in schema.columns)
    cells = sum(column.rows for column in schema.columns)
    return [
        f"{len(schema.columns):,} columns: {told}; {missing:,} of {cells:,} cells are missing",
        "each of them: rapidbm report RUN --quick; otherwise, name it: --columns "
        "NAME=category|integer|real|skip",
    ]


def _kind(column: Column) -> str:
    if isinstance(column, Words):
        return "of two values" if len(column.values) == 2 else "of categories"
    if isinstance(column, Numbers):
        return "of integers" if column.whole else "of real numbers"
    return {"constant": "the same in all rows", "empty": "empty"}.get(column.kind, "left out")


def opened_table(
    run: Path, file: Path, update: Any, replica: int, device: str, without: str | None = None
) -> tuple[Machine, TableSchema, Any, str]:
    """The machine of a run, its schema, the table of a file, which may lack the column `without`, and
    words about the machine."""
    opened = open_trained(run)
    schema_of(opened)  # refused before the table is read
    table = read_table(file)
    schema = schema_of(opened, table)
    if without is None or without in table.column_names:
        schema.encode(table.slice(0, 0) if table.num_rows else table)  # its names are checked at once
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    return machine, schema, table, opened.where(update)[1]
