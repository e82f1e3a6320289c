"""Ground states.

Over the free units of an enumeration the energy has its minimum in closed form,

    min_free E = E(s; free = 0) − Σ_{i free} |field_i|                                    (1)

so that the ground state of an RBM costs 2^min(V, H) states, half of them without biases.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .enumeration import check_states, enumerate_spins, free_layers
from .machine import Machine
from .spins import sign


@dataclass(frozen=True)
class GroundState:
    """The lowest energy of each replica and a configuration that has it."""

    energy: Tensor  # (e,)
    spins: Tensor  # (e, n)
    method: str


@torch.no_grad()
def ground_state(machine: Machine) -> GroundState:
    """The exact ground state by enumeration, eq. (1)."""
    check_states(machine.layers, what="the exact ground state")
    free = free_layers(machine.layers)
    best = torch.full((machine.replicas,), torch.inf, dtype=machine.dtype, device=machine.device)
    spins = machine.configuration(torch.zeros(1, machine.layers.units))[:, 0].clone()  # (e, n)
    for some in enumerate_spins(machine, half=machine.symmetric):
        energy = machine.energy(some)
        for layer in free:
            energy -= machine.field(some, layer).abs_().sum(-1)
        lowest, where = energy.min(1)
        better = lowest < best
        best = torch.where(better, lowest, best)
        found = some.gather(1, where[:, None, None].expand(-1, 1, some.shape[2])).squeeze(1)
        spins = torch.where(better[:, None], found, spins)
    for layer in free:
        part = sign(machine.field(spins[:, None], layer)).squeeze(1)
        spins[:, machine.layers.slices[layer]] = part
    return GroundState(machine.energy(spins[:, None]).squeeze(1), spins, "exact")
