"""Annealed importance sampling along a path, forward and in reverse (`paths.py`).

A chain that visits s_1, s_2, … at positions β_1 < β_2 < … < β_T of a path gathers

    w = Π_t f_{β_t}(s_t) / f_{β_{t−1}}(s_t),        ⟨w⟩ = Z / Z_0                         (1)

so that log (mean w) lies below log Z / Z_0 on average (Jensen); chains that start from the machine and
walk back have ⟨1/w⟩ = Z_0 / Z and lie above it on average. A single estimate is no bound: it lies to
either side by its standard error. Bennett's ratio joins the two: of all estimates from n chains each
way, the one of least variance,

    Σ_forward 1 / (1 + exp(c) / w) = Σ_back 1 / (1 + w exp(−c)),        c = log Z / Z_0   (2)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ..accel.executors import repeated
from ..errors import InputError
from ..estimates import Estimate
from ..progress import report_progress
from .paths import LogWeights, Path, Position

UNSEEN = 1.0  # over n chains, an error beside the others: all easily miss a part of weight 1/n
STEP = 0.6  # pilot: standard deviation of log w that one step may add


@torch.no_grad()
def pilot(
    path: Path,
    rng: torch.Generator,
    *,
    chains: int = 100,
    step: float = STEP,
    most: int = 10_000,
    shortest: float = 1e-6,
) -> tuple[list[float], list[Tensor]]:
    """Positions from 0 to the end, each as far from the last as keeps the standard deviation of a
    step's log weight below `step` in every replica, and the chains that stood there."""
    spins = path.start(chains, rng)
    end = path.end
    betas, stood, last = [0.0], [spins], shortest
    while betas[-1] < end:
        report_progress()
        log_f, here = path.weights(spins), betas[-1]
        before = log_f(here)

        def fits(there: float, log_f: LogWeights = log_f, before: Tensor = before) -> bool:
            return float((log_f(there) - before).std(1).max()) <= step

        low, high = here, end
        if fits(end):
            low = end
        else:
            stride = max(shortest, 0.5 * last)  # from the last step, by doubling, then by halving
            while here + stride < end and fits(here + stride):
                low, stride = here + stride, 2.0 * stride
            high = min(end, here + stride)
            for _ in range(5):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if fits(middle) else (low, middle)
            low = max(low, min(end, here + shortest))
        last = low - here
        betas.append(low)
        spins = path.move(spins, rng, low)
        stood.append(spins)
        if len(betas) > most and low < end:
            raise InputError(
                f"annealing this machine needs more than {most:,} temperatures (β = {low:.3g} so "
                "far); allow more, or use another method"
            )
    return betas, stood


