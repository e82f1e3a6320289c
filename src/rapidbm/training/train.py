"""`train`, a generator: the caller evaluates, logs, stops or saves inside its own loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..accel.ranks import current_ranks
from ..accel.rounding import Precision
from ..errors import check_choice
from ..machines.ensembles import Ensemble
from ..machines.machine import Machine
from ..random import seed_from
from .gaps import SWEEPS
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
    observed: Any = None,
    weights: Any = None,
    gap_sweeps: int = SWEEPS,
    label: int | None = None,
    discriminative: float = 0.0,
    state: Mapping[str, Tensor] | None = None,
) -> Iterator[Progress]:
    """Trains a machine in place; an iterator that yields after every epoch or every update.

    The caller evaluates, logs, stops or saves inside the loop. In a machine with biases, columns that
    are equal in all rows are learned by the biases alone: their couplings stay 0.

    Parameters
    ----------
    machine : Machine
        The machine to train; its parameters are changed.
    data : Split or array of shape (samples, v)
        Training rows: ±1, {0, 1} or booleans.
    negative : NegativePhase
        Estimator of the model average, such as `PatternInduced()` or `Persistent(1000)`.
    optimizer : Optimizer or torch optimiser
        `sgd(…)`, `adam(…)`, or an elementwise one of `torch.optim`.
    epochs : int
        Passes over the data.
    batch_size : int
        Rows per update.
    positive : PositivePhase, optional
        Estimator of the data average; chosen for the machine by default.
    projection : Projection, optional
        What keeps patterns in place; nothing by default.
    batch_mean : {"true", "nominal"}, default "true"
        Divide the moments of a smaller last batch by its own size or by `batch_size`.
    average : int, optional
        Keep an exponential average of the parameters over about so many updates.
    precision : str, optional
        Rounding of matrix products on a GPU, as in `rapidbm.precision`; the fastest by default.
    centred : bool, default False
        Centred gradients: couplings act on differences from the means. Needs biases.
    pace : float, default 1.0
        Factor on the steps of the hidden units' patterns.
    shards : int, default 1
        Parts of batch and chains with random numbers of their own, shared by the processes of
        `in_ranks`.
    every : {"epoch", "update"}, default "epoch"
        When to yield.
    seed : int, optional
        Seed of the training.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    observed : array of bool of shape (samples, v), optional
        Which cells are observed, by unit or by column; by default those of the split, else all. The
        others are drawn at every update given the observed ones, never filled in beforehand.
    weights : array of shape (samples,) or (e, samples), optional
        How much each row counts, or counts for each replica; by default those of the split, else all the
        same. The weighted mean of log p is raised; only ratios of weights matter.
    gap_sweeps : int, default 10
        Gibbs sweeps of these draws.
    label : int, optional
        Number of the visible unit that is the label, from 0. Where it alone is missing in some rows of a
        restricted machine, it is drawn exactly.
    discriminative : float, default 0.0
        Adds so many times the mean of log p(label | other units), over the rows with a label, to the mean
        of log p that is raised. Needs a restricted machine and rows that lack no other cell.
    state : mapping, optional
        A `Progress.state()` to continue from.

    Yields
    ------
    Progress
        Epoch, update, machine and state.

    Raises
    ------
    InputError
        If data, phases or options do not fit the machine.

    Warns
    -----
    FitWarning
        If the training provably ends below independent columns.

    Examples
    --------
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
        ranks=current_ranks(),
        seed=seed_from(seed, rng),
        observed=observed,
        weights=weights,
        gap_sweeps=gap_sweeps,
        label=label,
        discriminative=discriminative,
    )
    if state is not None:
        trainer.load(state)
    return trainer.run(every)


@torch.no_grad()
def log_likelihood_gradient(
    machine: Machine, positive: Ensemble, negative: Ensemble
) -> dict[str, Tensor]:
    """The gradient of the mean log-likelihood, from the moments of the two phases.

    Parameters
    ----------
    machine : Machine
        The machine.
    positive : WeightedSpins or another ensemble
        Configurations of the positive phase.
    negative : WeightedSpins or another ensemble
        Configurations of the negative phase.

    Returns
    -------
    dict of str to Tensor
        ∂⟨log p⟩/∂θ for every parameter, by name.

    Examples
    --------
    >>> machine, rng = rb.rbm(4, 3, seed=0), rb.stream(0, "phases")
    >>> positive = rb.ConditionalMean().step(machine, rb.to_spins([[[1, 0, 0, 1]]]).float(), rng)
    >>> negative, _ = rb.Exact().step(machine, None, None, rng)
    >>> list(rb.log_likelihood_gradient(machine, positive, negative))
    ['couplings.weights.0-1']
    """
    return {name: -value for name, value in positive.gradient_difference(negative, machine).items()}
