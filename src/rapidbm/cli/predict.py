"""`rapidbm predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..accel.devices import device_named
from ..data.catalogue import is_file, load
from ..errors import InputError
from ..runs.pretrained.packed import open_trained
from ..runs.samples import check_new, write_rows
from ..runs.tables import predicted, predicted_labels
from ..runs.trained import Trained
from .terminal.console import Screen
from .terminal.options import Device, Folder, Json, Limit, Replica, Seed, Table, TableOut, Update
from .terminal.tables import opened_table


def predict(
    run: Folder,
    file: Table,
    out: TableOut,
    column: Annotated[
        str | None,
        typer.Option(help="The column to predict (default: the one that train was given by --labels)."),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Predict a column of a table from the others, or the labels of images.

    Of words it gives the probability of each, of numbers their mean and a range. What the file holds in
    that column is compared with the prediction, and not used for it. A run on images with --labels takes
    a file of images, or the name of a data set, of which the test part is predicted.
    """
    screen, opened = Screen(as_json), open_trained(run)
    check_new(out)
    if opened.classes:
        if column is not None:
            raise InputError(f"{run} predicts the labels of images, not a column; leave --column out")
        _predict_labels(screen, opened, file, out, replica, update, limit, seed, device)
        return
    if column is None and opened.schema is not None:
        column = opened.schema.label
        if not column:
            raise InputError(
                f"{run} was trained without a label; name the column to predict: --column NAME"
            )
    machine, schema, table, of = opened_table(run, file, update, replica, device, without=column)
    assert column is not None  # `opened_table` refuses a run without a schema
    with screen.watching("prediction", limit=limit):
        found = predicted(machine, schema, table, column, seed=seed)
    write_rows(out, found)
    told, words = _compared(table, found, column)
    screen.result({"run": str(run), "rows": table.num_rows, **told, "out": str(out)})
    screen.say(f"{column!r} in {table.num_rows:,} rows by {of}{words} → {out}")


def _predict_labels(
    screen: Screen,
    opened: Trained,
    file: Path,
    out: Path,
    replica: int,
    update: Any,
    limit: float | None,
    seed: int,
    device: str,
) -> None:
    """Labels of images: all rows of a file, or the test part where there are parts."""
    classes = opened.classes
    data = load(str(file)).in_memory()
    split = data.original_parts.get("data", data.test) if is_file(str(file)) else data.test
    rows, columns = opened.shape
    if split.visible + len(classes) != rows * columns:
        raise InputError(
            f"{file} has {split.visible} columns, and {opened} predicts labels of images of "
            f"{rows * columns - len(classes)} pixels; give data of that width"
        )
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    with screen.watching("prediction", limit=limit):
        found = predicted_labels(machine, classes, split.spins, seed=seed)
    write_rows(out, found)
    told: dict[str, float] = {}
    words = ""
    if split.labels is not None:
        import pyarrow

        truth = [x if x in classes else None for x in split.labels.tolist()]
        told, words = _compared(pyarrow.table({"label": truth}), found, "label")
    screen.result({"run": str(opened), "rows": found.num_rows, **told, "out": str(out)})
    of = opened.where(update)[1]
    screen.say(f"labels of {found.num_rows:,} rows by {of}{words} → {out}")


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
