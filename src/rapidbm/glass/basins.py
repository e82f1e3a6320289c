"""Basins of the patterns: from how far away descent still comes back to one.

A share f of all units is turned at random in the signs of a pattern ξ^k, and descent ends in s. The
pattern has been kept to

    m_k(f) = Σ_i ξ_i^k s_i / Σ_i |ξ_i^k|                                                  (1)

A pattern that is a minimum has m_k(0) = 1. Its basin reaches as far as half of the descents return, that
is end with m_k > 0.9. In a glass m_k falls from the start; beyond f = 1/2 nothing is left of a pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, check_count, is_number
from ..estimates import Estimate
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import watch, watched
from ..random import rng_from
from .minima import RETRIEVED, minima_below, over_patterns, overlap_kept

FLIPPED = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


@dataclass(frozen=True, repr=False)
class Basins(Displayable):
    """What is left of the patterns after descent from some way off; errors are over patterns."""

    flipped: Tensor  # (f,) shares of units that were turned
    overlap: Estimate  # (e, f) eq. (1)
    returned: Estimate  # (e, f) share of descents that ended at the pattern
    radius: Tensor  # (e, k) the largest share up to which half of them did; NaN where none did

    def _line(self) -> str:
        kept = self.radius[~self.radius.isnan()]
        mean = f", on average up to {float(kept.mean()):.2f} of the units" if len(kept) else ""
        return f"{len(kept)} of {self.radius.numel()} patterns have a basin{mean}"


@watched("basins of the patterns", remedy="take fewer patterns or tries")
@torch.no_grad()
def basins(
    machine: Machine,
    rng: torch.Generator | None = None,
    *,
    flipped: Sequence[float] = FLIPPED,
    tries: int = 4,
    most: int = 64,
    seed: int | None = None,
    limit: float | None = None,
) -> Basins | None:
    """How far from each pattern descent still returns to it.

    A share f of the units of sign(ξ^k) is flipped at random, and descent follows; eq. (1) of
    `rapidbm.glass.basins` is the overlap of its end with the pattern.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    flipped : sequence of float, default (0, 0.05, …, 0.5)
        Shares f, rising, from 0 to 1.
    tries : int, default 4
        Descents from each pattern and share.
    most : int, default 64
        Take the first so many patterns.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Basins or None
        `overlap` and the share of returns, `returned`, by share, and `radius` of each pattern: the
        largest share from which half of the descents return. None for dense couplings.

    Examples
    --------
    >>> rb.basins(rb.rbm(60, 60, patterns=1, seed=0), seed=0).radius.item() >= 0.4
    True
    """
    machine.layers.check_spins("a basin")
    if machine.patterns is None:
        return None
    shares = tuple(flipped)
    rising = all(is_number(x) and 0 <= x <= 1 for x in shares) and list(shares) == sorted(set(shares))
    if not shares or not rising:
        raise InputError(f"shares of turned units are rising numbers from 0 to 1, not {flipped!r}")
    check_count("the number of tries", tries)
    check_count("the number of patterns", most)
    rng = rng_from(seed, rng, "basins", device=machine.device)
    xi = machine.patterns.detach()[:, :most]
    e, k, n = xi.shape
    found = []
    with watch("shares", len(shares)) as tick:
        for share in shares:
            order = torch.rand((e, tries, k, n), generator=rng, device=rng.device).argsort(-1)
            turned = order < round(share * n)
            starts = torch.where(turned, -1.0, 1.0) * SPIN.nearest(xi)[:, None]
            ends, _ = minima_below(machine, starts.flatten(1, 2).to(machine.dtype), rng)
            found.append(overlap_kept(ends.view(e, tries, k, n), xi[:, None]))  # (e, tries, k)
            tick()
    overlap = torch.stack(found, 1)  # (e, f, tries, k)
    back = (overlap > RETRIEVED).double().mean(2)  # (e, f, k)
    held = (back >= 0.5).long().cumprod(1).sum(1)  # (e, k): how many shares, from the first on
    places = torch.tensor([torch.nan, *shares], dtype=torch.float64)
    means = [over_patterns(x.flatten(0, 1).cpu()) for x in (overlap.mean(2), back)]
    kept, returned = (Estimate(x.value.view(e, -1), x.error.view(e, -1)) for x in means)
    return Basins(places[1:], kept, returned, places[held.cpu()])
