"""Training: the data's moments against the model's, until the two agree.

    θ ← θ − rate · ( ⟨∂E/∂θ⟩_data − ⟨∂E/∂θ⟩_model )                                       (1)

then the projection puts the patterns back in their place. The replicas train side by side and never
meet; one that diverges is frozen as it was before, and the others go on.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..accel import moves
from ..accel.devices import prepare, wait
from ..accel.executors import Plan, executor_for
from ..accel.moves import Guard
from ..accel.recording import unseen
from ..accel.rounding import Precision
from ..display import Shown
from ..errors import InputError, check_choice, check_count
from ..likelihood.independent import Fit, fit, warn_of_fit
from ..machines.machine import Machine
from ..progress import watch
from ..random import stream
from .batches import Batches, InMemory
from .centring import Centring
from .given import check_each, check_objects, spins_for
from .load import warn_of_load
from .negative import NegativePhase, PatternInduced, Persistent
from .optimisers import AtOnce, Optimizer, Rates, Updater, bind_torch
from .positive import PositivePhase, positive_for
from .projections import Clip, NoProjection, Projection

BatchMean = Literal["true", "nominal"]
BATCH_MEANS: tuple[BatchMean, ...] = get_args(BatchMean)


@dataclass(frozen=True, repr=False)
class Progress(Shown):
    """Where a training stands after an update."""

    epoch: int  # epochs that are complete
    update: int
    updates: int  # of the whole training
    epoch_end: bool
    machine: Machine
    trainer: Trainer = field(repr=False)

    @property
    def diverged(self) -> tuple[int, ...]:
        """Replicas that are frozen by now."""
        return self.trainer.diverged()

    @property
    def rng(self) -> torch.Generator:
        """A stream for evaluation: the same at this update whatever was drawn before, so looking
        never changes the training."""
        return self.trainer.evaluation_rng()

    def averaged(self) -> Machine:
        """A copy of the machine with the running average of its parameters."""
        return self.trainer.averaged()

    def state(self) -> dict[str, Tensor]:
        """All that the rest of the training depends on; `train(state=…)` goes on from it."""
        return self.trainer.state()


class Trainer:
    """The state of a training between two updates, and the update."""

    def __init__(
        self,
        machine: Machine,
        spins: Any,
        negative: NegativePhase,
        optimizer: Optimizer | torch.optim.Optimizer | Callable[..., torch.optim.Optimizer],
        *,
        epochs: int,
        batch_size: int,
        seed: int,
        positive: PositivePhase | None = None,
        projection: Projection | None = None,
        batch_mean: BatchMean = "true",
        average: int | None = None,
        precision: Precision | None = None,
        centred: bool = False,
    ) -> None:
        check_count("the number of epochs", epochs, least=0)
        check_count("the batch size", batch_size)
        check_choice("batch mean", batch_mean, BATCH_MEANS)
        if average is not None:
            check_count("the number of updates to average over", average)
        check_objects(negative, positive, projection, optimizer)
        prepare(machine.device)
        self.machine, self.negative = machine, negative
        # A copy: what the caller writes into the array later is not part of the training.
        spins = spins_for(machine, spins).to(machine.device, copy=True)
        self.positive = positive or positive_for(machine)
        self.positive.check(machine, batch_size)
        self.projection = projection or NoProjection()
        self.projection.check(machine)
        self.epochs, self.batch_size, self.batch_mean = epochs, batch_size, batch_mean
        self.seed = seed
        self.per_epoch = math.ceil(len(spins) / batch_size)
        self.update = 0
        self.alive = torch.ones(machine.replicas, dtype=torch.bool, device=machine.device)
        self.rng = stream(seed, "training", device=machine.device)
        self.chains = negative.init(machine, self.rng)
        if isinstance(negative, PatternInduced) and machine.patterns is not None:
            warn_of_load(machine.layers, machine.patterns.shape[1])
        self.parameters = dict(machine.named_parameters())
        self.kind = (machine.dtype, machine.device)
        self.choice: Optimizer | None = None
        self.updater: Updater
        if isinstance(optimizer, Optimizer):
            check_each(optimizer, machine.replicas)
            self.choice = optimizer
            self.updater = optimizer.bind(self.parameters, self.per_epoch)
        else:
            self.updater = bind_torch(optimizer, self.parameters)
        self.settled = self.projected()
        follows = isinstance(negative, Persistent)
        self.centring = Centring(machine, spins, persistent=follows) if centred else None
        parts = (negative, self.positive, self.projection, self.choice)
        self.executor = executor_for(machine.device, self.rng, self.parameters.values(), parts, precision)
        self.batches: Batches = InMemory(
            spins, self.executor, replicas=machine.replicas, size=batch_size, dtype=machine.dtype
        )
        self.average = average
        self.mean_of = {name: p.data.clone() for name, p in self.parameters.items()} if average else {}

    def projected(self) -> bool:
        """Whether the projection leaves in place what no update moves."""
        clip, patterns = self.projection, self.machine.patterns
        if not isinstance(clip, Clip) or clip.every != "update" or patterns is None:
            return False
        sizes = patterns.detach().abs().flatten(1).amax(1).tolist()
        bounds = clip.each if len(clip.each) > 1 else clip.each * len(sizes)
        return all(size <= x for size, x in zip(sizes, bounds, strict=True))

    # -- the loop ---------------------------------------------------------------------------------

    def run(self, every: Literal["epoch", "update"]) -> Iterator[Progress]:
        while self.update < self.epochs * self.per_epoch:
            if every == "update":
                self.step()
            else:
                self.finish_epoch()
            if self.update == self.epochs * self.per_epoch:
                warn_of_fit(self.fit())
            yield self.progress()

    def finish_epoch(self) -> None:
        """Updates up to the end of this epoch."""
        epoch, done = divmod(self.update, self.per_epoch)
        with watch(f"epoch {epoch + 1} of {self.epochs}", self.per_epoch - done) as tick:
            while self.update < (epoch + 1) * self.per_epoch:
                count = self.most()
                self.step(count)
                tick.add(count)

    def together(self, halts: Callable[[Progress], bool] = lambda progress: False) -> Iterator[Progress]:
        """One update at a time, or where several run as one as many as come before the end of the epoch
        or before the caller `halts`."""
        while self.update < self.epochs * self.per_epoch:
            most = self.most()
            ahead = (i for i in range(1, most) if halts(self.progress(self.update + i)))
            self.step(next(ahead, most))
            yield self.progress()

    def most(self) -> int:
        """Updates that may be asked for at once from here on."""
        return min(self.per_epoch - self.update % self.per_epoch, self.executor.together)

    def progress(self, update: int | None = None) -> Progress:
        """After this update, or now."""
        update = self.update if update is None else update
        return Progress(
            epoch=update // self.per_epoch,
            update=update,
            updates=self.epochs * self.per_epoch,
            epoch_end=update % self.per_epoch == 0,
            machine=self.machine,
            trainer=self,
        )

    @torch.no_grad()
    def step(self, count: int = 1) -> None:
        """So many updates of one epoch."""
        self.check_parameters()
        plans = [self.plan(self.update + i) for i in range(count)]
        for done in self.executor.run(plans, self.compute):
            self.update += done

    def check_parameters(self) -> None:
        """Refuses to move parameters that are no longer the machine's."""
        mine = list(self.parameters.values())
        same = [id(p) for p in _parameters(self.machine)] == [id(p) for p in mine]
        if same and all((p.dtype, p.device) == self.kind for p in mine):
            return
        now = dict(self.machine.named_parameters())
        for name in {**self.parameters, **now}:
            old, new = self.parameters.get(name), now.get(name)
            if old is None or old is not new or (old.dtype, old.device) != self.kind:
                raise InputError(
                    f"the parameter {name} was replaced during the training, which moves the one it "
                    f"began with; parameters are changed in place, machine.{name}.data.copy_(values), "
                    "and another machine is trained by another call of train"
                )

    def plan(self, update: int) -> Plan:
        """What update number `update` (from 0) takes."""
        epoch, number = divmod(update, self.per_epoch)
        done = update + 1
        share = max(1.0 / self.average, 1.0 / done) if self.average else 1.0
        due = self.projection.every == "update" or done % self.per_epoch == 0
        project = due and not isinstance(self.projection, NoProjection)
        rows = self.batches.taken(self.seed, epoch, number)
        return Plan(rows, self.rates(update), share, project)

    def compute(self, rows: Tensor, rates: Rates, share: float | Tensor, project: bool) -> None:
        """The update of these rows, all of it on the device."""
        batch = self.batches.spins(rows)  # (e, b, v)
        with self.machine.resting(self.chains.shape[1]):
            gradient = self.gradient(batch)
        if self.centring is None:
            self.change(gradient, rates, project)
        else:
            before, hidden = self.centring.fields(), self.hidden_given(batch, gradient["biases"])
            self.change(self.centring.gradient(gradient), rates, project)
            self.centring.move(before)
            self.centring.follow(hidden)
        if self.average:
            if isinstance(share, Tensor):
                share = share.to(self.machine.dtype)
            for name, parameter in self.parameters.items():
                self.mean_of[name].lerp_(parameter.data, share)

    def change(self, gradient: dict[str, Tensor], rates: Rates, project: bool) -> None:
        if not self.at_once(gradient, rates, project):
            self.move(gradient, rates)
            if project:
                self.project()

    def hidden_given(self, batch: Tensor, of_biases: Tensor) -> Tensor:
        """Means of the hidden units given the data, (e, 1, h): of the chains, less the gradient; without
        chains by another pass."""
        v, units = self.machine.visible, self.machine.layers.units
        if isinstance(self.negative, Persistent):
            return self.chains[..., v:units].mean(1, keepdim=True) - of_biases[:, None, v:]
        whole = self.machine.complete(batch.to(self.machine.dtype), means=True)
        return whole[..., v:].mean(1, keepdim=True)

    def gradient(self, batch: Tensor) -> dict[str, Tensor]:
        """The data's moments less the model's, whose chains move beside."""
        machine = self.machine
        data = self.positive.step(machine, batch, self.rng)
        if self.batch_mean == "nominal" and batch.shape[1] < self.batch_size:
            data = data.times(batch.shape[1] / self.batch_size)
        with self.executor.beside():
            model, chains = self.negative.step(machine, self.chains, batch, self.rng)
            self.chains = self.executor.kept(self.chains, chains)
        of_data = data.gradient(machine) if data.alone(machine) else None
        self.executor.meet()
        return data.against(model, machine, of_data)

    def rates(self, update: int) -> tuple[float, ...]:
        if self.choice is None:
            return (0.0,)
        start, schedule = self.choice.rate, self.choice.schedule
        epoch = update // self.per_epoch
        fraction = schedule.fraction(update, self.per_epoch, self.epochs)
        each = schedule.starts(start if isinstance(start, tuple) else (start,), update)
        return tuple(schedule.rate(rate, epoch, fraction) for rate in each)

    def move(self, gradients: dict[str, Tensor], rates: Rates) -> None:
        """Moves the parameters; a replica stays where it is from the update on that would make one of its
        energies infinite."""
        self.keeping_dead(lambda: self.updater.step(gradients, rates))

    def at_once(self, gradients: dict[str, Tensor], rates: Rates, project: bool) -> bool:
        """`move` and `project` in a few passes over the parameters, where kernels serve."""
        if not moves.serves(self.parameters) or not isinstance(self.updater, AtOnce):
            return False
        clip = self.projection if project and type(self.projection) is Clip else None
        clip = None if clip is None or len(clip.each) > 1 else clip
        guard = Guard(self.alive, self.machine.couplings.limit, None if clip is None else clip.each[0])
        if not self.updater.at_once(gradients, rates, guard):
            return False
        if project and clip is None:
            self.project()
        return True

    def project(self) -> None:
        if self.settled:
            self.projection.apply(self.machine, self.rng)
        else:
            self.keeping_dead(lambda: self.projection.apply(self.machine, self.rng))

    def keeping_dead(self, change: Callable[[], None]) -> None:
        """A change of the parameters that replicas which diverge, now or earlier, do not take part in."""
        now = [p.data for p in self.parameters.values()]
        kept = [p.clone() for p in now]
        change()
        self.alive &= self.machine.finite()
        if self.executor.looks:
            unseen(_put_back_if_any, now, kept, self.alive)
        else:
            _put_back(now, kept, self.alive)

    def fit(self) -> Fit | None:
        """What is proven about the likelihood of the training data, by a stream of its own."""
        machine = self.averaged() if self.average else self.machine
        return fit(machine, self.batches.some(), stream(self.seed, "fit", device=machine.device))

    def wait(self) -> None:
        """Returns when the device has done all that was asked of it."""
        wait(self.machine.device)

    def diverged(self) -> tuple[int, ...]:
        return tuple(torch.nonzero(~self.alive).flatten().tolist())

    def averaged(self) -> Machine:
        if not self.average:
            raise InputError("no average of the parameters is kept; train with average=updates")
        machine = copy.deepcopy(self.machine)
        for name, parameter in machine.named_parameters():
            parameter.data.copy_(self.mean_of[name])
        return machine

    def evaluation_rng(self) -> torch.Generator:
        return stream(self.seed, "evaluate", self.update, device=self.machine.device)

    # -- saving -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Copies of everything that later updates depend on."""
        parts = {
            "parameter": {name: p.data for name, p in self.parameters.items()},
            "average": self.mean_of,
            "optimizer": self.updater.state(),
            "centring": {} if self.centring is None else {"offsets": self.centring.offsets},
            "training": {
                "seed": torch.tensor(self.seed),
                "update": torch.tensor(self.update),
                "alive": self.alive,
                "chains": self.chains,
                "rng": self.rng.get_state(),
            },
        }
        return {
            f"{part}/{name}": value.detach().clone()
            for part, values in parts.items()
            for name, value in values.items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to a saved state; one that does not fit is refused before anything changes."""
        parts: dict[str, dict[str, Tensor]] = {"parameter": {}, "average": {}, "optimizer": {}}
        for key, value in state.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = value
        here = self.state()
        lost = [key for key in here if key not in state and not key.startswith("optimizer/")]
        if lost:
            raise InputError(f"the saved state lacks {lost[0]}; it is damaged, or of other settings")
        for key, value in here.items():
            if key in state and (state[key].shape, state[key].dtype) != (value.shape, value.dtype):
                raise InputError(
                    f"the saved state does not fit: {key} is {value.dtype} of {tuple(value.shape)} here "
                    f"and {state[key].dtype} of {tuple(state[key].shape)} there"
                )
        self._check_values(parts)
        try:
            self.updater.load(parts["optimizer"])
        except KeyError as error:
            raise InputError(
                f"the saved state lacks the optimiser's {error}; it is of another optimiser"
            ) from error
        for name, parameter in self.parameters.items():
            parameter.data.copy_(parts["parameter"][name])
        for name, mean in self.mean_of.items():
            mean.copy_(parts["average"][name])
        if self.centring is not None:
            self.centring.offsets.copy_(parts["centring"]["offsets"])
        training = parts["training"]
        self.alive.copy_(training["alive"])
        # A copy of its own: memory that a file lent may be aligned otherwise and change the bits.
        self.chains = training["chains"].to(self.machine.device).clone()
        self.executor.forget()  # a graph knows the old ones
        self.rng.set_state(training["rng"].cpu().clone())
        self.seed, self.update = int(training["seed"]), int(training["update"])
        self.settled = self.projected()

    def _check_values(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Refuses a saved state that no training can have left."""
        training, wrong = parts["training"], ""
        update, last = int(training["update"]), self.epochs * self.per_epoch
        dead = ~training["alive"].cpu()
        for name, value in {**parts["parameter"], **parts["average"]}.items():
            if not bool((value.flatten(1).isfinite().all(1).cpu() | dead).all()):
                wrong = f"{name} is not finite"
        if not 0 <= update <= last:
            wrong = f"it is of update {update}, and this training has {last}"
        elif int(training["seed"]) < 0:
            wrong = f"its seed is {int(training['seed'])}"
        elif not bool(training["chains"].isfinite().all()):
            wrong = "its chains are not finite"
        try:
            torch.Generator(self.rng.device).set_state(training["rng"].cpu().clone())
        except (RuntimeError, TypeError):
            wrong = "its state of the random numbers is none"
        if wrong:
            raise InputError(f"the saved state is damaged: {wrong}; take another checkpoint")


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """As module.parameters() of one that shares none, at a third of its cost."""
    yield from (p for p in module._parameters.values() if p is not None)
    for part in module._modules.values():
        if part is not None:
            yield from _parameters(part)


def _put_back_if_any(now: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    if not bool(alive.all()):
        _put_back(now, kept, alive)


def _put_back(now: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    """Replicas that are not alive as they were kept."""
    for new, old in zip(now, kept, strict=True):
        torch.where(alive.view(-1, *[1] * (new.dim() - 1)), new, old, out=new)
