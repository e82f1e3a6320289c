"""What a machine is, in a sentence that needs no theory; the numbers behind it are told beside it.

One sentence says what was learned, log p of rows that it was not trained on beside that of independent
columns, another what its states are like, in plain words for each verdict of `glass.verdict`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...errors import InputError
from ...glass import verdict
from ...runs.baseline import independent_columns
from .machines import Subject

ERRORS = 2.0  # of a difference that is one
LITTLE = 0.02  # nats
SENTENCES = {
    verdict.PARAMAGNET: "It moves freely, and soon forgets where it started: no state stands out.",
    verdict.ORDERED: "It remembers few states: wherever it starts, it ends in one of them.",
    verdict.GLASS: "It gets stuck: it has very many states, and each start ends in another one.",
    verdict.LOST: "It gets stuck: its patterns are lost among very many states that nobody meant.",
    verdict.CROWDED: "It keeps its patterns, among very many other states in which it gets stuck.",
    verdict.STEADY_MINIMA: "It has many states, as many as a larger machine, and stays where it starts.",
    verdict.CROSSED: "It has very many states, and moves between them without getting stuck.",
    verdict.ERGODIC: "It moves freely: it has many small valleys, and leaves each of them at once.",
}
UNDECIDED = "What its states are like cannot be told: a number is too near the limit of two answers."


def plain_verdict(words: str) -> str:
    """The sentence for a verdict."""
    return SENTENCES.get(words, UNDECIDED)


def learned(found: Subject) -> dict[str, Any]:
    """What the machine has learned, in a sentence, and the numbers that it stands on; nothing where its
    likelihood was not measured, or there is no run."""
    trained: Any = found.trained
    record = _best_record(trained) if trained.has_data and hasattr(trained, "metrics") else None
    if record is None:
        return {"sentence": "", "numbers": ""}
    measure, value, error = record
    try:
        data = trained.data().in_memory()
        recipe = replace(trained.recipe, biases=True, shards=1, shard_by="chains")
        alone = independent_columns(recipe, replace(data, valid=data.test))
    except (InputError, OSError, RuntimeError):
        return {"sentence": "", "numbers": ""}
    row, part = ("row", "columns") if found.shape[0] == 1 else ("image", "pixels")
    gain = value - alone.value
    margin = max(LITTLE, ERRORS * math.hypot(error, alone.error))
    if gain > margin:
        sentence = (
            f"It has learned how {part} go together: {row}s that it was not trained on are "
            f"{_factor(gain)} times as probable as by independent {part}."
        )
    elif gain < -margin:
        sentence = (
            f"It has not learned the data: {row}s that it was not trained on are less probable than by "
            f"independent {part}. Train it for longer, or take other settings."
        )
    else:
        sentence = (
            f"It has learned little: {row}s that it was not trained on are about as probable as by "
            f"independent {part}."
        )
    bound = " at least" if measure == "log_bound" else ""
    numbers = (
        f"Mean log p of test {row}s:{bound} {value:.2f} ± {error:.2f} nats; by independent {part} "
        f"{alone.value:.2f}."
    )
    return {"sentence": sentence, "numbers": numbers, "value": value, "independent": alone.value}


def _best_record(trained: Any) -> tuple[str, float, float] | None:
    """The likelihood of the test part where that of the validation part was best, else the last one: its
    name, mean over replicas, and error."""
    for measure in ("log_likelihood", "log_bound"):
        found = []
        for record in trained.metrics():
            value = _mean(record.get(f"{measure}_test"))
            if value is not None:
                judged = _mean(record.get(f"{measure}_valid"))
                found.append((judged, value, _mean(record.get(f"{measure}_error_test")) or 0.0))
        if found:
            known = [one for one in found if one[0] is not None]
            best = max(known, key=lambda one: one[0] or 0.0) if known else found[-1]
            return measure, best[1], best[2]
    return None


def _mean(values: Any) -> float | None:
    known = [x for x in values or [] if x is not None]
    return sum(known) / len(known) if known else None


def _factor(gain: float) -> str:
    """e^gain in words."""
    if gain < math.log(10.0):
        return f"{math.exp(gain):.1f}"
    if gain < math.log(10_000.0):
        return f"{math.exp(gain):,.0f}"
    return f"10^{gain / math.log(10.0):.0f}"
