"""Overlaps: do independent chains of one machine agree, and does a chain agree with its later self?

    q_ab = (1/N) Σ_i s_i^a s_i^b                     between two chains a ≠ b             (1)
    q_EA = (1/N) Σ_i ⟨s_i⟩_early ⟨s_i⟩_late          within one chain                     (2)
    d_ab = (1 − q_ab) / 2                            the share of units that differ       (3)
    K    = (d_3 − d_2) / sd(d),  d_1 ≤ d_2 ≤ d_3     over triples of chains               (4)

One pure state: every overlap is q_EA. A paramagnet: all are 0, up to 1/√N. A glass: q_EA is large
and the overlaps between chains are smaller and spread, each chain being in a valley of its own. In
an ultrametric set the two largest distances of every triple agree, K = 0 (K as in Hed, Young and
Domany 2004); three independent Gaussian distances have ⟨K⟩ = 0.846.

The samples are the caller's: spins (e, c, n) of independent chains at equilibrium, or a series
(e, c, t, n) of them. Pairs and triples share chains and are not independent, so every error here is a
jackknife that leaves out chains. Of a machine without biases s and −s weigh the same: `fold=True`
takes |q| for q, so that the two count as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..accel.memory import check_room
from ..arrays import as_tensor
from ..display import Displayable
from ..errors import InputError, check_count, is_number
from ..estimates import BLOCKS, Estimate, jackknife
from ..machines.machine import Machine
from ..progress import report_progress, watched
from ..random import rng_from


@dataclass(frozen=True, repr=False)
class OverlapDistribution(Displayable):
    """P(q) over pairs of independent chains, and its moments."""

    edges: Tensor  # (b + 1,)
    density: Estimate  # (e, b)
    mean: Estimate  # ⟨q⟩
    size: Estimate  # ⟨|q|⟩
    square: Estimate  # ⟨q²⟩; 1/N for independent fair spins
    variance: Estimate  # ⟨q²⟩ − ⟨q⟩²
    binder: Estimate  # (3 − ⟨q⁴⟩/⟨q²⟩²)/2: 0 for a Gaussian P(q), 1 for |q| of one value
    near_zero: Estimate  # P(|q| < near)
    near: float


def overlaps(spins: Tensor, *, fold: bool = False) -> Tensor:
    """Overlaps q_ab = s_a·s_b / N of all pairs of chains a < b.

    Parameters
    ----------
    spins : Tensor of shape (e, c, n)
        Configurations of independent chains.
    fold : bool, default False
        Take |q|, as for machines without biases, where s and −s are equally likely.

    Returns
    -------
    Tensor of shape (e, pairs), float64
        Overlaps from −1 to 1.

    Examples
    --------
    >>> rb.overlaps([[[1, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]]])
    tensor([[ 0.5000, -1.0000, -0.5000]], dtype=torch.float64)
    """
    return _pairs(_gram(_chains(spins, 2), fold))


@watched("the distribution of overlaps", remedy="take fewer chains")
def overlap_distribution(
    spins: Tensor,
    *,
    fold: bool = False,
    edges: Tensor | None = None,
    near: float = 0.2,
    limit: float | None = None,
) -> OverlapDistribution:
    """P(q), the distribution of overlaps between chains, and its moments.

    For one layer alone give `spins[..., machine.layers.slices[layer]]`.

    Parameters
    ----------
    spins : Tensor of shape (e, c, n)
        Configurations of at least four independent chains at equilibrium.
    fold : bool, default False
        Take |q|, as for machines without biases.
    edges : Tensor of shape (b + 1,), optional
        Bin edges; by default about forty bins that hold equally many of the values that q can take.
    near : float, default 0.2
        Bound for the share of pairs with |q| below it.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    OverlapDistribution
        Density per bin, ⟨q⟩, ⟨|q|⟩, ⟨q²⟩, variance, Binder parameter and P(|q| < near), with jackknife
        errors.

    Raises
    ------
    InputError
        If there are fewer than four chains, or the edges do not rise.
    """
    spins = _chains(spins, 4)
    if not (is_number(near) and 0 < near <= 1):
        raise InputError(f"near is a bound on |q|, above 0 and at most 1, not {near!r}")
    edges = aligned_edges(spins.shape[2]) if edges is None else as_tensor(edges, what="edges").double()
    if edges.dim() != 1 or len(edges) < 2 or not bool((edges.diff() > 0).all()):
        raise InputError(f"edges of a histogram are at least two rising numbers, not {edges.tolist()}")
    edges = edges.to(spins.device)
    gram = _gram(spins, fold)

    def density(q: Tensor) -> Tensor:
        bins = torch.bucketize(q, edges, right=True) - 1  # (e, pairs)
        bins = torch.where(q == edges[-1], len(edges) - 2, bins)  # the last bin is closed
        counts = torch.stack([(bins == b).double().mean(1) for b in range(len(edges) - 1)], 1)
        return counts / edges.diff()

    def binder(q: Tensor) -> Tensor:
        return 0.5 * (3.0 - q.pow(4).mean(1) / q.square().mean(1).square())

    return OverlapDistribution(
        edges,
        density=_over_pairs(density, gram),
        mean=_over_pairs(lambda q: q.mean(1), gram),
        size=_over_pairs(lambda q: q.abs().mean(1), gram),
        square=_over_pairs(lambda q: q.square().mean(1), gram),
        variance=_over_pairs(lambda q: q.var(1, correction=0), gram),
        binder=_over_pairs(binder, gram),
        near_zero=_over_pairs(lambda q: (q.abs() < near).double().mean(1), gram),
        near=near,
    )


def aligned_edges(units: int) -> Tensor:
    """Edges, symmetric about 0, of about forty bins that hold equally many of the values of q; the
    outermost two may reach beyond ±1 and hold fewer."""
    step = max(1, round(units / 40))
    step += units % 2 == 0 and step % 2 == 0  # else values of q would lie on edges
    first = 0 if units % 2 and step % 2 else step  # the values of odd N avoid 0
    side = torch.arange(first, units + 2 * step, 2 * step, dtype=torch.float64)
    negative = -side.flip(0)
    return torch.cat([negative[: -1 if first == 0 else None], side]) / units


@dataclass(frozen=True, repr=False)
class Freezing(Displayable):
    """Overlaps of time averages: of a chain with its later self, and with other chains."""

    within: Estimate  # q_EA, eq. (2)
    between: Estimate  # the same for two chains: early of one, late of the other
    gap: Estimate  # within − between: 0 in one pure state, positive when there are several


def freezing(series: Tensor, *, fold: bool = False) -> Freezing:
    """Whether chains stay where they are while differing from each other: q_EA against ⟨q⟩.

    The first half of the time series is multiplied with the second, so that the noise of the averages
    drops out. Memory of correlation time τ that is left raises q_EA by about τ/t.

    Parameters
    ----------
    series : Tensor of shape (e, c, t, n)
        Time series of independent chains.
    fold : bool, default False
        Take the size of overlaps between chains, which is above 0 by chance: 0.8/√(N t) or more.

    Returns
    -------
    Freezing
        `within` (q_EA), `between` (mean overlap of different chains) and their difference `gap`.
    """
    early, late = _halves(series)
    gram = early @ late.mT / early.shape[2]  # (e, c, c)
    own = torch.eye(gram.shape[1], dtype=torch.bool, device=gram.device)
    other = gram.abs() if fold else gram

    def within(keep: Tensor) -> Tensor:
        return gram.diagonal(dim1=-2, dim2=-1)[:, keep].mean(1)

    def between(keep: Tensor) -> Tensor:
        return other[:, keep][:, :, keep].masked_fill(own[keep][:, keep], 0.0).sum((1, 2)) / (
            len(keep) * (len(keep) - 1)
        )

    return Freezing(
        edwards_anderson(series),
        _over_chains(between, gram),
        _over_chains(lambda keep: within(keep) - between(keep), gram),
    )


def edwards_anderson(series: Tensor) -> Estimate:
    """The Edwards–Anderson parameter q_EA: the overlap of a chain with itself at later times.

    It is near 1 for chains that never leave their valley, and 0 for chains that forget. A small machine
    without biases whose chains flip as a whole within the series also has 0; see ⟨q²⟩ then.

    Parameters
    ----------
    series : Tensor of shape (e, c, t, n)
        Time series of independent chains.

    Returns
    -------
    Estimate
        Mean and error over chains, (e,).

    Examples
    --------
    >>> import torch
    >>> rb.edwards_anderson(torch.ones(1, 4, 10, 6)).value  # nothing moves
    tensor([1.], dtype=torch.float64)
    """
    early, late = _halves(series)
    return Estimate.of((early * late).mean(2))


@dataclass(frozen=True, repr=False)
class Triangles(Displayable):
    """Shapes of the triangles of distances between three chains, eq. (4)."""

    distances: Tensor  # (e, triples, 3), sorted
    spread: Tensor  # (e,) the standard deviation of the distances between chains
    k: Estimate  # ⟨K⟩
    isosceles: Estimate  # the share of triples with d_3 − d_2 < d_2 − d_1; 1/2 by chance

    def _line(self) -> str:
        return f"⟨K⟩ {self.k._line()}; isosceles {self.isosceles._line()}"


@dataclass(frozen=True, repr=False)
class Ultrametricity(Displayable):
    """Triangles of the chains, and those of a null: spins shuffled unit by unit over the chains."""

    found: Triangles
    null: Triangles


def ultrametricity(
    spins: Tensor,
    rng: torch.Generator | None = None,
    *,
    triples: int = 5000,
    fold: bool = False,
    seed: int | None = None,
) -> Ultrametricity:
    """Whether triples of chains form isosceles triangles with a short base, as in an ultrametric set.

    The null model shuffles every unit over the chains: magnetisations stay, correlations go. Chains in
    one pure state look like it too, so the numbers say something where P(q) is broad.

    Parameters
    ----------
    spins : Tensor of shape (e, c, n)
        Configurations of at least four independent chains.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    triples : int, default 5000
        Number of random triples.
    fold : bool, default False
        Take |q|, as for machines without biases.
    seed : int, optional
        Seed of the draws.

    Returns
    -------
    Ultrametricity
        ⟨K⟩ and the share of isosceles triples, of the chains and of the null model.
    """
    spins = _chains(spins, 4)
    check_count("the number of triples", triples)
    rng = rng_from(seed, rng, "triples")
    e, c, n = spins.shape
    check_room(f"{triples:,} triples", 6 * e * triples, size=8, device=spins.device)
    # Three different chains: the second and the third are steps away from the first.
    first = torch.randint(c, (e, triples), generator=rng, device=rng.device)
    second = torch.randint(1, c, (e, triples), generator=rng, device=rng.device)
    third = torch.randint(1, c - 1, (e, triples), generator=rng, device=rng.device)
    third = third + (third >= second)
    chosen = torch.stack([first, (first + second) % c, (first + third) % c], -1).to(spins.device)
    shuffled = torch.rand((e, c, n), generator=rng, device=rng.device).argsort(1).to(spins.device)
    return Ultrametricity(
        _triangles(_gram(spins, fold), chosen),
        _triangles(_gram(spins.gather(1, shuffled), fold), chosen),
    )


@torch.no_grad()
def energies_per_unit(machine: Machine, spins: Tensor) -> Tensor:
    """E/N of each configuration (e, c, n), (e, c)."""
    return machine.energy(spins).double() / machine.layers.columns


def _triangles(gram: Tensor, chosen: Tensor) -> Triangles:
    distance = (1.0 - gram) / 2.0  # eq. (3)
    a, b, c = chosen.unbind(-1)
    flat = distance.flatten(1)
    count = gram.shape[1]
    sides = torch.stack([flat.gather(1, i * count + j) for i, j in ((a, b), (b, c), (a, c))], -1)
    sides = sides.sort(-1).values  # (e, triples, 3)
    short, long = sides[..., 1] - sides[..., 0], sides[..., 2] - sides[..., 1]
    # Distances are multiples of 1/N, so ties are common: they count as half.
    closer = torch.where((long - short).abs() < 1e-9, 0.5, (long < short).double())
    blocks = min(BLOCKS, count)
    index = torch.arange(count, device=gram.device)

    def means(without: int) -> Tensor:
        keep = index[index % blocks != without]  # −1: all
        kept = (chosen % blocks != without).all(-1).double()
        spread = _pairs(distance[:, keep][:, :, keep]).std(1, correction=0)
        return torch.stack([(long * kept).sum(1) / kept.sum(1) / spread,
                            (closer * kept).sum(1) / kept.sum(1)])  # fmt: skip

    rows = torch.stack([means(b) for b in range(-1, blocks)], 1)  # (2, 1 + blocks, e)
    return Triangles(sides, _pairs(distance).std(1, correction=0), *map(jackknife, rows))


def _chains(spins: Any, least: int) -> Tensor:
    spins = as_tensor(spins, what="spins of independent chains")
    if spins.dim() != 3 or 0 in spins.shape or spins.dtype == torch.bool:
        raise InputError(
            "spins of independent chains are numbers (replicas, chains, units), not "
            f"{spins.dtype} of {tuple(spins.shape)}; of a series (e, c, t, n) take one time, "
            "series[:, :, -1]"
        )
    if spins.shape[1] < least:
        raise InputError(
            f"overlaps with errors need at least {least} independent chains, not {spins.shape[1]}; "
            "run more chains: later states of one chain are not independent"
        )
    if not bool((spins.abs() == 1).all()):
        wrong = spins[spins.abs() != 1].flatten()[0].item()
        raise InputError(
            f"overlaps are of spins, ±1, but there is a {wrong:g}; draw the units, their means "
            "would lower every overlap"
        )
    exact: Tensor = spins.double()
    return exact


def _halves(series: Any) -> tuple[Tensor, Tensor]:
    series = as_tensor(series, what="a series")
    if series.dim() != 4 or series.shape[1] < 2 or series.shape[2] < 2 or 0 in series.shape:
        raise InputError(
            "a series is (replicas, chains, times, units) with at least two chains and two times, "
            f"not {tuple(series.shape)}; keep the states of several sweeps and stack them"
        )
    if series.dtype == torch.bool or not bool((series.abs() == 1).all()):
        raise InputError("a series is of spins, ±1, but some are not; `rapidbm.to_spins` converts {0, 1}")
    half = series.shape[2] // 2
    return series[:, :, :half].double().mean(2), series[:, :, -half:].double().mean(2)  # (e, c, n)


def _gram(spins: Tensor, fold: bool) -> Tensor:
    gram = spins @ spins.mT / spins.shape[2]  # (e, c, c)
    return gram.abs() if fold else gram


def _pairs(gram: Tensor) -> Tensor:
    i, j = torch.triu_indices(gram.shape[1], gram.shape[2], 1, device=gram.device)
    return gram[:, i, j]


def _over_pairs(function: Callable[[Tensor], Tensor], gram: Tensor) -> Estimate:
    return _over_chains(lambda keep: function(_pairs(gram[:, keep][:, :, keep])), gram)


def _over_chains(function: Callable[[Tensor], Tensor], gram: Tensor) -> Estimate:
    """A function of the chains that are kept."""
    index = torch.arange(gram.shape[1], device=gram.device)
    blocks = min(BLOCKS, len(index))
    rows = []
    for b in range(-1, blocks):
        report_progress()
        rows.append(function(index[index % blocks != b]))  # −1: all
    return jackknife(torch.stack(rows))
