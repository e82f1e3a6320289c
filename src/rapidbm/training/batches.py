"""Batches: which rows of the data an update takes, and how a phase gets them.

An epoch takes every row once, each replica in an order of its own. The seed and the number of the epoch
alone give that order: a training that is resumed takes the same rows, and whoever wants only some columns
of a batch gets those of the same batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ..accel.executors import Executor
from ..random import stream

ALL = slice(None)


class Batches(ABC):
    """The rows of a training, batch by batch; subclasses are final."""

    count: int  # rows of an epoch

    @abstractmethod
    def taken(self, seed: int, epoch: int, number: int, columns: slice = ALL) -> Tensor:
        """What batch `number` of an epoch takes, or these columns of it: a tensor (e, b, …) that an
        executor may copy to where its updates read."""

    @abstractmethod
    def spins(self, taken: Tensor) -> Tensor:
        """The rows of what was taken as a phase gets them, (e, b, v)."""

    @abstractmethod
    def some(self) -> Tensor:
        """Rows to look at, (samples, v), all of them where memory holds them."""


class InMemory(Batches):
    """Rows (samples, v) that the executor's device holds; a batch takes their numbers, (e, b)."""

    def __init__(
        self, spins: Tensor, executor: Executor, *, replicas: int, size: int, dtype: torch.dtype
    ) -> None:
        self.stored, self.executor = executor.stored(spins), executor
        self.replicas, self.size, self.dtype = replicas, size, dtype
        self.count = len(spins)
        self.order, self.order_of = torch.empty(0), (-1, -1)

    def taken(self, seed: int, epoch: int, number: int, columns: slice = ALL) -> Tensor:
        if self.order_of != (seed, epoch):
            rng = stream(seed, "order", epoch, device=self.stored.device)
            shape = (self.replicas, self.count)
            self.order = torch.rand(shape, generator=rng, device=rng.device).argsort(1)
            self.order_of = seed, epoch
        start = number * self.size
        return self.order[:, start : start + self.size][:, columns]

    def spins(self, taken: Tensor) -> Tensor:
        return self.executor.batch(self.stored, taken, self.dtype)

    def some(self) -> Tensor:
        return self.stored

    def replace(self, spins: Tensor) -> None:
        """Takes other rows, as many, from here on."""
        self.stored.copy_(spins)
