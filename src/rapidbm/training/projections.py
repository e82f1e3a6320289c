"""Projections: what keeps the patterns in place after the optimiser has moved them (appendix B).

Sign    ξ ← sign(ξ)                                                                   (1)
Clip    ξ ← min(x, max(−x, ξ))                                                        (2)
Gibbs   ξ_v ~ p(· | ξ_h),  ξ_h ~ p(· | ξ_v)                                           (3)

Where the patterns of layers have strengths s (`coordinates/`), s sign(ξ), bounds ±s x, and s times (3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from ..errors import InputError, check_choice, check_count, is_number
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..random import check_rng
from ..registry import Registry, a_class_with, setting
from ..sampling.gibbs import resample

Every = Literal["update", "epoch"]


class Projection(Protocol):
    """Protocol of projections: puts the patterns ξ back in place after the optimiser has moved them."""

    @property
    def every(self) -> Every:
        """When training applies it: after every "update" or every "epoch"."""
        ...

    def check(self, machine: Machine) -> None:
        """Refuses a machine that the projection cannot serve.

        Parameters
        ----------
        machine : Machine
            The machine to train.

        Raises
        ------
        InputError
            If the couplings have no patterns.
        """
        ...

    def apply(self, machine: Machine, rng: torch.Generator) -> None:
        """Projects the patterns in place.

        Parameters
        ----------
        machine : Machine
            The machine; its patterns are changed.
        rng : torch.Generator
            Source of random numbers.
        """
        ...


@dataclass(frozen=True)
class Sign:
    """Projection to spins: ξ ← sign(ξ), eq. (1).

    Parameters
    ----------
    every : {"update", "epoch"}, default "epoch"
        When it is applied.

    Examples
    --------
    >>> rb.Sign(every="update").every
    'update'
    """

    capturable: ClassVar[bool] = True

    every: Every = setting("epoch", "after every update or epoch", flag="project_every")

    def __post_init__(self) -> None:
        check_choice("moment of projection", self.every, ("update", "epoch"))

    def check(self, machine: Machine) -> None:
        _patterns(machine, "sign")

    def apply(self, machine: Machine, rng: torch.Generator) -> None:
        xi = _patterns(machine, "sign")
        xi.data.copy_(_measured(machine, SPIN.nearest(xi.data)))


@dataclass(frozen=True)
class Clip:
    """Projection to an interval: patterns are continuous within [−x, x], eq. (2).

    Parameters
    ----------
    x : float or tuple of float, default 1.0
        Bound, or one for each replica; above 0.
    every : {"update", "epoch"}, default "update"
        When it is applied.

    Raises
    ------
    InputError
        If a bound is not positive.

    Examples
    --------
    >>> rb.Clip((0.5, 1.0)).each  # two replicas
    (0.5, 1.0)
    """

    capturable: ClassVar[bool] = True

    x: tuple[float, ...] | float = setting(
        1.0, "x, where patterns stay in [−x, x]; repeat it to give each replica its own", flag="bound"
    )
    every: Every = setting("update", "after every update or epoch", flag="project_every")

    def __post_init__(self) -> None:
        check_choice("moment of projection", self.every, ("update", "epoch"))
        if not self.each or not all(is_number(x) and x > 0 for x in self.each):
            raise InputError(f"patterns are restricted to [−x, x] with x > 0, not x = {self.x!r}")

    @property
    def each(self) -> tuple[float, ...]:
        """The bounds: one, or one for each replica."""
        return self.x if isinstance(self.x, tuple) else (self.x,)

    def check(self, machine: Machine) -> None:
        _patterns(machine, "clip")
        if len(self.each) not in (1, machine.replicas):
            raise InputError(
                f"give one bound of the patterns, or one for each of the {machine.replicas} replicas, "
                f"not {len(self.each)}"
            )

    def apply(self, machine: Machine, rng: torch.Generator) -> None:
        xi = _patterns(machine, "clip").data
        one = _measured(machine, torch.ones_like(xi[0, 0]))  # (n,)
        for part, x in zip(xi if len(self.each) > 1 else (xi,), self.each, strict=True):
            if machine.couplings.strengths is None:
                part.clamp_(-x, x)
            else:
                part.clamp_(-x * one, x * one)


@dataclass(frozen=True)
class GibbsProjection:
    """Projection to spins drawn at random: each layer of ξ in the field of the others, eq. (3).

    Parameters
    ----------
    sweeps : int, default 1
        Passes over the layers.
    every : {"update", "epoch"}, default "update"
        When it is applied.

    Examples
    --------
    >>> rb.GibbsProjection(sweeps=2).every
    'update'
    """

    capturable: ClassVar[bool] = True

    sweeps: int = 1
    every: Every = setting("update", "after every update or epoch", flag="project_every")

    def __post_init__(self) -> None:
        check_choice("moment of projection", self.every, ("update", "epoch"))
        check_count("the number of projecting sweeps", self.sweeps)

    def check(self, machine: Machine) -> None:
        _patterns(machine, "gibbs")
        machine.layers.check_spins("the projection 'gibbs'", "patterns that are their states")

    def apply(self, machine: Machine, rng: torch.Generator) -> None:
        xi = _patterns(machine, "gibbs")
        check_rng(rng, machine.device)
        spins = xi.data.clone()
        for _ in range(self.sweeps):
            for layer in reversed(machine.layers.order):  # the visible layer first, as in (3)
                where = machine.layers.slices[layer]
                spins[..., where] = resample(machine, spins, layer, rng)
        xi.data.copy_(_measured(machine, spins))


@dataclass(frozen=True)
class NoProjection:
    """No projection: the patterns stay where the optimiser puts them.

    Parameters
    ----------
    every : {"update", "epoch"}, default "epoch"
        Without effect; other projections have it.

    Examples
    --------
    >>> rb.NoProjection().every
    'epoch'
    """

    capturable: ClassVar[bool] = True

    every: Every = setting("epoch", "after every update or epoch", flag="project_every")

    def check(self, machine: Machine) -> None:
        return

    def apply(self, machine: Machine, rng: torch.Generator) -> None:
        return


def _measured(machine: Machine, spins: Tensor) -> Tensor:
    """Spins as patterns of the machine's layers."""
    patterned = machine.couplings.patterned
    measure = None if patterned is None else patterned.unit_strengths
    return spins if measure is None else spins * measure


def _patterns(machine: Machine, name: str) -> Tensor:
    if machine.patterns is None:
        raise InputError(
            f"the projection {name!r} acts on patterns, but these couplings are dense; use 'none' "
            "or build the machine with patterns=K"
        )
    return machine.patterns


PROJECTIONS: Registry[type[Projection]] = Registry(
    "projection",
    {"sign": Sign, "clip": Clip, "gibbs": GibbsProjection, "none": NoProjection},
    "rapidbm.projections",
    a_class_with("every", "check", "apply"),
)
