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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import Watch, watch

CHUNK = 2**18  # terms at a time


@dataclass(frozen=True)
class Kinds:
    """The kinds of some units, up to a sign of their own: unit i has the row flip_i · rows[which_i]."""

    rows: Tensor  # (t, k + 1): a column of patterns, and the bias
    counts: Tensor  # (t,) int64
    which: Tensor  # (n,) int64
    flip: Tensor  # (n,) ±1

    @staticmethod
    def of(rows: Tensor) -> Kinds:
        """From rows (n, k + 1); the first entry that is not 0 decides the sign of a row."""
        first = (rows != 0).to(torch.int8).argmax(1, keepdim=True)
        flip = torch.where(rows.gather(1, first) < 0, -1.0, 1.0).to(rows)  # (n, 1)
        unique, which, counts = torch.unique(rows * flip, dim=0, return_inverse=True, return_counts=True)
        return Kinds(unique, counts, which, flip.squeeze(1))

    @property
    def terms(self) -> int:
        """How many magnetisations the kinds can have."""
        return math.prod(n + 1 for n in self.counts.tolist())


def rows_of(machine: Machine, replica: int, layers: Sequence[int]) -> Tensor:
    """Columns of patterns and biases of the units of some layers, (n, k + 1) in float64."""
    patterned = machine.couplings.patterned
    assert patterned is not None  # `can_count`, `can_integrate`
    columns = torch.cat([patterned.of_layer(i)[replica].T for i in layers]).detach().double()
    biases = columns.new_zeros(len(columns), 1)
    if machine.biases is not None:
        where = [machine.biases[replica, machine.layers.slices[i]] for i in layers]
        biases = torch.cat(where).detach().double()[:, None]
    return torch.cat([columns, biases], 1)


def can_count(machine: Machine) -> bool:
    """True for a restricted machine of two layers with patterns."""
    return machine.layers.is_restricted and machine.layers.spins and machine.patterns is not None


def sides(machine: Machine, replica: int) -> tuple[int, Kinds, Kinds]:
    """Which layer is counted, its kinds, and those of the layer that is summed."""
    both = [Kinds.of(rows_of(machine, replica, (layer,))) for layer in (0, 1)]
    few = int(both[1].terms < both[0].terms)
    return few, both[few], both[1 - few]


def terms_of(machine: Machine) -> int:
    """How many terms eq. (1) has, in the replica that has most of them."""
    return max(sides(machine, e)[1].terms for e in range(machine.replicas))


def terms(
    machine: Machine, replica: int, counted: Kinds, summed: Kinds, beta: float
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The logarithm of eq. (1)'s summands (c,), the magnetisations of the counted kinds (c, t) and β
    times the fields on the summed ones (c, τ)."""
    patterned = machine.couplings.patterned
    assert patterned is not None  # `can_count`
    n = counted.counts.double()
    sizes = (counted.counts + 1).tolist()
    for start in range(0, counted.terms, CHUNK):
        index = torch.arange(start, min(start + CHUNK, counted.terms), device=n.device)
        up = torch.stack(torch.unravel_index(index, sizes), 1).double()  # (c, t)
        magnet = 2.0 * up - n  # Σ of the spins of each kind
        ways = (torch.lgamma(n + 1) - torch.lgamma(up + 1) - torch.lgamma(n - up + 1)).sum(1)
        m = patterned.scale * magnet @ counted.rows[:, :-1]  # (c, k)
        field = beta * (m @ summed.rows[:, :-1].T + summed.rows[:, -1])
        free = SPIN.log_sum(field) @ summed.counts.double()
        yield ways + beta * (magnet @ counted.rows[:, -1]) + free, magnet, field


def log_sum(parts: Iterable[Tensor], tick: Watch) -> Tensor:
    """The logarithm of a sum whose summands' logarithms come in parts (c,)."""
    sums = []
    for logs in parts:
        sums.append(torch.logsumexp(logs, 0))
        tick.add(len(logs))
    return torch.logsumexp(torch.stack(sums), 0)


@torch.no_grad()
def log_z_by_counting(machine: Machine, beta: float = 1.0) -> Tensor:
    """Eq. (1) for every replica, (e,) float64."""
    plan = [sides(machine, replica)[1:] for replica in range(machine.replicas)]
    with watch("log Z by counting", sum(few.terms for few, _ in plan)) as tick:
        values = [
            log_sum((logs for logs, _, _ in terms(machine, e, few, many, beta)), tick)
            for e, (few, many) in enumerate(plan)
        ]
    return torch.stack(values)
