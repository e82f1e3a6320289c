"""Parallel tempering: walkers on the rungs of a path, which trade places.

After a sweep on every rung, neighbours t and t+1 exchange their configurations x and y with probability

    min(1, f_t(y) f_{t+1}(x) / f_t(x) f_{t+1}(y))                                         (1)

even and odd pairs in turn. f sums over the free layers, which the next sweep draws anew, so that more
exchanges succeed. Rungs stand evenly in the sum of their rejections,

    Λ = Σ_t (1 − rate_t),        about 2Λ + 1 rungs                                       (2)

(Syed, Bouchard-Côté, Deligiannidis and Doucet 2022): equal rates, and round trips as fast as they get.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import check_count
from .annealing import pilot
from .paths import Path

FEW = 20  # chains that find the ladder
ROUNDS, TURNS = 5, 15  # of measuring rates; turns of the first round


@dataclass(frozen=True, repr=False)
class Walkers(Displayable):
    """Chains on every rung and what has become of them; the coldest rung samples the machine."""

    spins: Tensor  # (e, t·c, n), rung by rung, the hottest first
    rungs: Tensor  # (e, t): positions on the path
    heading: Tensor  # (e, t·c): +1 came from the hot end last, −1 from the cold one, 0 from neither
    trips: Tensor  # (e,): round trips from the hot end to the cold one and back
    rate_sum: Tensor  # (e, t−1): sum of the chances (1), mean over chains
    tried: Tensor  # (t−1,): how often each pair had its turn
    names: Tensor  # (e, t·c): which walker stands where, by the place that it began at
    turns: int = 0

    @property
    def chains(self) -> int:
        return self.spins.shape[1] // self.rungs.shape[1]

    @property
    def cold(self) -> Tensor:
        """The configurations at the machine's end, (e, c, n)."""
        return self.spins[:, -self.chains :]

    @property
    def rates(self) -> Tensor:
        """The mean chance that neighbours exchange, (e, t−1)."""
        return self.rate_sum / self.tried.clamp(min=1)


