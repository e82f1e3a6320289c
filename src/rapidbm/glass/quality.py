"""How well samples stand for data: neighbours, moments, projections, copies, and the way to equilibrium.

With d(x, Y) the Hamming distance from x to its nearest other member of Y, data D and samples S,

    AA_truth = P[ d(x, S) > d(x, D) ],  x ∈ D,        AA_syn = P[ d(x, D) > d(x, S) ],  x ∈ S     (1)

nearest-neighbour adversarial accuracy (Yale et al. 2019): 1/2 for equal distributions, 1 for disjoint
ones, below 1/2 for samples that sit on the data. Distances of spins tie often: a tie counts 1/2.

    C_i = ⟨v_i⟩,    C_ij = ⟨δ_i δ_j⟩,    C_ijk = ⟨δ_i δ_j δ_k⟩,    δ = v − ⟨v⟩                   (2)

Samples are (c, v) or (e, c, v) spins, independent of each other; data (d, v); `to_spins` recognises
both. Errors of (1) and (2) come
from a jackknife that leaves out a twentieth of the samples and of the data at a time, since points share
neighbours and moments share points. Where there is no difference to see it errs on the large side, by a
quarter to a half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, check_count, is_whole
from ..estimates import Estimate
from ..machines.machine import Machine
from ..machines.spins import as_spins
from ..progress import pulse, watch, watched
from ..random import check_rng
from ..sampling.gibbs import sweeps as run_sweeps

BLOCKS = 20
AGREE = 3.0  # combined errors
FEWER = "take fewer samples"


@dataclass(frozen=True)
class AdversarialAccuracy:
    """Both halves of (1), and `distance`, the mean of |AA − 1/2| over them."""

    truth: Estimate
    synthetic: Estimate
    distance: Estimate


@dataclass(frozen=True)
class Moment:
    """Moments (2) of one order, of samples and of data.

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


@dataclass(frozen=True)
class Projections:
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


@dataclass(frozen=True)
class Nearest:
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


@dataclass(frozen=True)
class Course:
    """Quality after each number of sweeps: `distance` of (1), rms of the second moments."""

    accuracy: Estimate  # (e, s)
    second: Estimate  # (e, s)


@dataclass(frozen=True)
class Relaxation:
    """Chains from random spins beside chains from data; `between` is |AA − 1/2| of one to the other."""

    sweeps: tuple[int, ...]
    random: Course
    data: Course
    between: Estimate  # (e, s)
    equilibrium: tuple[int | None, ...]  # sweeps from which on both agree, per replica


# -- neighbours ---------------------------------------------------------------------------------------


@watched("adversarial accuracy", remedy=FEWER)
@torch.no_grad()
def adversarial_accuracy(
    samples: Any, data: Any, rng: torch.Generator, *, limit: float | None = None
) -> AdversarialAccuracy:
    """Eq. (1) for equal numbers of samples and data; `rng` chooses which, of the larger set."""
    samples, data = _checked(samples, data)
    count = min(samples.shape[1], len(data))
    blocks = min(BLOCKS, count)
    count -= count % blocks
    data = data[_order(len(data), rng, data)[:count]]
    samples = samples[:, _order(samples.shape[1], rng, data)[:count]]
    among, _ = _nearest(data, data, blocks, own=True)
    parts = []
    for some in samples:
        across, back = _nearest(data, some, blocks)
        inside, _ = _nearest(some, some, blocks, own=True)
        truth, synthetic = _wins(among, across), _wins(inside, back)  # (1 + blocks,)
        distance = ((truth - 0.5).abs() + (synthetic - 0.5).abs()) / 2
        parts.append(torch.stack([truth, synthetic, distance]))
    found = torch.stack(parts, 1)  # (3, e, 1 + blocks)
    return AdversarialAccuracy(*(_left_out(x[:, 0], x[:, 1:]) for x in found))


