"""Questions about tables: gaps filled, a column predicted, rows scored, rows that meet conditions.

The functions of `inference` answer for columns of units; here a schema (`data/table_schema.py`) turns a
table into those and the answers into tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..data.arrow import read_table
from ..data.columns import Binned, Column, Normal, Numbers, Words
from ..data.mixed import table_of
from ..data.table_schema import TableSchema
from ..errors import InputError, check_choice, check_count, unknown
from ..estimates import Bounds
from ..inference.conditions import Condition, sample_given
from ..inference.labels import predict
from ..inference.missing import draw_missing, in_turn
from ..inference.scores import scores
from ..machines.machine import Machine
from ..random import stream
from .filling import filled_by

if TYPE_CHECKING:
    import pyarrow

HOW = ("draw", "mean", "likely")
AVERAGED = 100  # draws that the mean and the quantiles of a number are taken of
AT_ONCE = 2000  # rows
TRIES = 50  # rounds of drawing rows that meet conditions exactly
LOG_P = ("log_p", "log_p_from", "log_p_to")
RANGE = re.compile(r"(?P<low>[^.]*(?:\.\d+)?)\.\.(?P<high>.*)")


# -- gaps ---------------------------------------------------------------------------------------------


def imputed(
    machine: Machine,
    schema: TableSchema,
    source: Any,
    *,
    how: str = "draw",
    draws: int = 1,
    seed: int = 0,
    sweeps: int = 100,
) -> list[pyarrow.Table]:
    """The table with its gaps filled, known cells as they are, `draws` times.

    "draw" takes a draw given the known cells of the row, in turn from each replica of the machine; "mean"
    the mean of a number and "likely" its median, and of a category the most probable one (`filling`)."""
    check_choice("way to fill gaps", how, HOW)
    check_count("the number of draws", draws)
    if how != "draw" and draws != 1:
        raise InputError(f"{how!r} fills a gap in one way, not in {draws}; give --how draw, or one draw")
    table = read_table(source)
    if how != "draw":
        answers = filled_by(machine, schema, table, how, seed=seed, sweeps=sweeps)
        return [_with_gaps_filled(table, answers, schema)]
    filled: list[list[pyarrow.Table]] = [[] for _ in range(draws)]
    for start in range(0, max(1, table.num_rows), AT_ONCE):
        part = table.slice(start, AT_ONCE)
        found = _drawn(machine, schema, part, draws, seed, start, sweeps)
        for into, one in zip(filled, found, strict=True):
            into.append(_with_gaps_filled(part, one, schema))
    import pyarrow

    return [pyarrow.concat_tables(parts) for parts in filled]


def _drawn(
    machine: Machine,
    schema: TableSchema,
    part: pyarrow.Table,
    draws: int,
    seed: int,
    start: int,
    sweeps: int,
) -> list[pyarrow.Table]:
    """Tables of whole rows, known cells among them as their units hold them."""
    values, observed = schema.encode(part)
    rng = stream(seed, "impute", start, device=machine.device)
    found = draw_missing(
        machine,
        torch.from_numpy(values),
        torch.from_numpy(observed),
        draws=math.ceil(draws / machine.replicas),
        sweeps=sweeps,
        rng=rng,
    ).values
    return [
        schema.decode(one.cpu().numpy(), stream(seed, "cells", start, i))
        for i, one in enumerate(in_turn(found, draws, rng))
    ]


def _with_gaps_filled(part: pyarrow.Table, filled: pyarrow.Table, schema: TableSchema) -> pyarrow.Table:
    """The given table with cells of the filled one where it has none."""
    import pyarrow
    import pyarrow.compute as pc

    columns = {}
    for name in part.column_names:
        given = part.column(name)
        if name not in filled.column_names:  # left out of the schema
            columns[name] = given
            continue
        other = filled.column(name)
        if given.type != other.type:
            given = given.cast(other.type)
        if pyarrow.types.is_floating(given.type):
            given = pc.if_else(pc.is_nan(given), pyarrow.scalar(None, given.type), given)
        columns[name] = pc.coalesce(given, other)
    return pyarrow.table(columns)


# -- one column given the others ----------------------------------------------------------------------


def column_named(schema: TableSchema, name: str) -> tuple[Column, list[int]]:
    """A column and its units."""
    for column in schema.columns:
        if column.name == name and column.parts:
            return column, [i for i, other in enumerate(schema.unit_columns) if other == name]
    known = list(dict.fromkeys(schema.unit_columns))
    if name in [column.name for column in schema.columns]:
        raise InputError(f"column {name!r} was left out of the training, so nothing is known of it")
    raise unknown("column", name, known)


def predicted(
    machine: Machine, schema: TableSchema, source: Any, name: str, *, seed: int = 0
) -> pyarrow.Table:
    """A column given the other known cells of each row: of words the most probable one under the name
    itself, and the probability of each under `p_WORD`; of numbers mean, and the 5 % and 95 % quantiles
    under `NAME_from` and `NAME_to`. What the table holds in that column is not looked at."""
    import pyarrow

    column, units = column_named(schema, name)
    table = _without(read_table(source), column)
    values, observed = schema.encode(table)
    observed[:, units] = False
    if not isinstance(column, Words):
        return _predicted_numbers(machine, schema, values, observed, column, seed)
    rows = [slice(i, i + AT_ONCE) for i in range(0, max(1, len(values)), AT_ONCE)]
    parts = [
        predict(
            machine,
            torch.from_numpy(values[x]),
            units[0],
            torch.from_numpy(observed[x]),
            seed=seed,
        ).probabilities
        for x in rows
    ]
    p = torch.cat([part[0] for part in parts if part is not None]).cpu().numpy()
    found = {name: pyarrow.array([column.values[i] for i in p.argmax(1)])}
    for i, word in enumerate(column.values):
        found[f"p_{word}"] = pyarrow.array(p[:, i])
    return pyarrow.table(found)


def predicted_labels(
    machine: Machine, classes: tuple[int, ...], rows: torch.Tensor, *, seed: int = 0
) -> pyarrow.Table:
    """The label of rows without it (rows, columns): the most probable one under `label`, and the
    probability of each under `p_LABEL`."""
    import pyarrow

    label = torch.zeros((1, len(classes)), dtype=rows.dtype)
    label[:, 0] = 1  # any: it is not looked at
    parts = []
    for some in torch.split(rows, AT_ONCE):
        found = predict(machine, torch.cat([some, label.expand(len(some), -1)], 1), -1, seed=seed)
        assert found.probabilities is not None
        parts.append(found.probabilities[0].cpu())
    p = torch.cat(parts).numpy()
    told = {"label": pyarrow.array([classes[i] for i in p.argmax(1)])}
    return pyarrow.table(told | {f"p_{word}": pyarrow.array(p[:, i]) for i, word in enumerate(classes)})


def _without(table: pyarrow.Table, column: Column) -> pyarrow.Table:
    """The table with nothing known in a column, which may be missing altogether."""
    import pyarrow

    empty = pyarrow.nulls(table.num_rows, pyarrow.type_for_alias(column.type))
    if column.name not in table.column_names:
        return table.append_column(column.name, empty)
    return table.set_column(table.column_names.index(column.name), column.name, empty)


def _predicted_numbers(
    machine: Machine, schema: TableSchema, values: Any, observed: Any, column: Column, seed: int
) -> pyarrow.Table:
    import pyarrow

    draws = []
    for start in range(0, max(1, len(values)), AT_ONCE):
        x = slice(start, start + AT_ONCE)
        rng = stream(seed, "predict", start, device=machine.device)
        given = torch.from_numpy(values[x]), torch.from_numpy(observed[x])
        found = draw_missing(machine, *given, draws=AVERAGED, rng=rng).values[0]
        each = [
            schema.decode(one.cpu().numpy(), stream(seed, "cells", start, i)).column(column.name)
            for i, one in enumerate(found)
        ]
        draws.append(np.stack([np.asarray(one.to_numpy(zero_copy_only=False), float) for one in each]))
    whole = np.concatenate(draws, 1)
    low, high = np.quantile(whole, (0.05, 0.95), axis=0)
    told = {column.name: whole.mean(0), f"{column.name}_from": low, f"{column.name}_to": high}
    return pyarrow.table({name: pyarrow.array(x) for name, x in told.items()})


# -- rows ---------------------------------------------------------------------------------------------


def scored(
    machine: Machine,
    schema: TableSchema,
    source: Any,
    *,
    seed: int = 0,
    normaliser: Bounds | None = None,
) -> pyarrow.Table:
    """log p of each row in the table's own numbers with its 95 % interval, what each cell is worth given
    the others (log p of the cell), and the name of the least probable one, the rows as they come.
    `normaliser` is log Z of this machine, if it is known already."""
    import pyarrow

    table = read_table(source)
    values, observed = schema.encode(table)
    jacobian = schema.log_jacobian(table)
    parts, bounds = [], []
    z = normaliser
    for start in range(0, max(1, len(values)), AT_ONCE):
        x = slice(start, start + AT_ONCE)
        if z is None:
            from ..likelihood.log_z import log_z

            z = log_z(machine, seed=seed)
        found = scores(
            machine, torch.from_numpy(values[x]), torch.from_numpy(observed[x]), normaliser=z, seed=seed
        )
        parts.append(found.parts[0].cpu().numpy())
        each = (found.log_p.value[0], found.log_p.lower[0], found.log_p.upper[0])
        bounds.append(np.stack([one.cpu().numpy() for one in each]))
    told = np.concatenate(bounds, 1) + jacobian
    cells = np.concatenate(parts)
    rows = {name: pyarrow.array(x) for name, x in zip(LOG_P, told, strict=True)}
    names = list(dict.fromkeys(schema.unit_columns))
    of_column = np.stack(
        [np.nansum(cells[:, [n == name for n in schema.unit_columns]], 1) for name in names], 1
    )
    known = np.stack([observed[:, [n == name for n in schema.unit_columns]].any(1) for name in names], 1)
    worst = np.where(known, of_column, np.inf).argmin(1).tolist()
    some = np.asarray(known.any(1)).tolist()
    unusual = [names[i] if seen else None for i, seen in zip(worst, some, strict=True)]
    rows["least_probable"] = pyarrow.array(unusual, pyarrow.string())
    for i, name in enumerate(names):
        rows[f"log_p_{name}"] = pyarrow.array(np.where(known[:, i], of_column[:, i], np.nan))
    return pyarrow.table(rows)


# -- conditions ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A condition on a column: values that it may have, or a range."""

    column: Column
    values: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    def meets(self, cells: Any) -> Any:
        """Which values of a decoded column meet it."""
        if self.values and isinstance(self.column, Words):
            return np.isin(np.asarray(cells, dtype=object), self.values)
        numbers = np.asarray(cells, float)
        if self.values:
            return np.isin(numbers, np.asarray(self.values, float))
        return (numbers >= self.low) & (numbers <= self.high)


