"""`rapidbm datasets` and `rapidbm pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..data import catalogue
from ..data.converted import pack as packed_into
from ..data.digits import data_folder
from ..data.packed import ENDING, Packed
from ..errors import InputError
from .terminal.console import Screen
from .terminal.options import Json


def datasets(as_json: Json = False) -> None:
    """What can be trained on, and where it comes from."""
    screen = Screen(as_json)
    with screen.gentle_warnings():
        known = catalogue.datasets()
    for name, text, options in known.rows:
        screen.say(f"{name:<13} {text}" + (f" (options: {options})" if options else ""))
        listed = options.split(", ") if options else []
        screen.result({"name": name, "description": text, "options": listed})
    for note in known.notes:
        screen.say(note)
    screen.say(f"RAPIDBM_DATA is {data_folder() or 'not set: MNIST is downloaded once and cached'}")


def pack(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN",
            help=f"A file {', '.join(catalogue.FILE_ENDINGS)}, of any size.",
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            help=f"The packed file to write, {ENDING}; without it IN is one, and all of it is checked.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write data as packed spins, eight to a byte, to train on from disk; or check such a file."""
    screen = Screen(as_json)
    with screen.gentle_warnings():
        if target is not None:
            packed_into(source, target)
        elif source.suffix != ENDING:
            raise InputError(
                f"{source} is not packed; name a file to write, {source.stem}{ENDING} for one"
            )
        elif not source.is_file():
            raise InputError(f"there is no file {source}; check the path")
        found = Packed(target or source)
    counts = {name: part.rows for name, part in found.parts.items()}
    if target is None:
        with screen.watching(f"checking {source.name}", sum(counts.values())) as tick:
            for name in counts:
                for rows, _ in found.chunks(name):
                    tick.add(len(rows))
    told = {"file": str(found.path), "rows": counts, "visible": found.visible}
    screen.result({**told, "sha256": found.sha256, "bytes": found.file.size})
    parts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    done = "every chunk is what was written" if target is None else f"{found.file.size / 1e6:,.1f} MB"
    screen.say(
        f"{found.path}: rows {parts}; {found.visible:,} spins each; {done}; SHA-256 {found.sha256}"
    )
