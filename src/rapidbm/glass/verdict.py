"""Where a machine stands: paramagnet, ordered, or spin glass, from numbers with errors.

At the temperature of the samples,

    free:    q_EA < 0.1  and  ⟨q²⟩ < 0.05, 5/N       free spins have ⟨q²⟩ = 1/N           (1)
    frozen:  q_EA > 0.1  or   ⟨q²⟩ > 0.05, 3/N
    broken:  q_EA − ⟨|q|⟩ > 0.1      chains sit in different states                       (2)
    narrow:  var |q| < 0.01, 2/N     as in one state, which has 1/N or less               (3)

and of the energy alone, which knows no temperature,

    many:    Y < 0.02                two descents meet less than once in fifty times      (4)
    growing: d log(minima) / dN > 0                                                       (5)
    steady:  N d log(minima) / dN < log 10                                                (6)
    kept:    overlap of a pattern with the minimum below it > 0.9                         (7)

A spin glass is frozen, broken, and has many minima, growing in number. A machine is ordered when its
minima are few for a reason: they lie at its patterns (7), or stay few in larger machines (6), or the
chains are in one state. In one state chains agree, not broken (2) and narrow (3), and either they move
in it, q_EA < 0.8, or something singles it out: patterns that are kept, or a mode of dense couplings
beyond the edge of random ones; else it may be the ground state of a small glass. The chains of a warm
glass cross between its states, but their overlaps stay spread: where dense couplings have no such mode,
and so no order to be in, and ⟨q²⟩ > 0.04, 12/N, which is beyond what was measured at the critical
temperature (10/N at most, for 60 to 800 units), that is a glass too.

A number within two errors of its threshold decides nothing, and the verdict says which one it was. The
thresholds stand in gaps, from 20 random machines of each kind and size (64 × 64 and 100 × 100 units, 400
starts, β = 1):

    dense, sd 1       q_EA 0.91 … 0.97      Y < 0.0005          slope 0.03 … 0.06
    K = 60            q_EA 0.91 … 0.98      Y < 0.011           slope 0.016 … 0.05, kept < 0.55
    K = 10            q_EA > 0.96           Y 0.02 … 0.08       slope 0.007 … 0.03, kept > 0.91
    K ≤ 3             q_EA > 0.99           Y 0.17 … 1          slope 0 … 0.008, kept 1
    weak couplings    |q_EA| < 0.001        as those above: the minima do not know that it is warm

and from `python -m benchmarks verdicts`, whose glasses of 40 to 60 units have N · slope from 2 to 7, its
ordered machines up to 1.8, its glasses at 0.7 of their critical temperature var |q| from 0.016 on.
At the edge of `critical_patterns` (K = 20) about half of the machines are undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..display import Displayable
from ..errors import InputError
from ..estimates import Estimate
from ..machines.machine import Machine
from ..random import rng_from
from .growth import Growth, growth
from .minima import Minima, minima, stability
from .overlaps import freezing, overlap_distribution
from .spectra import Spectrum, spectrum

FROZEN, SQUARE, BROKEN, NARROW, MEET, KEPT = 0.1, 0.05, 0.1, 0.01, 0.02, 0.9
STEADY = math.log(10.0)
COLD = 0.8  # q_EA of chains that hardly move
ERRORS = 2.0

PARAMAGNET = "paramagnet"
ORDERED = "ordered: few minima"
GLASS = "spin glass"
LOST = "spin glass, patterns lost"
CROWDED = "patterns among many minima"
STEADY_MINIMA = "many minima, no more of them in a larger machine"
CROSSED = "spin glass, its states crossed at this temperature"
ERGODIC = "one state: many minima, all crossed at this temperature"


@dataclass(frozen=True, repr=False)
class Glassiness(Displayable):
    """The numbers behind a verdict."""

    edwards_anderson: Estimate
    between: Estimate  # the overlap of different chains, by size where s and −s are one
    gap: Estimate  # eq. (2)
    square: Estimate  # ⟨q²⟩
    variance: Estimate  # of q, or of |q| where s and −s are one, eq. (3)
    minima: Minima
    growth: Growth
    stability: Estimate | None  # eq. (7); None for dense couplings
    spectrum: Spectrum

    def _facts(self) -> list[tuple[str, str]]:
        return [("verdict", "; ".join(self.verdict)), *super()._facts()]

    @property
    def verdict(self) -> tuple[str, ...]:
        """In words, one per replica."""
        return tuple(self._of(e) for e in range(len(self.gap.value)))

    @property
    def units(self) -> float:
        return float(self.growth.units.max())

    def _of(self, e: int) -> str:
        still, frozen = _above(self.edwards_anderson, FROZEN, e), max(SQUARE, 3.0 / self.units)
        if not (still or _above(self.square, frozen, e)):
            free = min(SQUARE, 5.0 / self.units)
            if still is None:
                return _undecided("q_EA", self.edwards_anderson, FROZEN, e)
            if _above(self.square, free, e) is False:
                return PARAMAGNET
            if free == frozen:
                return _undecided("⟨q²⟩", self.square, free, e)
            between = "between those of free spins and of frozen ones"
            return f"undecided: ⟨q²⟩ = {_text(self.square, e)} is {between}, {free:.2g} and {frozen:.2g}"
        few = _above(self.minima.coincidence, MEET, e)
        kept = None if self.stability is None else _above(self.stability, KEPT, e)
        broken = _above(self.gap, BROKEN, e)
        # N d log(minima) / dN, eq. (6)
        gain = Estimate(self.growth.slope.value * self.units, self.growth.slope.error * self.units)
        more = _above(gain, STEADY, e)
        if few is not False:
            if few and (kept or (kept is None and more is False) or self._one_state(e)):
                return ORDERED
            if kept is False and broken and more:
                return LOST
            if not few:
                return _undecided("Y", self.minima.coincidence, MEET, e)
            apart = "" if self.stability is None else ", and patterns are not among them"
            return (
                f"undecided: minima are few (Y = {_text(self.minima.coincidence, e)}){apart}, but get "
                f"more with size (N·slope = {_text(gain, e)}): too small to tell order from a glass"
            )
        growing = _above(self.growth.slope, 0.0, e)
        if not broken and growing and self._crossed(e):
            return CROSSED
        if broken is None:
            return _undecided("q_EA − ⟨|q|⟩", self.gap, BROKEN, e)
        if not broken:
            return ERGODIC if self._one_state(e) else self._several(e)
        if growing is None:
            return _undecided("growth", self.growth.slope, 0.0, e)
        if not growing:
            return STEADY_MINIMA
        if self.stability is None:
            return GLASS
        if kept is None:
            return _undecided("overlap kept by patterns", self.stability, KEPT, e)
        return CROWDED if kept else LOST

    @property
    def narrow(self) -> float:
        """The limit of eq. (3)."""
        return min(NARROW, 2.0 / self.units)

    def _one_state(self, e: int) -> bool:
        """Whether all chains are in one state, and not by the chance of a small glass."""
        agree = _above(self.gap, BROKEN, e) is False
        agree = agree and _above(self.variance, self.narrow, e) is False
        if self.stability is None:
            singled_out = bool(self.spectrum.outliers[e] > 0)
        else:
            singled_out = _above(self.stability, KEPT, e) is True
        return agree and (singled_out or _above(self.edwards_anderson, COLD, e) is False)

    def _crossed(self, e: int) -> bool:
        """Whether chains cross between the states of a glass: random couplings, which have no order to
        be in, beyond their paramagnet, and overlaps that are those of several states."""
        random = self.stability is None and not bool(self.spectrum.outliers[e] > 0)
        spread = _above(self.variance, self.narrow, e) is True
        return random and spread and _above(self.square, max(0.04, 12.0 / self.units), e) is True

    def _several(self, e: int) -> str:
        """Why chains that agree on average are not said to be in one state."""
        if _above(self.variance, self.narrow, e) is False:
            return (
                f"undecided: chains are in one state (q_EA = {_text(self.edwards_anderson, e)}), but "
                "nothing singles it out: a small glass in its ground state looks the same"
            )
        return (
            f"undecided: chains cross between minima, but overlaps spread, var |q| = "
            f"{_text(self.variance, e)}, where one state has less than {self.narrow:.2g}"
        )


def glassiness(
    machine: Machine,
    series: Tensor,
    rng: torch.Generator | None = None,
    *,
    starts: int = 400,
    fractions: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    tries: int = 5,
    seed: int | None = None,
) -> Glassiness:
    """Whether a machine is paramagnetic, ordered or a spin glass, with the numbers behind the verdict.

    Start the chains from random spins, not from each other. Chains that cannot equilibrate are a sign
    themselves: each stays where it fell, and q_EA is far above their overlaps.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    series : Tensor of shape (e, c, t, n)
        Time series of independent chains, as `record` gives them.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    starts : int, default 400
        Descents for counting minima.
    fractions : sequence of float, default (0.25, 0.5, 0.75, 1.0)
        Shares of the units of diluted machines, for the growth of the minima.
    tries : int, default 5
        Dilutions for each share.
    seed : int, optional
        Seed of the draws.

    Returns
    -------
    Glassiness
        q_EA, overlaps, minima, their growth, stability of patterns and spectrum; `verdict` says it in
        words, one per replica.

    Raises
    ------
    InputError
        If the series is not one of this machine.
    """
    rng = rng_from(seed, rng, "glassiness", device=machine.device)
    series = as_tensor(series, what="a series")
    if series.dim() != 4 or series.shape[::3] != (machine.replicas, machine.layers.columns):
        raise InputError(
            f"a series of this machine is ({machine.replicas}, chains, times, "
            f"{machine.layers.columns}), not {tuple(series.shape)}; stack the states of its sweeps"
        )
    times = freezing(series, fold=machine.symmetric)
    pairs = overlap_distribution(series[:, :, -1], fold=machine.symmetric)
    return Glassiness(
        times.within,
        times.between,
        times.gap,
        pairs.square,
        pairs.variance,
        minima(machine, starts, rng),
        growth(machine, starts, rng, fractions=fractions, tries=tries),
        stability(machine, rng),
        spectrum(machine),
    )


def _above(estimate: Estimate, threshold: float, e: int) -> bool | None:
    """Whether a number is above its threshold, or None within two errors of it."""
    value, error = estimate.replica(e)
    if not abs(value - threshold) > ERRORS * error:
        return None
    return value > threshold


def _text(estimate: Estimate, e: int) -> str:
    value, error = estimate.replica(e)
    return f"{value:.2g} ± {error:.1g}"


def _undecided(name: str, estimate: Estimate, threshold: float, e: int) -> str:
    return f"undecided: {name} = {_text(estimate, e)} is too near {threshold:g}"
