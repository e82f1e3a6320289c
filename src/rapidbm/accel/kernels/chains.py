"""Gibbs chains and hidden means of a restricted machine, each in one kernel.

A block of M chains keeps its overlaps m with all patterns on the chip, while the patterns stream past in
tiles of N units:

    f = m ξ_j / √K,        s_j ~ p(s | β f)  or  s_j = tanh f,        m' ← m' + s_j ξ_jᵀ   (1)

so that a sweep reads ξ once and writes nothing; spins are written after the last one. Dense couplings
with a narrow visible layer take the same road with ξ_h = J, 1/√K = 1 and the visible spins as their own
overlaps: m' is then the field on them.

Visible spins are read in the type of ξ: converted inside the loop of products, registers are filled anew
before Triton 3.6 has waited for the product that reads them.

Random numbers come from Philox-4x32 with 7 rounds (Salmon et al. 2011), counted by unit, chain and
half-sweep: what a chain draws does not depend on how the work is cut. The four words of a call go to four
units that one thread of the tensor cores' layout holds, so that none moves.

K comes in two pieces, K0 and K1, powers of two each (K1 may be 0), because tiles have such sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

ROUNDS = tl.constexpr(7)
LOG2E = tl.constexpr(1.4426950408889634)


@dataclass(frozen=True)
class Cut:
    """How the work is cut: chains per block, units per tile, warps, tiles that are loaded ahead."""

    chains: int
    units: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Operands:
    """What the kernels read of a machine, in the type of the products; zeros fill rows and columns up to
    whole tiles."""

    visible: int
    hidden: int
    patterns: int
    xv: Tensor  # (e, K, wide_v); one column for a dense machine, which has none
    xh: Tensor  # (e, K, wide_h)
    biased: bool
    bias_v: Tensor  # (e, wide_v), or (e, K) for a dense machine; empty for none
    bias_h: Tensor  # (e, wide_h)
    scale: float
    dense: bool
    precision: str  # of products of float32: ieee, tf32 or tf32x3


# -- pieces of the kernels; x = (two tensor descriptors, first row) of a layer's ξ --------------------


@triton.jit
def _tile(x, start, K0: tl.constexpr, K1: tl.constexpr):
    x0 = x[0].load([x[2], start])
    x1 = x0
    if K1 > 0:
        x1 = x[1].load([x[2] + K0, start])
    return x0, x1


@triton.jit
def _field(q0, q1, x0, x1, bias, cols, K1: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr):
    f = tl.dot(q0, x0, input_precision=PRECISION)
    if K1 > 0:
        f = tl.dot(q1, x1, f, input_precision=PRECISION)
    if BIAS:
        f += tl.load(bias + cols)[None, :]
    return f


@triton.jit
def _gather(m0, m1, s, x0, x1, K1: tl.constexpr, PRECISION: tl.constexpr):
    s = s.to(x0.dtype)
    m0 = tl.dot(s, tl.trans(x0), m0, input_precision=PRECISION)
    if K1 > 0:
        m1 = tl.dot(s, tl.trans(x1), m1, input_precision=PRECISION)
    return m0, m1


@triton.jit
def _none_yet(M: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr):
    return tl.zeros((M, K0), tl.float32), tl.zeros((M, K1 if K1 > 0 else 16), tl.float32)


@triton.jit
def _product(a, B: tl.constexpr):
    """High and low word of a · B: one multiplication, where `umulhi` takes a second."""
    whole = a.to(tl.uint64) * B
    return (whole >> 32).to(tl.uint32), whole.to(tl.uint32)


@triton.jit
def _words(seed, chain, start, phase, M: tl.constexpr, N: tl.constexpr):
    """Random words of units start … start + N − 1, (M, N): unit 16 g + 8 p + 2 t + i has word (p, i) of
    call (g, t)."""
    g, t = tl.arange(0, N // 16)[None, :, None], tl.arange(0, 4)[None, None, :]
    zero = tl.zeros((M, N // 16, 4), tl.uint32)
    a, b = (start // 4 + g * 4 + t).to(tl.uint32) + zero, chain.to(tl.uint32)[:, None, None] + zero
    c, d = (phase + tl.zeros((1,), tl.int32)).to(tl.uint32)[None, None] + zero, zero
    low, high = (seed & 0xFFFFFFFF).to(tl.uint32), (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
        h0, l0 = _product(a, 0xD2511F53)
        h1, l1 = _product(c, 0xCD9E8D57)
        a, b, c, d = h1 ^ b ^ low, l1, h0 ^ d ^ high, l0
        low += 0x9E3779B9
        high += 0xBB67AE85
    words = tl.join(tl.join(a, b), tl.join(c, d))  # (M, g, t, i, p)
    return tl.reshape(tl.permute(words, (0, 1, 4, 2, 3)), (M, N))


@triton.jit
def _drawn(x, words, push, held, cols, there, PUSH: tl.constexpr, HELD: tl.constexpr):
    """±1 with p(+1) = 1 / (1 + 2^x), x = −2β log₂e · field; a word is one of 2^23 numbers u.

    A push is added to β·field; units where `held` is a number are set to it. Rows of `there` count.
    """
    if PUSH:
        x += tl.load(push + cols[None, :], mask=there, other=0.0) * (-2.0 * LOG2E)
    u = ((words & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True) - (1.0 - 2.0**-24)
    s = tl.where(u * (1.0 + tl.exp2(x)) < 1.0, 1.0, -1.0)
    if HELD:
        value = tl.load(held + cols[None, :], mask=there, other=0.0)
        s = tl.where(value == value, value, s)  # noqa: PLR0124 (NaN)
    return s


@triton.jit
def _draw_layer(
    m0, m1, x, bias, wide, units, seed, chain, phase, steep, scale, push, held, out, inside,
    K0: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BIAS: tl.constexpr,
    PUSH: tl.constexpr, HELD: tl.constexpr, STORE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Eq. (1) over a layer, from the overlaps of the other one to those of its new spins."""
    kind = x[0].dtype
    q0, q1 = (m0 * scale).to(kind), (m1 * scale).to(kind)
    m0, m1 = _none_yet(M, K0, K1)
    for start in range(0, wide, N):
        cols = start + tl.arange(0, N)
        x0, x1 = _tile(x, start, K0, K1)
        f = _field(q0, q1, x0, x1, bias, cols, K1, BIAS, PRECISION)
        there = inside & (cols < units)[None, :]
        words = _words(seed, chain, start, phase, M, N)
        s = _drawn(f * steep, words, push, held, cols, there, PUSH, HELD)
        if STORE:
            tl.store(out + cols[None, :], s, mask=there)
        m0, m1 = _gather(m0, m1, s, x0, x1, K1, PRECISION)
    return m0, m1


