"""`rapidbm evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .terminal.options import (
    DataFile,
    Device,
    Everything,
    Folder,
    Json,
    Limit,
    Seed,
    Shards,
    Update,
    offers,
)


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
    everything: Everything = False,
    limit: Limit = None,
    shards: Shards = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Likelihood, reconstruction errors and energies of a trained machine.

    Of a table: log p of its test rows beside independent columns; --all prints the rest.

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
    if opened.schema is not None and not everything and (lines := _of_table(rows, lost)):
        for line in [*lines, f"all that was measured: rapidbm evaluate {run} --all"]:
            screen.say(f"  {line}")
        tell_notes(opened, screen)
        return
    for name, values in rows.items():
        kept = [v for i, v in enumerate(values) if i not in lost]
        screen.say(f"  {name:<{width}}  {spread(kept)}")
    if lost:
        screen.say(f"  replica {', '.join(map(str, lost))} diverged and is left out")
    for note in notes:
        screen.say(f"  {note}")


def _of_table(rows: Mapping[str, Sequence[float | None]], lost: Sequence[int]) -> list[str]:
    """log p of the rows that were held out beside independent columns, and of training rows."""
    kept = {name: [v for i, v in enumerate(each) if i not in lost] for name, each in rows.items()}
    part = next((p for p in ("test", "data") if f"log_likelihood_{p}" in kept), None)
    if part is None:
        return []
    what = "a test row" if part == "test" else "a row"
    lines = [(f"log p of {what}", _with_ends(kept, f"log_likelihood_{part}"))]
    columns = kept.get(f"independent_columns_{part}", [])
    if columns:
        lines.append(("independent columns", spread(columns)))
        pairs = zip(kept[f"log_likelihood_{part}"], columns, strict=True)
        gains = [a - b for a, b in pairs if a is not None and b is not None]
        if gains:
            lines.append(("gain", f"{spread(gains)}; what it knows of how columns hang together"))
    if "log_likelihood_train" in kept and part == "test":
        lines.append(("log p of a training row", _with_ends(kept, "log_likelihood_train")))
    if f"label_error_{part}" in kept:
        lines.append(("share of labels that are wrong", spread(kept[f"label_error_{part}"])))
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {text}" for name, text in lines]


def _with_ends(rows: Mapping[str, Sequence[float | None]], name: str) -> str:
    """A value in nats with the ends of its interval, over replicas the widest ones."""
    ends = [[v for v in rows.get(f"{name}_{end}", []) if v is not None] for end in ("from", "to")]
    told = f"{spread(rows[name])} nats"
    return told + (f", {min(ends[0]):.4g} to {max(ends[1]):.4g}" if all(ends) else ", exact")


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
