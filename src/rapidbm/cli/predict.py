"""`rapidbm predict`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..runs.samples import check_new, write_rows
from ..runs.tables import predicted
from .terminal.console import Screen
from .terminal.options import Device, Folder, Json, Limit, Replica, Seed, Table, TableOut, Update
from .terminal.tables import opened_table


def predict(
    run: Folder,
    file: Table,
    column: Annotated[str, typer.Option(help="The column to predict.")],
    out: TableOut,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Predict a column of a table from the others.

    Of words it gives the probability of each, of numbers their mean and a range. What the file holds in
    that column is compared with the prediction, and not used for it.
    """
    screen = Screen(as_json)
    check_new(out)
    machine, schema, table, of = opened_table(run, file, update, replica, device, without=column)
    with screen.watching("prediction", limit=limit):
        found = predicted(machine, schema, table, column, seed=seed)
    write_rows(out, found)
    told, words = _compared(table, found, column)
    screen.result({"run": str(run), "rows": table.num_rows, **told, "out": str(out)})
    screen.say(f"{column!r} in {table.num_rows:,} rows by {of}{words} → {out}")


def _compared(table: object, found: object, column: str) -> tuple[dict[str, float], str]:
    """How often, or how far, the prediction differs from what the table holds."""
    import numpy as np

    if column not in table.column_names:  # type: ignore[attr-defined]
        return {}, ""
    truth = table.column(column).to_pylist()  # type: ignore[attr-defined]
    guess = found.column(column).to_pylist()  # type: ignore[attr-defined]
    pairs = [(a, b) for a, b in zip(truth, guess, strict=True) if a is not None]
    if not pairs:
        return {}, ""
    if f"{column}_from" in found.column_names:  # type: ignore[attr-defined]
        error = float(np.sqrt(np.mean([(float(a) - float(b)) ** 2 for a, b in pairs])))
        return {"rmse": error}, f", {error:.4g} from what the file holds (root mean square)"
    right = float(np.mean([a == b for a, b in pairs]))
    return {"accuracy": right}, f", {right:.1%} as the file has it"
