"""log Z by annealing from several bases, both ways.

From each base (`sampling/bases.py`) chains walk to the machine and gather weights
(`sampling/annealing.py`): unbiased estimates Z' of Z, which fall short where the base misses a mode, and
by Markov's inequality seldom lie far above,

    P(log Z' > log Z + a) ≤ e^−a                                                          (1)

So a mode that one base finds is there, and a base whose estimate stays below another one's misses
something. Those that miss nothing give the population from which all the ways back start: a path that
lacks a mode contradicts itself there, and Bennett's ratio of its two directions knows. The path whose
directions agree best is believed, with more temperatures until its interval is narrow. Where two paths
still contradict each other the interval spans both, and `note` says so.

Weights that few chains carry say little of their own error: with fewer than 30 effective chains an
interval reaches from the value at least

    ¼ · 30 / effective chains                                                             (2)

to each side, too wide to stop at as long as there may be more temperatures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, TimeLimit
from ..estimates import WIDE, Bounds
from ..machines.machine import Machine, scaled
from ..progress import Watch, watch
from ..random import stream
from ..sampling import annealing
from ..sampling.bases import PARTIAL_MODES, paths_to
from ..sampling.chain_shards import ChainShards
from ..sampling.gibbs import run_sweeps
from ..sampling.paths import Cooling

SETTLE = 100  # sweeps between the two directions
NARROW = 0.5  # nats: an interval that needs no more temperatures
FEW = 30  # effective chains, of 100 or more, that an interval does not trust
FIRST = 1.0  # variance of log w along a path, before it is divided further

ALONE = ChainShards()

Streams = Callable[..., torch.Generator]


@dataclass(frozen=True)
class Walk:
    """Chains that have come along a path from one of the bases."""

    path: Cooling
    betas: list[float]
    logs: Tensor  # (e, c): log w
    ends: Tensor  # (e, c, n)

    @property
    def steps(self) -> int:
        return len(self.betas) - 1

    @property
    def mean(self) -> annealing.LogMean:
        return annealing.LogMean.of(self.logs)


@dataclass(frozen=True)
class Annealed:
    """log Z by annealing both ways."""

    bounds: Bounds
    settled: Tensor  # (e, c, n): the configurations that the ways back started from
    steps: int  # of all paths
    blind: Tensor  # (e,): from some modes of many, which no other base sees, and so not the others
    work: int  # steps of `chains` chains, those of pilots and of what was not believed with them


@torch.no_grad()
def annealed(
    machine: Machine,
    seed: int,
    *,
    chains: int,
    most: int,
    beta: float = 1.0,
    data: Any = None,
    samples: Tensor | None = None,
    starts: Tensor | None = None,
    variance: float = FIRST,
    limit: float | None = None,
    shards: ChainShards = ALONE,
) -> Annealed:
    """log Z by `chains` from each base, over at `most` so many temperatures; the ways back start from
    `samples` or from chains that have arrived. The search for modes begins at `starts` (e, c, n) too.
    Temperatures are spaced for this `variance` of log w along a path. Chains walk in these `shards`."""
    if beta != 1.0:
        machine = scaled(machine, beta)
    if samples is not None:
        samples = machine.configuration(samples)
        if samples.shape[1] < 2:
            raise InputError(f"the way back needs two samples or more, not {samples.shape[1]}")

    streams = partial(stream, seed, "log_z", device=machine.device)
    remedy = "take fewer chains= or temperatures (most=)"
    with watch("annealing log Z", limit=limit, remedy=remedy) as tick:
        paths, proven = paths_to(machine, data, streams("modes"), starts)
        betas = shards.ranks.broadcast(lambda: _schedules(paths, most, streams, variance))
        refused = (len(paths) - len(betas)) * max(2, most // 2)
        pilots = refused + sum(len(x) for x in betas.values())
        parts = len(shards.ranks.share_of(shards.shards))  # each counts its own steps
        tick.total = tick.done + 2 * parts * sum(len(x) - 1 for x in betas.values())
        walk = partial(_walk, chains=chains, streams=streams, tick=tick, shards=shards)
        walks = {name: walk(name, paths[name], betas[name]) for name in betas}
        while True:
            sees = _seeing(walks)
            settled, apart = samples, None
            if settled is None:
                drawn, apart = _population(walks, sees, chains, streams("draw"))
                settled = _settled(machine, drawn, streams, shards)
            intervals = {
                name: _joined(walks[name], settled, apart, partial(streams, "back", name), tick, shards)
                for name in walks
                if bool(sees[name].any())
            }
            others = [sees[name] for name in walks if name not in PARTIAL_MODES]
            nothing = torch.zeros(machine.replicas, dtype=torch.bool, device=machine.device)
            known = torch.stack([nothing, *others]).any(0)  # by more than some modes
            width = torch.stack(
                [
                    torch.where(sees[n] & ~(known & (n in PARTIAL_MODES)), b.upper - b.lower, torch.inf)
                    for n, b in intervals.items()
                ]
            )  # (paths, e)
            again = _wanting(list(intervals), width, walks, most)
            if not again:
                break
            for name in again:
                betas[name] = annealing.resized(walks[name].betas, 2 * walks[name].steps + 1)
            # Those go there anew, and all of them back, which start from what the new ones find.
            steps = {name: len(x) - 1 for name, x in betas.items()}
            tick.total = tick.done + parts * (sum(steps.values()) + sum(steps[name] for name in again))
            for name in again:
                walks[name] = walk(name, paths[name], betas[name])
    believed = {list(intervals)[i] for i in width.argmin(0).tolist()}
    effort = f"{chains:,} chains from each of " + ", ".join(
        f"{name} ({walk.steps + 1:,} temperatures{', believed' if name in believed else ''})"
        for name, walk in walks.items()
    )
    best = replace(_believed(list(intervals.values()), width, proven), effort=effort)
    blind = ~known
    some = "known from some modes alone, of many more: log Z is larger" if bool(blind.any()) else ""
    best = replace(best, note="; ".join(filter(None, (some or best.note, _few(best)))))
    return Annealed(best, settled, sum(x.steps for x in walks.values()), blind, pilots + int(tick.done))


def _schedules(
    paths: dict[str, Cooling], most: int, streams: Streams, variance: float = FIRST
) -> dict[str, list[float]]:
    """Temperatures along every path that needs at most so many."""
    betas, refused = {}, None
    for name, path in paths.items():
        try:
            rng = streams("schedule", name)
            betas[name] = annealing.schedule(path, rng, variance=variance, most=max(2, most // 2))
        except TimeLimit:
            raise
        except InputError as error:
            refused = error
    if refused is not None and not betas:
        raise refused
    return betas


def _walk(
    name: str,
    path: Cooling,
    betas: list[float],
    *,
    chains: int,
    streams: Streams,
    tick: Watch,
    shards: ChainShards,
) -> Walk:
    def draw_part(part: slice, *words: object) -> tuple[Tensor, Tensor]:
        rng = streams("forward", name, *words)
        found = annealing.forward(path, betas, part.stop - part.start, rng, tick)
        tick.foresee()
        return found

    logs, ends = shards(chains, draw_part)
    return Walk(path, betas, logs, ends)


def _settled(machine: Machine, drawn: Tensor, streams: Streams, shards: ChainShards) -> Tensor:
    """Chains that were drawn again, a while later."""

    def draw_part(part: slice, *words: object) -> tuple[Tensor]:
        return (run_sweeps(machine, drawn[:, part], streams("settle", *words), SETTLE),)

    return shards(drawn.shape[1], draw_part)[0]


def _seeing(walks: dict[str, Walk]) -> dict[str, Tensor]:
    """Which walks miss nothing that another one found, (e,) each: eq. (1)."""
    means = {name: walk.mean for name, walk in walks.items()}
    highest = torch.stack([m.value - WIDE * m.error for m in means.values()]).amax(0)
    return {name: m.value + WIDE * m.error >= highest for name, m in means.items()}


def _population(
    walks: dict[str, Walk], sees: dict[str, Tensor], count: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Chains drawn again by their weights, from each walk as many as it has effective ones, and how
    many different ones there are, (e,)."""
    logs = [
        torch.where(
            sees[name][:, None],
            torch.log_softmax(walk.logs, 1) + walk.mean.ess.log()[:, None],
            -torch.inf,
        )
        for name, walk in walks.items()
    ]
    ends = torch.cat([walk.ends for walk in walks.values()], 1)
    return annealing.resample(ends, torch.cat(logs, 1), rng, count)


