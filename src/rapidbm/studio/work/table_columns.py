"""Columns of a table as bars that one can hold: what a bar stands for, and how many rows are in it.

A bar is a word, a number that many rows share, or a range of numbers whose ends are round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.columns import Binned, Column, Normal, Numbers, Words
from ...errors import InputError
from ...runs.tables import Asked
from ...schema import Either, Flag, Maybe, Names, Real, Several, Text, Whole

BARS = 12  # of a column of numbers, about
MOST_WORDS = 60  # of a column that have a bar
WORD = Either((Text(2000), Real(), Flag()))
HELD = Several(
    Names(
        {"column": Whole(0, 20_000)},
        {"values": Several(WORD, most=1000), "low": Maybe(Real()), "high": Maybe(Real())},
    ),
    most=1000,
)


@dataclass(frozen=True)
class Bar:
    """Some values of a column: those listed, or all from `low` to `high`."""

    text: str
    values: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    def hold(self) -> dict[str, Any]:
        """What a page sends to hold it."""
        return {"values": list(self.values)} if self.values else {"low": self.low, "high": self.high}


def bars_of(column: Column) -> list[Bar]:
    """The bars of a column; none of one without a unit."""
    if isinstance(column, Words):
        return [Bar(f"{value}", (value,)) for value in column.values]
    if not isinstance(column, Normal | Binned):
        return []
    low, high = seen_range(column)
    return [Bar(f"{atom:g}", (atom,)) for atom in column.atoms] + list(_ranges(low, high, column.whole))


def seen_range(column: Normal | Binned) -> tuple[float, float]:
    """The least and the largest number that was seen."""
    if isinstance(column, Normal):
        ends = column.map.low, column.map.high
    else:
        half = 0.5 if column.whole else 0.0
        ends = column.bins.edges[0] + half, column.bins.edges[-1] - half
    low, high = column.returned_numbers(np.array(ends)).tolist()
    return min(low, *column.atoms, low), max(high, *column.atoms, high)


def _ranges(low: float, high: float, whole: bool) -> Iterator[Bar]:
    """Ranges of one width with round ends; of whole numbers with both ends in them."""
    width = round_width((high - low) / BARS, whole)
    first, last = math.floor(low / width), math.floor(high / width)
    digits = max(0, -math.floor(math.log10(width)))
    for i in range(first, last + 1):
        start, end = (round(x * width, digits + 1) for x in (i, i + 1))
        if whole:
            text = f"{start:.0f}" if width == 1 else f"{start:.0f} to {end - 1:.0f}"
            yield Bar(text, (), start, end - 1)
        else:
            yield Bar(f"{start:.{digits}f} to {end:.{digits}f}", (), start, end)


def round_width(least: float, whole: bool = False) -> float:
    """1, 2 or 5 times a power of ten, at least so much, and of whole numbers at least 1."""
    if whole and least <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-12))


def shares(column: Column, bars: Sequence[Bar], cells: Sequence[Any]) -> list[float]:
    """The share of cells in each bar; a number at the end of two ranges is in the upper one, and one that
    has a bar of its own in that alone."""
    if isinstance(column, Words):
        counts = Counter(cells)
        return [counts[bar.values[0]] / max(1, len(cells)) for bar in bars]
    x = np.asarray(cells, float)
    found: list[float] = []
    left = np.ones(len(x), bool)
    for bar in (bar for bar in bars if bar.values):
        here = left & (x == bar.values[0])
        found.append(float(here.mean()))
        left &= ~here
    ranges = [bar for bar in bars if not bar.values]
    starts = np.array([bar.low for bar in ranges])
    at = (np.searchsorted(starts, x[left], side="right") - 1).clip(0, len(ranges) - 1)
    counted: list[float] = (np.bincount(at, minlength=len(ranges)) / len(x)).tolist()
    return found + counted


def held_of(columns: Sequence[Column], told: Any) -> list[Asked]:
    """What a page holds, as conditions."""
    found = []
    for one in HELD.checked(told or [], "what is held:", "let it go"):
        if one["column"] >= len(columns):
            raise InputError(f"the table has {len(columns)} columns, from 0 on, not {one['column']}")
        column = columns[one["column"]]
        if isinstance(column, Words):
            known = {f"{value}": value for value in column.values}
            values = tuple(known.get(f"{x}") for x in one.get("values", ()))
            if not values or None in values:
                raise InputError(
                    f"{column.where} has no value {one.get('values')!r}; hold one of its bars"
                )
            found.append(Asked(column, values))
        elif isinstance(column, Numbers):
            ends = [
                usual if one.get(name) is None else float(one[name])
                for name, usual in (("low", -math.inf), ("high", math.inf))
            ]
            values = tuple(x for x in one.get("values", ()) if isinstance(x, int | float))
            if ends[0] > ends[1] or (not values and ends == [-math.inf, math.inf]):
                raise InputError(
                    f"{column.where} is held at a number or between two; give the lower one first"
                )
            found.append(Asked(column, values, *ends))
        else:
            raise InputError(f"{column.where} has one value or none, so there is nothing to hold")
    return found


def cell_of(column: Column, text: Any) -> Any:
    """A cell as a page writes it: None where it is empty."""
    if text is None or not f"{text}".strip():
        return None
    text = f"{text}".strip()
    if isinstance(column, Numbers):
        try:
            value = float(text)
        except ValueError:
            raise InputError(
                f"{column.where} holds numbers, and {text[:60]!r} is none; correct it"
            ) from None
        return int(value) if column.whole and value.is_integer() else value
    if not isinstance(column, Words):
        return None
    for same in (str, lambda x: f"{x}".casefold()):
        for word in column.values:
            if same(word) == same(text):
                return word
    known = ", ".join(f"{word}" for word in column.values[:8])
    raise InputError(
        f"{column.where} has no value {text[:60]!r}; it may be {known}"
        f"{', …' if len(column.values) > 8 else ''}, or empty"
    )
