"""Rows in the containers of scikit-learn's users, as Arrow tables and back: arrays, and frames by Arrow.

Columns of arrays are called x0, x1, …, as scikit-learn calls them. NaN, None and null are missing.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..arrays import Array
from ..data.arrow import read_table
from ..data.columns import Constant, Empty, Numbers, Words
from ..data.table_schema import TableSchema
from ..errors import DataWarning, InputError

if TYPE_CHECKING:
    import pyarrow

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_frame(X: Any) -> bool:
    """Whether rows come as a data frame."""
    return hasattr(X, "__arrow_c_stream__") and hasattr(X, "shape")


def checked_input(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A frame as it is, or an array of numbers or objects, with the number and names of columns checked;
    with `reset` they are learned."""
    if not is_frame(X):
        least = 2 if reset else 1
        array = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=least,
        )
        floating = array.dtype.kind == "f" and array.dtype not in FLOATS
        return array.astype(np.float64) if floating else array
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if len(X) < 1 + reset:
        raise InputError(
            f"found {len(X)} sample(s) (shape={tuple(X.shape)}) while a minimum of {1 + reset} is "
            "required; give more rows"
        )
    return X


def column_names(estimator: Any) -> list[str]:
    """Those of the frame that was learned, or x0, x1, …"""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{i}" for i in range(estimator.n_features_in_)] if names is None else [*names]


def as_table(X: Any, names: list[str], missing: Any = np.nan) -> pyarrow.Table:
    """Checked input as an Arrow table whose cells are null where they equal `missing`, too."""
    if is_frame(X):
        if not all(isinstance(name, str) for name in X.columns):
            X = X.set_axis(names, axis=1)
        table = read_table(X)
    else:
        columns = {name: _plain_values(X[:, i]) for i, name in enumerate(names)}
        table = read_table(columns)
    return table if _is_gap(missing) else _without_value(table, missing)


def _plain_values(values: Array) -> Any:
    """A column of an array as Arrow takes it."""
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values)
    cells = [cell.item() if isinstance(cell, np.generic) else cell for cell in values.tolist()]
    return [None if _is_gap(cell) else cell for cell in cells]


def _is_gap(value: Any) -> bool:
    """None, NaN, or the NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def gaps_of(values: Array) -> Array:
    """Which values of a one-dimensional array are missing, (rows,) booleans."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), bool)
    return np.array([_is_gap(value) for value in values], bool)


def _without_value(table: pyarrow.Table, missing: Any) -> pyarrow.Table:
    import pyarrow
    import pyarrow.compute as pc

    columns = {}
    for name in table.column_names:
        cells = table.column(name)
        words = pyarrow.types.is_string(cells.type)
        if isinstance(missing, str) == words and not pyarrow.types.is_null(cells.type):
            lost = pc.equal(cells, pyarrow.scalar(missing)).fill_null(False)
            cells = pc.if_else(lost, pyarrow.scalar(None, cells.type), cells)
        columns[name] = cells
    return pyarrow.table(columns)


# -- what was not learned -----------------------------------------------------------------------------


def known_part(schema: TableSchema, table: pyarrow.Table) -> pyarrow.Table:
    """The table as the schema can encode it: null where a value of words was not learned, which a warning
    tells, and whole numbers in columns of whole numbers."""
    import pyarrow
    import pyarrow.compute as pc

    columns: dict[str, Any] = {}
    strange: dict[str, Any] = {}
    for column in schema.columns:
        cells = table.column(column.name)
        if isinstance(column, Numbers) and column.whole and pyarrow.types.is_floating(cells.type):
            cells = pc.round(cells)
        elif isinstance(column, Words | Constant | Empty):
            values = () if isinstance(column, Empty) else getattr(column, "values", None)
            values = (column.value,) if isinstance(column, Constant) else values
            cells, seen = _among(cells, values or (), column.type)
            if seen is not None:
                strange[column.name] = seen
        columns[column.name] = cells
    if strange:
        name, value = next(iter(strange.items()))
        warnings.warn(
            f"column {name!r} holds {value!r}, which was not there in fit, and is taken as missing"
            + (f"; {len(strange)} columns have such values" if len(strange) > 1 else ""),
            DataWarning,
            stacklevel=4,
        )
    return pyarrow.table(columns)


def _among(cells: Any, values: tuple[Any, ...], kind: str) -> tuple[Any, Any]:
    """Cells with null where they are not among the values, and the first that is not."""
    import pyarrow
    import pyarrow.compute as pc

    if pyarrow.types.is_null(cells.type):
        return cells, None
    wanted = pyarrow.array(list(values), pyarrow.type_for_alias(kind))
    if wanted.type != cells.type:
        if not (_numeric(cells.type) and _numeric(wanted.type)) and len(values):
            return cells, None  # another kind of value: encode says what is wrong
        wanted = wanted.cast(cells.type, safe=False) if len(values) else pyarrow.array([], cells.type)
    there = pc.is_in(cells, value_set=wanted)
    lost = pc.and_(cells.is_valid(), pc.invert(there))
    if not pc.any(lost).as_py():
        return cells, None
    first = cells.filter(lost)[0].as_py()
    return pc.if_else(lost, pyarrow.scalar(None, cells.type), cells), first


def _numeric(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind))


def with_column(schema: TableSchema, column: Words) -> TableSchema:
    """The schema with one more column, the last."""
    return replace(schema, columns=(*schema.columns, column))


# -- back ---------------------------------------------------------------------------------------------


def filled_in(X: Any, filled: pyarrow.Table, lost: Array, wanted: str) -> Any:
    """The input with cells of the filled table where they are `lost` (rows, columns): an array, or the
    frame that scikit-learn's set_output wants ("pandas" or "polars")."""
    if is_frame(X) and wanted != "default":
        return _frame(X, filled, wanted)
    columns = [filled.column(i) for i in range(filled.num_columns)]
    if is_frame(X) and not all(_numeric(column.type) for column in columns):
        return _objects(columns)
    if not is_frame(X) and X.dtype.kind not in "biuf":
        return _objects(columns, X, lost)
    numbers = [np.asarray(column.cast("double").to_numpy(), np.float64) for column in columns]
    new = np.stack(numbers, 1)
    if is_frame(X):
        return new
    kind = X.dtype if X.dtype in FLOATS else np.dtype(np.float64)
    return np.where(lost, new, X).astype(kind)


def _objects(columns: list[Any], given: Any = None, lost: Any = None) -> Array:
    """Cells as Python has them, given ones as they were."""
    found = np.empty((len(columns[0]), len(columns)), object)
    for i, column in enumerate(columns):
        found[:, i] = column.to_pylist()
    return found if given is None else np.where(lost, found, given)


def _frame(X: Any, filled: pyarrow.Table, wanted: str) -> Any:
    """A frame of the table, with the categories and the row labels of the one that came."""
    if wanted == "polars":
        import polars  # type: ignore[import-not-found, unused-ignore]

        return polars.from_arrow(filled)
    frame = filled.to_pandas()
    if hasattr(X, "index"):
        frame.index = X.index
        for name, kind in zip(frame.columns, X.dtypes, strict=True):
            if f"{kind}" == "category":
                frame[name] = frame[name].astype(kind)
    return frame
