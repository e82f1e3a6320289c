"""Who runs work that comes again and again, such as the updates of a training: the host, each time anew,
or a device that repeats what it was shown: a GPU a graph, a CPU a recording (`recording`).

What is repeated is described once and replayed. What changes from one update to the next lies in tensors
that it reads; nothing in it asks for an answer. A phase, projection, optimiser or path that keeps to
this says `capturable = True`; ours do, but for torch's optimisers and the crossing of two machines. On a
GPU such a phase is given the batch as bfloat16, in which ±1 is exact.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from .devices import lone_thread
from .moves import Rates
from .ranks import Ranks
from .recording import Recordings
from .rounding import Precision, check_precision, current, of_training, precision

Key = tuple[tuple[int, int, bool], ...]  # rows of each update in a graph, here and in all; if it projects
PAYS = 100  # calls from which on a graph is worth its capture
# Images × parameters, and parameters, below which one thread is as fast as two (decisions/threads.md).
LONE, LONE_PARAMETERS = 2**22, 2**18


@dataclass(frozen=True)
class Plan:
    """What one update needs from the host; a repeated one reads rates and share from tensors."""

    rows: Tensor  # (e, b, …): those of the data that each replica takes
    size: int  # how many there are, those that other processes take counted
    rates: Rates
    share: float | Tensor  # of the new parameters in their average
    project: bool


Update = Callable[[Plan], None]


def executor_for(
    device: torch.device,
    rngs: Sequence[torch.Generator],
    parameters: Iterable[Tensor],
    parts: Iterable[object],
    rounding: Precision | None = None,
    ranks: Ranks | None = None,
) -> Executor:
    """What repeats updates on this device where all their parts may be captured, else the host: also on
    the CPUs of several ranks, so that none waits for one that records."""
    ranks = ranks or Ranks()
    check_precision(rounding, device)
    rounding = of_training(rounding, device)
    if not ranks.captures or not all(getattr(part, "capturable", False) for part in parts):
        return Eager(rounding)
    if device.type == "cuda":
        return Graph(rngs, parameters, rounding, alone=ranks.alone)
    repeats = ranks.alone and device.type == "cpu"
    return RecordingExecutor(rngs, parameters, rounding) if repeats else Eager(rounding)


class Executor(ABC):
    """Runs updates; subclasses are final."""

    together = 1  # updates that are asked for at once, at most
    in_place = False  # whether chains have to stay in the memory where an update found them
    batch_dtype: torch.dtype | None = None  # in which phases get their batches; None: the machine's

    def __init__(self, rounding: Precision | None = None) -> None:
        self.rounding = rounding

    def rounded(self) -> AbstractContextManager[None]:
        return precision(self.rounding) if self.rounding else nullcontext()

    def beside(self) -> AbstractContextManager[object]:
        """Work in this block and what follows it do not wait for each other, up to `meet`."""
        return nullcontext()

    def meet(self) -> None:
        """From here on all work beside is done."""
        return

    @abstractmethod
    def run(self, plans: Sequence[Plan], update: Update) -> Iterator[int]:
        """Runs them, and says after each launch how many are done."""

    @abstractmethod
    def forget(self) -> None:
        """Tensors have moved: drops what knows their old place."""


class Eager(Executor):
    """The host launches every update."""

    def run(self, plans: Sequence[Plan], update: Update) -> Iterator[int]:
        with self.rounded():
            for plan in plans:
                update(plan)
                yield 1

    def forget(self) -> None:
        return


class Repeating(Executor):
    """Updates that are repeated: they read what changes from tensors that stay in place."""

    in_place = True
    replay: Graphs | Recordings

    def __init__(
        self,
        rngs: Sequence[torch.Generator],
        parameters: Iterable[Tensor],
        rounding: Precision | None = None,
        *,
        alone: bool = True,
    ) -> None:
        super().__init__(rounding)
        self.rngs, self.parameters, self.alone = rngs, tuple(parameters), alone
        self.inputs: dict[Key, Inputs] = {}
        self.forget()

    def launch(self, plans: Sequence[Plan], update: Update) -> None:
        """All of them as one piece of work."""
        key = tuple([(plan.rows.shape[1], plan.size, plan.project) for plan in plans])
        inputs = self.inputs.get(key)
        if inputs is None:
            inputs = self.inputs[key] = Inputs(plans)
        inputs.tell(plans)
        places = tuple([p.data_ptr() for p in self.parameters])
        with self.rounded():
            self.replay.run((key, places, current()), partial(inputs.work, update))


class Inputs:
    """What changes between updates, in tensors that stay; `plans` read them."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.rows = torch.cat([plan.rows for plan in plans], 1)
        self.told = [(*plan.rates, plan.share) for plan in plans]
        self.numbers = torch.tensor(self.told, dtype=torch.float64, device=self.rows.device)
        each = torch.split(self.rows, [plan.rows.shape[1] for plan in plans], 1)
        self.plans = [
            replace(plan, rows=rows, rates=row[:-1], share=row[-1])
            for plan, rows, row in zip(plans, each, self.numbers, strict=True)
        ]

    def tell(self, plans: Sequence[Plan]) -> None:
        """Takes those of other plans of the same shapes."""
        self.rows.copy_(plans[0].rows if len(plans) == 1 else torch.cat([plan.rows for plan in plans], 1))
        numbers = [(*plan.rates, plan.share) for plan in plans]
        if self.told != numbers:
            self.numbers.copy_(torch.tensor(numbers, dtype=torch.float64))
            self.told = numbers

    def work(self, update: Update) -> None:
        for plan in self.plans:
            update(plan)


