"""Cells of an Arrow column as numbers or codes; one that cannot be either is named by column and row.

Rows are counted from 1, without the line of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import InputError, printable

if TYPE_CHECKING:
    import pyarrow

LARGEST = 1e150  # numbers beyond are refused: their squares are no numbers any more
LARGEST_WHOLE = 2**40  # whole numbers beyond are identifiers, and a map could not tell neighbours apart
LONGEST = 1000  # characters of a word or a name


def shown(value: Any) -> str:
    """A value or a name for a message, in quotes where it is text."""
    text = printable(f"{value}")
    text = text if len(text) <= 60 else f"{text[:60]}…"
    return f"{text!r}" if isinstance(value, str) else text


def known_rows(cells: pyarrow.ChunkedArray) -> Array:
    """Which rows have a value, (rows,) booleans."""
    return np.asarray(cells.is_valid().to_numpy(), bool)


def first_row(mask: Array) -> int:
    """The first row for which it is true, counted from 1."""
    return int(mask.argmax()) + 1


def row_of(cells: pyarrow.ChunkedArray, value: Any) -> int:
    """The first row that holds a value, counted from 1."""
    import pyarrow.compute

    same = pyarrow.compute.equal(cells, value).fill_null(False)
    return first_row(np.asarray(same.to_numpy(), bool))


def numbers_of(cells: pyarrow.ChunkedArray, where: str, *, whole: bool) -> Array:
    """Values (rows,) in float64, NaN where a cell is missing; text is read as a number."""
    import pyarrow

    kind = cells.type
    if pyarrow.types.is_null(kind):
        return np.full(len(cells), np.nan)
    if pyarrow.types.is_string(kind):
        cells = parsed(cells, where)
    elif not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)):
        raise InputError(f"{where} must hold numbers, not {kind}; convert it, or name it a category")
    known = known_rows(cells)
    x = np.asarray(cells.cast(pyarrow.float64(), safe=False).to_numpy(), np.float64)
    if (wrong := known & ~(np.abs(x) <= LARGEST)).any():
        row = first_row(wrong)
        raise InputError(
            f"{where}, row {row}: numbers must be finite and below {LARGEST:g}, not {x[row - 1]:g}; "
            "leave the cell empty if it is not known, or scale the column"
        )
    if whole and (wrong := known & (x != np.rint(x))).any():
        row = first_row(wrong)
        raise InputError(
            f"{where}, row {row}: this is a column of whole numbers, not {x[row - 1]:g}; round it, or "
            "recognise the column as real and train again"
        )
    if whole and (wrong := known & (np.abs(x) > LARGEST_WHOLE)).any():
        row = first_row(wrong)
        raise InputError(
            f"{where}, row {row}: whole numbers must be at most 2^40, not {x[row - 1]:.0f}; leave the "
            "column out if it identifies rows, or name it real"
        )
    return x


def parsed(cells: pyarrow.ChunkedArray, where: str) -> pyarrow.ChunkedArray:
    """Text as float64; the first cell that is no number is named."""
    import pyarrow
    import pyarrow.compute

    try:
        return cells.cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        pass
    for word in cells.unique().drop_null().to_pylist():
        try:
            pyarrow.scalar(word).cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            raise InputError(
                f"{where}, row {row_of(cells, word)}: {shown(word)} is no number; correct the cell, "
                "leave it empty if it is not known, or name the column a category"
            ) from None
    raise AssertionError("each word is a number")


def codes_of(
    cells: pyarrow.ChunkedArray, values: Sequence[Any], kind: str, where: str
) -> tuple[Array, Array]:
    """The place of each cell (rows,) among `values` of an Arrow type, and which cells have a value; one
    that is not among them is named, with its row and the nearest that is."""
    import pyarrow
    import pyarrow.compute

    known = known_rows(cells)
    if pyarrow.types.is_null(cells.type):
        return np.zeros(len(cells), np.int64), known
    distinct = cells.unique().drop_null()
    words = pyarrow.array(values, pyarrow.type_for_alias(kind))
    place = {word: i for i, word in enumerate(values)}
    number = {i: place.get(_converted(word, words.type)) for i, word in enumerate(distinct)}
    for i, found in number.items():
        if found is None:
            word = distinct[i].as_py()
            near = get_close_matches(f"{word}", [f"{value}" for value in values], n=1)
            some = ", ".join(shown(value) for value in values[:5]) + (", …" if len(values) > 5 else "")
            hint = f"did you mean {shown(near[0])}? " if near and near[0] != f"{word}" else ""
            raise InputError(
                f"{where}, row {row_of(cells, distinct[i])}: {shown(word)} is not among the values that "
                f"were learned ({some}); {hint}correct it, leave the cell empty, or train on a table "
                "that has it"
            )
    places = np.array([number[i] for i in range(len(distinct))], np.int64)
    at = pyarrow.compute.index_in(cells, value_set=pyarrow.array(distinct)).fill_null(0).to_numpy()
    return places[at] if len(places) else np.zeros(len(cells), np.int64), known


def _converted(word: pyarrow.Scalar, kind: pyarrow.DataType) -> Any:
    """A value in the type of a column, or None where it has none there."""
    import pyarrow

    try:
        if pyarrow.types.is_boolean(kind) and word.as_py() not in (True, False, "true", "false"):
            return None  # Arrow takes every number but 0 for true
        return word.cast(kind).as_py()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        return None
