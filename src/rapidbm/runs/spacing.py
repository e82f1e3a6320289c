"""When something happens that happens now and then in a training: looks, checkpoints, the end.

A training of a given time has as many epochs as fit into it at the speed since it was last planned,

    epochs = (update + left · updates / second) / updates per epoch                       (1)

planned when the `PLANS` of its time, or of its updates so far planned, are over: early, so that the fall
of the rate hardly notices.
"""

from __future__ import annotations

import math
import re

from ..errors import InputError
from ..training.loop import Progress

SPACINGS = ("log", "epoch", "end")
PLANS = (0.02, 0.1, 0.3, 0.6, 0.8)  # shares of a budget
KEPT = 0.97  # of it is planned: the last look and the last save take their time
OPEN = 1_000_000  # epochs of a training that is planned later
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def spacing_of(what: str, spacing: str) -> str | int:
    """`log`, `epoch`, `end`, or a number of updates."""
    if spacing in SPACINGS:
        return spacing
    if spacing.isdecimal() and int(spacing) > 0:
        return int(spacing)
    raise InputError(
        f"the {what} spacing is {', '.join(SPACINGS)} or a number of updates, not {spacing!r}"
    )


def seconds_of(budget: str) -> float:
    """`90s`, `5m`, `1.5h` or a number of seconds, in seconds."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)([smh]?)", str(budget), re.ASCII)
    seconds = float(match[1]) * UNITS[match[2] or "s"] if match else 0.0
    if not 1.0 <= seconds <= 1e8:
        raise InputError(
            f"a budget is a time from a second on, such as 90s, 5m or 1h, not {budget!r}; give one"
        )
    return seconds


def epochs_within(left: float, update: int, per_epoch: int, speed: float) -> int:
    """Eq. (1), at `speed` updates a second; at least to the end of the epoch that has begun."""
    return max(update // per_epoch + 1, int((update + max(left, 0.0) * speed) / per_epoch))


def due(spacing: str, progress: Progress, *, by_epoch: bool = False) -> bool:
    """Whether something that happens at this spacing happens now; always at both ends."""
    chosen, update = spacing_of("", spacing), progress.update
    if update in (0, progress.updates):
        return True
    if chosen == "epoch":
        return progress.epoch_end
    if isinstance(chosen, int):
        return update % chosen == 0
    if chosen == "log" and by_epoch:
        return progress.epoch_end and on_log_grid(progress.epoch)
    return bool(chosen == "log" and update & (update - 1) == 0)  # powers of two


def on_log_grid(epoch: int) -> bool:
    """Epochs 1 to 10, then thirteen per decade."""
    decade = int(10 ** math.floor(math.log10(epoch)))
    return epoch % max(1, decade // 2) == 0 if epoch < 5 * decade else epoch % decade == 0
