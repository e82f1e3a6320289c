"""What the commands about tables share: a run of a table, its schema, and a table to ask about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...accel.devices import device_named
from ...data.arrow import read_table
from ...data.table_schema import TableSchema
from ...errors import InputError
from ...machines.machine import Machine
from ...runs.pretrained.packed import open_trained
from ...runs.trained import Trained


def schema_of(opened: Trained) -> TableSchema:
    """The schema of a run, which one that was trained on other data does not have."""
    schema = opened.schema
    if schema is None:
        raise InputError(
            f"{opened} was not trained on a table of named columns, and this command is about tables; "
            "train one: rapidbm train TABLE.csv"
        )
    return schema


def opened_table(
    run: Path, file: Path, update: Any, replica: int, device: str, without: str | None = None
) -> tuple[Machine, TableSchema, Any, str]:
    """The machine of a run, its schema, the table of a file, which may lack the column `without`, and
    words about the machine."""
    opened = open_trained(run)
    schema = schema_of(opened)
    table = read_table(file)
    if without is None or without in table.column_names:
        schema.encode(table.slice(0, 0) if table.num_rows else table)  # its names are checked at once
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    return machine, schema, table, opened.where(update)[1]