def _nearest(
    rows: Tensor, columns: Tensor, blocks: int, *, own: bool = False
) -> tuple[Tensor, Tensor]:
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
            pulse()
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
    samples, train = _checked(samples, train)
    fresh, _ = _checked(test, train, what="test images")
    pixels = train.shape[1]
    distance = (
        torch.stack([_nearest(some, train, 1)[0][:, 0] for some in samples]).double() / pixels
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


# -- moments ------------------------------------------------------------------------------------------


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
    """Moments (2) of order 1, 2 and 3; of more than `triples` triples, that many at random."""
    check_count("the number of triples", triples, least=0)
    samples, data = _checked(samples, data)
    blocks = min(BLOCKS, samples.shape[1], len(data))
    index = _triples(data.shape[1], triples, rng).to(data.device)
    truth = _connected(data, index, blocks)
    found: list[list[tuple[Tensor, Tensor, Tensor]]] = [[], [], []]
    for some in samples:
        pulse()
        for order, (ours, theirs) in enumerate(
            zip(_connected(some, index, blocks), truth, strict=True)
        ):
            noise = (_variance(ours[1:]) + _variance(theirs[1:])).mean().sqrt()
            found[order].append((ours[0], noise, _scatter(ours, theirs)))
    results = []
    for order, each in enumerate(found):
        numbers = torch.stack([scatter for _, _, scatter in each], 1)  # (3, e, 1 + blocks)
        rms, slope, correlation = (_left_out(x[:, 0], x[:, 1:]) for x in numbers)
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
    """Moments (2) of each order, of all spins, then without each block, (1 + blocks, x)."""
    parts = [spins[b::blocks] for b in range(blocks)]
    i, j, k = index.T
    # Sums of ±1 are whole numbers: exact in float32 up to 2^24 samples.
    first = [part.sum(0).double() for part in parts]
    second = [(part.T @ part).double() for part in parts]
    third = [(part[:, i] * part[:, j] * part[:, k]).sum(0).double() for part in parts]
    one, two, three = sum(first[1:], first[0]), sum(second[1:], second[0]), sum(third[1:], third[0])
    above = torch.ones_like(two, dtype=torch.bool).triu(1)
    rows = []
    for b in range(-1, blocks):
        count = len(spins) - (len(parts[b]) if b >= 0 else 0)
        m = (one - first[b] if b >= 0 else one) / count
        pair = (two - second[b] if b >= 0 else two) / count - m[:, None] * m
        triple = (three - third[b] if b >= 0 else three) / count
        mixed = m[i] * pair[j, k] + m[j] * pair[i, k] + m[k] * pair[i, j]
        rows.append((m, pair[above], triple - mixed - m[i] * m[j] * m[k]))
    return (
        torch.stack([row[0] for row in rows]),
        torch.stack([row[1] for row in rows]),
        torch.stack([row[2] for row in rows]),
    )


def _scatter(ours: Tensor, theirs: Tensor) -> Tensor:
    """Rms difference, slope and correlation of ours against theirs, (3, rows)."""
    y, x = ours - ours.mean(1, keepdim=True), theirs - theirs.mean(1, keepdim=True)
    both, xx, yy = (x * y).sum(1), x.square().sum(1), y.square().sum(1)
    return torch.stack(
        [(ours - theirs).square().mean(1).sqrt(), both / xx, both / (xx * yy).sqrt()]
    )


# -- projections --------------------------------------------------------------------------------------


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
    samples, data = _checked(samples, data)
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
    rows, columns = (
        torch.arange(n, device=ours.device) % blocks for n in (ours.shape[1], len(theirs))
    )
    distance = torch.stack([_wasserstein(some, theirs) for some in ours]) / unit
    parts = [
        torch.stack([_wasserstein(some[rows != b], theirs[columns != b]) for some in ours]) / unit
        for b in range(blocks)
    ]
    halves = []
    for _ in range(10):
        order = _order(len(theirs), rng, theirs)
        half = len(theirs) // 2
        halves.append(_wasserstein(theirs[order[:half]], theirs[order[half:]]) / unit)
    sizes = math.sqrt((1 / ours.shape[1] + 1 / len(theirs)) * len(theirs) / 4)
    return Projections(
        axes,
        variance.flip(0)[:components] / variance.sum(),
        theirs,
        ours,
        _left_out(distance, torch.stack(parts, -1)),
        torch.stack(halves).mean(0) * sizes,
    )


def _wasserstein(a: Tensor, b: Tensor) -> Tensor:
    """∫|F_a − F_b| of every column, (k,)."""
    pulse()
    a, b = a.T.contiguous().sort(1).values, b.T.contiguous().sort(1).values
    both = torch.cat([a, b], 1).sort(1).values
    at = both[:, :-1].contiguous()
    below = [torch.searchsorted(x, at, right=True) / x.shape[1] for x in (a, b)]
    return ((below[0] - below[1]).abs() * both.diff(dim=1)).sum(1)


# -- relaxation ---------------------------------------------------------------------------------------


@watched("relaxation", remedy="take fewer chains or sweeps")
@torch.no_grad()
def relaxation(
    machine: Machine,
    data: Any,
    rng: torch.Generator,
    *,
    sweeps: Sequence[int] = (0, 1, 3, 10, 30, 100, 300, 1000),
    chains: int = 1000,
    beta: float = 1.0,
    limit: float | None = None,
) -> Relaxation:
    """Quality of chains from random spins and from data after so many Gibbs sweeps.

    One half of the data starts chains, the other half judges both. In equilibrium the start is forgotten:
    the two kinds of chains are each other's equals by (1), have equal quality, and it is that of the last
    checkpoint; all within three combined errors, here and at every later checkpoint.
    """
    machine.check_chains(chains, least=2)
    sweeps = tuple(sweeps) if isinstance(sweeps, Iterable) else ()
    whole = all(map(is_whole, sweeps))
    if not sweeps or not whole or sweeps[0] < 0 or any(a >= b for a, b in pairwise(sweeps)):
        raise InputError(f"sweeps must be numbers of at least 0 that increase, not {sweeps}")
    _, data = _checked(machine.visible_spins(data), data)
    if len(data) < 4:
        raise InputError(
            f"relaxation halves the data and needs 4 images, not {len(data)}; give more"
        )
    order = _order(len(data), rng, data)
    half = len(data) // 2
    pool, judges = data[order[:half]], data[order[half:]]
    rows = torch.randint(half, (chains,), generator=rng, device=rng.device).to(data.device)
    starts = pool[:chains] if half >= chains else pool[rows]
    states = [machine.random(chains, rng), machine.with_visible(starts, means=True)]
    done, checkpoints = 0, []
    with watch("sweeps", sweeps[-1]) as tick:
        for target in sweeps:
            states = [
                run_sweeps(machine, spins, rng, target - done, beta, means=True) for spins in states
            ]
            done = target
            seen = [spins[..., : machine.visible] for spins in states]
            checkpoints.append(
                (*(_quality(x, judges, rng) for x in seen), _each_other(seen[0], seen[1], rng))
            )
            tick(done)
    random, from_data, between = (list(x) for x in zip(*checkpoints, strict=True))
    courses = [
        Course(_joined([x for x, _ in each]), _joined([x for _, x in each]))
        for each in (random, from_data)
    ]
    other = _joined([x for x, _ in between])
    agree = torch.stack([x for _, x in between], 1).to(other.value.device)  # (e, s)
    for name in ("accuracy", "second"):
        one, two = getattr(courses[0], name), getattr(courses[1], name)
        agree &= _agree(one.value, one.error, two.value, two.error)
        for each in (one, two):  # two starts may meet on the way: nor may quality move any more
            agree &= _agree(each.value, each.error, each.value[:, -1:], each.error[:, -1:])
    lasting = agree.flip(1).cummin(1).values.flip(1)
    first = [row.nonzero() for row in lasting]
    equilibrium = tuple(sweeps[int(x[0])] if len(x) else None for x in first)
    return Relaxation(sweeps, courses[0], courses[1], other, equilibrium)


def _quality(samples: Tensor, data: Tensor, rng: torch.Generator) -> tuple[Estimate, Estimate]:
    return (
        adversarial_accuracy(samples, data, rng).distance,
        moments(samples, data, rng, triples=0)[1].rms,
    )


def _each_other(one: Tensor, other: Tensor, rng: torch.Generator) -> tuple[Estimate, Tensor]:
    """|AA − 1/2| of two sets of chains, replica by replica, and whether both halves are 1/2."""
    found = [adversarial_accuracy(a, b, rng) for a, b in zip(one, other, strict=True)]
    agree = [
        all(bool((x.value - 0.5).abs() <= AGREE * x.error) for x in (each.truth, each.synthetic))
        for each in found
    ]
    value = torch.cat([each.distance.value for each in found])
    return Estimate(value, torch.cat([each.distance.error for each in found])), torch.tensor(agree)


def _agree(one: Tensor, error: Tensor, other: Tensor, other_error: Tensor) -> Tensor:
    return (one - other).abs() <= AGREE * torch.hypot(error, other_error.expand_as(error))


def _joined(estimates: list[Estimate]) -> Estimate:
    return Estimate(
        torch.stack([x.value for x in estimates], 1), torch.stack([x.error for x in estimates], 1)
    )


# -- shared -------------------------------------------------------------------------------------------


def _variance(parts: Tensor) -> Tensor:
    """The jackknife's variance from what is left without each block, (blocks, …)."""
    blocks = len(parts)
    return (parts - parts.mean(0)).square().sum(0) * (blocks - 1) / blocks


def _left_out(value: Tensor, parts: Tensor) -> Estimate:
    """(…) and (…, blocks)."""
    return Estimate(value, _variance(parts.movedim(-1, 0)).sqrt())


def _order(count: int, rng: torch.Generator, like: Tensor) -> Tensor:
    check_rng(rng)
    return torch.randperm(count, generator=rng, device=rng.device).to(like.device)


def _checked(samples: Any, data: Any, what: str = "samples") -> tuple[Tensor, Tensor]:
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
