"""Exact log Z of an RBM whose units come in few kinds, at any size.

Two units of a layer are of the same kind when their columns of patterns and their biases agree, up to
a common sign (a unit may be flipped). The energy depends on a layer only through how many units of
each kind are up, so for kinds t with n_t units, u_t of them up,

    Z = Σ_u Π_t C(n_t, u_t) exp(β b_t (2u_t − n_t)) · Π_τ [ 2 cosh β(field_τ(m)) ]^{N_τ}     (1)
    m^k = Σ_t (2u_t − n_t) ξ_t^k,        field_τ = (1/√K) Σ_k m^k ξ_τ^k + b_τ

with τ, N_τ the kinds of the other layer. Sign patterns have at most 2^(K−1) kinds: Π (n_t + 1) terms
instead of 2^V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .couplings import Patterns
from .machine import Machine
from .spins import log_2cosh

CHUNK = 2**18  # terms at a time


@dataclass(frozen=True)
class Kinds:
    """The kinds of units of one layer of one replica."""

    columns: Tensor  # (t, k)
    biases: Tensor  # (t,)
    counts: Tensor  # (t,) int64

    @property
    def terms(self) -> int:
        return math.prod(n + 1 for n in self.counts.tolist())


def kinds_of(machine: Machine, replica: int, layer: int) -> Kinds:
    """The kinds of a layer's units, in float64."""
    assert isinstance(machine.couplings, Patterns)
    columns = machine.couplings.of_layer(layer)[replica].detach().double().T  # (n_l, k)
    biases = torch.zeros(len(columns), dtype=torch.float64, device=columns.device)
    if machine.biases is not None:
        biases = machine.biases[replica, machine.layers.slices[layer]].detach().double()
    rows = torch.cat([columns, biases[:, None]], 1)
    # The first entry that is not 0 decides the sign of a row.
    first = (rows != 0).to(torch.int8).argmax(1, keepdim=True)
    rows = rows * torch.where(rows.gather(1, first) < 0, -1.0, 1.0)
    unique, counts = torch.unique(rows, dim=0, return_counts=True)
    return Kinds(unique[:, :-1], unique[:, -1], counts)


def can_count(machine: Machine) -> bool:
    """True for a restricted machine of two layers with patterns."""
    two = machine.layers.edges == ((0, 1),) and len(machine.layers.sizes) == 2
    return two and isinstance(machine.couplings, Patterns)


def terms_of(machine: Machine) -> int:
    """How many terms eq. (1) has, in the replica that has most of them."""
    return max(
        min(kinds_of(machine, e, layer).terms for layer in (0, 1)) for e in range(machine.replicas)
    )


@torch.no_grad()
def log_z_by_counting(machine: Machine, beta: float = 1.0) -> Tensor:
    """Eq. (1) for every replica, (e,) float64."""
    assert isinstance(machine.couplings, Patterns)
    values = []
    for replica in range(machine.replicas):
        few, many = sorted(
            (kinds_of(machine, replica, layer) for layer in (0, 1)), key=lambda kinds: kinds.terms
        )
        values.append(_sum(few, many, machine.couplings.scale, beta))
    return torch.stack(values)


def _sum(counted: Kinds, summed: Kinds, scale: float, beta: float) -> Tensor:
    n = counted.counts.double()
    device = n.device
    sizes = (counted.counts + 1).tolist()
    total = torch.tensor(-torch.inf, dtype=torch.float64, device=device)
    for start in range(0, counted.terms, CHUNK):
        index = torch.arange(start, min(start + CHUNK, counted.terms), device=device)
        up = torch.stack(torch.unravel_index(index, sizes), 1).double()  # (c, t)
        magnet = 2.0 * up - n  # Σ of the spins of each kind
        ways = (torch.lgamma(n + 1) - torch.lgamma(up + 1) - torch.lgamma(n - up + 1)).sum(1)
        field = scale * (magnet @ counted.columns) @ summed.columns.T + summed.biases
        free = log_2cosh(beta * field) @ summed.counts.double()
        logs = ways + beta * (magnet @ counted.biases) + free
        total = torch.logaddexp(total, torch.logsumexp(logs, 0))
    return total
