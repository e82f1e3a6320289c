"""Run folders: a training that can be looked at, interrupted and gone on with.

    run.json             recipe, seed, versions, device, status
    metrics.jsonl        a line per evaluation, values per replica
    .lock                held by the process that makes the folder or trains into it
    checkpoints/         update-XXXXXXXX.safetensors: the history of the parameters
                         latest.safetensors: the newest, with the trainer's state
    figures/             pictures

What a later update depends on is in `latest`; order and evaluation have streams of their own. So a
resumed run gives the same bits as one that was never stopped, wherever it was cut. A folder may come from
a stranger: what it says is checked against `RUN` and `line_shape`, nothing outside it is written, and a
file of data outside it is read only if the user has named it (`trust`).
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import __version__
from ..machines.files import (check_sizes, device_named, load_machine, load_tensors, save_tensors)
from ..likelihood.independent import warn_of_fit
from ..data.catalogue import FILE_ENDINGS
from ..disk import (append_line, inside, is_free, locked, make_folder, parse_json, read_json, reading, write_bytes, write_json)
from ..errors import (DataWarning, InputError, LoadWarning, LossWarning, check_choice)
from ..machines.machine import Machine
from .metrics import (METRICS, SPLIT_FREE, check_metric)
from .recipe import (Recipe, spacing_of)
from ..schema import (Anything, Flag, Maybe, Names, Real, Several, Text, Whole, of_fields)
from ..data.splits import Dataset
from ..training.trainer import (Progress, Trainer)
from .trust import (is_trusted, trust)

FORMAT = 1
PROLONG = ("again", "stretch")  # what a rate that falls to zero does in added epochs
SAVE_SECONDS = 20.0  # at most this much work is lost to a kill
METRICS_BYTES = 2**29
Record = dict[str, Any]
# What a caller of `Run.go` looks at in place of the recipe's metrics: values per replica, (e,), or nothing.
Look = Callable[[Progress, Dataset], Mapping[str, Tensor] | None]
_COUNT = Whole(0)
RUN = Names(
    {
        "format": Whole(),
        "status": Text(),
        "recipe": of_fields(Recipe),
        "data": Names(
            {
                "name": Text(),
                "train": _COUNT,
                "test": _COUNT,
                "shape": Several(Whole(1, 2**31), count=2),
                "sha256": Text(64),
            },
            {"valid": _COUNT},
        ),
    },
    {
        "rapidbm": Text(),
        "preset": Maybe(Text()),
        "update": _COUNT,
        "updates": _COUNT,
        "seconds": Real(0),
        "diverged": Several(_COUNT),
        "prolonged": Several(Anything()),
    },
    others=Anything(),
)


def line_shape(replicas: int) -> Names:
    """An evaluation: when it was, and for each metric a value per replica."""
    return Names(
        {"epoch": _COUNT, "update": _COUNT},
        {"seconds": Real(0), "diverged": Several(Flag(), count=replicas)},
        others=Several(Maybe(Real()), count=replicas),
    )


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

    def __init__(
        self,
        folder: str | Path,
        data: str | Path | Dataset | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        """The run in `folder`; `data` is its file of data, if that is not where the recipe says or was
        never named by the user, or the data themselves; `recipe` is one that a file cannot describe."""
        self.folder = Path(folder)
        self._given = data if isinstance(data, Dataset) else None
        self._file = None if data is None or isinstance(data, Dataset) else Path(data).resolve()
        self._special = recipe
        self._own: Look | None = None
        self._ready: Trainer | None = None
        self._diverged: tuple[int, ...] = ()  # as far as was asked
        self._lines = 0  # of metrics, so far
        self._read()

    def _read(self) -> None:
        path = inside(self.folder, "run.json")
        if not path.is_file():
            raise InputError(f"{self.folder} is no run folder: it has no run.json; check the path")
        what, remedy = "the description of a run", "restore it"
        info = read_json(path, Names({"format": Whole()}, others=Anything()), what, remedy)
        if info["format"] != FORMAT:
            raise InputError(
                f"{self.folder} has the format {info['format']!r}, this version of rapidbm reads "
                f"{FORMAT}; use the version that wrote it ({info.get('rapidbm')})"
            )
        self.info: dict[str, Any] = RUN.checked(info, f"{path} cannot be read as {what}:", remedy)
        self.recipe = self._special or Recipe.from_dict(info["recipe"])

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
            _check_free(folder)
        given, device = data, device_named(recipe.device)
        data = recipe.data() if given is None else given
        ready = recipe.trainer(data, device)  # says what does not fit before anything is written
        for name in recipe.metrics:
            check_metric(name, ready.machine)
        if renamed:
            folder = _fresh(folder)
        else:
            make_folder(folder)
        with locked(folder, "training"):
            _check_free(folder)  # another process may have been quicker
            Run._write(folder, recipe, preset, data)
        if _is_file(recipe):
            trust(Path(recipe.dataset))
        run = Run(folder, given, None if type(recipe) is Recipe else recipe)
        run._ready = ready
        return run

    @staticmethod
    def _write(folder: Path, recipe: Recipe, preset: str | None, data: Dataset) -> None:
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

    # -- reading ----------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return str(self.info["status"])

    def data(self) -> Dataset:
        """The data of the run; a file that has changed since is refused, and so is one that lies outside
        the folder and was never named by the user."""
        data = self._named_data() if self._given is None else self._given
        if _checksum(data) != self.info["data"]["sha256"]:
            raise InputError(
                f"{self._file or self.recipe.dataset} is not the data that {self.folder} was trained on: "
                "its checksum differs; restore it or train anew"
            )
        if self._file is not None:
            trust(self._file)
        return data

    def _named_data(self) -> Dataset:
        recipe = self.recipe
        if self._file is not None:
            if not _is_file(recipe):
                raise InputError(
                    f"{self.folder} was trained on {recipe.dataset}, which is no file; leave --data out"
                )
            recipe = replace(recipe, dataset=str(self._file))
        elif _is_file(recipe) and not self._owns(Path(recipe.dataset)):
            raise InputError(
                f"{self.folder} was trained on the file {recipe.dataset}, which lies outside it and was "
                "never trained on by you here; to say that it may be read, name it: --data FILE"
            )
        elif _is_file(recipe) and not Path(recipe.dataset).is_file():
            raise InputError(
                f"{self.folder} was trained on the file {recipe.dataset}, which is not there; restore "
                "it, or if it lies elsewhere now, name it: --data FILE"
            )
        with warnings.catch_warnings():  # what a file holds besides was told when the run was made
            warnings.simplefilter("ignore", DataWarning)
            return recipe.data()

    def _owns(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder.resolve()) or is_trusted(path)

    @property
    def latest(self) -> Path:
        return inside(self.folder, "checkpoints", "latest.safetensors")

    def _checkpoint(self, update: int) -> Path:
        return inside(self.folder, "checkpoints", f"update-{update:08d}.safetensors")

    def checkpoints(self) -> dict[int, Path]:
        """The saved history: update number → file."""
        folder = inside(self.folder, "checkpoints")
        files = sorted(folder.glob(f"update-{'[0-9]' * 8}*.safetensors"))
        numbers = [file.stem.removeprefix("update-") for file in files]
        return {
            int(n): file
            for n, file in zip(numbers, files, strict=True)
            if n.isdecimal() and n.isascii() and len(n) < 19
        }

    def machine(self, update: int | None = None, replica: int | None = None) -> Machine:
        """The machine of the newest checkpoint, or after a given update; all replicas or one; its
        average, if one is kept."""
        path = self.latest if update is None else self._checkpoint(update)
        if not path.is_file():
            if update is None:
                raise InputError(f"{self.folder} has no checkpoint yet; train it first (--resume)")
            known = ", ".join(map(str, self.checkpoints())) or "none"
            raise InputError(f"{self.folder} has no checkpoint of update {update}; it has {known}")
        machine = load_machine(path, averaged=self.recipe.average is not None, replica=replica)
        shape = self.info["data"]["shape"]
        check_sizes(path, machine.layers.sizes, (shape[0] * shape[1], *self.recipe.hidden))
        return machine

    def metrics(self) -> list[Record]:
        """The evaluations so far; a last line that a kill cut short is passed over."""
        path = inside(self.folder, "metrics.jsonl")
        if not path.is_file():
            return []
        with reading(path, "evaluations", "restore it, or remove it"):
            if path.stat().st_size > METRICS_BYTES:
                raise ValueError(f"it has more than {METRICS_BYTES:,} bytes")
            lines = path.read_bytes().splitlines(keepends=True)
        shape = line_shape(self.recipe.replicas)
        records: list[Record] = []
        for number, line in enumerate(lines, 1):
            try:
                record = parse_json(line)
            except (ValueError, RecursionError) as error:
                if number == len(lines) and not line.endswith(b"\n"):
                    break
                raise InputError(
                    f"line {number} of {path} is no evaluation ({error}); mend or remove it"
                ) from error
            what = f"line {number} of {path} is no evaluation:"
            records.append(shape.checked(record, what, "mend or remove it"))
        return records

    @property
    def figures(self) -> Path:
        return inside(self.folder, "figures")

    # -- training ---------------------------------------------------------------------------------

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
                self._extend(epochs, None)
            yield from self._go(stop)

    def prolong(self, epochs: int, rate: str | None = None) -> str:
        """Makes the training longer than it was meant to be, and says what becomes of the rate.

        A rate that falls to zero does so as planned and then `again`, from the full rate over the added
        epochs; with `stretch` it goes on, from here, as if all epochs had been planned at first. Any
        other rate goes on as it would have.
        """
        with self._alone():
            return self._extend(epochs, rate)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process works in the folder; what one did since it was opened is read again."""
        with locked(self.folder, "training"):
            before = self.recipe
            self._read()
            if self.recipe != before:
                self._ready = None
            yield

    def _go(self, stop: Callable[[], bool]) -> Iterator[Step]:
        data, device = self.data(), device_named(self.recipe.device)
        trainer = self._ready
        if trainer is None or trainer.update:
            with warnings.catch_warnings():  # the load was told when the run was made
                warnings.simplefilter("ignore", LoadWarning)
                trainer = self.recipe.trainer(data, device)
        self._ready = None
        inside(self.folder, "checkpoints").mkdir(exist_ok=True)
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
        found = trainer.fit() if self._own is None else None
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
            self._keep_metrics(-1, None)
            return 0.0
        tensors, header = load_tensors(self.latest)
        check_sizes(self.latest, header["sizes"], trainer.machine.layers.sizes)
        trainer.load(tensors)
        # The evaluation at the start is made again.
        self._keep_metrics(trainer.update or -1, header.get("evaluations", 1))
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
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_bytes(self.folder / "metrics.jsonl", text.encode())

    def _look(self, trainer: Trainer, data: Dataset, seconds: float) -> Step:
        progress = trainer.progress()
        record = None
        if self._own is not None:
            seen = self._own(progress, data) if progress.epoch_end else None
            if seen is not None:
                values = {name: _exact(value) for name, value in seen.items()}
                record = self._write_line(progress, seconds, values)
        elif self._looks_at(progress):
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
        record: Record = {}
        for name in self.recipe.metrics:
            if name in SPLIT_FREE:
                record[name] = as_list(METRICS[name](machine, data.train, rng))
                continue
            for part, split in data.parts.items():
                record[f"{name}_{part}"] = as_list(METRICS[name](machine, split, rng))
        return self._write_line(progress, seconds, record)

    def _write_line(self, progress: Progress, seconds: float, values: Record) -> Record:
        record: Record = {
            "epoch": progress.epoch,
            "update": progress.update,
            "seconds": round(seconds, 6),
            **values,
        }
        if progress.diverged:
            record["diverged"] = [i in progress.diverged for i in range(self.recipe.replicas)]
        append_line(self.folder / "metrics.jsonl", json.dumps(record))
        self._lines += 1
        return record

    def _save(self, trainer: Trainer, seconds: float, *, history: bool) -> None:
        state = trainer.state()
        extra = {"update": trainer.update, "seconds": seconds, "evaluations": self._lines}
        if history:
            kept = {k: v for k, v in state.items() if k.startswith(("parameter/", "average/"))}
            path = self._checkpoint(trainer.update)
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


def _check_free(folder: Path) -> None:
    if not is_free(folder):
        raise InputError(
            f"{folder} exists and is not empty; choose another --out, or go on with a run that "
            "lies there by --resume"
        )


def _fresh(folder: Path) -> Path:
    """A folder of that name that nobody had before, with a number after it if need be."""
    make_folder(folder.parent)
    number, path = 1, folder
    while True:
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            path = folder.with_name(f"{folder.name}-{number}")
        except OSError as error:
            raise InputError(f"{path} cannot be made: {error}; choose another --out") from error
        else:
            return path


def _is_file(recipe: Recipe) -> bool:
    return Path(recipe.dataset).suffix in FILE_ENDINGS


def as_list(values: Tensor) -> list[float | None]:
    """One number per replica; JSON has no NaN."""
    return [float(f"{x:.9g}") if math.isfinite(x) else None for x in values.double().tolist()]


def _exact(values: Tensor) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in values.double().tolist()]


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
        digest.update(split.spins.contiguous().numpy().data)
    return digest.hexdigest()


def _device_words(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