def _joined(
    walk: Walk, settled: Tensor, apart: Tensor | None, streams: Streams, tick: Watch, shards: ChainShards
) -> Bounds:
    """Both directions along one path."""

    def draw_part(part: slice, *words: object) -> tuple[Tensor]:
        return (annealing.backward(walk.path, walk.betas, settled[:, part], streams(*words), tick),)

    (back,) = shards(settled.shape[1], draw_part)
    below, above = walk.mean, annealing.LogMean.of(back)
    best = annealing.bennett(walk.logs, back, apart)
    forward, backward = below.value, -above.value
    error = WIDE * best.error
    # Bennett's interval leans on both directions alike. Both estimates belong to it too, and with
    # their own errors where they contradict each other.
    contradict = (backward - forward).abs() > 1.96 * torch.hypot(below.error, above.error)
    low, high = (torch.where(contradict, WIDE * x.error, 0.0) for x in (below, above))
    lower = torch.stack([best.value - error, forward - low, backward - high]).amin(0)
    upper = torch.stack([best.value + error, forward + low, backward + high]).amax(0)
    few = min(FEW, 0.3 * min(walk.logs.shape[1], back.shape[1]))
    thin = torch.where(best.ess < few, 0.5 * NARROW * few / best.ess, 0.0)  # eq. (2)
    lower, upper = torch.minimum(lower, best.value - thin), torch.maximum(upper, best.value + thin)
    ways = (forward, backward, best.ess, best.largest)
    return Bounds(best.value, lower, upper, *ways, "ais", "")


