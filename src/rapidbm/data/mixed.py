"""Data sets of tables of any kind: spins, categories and real numbers side by side, and gaps.

A table (`arrow`) and its schema (`table_schema`) become columns of units and a mask of what is observed.
A table whose columns all have two values, none missing, is one of spins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InputError, unknown
from ..machines.layers import Layers
from ..machines.units.categorical import Categorical
from ..machines.units.gaussian import Gaussian
from ..machines.units.spin import SPIN
from ..machines.units.unit import Unit
from ..registry import Setting
from .arrow import read_table
from .splits import Dataset, Split, divided
from .table_schema import TableSchema
from .weights import weighted, weights_of_column

if TYPE_CHECKING:
    import pyarrow

REALS = ("bins", "gaussian")
OVERRIDES = Setting(
    "what columns of a table are, where that is not recognised: age=real,zip=skip,sex=category"
)
AS_UNITS = Setting(
    "how real numbers of a table become units: bins (of ordered categories) or gaussian (real units)",
    choices=REALS,
)


def layers_of(schema: TableSchema) -> Layers:
    """The visible layers of a machine for tables of this schema."""
    kinds: list[Unit] = []
    sizes: list[int] = []
    for kind, told in schema.layers():
        unit: Unit = SPIN if kind == "spin" else Gaussian()
        if kind == "categorical":
            unit = Categorical(tuple(told))
        kinds.append(unit)
        sizes.append(unit.columns(len(told) if kind == "categorical" else told))
    return Layers(tuple(sizes), (), tuple(kinds), len(kinds))


def split_of(schema: TableSchema, table: Any, layers: Layers | None = None) -> Split:
    """The rows of a table as columns of units, with the mask of what is observed."""
    layers = layers or layers_of(schema)
    values, observed = schema.encode(table)
    columns = layers.encode(torch.from_numpy(values), what="the table")
    columns = columns.to(torch.int8 if layers.listed else torch.float32)
    mask = None if observed.all() else layers.column_mask(torch.from_numpy(observed))
    return Split.owning(columns, None, None, observed=mask)


def table_of(
    schema: TableSchema, columns: torch.Tensor, rng: torch.Generator, observed: Any = None
) -> pyarrow.Table:
    """Rows of columns of units as a table again."""
    values = layers_of(schema).decode(columns).double().cpu().numpy()
    return schema.decode(values, rng, observed=observed)


def overrides_of(told: str | None) -> dict[str, str]:
    """What columns are, as options say it: "age=real,zip=skip"."""
    found = {}
    for part in (told or "").split(","):
        name, equals, kind = part.rpartition("=")
        if part.strip() and not equals:
            raise InputError(
                f"--columns takes names and kinds, age=real,zip=skip, and {part.strip()!r} has no '='"
            )
        if part.strip():
            found[name.strip()] = kind.strip()
    return found


def from_table(
    source: Any,
    *,
    name: str = "table",
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    reals: str = "bins",
    schema: TableSchema | None = None,
    weights: Any = None,
    labels: str | None = None,
) -> Dataset:
    """A data set from a table with columns of any kind.

    Parameters
    ----------
    source : path, frame or dict
        A CSV, Parquet or Feather file; a data frame of pandas, polars or duckdb; or columns by name.
    name : str, default "table"
        Name of the data set.
    seed : int, default 0
        Seed of the split: a fifth of the rows is set aside to test.
    columns : mapping of str to str, optional
        What columns are where that is not recognised: "category", "integer", "real" or "skip".
    reals : {"bins", "gaussian"}, default "bins"
        How real numbers become units: categories of ordered bins, or Gaussian units after a monotone map.
    schema : TableSchema, optional
        That of another table with the same columns; by default it is recognised from all rows.
    weights : str or array of shape (rows,), optional
        How much each row counts: the name of a column, which is then no unit, or numbers.
    labels : str, optional
        Name of the column that is predicted.

    Returns
    -------
    Dataset
        With `schema`, which turns rows back into tables, and `units`.

    Raises
    ------
    InputError
        If a column cannot be recognised or a cell does not fit.

    Examples
    --------
    >>> data = rb.from_table({"sex": ["f", "m", None, "f"] * 5, "size": list(range(20))})
    >>> print(data.schema.lines()[0])
    sex: two values, f and m; 5 missing
    """
    table, told = read_table(source), "weights of rows"
    if isinstance(weights, str):
        if weights not in table.column_names:
            raise InputError(
                f"{unknown('column of weights', weights, table.column_names)}, and there is no file of "
                "that name"
            )
        told = f"weights of column {weights}"
        columns = {**(columns or {}), weights: "skip"}
        weights = weights_of_column(table, weights)
    if schema is None:
        schema = TableSchema.recognise(table, overrides=columns, real=reals)
    if labels is not None:
        schema = schema.with_label(labels)
    layers = layers_of(schema)
    whole = split_of(schema, table, layers)
    found = divided(name, whole, (1, layers.visible_columns), seed)
    kinds = None if layers.spins and whole.observed is None else layers
    names = schema.unit_columns
    if kinds is not None:
        names = tuple(column.name for column in schema.columns if column.returned)
    found = replace(found, units=kinds, schema=schema, columns=names)
    return found if weights is None else weighted(found, weights, told=told)
