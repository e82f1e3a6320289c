"""What every unit does for itself, in the way that is fastest on its device, and products with columns of
which few are not 0.

On a CPU each pass over memory is cheap beside `torch.tanh` and a comparison; on a GPU each pass counts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .recording import unseen

MANY = 2**15  # random numbers from which on seeding a faster generator pays
WIDE = 200  # columns of a product from which on looking for ones in the other factor pays
SATURATED = 80.0  # from ± this on 2p − 1 is ±1 to the last bit; near ±88 exp overflows, four times slower


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)); in the place of `x` where no gradient is asked for."""
    return torch.sigmoid(x) if x.requires_grad else x.sigmoid_()


def tanh(
    x: Tensor, beta: float | Tensor, *, overwrite: bool = False, out: Tensor | None = None
) -> Tensor:
    """tanh(β x), into `out` if given; on a CPU through the sigmoid, six times faster than torch.tanh.
    With `overwrite` the values of `x` need not outlive the call."""
    if x.is_cuda:
        means = torch.tanh(x if isinstance(beta, float) and beta == 1.0 else x * beta)
        return means if out is None else out.copy_(means)
    doubled = x.mul_(2.0 * beta) if overwrite else x * (2.0 * beta)
    if doubled.requires_grad:
        return 2.0 * sigmoid(doubled) - 1.0
    up = sigmoid(doubled.clamp_(-SATURATED, SATURATED))
    # 2p is exact, so that one pass rounds as two would.
    least = torch.full((), -1.0, dtype=up.dtype)
    return torch.add(least, up, alpha=2.0, out=up if out is None else out)


def signs(up: Tensor, rng: torch.Generator, out: Tensor | None = None) -> Tensor:
    """+1 with the probability `up`, else −1, into `out`, or in the place of `up`."""
    if up.is_cuda:
        uniform = torch.rand(up.shape, generator=rng, dtype=up.dtype, device=up.device)
        spins = torch.rsub((uniform < up).to(up.dtype), -1.0, alpha=-2.0)
        return spins if out is None else out.copy_(spins)
    # The sign of p − u in one pass, where a comparison takes three.
    out = up if out is None else out
    if _few(up):
        return _signs_of(up, torch.rand(up.shape, generator=rng, dtype=up.dtype), out)
    words = torch.empty(up.shape)
    unseen(_words, words, rng)
    return _signs_of(up, words, out, 2.0**-32)


def uniform(like: Tensor, rng: torch.Generator) -> Tensor:
    """Numbers between 0 and 1, 1 excluded, in the shape and type of `like`."""
    if like.is_cuda or _few(like):
        return torch.rand(like.shape, generator=rng, dtype=like.dtype, device=like.device)
    found = torch.empty(like.shape)
    unseen(_words, found, rng)
    # The highest 24 of 32 bits; words above 2³² − 128 were rounded up to 2³², which would come to 1.
    return found.mul_(2.0**-8).floor_().clamp_(max=2.0**24 - 1).mul_(2.0**-24)


def signs_ahead(up: Tensor, rng: torch.Generator, pool: Executor) -> Callable[[Tensor], Tensor]:
    """`signs` of this tensor, on a CPU, into one that is given later: `rng` moves on now, and where many
    random numbers are needed a thread of the pool draws them meanwhile."""
    if _few(up):
        drawn = torch.rand(up.shape, generator=rng, dtype=up.dtype)
        return lambda out: _signs_of(up, drawn, out)
    drawing = pool.submit(_uniform, up.numel(), _seed(rng))
    return lambda out: _signs_of(up, torch.from_numpy(drawing.result()).view(up.shape), out)


def skip_signs(like: Tensor, rng: torch.Generator) -> None:
    """Moves `rng` on as `signs` of a tensor like this one would, on a CPU."""
    if _few(like):
        torch.rand(like.shape, generator=rng, dtype=like.dtype)
    else:
        _seed(rng)


def _few(like: Tensor) -> bool:
    return like.numel() < MANY or like.dtype != torch.float32


def _signs_of(up: Tensor, drawn: Tensor, out: Tensor, unit: float = 1.0) -> Tensor:
    """As `signs`, from these numbers times a unit; they are overwritten."""
    torch.sub(up, drawn, alpha=unit, out=drawn)
    return torch.copysign(torch.ones((), dtype=up.dtype), drawn, out=out)


def _words(into: Tensor, rng: torch.Generator) -> None:
    """Random words of 32 bits as float32, on a CPU."""
    into.view(-1).numpy()[...] = _drawn(into.numel(), _seed(rng))


def _uniform(count: int, seed: list[int]) -> NDArray[np.float32]:
    """The same between 0 and 1; a power of two rounds nothing."""
    words = _drawn(count, seed).astype(np.float32)
    words *= np.float32(2.0**-32)
    return words


