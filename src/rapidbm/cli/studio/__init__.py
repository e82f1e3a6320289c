"""`rapidbm studio`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ... import interrupts
from ...errors import InputError, require
from ..terminal.console import Screen
from ..terminal.options import Json


def studio(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder whose runs are shown and where new ones go; nothing outside it is read or "
            "written, but for the data sets that come with the package."
        ),
    ] = Path("runs"),
    port: Annotated[
        int | None,
        typer.Option(help="The port (default: the first free one from 8715 on).", min=0, max=65535),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser on the page.")
    ] = True,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show: nothing is trained, taken in or written.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="The address to listen at; any but 127.0.0.1 needs --public.")
    ] = "127.0.0.1",
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="Listen beyond this computer: whoever has the address with its token can look at the "
            "runs of the folder, train, and take in files; what is sent is not encrypted, so that "
            "everybody on the way can read the token. With --read-only they can only look.",
        ),
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(help="With --public: a name that browsers may ask for; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Watch machines learn, let them dream, and look at them, on a page in the browser.

    With the package's own data and its trained machine:
    [bold]rapidbm studio[/]

    The runs of a folder, to be shown and not to be changed:
    [bold]rapidbm studio runs --read-only[/]
    """
    for module in ("starlette", "uvicorn", "websockets"):
        require(module, "the studio")
    from ...studio.serve import is_loopback, serve

    screen = Screen(as_json)
    if not is_loopback(host) and not public:
        raise InputError(
            f"{host} can be reached from other computers; whoever has the address could then train and "
            "read runs here, unencrypted: say --public if that is meant, or leave --host out"
        )
    if name and not public:
        raise InputError("--name is for a studio that others reach; give --public, or leave it out")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is no folder; name the one that holds your runs")
    if public:
        screen.warn(
            "--public: whoever has this address, and whoever can read the network, can "
            + ("look at the runs" if read_only else "look at the runs, train and take in files")
        )

    def announce(address: str) -> None:
        screen.say(f"the studio is at {address}")
        screen.say("Ctrl-C ends it; trainings are saved and can be gone on with")
        screen.result({"event": "serving", "address": address, "folder": str(folder)})

    interrupts.go_on_with(lambda: f"rapidbm studio {shlex.quote(str(folder))}")
    serve(
        folder,
        host=host,
        port=port,
        names=tuple(name or ()),
        read_only=read_only,
        browser=browser,
        on_address=announce,
    )
