"""Rows of a table as binary data.

A value x in [0, 1] is the probability of a one, and every pass over the data draws it anew. A row of
weight w is so many equal rows: of N rows of a pass, number i is the one at

    (i + u) W / N        of the cumulated weights, W their sum, u uniform in [0, 1)               (1)

which for whole weights and N = W is each row w times. Rows are ordered by a hash of their values. So what
is learnt depends on neither the order of rows nor on whether a row stands twice or weighs two.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array
from ..errors import DataWarning, InputError
from ..random import stream

MOST, MANY = 10, 2**16  # rows of a pass, for each different one and in all: the larger is the limit
GREY = 0.9  # of the values between 0 and 1: no binary data
DRAWS = 32  # of a row of probabilities, where its likelihood is asked for
CHUNK = 2**20  # values that are hashed at a time
HEAVIEST = 1e290  # weight of a row, so that sums are finite


@dataclass(frozen=True)
class BinaryTable:
    """Probabilities of ones, ordered, with cumulated weights."""

    values: Tensor  # (n, v) float32
    ends: Tensor | None  # (n,) float64: the sum of weights up to each row; None where each counts once
    count: int  # rows of a pass
    grey: bool  # whether any value is neither 0 nor 1

    @staticmethod
    def of(values: Array, weights: Array | None) -> BinaryTable:
        if weights is not None:
            values, weights = values[weights > 0], weights[weights > 0]
        values = np.asarray(values, np.float32) + np.float32(0.0)  # −0 is 0
        hashes = _hashes(values)
        order = np.argsort(hashes, kind="stable")
        values, hashes = values[order], hashes[order]
        weights = np.ones(len(values)) if weights is None else weights[order]
        whole = float(weights.sum())
        different = 1 + int((hashes[1:] != hashes[:-1]).sum())
        count = max(1, min(max(different, round(whole)), max(MOST * different, MANY)))
        once = count == len(values) and bool((weights == 1).all())
        ends = None if once else torch.from_numpy(np.cumsum(weights))
        grey = not bool(((values == 0) | (values == 1)).all())
        return BinaryTable(torch.from_numpy(values), ends, count, grey)

    @property
    def changing(self) -> bool:
        """Whether two passes differ."""
        whole = self.ends is None or bool((self.ends == self.ends.round()).all())
        return self.grey or not whole or (self.ends is not None and self.count != int(self.ends[-1]))

    @property
    def constant(self) -> Tensor:
        """The spin of each column that has one value, 0 or 1, in all rows; 0 of any other, (v,)."""
        low, high = self.values.amin(0), self.values.amax(0)
        same = (low == high) & ((low == 0) | (low == 1))
        return torch.where(same, 2.0 * low - 1.0, 0.0).double()

    def draw(self, rng: torch.Generator) -> Tensor:
        """The rows of a pass as spins, (count, v) int8."""
        values = self.values
        u = torch.rand((), generator=rng, dtype=torch.float64)  # always: weights change no draw
        if self.ends is not None:
            places = (torch.arange(self.count) + u) * (self.ends[-1] / self.count)  # eq. (1)
            values = values[torch.searchsorted(self.ends, places, right=True).clamp_(max=len(values) - 1)]
        if self.grey:
            values = torch.rand(values.shape, generator=rng) < values
        return values.to(torch.int8).mul_(2).sub_(1)


def _hashes(values: Array) -> Array:
    """A number for each row that equal rows share, and others hardly ever."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    keys = np.random.default_rng(0).integers(2**63, size=values.shape[1], dtype=np.uint64) * 2 + 1
    step = max(1, CHUNK // values.shape[1])
    parts = [(bits[i : i + step] * keys).sum(1) for i in range(0, len(bits), step)]
    return np.concatenate(parts)


def in_range(values: Array) -> Array:
    """The values as probabilities; those outside [0, 1] are clipped, and told unless they are spins."""
    if not (outside := (values < 0) | (values > 1)).any():
        return values
    if not (values[outside] == -1).all():  # −1 for a zero is a habit, too
        warnings.warn(
            f"values are probabilities of a one, in [0, 1], and {outside.mean():.0%} of these, from "
            f"{values.min():g} to {values.max():g}, lie outside and are taken as 0 or 1; scale them "
            "(MinMaxScaler), or make them binary (Binarizer, KBinsDiscretizer, OneHotEncoder)",
            DataWarning,
            stacklevel=4,
        )
    return np.clip(values, 0, 1)


def warn_of_values(rows: BinaryTable) -> None:
    """Says what of these rows a machine cannot learn."""
    values = rows.values
    if len(values) > 1 and bool((values == values[0]).all()):
        warnings.warn(
            f"all {len(values)} rows are the same: there is nothing to learn but that; were they scaled "
            "to [0, 1] before?",
            DataWarning,
            stacklevel=4,
        )
    elif float(((values > 0) & (values < 1)).float().mean()) > GREY:
        warnings.warn(
            "nearly all values lie between 0 and 1. They are read as probabilities, each pass draws "
            "zeros and ones with them, and what a number says beyond that is lost; for real columns make "
            "bins (KBinsDiscretizer) or a threshold (Binarizer)",
            DataWarning,
            stacklevel=4,
        )


def weights_of(sample_weight: Any, count: int) -> Array | None:
    """Weights of so many rows."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (count,):
        raise InputError(f"{count} rows need {count} sample weights, not {weights.shape}")
    if not ((weights >= 0) & (weights <= HEAVIEST)).all():
        raise InputError(
            f"sample weights are from 0 to {HEAVIEST:g}, not from {weights.min():g} to {weights.max():g}"
        )
    if not weights.any():
        raise InputError("all sample weights are zero; leave them out, or give a row some weight")
    return weights


def thresholds(visible: int) -> Array:
    """Numbers in (0, 1), (draws, v): a value x is a one where it is larger. Each column has one number in
    each of as many parts of equal length, so that the mean of the draws is x to within one part. They are
    the same for all rows and machines: what differs between scores is not the draw."""
    places = torch.rand((DRAWS, visible), generator=stream(0, "thresholds")).argsort(0)
    found: Array = (places.numpy() + 0.5) / DRAWS
    return found