def _drawn(count: int, seed: list[int]) -> NDArray[np.uint32]:
    """Words of numpy's SFC64, faster than torch's generator (docs/decisions/random.md). Other threads run
    meanwhile; with `random_raw` they would wait."""
    draw = np.random.Generator(np.random.SFC64(seed)).integers
    words = draw(2**64 - 1, size=(count + 1) // 2, dtype=np.uint64, endpoint=True)
    return words.view(np.uint32)[:count]


def _seed(rng: torch.Generator) -> list[int]:
    return torch.randint(2**63 - 1, (2,), generator=rng).tolist()


def product(columns: Tensor, matrix: Tensor, ones: Tensor | None = None, count: int = 0) -> Tensor:
    """columns @ matrix, (e, c, n) with (e, n, m), as sums of u rows of the matrix where each row of
    `columns` is 1 at `ones` (e, c, u) and 0 elsewhere. With `count` = u the ones are looked for, where
    finding them is worth its time."""
    if ones is not None:
        return sums_of_rows(ones, matrix)
    if not _worth_a_look(columns, matrix, count):
        return columns @ matrix
    out = columns.new_empty((*columns.shape[:2], matrix.shape[2]))
    unseen(_product_of_states, out, columns.detach(), matrix.detach(), count)
    return out


def moment(columns: Tensor, others: Tensor, count: int = 0) -> Tensor:
    """columnsᵀ @ others, (e, c, n) with (e, c, m): where rows of `columns` are 1 at `count` places and 0
    elsewhere, sums of rows of the others."""
    if not _worth_a_look(columns, others, count):
        return columns.mT @ others
    out = columns.new_empty((columns.shape[0], columns.shape[2], others.shape[2]))
    unseen(_moment_of_states, out, columns.detach(), others.detach(), count)
    return out


def _worth_a_look(columns: Tensor, others: Tensor, count: int) -> bool:
    """Whether finding ones is cheap beside a product, which for autograd and a GPU stays one."""
    if not count or columns.device.type != "cpu" or others.shape[-1] < WIDE or columns.numel() < MANY:
        return False
    graph = torch.is_grad_enabled() and (columns.requires_grad or others.requires_grad)
    return columns.shape[0] == others.shape[0] and not graph


def _product_of_states(out: Tensor, columns: Tensor, matrix: Tensor, count: int) -> None:
    ones = one_hot_columns(columns, count)
    out.copy_(columns @ matrix if ones is None else sums_of_rows(ones, matrix))


def _moment_of_states(out: Tensor, columns: Tensor, others: Tensor, count: int) -> None:
    ones, (e, c, n) = one_hot_columns(columns, count), columns.shape
    if ones is None:
        out.copy_(columns.mT @ others)
        return
    column = _apart(ones, n).flatten()  # which of e·n
    column, order = column.sort(stable=True)
    starts = torch.searchsorted(column, torch.arange(e * n))
    rows = torch.div(order, count, rounding_mode="floor")  # which of e·c
    flat = others.reshape(e * c, -1)
    out.copy_(torch.nn.functional.embedding_bag(rows, flat, starts, mode="sum").view_as(out))


def sums_of_rows(ones: Tensor, matrix: Tensor) -> Tensor:
    """Sums of the rows `ones` (e, c, u) of matrices (e, n, m), (e, c, m)."""
    e, n, m = matrix.shape
    rows = _apart(ones, n).reshape(-1, ones.shape[-1])
    flat = matrix.contiguous().view(e * n, m)
    return torch.nn.functional.embedding_bag(rows, flat, mode="sum").view(e, -1, m)


def _apart(ones: Tensor, columns: int) -> Tensor:
    """Columns of each replica as those of all replicas in a row."""
    if len(ones) == 1:
        return ones
    return ones + columns * torch.arange(len(ones), device=ones.device)[:, None, None]


def one_hot_columns(columns: Tensor, count: int) -> Tensor | None:
    """Where rows are 1, (e, c, count); None unless all have that many ones and else 0."""
    values = columns.numpy()
    ones, n = values == 1, values.shape[-1]
    places = np.flatnonzero(ones)
    rows = values.size // n
    if places.size != rows * count or np.count_nonzero(values != 0) != places.size:
        return None
    places = places.reshape(rows, count) - n * np.arange(rows)[:, None]
    if places.min() < 0 or places.max() >= n:  # too many in one row, too few in another
        return None
    return torch.from_numpy(places.reshape(*values.shape[:-1], count))


def sum_of_sizes(x: Tensor) -> Tensor:
    """Σ |x| of every replica, (e,)."""
    if x.is_cuda:
        total: Tensor = torch.linalg.vector_norm(x, 1, tuple(range(1, x.dim())))
        return total
    return x.flatten(1).abs().sum(1)


def bits_of(numbers: Tensor, width: int) -> Tensor:
    """The last `width` bits of whole numbers (c,) as ±1 in int8, (c, width), the highest first."""
    shifts = torch.arange(width - 1, -1, -1, device=numbers.device)
    return ((numbers[:, None] >> shifts) & 1).to(torch.int8).mul_(2).sub_(1)
