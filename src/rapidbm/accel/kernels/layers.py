"""A layer drawn, or at its means, from the other one: products of matrices, and a kernel per layer.

    f = s J + bias,        s' ~ p(s | β f + push)  or  s' = tanh(f + push)                (1)

For dense couplings, and for patterns when there are too few chains to fill the chip with blocks of them.
With many patterns, or units that are pushed or held, the field goes through the overlaps,

    m = s ξᵀ / √K,        f = m ξ' + bias                                                 (2)

a product of its own and one in the kernel. Random numbers are those of `chains`, so that all draw the
same spins but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from .chains import LOG2E, Cut, Settings, _drawn, _words

ROOM = 64  # beyond a layer's biases, for the last tile
COPIED = 1024  # spins that a block of the last kernel writes at a time


@triton.jit(do_not_specialize=["phase", "place"])
def _layer_kernel(
    given, x, out, bias, beta, push, held, seed_at,
    chains, whole, units, wide_in, wide_out, bias_e, beta_e, beta_c, push_e, push_c, place, phase,
    M: tl.constexpr, N: tl.constexpr, A: tl.constexpr, TURNED: tl.constexpr, BIAS: tl.constexpr,
    DRAW: tl.constexpr, PUSH: tl.constexpr, HELD: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(2).to(tl.int64)
    first, left = tl.program_id(0) * M, tl.program_id(1) * N
    c, cols = first + tl.arange(0, M), left + tl.arange(0, N)
    row = (e * whole).to(tl.int32) + first
    f = tl.zeros((M, N), tl.float32)
    if BIAS:
        f += tl.load(bias + e * bias_e + cols)[None, :]
    for a in range(0, wide_in, A):
        s = given.load([row, a])
        if TURNED:
            tile = tl.trans(x.load([(e * wide_out).to(tl.int32) + left, a]))
        else:
            tile = x.load([(e * wide_in).to(tl.int32) + a, left])
        f = tl.dot(s, tile, f, input_precision=PRECISION)
    at = c[:, None].to(tl.int64)
    push += e * push_e + at * push_c + place
    there = (c < chains)[:, None] & (cols < units)[None, :]
    if DRAW:
        steep = tl.load(beta + e * beta_e + c * beta_c, mask=c < chains, other=0.0) * (-2.0 * LOG2E)
        words = _words(tl.load(seed_at), (e * chains + c).to(tl.int32), left, phase, M, N)
        new = _drawn(f * steep[:, None], words, push, push, cols, there, PUSH, False)
    else:
        if PUSH:
            f += tl.load(push + cols[None, :], mask=there, other=0.0)
        new = 1.0 - 2.0 / (1.0 + tl.exp2(f * (2.0 * LOG2E)))
    new = new.to(out.dtype)
    if HELD:
        value = held.load([row, left])
        new = tl.where(value == value, value, new)  # noqa: PLR0124 (NaN)
    out.store([row, left], new)


@triton.jit
def _split_kernel(
    out, spins, keep, place, chains, whole, units, wide, spins_e, spins_c, keep_e, keep_c,
    N: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Units of one layer, from number `place` on, with zeros up to whole blocks and tiles; with KEPT only
    those that stay, NaN for the others."""
    e, c = tl.program_id(2).to(tl.int64), tl.program_id(0)  # only the first axis is long
    unit = tl.program_id(1) * N + tl.arange(0, N)
    there = unit < tl.where(c < chains, units, 0)
    s = tl.load(spins + e * spins_e + c.to(tl.int64) * spins_c + place + unit, mask=there, other=0)
    s = s.to(out.dtype.element_ty)
    if KEPT:
        stays = tl.load(keep + e * keep_e + c.to(tl.int64) * keep_c + place + unit, mask=there, other=1)
        s = tl.where(stays != 0, s, float("nan"))
    tl.store(out + (e * whole + c) * wide + unit, s, mask=unit < wide)


