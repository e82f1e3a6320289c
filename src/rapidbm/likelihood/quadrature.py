"""The fully connected RA machine through its K Gaussian fields, exact to rounding.

    −E = (1/2√K) Σ_k [ (m^k)² − Σ_i (ξ_i^k)² ] + b·s                                      (1)
    Z = C ∫ Π_k dz_k φ(z_k) · Π_i 2 cosh( β b_i + √β K^(−1/4) Σ_k ξ_i^k z_k )              (2)

with φ the normal density and C = exp(−(β/2√K) Σ ξ²). On a lattice of spacing h the sum that stands for
(2) has a relative error below 2K exp(−2π²/h²): under the integral |cosh(x + iy)| ≤ cosh x, so that by
moving the line of integration into the complex plane its Fourier transform at 2π/h is at most
exp(−2π²/h²) of the whole (Trefethen and Weideman 2014 on the trapezoid rule). Given s, z_k is normal
with mean √β K^(−1/4) m^k, so that the lattice may end where |z_k| exceeds √β K^(−1/4) Σ_i |ξ_i^k| by a
few. Units of one kind share a factor. Given z the units are independent with means tanh(…): the same
lattice gives all moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import watch
from .counting import Kinds, log_sum, rows_of

SPACING = 0.7  # 2 exp(−2π²/h²) = 6e-18
MARGIN = 9.0  # 2 Φ(−9) = 2e-19
CHUNK = 2**22  # numbers at a time


def can_integrate(machine: Machine) -> bool:
    """True for patterns that couple every pair of units."""
    return machine.layers.full and machine.layers.spins and machine.patterns is not None


def _grids(machine: Machine, replica: int, beta: float) -> tuple[Tensor, list[int]]:
    """√β K^(−1/4) ξ and β b as rows (n, k + 1), and how many lattice points a field has on a side."""
    patterned = machine.couplings.patterned
    assert patterned is not None  # `can_integrate`
    rows = rows_of(machine, replica, range(len(machine.layers.sizes)))
    rows[:, :-1] *= (beta * patterned.scale) ** 0.5
    rows[:, -1] *= beta
    reach = rows[:, :-1].abs().sum(0).tolist()
    return rows, [math.ceil((far + MARGIN) / SPACING) for far in reach]


def points_of(machine: Machine, beta: float = 1.0) -> int:
    """How many lattice points eq. (2) takes, in the replica that has most of them."""
    return max(
        math.prod(2 * side + 1 for side in _grids(machine, e, beta)[1]) for e in range(machine.replicas)
    )


def lattice(
    machine: Machine, replica: int, beta: float = 1.0
) -> tuple[Kinds, Iterator[tuple[Tensor, Tensor]]]:
    """The kinds of units, and in parts the logarithm of eq. (2)'s summands (c,), which add up to
    log Z, beside the arguments of the cosh for every kind, (c, t)."""
    rows, sides = _grids(machine, replica, beta)
    kinds = Kinds.of(rows)

    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        sizes = [2 * side + 1 for side in sides]
        count = math.prod(sizes)
        middle = rows.new_tensor(sides)
        constant = len(sides) * (math.log(SPACING) - 0.5 * math.log(2 * math.pi))
        constant -= 0.5 * float(rows[:, :-1].square().sum())
        step = max(1, CHUNK // len(kinds.rows))
        for start in range(0, count, step):
            index = torch.arange(start, min(start + step, count), device=rows.device)
            z = torch.stack(torch.unravel_index(index, sizes), 1).double()
            z = (z - middle) * SPACING  # (c, k)
            field = z @ kinds.rows[:, :-1].T + kinds.rows[:, -1]
            log_cosh = SPIN.log_sum(field) @ kinds.counts.double()
            yield constant - 0.5 * z.square().sum(1) + log_cosh, field

    return kinds, parts()


@torch.no_grad()
def log_z_by_quadrature(machine: Machine, beta: float = 1.0) -> Tensor:
    """Eq. (2) for every replica, (e,) float64."""
    with watch("log Z by quadrature", machine.replicas * points_of(machine, beta)) as tick:
        values = [
            log_sum((logs for logs, _ in lattice(machine, e, beta)[1]), tick)
            for e in range(machine.replicas)
        ]
    return torch.stack(values)
