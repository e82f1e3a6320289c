"""The loop around updates, and what its caller is told in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError
from ..likelihood.independent import Fit, fit, warn_of_fit
from ..machines.machine import Machine
from ..progress import watch
from ..random import stream
from .negative import NegativePhase
from .optimisers import Optimizer
from .replicas import Divergence, ReplicaStatus, RunningAverage


@dataclass(frozen=True, repr=False)
class Progress(Displayable):
    """Where a training stands after an update.

    Attributes
    ----------
    epoch : int
        Complete epochs.
    update : int
        Updates done.
    updates : int
        Updates of the whole training.
    epoch_end : bool
        Whether an epoch ends with this update.
    machine : Machine
        The machine that is trained; the next update changes it.
    trainer : Training
        What makes the updates.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, seed=0), rb.load("bars4")
    >>> steps = rb.train(machine, data.train, rb.Exact(), rb.sgd(0.1), epochs=1, batch_size=5, seed=0)
    >>> [(progress.epoch, progress.update) for progress in steps]
    [(1, 2)]
    """

    epoch: int  # epochs that are complete
    update: int
    updates: int  # of the whole training
    epoch_end: bool
    machine: Machine
    trainer: Training = field(repr=False)

    @property
    def diverged(self) -> tuple[int, ...]:
        """Numbers of the replicas that diverged and are frozen."""
        return self.trainer.diverged()

    @property
    def rng(self) -> torch.Generator:
        """A generator for evaluation; it depends on seed and update only, so looking changes nothing."""
        return self.trainer.evaluation_rng()

    def averaged(self) -> Machine:
        """The machine with the running average of its parameters.

        Returns
        -------
        Machine
            A copy; needs `train(average=…)`.
        """
        return self.trainer.averaged()

    def state(self) -> dict[str, Tensor]:
        """All that the rest of the training depends on.

        Returns
        -------
        dict of str to Tensor
            Pass it as `train(state=…)` to continue with the same bits.
        """
        return self.trainer.state()


class Training(ABC):
    """A training between two updates: of one machine (`Trainer`), or of its parts (`Abreast`)."""

    machine: Machine
    negative: NegativePhase
    seed: int
    update: int
    epochs: int
    per_epoch: int  # updates
    batch_size: int
    average: RunningAverage | None
    choice: Optimizer | None  # None: an optimiser of torch's that the caller made
    status: ReplicaStatus
    damping: tuple[float, ...] = ()  # what the rate of each replica is multiplied by; (): nothing

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

    def rates(self, update: int) -> tuple[float, ...]:
        """One for all replicas, or one for each, in update number `update`."""
        if self.choice is None:
            return (0.0,)
        start, schedule = self.choice.rate, self.choice.schedule
        epoch = update // self.per_epoch
        fraction = schedule.fraction(update, self.per_epoch, self.epochs)
        each = schedule.starts(start if isinstance(start, tuple) else (start,), update)
        rates = tuple(schedule.rate(rate, epoch, fraction) for rate in each)
        if not self.damping:
            return rates
        many = rates * len(self.damping) if len(rates) == 1 else rates
        return tuple(rate * damp for rate, damp in zip(many, self.damping, strict=True))

    @abstractmethod
    def most(self) -> int:
        """Updates that may be asked for at once from here on."""

    @abstractmethod
    def step(self, count: int = 1) -> None:
        """So many updates of one epoch."""

    @property
    @abstractmethod
    def count_of_chains(self) -> int:
        """Those that stay from update to update, wherever they are."""

    @abstractmethod
    def configurations(self, rng: torch.Generator) -> Tensor | None:
        """The spins that the negative phase averages over, of this process; None where it has no whole
        ones."""

    def gather(self) -> None:
        """Brings the machine up to date on the first process; all of them call it."""
        return

    @abstractmethod
    def wait(self) -> None:
        """Returns when the device has done all that was asked of it."""

    def diverged(self) -> tuple[int, ...]:
        """Replicas that are frozen by now."""
        return self.status.diverged()

    def divergences(self) -> tuple[Divergence, ...]:
        """When and why each replica that is frozen was."""
        found = []
        for replica in self.diverged():
            update = int(self.status.lived[replica])
            rates = self.rates(update)
            rate = rates[replica] if len(rates) > 1 else rates[0]
            why = self.status.why(self.machine, replica, None if self.choice is None else rate)
            found.append(Divergence(replica, update + 1, update // self.per_epoch + 1, why))
        return tuple(found)

    def averaged(self) -> Machine:
        """A copy of the machine with the running average of its parameters."""
        if self.average is None:
            raise InputError("no average of the parameters is kept; train with average=updates")
        return self.average.of(self.machine)

    def current(self) -> Machine:
        """The machine that the training is to give: averaged, where an average is kept."""
        return self.averaged() if self.average else self.machine

    @abstractmethod
    def rows_in_memory(self) -> Tensor:
        """Rows of the data to look at, (samples, v), all of them where memory holds them."""

    def row_weights(self) -> Tensor | None:
        """Weights of these rows, (samples,), or (e, samples) or (1, samples); None: all the same."""
        return None

    def fit(self) -> Fit | None:
        """What is proven about the likelihood of the training data, by a stream of its own."""
        rng, weights = stream(self.seed, "fit", device=self.machine.device), self.row_weights()
        if weights is not None and weights.dim() > 1:
            if len(weights) > 1:  # of each replica its own: nothing is said of all
                return None
            weights = weights[0]
        return fit(self.current(), self.rows_in_memory(), rng, weights)

    @abstractmethod
    def state(self, *, copied: bool = True) -> dict[str, Tensor]:
        """Copies of everything that later updates depend on, or the things themselves where there is no
        need for a copy, of all processes on the first of them."""

    @abstractmethod
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to a saved state; one that does not fit is refused before anything changes."""

    def evaluation_rng(self) -> torch.Generator:
        return stream(self.seed, "evaluate", self.update, device=self.machine.device)
