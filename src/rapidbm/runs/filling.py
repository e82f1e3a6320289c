"""Gaps of tables filled in one way: by the mean or the median of a number, the likeliest word.

    mean_i = Σ_x x p(x | known cells of the row)                                                  (1)

p of a category and of bins are the means of its columns (`inference/missing.py`), exact where few states
are left to sum. A bin stands for `WITHIN` numbers spread over it. Gaussian units z are drawn, because the
map x = g(z) from a normal bends means. The mean ⟨z⟩ is known far better than by draws, so what these are
off by comes off again:

    mean = 1/D Σ_d g(z_d) + g′ · (⟨z⟩ − 1/D Σ_d z_d)                                              (2)

Of a machine of several replicas all is the mean of theirs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..arrays import Array
from ..data.columns import Binned, Column, Numbers, Words
from ..data.table_schema import TableSchema
from ..inference.missing import draw_missing, probabilities
from ..machines.cells import places
from ..machines.machine import Machine
from ..random import stream

if TYPE_CHECKING:
    import pyarrow

DRAWS = {"mean": 40, "likely": 100}  # of Gaussian units, all replicas together
WITHIN = 16  # numbers that stand for a bin
AT_ONCE = 1000  # rows


def filled_by(
    machine: Machine, schema: TableSchema, table: pyarrow.Table, how: str, *, seed: int, sweeps: int
) -> pyarrow.Table:
    """Every column of the table where it is missing, and what the units say of the rest; `how` is "mean"
    or "likely"."""
    import pyarrow

    parts = []
    for start in range(0, max(1, table.num_rows), AT_ONCE):
        part = table.slice(start, AT_ONCE)
        parts.append(_part(machine, schema, part, how, seed, start, sweeps))
    return pyarrow.concat_tables(parts)


def _part(
    machine: Machine, schema: TableSchema, part: Any, how: str, seed: int, start: int, sweeps: int
) -> pyarrow.Table:
    import pyarrow

    values, observed = schema.encode(part)
    drawn = any(one.kind == "gaussian" for column in schema.columns for one in column.parts)
    completed = draw_missing(
        machine,
        torch.from_numpy(values),
        torch.from_numpy(observed),
        draws=math.ceil(DRAWS[how] / machine.replicas) if drawn else 1,
        sweeps=sweeps,
        means=True,
        rng=stream(seed, "fill", start, device=machine.device),
    )
    assert completed.means is not None
    at, names = places(machine), schema.unit_columns
    columns = {}
    for column in schema.columns:
        units = [i for i, name in enumerate(names) if name == column.name]
        kind = pyarrow.type_for_alias(column.type)
        if not column.returned:
            continue
        if isinstance(column, Words | Binned):
            p = probabilities(completed.means.mean(0)[:, at[units[0]].where]).cpu().numpy()
            found = _of_words(column, p) if isinstance(column, Words) else _of_bins(column, p, how)
        elif units:
            each = completed.values.flatten(0, 1)[:, :, units].cpu().numpy()  # (draws, rows, units)
            found = _of_draws(column, each, how)
            if how == "mean" and len(units) == 1:
                means = completed.means.mean(0)[:, at[units[0]].where][:, 0].cpu().numpy()
                found = found + _correction(column, each[:, :, 0], means)
        else:
            found = list(column.decode([], np.zeros, rows=len(values), outside=False))
        if isinstance(column, Numbers):
            found = np.rint(found).astype(np.int64) if column.whole else found
        columns[column.name] = pyarrow.array(found).cast(kind)
    return pyarrow.table(columns)


def _of_words(column: Words, p: Array) -> list[Any]:
    return [column.values[i] for i in p.argmax(1).tolist()]


def _of_bins(column: Binned, p: Array, how: str) -> Array:
    """Means or medians of distributions over bins (rows, states)."""
    states = p.shape[1]
    codes = np.repeat(np.arange(states), WITHIN)
    spread = np.tile((np.arange(WITHIN) + 0.5) / WITHIN, states)
    values = 2.0 * codes - 1 if states == 2 else codes.astype(float)
    numbers = np.asarray(
        column.decode([values], lambda count: spread, rows=len(codes), outside=False), float
    )
    if how == "mean":
        means: Array = p @ numbers.reshape(states, WITHIN).mean(1)
        return means
    order = np.argsort(numbers, kind="stable")
    below = np.repeat(p / WITHIN, WITHIN, axis=1)[:, order].cumsum(1)
    middle: Array = numbers[order][(below < 0.5 - 1e-9).sum(1).clip(max=len(order) - 1)]
    return middle


def _of_draws(column: Column, values: Array, how: str) -> Array:
    """Means or medians of draws of a column's units (draws, rows, units)."""
    draws, rows, units = values.shape
    flat = [values[:, :, i].reshape(-1) for i in range(units)]
    numbers = column.decode(flat, np.zeros, rows=draws * rows, outside=False)
    each = np.asarray(numbers, float).reshape(draws, rows)
    found: Array = each.mean(0) if how == "mean" else np.median(each, 0)
    return found


def _correction(column: Column, drawn: Array, means: Array) -> Array:
    """The second part of eq. (2), from draws (draws, rows) and means (rows,) of a Gaussian unit.

    g′ is the slope between ⟨z⟩ ± the deviation of the draws."""
    spread = np.maximum(drawn.std(0), 1e-3)
    ends = [
        np.asarray(column.decode([z], np.zeros, rows=len(z), outside=False), float)
        for z in (means - spread, means + spread)
    ]
    found: Array = (ends[1] - ends[0]) / (2 * spread) * (means - drawn.mean(0))
    return found
