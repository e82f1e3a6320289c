"""Rows of visible units and which of their cells are observed: the one place where they are checked."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_mask, as_tensor
from ..errors import InputError
from .machine import Machine
from .spins import values_of
from .units.categorical import Categorical
from .units.unit import Unit


@dataclass(frozen=True)
class Cells:
    """Rows in float64; a cell that is not observed has 0 in its columns."""

    columns: Tensor  # (c, v)
    observed: Tensor  # (c, units) bool
    held: Tensor  # (c, v) bool, the same by column

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def missing(self) -> Tensor:
        return ~self.observed

    def take(self, rows: Tensor | slice) -> Cells:
        return Cells(self.columns[rows], self.observed[rows], self.held[rows])

    def split(self, rows: int) -> Iterator[Cells]:
        for start in range(0, len(self), rows):
            yield self.take(slice(start, start + rows))

    def without(self, unit: int, where: slice) -> Cells:
        """With one unit, whose columns are `where`, missing in all rows."""
        columns, observed, held = self.columns.clone(), self.observed.clone(), self.held.clone()
        columns[:, where], observed[:, unit], held[:, where] = 0.0, False, False
        return Cells(columns, observed, held)

    def having(self, unit: int, where: slice, state: Tensor) -> Cells:
        """With one unit observed in a state, (columns,) or (c, columns)."""
        columns, observed, held = self.columns.clone(), self.observed.clone(), self.held.clone()
        columns[:, where], observed[:, unit], held[:, where] = state.to(columns), True, True
        return Cells(columns, observed, held)


def cells_of(
    machine: Machine,
    rows: Any,
    observed: Any = None,
    *,
    ignored: int | None = None,
    what: str = "rows",
) -> Cells:
    """Rows (c, units) of values or (c, columns), of which a mask says what is observed, by unit or by
    column. Without a mask every cell is observed that is not NaN. One unit may be `ignored`: it is
    missing, whatever stands there."""
    layers = machine.layers
    values, known = known_and_filled(machine, rows, observed, ignored=ignored, what=what)
    held = layers.column_mask(known)
    coded = layers.encode(values, what=what).to(torch.float64)
    return Cells(torch.where(held, coded, 0.0), known, held)


def known_and_filled(
    machine: Machine, rows: Any, observed: Any, *, ignored: int | None = None, what: str = "rows"
) -> tuple[Tensor, Tensor]:
    """Rows as they were given, with some state in the place of every missing cell, and which cells are
    observed, (c, units)."""
    layers = machine.layers
    values = as_tensor(values_of(rows), what=what)
    units, columns = layers.visible_units, layers.visible_columns
    if values.dim() != 2 or values.shape[1] not in (units, columns) or not len(values):
        raise InputError(
            f"{what} of this machine are (rows, {units}), a value for each visible unit, or "
            f"(rows, {columns}), columns, not {tuple(values.shape)}"
        )
    values = values.to(machine.device)
    known = _mask(machine, values, observed, what)  # (c, units)
    if ignored is not None:
        known[:, ignored] = False
    by_unit = values.shape[1] == units
    if not bool(known.all()):
        there = known if by_unit else layers.column_mask(known)
        values = torch.where(there, values, _fillers(machine, by_unit, values))
    return values, known


def _mask(machine: Machine, values: Tensor, observed: Any, what: str) -> Tensor:
    layers, shape = machine.layers, tuple(values.shape)
    units, columns = layers.visible_units, layers.visible_columns
    if observed is None:
        mask = (
            ~values.isnan() if values.is_floating_point() else torch.ones_like(values, dtype=torch.bool)
        )
    else:
        shapes = tuple(dict.fromkeys([(shape[0], units), (shape[0], columns)]))
        mask = as_mask(observed, shapes, what=f"the mask of observed cells of {what}")
        mask = mask.to(values.device)
    if mask.shape[1] == units:
        return mask
    parts = torch.split(mask, list(layers.sizes[: layers.seen]), 1)
    kinds = zip(layers.kinds, layers.sizes, parts, strict=False)
    counts = [
        (kind.per_unit(part.double()), kind.per_unit(torch.ones_like(part).double()))
        for kind, _, part in kinds
    ]
    some = torch.cat([x for x, _ in counts], 1)
    whole = torch.cat([x for _, x in counts], 1)
    split = (some > 0) & (some < whole)
    if bool(split.any()):
        row, unit = split.nonzero()[0].tolist()
        raise InputError(
            f"a unit is observed or not, all its columns alike, but row {row} of {what} has some columns "
            f"of unit {unit} alone; give a mask by unit, (rows, {units})"
        )
    return some > 0


def _fillers(machine: Machine, by_unit: bool, like: Tensor) -> Tensor:
    """A valid value in the place of every missing cell, (units,) or (columns,): the last state in a list,
    which of spins is +1 whatever the lower level is called."""
    found = []
    for place in places(machine):
        states = place.states
        if states is None:
            found.append(torch.zeros(place.where.stop - place.where.start))
        else:
            found.append(place.kind.decode(states[-1:])[0] if by_unit else states[-1])
    return torch.cat([x.double() for x in found]).to(like.device, like.dtype)


@dataclass(frozen=True)
class Place:
    """Where one visible unit is."""

    layer: int
    number: int  # within its layer
    where: slice  # columns of the configuration
    kind: Unit  # of the unit alone

    @property
    def states(self) -> Tensor | None:
        """Its states as columns, (q, columns); None for a real unit."""
        width = self.where.stop - self.where.start
        count = self.kind.count(width)
        return None if count is None else self.kind.states(width, torch.arange(count)).double()

    @property
    def values(self) -> Tensor | None:
        """The same as people write them, (q,)."""
        states = self.states
        return None if states is None else self.kind.decode(states)[:, 0].double()


def places(machine: Machine) -> list[Place]:
    """The visible units in their order."""
    layers, found = machine.layers, []
    for layer in layers.visible:
        start = layers.slices[layer].start
        for number, (where, kind) in enumerate(layers.kinds[layer].one_by_one(layers.sizes[layer])):
            found.append(Place(layer, number, slice(start + where.start, start + where.stop), kind))
    return found


def place_of(machine: Machine, unit: Any) -> tuple[int, Place]:
    """One visible unit by its number."""
    found = places(machine)
    try:
        number = range(len(found))[unit]
    except (IndexError, TypeError):
        raise InputError(
            f"visible units have the numbers 0 to {len(found) - 1}, there is no unit {unit!r}"
        ) from None
    return number, found[number]


def precise(machine: Machine) -> Machine:
    """A copy in float64 that nothing trains."""
    return copy.deepcopy(machine).double().requires_grad_(False)


def columns_of(unit: Unit, codes: Tensor, size: int) -> Tensor:
    """Columns (…, size) of numbers of states (…, units), 0 for the first in the list of a unit."""
    if isinstance(unit, Categorical):
        return unit.of_codes(codes).double()
    if unit.units(size) == size:
        count = unit.count(1)
        assert count is not None
        table = unit.states(1, torch.arange(count, device=codes.device))[:, 0].double()
        return table[codes]
    found = torch.zeros((*codes.shape[:-1], size), dtype=torch.float64, device=codes.device)
    for number, (where, one) in enumerate(unit.one_by_one(size)):
        width = where.stop - where.start
        count = one.count(width)
        assert count is not None
        table = one.states(width, torch.arange(count, device=codes.device)).double()
        found[..., where] = table[codes[..., number]]
    return found
