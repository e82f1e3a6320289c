"""When something happens that happens now and then in a training: looks, checkpoints, the end.

A training of a given time has as many epochs as fit into it at the speed since it was last planned,

    epochs = (update + left · updates / second) / updates per epoch                       (1)

planned when the `PLANS` of its time, or of its updates so far planned, are over: early, so that the fall
of the rate hardly notices. A training may be made longer than it was meant to be.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from ..errors import InputError, check_choice
from ..training.loop import Progress

if TYPE_CHECKING:
    from .recipe import Recipe

SPACINGS = ("log", "epoch", "end")
PLANS = (0.02, 0.1, 0.3, 0.6, 0.8)  # shares of a budget
FASTER = 0.8  # of the last of these: with more time than that left after them all, it is planned again
WARM_UP = 50  # updates before speed is believed: the first ones are slower
KEPT = 0.97  # of what is left beside the last look is planned: the last save takes its time
LEAST_LAST = 0.08  # of it, at least, where that look anneals: what is returned hangs on it
LAST_LOOK = 0.35  # of it, at most, is kept for that, and
DEARER = 1.5  # times what the longest look so far took
LONGEST_LOOK = 0.2  # of it, at most, goes into a look before the last one
OVER = 0.05, 1.0  # of it, and seconds: the larger one is left to a look that comes when it is used up
OPEN = 1_000_000  # epochs of a training that is planned later
PROLONG = ("again", "stretch")  # what a rate that falls to zero does in added epochs
Longer = tuple[dict[str, Any], str | None, str]  # what changes, what the rate does, and words about it
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


def reserved(whole: float, looking: float, *, annealed: bool = False) -> float:
    """Seconds of a budget for the last look, which may cost more than others, where the longest one so
    far took so many, and log Z may have to be annealed for it."""
    least = LEAST_LAST * whole if annealed else 0.0
    return min(max(DEARER * looking, least), LAST_LOOK * whole)


def limit_of_look(budget: str | None, wall: float, *, last: bool) -> float | None:
    """Seconds that a look may take after `wall` seconds of a training with a budget; None without one."""
    if budget is None:
        return None
    whole = seconds_of(budget)
    left = whole - wall if last else min(LONGEST_LOOK * whole, whole - wall)
    return max(left, OVER[0] * whole, OVER[1])


def epochs_within(left: float, update: int, per_epoch: int, speed: float) -> int:
    """Eq. (1), at `speed` updates a second; at least to the end of the epoch that has begun."""
    return max(update // per_epoch + 1, int((update + max(left, 0.0) * speed) / per_epoch))


def planned(
    plan: dict[str, Any],
    budget: str,
    wall: float,
    started: tuple[float, int],
    now: Progress,
    looking: float = 0.0,
    *,
    annealed: bool = False,
) -> int | None:
    """The epochs that fit into a budget, eq. (1), when it is time to plan, and notes them in the plan.

    `wall` are the seconds that are over, and at `started` this process began: then, and at which update;
    the longest look so far took `looking` seconds, and the last one may have to anneal.
    """
    made, (since, update) = plan.setdefault("made", []), started
    whole, wall, since = (x - plan["wall"] for x in (seconds_of(budget), wall, since))
    if now.update <= update:
        return None
    gone = max(wall / whole, now.update / now.updates)
    early = now.update < WARM_UP and wall < PLANS[1] * whole
    # All plans may have been made while it was slow, as where the first looks took their time.
    over = len(made) >= len(PLANS) and wall > FASTER * PLANS[-1] * whole
    if early or over or gone < PLANS[min(len(made), len(PLANS) - 1)]:
        return None
    if made and made[-1]["wall"] > since:
        since, update = made[-1]["wall"], made[-1]["update"]
    speed = (now.update - update) / (wall - since)
    per_epoch = now.trainer.per_epoch
    left = KEPT * (whole - reserved(whole, looking, annealed=annealed)) - wall
    epochs = int(min(epochs_within(left, now.update, per_epoch, speed), plan["most"]))
    mark = {"update": now.update, "wall": round(wall, 3), "epochs": epochs}
    made += [mark] * max(1, bisect_right(PLANS, gone) - len(made))
    return epochs


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


def longer(folder: str, recipe: Recipe, epochs: int | None, rate: str | None) -> Longer:
    """A recipe with more epochs."""
    planned, falls = recipe.epochs, recipe.fall != "none"
    if epochs is None or epochs <= planned:
        raise InputError(
            f"{folder} was planned for {planned} epochs and can only be made longer, not "
            f"{epochs}; leave --epochs out or train anew"
        )
    if rate is not None:
        check_choice("way to prolong a rate", rate, PROLONG)
        if not falls:
            raise InputError(
                f"the rate of {folder} does not fall to zero and goes on as it is, so that "
                f"--prolong {rate} has no effect; leave it out"
            )
    change: dict[str, Any] = {"epochs": epochs, "budget": None}
    told = f"prolonged from {planned} to {epochs} epochs; the rate "
    if not falls:
        told += "goes on as it would have"
    elif rate == "stretch":
        told += f"is from here on that of a fall over all {epochs} epochs"
    else:
        change["falls"] = [*recipe.falls, planned]
        told += f"falls to zero again, from the full one, over epochs {planned} to {epochs}"
    return change, (rate or "again") if falls else None, told


def longer_time(folder: str, recipe: Recipe, wall: float, budget: str, rate: str | None) -> Longer:
    """The same by a larger budget; what was planned is done first."""
    planned, before = recipe.epochs, recipe.budget
    if seconds_of(budget) <= max(wall, 0.0 if before is None else seconds_of(before)):
        raise InputError(
            f"{folder} has had {wall:.0f} s of a budget of {before or 'its epochs'}, which can "
            f"only be made larger, not {budget}; leave --budget out or train anew"
        )
    if rate is not None:
        raise InputError(f"--prolong {rate} goes with --epochs, not with --budget; leave it out")
    change: dict[str, Any] = {"epochs": max(OPEN, 2 * planned), "budget": budget}
    if planned >= OPEN:  # nothing is planned yet
        change["epochs"] = planned
    elif recipe.fall != "none":
        change["falls"] = [*recipe.falls, planned]
    then = "; the rate then falls again, from the full one" if "falls" in change else ""
    told = f"prolonged to {budget}, as many epochs as fit, after those planned{then}"
    return change, "again" if "falls" in change else None, told
