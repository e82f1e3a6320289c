"""Which replicas of a training live, since when the others do not, and the running average of all."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..machines.machine import Machine


@dataclass(frozen=True)
class Divergence:
    """A replica that is frozen as it was before the update that would have made an energy infinite."""

    replica: int
    update: int  # the first is 1
    epoch: int  # the first is 1
    why: str

    def __str__(self) -> str:
        return f"replica {self.replica} diverged in update {self.update}, epoch {self.epoch}: {self.why}"


class ReplicaStatus:
    """Whether each replica lives, (e,), and how the others diverged.

    Attributes
    ----------
    alive : Tensor of bool
        A replica that diverged is frozen as it was.
    lived : Tensor of int64
        Updates that each replica took part in.
    grown : Tensor of float64
        Σ|θ| that the step of one that diverged would have led to; 0 if not known.
    """

    def __init__(self, replicas: int, device: torch.device | None = None) -> None:
        self.alive = torch.ones(replicas, dtype=torch.bool, device=device)
        self.lived = torch.zeros(replicas, dtype=torch.int64, device=device)
        self.grown = torch.zeros(replicas, dtype=torch.float64, device=device)

    def diverged(self) -> tuple[int, ...]:
        """Replicas that are frozen by now."""
        return tuple(torch.nonzero(~self.alive).flatten().tolist())

    def why(self, machine: Machine, replica: int, rate: float | None) -> str:
        """Why one that is frozen was, in words; `rate` is that of the step, None if not known."""
        after, limit = float(self.grown[replica]), machine.couplings.limit
        before = sum(float(p.data[replica].abs().sum()) for p in machine.parameters())
        step = "the step" if rate is None else f"the step at rate {rate:g}"
        if math.isnan(after):
            return f"{step} is not a number: with Σ|θ| = {before:.2g} the fields overflow"
        to = f" to {after:.2g}" if after else ""
        return f"{step} leads from Σ|θ| = {before:.2g}{to}, and beyond {limit:.2g} energies overflow"


class RunningAverage:
    """θ̄ ← θ̄ + max(1/T, 1/t) (θ − θ̄) at update t: an average over about T `updates`, of all before T."""

    def __init__(self, parameters: Mapping[str, Tensor], updates: int) -> None:
        self.updates, self.parameters = updates, parameters
        self.means = {name: p.detach().clone() for name, p in parameters.items()}

    def share(self, update: int) -> float:
        """The share of the new parameters at that update (the first is 1)."""
        return max(1.0 / self.updates, 1.0 / update)

    def follow(self, share: float | Tensor) -> None:
        """Moves on to the parameters as they are now."""
        for name, parameter in self.parameters.items():
            now = parameter.detach()
            self.means[name].lerp_(now, share.to(now.dtype) if isinstance(share, Tensor) else share)

    def of(self, machine: Machine) -> Machine:
        """A copy of the machine with these parameters."""
        averaged = copy.deepcopy(machine)
        for name, parameter in averaged.named_parameters():
            parameter.data.copy_(self.means[name])
        return averaged
