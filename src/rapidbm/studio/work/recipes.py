"""What a page may choose for a training, as a recipe.

Data are named as on the command line, or are a file that was uploaded into the folder: no other file can
be named. Sizes are bounded, so that a slip of the mouse does not take the computer with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ...accel.ranks import current_ranks
from ...data.catalogue import entry_of, is_file
from ...data.digits import mnist_is_here
from ...data.files import check_unpacked
from ...disk import inside
from ...errors import InputError
from ...runs.metrics import METRICS
from ...runs.monitor import suited
from ...runs.presets import preset_for
from ...runs.recipe import Recipe
from ...runs.timing import seconds_of
from ...schema import Either, Flag, Maybe, Names, Real, Several, Text, Whole
from ...training.projections import PROJECTIONS
from ..uploads import UPLOADED, UPLOADS

UNPACKED = 2**28  # bytes of all arrays of such a file
LONGEST = 86_400.0  # seconds that one may ask for
LARGEST = 2**27  # parameters of all replicas
INSTEAD = {"negative": "pcd", "projection": "none", "scouts": None}  # where couplings are dense
WORD = Text(40)
NUMBER = Real()
CHOSEN = Names(
    {},
    {
        "model": WORD,
        "hidden": Several(Whole(0, 100_000), most=8),
        "patterns": Maybe(Whole(1, 100_000)),
        "scale": Maybe(NUMBER),
        "continuous": Flag(),
        "biases": Flag(),
        "replicas": Whole(1, 1000),
        "negative": WORD,
        "sweeps": Maybe(Whole(0, 10_000)),
        "particles": Maybe(Whole(1, 100_000)),
        "rungs": Maybe(Whole(2, 200)),
        "projection": WORD,
        "optimizer": WORD,
        "rate": Either((NUMBER, Several(NUMBER, most=1))),
        "momentum": Maybe(NUMBER),
        "weight_decay": Either((NUMBER, Several(NUMBER, most=1))),
        "decay": NUMBER,
        "fall": WORD,
        "centred": Flag(),
        "batch_size": Whole(1, 1_000_000),
        "batch_mean": WORD,
        "epochs": Whole(1, 1_000_000),
        "metrics": Several(WORD, most=4),
        "valid": Maybe(NUMBER),
        "budget": Maybe(WORD),
        "columns": Maybe(Text(50_000)),
        "reals": Maybe(WORD),
        "seed": Whole(0, 2**32),
    },
)


def recipe_of(folder: Path, asked: Mapping[str, Any]) -> tuple[Recipe, str]:
    """The recipe that a message asks for, and the preset that filled it in."""
    chosen = CHOSEN.checked(dict(asked.get("chosen") or {}), "the choices:", "change that one")
    dataset = data_named(folder, asked.get("dataset"))
    preset = asked.get("preset") or preset_for(dataset, chosen)
    if preset == "auto" and not chosen.get("budget"):
        raise InputError("settings that are found by short trainings need a time; choose one")
    if chosen.get("budget") and seconds_of(chosen["budget"]) > LONGEST:
        raise InputError("a training of the studio takes a day at most; train longer by the command")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in chosen.items()}
    for name in ("rate", "weight_decay"):
        if name in values and not isinstance(values[name], tuple):
            values[name] = (float(values[name]),)
    recipe = Recipe.made(dataset, values, preset)
    # Trials choose between dense couplings and patterns, and what goes with them.
    if (
        recipe.patterns is None and preset != "auto"
    ):  # what a preset for patterns fills in, and dense couplings cannot have
        instead = {
            name: value
            for name, value in INSTEAD.items()
            if name not in values and getattr(recipe, name) in refused_by(recipe)[name]
        }
        recipe = Recipe.made(dataset, {**values, **instead}, preset) if instead else recipe
    check_size(recipe)
    return recipe, preset


def refused_by(recipe: Recipe) -> dict[str, list[Any]]:
    """Values of choices that need patterns, where the couplings of this recipe are dense."""
    if recipe.patterns is not None:
        return {}
    scouts = [] if recipe.scouts is None else [recipe.scouts]
    projections = [name for name in PROJECTIONS if name != INSTEAD["projection"]]
    return {"negative": ["pid"], "projection": projections, "scouts": scouts}


def check_fits(recipe: Recipe, preset: str = "") -> None:
    """Refuses, in words, what a training of this recipe would refuse, without starting one."""
    if recipe.dataset.startswith("mnist") and not mnist_is_here():
        return  # a training downloads it; the settings alone were checked
    data = recipe.data(None)
    if preset == "auto":
        return  # the machine is not chosen yet
    recipe = suited(recipe, data)
    ready = recipe.trainer(data, torch.device("cpu"), current_ranks())
    for name in recipe.metrics:
        METRICS[name].check(ready.machine)


def data_named(folder: Path, name: Any) -> str:
    """A data set's name, or the path of a file that was uploaded."""
    if not isinstance(name, str) or not name or len(name) > 300:
        raise InputError(f"data have a name, not {name!r}; choose some")
    if name.startswith(UPLOADED):
        return str(uploaded(folder, name.removeprefix(UPLOADED)))
    if is_file(name) or entry_of(name)[0] is None:
        raise InputError(f"{name!r} is no data set; choose one of those shown, or drop a file")
    return name


def uploaded(folder: Path, name: str) -> Path:
    """Where a file that was dropped onto the page lies, if it does not unpack to more than `UNPACKED`."""
    if Path(name).name != name or name.startswith(".") or not is_file(name):
        raise InputError(f"{name!r} is no name of a file that was dropped here")
    path = inside(folder, UPLOADS, name)
    if not path.is_file():
        raise InputError(f"the file {name!r} is no longer there; drop it again")
    there = path.stat()
    _check_size_of(path, there.st_size, there.st_mtime_ns, there.st_ino)
    return path


@lru_cache(64)
def _check_size_of(path: Path, *stamp: int) -> None:
    """Refuses what unpacks to more than a page is for; asked once of a file as it is."""
    check_unpacked(path, UNPACKED)


def check_size(recipe: Recipe) -> None:
    """Refuses machines that are far beyond what a page is for."""
    units = sum(recipe.hidden)
    each = max(units, 1) ** 2 if recipe.patterns is None else units * recipe.patterns
    count = recipe.replicas * each
    if count > LARGEST:
        raise InputError(
            f"a machine of about {count:,} parameters is beyond the studio's {LARGEST:,}; take fewer "
            "units or replicas, or train it by the command"
        )
