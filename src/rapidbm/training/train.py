"""`train`, a generator: the caller evaluates, logs, stops or saves inside its own loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..accel.ranks import here
from ..accel.rounding import Precision
from ..errors import check_choice
from ..machines.ensembles import Ensemble
from ..machines.machine import Machine
from ..random import seed_from
from .loop import Progress
from .negative import NegativePhase
from .optimisers import Optimizer
from .positive import PositivePhase
from .projections import Projection
from .trainer import BatchMean, Trainer


def train(
    machine: Machine,
    data: Any,
    negative: NegativePhase,
    optimizer: Optimizer | torch.optim.Optimizer | Callable[..., torch.optim.Optimizer],
    *,
    epochs: int,
    batch_size: int,
    positive: PositivePhase | None = None,
    projection: Projection | None = None,
    batch_mean: BatchMean = "true",
    average: int | None = None,
    precision: Precision | None = None,
    centred: bool = False,
    pace: float = 1.0,
    shards: int = 1,
    every: Literal["epoch", "update"] = "epoch",
    seed: int | None = None,
    rng: torch.Generator | None = None,
    state: Mapping[str, Tensor] | None = None,
) -> Iterator[Progress]:
    """Trains the machine in place and yields after every epoch, or after every update.

    `data` (samples, visible) holds ±1, {0, 1} or booleans (`to_spins`), or is a `Split`.
    Replicas may differ in their rate and weight decay, one number each (`sgd`, `adam`).
    `positive=None` picks the phase for the machine. `batch_mean="nominal"` divides the data's moments by
    `batch_size` also in the last, smaller batch of an epoch (`docs/training.md`). `average=T` keeps an
    exponential average of the parameters over about T updates. `precision` rounds products of matrices on
    a GPU (`rapidbm.precision`), where nobody chooses to the fastest form. `centred` leaves the means of
    units out of what couplings act on (`centring`), for machines with biases. `pace` is the share of
    their steps that patterns of hidden units make (docs/deep.md). `shards` cuts batches and chains into
    parts with random numbers of their own, which the processes that a launcher started share
    (`rapidbm.in_ranks`, docs/scaling.md).
    Of a machine with biases, columns that are the same in all rows are biases and nothing else: their
    couplings are 0 from the first update on (`constants`).
    `state` is a `Progress.state()` to go on from. A training that provably ends below independent columns
    warns (`FitWarning`).

    Examples:
        >>> machine, data = rb.rbm(16, 8, biases=True, seed=0), rb.load("bars4")
        >>> phase, optimiser = rb.Exact(), rb.adam(0.01)
        >>> steps = rb.train(machine, data.train, phase, optimiser, epochs=2, batch_size=10, seed=0)
        >>> [progress.update for progress in steps]
        [1, 2]
    """
    check_choice("interval to yield at", every, ("epoch", "update"))
    trainer = Trainer(
        machine,
        data,
        negative,
        optimizer,
        epochs=epochs,
        batch_size=batch_size,
        positive=positive,
        projection=projection,
        batch_mean=batch_mean,
        average=average,
        precision=precision,
        centred=centred,
        pace=pace,
        shards=shards,
        ranks=here(),
        seed=seed_from(seed, rng),
    )
    if state is not None:
        trainer.load(state)
    return trainer.run(every)


@torch.no_grad()
def log_likelihood_gradient(
    machine: Machine, positive: Ensemble, negative: Ensemble
) -> dict[str, Tensor]:
    """∂⟨log p⟩/∂θ from the moments of the two phases."""
    return {name: -value for name, value in positive.gradient_difference(negative, machine).items()}