def asked_of(schema: TableSchema, told: str) -> list[Asked]:
    """Conditions as an option says them: "sex=Female,age=30..40,city=Bonn|Ulm"."""
    found: list[Asked] = []
    for part in filter(None, (part.strip() for part in told.split(","))):
        name, equals, wanted = (x.strip() for x in part.partition("="))
        if not equals or not wanted:
            raise InputError(
                "a condition is NAME=VALUE, NAME=A|B or NAME=LOW..HIGH, joined by commas, and "
                f"{part!r} is not"
            )
        column, _ = column_named(schema, name)
        if any(other.column.name == name for other in found):
            raise InputError(
                f"there are two conditions on column {name!r}; join values by |, or give one range"
            )
        found.append(_asked(column, wanted))
    if not found:
        raise InputError("no condition is given; write for instance --given sex=Female,age=30..40")
    return found


def _asked(column: Column, wanted: str) -> Asked:
    if isinstance(column, Words):
        known = {str(value): value for value in column.values}
        words = [word.strip() for word in wanted.split("|")]
        for word in words:
            if word not in known:
                raise unknown(f"value of column {column.name!r}", word, list(known))
        return Asked(column, tuple(known[word] for word in words))
    span = RANGE.fullmatch(wanted)
    if span is None:
        return Asked(column, tuple(_number(column, x) for x in wanted.split("|")))
    low = _number(column, span["low"]) if span["low"].strip() else -math.inf
    high = _number(column, span["high"]) if span["high"].strip() else math.inf
    if low > high:
        raise InputError(
            f"the range {wanted} of column {column.name!r} is empty: its ends are the other way round"
        )
    return Asked(column, (), low, high)


