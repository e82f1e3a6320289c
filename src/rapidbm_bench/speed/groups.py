"""Rows beyond the update of a restricted machine: many patterns, held units, small machines, annealing,
tempering, deep and full machines.

A row has the seconds of one of the parts that it names in `per`, and its `rate` where that says more.
What a device has no row for is told in `left_out`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..clock import Action, interleaved
from .jobs import PER_CALL, Size, annealed, deep, epoch, full, gibbs, images, plain, tempered
from .peers import OURS, PLAIN, Row, by_rbms, by_thrml, guarded, timed

HELD = 4  # one unit in so many
Group = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What a row times: a call of so many parts, each worth so many of what `of` says."""

    row: Row
    action: Action
    parts: int = 1
    worth: float = 0.0
    of: str = ""


@dataclass(frozen=True)
class Plan:
    """Sizes that a device bears."""

    sampled: tuple[Size, ...]
    held: Size
    calls: tuple[int, ...]  # sweeps in one
    small: tuple[Size, ...]
    annealed: Size
    steps: int
    tempered: Size  # chains of each rung
    rungs: int
    deep: tuple[Size, tuple[int, ...]]
    full: Size
    rounds: int = 5
    left_out: dict[str, str] = field(default_factory=dict)


SMALL = (Size(16, 100, chains=100), Size(111, 300, chains=100))  # dense
DEEP = (500, 500)
PLANS = {
    "cuda": Plan(
        sampled=tuple(Size(4096, 4096, k, 16_384) for k in (256, 384, 512)),
        held=Size(784, 3000, 190, 16_384),
        calls=(10, 50),
        small=SMALL,
        annealed=Size(784, 1000, 380, 2000),
        steps=200,
        tempered=Size(784, 1000, 100, 100),
        rungs=32,
        deep=(Size(784, 500, 100, 500), DEEP),
        full=Size(784, 500, 100, 500),
    ),
    "cpu": Plan(
        sampled=tuple(Size(1024, 1024, k, 128) for k in (256, 512)),
        held=Size(784, 3000, 190, 100),
        calls=(10,),
        small=SMALL,
        annealed=Size(784, 500, 100, 100),
        steps=20,
        tempered=Size(784, 500, 40, 10),
        rungs=16,
        deep=(Size(784, 500, 100, 100), DEEP),
        full=Size(784, 500, 100, 100),
        left_out={
            "sampling": "4096×4096 with 16,384 chains and 50 sweeps in a call take minutes on a CPU",
            "annealing": "784×1000, K=380 with 2,000 chains takes minutes on a CPU",
        },
    ),
    "quick": Plan(
        sampled=(Size(64, 64, 8, 20),),
        held=Size(64, 64, 8, 20),
        calls=(10,),
        small=(Size(16, 10, chains=20),),
        annealed=Size(64, 50, 8, 20),
        steps=5,
        tempered=Size(64, 50, 8, 5),
        rungs=4,
        deep=(Size(64, 20, 4, 20), (20, 20)),
        full=Size(64, 20, 4, 20),
        rounds=3,
        left_out={"sampling": "--quick has small sizes only, here and below"},
    ),
}


def measured(plan: Plan, device: torch.device, seed: int, tell: Callable[[str], object]) -> list[Group]:
    """The groups, each with its title and its rows."""
    made = []
    for name, (title, rows) in GROUPS.items():
        tell(title)
        group = {"name": name, "title": title, "rows": rows(plan, device, seed)}
        made.append(group | ({"left_out": plan.left_out[name]} if name in plan.left_out else {}))
    return made


def sampling(plan: Plan, device: torch.device, seed: int) -> list[Row]:
    """Many patterns with and without biases, and with units held, which count among the spins."""
    jobs = []
    kinds = [(size, biases, 0) for size in plan.sampled for biases in (False, True)]
    for size, biases, held in [*kinds, (plan.held, True, HELD)]:
        told = f"biases, 1/{held} held" if held else "biases" if biases else "no biases"
        for sweeps in plan.calls:
            row = _row(
                f"{size}, {size.chains:,} chains, {told}", f"{sweeps} sweeps a call", "sweep", size
            )
            row |= {"biases": biases, "held": 1 / held if held else 0.0}
            action = gibbs(size, sweeps, device, seed, biases=biases, held=held)
            spins = size.chains * (size.visible + size.hidden)
            jobs.append(Job(row, action, sweeps, spins / 1e9, "spin updates per ns"))
    return _timed(jobs, plan, device)


