"""Minima of the energy: how many there are, and how often descent ends in each.

From S random starts descent ends c_i times in minimum i; f_1 minima are found once, f_2 twice. Then

    Ŝ_1 = D + f_1 (f_1 − 1) / 2(f_2 + 1)             at least so many in all (Chao 1984)  (1)
    Y = Σ_i c_i (c_i − 1) / S (S − 1)                two starts end in the same minimum   (2)
    D(m) = Σ_i [ 1 − C(S − c_i, m) / C(S, m) ]       expected from m ≤ S of the starts    (3)

with D the minima found. Y does not depend on S; 1/Y is the number of minima that count.

Without biases s and −s count as one minimum. Patterns of ±1 leave many fields at exactly 0: saddles
on which descent would rest, and plateaus. A random field 10⁻⁹ of the others, drawn anew a few times,
takes it off the saddles; of a plateau the units without a field are set to 0, so that it counts once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..display import Displayable, words
from ..errors import check_count
from ..estimates import Estimate, jackknife
from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import watch, watched
from ..random import rng_from
from ..sampling.quench import quench

RETRIEVED = 0.9  # an overlap above which a minimum is a pattern
NUDGE, TIED = 1e-9, 1e-11  # of the largest field; float64 rounds at 1e-15
ROUNDS = 32  # an exit that one nudge in four finds is missed once in 10⁴


@dataclass(frozen=True, repr=False)
class Valleys(Displayable):
    """The minima of one replica, the most frequent first."""

    spins: Tensor  # (d, n); 0 where a unit has no field
    counts: Tensor  # (d,) starts that ended there
    energies: Tensor  # (d,) per unit
    overlaps: Tensor | None  # (d,) the largest |m_k| / Σ_i |ξ_i^k| over patterns; None if dense
    signed: int  # how many there are when s and −s count as two


@dataclass(frozen=True, repr=False)
class Minima(Displayable):
    """What descent from `starts` random configurations found in each replica."""

    valleys: tuple[Valleys, ...]
    starts: int

    def _line(self) -> str:
        return f"{words(self.distinct)} distinct, of {self.starts:,} starts"

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("distinct", self._line()),
            ("in all, at least", self.total._line()),
            ("share of the most frequent", self.top._line()),
            ("energies per unit", "; ".join(words(v.energies) for v in self.valleys[:3])),
        ]

    @property
    def distinct(self) -> Tensor:
        """Minima found, s and −s being one where there are no biases, (e,)."""
        return torch.tensor([len(v.counts) for v in self.valleys])

    @property
    def signed(self) -> Tensor:
        """Minima found, s and −s being two, (e,)."""
        return torch.tensor([v.signed for v in self.valleys])

    @property
    def top(self) -> Estimate:
        """The share of starts that ended in the most frequent minimum."""
        share = torch.stack([v.counts[0] for v in self.valleys]).double().cpu() / self.starts
        return Estimate.share(share, self.starts)

    @property
    def total(self) -> Estimate:
        """Eq. (1): how many minima there are, from below."""
        return Estimate.stack([chao1(v.counts) for v in self.valleys])

    @property
    def coincidence(self) -> Estimate:
        """Y of eq. (2)."""
        return Estimate.stack([coincidence(v.counts) for v in self.valleys])

    @property
    def retrieval(self) -> Estimate | None:
        """The share of starts that ended in a pattern; None for dense couplings."""
        share = self._share_of_patterns(lambda v, found: float((found * v.counts).sum()) / self.starts)
        return None if share is None else Estimate.share(share, self.starts)

    @property
    def patterns(self) -> Tensor | None:
        """The share of minima, not of starts, that are a pattern; the others are mixtures, (e,)."""
        return self._share_of_patterns(lambda _, found: float(found.double().mean()))

    def _share_of_patterns(self, share: Callable[[Valleys, Tensor], float]) -> Tensor | None:
        """Of each replica, from its minima and which of them are a pattern, (e,)."""
        shares = [share(v, v.overlaps > RETRIEVED) for v in self.valleys if v.overlaps is not None]
        return torch.tensor(shares, dtype=torch.float64) if shares else None

    def rarefaction(self) -> tuple[Tensor, Estimate]:
        """Numbers of starts m (p,) and D(m) of eq. (3), (e, p), with the errors of Colwell et al.
        (2012), up to half too large for a fixed landscape: a curve that still rises has more to find."""
        m = torch.unique(torch.linspace(1, self.starts, min(40, self.starts)).round().long())
        values, errors = [], []
        for valley in self.valleys:
            seen = 1.0 - _missed(valley.counts.cpu(), m, self.starts)  # (d, p)
            value = seen.sum(0)
            total = max(float(chao1(valley.counts).value), 1.0)
            errors.append((seen.square().sum(0) - value.square() / total).clamp_min(0).sqrt())
            values.append(value)
        return m, Estimate(torch.stack(values), torch.stack(errors))


@watched("minima", remedy="take fewer starts")
@torch.no_grad()
def minima(
    machine: Machine,
    starts: int,
    rng: torch.Generator | None = None,
    *,
    seed: int | None = None,
    limit: float | None = None,
) -> Minima:
    """The distinct energy minima in which descent from random configurations ends.

    Without biases, s and −s count as one minimum.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    starts : int
        Number of random configurations, at least 2.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Minima
        The minima of each replica with counts and energies, and an estimate of how many there are in
        all.

    Examples
    --------
    >>> machine = rb.rbm(40, 40, patterns=1, seed=0)
    >>> rb.minima(machine, 50, seed=0).distinct.tolist()  # the pattern, up to its sign
    [1]
    """
    check_count("the number of starts", starts, least=2)
    machine.layers.check_spins("a minimum")
    rng = rng_from(seed, rng, "minima", device=machine.device)
    spins, tied = minima_below(machine, machine.random(starts, rng), rng)
    keys = torch.where(tied, 0.0, spins).to(torch.int8)
    first = (keys != 0).to(torch.int8).argmax(-1, keepdim=True)
    turn = keys.gather(-1, first).where(keys.gather(-1, first) != 0, 1)
    one = keys * turn if machine.symmetric else keys
    energy = machine.energy(spins).double() / machine.layers.columns
    best = _largest_overlap(machine, spins)
    valleys = []
    for e in range(machine.replicas):
        states, where, counts = torch.unique(one[e], dim=0, return_inverse=True, return_counts=True)
        order = counts.argsort(descending=True, stable=True)
        member = torch.empty_like(counts).scatter_(0, where, torch.arange(starts, device=where.device))[
            order
        ]  # one start that ended there
        signed = len(torch.unique(keys[e], dim=0))
        overlap = None if best is None else best[e, member]
        valleys.append(Valleys(states[order], counts[order], energy[e, member], overlap, signed))
    return Minima(tuple(valleys), starts)


@torch.no_grad()
def minima_below(machine: Machine, spins: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Minima below the configurations (e, c, n), and which of their units have no field."""
    exact = copy.deepcopy(machine).double()  # in float32 a field of 0 has a sign by rounding
    spins = exact.configuration(spins).clone()
    biases = 0.0 if exact.biases is None else exact.biases.detach()
    scale = trusted.fields(exact, spins).abs().amax((1, 2))  # (e,)
    shape = (exact.replicas, exact.layers.columns)
    tied = torch.ones_like(spins, dtype=torch.bool)
    with watch("rounds of descent") as tick:
        for _ in range(ROUNDS):
            half = torch.rand(shape, generator=rng, dtype=torch.float64, device=rng.device) / 2
            nudge = SPIN.random(shape, rng, torch.float64) * (0.5 + half)
            moving = tied.any(-1).any(0)  # (c,)
            nudged = Machine(exact.couplings, biases + nudge * (NUDGE * scale[:, None]))
            ends = quench(nudged, spins[:, moving])
            spins[:, moving] = ends
            tied[:, moving] = trusted.fields(exact, ends).abs() <= TIED * scale[:, None, None]
            if not bool(tied.any()):
                break
            tick()
    return spins.to(machine.dtype), tied


