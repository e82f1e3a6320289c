"""`rapidbm diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..machines.machine import Machine
from ..progress import quiet
from ..runs import diagnosis
from ..runs.pretrained.packed import trained
from .terminal.console import Screen
from .terminal.options import FIGURES, DataFile, Device, Json, Limit, Replica, Seed, Update, run_names


def diagnose(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            autocompletion=run_names,
            help="A run folder, pretrained:mnist, or a machine's .safetensors file.",
            show_default=False,
        ),
    ],
    update: Update = None,
    file: DataFile = None,
    replica: Replica = 0,
    chains: Annotated[int, typer.Option(help="Chains of each sampler.", min=4)] = 64,
    sweeps: Annotated[int, typer.Option(help="Sweeps before anything is recorded.", min=1)] = 500,
    starts: Annotated[
        int, typer.Option(help="Random states from which descent looks for minima.", min=2)
    ] = 400,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder for the pictures (default: {FIGURES}, or beside the file)."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Is it glassy, does it mix, what are its minima, how good are its samples?

    Prints numbers with their errors and a verdict, and draws where the machine stands among the phases,
    its landscape, and the quality of its samples. The start of a training is --update 0.
    """
    screen = Screen(as_json)
    machine, data, past = diagnosis.opened(run, update, replica, device, file)
    whole = None if run.is_file() else trained(run, file)
    folder = out or (run.parent if whole is None else whole.figures)
    folder.mkdir(parents=True, exist_ok=True)  # what cannot be written is known before the work
    name = run.stem if run.is_file() else run.resolve().name
    after = "" if update is None else f", update {update}"
    after += f", replica {replica}" if replica else ""
    with quiet(as_json):
        found = diagnosis.diagnose(
            machine,
            data,
            past=past,
            chains=chains,
            sweeps=sweeps,
            starts=starts,
            seed=seed,
            title=f"{name}{after}: {_words(machine)}",
            limit=limit,
        )
    prefix = f"{run.stem}-" if run.is_file() else ""
    suffix = ("" if update is None else f"-{update}") + (f"-replica-{replica}" if replica else "")
    taken, words = (None, "") if whole is None else whole.where(update)
    files = found.save(folder, words or str(run), prefix, suffix)
    told = {"run": str(run), "update": taken, "replica": replica}
    screen.result({**told, **found.as_dict(), "figures": files})
    if words:
        screen.say(words)
    section = ""
    for row in found.rows:
        if row.section != section:
            section = row.section
            screen.say(section)
        screen.say(f"  {row.name:<40}  {row.text()}")
    screen.say(f"pictures: {', '.join(files.values())}")


def _words(machine: Machine) -> str:
    """The machine in a few words."""
    k = None if machine.patterns is None else machine.patterns.shape[1]
    return f"{machine.layers.describe()}, {'dense' if k is None else f'K={k}'}"
