"""The looks of a training as charts and as a table: means over replicas, and bands around them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from ...estimates import WIDE
from ...pictures import label_of
from ..folder import ASIDE, Record, RunFolder
from .charts import Chart, Curve, Value, with_error

PARTS = ("train", "test", "valid")
MANY = 20  # epochs from which on looks that crowd at the start are drawn against a logarithm


def names_of(records: Sequence[Record]) -> list[str]:
    """The metrics, without the part of the data and without errors of others."""
    keys = {key for record in records for key in record if key not in ASIDE}
    names = sorted({re.sub("_(train|test|valid)$", "", key) for key in keys})
    return [name for name in names if name.removesuffix("_error") not in set(names) - {name}]


def charts(run: RunFolder, records: Sequence[Record]) -> list[Chart]:
    """One for each metric that was looked at twice or more."""
    lost = set(run.info.get("diverged", []))
    many, found = run.recipe.replicas - len(lost), []
    for name in names_of(records):
        keys = [k for k in (name, *(f"{name}_{part}" for part in PARTS)) if any(k in r for r in records)]
        curves = [_curve(run, records, name, key, lost) for key in keys]
        last = max(x for curve in curves for x in curve.x)
        if max(len(set(curve.x)) for curve in curves) < 2:
            continue
        log = run.recipe.evaluate == "log" and last >= MANY
        columns = fit_of(run).get("independent_columns")
        proven = isinstance(columns, int | float) and name == "log_likelihood"
        level = float(columns or 0.0) if proven else None
        below = f"Bands: one standard deviation over {many} replicas."
        if many <= 1:
            below = "Bands: 95 % intervals." if any(curve.half for curve in curves) else ""
        if level is not None:
            below = f"{below} Dotted: independent columns.".strip()
        title = label_of(name).replace(r"\$", "$")
        found.append(Chart(title[:1].upper() + title[1:], "epoch", curves, level, log, below))
    return found


def _curve(run: RunFolder, records: Sequence[Record], name: str, key: str, lost: set[int]) -> Curve:
    part = key.removeprefix(name).lstrip("_")
    rows = [record for record in records if key in record]
    values = [[x for i, x in enumerate(r[key]) if i not in lost and x is not None] for r in rows]
    half: list[Value] = []
    if run.recipe.replicas - len(lost) > 1:
        half = [statistics.stdev(v) if len(v) > 1 else None for v in values]
    elif any(f"{name}_error_{part}" in r for r in rows):
        kept = min(set(range(run.recipe.replicas)) - lost, default=0)
        unknown: list[Value] = [None] * run.recipe.replicas
        errors = [r.get(f"{name}_error_{part}", unknown)[kept] for r in rows]
        half = [None if e is None else WIDE * e for e in errors]
    mean = [statistics.fmean(v) if v else None for v in values]
    return Curve(part, [_epochs(run, r) for r in rows], mean, half)


def _epochs(run: RunFolder, record: Record) -> float:
    """Passes over the data, with their fractions where the run says how many updates one takes."""
    updates, epochs = int(run.info.get("updates", 0)), run.recipe.epochs
    if epochs > 0 and updates and updates % epochs == 0:
        return float(record["update"]) * epochs / updates
    return float(record["epoch"])


def looks(records: Sequence[Record]) -> dict[str, Any]:
    """All numbers as a table: headings, and a row for each look."""
    keys = list(dict.fromkeys(k for r in records for k in r if k not in ASIDE))
    rows = []
    for record in records:
        cells = [f"{record['epoch']:,}", f"{record['update']:,}", f"{record.get('seconds', 0.0):.1f}"]
        rows.append([*cells, *(spread(record.get(key, [])) for key in keys)])
    head = ["epoch", "update", "seconds", *(key.replace("_", " ") for key in keys)]
    return {"head": head, "rows": rows}


def fit_of(run: RunFolder) -> dict[str, Any]:
    """What a finished run has proven about its likelihood."""
    found = run.info.get("fit")
    return found if isinstance(found, dict) else {}


def spread(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation over replicas; of one replica its value."""
    found = [v for v in values if v is not None]
    if not found:
        return "–"
    mean = statistics.fmean(found)
    if len(found) == 1:
        return f"{mean:.4g}".replace("-", "−")
    return with_error(mean, statistics.stdev(found))