class Graph(Repeating):
    """A GPU repeats updates that it was shown."""

    together = 16
    batch_dtype = torch.bfloat16  # ±1 is exact, and read faster than from one byte

    @cached_property
    def side(self) -> torch.cuda.Stream | None:
        """A second stream of work. Its kernels are small, and go first: the others wait for them."""
        device = self.rngs[0].device
        if device.type != "cuda":
            return None
        return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]

    def beside(self) -> AbstractContextManager[object]:
        if self.side is None:
            return nullcontext()
        self.side.wait_stream(torch.cuda.current_stream(self.side.device))
        return torch.cuda.stream(self.side)

    def meet(self) -> None:
        if self.side is not None:
            torch.cuda.current_stream(self.side.device).wait_stream(self.side)

    def run(self, plans: Sequence[Plan], update: Update) -> Iterator[int]:
        self.launch(plans, update)
        yield len(plans)

    def forget(self) -> None:
        self.inputs.clear()
        self.replay = Graphs(*self.rngs, alone=self.alone)


class RecordingExecutor(Repeating):
    """A CPU repeats an update that it was shown; where that cannot be, the host goes on as ever."""

    def run(self, plans: Sequence[Plan], update: Update) -> Iterator[int]:
        for plan in plans:
            with lone_thread() if self.small(plan) else nullcontext():
                self.launch((plan,), update)
            yield 1

    def small(self, plan: Plan) -> bool:
        """Whether threads would cost more than they do."""
        count = sum([p.numel() for p in self.parameters])
        return count < LONE_PARAMETERS and plan.rows.shape[1] * count < LONE

    def forget(self) -> None:
        self.inputs.clear()
        self.replay = Recordings(*self.rngs)


def repeated(work: Callable[..., None], rng: torch.Generator, times: int) -> Callable[..., None]:
    """The work, which is called so often with other numbers; on a GPU as a graph where that pays."""
    return Repeated(work, rng) if rng.device.type == "cuda" and times >= PAYS else work


class Repeated:
    """Work of some numbers that a GPU repeats: it reads them from tensors () in float64."""

    def __init__(self, work: Callable[..., None], rng: torch.Generator) -> None:
        self.work, self.rng, self.graphs = work, rng, Graphs(rng)
        self.places: tuple[Tensor, ...] = ()

    def __call__(self, *numbers: float) -> None:
        if not self.places:
            here = torch.empty(len(numbers), dtype=torch.float64, device=self.rng.device)
            self.places = here.unbind()
        for place, number in zip(self.places, numbers, strict=True):
            place.fill_(number)  # unlike a copy from the host, this waits for nothing
        self.graphs.run(current(), partial(self.work, *self.places))


class Graphs:
    """CUDA graphs of work that is the same for equal keys; it draws its random numbers from `rngs`.

    The first time it runs as it is, so that kernels are compiled and libraries awake. The second time it
    is captured. The numbers drawn are the same either way. Work that is not `alone` exchanges tensors
    with other processes, and a thread of NCCL's watches over that while it is captured.
    """

    def __init__(self, *rngs: torch.Generator, alone: bool = True) -> None:
        self.rngs, self.mode = rngs, "global" if alone else "thread_local"
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.refused = False

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        first = key not in self.graphs
        graph = self.graphs.setdefault(key, None)
        if first or self.refused:
            return work()
        with torch.cuda.device(self.rngs[0].device):
            if graph is None:
                graph = self.graphs[key] = self._captured(work)
            return work() if graph is None else graph.replay()

    def _captured(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """The graph, or None where something in the work refuses to be captured."""
        drawn = [rng.get_state() for rng in self.rngs]
        try:
            return self._capture(work)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.refused = True
            for rng, state in zip(self.rngs, drawn, strict=True):
                rng.set_state(state)  # what it drew on the way was for nothing
            warnings.warn(
                f"this work cannot be captured in a graph ({str(error)[:200]}); it is launched step by "
                "step, slower",
                RuntimeWarning,
                stacklevel=4,
            )
            return None

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for rng in self.rngs:
            graph.register_generator_state(rng)
        # A stream of its own: torch's common one belongs to the GPU that first captured.
        stream = torch.cuda.Stream(self.rngs[0].device)  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode=self.mode):
            work()
        # Before it captures, torch resets the seed and offset that the graph reads, on that stream. On a
        # busy GPU this came after the replay had set them: the graph drew other random numbers.
        torch.cuda.current_stream(self.rngs[0].device).wait_stream(stream)
        return graph
