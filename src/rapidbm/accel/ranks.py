"""Ranks: processes that work on one thing together, and what travels between them.

A launcher, such as torchrun, starts them and tells each its number in the environment (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT). The first one, rank 0, is the only one that reads clocks and signals and that
reads and writes files of a run; what it decides the others are `told`. Tensors are summed over the ranks,
gathered by the first one or shared out by it. A process without a launcher is alone, and all of this
costs it nothing.

What travels is tensors and JSON; nothing is unpickled. A rank that is lost ends the others (`LostRank`):
its connections close, or, where a whole computer falls silent, the time for a sum runs out.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..errors import InputError, LostRank, TimeLimit

T = TypeVar("T")
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SOON, LATE = timedelta(minutes=30), timedelta(hours=24)  # to wait for a sum, or for the first rank's word
FIRST = 256  # bytes of a message that need no second one


def portion(total: int, number: int, count: int) -> slice:
    """Part `number` of so many things in `count` parts that are as equal as can be."""
    return slice(total * number // count, total * (number + 1) // count)


def portions(total: int, count: int) -> list[int]:
    """How many things each of these parts has."""
    return [part.stop - part.start for part in (portion(total, i, count) for i in range(count))]


class Ranks:
    """The processes that work on one training; this class is one process alone.

    A launcher such as torchrun starts several; `in_ranks` then yields a subclass whose methods exchange
    tensors between them. With one process every method returns its own input.

    Attributes
    ----------
    rank : int
        Number of this process, from 0.
    world : int
        Number of processes.
    alone : bool
        Whether there is one process only.
    captures : bool
        Whether a CUDA graph may contain the exchange.

    Examples
    --------
    >>> with rb.in_ranks() as ranks:
    ...     ranks.rank, ranks.world
    (0, 1)
    """

    rank, world, alone = 0, 1, True
    captures = True  # whether a device may repeat what it exchanges

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()  # bytes that this rank has given into each kind of exchange

    @property
    def first(self) -> bool:
        """Whether this is process 0."""
        return self.rank == 0

    def share_of(self, shards: int) -> range:
        """The shards that this process works on.

        Parameters
        ----------
        shards : int
            Number of shards of the training.

        Returns
        -------
        range
            Numbers of its shards.

        Raises
        ------
        InputError
            If there are fewer shards than processes.
        """
        if shards < self.world:
            raise InputError(
                f"{self.world} ranks share at least as many shards, not {shards}: start fewer ranks, or "
                f"give as many shards when a training begins (--shards {self.world})"
            )
        mine = portion(shards, self.rank, self.world)
        return range(mine.start, mine.stop)

    def summed(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors summed over all processes, in one reduction.

        Parameters
        ----------
        parts : mapping of str to Tensor
            Tensors of one dtype; every process gives the same names and shapes.

        Returns
        -------
        dict of str to Tensor
            The sums, under the same names.
        """
        return dict(parts) if self.alone else _at_once(parts, self.add)

    def add(self, tensor: Tensor) -> Tensor:
        """A tensor summed over all processes, in place.

        Parameters
        ----------
        tensor : Tensor
            This process's summand; it is overwritten by the sum.

        Returns
        -------
        Tensor
            The same tensor.
        """
        return tensor

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, collected on the first.

        Parameters
        ----------
        tensor : Tensor
            This process's tensor.

        Returns
        -------
        list of Tensor
            One per process, in main memory; empty on all but the first process.
        """
        return [tensor]

    def broadcast_tensors(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """Tensors of the first process, given to all.

        Parameters
        ----------
        tensors : mapping of str to Tensor, optional
            What the first process has; the others give None.

        Returns
        -------
        dict of str to Tensor
            These tensors, in main memory.
        """
        return dict(tensors or {})

    def broadcast(self, what: Callable[[], T]) -> T:
        """What a function returns on the first process, given to all.

        Parameters
        ----------
        what : callable
            Called on the first process only; its result must be expressible in JSON.

        Returns
        -------
        Any
            Its result.

        Raises
        ------
        InputError
            On every process, if the function raises it.
        """
        return what()

    def all_true(self, true: bool) -> bool:
        """Whether something holds on every process.

        Parameters
        ----------
        true : bool
            Whether it holds here.

        Returns
        -------
        bool
            True when it is true everywhere.
        """
        return not int(self.add(torch.tensor([int(not true)])))

    def all_equal(self, what: Callable[[], int]) -> bool:
        """Whether a number is equal on all processes.

        Parameters
        ----------
        what : callable
            Returns the number; it is not called when there is one process.

        Returns
        -------
        bool
            True when all numbers agree.
        """
        return True

    def __deepcopy__(self, memo: object) -> Ranks:
        return self

    def check_device(self, device: torch.device) -> None:
        """Refuses a GPU that several processes would share.

        Parameters
        ----------
        device : torch.device
            The device of the training.

        Raises
        ------
        InputError
            If there are fewer GPUs than processes.
        """

    def reports_error(self) -> bool:
        """Whether this process should print an error that ends all of them.

        Returns
        -------
        bool
            True on the first process that asks.
        """
        return True


class Joined(Ranks):
    """One of several processes, by the engine of torch: gloo, and NCCL for tensors on a GPU."""

    alone = False

    def __init__(self) -> None:
        import torch.distributed

        super().__init__()
        dist: Any = torch.distributed
        self._dist = dist
        with self._reaching("joining the others"):
            store, self.rank, self.world = next(iter(dist.rendezvous("env://")))
            # It outlives a restart: what earlier ranks have left there is not ours.
            self._store = dist.PrefixStore(f"rapidbm/{_attempt()}", store)
            gpu = torch.cuda.is_available() and dist.is_nccl_available()
            self._local = int(os.environ.get("LOCAL_RANK", "0"))
            if gpu and self._local < torch.cuda.device_count():
                torch.cuda.set_device(self._local)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if gpu else "gloo",
                store=self._store,
                rank=self.rank,
                world_size=self.world,
                timeout=SOON,
            )
            self._patient = dist.new_group(backend="gloo", timeout=LATE)

    def close(self) -> None:
        with suppress(Exception):  # the others may be gone
            self._dist.destroy_process_group()

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as error:
            if isinstance(error, InputError | LostRank | torch.OutOfMemoryError):
                raise
            words = re.sub(r"\[\S*\.cc:\d+\] ", "", " ".join(str(error).split())).partition(". ")[0][:160]
            raise LostRank(
                f"another rank was lost while rank {self.rank} of {self.world} was {doing} ({words})"
            ) from error

    def add(self, tensor: Tensor) -> Tensor:
        self.sent["sum"] += tensor.nbytes
        with self._reaching("summing"):
            self._dist.all_reduce(tensor)
        return tensor

    def all_true(self, true: bool) -> bool:
        wrong = torch.tensor([int(not true)])
        with self._reaching("waiting for all"):
            self._dist.all_reduce(wrong, group=self._patient)
        return not int(wrong)

    def all_equal(self, what: Callable[[], int]) -> bool:
        mine = what()
        return self.all_true(self.broadcast(lambda: mine) == mine)

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        mine = tensor.detach().cpu().contiguous()
        shapes = self._shapes(mine)
        with self._reaching("gathering"):
            if not self.first:
                self.sent["gather"] += mine.nbytes
                if mine.numel():
                    self._dist.send(_bytes(mine), 0, group=self._patient)
                return []
            found = [mine]
            for rank in range(1, self.world):
                found.append(torch.empty(shapes[rank], dtype=mine.dtype))
                if found[-1].numel():
                    self._dist.recv(_bytes(found[-1]), rank, group=self._patient)
        return found

    def _shapes(self, tensor: Tensor) -> list[list[int]]:
        """Of every rank's."""
        own = torch.full((self.world, 8), -1)
        own[self.rank, : tensor.dim()] = torch.tensor(tensor.shape)
        with self._reaching("gathering"):
            self._dist.all_reduce(own, op=self._dist.ReduceOp.MAX, group=self._patient)
        return [[size for size in row if size >= 0] for row in own.tolist()]

    def broadcast_tensors(self, tensors: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        given = {name: x.detach().cpu().contiguous() for name, x in (tensors or {}).items()}
        told: dict[str, Any] = self.broadcast(
            lambda: {name: [list(x.shape), str(x.dtype)] for name, x in given.items()}
        )
        found = {}
        for name, (shape, kind) in told.items():
            found[name] = (
                given[name]
                if self.first
                else torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")))
            )
            if found[name].numel():
                self._broadcast(_bytes(found[name]))
        return found

    def broadcast(self, what: Callable[[], T]) -> T:
        message: dict[str, Any] = {}
        error: Exception | None = None
        if self.first:
            try:
                message = {"value": what()}
            except Exception as raised:
                error, kind = raised, type(raised) if isinstance(raised, InputError) else Exception
                message = {"error": str(raised), "kind": kind.__name__}
        words = json.dumps(message).encode()
        start = torch.zeros(FIRST, dtype=torch.uint8)
        if self.first:
            whole = len(words).to_bytes(8, "little") + words
            start[: len(whole)] = torch.frombuffer(bytearray(whole[:FIRST]), dtype=torch.uint8)
        self._broadcast(start)
        length = int.from_bytes(bytes(start[:8].tolist()), "little")
        if length > FIRST - 8:
            rest = torch.frombuffer(bytearray(words.ljust(length)), dtype=torch.uint8)
            self._broadcast(rest)
            text = bytes(rest.numpy())
        else:
            text = bytes(start[8 : 8 + length].numpy())
        if error is not None:
            raise error
        said = json.loads(text)
        if "error" in said:
            if said["kind"] == "Exception":
                raise LostRank(f"the first rank failed: {said['error']}")
            raise {"TimeLimit": TimeLimit}.get(said["kind"], InputError)(said["error"])
        value: T = said["value"]
        return value

    def _broadcast(self, tensor: Tensor) -> None:
        self.sent["word"] += tensor.nbytes if self.first else 0
        with self._reaching("waiting for the first one"):
            self._dist.broadcast(tensor, 0, group=self._patient)

    def check_device(self, device: torch.device) -> None:
        here = torch.cuda.device_count() if device.type == "cuda" else math.inf
        if self._local >= here:
            raise InputError(
                f"every rank has a GPU of its own, and rank {self._local} of this computer finds {here}; "
                "start as many as there are GPUs, or give --device cpu"
            )

    def reports_error(self) -> bool:
        try:
            return int(self._store.add("error", 1)) == 1
        except RuntimeError:  # whoever kept the count is gone
            return True


class ThreadRanks:
    """Threads of one process that act as ranks, a `ThreadRank` each; their sums go on to the ranks."""

    def __init__(self, count: int, ranks: Ranks) -> None:
        self.ranks, self.meeting = ranks, threading.Barrier(count)
        self.brought: list[Tensor] = [torch.empty(0)] * count
        self.members = [ThreadRank(self, number) for number in range(count)]
        self.pool = ThreadPoolExecutor(count)

    def run(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """All of it at once, a thread each; of several errors the first that no other one led to."""
        self.meeting.reset()
        done = [self.pool.submit(self._work, each) for each in work]
        errors = [error for error in (each.exception() for each in done) if error is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, threading.BrokenBarrierError)):
            raise error
        return [each.result() for each in done]

    def _work(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except BaseException:
            self.meeting.abort()
            raise

    def add(self, number: int, tensor: Tensor) -> Tensor:
        self.brought[number] = tensor
        if self.meeting.wait() == 0:
            total = self.brought[0].clone()
            for other in self.brought[1:]:
                total += other
            self.total = self.ranks.add(total)
        self.meeting.wait()
        return tensor.copy_(self.total)


class ThreadRank(Ranks):
    """One thread of a thread_ranks."""

    alone = captures = False

    def __init__(self, thread_ranks: ThreadRanks, number: int) -> None:
        super().__init__()
        self.thread_ranks, self.number = thread_ranks, number

    def add(self, tensor: Tensor) -> Tensor:
        return self.thread_ranks.add(self.number, tensor)


_here = Ranks()


def current_ranks() -> Ranks:
    """The ranks that this process is one of."""
    return _here


def launched() -> bool:
    """Whether a launcher started this process as one of several."""
    return all(name in os.environ for name in LAUNCHED) and os.environ["WORLD_SIZE"] != "1"


def restarts() -> int:
    """How often torchrun would start the ranks again."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) if launched() else 0


def restarts_left() -> int:
    """How often it still would."""
    return restarts() - _attempt()


def restarted() -> bool:
    """Whether torchrun started the ranks again, after one was lost."""
    return launched() and _attempt() > 0


def _attempt() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@contextmanager
def in_ranks(force: bool = False) -> Iterator[Ranks]:
    """A context manager in which this process works with the others that its launcher started.

    Without a launcher the process is alone and everything works as usual.

    Parameters
    ----------
    force : bool, default False
        Set up communication even if this is the only process.

    Yields
    ------
    Ranks
        Rank, number of processes, and sums over them.

    Raises
    ------
    LostRank
        From an exchange inside the block, when another process has died.

    Examples
    --------
    >>> with rb.in_ranks() as ranks:
    ...     ranks.alone
    True
    """
    global _here  # noqa: PLW0603
    if not (launched() or force) or isinstance(_here, Joined):
        yield _here
        return
    joint = _here = Joined()
    try:
        yield joint
    finally:
        _here = Ranks()
        joint.close()


def _at_once(parts: Mapping[str, Tensor], add: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Tensors of one type, added side by side."""
    if len(parts) == 1:
        ((name, only),) = parts.items()
        return {name: add(only.contiguous())}
    flat = add(torch.cat([part.reshape(-1) for part in parts.values()]))
    pieces = torch.split(flat, [part.numel() for part in parts.values()])
    return {name: x.view(parts[name].shape) for name, x in zip(parts, pieces, strict=True)}


def _bytes(tensor: Tensor) -> Tensor:
    """The same memory."""
    return tensor.reshape(-1).view(torch.uint8)
