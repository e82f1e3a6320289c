"""Gibbs chains of a restricted machine with many patterns, up to 512, in one kernel.

As in `chains` a chain's next half-sweep depends on the other layer by its overlaps alone,

    x = m ξ_j · steep/√K,        steep = −2β log₂e,        p(s_j = +1) = 1 / (1 + 2^x)    (1)

but those of a block with more than 192 patterns do not fit into its registers beside what a product
needs. So they go through memory, in the type of ξ and times steep/√K (without steep where biases are
still to be added), and come back as an operand in shared memory. ξ has up to four pieces of at most 128
rows. While spins are drawn the overlaps with the first two are gathered; those with the last two follow
in a second pass that reads the new spins.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from .chains import LOG2E, Cut, Operands, Settings, _drawn, _words

PIECE = 128  # rows of ξ in a product: with 256 accumulators of a thread products run one by one
MOST = 4 * PIECE  # patterns
BEHIND = 64  # units per tile of the second pass
COPIED = 1024  # spins that a block of the last kernel writes at a time


@triton.jit
def _keep(at, m, factor, K: tl.constexpr):
    tl.store(at + tl.arange(0, K)[None, :], (m * factor).to(at.dtype.element_ty))


@triton.jit
def _gathered(
    spins, x, x1, row, wide, units, inside, MASK: tl.constexpr,
    K: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Overlaps of given spins with two pieces of ξ; with MASK rows of `inside` and the first `units`
    count."""
    m, m1 = tl.zeros((M, K), tl.float32), tl.zeros((M, K1 if K1 > 0 else 16), tl.float32)
    for start in range(0, wide, N):
        cols = start + tl.arange(0, N)
        tile = x.load([row, start])
        if MASK:
            s = tl.load(spins + cols[None, :], mask=inside & (cols < units)[None, :], other=0)
        else:
            s = tl.load(spins + cols[None, :])
        m = tl.dot(s, tl.trans(tile), m, input_precision=PRECISION)
        if K1 > 0:
            m1 = tl.dot(s, tl.trans(x1.load([row + K, start])), m1, input_precision=PRECISION)
    return m, m1


@triton.jit
def _draw_layer(
    overlaps, drawn, x, later, bias, row, wide, units, seed, chain, phase, steep, scale, push, held,
    inside,
    A: tl.constexpr, A1: tl.constexpr, B: tl.constexpr, B1: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, N2: tl.constexpr, BIASES: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """A layer's spins from the overlaps of the other one, and the overlaps of the new ones."""
    kind: tl.constexpr = overlaps.dtype.element_ty
    q0 = tl.load(overlaps + tl.arange(0, A)[None, :])
    if A1 > 0:
        q1 = tl.load(overlaps + A + tl.arange(0, A1)[None, :])
    if B > 0:
        q2 = tl.load(overlaps + (A + A1) + tl.arange(0, B)[None, :])
    if B1 > 0:
        q3 = tl.load(overlaps + (A + A1 + B) + tl.arange(0, B1)[None, :])
    tl.debug_barrier()  # all have read them
    m0, m1 = tl.zeros((M, A), tl.float32), tl.zeros((M, A1 if A1 > 0 else 16), tl.float32)
    for start in range(0, wide, N):
        cols = start + tl.arange(0, N)
        if BIASES:
            b = tl.load(bias + cols)[None, :]
        x0 = x[0].load([row, start])
        f = tl.dot(q0, x0, input_precision=PRECISION)
        if A1 > 0:
            x1 = x[1].load([row + A, start])
            f = tl.dot(q1, x1, f, input_precision=PRECISION)
        if B > 0:
            f = tl.dot(q2, x[2].load([row + (A + A1), start]), f, input_precision=PRECISION)
        if B1 > 0:
            f = tl.dot(q3, x[3].load([row + (A + A1 + B), start]), f, input_precision=PRECISION)
        if BIASES:
            f = (f + b) * steep
        there = inside & (cols < units)[None, :]
        words = _words(seed, chain, start, phase, M, N)
        s = _drawn(f, words, push, held, cols, there, PUSH, HELD).to(kind)
        tl.store(drawn + cols[None, :], s)
        m0 = tl.dot(s, tl.trans(x0), m0, input_precision=PRECISION)
        if A1 > 0:
            m1 = tl.dot(s, tl.trans(x1), m1, input_precision=PRECISION)
    factor = scale if BIASES else steep * scale
    _keep(overlaps, m0, factor, A)
    if A1 > 0:
        _keep(overlaps + A, m1, factor, A1)
    tl.debug_barrier()  # all have written the spins
    if B > 0:
        m0, m1 = _gathered(
            drawn, later[0], later[1], row + (A + A1), wide, units, inside, False, B, B1, M, N2,
            PRECISION,
        )  # fmt: skip
        _keep(overlaps + (A + A1), m0, factor, B)
        if B1 > 0:
            _keep(overlaps + (A + A1 + B), m1, factor, B1)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["sweeps"])
