"""A step of an optimiser, replica by replica: θ and the optimiser's memory in one pass,

    u ← β₁ u + g,                                 d = u                                   (1)
    a ← β₁ a + (1−β₁) g,  q ← β₂ q + (1−β₂) g²,   d = (a / c₁) / (√q / √c₂ + ε)           (2)
    θ' = θ (1 − rate · decay) − rate · d,         θ ← min(x, max(−x, θ'))                 (3)

without memory d = g. Old values are kept aside, with Σ|θ'| of every block. A second launch adds up these
sums and puts a replica back whose sum is too large, or which does not move any more; it reads nothing
else of the others.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..moves import Guard, Rule, Values

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


def step(parameters: Values, gradients: Values, rates: Tensor, rule: Rule, guard: Guard) -> None:
    """One step in place, at rates (1,) or (e,); replicas whose Σ|θ'| is finite, and below the limit for
    the couplings, stay alive, and the others stay where they are."""
    names = sorted(parameters, key=lambda name: name == "biases")  # couplings first
    thetas = [parameters[name].detach() for name in names]
    e = len(guard.alive)
    sizes = [theta[0].numel() for theta in thetas]
    blocks = [triton.cdiv(size, BLOCK) for size in sizes]
    columns = sum(blocks)
    of_couplings = columns - (blocks[-1] if "biases" in parameters else 0)
    sums = torch.empty((e, columns), dtype=torch.float32, device=guard.alive.device)
    kept = [torch.empty_like(theta) for theta in thetas]
    beta1, beta2 = map(float, rule.betas)
    for i, (name, theta) in enumerate(zip(names, thetas, strict=True)):
        g = _by_rows(gradients[name])
        memory = [values[name] for values in rule.memory]
        first, second = (*memory, theta, theta)[:2]
        row = g.shape[-1]
        of_row = row if g.dim() == 2 else g.stride(1)
        decays, clips = name != "biases", name != "biases" and guard.bound is not None
        _step_kernel[(blocks[i], e)](
            theta, kept[i], g, first, second, sums, rates, *(rule.unbias or (rates, rates)),
            sizes[i], row, g.stride(0), of_row, int(len(rates) > 1), columns, sum(blocks[:i]),
            beta1, 1.0 - beta1, beta2, 1.0 - beta2, float(rule.epsilon),
            float(rule.decay) if decays else 0.0,
            float(guard.bound or 0.0) if clips else 0.0,  # an int would be another kernel
            MEMORY=len(memory), CLIPS=clips, FLAT=of_row == row, N=BLOCK, num_warps=4,
        )  # fmt: skip
    flags = guard.alive.view(torch.uint8)
    for theta, old, size, count in zip(thetas, kept, sizes, blocks, strict=True):
        _keep_kernel[(min(count, KEEPERS), e)](
            theta, old, flags, sums, size, columns, of_couplings, guard.limit, N=BLOCK, num_warps=4,
        )  # fmt: skip


def _by_rows(gradient: Tensor) -> Tensor:
    """With rows (e, n) or (e, k, n) that are side by side, at any distance."""
    if gradient.dtype == torch.float32 and gradient.dim() in (2, 3) and gradient.stride(-1) == 1:
        return gradient
    return gradient.float().contiguous()
