"""Answers about a machine of a table: its columns as bars, rows under conditions, scores, gaps filled.

Everything is what `rapidbm sample --given`, `score` and `impute` compute, of the same seed: the numbers
on the page are theirs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...data.arrow import read_table
from ...data.columns import Column, Numbers, Words
from ...data.table_schema import TableSchema
from ...errors import InputError, check_choice, is_number
from ...estimates import Bounds
from ...likelihood.log_z import log_z
from ...progress import telling, watch
from ...runs.samples import write_rows
from ...runs.tables import HOW, LOG_P, imputed, sampled_given, scored
from ..uploads import UPLOADED
from .machines import Subject, subject
from .pipe import Pipe
from .queries import Answer, answer
from .recipes import uploaded
from .table_columns import MOST_WORDS, bars_of, cell_of, held_of, shares

LIMIT = 600.0  # seconds that any answer may take
DRAWN, FEWEST, CELLS = 1000, 100, 200_000  # rows that bars are counted in, and cells of them
ROWS = 60  # rows that a page is sent
COLUMNS = 300  # of a table that are shown
PART = 2000  # rows of a file whose scores, or gaps, are shown
MOST_EXPORTED = 100_000  # rows that are drawn for a file
LARGEST = 100 * 2**20  # bytes of such a file
KEPT = 4  # machines
EXPORTS = ("samples", "scores", "filled")


def work(pipe: Pipe, first: dict[str, Any]) -> None:
    """Answers the questions of a page."""
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # a training may run beside
    desk = Tables(Path(first["folder"]))
    while True:
        asked = pipe.receive()
        head = {"event": "progress", "page": asked.get("page"), "id": asked.get("id")}

        def report(line: str, share: float | None, head: dict[str, Any] = head) -> None:
            pipe.send({**head, "line": line, "share": share})

        with telling(report), watch("", limit=LIMIT, remedy="ask by the command"):
            answer(pipe, asked, desk.answers, desk.folder)


@dataclass(frozen=True)
class TableMachine:
    """A machine, the schema of its table, and what is computed of it once."""

    found: Subject
    schema: TableSchema

    @cached_property
    def columns(self) -> list[Column]:
        return [column for column in self.schema.columns if column.returned][:COLUMNS]

    @cached_property
    def normaliser(self) -> Bounds:
        return log_z(self.found.machine, seed=0)

    @cached_property
    def own_table(self) -> Any:
        """The file that it was trained on, if that may be read."""
        trained: Any = self.found.trained
        if not trained.has_data:
            raise InputError(f"{self.found.name} comes without data; choose a file")
        trained.own_data()  # refuses what has changed, and what was never named by the user
        return read_table(Path(trained.recipe.dataset))

    @cached_property
    def own_scores(self) -> Any:
        """log p of the first rows of its own file, sorted; nothing where that cannot be read."""
        try:
            table = self.own_table.slice(0, PART)
        except (InputError, OSError, AttributeError):
            return np.empty(0)
        return np.sort(self.scored(table).column("log_p").to_numpy())

    def scored(self, table: Any) -> Any:
        return scored(self.found.machine, self.schema, table, normaliser=self.normaliser)


class Tables:
    """What can be asked of a machine of a table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[tuple[Any, ...], TableMachine] = {}
        self.answers: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "table": self.table,
            "row": self.row,
            "scores": self.scores,
            "gaps": self.gaps,
            "file": self.file,
        }

    def opened(self, asked: dict[str, Any]) -> TableMachine:
        found = subject(self.folder, asked)
        key = (found.name, found.update, found.replica, found.saved())
        if key not in self.kept:
            schema = found.trained.schema
            if schema is None:
                raise InputError(
                    f"{found.name} was not trained on a table of named columns; choose another machine"
                )
            self.kept[key] = TableMachine(found, schema)
            while len(self.kept) > KEPT:
                del self.kept[next(iter(self.kept))]
        return self.kept[key]

    # -- rows that meet conditions ----------------------------------------------------------------

    def table(self, asked: dict[str, Any]) -> Answer:
        """The columns as bars under what is held, how probable that is, and some rows."""
        about = self.opened(asked)
        held = held_of(about.columns, asked.get("held"))
        count = max(FEWEST, min(DRAWN, CELLS // max(1, len(about.columns))))
        met = sampled_given(
            about.found.machine,
            about.schema,
            held,
            count,
            seed=_seed(asked),
            normaliser=about.normaliser if held else None,
        )
        cells = {column.name: met.table.column(column.name).to_pylist() for column in about.columns}
        return {
            "columns": [_column(column, cells[column.name]) for column in about.columns],
            "more": sum(column.returned for column in about.schema.columns) - len(about.columns),
            "probability": [min(1.0, math.exp(x)) for x in met.log_probability],
            "rhat": _finite(met.rhat),
            "ess": min(count, met.ess) if math.isfinite(met.ess) else count,
            "count": count,
            "rows": list(zip(*(_plain(cells[c.name][:ROWS]) for c in about.columns), strict=True)),
        }, {}

    # -- one row ----------------------------------------------------------------------------------

    def row(self, asked: dict[str, Any]) -> Answer:
        """log p of a row and of each of its cells, its least expected one, and its gaps filled."""
        about = self.opened(asked)
        given = asked.get("cells")
        if not isinstance(given, list) or len(given) != len(about.columns):
            raise InputError(f"a row has {len(about.columns)} cells; give as many")
        table = {c.name: [cell_of(c, text)] for c, text in zip(about.columns, given, strict=True)}
        for column in about.schema.columns:
            if column.returned:
                table.setdefault(column.name, [None])
        (told,) = about.scored(table).to_pylist()
        (filled,) = imputed(about.found.machine, about.schema, table, how="likely")
        known = about.own_scores
        return {
            "log_p": [told[name] for name in LOG_P],
            "unusual": told["least_probable"],
            "parts": [_finite(told.get(f"log_p_{c.name}")) for c in about.columns],
            "filled": [
                _plain(filled.column(c.name).to_pylist())[0] if table[c.name][0] is None else None
                for c in about.columns
            ],
            "below": float((known < told["log_p"]).mean()) if len(known) else None,
            "rows": len(known),
        }, {}

    # -- files ------------------------------------------------------------------------------------

    def _file(self, about: TableMachine, asked: dict[str, Any]) -> Any:
        """The table that is asked about: one that was dropped, or that of the training."""
        name = asked.get("file")
        if not name:
            return about.own_table
        if not isinstance(name, str) or not name.startswith(UPLOADED):
            raise InputError(f"a file is one that was dropped here, not {name!r}")
        return read_table(uploaded(self.folder, name.removeprefix(UPLOADED)))

    def scores(self, asked: dict[str, Any]) -> Answer:
        """The least probable rows of a file, each with the cell that the others least expect."""
        about = self.opened(asked)
        table = self._file(about, asked)
        part = table.slice(0, PART)
        found = about.scored(part)
        log_p = found.column("log_p").to_numpy()
        order = np.argsort(log_p, kind="stable")[:ROWS].tolist()
        cells = {c.name: _cells(part, c) for c in about.columns}
        return {
            "of": table.num_rows,
            "looked": part.num_rows,
            "mean": float(log_p.mean()) if len(log_p) else None,
            "rows": [
                {
                    "row": i + 1,
                    "log_p": [found.column(name)[i].as_py() for name in LOG_P],
                    "unusual": found.column("least_probable")[i].as_py(),
                    "cells": [cells[c.name][i] for c in about.columns],
                }
                for i in order
            ],
        }, {}

    def gaps(self, asked: dict[str, Any]) -> Answer:
        """Rows of a file that have gaps, with the gaps filled."""
        about, how = self.opened(asked), str(asked.get("how") or "draw")
        check_choice("way to fill gaps", how, HOW)
        table = self._file(about, asked)
        part = table.slice(0, PART)
        names = [c.name for c in about.columns]
        missing = {name: _missing(part, name) for name in names}
        with_gaps = [i for i in range(part.num_rows) if any(missing[name][i] for name in names)]
        (filled,) = imputed(about.found.machine, about.schema, part, how=how)
        cells = {c.name: _cells(filled, c) for c in about.columns}
        return {
            "of": table.num_rows,
            "looked": part.num_rows,
            "gaps": sum(sum(missing[name]) for name in names),
            "count": len(with_gaps),
            "rows": [
                {
                    "row": i + 1,
                    "cells": [cells[name][i] for name in names],
                    "filled": [bool(missing[name][i]) for name in names],
                }
                for i in with_gaps[:ROWS]
            ],
        }, {}

    def file(self, asked: dict[str, Any]) -> Answer:
        """Samples, scores or a table without gaps as a file of text."""
        about, what = self.opened(asked), str(asked.get("what"))
        check_choice("table", what, EXPORTS)
        if what == "samples":
            count: Any = asked.get("count")
            if not is_number(count) or not 1 <= count <= MOST_EXPORTED:
                raise InputError(
                    f"rows are 1 to {MOST_EXPORTED:,}, not {count!r}; draw more by the command"
                )
            held = held_of(about.columns, asked.get("held"))
            table = sampled_given(
                about.found.machine, about.schema, held, int(count), seed=_seed(asked)
            ).table
        elif what == "scores":
            table = self._numbered(about.scored(self._file(about, asked)))
        else:
            how = str(asked.get("how") or "draw")
            (table,) = imputed(about.found.machine, about.schema, self._file(about, asked), how=how)
        with tempfile.TemporaryDirectory() as out:
            path = Path(out) / "table.csv"
            write_rows(path, table)
            if path.stat().st_size > LARGEST:
                raise InputError(f"this file is larger than {LARGEST:,} bytes; make it by the command")
            content = np.frombuffer(path.read_bytes(), np.uint8)
        return {"rows": table.num_rows}, {"file": ("u8", content)}

    def _numbered(self, table: Any) -> Any:
        """The rows by log p, each with its number, as `rapidbm score` writes them."""
        import pyarrow

        rows = pyarrow.array(range(1, table.num_rows + 1))
        return table.add_column(0, "row", rows).sort_by([("log_p", "ascending")])


def _seed(asked: dict[str, Any]) -> int:
    seed = asked.get("seed") or 0
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InputError(f"a seed is a whole number from 0 on, not {seed!r}")
    return seed


def _column(column: Column, cells: list[Any]) -> dict[str, Any]:
    bars = bars_of(column)
    told: dict[str, Any] = {
        "name": column.name,
        "kind": "words" if isinstance(column, Words) else "numbers" if bars else "none",
        "line": column.describe(),
        "values": [f"{value}" for value in column.values] if isinstance(column, Words) else [],
        "bars": [],
        "rest": 0.0,
        "mean": None,
    }
    if not bars:
        return told
    found = list(zip(bars, shares(column, bars, cells), strict=True))
    if isinstance(column, Words) and len(found) > MOST_WORDS:
        most = sorted(found, key=lambda pair: -pair[1])[:MOST_WORDS]
        told["rest"] = max(0.0, 1.0 - sum(share for _, share in most))
        found = most
    told["bars"] = [{"text": bar.text, "share": share, "hold": bar.hold()} for bar, share in found]
    if isinstance(column, Numbers):
        x = np.asarray(cells, float)
        told["mean"] = [float(x.mean()), *np.quantile(x, (0.05, 0.95)).tolist()]
    return told


def _cells(table: Any, column: Column) -> list[Any]:
    """Cells of a column for the page."""
    if column.name not in table.column_names:
        return [None] * table.num_rows
    return _plain(table.column(column.name).to_pylist())


def _missing(table: Any, name: str) -> list[bool]:
    if name not in table.column_names:
        return [True] * table.num_rows
    return [x is None or (isinstance(x, float) and math.isnan(x)) for x in table.column(name).to_pylist()]


def _plain(cells: list[Any]) -> list[Any]:
    """Values that JSON has; of real numbers the digits that tell them apart on a page."""
    return [_finite(round(x, 10)) if isinstance(x, float) else x for x in cells]


def _finite(x: Any) -> Any:
    return x if not isinstance(x, float) or math.isfinite(x) else None
