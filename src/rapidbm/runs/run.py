"""A run: a training that can be looked at, interrupted and gone on with.

What a later update depends on is in the newest checkpoint; order and evaluation have streams of their
own. So a resumed run gives the same bits as one that was never stopped, wherever it was cut.
"""

from __future__ import annotations

import json
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..accel.devices import device_named, words
from ..data.catalogue import is_file
from ..data.splits import Dataset
from ..disk import append_line, inside, locked, make_folder, write_bytes, write_json
from ..errors import InputError, LossWarning, check_choice
from ..likelihood.independent import warn_of_fit
from ..machines.files import check_sizes, load_tensors, save_tensors
from ..machines.machine import Machine
from ..training.trainer import Progress, Trainer
from .folder import Record, RunFolder, as_list, check_free, describe_new, exact_list, fresh_folder
from .metrics import METRICS
from .recipe import Recipe
from .spacing import KEPT, OPEN, PLANS, due, epochs_within, seconds_of
from .trust import trust
from .watching import Best, Watch, suited, watches

PROLONG = ("again", "stretch")  # what a rate that falls to zero does in added epochs
SAVE_SECONDS = 20.0  # at most this much work is lost to a kill
WARM_UP = 50  # updates before speed is believed: the first ones are slower
LATE = 1.05  # of a budget: a training that is not done by then ends
# What a caller of `Run.go` looks at in place of the recipe's metrics: values per replica, or nothing.
Look = Callable[[Progress, Dataset], Mapping[str, Tensor] | None]


@dataclass(frozen=True)
class Step:
    """What `Run.go` tells its caller after an update."""

    epoch: int
    update: int
    updates: int
    record: Record | None  # the evaluation, if there was one
    diverged: tuple[int, ...]  # replicas that were frozen when last looked at
    progress: Progress  # the machine and its trainer, as they are until the next step is asked for
    data: Dataset  # as many rows as memory holds


