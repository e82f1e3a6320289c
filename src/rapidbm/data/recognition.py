"""What a column of a table is, from its type and its values.

| column | is |
| --- | --- |
| booleans; two different values, words or numbers | two values, a spin |
| text of 3 to 1,000 different words | a category |
| numbers of 3 to 20 different values, with five rows or more for each on average | a category |
| other numbers, all of them whole | integers |
| other numbers | real |
| one value in all rows; no value in any | no unit; the column comes back in samples |
| text that reads as dates, dates, times, lists, bytes | refused |
| text in which most rows have a word of their own (21 words or more) | refused |

`overrides` says otherwise: "category", "integer", "real" (numbers that come back as real ones, be they
whole or not) or "skip".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import InputError, check_choice, check_count
from ..schema import Text
from .cells import LONGEST, numbers_of, row_of, shown
from .columns import (
    MOST_DECIMALS,
    WHOLE_TYPES,
    Binned,
    Column,
    Constant,
    Empty,
    Normal,
    Skipped,
    Value,
    Words,
)
from .monotone import MOST_QUANTILES, fit_bins, fit_normal

if TYPE_CHECKING:
    import pyarrow

OVERRIDES = ("category", "integer", "real", "skip")
REALS = ("gaussian", "bins")
MOST_WORDS = 1000  # of a category
FEW, EACH = 20, 5  # different numbers of a category, and rows for each of them on average
ATOM, LEAST = 0.1, 10  # share and number of cells from which on a number is an atom
SMALLEST = 1e-200  # least distance between the ends of a column
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b.*|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})\b.*|\d{1,2}:\d\d(:\d\d)?"
)


@dataclass(frozen=True)
class Reals:
    """How numbers become units: `how` is gaussian or bins."""

    how: str = "gaussian"
    bins: int = 16
    quantiles: int | None = None

    def __post_init__(self) -> None:
        check_choice("way for real columns", self.how, REALS)
        check_count("the number of bins", self.bins, least=2)
        if self.quantiles is not None:
            check_count("the number of quantiles", self.quantiles, least=2)
            if self.quantiles > MOST_QUANTILES:
                raise InputError(
                    f"the number of quantiles must be at most {MOST_QUANTILES:,}, not "
                    f"{self.quantiles:,}; more follow chance"
                )


def recognise_column(name: str, cells: pyarrow.ChunkedArray, wanted: str | None, reals: Reals) -> Column:
    """What a column is; `wanted` is one of `OVERRIDES`, or None."""
    import pyarrow

    where, types, rows = f"column {shown(name)}", pyarrow.types, len(cells)
    common: dict[str, Any] = {"name": name, "missing": cells.null_count, "rows": rows}
    if wanted == "skip":
        return Skipped(type="null", **common)
    if cells.null_count == rows:
        if wanted is not None:
            raise InputError(
                f"{where} has no value in any of {rows:,} rows, so it cannot be of kind {wanted}; fill "
                "it in, or leave it out (skip)"
            )
        return Empty(type=f"{cells.type}" if types.is_string(cells.type) else "null", **common)
    _check_type(where, cells)
    kind = f"{cells.type}"
    if wanted in ("integer", "real"):
        x = numbers_of(cells, where, whole=wanted == "integer")
        known = x[~np.isnan(x)]
        if (known == known[0]).all():
            return _constant(cells, kind, common)
        if wanted == "real":
            kind = kind if kind in ("float", "double") else "double"
        elif kind == "string":
            kind = "int64"
        return _numbers(where, known, kind, reals, whole=wanted == "integer", common=common)
    distinct = cells.unique().drop_null()
    if len(distinct) == 1:
        return _constant(cells, kind, common)
    if types.is_string(cells.type):
        return _text(where, cells, distinct, wanted, common)
    if types.is_boolean(cells.type):
        return Words(type=kind, values=(False, True), **common)
    x = numbers_of(cells, where, whole=False)
    known = x[~np.isnan(x)]
    few = len(distinct) == 2 or (len(distinct) <= FEW and len(known) >= EACH * len(distinct))
    whole = bool((known == np.rint(known)).all())
    if wanted == "category" or few or _free(known)[1] is None:
        if len(distinct) > MOST_WORDS:
            raise InputError(
                f"{where}: a category has at most {MOST_WORDS:,} values, and there are "
                f"{len(distinct):,}; name the column integer or real, group its values, or leave it out "
                "(skip)"
            )
        return Words(
            type=kind, values=tuple(sorted(map(_checked(where), distinct.to_pylist()))), **common
        )
    if whole:
        numbers_of(cells, where, whole=True)
    return _numbers(where, known, kind, reals, whole=whole, common=common)


def _check_type(where: str, cells: pyarrow.ChunkedArray) -> None:
    import pyarrow

    types, kind = pyarrow.types, cells.type
    if types.is_temporal(kind):
        raise InputError(
            f"{where} holds dates or times ({kind}), which no unit can hold; make numbers of them (year, "
            "month, days since a date), or leave the column out (skip)"
        )
    good = (
        types.is_string(kind) or types.is_boolean(kind) or f"{kind}" in (*WHOLE_TYPES, "float", "double")
    )
    if not good:
        raise InputError(
            f"{where} holds {f'{kind}'[:60]}; a column holds text, numbers or booleans: convert it, or "
            "leave it out (skip)"
        )


def _constant(cells: pyarrow.ChunkedArray, kind: str, common: dict[str, Any]) -> Constant:
    if kind in ("float", "double"):
        numbers_of(cells, f"column {shown(common['name'])}", whole=False)
    value = cells.unique().drop_null()[0].as_py()
    return Constant(type=kind, value=_checked(f"column {shown(common['name'])}")(value), **common)


def _checked(where: str) -> Any:
    """A function that answers a value as it is, or refuses it."""

    def checked(value: Value) -> Value:
        if isinstance(value, str) and not Text(LONGEST).fits(value):
            raise InputError(
                f"{where}: a word has at most {LONGEST:,} characters and no character 0, and "
                f"{shown(value)} has {len(value):,}; shorten it, or leave the column out (skip)"
            )
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise InputError(
                f"{where}: whole numbers must be below 2^63, not {value}; leave it out (skip)"
            )
        return value

    return checked


def _text(
    where: str,
    cells: pyarrow.ChunkedArray,
    distinct: pyarrow.Array,
    wanted: str | None,
    common: dict[str, Any],
) -> Words:
    """Two words, or a category."""
    words, rows = distinct.to_pylist(), len(cells) - cells.null_count
    if wanted is None:
        if all(DATE.fullmatch(word) for word in words):
            raise InputError(
                f"{where} reads as dates or times ({shown(words[0])}, …); make numbers of them (year, "
                "month, days since a date), name the column a category, or leave it out (skip)"
            )
        if len(words) > FEW:
            wrong = [word for word in words if not is_number(word)]
            if not wrong:
                raise InputError(
                    f"{where} holds numbers with a 0 in front, as codes and identifiers have it; leave "
                    "the column out (skip), or name it real or a category"
                )
            if 2 * len(wrong) < len(words):
                raise InputError(
                    f"{where}, row {row_of(cells, wrong[0])}: most cells are numbers, but "
                    f"{shown(wrong[0])} is not one; correct the cell, leave it empty if it is not known, "
                    "or name the column real or a category"
                )
            if 2 * len(words) > rows and len(words) <= MOST_WORDS:
                raise InputError(
                    f"{where}: {len(words):,} different words in {rows:,} rows tell rows apart, and "
                    "nothing can be learned from them; leave the column out (skip), or name it a category"
                )
    if len(words) > MOST_WORDS:
        raise InputError(
            f"{where}: a category has at most {MOST_WORDS:,} values, and there are {len(words):,} words "
            f"in {rows:,} rows, {shown(words[MOST_WORDS])} in row {row_of(cells, words[MOST_WORDS])} "
            "among them; group the rare ones, or leave the column out (skip)"
        )
    return Words(type="string", values=tuple(sorted(map(_checked(where), words))), **common)


def is_number(word: str) -> bool:
    """Whether text reads as a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _free(known: Array) -> tuple[Array, Array | None]:
    """The atoms among values, and the others, or None where these are not at least two different ones."""
    seen, counts = np.unique(known, return_counts=True)
    atoms = seen[counts >= max(LEAST, ATOM * len(known))]
    rest = seen[~np.isin(seen, atoms)]
    return atoms, known[~np.isin(known, atoms)] if len(rest) >= 2 else None


