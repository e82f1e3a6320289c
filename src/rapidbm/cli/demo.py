"""`rapidbm demo`: RAPID, without any Monte Carlo, on bars and stripes."""

from __future__ import annotations

import shlex
import warnings
from itertools import count
from pathlib import Path
from typing import Annotated

import torch
import typer
from matplotlib.figure import Figure
from torch import Tensor

from .. import interrupts, pictures
from ..errors import FitWarning, InputError
from ..machines.machine import Machine
from ..random import stream
from ..runs.metrics import corrupt, reconstruct
from ..runs.recipe import Recipe
from ..runs.run import Run
from ..runs.samples import samples
from ..sampling.samplers import Gibbs
from .terminal.console import Screen, Stopper, follow
from .terminal.options import Json, Seed

SWEEPS = 10
PARTS = {
    "bas12": {"replicas": 4, "epochs": 20},
    "bars4": {"replicas": 50, "epochs": 100},
}


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (default: a new one, runs/demo-1, …).")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The first thing to run: RAPID on bars and stripes, in under two minutes on two cores."""
    screen, stopper = Screen(as_json), Stopper()
    with screen.gentle_warnings(), stopper.listening():
        demonstrate(out, seed, screen, stopper)


def demonstrate(out: Path | None, seed: int, screen: Screen, stopper: Stopper) -> None:
    """Trains both data sets and leaves a run folder with pictures for each, and one for all."""
    folder = out or next(path for i in count(1) if not (path := Path("runs") / f"demo-{i}").exists())
    if folder.exists() and ((folder / "demo.png").exists() or not _begun(folder)):
        raise InputError(f"{folder} exists and is not empty; choose another --out")
    screen.say(
        "RAPID: the couplings are built from K patterns, and the patterns themselves stand in for\n"
        "samples of the model. The machine sees the first line of each image and fills in the rest;\n"
        "the Hamming distance is the share of all pixels that are wrong then (0.5 is guessing)."
    )
    again = f"rapidbm demo --out {shlex.quote(str(folder))}"
    interrupts.go_on_with(lambda: again if folder.exists() else "")
    runs = []
    for dataset, chosen in PARTS.items():
        if (folder / dataset / "run.json").is_file():
            run = Run(folder / dataset)
        else:
            run = Run.create(folder / dataset, Recipe.made(dataset, {**chosen, "seed": seed}))
        machine = run.recipe
        screen.say(
            f"\n{dataset}: {run.info['data']['train']:,} images to train, "
            f"{run.info['data']['test']:,} to test; {machine.hidden[0]} hidden units, "
            f"K = {machine.patterns} patterns, {machine.replicas} trainings side by side"
        )
        with warnings.catch_warnings():  # what PID is not for is told below, once
            warnings.simplefilter("ignore", FitWarning)
            follow(run, screen, stopper)
        if run.status == "interrupted":
            screen.say(f"interrupted; everything is saved. Go on with: {again}")
            raise typer.Exit(stopper.code)
        screen.say(f"{run.info['seconds']:.1f} s of training; pictures in {draw(run, seed)}")
        runs.append(run)
    screen.say(
        "\nPID is for completions. As likelihoods these machines are worse than independent pixels; for\n"
        "likelihoods and samples: rapidbm train bas12 --preset small"
    )
    path = pictures.save(overview(runs, seed), folder / "demo.png")
    screen.say(f"\nall on one page: {path}")
    screen.result({"event": "finished", "out": str(folder), "picture": str(path)})


def _begun(folder: Path) -> bool:
    """True for a folder that holds nothing but the parts of an unfinished demo."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} <= set(PARTS)


def draw(run: Run, seed: int) -> Path:
    """Curves, samples and patterns of a run as pictures."""
    _, drawn, visible = _seen(run, 64, seed)
    titles = (f"{SWEEPS} sweeps from random starts", "visible part of the patterns")
    figures = {
        "curves.png": pictures.curve_figure(run.metrics(), run.info["data"]["name"]),
        "samples.png": pictures.image_figure(drawn, run.shape, title=titles[0]),
        "patterns.png": pictures.image_figure(visible, run.shape, title=titles[1]),
    }
    for name, figure in figures.items():
        pictures.save(figure, run.figures / name)
    return run.figures


def _seen(run: Run, count: int, seed: int) -> tuple[Machine, Tensor, Tensor]:
    """The first replica, samples of it and the visible part of its patterns."""
    machine = run.machine().replica(0)
    assert machine.patterns is not None
    drawn = samples(machine, Gibbs(), count, SWEEPS, 1.0, seed)[0]
    return machine, drawn, machine.patterns.detach()[0, :, : machine.visible]


def overview(runs: list[Run], seed: int) -> Figure:
    """One picture: per data set the curves, the task, samples and patterns."""
    fig = pictures.figure(13.0, 3.3 * len(runs))
    for row, run in zip(fig.subplots(len(runs), 4, squeeze=False), runs, strict=True):
        data = run.data()
        machine, drawn, visible = _seen(run, 16, seed)
        pictures.show_curves(row[0], run.metrics(), "hamming", "Hamming distance")
        row[0].set_title(f"{data.name}, {run.recipe.replicas} trainings", fontsize=10)
        some = data.test.take(slice(0, 4))
        filled = reconstruct(machine, some, stream(seed, "demo"))[0]
        task = torch.cat([some.spins, corrupt(some).nan_to_num(), filled])
        pictures.show_images(row[1], task, data.shape, len(some), "test images; what is given; filled in")
        pictures.show_images(row[2], drawn, data.shape, 4, f"{SWEEPS} sweeps from random starts")
        pictures.show_images(row[3], visible[:16], data.shape, 4, "patterns (visible part)")
    return fig
