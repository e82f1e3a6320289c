"""Samples beside data: moments, and where they lie along the data's principal components.

    C_i = ⟨v_i⟩,    C_ij = ⟨δ_i δ_j⟩,    C_ijk = ⟨δ_i δ_j δ_k⟩,    δ = v − ⟨v⟩                   (1)

Errors come from a jackknife that leaves out a twentieth of the samples and of the data at a time, since
moments share points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, check_count
from ..estimates import BLOCKS, Estimate, jackknife
from ..progress import report_progress, watched
from ..random import check_rng
from .neighbours import FEWER, checked, shuffled


@dataclass(frozen=True, repr=False)
class Moment(Displayable):
    """Moments (1) of one order, of samples and of data.

    `floor` is the rms difference that two finite draws from one distribution would show; the slope of
    samples against data is flattened where the data's own moments are noise.
    """

    order: int
    samples: Tensor  # (e, x)
    data: Tensor  # (x,)
    rms: Estimate
    floor: Tensor  # (e,)
    slope: Estimate
    correlation: Estimate


@dataclass(frozen=True, repr=False)
class Projections(Displayable):
    """Samples and data along the data's principal components.

    `distance` is Wasserstein's, ∫|F_S − F_D|, in units of the data's standard deviation; `floor` is that
    between two halves of the data, scaled to the sizes compared.
    """

    axes: Tensor  # (k, v)
    share: Tensor  # (k,) of the variance
    data: Tensor  # (d, k)
    samples: Tensor  # (e, c, k)
    distance: Estimate  # (e, k)
    floor: Tensor  # (k,)


@watched("moments of samples", remedy=FEWER)
@torch.no_grad()
def moments(
    samples: Any,
    data: Any,
    rng: torch.Generator,
    *,
    triples: int = 4000,
    limit: float | None = None,
) -> tuple[Moment, Moment, Moment]:
    """Moments (1) of order 1, 2 and 3; of more than `triples` triples, that many at random."""
    check_count("the number of triples", triples, least=0)
    check_rng(rng)
    samples, data = checked(samples, data)
    blocks = min(BLOCKS, samples.shape[1], len(data))
    index = _triples(data.shape[1], triples, rng).to(data.device)
    truth = _connected(data, index, blocks)
    orders: list[list[tuple[Tensor, Tensor, Tensor]]] = [[], [], []]
    for replica in samples:
        report_progress()
        for order, (ours, theirs) in enumerate(
            zip(_connected(replica, index, blocks), truth, strict=True)
        ):
            errors = jackknife(ours).error, jackknife(theirs).error
            noise = torch.hypot(*errors).square().mean().sqrt()
            orders[order].append((ours[0], noise, _scatter(ours, theirs)))
    results = []
    for order, each in enumerate(orders):
        numbers = torch.stack([scatter for _, _, scatter in each], 2)  # (3, 1 + blocks, e)
        rms, slope, correlation = map(jackknife, numbers)
        ours, floor = torch.stack([x for x, _, _ in each]), torch.stack([x for _, x, _ in each])
        results.append(Moment(order + 1, ours, truth[order][0], rms, floor, slope, correlation))
    return results[0], results[1], results[2]


def _triples(width: int, limit: int, rng: torch.Generator) -> Tensor:
    """(t, 3) with i < j < k."""
    if math.comb(width, 3) <= limit:
        return torch.tensor(list(combinations(range(width), 3)), dtype=torch.long).view(-1, 3)
    order = torch.rand((limit, width), generator=rng, device=rng.device).argsort(1)
    return order[:, :3].sort(1).values


def _connected(spins: Tensor, index: Tensor, blocks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Moments (1) of each order, of all spins, then without each block, (1 + blocks, x)."""
    parts = [spins[b::blocks] for b in range(blocks)]
    i, j, k = index.T
    # Sums of ±1 are whole numbers: exact in float32 up to 2^24 samples.
    ones = [part.sum(0).double() for part in parts]
    twos = [(part.T @ part).double() for part in parts]
    threes = [(part[:, i] * part[:, j] * part[:, k]).sum(0).double() for part in parts]
    one, two, three = (sum(x[1:], x[0]) for x in (ones, twos, threes))
    above = torch.ones_like(two, dtype=torch.bool).triu(1)
    rows = []
    for b in range(-1, blocks):
        count = len(spins) - (len(parts[b]) if b >= 0 else 0)
        m = (one - ones[b] if b >= 0 else one) / count
        pair = (two - twos[b] if b >= 0 else two) / count - m[:, None] * m
        triple = (three - threes[b] if b >= 0 else three) / count
        mixed = m[i] * pair[j, k] + m[j] * pair[i, k] + m[k] * pair[i, j]
        rows.append((m, pair[above], triple - mixed - m[i] * m[j] * m[k]))
    first, second, third = (torch.stack(x) for x in zip(*rows, strict=True))
    return first, second, third


