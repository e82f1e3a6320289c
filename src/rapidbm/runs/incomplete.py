"""Mean log p of parts whose rows may lack cells: these are summed over, row by row.

A row takes far longer then, so that of many rows some are looked at, evenly spaced, and the error says
so.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..arrays import mean_one
from ..data.splits import Split
from ..estimates import WIDE, Bounds, Estimate
from ..inference.rows import log_p
from ..likelihood import following
from ..likelihood.row_means import RowMeans, mean_error
from ..machines.machine import Machine

ROWS = 200  # of a part with gaps that a look takes
CHAINS = 10  # of each of them, from either base
MEASURED = 1000  # rows of a part that an evaluation takes


def has_gaps(data: object) -> bool:
    """Whether cells of a part are missing."""
    return isinstance(data, Split) and data.observed is not None and not bool(data.observed.all())


def mean_log_p(machine: Machine, data: Split, normaliser: Estimate, *, bound: bool = False) -> Estimate:
    """Mean log p of a part, in nats per row, or a lower `bound` on it where no cell is missing."""
    if not has_gaps(data):
        return following.mean_log_p(machine, data, normaliser, bound=bound)
    z = normaliser.value
    known = Bounds.exactly(z, "known from before")
    each, weights, mean, drawn = _of_rows(machine, data, known, ROWS, CHAINS)
    own = mean_error((each.upper - each.lower) / (2.0 * WIDE), weights)
    return Estimate(mean, torch.hypot(torch.hypot(own, drawn), normaliser.error))


def log_likelihood(machine: Machine, data: Split, normaliser: Bounds, seed: int) -> Bounds:
    """The mean of log p over a part with gaps, with a 95 % interval."""
    each, weights, value, drawn = _of_rows(machine, data, normaliser, MEASURED, None, seed)
    count = each.value.shape[1]
    # What log Z is unsure of all rows share; the rest is of each row alone.
    shared = (normaliser.upper - normaliser.lower).to(value) / 2.0
    half = (each.upper - each.lower) / 2.0
    own = mean_error((half.square() - shared[:, None].square()).clamp(min=0.0).sqrt(), weights)
    width = torch.hypot(torch.hypot(own, WIDE * drawn), shared)
    told = f"{each.effort}; missing cells summed over in {count:,} of {len(data):,} rows"
    exact = bool((width == 0).all())
    ends = (value - width, value + width)
    none = torch.full_like(value, math.nan)
    return Bounds(
        value,
        *ends,
        *ends[::-1],
        each.ess.amin(1),
        each.largest.amax(1),
        "exact" if exact else "rows",
        told,
        none,
    )


def _of_rows(
    machine: Machine, data: Split, z: Bounds, most: int, chains: int | None, seed: int = 0
) -> tuple[Bounds, Tensor | None, Tensor, Tensor]:
    """log p of at most so many rows, their weights, the mean and its error by which rows they are."""
    some = data.take(slice(None, None, -(-len(data) // most)))
    each = log_p(machine, some.spins, some.observed, normaliser=z, seed=seed, chains=chains)
    left, weights = 1.0 - len(some) / (data.of or len(data)), mean_one(some.weights)
    found = RowMeans.of(each.value, weights)
    return each, weights, found.mean, found.deviation * (left / found.count) ** 0.5