@triton.jit
def _sweep(
    m0, m1, xv, xh, bias_v, bias_h, wide_v, wide_h, visible, hidden, seed, chain, number, steep, scale,
    push, held, out, inside,
    K0: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, DENSE: tl.constexpr,
    BIAS: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr, STORE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The hidden layer, then the visible one: from visible overlaps to visible overlaps."""
    m0, m1 = _draw_layer(
        m0, m1, xh, bias_h, wide_h, hidden, seed, chain, 2 * number, steep, scale, push + visible,
        held + visible, out + visible, inside, K0, K1, M, N, BIAS, PUSH, HELD, STORE, PRECISION,
    )  # fmt: skip
    if DENSE:
        units = tl.arange(0, K0)
        if BIAS:
            m0 += tl.load(bias_v + units)[None, :]
        there = inside & (units < visible)[None, :]
        words = _words(seed, chain, 0, 2 * number + 1, M, K0)
        m0 = _drawn(m0 * steep, words, push, held, units, there, PUSH, HELD)
        m0 = tl.where((units < visible)[None, :], m0, 0.0)
        if STORE:
            tl.store(out + units[None, :], m0, mask=there)
    else:
        m0, m1 = _draw_layer(
            m0, m1, xv, bias_v, wide_v, visible, seed, chain, 2 * number + 1, steep, scale, push,
            held, out, inside, K0, K1, M, N, BIAS, PUSH, HELD, STORE, PRECISION,
        )  # fmt: skip
    return m0, m1


@triton.jit
def _overlaps(
    spins, inside, xv, wide_v, visible,
    K0: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, DENSE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Overlaps of given visible spins."""
    m0, m1 = _none_yet(M, K0, K1)
    if DENSE:
        units = tl.arange(0, K0)
        m0 = tl.load(spins + units[None, :], mask=inside & (units < visible)[None, :], other=0)
        m0 = m0.to(tl.float32)
    else:
        for start in range(0, wide_v, N):
            cols = start + tl.arange(0, N)
            x0, x1 = _tile(xv, start, K0, K1)
            s = tl.load(spins + cols[None, :], mask=inside & (cols < visible)[None, :], other=0)
            m0, m1 = _gather(m0, m1, s, x0, x1, K1, PRECISION)
    return m0, m1


@triton.jit
def _save(at, m0, m1, inside, K0: tl.constexpr, K1: tl.constexpr):
    tl.store(at + tl.arange(0, K0)[None, :], m0.to(at.dtype.element_ty), mask=inside)
    if K1 > 0:
        tl.store(at + K0 + tl.arange(0, K1)[None, :], m1.to(at.dtype.element_ty), mask=inside)


# -- kernels ------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["sweeps"])
def _sample_kernel(
    spins, out, v0, v1, h0, h1, bias_v, bias_h, beta, push, held, seed_at,
    chains, visible, hidden, wide_v, wide_h, spins_e, spins_c, beta_e, beta_c, push_e, push_c, held_e,
    held_c, bias_e, sweeps, scale,
    K0: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, DENSE: tl.constexpr,
    BIAS: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * M + tl.arange(0, M)
    inside = (c < chains)[:, None]
    row = (e * (K0 + K1)).to(tl.int32)
    xv, xh = (v0, v1, row), (h0, h1, row)
    bias_v += e * bias_e
    bias_h += e * wide_h
    line = e * chains + c
    out += line[:, None] * (visible + hidden)
    beta = tl.load(beta + e * beta_e + c * beta_c, mask=c < chains, other=0.0)
    steep = (beta * (-2.0 * LOG2E))[:, None]
    seed, chain = tl.load(seed_at), line.to(tl.int32)
    at = c[:, None].to(tl.int64)
    spins += e * spins_e + at * spins_c
    push += e * push_e + at * push_c
    held += e * held_e + at * held_c
    m0, m1 = _overlaps(spins, inside, xv, wide_v, visible, K0, K1, M, N, DENSE, PRECISION)
    for number in range(0, sweeps - 1):
        m0, m1 = _sweep(
            m0, m1, xv, xh, bias_v, bias_h, wide_v, wide_h, visible, hidden, seed, chain, number, steep,
            scale, push, held, out, inside,
            K0, K1, M, N, DENSE, BIAS, PUSH, HELD, False, PRECISION,
        )  # fmt: skip
    _sweep(
        m0, m1, xv, xh, bias_v, bias_h, wide_v, wide_h, visible, hidden, seed, chain, sweeps - 1, steep,
        scale, push, held, out, inside,
        K0, K1, M, N, DENSE, BIAS, PUSH, HELD, True, PRECISION,
    )  # fmt: skip


@triton.jit
def _means_kernel(
    spins, means, over_v, over_h, v0, v1, h0, h1, bias_h, weights,
    chains, visible, wide_v, wide_h, spins_e, spins_c, weight_e, weight_c, scale, share_h,
    K0: tl.constexpr, K1: tl.constexpr, M: tl.constexpr, N: tl.constexpr, DENSE: tl.constexpr,
    BIAS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * M + tl.arange(0, M)
    inside = (c < chains)[:, None]
    row = (e * (K0 + K1)).to(tl.int32)
    xv, xh = (v0, v1, row), (h0, h1, row)
    bias_h += e * wide_h
    line = (e * chains + c)[:, None]
    part = tl.program_id(2)
    share = tl.load(weights + e * weight_e + c * weight_c, mask=c < chains, other=0.0)[:, None]
    spins += e * spins_e + c[:, None].to(tl.int64) * spins_c
    m0, m1 = _overlaps(spins, inside, xv, wide_v, visible, K0, K1, M, N, DENSE, PRECISION)
    if not DENSE:
        if part == 0:
            _save(over_v + line * (K0 + K1), m0 * share, m1 * share, inside, K0, K1)
    means += line * wide_h
    kind = h0.dtype
    q0, q1 = (m0 * scale).to(kind), (m1 * scale).to(kind)
    m0, m1 = _none_yet(M, K0, K1)
    for start in range(part * share_h, min((part + 1) * share_h, wide_h), N):
        cols = start + tl.arange(0, N)
        x0, x1 = _tile(xh, start, K0, K1)
        f = _field(q0, q1, x0, x1, bias_h, cols, K1, BIAS, PRECISION)
        s = (1.0 - 2.0 / (1.0 + tl.exp2(f * (2.0 * LOG2E)))).to(kind)
        tl.store(means + cols[None, :], s, mask=inside)
        if not DENSE:
            m0, m1 = _gather(m0, m1, s, x0, x1, K1, PRECISION)
    if not DENSE:
        line = ((e * tl.num_programs(2) + part) * chains + c)[:, None]
        _save(over_h + line * (K0 + K1), m0 * share, m1 * share, inside, K0, K1)


# -- called from outside ------------------------------------------------------------------------------


def pieces(count: int) -> tuple[int, int]:
    """Two powers of two, 16 or more, or one and 0, that hold `count` with the least left over."""
    sizes = [2**i for i in range(4, 9)]
    pairs = [(a, b) for a in sizes for b in (0, *sizes) if b < a and a + b >= count]
    return min(pairs, key=sum)


def power_of_two(count: int) -> int:
    """The least one that holds `count`, 16 or more: a dense machine's visible units are one piece."""
    return max(16, int(triton.next_power_of_2(count)))


def padded(values: Tensor, rows: int, wide: int, dtype: torch.dtype) -> Tensor:
    """(e, rows, wide) with zeros after the values (e, k, n)."""
    make = torch.empty if values.shape[1:] == (rows, wide) else torch.zeros
    whole = make((values.shape[0], rows, wide), dtype=dtype, device=values.device)
    whole[:, : values.shape[1], : values.shape[2]] = values
    return whole


@dataclass(frozen=True)
class Settings:
    """How to sweep: how often, at which β (e, c), with what seed (one int64), with a push (e, c, n) on
    β·field or none, and the values of units that stay (e, c, n), NaN for all others, or none."""

    sweeps: int
    beta: Tensor
    seed: Tensor
    push: Tensor | None = None
    held: Tensor | None = None

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Push and values that stay, or tensors that nobody reads."""
        none = self.beta.expand(1, *self.beta.shape)
        return none if self.push is None else self.push, none if self.held is None else self.held


def sample(given: Operands, spins: Tensor, how: Settings, cut: Cut) -> Tensor:
    """Spins (e, c, n) swept on from these, of which the visible ones count."""
    e, c, units = spins.shape
    out = torch.empty((e, c, units), dtype=torch.float32, device=spins.device)
    spins = spins if spins.stride(2) == 1 else spins.contiguous()
    visible = spins[..., : given.visible].to(given.xh.dtype)
    push, held = how.tensors()
    _sample_kernel[(triton.cdiv(c, cut.chains), e)](
        visible, out, *_descriptors(given, cut), given.bias_v, given.bias_h, how.beta, push, held,
        how.seed, c, given.visible, given.hidden, given.xv.shape[2], given.xh.shape[2],
        *visible.stride()[:2], *how.beta.stride(), *push.stride()[:2], *held.stride()[:2],
        given.bias_v.stride(0), how.sweeps, given.scale,
        PUSH=how.push is not None, HELD=how.held is not None, **_constants(given, cut),
    )  # fmt: skip
    return out


def hidden_means(
    given: Operands, visible: Tensor, weights: Tensor, cut: Cut, parts: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """tanh of the fields on the hidden units (e, c, wide_h), and the overlaps of the visible spins and of
    these means times their weights (e, c), (e, c, K); dense machines have no overlaps.

    `parts` blocks share the hidden units of the same chains.
    """
    e, c, _ = visible.shape
    k, wide = given.xh.shape[1:]
    means = given.xh.new_empty((e, c, wide))
    rows = 0 if given.dense else c
    over_v, over_h = given.xh.new_empty((e, rows, k)), given.xh.new_empty((e, parts, rows, k))
    visible = visible.to(given.xh.dtype)
    visible = visible if visible.stride(2) == 1 else visible.contiguous()
    share_h = triton.cdiv(triton.cdiv(wide, cut.units), parts) * cut.units
    _means_kernel[(triton.cdiv(c, cut.chains), e, parts)](
        visible, means, over_v, over_h, *_descriptors(given, cut), given.bias_h, weights,
        c, given.visible, given.xv.shape[2], wide, visible.stride(0), visible.stride(1),
        *weights.stride(), given.scale, share_h,
        **_constants(given, cut),
    )  # fmt: skip
    return means, over_v, over_h.squeeze(1) if parts == 1 else over_h.sum(1)


def _descriptors(given: Operands, cut: Cut) -> list[TensorDescriptor]:
    k0, k1 = _pieces_of(given)
    return [
        TensorDescriptor.from_tensor(x.flatten(0, 1), [size, cut.units])
        for x in (given.xh if given.dense else given.xv, given.xh)
        for size in (k0, k1 or 16)
    ]


def _pieces_of(given: Operands) -> tuple[int, int]:
    rows = given.xh.shape[1]
    return (rows, 0) if given.dense else pieces(rows)


def _constants(given: Operands, cut: Cut) -> dict[str, object]:
    k0, k1 = _pieces_of(given)
    return {
        "K0": k0,
        "K1": k1,
        "M": cut.chains,
        "N": cut.units,
        "DENSE": given.dense,
        "BIAS": given.biased,
        "PRECISION": given.precision,
        "num_warps": cut.warps,
        "num_stages": cut.stages,
    }