def _few(found: Bounds) -> str:
    """What is to be said of weights that few chains carry."""
    least = float(found.ess.min())
    if least >= FEW:
        return ""
    return (
        f"only {least:.3g} effective chains carry the estimate: take more chains= or temperatures (most=)"
    )


def _wanting(names: list[str], width: Tensor, walks: dict[str, Walk], most: int) -> set[str]:
    """The narrowest path of every replica whose interval is still wide, if it may grow longer."""
    long = torch.tensor([2 * walks[name].steps > most for name in names], device=width.device)
    open_to = torch.where(long[:, None], torch.inf, width)
    wide = (width.amin(0) > NARROW) & ~open_to.amin(0).isinf()
    return {names[i] for i in open_to.argmin(0)[wide].tolist()}


def _believed(intervals: list[Bounds], width: Tensor, proven: Tensor) -> Bounds:
    """The narrowest interval of each replica, widened to those that contradict it; `proven` (e,) bounds
    log Z from below."""
    chosen = width.argmin(0, keepdim=True)

    def pick(name: str) -> Tensor:
        return torch.stack([getattr(b, name) for b in intervals]).gather(0, chosen).squeeze(0)

    lower, upper = pick("lower"), pick("upper")
    low, high = (torch.stack([getattr(b, n) for b in intervals]) for n in ("lower", "upper"))
    against = ~width.isinf() & ((low > upper) | (high < lower))  # (paths, e)
    short = proven > upper
    low = torch.where(against | short, low, torch.inf).amin(0)
    high = torch.where(against | short, torch.maximum(high, proven), -torch.inf).amax(0)
    lower, upper = torch.minimum(lower, low), torch.maximum(upper, high)
    note = ""
    if bool((upper - lower)[against.any(0) | short].gt(NARROW).any()):
        note = "the bases disagree: the interval spans what each of them says"
    picked: dict[str, Any] = {name: pick(name) for name in ("value", "forward", "back", "ess", "largest")}
    return replace(intervals[0], **picked, lower=lower, upper=upper, note=note)
