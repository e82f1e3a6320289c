"""Training: the data's moments against the model's, until the two agree.

    θ ← θ − rate · ( ⟨∂E/∂θ⟩_data − ⟨∂E/∂θ⟩_model )                                       (1)

then the projection puts the patterns back in their place. The replicas train side by side and never
meet; one that diverges is frozen as it was before, and the others go on.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..accel import moves
from ..accel.devices import prepare, wait
from ..accel.executors import Plan, executor_for
from ..accel.moves import Guard
from ..accel.ranks import Ranks
from ..accel.recording import unseen
from ..accel.rounding import Precision
from ..data.stored import Stored
from ..errors import InputError, check_choice, check_count
from ..likelihood.independent import Fit, fit
from ..machines.machine import Machine
from ..random import stream
from .batches import batches_for
from .constants import Constants, constant_means
from .coordinates.centring import Centring
from .coordinates.pace import Slowed, check_pace
from .coordinates.strengths import Measured
from .given import check_each, check_objects, fitting, rows_for
from .load import warn_of_load
from .loop import Training
from .negative import NegativePhase, PatternInduced, Persistent
from .optimisers import AtOnce, Optimizer, Rates, Updater, bind_torch
from .positive import PositivePhase, positive_for
from .projections import Clip, NoProjection, Projection
from .sharded.shards import Shard, Shards, difference, times

BatchMean = Literal["true", "nominal"]
BATCH_MEANS: tuple[BatchMean, ...] = get_args(BatchMean)
HIDDEN = "hidden"  # beside the gradient of the parameters: means of the hidden units


class Trainer(Training):
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
        pace: float = 1.0,
        shards: int = 1,
        ranks: Ranks | None = None,
        part: tuple[object, ...] = (),
        constant: Tensor | None = None,
    ) -> None:
        """The `ranks` share the `shards`; `part` names the random numbers of a trainer that has a part of
        the machine (`sharded/abreast.py`). `constant` are the means of the columns that are to be biases
        and nothing else, 0 for any other (v,); None: of those that are the same in all rows."""
        check_count("the number of epochs", epochs, least=0)
        check_count("the batch size", batch_size)
        check_choice("batch mean", batch_mean, BATCH_MEANS)
        if average is not None:
            check_count("the number of updates to average over", average)
        check_objects(negative, positive, projection, optimizer)
        prepare(machine.device)
        self.machine, self.negative = machine, negative
        rows = rows_for(machine, spins)
        if constant is None and machine.biases is not None:
            constant = constant_means(rows)
        self.constants = None if constant is None else Constants.of(machine, constant)
        if self.constants is not None and not part:  # of a part the whole has been started
            self.constants.start()
        self.positive = positive or positive_for(machine)
        self.positive.check(machine, batch_size)
        self.projection = projection or NoProjection()
        self.projection.check(machine)
        self.epochs, self.batch_size, self.batch_mean = epochs, batch_size, batch_mean
        self.seed = seed
        self.per_epoch = math.ceil(len(rows) / batch_size)
        self.update = 0
        self.alive = torch.ones(machine.replicas, dtype=torch.bool, device=machine.device)
        self.lived = torch.zeros(machine.replicas, dtype=torch.int64, device=machine.device)
        self.grown = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
        self.rng = stream(seed, "training", *part, device=machine.device)
        self.shards = Shards(negative, machine, shards, ranks or Ranks(), self.rng, seed)
        self.others = machine.couplings.others or self.shards.ranks  # who makes these updates, too
        if isinstance(negative, PatternInduced) and machine.patterns is not None and not part:
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
        patterned = machine.couplings.patterned
        if patterned is not None and patterned.unit_strengths is not None:
            self.updater = Measured(self.updater, patterned.patterns, patterned.unit_strengths)
        check_pace(pace, patterned is not None)
        if pace != 1:
            self.updater = Slowed(self.updater, machine, pace)
        self.settled = self.others.every(self.projected())
        some = rows.some().spins if isinstance(rows, Stored) else rows
        self.centring = Centring(machine, some, persistent=self.persists) if centred else None
        parts = (negative, self.positive, self.projection, self.choice)
        self.executor = executor_for(
            machine.device,
            self.shards.rngs,
            self.parameters.values(),
            parts,
            precision,
            self.others,
        )
        self.batches = batches_for(rows, machine, self.executor, batch_size)
        self.average = average
        self.mean_of = {name: p.data.clone() for name, p in self.parameters.items()} if average else {}

    def projected(self) -> bool:
        """Whether the projection leaves in place what no update moves."""
        clip, patterns = self.projection, self.machine.patterns
        if not isinstance(clip, Clip) or clip.every != "update" or patterns is None:
            return False
        if self.machine.couplings.strengths is not None:
            return False
        sizes = patterns.detach().abs().flatten(1).amax(1).tolist()
        bounds = clip.each if len(clip.each) > 1 else clip.each * len(sizes)
        return all(size <= x for size, x in zip(sizes, bounds, strict=True))

    # -- the update -------------------------------------------------------------------------------

    def most(self) -> int:
        epoch, number = divmod(self.update, self.per_epoch)
        most = min(self.per_epoch - number, self.executor.together)
        ready = self.batches.together(self.seed, epoch, number) if most > 1 else 1
        return most if ready is None else min(most, ready)

    @torch.no_grad()
    def step(self, count: int = 1) -> None:
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
        size = min(self.batch_size, self.batches.count - number * self.batch_size)
        rows = self.batches.taken(self.seed, epoch, number, self.shards.rows(size))
        return Plan(rows, size, self.rates(update), share, project)

    def compute(
        self, rows: Tensor, size: int, rates: Rates, share: float | Tensor, project: bool
    ) -> None:
        """The update of these rows, of a batch of that size, all of it on the device."""
        batch = self.batches.spins(rows)  # (e, b, v)
        with self.machine.fixed_parameters(self.shards.most):
            gradient = self.gradient(batch, size)
        if self.centring is None:
            self.change(self.free(gradient), rates, project)
        else:
            before, hidden = self.centring.fields(), gradient.pop(HIDDEN)
            if self.persists:  # as its chains have them: less the gradient
                hidden = hidden - gradient["biases"][:, None, self.machine.visible :]
            self.change(self.free(self.centring.gradient(gradient)), rates, project)
            self.centring.move(before)
            self.centring.follow(hidden)
        self.lived += self.alive
        if self.average:
            if isinstance(share, Tensor):
                share = share.to(self.machine.dtype)
            for name, parameter in self.parameters.items():
                self.mean_of[name].lerp_(parameter.data, share)

    def free(self, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradient, 0 for what belongs to constant columns."""
        return gradient if self.constants is None else self.constants.masked(gradient)

    def change(self, gradient: dict[str, Tensor], rates: Rates, project: bool) -> None:
        if not self.at_once(gradient, rates, project):
            self.move(gradient, rates)
            if project:
                self.project()

    def gradient(self, batch: Tensor, size: int) -> dict[str, Tensor]:
        """The data's moments less the model's, summed over the shards, here and elsewhere."""
        first = self.shards.rows(size).start
        parts = []
        for shard in self.shards:
            rows = shard.rows(size)
            parts.append(self.part(shard, batch[:, rows.start - first : rows.stop - first], size))
        return self.shards.summed(parts)

    def part(self, shard: Shard, batch: Tensor, size: int) -> dict[str, Tensor]:
        """Those of one shard, each times its share; the chains move beside."""
        machine, count = self.machine, batch.shape[1]
        data, of_data = None, None
        if count:
            data = self.positive.step(machine, batch, shard.rng)
            data = times(data, count / (self.batch_size if self.batch_mean == "nominal" else size))
        with self.executor.beside():
            model = shard.model(machine, batch, size, self.executor.kept)
        if data is not None and data.gradient_comes_first(machine):
            of_data = data.gradient(machine)
        self.executor.meet()
        found = difference(data, model, machine, of_data)
        if self.centring is not None:
            found[HIDDEN] = shard.hidden(machine, batch, size)
        return found

    def move(self, gradients: dict[str, Tensor], rates: Rates) -> None:
        """Moves the parameters; a replica stays where it is from the update on that would make one of its
        energies infinite."""
        self.keeping_dead(lambda: self.updater.step(gradients, rates))

    def at_once(self, gradients: dict[str, Tensor], rates: Rates, project: bool) -> bool:
        """`move` and `project` in a few passes over the parameters, where kernels serve."""
        if not moves.serves(self.parameters) or not isinstance(self.updater, AtOnce):
            return False
        if self.machine.couplings.others is not None:  # what diverges is a sum over all units
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
        if self.constants is not None:  # a projection to ±1 couples them again
            self.constants.uncouple()

    def keeping_dead(self, change: Callable[[], None]) -> None:
        """A change of the parameters that replicas which diverge, now or earlier, do not take part in."""
        now = [p.data for p in self.parameters.values()]
        kept = [p.clone() for p in now]
        change()
        self.alive &= self.machine.finite()
        if self.executor.looks:
            unseen(_put_back_if_any, [*now, self.grown], kept, self.alive)
        else:
            _put_back(now, kept, self.alive)

    def fit(self) -> Fit | None:
        machine = self.averaged() if self.average else self.machine
        return fit(machine, self.batches.some(), stream(self.seed, "fit", device=machine.device))

    def wait(self) -> None:
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

    @property
    def persists(self) -> bool:
        """Whether its chains are samples of the model that stay from update to update."""
        return isinstance(self.negative, Persistent)

    @property
    def chains(self) -> Tensor:
        """Those of the negative phase, of this process."""
        return self.shards.chains

    @property
    def count_of_chains(self) -> int:
        return sum(self.shards.counts)

    def configurations(self, rng: torch.Generator) -> Tensor:
        return self.shards.configurations(self.machine, self.batches.some(), rng)

    # -- saving -----------------------------------------------------------------------------------

    def state(self, *, gathered: bool = True, copied: bool = True) -> dict[str, Tensor]:
        """Copies of everything that later updates depend on, or the things themselves, of all processes;
        the others than the first have their own part alone, and so has each of them if nothing is
        `gathered`."""
        parts = {
            "parameter": {name: p.data for name, p in self.parameters.items()},
            "average": self.mean_of,
            "optimizer": self.updater.state(),
            "centring": {} if self.centring is None else {"offsets": self.centring.offsets},
            "training": {
                "seed": torch.tensor(self.seed),
                "update": torch.tensor(self.update),
                "alive": self.alive,
                "lived": self.lived,
                "damping": torch.tensor(
                    self.damping or [1.0] * self.machine.replicas, dtype=torch.float64
                ),
                "rng": self.rng.get_state(),
            },
        }
        if gathered:
            self.shards.check_same(self.parameters.values())
        named = {f"{part}/{name}": x for part, values in parts.items() for name, x in values.items()}
        named |= self.shards.state(gathered=gathered)
        return {name: x.detach().clone() if copied else x.detach() for name, x in named.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        state = self.shards.own(
            {"training/lived": _lived(state), "training/damping": _undamped(self.machine), **state}
        )
        parts = fitting(self, state)
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
        if self.constants is not None:  # of a state of before constant columns were left out
            self.constants.uncouple()
        self.alive.copy_(training["alive"])
        self.lived.copy_(training["lived"])
        self.grown.zero_()
        self.shards.load(state)
        self.executor.forget()  # a graph knows the old ones
        self.rng.set_state(training["rng"].cpu().clone())
        self.seed, self.update = int(training["seed"]), int(training["update"])
        damping = tuple(training["damping"].tolist())
        self.damping = damping if set(damping) != {1.0} else ()
        self.settled = self.others.every(self.projected())


def _lived(state: Mapping[str, Tensor]) -> Tensor:
    """Updates of each replica, in a state of before they were counted: those of all."""
    alive, update = (state.get(f"training/{name}", torch.empty(0)) for name in ("alive", "update"))
    sound = update.dtype == torch.int64 and update.numel() == 1  # `fitting` refuses any other
    return torch.full(alive.shape, int(update) if sound else 0, dtype=torch.int64)


def _undamped(machine: Machine) -> Tensor:
    return torch.ones(machine.replicas, dtype=torch.float64)


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """As module.parameters() of one that shares none, at a third of its cost."""
    yield from (p for p in module._parameters.values() if p is not None)
    for part in module._modules.values():
        if part is not None:
            yield from _parameters(part)


def _put_back_if_any(into: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    if bool(alive.all()):
        return
    *now, grown = into
    for replica in torch.nonzero(~alive & (grown == 0)).flatten().tolist():  # how far the step went
        grown[replica] = sum(x[replica].abs().sum(dtype=torch.float64) for x in now)
    _put_back(now, kept, alive)


def _put_back(now: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    """Replicas that are not alive as they were kept."""
    for new, old in zip(now, kept, strict=True):
        torch.where(alive.view(-1, *[1] * (new.dim() - 1)), new, old, out=new)