def decimals_of(known: Array, *, single: bool = False) -> int | None:
    """The fewest decimals that every value can be written with, if these are at most `MOST_DECIMALS`;
    values in `single` precision are near such numbers only."""
    for decimals in range(MOST_DECIMALS + 1):
        if np.abs(known).max() * 10.0**decimals >= 2**53:  # further ones are those of the binary number
            return None
        near = np.round(known, decimals)
        if ((near.astype(np.float32) == known) if single else (near == known)).all():
            return decimals
    return None


def _numbers(
    where: str, known: Array, kind: str, reals: Reals, *, whole: bool, common: dict[str, Any]
) -> Normal | Binned:
    atoms, rest = _free(known)
    if rest is None:  # numbers on request, though they have few values
        atoms, rest = np.empty(0), known
    shares = tuple(float((known == atom).mean()) for atom in atoms)
    if whole:
        rest = rest - np.searchsorted(atoms, rest)
    elif np.ptp(rest) < SMALLEST:
        raise InputError(
            f"{where}: values differ by less than {SMALLEST:g}; scale the column, or leave it out"
        )
    some = {**common, "type": kind, "whole": whole, "atoms": tuple(atoms.tolist()), "shares": shares}
    some["decimals"] = 0 if whole else decimals_of(known, single=kind == "float")
    if reals.how == "gaussian":
        return Normal(map=fit_normal(rest, whole=whole, quantiles=reals.quantiles), **some)
    return Binned(bins=fit_bins(rest, whole=whole, bins=reals.bins), **some)
