"""`rapidbm bench`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import torch
import typer

from rapidbm.accel.rounding import PRECISIONS
from rapidbm.cli.terminal.console import Screen
from rapidbm.cli.terminal.options import Device, Json, Seed, offers
from rapidbm.errors import InputError
from rapidbm.progress import quiet
from rapidbm.random import check_seed

from .running import write
from .speed import report, run


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes and few repeats: seconds.")] = False,
    precision: Annotated[
        str,
        typer.Option(
            help="How products are rounded: float32, or on a GPU tf32 or bf16.",
            autocompletion=offers(PRECISIONS),
        ),
    ] = "float32",
    out: Annotated[
        Path | None, typer.Option(help="Folder for bench.json, bench.png and bench.pdf.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How fast this machine and this library are, beside what else is installed.

    Updates against those of other packages, cost against size, and the share of the machine's best rate.
    Other packages come with [bold]pip install 'rapidbm\\[bench]'[/].
    """
    check_seed(seed)
    screen, (on, rounding) = Screen(as_json), run.checked(device, precision)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # what cannot be written is known before the work
        if (out / "bench.json").exists():
            raise InputError(f"{out} holds a bench.json, which is kept; give another folder to --out")
    if on.type == "cpu" and (load := run.busy()) is not None:
        screen.warn(
            f"other work keeps this machine busy (load {load:.1f} on {os.cpu_count()} processors, "
            f"{torch.get_num_threads()} threads wanted): threads will wait for each other, and times and "
            "ratios mean little; run it alone, or with a smaller OMP_NUM_THREADS"
        )
    with screen.err.status("measuring") as status, quiet():
        found = run.measured(on, rounding, quick, seed, tell=status.update)
    screen.result(found)
    for line in report.lines(found):
        screen.say(line)
    if out is not None:
        write(out / "bench.json", found)
        report.draw(found, out)
        screen.say(f"written: {', '.join(str(out / f'bench.{e}') for e in ('json', 'png', 'pdf'))}")
