"""Updates as CUDA graphs: the host describes an update once, and the GPU repeats it.

What changes from one update to the next lies in tensors that the graph reads; nothing in it asks the GPU
for an answer. A phase, projection or optimiser that keeps to this says `capturable = True`; ours do, but
for tempering and torch's optimisers. Such a phase is given the batch as bfloat16, in which ±1 is exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable

import torch


class Replay:
    """Runs work that is the same for equal keys; `rng` is where it draws its random numbers.

    The first time it runs as it is, so that kernels are compiled and libraries awake. The second time it
    is captured. The numbers drawn are the same either way.
    """

    def __init__(self, rng: torch.Generator) -> None:
        self.rng = rng
        self.graphs: dict[Hashable, torch.cuda.CUDAGraph | None] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.refused = False

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        if key not in self.graphs:
            self.graphs[key] = None
            work()
            return
        if self.refused:
            work()
            return
        with torch.cuda.device(self.rng.device):
            graph = self.graphs[key]
            if graph is None:
                graph = self.graphs[key] = self._captured(work)
            if graph is None:
                work()
            else:
                graph.replay()

    def _captured(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """The graph, or None where something in the work refuses to be captured."""
        try:
            return self._capture(work)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            self.refused = True
            warnings.warn(
                f"updates cannot be captured in a graph ({str(error)[:200]}); they are launched one by "
                "one, slower",
                RuntimeWarning,
                stacklevel=4,
            )
            return None

    def _capture(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.rng)
        # A stream of its own: torch's common one belongs to the GPU that first captured.
        stream = torch.cuda.Stream(self.rng.device)  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, pool=self.pool, stream=stream):
            work()
        return graph
