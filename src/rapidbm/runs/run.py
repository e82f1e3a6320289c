"""A run: a training that can be looked at, interrupted and gone on with.

What a later update depends on is in the newest checkpoint; order and evaluation have streams of their
own. So a resumed run gives the same bits as one that was never stopped, wherever it was cut.

Several ranks (`accel/ranks.py`) go through the same loop. The first one alone looks, reads clocks and
files, and writes; the others are told what it decides.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from ..accel.devices import device_named, words
from ..accel.ranks import Ranks, current_ranks
from ..data.catalogue import is_file
from ..data.splits import Dataset
from ..data.weights import is_weights_file
from ..disk import append_line, inside, locked, make_folder, write_bytes
from ..errors import DiskError, InputError, LossWarning, LostRank
from ..likelihood.independent import warn_of_fit
from ..machines.files import save_tensors
from ..machines.machine import Machine
from ..training.loop import Progress, Training
from ..training.trainer import Trainer
from .baseline import Baseline
from .comparison import Comparison
from .correlations import NAME, PairCorrelations, correlations_for, looks_at_pairs, seen_by
from .folder import Record, RunFolder, as_list, check_free, describe_new, exact_list, fresh_folder
from .guard import Guard, go_back, serves
from .metrics import BOUND, METRICS, WATCHED, measured
from .monitor import (
    JUDGED,
    Best,
    LikelihoodMonitor,
    check_patience,
    divergences,
    likelihood_metrics,
    monitors_validation,
    suited,
)
from .recipe import Recipe
from .timing import due, limit_of_look, longer, longer_time, planned, reserved, seconds_of
from .trust import trust

SAVE_SECONDS = 20.0  # at most this much work is lost to a kill
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
    back: str = ""  # where the training went back to, in words, if it was lost (`guard.py`)


class Run(RunFolder):
    """A run folder that can be trained into, interrupted and resumed to the same bits.

    Parameters
    ----------
    folder : str or Path
        An existing run folder; `Run.create` makes a new one.
    data : str, Path or Dataset, optional
        Where its data are now, if the recipe does not say so.
    recipe : Recipe, optional
        A recipe that a file cannot hold.

    Raises
    ------
    InputError
        If the folder holds no run, or was written by another version.

    Examples
    --------
    >>> import tempfile
    >>> recipe = rb.Recipe.made("bars4", {"hidden": (8,), "epochs": 2, "device": "cpu"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = rb.Run.create(f"{folder}/R", recipe)
    ...     steps = list(run.go())
    ...     run.status
    'finished'
    """

    _own: Look | None = None  # what the caller of `go` looks at
    _ready: tuple[Training, Dataset] | None = None  # by `create`, so that neither is made twice
    _diverged: tuple[int, ...] = ()  # as far as was asked
    _lines = 0  # of metrics, so far
    _monitor: LikelihoodMonitor | None = None  # where the likelihood is measured
    _best: Best | None = None  # where that of a validation part is
    _since = 0  # looks since then
    _pairs: PairCorrelations | None = None  # where a training stops at their agreement
    _agreement = 0.0  # of the replica that has least, when last looked at
    _guard: Guard | None = None  # where a training that is lost can go back
    _saved = 0  # the update of the newest state on disk
    _started = 0.0, 0  # wall time and update when this process began to train
    _looking = 0.0  # seconds of the longest look: what the last one may take
    _clock = 0.0  # when this training would have begun without breaks

    @staticmethod
    def create(
        folder: str | Path,
        recipe: Recipe,
        preset: str | None = None,
        *,
        renamed: bool = False,
        data: Dataset | None = None,
        start: Baseline | None = None,
    ) -> Run:
        """A new run folder.

        Parameters
        ----------
        folder : str or Path
            Where to make it; it must not exist or be empty.
        recipe : Recipe
            What to train.
        preset : str, optional
            Name of the preset that was used, for the record.
        renamed : bool, default False
            Take another name with a number if the folder is taken.
        data : Dataset, optional
            Data to use instead of those that the recipe names.
        start : Baseline, optional
            A machine that counts as the best until the training has a better one.

        Returns
        -------
        Run
            Ready for `go`.

        Raises
        ------
        InputError
            If the folder is taken, or the recipe does not fit the data.
        """
        folder, ranks = Path(folder), current_ranks()
        if not renamed:
            ranks.broadcast(lambda: check_free(folder))
        given, device = data, device_named(recipe.device)
        data = recipe.data(given)
        recipe = suited(recipe, data)
        ready = recipe.trainer(data, device, ranks)  # says what does not fit before anything is written
        check_patience(recipe, data)

        def made() -> str:
            for name in recipe.metrics:
                METRICS[name].check(ready.machine)
            path = fresh_folder(folder) if renamed else folder
            make_folder(path)
            with locked(path, "training"):
                check_free(path)  # another process may have been quicker
                describe_new(path, recipe, preset, data)
            if is_file(recipe.dataset):
                trust(Path(recipe.dataset))
            if is_weights_file(recipe.weights):
                trust(Path(recipe.weights or ""))
            return str(path)

        run = Run(ranks.broadcast(made), given, None if type(recipe) is Recipe else recipe)
        run._ready = ready, data
        if start is not None and run.ranks.first:
            start.save(run, ready.machine)
        return run

    @property
    def ranks(self) -> Ranks:
        """The processes that train into this folder."""
        return current_ranks()

    def _said(self) -> dict[str, Any]:
        return self.ranks.broadcast(super()._said)

    def _write(self) -> None:
        if self.ranks.first:
            super()._write()

    def _owns(self, path: Path) -> bool:
        return not self.ranks.first or super()._owns(path)  # the first one asks for all

    def go(
        self,
        stop: Callable[[], bool] = lambda: False,
        epochs: int | None = None,
        look: Look | None = None,
    ) -> Iterator[Step]:
        """Trains, from the beginning or from the newest checkpoint.

        Parameters
        ----------
        stop : callable, optional
            Asked after updates; when it returns True the state is saved and the run ends as
            "interrupted".
        epochs : int, optional
            Make the training longer than planned, as `prolong` does.
        look : callable, optional
            (progress, data) -> values per replica, in place of the recipe's metrics. It is called at the
            start and after each epoch, before anything is saved, and may change the machine.

        Yields
        ------
        Step
            After every update, on a GPU after every few: epoch, update and, if there was one, the
            evaluation.

        Raises
        ------
        InputError
            If another process trains into the folder, or the data have changed.
        """
        self._own = look
        with self._alone():
            if epochs is not None and epochs != self.recipe.epochs:
                self._extend(epochs, None, None)
            yield from self._go(stop)

    def prolong(
        self, epochs: int | None = None, rate: str | None = None, *, budget: str | None = None
    ) -> str:
        """Makes the training longer than planned, and says what happens to the learning rate.

        Parameters
        ----------
        epochs : int, optional
            New number of epochs.
        rate : {"again", "stretch"}, optional
            For a rate that falls to zero: fall "again" from the full rate over the added epochs, or
            "stretch" the fall as if all epochs had been planned at first. Any other rate continues.
        budget : str, optional
            New wall time, such as "10m", in place of epochs.

        Returns
        -------
        str
            What happens to the rate, in words.

        Raises
        ------
        InputError
            If the training would not become longer, or `rate` would have no effect.
        """
        with self._alone():
            return self._extend(epochs, rate, budget)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process works in the folder, but for the other ranks; what one did since it was opened
        is read again."""
        with locked(self.folder, "training") if self.ranks.first else nullcontext():
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
            ready = self.recipe.trainer(data, device, self.ranks), data
        trainer, data = ready[0], ready[1].in_memory()  # what is looked at is in memory
        self._best = self._monitor = self._guard = self._pairs = None
        self._agreement = 0.0
        if self.ranks.first:
            self._pairs = correlations_for(self.recipe, trainer.machine, data.train)
            inside(self.folder, "checkpoints").mkdir(exist_ok=True)
            self._begin_monitoring(trainer, data)
        self._clock = time.monotonic()
        seconds = self._restore(trainer)
        self.info["device"] = words(device)
        self._describe(trainer, "running", seconds)
        try:
            if trainer.update == 0:
                yield self._guarded(trainer, self._look(trainer, data, seconds), seconds)
                self._save(trainer, seconds, history=True)
            self._started = self._wall(), trainer.update  # the first look has no part in the speed
            saved = began = time.monotonic()
            over = self.ranks.broadcast(lambda: self._late(trainer) or self._impatient(trainer))
            for progress in () if over else trainer.together(self._halts):
                history = self._keeps(progress)
                if progress.epoch_end or self._halts(progress):
                    trainer.wait()  # else the host runs ahead of a GPU
                seconds += time.monotonic() - began
                last = self._plan(trainer, seconds)
                yield self._guarded(trainer, self._look(trainer, data, seconds, last), seconds)
                last, halt, late = self.ranks.broadcast(partial(self._judged, trainer, last, stop, saved))
                if history or last or halt or late:
                    self._save(trainer, seconds, history=history or last)
                    saved = time.monotonic()
                if halt:
                    self._describe(trainer, "interrupted", seconds)
                    return
                if last:
                    break
                began = time.monotonic()
        except GeneratorExit:  # the caller has left between two updates
            if self.ranks.world == 1:
                self._save(trainer, seconds, history=False)
            self._describe(trainer, "interrupted", seconds)
            raise
        except DiskError as error:
            with suppress(DiskError):  # the old description stays
                self._describe(trainer, "interrupted", seconds)
            where = f"the training was at update {trainer.update}, that of update {self._saved} is saved"
            goes_on = f"rapidbm train --resume --out {self.folder}"
            raise DiskError(f"{error}: {where}; go on with {goes_on}", stopped=True) from error
        except BaseException as error:
            failed = isinstance(error, Exception) and not isinstance(error, LostRank)
            with suppress(DiskError):
                self._describe(trainer, "failed" if failed else "interrupted", seconds)
            raise
        self._compare(trainer, data)
        self._drop_start()
        found = trainer.fit() if self._own is None and self.ranks.first else None
        if found is not None:
            most = as_list(found.most)
            self.info["fit"] = {"log_likelihood_at_most": most, "independent_columns": found.columns}
        self._describe(trainer, "finished", seconds)
        warn_of_fit(found)

    def _begin_monitoring(self, trainer: Training, data: Dataset) -> None:
        """Begins to watch the likelihood, where that is measured."""
        if self._own is None and (names := likelihood_metrics(self.recipe)):
            ends = {} if self.recipe.budget is None else {"end": JUDGED}
            self._monitor = LikelihoodMonitor(trainer, data, names, **ends)
        if self._monitor is not None and data.valid is not None:
            self._best = Best.kept(self.best, trainer.machine)
        # With a discriminative term the likelihood is not all that is climbed: it may fall.
        alone = self.ranks.world == 1 and not self.recipe.discriminative
        if self._monitor is not None and alone and serves(trainer):
            self._guard = Guard(self._monitor.names[0])

    def _guarded(self, trainer: Training, step: Step, seconds: float) -> Step:
        """The step, after replicas that are lost by what was seen went back."""
        if self._guard is None or self._monitor is None or step.record is None:
            return step
        assert isinstance(trainer, Trainer)
        risen, lost = self._guard.judge(step.record)
        if risen:
            self._guard.keep(trainer.state(copied=False) | self._monitor.state(), risen)
        if not lost or not self._guard.good:
            return step
        now = trainer.state() | self._monitor.state()
        state, able = go_back(trainer, now, self._guard, lost)
        if not able:
            return step
        self._monitor.load(state, trainer.machine)
        several = f" of replica{'s' * (len(able) > 1)} {', '.join(map(str, able))}"
        who = several if self.recipe.replicas > 1 else ""
        (best, _), rate = self._guard.best[able[0]], trainer.rates(step.update)[0]
        told = (
            f"after update {step.update}: the likelihood{who} fell; went back to where it was best "
            f"({best:.6g} nats, training rows), with new chains and half the rate, {rate:.2g}"
        )
        self.info["went_back"] = [x for x in self.info.get("went_back", []) if x["update"] < step.update]
        self.info["went_back"].append({"update": step.update, "replicas": able})
        self._save(trainer, seconds, history=False)  # before anything else depends on it
        self._describe(trainer, "running", seconds)
        return replace(step, back=told)

    def _judged(
        self, trainer: Training, last: bool, stop: Callable[[], bool], saved: float
    ) -> tuple[bool, bool, bool]:
        """Whether this was the last update, whether to stop here, and whether it is time to save."""
        last = last or self._impatient(trainer) or self._agrees(trainer)
        return last, not last and stop(), time.monotonic() - saved > SAVE_SECONDS

    def _restore(self, trainer: Training) -> float:
        """Goes back to the newest checkpoint, if there is one; answers the seconds spent so far."""
        tensors: dict[str, Tensor] = {}

        def read() -> Record | None:
            layers = trainer.machine.layers
            found = self.newest((layers.visible_columns, *layers.sizes[layers.seen :]))
            tensors.update({} if found is None else found[0])
            return None if found is None else found[1]

        header = self.ranks.broadcast(read)
        if header is not None:
            tensors = self.ranks.broadcast_tensors(tensors)
            trainer.load(tensors)
            self._check_seed(tensors)
        if self.ranks.first:
            # The evaluation at the start is made again.
            self._keep_metrics(trainer.update or -1, (header or {}).get("evaluations", 1))
        if header is None:
            return 0.0
        if self._monitor is not None and trainer.update:  # else the first look is yet to come, again
            self._monitor.load(tensors, trainer.machine)
            if self._guard is not None:
                for record in self.metrics():
                    self._guard.judge(record)
                self._guard.load(tensors)
        seconds = float(header.get("seconds", 0.0))
        self._clock -= float(header.get("wall", seconds))
        return seconds

    def _check_seed(self, tensors: dict[str, Tensor]) -> None:
        seed = tensors.get("training/seed")
        if seed is not None and seed.numel() == 1 and int(seed) != self.recipe.seed:
            raise InputError(
                f"{self.folder / 'run.json'} says the seed {self.recipe.seed}, and the training has the "
                f"seed {int(seed)}; put that back, or train with the other one into another folder"
            )

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
        later = (record for record in kept if record["update"] > max(marks, default=-1))
        self._since = sum(self._monitor.judged(x) is not None for x in later) if self._monitor else 0
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_bytes(self.folder / "metrics.jsonl", text.encode())

    def _look(self, trainer: Training, data: Dataset, seconds: float, last: bool = False) -> Step:
        progress = trainer.progress()
        record = None
        looks = progress.epoch_end if self._own is not None else last or self._looks_at(progress)
        looks = looks or self._monitors_saved(progress, data)
        looks = looks or (self._own is None and looks_at_pairs(self.recipe, progress))
        if looks:
            trainer.gather()
            began = time.monotonic()
            record = self._record(progress, data, seconds, last) if self.ranks.first else None
            self._looking = max(self._looking, time.monotonic() - began)
        if record is not None or progress.epoch_end:
            self._diverged = progress.diverged
        return Step(
            progress.epoch, progress.update, progress.updates, record, self._diverged, progress, data
        )

    def _record(self, progress: Progress, data: Dataset, seconds: float, last: bool) -> Record | None:
        """What there is to see now, written down."""
        if self._own is not None:
            seen = self._own(progress, data)
            values = {name: exact_list(value) for name, value in (seen or {}).items()}
            return None if seen is None else self._write_line(progress, seconds, values)
        machine = progress.averaged() if self.recipe.average else progress.machine
        values = self._evaluate(progress, machine, data, last)
        self._keep_best(progress, machine, values)
        return self._write_line(progress, seconds, values) if values else None

    def _halts(self, progress: Progress) -> bool:
        pairs = looks_at_pairs(self.recipe, progress)
        return pairs or self._keeps(progress) or self._looks_at(progress)

    def _keeps(self, progress: Progress) -> bool:
        return due(self.recipe.checkpoints, progress)

    def _looks_at(self, progress: Progress) -> bool:
        return due(self.recipe.evaluate, progress, by_epoch=True)

    def _monitors_saved(self, progress: Progress, data: Dataset) -> bool:
        """Whether the likelihood is looked at because the machine is saved."""
        wanted = self._own is None and self.recipe.evaluate != "end"
        return wanted and monitors_validation(self.recipe, data) and self._keeps(progress)

    def _keep_best(self, progress: Progress, machine: Machine, values: Record) -> None:
        if self._monitor is None or self._best is None or self._monitor.judges not in values:
            return
        seen = self._monitor.judged(values)
        if seen is None:  # it could not tell, so it is not a look
            return
        if self._best.better(seen, progress.update, machine):
            self._best.save(self.best, machine)
            if int(self._best.update.min()) >= 0:  # of no replica that of the trials any more
                self.info.pop("best_from", None)
        # A look that is made again after a kill may have left its best machine.
        self._since = 0 if progress.update <= int(self._best.update.max()) else self._since + 1

    def _compare(self, trainer: Training, data: Dataset) -> None:
        """Compares the best machine with the checkpoints, once at the end of a training."""
        if self._monitor is None or self._best is None or not self.best.is_file() or data.valid is None:
            return
        spent = self.recipe.budget is not None  # on looks among others
        if spent or self._best.compared == trainer.update:  # before a kill
            return
        like = trainer.current()
        saved = {
            update: lambda update=update: self.machine(update).to(like.device)
            for update in self.checkpoints()
            if update <= trainer.update
        }
        seen = {
            x["update"]: found for x in self.metrics() if (found := self._monitor.judged(x)) is not None
        }
        whole = Comparison(self._monitor, self._best, data.valid, trainer.update, like)
        count = whole.made(saved, seen)
        self._best.save(self.best, like)
        self.info["looks"] = self._monitor.counts() | {"compared": count}

    def _drop_start(self) -> None:
        """The machine before the first update is no best one where nothing is known of any later one."""
        if self._monitor is None or self._best is None or bool(self._best.update.any()):
            return
        looks = (x for x in self.metrics() if x["update"] > 0)
        compared = self.info.get("looks", {}).get("compared", self._best.compared >= 0)
        if not compared and all(self._monitor.judged(x) is None for x in looks):
            self.best.unlink(missing_ok=True)

    def _late(self, trainer: Training) -> bool:
        budget = self.recipe.budget
        whole = math.inf if budget is None else seconds_of(budget)
        late = self._wall() > whole - reserved(whole, self._looking, annealed=self._anneals)
        if late:
            self.info["stopped"] = f"after update {trainer.update}: the budget of {budget} is used up"
        return late

    @property
    def _anneals(self) -> bool:
        """Whether the last look may have to anneal log Z."""
        return self._monitor is not None and not self._monitor.exact

    def _impatient(self, trainer: Training) -> bool:
        patience = self.recipe.patience
        if self._best is None or patience is None or self._since < patience:
            return False
        what = "bound on the likelihood" if BOUND in likelihood_metrics(self.recipe)[:1] else "likelihood"
        self.info["stopped"] = (
            f"after update {trainer.update}: no better {what} of the validation part in "
            f"{self._since} looks"
        )
        return True

    def _agrees(self, trainer: Training) -> bool:
        target = self.recipe.until_correlation
        if target is None or self._agreement < target:
            return False
        self.info["stopped"] = (
            f"after update {trainer.update}: pair correlations of chains and data agree to "
            f"{self._agreement:.4f}, {target:g} were asked for"
        )
        return True

    def _wall(self) -> float:
        """Seconds of this training so far, looks and all, breaks apart."""
        return time.monotonic() - self._clock

    def _plan(self, trainer: Training, seconds: float) -> bool:
        """Whether this was the last update; fits the epochs into the budget. What was planned is written
        down, so that a resumed run goes on with it."""
        late = False
        if self.recipe.budget is not None:
            epochs, late = self.ranks.broadcast(lambda: (self._planned(trainer), self._late(trainer)))
            if epochs is not None:
                trainer.epochs = epochs
                self.recipe = replace(self.recipe, epochs=epochs)
                self.info["recipe"]["epochs"] = epochs
                self._save(trainer, seconds, history=False)  # first: a kill between only plans once more
                self._describe(trainer, "running", seconds)
        return late or trainer.update == trainer.epochs * trainer.per_epoch

    def _planned(self, trainer: Training) -> int | None:
        """The epochs that fit, when it is time to plan."""
        plan = self.info.setdefault("plan", {"wall": 0.0, "update": 0, "most": self.recipe.epochs})
        budget, now = str(self.recipe.budget), trainer.progress()
        times = self._wall(), self._started, now, self._looking
        return planned(plan, budget, *times, annealed=self._anneals)

    def _evaluate(self, progress: Progress, machine: Machine, data: Dataset, last: bool) -> Record:
        rng = progress.rng
        values: Record = {}
        every = last or self._looks_at(progress)  # else the likelihood alone, or correlations
        likely = every or self._monitors_saved(progress, data)
        if self._pairs is not None and looks_at_pairs(self.recipe, progress):
            # Of a bootstrap the others have other rows.
            found = seen_by(self._pairs, progress, first=self.recipe.bootstrap is not None)
            values[NAME] = as_list(found.expand(self.recipe.replicas))
            self._agreement = float(found.nan_to_num(-1.0).min())
        for name in self.recipe.metrics:
            if every and (self._monitor is None or name not in WATCHED):
                values |= {key: as_list(x) for key, x in measured(name, machine, data, rng).items()}
            elif likely and self._monitor is not None and name == self._monitor.names[0]:  # all of them
                limit = limit_of_look(self.recipe.budget, self._wall(), last=last)
                values |= self._monitor.look(progress, machine, data, last=last, limit=limit)
        return values

    def _write_line(self, progress: Progress, seconds: float, values: Record) -> Record:
        when = {"epoch": progress.epoch, "update": progress.update, "seconds": round(seconds, 6)}
        record: Record = when | values
        if progress.diverged:
            record["diverged"] = [i in progress.diverged for i in range(self.recipe.replicas)]
        append_line(self.folder / "metrics.jsonl", json.dumps(record))
        self._lines += 1
        return record

    def _save(self, trainer: Training, seconds: float, *, history: bool) -> None:
        state = trainer.state(copied=False)
        if not self.ranks.first:
            return
        when = {"update": trainer.update, "seconds": seconds, "wall": self._wall()}
        if history or self._keeps(trainer.progress()):  # wherever it ends, an update that is due is kept
            kept = {k: v for k, v in state.items() if k.startswith(("parameter/", "average/"))}
            path = self.checkpoint(trainer.update)
            save_tensors(path, trainer.machine, kept, {"update": trainer.update})
        if self._monitor is not None:
            state |= self._monitor.state()
        if self._guard is not None:
            state |= self._guard.state()
        before = self.previous if self._sound else None  # a damaged one does not push out a good one
        when["evaluations"] = self._lines
        save_tensors(self.latest, trainer.machine, state, when, before=before)
        self._saved, self._sound = trainer.update, True

    def _describe(self, trainer: Training, status: str, seconds: float) -> None:
        self.info |= {
            "status": status,
            "update": trainer.update,
            "updates": trainer.epochs * trainer.per_epoch,
            "seconds": round(seconds, 3),
            "wall": round(self._wall(), 3),
            "diverged": list(trainer.diverged()),
            **divergences(self.info, trainer),
        }
        if self._monitor is not None:
            self.info["looks"] = self.info.get("looks", {}) | self._monitor.counts()
        self._write()

    def _extend(self, epochs: int | None, rate: str | None, budget: str | None) -> str:
        if budget is None:
            change, rate, told = longer(str(self.folder), self.recipe, epochs, rate)
        else:
            wall = float(self.info.get("wall", self.info.get("seconds", 0.0)))
            change, rate, told = longer_time(str(self.folder), self.recipe, wall, budget, rate)
            update = self.info.get("update", 0)
            self.info["plan"] = {"wall": wall, "update": update, "most": change["epochs"]}
        self.info["recipe"] |= change
        self.recipe = Recipe.from_dict(self.info["recipe"])
        self._ready = None  # it had the old plan
        entry = {"update": self.info.get("update", 0), "rate": rate}
        entry |= {k: v for k, v in change.items() if v is not None}
        self.info.setdefault("prolonged", []).append(entry)
        self.info["status"] = "interrupted"
        self.info.pop("stopped", None)
        self._write()
        return told