class Run(RunFolder):
    """A run folder that can be trained into."""

    _own: Look | None = None  # what the caller of `go` looks at
    _ready: tuple[Trainer, Dataset] | None = None  # by `create`, so that neither is made twice
    _diverged: tuple[int, ...] = ()  # as far as was asked
    _lines = 0  # of metrics, so far
    _watch: Watch | None = None  # where the likelihood is measured
    _best: Best | None = None  # where that of a validation part is
    _since = 0  # looks since then
    _started = 0.0, 0  # wall time and update when this process began to train
    _clock = 0.0  # when this training would have begun without breaks

    @staticmethod
    def create(
        folder: str | Path,
        recipe: Recipe,
        preset: str | None = None,
        *,
        renamed: bool = False,
        data: Dataset | None = None,
    ) -> Run:
        """A new run folder; one that holds something is left alone, or with `renamed` one with a number
        after its name is taken. `data` stand in for those that the recipe names."""
        folder = Path(folder)
        if not renamed:
            check_free(folder)
        given, device = data, device_named(recipe.device)
        data = recipe.data(given)
        recipe = suited(recipe, data)
        ready = recipe.trainer(data, device)  # says what does not fit before anything is written
        for name in recipe.metrics:
            METRICS[name].check(ready.machine)
        if recipe.patience is not None and not watches(recipe, data):
            raise InputError(
                "--patience watches the likelihood of a validation part; give --valid 0.1 or a file with "
                "valid, and --metric log_likelihood"
            )
        if renamed:
            folder = fresh_folder(folder)
        else:
            make_folder(folder)
        with locked(folder, "training"):
            check_free(folder)  # another process may have been quicker
            describe_new(folder, recipe, preset, data)
        if is_file(recipe.dataset):
            trust(Path(recipe.dataset))
        run = Run(folder, given, None if type(recipe) is Recipe else recipe)
        run._ready = ready, data
        return run

    def go(
        self,
        stop: Callable[[], bool] = lambda: False,
        epochs: int | None = None,
        look: Look | None = None,
    ) -> Iterator[Step]:
        """Trains, from the beginning or from the newest checkpoint, and tells after every update, or on a
        GPU after every few.

        When `stop` says so, the state is saved and the training ends as "interrupted". `epochs`
        makes the training longer than it was meant to be, as `prolong` does. `look` takes the place of
        the recipe's metrics: it is asked at the start and at each end of an epoch, before anything is
        saved, so that it may change the machine, and what it answers is written down to all digits.
        """
        self._own = look
        with self._alone():
            if epochs is not None and epochs != self.recipe.epochs:
                self._extend(epochs, None, None)
            yield from self._go(stop)

    def prolong(
        self, epochs: int | None = None, rate: str | None = None, *, budget: str | None = None
    ) -> str:
        """Makes the training longer than it was meant to be, in epochs or in time, and says what becomes
        of the rate.

        A rate that falls to zero does so as planned and then `again`, from the full rate over the added
        epochs; with `stretch` it goes on, from here, as if all epochs had been planned at first. Any
        other rate goes on as it would have.
        """
        with self._alone():
            return self._extend(epochs, rate, budget)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process works in the folder; what one did since it was opened is read again."""
        with locked(self.folder, "training"):
            before = self.recipe
            self.read()
            if self.recipe != before:
                self._ready = None
            yield

    def _go(self, stop: Callable[[], bool]) -> Iterator[Step]:
        device = device_named(self.recipe.device)
        ready, self._ready = self._ready, None
        if ready is None:
            data = self.own_data()
            ready = self.recipe.trainer(data, device), data
        trainer, data = ready[0], ready[1].some()  # what is looked at is in memory
        inside(self.folder, "checkpoints").mkdir(exist_ok=True)
        self._best = self._watch = None
        if self._own is None and "log_likelihood" in self.recipe.metrics:
            self._watch = Watch(trainer, data)
        if self._watch is not None and data.valid is not None:
            self._best = Best.read(self.best, trainer.machine)
        self._clock = time.monotonic()
        seconds = self._restore(trainer)
        self._describe(trainer, "running", seconds, device=words(device))
        try:
            if trainer.update == 0:
                yield self._look(trainer, data, seconds)
                self._save(trainer, seconds, history=True)
            self._started = self._wall(), trainer.update  # the first look has no part in the speed
            saved = began = time.monotonic()
            over = self._late(trainer) or self._impatient(trainer)
            for progress in () if over else trainer.together(self._halts):
                history = self._keeps(progress)
                if progress.epoch_end or self._halts(progress):
                    trainer.wait()  # else the host runs ahead of a GPU
                seconds += time.monotonic() - began
                self._plan(trainer, seconds)
                last = progress.update == trainer.epochs * trainer.per_epoch or self._late(trainer)
                yield self._look(trainer, data, seconds, last)
                last = last or self._impatient(trainer)
                halt = not last and stop()
                if history or last or halt or time.monotonic() - saved > SAVE_SECONDS:
                    self._save(trainer, seconds, history=history or last)
                    saved = time.monotonic()
                if halt:
                    self._describe(trainer, "interrupted", seconds)
                    return
                if last:
                    break
                began = time.monotonic()
        except GeneratorExit:  # the caller has left between two updates
            self._save(trainer, seconds, history=False)
            self._describe(trainer, "interrupted", seconds)
            raise
        except BaseException as error:
            state = "failed" if isinstance(error, Exception) else "interrupted"
            self._describe(trainer, state, seconds)
            raise
        found = trainer.fit() if self._own is None else None
        told = {}
        if found is not None:
            most = as_list(found.most)
            told = {"fit": {"log_likelihood_at_most": most, "independent_columns": found.columns}}
        self._describe(trainer, "finished", seconds, **told)
        warn_of_fit(found)

    def _restore(self, trainer: Trainer) -> float:
        """Goes back to the newest checkpoint, if there is one; answers the seconds spent so far."""
        if not self.latest.is_file():
            if self.info.get("update"):
                raise InputError(
                    f"{self.latest} is gone, but {self.folder} was trained for "
                    f"{self.info['update']} updates; restore it, or train anew into another folder"
                )
            self._keep_metrics(-1, None)
            return 0.0
        tensors, header = load_tensors(self.latest)
        check_sizes(self.latest, header["sizes"], trainer.machine.layers.sizes)
        trainer.load(tensors)
        if self._watch is not None:
            self._watch.load(tensors, trainer.machine)
        # The evaluation at the start is made again.
        self._keep_metrics(trainer.update or -1, header.get("evaluations", 1))
        self._clock -= float(header.get("wall", header.get("seconds", 0.0)))
        return float(header.get("seconds", 0.0))

    def _keep_metrics(self, update: int, lines: int | None) -> None:
        """Drops the lines after `update`: they will be written again, with the same values."""
        kept = [record for record in self.metrics() if record["update"] <= update]
        if update > 0 and lines is not None and len(kept) < lines:
            self.info["evaluations_lost"] = lost = lines - len(kept)
            warnings.warn(
                f"{self.folder / 'metrics.jsonl'} has lost {lost} or more of the evaluations up to "
                f"update {update}; the training goes on without them: restore the file if you can",
                LossWarning,
                stacklevel=2,
            )
        self._lines = len(kept)
        # Looks since the best one, or since the run was made longer.
        marks = [int(x["update"]) for x in self.info.get("prolonged", [])]
        marks += [] if self._best is None else [int(self._best.update.max())]
        self._since = sum(record["update"] > max(marks, default=-1) for record in kept)
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_bytes(self.folder / "metrics.jsonl", text.encode())

    def _look(self, trainer: Trainer, data: Dataset, seconds: float, last: bool = False) -> Step:
        progress = trainer.progress()
        record = None
        if self._own is not None:
            seen = self._own(progress, data) if progress.epoch_end else None
            if seen is not None:
                values = {name: exact_list(value) for name, value in seen.items()}
                record = self._write_line(progress, seconds, values)
        elif last or self._looks_at(progress):
            machine = progress.averaged() if self.recipe.average else progress.machine
            values = self._evaluate(progress, machine, data, last)
            self._keep_best(progress, machine, values, last)
            if values:
                record = self._write_line(progress, seconds, values)
        if record is not None or progress.epoch_end:
            self._diverged = progress.diverged
        when = (progress.epoch, progress.update, progress.updates)
        return Step(*when, record, self._diverged, progress, data)

    def _halts(self, progress: Progress) -> bool:
        return self._keeps(progress) or self._looks_at(progress)

    def _keeps(self, progress: Progress) -> bool:
        return due(self.recipe.checkpoints, progress)

    def _looks_at(self, progress: Progress) -> bool:
        return due(self.recipe.evaluate, progress, by_epoch=True)

    def _keep_best(self, progress: Progress, machine: Machine, values: Record, last: bool) -> None:
        if self._best is None or "log_likelihood_valid" not in values:
            return
        if last and set(values["log_likelihood_valid"]) == {None} and not self._best.update.any():
            self.best.unlink(missing_ok=True)  # nothing is known of what was trained
            return
        if self._best.better(values["log_likelihood_valid"], progress.update, machine):
            self._best.save(self.best, machine)
        # A look that is made again after a kill may have left its best machine.
        self._since = 0 if progress.update <= int(self._best.update.max()) else self._since + 1

    def _late(self, trainer: Trainer) -> bool:
        budget = self.recipe.budget
        late = budget is not None and self._wall() > LATE * seconds_of(budget)
        if late:
            self.info["stopped"] = f"after update {trainer.update}: the budget of {budget} is used up"
        return late

    def _impatient(self, trainer: Trainer) -> bool:
        patience = self.recipe.patience
        if self._best is None or patience is None or self._since < patience:
            return False
        self.info["stopped"] = (
            f"after update {trainer.update}: no better likelihood of the validation part in "
            f"{self._since} looks"
        )
        return True

    def _wall(self) -> float:
        """Seconds of this training so far, looks and all, breaks apart."""
        return time.monotonic() - self._clock

    def _plan(self, trainer: Trainer, seconds: float) -> None:
        """Fits the epochs into the budget; what was planned is written down, so that a resumed run goes
        on with it."""
        if self.recipe.budget is None:
            return
        plan = self.info.setdefault("plan", {"wall": 0.0, "update": 0, "most": self.recipe.epochs})
        made = plan.setdefault("made", [])
        whole, wall = seconds_of(self.recipe.budget) - plan["wall"], self._wall() - plan["wall"]
        if len(made) == len(PLANS) or trainer.update <= self._started[1]:
            return
        gone = max(wall / whole, trainer.update / (trainer.epochs * trainer.per_epoch))
        early = trainer.update < WARM_UP and wall < PLANS[1] * whole
        if early or gone < PLANS[len(made)]:
            return
        since, update = self._started[0] - plan["wall"], self._started[1]
        if made and made[-1]["wall"] > since:
            since, update = made[-1]["wall"], made[-1]["update"]
        speed = (trainer.update - update) / (wall - since)
        epochs = epochs_within(KEPT * whole - wall, trainer.update, trainer.per_epoch, speed)
        trainer.epochs = min(epochs, plan["most"])
        self.recipe = replace(self.recipe, epochs=trainer.epochs)
        self.info["recipe"]["epochs"] = trainer.epochs
        share = bisect_right(PLANS, gone)
        made += [{"update": trainer.update, "wall": round(wall, 3), "epochs": trainer.epochs}] * (
            share - len(made)
        )
        self._save(trainer, seconds, history=False)  # first: a kill between only plans once more
        self._describe(trainer, "running", seconds)

    def _evaluate(self, progress: Progress, machine: Machine, data: Dataset, last: bool) -> Record:
        rng = progress.rng
        values: Record = {}
        for name in self.recipe.metrics:
            metric = METRICS[name]
            if self._watch is not None and name == "log_likelihood":
                values |= self._watch.look(progress, machine, data, last=last)
                continue
            for part, split in data.parts.items() if metric.of_split else [("", data.train)]:
                key = f"{name}_{part}" if part else name
                values[key] = as_list(metric(machine, split, rng))
        return values

    def _write_line(self, progress: Progress, seconds: float, values: Record) -> Record:
        when = {"epoch": progress.epoch, "update": progress.update, "seconds": round(seconds, 6)}
        record: Record = when | values
        if progress.diverged:
            record["diverged"] = [i in progress.diverged for i in range(self.recipe.replicas)]
        append_line(self.folder / "metrics.jsonl", json.dumps(record))
        self._lines += 1
        return record

    def _save(self, trainer: Trainer, seconds: float, *, history: bool) -> None:
        state = trainer.state(copied=False)
        extra = {"update": trainer.update, "seconds": seconds, "evaluations": self._lines}
        extra["wall"] = self._wall()
        if history:
            kept = {k: v for k, v in state.items() if k.startswith(("parameter/", "average/"))}
            path = self.checkpoint(trainer.update)
            save_tensors(path, trainer.machine, kept, {"update": trainer.update})
        if self._watch is not None:
            state |= self._watch.state()
        save_tensors(self.latest, trainer.machine, state, extra)

    def _describe(self, trainer: Trainer, status: str, seconds: float, **more: Any) -> None:
        self.info |= {
            "status": status,
            "update": trainer.update,
            "updates": trainer.epochs * trainer.per_epoch,
            "seconds": round(seconds, 3),
            "wall": round(self._wall(), 3),
            "diverged": list(trainer.diverged()),
            **more,
        }
        write_json(self.folder / "run.json", self.info)

    def _extend(self, epochs: int | None, rate: str | None, budget: str | None) -> str:
        planned, falls = self.recipe.epochs, self.recipe.fall != "none"
        if budget is not None:
            return self._extend_time(budget, rate, falls)
        if epochs is None or epochs <= planned:
            raise InputError(
                f"{self.folder} was planned for {planned} epochs and can only be made longer, not "
                f"{epochs}; leave --epochs out or train anew"
            )
        if rate is not None:
            check_choice("way to prolong a rate", rate, PROLONG)
            if not falls:
                raise InputError(
                    f"the rate of {self.folder} does not fall to zero and goes on as it is, so that "
                    f"--prolong {rate} has no effect; leave it out"
                )
        change: dict[str, Any] = {"epochs": epochs, "budget": None}
        told = f"prolonged from {planned} to {epochs} epochs; the rate "
        if not falls:
            told += "goes on as it would have"
        elif rate == "stretch":
            told += f"is from here on that of a fall over all {epochs} epochs"
        else:
            change["falls"] = [*self.recipe.falls, planned]
            told += f"falls to zero again, from the full one, over epochs {planned} to {epochs}"
        self._changed(change, (rate or "again") if falls else None)
        return told

    def _extend_time(self, budget: str, rate: str | None, falls: bool) -> str:
        """The same by a larger budget; what was planned is done first."""
        planned, before = self.recipe.epochs, self.recipe.budget
        wall = float(self.info.get("wall", self.info.get("seconds", 0.0)))
        if seconds_of(budget) <= max(wall, 0.0 if before is None else seconds_of(before)):
            raise InputError(
                f"{self.folder} has had {wall:.0f} s of a budget of {before or 'its epochs'}, which can "
                f"only be made larger, not {budget}; leave --budget out or train anew"
            )
        if rate is not None:
            raise InputError(f"--prolong {rate} goes with --epochs, not with --budget; leave it out")
        change: dict[str, Any] = {"epochs": max(OPEN, 2 * planned), "budget": budget}
        if planned >= OPEN:  # nothing is planned yet
            change["epochs"] = planned
        elif falls:
            change["falls"] = [*self.recipe.falls, planned]
        self.info["plan"] = {"wall": wall, "update": self.info.get("update", 0), "most": change["epochs"]}
        self._changed(change, "again" if "falls" in change else None)
        then = "; the rate then falls again, from the full one" if "falls" in change else ""
        return f"prolonged to {budget}, as many epochs as fit, after those planned{then}"

    def _changed(self, change: dict[str, Any], rate: str | None) -> None:
        """Writes down a longer plan."""
        self.info["recipe"] |= change
        self.recipe = Recipe.from_dict(self.info["recipe"])
        self._ready = None  # it had the old plan
        self.info.setdefault("prolonged", []).append(
            {
                "update": self.info.get("update", 0),
                "rate": rate,
                **{k: v for k, v in change.items() if v is not None},
            }
        )
        self.info["status"] = "interrupted"
        self.info.pop("stopped", None)
        write_json(self.folder / "run.json", self.info)
