"""A step of an optimiser, replica by replica: θ and the optimiser's memory in one pass,

    u ← β₁ u + g,                                 d = u                                   (1)
    a ← β₁ a + (1−β₁) g,  q ← β₂ q + (1−β₂) g²,   d = (a / c₁) / (√q / √c₂ + ε)           (2)
    θ' = θ (1 − rate · decay) − rate · d,         θ ← min(x, max(−x, θ'))                 (3)

without memory d = g. Old values are kept aside, with Σ|θ'| of every block. A second launch adds up these
sums and puts a replica back whose sum is too large, or which does not move any more; it reads nothing
else of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # values
KEEPERS = 32  # blocks of the second launch for each replica, at most


@triton.jit
def _step_kernel(
    theta, old, gradient, first, second, sums, rates, unbias1, unbias2,
    size, row, of_replica, of_row, of_rate, columns, column,
    beta1, rest1, beta2, rest2, epsilon, decay, bound,
    MEMORY: tl.constexpr, CLIPS: tl.constexpr, FLAT: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * N + tl.arange(0, N)
    there = at < size
    start = e * size
    where = at if FLAT else (at // row).to(tl.int64) * of_row + at % row
    before = tl.load(theta + start + at, mask=there, other=0.0)
    d = tl.load(gradient + e * of_replica + where, mask=there, other=0.0)
    if MEMORY == 1:
        d += beta1 * tl.load(first + start + at, mask=there, other=0.0)
        tl.store(first + start + at, d, mask=there)
    if MEMORY == 2:
        a = tl.load(first + start + at, mask=there, other=0.0)
        q = tl.load(second + start + at, mask=there, other=0.0)
        a = beta1 * a + rest1 * d
        q = beta2 * q + rest2 * d * d
        tl.store(first + start + at, a, mask=there)
        tl.store(second + start + at, q, mask=there)
        c1 = tl.load(unbias1).to(tl.float32)
        c2 = tl.sqrt(tl.load(unbias2)).to(tl.float32)
        d = a / ((tl.sqrt(q) / c2 + epsilon) * c1)
    rate = tl.load(rates + e * of_rate).to(tl.float32)
    after = before * (1.0 - rate * decay) - rate * d
    tl.store(sums + e * columns + column + tl.program_id(0), tl.sum(tl.abs(after)))
    if CLIPS:
        after = tl.minimum(tl.maximum(after, -bound), bound)
    tl.store(theta + start + at, after, mask=there)
    tl.store(old + start + at, before, mask=there)


@triton.jit
def _keep_kernel(
    theta, old, alive, sums, size, columns, couplings, limit, N: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    of_couplings = tl.zeros((N,), tl.float32)
    of_biases = tl.zeros((N,), tl.float32)
    for start in range(0, columns, N):
        at = start + tl.arange(0, N)
        part = tl.load(sums + e * columns + at, mask=at < columns, other=0.0)
        of_couplings += tl.where(at < couplings, part, 0.0)
        of_biases += tl.where(at < couplings, 0.0, part)
    finite = (tl.sum(of_couplings) < limit) & (tl.sum(of_biases) < float("inf"))  # NaN is not
    moves = (finite & (tl.load(alive + e) != 0)).to(tl.int32)
    # Blocks that come later read this or what was there before: to the same end.
    tl.store(alive + e, moves)
    if moves == 0:
        for start in range(tl.program_id(0) * N, size, tl.num_programs(0) * N):
            at = start + tl.arange(0, N)
            kept = tl.load(old + e * size + at, mask=at < size)
            tl.store(theta + e * size + at, kept, mask=at < size)


@dataclass(frozen=True)
class Moved:
    """A parameter (e, …), its gradient, the optimiser's memory of it (none, u, or a and q), its decay and
    the bound x on it, if any."""

    theta: Tensor
    gradient: Tensor
    memory: Sequence[Tensor]
    decay: float
    bound: float | None


@dataclass(frozen=True)
class Numbers:
    """β₁, β₂ and ε of eq. (1) or (2); rates (1,) or (e,), c₁ and c₂ () in float64."""

    betas: tuple[float, float]
    epsilon: float
    rates: Tensor
    unbias: tuple[Tensor, Tensor]


def step(
    couplings: Sequence[Moved], biases: Sequence[Moved], how: Numbers, alive: Tensor, limit: float
) -> None:
    """One step in place; replicas whose Σ|θ'| is finite, and below the limit for the couplings, stay
    alive (e,), and the others stay where they are."""
    every = (*couplings, *biases)
    e = len(alive)
    sizes = [moved.theta[0].numel() for moved in every]
    blocks = [triton.cdiv(size, BLOCK) for size in sizes]
    columns = sum(blocks)
    sums = torch.empty((e, columns), dtype=torch.float32, device=alive.device)
    kept = [torch.empty_like(moved.theta) for moved in every]
    for i, moved in enumerate(every):
        theta, g = moved.theta, moved.gradient
        first, second = (*moved.memory, theta, theta)[:2]
        (beta1, beta2), row = how.betas, g.shape[-1]
        of_row = row if g.dim() == 2 else g.stride(1)
        bound = 0.0 if moved.bound is None else float(moved.bound)  # an int would be another kernel
        _step_kernel[(blocks[i], e)](
            theta, kept[i], g, first, second, sums, how.rates, *how.unbias,
            sizes[i], row, g.stride(0), of_row, int(len(how.rates) > 1), columns, sum(blocks[:i]),
            beta1, 1.0 - beta1, beta2, 1.0 - beta2, how.epsilon, moved.decay, bound,
            MEMORY=len(moved.memory), CLIPS=moved.bound is not None, FLAT=of_row == row, N=BLOCK,
            num_warps=4,
        )  # fmt: skip
    flags = alive.view(torch.uint8)
    for i, moved in enumerate(every):
        _keep_kernel[(min(blocks[i], KEEPERS), e)](
            moved.theta, kept[i], flags, sums, sizes[i], columns, sum(blocks[: len(couplings)]), limit,
            N=BLOCK, num_warps=4,
        )  # fmt: skip
