"""Run folders: a training that can be looked at, interrupted and gone on with.

    run.json             recipe, seed, versions, device, status
    metrics.jsonl        a line per evaluation, values per replica
    checkpoints/         update-XXXXXXXX.safetensors: the history of the parameters
                         latest.safetensors: the newest, with the trainer's state
    figures/             pictures

What a later update depends on is in `latest`; order and evaluation have streams of their own. So a
resumed run gives the same bits as one that was never stopped, wherever it was cut.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import __version__
from .checkpoint import (
    check_sizes,
    device_named,
    load_machine,
    load_tensors,
    locked,
    save_tensors,
    write_bytes,
    write_json,
)
from .columns import warn_of_fit
from .errors import DataWarning, InputError, LoadWarning, check_choice
from .machine import Machine
from .metrics import METRICS, SPLIT_FREE, check_metric
from .recipe import Recipe, spacing_of
from .splits import Dataset
from .training import Progress, Trainer

FORMAT = 1
PROLONG = ("again", "stretch")  # what a rate that falls to zero does in added epochs
SAVE_SECONDS = 20.0  # at most this much work is lost to a kill
Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """What `Run.go` tells its caller after an update."""

    epoch: int
    update: int
    updates: int
    record: Record | None  # the evaluation, if there was one
    diverged: tuple[
        int, ...
    ]  # replicas that were frozen when last looked at, at the end of an epoch


class Run:
    """A run folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / "run.json"
        if not path.is_file():
            raise InputError(f"{self.folder} is no run folder: it has no run.json; check the path")
        try:
            self.info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version, recipe = self.info["format"], dict(self.info["recipe"])
            self.info["data"]["sha256"], self.info["data"]["shape"], self.info["status"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} cannot be read as the description of a run ({error!r}); restore it"
            ) from error
        if version != FORMAT:
            raise InputError(
                f"{self.folder} has the format {version!r}, this version of rapidbm reads "
                f"{FORMAT}; use the version that wrote it ({self.info.get('rapidbm')})"
            )
        self.recipe = Recipe.from_dict(recipe)
        self._ready: Trainer | None = None
        self._diverged: tuple[int, ...] = ()  # as far as was asked

    @staticmethod
    def create(folder: str | Path, recipe: Recipe, preset: str | None = None) -> Run:
        """A new run folder; one that holds something is left alone."""
        folder = Path(folder)
        if not _is_free(folder):
            raise InputError(
                f"{folder} exists and is not empty; choose another --out, or go on with a run that "
                "lies there by --resume"
            )
        data, device = recipe.data(), device_named(recipe.device)
        ready = recipe.trainer(data, device)  # says what does not fit before anything is written
        for name in recipe.metrics:
            check_metric(name, ready.machine)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be made: {error}; choose another --out") from error
        write_json(
            folder / "run.json",
            {
                "format": FORMAT,
                "rapidbm": __version__,
                "status": "created",
                "preset": preset,
                "recipe": recipe.as_dict(),
                "data": {
                    "name": data.name,
                    **{part: len(split) for part, split in data.parts.items()},
                    "shape": data.shape,
                    "sha256": _checksum(data),
                },
                "versions": {
                    "python": platform.python_version(),
                    "torch": torch.__version__,
                    "numpy": np.__version__,
                },
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
            },
        )
        run = Run(folder)
        run._ready = ready
        return run

    # -- reading ----------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return str(self.info["status"])

    def data(self) -> Dataset:
        """The data of the run; a file that has changed since is refused."""
        with warnings.catch_warnings():  # what a file holds besides was told when the run was made
            warnings.simplefilter("ignore", DataWarning)
            data = self.recipe.data()
        if _checksum(data) != self.info["data"]["sha256"]:
            raise InputError(
                f"{self.recipe.dataset} is not the data that {self.folder} was trained on: its "
                "checksum differs; restore it or train anew"
            )
        return data

    @property
    def latest(self) -> Path:
        return self.folder / "checkpoints" / "latest.safetensors"

    def checkpoints(self) -> dict[int, Path]:
        """The saved history: update number → file."""
        files = sorted((self.folder / "checkpoints").glob(f"update-{'[0-9]' * 8}*.safetensors"))
        numbers = [file.stem.removeprefix("update-") for file in files]
        return {int(n): file for n, file in zip(numbers, files, strict=True) if n.isdecimal()}

    def machine(self, update: int | None = None) -> Machine:
        """The machine of the newest checkpoint, or after a given update; its average, if one is kept."""
        path = self.latest
        if update is not None:
            saved = self.checkpoints()
            if update not in saved:
                known = ", ".join(map(str, saved)) or "none"
                raise InputError(
                    f"{self.folder} has no checkpoint of update {update}; it has {known}"
                )
            path = saved[update]
        elif not path.is_file():
            raise InputError(f"{self.folder} has no checkpoint yet; train it first (--resume)")
        machine = load_machine(path, averaged=self.recipe.average is not None)
        shape = self.info["data"]["shape"]
        check_sizes(path, machine.layers.sizes, (shape[0] * shape[1], *self.recipe.hidden))
        return machine

    def metrics(self) -> list[Record]:
        """The evaluations so far; a last line that a kill cut short is passed over."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_bytes().splitlines() if path.is_file() else []
        records: list[Record] = []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                record["epoch"], record["update"]
            except (ValueError, TypeError, KeyError) as error:
                if number == len(lines):
                    break
                raise InputError(
                    f"line {number} of {path} is no evaluation ({error!r}); mend or remove it"
                ) from error
            records.append(record)
        return records

    @property
    def figures(self) -> Path:
        return self.folder / "figures"

    # -- training ---------------------------------------------------------------------------------

    def go(
        self, stop: Callable[[], bool] = lambda: False, epochs: int | None = None
    ) -> Iterator[Step]:
        """Trains, from the beginning or from the newest checkpoint, and tells after every update, or on a
        GPU after every few.

        When `stop` says so, the state is saved and the training ends as "interrupted". `epochs`
        makes the training longer than it was meant to be, as `prolong` does.
        """
        with locked(self.folder, "training"):
            if epochs is not None and epochs != self.recipe.epochs:
                self._extend(epochs, None)
            yield from self._go(stop)

    def prolong(self, epochs: int, rate: str | None = None) -> str:
        """Makes the training longer than it was meant to be, and says what becomes of the rate.

        A rate that falls to zero does so as planned and then `again`, from the full rate over the added
        epochs; with `stretch` it goes on, from here, as if all epochs had been planned at first. Any
        other rate goes on as it would have.
        """
        with locked(self.folder, "training"):
            return self._extend(epochs, rate)

    def _go(self, stop: Callable[[], bool]) -> Iterator[Step]:
        data, device = self.data(), device_named(self.recipe.device)
        trainer = self._ready
        if trainer is None or trainer.update:
            with warnings.catch_warnings():  # the load was told when the run was made
                warnings.simplefilter("ignore", LoadWarning)
                trainer = self.recipe.trainer(data, device)
        self._ready = None
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        seconds = self._restore(trainer)
        self._describe(trainer, "running", seconds, device=_device_words(device))
        try:
            if trainer.update == 0:
                yield self._look(trainer, data, seconds)
                self._save(trainer, seconds, history=True)
            saved = began = time.monotonic()
            for progress in trainer.together(self._halts):
                history = self._keeps(progress)
                if progress.epoch_end or self._halts(progress):
                    trainer.wait()  # else the host runs ahead of a GPU
                seconds += time.monotonic() - began
                last = progress.update == progress.updates
                yield self._look(trainer, data, seconds)
                halt = not last and stop()
                if history or last or halt or time.monotonic() - saved > SAVE_SECONDS:
                    self._save(trainer, seconds, history=history or last)
                    saved = time.monotonic()
                if halt:
                    self._describe(trainer, "interrupted", seconds)
                    return
                began = time.monotonic()
        except GeneratorExit:  # the caller has left between two updates
            self._save(trainer, seconds, history=False)
            self._describe(trainer, "interrupted", seconds)
            raise
        except BaseException as error:
            state = "failed" if isinstance(error, Exception) else "interrupted"
            self._describe(trainer, state, seconds)
            raise
        found = trainer.fit()
        told = (
            {}
            if found is None
            else {
                "fit": {
                    "log_likelihood_at_most": as_list(found.most),
                    "independent_columns": found.columns,
                }
            }
        )
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
            self._keep_metrics(-1)
            return 0.0
        tensors, header = load_tensors(self.latest)
        check_sizes(self.latest, header["sizes"], trainer.machine.layers.sizes)
        trainer.load(tensors)
        self._keep_metrics(trainer.update or -1)  # the evaluation at the start is made again
        return float(header.get("seconds", 0.0))

    def _keep_metrics(self, update: int) -> None:
        """Drops the lines after `update`: they will be written again, with the same values."""
        kept = [record for record in self.metrics() if record["update"] <= update]
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_bytes(self.folder / "metrics.jsonl", text.encode())

    def _look(self, trainer: Trainer, data: Dataset, seconds: float) -> Step:
        progress = trainer.progress()
        record = None
        if self._looks_at(progress):
            record = self._evaluate(progress, data, seconds)
        if record is not None or progress.epoch_end:
            self._diverged = progress.diverged
        return Step(progress.epoch, progress.update, progress.updates, record, self._diverged)

    def _halts(self, progress: Progress) -> bool:
        return self._keeps(progress) or self._looks_at(progress)

    def _keeps(self, progress: Progress) -> bool:
        return _due(self.recipe.checkpoints, progress.update, progress)

    def _looks_at(self, progress: Progress) -> bool:
        return _due(self.recipe.evaluate, progress.update, progress, by_epoch=True)

    def _evaluate(self, progress: Progress, data: Dataset, seconds: float) -> Record:
        machine = progress.averaged() if self.recipe.average else progress.machine
        rng = progress.rng
        record: Record = {
            "epoch": progress.epoch,
            "update": progress.update,
            "seconds": round(seconds, 6),
        }
        for name in self.recipe.metrics:
            if name in SPLIT_FREE:
                record[name] = as_list(METRICS[name](machine, data.train, rng))
                continue
            for part, split in data.parts.items():
                record[f"{name}_{part}"] = as_list(METRICS[name](machine, split, rng))
        if progress.diverged:
            record["diverged"] = [i in progress.diverged for i in range(machine.replicas)]
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return record

    def _save(self, trainer: Trainer, seconds: float, *, history: bool) -> None:
        state = trainer.state()
        extra = {"update": trainer.update, "seconds": seconds}
        if history:
            kept = {k: v for k, v in state.items() if k.startswith(("parameter/", "average/"))}
            path = self.folder / "checkpoints" / f"update-{trainer.update:08d}.safetensors"
            save_tensors(path, trainer.machine, kept, {"update": trainer.update})
        save_tensors(self.latest, trainer.machine, state, extra)

    def _describe(self, trainer: Trainer, status: str, seconds: float, **more: Any) -> None:
        self.info |= {
            "status": status,
            "update": trainer.update,
            "updates": trainer.epochs * trainer.per_epoch,
            "seconds": round(seconds, 3),
            "diverged": list(trainer.diverged()),
            **more,
        }
        write_json(self.folder / "run.json", self.info)

    def _extend(self, epochs: int, rate: str | None) -> str:
        planned, falls = self.recipe.epochs, self.recipe.fall != "none"
        if epochs <= planned:
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
        change: dict[str, Any] = {"epochs": epochs}
        told = f"prolonged from {planned} to {epochs} epochs; the rate "
        if not falls:
            told += "goes on as it would have"
        elif rate == "stretch":
            told += f"is from here on that of a fall over all {epochs} epochs"
        else:
            change["falls"] = [*self.recipe.falls, planned]
            told += f"falls to zero again, from the full one, over epochs {planned} to {epochs}"
        self.info["recipe"] |= change
        self.recipe = Recipe.from_dict(self.info["recipe"])
        self._ready = None  # it had the old plan
        self.info.setdefault("prolonged", []).append(
            {
                "update": self.info.get("update", 0),
                "rate": (rate or "again") if falls else None,
                **change,
            }
        )
        self.info["status"] = "interrupted"
        write_json(self.folder / "run.json", self.info)
        return told


def _is_free(folder: Path) -> bool:
    """True for a folder that is not there, or holds at most what a kill left of a first write."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(path.suffix == ".part" for path in folder.iterdir())


