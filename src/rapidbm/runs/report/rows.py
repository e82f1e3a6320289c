"""Rows that the machine of a table draws, beside real ones: what is measured for the page, and its shape.

Real rows are the cells that were read, not what the units make of them, so that the width of bins is seen
too. What fidelity and a model of a column are judged by are held-out rows; training rows beside them show
what real rows would reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...arrays import Array
from ...data.columns import Words
from ...data.mixed import table_of
from ...data.splits import Dataset, Split
from ...data.table_schema import TableSchema
from ...errors import InputError, TimeLimit, unknown
from ...estimates import Bounds, Estimate
from ...inference.rows import log_p
from ...machines.machine import Machine
from ...progress import report_progress, watch
from ...quality.comparable import Comparable, comparable, with_gaps_of
from ...quality.detection import detection_auc
from ...quality.fidelity import column_similarities, pair_similarities
from ...quality.privacy import privacy
from ...quality.utility import Utility, of_column
from ...random import stream
from ...sampling.samplers import Gibbs
from ...schema import Flag, Maybe, Names, Real, Several, Text, Whole
from ..samples import samples

SWEEPS = 500  # of Gibbs sampling, at most
SCORED = 500  # rows of a part whose log p is taken
PREDICTED = 12  # columns that models are made of, at most
MOST_WORDS = 20  # of a column that is predicted unless it is named
STATES = 9  # words of a column that are drawn, the others together
BARS = 20  # of a column of numbers
SHOWN, WIDTH = 8, 40  # rows that are listed, and characters of a cell
_PAIR = Several(Real(), count=2)
_BARS = Several(Real(0.0), most=2 * BARS)
_COLUMN = Names(
    {
        "name": Text(),
        "samples": Maybe(Real()),
        "train": Maybe(Real()),
        "labels": Several(Text(200), most=2 * BARS),
        "edges": Several(Real(), most=2 * BARS),
        "drawn": _BARS,
        "real": _BARS,
    }
)
_UTILITY = Names(
    {
        "column": Text(),
        "measure": Text(20),
        "synthetic": _PAIR,
        "real": _PAIR,
        "gap": _PAIR,
        "baseline": Real(),
        "rows": Several(Whole(), count=2),
    }
)
_PRIVACY = Names(
    {
        "copies": Flag(),
        "verdict": Text(),
        "copied": _PAIR,
        "nearer": Real(),
        "expected": Real(),
        "exact": _PAIR,
        "medians": _PAIR,
        "edges": Several(Real(), most=100),
        "drawn": Several(Real(0.0), most=100),
        "held_out": Several(Real(0.0), most=100),
        "gap": _PAIR,
        "pairs": _PAIR,
    }
)
SHAPE = Names(
    {
        "column": Text(),  # the one that was named, or none
        "count": Whole(),
        "sweeps": Whole(),
        "train": Whole(),
        "held_out": Whole(),
        "columns": Several(_COLUMN),
        "pairs": Several(Several(Maybe(Real()))),
        "train_pairs": Maybe(Real()),
        "auc": _PAIR,
        "utility": Several(_UTILITY),
        "left_out": Several(Text()),  # columns that there was no time for
        "privacy": _PRIVACY,
        "rows": Several(Several(Text(WIDTH + 1))),
        "train_rows": Several(Several(Text(WIDTH + 1))),
    }
)


def check_column(schema: TableSchema | None, column: str | None) -> None:
    """Refuses a column to predict that the run does not have."""
    if column is None:
        return
    if schema is None:
        raise InputError("--column names a column of a table, and this run is of none; leave it out")
    known = list(dict.fromkeys(schema.unit_columns))
    if column not in known:
        raise unknown("column", column, known)


def measure_rows(
    machine: Machine,
    data: Dataset,
    schema: TableSchema,
    column: str | None,
    count: int,
    sweeps: int,
    seed: int,
    tell: Callable[[str], object] = lambda text: None,
) -> dict[str, Any]:
    """What `SHAPE` has, of one replica: rows after so many sweeps beside training and test rows."""
    train, held_out = data.tables["train"], data.tables["test"]
    tell("rows of the machine")
    drawn, sweeps, _ = samples(machine, Gibbs(), count, sweeps, 1.0, seed, _ticking)
    sampled = table_of(schema, drawn, stream(seed, "report", "cells"))
    tell("rows beside real ones")
    names = ("training rows", "held-out rows", "samples")
    both = comparable(schema, (train, held_out, sampled), names)
    ours, others, theirs = both.tables
    theirs = with_gaps_of(np.concatenate([ours, others]), theirs, np.random.default_rng(seed))
    of_samples, of_train = (column_similarities(both, others, x) for x in (theirs, ours))
    pairs, train_pairs = (pair_similarities(both, others, x) for x in (theirs, ours))
    tell("a classifier of real and sampled rows")
    auc = detection_auc(both, others, theirs, seed)
    tell("copies of training rows")
    private = privacy(train, held_out, sampled, schema=schema, log_p=_scores(machine, data, seed))
    edges, shares = _shares_of(private.distances, private.held_out)
    tell("models of columns")
    models, left_out = _models(schema, both, column, seed)
    return {
        "column": column or "",
        "count": count,
        "sweeps": sweeps,
        "train": len(ours),
        "held_out": len(others),
        "columns": [
            {
                "name": name,
                "samples": _known(of_samples[name]),
                "train": _known(of_train[name]),
                **_bars(both, i, np.concatenate([ours, others]), theirs),
            }
            for i, name in enumerate(both.names)
        ],
        "pairs": [[_known(pairs.get((a, b), pairs.get((b, a)))) for b in both.names] for a in both.names],
        "train_pairs": _known(_mean([*train_pairs.values()])),
        "auc": _pair(auc),
        "utility": models,
        "left_out": left_out,
        "privacy": {
            "copies": private.copies,
            "verdict": private.verdict,
            "copied": _pair(private.copied),
            "nearer": private.nearer,
            "expected": private.expected,
            "exact": list(private.exact),
            "medians": [float(np.median(x)) for x in (private.distances, private.held_out)],
            "edges": edges,
            "drawn": shares[0],
            "held_out": shares[1],
            "gap": _pair(private.gap),
            "pairs": _pair(private.pairs),
        },
        "rows": _cells(sampled, both.names),
        "train_rows": _cells(train, both.names),
    }


def _ticking(steps: range) -> Any:
    with watch("sweeps", len(steps)) as tick:
        for step in steps:
            yield step
            tick()


def _scores(machine: Machine, data: Dataset, seed: int) -> tuple[Array, Array]:
    """log p of training and of held-out rows, but for log Z, which they share."""
    none = Bounds.exactly(torch.zeros(1, dtype=torch.float64, device=machine.device), "left out")
    found = []
    for part in (data.train, data.test):
        some: Split = part.take(slice(None, None, -(-len(part) // SCORED)))
        each = log_p(machine, some.spins, some.observed, normaliser=none, seed=seed).value[0]
        found.append(each.double().cpu().numpy())
    return found[0], found[1]


def _predicted(schema: TableSchema, both: Comparable, column: str | None) -> list[str]:
    """The column that was named, or the label; else those that a model can be made of in little time,
    words before numbers, in the order of the table."""
    if len(both.names) < 2:
        return []
    column = column or schema.label
    if column in both.names:
        return [column]
    words = [x.name for x in schema.columns if isinstance(x, Words) and len(x.values) <= MOST_WORDS]
    numbers = [name for name, numeric in zip(both.names, both.numeric, strict=True) if numeric]
    chosen = [name for name in [*words, *numbers] if name in both.names][:PREDICTED]
    return [name for name in both.names if name in chosen]


def _models(
    schema: TableSchema, both: Comparable, column: str | None, seed: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Models of columns, and the columns that no time was left for: what else was found is kept."""
    found, names = [], _predicted(schema, both, column)
    for i, name in enumerate(names):
        try:
            report_progress()
            found.append(_told(of_column(both, name, seed)))
        except TimeLimit:
            return found, names[i:]
    return found, []


