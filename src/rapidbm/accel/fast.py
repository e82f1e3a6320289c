"""Where fused kernels run instead of the plain path; the choice is made here and nowhere else.

They serve restricted machines in float32 on a GPU. A function answers None when they do not, and the
plain path goes on. `precision` sets how the operands of products of matrices are rounded: float32 (three
TF32 products stand for one), tf32 (to 10 bits) or bf16 (to 7 bits; hidden means and overlaps are stored
so).

Three roads, by what is measured (docs/performance.md): whole chains in a block of their own (`chains`)
for patterns and narrow dense machines; a kernel per layer (`layers`) for wide dense machines, and for
patterns whose chains are too few to fill the chip; all states of a narrow layer (`states`).
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

import torch
from torch import Tensor

from ..errors import check_choice
from ..machines.couplings import Patterns

if TYPE_CHECKING:
    from ..machines.machine import Machine
    from .kernels.chains import Cut, Operands
    from .kernels.layers import Couplings as Matrix

T = TypeVar("T")
Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
DEVICES = ("cuda",)  # where kernels run; tests add "cpu", under Triton's interpreter
NARROW = 128  # visible units that dense couplings may have in `chains`
MOST_PATTERNS = {"float32": 128, "tf32": 192, "bf16": 384}  # beyond them cuBLAS wins
MOST_BITS = 20  # of the narrow layer whose states are summed over
FILLED = 48  # blocks of 64 chains from which on they keep the chip busy
WORTH = 2**24  # multiplications of a call from which on a kernel is worth its compilation
FEW_ROWS = 32  # measured on two cores: up to a fifth faster as one batch
ROOM = 2**33  # bytes that a matrix of couplings, or the hidden means of a call, may take
MOST_REPLICAS = 65_535  # blocks of one axis of a launch

_refused: set[tuple[str, str]] = set()  # kernels and precisions that are not tried any more
_precision: ContextVar[Precision] = ContextVar("precision", default="float32")
_lock = threading.Lock()
_inside: dict[int, list[Precision]] = {}  # the blocks that each thread is inside of, innermost last
_outside: list[str] = []  # torch's setting before the first of them


@contextmanager
def precision(name: Precision) -> Iterator[None]:
    """Rounds products of float32 matrices this way in the block, on a GPU.

    torch has one setting for all threads: it is float32 while a thread asks for that.
    """
    check_choice("precision", name, PRECISIONS)
    token, thread = _precision.set(name), threading.get_ident()
    with _lock:
        if not _inside:
            _outside[:] = [torch.get_float32_matmul_precision()]
        _inside.setdefault(thread, []).append(name)
        _set_torch()
    try:
        yield
    finally:
        _precision.reset(token)
        with _lock:
            _inside[thread].pop()
            if not _inside[thread]:
                del _inside[thread]
            _set_torch()


def _set_torch() -> None:
    exact = any(names[-1] == "float32" for names in _inside.values())
    setting = _outside[0] if not _inside else "highest" if exact else "high"
    torch.set_float32_matmul_precision(setting)


def current() -> Precision:
    """The precision of this moment."""
    return _precision.get()


@cache
def _triton() -> bool:
    return find_spec("triton") is not None


def serves(machine: Machine) -> bool:
    """Whether the kernels know this machine."""
    known = machine.device.type in DEVICES and machine.dtype == torch.float32
    known = known and _triton() and machine.replicas <= MOST_REPLICAS
    return known and machine.layers.two


def joins(machine: Machine, rows: int) -> bool:
    """Whether both phases of a gradient go as one batch: with kernels, and where each has so few rows
    that calls cost more than products."""
    return (rows <= FEW_ROWS and machine.layers.two) or serves(machine)


def sweeps(
    machine: Machine,
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
    large = count * c and count * e * c * n * _rows(machine) >= WORTH
    plain = keep is None and push is None
    road = _road(machine, c, plain=plain) if large and serves(machine) else None
    if road is None:
        return None
    work = partial(_sweeps, road, machine, spins, rng, count, beta, keep, push)
    return _tried(machine, road, work)


def _sweeps(
    road: str,
    machine: Machine,
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
        return chains.sample(_operands(machine), spins, how, _cut(machine, c, drawing=True))
    return layers.sample(_matrix(machine), spins, how, _layer_cut(machine, c))


def _by_rows(values: Tensor) -> Tensor:
    """With the units of a chain side by side in memory, as the kernels read them."""
    return values if values.stride(-1) == 1 else values.contiguous()


def gradient(machine: Machine, visible: Tensor, weights: Tensor) -> dict[str, Tensor] | None:
    """∂⟨E⟩/∂θ over visible spins (e, c, v) with weights (e, c), hidden units at their means."""
    if not serves(machine) or not _gradient_served(machine):
        return None
    row = machine.replicas * machine.layers.sizes[1] * (2 if _precision.get() == "bf16" else 4)
    step = max(1, ROOM // row)
    total: dict[str, Tensor] = {}
    for some, shares in zip(
        torch.split(visible, step, 1), torch.split(weights, step, 1), strict=True
    ):
        found = _tried(machine, "gradient", partial(_gradient, machine, some, shares))
        if found is None:
            return None
        total = {k: total[k].add_(v) for k, v in found.items()} if total else found
    return total


def products(machine: Machine) -> tuple[Tensor, Tensor] | None:
    """⟨s_a s_b⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) over all states of a machine with a narrow layer."""
    bits = min(machine.layers.sizes)
    if not serves(machine) or bits > MOST_BITS or machine.replicas * 2**bits * 20 > ROOM:
        return None
    return _tried(machine, "products", partial(_products, machine))


def _products(machine: Machine) -> tuple[Tensor, Tensor]:
    from ..machines.spins import states
    from .kernels import states as kernel

    sizes = machine.layers.sizes
    narrow, wide = (0, 1) if sizes[0] <= sizes[1] else (1, 0)
    bits, units, where = sizes[narrow], sizes[wide], machine.layers.slices
    biases = None if machine.biases is None else machine.biases.detach()
    bias = None if biases is None else biases[:, where[wide]]
    mean = torch.zeros((machine.replicas, sum(sizes)), dtype=torch.float32, device=machine.device)
    j = kernel.padded(machine.couplings.matrix(narrow, wide).detach(), bias)
    count = 2 ** (bits - machine.symmetric)  # one of v and −v stands for both
    logs = kernel.log_weights(j, bits, units, count, _rounding())
    if biases is not None:
        spins = states(bits, 0, 2**bits, device=machine.device)
        logs += biases[:, where[narrow]].double() @ spins.double().T
    p = torch.softmax(logs, 1).float()
    product, mean_wide = kernel.products(j, p, bits, units, _rounding())
    if biases is not None:
        mean[:, where[wide]], mean[:, where[narrow]] = mean_wide, p @ spins.float()
    return (product if narrow == 0 else product.mT), mean


# -- how ----------------------------------------------------------------------------------------------


def _tried(machine: Machine, kernel: str, work: Callable[[], T]) -> T | None:
    """The work, launched on the machine's GPU; None, and the plain path from then on, where the compiler
    or the driver refuses the kernel in this precision."""
    if (kernel, _precision.get()) in _refused:
        return None
    if machine.device.type != "cuda":
        return work()
    try:
        with torch.cuda.device(machine.device):  # Triton launches on the current one
            return work()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a version of Triton raises
        _refused.add((kernel, _precision.get()))
        warnings.warn(
            f"the fused kernel for {kernel} does not run here in {_precision.get()} "
            f"({type(error).__name__}: {str(error)[:200]}); the plain path goes on, slower",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _rounding() -> str:
    return "tf32x3" if _precision.get() == "float32" else "tf32"


def _dtype() -> torch.dtype:
    return torch.bfloat16 if _precision.get() == "bf16" else torch.float32


def _rows(machine: Machine) -> int:
    """Rows of ξ, or of J in its place."""
    xi = machine.patterns
    return machine.visible if xi is None else xi.shape[1]


def _road(machine: Machine, chains: int, *, plain: bool) -> Literal["chains", "layers"] | None:
    """By what was measured. Chains that are pushed or clamped, not `plain`, would overflow registers."""
    (v, h), k = machine.layers.sizes, _rows(machine)
    if machine.patterns is None:
        return "chains" if v <= NARROW else "layers"
    room = machine.replicas * v * h * _dtype().itemsize <= ROOM
    filled = machine.replicas * -(-chains // 64) >= FILLED
    cheap = 2 * k * (v + h) <= v * h  # fields through patterns, against fields through J
    if _few_patterns(machine) and (not room or (plain and filled and cheap)):
        return "chains"
    return "layers" if room and (_precision.get() == "bf16" or not (filled and cheap)) else None


def _gradient_served(machine: Machine) -> bool:
    if machine.patterns is None:
        return machine.visible <= NARROW or _precision.get() == "bf16"
    return _few_patterns(machine)


def _few_patterns(machine: Machine) -> bool:
    return _rows(machine) <= MOST_PATTERNS[_precision.get()]


def _cut(machine: Machine, chains: int, *, drawing: bool) -> Cut:
    """Large blocks reuse each tile more often; small ones fill the chip when there are few chains.

    With float32 operands and 64 chains no tile is loaded ahead: Triton 3.6 loads it over the one that a
    product still reads. Nor are there eight warps, for which it turns three TF32 products of 16 columns
    into illegal reads. Products of 16 chains are of another kind, which waits by itself.
    """
    from .kernels.chains import Cut

    if machine.replicas * chains < 64 * FILLED:
        return Cut(chains=16, units=64, warps=4, stages=2)
    name, small = _precision.get(), _rows(machine) <= 192
    stages = 1 if name != "bf16" else 3 if small else 2
    whole = small and not drawing and machine.replicas * chains >= 2**16
    if whole and name != "float32":
        return Cut(64, 64, 4, min(stages, 2))
    return Cut(64, 32, 4, stages)


def _layer_cut(machine: Machine, chains: int) -> Cut:
    from .kernels.chains import Cut

    least = min(machine.layers.sizes)
    if machine.replicas * chains * least >= 132 * 128 * 128:
        return Cut(chains=128, units=128, warps=8, stages=3)
    return Cut(chains=64, units=32, warps=4, stages=4)


def _wide(units: int) -> int:
    return -(-units // 64) * 64  # whole tiles of every cut of `chains`


def _operands(machine: Machine) -> Operands:
    from .kernels.chains import Operands, padded, pieces, power_of_two

    v, h = machine.layers.sizes
    couplings, scale = machine.couplings, 1.0
    dense = not isinstance(couplings, Patterns)
    if isinstance(couplings, Patterns):
        xi, scale = couplings.patterns.detach(), couplings.scale
    else:
        xi = couplings.matrix(0, 1).detach()
    rows = power_of_two(v) if dense else sum(pieces(xi.shape[1]))
    bias_v, bias_h = _padded_biases(machine, rows if dense else _wide(v), _wide(h))
    return Operands(
        visible=v,
        hidden=h,
        xv=xi.new_empty((1, 1, 1)) if dense else padded(xi[..., :v], rows, _wide(v), _dtype()),
        xh=padded(xi if dense else xi[..., v:], rows, _wide(h), _dtype()),
        bias_v=bias_v,
        bias_h=bias_h,
        scale=scale,
        dense=dense,
        precision=_rounding(),
    )


def _matrix(machine: Machine) -> Matrix:
    from .kernels.chains import padded
    from .kernels.layers import Couplings

    v, h = (_wide(size) for size in machine.layers.sizes)
    couplings = machine.couplings
    if isinstance(couplings, Patterns):
        k, ends = couplings.patterns.shape[1], machine.layers.slices
        xi = couplings.patterns.detach()
        xv, xh = (padded(xi[..., at], k, n, _dtype()) for at, n in zip(ends, (v, h), strict=True))
        j = torch.baddbmm(xv.new_empty(()), xv.mT, xh, beta=0.0, alpha=couplings.scale)
    else:
        j = padded(machine.couplings.matrix(0, 1).detach(), v, h, _dtype())
    visible, hidden = machine.layers.sizes
    bias_v, bias_h = _padded_biases(machine, v, h)
    return Couplings(visible, hidden, j, bias_v, bias_h, _rounding())


def _padded_biases(machine: Machine, wide_v: int, wide_h: int) -> tuple[Tensor, Tensor]:
    from .kernels.chains import padded

    if machine.biases is None:
        none = torch.empty((machine.replicas, 0), dtype=torch.float32, device=machine.device)
        return none, none
    of = machine.biases.detach()[:, None]
    v, h = of[..., : machine.visible], of[..., machine.visible :]
    return padded(v, 1, wide_v, v.dtype)[:, 0], padded(h, 1, wide_h, h.dtype)[:, 0]


def _gradient(machine: Machine, visible: Tensor, weights: Tensor) -> dict[str, Tensor]:
    from .kernels import chains, layers

    e, c, v = visible.shape
    visible = visible.to(_dtype())
    h, k = machine.layers.sizes[1], _rows(machine)
    found = {}
    if machine.patterns is None and v > NARROW:
        means = layers.hidden_means(_matrix(machine), visible, _layer_cut(machine, c))
        found["couplings.weights.0-1"] = _weighted(-weights, visible, means)[..., :h]
    else:
        given, cut = _operands(machine), _cut(machine, c, drawing=False)
        parts = 1 if given.dense or e * c >= 64 * FILLED else 4
        signed = weights * -given.scale
        means, over_v, over_h = chains.hidden_means(given, visible, signed, cut, parts)
        if given.dense:
            found["couplings.weights.0-1"] = _weighted(-weights, visible, means)[..., :h]
        else:
            both = [_product(over_h, visible)[:, :k], _product(over_v, means)[:, :k, :h]]
            found["couplings.patterns"] = torch.cat(both, -1)
    if machine.biases is not None:
        one = torch.ones((), dtype=visible.dtype, device=visible.device).expand(e, c, 1)
        both = [_weighted(-weights, one, x) for x in (visible, means)]
        found["biases"] = torch.cat([both[0], both[1][..., :h]], -1).squeeze(1)
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
    kind = _dtype()
    if kind == torch.bfloat16 and a.is_cuda:
        return torch.bmm(a.to(kind).mT, b.to(kind), out_dtype=torch.float32)
    return a.to(kind).float().mT @ b.to(kind).float()
