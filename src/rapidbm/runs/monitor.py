"""The likelihood of a training, watched; the best machine so far by that of a validation part.

What is watched is log p (`log_likelihood`), or where hidden units are coupled to each other the lower
bound on it that mean field proves (`log_bound`). `LikelihoodMonitor` follows log Z from evaluation to
evaluation (`likelihood/following.py`) and says where one would cost too much of the training. Each
replica has a best machine of its own: machines are compared by the pessimistic end of what is known of
the validation part,

    value − 2 errors                                                                      (1)

so that −129.6 ± 100 does not take the place of −130.0 ± 0.1. A look that could not tell counts for
nothing. At the end the best machine is compared with the checkpoints. All replicas lie in one file, with
what was seen, (e,) each:

    parameter/…    the parameters that were evaluated: the average, where one is kept
    best/value     log p of the validation part, or its bound, −∞ before any
    best/error     its standard error; 0 in files of earlier versions, which do not have it
    best/update    after which update
    best/compared  the update at whose end it was compared with the checkpoints, (), once it was

`trial` is a training without a folder, for those that compare.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from ..accel.devices import device_named
from ..data.splits import Dataset
from ..display import Displayable
from ..errors import DataWarning, InputError, LossWarning, TimeLimit
from ..estimates import Estimate
from ..likelihood.following import Follower, work_of_rows
from ..likelihood.independent import UNITS
from ..machines.files import load_tensors, save_tensors
from ..machines.machine import Machine
from ..progress import watch
from ..training.loop import Progress, Training
from ..training.positive import MeanField
from .folder import Record, as_list
from .incomplete import mean_log_p
from .metrics import BOUND, METRICS, WATCHED
from .presets import watched_for
from .recipe import Recipe

PREFIX = "watch/"  # of what it saves
DOUBT = 2.0  # standard errors below a value, where machines are compared by it: eq. (1)
SHORTEST = 0.1  # seconds that a look of a trial may always take
JUDGED = (
    50.0  # of the end of what a clock limits, which is for nothing if it is not known (`Follower.end`)
)


def pessimistic(found: Estimate) -> Tensor:
    """The lower end that machines are compared by, eq. (1), (e,): −∞ where the value or its error is not
    known."""
    end = found.value - DOUBT * found.error
    return end.masked_fill(~(found.value.isfinite() & found.error.isfinite()), -torch.inf)


class LikelihoodMonitor:
    """log p of every part of the data, or its lower bound, with the standard error."""

    def __init__(self, trainer: Training, data: Dataset, names: Sequence[str], end: float = 2.0) -> None:
        """`names` are those of `WATCHED` that are measured; the first of them counts."""
        self.names, counts = names, [len(split) for split in data.parts.values()]
        rows = sum(work_of_rows(trainer.machine, counts, bound=name == BOUND) for name in names)
        tree = getattr(trainer.negative, "start", None)
        self.follower = Follower(data.train.in_memory().spins, trainer.seed, rows, end, tree)
        self.per_update = work_of(trainer)

    @property
    def judges(self) -> str:
        """The value that machines are compared by."""
        return f"{self.names[0]}_valid"

    def judged(self, record: Record) -> Estimate | None:
        """What a look says of the validation part; None where it was not looked at, or no replica is
        known."""
        keys = (self.judges, f"{self.names[0]}_error_valid")
        if any(key not in record for key in keys):
            return None
        value, error = (
            torch.tensor([torch.nan if x is None else x for x in record[key]], dtype=torch.float64)
            for key in keys
        )
        seen = Estimate(value, error)
        return seen if bool(pessimistic(seen).isfinite().any()) else None

    @property
    def exact(self) -> bool:
        """Whether log Z is a sum that costs nothing to speak of."""
        return self.follower.machine is None and self.follower.looks > 0

    def counts(self) -> Record:
        """Looks that were asked for, that were made, and that could not tell."""
        return {
            "asked": self.follower.asked,
            "made": self.follower.looks,
            "unknown": self.follower.unknown,
        }

    def look(
        self,
        progress: Progress,
        machine: Machine,
        data: Dataset,
        *,
        last: bool,
        limit: float | None = None,
    ) -> Record:
        """Values and errors per replica; nothing where the look would cost too much, but for the first
        and the last. After `limit` seconds it says what is known by then, or that it cannot tell."""
        self.follower.asked += 1
        if progress.update and not last and not self.affords(progress.update, machine):
            return {}
        found: Record = {}
        z = self._log_z(progress.update, machine, last=last, limit=limit)
        for name in self.names:
            for part, mean in _parts(machine, data, z, name).items():
                found[f"{name}_{part}"] = as_list(mean.value)
                known = mean.value.isfinite()  # of what is not known there is no error either
                found[f"{name}_error_{part}"] = as_list(mean.error.where(known, torch.nan))
        return found

    def affords(self, update: int, machine: Machine) -> bool:
        """Whether a look after so many updates is within what it may cost."""
        return self.follower.wants(machine, update * self.per_update)

    def log_p(
        self, update: int, machine: Machine, data: Dataset, *, last: bool, limit: float | None = None
    ) -> dict[str, Estimate]:
        """What counts of every part of the data, nats per row; the last look may cost more, but no more
        than `limit` seconds."""
        z = self._log_z(update, machine, last=last, limit=limit)
        return _parts(machine, data, z, self.names[0])

    def _log_z(self, update: int, machine: Machine, *, last: bool, limit: float | None) -> Estimate:
        with suppress(TimeLimit), watch("look at the likelihood", limit=limit):
            return self.follower.look(machine, update * self.per_update, last=last)
        return self._cut_short(update, machine)

    def _cut_short(self, update: int, machine: Machine) -> Estimate:
        """log Z as far as it is known where time was up in the middle of a look: by the bridge if that
        was crossed, else not at all. What looks may cost counts as spent."""
        follower, there = self.follower, self.follower.machine
        follower.anchoring += int(max(0.0, follower.left(machine, update * self.per_update)))
        nothing = torch.full((machine.replicas,), torch.nan, dtype=torch.float64, device=machine.device)
        found = Estimate(nothing, nothing)
        if there is not None and follower.known:
            pairs = zip(there.parameters(), machine.parameters(), strict=True)
            if all(torch.equal(a.data, b.data) for a, b in pairs):
                found = follower.estimate
        follower.unknown += int(bool(found.value.isnan().any()))
        return found

    def state(self) -> dict[str, Tensor]:
        return {f"{PREFIX}{name}": value for name, value in self.follower.state().items()}

    def load(self, tensors: Mapping[str, Tensor], like: Machine) -> None:
        """Goes back to what was saved; files of earlier versions have nothing of it."""
        saved = {k.removeprefix(PREFIX): v for k, v in tensors.items() if k.startswith(PREFIX)}
        if saved:
            self.follower.load(saved, like)


def _parts(machine: Machine, data: Dataset, z: Estimate, name: str) -> dict[str, Estimate]:
    how = name == BOUND
    return {p: mean_log_p(machine, split.in_memory(), z, bound=how) for p, split in data.parts.items()}


def work_of(trainer: Training) -> int:
    """About how many sweeps of a chain an update takes, the data's part with them."""
    chains = trainer.count_of_chains or trainer.batch_size
    sweeps = max(1, getattr(trainer.negative, "sweeps", 1))
    rows = min(trainer.batch_size, len(trainer.rows_in_memory()))
    rows = 0 if getattr(trainer, "repeats_data", False) else rows
    return int(chains * sweeps + (2 + _inferring(trainer)) * rows)