def _bars(both: Comparable, i: int, real: Array, drawn: Array) -> dict[str, Any]:
    """Shares of words, the most frequent first, or of bins of numbers as wide as each other."""
    report_progress()
    a, b = (x[:, i][~np.isnan(x[:, i])] for x in (real, drawn))
    if both.numeric[i]:
        low, high = np.quantile(a, (0.005, 0.995))
        low, high = (np.floor(low), np.ceil(high)) if both.whole[i] else (low, high)
        if both.whole[i] and high - low < BARS:
            edges = np.arange(low - 0.5, high + 1)
        else:
            edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
        edges = edges[: 2 * BARS]
        counts = [np.histogram(x.clip(edges[0], edges[-1]), edges)[0] for x in (b, a)]
        labels: list[str] = []
    else:
        size = len(both.words[i])
        counts = [np.bincount(x.astype(int), minlength=size) for x in (b, a)]
        order = np.argsort(-counts[1], kind="stable")
        counts = [x[order] for x in counts]
        labels = [_text(both.words[i][k]) for k in order]
        if size > STATES:
            counts = [np.r_[x[: STATES - 1], x[STATES - 1 :].sum()] for x in counts]
            labels = [*labels[: STATES - 1], f"{size - STATES + 1} others"]
        edges = np.empty(0)
    told = [(x / max(1, x.sum())).tolist() for x in counts]
    return {"labels": labels, "edges": edges.tolist(), "drawn": told[0], "real": told[1]}


def _shares_of(drawn: Array, held_out: Array) -> tuple[list[float], list[list[float]]]:
    """Histograms of distances on the same bins."""
    most = float(np.quantile(np.concatenate([drawn, held_out]), 0.99))
    edges = np.linspace(0.0, most if most > 0 else 1.0, 2 * BARS + 1)
    counts = [np.histogram(x.clip(0, edges[-1]), edges)[0] / len(x) for x in (drawn, held_out)]
    return edges.tolist(), [x.tolist() for x in counts]


def _told(found: Utility) -> dict[str, Any]:
    return {
        "column": found.column,
        "measure": found.measure,
        "synthetic": _pair(found.synthetic),
        "real": _pair(found.real),
        "gap": _pair(found.gap),
        "baseline": found.baseline,
        "rows": list(found.rows),
    }


def _cells(table: Any, names: tuple[str, ...]) -> list[list[str]]:
    return [[_text(row[name]) for name in names] for row in table.slice(0, SHOWN).to_pylist()]


def _text(value: Any) -> str:
    told = "" if value is None else f"{value:.6g}" if isinstance(value, float) else f"{value}"
    told = told.replace("\0", " ")
    return told if len(told) <= WIDTH else f"{told[:WIDTH]}…"


def _pair(found: Estimate | None) -> list[float]:
    assert found is not None
    return [float(found.value), float(found.error)]


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _mean(values: list[float]) -> float | None:
    known = [x for x in values if math.isfinite(x)]
    return sum(known) / len(known) if known else None
