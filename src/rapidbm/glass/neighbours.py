"""Nearest neighbours: are samples and data each other's equals, and are samples copies?

With d(x, Y) the Hamming distance from x to its nearest other member of Y, data D and samples S,

    AA_truth = P[ d(x, S) > d(x, D) ],  x ∈ D,        AA_syn = P[ d(x, D) > d(x, S) ],  x ∈ S     (1)

nearest-neighbour adversarial accuracy (Yale et al. 2019): 1/2 for equal distributions, 1 for disjoint
ones, below 1/2 for samples that sit on the data. Distances of spins tie often: a tie counts 1/2.

Samples are (c, v) or (e, c, v) spins, independent of each other; data (d, v); `to_spins` recognises
both. Errors come from a jackknife that leaves out a twentieth of the samples and of the data at a time,
since points share neighbours. Where there is no difference to see it errs on the large side, by a quarter
to a half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError
from ..estimates import BLOCKS, Estimate, jackknife
from ..machines.spins import as_spins
from ..progress import report_progress, watched
from ..random import rng_from

FEWER = "take fewer samples"


@dataclass(frozen=True, repr=False)
class AdversarialAccuracy(Displayable):
    """Both halves of (1), and `distance`, the mean of |AA − 1/2| over them."""

    truth: Estimate
    synthetic: Estimate
    distance: Estimate


@dataclass(frozen=True, repr=False)
class Nearest(Displayable):
    """Share of pixels by which samples, and test images, differ from their nearest training image.

    A ratio of the mean distances below 1, or more copies than the test set has, is memorisation.
    """

    pixels: int
    samples: Tensor  # (e, c)
    test: Tensor  # (t,)
    mean: Estimate
    copies: Estimate
    test_mean: Estimate  # (1,)
    test_copies: Estimate  # (1,)
    ratio: Estimate


@watched("adversarial accuracy", remedy=FEWER)
@torch.no_grad()
def adversarial_accuracy(
    samples: Any,
    data: Any,
    rng: torch.Generator | None = None,
    *,
    seed: int | None = None,
    limit: float | None = None,
) -> AdversarialAccuracy:
    """Nearest-neighbour adversarial accuracy of samples and data: 1/2 when they are equally distributed.

    Eq. (1) of `rapidbm.glass.neighbours`, for equal numbers of samples and data: a random subset of the
    larger set is taken. 1 means disjoint sets, below 1/2 that samples copy data.

    Parameters
    ----------
    samples : array of shape (c, v) or (e, c, v)
        Independent samples.
    data : array of shape (d, v)
        Data to compare with.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    seed : int, optional
        Seed of the subset.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    AdversarialAccuracy
        `truth` and `synthetic`, the two accuracies, and `distance`, the mean of |AA − 1/2|; each with a
        jackknife error.

    Examples
    --------
    >>> data = rb.load("bars4").train.spins
    >>> rb.adversarial_accuracy(data, data, seed=0).truth.value.shape
    torch.Size([1])
    """
    samples, data = checked(samples, data)
    rng = rng_from(seed, rng, "neighbours")
    count = min(samples.shape[1], len(data))
    blocks = min(BLOCKS, count)
    count -= count % blocks
    data = data[shuffled(len(data), rng, data)[:count]]
    samples = samples[:, shuffled(samples.shape[1], rng, data)[:count]]
    among, _ = _nearest(data, data, blocks, own=True)
    parts = []
    for replica in samples:
        across, back = _nearest(data, replica, blocks)
        inside, _ = _nearest(replica, replica, blocks, own=True)
        truth, synthetic = _wins(among, across), _wins(inside, back)  # (1 + blocks,)
        distance = ((truth - 0.5).abs() + (synthetic - 0.5).abs()) / 2
        parts.append(torch.stack([truth, synthetic, distance]))
    return AdversarialAccuracy(*map(jackknife, torch.stack(parts, 2)))  # of (3, 1 + blocks, e)


def _nearest(rows: Tensor, columns: Tensor, blocks: int, *, own: bool = False) -> tuple[Tensor, Tensor]:
    """Smallest distances from each row to each block of columns, and from each column to each block
    of rows, (…, blocks): what a jackknife leaves out is then known without measuring again."""
    width, size = rows.shape[1], len(rows) // blocks
    step = max(1, min(size, 2**24 // len(columns)))
    forth = torch.full((len(rows), blocks), torch.inf, device=rows.device)
    back = torch.full((len(columns), blocks), torch.inf, device=rows.device)
    for b in range(blocks):
        first = b if own else 0  # a set with itself: each pair of blocks once
        left = first * size
        for start in range(b * size, (b + 1) * size, step):
            stop = min(start + step, (b + 1) * size)
            report_progress()
            distance = (width - rows[start:stop] @ columns[left:].T) / 2
            if own:
                here = torch.arange(start, stop, device=rows.device)
                distance[here - start, here - left] = torch.inf
            forth[start:stop, first:] = distance.view(stop - start, blocks - first, -1).amin(-1)
            back[left:, b] = torch.minimum(back[left:, b], distance.amin(0))
    return (torch.minimum(forth, back), back) if own else (forth, back)


def _wins(own: Tensor, other: Tensor) -> Tensor:
    """P[other > own] with ties at 1/2: of all points, then without each block, (1 + blocks,)."""
    blocks = own.shape[1]
    of_row = torch.arange(len(own), device=own.device) // (len(own) // blocks)
    results = []
    for b in range(-1, blocks):
        rows, columns = of_row != b, torch.arange(blocks, device=own.device) != b
        mine, theirs = own[rows][:, columns].amin(1), other[rows][:, columns].amin(1)
        results.append(((theirs > mine).double() + 0.5 * (theirs == mine).double()).mean())
    return torch.stack(results)


@watched("nearest images", remedy=FEWER)
@torch.no_grad()
def nearest(samples: Any, train: Any, test: Any, *, limit: float | None = None) -> Nearest:
    """Distances to the nearest training image; errors for a given training set."""
    samples, train = checked(samples, train)
    fresh, _ = checked(test, train, what="test images")
    pixels = train.shape[1]
    distance = (
        torch.stack([_nearest(replica, train, 1)[0][:, 0] for replica in samples]).double() / pixels
    )
    control = _nearest(fresh[0], train, 1)[0].T.double() / pixels  # (1, t)
    mean, test_mean = Estimate.of(distance), Estimate.of(control)
    ratio = mean.value / test_mean.value
    # Not as a sum of relative errors: copies have a mean of 0.
    spread = torch.hypot(mean.error, ratio * test_mean.error) / test_mean.value
    return Nearest(
        pixels,
        distance,
        control[0],
        mean,
        Estimate.of(distance == 0),
        test_mean,
        Estimate.of(control == 0),
        Estimate(ratio, spread),
    )


def shuffled(count: int, rng: torch.Generator, like: Tensor) -> Tensor:
    """The numbers below `count` in random order."""
    return torch.randperm(count, generator=rng, device=rng.device).to(like.device)


def checked(samples: Any, data: Any, what: str = "samples") -> tuple[Tensor, Tensor]:
    """(e, c, v) and (d, v) as ±1 in float32, where products are exact."""
    samples, data = as_spins(samples, what=what), as_spins(data)
    if data.dim() != 2 or len(data) < 2:
        raise InputError(
            f"data are at least 2 images (d, visible), not {tuple(data.shape)}; flatten images first"
        )
    samples = samples[None] if samples.dim() == 2 else samples
    if samples.dim() != 3 or samples.shape[1] < 2 or samples.shape[2] != data.shape[1]:
        raise InputError(
            f"{what} are (c, {data.shape[1]}) or (e, c, {data.shape[1]}) with c of at least 2, as the "
            f"data are {tuple(data.shape)}, not {tuple(samples.shape)}; give the visible spins alone"
        )
    return samples.float(), data.to(samples.device).float()