def small(plan: Plan, device: torch.device, seed: int) -> list[Row]:
    """PCD-1 of small dense machines as trainings make it, beside others; seconds of a batch."""
    rows: list[Row] = []
    actions: dict[str, Action] = {}
    for size in plan.small:
        mine = f"{OURS}, {size}"
        builds: dict[str, tuple[str, Callable[[], Action]]] = {
            mine: ("torch", partial(epoch, size, 1, device, seed)),
            f"{PLAIN}, {size}": ("torch", partial(often, plain, size, device, seed)),
            f"rbms, {size}": ("rbms", partial(often, by_rbms, size, device, seed)),
            f"scikit-learn, {size}": ("sklearn", partial(sklearn_fit, size, seed)),
        }
        for name, (package, build) in builds.items():
            method = "PCD-1, CPU" if package == "sklearn" else "PCD-1"
            row = {**_row(name, method, "update", size), "over": mine}
            rows.append(row)
            if name == mine:
                actions[name] = build()
            else:
                guarded(row, package, build, actions)
    rows += _beside_thrml(plan.small[-1], actions, device, seed)
    return timed(rows, actions, plan.rounds, device, parts=PER_CALL)


def _beside_thrml(size: Size, actions: dict[str, Action], device: torch.device, seed: int) -> list[Row]:
    """Sampling alone: it has no update of its own to time."""
    name = f"{OURS}, {size}, sampling"
    mine = {**_row(name, "Gibbs", "sweep", size), "over": name}
    theirs = {**mine, "name": f"thrml, {size}, sampling"}
    actions[name] = gibbs(size, PER_CALL, device, seed)
    build = partial(by_thrml, size, PER_CALL, device, seed)
    guarded(theirs, "thrml", build, actions, "pip install thrml")
    return [mine, theirs]


def often(build: Callable[..., Action], size: Size, device: torch.device, seed: int) -> Action:
    """`PER_CALL` updates of PCD-1."""
    action = build(size, 1, device, seed)

    def work() -> None:
        for _ in range(PER_CALL):
            action()

    return work


def sklearn_fit(size: Size, seed: int) -> Action:
    """A fit over `PER_CALL` batches, on the CPU."""
    from sklearn.neural_network import BernoulliRBM

    data = images(size, torch.device("cpu"), seed, PER_CALL).numpy()
    options = {"learning_rate": 0.01, "batch_size": size.chains, "n_iter": 1, "random_state": seed}
    return lambda: BernoulliRBM(size.hidden, **options).fit(data)


def annealing(plan: Plan, device: torch.device, seed: int) -> list[Row]:
    """A temperature of annealed importance sampling, both ways, weights in float64."""
    size, jobs = plan.annealed, []
    for data in (False, True):
        for back in (False, True):
            name = f"{size}, {size.chains:,} chains, from {'data' if data else 'free spins'}"
            row = _row(name, "back" if back else "forward", "step", size)
            action = annealed(size, plan.steps, device, seed, data=data, back=back)
            jobs.append(Job(row, action, plan.steps, size.chains, "chain steps per s"))
    return _timed(jobs, plan, device)


def tempering(plan: Plan, device: torch.device, seed: int) -> list[Row]:
    """A turn: an exchange, then a sweep on every rung."""
    size, rungs, turns = plan.tempered, plan.rungs, 5
    row = _row(f"{size}, {rungs} rungs, {size.chains} chains each", "a sweep a turn", "turn", size)
    action = tempered(size, rungs, turns, device, seed)
    job = Job(row | {"rungs": rungs}, action, turns, rungs, "sweeps · rungs per s")
    return _timed([job], plan, device)


def others(plan: Plan, device: torch.device, seed: int) -> list[Row]:
    """An update of a deep machine and of a full one, with as many images as chains."""
    (size, hidden), whole, sweeps = plan.deep, plan.full, 5
    layers = "-".join(map(str, (size.visible, *hidden)))
    one = f"DBM {layers}, K={size.patterns}, {size.chains} chains"
    other = f"BM {whole.visible}+{whole.hidden} units, K={whole.patterns}, {whole.chains} chains"
    jobs = [
        Job(_row(one, f"PCD-{sweeps}", "update", size), deep(hidden, size, sweeps, device, seed)),
        Job(_row(other, f"PCD-{sweeps}", "update", whole), full(whole, sweeps, device, seed)),
    ]
    return _timed(jobs, plan, device)


GROUPS: dict[str, tuple[str, Callable[[Plan, torch.device, int], list[Row]]]] = {
    "sampling": ("sampling with many patterns, and with units held", sampling),
    "small": (f"small machines, as many images as chains, {PER_CALL} updates or sweeps in a row", small),
    "annealing": ("annealing, one temperature", annealing),
    "tempering": ("parallel tempering, one turn", tempering),
    "others": ("deep and full machines, one update", others),
}


def _row(name: str, method: str, per: str, size: Size) -> Row:
    return {"name": name, "method": method, "per": per, **vars(size)}


def _timed(jobs: list[Job], plan: Plan, device: torch.device) -> list[Row]:
    """The rows with the times of a part and its rate."""
    actions = {str(number): job.action for number, job in enumerate(jobs)}
    times = interleaved(actions, plan.rounds, pause=0, least=0.02, device=device)
    rows = []
    for job, found in zip(jobs, times.values(), strict=True):
        each = found.per(job.parts)
        rate = {"rate": job.worth / each.median, "rate_of": job.of} if job.of else {}
        rows.append(job.row | each.as_dict() | rate)
    return rows
