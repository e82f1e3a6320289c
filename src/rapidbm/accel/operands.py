"""What the kernels read of a machine, and how their work is cut."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from .rounding import current, in_triton, kind

if TYPE_CHECKING:
    from .kernels.chains import Cut, Operands
    from .kernels.layers import Couplings

T = TypeVar("T")
MOST_PATTERNS = {"float32": 128, "tf32": 192, "bf16": 192}  # whose overlaps fit into registers
FILLED = 48  # blocks of 64 chains from which on they keep the chip busy


@dataclass(frozen=True)
class BipartiteOperands:
    """Two layers, or sides, and all that couples them: J (e, v, h), or ξ (e, k, v + h) with
    J = scale · ξ_vᵀ ξ_h.

    `names` are those of the gradients with respect to the values and to the biases.
    """

    sizes: tuple[int, int]
    values: Tensor
    scale: float | None  # None for J itself
    biases: Tensor | None  # (e, v + h)
    names: tuple[str, str]
    fixed: bool = False  # in a training, whose launches are repeated by a graph
    made: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What kernels read of it in the precision of this moment, made when it is first asked for."""
        key = (what, current())
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found

    @property
    def dense(self) -> bool:
        return self.scale is None

    @property
    def replicas(self) -> int:
        return self.values.shape[0]

    @property
    def rows(self) -> int:
        """Rows of ξ, or of J in its place."""
        return self.values.shape[1]

    @property
    def device(self) -> torch.device:
        return self.values.device

    def of_layer(self, layer: int) -> Tensor:
        """ξ_l, (e, k, n_l)."""
        v = self.sizes[0]
        return self.values[..., :v] if layer == 0 else self.values[..., v:]

    def bias(self, layer: int) -> Tensor | None:
        """(e, n_l)."""
        if self.biases is None:
            return None
        return self.biases[:, : self.sizes[0]] if layer == 0 else self.biases[:, self.sizes[0] :]

    def matrix(self, a: int, b: int) -> Tensor:
        """J between the two layers, (e, n_a, n_b)."""
        if self.scale is None:
            return self.values if a < b else self.values.mT
        return (self.of_layer(a).mT @ self.of_layer(b)) * self.scale


def few_patterns(pair: BipartiteOperands) -> bool:
    return pair.rows <= MOST_PATTERNS[current()]


def cut_of(pair: BipartiteOperands, chains: int, *, drawing: bool) -> Cut:
    """Large blocks reuse each tile more often; small ones fill the chip when there are few chains.

    With float32 operands and 64 chains no tile is loaded ahead: Triton 3.6 loads it over the one that a
    product still reads. Nor are there eight warps, for which it turns three TF32 products of 16 columns
    into illegal reads. Products of 16 chains are of another kind, which waits by itself.
    """
    from .kernels.chains import Cut

    if pair.replicas * chains < 64 * FILLED:
        return Cut(chains=16, units=64, warps=4, stages=2)
    name, small = current(), pair.rows <= 192
    stages = 1 if name != "bf16" else 3 if small else 2
    whole = small and not drawing and pair.replicas * chains >= 2**16
    if whole and name != "float32":
        return Cut(64, 64, 4, min(stages, 2))
    return Cut(64, 32, 4, stages)


def layer_cut(pair: BipartiteOperands, chains: int, *, through: bool = False) -> Cut:
    """For a product with J, or `through` patterns: a short one, whose blocks share a multiprocessor."""
    from .kernels.chains import Cut

    least = min(pair.sizes)
    if through and current() == "bf16":
        small = pair.replicas * chains < 2**11 or -chains % 128 >= 64
        return Cut(chains=64 if small else 128, units=64, warps=4, stages=3)
    if pair.replicas * chains * least >= 132 * 128 * 128:
        return Cut(chains=128, units=128, warps=4 if current() == "bf16" else 8, stages=3)
    return Cut(chains=64, units=32, warps=4, stages=3, across=128 if current() == "bf16" else 64)


def wide(units: int) -> int:
    return -(-units // 64) * 64  # whole tiles of every cut of `chains`


def operands(pair: BipartiteOperands) -> Operands:
    """For `chains`."""
    return pair.once("operands", lambda: _operands(pair))


def _operands(pair: BipartiteOperands) -> Operands:
    from .kernels.chains import Operands, padded, pieces, power_of_two

    v, h = pair.sizes
    rows = power_of_two(v) if pair.dense else sum(pieces(pair.rows))
    xi, xh = pair.values, pair.values if pair.dense else pair.of_layer(1)
    bias_v, bias_h = padded_biases(pair, rows if pair.dense else wide(v), wide(h))
    return Operands(
        visible=v,
        hidden=h,
        patterns=pair.rows,
        xv=xi.new_empty((1, 1, 1)) if pair.dense else padded(xi[..., :v], rows, wide(v), kind()),
        xh=padded(xh, rows, wide(h), kind()),
        biased=pair.biases is not None,
        bias_v=bias_v,
        bias_h=bias_h,
        scale=pair.scale or 1.0,
        dense=pair.dense,
        precision=in_triton(),
    )


def matrix(pair: BipartiteOperands) -> Couplings:
    """J for `layers`."""
    return pair.once("matrix", lambda: _couplings(pair, _j(pair)))


def factors(pair: BipartiteOperands) -> Couplings:
    """ξ for `layers`."""
    return pair.once("factors", lambda: _couplings(pair, _xi(pair)))


def _j(pair: BipartiteOperands) -> tuple[Tensor]:
    from .kernels.chains import padded

    if pair.scale is None:
        return (padded(pair.values, wide(pair.sizes[0]), wide(pair.sizes[1]), kind()),)
    xv, xh = _xi(pair)
    return (torch.baddbmm(xv.new_empty(()), xv.mT, xh, beta=0.0, alpha=pair.scale),)


def _xi(pair: BipartiteOperands) -> tuple[Tensor, Tensor]:
    from .kernels.chains import padded

    if few_patterns(pair):  # the same that gradients read
        return operands(pair).xv, operands(pair).xh
    rows = wide(pair.rows)
    xv, xh = (padded(pair.of_layer(i), rows, wide(n), kind()) for i, n in enumerate(pair.sizes))
    return xv, xh


def _couplings(pair: BipartiteOperands, values: tuple[Tensor] | tuple[Tensor, Tensor]) -> Couplings:
    from .kernels.layers import ROOM, Couplings

    biases = padded_biases(pair, *(wide(n) + ROOM for n in pair.sizes))
    return Couplings(*pair.sizes, values, *biases, in_triton(), pair.scale or 1.0)


def padded_biases(pair: BipartiteOperands, wide_v: int, wide_h: int) -> tuple[Tensor, Tensor]:
    from .kernels.chains import padded

    if pair.biases is None:
        none = torch.empty((pair.replicas, 0), dtype=torch.float32, device=pair.device)
        return none, none
    both, first = pair.biases[:, None], pair.sizes[0]
    v, h = both[..., :first], both[..., first:]
    return padded(v, 1, wide_v, v.dtype)[:, 0], padded(h, 1, wide_h, h.dtype)[:, 0]
