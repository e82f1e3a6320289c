"""Positive phase: the average over the data in the gradient of the log-likelihood.

The hidden units of a restricted machine have conditional means in closed form. Deep and full
machines need an approximation, mean field or clamped chains, or, where it is small, enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..errors import InputError, check_count
from ..machines import trusted
from ..machines.ensembles import GivenVisible, WeightedSpins, given_visible
from ..machines.enumeration import check_states, clamped_states, states_of
from ..machines.machine import Machine
from ..registry import Registry, a_class_with, setting
from ..sampling.gibbs import run_sweeps
from ..sampling.mean_field import mean_field

Weighted = WeightedSpins | GivenVisible


class PositivePhase(Protocol):
    """Protocol of positive phases: completes visible rows to configurations, for the data average."""

    def check(self, machine: Machine, batch_size: int) -> None:
        """Refuses a machine, or a batch, that the phase cannot serve.

        Parameters
        ----------
        machine : Machine
            The machine to train.
        batch_size : int
            Rows per update.

        Raises
        ------
        InputError
            With the reason, and what to use instead.
        """
        ...

    def step(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Weighted:
        """Visible rows with their hidden units, as weighted configurations.

        Parameters
        ----------
        machine : Machine
            The machine at this update.
        data : Tensor of shape (e, b, v)
            The batch, ±1.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        WeightedSpins or another ensemble
            Weights sum to one.
        """
        ...


@dataclass(frozen=True)
class ConditionalMean:
    """Positive phase with hidden units at their exact conditional means; for restricted machines.

    Examples
    --------
    >>> rb.ConditionalMean().check(rb.rbm(16, 8, seed=0), batch_size=10)
    """

    capturable: ClassVar[bool] = True

    def check(self, machine: Machine, batch_size: int) -> None:
        if not machine.layers.hidden_independent:
            raise InputError(
                "the positive phase 'mean' needs hidden units that are independent given the data; "
                f"layers {machine.layers.sizes} with edges {machine.layers.edges} are not: use "
                "'meanfield', 'clamped' or 'enumerated'"
            )

    def step(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Weighted:
        self.check(machine, data.shape[-2])
        return given_visible(machine, data)


@dataclass(frozen=True)
class MeanField:
    """Positive phase with hidden units at the fixed point of mean field, or close to it.

    Parameters
    ----------
    iterations : int, default 30
        Mean-field iterations.

    Examples
    --------
    >>> rb.MeanField(10).iterations
    10
    """

    capturable: ClassVar[bool] = True

    iterations: int = setting(30, "iterations", flag="positive_steps")

    def __post_init__(self) -> None:
        check_count("the number of mean-field iterations", self.iterations)

    def check(self, machine: Machine, batch_size: int) -> None:
        return

    def step(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Weighted:
        return WeightedSpins.equal(mean_field(machine, data, self.iterations), machine.layers.hidden)


@dataclass(frozen=True)
class ClampedChains:
    """Positive phase with one Gibbs chain per row, visible units clamped, hidden units unknown at first.

    Parameters
    ----------
    sweeps : int, default 10
        Gibbs sweeps per update.

    Examples
    --------
    >>> rb.ClampedChains(5).sweeps
    5
    """

    capturable: ClassVar[bool] = True

    sweeps: int = setting(10, "sweeps", flag="positive_steps")

    def __post_init__(self) -> None:
        check_count("the number of clamped sweeps", self.sweeps)

    def check(self, machine: Machine, batch_size: int) -> None:
        return

    def step(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Weighted:
        spins = trusted.with_visible(machine, data)
        clamp = torch.arange(machine.layers.columns, device=machine.device) < machine.visible
        spins = run_sweeps(machine, spins, rng, self.sweeps, clamp=clamp)
        inferred = machine.layers.inferred
        return WeightedSpins.equal(trusted.infer(machine, spins, inferred), inferred)


@dataclass(frozen=True)
class Enumerated:
    """Positive phase with every hidden state at its exact weight, for each row; for at most 2^10 states.

    Examples
    --------
    >>> rb.Enumerated().check(rb.dbm(16, (4, 3), seed=0), batch_size=10)
    """

    capturable: ClassVar[bool] = True

    def check(self, machine: Machine, batch_size: int) -> None:
        check_states(
            machine.layers, machine.layers.visible, largest=2**10, what="the enumerated positive phase"
        )
        numbers = batch_size * machine.replicas * states_of(machine.layers, machine.layers.visible)
        if numbers * machine.layers.columns > 2**29:
            raise InputError(
                f"the enumerated positive phase would hold {numbers:,} configurations of "
                f"{machine.layers.columns} units at once; take smaller batches, fewer replicas, or "
                "'meanfield' or 'clamped'"
            )

    @torch.no_grad()
    def step(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Weighted:
        self.check(machine, data.shape[-2])
        spins, logs = clamped_states(machine, trusted.visible(machine, data))
        weights = torch.softmax(logs, -1) / data.shape[-2]  # (e, c, x)
        spins = spins.flatten(1, 2)
        cover = machine.layers.cover(machine.layers.visible)
        free = tuple(i for i in machine.layers.hidden if i not in cover)
        spins = trusted.infer(machine, spins, free)
        return WeightedSpins(spins, weights.flatten(1).to(spins.dtype), free)


def positive_for(machine: Machine) -> PositivePhase:
    """The phase that `train` takes when none is named: exact where that is cheap, else mean field."""
    if machine.layers.hidden_independent:
        return ConditionalMean()
    return Enumerated() if states_of(machine.layers, machine.layers.visible) <= 64 else MeanField()


POSITIVE: Registry[type[PositivePhase]] = Registry(
    "positive phase",
    {
        "mean": ConditionalMean,
        "meanfield": MeanField,
        "clamped": ClampedChains,
        "enumerated": Enumerated,
    },
    "rapidbm.positive_phases",
    a_class_with("check", "step"),
)
