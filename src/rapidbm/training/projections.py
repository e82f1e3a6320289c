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
from ..machines.units import SPIN
from ..random import check_rng
from ..registry import Registry, a_class_with, setting
from ..sampling.gibbs import resample

Every = Literal["update", "epoch"]


class Projection(Protocol):
    """`apply` changes ξ in place; `every` says when training calls it."""

    @property
    def every(self) -> Every: ...

    def check(self, machine: Machine) -> None:
        """Raises InputError for a machine that it cannot serve."""
        ...

    def apply(self, machine: Machine, rng: torch.Generator) -> None: ...


@dataclass(frozen=True)
class Sign:
    """Eq. (1): patterns are spins again."""

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
    """Eq. (2): patterns are continuous, within [−x, x]; x may be one for each replica."""

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
        """One x, or that of each replica."""
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
    """Eq. (3): patterns are spins again, drawn in the field of each other; `sweeps` times."""

    capturable: ClassVar[bool] = True

    sweeps: int = 1
    every: Every = setting("update", "after every update or epoch", flag="project_every")

    def __post_init__(self) -> None:
        check_choice("moment of projection", self.every, ("update", "epoch"))
        check_count("the number of projecting sweeps", self.sweeps)

    def check(self, machine: Machine) -> None:
        _patterns(machine, "gibbs")

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
    """The patterns go where the optimiser takes them."""

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
