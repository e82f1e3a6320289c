"""`rapidbm report`: the page of a run, or of a reproduction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..progress import check_limit
from ..runs.report.page import LIMIT, is_run, write_report
from .terminal.console import Screen
from .terminal.options import DataFile, Device, Json, Replica, Seed, Update


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run folder, or one of rapidbm reproduce."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="A folder to write to instead of RUN, which stays as it is."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Of a run: only what its folder holds; nothing is sampled or evaluated."
        ),
    ] = False,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose", help="Of a run: with a diagnosis, as rapidbm diagnose makes it."),
    ] = False,
    column: Annotated[
        str | None,
        typer.Option(
            help="Of a table: the column that models of sampled and of real rows predict (default: the "
            "label of --labels, else each column in turn).",
            show_default=False,
        ),
    ] = None,
    update: Update = None,
    replica: Replica = 0,
    file: DataFile = None,
    limit: Annotated[
        float,
        typer.Option(
            help="Seconds that samples, likelihoods and so on of a run may take together, and as many "
            "for a diagnosis, and for the rows of a table; what does not fit is left out and named."
        ),
    ] = LIMIT,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Everything about a run, or about a reproduction, on one page that needs no network.

    A run: what was trained, curves, likelihood, samples, reconstructions, couplings, how to go on. Of a
    table: are its rows like real ones, and are they copies? What is measured for the page is kept, so
    that it is quick the next time.

    A reproduction: its figures are drawn, its claims judged and its page written again, from its records.
    """
    screen = Screen(as_json)
    if not is_run(folder):
        if not (folder / "reproduction.json").is_file():
            raise InputError(
                f"{folder} is no run folder and no reproduction: it has neither run.json nor "
                "reproduction.json; check the path"
            )
        if quick or diagnose or (update, file, column) != (None, None, None):
            raise InputError(
                f"{folder} is a reproduction; leave out --quick, --diagnose, --column, --update and "
                "--data, which are for runs"
            )
        from rapidbm_paper.command import write_again

        write_again(folder, out, screen)
        return
    check_limit(limit)
    with screen.gentle_warnings(), screen.watching("report"):
        page, missing = write_report(
            folder,
            out,
            update=update,
            file=file,
            replica=replica,
            diagnosed=diagnose,
            quick=quick,
            limit=limit,
            seed=seed,
            device=device,
            column=column,
        )
    for line in missing:
        screen.warn(line)
    screen.say(f"everything on one page: {page}")
    screen.result({"event": "finished", "report": str(page), "missing": missing})