def _inferring(trainer: Training) -> int:
    """Sweeps that take as long as hidden units of one image, where they are iterated; half of a sweep is
    theirs. Dense layers coupled to themselves are swept unit by unit, and nothing is as slow."""
    layers, positive = trainer.machine.layers, getattr(trainer, "positive", None)
    slow = trainer.machine.patterns is None and any(a == b for a, b in layers.edges)
    if layers.hidden_independent or slow or not isinstance(positive, MeanField):
        return 0
    return positive.iterations // 2


@dataclass(frozen=True, repr=False)
class Trial(Displayable):
    """Where a training without a folder stood when it was left."""

    machine: Machine  # its average, where one is kept
    update: int
    seconds: float  # of training, looks apart
    log_p: dict[str, Estimate]  # of every part of the data, per replica
    curve: dict[int, Estimate]  # update → log p of the validation part
    metric: str  # what stands for log p: log_likelihood, or log_bound where it is the bound
    diverged: tuple[int, ...]


def trial(
    recipe: Recipe,
    data: Dataset | None = None,
    *,
    updates: int | None = None,
    seconds: float | None = None,
    between: bool = True,
    looking: float | None = None,
) -> Trial:
    """Trains the replicas of a recipe, each with its rate and decay, for so many updates or seconds, or
    to the end of its epochs, and says how probable each makes the parts of the data.

    The rate is that of the recipe's schedule. Where it costs little, and unless `between` is false, the
    likelihood is looked at after 16, 32, … updates too. All looks take `looking` seconds at most, half
    of them kept for the last one.
    """
    data = recipe.data(data)
    if data.valid is None:
        raise InputError("a trial is judged by a validation part; give valid=0.1, or data that have one")
    trainer = recipe.trainer(data, device_named(recipe.device))
    metric = judging(recipe)
    METRICS[metric].check(trainer.machine)
    monitor, curve, spent = LikelihoodMonitor(trainer, data, (metric,), end=JUDGED), {}, 0.0
    looked = 0.0  # seconds, of all looks

    def left(*, last: bool) -> float | None:
        return None if looking is None else looking * (1.0 if last else 0.5) - looked

    def look(*, last: bool) -> dict[str, Estimate]:
        nonlocal looked
        limit, began = left(last=last), time.monotonic()
        limit = None if limit is None else max(limit, SHORTEST)
        found = monitor.log_p(trainer.update, trainer.current(), data, last=last, limit=limit)
        looked += time.monotonic() - began
        curve[trainer.update] = found["valid"]
        return found

    def affords() -> bool:
        rest = left(last=False)
        return (rest is None or rest > 0) and monitor.affords(trainer.update, trainer.current())

    def doubled(progress: Progress) -> bool:
        return progress.update >= 16 and progress.update & (progress.update - 1) == 0

    many, total = recipe.replicas, updates or trainer.epochs * trainer.per_epoch
    with watch(f"trial of {many} replica{'s' if many > 1 else ''}", total) as tick:
        found, done = look(last=False), 0
        began = time.monotonic()
        for progress in trainer.together(lambda p: doubled(p) or p.update == updates):
            over = progress.update in (updates, progress.updates)
            due = between and doubled(progress) and affords()
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
    kept = copy.deepcopy(trainer.current()).requires_grad_(False)
    return Trial(kept, trainer.update, spent, found, curve, metric, trainer.diverged())


