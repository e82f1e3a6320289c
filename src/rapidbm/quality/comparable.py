"""Tables side by side as arrays: numbers as they are, words as codes, NaN where a cell is missing.

Words that only one of the tables has get codes of their own, so that they count as different instead of
being refused. Columns with one value, none, or left out on request are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array
from ..data.arrow import read_table
from ..data.cells import numbers_of, shown
from ..data.columns import Numbers, Words
from ..data.table_schema import TableSchema
from ..errors import InputError

LEAST = 10  # rows of a table


@dataclass(frozen=True)
class Comparable:
    """Tables of the same columns, each (rows, columns) in float64."""

    names: tuple[str, ...]
    numeric: tuple[bool, ...]  # numbers, or codes of words
    tables: tuple[Array, ...]
    words: tuple[tuple[Any, ...], ...]  # what the codes of a column mean; none of numbers
    whole: tuple[bool, ...]  # whether numbers are whole


def comparable(schema: TableSchema | None, tables: Sequence[Any], said: Sequence[str]) -> Comparable:
    """Tables, named in errors by what is `said` of them, in the columns of a schema, by default that of
    the first one."""
    read = [read_table(table) for table in tables]
    for table, name in zip(read, said, strict=True):
        if table.num_rows < LEAST:
            raise InputError(
                f"{name} must have {LEAST} rows or more to be compared, not {table.num_rows}; give more"
            )
    schema = TableSchema.recognise(read[0], real="bins") if schema is None else schema
    columns = [column for column in schema.columns if isinstance(column, Words | Numbers)]
    for table, name in zip(read, said, strict=True):
        for column in columns:
            if column.name not in table.column_names:
                raise InputError(
                    f"{name} must have the columns of {said[0]}, and {shown(column.name)} is missing; "
                    "give tables of the same columns"
                )
    found: list[list[Array]] = [[] for _ in read]
    words: list[tuple[Any, ...]] = []
    for column in columns:
        cells = [table.column(column.name) for table in read]
        if isinstance(column, Numbers):
            words.append(())
            each = [numbers_of(x, column.where, whole=False) for x in cells]
        else:
            code: dict[Any, int] = {value: i for i, value in enumerate(column.values)}
            each = [
                np.array(
                    [np.nan if v is None else code.setdefault(v, len(code)) for v in x.to_pylist()],
                    np.float64,
                )
                for x in cells
            ]
            words.append(tuple(code))
        for into, values in zip(found, each, strict=True):
            into.append(values)
    return Comparable(
        tuple(column.name for column in columns),
        tuple(isinstance(column, Numbers) for column in columns),
        tuple(np.stack(values, 1) for values in found),
        tuple(words),
        tuple(isinstance(column, Numbers) and column.whole for column in columns),
    )


def with_gaps_of(real: Array, synthetic: Array, rng: np.random.Generator) -> Array:
    """Synthetic rows with the gaps of real ones, row by row at random, where they have no gaps at all:
    a machine draws whole rows, and a gap in the data is no value that it could learn."""
    if np.isnan(synthetic).any() or not np.isnan(real).any():
        return synthetic
    gaps = np.isnan(real)[rng.integers(0, len(real), len(synthetic))]
    return np.where(gaps, np.nan, synthetic)
