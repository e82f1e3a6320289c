"""A run in words: what was trained on what, and how to go on."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ..folder import RunFolder
from ..monitor import left_out
from ..recipe import FIELDS, Recipe
from ..timing import OPEN
from .html import duration

Pairs = list[tuple[str, str]]
MODELS = {"rbm": "a restricted machine", "dbm": "a deep machine", "bm": "a fully connected machine"}
NEGATIVE = {
    "pid": "PID: the patterns stand in for samples of the model",
    "cd": "CD: Gibbs chains from each batch",
    "pcd": "PCD: chains that live through the training",
    "exact": "exact: all states with their weights",
    "pt": "parallel tempering: chains on a ladder of temperatures",
}
PROJECTIONS = {
    "sign": "back to ±1",
    "clip": "kept within bounds",
    "gibbs": "drawn as spins in the field of each other",
}
FALLS = {"linear": "falls to zero in a straight line", "cosine": "falls to zero by a cosine"}


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def recipe_in_words(run: RunFolder) -> Pairs:
    """What was chosen, a heading and a sentence each."""
    recipe, data = run.recipe, run.info["data"]
    return [
        ("Data", _data(recipe, data)),
        ("Machine", _machine(recipe, data)),
        ("Negative phase", _parts(NEGATIVE.get(recipe.negative, recipe.negative), _options(recipe))),
        ("Updates", _updates(recipe)),
        ("Length", _length(run)),
        ("Made by", _made(run)),
    ]


def headline(run: RunFolder) -> str:
    """The machine in a few words."""
    recipe, data = run.recipe, run.info["data"]
    kind = "dense couplings" if recipe.patterns is None else f"K = {recipe.patterns:,} patterns"
    sizes = "×".join(map(str, (data["shape"][0] * data["shape"][1], *recipe.hidden)))
    return f"{recipe.model.upper()} {sizes}, {kind}, by {recipe.negative} on {data['name']}"


def _data(recipe: Recipe, data: dict[str, Any]) -> str:
    rows, columns = data["shape"]
    if "schema" in data:
        columns = len(data["schema"]["columns"])
    what = "row" if rows == 1 else "image"
    shape = counted(columns, "column") if rows == 1 else f"{rows}×{columns} pixels"
    parts = [f"{data[part]:,} to {verb}" for part, verb in _PARTS.items() if part in data]
    told = f"{data['name']}: {what}s of {shape}, {', '.join(parts)}"
    if recipe.dataset != data["name"]:
        told += f"; read from {recipe.dataset}"
    return told + "."


_PARTS = {"train": "train", "test": "test", "valid": "validate"}


def _machine(recipe: Recipe, data: dict[str, Any]) -> str:
    visible = data["shape"][0] * data["shape"][1]
    hidden = " and ".join(f"{h:,}" for h in recipe.hidden) or "no"
    couplings, biases = "dense couplings", "no biases"
    if recipe.patterns is not None:
        kind = "continuous patterns" if recipe.continuous else "patterns"
        couplings = f"couplings built from K = {recipe.patterns:,} {kind}"
    if recipe.biases:
        start = "the data's marginals" if recipe.bias_start == "marginals" else "zero"
        biases = f"biases, the visible ones started at {start}"
    many = f"; {recipe.replicas:,} replicas, trained side by side" if recipe.replicas > 1 else ""
    kind = MODELS.get(recipe.model, recipe.model)
    return f"{kind} of {visible:,} visible and {hidden} hidden units; {couplings}; {biases}{many}."


def _options(recipe: Recipe) -> list[str]:
    named = {"particles": ("chain", ""), "sweeps": ("sweep", " an update"), "rungs": ("rung", "")}
    given = ((getattr(recipe, name), words) for name, words in named.items())
    return [counted(value, thing) + more for value, (thing, more) in given if value is not None]


def _parts(first: str, more: list[str]) -> str:
    return "; ".join([first, *([", ".join(more)] if more else [])]) + "."


def _updates(recipe: Recipe) -> str:
    rate = " / ".join(f"{r:.3g}" for r in dict.fromkeys(recipe.rate)) or "the optimiser's own"
    more = [f"{recipe.optimizer}, rate {rate}"]
    if recipe.fall != "none":
        more.append(f"which {FALLS.get(recipe.fall, recipe.fall)}")
    if recipe.decay != 1:
        floor = f", down to {recipe.rate_floor:g}" if recipe.rate_floor else ""
        more.append(f"times {recipe.decay:g} after each epoch{floor}")
    more += [f"from update {int(u):,} on rate {r:.3g}" for u, r in recipe.rate_changes]
    given = recipe.weight_decay if isinstance(recipe.weight_decay, tuple) else ()
    if any(given):
        more.append(f"weight decay {' / '.join(f'{x:g}' for x in dict.fromkeys(given))}")
    if recipe.momentum:
        more.append(f"momentum {recipe.momentum:g}")
    told = ", ".join(more) + f"; batches of {recipe.batch_size:,}"
    if recipe.projection != "none":
        told += f"; patterns {PROJECTIONS.get(recipe.projection, recipe.projection)}"
    if recipe.pace != 1:
        told += f"; patterns of hidden units at {recipe.pace:g} of their pace"
    if recipe.centred:
        told += "; centred gradients"
    if recipe.average:
        told += f"; parameters averaged over about {recipe.average:,} updates"
    return told + "."


def _length(run: RunFolder) -> str:
    recipe, info = run.recipe, run.info
    done, planned = info.get("update", 0), info.get("updates", 0)
    told = counted(done, "update") + ("" if done == planned else f" of {planned:,}")
    if recipe.epochs < OPEN:
        told += f", {counted(recipe.epochs, 'epoch')}"
    if recipe.budget is not None:
        told += f", within a budget of {recipe.budget}"
    if recipe.patience is not None:
        told += f", patient for {counted(recipe.patience, 'look')}"
    if "seconds" in info:
        told += f"; {duration(info['seconds'])} of training"
    for longer in info.get("prolonged", []):
        told += f"; made longer after update {longer['update']:,}"
    return told + "."


def _made(run: RunFolder) -> str:
    info = run.info
    versions = info.get("versions")
    known = versions if isinstance(versions, dict) else {}
    parts = [f"rapidbm {info['rapidbm']}"] if "rapidbm" in info else []
    parts += [f"{name} {known[name]}" for name in ("torch", "numpy", "python") if name in known]
    if "device" in info:
        parts.append(f"on {info['device']}")
    parts.append(f"seed {run.recipe.seed}")
    if info.get("preset"):
        parts.append(f"preset {info['preset']}")
    if "started" in info:
        when = str(info["started"]).replace("T", " ").replace("+00:00", " UTC")
        parts.append(f"begun {when}")
    return ", ".join(parts) + "."


def findings(run: RunFolder) -> list[str]:
    """What the trials of the preset auto said."""
    lines = (line.removeprefix("auto: ") for line in run.info.get("auto", {}).get("found", []))
    return [re.sub(r"(?<!\w)-(?=\d)", "−", line) for line in lines]


def remarks(run: RunFolder) -> list[str]:
    """What a reader should know beside the status."""
    info, told = run.info, []
    if "stopped" in info:
        told.append(f"Stopped {info['stopped']}.")
    if lost := info.get("diverged", []):
        one = len(lost) == 1
        told.append(
            f"Replica{'' if one else 's'} {', '.join(map(str, lost))} diverged and "
            f"{'was' if one else 'were'} frozen; numbers leave {'it' if one else 'them'} out."
        )
        for each in info.get("divergences", []):
            where = f"Replica {each['replica']}, update {each['update']}, epoch {each['epoch']}"
            told.append(f"{where}: {each['why']}.")
    if "restored" in info:
        told.append(
            f"Gone on from the state of update {info['restored']['update']}: "
            f"{info['restored']['because']}."
        )
    if words := left_out(info.get("looks", {})):
        told.append(f"{words[0].upper()}{words[1:]}.")
    if info.get("evaluations_lost"):
        told.append(f"{info['evaluations_lost']} evaluations are lost from metrics.jsonl.")
    return told


def settings(recipe: Recipe) -> Pairs:
    """Every setting that has a value."""
    values = {**recipe.as_dict(), **recipe.options}
    names = [name for name in values if name in FIELDS and name != "options"]
    names += sorted(set(recipe.options) - FIELDS)
    told = ((name.replace("_", " "), _setting(values[name])) for name in names)
    return [(name, value) for name, value in told if value]


def _setting(value: Any) -> str:
    if value is None or value in ((), []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return " / ".join(map(_setting, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def commands(run: RunFolder) -> Pairs:
    """What to type next, and why."""
    folder = shlex.quote(str(run.folder))
    resume = f"rapidbm train --resume --out {folder}"
    told = []
    if run.status == "finished":
        longer = 2 * run.recipe.epochs
        if run.recipe.budget is None and longer < OPEN:
            told.append(("Train for longer", f"{resume} --epochs {longer}"))
    else:
        told.append(("Go on to the same bits as a run that was never stopped", resume))
    if run.schema is not None:
        return [
            *told,
            ("log p of the test rows beside independent columns", f"rapidbm evaluate {folder}"),
            ("New rows", f"rapidbm sample {folder} --count 1000 --out new.csv"),
            ("Gaps of a table filled", f"rapidbm impute {folder} TABLE.csv --out full.csv"),
            ("Rows and cells that are unusual", f"rapidbm score {folder} TABLE.csv --out scores.csv"),
            ("Has it learned, can it be trusted, what to do next", f"rapidbm diagnose {folder}"),
        ]
    return [
        *told,
        ("Likelihood, reconstruction errors, ground states", f"rapidbm evaluate {folder}"),
        ("Samples as an array", f"rapidbm sample {folder} --count 1000 --out samples.npy"),
        ("Is it glassy, does it mix, are its samples good", f"rapidbm diagnose {folder}"),
        ("This page again, with that diagnosis", f"rapidbm report {folder} --diagnose"),
    ]
