"""Settings drawn from ranges, in place of a grid: the [search] of a study.

    [search]
    samples = 40                      # rows of the table
    scheduler = "asha"                # stops poor ones early; on Ray
    [search.over]
    rate = { low = 1e-4, high = 1e-2, log = true }
    hidden = { low = 32, high = 256 }
    patterns = [8, 16, "dense"]       # one of these

Row i is drawn by the stream ("search", i) of the study's seed, so that more samples leave those before as
they are. Other algorithms than `random`, and schedulers, are those of Ray Tune.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import InputError, check_choice, check_count, is_number, is_whole
from ..random import stream
from ..schema import Anything, Flag, Names, OneOf, Real, Text, Whole

RANDOM, NONE = "random", "none"
SCHEDULERS = {"asha": "async_hyperband", "hyperband": "hyperband", "median": "median_stopping_rule"}
SEARCH = Names(
    {"samples": Whole(1, 10_000), "over": Names({}, others=Anything())},
    {
        "algorithm": Text(100),
        "scheduler": OneOf((NONE, *SCHEDULERS)),
        "grace": Whole(1),
        "reduction": Real(1.5),
    },
)
RANGE = Names({"low": Real(), "high": Real()}, {"log": Flag()})


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, whole ones if both are; evenly spread, or their logarithms are."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise InputError(
                f"a range goes from low to a higher high, above 0 where it is of logarithms, not from "
                f"{self.low!r} to {self.high!r}"
            )

    @property
    def whole(self) -> bool:
        return is_whole(self.low) and is_whole(self.high)

    def at(self, share: float) -> float:
        """The value at a share of the range, in [0, 1)."""
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        return int(value) if self.whole else value


@dataclass(frozen=True)
class Search:
    """What a study draws its rows from, and how."""

    samples: int
    over: Mapping[str, Range | tuple[Any, ...]]
    algorithm: str = RANDOM
    scheduler: str = NONE
    grace: int | None = None  # updates before a scheduler stops anything; None: a tenth of all
    reduction: float = 3.0  # of those that are left, at each of its rungs one in so many goes on

    def __post_init__(self) -> None:
        check_count("the number of samples", self.samples)
        check_choice("scheduler", self.scheduler, (NONE, *SCHEDULERS))
        if not self.over:
            raise InputError("a search needs something to vary; write [search.over]")

    @property
    def judges(self) -> bool:
        """Whether what a row comes to decides what is trained next, so that each row goes by itself."""
        return self.scheduler != NONE or self.algorithm != RANDOM

    def drawn(self, seed: int) -> Iterator[dict[str, Any]]:
        """The rows, by chance."""
        for number in range(self.samples):
            rng = stream(seed, "search", number)
            shares = torch.rand(len(self.over), generator=rng, dtype=torch.float64).tolist()
            yield {
                name: part.at(x) if isinstance(part, Range) else part[int(x * len(part))]
                for (name, part), x in zip(self.over.items(), shares, strict=True)
            }


def range_of(name: str, given: Any) -> Range | None:
    """A range as a study has it; None for a list."""
    if not isinstance(given, Mapping):
        return None
    RANGE.checked(given, f"[search.over] {name} is no range:", "write { low = 1e-4, high = 1e-2 }")
    if not (is_number(given["low"]) and is_number(given["high"])):
        raise InputError(f"the range of {name} is of numbers, not {given!r}")
    return Range(given["low"], given["high"], given.get("log", False))