def new_walkers(rungs: Tensor, spins: Tensor) -> Walkers:
    """Walkers that stand on these rungs (e, t), their books empty."""
    e, t = rungs.shape
    heading = torch.zeros(spins.shape[:2], dtype=torch.int8, device=spins.device)
    heading[:, : spins.shape[1] // t] = 1
    zero = torch.zeros(e, dtype=torch.long, device=spins.device)
    tried = torch.zeros(t - 1, dtype=torch.long, device=spins.device)
    names = torch.arange(spins.shape[1], device=spins.device).expand(e, -1).contiguous()
    return Walkers(spins, rungs, heading, zero, rungs.new_zeros(e, t - 1), tried, names)


@torch.no_grad()
def exchange(
    path: Path, spins: Tensor, rungs: Tensor, rng: torch.Generator, odd: bool
) -> tuple[Tensor, Tensor]:
    """Which chain every place gets, (e, t·c), and the chances (1) of the pairs whose turn it is,
    (e, pairs, c): rungs 0 and 1, 2 and 3, …, or when `odd` 1 and 2, 3 and 4, …"""
    e, t = rungs.shape
    chains, device = spins.shape[1] // t, spins.device
    first = torch.arange(int(odd), t - 1, 2, device=device)
    partner = torch.arange(t, device=device)
    partner[first], partner[first + 1] = first + 1, first
    log_f = path.weights(spins)
    gain = (log_f(rungs[:, partner]) - log_f(rungs)).reshape(e, t, chains)
    # Where energies are beyond the numbers a chance is not defined, and nobody trades.
    chance = (gain[:, first] + gain[:, first + 1]).clamp(max=0.0).exp().nan_to_num(0.0)  # (e, pairs, c)
    lucky = torch.rand(chance.shape, generator=rng, device=device, dtype=chance.dtype)
    swap = (lucky < chance).long()
    place = torch.arange(t, device=device)[:, None].expand(e, -1, chains).clone()
    place[:, first] += swap
    place[:, first + 1] -= swap
    index = place * chains + torch.arange(chains, device=device)
    return index.flatten(1), chance


def exchanged(
    path: Path, spins: Tensor, rungs: Tensor, rng: torch.Generator, odd: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The spins after their pairs have traded places, which chain every place got, and the mean chances
    of the pairs, (e, pairs)."""
    index, chance = exchange(path, spins, rungs, rng, odd)
    return spins.gather(1, index[..., None].expand_as(spins)), index, chance.mean(2)


def exchange_all(path: Path, spins: Tensor, rungs: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The spins after even pairs and then odd ones have traded places, and all rates, (e, t−1)."""
    rates = torch.zeros_like(rungs[:, 1:])
    for odd in (False, True):
        spins, _, rates[:, int(odd) :: 2] = exchanged(path, spins, rungs, rng, odd)
    return spins, rates


@torch.no_grad()
def tempering_step(path: Path, walkers: Walkers, rng: torch.Generator, sweeps: int = 1) -> Walkers:
    """Even pairs trade places, the next time odd ones; then every chain makes its sweeps."""
    odd = walkers.turns % 2 == 1
    spins, index, chance = exchanged(path, walkers.spins, walkers.rungs, rng, odd)
    heading = walkers.heading.gather(1, index)
    chains = walkers.chains
    back = heading[:, :chains] == -1  # at the hot end again, after the cold one
    heading[:, :chains] = 1
    cold = heading[:, -chains:]
    heading[:, -chains:] = torch.where(cold == 1, -1, cold)
    for _ in range(sweeps):
        spins = path.move(spins, rng, walkers.rungs)
    rate_sum, tried = walkers.rate_sum.clone(), walkers.tried.clone()
    rate_sum[:, int(odd) :: 2] += chance.to(rate_sum)
    tried[int(odd) :: 2] += 1
    return replace(
        walkers,
        spins=spins,
        heading=heading,
        trips=walkers.trips + back.sum(1),
        rate_sum=rate_sum,
        tried=tried,
        names=walkers.names.gather(1, index),
        turns=walkers.turns + 1,
    )


@torch.no_grad()
def start_walkers(
    path: Path, chains: int, rng: torch.Generator, *, rungs: int | None = None, most: int = 64
) -> Walkers:
    """Walkers on a ladder whose rates are even; `rungs` fixes their number, else eq. (2) sets it.

    A few chains find it: the first ladder is the annealing pilot's; each round measures the rates,
    twice as long as the one before, and places the rungs anew. The walkers then start from the hot
    end, annealed down to their rungs.
    """
    check_count("the number of chains", chains)
    if rungs is not None:
        check_count("the number of rungs", rungs, least=2)
    betas, stood = pilot(path, rng, chains=FEW, step=1.0, most=5000)
    keep = _spread(len(betas), rungs or most)
    spins = torch.cat([stood[i] for i in keep], 1)
    places = torch.tensor([betas[i] for i in keep], dtype=torch.float64, device=spins.device)
    walkers = new_walkers(places.expand(len(spins), -1).clone(), spins)
    for number in range(ROUNDS):
        for _ in range(TURNS * 2**number):
            walkers = tempering_step(path, walkers, rng)
        walkers = respaced(walkers, rungs, most)
    spins, down = path.start(chains, rng), []
    for rung in torch.split(walkers.rungs, 1, 1):
        spins = path.move(spins, rng, rung)
        down.append(spins)
    return new_walkers(walkers.rungs, torch.cat(down, 1))


def _spread(count: int, most: int) -> list[int]:
    """At most so many of `count` places, both ends among them."""
    chosen = min(count, most)
    return sorted({round(i * (count - 1) / (chosen - 1)) for i in range(chosen)})


def respaced(walkers: Walkers, rungs: int | None, most: int) -> Walkers:
    """Eq. (2): rungs anew, at equal shares of the measured rejections."""
    e, old = walkers.rungs.shape
    # A chance of exactly one would leave two rungs at one place.
    lost = (1.0 - walkers.rates).clamp(min=1e-3)  # (e, t−1)
    total = torch.cat([lost.new_zeros(e, 1), lost.cumsum(1)], 1)  # (e, t): Λ up to each rung
    barrier = float(total[:, -1].max())
    count = rungs or min(most, max(2, math.ceil(2.0 * barrier) + 1))
    wanted = torch.linspace(0, 1, count, dtype=total.dtype, device=total.device) * total[:, -1:]
    right = torch.searchsorted(total, wanted.contiguous()).clamp(1, old - 1)  # (e, count)
    left = right - 1
    share = (wanted - total.gather(1, left)) / (total.gather(1, right) - total.gather(1, left))
    share = share.clamp(0.0, 1.0)
    below, above = walkers.rungs.gather(1, left), walkers.rungs.gather(1, right)
    # A machine freezes at some β and little happens beyond: by ratios, the rungs find that place.
    ratio = below * (above / below.clamp(min=1e-300)) ** share
    places = torch.where(below > 0, ratio, torch.lerp(below, above, share))
    places[:, 0], places[:, -1] = walkers.rungs[:, 0], walkers.rungs[:, -1]
    nearest = torch.where(share < 0.5, left, right)
    chains = walkers.chains
    index = nearest[..., None] * chains + torch.arange(chains, device=nearest.device)
    index = index.flatten(1)[..., None].expand(-1, -1, walkers.spins.shape[2])
    return new_walkers(places, walkers.spins.gather(1, index))


def eased_rungs(rungs: Tensor, rates: Tensor, pace: float) -> Tensor:
    """Rungs with wider gaps where the rates (e, t−1) are above their mean, by a step: a ladder that
    follows a machine while it learns."""
    gaps = rungs.diff(dim=1).double() * (pace * (rates - rates.mean(1, keepdim=True))).exp()
    places = torch.cat([gaps.new_zeros(len(gaps), 1), gaps.cumsum(1)], 1)
    return (places / places[:, -1:]).to(rungs)
