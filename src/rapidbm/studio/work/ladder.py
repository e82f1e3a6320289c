"""Tempering as a ladder: a walker on every rung, and neighbours that trade places.

The rungs stand along a path from independent pixels (0) to the machine (1). They are placed anew, at even
rates of exchange, a few times at the beginning (`tempering.respaced`); then the ladder stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...sampling.paths import Cooling
from ...sampling.samplers import ParallelTempering
from ...sampling.tempering import Walkers, new_walkers, respaced, tempering_step
from .arrays import Arrays, numbers, spins
from .machines import Subject

RUNGS, FEWEST, MOST = 24, 4, 48
ADAPTED = (24, 48, 96, 150, 200)  # turns after which the rungs are placed anew
STEEP = 2.0  # rungs are denser near the hot end at first, by this power


class Ladder:
    """One column of walkers."""

    def __init__(self, subject: Subject, asked: Mapping[str, Any], rng: torch.Generator) -> None:
        count = asked.get("rungs")
        self.rungs = max(FEWEST, min(MOST, count)) if isinstance(count, int) else RUNGS
        self.machine, self.rng = subject.machine, rng
        data = subject.data()
        images = None if data is None else data.train.take(slice(0, 2000))
        self.path: Cooling = ParallelTempering(data=images).path(self.machine)
        places = torch.linspace(0, 1, self.rungs, dtype=torch.float64) ** STEEP
        chain, down = self.path.start(1, rng), []
        for place in places:
            chain = self.path.move(chain, rng, place.view(1, 1))
            down.append(chain)
        self.walkers: Walkers = new_walkers(places[None], torch.cat(down, 1))
        self.rounds = 0  # how often the rungs were placed anew
        self.turns = 0

    @torch.no_grad()
    def frame(self, sweeps: int) -> tuple[dict[str, Any], Arrays]:
        """A turn: pairs trade, then all sweep."""
        self.walkers = tempering_step(self.path, self.walkers, self.rng, sweeps)
        self.turns += 1
        told, walkers = self._state(), self.walkers
        arrays: dict[str, Any] = {
            "spins": spins(walkers.spins[0, :, : self.machine.visible]),
            "rungs": numbers(walkers.rungs[0]),
            "rates": numbers(walkers.rates[0]),
            "names": ("u8", walkers.names[0]),
        }
        if self.rounds < len(ADAPTED) and walkers.turns >= ADAPTED[self.rounds]:
            self.walkers = respaced(walkers, self.rungs, self.rungs)
            self.rounds += 1
        return told, arrays

    def _state(self) -> dict[str, Any]:
        return {
            "ladder": True,
            "turn": self.walkers.turns,
            "turns": self.turns,
            "round": self.rounds,
            "settled": self.rounds == len(ADAPTED),
            "trips": int(self.walkers.trips[0]),
        }
