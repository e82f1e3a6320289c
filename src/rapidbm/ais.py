"""Annealed importance sampling of log Z, forward and in reverse.

The path leads from independent units with biases b⁰ to the machine,

    E_β(s) = β E(s) − (1 − β) b⁰·s,        β from 0 to 1                                  (1)
    f_β(s) = Σ_free exp(−E_β),        Z_0 = Π_i 2 cosh b⁰_i                               (2)

where the free layers (`layers.inferred`) are summed in closed form. A chain that visits s_1, s_2, … at
β_1 < β_2 < … < β_T gathers

    w = Π_t f_{β_t}(s_t) / f_{β_{t−1}}(s_t),        ⟨w⟩ = Z / Z_0                         (3)

so that log Z_0 + log (mean w) lies below log Z on average (Jensen); chains that start from the machine
and walk back have ⟨1/w⟩ = Z_0 / Z and lie above it. Both come with their standard errors.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from .errors import InputError
from .gibbs import sweep
from .machine import Machine
from .spins import draw, log_2cosh

STEP = 0.3  # pilot: standard deviation of log w that one step may add


@dataclass(frozen=True)
class Path:
    """Eq. (1): the family of machines between independent units and a machine."""

    machine: Machine
    base: Tensor  # (e, n): b⁰

    @cached_property
    def precise(self) -> Machine:
        """The same machine in float64: chains may move in float32, weights must not round. A cold
        machine has energies of 10⁵ and more, and log w is a sum of thousands of small differences."""
        return copy.deepcopy(self.machine).double()

    def log_z0(self) -> Tensor:
        return log_2cosh(self.base.double()).sum(1)  # (e,)

    def start(self, chains: int, rng: torch.Generator) -> Tensor:
        """Exact draws at β = 0, (e, c, n)."""
        return draw(self.base[:, None].expand(-1, chains, -1), rng)

    def move(self, spins: Tensor, rng: torch.Generator, beta: float) -> Tensor:
        """A sweep that leaves eq. (1) at β in place."""
        if beta == 0:
            return self.start(spins.shape[1], rng)
        extra = (1.0 - beta) / beta * self.base
        own = self.machine.biases
        between = Machine(self.machine.couplings, extra if own is None else own.data + extra)
        return sweep(between, spins, rng, beta)

    def terms(self, spins: Tensor) -> Terms:
        """What log f_β of these configurations depends on, for all β at once."""
        layers = self.machine.layers
        kept = spins.double()
        if kept is spins:
            kept = spins.clone()
        for layer in layers.inferred:
            kept[..., layers.slices[layer]] = 0.0
        base = self.base[:, None].double()
        return Terms(
            self.precise.energy(kept),
            -(kept * base).sum(-1),
            [
                (self.precise.field(kept, layer), base[..., layers.slices[layer]])
                for layer in layers.inferred
            ],
        )


@dataclass(frozen=True)
class Terms:
    """log f_β(s) = −β E − (1 − β) E⁰ + Σ_free log 2cosh(β field + (1 − β) b⁰)."""

    energy: Tensor  # (e, c)
    base_energy: Tensor  # (e, c)
    free: list[tuple[Tensor, Tensor]]  # fields (e, c, n_l) and b⁰ (e, 1, n_l)

    def log_f(self, beta: float) -> Tensor:
        total = -beta * self.energy - (1.0 - beta) * self.base_energy
        for field, base in self.free:
            both = field * beta + base * (1.0 - beta)
            total = total + log_2cosh(both).sum(-1)
        return total


@torch.no_grad()
def schedule(
    path: Path, rng: torch.Generator, *, chains: int = 100, spread: float = 0.25, most: int = 10_000
) -> list[float]:
    """Inverse temperatures from 0 to 1, evenly spaced in what a step adds to the spread of log w.

    A pilot run takes the longest step that keeps the standard deviation of its log weight below
    `STEP` in every replica; each step is then divided so that the variances add up to `spread`, or
    to as little as `most` temperatures allow.
    """
    spins = path.start(chains, rng)
    betas = [0.0]
    while betas[-1] < 1.0:
        terms, here = path.terms(spins), betas[-1]
        before = terms.log_f(here)

        def fits(there: float, terms: Terms = terms, before: Tensor = before) -> bool:
            return float((terms.log_f(there) - before).std(1).max()) <= STEP

        low, high = here, 1.0
        if fits(1.0):
            low = 1.0
        else:
            step = 1e-6
            while here + step < 1.0 and fits(here + step):  # by doubling, then by halving
                low, step = here + step, 2.0 * step
            high = min(1.0, here + step)
            for _ in range(8):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if fits(middle) else (low, middle)
            low = max(low, min(1.0, here + 1e-6))
        betas.append(low)
        spins = path.move(spins, rng, low)
        if len(betas) > most:
            raise InputError(
                f"annealing this machine needs more than {most:,} temperatures (β = {low:.3g} so "
                "far); allow more, or use another method"
            )
    steps = len(betas) - 1
    pieces = max(1, min(math.ceil(steps * STEP**2 / spread), most // steps))
    return [a + (b - a) * i / pieces for a, b in pairwise(betas) for i in range(pieces)] + [1.0]


def halved(betas: list[float]) -> list[float]:
    """The same schedule with every step divided in two."""
    return [x for a, b in pairwise(betas) for x in (a, 0.5 * (a + b))] + betas[-1:]


@torch.no_grad()
def forward(
    path: Path, betas: list[float], chains: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """log w of eq. (3), (e, c), and where the chains end, (e, c, n)."""
    spins = path.start(chains, rng)
    total = torch.zeros(spins.shape[:2], dtype=torch.float64, device=spins.device)
    for here, there in pairwise(betas):
        terms = path.terms(spins)
        total += terms.log_f(there) - terms.log_f(here)
        spins = path.move(spins, rng, there)
    return total, spins


@torch.no_grad()
def backward(path: Path, betas: list[float], spins: Tensor, rng: torch.Generator) -> Tensor:
    """log 1/w, (e, c), of chains that start from the machine's own distribution."""
    total = torch.zeros(spins.shape[:2], dtype=torch.float64, device=spins.device)
    for here, there in pairwise(reversed(betas)):
        # The last move at β_T, then the weight of the step down: the mirror image of `forward`.
        spins = path.move(spins, rng, here)
        terms = path.terms(spins)
        total += terms.log_f(there) - terms.log_f(here)
    return total


@dataclass(frozen=True)
class LogMean:
    """log (mean w) of weights, its standard error, and how many weights carry it."""

    value: Tensor  # (e,)
    error: Tensor  # (e,)
    ess: Tensor  # (e,): (Σw)² / Σw²
    largest: Tensor  # (e,): the largest weight's share

    @staticmethod
    def of(logs: Tensor) -> LogMean:
        count = logs.shape[1]
        shares = torch.softmax(logs, 1)  # (e, c)
        square = shares.square().sum(1)
        # Var(mean w) / (mean w)² = (count Σ shares² − 1) / (count − 1), the delta method.
        error = ((count * square - 1.0).clamp(min=0.0) / (count - 1)).sqrt()
        value = torch.logsumexp(logs, 1) - math.log(count)
        return LogMean(value, error, 1.0 / square, shares.amax(1))


@torch.no_grad()
def resample(spins: Tensor, logs: Tensor, rng: torch.Generator) -> Tensor:
    """Chains drawn again in proportion to their weights."""
    rows = torch.multinomial(torch.softmax(logs, 1), spins.shape[1], True, generator=rng)
    return spins.gather(1, rows[..., None].expand(-1, -1, spins.shape[2]))
