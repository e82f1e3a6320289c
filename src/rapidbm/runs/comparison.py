"""The best machine of a training beside its checkpoints, once it is over.

Looks are spaced by what they cost, so that a machine that was saved may never have been looked at, or
with a wide error. Of each it is known at little cost that the validation part has at most

    ⟨log f(v)⟩ − (a proven lower bound of log Z),        or  value + 2 errors of a look       (1)

The best machine so far is annealed anew, then those of which (1) allows the most, as long as it allows
more than the pessimistic end of the best one and there are sweeps left (`Follower.left`). Each has random
numbers of its own, so that it comes to the same whenever it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.splits import Split
from ..errors import InputError
from ..estimates import Estimate
from ..likelihood.following import LEAST, combined, work_of_rows
from ..machines.machine import Machine
from ..progress import watch
from .incomplete import mean_log_p
from .metrics import BOUND
from .monitor import DOUBT, Best, LikelihoodMonitor, pessimistic

CLEAR = 0.05  # nats: a machine that cannot be better by more is passed over
BOUNDING = 0.25  # of the sweeps that are left may go into eq. (1)


@dataclass
class Comparison:
    """What it needs; `update` was the last of a training of machines `like` this one."""

    monitor: LikelihoodMonitor
    best: Best
    valid: Split
    update: int
    like: Machine

    def __post_init__(self) -> None:
        done = self.update * self.monitor.per_update
        self.left = self.monitor.follower.left(self.like, done)  # sweeps of a chain

    def made(self, saved: Mapping[int, Callable[[], Machine]], seen: Mapping[int, Estimate]) -> int:
        """Takes over the better ones of the `saved` machines, each by its update; looks have `seen` how
        probable some make the validation part. Answers of how many others it is known now; the best
        machine notes that they were looked at."""
        count, best = 0, self.best
        with watch("comparison of the checkpoints", len(saved)) as tick:
            if bool((best.error > 0).any()):
                now = self._again(int(best.update.max()), best.machine(self.like), best.seen)
                best.value, best.error = now.value, now.error
            most = self._most(saved, seen)
            for update in sorted(most, key=lambda u: -self._hope(most[u])):
                tick()
                if self._hope(most[update]) <= CLEAR or self.left <= 0:
                    continue
                with suppress(InputError):  # a damaged file is no candidate
                    machine = saved[update]()
                    now = self._again(update, machine, seen.get(update))
                    best.better(now, update, machine)
                    count += bool(pessimistic(now).isfinite().any())
        best.compared = self.update
        return count

    def _hope(self, most: Tensor) -> float:
        """How much better than the best one a machine may be."""
        return float((most - pessimistic(self.best.seen)).nan_to_num(-torch.inf, torch.inf).max())

    def _most(
        self, saved: Mapping[int, Callable[[], Machine]], seen: Mapping[int, Estimate]
    ) -> dict[int, Tensor]:
        """Eq. (1); of very many machines that were not looked at every second, third, …"""
        known = {update: x for update, x in seen.items() if bool(pessimistic(x).isfinite().all())}
        most = {u: x.value + DOUBT * x.error for u, x in known.items() if u in saved}
        others = [update for update in saved if update not in known]
        may = max(1, int(BOUNDING * max(self.left, 0.0) / (LEAST + self._rows(self.like))))
        for update in others[:: -(-len(others) // may) or 1]:
            try:
                machine = saved[update]()
            except InputError:  # a damaged file is no candidate
                continue
            least = self.monitor.follower.proven(machine, update)
            self.left -= LEAST
            most[update] = self._log_p(machine, least).value
        return most

    def _again(self, update: int, machine: Machine, before: Estimate | None) -> Estimate:
        """log p of the validation part by annealing, and what was seen before."""
        z, cost = self.monitor.follower.anneal_saved(machine, update, self.left)
        self.left -= cost
        if z is None:
            nothing = torch.full((machine.replicas,), torch.nan, dtype=torch.float64)
            return before or Estimate(nothing, nothing)
        now = self._log_p(machine, z)
        return now if before is None else combined(now, before)

    def _rows(self, like: Machine) -> int:
        return work_of_rows(like, [len(self.valid)], bound=self.monitor.names[0] == BOUND)

    def _log_p(self, machine: Machine, z: Estimate) -> Estimate:
        self.left -= self._rows(machine)
        found = mean_log_p(machine, self.valid, z, bound=self.monitor.names[0] == BOUND)
        return Estimate(found.value.cpu(), found.error.cpu())
