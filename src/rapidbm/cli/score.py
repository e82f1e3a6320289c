"""`rapidbm score`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..accel.devices import device_named
from ..data.alignments import read_alignment
from ..inference.rows import log_p
from ..runs.pretrained.packed import open_trained
from ..runs.samples import check_new, write_rows
from ..runs.tables import LOG_P, scored
from ..runs.trained import Trained
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

    log p comes with its 95 % interval. The rows of the file are in the order of their log p, the least
    probable first; `row` is the number that they had, from 1. Of a run of sequences the file is an
    alignment, and a row has log p alone.
    """
    screen, opened = Screen(as_json), open_trained(run)
    if opened.alphabet:
        _score_sequences(screen, opened, file, out, replica, update, limit, seed, device)
        return
    check_new(out)
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
    screen.say(
        f"log p of {found.num_rows:,} rows by {of}, {mean:.4g} nats on average in the table's own "
        f"numbers → {out}"
    )
    for row in found.slice(0, SHOWN).to_pylist():
        unusual = row["least_probable"]
        why = "" if unusual is None else f"; least probable: {unusual} ({row[f'log_p_{unusual}']:.3g})"
        ends = f"[{row['log_p_from']:.4g}, {row['log_p_to']:.4g}]"
        screen.say(f"  row {row['row']}: {row['log_p']:.4g} {ends}{why}")


def _score_sequences(
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
    """log p of each sequence of an alignment, the least probable first."""
    import pyarrow

    family = read_alignment(file, alphabet=opened.alphabet, duplicates="keep")
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    with screen.watching("scores", limit=limit):
        found = log_p(machine, family.codes.astype(int), seed=seed)
    bounds = (found.value, found.lower, found.upper)
    columns: dict[str, Any] = {"name": list(family.names)}
    columns |= {name: one[0].cpu().numpy() for name, one in zip(LOG_P, bounds, strict=True)}
    table = pyarrow.table(columns).sort_by([("log_p", "ascending")])
    write_rows(out, table)
    mean = float(found.value.mean())
    told = {"run": str(opened), "rows": table.num_rows, "mean_log_p": mean, "out": str(out)}
    screen.result(told)
    of = opened.where(update)[1]
    screen.say(f"log p of {table.num_rows:,} sequences by {of}, {mean:.4g} nats on average → {out}")
    for line in family.lines()[1:]:
        screen.say(f"  {line}")
