"""The likelihood of a training, watched; the best machine so far by that of a validation part.

`Watch` follows log Z (`likelihood/following.py`) from look to look and says where a look would cost too
much of the training. Each replica has a best machine of its own, the one after the look at which its
validation part was most probable. All of them lie in one file, with what was seen, (e,) each:

    parameter/…    the parameters that were evaluated: the average, where one is kept
    best/value     log p of the validation part, −∞ before any
    best/update    after which update

`trial` is a training without a folder, for those that compare.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ..accel.devices import device_named
from ..data.splits import Dataset
from ..display import Shown
from ..errors import DataWarning, InputError, LossWarning
from ..estimates import Estimate
from ..likelihood.following import ROWS, Follower, mean_log_p
from ..likelihood.independent import UNITS
from ..machines.files import load_tensors, save_tensors
from ..machines.machine import Machine
from ..progress import watch
from ..training.loop import Progress, Training
from .folder import Record, as_list
from .metrics import METRICS
from .recipe import Recipe

PREFIX = "watch/"  # of what it saves
JUDGED = 5.0  # of the end of a trial, which is for nothing if it is not known (`Follower.end`)


class Watch:
    """log p of every part of the data, with its standard error."""

    def __init__(self, trainer: Training, data: Dataset, end: float = 2.0) -> None:
        rows = sum(min(len(split), ROWS) for split in data.parts.values())
        self.follower = Follower(data.train.some().spins, trainer.seed, rows, end)
        self.per_update = work_of(trainer)

    def look(self, progress: Progress, machine: Machine, data: Dataset, *, last: bool) -> Record:
        """Values and errors per replica; nothing where the look would cost too much, but for the first
        and the last."""
        if progress.update and not last and not self.affords(progress.update, machine):
            return {}
        found: Record = {}
        for part, mean in self.log_p(progress.update, machine, data, last=last).items():
            found[f"log_likelihood_{part}"] = as_list(mean.value)
            found[f"log_likelihood_error_{part}"] = as_list(mean.error)
        return found

    def affords(self, update: int, machine: Machine) -> bool:
        """Whether a look after so many updates is within what it may cost."""
        return self.follower.wants(machine, update * self.per_update)

    def log_p(self, update: int, machine: Machine, data: Dataset, *, last: bool) -> dict[str, Estimate]:
        """log p of every part of the data, nats per row; the last look may cost more."""
        z = self.follower.look(machine, update * self.per_update, last=last)
        return {part: mean_log_p(machine, split.some(), z) for part, split in data.parts.items()}

    def state(self) -> dict[str, Tensor]:
        return {f"{PREFIX}{name}": value for name, value in self.follower.state().items()}

    def load(self, tensors: Mapping[str, Tensor], like: Machine) -> None:
        """Goes back to what was saved; files of earlier versions have nothing of it."""
        saved = {k.removeprefix(PREFIX): v for k, v in tensors.items() if k.startswith(PREFIX)}
        if saved:
            self.follower.load(saved, like)


def work_of(trainer: Training) -> int:
    """About how many sweeps of a chain an update takes, the data's part with them."""
    chains = trainer.count_of_chains or trainer.batch_size
    sweeps = max(1, getattr(trainer.negative, "sweeps", 1))
    return int(chains * sweeps + 2 * trainer.batch_size)


@dataclass(frozen=True, repr=False)
class Trial(Shown):
    """Where a training without a folder stood when it was left."""

    machine: Machine  # its average, where one is kept
    update: int
    seconds: float  # of training, looks apart
    log_p: dict[str, Estimate]  # of every part of the data, per replica
    curve: dict[int, Estimate]  # update → log p of the validation part
    diverged: tuple[int, ...]


