"""The state of a training between two updates, and the update.

    θ ← θ − rate · ( ⟨∂E/∂θ⟩_data − ⟨∂E/∂θ⟩_model )                                       (1)

The replicas train side by side and never meet; one that diverges is frozen as it was before, and the
others go on. The walk of one update, in the order in which it happens:

1. `Trainer.step` plans it on the host (`Trainer.plan`): which rows, which rates, whether patterns are
   projected. The executor (`accel/executors.py`) calls `Trainer.update_from` with the plan, or repeats
   what that did before, a GPU by a graph and a CPU by a recording. What follows is `update_from`.
2. `batches.spins` answers the rows of the batch, (e, b, v); cells that are missing are drawn (`gaps.py`,
   labels by `labels.py`, which also has the term of the objective that asks for them).
3. `Trainer.gradient` sums (1) over the shards of this process and over the ranks; of one shard it is
   `Trainer.shard_gradient`: the positive phase completes the data, the negative one moves its chains and
   answers the model's configurations, and `sharded.shards.difference` takes their moments apart.
4. `centring`, if any, takes the means of units out of the gradient.
5. `Stepper.step` (`stepper.py`) moves the parameters by the optimiser, projects the patterns and puts
   back a replica that diverged; where kernels serve, in two launches (`accel/moves.py`).
6. The means of `centring` and the running average of the parameters follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ..accel.devices import prepare, wait
from ..accel.executors import Plan, executor_for
from ..accel.ranks import Ranks
from ..accel.rounding import Precision
from ..data.stored import Stored
from ..errors import InputError, check_choice, check_count
from ..likelihood.independent import Fit
from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..random import stream
from .batches import InMemory, batches_for
from .check_inputs import check_objects, fitting, rows_for, weights_for
from .constants import Constants, constant_means
from .coordinates.centring import Centring
from .gaps import SWEEPS, completed
from .labels import Discriminative, LabelUnit, only_label_missing
from .load import warn_of_load
from .loop import Training
from .negative import Exact, NegativePhase, PatternInduced, Persistent
from .optimisers import Optimizer
from .positive import PositivePhase, positive_for
from .projections import NoProjection, Projection
from .replicas import ReplicaStatus, RunningAverage
from .sharded.shards import Shard, Shards, Weights, difference, times
from .stepper import Stepper, updater_for

BatchMean = Literal["true", "nominal"]
BATCH_MEANS: tuple[BatchMean, ...] = get_args(BatchMean)
ROWS = 4096  # of the data that are written as numbers at a time
HIDDEN = "hidden"  # beside the gradient of the parameters: means of the hidden units


class Trainer(Training):
    """The state of a training of one machine, and its updates."""

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
        observed: Any = None,
        weights: Any = None,
        gap_sweeps: int = SWEEPS,
        label: int | None = None,
        discriminative: float = 0.0,
    ) -> None:
        """The `ranks` share the `shards`; `part` names the random numbers of a trainer that has a part of
        the machine (`sharded/abreast.py`). `constant` are the means of the columns that are to be biases
        and nothing else, 0 for any other (v,); None: of those that are the same in all rows. Cells
        that are not `observed` are drawn at every update by so many clamped sweeps (`gaps.py`). Rows
        count by `weights`, (samples,) or (e, samples), or by those of the split. `label` is the number
        of the unit whose log p given the others counts `discriminative` times more (`labels.py`)."""
        check_count("the number of clamped sweeps of missing cells", gap_sweeps)
        check_count("the number of epochs", epochs, least=0)
        check_count("the batch size", batch_size)
        check_choice("batch mean", batch_mean, BATCH_MEANS)
        if average is not None:
            check_count("the number of updates to average over", average)
        check_objects(negative, positive, projection, optimizer)
        prepare(machine.device)
        rows, held = rows_for(machine, spins, observed)
        uneven = weights_for(machine, spins, weights, rows)
        if held is not None and part and part[0] == "units":
            raise InputError(
                "rows with missing cells are not trained in shards of units; take --shard-by chains"
            )
        some_spins = any(machine.layers.kinds[i] == SPIN for i in machine.layers.visible)
        if constant is None and machine.biases is not None and some_spins:
            constant = constant_means(rows, held)
        constants = None if constant is None else Constants.of(machine, constant)
        if constants is not None and not part:  # of a part the whole has been started
            constants.start()
        self.machine, self.negative = machine, negative
        self.positive = positive or positive_for(machine)
        self.positive.check(machine, batch_size)
        projection = projection or NoProjection()
        projection.check(machine)
        self.epochs, self.batch_size, self.batch_mean = epochs, batch_size, batch_mean
        self.per_epoch = math.ceil(len(rows) / batch_size)
        self.seed, self.update = seed, 0
        self.rng = stream(seed, "training", *part, device=machine.device)
        self.shards = Shards(negative, machine, shards, ranks or Ranks(), self.rng, seed)
        if isinstance(negative, PatternInduced) and machine.patterns is not None and not part:
            warn_of_load(machine.layers, machine.patterns.shape[1])
        self.choice = optimizer if isinstance(optimizer, Optimizer) else None
        self.status = ReplicaStatus(machine.replicas, machine.device)
        updater = updater_for(machine, optimizer, self.per_epoch, pace)
        others = machine.couplings.others or self.shards.ranks  # who makes these updates, too
        self.label = None if label is None else LabelUnit.of(machine, label)
        if held is not None and self.label is not None and not only_label_missing(self.label, held):
            self.label = None  # clamped chains draw what is missing
        self.asks = Discriminative.of(machine, label, discriminative, held, uneven)
        if self.asks is not None and part and part[0] == "units":
            raise InputError("a discriminative term needs all units at once; take --shard-by chains")
        self.stepper = Stepper(machine, updater, projection, constants, self.status, others)
        some = rows.in_memory().spins if isinstance(rows, Stored) else rows
        given: Any = {"persistent": self.persists, "held": held, "weights": uneven}
        self.centring = Centring(machine, some, **given) if centred else None
        self.gap_sweeps = gap_sweeps
        self.executor = executor_for(
            machine.device,
            self.shards.rngs,
            self.stepper.parameters.values(),
            (negative, self.positive, projection, self.choice),
            precision,
            others,
        )
        self.batches = batches_for(rows, machine, self.executor, batch_size, held, uneven)
        self.average = RunningAverage(self.stepper.parameters, average) if average else None
        # The data's part of eq. (1) stays the same with all rows in each update, no hidden units, and
        # parameters that the energy is linear in.
        self.repeats_data = (
            not machine.layers.hidden
            and self.per_epoch == 1
            and (batch_mean == "true" or batch_size == len(rows))
            and machine.couplings.degree == 1
            and machine.own is None
            and self.shards.count == 1
            and self.centring is None
            and not part
            and isinstance(negative, Persistent | Exact)
            and isinstance(self.batches, InMemory)
            and held is None
            and self.asks is None
        )
        self.of_all_rows: dict[str, Tensor] = {}  # their gradient

    # -- the walk of one update -------------------------------------------------------------------

    def most(self) -> int:
        epoch, number = divmod(self.update, self.per_epoch)
        most = min(self.per_epoch - number, self.executor.together)
        ready = self.batches.together(self.seed, epoch, number) if most > 1 else 1
        return most if ready is None else min(most, ready)

    @torch.no_grad()
    def step(self, count: int = 1) -> None:
        self.stepper.check()
        if self.repeats_data and not self.of_all_rows:
            self.of_all_rows = self.gradient_of_all_rows()
        plans = [self.plan(self.update + i) for i in range(count)]
        for done in self.executor.run(plans, self.update_from):
            self.update += done

    def plan(self, update: int) -> Plan:
        """What update number `update` (from 0) takes."""
        epoch, number = divmod(update, self.per_epoch)
        size = min(self.batch_size, self.batches.count - number * self.batch_size)
        projection = self.stepper.projection
        due = projection.every == "update" or number + 1 == self.per_epoch
        return Plan(
            rows=self.batches.taken(self.seed, epoch, number, self.shards.rows(size)),
            size=size,
            rates=self.rates(update),
            share=self.average.share(update + 1) if self.average else 1.0,
            project=due and not isinstance(projection, NoProjection),
        )

    def update_from(self, plan: Plan) -> None:
        """The update, all of it on the device."""
        if self.of_all_rows:
            batch = self.batches.rows_in_memory().expand(self.machine.replicas, -1, -1)
        else:
            batch = self.batches.spins(plan.rows)  # (e, b, v)
        with self.machine.fixed_parameters(self.shards.most):
            held = self.batches.observed(plan.rows)
            if held is not None:
                batch = self.completed(batch, held, plan.size)
            weights = self.weights(plan)
            gradient = self.gradient(batch, plan.size, *weights)
            if self.asks is not None:
                self.add_discriminative(gradient, batch, held, plan.size, *weights)
        if self.centring is None:
            self.stepper.step(gradient, plan.rates, plan.project, self.rng)
        else:
            before, hidden = self.centring.fields(), gradient.pop(HIDDEN)
            if self.persists:  # as its chains have them: less the gradient
                hidden = hidden - gradient["biases"][:, None, self.machine.visible :]
            self.stepper.step(self.centring.gradient(gradient), plan.rates, plan.project, self.rng)
            self.centring.move(before)
            self.centring.follow(hidden)
        self.stepper.back_to_gauge()
        if self.average:
            self.average.follow(plan.share)

    def weights(self, plan: Plan) -> tuple[Weights, ...]:
        """Those of the rows of a batch; none where all count the same."""
        rows = self.batches.weights(plan.rows)
        if rows is None:
            return ()
        total = self.shards.ranks.summed({"weights": rows.sum(1, keepdim=True)})["weights"]
        return (Weights(rows, total / plan.size),)

    def gradient(self, batch: Tensor, size: int, weights: Weights | None = None) -> dict[str, Tensor]:
        """Eq. (1) without the rate, summed over the shards, here and elsewhere."""
        parts = []
        for shard, own in self.of_shards(batch, size):
            part = None if weights is None else weights.of(self.places(shard, size))
            parts.append(self.shard_gradient(shard, own, size, part))
        return self.shards.summed(parts)

    def gradient_of_all_rows(self) -> dict[str, Tensor]:
        """What all rows of the data give, some of them at a time."""
        machine, rows = self.machine, self.batches.rows_in_memory()
        given = self.row_weights()
        weights = torch.ones(1, len(rows)) if given is None else given
        weights = weights.to(machine.device, machine.dtype) / len(rows)
        total: dict[str, Tensor] = {}
        for start in range(0, len(rows), ROWS):
            some = slice(start, start + ROWS)
            spins, share = trusted.visible(machine, rows[some]), weights[:, some]
            for name, value in machine.gradient_over(spins, share.expand(len(spins), -1)).items():
                total[name] = total[name].add_(value) if name in total else value
        return total

    def add_discriminative(
        self,
        gradient: dict[str, Tensor],
        batch: Tensor,
        held: Tensor | None,
        size: int,
        weights: Weights | None = None,
    ) -> None:
        """Adds the gradient of the label's term, of the rows here and elsewhere."""
        assert self.asks is not None
        whole = self.batch_size if self.batch_mean == "nominal" else size
        rows = None if weights is None else weights.rows
        found = self.asks.gradient(self.machine, batch, held, rows, whole)
        for name, value in self.shards.ranks.summed(found).items():
            gradient[name] += value
        if self.centring is not None and self.persists:  # the means of hidden units are those of the data
            gradient[HIDDEN] = gradient[HIDDEN] + found["biases"][:, None, self.machine.visible :]

    def of_shards(self, rows: Tensor, size: int) -> Iterator[tuple[Shard, Tensor]]:
        """What each shard has of the rows of this process, (e, b, v)."""
        for shard in self.shards:
            yield shard, rows[:, self.places(shard, size)]

    def places(self, shard: Shard, size: int) -> slice:
        """Where the rows of a shard are among those of this process."""
        first, own = self.shards.rows(size).start, shard.rows(size)
        return slice(own.start - first, own.stop - first)

    def completed(self, batch: Tensor, held: Tensor, size: int) -> Tensor:
        """The batch with its missing cells drawn, each shard's by its own random numbers."""
        parts = []
        both = zip(self.of_shards(batch, size), self.of_shards(held, size), strict=True)
        for (shard, rows), (_, known) in both:
            if rows.shape[1] and self.label is not None:
                parts.append(self.label.completed(self.machine, rows, known, shard.rng))
            elif rows.shape[1]:
                parts.append(completed(self.machine, rows, known, shard.rng, self.gap_sweeps))
        return torch.cat(parts, 1) if parts else batch

    def shard_gradient(
        self, shard: Shard, batch: Tensor, size: int, weights: Weights | None = None
    ) -> dict[str, Tensor]:
        """That of one shard, times its share in a batch of that size; the chains move beside."""
        machine, count = self.machine, batch.shape[1]
        data, of_data = None, None
        if count and not self.of_all_rows:
            data = self.positive.step(machine, batch, shard.rng)
            data = times(data, count / (self.batch_size if self.batch_mean == "nominal" else size))
            data = data if weights is None else weights.of_rows(data)
        with self.executor.beside():
            model = shard.model(machine, batch, size, weights, in_place=self.executor.in_place)
        if data is not None and data.gradient_comes_first(machine):
            of_data = data.gradient(machine)
        self.executor.meet()
        found = difference(data, model, machine, of_data)
        for name, value in self.of_all_rows.items():
            found[name].add_(value)
        if self.centring is not None:
            found[HIDDEN] = shard.hidden(machine, batch, size, weights)
        return found

    # -- what it is asked -------------------------------------------------------------------------

    def rows_in_memory(self) -> Tensor:
        return self.batches.rows_in_memory()

    def fit(self) -> Fit | None:
        held = getattr(self.batches, "held", None)
        return None if held is not None else super().fit()  # it would count cells that are missing

    def row_weights(self) -> Tensor | None:
        return getattr(self.batches, "row_weights", None)

    def wait(self) -> None:
        wait(self.machine.device)

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
        return self.shards.configurations(self.machine, self.rows_in_memory(), rng)

    # -- saving -----------------------------------------------------------------------------------

    def state(self, *, gathered: bool = True, copied: bool = True) -> dict[str, Tensor]:
        """Copies of everything that later updates depend on, or the things themselves, of all processes;
        the others than the first have their own part alone, and so has each of them if nothing is
        `gathered`."""
        parts = {
            "parameter": {name: p.data for name, p in self.stepper.parameters.items()},
            "average": self.average.means if self.average else {},
            "optimizer": self.stepper.updater.state(),
            "centring": {} if self.centring is None else {"offsets": self.centring.offsets},
            "training": {
                "seed": torch.tensor(self.seed),
                "update": torch.tensor(self.update),
                "alive": self.status.alive,
                "lived": self.status.lived,
                "damping": torch.tensor(
                    self.damping or [1.0] * self.machine.replicas, dtype=torch.float64
                ),
                "rng": self.rng.get_state(),
            },
        }
        if gathered:
            self.shards.check_same(self.stepper.parameters.values())
        named = {f"{part}/{name}": x for part, values in parts.items() for name, x in values.items()}
        named |= self.shards.state(gathered=gathered)
        return {name: x.detach().clone() if copied else x.detach() for name, x in named.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        state = self.shards.own(
            {"training/lived": _lived(state), "training/damping": _undamped(self.machine), **state}
        )
        parts = fitting(self, state)
        self.stepper.load(parts["parameter"], parts["optimizer"])
        for name, mean in self.average.means.items() if self.average else ():
            mean.copy_(parts["average"][name])
        if self.centring is not None:
            self.centring.offsets.copy_(parts["centring"]["offsets"])
        training = parts["training"]
        self.status.alive.copy_(training["alive"])
        self.status.lived.copy_(training["lived"])
        self.status.grown.zero_()
        self.shards.load(state)
        self.executor.forget()  # the chains are elsewhere now; a graph or a recording knows the old place
        self.rng.set_state(training["rng"].cpu().clone())
        self.seed, self.update = int(training["seed"]), int(training["update"])
        damping = tuple(training["damping"].tolist())
        self.damping = damping if set(damping) != {1.0} else ()


def _lived(state: Mapping[str, Tensor]) -> Tensor:
    """Updates of each replica, in a state of before they were counted: those of all."""
    alive, update = (state.get(f"training/{name}", torch.empty(0)) for name in ("alive", "update"))
    sound = update.dtype == torch.int64 and update.numel() == 1  # `fitting` refuses any other
    return torch.full(alive.shape, int(update) if sound else 0, dtype=torch.int64)


def _undamped(machine: Machine) -> Tensor:
    return torch.ones(machine.replicas, dtype=torch.float64)
