"""Timing of alternatives against each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

PAUSE = 0.1  # seconds
MOST_CALLS = 1000  # in one measurement
WARM_UP = 3  # calls: the first compiles, the second may capture a graph
CPU = torch.device("cpu")
Action = Callable[[], object]
Timer = Callable[[], float]  # seconds since some moment


@dataclass(frozen=True)
class Times:
    """Seconds of one call, a value per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.seconds, (0.25, 0.75))
        return float(low), float(high)

    def per(self, count: int) -> Times:
        """Of one of `count` like parts of the call."""
        return Times(tuple(s / count for s in self.seconds))

    def as_dict(self) -> dict[str, Any]:
        return {"seconds": self.median, "quartiles": list(self.quartiles)}


def interleaved(
    actions: Mapping[str, Action],
    rounds: int,
    *,
    pause: float = PAUSE,
    least: float = 0.0,
    device: torch.device = CPU,
    timer: Timer | None = None,
    warm: bool = True,
) -> dict[str, Times]:
    """Times of each action; rounds alternate, so that a busy machine slows all alike.

    A pause before each, and untimed calls for twice as long: threads that one library leaves spinning
    would slow the next, memory that one touched is not in the caches of another, and a processor that
    slept is slow at first. A measurement takes as many calls as fill `least` seconds. On a CPU `timer`
    may replace the wall clock. `warm=False` leaves out the untimed calls, all but the first: a process
    that an action starts is as cold each time.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    calls = {}
    for name, action in actions.items():
        for _ in range(WARM_UP if warm else 0):
            action()
        once = seconds(action, 1, device, timer)
        calls[name] = max(1, min(MOST_CALLS, math.ceil(least / once) if once else MOST_CALLS))
    for _ in range(rounds):
        for name, action in actions.items():
            time.sleep(pause)
            began = time.perf_counter()
            if warm:
                seconds(action, 1, device)
            while warm and time.perf_counter() < began + 2 * pause:
                seconds(action, 1, device)  # one at a time: calls must not pile up on a GPU
            times[name].append(seconds(action, calls[name], device, timer) / calls[name])
    return {name: Times(tuple(found)) for name, found in times.items()}


def seconds(action: Action, calls: int, device: torch.device, timer: Timer | None = None) -> float:
    """How long the calls take, until a GPU has done its part; on a CPU by `timer`, or the wall clock."""
    if device.type == "cuda":
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize(device)
        start.record()
        for _ in range(calls):
            action()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3
    now = timer or time.perf_counter
    began = now()
    for _ in range(calls):
        action()
    return now() - began
