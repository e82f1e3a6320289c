"""`rapidbm runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runs.listing import KEYS, Runs
from .terminal.console import Screen
from .terminal.options import Json


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look; all below it is seen.")] = Path("runs"),
    sort: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(KEYS)}: names from A on; the newest, largest, longest and best first."
        ),
    ] = "changed",
    as_json: Json = False,
) -> None:
    """List the runs below a folder: status, machine, likelihood, size."""
    screen = Screen(as_json)
    with screen.gentle_warnings():
        found = Runs(folder, sort)
    for run in found:
        screen.result(run.as_dict())
    screen.say(str(found))
    if any(run.status == "killed" for run in found):
        screen.say("killed: the process is gone; go on with rapidbm train --resume --out RUN")
