"""How the number of minima grows with the machine: the same couplings, on a share of its units.

    log(minima) = a + slope · N                                                           (1)

In an ordered machine the number of minima stays finite and the slope falls to 0; in a glass it is a
constant. K is kept, so that a diluted machine of patterns has a higher load than the whole. The number is
Chao's estimate (`minima.py`): it goes on rising when every start finds a minimum of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, check_count, is_number
from ..estimates import Estimate
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..progress import watch, watched
from ..random import check_rng, rng_from
from .minima import Minima, minima


def diluted(machine: Machine, share: float, rng: torch.Generator) -> Machine:
    """A machine of a random share of the units of each layer, chosen anew in each replica; the
    couplings between those that stay, and K, are the same."""
    if not (is_number(share) and 0 < share <= 1):
        raise InputError(f"the share of units that stay is above 0 and at most 1, not {share!r}")
    check_rng(rng)
    layers, device = machine.layers, machine.device
    sizes = tuple(max(1, round(share * size)) for size in layers.sizes)
    kept = [
        torch.rand((machine.replicas, old), generator=rng, device=rng.device)
        .argsort(1)[:, :new]
        .sort(1)
        .values.to(device)
        for old, new in zip(layers.sizes, sizes, strict=True)
    ]  # per layer (e, n_l)
    starts = [where.start for where in layers.slices]
    units = torch.cat([k + s for k, s in zip(kept, starts, strict=True)], 1)  # (e, n)
    smaller = Layers(sizes, layers.edges, layers.kinds)
    couplings = machine.couplings.part(smaller, kept)
    biases = machine.biases
    return Machine(couplings, None if biases is None else biases.detach().gather(1, units))


@dataclass(frozen=True, repr=False)
class Growth(Displayable):
    """Minima of machines diluted to several sizes."""

    units: Tensor  # (f,)
    distinct: Tensor  # (e, tries, f) found
    total: Tensor  # (e, tries, f) estimated
    starts: int
    slope: Estimate  # of log total against units, mean and error over tries
    slope_found: Estimate  # of log distinct: bends down where the starts run out

    def _line(self) -> str:
        return f"slope {self.slope._line()} per unit"

    @property
    def saturated(self) -> Tensor:
        """Sizes at which nine of ten starts found a minimum of their own, (e, f): there both numbers
        are bounds from below, and so are the slopes."""
        return self.distinct.mean(1) > 0.9 * self.starts


@watched("growth of the minima", remedy="take fewer starts or tries")
def growth(
    machine: Machine,
    starts: int,
    rng: torch.Generator | None = None,
    *,
    fractions: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    tries: int = 5,
    seed: int | None = None,
    limit: float | None = None,
) -> Growth:
    """How the number of minima grows with the number of units.

    The machine is diluted at random to several sizes, and log(minima) is fitted against units. A
    positive slope is a sign of a spin glass.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    starts : int
        Descents from random configurations in each diluted machine.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    fractions : sequence of float, default (0.25, 0.5, 0.75, 1.0)
        Shares of the units that are kept; at least two different ones.
    tries : int, default 5
        Random dilutions for each share, at least 2.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Growth
        Units, minima found and estimated, and the slope with its error.

    Examples
    --------
    >>> found = rb.growth(rb.rbm(12, 12, patterns=1, seed=0), 20, seed=0)
    >>> found.units.tolist()
    [6.0, 12.0, 18.0, 24.0]
    """
    machine.layers.check_spins("a growth of minima")
    machine.check_chains(starts, least=2)
    check_count("the number of tries", tries, least=2)
    fractions = tuple(fractions)
    if len({repr(share) for share in fractions}) < 2:
        raise InputError(f"growth needs at least two different fractions, not {fractions}")
    rng = rng_from(seed, rng, "growth", device=machine.device)
    machines = [[diluted(machine, share, rng) for share in fractions] for _ in range(tries)]
    rows: list[list[Minima]] = []
    with watch("dilutions", tries * len(fractions)) as tick:
        for row in machines:
            rows.append([])
            for small in row:
                rows[-1].append(minima(small, starts, rng))
                tick()
    units = torch.tensor([small.layers.columns for small in machines[0]], dtype=torch.float64)
    distinct = torch.stack([torch.stack([m.distinct for m in row], -1) for row in rows], 1)
    total = torch.stack([torch.stack([m.total.value for m in row], -1) for row in rows], 1)
    away = units - units.mean()
    weights = away / away.square().sum()  # least squares
    slopes = [Estimate.of((y.double().log() * weights).sum(-1)) for y in (total, distinct)]
    return Growth(units, distinct.double(), total, starts, *slopes)
