"""Trainers abreast: each has a part of the machine, its replicas or its units, and all of them make the
same update at the same time.

Replicas never meet: each shard of them is a training of its own, and nothing travels but what is saved
and looked at.

Of units, each shard has a slice of every layer, and the columns of the data that belong to its slice of
the visible one. Fields, draws, gradients and steps are those of a smaller machine, once the overlaps of
`machines/patterns.py` are summed over the shards:

    m_l^k = Σ_shards Σ_{i∈l, shard} ξ_i^k s_i                                             (1)

which is chains × K numbers for each time that a layer is drawn or looked at. Shards of one process are
threads of it (`accel.ranks.ThreadRanks`). Either way a training depends on its seed and the number of
shards, and not on how many processes there are.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from ...accel.ranks import Ranks, ThreadRanks, portion
from ...data import splits
from ...errors import InputError, LoadWarning
from ...likelihood.independent import Fit
from ...machines.layers import Layers
from ...machines.machine import Machine
from ...machines.patterns import Patterns
from ...random import seed_from, stream
from ..constants import Constants, constant_means
from ..load import warn_of_load
from ..loop import Training
from ..negative import ContrastiveDivergence, NegativePhase, PatternInduced, Persistent
from ..optimisers import Optimizer
from ..positive import Enumerated, PositivePhase
from ..replicas import ReplicaStatus, RunningAverage
from ..trainer import Trainer

T = TypeVar("T")
SHARDED = ("chains", "replicas", "units")  # what a shard has a part of
SEED, RNG = "training/seed", "training/rng"  # of a trainer's state
SHARDS = "shards/rng"  # those of all shards
ShardValues = Sequence[tuple[range, Tensor]]  # of these shards, in their order


def merged(total: int, shards: range, count: int) -> slice:
    """What some shards, one after the other, have of so many things."""
    return slice(portion(total, shards[0], count).start, portion(total, shards[-1], count).stop)


class Split(ABC):
    """How what belongs to the whole machine comes apart."""

    count: int  # of shards
    meets: ClassVar[bool]  # whether the parts need each other

    @abstractmethod
    def cut(self, whole: Tensor, shards: range) -> Tensor:
        """The part of these shards, of parameters or anything else that goes with replicas or units."""

    @abstractmethod
    def joined(self, parts: ShardValues) -> Tensor: ...

    @abstractmethod
    def concerns(self, name: str, value: Tensor) -> bool:
        """Whether a tensor of a saved state comes apart; else all parts have the same."""


@dataclass(frozen=True)
class ByReplicas(Split):
    """(e, …) by e."""

    replicas: int
    count: int
    meets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.replicas < self.count:
            raise InputError(
                f"{self.replicas} replicas cannot be cut into {self.count} shards; give fewer --shards, "
                "or more --replicas"
            )

    def of(self, shards: range) -> slice:
        """The replicas of these shards."""
        return merged(self.replicas, shards, self.count)

    def cut(self, whole: Tensor, shards: range) -> Tensor:
        return whole[self.of(shards)]

    def joined(self, parts: ShardValues) -> Tensor:
        return torch.cat([part for _, part in parts])

    def machine(self, whole: Machine, shard: int) -> Machine:
        few = copy.deepcopy(whole)
        for parameter in few.parameters():
            parameter.data = self.cut(parameter.data, range(shard, shard + 1)).clone()
        return few

    def concerns(self, name: str, value: Tensor) -> bool:
        return value.dim() > 0 and name != RNG  # not numbers of updates


@dataclass(frozen=True)
class ByUnits(Split):
    """(…, n) by the units of each layer."""

    layers: Layers
    count: int
    meets: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if min(self.layers.sizes) < self.count:
            raise InputError(
                f"a layer of {min(self.layers.sizes)} units cannot be cut into {self.count} shards; give "
                "fewer --shards"
            )

    def sizes(self, shards: range) -> list[int]:
        """Units of each layer that these shards have."""
        return [part.stop - part.start for part in self.within(shards)]

    def within(self, shards: range) -> list[slice]:
        """Which they are, numbered within their layer."""
        return [merged(size, shards, self.count) for size in self.layers.sizes]

    def cut(self, whole: Tensor, shards: range) -> Tensor:
        layers = torch.split(whole, list(self.layers.sizes), -1)
        pairs = zip(layers, self.within(shards), strict=True)
        return torch.cat([layer[..., part] for layer, part in pairs], -1)

    def joined(self, parts: ShardValues) -> Tensor:
        by_part = [torch.split(part, self.sizes(shards), -1) for shards, part in parts]
        return torch.cat([piece for layer in zip(*by_part, strict=True) for piece in layer], -1)

    def concerns(self, name: str, value: Tensor) -> bool:
        return value.dim() > 1  # parameters and chains; not which replicas live

    def machine(self, whole: Machine, shard: int, others: Ranks) -> Machine:
        """The units of one shard, which are coupled to those of the others."""
        only, patterns = range(shard, shard + 1), whole.patterns
        assert patterns is not None
        layers = Layers(tuple(self.sizes(only)), self.layers.edges)
        couplings = Patterns(layers, self.cut(patterns.detach(), only), others, whole.couplings.strengths)
        biases = None if whole.biases is None else self.cut(whole.biases.detach(), only)
        return Machine(couplings, biases)


def check_units(
    machine: Machine, negative: NegativePhase, positive: PositivePhase | None, centred: bool
) -> None:
    """Refuses what needs all units at once."""
    kinds = (ContrastiveDivergence, Persistent, PatternInduced)
    wrong = ""
    if machine.patterns is None:
        wrong = "couplings of patterns, whose overlaps are all that travels; these are dense"
    elif any(a == b for a, b in machine.layers.edges):
        wrong = "layers that are not coupled to themselves (rbm, dbm)"
    elif not isinstance(negative, kinds):
        wrong = f"the negative phase pid, cd or pcd, not {type(negative).__name__}"
    elif getattr(negative, "lifetime", 0) or getattr(negative, "scouts", 0):
        wrong = "chains that live for ever, without a lifetime or scouts"
    elif isinstance(positive, Enumerated):
        wrong = "a positive phase that does not enumerate"
    elif centred:
        wrong = "plain gradients, not centred ones"
    if wrong:
        raise InputError(f"shards of units need {wrong}; give other settings, or --shard-by chains")


class Abreast(Training):
    """The trainers of this process' shards, as one training of the whole machine.

    `machine` is whole on the first process, as it was when it was last gathered; on the others it is a
    part. `made` answers the trainer of a shard, by its number and by whom it sums with.
    """

    def __init__(
        self,
        machine: Machine,
        spins: Tensor | splits.Split,
        choice: Optimizer,
        split: Split,
        ranks: Ranks,
        made: Callable[[int, Ranks], Trainer],
        *,
        seed: int,
    ) -> None:
        self.spins, self.choice, self.split, self.ranks, self.seed = spins, choice, split, ranks, seed
        self.mine = ranks.share_of(split.count)
        self.threads = ThreadRanks(len(self.mine), ranks) if split.meets and len(self.mine) > 1 else None
        others = [ranks] if self.threads is None else self.threads.members
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoadWarning)  # told once, of the whole
            pairs = zip(self.mine, others * len(self.mine), strict=False)
            self.trainers = self._all([partial(made, *pair) for pair in pairs])
        first = self.trainers[0]
        self.machine = machine if ranks.first else first.machine
        self.negative, self.batch_size, self.average = first.negative, first.batch_size, first.average
        self.epochs, self.per_epoch, self.update = first.epochs, first.per_epoch, first.update
        if self.average and ranks.first:
            self.average = RunningAverage(dict(machine.named_parameters()), self.average.updates)
        self.status = ReplicaStatus(machine.replicas)
        if isinstance(self.negative, PatternInduced) and machine.patterns is not None:
            warn_of_load(machine.layers, machine.patterns.shape[1])

    def _all(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """Of every trainer here; those that meet go at once."""
        return [each() for each in work] if self.threads is None else self.threads.run(work)

    def most(self) -> int:
        return self.trainers[0].most()

    def step(self, count: int = 1) -> None:
        for trainer in self.trainers:
            trainer.epochs = self.epochs  # a plan may have changed it
        self._all([partial(trainer.step, count) for trainer in self.trainers])
        self.update = self.trainers[0].update

    def wait(self) -> None:
        self.trainers[0].wait()

    @property
    def count_of_chains(self) -> int:
        return self.trainers[0].count_of_chains

    def configurations(self, rng: torch.Generator) -> Tensor | None:
        return None if self.split.meets else self.trainers[0].configurations(rng)

    def fit(self) -> Fit | None:
        gaps = getattr(self.spins, "observed", None) is not None
        return None if gaps else super().fit()

    def row_weights(self) -> Tensor | None:
        return getattr(self.spins, "weights", None)

    def rows_in_memory(self) -> Tensor:
        return self.spins if isinstance(self.spins, Tensor) else self.spins.in_memory().spins

    # -- the parts and the whole ------------------------------------------------------------------

    def gather(self) -> None:
        steppers = [trainer.stepper for trainer in self.trainers]
        for name in steppers[0].parameters:
            whole = self._whole([stepper.parameters[name].data for stepper in steppers])
            if self.ranks.first:
                self.machine.get_parameter(name).data.copy_(whole)
            if self.average:
                means = self._whole([t.average.means[name] for t in self.trainers if t.average])
                if self.ranks.first:
                    self.average.means[name].copy_(means)
        own, each = self.status, [trainer.status for trainer in self.trainers]
        own.alive = self._of_replicas([status.alive for status in each])
        own.lived = self._of_replicas([status.lived for status in each])
        if not self.split.meets:  # of units each knows its own part
            own.grown = self._of_replicas([status.grown for status in each])

    def _of_replicas(self, parts: Sequence[Tensor]) -> Tensor:
        return parts[0].cpu() if self.split.meets else self._whole(parts).cpu()

    def _whole(self, parts: Sequence[Tensor]) -> Tensor:
        """The parts of all shards side by side; on the others than the first process those here."""
        here = self.split.joined([(range(n, n + 1), x) for n, x in zip(self.mine, parts, strict=True)])
        found = self.ranks.gathered(here)
        if len(found) < 2:
            return here
        parts_of = [portion(self.split.count, i, len(found)) for i in range(len(found))]
        shards = [range(part.start, part.stop) for part in parts_of]
        return self.split.joined(list(zip(shards, found, strict=True)))

    def state(self, *, copied: bool = True) -> dict[str, Tensor]:
        each = [trainer.state(gathered=False, copied=copied) for trainer in self.trainers]
        found = {}
        for name, value in each[0].items():
            parts = [state[name] for state in each]
            found[name] = self._whole(parts) if self.split.concerns(name, value) else value
        drawn = self.ranks.gathered(torch.stack([state[RNG] for state in each]))
        found.pop(RNG)
        return found | {
            SHARDS: torch.cat(drawn) if drawn else torch.empty(0),
            SEED: torch.tensor(self.seed),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        drawn = state.get(SHARDS, torch.empty(0))
        if len(drawn) != self.split.count:
            raise InputError(
                f"the saved state is of a training in {max(1, len(drawn))} shards, not in "
                f"{self.split.count}; go on with as many"
            )
        own = []
        for number, trainer in zip(self.mine, self.trainers, strict=True):
            trainer.epochs = self.epochs
            part = {
                name: self.split.cut(value, range(number, number + 1))
                if self.split.concerns(name, value)
                else value
                for name, value in state.items()
                if name != SHARDS
            }
            own.append(part | {RNG: drawn[number], SEED: torch.tensor(trainer.seed)})
        self._all([partial(t.load, part) for t, part in zip(self.trainers, own, strict=True)])
        self.update = self.trainers[0].update
        self.gather()


class Made(Protocol):
    """Makes the trainer of a machine; of some replicas with their own numbers, if that is said."""

    def __call__(
        self, machine: Machine, spins: Tensor | splits.Split, replicas: slice | None = None, **more: Any
    ) -> Trainer: ...


def divided(
    machine: Machine,
    spins: Tensor | splits.Split,
    choice: Optimizer,
    made: Made,
    *,
    by: str,
    count: int,
    seed: int,
    ranks: Ranks,
) -> Training:
    """A training in so many shards, which the ranks share."""
    if by == "chains" or count == ranks.world == 1:
        return made(machine, spins, shards=count, ranks=ranks)
    if machine.biases is not None:  # the parts start as the whole does
        constants = Constants.of(machine, constant_means(spins))
        if constants is not None:
            constants.start()
    split: Split
    if by == "replicas":
        split = replicas = ByReplicas(machine.replicas, count)

        def part(number: int, others: Ranks) -> Trainer:
            own = seed_from(None, stream(seed, "replicas", number, count))
            some = replicas.of(range(number, number + 1))
            return made(replicas.machine(machine, number), spins, some, seed=own)

    else:
        split = units = ByUnits(machine.layers, count)

        def part(number: int, others: Ranks) -> Trainer:
            columns = units.within(range(number, number + 1))[0]
            slice_of = units.machine(machine, number, others)
            rows = spins[:, columns] if isinstance(spins, Tensor) else spins.narrowed(columns)
            return made(slice_of, rows, part=("units", number, count))

    return Abreast(machine, spins, choice, split, ranks, part, seed=seed)
