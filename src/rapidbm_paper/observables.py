"""Observables: what is measured of a machine while it is trained, one value per replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset
from rapidbm.glass.accessibility import gibbs_accessibility, method_accessibility
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.runs.metrics import hamming_distance
from rapidbm.training.loop import Progress
from rapidbm.training.trainer import Trainer

T = TypeVar("T")
Observable = Callable[[Progress, Dataset, torch.Generator], Tensor]
SPLITS = ("train", "test")


def once(
    measure: Callable[[Progress, Dataset, torch.Generator], T],
) -> Callable[[Progress, Dataset, torch.Generator], T]:
    """One measurement for all observables that ask for it at the same update of a training."""
    latest: list[tuple[object, int, T]] = []

    def see(progress: Progress, data: Dataset, rng: torch.Generator) -> T:
        if not latest or latest[0][:2] != (progress.trainer, progress.update):
            latest[:] = [(progress.trainer, progress.update, measure(progress, data, rng))]
        return latest[0][2]

    return see


def distances(tries: int | None = None) -> dict[str, Observable]:
    """Hamming distance of reconstructions of the training and of the test set."""

    def of(part: str) -> Observable:
        return lambda progress, data, rng: hamming_distance(
            progress.machine, getattr(data, part), rng, tries=tries
        )

    return {f"hamming_{part}": of(part) for part in SPLITS}


def accessibilities(*, method: bool) -> dict[str, Observable]:
    """Gibbs and, if wanted, method accessibility, which share one ground state."""
    lowest = once(lambda progress, data, rng: ground_state(progress.machine, seed=0).energy)

    def gibbs(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        ground = lowest(progress, data, rng)
        return gibbs_accessibility(progress.machine, None, rng, ground=ground)

    def used(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        trainer = progress.trainer
        assert isinstance(trainer, Trainer)
        return method_accessibility(
            progress.machine,
            data.train,
            rng,
            negative=trainer.negative,
            chains=trainer.chains if trainer.chains.shape[1] else None,
            ground=lowest(progress, data, rng),
        )

    return {"gibbs": gibbs, "method": used} if method else {"gibbs": gibbs}


def likelihoods(*parts: str) -> dict[str, Observable]:
    """Exact mean log p of the training set, of the test set, or of both."""
    normaliser = once(lambda progress, data, rng: log_z(progress.machine, method="exact"))

    def of(part: str) -> Observable:
        return lambda progress, data, rng: (
            log_likelihood(
                progress.machine, getattr(data, part), normaliser=normaliser(progress, data, rng)
            ).value
        )

    return {f"likelihood_{part}": of(part) for part in parts}
