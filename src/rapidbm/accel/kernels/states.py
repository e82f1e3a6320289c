"""Exact averages of a restricted machine with one narrow layer, over all of that layer's states.

For the states v of the narrow layer (columns after its units are 1, so that the last row of J holds the
biases of the wide layer), first

    log w(v) = Σ_h log 2cosh f_h,        f_h = Σ_i v_i J_ih                               (1)

and then, with the normalised weights p(v),

    ⟨v_i h⟩ = Σ_v p(v) v_i tanh f_h                                                       (2)

States are made from their numbers and fields stay on the chip: neither is written.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
STATES = 64  # per step
UNITS = 64  # of the wide layer per tile; a product of 64 factors up to 2 does not overflow
PARTS = 16  # sums that are added up at the end, so that a few replicas fill the chip


@triton.jit
def _spins(number, BITS: tl.constexpr, S: tl.constexpr):
    """States of these numbers (x, S): BITS spins, the first the highest bit, then ones to the end."""
    i = tl.arange(0, S)[None, :]
    shift = tl.where(i < BITS, BITS - 1 - i, 0)
    bit = (number[:, None] >> shift) & 1
    return tl.where(i < BITS, 2.0 * bit.to(tl.float32) - 1.0, 1.0)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _weights_kernel(
    out, j, states, wide, spare,
    BITS: tl.constexpr, S: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * M + tl.arange(0, M)
    v = _spins(number, BITS, S)
    j += e * S * wide
    total = tl.zeros((M,), tl.float64)
    for start in range(0, wide, N):
        cols = start + tl.arange(0, N)
        tile = tl.load(j + tl.arange(0, S)[:, None] * wide + cols[None, :])
        f = tl.abs(tl.dot(v, tile, input_precision=PRECISION))
        # log 2cosh f = |f| + log(1 + e^(−2|f|)): one logarithm for the product of a tile's terms
        product = tl.reduce(1.0 + tl.exp2(f * (-2.0 * LOG2E)), 1, _times)
        total += (tl.sum(f, 1) + LN2 * tl.log2(product)).to(tl.float64)
    total -= LN2 * spare  # units that are not there have the field 0
    tl.store(out + e * states + number, total, mask=number < states)


@triton.jit
def _products_kernel(
    out, j, p, states, wide, step,
    BITS: tl.constexpr, S: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    cols = tl.program_id(0) * N + tl.arange(0, N)
    rows = tl.arange(0, S)[:, None] * wide + cols[None, :]
    tile = tl.load(j + e * S * wide + rows)
    total = tl.zeros((S, N), tl.float32)
    for start in range(part * step, min((part + 1) * step, states), M):
        number = start + tl.arange(0, M)
        v = _spins(number, BITS, S)
        f = tl.dot(v, tile, input_precision=PRECISION)
        share = tl.load(p + e * states + number, mask=number < states, other=0.0)
        h = (1.0 - 2.0 / (1.0 + tl.exp2(f * (2.0 * LOG2E)))) * share[:, None]
        total = tl.dot(tl.trans(v), h, total, input_precision=PRECISION)
    tl.store(out + (e * tl.num_programs(2) + part) * S * wide + rows, total)


def padded(couplings: Tensor, bias: Tensor | None) -> Tensor:
    """J (e, s, n) and the biases of the wide layer (e, n) as (e, S, wide), S a power of two."""
    e, bits, units = couplings.shape
    wide = triton.cdiv(units, UNITS) * UNITS
    size = max(16, triton.next_power_of_2(bits + (bias is not None)))
    j = torch.zeros((e, size, wide), dtype=torch.float32, device=couplings.device)
    j[:, :bits, :units] = couplings
    if bias is not None:
        j[:, -1, :units] = bias
    return j


def log_weights(j: Tensor, bits: int, units: int, states: int, precision: str) -> Tensor:
    """Eq. (1) for the first `states` states, (e, x) in float64."""
    e, size, wide = j.shape
    out = torch.empty((e, states), dtype=torch.float64, device=j.device)
    _weights_kernel[(triton.cdiv(states, STATES), e)](
        out, j, states, wide, float(wide - units),
        BITS=bits, S=size, M=STATES, N=UNITS, PRECISION=precision, num_warps=4,
    )  # fmt: skip
    return out


def products(j: Tensor, p: Tensor, bits: int, units: int, precision: str) -> tuple[Tensor, Tensor]:
    """Eq. (2), (e, s, n), and its last row: with biases, the means of the wide layer. p is (e, x)."""
    e, size, wide = j.shape
    states = p.shape[1]
    step = triton.cdiv(triton.cdiv(states, PARTS), STATES) * STATES
    parts = triton.cdiv(states, step)
    out = torch.empty((e, parts, size, wide), dtype=torch.float32, device=j.device)
    _products_kernel[(wide // UNITS, e, parts)](
        out, j, p, states, wide, step,
        BITS=bits, S=size, M=STATES, N=UNITS, PRECISION=precision, num_warps=4,
    )  # fmt: skip
    total = out.sum(1)
    return total[:, :bits, :units], total[:, -1, :units]
