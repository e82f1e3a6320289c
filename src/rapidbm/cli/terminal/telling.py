"""Which evaluations of a training are worth a line.

    |value − last told| > max( 2 error, `SHARE` · span of all values so far, `LEAST` |value| )    (1)

or the value is no longer known, or known again. The first evaluation and the last one are always told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SHARE, LEAST = 0.2, 0.005
LEVEL = 20  # looks without a better likelihood of the validation part after which it has levelled off
ASIDE = ("epoch", "update", "seconds", "diverged")


class Telling:
    """Follows the evaluations of one training."""

    def __init__(self) -> None:
        self.told: float | None = None
        self.low, self.high = math.inf, -math.inf
        self.best, self.since, self.at, self.level = -math.inf, 0, 0, False
        self.begun = False

    def worth(self, record: Mapping[str, Any]) -> bool:
        """Eq. (1), of the validation part where there is one, averaged over replicas."""
        key = main_measure(record)
        if not key:
            return True
        value, error = _mean(record, key), _error(record, key)
        first, self.begun = not self.begun, True
        if value is None or self.told is None:
            news = first or (value is None) != (self.told is None)
        else:
            self.low, self.high = min(self.low, value), max(self.high, value)
            news = abs(value - self.told) > max(
                2.0 * error, SHARE * (self.high - self.low), LEAST * abs(value)
            )
        if news:
            self.told = value
            if value is not None:
                self.low, self.high = min(self.low, value), max(self.high, value)
        return news

    def levelled(self, record: Mapping[str, Any]) -> str:
        """Words, once, when the likelihood of the validation part gets no better."""
        key = main_measure(record)
        value = _mean(record, key) if key.startswith("log_") and key.endswith("_valid") else None
        if value is None:
            return ""
        if value > self.best + _error(record, key):
            self.best, self.since, self.at, self.level = value, 0, int(record["update"]), False
            return ""
        self.since += 1
        if self.since < LEVEL or self.level:
            return ""
        self.level = True
        return (
            f"levelled off: no better likelihood of the validation part than {self.best:.2f}, of update "
            f"{self.at:,}, in {self.since} looks"
        )


def main_measure(record: Mapping[str, Any]) -> str:
    """The first that is measured on a validation part, else the first of all; "" where there is none."""
    keys = [key for key in record if key not in ASIDE and "_error_" not in key]
    return next((key for key in keys if key.endswith("_valid")), keys[0] if keys else "")


def _mean(record: Mapping[str, Any], key: str) -> float | None:
    """Over the replicas of which it is known; a value whose error is not known is not."""
    name, _, part = key.rpartition("_")
    values = record[key]
    errors = record.get(f"{name}_error_{part}") or [0.0] * len(values)
    pairs = zip(values, errors, strict=True)
    known = [x for x, error in pairs if x is not None and error is not None]
    return sum(known) / len(known) if known else None


def _error(record: Mapping[str, Any], key: str) -> float:
    name, _, part = key.rpartition("_")
    known = [x for x in record.get(f"{name}_error_{part}") or () if x is not None]
    return max(known, default=0.0)
