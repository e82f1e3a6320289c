"""Partition function and likelihood.

    Z = Σ_s exp(−β E(s)),        log p(v) = log Σ_h exp(−β E(v, h)) − log Z               (1)

Here by enumeration: exact, in float64, so that both bounds coincide.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .enumeration import (
    LARGEST,
    check_states,
    enumerate_spins,
    free_layers,
    log_weight,
    states_of,
)
from .errors import check_beta, check_choice
from .machine import Machine


@dataclass(frozen=True)
class Bounds:
    """A quantity between two bounds, one value per replica, and how it was obtained."""

    lower: Tensor  # (e,) float64
    upper: Tensor  # (e,) float64
    method: str
    states: int  # how many were enumerated

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """The ends of the 95 % interval; an exact value is its own interval."""
        return self.lower, self.upper


def can_enumerate(machine: Machine, largest: int = LARGEST) -> bool:
    """True when log Z by enumeration is within reach."""
    return states_of(machine.layers) <= largest


@torch.no_grad()
def log_z(
    machine: Machine, *, method: Literal["auto", "exact"] = "auto", beta: float = 1.0
) -> Bounds:
    """log Z, eq. (1)."""
    check_choice("method for log Z", method, ("auto", "exact"))
    check_beta(beta)
    check_states(machine.layers, what="exact log Z")
    double = copy.deepcopy(machine).double()
    free = free_layers(machine.layers)
    total = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64, device=machine.device)
    count = 0
    for spins in enumerate_spins(double, half=machine.symmetric):
        part = torch.logsumexp(log_weight(double, spins, free, beta), 1)
        total = torch.logaddexp(total, part)
        count += spins.shape[1]
    if machine.symmetric:  # s and −s weigh the same
        total = total + torch.log(torch.tensor(2.0, dtype=torch.float64))
    return Bounds(total, total, "exact", count)


@torch.no_grad()
def log_likelihood(
    machine: Machine,
    data: Tensor,
    *,
    method: Literal["auto", "exact"] = "auto",
    beta: float = 1.0,
    normaliser: Bounds | None = None,
) -> Bounds:
    """Mean log p(v) over the data, in nats per sample; `normaliser` saves a second log Z."""
    z = normaliser or log_z(machine, method=method, beta=beta)
    double = copy.deepcopy(machine).double()
    spins = torch.as_tensor(getattr(data, "spins", data))
    step = max(1, 2**24 // (machine.layers.units * machine.replicas))
    parts = [double.log_prob_unnormalised(some, beta).sum(1) for some in torch.split(spins, step)]
    mean = torch.stack(parts).sum(0) / len(spins)
    return Bounds(mean - z.upper, mean - z.lower, z.method, z.states)
