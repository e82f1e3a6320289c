"""`rapidbm diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..accel.devices import device_named
from ..progress import quiet
from ..runs import diagnosis
from ..runs.pretrained.packed import open_trained
from ..runs.table_diagnosis import diagnose_table
from ..runs.trained import Checkpoint, Trained
from .terminal.console import Screen, others, tell_notes
from .terminal.options import (
    FIGURES,
    DataFile,
    Device,
    Everything,
    Folder,
    Json,
    Limit,
    Replica,
    Seed,
    Update,
)


def diagnose(
    run: Folder,
    update: Update = None,
    file: DataFile = None,
    replica: Replica = 0,
    chains: Annotated[int, typer.Option(help="Chains of each sampler.", min=4)] = 64,
    sweeps: Annotated[int, typer.Option(help="Sweeps before anything is recorded.", min=1)] = 500,
    starts: Annotated[
        int, typer.Option(help="Random states from which descent looks for minima.", min=2)
    ] = 400,
    everything: Everything = False,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Folder for the pictures (default: {FIGURES})."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Is it glassy, does it mix, what are its minima, how good are its samples?

    Prints numbers with their errors and a verdict, and draws where the machine stands among the phases,
    its landscape, and the quality of its samples. The start of a training is --update 0.

    Of a table: has it learned, can its samples be trusted, what to do next, in three sentences; of one
    whose columns all have two values, --all prints the rest, too.
    """
    screen = Screen(as_json)
    whole = open_trained(run, file)
    if whole.schema is not None and whole.has_data:
        _of_table(screen, run, whole, update, replica, device, chains, sweeps, seed, limit)
        if not everything:
            return
    machine, data, past = diagnosis.opened(whole, update, replica, device)
    folder = out or whole.figures
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
            title=f"{name}{after}: {machine.describe()}",
            limit=limit,
        )
    suffix = ("" if update is None else f"-{update}") + (f"-replica-{replica}" if replica else "")
    taken, words = whole.where(update)
    prefix = whole.picture("").name if run.is_file() else ""
    files = found.save(folder, words, prefix, suffix)
    told = {"run": str(run), **others(whole), "update": taken, "replica": replica}
    screen.result({**told, **found.as_dict(), "figures": files})
    screen.say(words)
    tell_notes(whole, screen)
    section = ""
    for row in found.rows:
        if row.section != section:
            section = row.section
            screen.say(section)
        screen.say(f"  {row.name:<40}  {row.text()}")
    screen.say(f"pictures: {', '.join(files.values())}")


def _of_table(
    screen: Screen,
    run: Path,
    whole: Trained,
    update: Checkpoint,
    replica: int,
    device: str,
    chains: int,
    sweeps: int,
    seed: int,
    limit: float | None,
) -> None:
    """Three sentences on the machine of a table."""
    machine = whole.machine(update, replica).to(device_named(device))
    data = whole.data().in_memory()
    with screen.watching("diagnosis"):
        found = diagnose_table(machine, data, chains=chains, sweeps=sweeps, seed=seed, limit=limit)
    taken, words = whole.where(update)
    told = {"run": str(run), **others(whole), "update": taken, "replica": replica}
    screen.result({**told, "sentences": found.sentences, **found.numbers})
    screen.say(words)
    tell_notes(whole, screen)
    for sentence in found.sentences:
        screen.say(sentence)
