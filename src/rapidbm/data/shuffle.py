"""The order in which a training takes rows that stay on disk.

The seed and the number t of an epoch give it. The chunks of the split are put in random order, by the
stream (seed, "order", t, "chunks"), and fill groups, one after the other, each until it has `least` rows.
The rows of group g are put in random order by the stream (seed, "order", t, "group", g), for each replica
anew. An epoch is its groups, one after the other: every row comes once in it, and rows that are far apart
in the file, or near, may come in one batch. Rows of different groups never change places with each other:
the mixing is that of a window of `least` rows over chunks in random order.

All replicas take the rows of a group at the same time, so that a chunk is read once in an epoch. While a
group is trained on, the next one is read by a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..random import stream
from .stored import Stored

T = TypeVar("T")
Key = tuple[int, int, int]  # seed, epoch, group


@dataclass(frozen=True)
class Epoch:
    """The chunks of each group of an epoch, and how many rows come before each group."""

    chunks: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]  # one more: all rows

    def group_of(self, row: int) -> int:
        """The group with this row of the epoch."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1


def epoch_of(split: Stored, seed: int, epoch: int, least: int) -> Epoch:
    """How an epoch goes through the chunks."""
    order = torch.randperm(len(split.sizes), generator=stream(seed, "order", epoch, "chunks")).numpy()
    ends = np.cumsum(np.asarray(split.sizes)[order])
    groups, starts, first = [], [0], 0
    while first < len(order):
        last = min(int(np.searchsorted(ends, starts[-1] + least)), len(order) - 1)
        groups.append(tuple(order[first : last + 1].tolist()))
        starts.append(int(ends[last]))
        first = last + 1
    return Epoch(tuple(groups), tuple(starts))


@dataclass(frozen=True)
class Group:
    """Rows of some chunks, and in which order each replica takes them."""

    start: int  # rows of the epoch before it
    rows: Tensor  # (n, bytes) uint8
    order: Tensor  # (e, n)


class Groups:
    """Groups of a split by their key; the one that comes next is read ahead."""

    def __init__(self, split: Stored, replicas: int, least: int) -> None:
        self.split, self.replicas, self.least = split, replicas, least
        self.epochs: dict[tuple[int, int], Epoch] = {}
        self.ahead: tuple[Key, Later[Group]] | None = None

    def epoch(self, seed: int, epoch: int) -> Epoch:
        if (seed, epoch) not in self.epochs:
            self.epochs = dict(list(self.epochs.items())[-1:])
            self.epochs[seed, epoch] = epoch_of(self.split, seed, epoch, self.least)
        return self.epochs[seed, epoch]

    def group(self, key: Key) -> Group:
        """The group, which may have been read by now; the next one is begun."""
        ahead, self.ahead = self.ahead, None
        found = ahead[1].result() if ahead is not None and ahead[0] == key else self.read(key)
        then = self._after(key)
        self.ahead = then, Later(lambda: self.read(then))
        return found

    def _after(self, key: Key) -> Key:
        seed, epoch, number = key
        last = number + 1 == len(self.epoch(seed, epoch).chunks)
        return (seed, epoch + 1, 0) if last else (seed, epoch, number + 1)

    def read(self, key: Key) -> Group:
        seed, epoch, number = key
        whole = self.epoch(seed, epoch)
        rows = [self.split.chunk(chunk)[0] for chunk in whole.chunks[number]]
        packed = torch.from_numpy(np.concatenate(rows))
        rng = stream(seed, "order", epoch, "group", number)
        orders = [torch.randperm(len(packed), generator=rng) for _ in range(self.replicas)]
        return Group(whole.starts[number], packed, torch.stack(orders))


class Later(Generic[T]):
    """What a thread works out meanwhile."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.found: T | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found = self.work()
        except BaseException as error:  # told to whoever asks
            self.error = error

    def result(self) -> T:
        self.thread.join()
        if self.error is not None:
            raise self.error
        assert self.found is not None
        return self.found
