"""`rapidbm scan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import pictures
from ..accel.devices import device_named
from ..data.alignments import codes_of, first_sequence
from ..data.sequences import is_alignment
from ..errors import InputError
from ..inference.scan import scan as scan_row
from ..runs.pretrained.packed import open_trained
from ..runs.samples import check_new, write_rows
from .terminal.console import Screen
from .terminal.options import FIGURES, Device, Folder, Json, Limit, Replica, TableOut, Update

SHOWN = 5  # mutations on the screen
Wildtype = Annotated[
    str, typer.Argument(help="An aligned sequence, or a FASTA file: its first sequence.")
]


def scan(
    run: Folder,
    wildtype: Wildtype,
    out: TableOut,
    picture: Annotated[
        Path | None,
        typer.Option(help=f"A new .png or .pdf with the map (default: scan.png in {FIGURES})."),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How every single mutation of a sequence changes log p.

    The table has a row for each site and a column for each symbol: log p of the mutant less that of the
    sequence, in nats, 0 for the sequence itself. These are exact; no log Z is needed.
    """
    screen, opened = Screen(as_json), open_trained(run)
    if not opened.alphabet:
        raise InputError(
            f"a scan is of sequences, and {run} was not trained on an alignment; rb.scan(machine, row) "
            "does the same for any row"
        )
    check_new(out)
    if picture is not None:
        check_new(picture, (".png", ".pdf"))
    name, text = "the sequence", wildtype
    if is_alignment(wildtype) or Path(wildtype).is_file():
        name, text = first_sequence(Path(wildtype))
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    codes = codes_of(text, opened.alphabet, machine.layers.visible_units)
    with screen.watching("scan", limit=limit):
        changes = scan_row(machine, codes.astype(int))[0].cpu()
    import pyarrow

    names = ["gap" if symbol == "-" else symbol for symbol in opened.alphabet]
    letters = [opened.alphabet[code] for code in codes]
    sites = list(range(1, len(codes) + 1))
    columns: dict[str, Any] = {"site": sites, "wildtype": [names[code] for code in codes]}
    columns |= {name: changes[:, k].numpy() for k, name in enumerate(names)}
    write_rows(out, pyarrow.table(columns))
    path = pictures.save(
        pictures.scan_figure(changes, opened.alphabet, codes.tolist()),
        picture or opened.picture("scan.png"),
    )
    screen.result({"run": str(run), "sites": len(codes), "out": str(out), "picture": str(path)})
    count, of = changes.numel() - len(codes), opened.where(update)[1]
    screen.say(f"{count:,} mutations of {name} by {of} → {out}, {path}")
    best = changes.flatten().argsort(descending=True, stable=True).tolist()
    places = [divmod(k, changes.shape[1]) for k in best]
    for site, k in [(i, k) for i, k in places if k != codes[i]][:SHOWN]:
        screen.say(f"  {letters[site]}{site + 1}{opened.alphabet[k]}: {changes[site, k]:+.3f}")
