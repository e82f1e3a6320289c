"""Means of something over rows of data, which may count by weights.

    mean = Σ_i w_i x_i / Σ_i w_i,        n = (Σ_i w_i)² / Σ_i w_i²                         (1)

n rows of equal weight tell as much of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..arrays import effective_rows


@dataclass(frozen=True)
class RowMeans:
    """Eq. (1) for every replica."""

    mean: Tensor  # (e,)
    deviation: Tensor  # (e,), standard deviation of a row
    count: float  # n

    @staticmethod
    def of(values: Tensor, weights: Tensor | None) -> RowMeans:
        """Of values (e, rows) with weights (rows,); None: all the same."""
        if weights is None:
            return RowMeans(values.mean(1), values.std(1, correction=0), values.shape[1])
        share = (weights / weights.sum()).to(values)
        mean = values @ share
        variance = (values - mean[:, None]).square() @ share
        return RowMeans(mean, variance.sqrt(), float(effective_rows(weights)))


def mean_error(errors: Tensor, weights: Tensor | None) -> Tensor:
    """The error of a mean by the independent errors of its rows, (e, rows), (e,)."""
    if weights is None:
        return errors.square().sum(1).sqrt() / errors.shape[1]
    share = (weights / weights.sum()).to(errors)
    return torch.sqrt(errors.square() @ share.square())
