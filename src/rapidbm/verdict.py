"""Where a machine stands: paramagnet, ordered, or spin glass, from numbers with errors.

At the temperature of the samples,

    frozen:  q_EA > 0.1  or  ⟨q²⟩ > 0.05                                                  (1)
    broken:  q_EA − ⟨|q|⟩ > 0.1      chains sit in different states                       (2)

and of the energy alone, which knows no temperature,

    many:    Y < 0.02                two descents meet less than once in fifty times      (3)
    growing: d log(minima) / dN > 0                                                       (4)
    kept:    overlap of a pattern with the minimum below it > 0.9                         (5)

A spin glass is frozen, broken, and has many minima, growing in number. A number within two errors of
its threshold decides nothing, and the verdict says which one it was. The thresholds stand in gaps, from
20 random machines of each kind and size (64 × 64 and 100 × 100 units, 400 starts, β = 1):

    dense, sd 1       q_EA 0.91 … 0.97      Y < 0.0005          slope 0.03 … 0.06
    K = 60            q_EA 0.91 … 0.98      Y < 0.011           slope 0.016 … 0.05, kept < 0.55
    K = 10            q_EA > 0.96           Y 0.02 … 0.08       slope 0.007 … 0.03, kept > 0.91
    K ≤ 3             q_EA > 0.99           Y 0.17 … 1          slope 0 … 0.008, kept 1
    weak couplings    |q_EA| < 0.001        as those above: the minima do not know that it is warm

The slope alone does not tell: between 32 and 200 units mixtures of few patterns still come in. At the
edge of `critical_patterns` (K = 20) about half of the machines are undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .cuts import Growth, growth
from .errors import InputError
from .estimates import Estimate
from .glass import freezing, overlap_distribution
from .landscape import Minima, minima, stability
from .machine import Machine
from .spectra import Spectrum, spectrum

FROZEN, SQUARE, BROKEN, MEET, KEPT = 0.1, 0.05, 0.1, 0.02, 0.9
ERRORS = 2.0

PARAMAGNET = "paramagnet"
ORDERED = "ordered: few minima"
GLASS = "spin glass"
LOST = "spin glass, patterns lost"
CROWDED = "patterns among many minima"
STEADY = "many minima, no more of them in a larger machine"
ERGODIC = "one state: many minima, all crossed at this temperature"


@dataclass(frozen=True)
class Glassiness:
    """The numbers behind a verdict."""

    edwards_anderson: Estimate
    between: Estimate  # the overlap of different chains, by size where s and −s are one
    gap: Estimate  # eq. (2)
    square: Estimate  # ⟨q²⟩
    minima: Minima
    growth: Growth
    stability: Estimate | None  # eq. (5); None for dense couplings
    spectrum: Spectrum

    @property
    def verdict(self) -> tuple[str, ...]:
        """In words, one per replica."""
        return tuple(self._of(e) for e in range(len(self.gap.value)))

    def _of(self, e: int) -> str:
        meet = self.minima.coincidence
        free = max(SQUARE, 3.0 / float(self.growth.units.max()))  # free spins have ⟨q²⟩ = 1/N
        still, alike = _above(self.edwards_anderson, FROZEN, e), _above(self.square, free, e)
        if not (still or alike):
            if still is None:
                return _undecided("q_EA", self.edwards_anderson, FROZEN, e)
            return PARAMAGNET if alike is False else _undecided("⟨q²⟩", self.square, free, e)
        few = _above(meet, MEET, e)
        kept = None if self.stability is None else _above(self.stability, KEPT, e)
        broken = _above(self.gap, BROKEN, e)
        growing = _above(self.growth.slope, 0.0, e)
        if few is not False:  # a small glass has few minima too, but not at its patterns
            if kept is False and broken and growing:
                return LOST
            return ORDERED if few else _undecided("Y", meet, MEET, e)
        if broken is None:
            return _undecided("q_EA − ⟨|q|⟩", self.gap, BROKEN, e)
        if not broken:
            return ERGODIC
        if growing is None:
            return _undecided("growth", self.growth.slope, 0.0, e)
        if not growing:
            return STEADY
        if self.stability is None:
            return GLASS
        if kept is None:
            return _undecided("overlap kept by patterns", self.stability, KEPT, e)
        return CROWDED if kept else LOST


def glassiness(
    machine: Machine,
    series: Tensor,
    rng: torch.Generator,
    *,
    starts: int = 400,
    fractions: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    tries: int = 5,
) -> Glassiness:
    """Where the machine stands, from a series (e, c, t, n) of independent chains at equilibrium.

    Chains that could not equilibrate are themselves a sign: each stays where it fell, and q_EA is
    far above their overlaps. Start them from random spins, not from each other.
    """
    if series.dim() != 4 or series.shape[::3] != (machine.replicas, machine.layers.units):
        raise InputError(
            f"a series of this machine is ({machine.replicas}, chains, times, "
            f"{machine.layers.units}), not {tuple(series.shape)}; stack the states of its sweeps"
        )
    times = freezing(series, fold=machine.symmetric)
    pairs = overlap_distribution(series[:, :, -1])
    return Glassiness(
        times.within,
        times.between,
        times.gap,
        pairs.square,
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


def _undecided(name: str, estimate: Estimate, threshold: float, e: int) -> str:
    value, error = estimate.replica(e)
    return f"undecided: {name} = {value:.2g} ± {error:.1g} is too near {threshold:g}"
