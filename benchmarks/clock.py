"""Timing of alternatives against each other."""

import time
from collections.abc import Callable

PAUSE = 0.1  # seconds


def interleaved(actions: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median seconds of each action; rounds alternate, so that a busy machine slows all alike.

    A pause and an untimed run before each: threads that one library leaves spinning would slow the next,
    and memory that one touched is not in the caches of another.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            time.sleep(PAUSE)
            action()
            began = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - began)
    return {name: sorted(found)[len(found) // 2] for name, found in times.items()}