def _sample_kernel(
    spins, drawn_v, drawn_h, overlaps, v0, v1, v2, v3, v4, v5, h0, h1, h2, h3, h4, h5, bias_v, bias_h,
    beta, push, held, seed_at,
    chains, visible, hidden, wide_v, wide_h, spins_e, spins_c, beta_e, beta_c, push_e, push_c, held_e,
    held_c, sweeps, scale,
    A: tl.constexpr, A1: tl.constexpr, B: tl.constexpr, B1: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, N2: tl.constexpr, BIASES: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * M + tl.arange(0, M)
    inside = (c < chains)[:, None]
    K: tl.constexpr = A + A1 + B + B1
    row = (e * K).to(tl.int32)
    place = (e * tl.num_programs(0) * M + c)[:, None]  # of a chain, with whole blocks
    overlaps += place * K
    drawn_v += place * wide_v
    drawn_h += place * wide_h
    beta = tl.load(beta + e * beta_e + c * beta_c, mask=c < chains, other=0.0)
    steep = (beta * (-2.0 * LOG2E))[:, None]
    factor = scale if BIASES else steep * scale
    seed, chain = tl.load(seed_at), (e * chains + c).to(tl.int32)
    at = c[:, None].to(tl.int64)
    spins += e * spins_e + at * spins_c
    bias_v += e * wide_v
    bias_h += e * wide_h
    push += e * push_e + at * push_c
    held += e * held_e + at * held_c
    m0, m1 = _gathered(spins, v0, v1, row, wide_v, visible, inside, True, A, A1, M, N, PRECISION)
    _keep(overlaps, m0, factor, A)
    if A1 > 0:
        _keep(overlaps + A, m1, factor, A1)
    if B > 0:
        m0, m1 = _gathered(
            spins, v4, v5, row + (A + A1), wide_v, visible, inside, True, B, B1, M, N2, PRECISION
        )
        _keep(overlaps + (A + A1), m0, factor, B)
        if B1 > 0:
            _keep(overlaps + (A + A1 + B), m1, factor, B1)
    tl.debug_barrier()
    for number in range(0, sweeps):
        _draw_layer(
            overlaps, drawn_h, (h0, h1, h2, h3), (h4, h5), bias_h, row, wide_h, hidden, seed, chain,
            2 * number, steep, scale, push + visible, held + visible, inside,
            A, A1, B, B1, M, N, N2, BIASES, PUSH, HELD, PRECISION,
        )  # fmt: skip
        _draw_layer(
            overlaps, drawn_v, (v0, v1, v2, v3), (v4, v5), bias_v, row, wide_v, visible, seed, chain,
            2 * number + 1, steep, scale, push, held, inside,
            A, A1, B, B1, M, N, N2, BIASES, PUSH, HELD, PRECISION,
        )  # fmt: skip


@triton.jit
def _widen_kernel(out, drawn_v, drawn_h, chains, whole, visible, hidden, wide_v, wide_h, N: tl.constexpr):
    """Spins of both layers side by side, in float32."""
    e, c = tl.program_id(2).to(tl.int64), tl.program_id(0)  # only the first axis is long
    unit = tl.program_id(1) * N + tl.arange(0, N)
    seen, units = unit < visible, visible + hidden
    line = e * whole + c
    v = tl.load(drawn_v + line * wide_v + unit, mask=seen, other=0)
    h = tl.load(
        drawn_h + line * wide_h + unit - visible, mask=(unit >= visible) & (unit < units), other=0
    )
    s = tl.where(seen, v.to(tl.float32), h.to(tl.float32))
    tl.store(out + (e * chains + c) * units + unit, s, mask=unit < units)


# -- called from outside ------------------------------------------------------------------------------


def pieces(count: int) -> tuple[int, int, int, int]:
    """Rows of ξ in each piece: powers of two, 16 or more, or 0, that hold `count`."""
    found = []
    for _ in range(4):
        found.append(min(PIECE, max(16, int(triton.next_power_of_2(count)))) if count > 0 else 0)
        count -= found[-1]
    first, second, third, fourth = found
    return first, second, third, fourth


def sample(given: Operands, spins: Tensor, how: Settings, cut: Cut) -> Tensor:
    """The same as `chains.sample`; the rows of ξ are those of `pieces`."""
    e, c, units = spins.shape
    v, wide_v, wide_h = given.visible, given.xv.shape[2], given.xh.shape[2]
    sizes = pieces(given.patterns)
    whole = triton.cdiv(c, cut.chains) * cut.chains
    drawn_v, drawn_h = (given.xh.new_empty((e, whole, wide)) for wide in (wide_v, wide_h))
    visible = spins[..., :v].to(given.xh.dtype)
    visible = visible if visible.stride(2) == 1 else visible.contiguous()
    push, held = how.tensors()
    _sample_kernel[(whole // cut.chains, e)](
        visible, drawn_v, drawn_h, given.xh.new_empty((e, whole, sum(sizes))),
        *_descriptors(given.xv, sizes, cut), *_descriptors(given.xh, sizes, cut),
        given.bias_v, given.bias_h, how.beta, push, held, how.seed,
        c, v, given.hidden, wide_v, wide_h, *visible.stride()[:2], *how.beta.stride(),
        *push.stride()[:2], *held.stride()[:2], how.sweeps, given.scale,
        A=sizes[0], A1=sizes[1], B=sizes[2], B1=sizes[3], M=cut.chains, N=cut.units, N2=BEHIND,
        BIASES=given.biased, PUSH=how.push is not None, HELD=how.held is not None,
        PRECISION=given.precision, num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip
    out = torch.empty((e, c, units), dtype=torch.float32, device=spins.device)
    _widen_kernel[(c, triton.cdiv(units, COPIED), e)](
        out, drawn_v, drawn_h, c, whole, v, given.hidden, wide_v, wide_h, N=COPIED
    )
    return out


def _descriptors(x: Tensor, sizes: tuple[int, ...], cut: Cut) -> list[TensorDescriptor]:
    """Of the pieces, and of the last two as the second pass reads them."""
    flat = x.flatten(0, 1)
    tiles = [(size, cut.units) for size in sizes] + [(size, BEHIND) for size in sizes[2:]]
    return [TensorDescriptor.from_tensor(flat, [size or 16, units]) for size, units in tiles]
