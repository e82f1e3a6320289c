"""`rapidbm couplings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from .. import pictures
from ..accel.devices import device_named
from ..errors import InputError
from ..exchange.adabm_files import ENDING, write_params
from ..inference.couplings import EffectiveCouplings, effective_couplings
from ..runs.pretrained.packed import open_trained
from ..runs.samples import check_new, write_rows
from ..runs.trained import Trained
from .terminal.console import Screen
from .terminal.options import FIGURES, Device, Folder, Json, Limit, Replica, Update

SHOWN = 5  # pairs on the screen
NEAR = 4  # sites along a sequence between which a high score is no news


def couplings(
    run: Folder,
    out: Annotated[
        Path,
        typer.Option(
            help="A new .csv, .tsv, .parquet or .feather; or .dat, all parameters for adabmDCA."
        ),
    ],
    gaps: Annotated[
        bool, typer.Option(help="Of sequences: count couplings of the gap, the first symbol.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help=f"A new .png or .pdf with the map (default: couplings.png in {FIGURES})."),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Which pairs of units are coupled: contacts in a family of sequences.

    Hidden units are summed over. The table has a row for each pair, the highest score first: the
    Frobenius norm of its couplings in the zero-sum gauge, and the score, that less the average product
    of the two units.
    """
    screen, opened = Screen(as_json), open_trained(run)
    if picture is not None:
        check_new(picture, (".png", ".pdf"))
    check_new(out, *([(ENDING,)] if out.suffix == ENDING else []))
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    with screen.watching("couplings", limit=limit):
        found = effective_couplings(machine)
    without = 0 if opened.alphabet and not gaps else None
    scores = found.contacts(without=without)[0].cpu()
    table = _table(found, scores, opened, without)
    if out.suffix == ENDING:
        if not opened.alphabet:
            raise InputError(f"{out} would hold couplings of sequences, and {run} has none; give a .csv")
        write_params(out, found.fields[0], found.pairs[0], found.layers, opened.alphabet)
    else:
        write_rows(out, table)
    path = pictures.save(
        pictures.map_figure(scores, opened.columns), picture or opened.picture("couplings.png")
    )
    rows, of = table.num_rows, opened.where(update)[1]
    screen.result({"run": str(run), "pairs": rows, "out": str(out), "picture": str(path)})
    more = "" if found.complete else "; couplings of three units and more are not in it"
    screen.say(f"{rows:,} pairs by {of} → {out}, {path}{more}")
    for row in _first(table, bool(opened.alphabet)):
        screen.say(f"  {row['i']} – {row['j']}: {row['score']:.3f}")


def _table(found: EffectiveCouplings, scores: torch.Tensor, opened: Trained, without: int | None) -> Any:
    """Pairs with their scores, the highest first."""
    import pyarrow

    units = len(scores)
    names = list(opened.columns)
    if len(names) != units:
        names = [str(unit) for unit in range(1, units + 1)]
    i, j = torch.triu_indices(units, units, 1)
    order = scores[i, j].argsort(descending=True, stable=True)
    i, j = i[order], j[order]
    norms = found.norms(without=without)[0].cpu()
    values = [int(name) for name in names] if opened.alphabet else names
    return pyarrow.table(
        {
            "i": [values[k] for k in i.tolist()],
            "j": [values[k] for k in j.tolist()],
            "score": scores[i, j].numpy(),
            "norm": norms[i, j].numpy(),
        }
    )


def _first(table: Any, sites: bool) -> list[dict[str, Any]]:
    """The pairs on the screen; of sites those that are not near along the sequence."""
    rows: list[dict[str, Any]] = table.slice(0, 10_000).to_pylist()
    if sites:
        rows = [row for row in rows if row["j"] - row["i"] > NEAR]
    return rows[:SHOWN]