def _scatter(ours: Tensor, theirs: Tensor) -> Tensor:
    """Rms difference, slope and correlation of ours against theirs, (3, rows)."""
    y, x = ours - ours.mean(1, keepdim=True), theirs - theirs.mean(1, keepdim=True)
    both, xx, yy = (x * y).sum(1), x.square().sum(1), y.square().sum(1)
    return torch.stack([(ours - theirs).square().mean(1).sqrt(), both / xx, both / (xx * yy).sqrt()])


@watched("projections", remedy=FEWER)
@torch.no_grad()
def projections(
    samples: Any,
    data: Any,
    rng: torch.Generator,
    *,
    components: int = 10,
    limit: float | None = None,
) -> Projections:
    """Samples and data on the data's first principal components; `rng` halves the data for the floor."""
    check_count("the number of components", components)
    check_rng(rng)
    samples, data = checked(samples, data)
    most = min(data.shape[1], len(data) - 1)
    if components > most:
        raise InputError(
            f"{len(data)} images of {data.shape[1]} pixels have at most {most} principal components, "
            f"not {components}; ask for fewer"
        )
    centre = data.double().mean(0)
    away = data.double() - centre
    variance, vectors = torch.linalg.eigh(away.T @ away / len(data))
    axes = vectors.T.flip(0)[:components]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = axes * largest.sign()  # an eigenvector has no sign of its own
    ours, theirs = (samples.double() - centre) @ axes.T, away @ axes.T
    unit = theirs.std(0)

    blocks = min(BLOCKS, ours.shape[1], len(theirs))
    rows, columns = (torch.arange(n, device=ours.device) % blocks for n in (ours.shape[1], len(theirs)))
    distances = [
        torch.stack([_wasserstein(replica[rows != b], theirs[columns != b]) for replica in ours]) / unit
        for b in range(-1, blocks)
    ]  # (e, k) each
    halves = []
    for _ in range(10):
        order = shuffled(len(theirs), rng, theirs)
        half = len(theirs) // 2
        halves.append(_wasserstein(theirs[order[:half]], theirs[order[half:]]) / unit)
    sizes = math.sqrt((1 / ours.shape[1] + 1 / len(theirs)) * len(theirs) / 4)
    return Projections(
        axes,
        variance.flip(0)[:components] / variance.sum(),
        theirs,
        ours,
        jackknife(torch.stack(distances)),
        torch.stack(halves).mean(0) * sizes,
    )


def _wasserstein(a: Tensor, b: Tensor) -> Tensor:
    """∫|F_a − F_b| of every column, (k,)."""
    report_progress()
    a, b = a.T.contiguous().sort(1).values, b.T.contiguous().sort(1).values
    both = torch.cat([a, b], 1).sort(1).values
    at = both[:, :-1].contiguous()
    below = [torch.searchsorted(x, at, right=True) / x.shape[1] for x in (a, b)]
    return ((below[0] - below[1]).abs() * both.diff(dim=1)).sum(1)
