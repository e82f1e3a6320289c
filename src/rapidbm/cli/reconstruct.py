"""`rapidbm reconstruct`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..runs.pretrained.packed import open_trained
from ..runs.samples import reconstructions, target
from .terminal.console import Screen, others, tell_notes
from .terminal.options import (
    FIGURES,
    DataFile,
    Device,
    Folder,
    Json,
    Limit,
    Replica,
    Seed,
    Update,
    offers,
)


def reconstruct(
    run: Folder,
    count: Annotated[int, typer.Option(help="How many images.", min=1)] = 16,
    part: Annotated[
        str | None,
        typer.Option(
            "--of",
            help="Which images: test, train or valid (default: test; of other data the first rows of "
            "their file).",
            autocompletion=offers(("test", "train", "valid")),
        ),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(help="A .npy of booleans, true where a pixel is known (default: the data set's)."),
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(help="Gibbs passes (default: 1, of a pretrained machine 200).", min=1),
    ] = None,
    clamp: Annotated[
        bool | None,
        typer.Option(
            "--clamp/--free",
            help="Hold the known pixels, as is done by default of a pretrained machine, or only start "
            "from them, as by default of a run.",
        ),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    file: DataFile = None,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"A new .png, .npy (±1) or .csv (0, 1) (default: reconstructions.png in {FIGURES})."
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill in the unknown pixels of images: the paper's task is one pass with nothing held."""
    screen, opened = Screen(as_json), open_trained(run, file)
    passes = opened.sampling_defaults.passes if passes is None else passes
    clamp = opened.sampling_defaults.clamp if clamp is None else clamp
    path = target(out, opened, "reconstructions.png")
    with screen.watching("reconstruction", limit=limit):
        images, wrong = reconstructions(
            opened, part, mask, count, passes, clamp, replica, update, seed, device, path
        )
    screen.result({"run": str(run), **others(opened), "images": images, **wrong, "out": str(path)})
    units = "cells" if opened.shape[0] == 1 else "pixels"
    told = f"{wrong['wrong_unknown']:.4f} of the unknown {units} are wrong"
    if clamp:
        told += ", the known ones were held"
    else:
        told += f"; nothing was held, Hamming distance over all {units} {wrong['hamming']:.4f}"
    screen.say(f"{opened.where(update)[1]}: {told} → {path}")
    tell_notes(opened, screen)