@torch.no_grad()
def stability(machine: Machine, rng: torch.Generator) -> Estimate | None:
    """Overlap of each pattern with the minimum below it, mean and error over patterns: 1 where
    patterns are minima. None for dense couplings."""
    if machine.patterns is None:
        return None
    xi = machine.patterns.detach()
    ends, _ = minima_below(machine, SPIN.nearest(xi), rng)
    return over_patterns(overlap_kept(ends, xi))


def overlap_kept(spins: Tensor, xi: Tensor) -> Tensor:
    """Σ_i ξ_i s_i / Σ_i |ξ_i| of spins and patterns (…, n)."""
    return (spins * xi).double().sum(-1) / xi.abs().double().sum(-1).clamp_min(1e-300)


def over_patterns(values: Tensor) -> Estimate:
    """Mean and error of values (e, k) over patterns; of a single one nothing is sampled."""
    found = Estimate.of(values)
    return Estimate(found.value, found.error.nan_to_num(0.0))


def chao1(counts: Tensor) -> Estimate:
    """Eq. (1) and its standard error (Chao 1987, for the bias-corrected form)."""
    f1, f2 = int((counts == 1).sum()), int((counts == 2).sum())
    distinct, starts = len(counts), int(counts.sum())
    total = distinct + f1 * (f1 - 1) / (2 * (f2 + 1))
    if f1 == 0:
        left = torch.exp(-counts.double())
        variance = float(left.sum() - (counts * left).sum().square() / starts)
    elif f2 == 0:
        variance = f1 * (f1 - 1) / 2 + f1 * (2 * f1 - 1) ** 2 / 4 - f1**4 / (4 * total)
    else:
        g = f2 + 1
        variance = f1 * (f1 - 1) / (2 * g) + f1 * (2 * f1 - 1) ** 2 / (4 * g**2)
        variance += f1**2 * f2 * (f1 - 1) ** 2 / (4 * g**4)
    return Estimate(*torch.tensor([total, math.sqrt(max(variance, 0.0))], dtype=torch.float64))