@triton.jit
def _join_kernel(
    out, v, h, spins, keep, chains, whole, visible, hidden, wide_v, wide_h, spins_e, spins_c, keep_e,
    keep_c, N: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Spins of both layers side by side, in float32; with KEPT, those that stay to the digit."""
    e, c = tl.program_id(2).to(tl.int64), tl.program_id(0)
    unit = tl.program_id(1) * N + tl.arange(0, N)
    seen, units = unit < visible, visible + hidden
    line = e * whole + c
    first = tl.load(v + line * wide_v + unit, mask=seen, other=0)
    second = tl.load(h + line * wide_h + unit - visible, mask=(unit >= visible) & (unit < units), other=0)
    s = tl.where(seen, first.to(tl.float32), second.to(tl.float32))
    if KEPT:
        there, at = unit < units, c.to(tl.int64)
        stays = tl.load(keep + e * keep_e + at * keep_c + unit, mask=there, other=0)
        old = tl.load(spins + e * spins_e + at * spins_c + unit, mask=there, other=0).to(tl.float32)
        s = tl.where(stays != 0, old, s)
    tl.store(out + (e * chains + c) * units + unit, s, mask=unit < units)


@dataclass(frozen=True)
class Couplings:
    """J (e, wide_v, wide_h), or ξ_v (e, K, wide_v) and ξ_h (e, K, wide_h) with J = scale · ξ_vᵀ ξ_h,
    padded with zeros; biases have `ROOM` more."""

    visible: int
    hidden: int
    values: tuple[Tensor] | tuple[Tensor, Tensor]
    bias_v: Tensor  # (e, wide_v + ROOM), empty for none
    bias_h: Tensor
    precision: str
    scale: float = 1.0

    @property
    def wide(self) -> tuple[int, int]:
        if len(self.values) == 1:
            return self.values[0].shape[1], self.values[0].shape[2]
        return self.values[0].shape[2], self.values[1].shape[2]


class _Layers:
    """Both layers of some chains, (e, whole, wide) each, in whole blocks, and how one is made from the
    other."""

    def __init__(self, given: Couplings, visible: Tensor, cut: Cut) -> None:
        self.given, self.cut = given, cut
        e, self.chains, _ = visible.shape
        self.whole = triton.cdiv(self.chains, cut.chains) * cut.chains
        self.through = len(given.values) == 2
        like = given.values[0]
        self.spins = tuple(like.new_empty((e, self.whole, wide)) for wide in given.wide)
        self.overlaps = like.new_empty((e, self.whole, like.shape[1] if self.through else 0))
        self.split(visible, 0, self.spins[0])
        self.tiles = [self._tiles_for(layer) for layer in (0, 1)]

    def _tiles_for(self, layer: int) -> tuple[TensorDescriptor, ...]:
        """Of what a layer is made from, the couplings, and the layer itself."""
        cut, values = self.cut, self.given.values
        source = self.overlaps if self.through else self.spins[1 - layer]
        x = values[layer if self.through else 0]
        turned = layer == 0 and not self.through
        size = (cut.units, cut.across) if turned else (cut.across, cut.units)
        out = _tiles(self.spins[layer], cut.chains, cut.units)
        return _tiles(source, cut.chains, cut.across), _tiles(x, *size), out

    def split(self, spins: Tensor, layer: int, out: Tensor, keep: Tensor | None = None) -> None:
        """The units of a layer, of spins (e, c, n), as `out`; or those that `keep` (e, c, n) says."""
        units = (self.given.visible, self.given.hidden)[layer]
        spins = spins if spins.stride(2) == 1 else spins.contiguous()
        blocks = (self.whole, triton.cdiv(out.shape[2], COPIED), out.shape[0])
        stays = spins if keep is None else keep
        _split_kernel[blocks](
            out, spins, stays, layer * self.given.visible, self.chains, self.whole, units, out.shape[2],
            *spins.stride()[:2], *stays.stride()[:2], N=COPIED, KEPT=keep is not None,
        )  # fmt: skip

    def kept(self, spins: Tensor, keep: Tensor) -> list[TensorDescriptor]:
        """The values that stay, of each layer."""
        found = []
        for layer, like in enumerate(self.spins):
            values = torch.empty_like(like)
            self.split(spins, layer, values, keep)
            found.append(_tiles(values, self.cut.chains, self.cut.units))
        return found

    def maker(
        self, layer: int, how: Settings | None = None, push: Tensor | None = None, place: int = 0,
        held: TensorDescriptor | None = None,
    ) -> Callable[[int], None]:  # fmt: skip
        """Eq. (1) on a layer, by the number of the half-sweep: drawn, or at its means; its push begins at
        unit `place`. What all launches share is put together once."""
        given, cut, out = self.given, self.cut, self.spins[layer]
        other = self.spins[1 - layer]
        patterns = given.values[1 - layer] if self.through else other
        source, x, tiles = self.tiles[layer]
        e, _, wide_out = out.shape
        none = out[..., 0]  # nobody reads it
        beta, seed = (none, none) if how is None else (how.beta, how.seed)
        bias = given.bias_h if layer else given.bias_v
        pushed = none[None] if push is None else push
        kernel = _layer_kernel[(self.whole // cut.chains, triton.cdiv(wide_out, cut.units), e)]
        shared = (
            source, x, tiles, bias if bias.numel() else none, beta, pushed, held or none, seed,
            self.chains, self.whole, (given.visible, given.hidden)[layer], source.shape[1], wide_out,
            bias.shape[1], *beta.stride(), *pushed.stride()[:2], place,
        )  # fmt: skip
        constants = {
            "M": cut.chains,
            "N": cut.units,
            "A": cut.across,
            "TURNED": layer == 0 and not self.through,
            "BIAS": bias.numel() > 0,
            "DRAW": how is not None,
            "PUSH": push is not None,
            "HELD": held is not None,
            "PRECISION": given.precision,
            "num_warps": cut.warps,
            "num_stages": cut.stages,
        }

        def make(phase: int) -> None:
            if self.through:
                _gather(other, patterns, given.scale, self.overlaps)
            kernel(*shared, phase, **constants)

        return make

    def joined(self, spins: Tensor, keep: Tensor | None) -> Tensor:
        """All units in float32, (e, c, n); those of `keep` as they are in `spins`."""
        given, (v, h) = self.given, self.spins
        units = given.visible + given.hidden
        out = torch.empty((v.shape[0], self.chains, units), dtype=torch.float32, device=v.device)
        stays = spins if keep is None else keep
        _join_kernel[(self.chains, triton.cdiv(units, COPIED), v.shape[0])](
            out, v, h, spins, stays, self.chains, self.whole, given.visible, given.hidden, v.shape[2],
            h.shape[2], *spins.stride()[:2], *stays.stride()[:2], N=COPIED, KEPT=keep is not None,
        )  # fmt: skip
        return out


def _gather(spins: Tensor, xi: Tensor, scale: float, out: Tensor) -> None:
    """The overlaps of eq. (2)."""
    if out.is_cuda:
        torch.baddbmm(out, spins, xi.mT, beta=0.0, alpha=scale, out=out)
    else:
        out.copy_((spins.float() @ xi.float().mT) * scale)


def _tiles(values: Tensor, rows: int, columns: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(values.flatten(0, 1), [rows, columns])


def sample(
    given: Couplings, spins: Tensor, how: Settings, cut: Cut, keep: Tensor | None = None
) -> Tensor:
    """The same as `chains.sample`, a kernel per half-sweep; units of `keep` (e, c, n) stay."""
    both, v = _Layers(given, spins, cut), given.visible
    held = [None, None] if keep is None else both.kept(spins, keep)
    hidden, visible = both.maker(1, how, how.push, v, held[1]), both.maker(0, how, how.push, 0, held[0])
    for number in range(how.sweeps):
        hidden(2 * number)
        visible(2 * number + 1)
    return both.joined(spins, keep)


def hidden_means(given: Couplings, visible: Tensor, cut: Cut) -> Tensor:
    """tanh of the fields on the hidden units, (e, c, wide_h)."""
    both = _Layers(given, visible, cut)
    both.maker(1)(0)
    return both.spins[1][:, : both.chains]


def relaxed(given: Couplings, push: Tensor, rounds: int, cut: Cut) -> tuple[Tensor, Tensor]:
    """Both layers at their means in each other's field, after so many rounds from 0, the hidden one
    first, with a push (e, c, hidden)."""
    both = _Layers(given, push.new_zeros((*push.shape[:2], given.visible)), cut)
    hidden, visible = both.maker(1, push=push), both.maker(0)
    for _ in range(rounds):
        hidden(0)
        visible(0)
    v, h = (x[:, : both.chains].float() for x in both.spins)
    return v[..., : given.visible], h[..., : given.hidden]
