"""Settings that suit the rows, by short trainings (`runs/auto_settings.py`), and the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor

from ..data.splits import Dataset, Split
from ..errors import InputError
from ..machines.machine import Machine
from ..runs import auto_settings
from ..runs.recipe import Recipe
from ..runs.run import Run


@dataclass(frozen=True)
class Chosen:
    """The best machine by rows held out, and the training after the trials."""

    machine: Machine
    passes: int
    rate: float
    weight_decay: float


def by_trials(spins: Tensor, settings: Mapping[str, Any], tell: Callable[[str], object]) -> Chosen:
    """What suits the rows; what `settings` name is not varied."""
    if len(spins) < 2:
        raise InputError("a budget is for trials, which hold out rows, and there is one; leave it out")
    data = Dataset("table", Split(spins), Split(spins[:1]), (1, spins.shape[1]))
    found = auto_settings.find_settings(Recipe.made("table", settings, "auto"), settings, data, tell)
    with TemporaryDirectory(prefix="rapidbm-") as folder:
        run = Run.create(Path(folder) / "run", found.recipe, "auto", data=data, start=found.start)
        for step in run.go():
            epoch = step.epoch
        recipe = found.recipe
        decay = recipe.weight_decay
        decay = decay[0] if isinstance(decay, tuple) else decay or 0.0
        return Chosen(run.machine(), epoch, recipe.rate[0], decay)