def trial(
    recipe: Recipe,
    data: Dataset | None = None,
    *,
    updates: int | None = None,
    seconds: float | None = None,
    between: bool = True,
) -> Trial:
    """Trains the replicas of a recipe, each with its rate and decay, for so many updates or seconds, or
    to the end of its epochs, and says how probable each makes the parts of the data.

    The rate is that of the recipe's schedule. Where it costs little, and unless `between` is false, the
    likelihood is looked at after 16, 32, … updates too.
    """
    data = recipe.data(data)
    if data.valid is None:
        raise InputError("a trial is judged by a validation part; give valid=0.1, or data that have one")
    trainer = recipe.trainer(data, device_named(recipe.device))
    METRICS["log_likelihood"].check(trainer.machine)
    watching, curve, spent = Watch(trainer, data, end=JUDGED), {}, 0.0

    def machine() -> Machine:
        return trainer.averaged() if trainer.average else trainer.machine

    def look(*, last: bool) -> dict[str, Estimate]:
        found = watching.log_p(trainer.update, machine(), data, last=last)
        curve[trainer.update] = found["valid"]
        return found

    def doubled(progress: Progress) -> bool:
        return progress.update >= 16 and progress.update & (progress.update - 1) == 0

    many, total = recipe.replicas, updates or trainer.epochs * trainer.per_epoch
    with watch(f"trial of {many} replica{'s' if many > 1 else ''}", total) as tick:
        found, done = look(last=False), 0
        began = time.monotonic()
        for progress in trainer.together(lambda p: doubled(p) or p.update == updates):
            over = progress.update in (updates, progress.updates)
            due = between and doubled(progress) and watching.affords(trainer.update, machine())
            if over or due or seconds is not None:
                trainer.wait()
            now = spent + time.monotonic() - began
            over = over or (seconds is not None and now >= seconds)
            if over or due:
                spent = now
                found = look(last=over)
                began = time.monotonic()
            tick.add(progress.update - done)
            done = progress.update
            if over:
                break
    kept = copy.deepcopy(machine()).requires_grad_(False)
    return Trial(kept, trainer.update, spent, found, curve, trainer.diverged())


@dataclass
class Best:
    """The best machine so far of every replica."""

    value: Tensor  # (e,) float64
    update: Tensor  # (e,)
    parameters: dict[str, Tensor]

    @staticmethod
    def read(path: Path, machine: Machine) -> Best:
        """What a file holds, or the beginning where there is none."""
        if path.is_file():
            tensors, _ = load_tensors(path)
            kept = {name: tensors[f"parameter/{name}"] for name, _ in machine.named_parameters()}
            return Best(tensors["best/value"], tensors["best/update"], kept)
        value = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64)
        kept = {name: p.data.cpu().clone() for name, p in machine.named_parameters()}
        return Best(value, torch.zeros(machine.replicas, dtype=torch.int64), kept)

    @staticmethod
    def kept(path: Path, machine: Machine) -> Best:
        """The same; a file that is damaged is put aside, and the best begins anew."""
        try:
            return Best.read(path, machine)
        except InputError as error:
            aside = path.with_name("best.damaged")
            path.replace(aside)
            warnings.warn(
                f"the best machine so far is lost: {error}. It is put aside as {aside.name}, and the "
                "best from here on is kept",
                LossWarning,
                stacklevel=2,
            )
            return Best.read(path, machine)

    def better(self, seen: Sequence[float | None], update: int, machine: Machine) -> bool:
        """Takes over the replicas that are better than before; whether there are any."""
        value = torch.tensor([-torch.inf if x is None else x for x in seen], dtype=torch.float64)
        new = value > self.value
        if not bool(new.any()):
            return False
        self.value, self.update = self.value.where(~new, value), self.update.masked_fill(new, update)
        for name, parameter in machine.named_parameters():
            self.parameters[name][new] = parameter.data.cpu()[new]
        return True

    def save(self, path: Path, machine: Machine) -> None:
        tensors = {f"parameter/{name}": value for name, value in self.parameters.items()}
        tensors |= {"best/value": self.value, "best/update": self.update}
        save_tensors(path, machine, tensors, {"update": int(self.update.max())})


def divergences(info: Record, trainer: Training) -> Record:
    """When and why replicas diverged, of each what was first written down."""
    known = {each["replica"]: each for each in info.get("divergences", [])}
    for each in trainer.divergences():
        known.setdefault(each.replica, asdict(each))
    return {"divergences": list(known.values())} if known else {}


def suited(recipe: Recipe, data: Dataset) -> Recipe:
    """The recipe with the Hamming distance in place of a likelihood that would cost more than the
    training."""
    units = data.visible + sum(recipe.hidden)
    if "log_likelihood" not in recipe.metrics or units <= UNITS:
        return recipe
    warnings.warn(
        f"the likelihood is followed for up to {UNITS:,} units, and this machine has {units:,}: the "
        "Hamming distance is measured in its place (--metric)",
        DataWarning,
        stacklevel=3,
    )
    metrics = dict.fromkeys("hamming" if name == "log_likelihood" else name for name in recipe.metrics)
    return replace(recipe, metrics=tuple(metrics))


def watches(recipe: Recipe, data: Dataset) -> bool:
    """Whether the likelihood of a validation part is measured."""
    return data.valid is not None and "log_likelihood" in recipe.metrics
