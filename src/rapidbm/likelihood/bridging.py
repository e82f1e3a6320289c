"""log Z along a training, from each checkpoint to the next.

Neighbours are bridged by annealing through the machines between them (`paths.Crossing`), both ways,
and Bennett's ratio joins the two directions:

    log Z_{i+1} = log Z_i + c_i,        c_i by eq. (2) of `annealing.py`                        (1)

The chains that arrive at one checkpoint go on to the next, so that a whole curve costs little more than
its ends, which are anchors: annealed from independent units, or exact. Chains that miss a mode on their
way would not show it, so anchors must agree with the bridges between them; where they do not, the
middle becomes an anchor too, and where a bridge fails, both its ends. Between two anchors a checkpoint
is reached from both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, check_count
from ..estimates import WIDE, Bounds, Estimate
from ..machines.machine import Machine
from ..progress import Watch, watch
from ..random import seed_from, stream
from ..sampling import annealing
from ..sampling.gibbs import run_sweeps
from ..sampling.paths import Crossing, check_one_shape
from .annealed import Streams, annealed
from .exact import QUICK, can_be_exact
from .log_z import log_z

SETTLE = 20  # sweeps between the two directions
ENOUGH = 0.1  # share of effective chains in either direction: Bennett's ratio needs no more
LONGEST = 500  # steps of a bridge; what needs more, or more than the last annealing, is annealed
PILOT = 100  # chains that find the first steps
AGREE = 3.5  # standard errors between bridges and an anchor


@dataclass(frozen=True)
class Bridge:
    """log Z_{i+1} / Z_i, forward, back and by eq. (1)."""

    forward: annealing.LogMean
    back: annealing.LogMean
    best: annealing.LogMean
    steps: int
    well: Tensor  # (e,): whether enough chains count
    parts: Tensor  # (e, groups): what each group of chains says by itself
    doubt: Tensor  # (e,): how far chains of another origin contradict them
    work: int  # sweeps of a chain

    @property
    def holds(self) -> bool:
        return bool(self.well.all())


@torch.no_grad()
def log_z_along(
    machines: Sequence[Machine],
    *,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    data: Any = None,
    chains: int = 500,
    most: int = 10_000,
    track: Callable[[range], Iterable[int]] = iter,
    limit: float | None = None,
) -> list[Bounds]:
    """log Z of the machines of one training, each reached from the one before.

    It is exact where at most 2^20 terms suffice for all of them; otherwise chains are annealed from each
    machine to the next. `forward` and `back` add up the steps from the nearest anchor; the interval is
    Bennett's, from the anchors on both sides.

    Parameters
    ----------
    machines : sequence of Machine
        Machines of one shape, such as a run's checkpoints in order.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    data : Split or array of shape (samples, v), optional
        Training data, whose marginals are one base of annealing.
    chains : int, default 500
        Annealed chains per replica.
    most : int, default 10_000
        Largest number of temperatures.
    track : callable, optional
        Wraps the range of machines, for a progress bar.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    list of Bounds
        log Z of each machine.

    Raises
    ------
    InputError
        If there are no machines, or if their shapes differ.

    Examples
    --------
    >>> machines = [rb.rbm(6, 4, scale=s, seed=0) for s in (0.1, 0.2)]
    >>> [bounds.method for bounds in rb.log_z_along(machines)]
    ['exact', 'exact']
    """
    if not machines:
        raise InputError("give the machines of a training, one at least; there are none")
    check_one_shape(machines)
    machines[0].check_chains(chains, least=2)
    check_count("the largest number of temperatures", most, least=2)
    seed = seed_from(seed, rng)
    with watch(
        "log Z along a training", len(machines), limit=limit, remedy="give fewer machines"
    ) as tick:
        if all(can_be_exact(machine, QUICK) for machine in machines):
            exact = []
            for i in track(range(len(machines))):
                exact.append(log_z(machines[i], method="exact"))
                tick()
            return exact
        return _bridged(machines, seed, data, chains, most, track, tick)


def _bridged(
    machines: Sequence[Machine],
    seed: int,
    data: Any,
    chains: int,
    most: int,
    track: Callable[[range], Iterable[int]],
    tick: Watch,
) -> list[Bounds]:
    """Eq. (1) from anchor to anchor."""
    longest = LONGEST

    def anchor(i: int) -> tuple[Bounds, Tensor]:
        nonlocal longest
        own = seed_from(None, stream(seed, "along", i, "anchor"))
        whole = annealed(machines[i], own, data=data, chains=chains, most=most)
        longest = min(LONGEST, max(20, whole.steps))
        if can_be_exact(machines[i], QUICK):
            return log_z(machines[i], method="exact"), whole.settled
        return whole.bounds, whole.settled

    last = len(machines) - 1
    anchors: dict[int, Bounds] = {}
    anchors[0], spins = anchor(0)
    bridges: list[Bridge] = []
    for i in track(range(last)):
        streams = partial(stream, seed, "along", i, device=machines[i].device)
        crossed, spins = bridge(machines[i], machines[i + 1], spins, streams, longest)
        bridges.append(crossed)
        if not crossed.holds and i not in anchors:  # else nothing would check the bridges before it
            anchors[i] = anchor(i)[0]
        if i + 1 == last or not crossed.holds:
            anchors[i + 1], spins = anchor(i + 1)
        tick()
    while (doubtful := _doubtful(anchors, bridges)) is not None:
        anchors[doubtful] = anchor(doubtful)[0]
    return [anchors[i] if i in anchors else _between(anchors, bridges, i) for i in range(last + 1)]


def bridge(
    here: Machine,
    there: Machine,
    spins: Tensor,
    streams: Streams,
    longest: int,
    *,
    groups: int = 1,
    others: Tensor | None = None,
    hasty: bool = False,
) -> tuple[Bridge, Tensor]:
    """The bridge between two machines, and the chains that have arrived, drawn again each within its
    group; it fails where it would need more than `longest` steps. Chains of another origin, `others`,
    walk back too, and `doubt` says how far they contradict the rest. A `hasty` one fails at once where
    its first steps, which are long ones, are more than that."""
    path = Crossing(here, there, spins)
    chains, work = spins.shape[1], 0

    def grouped(x: Tensor) -> Tensor:  # (e, c, …) → (e·groups, c/groups, …)
        return x.reshape(len(x) * groups, -1, *x.shape[2:])

    # Steps are never so short that the pilot would give up: a bridge that is too long fails below.
    places, _ = annealing.pilot(
        path, streams("pilot"), chains=PILOT, most=longest + 2, shortest=1.0 / longest
    )
    if hasty and len(places) - 1 >= longest:
        nothing = annealing.LogMean.of(torch.full((len(spins), chains), torch.nan, device=spins.device))
        arrived = run_sweeps(there, spins, streams("settle"), SETTLE)
        lost, none = nothing.value.isfinite(), nothing.value[:, None].expand(-1, groups)
        work = min(chains, PILOT) * len(places) + chains * SETTLE
        return Bridge(nothing, nothing, nothing, len(places), lost, none, nothing.value, work), arrived
    while True:
        logs, ends = annealing.forward(path, places, chains, streams("forward"))
        settle = streams("settle")
        drawn, apart = annealing.resample(grouped(ends), grouped(logs), settle)
        arrived = run_sweeps(there, drawn.reshape(spins.shape), settle, SETTLE)
        back = annealing.backward(path, places, arrived, streams("back"))
        best = annealing.bennett(logs, back, apart.reshape(-1, groups).sum(1))
        steps, least = len(places) - 1, float(best.ess.min()) / chains
        work += chains * (2 * steps + SETTLE)
        if least >= ENOUGH or 2 * steps > longest:
            ways = annealing.LogMean.of(logs), annealing.LogMean.of(back)
            parts = annealing.bennett(grouped(logs), grouped(back)).value.reshape(-1, groups)
            well = best.ess >= ENOUGH * chains
            doubt = torch.zeros_like(best.value)
            if others is not None:
                rng = streams("others")
                start = run_sweeps(there, others, rng, SETTLE)
                second = annealing.bennett(logs, annealing.backward(path, places, start, rng))
                noise = AGREE * torch.hypot(best.error, second.error)
                doubt = ((second.value - best.value).abs() - noise).clamp(min=0.0)
                work += others.shape[1] * (steps + SETTLE)
            return Bridge(*ways, best, steps, well, parts, doubt, work), arrived
        # The share of effective chains is about exp(−variance), and the variance goes as 1/steps.
        factor = math.ceil(min(8.0, max(2.0, math.log(least) / math.log(ENOUGH))))
        places = annealing.resized(places, min(longest, factor * steps) + 1)


def _middle(anchor: Bounds) -> Estimate:
    return Estimate(0.5 * (anchor.lower + anchor.upper), anchor.error)


def _across(start: Estimate, bridges: Sequence[Bridge], sign: int = 1) -> Estimate:
    """The value on the other side of some bridges."""
    value, variance = start.value, start.error.square()
    for bridge in bridges:
        value = value + sign * bridge.best.value
        variance = variance + bridge.best.error.square()
    return Estimate(value, variance.sqrt())


def _doubtful(anchors: dict[int, Bounds], bridges: list[Bridge]) -> int | None:
    """The middle of two anchors that contradict the bridges between them."""
    known = sorted(anchors)
    for a, b in pairwise(known):
        if b - a < 2:
            continue
        there, end = _across(_middle(anchors[a]), bridges[a:b]), _middle(anchors[b])
        error = torch.hypot(there.error, end.error)
        if bool(((there.value - end.value).abs() > AGREE * error).any()):
            return (a + b) // 2
    return None


def _between(anchors: dict[int, Bounds], bridges: list[Bridge], i: int) -> Bounds:
    """A checkpoint between two anchors, from both sides."""
    a = max(k for k in anchors if k < i)
    b = min(k for k in anchors if k > i)
    left = _across(_middle(anchors[a]), bridges[a:i])
    right = _across(_middle(anchors[b]), bridges[i:b], -1)
    both = torch.hypot(left.error, right.error).clamp(min=1e-150)
    share = (right.error / both).square()
    value = share * left.value + (1.0 - share) * right.value
    width = WIDE * (left.error * right.error / both)
    own = bridges[i - 1]
    zero = torch.zeros_like(width)
    return Bounds(
        value,
        value - width,
        value + width,
        anchors[a].forward + sum((x.forward.value for x in bridges[a:i]), zero),
        anchors[a].back - sum((x.back.value for x in bridges[a:i]), zero),
        own.best.ess,
        own.best.largest,
        "bridged",
        f"{own.steps:,} steps from the checkpoint before",
        note=anchors[a].note or anchors[b].note,
    )
