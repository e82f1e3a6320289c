"""`rapidbm sample`: samplers are those of the registry, with the options that their fields are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import pictures
from ..accel.devices import device_named
from ..accel.ranks import current_ranks
from ..data.alignments import FASTA
from ..data.mixed import table_of
from ..data.sequences import write_sequences
from ..machines.machine import Machine
from ..random import stream
from ..runs.pretrained.packed import open_trained
from ..runs.samples import (
    ARRAYS,
    PICTURES,
    STARTS,
    TABLES,
    sampler_named,
    samples,
    target,
    write_array,
    write_rows,
)
from ..runs.tables import sampled_given
from ..runs.trained import Trained
from ..sampling.samplers import SAMPLERS
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
    Shards,
    Update,
    free_options,
    of_parts,
    offers,
    with_settings,
)
from .terminal.tables import schema_of

OWN = (
    "count", "sampler", "sweeps", "start", "beta", "given", "replica", "update", "data", "limit",
    "shards", "seed", "out", "device", "json", "help",
)  # fmt: skip


@with_settings(
    [of_parts(flag, by_name, None) for flag, by_name in free_options(SAMPLERS, OWN)], after="sweeps"
)
def sample(
    run: Folder,
    count: Annotated[int, typer.Option(help="How many samples.", min=1)] = 64,
    sampler: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(SAMPLERS)}: pt is parallel tempering, trajectory tempering along the "
            "run's checkpoints.",
            autocompletion=offers(SAMPLERS),
        ),
    ] = "gibbs",
    sweeps: Annotated[
        int | None,
        typer.Option(
            help="Sweeps from the start, turns of tempering, annealings after the first (default: "
            f"{', '.join(f'{name} {kind.steps}' for name, kind in SAMPLERS.own.items())}).",
            min=0,
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            help="Where Gibbs chains start: random, data (training images) or patterns.",
            autocompletion=offers(STARTS),
        ),
    ] = "random",
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    given: Annotated[
        str | None,
        typer.Option(
            help="Of a table: rows that meet conditions, sex=Female,age=30..40,city=Bonn|Ulm.",
            show_default=False,
        ),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    file: DataFile = None,
    limit: Limit = None,
    shards: Shards = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"A new .png, .npy (±1), .csv (0, 1) or .fasta (default: samples.png in {FIGURES})."
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
    **more: Any,
) -> None:
    """Draw samples, as a picture, array or table: by Gibbs sampling, tempering or annealing."""
    screen, opened, ranks = Screen(as_json), open_trained(run, file), current_ranks()
    machine = opened.machine(update, replica).to(device_named(device)).requires_grad_(False)
    schema = opened.schema
    alphabet = opened.alphabet
    pictured = schema is None and machine.layers.visible_spins
    endings: tuple[str, ...] = (
        (*FASTA, *ARRAYS) if alphabet else PICTURES + ARRAYS if pictured else ARRAYS
    )
    if schema is not None:
        endings = TABLES
    name = "samples.fasta" if alphabet else "samples.png" if pictured else "samples.csv"
    path = Path(ranks.broadcast(lambda: str(target(out, opened, name, endings))))
    if given is not None:
        _sample_given(
            screen, opened, machine, given, count, sweeps, seed, path, opened.where(update)[1], limit
        )
        return
    shards = shards or (ranks.world if ranks.world > 1 else None)
    chosen = sampler_named(sampler, opened, machine, start, update, replica, seed, more)
    if sampler == "gibbs" and sweeps is None:
        sweeps = opened.sampling_defaults.sweeps
    with screen.watching("sampling", limit=limit):
        spins, steps, told = samples(machine, chosen, count, sweeps, beta, seed, screen.track, shards)
    if not ranks.first:
        return
    names = opened.columns
    if schema is not None:
        write_rows(path, table_of(schema, spins, stream(seed, "cells")))
    elif alphabet and path.suffix in FASTA:
        write_sequences(path, machine.layers.decode(spins).numpy(), alphabet)
    elif not write_array(path, spins, names, machine.layers):
        pictures.save(pictures.image_figure(spins, opened.shape, names=names), path)
    drawn = {"samples": count, "sampler": sampler, "sweeps": steps, "out": str(path)}
    screen.result({"run": str(run), **others(opened), **drawn, **({"tempering": told} if told else {})})
    how = f"{sampler}, {steps} steps"
    if hasattr(chosen, "start"):
        rows = start == "data" and opened.other is not None
        how = f"{steps} sweeps from {f'rows of {opened.other_name}' if rows else STARTS[start]}"
    of = opened.where(update)[1]
    screen.say(f"{count} samples of {of}, {how}{'; ' if told else ''}{told} → {path}")
    if start == "data" or getattr(chosen, "data", None) is not None:
        tell_notes(opened, screen)


def _sample_given(
    screen: Screen,
    opened: Trained,
    machine: Machine,
    given: str,
    count: int,
    sweeps: int | None,
    seed: int,
    path: Path,
    of: str,
    limit: float | None,
) -> None:
    """Rows of a table that meet conditions."""
    schema = schema_of(opened)
    with screen.watching("rows under conditions", limit=limit):
        found = sampled_given(machine, schema, given, count, seed=seed, sweeps=sweeps or 100)
    write_rows(path, found.table)
    value, low, high = found.log_probability
    told = {"log_probability": value, "from": low, "to": high, "rhat": found.rhat, "ess": found.ess}
    screen.result({"run": str(opened), "samples": count, "given": given, **told, "out": str(path)})
    screen.say(f"{count} rows of {of} that meet {given} → {path}")
    screen.say(
        f"  the conditions have the probability {math.exp(value):.3g} [{math.exp(low):.3g}, "
        f"{math.exp(high):.3g}]; R-hat {found.rhat:.3f}, worth {found.ess:.0f} independent rows"
    )