@dataclass
class Best:
    """The best machine so far of every replica."""

    value: Tensor  # (e,) float64
    error: Tensor  # (e,) float64
    update: Tensor  # (e,)
    parameters: dict[str, Tensor]
    compared: int = -1  # the update at whose end it was compared with the checkpoints

    @property
    def seen(self) -> Estimate:
        return Estimate(self.value, self.error)

    @staticmethod
    def read(path: Path, machine: Machine) -> Best:
        """What a file holds, or the beginning where there is none."""
        if path.is_file():
            tensors, _ = load_tensors(path)
            kept = {name: tensors[f"parameter/{name}"] for name, _ in machine.named_parameters()}
            value = tensors["best/value"]
            error = tensors.get("best/error", torch.zeros_like(value))
            compared = int(tensors.get("best/compared", torch.tensor(-1)))
            return Best(value, error, tensors["best/update"], kept, compared)
        value = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64)
        kept = {name: p.data.cpu().clone() for name, p in machine.named_parameters()}
        none = torch.zeros(machine.replicas, dtype=torch.int64)
        return Best(value, torch.zeros_like(value), none, kept)

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

    def better(self, seen: Estimate, update: int, machine: Machine) -> bool:
        """Takes over the replicas whose pessimistic end, eq. (1), is better than before; whether there
        are any."""
        new = pessimistic(seen) > pessimistic(self.seen)
        if not bool(new.any()):
            return False
        self.value, self.error = self.value.where(~new, seen.value), self.error.where(~new, seen.error)
        self.update = self.update.masked_fill(new, update)
        for name, parameter in machine.named_parameters():
            self.parameters[name][new] = parameter.data.cpu()[new]
        return True

    def machine(self, like: Machine) -> Machine:
        """The replicas as they are kept, in a machine like this one."""
        machine = copy.deepcopy(like).requires_grad_(False)
        for name, parameter in machine.named_parameters():
            parameter.data.copy_(self.parameters[name])
        return machine

    def save(self, path: Path, machine: Machine) -> None:
        tensors = {f"parameter/{name}": value for name, value in self.parameters.items()}
        tensors |= {"best/value": self.value, "best/error": self.error, "best/update": self.update}
        if self.compared >= 0:
            tensors["best/compared"] = torch.tensor(self.compared)
        save_tensors(path, machine, tensors, {"update": max(0, int(self.update.max()))})  # −1: of a trial


def left_out(looks: Record) -> str:
    """A sentence on looks that were left out or could not tell, with the remedy; empty where there are
    none."""
    asked, made, unknown = (int(looks.get(name, 0)) for name in ("asked", "made", "unknown"))
    if made >= asked and not unknown:
        return ""
    told = f"{made:,} of {asked:,} looks at the likelihood were made, the others would have cost too much"
    told = told if made < asked else f"all {asked:,} looks at the likelihood were made"
    told += f", and {unknown:,} could not tell" if unknown else ""
    return f"{told}: look less often (--evaluate-at), train longer, or at a lower rate"


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
    if not likelihood_metrics(recipe) or units <= UNITS:
        return recipe
    warnings.warn(
        f"the likelihood is followed for up to {UNITS:,} units, and this machine has {units:,}: the "
        "Hamming distance is measured in its place (--metric)",
        DataWarning,
        stacklevel=3,
    )
    metrics = dict.fromkeys("hamming" if name in WATCHED else name for name in recipe.metrics)
    return replace(recipe, metrics=tuple(metrics))


def judging(recipe: Recipe) -> str:
    """What machines are compared by: the first that is watched, or would be."""
    return next(iter(likelihood_metrics(recipe)), watched_for(recipe.model, recipe.hidden))


def likelihood_metrics(recipe: Recipe) -> tuple[str, ...]:
    """The metrics for which log Z is followed, the one that counts first."""
    return tuple(name for name in WATCHED if name in recipe.metrics)


def monitors_validation(recipe: Recipe, data: Dataset) -> bool:
    """Whether the likelihood of a validation part is measured, or its bound."""
    return data.valid is not None and bool(likelihood_metrics(recipe))


def check_patience(recipe: Recipe, data: Dataset) -> None:
    """Patience has something to wait for."""
    if recipe.patience is not None and not monitors_validation(recipe, data):
        raise InputError(
            "--patience watches the likelihood of a validation part; give --valid 0.1 or a file with "
            "valid, and --metric log_likelihood, or log_bound for a deep or full machine"
        )
