"""When something happens that happens now and then in a training: looks, and checkpoints."""

from __future__ import annotations

import math

from ..errors import InputError
from ..training.trainer import Progress

SPACINGS = ("log", "epoch", "end")


def spacing_of(what: str, spacing: str) -> str | int:
    """`log`, `epoch`, `end`, or a number of updates."""
    if spacing in SPACINGS:
        return spacing
    if spacing.isdecimal() and int(spacing) > 0:
        return int(spacing)
    raise InputError(
        f"the {what} spacing is {', '.join(SPACINGS)} or a number of updates, not {spacing!r}"
    )


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
