"""`rapidbm evaluate`."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import pictures
from ..accel.ranks import current_ranks
from ..display import spread
from ..errors import InputError
from ..runs.evaluation import (
    LIKELIHOODS,
    assist,
    curve_figure,
    evaluation,
    likelihood_curve,
    measured_parts,
    middle,
)
from ..runs.pretrained.packed import open_trained
from ..runs.trained import Trained
from .terminal.console import Screen, meaning, others, tell_notes
from .terminal.options import DataFile, Device, Folder, Json, Limit, Seed, Shards, Update, offers


def evaluate(
    run: Folder,
    update: Update = None,
    file: DataFile = None,
    likelihood: Annotated[
        str,
        typer.Option(
            help="auto (exact, or annealed where that is a matter of minutes), exact, ais or none.",
            autocompletion=offers(LIKELIHOODS),
        ),
    ] = "auto",
    curve: Annotated[
        bool,
        typer.Option("--curve", help="The likelihood of every checkpoint instead, and a picture."),
    ] = False,
    limit: Limit = None,
    shards: Shards = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Likelihood, reconstruction errors and energies of a trained machine.

    Log-likelihoods and ground states are exact where that can be had; else annealing gives a value
    and its 95 % interval, and a search the best energy, beside one that no state can go below.
    """
    screen, opened, ranks = Screen(as_json), open_trained(run, file), current_ranks()
    shards = shards or (ranks.world if ranks.world > 1 else None)
    if not ranks.first:
        if not curve:
            assist(opened, update, seed, device, likelihood, shards)
        return
    with screen.watching("evaluation", limit=limit):
        if not curve:
            found = evaluation(opened, update, seed, device, likelihood, shards)
        elif update is not None or likelihood != "auto":
            raise InputError("--curve takes all checkpoints; leave --update and --likelihood out")
        else:
            _show_curve(opened, screen, seed, device)
            return
    taken, words = opened.where(update)
    which = opened.chosen(update)
    rows, notes = found.rows, list(found.notes)
    told = {"run": str(run), **others(opened), "update": taken, "checkpoint": which}
    screen.result({**told, **rows, "notes": notes})
    width = max(map(len, rows))
    lost = opened.info.get("diverged", []) if which == "last" else []
    screen.say(f"{run}: {words}; {meaning(opened.replicas - len(lost))}")
    for name, values in rows.items():
        kept = [v for i, v in enumerate(values) if i not in lost]
        screen.say(f"  {name:<{width}}  {spread(kept)}")
    if lost:
        screen.say(f"  replica {', '.join(map(str, lost))} diverged and is left out")
    for note in notes:
        screen.say(f"  {note}")


def _show_curve(run: Trained, screen: Screen, seed: int, device: str) -> None:
    records = likelihood_curve(run, seed, device, screen.track)
    names = measured_parts(records[0])
    bound = any(name.startswith("log_bound") for name in names.values())
    screen.say(
        f"{'lower bound (mean field) of the ' if bound else ''}log-likelihood per row, middle of the "
        f"interval ({meaning(run.replicas)}) and its width, the widest"
    )
    for record in records:
        screen.result(record)
        told = []
        for part, name in names.items():
            ends = (record[f"{name}_{end}"] for end in ("from", "to"))
            pairs = [(a, b) for a, b in zip(*ends, strict=True) if a is not None and b is not None]
            widest = max((b - a for a, b in pairs), default=0.0)
            told.append(f"{part} {spread(middle(record, name))} (width {widest:.2g})")
        screen.say(f"  update {record['update']:>8}  {'; '.join(told)}; {record['method']}")
    figure = curve_figure(records, run.info["data"]["name"])
    screen.say(f"picture: {pictures.save(figure, run.picture('likelihood.png'))}")
    tell_notes(run, screen)
