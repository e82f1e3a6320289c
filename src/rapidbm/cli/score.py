"""`rapidbm score`."""

from __future__ import annotations

import math

from ..runs.samples import write_rows
from ..runs.tables import scored
from .terminal.console import Screen
from .terminal.options import Device, Folder, Json, Limit, Replica, Seed, Table, TableOut, Update
from .terminal.tables import opened_table

SHOWN = 5  # rows on the screen


def score(
    run: Folder,
    file: Table,
    out: TableOut,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How probable each row of a table is, and which of its cells is unusual.

    log p comes with its 95 % interval. The rows of the file are in the order of their log p, the least probable first; `row` is the number
    that they had, from 1.
    """
    screen = Screen(as_json)
    machine, schema, table, of = opened_table(run, file, update, replica, device)
    with screen.watching("scores", limit=limit):
        found = scored(machine, schema, table, seed=seed)
    import pyarrow

    rows = pyarrow.array(range(1, found.num_rows + 1))
    found = found.add_column(0, "row", rows).sort_by([("log_p", "ascending")])
    write_rows(out, found)
    logs = found.column("log_p").to_pylist()
    mean = math.fsum(logs) / len(logs)
    screen.result({"run": str(run), "rows": found.num_rows, "mean_log_p": mean, "out": str(out)})
    screen.say(f"log p of {found.num_rows:,} rows by {of}, {mean:.4g} nats on average → {out}")
    for row in found.slice(0, SHOWN).to_pylist():
        unusual = row["least_probable"]
        why = "" if unusual is None else f"; least probable: {unusual} ({row[f'log_p_{unusual}']:.3g})"
        ends = f"[{row['log_p_from']:.4g}, {row['log_p_to']:.4g}]"
        screen.say(f"  row {row['row']}: {row['log_p']:.4g} {ends}{why}")