def as_list(values: Tensor) -> list[float | None]:
    """One number per replica; JSON has no NaN."""
    return [float(f"{x:.9g}") if math.isfinite(x) else None for x in values.double().tolist()]


def _due(spacing: str, update: int, progress: Progress, *, by_epoch: bool = False) -> bool:
    """Whether something that happens at this spacing happens now; always at both ends."""
    chosen = spacing_of("", spacing)
    if update in (0, progress.updates):
        return True
    if chosen == "epoch":
        return progress.epoch_end
    if isinstance(chosen, int):
        return update % chosen == 0
    if chosen == "log" and by_epoch:  # epochs 1 to 10, then thirteen per decade
        return progress.epoch_end and on_log_grid(progress.epoch)
    return bool(chosen == "log" and update & (update - 1) == 0)  # powers of two


def on_log_grid(epoch: int) -> bool:
    """Epochs 1 to 10, then thirteen per decade."""
    decade = int(10 ** math.floor(math.log10(epoch)))
    return epoch % max(1, decade // 2) == 0 if epoch < 5 * decade else epoch % decade == 0


def _checksum(data: Dataset) -> str:
    digest = hashlib.sha256()
    for split in data.parts.values():
        digest.update(split.spins.numpy().tobytes())
    return digest.hexdigest()


def _device_words(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
