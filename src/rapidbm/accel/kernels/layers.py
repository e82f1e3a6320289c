"""A layer drawn, or at its means, from all couplings to the other layer: one product, one kernel.

    f = s J + bias,        s' ~ p(s | β f + push)  or  s' = tanh(f + push)                (1)

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

from .chains import LOG2E, Cut, Settings, _drawn, _words, padded

ACROSS = 64  # units of the other layer per step; layers are padded to multiples of it


@triton.jit(do_not_specialize=["phase", "place"])
def _layer_kernel(
    given, j, out, bias, beta, push, held, seed_at,
    chains, units, wide_in, wide_out, beta_e, beta_c, push_e, push_c, held_e, held_c, place, phase,
    M: tl.constexpr, N: tl.constexpr, A: tl.constexpr, TURNED: tl.constexpr, BIAS: tl.constexpr,
    DRAW: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(2).to(tl.int64)
    first, left = tl.program_id(0) * M, tl.program_id(1) * N
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
        f += tl.load(bias + e * wide_out + cols, mask=cols < wide_out, other=0.0)[None, :]
    line = e * chains + c
    if DRAW:
        beta = tl.load(beta + e * beta_e + c * beta_c, mask=c < chains, other=0.0)
        words = _words(tl.load(seed_at), line.to(tl.int32), left, phase, M, N)
        at = c[:, None].to(tl.int64)
        push += e * push_e + at * push_c + place
        held += e * held_e + at * held_c + place
        there = (c < chains)[:, None] & (cols < units)[None, :]
        steep = (beta * (-2.0 * LOG2E))[:, None]
        new = _drawn(f * steep, words, push, held, cols, there, PUSH, HELD)
    else:
        if PUSH:  # on the units of this layer alone
            push += e * push_e + c[:, None].to(tl.int64) * push_c + cols[None, :]
            f += tl.load(push, mask=(c < chains)[:, None] & (cols < units)[None, :], other=0.0)
        new = 1.0 - 2.0 / (1.0 + tl.exp2(f * (2.0 * LOG2E)))
    new = tl.where((cols < units)[None, :], new, 0.0).to(out.dtype.element_ty)
    inside = (c < chains)[:, None] & (cols < wide_out)[None, :]
    tl.store(out + line[:, None] * wide_out + cols[None, :], new, mask=inside)


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
    """What a launch needs of one layer as the one that is drawn; `place` is its first unit's."""

    units: int
    place: int
    bias: Tensor
    j: TensorDescriptor
    turned: bool


def _layers(given: Couplings, cut: Cut) -> tuple[_Layer, _Layer]:
    flat = given.j.flatten(0, 1)
    across = TensorDescriptor.from_tensor(flat, [ACROSS, cut.units])
    turned = TensorDescriptor.from_tensor(flat, [cut.units, ACROSS])
    return (
        _Layer(given.visible, 0, given.bias_v, turned, True),
        _Layer(given.hidden, given.visible, given.bias_h, across, False),
    )


def _launch(
    layer: _Layer, given: Couplings, source: TensorDescriptor, wide_in: int, out: Tensor, cut: Cut,
    how: Settings | None = None, phase: int = 0, more: Tensor | None = None,
) -> None:  # fmt: skip
    """Eq. (1) from the other layer's padded spins into `out` (e, c, wide): drawn, or at the means, with
    `more` (e, c, units) for a push."""
    e, c, wide_out = out.shape
    if how is None:
        beta, push, held, seed = out[..., 0], out, out, out  # nobody reads them
    else:
        (push, held), beta, seed = how.tensors(), how.beta, how.seed
    push = push if more is None else more
    bias = layer.bias if layer.bias.numel() else out
    _layer_kernel[(triton.cdiv(c, cut.chains), triton.cdiv(wide_out, cut.units), e)](
        source, layer.j, out, bias, beta, push, held, seed,
        c, layer.units, wide_in, wide_out, *beta.stride(), *push.stride()[:2], *held.stride()[:2],
        layer.place, phase,
        M=cut.chains, N=cut.units, A=ACROSS, TURNED=layer.turned, BIAS=layer.bias.numel() > 0,
        DRAW=how is not None, PUSH=more is not None or (how is not None and how.push is not None),
        HELD=how is not None and how.held is not None, PRECISION=given.precision,
        num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip


def _source(spins: Tensor, cut: Cut) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(spins.flatten(0, 1), [cut.chains, ACROSS])


def sample(given: Couplings, spins: Tensor, how: Settings, cut: Cut) -> Tensor:
    """The same as `chains.sample`, a kernel per half-sweep."""
    wide_v, wide_h = given.j.shape[1:]
    v = padded(spins[..., : given.visible], spins.shape[1], wide_v, given.j.dtype)
    h = v.new_empty((*v.shape[:2], wide_h))
    of_v, of_h = _layers(given, cut)
    from_v, from_h = _source(v, cut), _source(h, cut)
    for number in range(how.sweeps):
        _launch(of_h, given, from_v, wide_v, h, cut, how, 2 * number)
        _launch(of_v, given, from_h, wide_h, v, cut, how, 2 * number + 1)
    both = (v[..., : given.visible], h[..., : given.hidden])
    return torch.cat(both, -1).to(torch.float32)


def hidden_means(given: Couplings, visible: Tensor, cut: Cut) -> Tensor:
    """tanh of the fields on the hidden units, (e, c, wide_h)."""
    wide_v, wide_h = given.j.shape[1:]
    v = padded(visible, visible.shape[1], wide_v, given.j.dtype)
    means = v.new_empty((*v.shape[:2], wide_h))
    _, of_h = _layers(given, cut)
    _launch(of_h, given, _source(v, cut), wide_v, means, cut)
    return means


def relaxed(given: Couplings, push: Tensor, rounds: int, cut: Cut) -> tuple[Tensor, Tensor]:
    """Both layers at their means in each other's field, after so many rounds from 0, the hidden one
    first, with a push (e, c, hidden)."""
    wide_v, wide_h = given.j.shape[1:]
    v, h = (given.j.new_zeros((*push.shape[:2], wide)) for wide in (wide_v, wide_h))
    of_v, of_h = _layers(given, cut)
    from_v, from_h = _source(v, cut), _source(h, cut)
    for _ in range(rounds):
        _launch(of_h, given, from_v, wide_v, h, cut, more=push)
        _launch(of_v, given, from_h, wide_h, v, cut)
    return v[..., : given.visible].float(), h[..., : given.hidden].float()