def schedule(
    path: Path, rng: torch.Generator, *, variance: float = 0.25, most: int = 10_000
) -> list[float]:
    """Positions from 0 to the end, evenly spaced in what a step adds to the spread of log w.

    Each step of the pilot is divided so that the variances add up to `variance`, or to as little as
    `most` temperatures allow.
    """
    betas, _ = pilot(path, rng, most=most)
    steps = len(betas) - 1
    pieces = max(1, min(math.ceil(steps * STEP**2 / variance), most // steps))
    return resized(betas, steps * pieces + 1)


def resized(betas: list[float], count: int) -> list[float]:
    """About `count` positions with the same density as these."""
    pieces = max(1, round((count - 1) / (len(betas) - 1)))
    between = [a + (b - a) * i / pieces for a, b in pairwise(betas) for i in range(pieces)]
    return [*between, betas[-1]]


@torch.no_grad()
def forward(
    path: Path,
    betas: list[float],
    chains: int,
    rng: torch.Generator,
    tick: Callable[[], None] = report_progress,
) -> tuple[Tensor, Tensor]:
    """log w of eq. (1), (e, c), and where the chains end, (e, c, n); `tick` is called at each step."""
    spins = path.start(chains, rng)
    total = torch.zeros(spins.shape[:2], dtype=torch.float64, device=spins.device)

    def step(here: Position, there: Position) -> None:
        log_f = path.weights(spins)
        total.add_(log_f(there) - log_f(here))
        spins.copy_(path.move(spins, rng, there))

    _walk(path, step, betas, rng, tick)
    return total, spins


@torch.no_grad()
def backward(
    path: Path,
    betas: list[float],
    spins: Tensor,
    rng: torch.Generator,
    tick: Callable[[], None] = report_progress,
) -> Tensor:
    """log 1/w, (e, c), of chains that start from the machine's own distribution."""
    total = torch.zeros(spins.shape[:2], dtype=torch.float64, device=spins.device)
    spins = spins.clone()

    def step(here: Position, there: Position) -> None:
        # The last move at β_T, then the weight of the step down: the mirror image of `forward`.
        log_f = path.weights(spins.copy_(path.move(spins, rng, here)))
        total.add_(log_f(there) - log_f(here))

    _walk(path, step, betas[::-1], rng, tick)
    return total


def _walk(
    path: Path,
    step: Callable[[Position, Position], None],
    betas: list[float],
    rng: torch.Generator,
    tick: Callable[[], None],
) -> None:
    """From each position to the next; a step changes its tensors in place."""
    take = repeated(step, rng, len(betas) - 1) if path.capturable else step
    with path.fixed_parameters():
        for here, there in pairwise(betas):
            take(here, there)
            tick()


@dataclass(frozen=True)
class LogMean(Estimate):
    """log (mean w), and how many weights carry it."""

    ess: Tensor  # (e,): (Σw)² / Σw²
    largest: Tensor  # (e,): the largest weight's share

    @staticmethod
    def of(logs: Tensor) -> LogMean:
        """From log w (e, c)."""
        count = logs.shape[1]
        shares = torch.softmax(logs, 1)  # (e, c)
        square = shares.square().sum(1)
        # Var(mean w) / (mean w)² = (count Σ shares² − 1) / (count − 1), the delta method.
        error = ((count * square - 1.0).clamp(min=0.0) / (count - 1)).sqrt()
        value = torch.logsumexp(logs, 1) - math.log(count)
        return LogMean(value, error, 1.0 / square, shares.amax(1))


@torch.no_grad()
def resample(
    spins: Tensor, logs: Tensor, rng: torch.Generator, count: int | None = None
) -> tuple[Tensor, Tensor]:
    """As many chains, or `count`, drawn again in proportion to their weights, and how many different
    ones there are, (e,)."""
    rows = torch.multinomial(torch.softmax(logs, 1), count or len(logs[0]), True, generator=rng)
    drawn = torch.zeros_like(logs, dtype=torch.bool).scatter_(1, rows, True)
    return spins.gather(1, rows[..., None].expand(-1, -1, spins.shape[2])), drawn.sum(1)


@torch.no_grad()
def bennett(forward: Tensor, back: Tensor, apart: Tensor | None = None) -> LogMean:
    """Eq. (2): c from log w (e, n) of the chains forward and log 1/w (e, n) of those that walk back.

    `apart` (e,) says how many of the latter are independent: those drawn again from one chain count
    as one in the error.
    """
    low = torch.minimum(forward.amin(1), -back.amax(1))
    high = torch.maximum(forward.amax(1), -back.amin(1))
    ratio = math.log(forward.shape[1] / back.shape[1])

    def sides(c: Tensor) -> tuple[Tensor, Tensor]:
        there = torch.sigmoid(forward - c[:, None] - ratio)
        return there, torch.sigmoid(back + c[:, None] + ratio)

    for _ in range(80):  # the difference of the two sides falls with c: bisection
        middle = 0.5 * (low + high)
        there, again = sides(middle)
        up = there.sum(1) > again.sum(1)
        low, high = torch.where(up, middle, low), torch.where(up, high, middle)
    c = 0.5 * (low + high)

    def ratio_of(x: Tensor) -> Tensor:  # mean square over squared mean: 1 where all chains count
        return x.square().mean(1) / x.mean(1).square()

    there, again = (ratio_of(x) for x in sides(c))
    count = torch.full_like(c, back.shape[1]) if apart is None else apart
    error = ((there - 1.0) / forward.shape[1] + (again - 1.0) / count).clamp(min=0.0).sqrt()
    unseen = UNSEEN * torch.maximum(there / forward.shape[1], again / count)
    one, two = LogMean.of(forward), LogMean.of(back)
    return LogMean(
        c,
        torch.hypot(error, unseen),  # the first is Bennett 1976, eq. (10)
        torch.minimum(one.ess, two.ess),
        torch.maximum(one.largest, two.largest),
    )
