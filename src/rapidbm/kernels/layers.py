"""A layer drawn, or at its means, from all couplings to the other layer: one product, one kernel.

    f = s J + bias,        s' ~ p(s | β f)  or  s' = tanh f                               (1)

For dense couplings, and for patterns when there are too few chains to fill the chip with blocks of them.
Random numbers are those of `chains`, so that both draw the same spins but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from .chains import LOG2E, Cut, _drawn, _words

ACROSS = 64  # units of the other layer per step; layers are padded to multiples of it


@triton.jit
def _layer_kernel(
    given, j, out, bias, beta, seed_at,
    chains, units, wide_in, wide_out, beta_e, beta_c, phase,
    M: tl.constexpr, N: tl.constexpr, A: tl.constexpr, TURNED: tl.constexpr, BIAS: tl.constexpr,
    DRAW: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(2).to(tl.int64)
    first, left = tl.program_id(1) * M, tl.program_id(0) * N
    c, cols = first + tl.arange(0, M), left + tl.arange(0, N)
    row = (e * chains).to(tl.int32) + first
    f = tl.zeros((M, N), tl.float32)
    for a in range(0, wide_in, A):
        s = given.load([row, a])
        if TURNED:
            x = tl.trans(j.load([(e * wide_out).to(tl.int32) + left, a]))
        else:
            x = j.load([(e * wide_in).to(tl.int32) + a, left])
        f = tl.dot(s, x, f, input_precision=PRECISION)
    if BIAS:
        f += tl.load(bias + e * wide_out + cols)[None, :]
    line = e * chains + c
    if DRAW:
        beta = tl.load(beta + e * beta_e + c * beta_c, mask=c < chains, other=0.0)
        words = _words(tl.load(seed_at), line.to(tl.int32), left, phase, M, N)
        new = _drawn(f, words, (beta * (-2.0 * LOG2E))[:, None])
    else:
        new = 1.0 - 2.0 / (1.0 + tl.exp2(f * (2.0 * LOG2E)))
    new = tl.where((cols < units)[None, :], new, 0.0).to(out.dtype.element_ty)
    tl.store(out + line[:, None] * wide_out + cols[None, :], new, mask=(c < chains)[:, None])


@dataclass(frozen=True)
class Couplings:
    """J (e, wide_v, wide_h) and biases, padded with zeros to multiples of `ACROSS`."""

    visible: int
    hidden: int
    j: Tensor
    bias_v: Tensor  # (e, wide_v), empty for none
    bias_h: Tensor
    precision: str


@dataclass(frozen=True)
class _Layer:
    """What a launch needs of one layer as the one that is drawn."""

    units: int
    bias: Tensor
    j: TensorDescriptor
    turned: bool


def _layers(given: Couplings, cut: Cut) -> tuple[_Layer, _Layer]:
    flat = given.j.flatten(0, 1)
    across = TensorDescriptor.from_tensor(flat, [ACROSS, cut.units])
    turned = TensorDescriptor.from_tensor(flat, [cut.units, ACROSS])
    return (
        _Layer(given.visible, given.bias_v, turned, True),
        _Layer(given.hidden, given.bias_h, across, False),
    )


def _launch(
    layer: _Layer, given: Couplings, spins: Tensor, source: TensorDescriptor, out: Tensor, cut: Cut,
    beta: Tensor | None = None, seed: Tensor | None = None, phase: int = 0,
) -> None:  # fmt: skip
    """Eq. (1) from the other layer's spins (e, c, wide) into `out`, padded like them."""
    e, c, wide_in = spins.shape
    wide_out = out.shape[2]
    unused = spins
    _layer_kernel[(triton.cdiv(wide_out, cut.units), triton.cdiv(c, cut.chains), e)](
        source, layer.j, out, layer.bias if layer.bias.numel() else unused,
        unused if beta is None else beta, unused if seed is None else seed,
        c, layer.units, wide_in, wide_out, *((0, 0) if beta is None else beta.stride()), phase,
        M=cut.chains, N=cut.units, A=ACROSS, TURNED=layer.turned, BIAS=layer.bias.numel() > 0,
        DRAW=beta is not None, PRECISION=given.precision, num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip


def _source(spins: Tensor, cut: Cut) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(spins.flatten(0, 1), [cut.chains, ACROSS])


def padded(spins: Tensor, like: Tensor, wide: int) -> Tensor:
    """Spins (e, c, n) in the type of J, with zeros up to `wide`."""
    whole = torch.zeros((*spins.shape[:2], wide), dtype=like.dtype, device=like.device)
    whole[..., : spins.shape[2]] = spins
    return whole


def sample(
    given: Couplings, visible: Tensor, beta: Tensor, seed: Tensor, sweeps: int, cut: Cut
) -> Tensor:
    """The same as `chains.sample`, a kernel per half-sweep."""
    v = padded(visible, given.j, given.j.shape[1])
    h = v.new_empty((*v.shape[:2], given.j.shape[2]))
    of_v, of_h = _layers(given, cut)
    from_v, from_h = _source(v, cut), _source(h, cut)
    for number in range(sweeps):
        _launch(of_h, given, v, from_v, h, cut, beta, seed, 2 * number)
        _launch(of_v, given, h, from_h, v, cut, beta, seed, 2 * number + 1)
    both = (v[..., : given.visible], h[..., : given.hidden])
    return torch.cat(both, -1).to(torch.float32)


def hidden_means(given: Couplings, visible: Tensor, cut: Cut) -> Tensor:
    """tanh of the fields on the hidden units, (e, c, wide_h)."""
    v = padded(visible, given.j, given.j.shape[1])
    means = v.new_empty((*v.shape[:2], given.j.shape[2]))
    _, of_h = _layers(given, cut)
    _launch(of_h, given, v, _source(v, cut), means, cut)
    return means
