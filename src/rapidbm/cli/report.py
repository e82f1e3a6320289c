"""`rapidbm report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..paper import ITEMS
from ..paper.reproduction import Event, Reproduction
from .reproduce import tell_claims, tell_passed_over
from .terminal.console import Screen
from .terminal.options import Json


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder of rapidbm reproduce.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write there instead of into DIR, which stays as it is.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the figures, judge the claims and write the page of a reproduction again, from its records."""
    screen, reproduction = Screen(as_json), Reproduction(folder, out)
    tell_passed_over(reproduction, screen)

    def tell(event: Event) -> None:
        if event.kind == "failed":
            screen.warn(f"{event.name} could not be drawn: {event.text}")

    well = reproduction.draw(ITEMS, tell, anew=True)
    tell_claims(reproduction.judge(), screen, brief=True)
    page = reproduction.report()
    screen.say(f"everything on one page: {page}")
    screen.result({"event": "finished" if well else "failed", "report": str(page)})
    if not well:
        raise typer.Exit(1)
