"""Where a study measures: the device, the random numbers, the trainings, and the sizes of each scale.

A training is a run folder under trainings/ (`runs.run`): an interrupted reproduction goes on with it, to
the same bits, and once the record of its part is written it is removed.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset
from rapidbm.disk import inside
from rapidbm.errors import InputError, LoadWarning, LossWarning
from rapidbm.machines.constructors import rbm
from rapidbm.machines.files import load_machine, save_machine
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.timing import on_log_grid
from rapidbm.training.loop import Progress
from rapidbm.training.trainer import Trainer

from .observables import Observable
from .records import Values

SCALE_NAMES = ("tiny", "quick", "paper")
T = TypeVar("T")


def by_scale(*, tiny: T, quick: T, paper: T) -> T:
    """A setting of a study: its value at each scale."""
    values: Any = dataclasses.field(metadata={"tiny": tiny, "quick": quick, "paper": paper})
    return values  # type: ignore[no-any-return]


class Settings:
    """The sizes of a study, a frozen dataclass of fields `by_scale`."""

    @classmethod
    def at(cls: type[T], scale: str) -> T:
        known = [f for f in fields(cls) if f.metadata]  # type: ignore[arg-type]
        return cls(**{f.name: f.metadata[scale] for f in known})


@dataclass(frozen=True)
class Part:
    """A piece of work that leaves one record: `measure(lab, scale, *words)`; `needs` names parts whose
    machines it takes."""

    measure: Callable[..., Values]
    words: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()

    def run(self, lab: Lab, scale: Any) -> Values:
        return self.measure(lab, scale, *self.words)


def each(measure: Callable[..., Values], names: Mapping[str, Any] | tuple[str, ...]) -> dict[str, Part]:
    """A part of every name, measured in the same way."""
    return {name: Part(measure, (name,)) for name in names}


@dataclass(frozen=True)
class Lab:
    """Where a part works: its device, its random numbers, the reproduction's folder, whom it tells."""

    name: str  # "study.part"
    device: torch.device
    seed: int
    folder: Path
    tell: Callable[[float], None]  # the share that is done; raises when the work is to stop

    def rng(self, *words: object) -> torch.Generator:
        """A stream of this part's own."""
        return stream(self.seed, self.name, *words, device=self.device)

    def within(self, start: float, end: float) -> Lab:
        """The same, for a piece of the work that is so much of the whole."""
        return dataclasses.replace(self, tell=lambda share: self.tell(start + (end - start) * share))

    # -- machines ---------------------------------------------------------------------------------

    def keep(self, machine: Machine) -> None:
        """Saves the machine for the parts that need it."""
        path = machine_path(self.folder, self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_machine(machine, path)

    def kept(self, name: str) -> Machine:
        """The machine that the part `name` saved."""
        machine = load_machine(machine_path(self.folder, name)).to(self.device)
        return machine.requires_grad_(False)

    def recipe(self, dataset: str, preset: str | Mapping[str, Any], **chosen: Any) -> Recipe:
        """A preset, by its name or as settings, with some choices of its own."""
        where = {"seed": self.seed, "device": str(self.device), "checkpoints": "end"}
        return Recipe.made(dataset, {**where, **chosen}, preset)

    def first(self, recipe: Recipe, data: Dataset) -> Machine:
        """The machine that a recipe starts from."""
        return recipe.machine(data, self.device).requires_grad_(False)

    # -- trainings --------------------------------------------------------------------------------

    @property
    def trainings(self) -> Path:
        return inside(self.folder, "trainings", self.name)

    def train(
        self,
        recipe: Recipe,
        observables: Mapping[str, Observable],
        *,
        at: Callable[[int], bool] = on_log_grid,
        data: Dataset | None = None,
        before: Callable[[Trainer], None] | None = None,
        after: Callable[[Trainer], None] | None = None,
        start: Callable[[Trainer], None] | None = None,
        name: str = "run",
    ) -> tuple[Values, Run]:
        """Trains, and observes at the start, at epochs `at` which it says so, and at the end.

        Answers {"epochs": (t,), name of an observable: (t, e), …} and the run. `before` and `after`
        act on the trainer at each end of an epoch, on either side of the look at it, `start` before the
        first one. A part with several trainings gives each a `name`.
        """

        def look(progress: Progress, data: Dataset) -> dict[str, Tensor] | None:
            trainer = progress.trainer
            assert isinstance(trainer, Trainer)
            first = before if progress.update else start
            if first is not None:
                first(trainer)
            seen = None
            if progress.update in (0, progress.updates) or at(progress.epoch):
                seen = {key: see(progress, data, progress.rng) for key, see in observables.items()}
            if after is not None and progress.update:
                after(trainer)
            return seen

        folder = self.trainings / name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoadWarning)  # the loads are the paper's
            warnings.simplefilter("error", LossWarning)  # a course with a gap is measured anew
            try:
                run = Run(folder, data, None if type(recipe) is Recipe else recipe)
                if run.info["recipe"] != json.loads(json.dumps(recipe.as_dict())):
                    raise InputError(f"{folder} is a training of another recipe; remove it")
                self._go(run, look)
            except (InputError, LossWarning):
                shutil.rmtree(folder, ignore_errors=True)
                run = Run.create(folder, recipe, data=data)
                self._go(run, look)
        lines = run.metrics()
        found: Values = {"epochs": [line["epoch"] for line in lines]}
        found |= {key: [line[key] for line in lines] for key in observables}
        if diverged := run.info["diverged"]:
            found["diverged"] = list(diverged)
        return found, run

    def _go(self, run: Run, look: Any) -> None:
        # An interruption saves the run at once.
        with closing(run.go(look=look)) as steps:  # type: ignore[type-var]
            for step in steps:
                self.tell(step.update / step.updates)

    def machine(self, run: Run, update: int | None = None) -> Machine:
        """The machine that a run ended with, or had after that update."""
        return run.machine(update).to(self.device).requires_grad_(False)


def machine_path(folder: Path, name: str) -> Path:
    return inside(folder, "machines", f"{name}.safetensors")


def random_rbm(
    visible: int, hidden: int, patterns: int | None, rng: torch.Generator, **more: Any
) -> Machine:
    """An untrained machine."""
    machine = rbm(visible, hidden, patterns, rng=rng, device=rng.device, **more)
    return machine.requires_grad_(False)


def shortened(data: Dataset, train: int | None, test: int | None) -> Dataset:
    """The first images of each split."""
    parts = {"train": data.train.take(slice(0, train)), "test": data.test.take(slice(0, test))}
    return dataclasses.replace(data, **parts)  # type: ignore[arg-type]


class Rows(dict[str, list[Any]]):
    """Columns of a record that grow by a row at a time."""

    def add(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self.setdefault(key, []).append(value.tolist() if isinstance(value, Tensor) else value)
