"""The schema of a table: what each column is, and rows as numbers for a machine and back.

    columns of a table  ⇄  spins ±1 | codes 0 … q − 1 of categories | real numbers about normal        (1)

Units stand in that order; within a kind in the order of the table's columns. The schema is plain JSON, so
it is stored with a run and with a machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..accel.memory import check_room
from ..arrays import Array, as_array
from ..errors import InputError, check_choice, unknown
from ..random import check_rng
from ..schema import Anything, Names, Several, Text, Whole
from .arrow import MOST_COLUMNS, check_names, read_table
from .cells import LONGEST, first_row, shown
from .columns import WHOLE_TYPES, Column, from_json
from .recognition import OVERRIDES, Reals, recognise_column

if TYPE_CHECKING:
    import pyarrow

KINDS = ("spin", "categorical", "gaussian")  # of units, in their order
VERSION = 1
SHAPE = Names(
    {"version": Whole(VERSION, VERSION), "columns": Several(Anything(), most=MOST_COLUMNS)},
    {"label": Text(LONGEST)},
)


@dataclass(frozen=True)
class TableSchema:
    """What each column of a table is, and how its rows become values of units and come back.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the table.
    label : str, default ""
        Name of the column that is predicted.

    Examples
    --------
    >>> from rapidbm.data.table_schema import TableSchema
    >>> table = {"sex": ["f", "m", None, "f"], "size": [1.71, 1.8, 1.65, 1.7]}
    >>> schema = TableSchema.recognise(table)
    >>> print(*schema.lines(), sep="\\n")
    sex: two values, f and m; 1 missing
    size: real numbers from 1.65 to 1.8, a Gaussian unit after a map to a normal; 0 missing
    >>> schema.layers()
    [('spin', 1), ('gaussian', 1)]
    """

    columns: tuple[Column, ...]
    label: str = ""

    @classmethod
    def recognise(
        cls,
        table: Any,
        *,
        overrides: Mapping[str, str] | None = None,
        real: str = "gaussian",
        bins: int = 16,
        quantiles: int | None = None,
    ) -> TableSchema:
        """The schema of a table, by the rules of `recognition`.

        Parameters
        ----------
        table : table, frame, dict or path
            Whatever `read_table` takes.
        overrides : mapping of str to str, optional
            What columns are, by name: "category", "integer", "real" or "skip".
        real : {"gaussian", "bins"}, default "gaussian"
            How numbers become units: one Gaussian unit after a monotone map to a standard normal, or a
            category of ordered bins.
        bins : int, default 16
            Bins of a column, at most.
        quantiles : int, optional
            Quantiles of a map, at most; by default 2 N^0.4 for N values.

        Returns
        -------
        TableSchema
            A column for each of the table's.

        Raises
        ------
        InputError
            If a column cannot be recognised, or no column has two values.
        """
        table, reals = read_table(table), Reals(real, bins, quantiles)
        wanted = dict(overrides or {})
        for name, kind in wanted.items():
            if name not in table.column_names:
                raise unknown("column", name, table.column_names)
            check_choice("kind of column", kind, OVERRIDES)
        if not table.num_rows:
            raise InputError(
                "a table must have a row to be recognised by, and this one has none; add rows"
            )
        schema = cls(
            tuple(recognise_column(n, table.column(n), wanted.get(n), reals) for n in table.column_names)
        )
        if not schema.unit_columns:
            raise InputError(
                "no column has two different values, so there is nothing to learn: "
                f"{'; '.join(schema.lines()[:5])}; add rows or columns"
            )
        return schema

    def lines(self) -> list[str]:
        """One line per column that says what it is.

        Returns
        -------
        list of str
            In the order of the table.
        """
        return [column.line() for column in self.columns]

    @cached_property
    def _units(self) -> list[tuple[int, int]]:
        """Column and part of each unit, in the order of units."""
        parts = [
            (KINDS.index(part.kind), c, p)
            for c, column in enumerate(self.columns)
            for p, part in enumerate(column.parts)
        ]
        return [(c, p) for _, c, p in sorted(parts)]

    @cached_property
    def _places(self) -> list[list[int]]:
        """The units of each column."""
        at = {unit: i for i, unit in enumerate(self._units)}
        return [[at[c, p] for p in range(len(col.parts))] for c, col in enumerate(self.columns)]

    def with_label(self, name: str) -> TableSchema:
        """The schema with a column marked as the one that is predicted.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        TableSchema
            With `label`.

        Raises
        ------
        InputError
            If there is no such column, or it has no unit.
        """
        if name not in self.unit_columns:
            known = list(dict.fromkeys(self.unit_columns))
            raise unknown("label: no column with different values", name, known)
        return replace(self, label=name)

    @property
    def label_unit(self) -> int | None:
        """The unit of the label; None without a label, or if it has several units."""
        units = [i for i, name in enumerate(self.unit_columns) if name == self.label]
        return units[0] if len(units) == 1 else None

    @property
    def unit_columns(self) -> tuple[str, ...]:
        """The name of the column that each unit belongs to, (units,)."""
        return tuple(self.columns[c].name for c, _ in self._units)

    def layers(self) -> list[tuple[str, Any]]:
        """The units that a machine needs, in their order.

        Returns
        -------
        list of tuple
            ("spin", n), ("categorical", (q₁, q₂, …)) and ("gaussian", m), without those that are empty.
        """
        parts = [self.columns[c].parts[p] for c, p in self._units]
        spins, gaussians = (sum(part.kind == kind for part in parts) for kind in ("spin", "gaussian"))
        states = tuple(part.states for part in parts if part.kind == "categorical")
        every = [("spin", spins), ("categorical", states), ("gaussian", gaussians)]
        return [(kind, size) for kind, size in every if size]

    def encode(self, table: Any) -> tuple[Array, Array]:
        """Rows as values of units; columns are found by name.

        Parameters
        ----------
        table : table, frame, dict or path
            Whatever `read_table` takes, with the columns of this schema in any order.

        Returns
        -------
        values : array of shape (rows, units), float64
            Spins ±1, codes of categories, real numbers; +1, 0 and 0.0 where nothing is observed.
        observed : array of shape (rows, units), bool
            False where a cell is missing, and for the Gaussian unit of a number that is an atom.

        Raises
        ------
        InputError
            If a column is missing or new, or a value was not seen when the schema was made.
        """
        table = self._checked(table)
        shape = (table.num_rows, len(self._units))
        check_room("the table as numbers", 2 * shape[0] * shape[1], size=9, free=True)
        values, observed = np.empty(shape), np.empty(shape, bool)
        for column, places in zip(self.columns, self._places, strict=True):
            if column.returned:
                for place, cells in zip(places, column.encode(table.column(column.name)), strict=True):
                    values[:, place], observed[:, place] = cells
        return values, observed

    def log_jacobian(self, table: Any) -> Array:
        """What turns a log density of units into one of the table's own numbers, row by row.

        log p(row) = log p(observed units) + log_jacobian. That is a density with respect to: counting,
        for words; dx, for real numbers; counting plus dx, where numbers have atoms. Of integers it is a
        log probability: exact for bins, and for Gaussian units that of a density that is constant over
        [k − ½, k + ½]. A missing cell, and a number at an atom, adds 0.

        Parameters
        ----------
        table : table, frame, dict or path
            Whatever `encode` takes.

        Returns
        -------
        array of shape (rows,)
            Sums over the columns of numbers.
        """
        table = self._checked(table)
        total = np.zeros(table.num_rows)
        for column in self.columns:
            if column.returned:
                found = column.log_density(table.column(column.name))
                if found is not None:
                    total += found
        return total

    def decode(
        self,
        values: Any,
        rng: torch.Generator,
        *,
        observed: Any = None,
        outside: bool = False,
    ) -> pyarrow.Table:
        """Rows as a table with the names, order, types and words of the original one.

        Parameters
        ----------
        values : array of shape (rows, units)
            Values of units, as `encode` gives them.
        rng : torch.Generator
            Draws the place within a bin.
        observed : array of shape (rows, units), bool, optional
            Where it is False for all units of a column, the cell comes back empty.
        outside : bool, default False
            Whether numbers may leave the range that was seen.

        Returns
        -------
        pyarrow.Table
            Without the columns that were left out.

        Raises
        ------
        InputError
            If values are not those of these units.
        """
        values = self._checked_values(values)
        mask = np.ones(values.shape, bool) if observed is None else as_array(observed, what="the mask")
        if mask.shape != values.shape or mask.dtype != np.bool_:
            raise InputError(
                f"the mask must be booleans of shape {values.shape}, not {mask.dtype} of shape "
                f"{mask.shape}"
            )

        def draw(count: int) -> Array:
            check_rng(rng)
            return np.asarray(
                torch.rand(count, generator=rng, dtype=torch.float64, device=rng.device).cpu()
            )

        import pyarrow

        returned = {}
        for column, places in zip(self.columns, self._places, strict=True):
            if column.returned:
                units = [values[:, place] for place in places]
                found = column.decode(units, draw, rows=len(values), outside=outside)
                known = np.asarray(mask[:, places].any(1) if places else np.ones(len(values), bool))
                returned[column.name] = _as_arrow(found, known, column.type)
        return pyarrow.table(returned)

    def to_json(self) -> dict[str, Any]:
        """The schema as plain values.

        Returns
        -------
        dict
            What `json.dumps` takes and `from_json` reads.
        """
        told = {"version": VERSION, "columns": [column.to_json() for column in self.columns]}
        return {**told, "label": self.label} if self.label else told

    @classmethod
    def from_json(cls, told: Any) -> TableSchema:
        """The schema of `to_json`, checked.

        Parameters
        ----------
        told : dict
            Plain values, of a file that may come from a stranger.

        Returns
        -------
        TableSchema
            As it was.

        Raises
        ------
        InputError
            If they are no schema.
        """
        SHAPE.checked(told, "the schema of a table:", "recognise the table again")
        columns = [from_json(one, f"column {i}") for i, one in enumerate(told["columns"], 1)]
        check_names([column.name for column in columns])
        schema = cls(tuple(columns))
        return schema.with_label(told["label"]) if told.get("label") else schema

    def _checked(self, table: Any) -> pyarrow.Table:
        """The table, if its columns are those of the schema."""
        table = read_table(table)
        there, known = set(table.column_names), [column.name for column in self.columns]
        lost = [column.name for column in self.columns if column.returned and column.name not in there]
        new = [name for name in table.column_names if name not in known]
        if lost:
            near = get_close_matches(lost[0], new, n=1, cutoff=0.5) or (
                new[:1] if len(lost) == len(new) else []
            )
            raise InputError(
                f"the table has no column {shown(lost[0])}, which was learned"
                + (f" ({len(lost)} are missing)" if len(lost) > 1 else "")
                + (f"; if it is {shown(near[0])}, name it {shown(lost[0])} again" if near else "")
                + "; add it, with empty cells where nothing is known"
            )
        if new:
            raise InputError(
                f"the table has a column {shown(new[0])} that was not learned"
                + (f" ({len(new)} are new)" if len(new) > 1 else "")
                + "; leave it out, or train on a table that has it (known are "
                f"{', '.join(map(shown, known[:20]))})"
            )
        return table

    def _checked_values(self, values: Any) -> Array:
        """Values (rows, units) in float64, each of which its unit can have."""
        array = as_array(values, what="values of units").astype(np.float64)
        if array.ndim != 2 or array.shape[1] != len(self._units):
            raise InputError(f"values must have the shape (rows, {len(self._units)}), not {array.shape}")
        for i, (c, p) in enumerate(self._units):
            part, unit = self.columns[c].parts[p], array[:, i]
            if part.kind == "spin":
                good, rule = np.abs(unit) == 1, "−1 or 1"
            elif part.kind == "categorical":
                good = (unit == np.rint(unit)) & (unit >= 0) & (unit < part.states)
                rule = f"a code from 0 to {part.states - 1}"
            else:
                good, rule = np.isfinite(unit), "a finite number"
            if not good.all():
                row = first_row(~good)
                raise InputError(
                    f"row {row}, unit {i + 1} ({self.columns[c].where}) must be {rule}, not "
                    f"{unit[row - 1]:g}; give values of a machine with the layers of this schema"
                )
        return array


def state_names(schema: TableSchema) -> list[str]:
    """What each column of a machine's units stands for: `sex=f`, `age 30 to 40`, `size`."""
    names: list[str] = []
    for c, p in schema._units:
        column = schema.columns[c]
        states = column.states(p)
        if column.parts[p].kind == "spin":
            states = states[1:]  # what +1 is
        names += [f"{column.name}{state}" for state in states]
    return names


def _as_arrow(values: Any, known: Array, kind: str) -> pyarrow.Array:
    """Values as Arrow's type, empty where they are not known."""
    import pyarrow

    if isinstance(values, np.ndarray) and kind in WHOLE_TYPES:
        ends, most = np.iinfo(kind), 2**53
        values = np.rint(values).clip(max(ends.min, -most), min(ends.max, most)).astype(kind)
    if isinstance(values, np.ndarray):
        return pyarrow.array(values, pyarrow.type_for_alias(kind), mask=~known)
    told = [value if seen else None for value, seen in zip(values, known.tolist(), strict=True)]
    return pyarrow.array(told, pyarrow.type_for_alias(kind))
