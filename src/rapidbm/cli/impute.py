"""`rapidbm impute`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..runs.samples import numbered, write_rows
from ..runs.tables import HOW, imputed
from .terminal.console import Screen
from .terminal.options import Device, Folder, Json, Limit, Replica, Seed, Table, TableOut, Update, offers
from .terminal.tables import opened_table


def impute(
    run: Folder,
    file: Table,
    out: TableOut,
    how: Annotated[
        str,
        typer.Option(
            help="draw: a draw given the known cells; mean: the mean of numbers; likely: their median. "
            "mean and likely take the most probable category.",
            autocompletion=offers(HOW),
        ),
    ] = "draw",
    draws: Annotated[
        int,
        typer.Option(help="Tables to draw, in files numbered -1, -2, … (multiple imputation).", min=1),
    ] = 1,
    sweeps: Annotated[int, typer.Option(help="Gibbs sweeps of a row's chains.", min=1)] = 100,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill the gaps of a table: known cells stay, missing ones are drawn given them."""
    screen = Screen(as_json)
    paths = numbered(out, draws)
    machine, schema, table, of = opened_table(run, file, update, replica, device)
    with screen.watching("imputation", limit=limit):
        filled = imputed(machine, schema, table, how=how, draws=draws, seed=seed, sweeps=sweeps)
    for path, one in zip(paths, filled, strict=True):
        write_rows(path, one)
    gaps = sum(table.column(name).null_count for name in filled[0].column_names)
    screen.result(
        {"run": str(run), "rows": table.num_rows, "filled": gaps, "out": [str(p) for p in paths]}
    )
    screen.say(
        f"{gaps:,} gaps in {table.num_rows:,} rows filled by {of} ({how}) → {', '.join(map(str, paths))}"
    )
