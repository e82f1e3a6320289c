"""What a sampled number is worth: its standard error, or the ends of its interval; one per replica."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error."""

    value: Tensor  # (e,) float64
    error: Tensor  # (e,) float64

    @staticmethod
    def of(samples: Tensor) -> Estimate:
        """The mean of independent samples (e, c)."""
        samples = samples.double()
        count = samples.shape[1]
        spread = samples.std(1) if count > 1 else torch.full_like(samples[:, 0], torch.nan)
        return Estimate(samples.mean(1), spread / count**0.5)

    def replica(self, index: int) -> tuple[float, float]:
        """Value and error of one replica."""
        return float(self.value[index]), float(self.error[index])


@dataclass(frozen=True)
class Bounds:
    """A quantity between the ends of its 95 % interval, and how it was obtained.

    `forward` and `back` are the plain estimates of the two directions of annealing. Neither is a bound:
    either lies above or below the truth by its own error.
    """

    value: Tensor  # (e,) float64
    lower: Tensor  # (e,): the truth lies below in at most 2.5 % of cases
    upper: Tensor  # (e,): or above
    forward: Tensor  # (e,)
    back: Tensor  # (e,)
    ess: Tensor  # (e,): how many samples carry the estimate, the smaller of the two directions'
    largest: Tensor  # (e,): the largest weight's share, the larger of the two directions'
    method: str
    effort: str  # what it took, in words
    gap: Tensor | None = None  # (e,): how far the variational bound over hidden units lies below
    note: str = ""  # what keeps it from being better known

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        return self.lower, self.upper

    @staticmethod
    def exactly(value: Tensor, effort: str) -> Bounds:
        none = torch.zeros_like(value)
        return Bounds(
            value, value, value, value, value, none + torch.inf, none, "exact", effort
        )  # fmt: skip
