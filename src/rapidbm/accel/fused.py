"""Where fused kernels run instead of the plain path; the choice is made here and nowhere else.

They serve two layers that are coupled to each other alone, or two sides of a deep machine, in float32 on
a GPU. A function answers None when they do not, and the plain path goes on. `rounding` says how operands
are stored.

Four roads, by what is measured (docs/performance.md): whole chains in a block of their own (`chains`) for
patterns and narrow dense machines; a kernel per layer (`layers`) with all couplings, for wide dense
machines and for patterns whose chains are too few to fill the chip, or with the patterns themselves, for
more of them than a block's registers hold and for units that are held or pushed; all states of a narrow
layer (`states`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Literal, TypeVar

import torch
from torch import Tensor

from .elementwise import bits_of
from .operands import (
    FILLED,
    BipartiteOperands,
    cut_of,
    factors,
    few_patterns,
    layer_cut,
    matrix,
    operands,
)
from .rounding import current, in_triton, kind

T = TypeVar("T")
Road = Literal["chains", "layers", "patterns"]
DEVICES = ("cuda",)  # where kernels run; tests add "cpu", under Triton's interpreter
NARROW = 128  # visible units that dense couplings may have in `chains`
MOST_BITS = 20  # of the narrow layer whose states are summed over
WORTH = 2**24  # multiplications of a call from which on a kernel is worth its compilation
LONG = 2**31  # multiplications of a gradient that is worth launches of its own
FEW_TERMS = 2**30  # chains times couplings, below which J is worth building in bf16
BUSY = 120  # blocks of 64 chains that keep the chip busier than layers whose launches cost nothing
FEW_SPINS = 2**24  # beyond them copies cost more than launches
FEW_ROWS = 32  # measured on two cores: up to a fifth faster as one batch
FEW_PRODUCTS = 2**23  # multiplications of a phase up to which it is no slower, on one core or two
ROOM = 2**33  # bytes that a matrix of couplings, or the hidden means of a call, may take
MOST_REPLICAS = 65_535  # blocks of one axis of a launch

_refused: set[tuple[str, str]] = set()  # kernels and precisions that are not tried any more


@cache
def _triton() -> bool:
    return find_spec("triton") is not None


def runs(values: Tensor, couplings: int = 0) -> bool:
    """Whether kernels run where these values (e, …) are, with so many couplings J (e, …) at most."""
    if values.device.type not in DEVICES or values.dtype != torch.float32 or len(values) > MOST_REPLICAS:
        return False
    return _triton() and len(values) * couplings * values.element_size() <= ROOM


def serves(pair: BipartiteOperands | None) -> bool:
    """Whether the kernels know these couplings."""
    return pair is not None and runs(pair.values)


def joins(pair: BipartiteOperands, rows: int) -> bool:
    """Whether both phases of a gradient go as one batch: with kernels, and where each has so few rows
    that calls cost more than products."""
    few = rows <= FEW_ROWS or pair.replicas * rows * pair.rows * sum(pair.sizes) <= FEW_PRODUCTS
    return few or serves(pair)


def long(pair: BipartiteOperands, rows: int) -> bool:
    """Whether the gradient over so many rows goes on its own, beside the sampling of the other phase: one
    that takes long enough."""
    work = pair.replicas * rows * pair.rows * sum(pair.sizes)
    return serves(pair) and _gradient_served(pair) and work >= LONG


def ready(pair: BipartiteOperands | None, chains: int) -> None:
    """Makes what both phases read, so that they may go beside each other, and what one of them waits for;
    so many chains are drawn, or as many as there are patterns."""
    if pair is None or not serves(pair) or not _gradient_served(pair):
        return
    if not pair.dense:
        (operands if few_patterns(pair) else factors)(pair)
    elif pair.sizes[0] <= NARROW:
        operands(pair)
    if _road(pair, chains or pair.rows, plain=True) == "layers":
        matrix(pair)


def joined(data: Tensor, model: Tensor) -> bool:
    """The same of spins (e, c, n) that are written down: where kernels run, if they are few."""
    return runs(data) and data.numel() + model.numel() <= FEW_SPINS


def sweeps(
    pair: BipartiteOperands | None,
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

    def work() -> Tensor:
        from .kernels import chains, layers

        seed = torch.randint(2**63 - 1, (1,), generator=rng, device=rng.device)
        if isinstance(beta, Tensor):
            betas = beta.squeeze(-1).float()
        else:
            betas = torch.full((), beta, dtype=torch.float32, device=spins.device)
        pushed = None if push is None else _by_rows(push.float().expand(e, c, n))
        start = _by_rows(spins)
        kept = None if keep is None else _by_rows(keep.expand(e, c, n))
        how = chains.Settings(count, betas.expand(e, c), seed, pushed)
        if road != "chains":
            through = road == "patterns"
            given = factors(pair) if through else matrix(pair)
            return layers.sample(given, start, how, layer_cut(pair, c, through=through), kept)
        if kept is not None:
            how = replace(how, held=torch.where(kept, start, torch.nan).to(kind()))
        swept = chains.sample(operands(pair), start, how, cut_of(pair, c, drawing=True))
        return swept if kept is None else torch.where(kept, start, swept)  # to the digit

    return tried(pair.device, road, work)


def _by_rows(values: Tensor) -> Tensor:
    """With the units of a chain side by side in memory, as the kernels read them."""
    return values if values.stride(-1) == 1 else values.contiguous()


def gradient(pair: BipartiteOperands, visible: Tensor, weights: Tensor) -> dict[str, Tensor] | None:
    """∂⟨E⟩/∂θ over visible spins (e, c, v) with weights (e, c), hidden units at their means."""
    if not serves(pair) or not _gradient_served(pair):
        return None
    row = pair.replicas * pair.sizes[1] * kind().itemsize
    step = max(1, ROOM // row)
    total: dict[str, Tensor] = {}
    for some, shares in zip(torch.split(visible, step, 1), torch.split(weights, step, 1), strict=True):
        found = tried(pair.device, "gradient", partial(_gradient, pair, some, shares))
        if found is None:
            return None
        total = {k: total[k].add_(v) for k, v in found.items()} if total else found
    return total


def mean_field(pair: BipartiteOperands, visible: Tensor, rounds: int) -> Tensor | None:
    """Means of all units, (e, c, n), after so many rounds of tanh(field), from 0: the second side, then
    the first, whose first units are held at `visible` (e, c, v)."""
    work = rounds * visible.shape[0] * visible.shape[1] * pair.sizes[0] * pair.sizes[1]
    if not serves(pair) or work < WORTH:
        return None

    def relaxed() -> Tensor:
        from .kernels import layers

        v, (first, second), j = visible.shape[2], pair.sizes, pair.matrix(0, 1)
        biases = None if pair.biases is None else pair.biases[:, v:]
        rest = BipartiteOperands((first - v, second), j[:, v:], None, biases, pair.names)
        push = _product(visible.mT, j[:, :v])  # of what is held, once for all rounds
        cut = layer_cut(rest, visible.shape[1])
        return torch.cat([visible, *layers.relaxed(matrix(rest), push, rounds, cut)], -1)

    return tried(pair.device, "mean field", relaxed)


def products(pair: BipartiteOperands) -> tuple[Tensor, Tensor] | None:
    """⟨s_a s_b⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) over all states of a narrow layer."""
    bits = min(pair.sizes)
    if not serves(pair) or bits > MOST_BITS or pair.replicas * 2**bits * 20 > ROOM:
        return None
    return tried(pair.device, "products", partial(_products, pair))


def _products(pair: BipartiteOperands) -> tuple[Tensor, Tensor]:
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


def tried(device: torch.device, kernel: str, work: Callable[[], T]) -> T | None:
    """The work, launched on this GPU; None, and the plain path from then on, where the compiler or the
    driver refuses the kernel in this precision."""
    if (kernel, current()) in _refused:
        return None
    if device.type != "cuda":
        return work()
    try:
        with torch.cuda.device(device):  # Triton launches on the current one
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


def _road(pair: BipartiteOperands, chains: int, *, plain: bool) -> Road | None:
    """By what was measured. Chains that are pushed or held, not `plain`, overflow the registers of
    `chains`."""
    (v, h), k = pair.sizes, pair.rows
    if pair.dense:
        return "chains" if v <= NARROW else "layers"
    blocks, bf16 = pair.replicas * -(-chains // 64), current() == "bf16"
    room = pair.replicas * v * h * kind().itemsize <= ROOM
    cheap = 2 * k * (v + h) <= v * h  # fields through patterns, against fields through J
    few = pair.replicas * chains * v * h < FEW_TERMS if bf16 else blocks < FILLED
    if room and (few or not cheap):
        return "layers"
    if bf16:
        busy = blocks >= (BUSY if pair.fixed else FILLED)
        return "chains" if plain and few_patterns(pair) and busy else "patterns"
    return "chains" if few_patterns(pair) and (plain or not room) else None


def _gradient_served(pair: BipartiteOperands) -> bool:
    if pair.dense:
        return pair.sizes[0] <= NARROW or current() == "bf16"
    return few_patterns(pair) or current() == "bf16"


def _gradient(pair: BipartiteOperands, visible: Tensor, weights: Tensor) -> dict[str, Tensor]:
    e, c, _ = visible.shape
    visible = visible.to(kind())
    h, k = pair.sizes[1], pair.rows
    found, (name, of_biases) = {}, pair.names
    if pair.scale is None:
        means = _dense_means(pair, visible)
        found[name] = _weighted(-weights, visible, means)[..., :h]
    else:
        signed = weights * -pair.scale
        by_chains = few_patterns(pair) and (current() != "bf16" or e * c >= 64 * FILLED)
        overlaps = _pattern_means if by_chains else _many_pattern_means
        means, over_v, over_h = overlaps(pair, visible, signed)
        whole = weights.new_empty((e, over_v.shape[2], sum(pair.sizes)), dtype=torch.float32)
        _product(over_h, visible, whole[..., :-h])
        _product(over_v, means[..., :h], whole[..., -h:])
        found[name] = whole[:, :k]
    if pair.biases is not None:
        one = torch.ones((), dtype=visible.dtype, device=visible.device).expand(e, c, 1)
        both = [_weighted(-weights, one, x) for x in (visible, means)]
        found[of_biases] = torch.cat([both[0], both[1][..., :h]], -1).squeeze(1)
    return found


def _dense_means(pair: BipartiteOperands, visible: Tensor) -> Tensor:
    """tanh of the fields on the hidden units, (e, c, wide)."""
    from .kernels import chains, layers

    c = visible.shape[1]
    if pair.sizes[0] > NARROW:
        return layers.hidden_means(matrix(pair), visible, layer_cut(pair, c))
    none = visible.new_empty((pair.replicas, c), dtype=torch.float32)
    return chains.hidden_means(operands(pair), visible, none, cut_of(pair, c, drawing=False))[0]


def _pattern_means(
    pair: BipartiteOperands, visible: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same, and overlaps of the visible spins and of these means, (e, c, K), times their weights."""
    from .kernels import chains

    e, c, _ = visible.shape
    parts = 1 if e * c >= 64 * FILLED else 4
    cut = cut_of(pair, c, drawing=False)
    return chains.hidden_means(operands(pair), visible, weights, cut, parts)


