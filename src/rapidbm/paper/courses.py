"""A training with looks at it on the way: the course that a figure shows."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..data.splits import Dataset
from ..errors import LoadWarning
from ..glass.accessibility import gibbs_accessibility, method_accessibility
from ..ground.ground_state import ground_state
from ..likelihood.log_z import log_likelihood, log_z
from ..machines.machine import Machine
from ..runs.metrics import hamming_distance
from ..runs.recipe import Recipe
from ..runs.run import on_log_grid
from ..training.trainer import Progress, Trainer
from .study import Bench, Values

Look = Callable[[Progress, Dataset, torch.Generator], Tensor]


def recipe_for(bench: Bench, dataset: str, preset: str, **chosen: Any) -> Recipe:
    """A preset with some choices of its own, seeded by the bench."""
    return Recipe.made(dataset, {**chosen, "seed": bench.seed, "device": str(bench.device)}, preset)


def machine_for(recipe: Recipe, data: Dataset, device: torch.device) -> Machine:
    """The machine that a recipe starts from."""
    with warnings.catch_warnings():  # the loads are the paper's
        warnings.simplefilter("ignore", LoadWarning)
        return recipe.machine(data, device).requires_grad_(False)


def course(
    bench: Bench,
    recipe: Recipe,
    looks: Mapping[str, Look],
    *,
    data: Dataset | None = None,
    at: Callable[[int], bool] = on_log_grid,
    each_epoch: Callable[[Trainer], None] | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> tuple[Values, Trainer]:
    """Trains and looks at the start, at epochs `at` which it says so, and at the end.

    Answers {"epochs": (t,), name of a look: (t, e), …} and the trainer. `span` is the share of the
    bench's work that this training is.
    """
    data = recipe.data() if data is None else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        trainer = recipe.trainer(data, bench.device)
    found: Values = {"epochs": [], **{name: [] for name in looks}}

    def look() -> None:
        progress = trainer.progress()
        found["epochs"].append(progress.epoch)
        for name, see in looks.items():
            found[name].append(see(progress, data, progress.rng).tolist())

    look()
    for progress in trainer.together():
        done = progress.update / progress.updates
        bench.tell(span[0] + (span[1] - span[0]) * done)
        if progress.epoch_end:
            if each_epoch is not None:
                each_epoch(trainer)
            if progress.update == progress.updates or at(progress.epoch):
                look()
    if progress_diverged := trainer.diverged():
        found["diverged"] = list(progress_diverged)
    return found, trainer


# -- looks --------------------------------------------------------------------------------------------


def hamming(part: str, tries: int | None = None) -> Look:
    def look(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        return hamming_distance(progress.machine, getattr(data, part), rng, tries=tries)

    return look


def accessibilities(*, method: bool) -> dict[str, Look]:
    """Looks at Gibbs and, if wanted, method accessibility, which share one ground state."""
    latest: list[tuple[Trainer, int, Tensor]] = []

    def lowest(progress: Progress) -> Tensor:
        if not latest or latest[0][:2] != (progress.trainer, progress.update):
            energy = ground_state(progress.machine, seed=0).energy
            latest[:] = [(progress.trainer, progress.update, energy)]
        return latest[0][2]

    def gibbs(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        return gibbs_accessibility(progress.machine, None, rng, ground=lowest(progress))

    def used(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        trainer = progress.trainer
        return method_accessibility(
            progress.machine,
            data.train,
            rng,
            negative=trainer.negative,
            chains=trainer.chains if trainer.chains.shape[1] else None,
            ground=lowest(progress),
        )

    return {"gibbs": gibbs, "method": used} if method else {"gibbs": gibbs}


def likelihoods(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
    """Exact mean log p of the training and of the test set, (2, e)."""
    z = log_z(progress.machine, method="exact")
    pair = [
        log_likelihood(progress.machine, s, normaliser=z).value for s in (data.train, data.test)
    ]
    return torch.stack(pair)


gibbs = accessibilities(method=False)["gibbs"]
DISTANCES: dict[str, Look] = {"hamming_train": hamming("train"), "hamming_test": hamming("test")}


def shortened(data: Dataset, train: int | None, test: int | None) -> Dataset:
    """The first images of each split."""
    return dataclasses.replace(
        data,
        train=data.train.take(slice(0, train)),
        test=data.test.take(slice(0, test)),
    )
