"""A run that is steered while it trains: kept when one asks, with a rate that changes.

Both happen between two steps of `go`. A change of the rate is written into `run.json`, as an entry
`[update, rate]` of the recipe's `rate_changes`, before an update is made with it. So whoever resumes the
run, from whichever checkpoint, makes every update with the rate that it had: the bits are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...data.splits import Dataset
from ...errors import InputError, is_number
from ...runs.run import Run, Step
from ...training.loop import Training


class SteeredRun(Run):
    """A run with hands on it."""

    _now: tuple[Training, float] | None = None  # the trainer, and the seconds so far

    @staticmethod
    def of(run: Run) -> SteeredRun:
        """The same run, with what was built for it."""
        steered = SteeredRun(run.folder)
        steered._ready = run._ready
        return steered

    def _look(self, trainer: Training, data: Dataset, seconds: float, last: bool = False) -> Step:
        self._now = trainer, seconds
        return super()._look(trainer, data, seconds, last)

    def keep(self) -> None:
        """Writes all that a resume needs, as it is now."""
        trainer, seconds = self._between_steps()
        self._save(trainer, seconds, history=False)
        self._describe(trainer, "running", seconds)

    def change_rate(self, rate: Any) -> None:
        """From the next update on this is the rate of all replicas, before decay and fall."""
        trainer, seconds = self._between_steps()
        if not (is_number(rate) and rate > 0):
            raise InputError(f"a rate is a number above 0, not {rate!r}; give another")
        before = tuple(change for change in self.recipe.rate_changes if change[0] < trainer.update)
        recipe = replace(self.recipe, rate_changes=(*before, (trainer.update, float(rate))))
        choice = recipe.optimizer_choice()  # says what does not fit before anything is written
        self.recipe = recipe
        self.info["recipe"]["rate_changes"] = [list(change) for change in recipe.rate_changes]
        self._describe(trainer, "running", seconds)
        trainer.choice = choice

    def base_rate(self, update: int) -> float:
        """The first replica's rate at an update, before decay and fall."""
        choice = self.recipe.optimizer_choice()
        given = choice.rate if isinstance(choice.rate, tuple) else (choice.rate,)
        return choice.schedule.starts(given, update)[0]

    def _between_steps(self) -> tuple[Training, float]:
        if self._now is None:
            raise InputError("a run is steered while it trains; ask between two steps of go()")
        return self._now