def _many_pattern_means(
    pair: BipartiteOperands, visible: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by products of matrices: with many patterns, or few rows, they are worth reading the means
    again."""
    from .kernels import layers

    given, cut = factors(pair), layer_cut(pair, visible.shape[1], through=True)
    xv, xh = given.values[0], given.values[-1]
    over_v = _product(visible.mT, xv[..., : pair.sizes[0]].mT)
    between = replace(given, visible=pair.rows, values=(xh,))
    means = layers.hidden_means(between, over_v * given.scale, cut)
    over_h = _product(means.mT, xh.mT)
    return means, over_v * weights[..., None], over_h * weights[..., None]


def _weighted(weights: Tensor, spins: Tensor, b: Tensor) -> Tensor:
    """Σ_c w_c s_c b_c of spins (e, c, k), ±1, and (e, c, n).

    A weight is the same for many rows, and rounded it would favour one of the two phases: it comes as a
    sum of two numbers that low precision holds.
    """
    high = weights.to(torch.bfloat16).to(weights.dtype)
    parts = (high, weights - high)
    first, second = (_product(w[..., None] * spins.to(w.dtype), b) for w in parts)
    return first.add_(second)


def _product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """aᵀ b of (e, c, k) and (e, c, n) in float32, rounded as `precision` says."""
    stored = kind()
    a, b = a.to(stored).mT, b.to(stored)
    if stored == torch.bfloat16 and a.is_cuda:
        if out is None:
            return torch.bmm(a, b, out_dtype=torch.float32)
        return torch.bmm(a, b, out_dtype=torch.float32, out=out)
    return torch.bmm(a.float(), b.float(), out=out)