def coincidence(counts: Tensor) -> Estimate:
    """Eq. (2) and its jackknife error; never below one coincidence in all pairs of starts."""
    c = counts.double().cpu()
    s = float(c.sum())
    pairs = (c * (c - 1)).sum()
    # Leaving out one start of minimum i takes 2(c_i − 1) ordered pairs away.
    without = (pairs - 2 * (c - 1)) / ((s - 1) * max(s - 2, 1))
    whole = pairs / (s * (s - 1))
    left_out = jackknife(torch.cat([whole[None], without.repeat_interleave(c.long())]))
    return Estimate(whole, left_out.error.clamp(min=2 / (s * (s - 1))))


def _largest_overlap(machine: Machine, spins: Tensor) -> Tensor | None:
    if machine.patterns is None:
        return None
    xi = machine.patterns.detach()
    size = xi.abs().sum(2)[:, None].clamp_min(torch.finfo(xi.dtype).tiny)  # (e, 1, k)
    return ((spins @ xi.mT).abs() / size).amax(2).double()  # (e, c)


def _missed(counts: Tensor, m: Tensor, starts: int) -> Tensor:
    """C(S − c, m) / C(S, m), the chance that m of the starts miss a minimum, (d, p)."""
    c, m = counts.double()[:, None], m.double()
    rest = starts - c - m
    logs = torch.lgamma(starts - c + 1) + torch.lgamma(starts - m + 1)
    logs = logs - torch.lgamma(rest.clamp_min(0) + 1) - math.lgamma(starts + 1)
    return torch.where(rest < 0, 0.0, logs.exp())
