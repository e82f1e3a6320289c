"""What a sampled number is worth: its standard error, or the ends of its interval; one per replica.

The jackknife leaves out one of B blocks of independent samples at a time. A statistic that is x_b without
block b has

    error² = (B − 1)/B · Σ_b (x_b − x̄)²                                                   (1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .display import Displayable, lines, of_tensor, with_error

BLOCKS = 20  # of samples in a jackknife
WIDE = 2.6  # standard errors to each side of an interval: they are themselves estimates


@dataclass(frozen=True, repr=False)
class Estimate(Displayable):
    """A value with its standard error.

    Attributes
    ----------
    value : Tensor of shape (e,), float64
        The estimate, one per replica (some results have further axes).
    error : Tensor of the same shape, float64
        Its standard error; 0 when exact, ∞ or NaN when unknown.

    Examples
    --------
    >>> import torch
    >>> rb.Estimate.of(torch.tensor([[1.0, 2.0, 3.0]])).value
    tensor([2.], dtype=torch.float64)
    """

    value: Tensor  # (e,) float64
    error: Tensor  # (e,) float64

    def _line(self) -> str:
        def one(place: tuple[int, ...]) -> str:
            return with_error(float(self.value[place]), float(self.error[place]))

        told = of_tensor(self.value, one)
        known = self.error[self.error.isfinite()]
        if "±" in told or not len(known) or not bool((known > 0).any()):
            return told
        if self.value.numel() == 1:
            return told
        lost = self.error.numel() - len(known)
        more = f", {lost} of {self.error.numel()} not known" if lost else ""
        return f"{told}, errors up to {float(known.max()):.2g}{more}"

    def __repr__(self) -> str:
        return f"{self._title()}: {self._line()}"

    @staticmethod
    def of(samples: Tensor) -> Estimate:
        """The mean of independent samples, with the standard error of the mean.

        Parameters
        ----------
        samples : Tensor of shape (e, c)
            `c` independent samples of each replica.

        Returns
        -------
        Estimate
            Mean and error, each (e,); the error is NaN for a single sample.
        """
        samples = samples.double()
        count = samples.shape[1]
        spread = samples.std(1) if count > 1 else torch.full_like(samples[:, 0], torch.nan)
        return Estimate(samples.mean(1), spread / count**0.5)

    @staticmethod
    def share(value: Tensor, count: int) -> Estimate:
        """A share of independent samples, with its binomial standard error.

        Parameters
        ----------
        value : Tensor of shape (e,)
            The share that was found, from 0 to 1.
        count : int
            Number of samples.

        Returns
        -------
        Estimate
            The share and its error √(p (1 − p) / count).
        """
        return Estimate(value, (value * (1 - value) / count).sqrt())

    @staticmethod
    def stack(estimates: Sequence[Estimate], dim: int = 0) -> Estimate:
        """Several estimates as one, along a new axis.

        Parameters
        ----------
        estimates : sequence of Estimate
            Estimates of one shape.
        dim : int, default 0
            Where the new axis goes.

        Returns
        -------
        Estimate
            Values and errors, stacked.
        """
        return Estimate(
            torch.stack([x.value for x in estimates], dim),
            torch.stack([x.error for x in estimates], dim),
        )

    def replica(self, index: int) -> tuple[float, float]:
        """Value and error of one replica.

        Parameters
        ----------
        index : int
            Number of the replica, from 0.

        Returns
        -------
        tuple of float
            (value, error).
        """
        return float(self.value[index]), float(self.error[index])


def jackknife(rows: Tensor) -> Estimate:
    """A statistic with the error of eq. (1), from (1 + B, …): of all samples, then without each block."""
    whole, parts = rows[0], rows[1:]
    spread = (parts - parts.mean(0)).square().sum(0)
    return Estimate(whole, (spread * (len(parts) - 1) / len(parts)).sqrt())


def power_law(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """The exponent b of y = a·x^b, and its standard error.

    It is the slope of log y against log x by least squares; of two points the error is NaN.

    Parameters
    ----------
    x, y
        Positive numbers (n,), n ≥ 2.

    Examples
    --------
    >>> power_law(np.array([1.0, 2.0, 4.0]), np.array([3.0, 12.0, 48.0]))[0]
    2.0
    """
    x, y = np.log(x), np.log(y)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    free = len(x) - 2
    return slope, math.sqrt(float(rest @ rest) / free / float(x @ x)) if free > 0 else math.nan


@dataclass(frozen=True, repr=False)
class Bounds(Estimate):
    """A quantity with a 95 % interval, and how it was obtained.

    `forward` and `back` are the plain estimates of the two directions of annealing. Neither is a bound:
    either lies above or below the truth by its own error.

    Attributes
    ----------
    value : Tensor of shape (e,), float64
        The estimate.
    error : Tensor of shape (e,)
        Standard error that belongs to the interval, which may be uneven about the value.
    lower : Tensor of shape (e,)
        Lower end; the truth lies below it in at most 2.5 % of cases.
    upper : Tensor of shape (e,)
        Upper end; the truth lies above it in at most 2.5 % of cases.
    forward : Tensor of shape (e,)
        Estimate of annealing from the base to the machine.
    back : Tensor of shape (e,)
        Estimate of annealing from the machine to the base.
    ess : Tensor of shape (e,)
        Effective number of samples, the smaller of the two directions.
    largest : Tensor of shape (e,)
        Share of the largest weight, the larger of the two directions.
    method : str
        "exact", or the name of the estimator.
    effort : str
        What was computed, in words.
    gap : Tensor of shape (e,), optional
        How far the variational bound over hidden units lies below the value.
    note : str, optional
        What keeps the value from being better known.

    Examples
    --------
    >>> bounds = rb.log_z(rb.rbm(4, 3, seed=0))
    >>> bounds.method, bool(bounds.lower == bounds.upper)
    ('exact', True)
    """

    error: Tensor = field(init=False)  # (e,): of the interval, which may lie unevenly about the value
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", (self.upper - self.lower) / (2.0 * WIDE))

    def _line(self) -> str:
        if self.method == "exact":
            return f"{of_tensor(self.value, lambda i: f'{float(self.value[i]):.7g}')}, exact"

        def one(place: tuple[int, ...]) -> str:
            value, low, high = (float(x[place]) for x in (self.value, self.lower, self.upper))
            digits = max(0, 2 - math.floor(math.log10(high - low))) if 0 < high - low < math.inf else 2
            return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

        return f"{of_tensor(self.value, one)}, 95 % interval"

    def _facts(self) -> list[tuple[str, str]]:
        facts = [("value", self._line()), ("how", f"{self.method}: {self.effort}")]
        if self.method != "exact":
            facts.append(("carried by", f"{of_tensor(self.ess)} effective samples"))
        if self.gap is not None:
            facts.append(("gap", f"{of_tensor(self.gap)}, to the variational bound below"))
        return [*facts, ("note", self.note)] if self.note else facts

    def __repr__(self) -> str:
        return lines(self._title(), self._facts())

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """`(lower, upper)`, the ends of the 95 % interval, each (e,)."""
        return self.lower, self.upper

    @staticmethod
    def exactly(value: Tensor, effort: str) -> Bounds:
        """Bounds of a value without error.

        Parameters
        ----------
        value : Tensor of shape (e,)
            The exact value.
        effort : str
            What was computed, in words.

        Returns
        -------
        Bounds
            With `lower` = `upper` = `value` and method "exact".
        """
        none = torch.zeros_like(value)
        ends = (value, value, value, value)
        return Bounds(value, *ends, none + torch.inf, none, "exact", effort)
