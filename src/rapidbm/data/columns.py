"""Columns of a table: what each is, the units that it takes, and the way there and back.

    Words       two values: a spin; more: a category. Text, booleans, or numbers of few values
    Normal      numbers, a Gaussian unit after a monotone map to a standard normal
    Binned      numbers, a category of ordered bins
    Constant    one value in all rows that were seen: no unit
    Empty       no value in any row that was seen: no unit
    Skipped     left out on request: no unit, and not in tables that come back

Numbers that many rows share (zeros of a capital gain) are *atoms*, and no map can spread them. They get a
unit of their own, which says "atom a" or "none of them"; the Gaussian unit is observed only in rows whose
value is no atom. A row at an atom says nothing about that unit, so it is marginalised, as a missing cell
is. The density of such a column is with respect to dx + Σ_a δ_a: at an atom a probability, elsewhere
p(x). `Binned` has a code for each atom.

A column answers with one array per unit, in the order of its `parts`; a cell that is not observed holds a
valid placeholder. Rows are counted from 1, without the line of names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import InputError, printable
from ..schema import Text, of_fields
from .cells import LONGEST, codes_of, first_row, known_rows, numbers_of, shown
from .monotone import Bins, NormalMap

if TYPE_CHECKING:
    import pyarrow

WHOLE_TYPES = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES = ("bool", *WHOLE_TYPES, "float", "double", "string", "null")  # Arrow's names
MOST_DECIMALS = 8  # that a column of real numbers is written with
AGAIN = "recognise the table again"
Value = str | int | float | bool


class Part(NamedTuple):
    """One unit: `kind` is spin, categorical or gaussian, `states` how many it has (0 of a Gaussian)."""

    kind: str
    states: int


class Cells(NamedTuple):
    """Values (rows,) of one unit in float64, and which of them are observed (rows,)."""

    values: Array
    observed: Array


Draw = Callable[[int], Array]  # so many numbers, uniform in [0, 1)


@dataclass(frozen=True)
class Column(ABC):
    """A column that was recognised; `missing` of the `rows` seen had no value. `type` is Arrow's name."""

    name: str
    type: str
    missing: int
    rows: int

    kind: ClassVar[str]
    returned: ClassVar[bool] = True  # whether it is in tables that come back

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The units of this column."""

    @abstractmethod
    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        """What each unit holds."""

    @abstractmethod
    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        """The values of the table from those of the units."""

    @abstractmethod
    def describe(self) -> str:
        """What was recognised, without the name."""

    def states(self, part: int) -> list[str]:
        """What each state of a unit says, to be put after the name; of a Gaussian unit nothing."""
        return [""]

    def log_density(self, cells: pyarrow.ChunkedArray) -> Array | None:
        """log |dT/dx| of each row, or the log density within a bin; None where it is 0 in all rows."""
        return None

    def check(self) -> None:
        """Refuses fields that contradict each other, of a column that comes from a file."""
        if self.type not in TYPES:
            raise InputError(
                f"{self.where}: unknown type {self.type[:40]!r}; known are {', '.join(TYPES)}; {AGAIN}"
            )

    @property
    def where(self) -> str:
        return f"column {shown(self.name)}"

    def line(self) -> str:
        """The name, and what was recognised."""
        return f"{printable(self.name)}: {self.told()}"

    def told(self) -> str:
        """What was recognised, and how many cells are missing."""
        return f"{self.describe()}; {self.missing:,} missing"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"kind": self.kind, **_lists(asdict(self))}


@dataclass(frozen=True)
class Words(Column):
    """Two values or more, in order: −1 and +1 of a spin, or the codes 0, 1, … of a category."""

    values: tuple[Value, ...]

    kind = "words"

    def check(self) -> None:
        super().check()
        check_values(self, self.values)
        if len(self.values) < 2:
            raise InputError(
                f"{self.where} must have two values or more, not {len(self.values)}; {AGAIN}"
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        return (_choice(len(self.values)),)

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        codes, observed = codes_of(cells, self.values, self.type, self.where)
        return [_chosen(codes, observed, len(self.values))]

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        return [self.values[code] for code in _codes(values[0], len(self.values)).tolist()]

    def states(self, part: int) -> list[str]:
        return [f"={value}" for value in self.values]

    def describe(self) -> str:
        words = [printable(f"{value}") for value in self.values]
        words = [word if len(word) <= 30 else f"{word[:30]}…" for word in words]
        if len(words) == 2:
            return f"two values, {words[0]} and {words[1]}"
        some = ", ".join(words[:4]) + (", …" if len(words) > 4 else "")
        return f"{len(words):,} categories, {some}"


@dataclass(frozen=True)
class Numbers(Column):
    """What columns of numbers share: values that many rows have, whether all of them are whole, and the
    decimals that they were written with, if these are few."""

    whole: bool
    atoms: tuple[float, ...]
    shares: tuple[float, ...]  # of the atoms, among known cells
    decimals: int | None = field(default=None, kw_only=True)  # None: as many as a double has

    def check(self) -> None:
        super().check()
        if self.type in ("bool", "string", "null"):
            raise InputError(f"{self.where}: numbers are of no type {self.type!r}; {AGAIN}")
        if not (np.diff(np.array(self.atoms)) > 0).all() or len(self.shares) != len(self.atoms):
            raise InputError(f"{self.where}: its atoms must increase, each with a share; {AGAIN}")
        if self.whole and any(atom % 1 for atom in self.atoms):
            raise InputError(f"{self.where}: its atoms must be whole numbers; {AGAIN}")
        if self.decimals is not None and not 0 <= self.decimals <= MOST_DECIMALS:
            raise InputError(
                f"{self.where}: numbers have 0 to {MOST_DECIMALS} decimals, not {self.decimals}; {AGAIN}"
            )

    def numbers(self, cells: pyarrow.ChunkedArray) -> Array:
        """Values (rows,) with NaN where they are missing."""
        return numbers_of(cells, self.where, whole=self.whole)

    def atom_codes(self, x: Array) -> Array:
        """The atom at which each value is; as many as there are atoms, where it is at none."""
        if not self.atoms:
            return np.zeros(len(x), np.int64)
        at = np.searchsorted(self.atoms, x).clip(0, len(self.atoms) - 1)
        return np.where(np.array(self.atoms)[at] == x, at, len(self.atoms))

    def between(self, x: Array) -> Array:
        """Whole numbers as if there were no atoms: those above an atom move down by one."""
        return x - np.searchsorted(self.atoms, x) if self.whole else x

    def returned_numbers(self, x: Array) -> Array:
        """Values in the units of the table from those of `between`."""
        if self.whole:
            x = np.rint(x)
            for atom in self.atoms:
                x = x + (x >= atom)
        return x

    def rounded(self, x: Array, same: Callable[[Array], Array] | None = None) -> Array:
        """Values with the decimals of the column. The nearest such number may be an atom, or lie where
        `same` says no (in another bin): then the one on the other side, if it is better."""
        if self.whole or self.decimals is None:
            return x
        step = 10.0**-self.decimals
        fits = np.abs(x) < 2.0**53 * step  # larger ones have no such decimals
        near = np.where(fits, np.round(np.where(fits, x, 0.0), self.decimals), x)
        beyond = np.where(fits, near, 0.0) + np.where(x >= near, step, -step)
        far = np.where(fits, np.round(beyond, self.decimals), x)

        def wrong(y: Array) -> Array:
            atom = np.isin(y, self.atoms).astype(np.int64)
            return atom if same is None else atom + 2 * ~same(y)

        return np.where(wrong(far) < wrong(near), far, near)

    def _known(self, low: float, high: float) -> str:
        low, high = (float(self.returned_numbers(np.array([x]))[0]) for x in (low, high))
        low, high = min(low, *self.atoms, low), max(high, *self.atoms, high)
        ends = f"{low:.0f} to {high:.0f}" if self.whole else f"{low:g} to {high:g}"
        told = f"{'integers' if self.whole else 'real numbers'} from {ends}"
        own = [f"{x:g} ({100 * p:.0f} %)" for x, p in zip(self.atoms, self.shares, strict=True)]
        return f"{told}, with a state of its own for {', '.join(own)}" if own else told


@dataclass(frozen=True)
class Normal(Numbers):
    """Numbers as a Gaussian unit; before it, if there are atoms, a spin or category that says which atom
    a value is, and whose last state says that it is at no atom."""

    map: NormalMap

    kind = "normal"

    def check(self) -> None:
        super().check()
        self.map.check(self.where)

    @property
    def parts(self) -> tuple[Part, ...]:
        gaussian = Part("gaussian", 0)
        return (_choice(len(self.atoms) + 1), gaussian) if self.atoms else (gaussian,)

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        x = self.numbers(cells)
        known, which = ~np.isnan(x), self.atom_codes(x)
        free = known & (which == len(self.atoms)) if self.atoms else known
        z = np.zeros(len(x))
        z[free] = self.map.forward(self.between(x[free]))
        units = [Cells(z, free)]
        return [_chosen(which, known, len(self.atoms) + 1), *units] if self.atoms else units

    def log_density(self, cells: pyarrow.ChunkedArray) -> Array:
        x = self.numbers(cells)
        free = ~np.isnan(x)
        if self.atoms:
            free &= self.atom_codes(x) == len(self.atoms)
        found = np.zeros(len(x))
        found[free] = self.map.log_slope(self.between(x[free]))
        return found

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        x = self.rounded(self.returned_numbers(self.map.inverse(values[-1], outside=outside)))
        if not self.atoms:
            return x
        which = _codes(values[0], len(self.atoms) + 1)
        return np.where(which < len(self.atoms), np.r_[self.atoms, 0.0][which], x)

    def states(self, part: int) -> list[str]:
        if self.parts[part].kind == "gaussian":
            return [""]
        return [*(f"={atom:g}" for atom in self.atoms), " another number"]

    def describe(self) -> str:
        return f"{self._known(self.map.low, self.map.high)}, a Gaussian unit after a map to a normal"


@dataclass(frozen=True)
class Binned(Numbers):
    """Numbers as ordered bins: a category whose first codes are the atoms, the others the bins."""

    bins: Bins

    kind = "binned"

    def check(self) -> None:
        super().check()
        self.bins.check(self.where)
        if self.bins.whole != self.whole:
            raise InputError(f"{self.where}: its bins are of other numbers; {AGAIN}")
        if self._states < 2:
            raise InputError(f"{self.where} must have two bins or more; {AGAIN}")

    @property
    def _states(self) -> int:
        return len(self.atoms) + self.bins.count

    @property
    def parts(self) -> tuple[Part, ...]:
        return (_choice(self._states),)

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        x = self.numbers(cells)
        known, which, count = ~np.isnan(x), self.atom_codes(x), len(self.atoms)
        code = np.where(which < count, which, count + self.bins.code(self.between(x)))
        return [_chosen(code, known, self._states)]

    def log_density(self, cells: pyarrow.ChunkedArray) -> Array:
        x = self.numbers(cells)
        free = ~np.isnan(x)
        if self.atoms:
            free &= self.atom_codes(x) == len(self.atoms)
        found = np.zeros(len(x))
        found[free] = self.bins.log_density(self.between(x[free]))
        return found

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        code, count = _codes(values[0], self._states), len(self.atoms)
        which = (code - count).clip(0)
        drawn = self.returned_numbers(self.bins.draw(which, draw(rows), outside=outside))
        drawn = self.rounded(drawn, lambda x: self.bins.code(x) == which)
        if not count:
            return drawn
        return np.where(code < count, np.r_[self.atoms, 0.0][code.clip(0, count)], drawn)

    def states(self, part: int) -> list[str]:
        half = 0.5 if self.whole else 0.0
        ends = np.array([(a + half, b - half) for a, b in pairwise(self.bins.edges)])
        spans = [f" {a:g} to {b:g}" if a < b else f"={a:g}" for a, b in self.returned_numbers(ends)]
        return [*(f"={atom:g}" for atom in self.atoms), *spans]

    def describe(self) -> str:
        edges = self.bins.edges
        low, high = (edges[0] + 0.5, edges[-1] - 0.5) if self.whole else (edges[0], edges[-1])
        return f"{self._known(low, high)}, in {self.bins.count} bins"


@dataclass(frozen=True)
class Constant(Column):
    """One value in every row; the machine has no unit for it."""

    value: Value

    kind = "constant"

    def check(self) -> None:
        super().check()
        check_values(self, (self.value,))

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        codes_of(cells, (self.value,), self.type, self.where)
        return []

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        return [self.value] * rows

    def describe(self) -> str:
        return f"{printable(f'{self.value}')[:60]} in every row; no unit, the value comes back in tables"


@dataclass(frozen=True)
class Empty(Column):
    """No value in any row; the machine has no unit for it."""

    kind = "empty"

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        if cells.null_count < len(cells):
            row = first_row(known_rows(cells))
            raise InputError(
                f"{self.where}, row {row}: {shown(cells[row - 1].as_py())} in a column that had no value "
                "when the table was recognised; leave the column empty, or recognise and train again"
            )
        return []

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        return [None] * rows

    def describe(self) -> str:
        return "no value in any row; no unit, an empty column comes back in tables"


@dataclass(frozen=True)
class Skipped(Column):
    """Left out on request."""

    kind = "skipped"
    returned = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return ()

    def encode(self, cells: pyarrow.ChunkedArray) -> list[Cells]:
        return []

    def decode(
        self, values: Sequence[Array], draw: Draw, *, rows: int, outside: bool
    ) -> list[Any] | Array:
        raise AssertionError("a column that was left out does not come back")

    def describe(self) -> str:
        return "left out, on request"


KINDS: dict[str, type[Column]] = {
    cls.kind: cls for cls in (Words, Normal, Binned, Constant, Empty, Skipped)
}


def from_json(told: Any, what: str) -> Column:
    """A column from plain values, checked."""
    if not isinstance(told, dict) or told.get("kind") not in KINDS:
        raise InputError(f"{what} must be of a kind, one of {', '.join(KINDS)}; {AGAIN}")
    cls = KINDS[told["kind"]]
    inner = {name: value for name, value in told.items() if name != "kind"}
    of_fields(cls).checked(inner, f"{what}:", AGAIN)
    for name, kind in (("map", NormalMap), ("bins", Bins)):
        if name in inner:
            inner[name] = kind(**_tuples(inner[name]))
    column = cls(**_tuples(inner))
    Text(LONGEST).checked(column.name, f"{what}: its name", AGAIN)
    if not 0 <= column.missing <= column.rows:
        raise InputError(f"{column.where}: {column.missing} of {column.rows} cells are missing; {AGAIN}")
    column.check()
    return column


def check_values(column: Column, values: Sequence[Value]) -> None:
    """Refuses values that are not of the column's type, or occur twice."""
    kinds: dict[str, tuple[type, ...]] = {"bool": (bool,), "string": (str,)}
    allowed = kinds.get(column.type, (int,) if column.type in WHOLE_TYPES else (int, float))
    for value in values:
        good = isinstance(value, allowed) and (allowed == (bool,) or not isinstance(value, bool))
        if not good or (isinstance(value, str) and not Text(LONGEST).fits(value)):
            raise InputError(f"{column.where}: {value!r:.60} is no {column.type}; {AGAIN}")
    if len(set(values)) != len(values):
        raise InputError(f"{column.where}: a value is listed twice; {AGAIN}")


def _lists(told: dict[str, Any]) -> dict[str, Any]:
    """Tuples as the lists that JSON has."""
    return {
        name: _lists(value)
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in told.items()
    }


def _tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def _choice(states: int) -> Part:
    """A spin for two states, a category for more."""
    return Part("spin", 2) if states == 2 else Part("categorical", states)


def _chosen(codes: Array, observed: Array, states: int) -> Cells:
    """Codes as a unit has them, with a placeholder where they are not observed."""
    values = 2.0 * codes - 1 if states == 2 else codes.astype(np.float64)
    return Cells(np.where(observed, values, 1.0 if states == 2 else 0.0), observed)


def _codes(values: Array, states: int) -> Array:
    """Codes 0, 1, … of a unit's values."""
    return ((values + 1) / 2 if states == 2 else values).astype(np.int64)
