"""Batches: which rows of the data an update takes, and how a phase gets them.

An epoch takes every row once, each replica in an order of its own. The seed and the number of the epoch
alone give that order: a training that is resumed takes the same rows, and whoever wants only some columns
of a batch gets those of the same batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding

from ..accel.devices import copy_in
from ..accel.executors import Executor
from ..data.packed import bytes_of
from ..data.shuffle import Groups, Key
from ..data.stored import Stored
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..random import stream

ALL = slice(None)
GROUP = 2**26  # bytes of a group of rows that are mixed
ORDERS = 2**23  # numbers of rows in the orders of a group


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

    def observed(self, taken: Tensor) -> Tensor | None:
        """Which cells of them are observed, (e, b, v); None: all."""
        return None

    def weights(self, taken: Tensor) -> Tensor | None:
        """Weights of the rows of what was taken, of mean 1 over all rows, (e, b); None: all the same."""
        return None

    @abstractmethod
    def rows_in_memory(self) -> Tensor:
        """Rows to look at, (samples, v), all of them where memory holds them."""

    def together(self, seed: int, epoch: int, number: int) -> int | None:
        """Batches from this one on that may be taken before the first is used; None: all."""
        return None


class InMemory(Batches):
    """Rows (samples, v) that the executor's device holds; a batch takes their numbers, (e, b)."""

    def __init__(
        self,
        spins: Tensor,
        machine: Machine,
        executor: Executor,
        size: int,
        held: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.held = held  # (samples, v) bool: the cells that are observed
        self.row_weights = weights  # (e or 1, samples)
        narrow = None if spins.is_floating_point() else executor.batch_dtype  # states, not reals
        self.stored = spins if narrow is None else spins.to(narrow)
        self.dtype = narrow or machine.dtype
        self.replicas, self.size, self.count = machine.replicas, size, len(spins)
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
        rows = self.stored.index_select(0, taken.reshape(-1))  # quicker than stored[taken]
        return rows.view(*taken.shape, -1).to(self.dtype)

    def observed(self, taken: Tensor) -> Tensor | None:
        if self.held is None:
            return None
        return self.held.index_select(0, taken.reshape(-1)).view(*taken.shape, -1)

    def weights(self, taken: Tensor) -> Tensor | None:
        if self.row_weights is None:
            return None
        return self.row_weights.expand(self.replicas, -1).gather(1, taken)

    def rows_in_memory(self) -> Tensor:
        return self.stored

    def replace(self, spins: Tensor) -> None:
        """Takes other rows, as many, from here on."""
        self.stored.copy_(spins)


class Streamed(Batches):
    """Rows that stay on disk. Two groups of them (`data.shuffle`) lie packed in a window on the device; a
    batch, which has rows of two groups at most, takes their places there, (e, b)."""

    def __init__(self, split: Stored, machine: Machine, executor: Executor, size: int) -> None:
        self.split, self.size, self.count, self.visible = split, size, len(split), split.visible
        wide, replicas, device = bytes_of(split.bits.stop), machine.replicas, machine.device
        whole = bytes_of(
            split.pieces[0].rows.visible
        )  # whatever columns are taken: the order is the same
        least = max(size, min(GROUP // whole, ORDERS // replicas, self.count))
        self.groups = Groups(split, replicas, least)
        self.room = min(self.count, least + max(split.sizes))  # rows of a group, at most
        self.window = torch.zeros((2 * self.room, wide), dtype=torch.uint8, device=device)
        self.held: dict[Key, tuple[int, int, Tensor]] = {}  # a group's slot, its start, its order there
        # A byte as spins, the highest bit first.
        bytes_as_spins = SPIN.states(8, torch.arange(256)).to(device)
        self.table = bytes_as_spins.to(executor.batch_dtype or machine.dtype)

    def taken(self, seed: int, epoch: int, number: int, columns: slice = ALL) -> Tensor:
        first, last = number * self.size, min((number + 1) * self.size, self.count)
        whole, parts = self.groups.epoch(seed, epoch), []
        groups = range(whole.group_of(first), whole.group_of(last - 1) + 1)
        wanted = [(seed, epoch, group) for group in groups]
        for key in wanted:
            slot, start, order = self._held(key, wanted)
            mine = order[:, max(first - start, 0) : last - start]
            parts.append(mine + slot * self.room)
        return torch.cat(parts, 1)[:, columns]

    def _held(self, key: Key, wanted: Sequence[Key]) -> tuple[int, int, Tensor]:
        """The group, in the window: one there that is not wanted makes room for it."""
        if key not in self.held:
            group = self.groups.group(key)
            slot = len(self.held)
            if slot == 2:
                slot = self.held.pop(next(k for k in self.held if k not in wanted))[0]
            copy_in(self.window[slot * self.room :][: len(group.rows)], group.rows)
            self.held[key] = slot, group.start, group.order.to(self.window.device)
        return self.held[key]

    def spins(self, taken: Tensor) -> Tensor:
        rows = self.window.index_select(0, taken.reshape(-1)).int()
        spins = embedding(rows, self.table).view(*taken.shape, -1)
        return spins if spins.shape[-1] == self.visible else spins[..., self.split.bits].contiguous()

    def rows_in_memory(self) -> Tensor:
        return self.split.in_memory().spins

    def together(self, seed: int, epoch: int, number: int) -> int:
        """Those whose rows lie in the group of the first, and in the one after it."""
        whole, first = self.groups.epoch(seed, epoch), number * self.size
        last = min(whole.group_of(first) + 2, len(whole.chunks))
        return max(1, (whole.starts[last] - first) // self.size)


def batches_for(
    data: Tensor | Stored,
    machine: Machine,
    executor: Executor,
    size: int,
    held: Tensor | None = None,
    weights: Tensor | None = None,
) -> Batches:
    """The batches of a training of this machine."""
    if isinstance(data, Stored):
        return Streamed(data, machine, executor, size)
    return InMemory(data, machine, executor, size, held, weights)
