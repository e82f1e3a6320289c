"""Short trainings side by side, which go on from round to round: what `choosing` compares.

Candidates of one shape are the replicas of one training. In a round their rates fall to zero, and then
the likelihood of a validation part says what they came to, by the pessimistic end of its interval,

    worst = value − 2 error                                                               (1)

Those that stay go on from where they are: machine, chains, the optimiser's memory, and what is known of
log Z. So no time is lost on those that win, and looks stay cheap, as the bridge from the last one is
short. An epoch of a round is at most `SHORT` batches, so that a rate can fall within little time.

`Bench` keeps the best of all looks, whatever becomes of its training.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..accel.devices import by_device, device_named
from ..data.splits import Dataset
from ..disk import inside
from ..errors import InputError, TimeLimit
from ..estimates import Estimate
from ..likelihood.annealed import annealed
from ..likelihood.exact import can_be_exact
from ..likelihood.following import ANCHORS, CHAINS, CHEAP, MOST, WEIGHED, mean_log_p
from ..machines.enumeration import states_of
from ..machines.files import save_tensors
from ..machines.machine import Machine
from ..progress import watch
from ..random import stream
from ..training.loop import Progress, Training
from .folder import RunFolder
from .metrics import BOUND
from .recipe import Recipe
from .spacing import OPEN, epochs_within
from .watching import DOUBT, JUDGED, PREFIX, Watch, judging

SHORT = 5, 50  # batches of an epoch, at most: on a CPU, on a GPU
ROWS = 1000  # of the training part that are looked at
FIRST_LOOK = 16  # updates; then after twice as many, and so on
LOOK = 0.2  # of what is left of a round, for a look on the way
BRIDGING = 10.0  # steps of the bridge to a look that is not far from the last one
ANNEALING = 150_000.0  # sweeps of a chain that a look takes where log Z is annealed
HALF = 0.5  # of a round, for annealing at its end
MOST_LOOK = 0.7  # of a round, for its last look: what takes longer is not judged in it
WARM_UP = 5  # updates in which speed is believed to show whether there is time for a look
KEPT = ("parameter/", "average/", "optimizer/", "centring/", "training/chains")
CHECKING = 50  # chains from each base that check the best trial
BEFORE = -1  # the update of a best machine that is not of the training itself
State = dict[str, Tensor]


@dataclass(frozen=True)
class Candidate:
    """One way to train."""

    hidden: tuple[int, ...]
    patterns: int | None
    rate: float
    decay: float
    lifetime: int = 0

    @property
    def shape(self) -> tuple[object, ...]:
        """What candidates that train side by side have in common."""
        return self.hidden, self.patterns, self.lifetime

    def __str__(self) -> str:
        kind = "dense" if self.patterns is None else f"K={self.patterns}"
        layers = " + ".join(map(str, self.hidden)) or "no"
        lives = f", lifetime {self.lifetime}" if self.lifetime else ""
        return (
            f"{layers} hidden units, {kind}, rate {self.rate:.2g}, weight decay {self.decay:.2g}{lives}"
        )


@dataclass(frozen=True)
class Judged:
    """A candidate, what it came to in nats per row, and the state to go on from."""

    candidate: Candidate
    train: float = math.nan
    valid: float = math.nan
    error: float = math.nan
    updates: int = 0  # of all its rounds
    begun: tuple[float, int] = (0.0, 0)  # the rate of its first round, and the updates of that
    speed: float = 0.0  # updates per second, if it trains alone
    state: State = field(default_factory=dict, repr=False)

    @property
    def worst(self) -> float:
        """Eq. (1)."""
        return pessimistic(self.valid, self.error)

    @property
    def parameters(self) -> State:
        """Those that were judged, (1, …): the average, where one is kept."""
        kind = "average/" if any(key.startswith("average/") for key in self.state) else "parameter/"
        return {k.removeprefix(kind): x for k, x in self.state.items() if k.startswith(kind)}


@dataclass(frozen=True)
class Start:
    """What a run begins with: the best machine so far, of one replica, and the state to go on from."""

    what: str  # a trial, or independent columns
    value: float  # log p of the validation part
    error: float
    parameters: State
    state: State = field(default_factory=dict, repr=False)  # of a trial; empty: the run begins anew

    @property
    def worst(self) -> float:
        return pessimistic(self.value, self.error)

    def save(self, run: RunFolder, machine: Machine) -> None:
        """Writes it into a new run folder, as if each replica of its machine had come to it."""
        inside(run.folder, "checkpoints").mkdir(exist_ok=True)
        e = machine.replicas
        best = {f"parameter/{k}": x.repeat(e, *[1] * (x.dim() - 1)) for k, x in self.parameters.items()}
        best["best/value"] = torch.full((e,), self.value, dtype=torch.float64)
        best["best/error"] = torch.full((e,), self.error, dtype=torch.float64)
        best["best/update"] = torch.full((e,), BEFORE)
        save_tensors(run.best, machine, best, {"update": 0})
        if self.state:
            save_tensors(run.start, machine, self.state, {"update": 0})
        run.note("best_from", {"what": self.what, "value": self.value, "error": self.error})


def pessimistic(value: float, error: float) -> float:
    """Eq. (1); −∞ where nothing is known."""
    worst = value - DOUBT * error
    return worst if math.isfinite(worst) else -math.inf


class Bench:
    """Trains candidates round by round, and keeps the best machine that any look saw."""

    def __init__(self, data: Dataset) -> None:
        """`data` have a validation part."""
        self.data = data
        assert data.valid is not None
        train = data.train.some()
        some = train.spins[:: -(-len(train) // ROWS)]
        few = replace(train, spins=some, labels=None, known=None, of=len(train))
        self.looked_at = replace(data, train=few, test=data.valid.some().take(slice(0, 1)))
        self.best: Judged | None = None

    def round(self, recipe: Recipe, rivals: list[Judged], seconds: float) -> list[Judged]:
        """Trains rivals of one shape side by side for so many seconds, looks and all, and judges them."""
        began = time.monotonic()
        recipe = of_candidates(recipe, [one.candidate for one in rivals])
        trainer = recipe.trainer(self.data, device_named(recipe.device))
        if not self.data.train.on_disk:
            trainer.per_epoch = min(trainer.per_epoch, by_device(trainer.machine.device, *SHORT))
        trainer.epochs = OPEN
        watching = Watch(trainer, self.looked_at, (judging(recipe),), end=JUDGED)
        watching.follower.looks = 1  # independent units are known: no need to anneal at first
        _continued(trainer, watching, [one.state for one in rivals])
        speed = self._train(trainer, watching, rivals, (began, seconds))
        if not speed:
            return rivals
        before = time.monotonic()
        most = max(1.0, 1.5 * (began + seconds - before))
        return self._judged(trainer, watching, rivals, speed, ends=True, most=most)

    def _train(
        self,
        trainer: Training,
        watching: Watch,
        rivals: list[Judged],
        clock: tuple[float, float],
    ) -> float:
        """Trains until there is time for a look left of so many seconds since a moment, when the rate has
        fallen to zero, and looks on the way; answers updates per second, 0 where that is no time."""
        began, (since, seconds) = time.monotonic(), clock
        bridge, anneal = (x / watching.per_update for x in works_of_look(trainer.machine))  # updates
        total, speed, warm, looked, lost = 0, 0.0, 0, 0.0, False

        def due(progress: Progress) -> bool:
            return progress.update >= FIRST_LOOK and progress.update & (progress.update - 1) == 0

        with watch(f"trial of {len(rivals)} candidate{'s' if len(rivals) > 1 else ''}") as tick:
            for progress in trainer.together(due):
                trainer.wait()
                tick()
                now = time.monotonic()
                if not warm:
                    began, warm = now, progress.update
                    continue
                speed = (progress.update - warm) / max(now - began - looked, 1e-6)
                if progress.update <= WARM_UP and bridge > MOST_LOOK * seconds * speed:
                    return 0.0
                reserved = anneal if anneal <= HALF * seconds * speed else bridge
                end = since + seconds - reserved / speed
                if now >= end or progress.update == total:
                    break
                if due(progress) and bridge <= LOOK * (end - now) * speed and not lost:
                    seen = self._judged(trainer, watching, rivals, speed, ends=False, most=end - now)
                    lost = not any(math.isfinite(one.worst) for one in seen)
                    last_look = time.monotonic() - now
                    looked, now = looked + last_look, now + last_look
                    bridge = max(bridge, last_look * speed)
                    if lost and reserved < anneal:  # a longer bridge will not hold either
                        return 0.0
                if progress.epoch_end or progress.update <= FIRST_LOOK:
                    trainer.epochs = epochs_within(end - now, progress.update, trainer.per_epoch, speed)
                    total = trainer.epochs * trainer.per_epoch
        return speed

    def _judged(
        self,
        trainer: Training,
        watching: Watch,
        rivals: list[Judged],
        speed: float,
        *,
        ends: bool,
        most: float,
    ) -> list[Judged]:
        """What each has come to, as far as that can be told in so many seconds; keeps the best."""
        nothing = torch.full((len(rivals),), torch.nan, dtype=torch.float64)
        found = dict.fromkeys(("train", "valid"), Estimate(nothing, nothing))
        sweeps = most * speed * watching.per_update  # that there is time for
        last = ends and sweeps >= works_of_look(trainer.machine)[1]  # else by bridges alone
        if last:
            share = by_device(trainer.machine.device, *ANCHORS)
            trained = max(1, trainer.update * watching.per_update)
            watching.follower.end = max(JUDGED, sweeps / (share * trained))
        with suppress(TimeLimit), watch("judging trials", limit=max(2.0, 2.0 * most)):
            found = watching.log_p(trainer.update, machine_of(trainer), self.looked_at, last=last)
        lost, alone = trainer.diverged(), by_device(trainer.machine.device, len(rivals), 1)
        train, valid = found["train"], found["valid"]
        judged = [
            replace(
                one,
                train=float(train.value[i]),
                valid=-math.inf if i in lost else float(valid.value[i]),
                error=float(valid.error[i]),
                updates=one.updates + trainer.update,
                begun=one.begun if one.updates else (one.candidate.rate, trainer.update),
                speed=speed * alone,
            )
            for i, one in enumerate(rivals)
        ]
        first = max(range(len(judged)), key=lambda i: judged[i].worst)
        better = judged[first].worst > (-math.inf if self.best is None else self.best.worst)
        if not ends and not better:
            return judged
        states = _states(trainer, watching)
        judged = [replace(one, state=state) for one, state in zip(judged, states, strict=True)]
        if better:
            self.best = judged[first]
        return judged


def machine_of(trainer: Training) -> Machine:
    return trainer.averaged() if trainer.average else trainer.machine


def of_candidates(recipe: Recipe, group: list[Candidate]) -> Recipe:
    """The recipe of these candidates, which share their shape, side by side."""
    first = group[0]
    more: dict[str, Any] = {"scale": None, "scouts": None} if first.patterns is None else {}
    if first.lifetime != (recipe.lifetime or 0):
        more["lifetime"] = first.lifetime
    return replace(
        recipe,
        hidden=first.hidden,
        patterns=first.patterns,
        replicas=len(group),
        rate=tuple(c.rate for c in group),
        weight_decay=tuple(c.decay for c in group),
        **more,
    )


def independent_columns(recipe: Recipe, data: Dataset) -> Start:
    """The machine of a recipe without couplings, with the marginals of the training data: its log Z is
    exact, and nothing that is worse is worth having."""
    machine = _alone(recipe, data)
    for parameter in machine.parameters():
        parameter.zero_()
    if machine.biases is not None:
        machine.start_biases(data.train.some())
    free, rest = machine.random(1, stream(0, device=machine.device)), 0.0
    for layer in range(len(machine.layers.sizes)):
        unit = machine.layers.unit(layer)
        rest += float(unit.log_sum(machine.field(free, layer).double()).sum())
    kept = {name: p.data.cpu() for name, p in machine.named_parameters()}
    return Start("independent columns", *_valid(recipe, machine, data, rest, 0.0), kept)


def checked(recipe: Recipe, data: Dataset, best: Judged, seconds: float) -> Start:
    """What a run begins with after its trials: the best of them, with log Z annealed anew, once more, if
    that is done in so many seconds. Where that is worse by more than the errors, it counts."""
    start = Start("a trial", best.valid, best.error, best.parameters, best.state)
    machine = _alone(recipe, data)
    if not best.state or can_be_exact(machine, CHEAP):
        return start
    for name, parameter in machine.named_parameters():
        parameter.copy_(best.parameters[name])
    try:
        with watch("checking the best trial", limit=seconds):
            rows = data.train.some().spins
            z = annealed(machine, recipe.seed, chains=CHECKING, most=MOST, data=rows).bounds
    except (TimeLimit, InputError):
        return start
    middle = 0.5 * float(z.lower + z.upper)
    value, error = _valid(recipe, machine, data, middle, float(z.error))
    if value + 2.0 * error >= start.worst:
        return start
    unknown = {k: x for k, x in best.state.items() if not k.startswith(PREFIX)}
    return replace(start, value=value, error=error, state=unknown)


def _alone(recipe: Recipe, data: Dataset) -> Machine:
    """A machine of the recipe of one replica."""
    machine = replace(recipe, replicas=1).machine(data, device_named(recipe.device))
    return machine.requires_grad_(False)


def _valid(
    recipe: Recipe, machine: Machine, data: Dataset, log_z: float, error: float
) -> tuple[float, float]:
    """log p of the validation part, or its bound, with its error."""
    assert data.valid is not None
    z = Estimate(*(torch.tensor([x], dtype=torch.float64, device=machine.device) for x in (log_z, error)))
    found = mean_log_p(machine, data.valid.some(), z, bound=judging(recipe) == BOUND)
    return float(found.value), float(found.error)


def works_of_look(machine: Machine) -> tuple[float, float]:
    """About how many sweeps of a chain a look takes, by a bridge and by annealing."""
    if can_be_exact(machine, CHEAP):
        terms = float(min(CHEAP, states_of(machine.layers)))
        return terms, terms
    return BRIDGING * CHAINS * WEIGHED, ANNEALING


# -- states of single replicas ------------------------------------------------------------------------


def _states(trainer: Training, watching: Watch) -> list[State]:
    """What each replica goes on from, its part of every tensor first."""
    state = {k: x for k, x in trainer.state(copied=False).items() if k.startswith(KEPT)}
    state |= watching.state()
    many = trainer.machine.replicas
    return [
        {k: (x[i : i + 1] if x.dim() and k != _COUNTS else x).cpu().clone() for k, x in state.items()}
        for i in range(many)
    ]


_COUNTS = f"{PREFIX}counts"  # of a follower: one for all replicas


def _continued(trainer: Training, watching: Watch, states: list[State]) -> None:
    """Goes on from these states, one for each replica; an empty one begins anew."""
    if any(states):
        trainer.load(side_by_side(trainer.state(), states))
        follow_on(watching, states, trainer.machine)


def follow_on(watching: Watch, states: list[State], machine: Machine) -> None:
    """Takes over what is known of log Z of each replica; what was spent on that does not count."""
    known = [{k: x for k, x in state.items() if k.startswith(PREFIX)} for state in states]
    if not all(known):
        return
    together = {
        k: x if k == _COUNTS else torch.cat([state[k] for state in known]) for k, x in known[0].items()
    }
    watching.load(together, machine)
    follower = watching.follower
    follower.spent = follower.anchoring = follower.anchored = follower.last_anchor = 0


def side_by_side(mine: State, states: list[State]) -> State:
    """A training's state `mine` with that of other replicas in place of what it has of each."""
    found = dict(mine)
    for key, value in mine.items():
        if not key.startswith(KEPT) or not any(key in state for state in states):
            continue
        if not value.dim():
            found[key] = next(state[key] for state in states if key in state).to(value.device)
            continue
        parts = [
            state[key].to(value.device) if key in state else value[i : i + 1]
            for i, state in enumerate(states)
        ]
        found[key] = torch.cat(parts)
    return found
