"""How the rate of learning changes along a training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError, check_choice, check_count, is_number, is_whole

FALLS = ("none", "linear", "cosine")


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes: decay per epoch, then a fall to zero over the whole training.

    Parameters
    ----------
    decay : float, default 1.0
        Factor on the rate after each epoch, in (0, 1].
    after : int, default 0
        Last epoch with the full rate.
    floor : float, default 0.0
        The decay ends at this rate.
    fall : {"none", "linear", "cosine"}, default "none"
        Fall to zero over the training.
    ends : tuple of int, default ()
        Epochs at which earlier falls ended, of a training that was prolonged: each fall starts again
        from the full rate.
    changes : tuple of (int, float), default ()
        Update (from 0) and the rate that all replicas have since then, of a rate set by hand.

    Raises
    ------
    InputError
        If a number is out of range or `ends` do not rise.

    Examples
    --------
    >>> rb.Schedule(decay=0.5, after=1).rate(0.1, epoch=3, fraction=0.0)
    0.025
    """

    decay: float = 1.0
    after: int = 0
    floor: float = 0.0
    fall: Literal["none", "linear", "cosine"] = "none"
    ends: tuple[int, ...] = ()
    changes: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        rising = isinstance(self.ends, tuple) and all(map(is_whole, self.ends))
        if (
            not rising
            or any(b <= a for a, b in zip((0, *self.ends), self.ends, strict=False))
            or (self.ends and self.fall == "none")
        ):
            raise InputError(
                f"the ends of earlier falls of the rate are rising epochs from 1 on, of a rate that "
                f"falls, not {self.ends} with fall {self.fall!r}; leave them out"
            )
        check_choice("fall of the rate", self.fall, FALLS)
        if not (is_number(self.decay) and 0 < self.decay <= 1):
            raise InputError(f"the rate's decay per epoch is in (0, 1], not {self.decay!r}")
        check_count("the epoch after which the rate decays", self.after, least=0)
        if not (is_number(self.floor) and self.floor >= 0):
            raise InputError(f"the floor of the rate is at least 0, not {self.floor!r}")
        self._check_changes()

    def _check_changes(self) -> None:
        pairs = isinstance(self.changes, tuple) and all(
            isinstance(pair, tuple) and len(pair) == 2 and all(map(is_number, pair))
            for pair in self.changes
        )
        when = [pair[0] for pair in self.changes] if pairs else []
        if (
            not pairs
            or any(x < 0 or x != int(x) for x in when)
            or when != sorted(when)
            or any(rate <= 0 for _, rate in self.changes)
        ):
            raise InputError(
                "changes of the rate are pairs of an update, in their order, and the rate above 0 since "
                f"then, not {self.changes!r}; leave them out"
            )

    def starts(self, given: tuple[float, ...], update: int) -> tuple[float, ...]:
        """The rates before decay and fall.

        Parameters
        ----------
        given : tuple of float
            Rates of the optimiser, one per replica.
        update : int
            Number of the update, from 0.

        Returns
        -------
        tuple of float
            These rates, or the one that was set since.
        """
        since = [rate for when, rate in self.changes if when <= update]
        return (since[-1],) * len(given) if since else given

    def fraction(self, update: int, per_epoch: int, epochs: int) -> float:
        """How much of the current fall is done.

        Parameters
        ----------
        update : int
            Number of the update, from 0.
        per_epoch : int
            Updates per epoch.
        epochs : int
            Epochs of the whole training.

        Returns
        -------
        float
            From 0 to 1; 0 without a fall.
        """
        if self.fall == "none":
            return 0.0
        ends = [end * per_epoch for end in (*self.ends, epochs)]
        start = max((end for end in ends if end <= update), default=0)
        end = min((end for end in ends if end > update), default=update + 1)
        return (update - start) / (end - start)

    def rate(self, start: float, epoch: int, fraction: float) -> float:
        """The rate of one update.

        Parameters
        ----------
        start : float
            Rate before decay and fall.
        epoch : int
            Number of the epoch, from 0.
        fraction : float
            How much of the fall is done.

        Returns
        -------
        float
            The learning rate.
        """
        decayed = start * self.decay ** max(0, epoch - self.after)
        rate = max(decayed, min(self.floor, start))
        if self.fall == "linear":
            rate *= 1.0 - fraction
        elif self.fall == "cosine":
            rate *= 0.5 * (1.0 + math.cos(math.pi * fraction))
        return rate
