"""A proven lower bound on the energy: no configuration lies below it.

Edge by edge, with n the number of units of a layer and σ the largest singular value of its couplings,

    s_a J s_b ≤ Σ |J_ij| ≤ (1/√K) Σ_k |ξ_a^k|₁ |ξ_b^k|₁   and   s_a J s_b ≤ √(n_a n_b) σ(J)       (1)

and Σ |b_i| for the biases. All at once, with the biases as couplings to one more spin that is up and the
symmetric matrix M of all couplings, for any numbers d_i,

    −E = ½ s·M s = ½ ( Σ_i d_i + s·(M − diag d) s ) ≤ ½ ( Σ_i d_i + N λ_max(M − diag d) )       (2)

The d that makes (2) smallest solves the dual of the semidefinite relaxation of Max-Cut (Goemans and
Williamson). It comes from the primal one: unit vectors x_i in place of the spins (Burer and Monteiro),
each following its field until it rests (the mixing method),

    x_i ← Σ_j M_ij x_j / d_i,        d_i = | Σ_j M_ij x_j |                                      (3)

Whatever d it ends with, one eigenvalue proves (2).

Sums of products are rounded, here and in the energies that a bound is held against: by at most a few ε
for each of N terms in a row, of the sum of their sizes, and for an edge that sum is at most

    √(n_a n_b) |J|_F,   through patterns  √(n_a n_b / K) |ξ_a|_F |ξ_b|_F                          (4)

Every bound is lower by that much, so that no computed energy lies below it either.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..machines.couplings import Couplings
from ..machines.machine import Machine
from ..progress import report_progress
from ..random import stream

LARGEST = 3000  # units: N³ operations and N² numbers for the eigenvalue of eq. (2)
PASSES = 300
EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class LowerBound:
    """A number below every energy of each replica, and how it was proven."""

    energy: Tensor  # (e,)
    method: str


@torch.no_grad()
def lower_bound(machine: Machine) -> LowerBound:
    """The tightest of eqs. (1) and (2), in float64."""
    simple = edge_bound(machine)
    units = machine.layers.columns
    if units > LARGEST:
        return LowerBound(
            simple, f"edge by edge; the semidefinite bound is for {LARGEST:,} units, not {units:,}"
        )
    tight = semidefinite_bound(machine)
    return LowerBound(torch.maximum(simple, tight), "edge by edge, semidefinite")


@torch.no_grad()
def edge_bound(machine: Machine) -> Tensor:
    """Eq. (1): for every edge the better of its two bounds, (e,)."""
    machine = copy.deepcopy(machine).double()
    total = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
    couplings = machine.couplings
    for a, b in machine.layers.edges:
        total += torch.minimum(couplings.sum_of_sizes(a, b), couplings.largest_form(a, b))
    if machine.biases is not None:
        total += machine.biases.abs().sum(1)
    return -total - _rounding(machine)


def _rounding(machine: Machine) -> Tensor:
    """What rounding may add to an energy or take from a bound, eq. (4), (e,)."""
    couplings, sizes = machine.couplings, machine.layers.sizes
    total = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
    for a, b in machine.layers.edges:
        total += math.sqrt(sizes[a] * sizes[b]) * couplings.norm(a, b)
    if machine.biases is not None:
        total += machine.biases.abs().sum(1)
    return 4 * EPS * machine.layers.columns * total


@torch.no_grad()
def semidefinite_bound(machine: Machine, *, passes: int = PASSES) -> Tensor:
    """Eq. (2) with d of eq. (3), (e,)."""
    machine = copy.deepcopy(machine).double()  # couplings rounded to float32 would prove nothing
    bounds = [_semidefinite(machine, e, passes) for e in range(machine.replicas)]
    return torch.stack(bounds) - _rounding(machine)


def _semidefinite(machine: Machine, replica: int, passes: int) -> Tensor:
    matrix = coupling_matrix(machine, replica)
    d = _mix(machine, matrix, passes)
    gap = matrix - torch.diag(d)
    # LAPACK's eigenvalue is off by a few ε of the norm.
    slack = 10 * EPS * torch.linalg.matrix_norm(gap)
    largest: Tensor = torch.linalg.eigvalsh(gap)[-1] + slack
    return -(d.sum() + len(matrix) * largest) / 2


def coupling_matrix(machine: Machine, replica: int) -> Tensor:
    """M of one replica, (n, n); with biases (n + 1, n + 1), the last spin is the one up."""
    matrix = whole_matrix(machine.replica(replica).couplings)[0]
    if machine.biases is None:
        return matrix
    biases = machine.biases[replica, :, None]
    return torch.cat([torch.cat([matrix, biases], 1), torch.cat([biases.mT, biases.new_zeros(1, 1)], 1)])


def whole_matrix(couplings: Couplings) -> Tensor:
    """All couplings as one symmetric matrix, (e, n, n) float64. The diagonal that patterns leave out is
    no multiple of 1, so that they are no shortcut here."""
    layers, slices = couplings.layers, couplings.layers.slices
    size = (couplings.replicas, layers.columns, layers.columns)
    whole = couplings.first.new_zeros(size, dtype=torch.float64)
    for a, b in layers.edges:
        block = couplings.matrix(a, b).double()
        whole[:, slices[a], slices[b]] = block
        whole[:, slices[b], slices[a]] = block.mT
    return whole


def _mix(machine: Machine, matrix: Tensor, passes: int) -> Tensor:
    """d of eq. (3), after as many passes as it takes."""
    layers, size = machine.layers, len(matrix)
    blocks = []
    for layer, where in enumerate(layers.slices):
        if layers.self_coupled(layer):
            blocks += [slice(i, i + 1) for i in range(where.start, where.stop)]
        else:  # its units do not see each other: they turn at once
            blocks.append(where)
    blocks += [slice(layers.columns, size)] if size > layers.columns else []
    rank = min(size, math.isqrt(2 * size) + 2)  # from √2N on the primal has no false maxima
    shape = (size, rank)
    x = torch.randn(shape, generator=stream(0, "bound"), dtype=torch.float64).to(matrix.device)
    x = torch.nn.functional.normalize(x, dim=1)
    value = -math.inf
    for _ in range(passes):
        report_progress()
        for where in blocks:
            field = matrix[where] @ x
            sizes = torch.linalg.vector_norm(field, 2, 1, keepdim=True)
            x[where] = torch.where(sizes > 0, field / sizes.clamp(min=1e-300), x[where])
        d: Tensor = torch.linalg.vector_norm(matrix @ x, 2, 1)
        before, value = value, float(d.sum())
        if value - before <= 1e-9 * abs(value):
            break
    return d