def _number(column: Column, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(
            f"column {column.name!r} holds numbers, and {text.strip()!r} is none; give NAME=LOW..HIGH or "
            "a number"
        ) from None
    if not math.isfinite(value):
        raise InputError(
            f"the condition on column {column.name!r} takes finite numbers, not {text.strip()!r}"
        )
    return value


def conditions_of(schema: TableSchema, asked: list[Asked]) -> list[Condition]:
    """What the units of these columns may be: all that meets the conditions, and of bins those that hold
    some of it."""
    found = []
    for one in asked:
        column, units = column_named(schema, one.column.name)
        if isinstance(column, Words):
            codes = [column.values.index(value) for value in one.values]
            among = (
                [2.0 * c - 1.0 for c in codes] if len(column.values) == 2 else [float(c) for c in codes]
            )
            found.append(Condition(units[0], among=among, name=column.name))
        elif isinstance(column, Binned):
            found.append(Condition(units[0], among=_codes(column, one), name=column.name))
        elif isinstance(column, Normal):
            found += _of_normal(column, units, one)
    return found


def _ends(column: Numbers, one: Asked) -> tuple[float, float]:
    low = min(one.values) if one.values else one.low
    high = max(one.values) if one.values else one.high
    return float(low), float(high)


def _codes(column: Binned, one: Asked) -> list[float]:
    """The codes of atoms that meet a condition, and of bins that overlap it."""
    atoms = [i for i, atom in enumerate(column.atoms) if bool(one.meets([atom])[0])]
    edges = np.asarray(column.bins.edges)
    low, high = _ends(column, one)
    inner = [float(column.between(np.array([x]))[0]) if math.isfinite(x) else x for x in (low, high)]
    overlap = (edges[1:] >= inner[0]) & (edges[:-1] <= inner[1])
    codes = [float(len(column.atoms) + i) for i in np.flatnonzero(overlap)]
    found = [float(i) for i in atoms] + codes
    if not found:
        raise InputError(_nothing(column, one))
    spins = len(column.atoms) + column.bins.count == 2
    return [2.0 * c - 1.0 for c in found] if spins else found


def _of_normal(column: Normal, units: list[int], one: Asked) -> list[Condition]:
    low, high = _ends(column, one)
    ends = [
        float(column.map.forward(column.between(np.array([x])))[0]) if math.isfinite(x) else x
        for x in (low, high)
    ]
    if not column.atoms:
        return [Condition(units[-1], low=ends[0], high=ends[1], name=column.name)]
    allowed = [i for i, atom in enumerate(column.atoms) if bool(one.meets([atom])[0])]
    codes = [float(i) for i in (*allowed, len(column.atoms))]
    among = [2.0 * c - 1.0 for c in codes] if len(column.atoms) == 1 else codes
    return [Condition(units[0], among=among, name=column.name)]


def _nothing(column: Numbers, one: Asked) -> str:
    span = f"{one.low:g}..{one.high:g}" if not one.values else "|".join(f"{x:g}" for x in one.values)
    return (
        f"column {column.name!r} was never seen at {span} ({column.describe()}); give a range within that"
    )


@dataclass(frozen=True)
class Met:
    """Rows that meet conditions."""

    table: Any  # pyarrow.Table
    log_probability: tuple[float, float, float]  # of the conditions, and its 95 % interval
    rhat: float
    ess: float


def sampled_given(
    machine: Machine,
    schema: TableSchema,
    given: str | Sequence[Asked],
    count: int,
    *,
    seed: int = 0,
    sweeps: int = 100,
    normaliser: Bounds | None = None,
) -> Met:
    """Rows drawn from the machine that meet conditions, and how probable these are: conditions as an
    option says them, or a list of them, which may be empty.

    Chains are held to the states that can meet them; rows that do not, because a bin holds more than a
    range, are drawn again. `normaliser` is log Z of this machine, if it is known already."""
    import pyarrow

    asked = asked_of(schema, given) if isinstance(given, str) else list(given)
    conditions = conditions_of(schema, asked)
    kept: list[pyarrow.Table] = []
    have = drawn = 0
    probability: tuple[float, float, float] | None = None if asked else (0.0, 0.0, 0.0)
    rhat, ess = 1.0, math.inf
    for number in range(TRIES):
        rng = stream(seed, "given", number, device=machine.device)
        more = max(20, math.ceil((count - have) * min(20.0, (drawn + 1) / (have + 1))))
        found = sample_given(
            machine,
            conditions,
            more,
            sweeps=sweeps,
            probability=probability is None,
            normaliser=normaliser,
            rng=rng,
        )
        if found.log_probability is not None:
            probability = _first_replica(found.log_probability)
        columns = machine.layers.encode(found.rows[0])
        table = table_of(schema, columns, stream(seed, "cells", number))
        right = np.ones(table.num_rows, bool)
        for one in asked:
            right &= one.meets(table.column(one.column.name).to_pylist())
        kept.append(table.filter(pyarrow.array(right)))
        have, drawn = have + int(right.sum()), drawn + len(right)
        rhat, ess = max(rhat, float(found.rhat.max())), min(ess, float(found.ess.min()))
        if have >= count:
            break
    else:
        raise InputError(
            f"of {drawn:,} rows drawn near the conditions {_in_words(given)} only {have:,} meet them; "
            "give a wider range"
        )
    whole = pyarrow.concat_tables(kept).slice(0, count)
    assert probability is not None
    share, error = have / drawn, math.sqrt((1 - have / drawn) / have) if have < drawn else 0.0
    value, lower, upper = (end + math.log(share) for end in probability)
    return Met(whole, (value, lower - 1.96 * error, upper + 1.96 * error), rhat, ess)


def _first_replica(bounds: Bounds) -> tuple[float, float, float]:
    return float(bounds.value[0]), float(bounds.lower[0]), float(bounds.upper[0])


def _in_words(given: str | Sequence[Asked]) -> str:
    return given if isinstance(given, str) else "on " + ", ".join(one.column.where for one in given)
