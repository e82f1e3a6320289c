"""A training that guards itself: where its likelihood falls it goes back to where it was best.

A state that no chain visits can outgrow the data unseen; the likelihood, watched by annealing, shows it.
With v ± e what a look says of the training rows, v* ± e* the best so far and v_0 the first, a replica is
lost where

    v + 2 e < v* − 2 e* − max( 0.05 (v* − v_0), 0.02 |v*| )                               (1)

Short dips belong to a training, hence the margin. A lost replica goes back to its parameters and its
optimiser's memory at v*, at half the rate, with chains that annealing has drawn there; the number of the
update, and with it the schedule, goes on. After `MOST` times it is left alone. A look that could not tell
is no reason to go back, nor a place to go back to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..training.loop import Training
from ..training.optimisers import SGD, Adam
from ..training.projections import NoProjection
from ..training.trainer import Trainer

DOUBT = 2.0  # standard errors
GAINED, SIZE = 0.05, 0.02  # of what was gained, and of the value itself: eq. (1)
SLOWER = 0.5  # of the rate
MOST = 5
KEPT = ("parameter/", "average/", "optimizer/", "centring/", "training/chains", "watch/")
COUNTS = "watch/counts"  # belongs to all replicas
PREFIX = "good/"  # of what is saved


def serves(trainer: Training) -> bool:
    """Whether it is a training that climbs the likelihood by chains that may miss a state, whose replicas
    can have rates of their own."""
    if not isinstance(trainer, Trainer) or not trainer.persists:
        return False
    # A sign of patterns throws likelihoods about.
    free = isinstance(trainer.stepper.projection, NoProjection)
    return free and (trainer.machine.replicas == 1 or isinstance(trainer.choice, Adam | SGD))


@dataclass
class Guard:
    """The best look so far of every replica, and the state of the training then."""

    name: str  # of what is watched
    first: list[float] = field(default_factory=list)
    best: list[tuple[float, float]] = field(default_factory=list)  # value and error
    good: dict[str, Tensor] = field(default_factory=dict)

    def judge(self, record: Mapping[str, object]) -> tuple[list[int], list[int]]:
        """Replicas that are better than ever, and those that are lost by eq. (1)."""
        values, errors = (record.get(f"{self.name}_{x}") for x in ("train", "error_train"))
        if not isinstance(values, list) or not isinstance(errors, list):
            return [], []
        risen, lost = [], []
        for i, (value, error) in enumerate(zip(values, errors, strict=True)):
            if len(self.best) <= i:
                self.first.append(math.nan)
                self.best.append((-math.inf, 0.0))
            if value is None or error is None:
                continue
            if math.isnan(self.first[i]):
                self.first[i] = value
            most, doubt = self.best[i]
            if value - DOUBT * error > most - DOUBT * doubt:
                self.best[i] = value, error
                risen.append(i)
                continue
            margin = max(GAINED * (most - self.first[i]), SIZE * abs(most))
            if value + DOUBT * error < most - DOUBT * doubt - margin:
                lost.append(i)
        return risen, lost

    def keep(self, state: Mapping[str, Tensor], replicas: list[int]) -> None:
        """Takes over the state of these replicas."""
        now = {name: x.detach() for name, x in state.items() if name.startswith(KEPT)}
        if not self.good:
            replicas = list(range(len(now["training/chains"])))
        self.good = merged(self.good or now, now, replicas)

    def state(self) -> dict[str, Tensor]:
        return {f"{PREFIX}{name}": value for name, value in self.good.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes on with what was saved."""
        self.good = {k.removeprefix(PREFIX): v for k, v in tensors.items() if k.startswith(PREFIX)}


def merged(
    now: Mapping[str, Tensor], other: Mapping[str, Tensor], replicas: list[int]
) -> dict[str, Tensor]:
    """What is now, but these replicas as in the other; what no replica owns stays."""
    count = len(now["training/chains"])
    found = dict(now)
    for name, there in other.items():
        here = now.get(name)
        if not there.dim() or name == COUNTS:
            continue
        if len(replicas) == count:
            found[name] = there.clone()
        elif here is not None and here.shape == there.shape and len(here) == count:
            found[name] = here.clone()
            found[name][replicas] = there[replicas].to(here)
    return found


def go_back(
    trainer: Trainer, now: Mapping[str, Tensor], guard: Guard, replicas: list[int]
) -> tuple[dict[str, Tensor], list[int]]:
    """Puts lost replicas of the trainer back; answers the whole state, that of the watch with it, and
    which of them went back, since each may do so `MOST` times."""
    damping = now["training/damping"].tolist()
    able = [i for i in replicas if damping[i] > 1.5 * SLOWER**MOST]
    if not able:
        return dict(now), []
    state = merged(now, guard.good, able)
    slower = state["training/damping"] = now["training/damping"].clone()
    slower[able] *= SLOWER
    fresh = guard.good.get("watch/chains")
    chains = state["training/chains"]
    if trainer.persists and fresh is not None and chains.shape[1]:
        units = fresh.shape[2]
        rows = torch.arange(chains.shape[1]) % fresh.shape[1]
        chains = state["training/chains"] = chains.clone()
        chains[able, :, :units] = fresh[able][:, rows].to(chains)
    trainer.load(state)
    return state, able
