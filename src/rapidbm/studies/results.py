"""The table of a sweep and its figure, from what its run folders say and nothing else.

A training counts when its batch is finished and it did not diverge, by its values at the last look, or,
where the likelihood of a validation part was measured, at the look where that was best. A row has their
mean and its standard error; one with a single training that of the measurement, where there is one.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..data.tables import no_formula
from ..display import as_html, as_text
from ..errors import InputError, printable
from ..runs.folder import ASIDE, Record, RunFolder
from ..runs.listing import LOW, with_spread
from ..runs.metrics import WATCHED
from .batches import data_words, finished
from .planning import Batch, Plan
from .study import Study, in_words, shown, written

BY = tuple(f"{name}_valid" for name in WATCHED)


@dataclass(frozen=True)
class Row:
    """What the trainings of one point of the grid came to."""

    settings: Mapping[str, Any]
    wanted: int
    values: Mapping[str, list[float]]  # of each measure, one of each training that counts
    errors: Mapping[str, list[float]] = field(default_factory=dict)  # of each, NaN where not known
    trained: int = 0
    diverged: int = 0
    stopped: int = 0  # by a scheduler, before their end
    seconds: float = math.nan  # of a training, as if its batch had shared its time evenly

    def mean(self, measure: str) -> tuple[float, float]:
        """Mean and standard error; NaN where there is none."""
        values = self.values.get(measure, [])
        if not values:
            return math.nan, math.nan
        if len(values) == 1:
            return values[0], self.errors[measure][0]
        return fmean(values), stdev(values) / math.sqrt(len(values))

    def as_dict(self, measures: Sequence[str]) -> dict[str, Any]:
        """For JSON: every training."""
        means = {name: self.mean(name) for name in measures}
        return {
            "settings": written(self.settings),
            "wanted": self.wanted,
            "trained": self.trained,
            "diverged": self.diverged,
            **({"stopped": self.stopped} if self.stopped else {}),
            "seconds": _plain(self.seconds),
            "mean": {name: _plain(value) for name, (value, _) in means.items()},
            "error": {name: _plain(error) for name, (_, error) in means.items()},
            "values": {name: list(map(_plain, values)) for name, values in self.values.items()},
        }


@dataclass(frozen=True)
class Table:
    """The rows of a sweep; printed, their settings and the measure of the study."""

    study: Study
    rows: tuple[Row, ...]

    @property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row.values))

    @property
    def best(self) -> Row | None:
        """The row with the best mean so far."""
        measure = str(self.study.measure)
        sign = -1.0 if measure.startswith(LOW) else 1.0
        found = [row for row in self.rows if math.isfinite(row.mean(measure)[0])]
        return max(found, key=lambda row: sign * row.mean(measure)[0], default=None)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        measure = str(self.study.measure)
        cells = []
        for row in self.rows:
            value, error = row.mean(measure)
            told = with_spread(value, error) if math.isfinite(value) else "–"
            lost = f", {row.diverged} diverged" if row.diverged else ""
            early = ", stopped early" if row.stopped else ""
            done = f"{row.trained} of {row.wanted}{lost}{early}"
            cells.append([*map(shown, row.settings.values()), told, done])
        return [*self.study.varied, measure, "trained"], cells

    def __repr__(self) -> str:
        best = self.best if len(self.rows) > 1 else None
        told = "" if best is None else f"\nbest: {in_words(best.settings)}"
        return as_text(*self.cells()) + printable(told)

    def _repr_html_(self) -> str:
        return as_html(*self.cells())

    def as_csv(self) -> bytes:
        """Every measure of every row, with its error."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        measured = [word for name in self.measures for word in (name, f"{name}_error")]
        writer.writerow([*self.study.varied, "wanted", "trained", "diverged", "seconds", *measured])
        for row in self.rows:
            numbers = [x for name in self.measures for x in row.mean(name)]
            counts = [row.wanted, row.trained, row.diverged]
            told = ["" if math.isnan(x) else f"{x:.9g}" for x in (row.seconds, *numbers)]
            words = [no_formula(shown(value)) for value in row.settings.values()]
            writer.writerow([*words, *counts, *told])
        return out.getvalue().encode()

    def as_dicts(self) -> list[dict[str, Any]]:
        """For JSON: every training of every row."""
        return [row.as_dict(self.measures) for row in self.rows]

    def figure(self) -> Any:
        """The measure of the study over its grid, a matplotlib figure."""
        from .drawing import grid_figure, search_figure

        return grid_figure(self) if self.study.search is None else search_figure(self)


def table(plan: Plan, folder: Path) -> Table:
    """What the batches that are finished came to."""
    runs = {batch.name: finished(folder, batch) for batch in plan.batches}
    _check_data([run for run in runs.values() if run is not None])
    looks = {name: run.metrics() for name, run in runs.items() if run is not None}
    points = zip(plan.study.points(), plan.rows, strict=True)
    rows = (_row(plan.study, point, trainings, runs, looks) for point, trainings in points)
    return Table(plan.study, tuple(rows))


def _row(
    study: Study,
    point: Mapping[str, Any],
    trainings: Sequence[tuple[Batch, int]],
    runs: Mapping[str, RunFolder | None],
    looks: Mapping[str, list[Record]],
) -> Row:
    values: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    seconds, diverged, stopped = [], 0, 0
    for batch, replica in trainings:
        run = runs[batch.name]
        if run is None:
            continue
        seconds.append(float(run.info["seconds"]) / batch.recipe.replicas)
        stopped += "scheduler" in run.info
        if replica in run.info.get("diverged", ()):
            diverged += 1
            continue
        for name, (value, error) in _ending(looks[batch.name], replica).items():
            values.setdefault(name, []).append(value)
            errors.setdefault(name, []).append(error)
    time = fmean(seconds) if seconds else math.nan
    return Row(dict(point), study.seeds, values, errors, len(seconds), diverged, stopped, time)


def _ending(records: Sequence[Record], replica: int) -> dict[str, tuple[float, float]]:
    """Every measure of one training, with its error."""
    by = next((name for name in BY if any(name in record for record in records)), "")
    watched = [r for r in records if r.get(by, [None] * (replica + 1))[replica] is not None]
    if watched:
        records = [max(watched, key=lambda record: record[by][replica])]
    found: dict[str, tuple[float, float]] = {}
    for record in records:  # the last one stays
        for key, each in record.items():
            name, _, part = key.rpartition("_")
            if key in ASIDE or (name.endswith("_error") and f"{name[:-6]}_{part}" in record):
                continue
            error = record.get(f"{name}_error_{part}", [None] * len(each))[replica]
            if each[replica] is not None:
                found[key] = (each[replica], math.nan if error is None else error)
    return found


def _check_data(runs: Sequence[RunFolder]) -> None:
    seen: dict[str, RunFolder] = {}
    for run in runs:
        first = seen.setdefault(data_words(run.recipe), run)
        if first.info["data"]["sha256"] != run.info["data"]["sha256"]:
            raise InputError(
                f"{first.folder} and {run.folder} were trained on different data of the same name, "
                f"{run.recipe.dataset}; restore the file and move the one with the wrong data away"
            )


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
