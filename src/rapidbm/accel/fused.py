"""Where fused kernels run instead of the plain path; the choice is made here and nowhere else.

They serve two layers that are coupled to each other alone, or two sides of a deep machine, in float32 on
a GPU. A function answers None
answers None when they do not, and the plain path goes on. `rounding` says how operands are stored.

Three roads, by what is measured (docs/performance.md): whole chains in a block of their own (`chains`)
for patterns and narrow dense machines; a kernel per layer (`layers`) for wide dense machines, and for
patterns whose chains are too few to fill the chip; all states of a narrow layer (`states`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import Tensor

from .elementwise import bits_of
from .rounding import current, in_triton, kind

if TYPE_CHECKING:
    from .kernels.chains import Cut, Operands
    from .kernels.layers import Couplings as Matrix

T = TypeVar("T")
DEVICES = ("cuda",)  # where kernels run; tests add "cpu", under Triton's interpreter
NARROW = 128  # visible units that dense couplings may have in `chains`
MOST_PATTERNS = {"float32": 128, "tf32": 192, "bf16": 384}  # beyond them cuBLAS wins
MOST_BITS = 20  # of the narrow layer whose states are summed over
FILLED = 48  # blocks of 64 chains from which on they keep the chip busy
WORTH = 2**24  # multiplications of a call from which on a kernel is worth its compilation
FEW_SPINS = 2**24  # beyond them copies cost more than launches
FEW_ROWS = 32  # measured on two cores: up to a fifth faster as one batch
ROOM = 2**33  # bytes that a matrix of couplings, or the hidden means of a call, may take
MOST_REPLICAS = 65_535  # blocks of one axis of a launch

_refused: set[tuple[str, str]] = set()  # kernels and precisions that are not tried any more


@dataclass(frozen=True)
class Pair:
    """Two layers, or sides, and all that couples them: J (e, v, h), or ξ (e, k, v + h) with
    J = scale · ξ_vᵀ ξ_h.

    `names` are those of the gradients with respect to the values and to the biases.
    """

    sizes: tuple[int, int]
    values: Tensor
    scale: float | None  # None for J itself
    biases: Tensor | None  # (e, v + h)
    names: tuple[str, str]

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


@cache
def _triton() -> bool:
    return find_spec("triton") is not None


def runs(values: Tensor, couplings: int = 0) -> bool:
    """Whether kernels run where these values (e, …) are, with so many couplings J (e, …) at most."""
    if values.device.type not in DEVICES or values.dtype != torch.float32 or len(values) > MOST_REPLICAS:
        return False
    return _triton() and len(values) * couplings * values.element_size() <= ROOM


def serves(pair: Pair | None) -> bool:
    """Whether the kernels know these couplings."""
    return pair is not None and runs(pair.values)


def joins(pair: Pair, rows: int) -> bool:
    """Whether both phases of a gradient go as one batch: with kernels, and where each has so few rows
    that calls cost more than products."""
    return rows <= FEW_ROWS or serves(pair)


def joined(data: Tensor, model: Tensor) -> bool:
    """The same of spins (e, c, n) that are written down: where kernels run, if they are few."""
    return runs(data) and data.numel() + model.numel() <= FEW_SPINS


def sweeps(
    pair: Pair | None,
    spins: Tensor,
    rng: torch.Generator,
    count: int,
    beta: float | Tensor,
    keep: Tensor | None = None,
    push: Tensor | None = None,
) -> Tensor | None:
    """`count` Gibbs sweeps of spins (e, c, n) at β, one or (…, c, 1); units of `keep` (e, c, n) stay, and
    `push` is added to β·field."""
    e, c, n = spins.shape
    if pair is None or not serves(pair) or not count * c:
        return None
    if count * e * c * n * pair.rows < WORTH:
        return None
    road = _road(pair, c, plain=keep is None and push is None)
    if road is None:
        return None
    work = partial(_sweeps, road, pair, spins, rng, count, beta, keep, push)
    return _tried(pair, road, work)


def _sweeps(
    road: str,
    pair: Pair,
    spins: Tensor,
    rng: torch.Generator,
    count: int,
    beta: float | Tensor,
    keep: Tensor | None,
    push: Tensor | None,
) -> Tensor:
    from .kernels import chains, layers

    e, c, n = spins.shape
    seed = torch.randint(2**63 - 1, (1,), generator=rng, device=rng.device)
    if isinstance(beta, Tensor):
        beta = beta.squeeze(-1).float()
    else:
        beta = torch.full((), beta, dtype=torch.float32, device=spins.device)
    if push is not None:
        push = _by_rows(push.float().expand(e, c, n))
    keep = None if keep is None else _by_rows(keep)
    spins = _by_rows(spins)
    how = chains.Settings(count, beta.expand(e, c), seed, push, keep)
    if road == "chains":
        return chains.sample(_operands(pair), spins, how, _cut(pair, c, drawing=True))
    return layers.sample(_matrix(pair), spins, how, _layer_cut(pair, c))


def _by_rows(values: Tensor) -> Tensor:
    """With the units of a chain side by side in memory, as the kernels read them."""
    return values if values.stride(-1) == 1 else values.contiguous()


def gradient(pair: Pair, visible: Tensor, weights: Tensor) -> dict[str, Tensor] | None:
    """∂⟨E⟩/∂θ over visible spins (e, c, v) with weights (e, c), hidden units at their means."""
    if not serves(pair) or not _gradient_served(pair):
        return None
    row = pair.replicas * pair.sizes[1] * kind().itemsize
    step = max(1, ROOM // row)
    total: dict[str, Tensor] = {}
    for some, shares in zip(torch.split(visible, step, 1), torch.split(weights, step, 1), strict=True):
        found = _tried(pair, "gradient", partial(_gradient, pair, some, shares))
        if found is None:
            return None
        total = {k: total[k].add_(v) for k, v in found.items()} if total else found
    return total


def mean_field(pair: Pair, visible: Tensor, rounds: int) -> Tensor | None:
    """Means of all units, (e, c, n), after so many rounds of tanh(field), from 0: the second side, then
    the first, whose first units are held at `visible` (e, c, v)."""
    work = rounds * visible.shape[0] * visible.shape[1] * pair.sizes[0] * pair.sizes[1]
    if not serves(pair) or work < WORTH:
        return None
    return _tried(pair, "mean field", partial(_mean_field, pair, visible, rounds))


def _mean_field(pair: Pair, visible: Tensor, rounds: int) -> Tensor:
    from .kernels import layers

    v, (first, second), j = visible.shape[2], pair.sizes, pair.matrix(0, 1)
    biases = None if pair.biases is None else pair.biases[:, v:]
    rest = Pair((first - v, second), j[:, v:], None, biases, pair.names)
    push = _product(visible.mT, j[:, :v])  # of what is held, once for all rounds
    cut = _layer_cut(rest, visible.shape[1])
    return torch.cat([visible, *layers.relaxed(_matrix(rest), push, rounds, cut)], -1)


def products(pair: Pair) -> tuple[Tensor, Tensor] | None:
    """⟨s_a s_b⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) over all states of a narrow layer."""
    bits = min(pair.sizes)
    if not serves(pair) or bits > MOST_BITS or pair.replicas * 2**bits * 20 > ROOM:
        return None
    return _tried(pair, "products", partial(_products, pair))


def _products(pair: Pair) -> tuple[Tensor, Tensor]:
    from .kernels import states as kernel

    narrow, wide = (0, 1) if pair.sizes[0] <= pair.sizes[1] else (1, 0)
    bits, units = pair.sizes[narrow], pair.sizes[wide]
    j = kernel.padded(pair.matrix(narrow, wide), pair.bias(wide))
    count = 2 ** (bits - (pair.biases is None))  # without biases one of v and −v stands for both
    logs = kernel.log_weights(j, bits, units, count, in_triton())
    means = [torch.zeros((pair.replicas, size), device=pair.device) for size in pair.sizes]
    bias = pair.bias(narrow)
    if bias is None:
        p = torch.softmax(logs, 1).float()
        product, _ = kernel.products(j, p, bits, units, in_triton())
    else:
        spins = bits_of(torch.arange(2**bits, device=pair.device), bits)
        logs += bias.double() @ spins.double().T
        p = torch.softmax(logs, 1).float()
        product, means[wide] = kernel.products(j, p, bits, units, in_triton())
        means[narrow] = p @ spins.float()
    return (product if narrow == 0 else product.mT), torch.cat(means, 1)


# -- how ----------------------------------------------------------------------------------------------


def _tried(pair: Pair, kernel: str, work: Callable[[], T]) -> T | None:
    """The work, launched on the GPU that holds the couplings; None, and the plain path from then on,
    where the compiler or the driver refuses the kernel in this precision."""
    if (kernel, current()) in _refused:
        return None
    if pair.device.type != "cuda":
        return work()
    try:
        with torch.cuda.device(pair.device):  # Triton launches on the current one
            return work()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a version of Triton raises
        _refused.add((kernel, current()))
        warnings.warn(
            f"the fused kernel for {kernel} does not run here in {current()} "
            f"({type(error).__name__}: {str(error)[:200]}); the plain path goes on, slower",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _road(pair: Pair, chains: int, *, plain: bool) -> Literal["chains", "layers"] | None:
    """By what was measured. Chains that are pushed or clamped, not `plain`, would overflow registers."""
    (v, h), k = pair.sizes, pair.rows
    if pair.dense:
        return "chains" if v <= NARROW else "layers"
    room = pair.replicas * v * h * kind().itemsize <= ROOM
    filled = pair.replicas * -(-chains // 64) >= FILLED
    cheap = 2 * k * (v + h) <= v * h  # fields through patterns, against fields through J
    if _few_patterns(pair) and (not room or (plain and filled and cheap)):
        return "chains"
    return "layers" if room and (current() == "bf16" or not (filled and cheap)) else None


def _gradient_served(pair: Pair) -> bool:
    if pair.dense:
        return pair.sizes[0] <= NARROW or current() == "bf16"
    return _few_patterns(pair)


def _few_patterns(pair: Pair) -> bool:
    return pair.rows <= MOST_PATTERNS[current()]


def _cut(pair: Pair, chains: int, *, drawing: bool) -> Cut:
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


def _layer_cut(pair: Pair, chains: int) -> Cut:
    from .kernels.chains import Cut

    least = min(pair.sizes)
    if pair.replicas * chains * least >= 132 * 128 * 128:
        return Cut(chains=128, units=128, warps=8, stages=3)
    return Cut(chains=64, units=32, warps=4, stages=4)


def _wide(units: int) -> int:
    return -(-units // 64) * 64  # whole tiles of every cut of `chains`


def _operands(pair: Pair) -> Operands:
    from .kernels.chains import Operands, padded, pieces, power_of_two

    v, h = pair.sizes
    rows = power_of_two(v) if pair.dense else sum(pieces(pair.rows))
    xi, xh = pair.values, pair.values if pair.dense else pair.of_layer(1)
    bias_v, bias_h = _padded_biases(pair, rows if pair.dense else _wide(v), _wide(h))
    return Operands(
        visible=v,
        hidden=h,
        xv=xi.new_empty((1, 1, 1)) if pair.dense else padded(xi[..., :v], rows, _wide(v), kind()),
        xh=padded(xh, rows, _wide(h), kind()),
        bias_v=bias_v,
        bias_h=bias_h,
        scale=pair.scale or 1.0,
        dense=pair.dense,
        precision=in_triton(),
    )


def _matrix(pair: Pair) -> Matrix:
    from .kernels.chains import padded
    from .kernels.layers import Couplings

    v, h = (_wide(size) for size in pair.sizes)
    if pair.scale is None:
        j = padded(pair.values, v, h, kind())
    else:
        xv, xh = (padded(pair.of_layer(i), pair.rows, n, kind()) for i, n in enumerate((v, h)))
        j = torch.baddbmm(xv.new_empty(()), xv.mT, xh, beta=0.0, alpha=pair.scale)
    return Couplings(*pair.sizes, j, *_padded_biases(pair, v, h), in_triton())


def _padded_biases(pair: Pair, wide_v: int, wide_h: int) -> tuple[Tensor, Tensor]:
    from .kernels.chains import padded

    if pair.biases is None:
        none = torch.empty((pair.replicas, 0), dtype=torch.float32, device=pair.device)
        return none, none
    both, first = pair.biases[:, None], pair.sizes[0]
    v, h = both[..., :first], both[..., first:]
    return padded(v, 1, wide_v, v.dtype)[:, 0], padded(h, 1, wide_h, h.dtype)[:, 0]


def _gradient(pair: Pair, visible: Tensor, weights: Tensor) -> dict[str, Tensor]:
    from .kernels import chains, layers

    e, c, v = visible.shape
    visible = visible.to(kind())
    h, k = pair.sizes[1], pair.rows
    found, (name, of_biases) = {}, pair.names
    if pair.dense and v > NARROW:
        means = layers.hidden_means(_matrix(pair), visible, _layer_cut(pair, c))
        found[name] = _weighted(-weights, visible, means)[..., :h]
    else:
        given, cut = _operands(pair), _cut(pair, c, drawing=False)
        parts = 1 if given.dense or e * c >= 64 * FILLED else 4
        signed = weights * -given.scale
        means, over_v, over_h = chains.hidden_means(given, visible, signed, cut, parts)
        if given.dense:
            found[name] = _weighted(-weights, visible, means)[..., :h]
        else:
            both = [_product(over_h, visible)[:, :k], _product(over_v, means)[:, :k, :h]]
            found[name] = torch.cat(both, -1)
    if pair.biases is not None:
        one = torch.ones((), dtype=visible.dtype, device=visible.device).expand(e, c, 1)
        both = [_weighted(-weights, one, x) for x in (visible, means)]
        found[of_biases] = torch.cat([both[0], both[1][..., :h]], -1).squeeze(1)
    return found


def _weighted(weights: Tensor, spins: Tensor, b: Tensor) -> Tensor:
    """Σ_c w_c s_c b_c of spins (e, c, k), ±1, and (e, c, n).

    A weight is the same for many rows, and rounded it would favour one of the two phases: it comes as a
    sum of two numbers that low precision holds.
    """
    high = weights.to(torch.bfloat16).to(weights.dtype)
    parts = (high, weights - high)
    first, second = (_product(w[..., None] * spins.to(w.dtype), b) for w in parts)
    return first.add_(second)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ b of (e, c, k) and (e, c, n) in float32, rounded as `precision` says."""
    stored = kind()
    if stored == torch.bfloat16 and a.is_cuda:
        return torch.bmm(a.to(stored).mT, b.to(stored), out_dtype=torch.float32)
    return a.to(stored).float().mT @ b.to(stored).float()
