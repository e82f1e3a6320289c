"""Fig. 3: Hamming distance of reconstructions during training on 4×4 bars, training and test set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import bars
from .bench import Array, Claim, Finding, Item, Number, Record, Records, all_of
from .drawing import curve, epochs_axis, panels, sizes_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PART = {"train": "training", "test": "test"}
LEARNT, HALF = 0.1, 0.25  # distances: a set that is learnt, and one half-way from guessing, 0.5


def _draw(records: Records, part: str) -> Figure:
    fig, (axes,) = panels()
    for name, pen in bars.LOOK.items():
        record = records.get(f"bars.{name}")
        if record is not None:
            curve(axes, record["epochs"], record.array(f"hamming_{part}"), pen, bars.NAMES[name])
    axes.set_ylim(bottom=0)
    epochs_axis(axes, f"Hamming distance, {PART[part]} set")
    axes.legend()
    return fig


def _caption(records: Records, part: str) -> str:
    return (
        f"Share of wrong pixels when images of the {PART[part]} set of 4×4 bars are completed from "
        f"their first line. Bands: one standard deviation over instances. {sizes_of(records)}"
    )


def _item(part: str) -> Item:
    return Item(
        f"Reconstruction of the {PART[part]} set",
        ("bars",),
        lambda records: _draw(records, part),
        lambda records: _caption(records, part),
    )


ITEMS = {"fig3a": _item("train"), "fig3b": _item("test")}


# -- claims -------------------------------------------------------------------------------------------


def first_below(epochs: Sequence[float], mean: Array, limit: float = LEARNT) -> float:
    """The epoch at which the mean distance crosses the limit, by a straight line between two looks;
    infinity if it never does."""
    below = np.nonzero(mean < limit)[0]
    if not len(below):
        return math.inf
    i = int(below[0])
    if i == 0:
        return float(epochs[0])
    share = (mean[i - 1] - limit) / (mean[i - 1] - mean[i])
    return float(epochs[i - 1] + share * (epochs[i] - epochs[i - 1]))


def crossings(record: Record, key: str, limit: float) -> Array:
    """`first_below` of the mean over all instances, then of 200 bootstrap draws of them."""
    rows = record.array(key)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, rows.shape[1], (200, rows.shape[1]))
    found = [first_below(record["epochs"], rows.mean(1), limit)]
    found += [first_below(record["epochs"], rows[:, some].mean(1), limit) for some in draws]
    return np.array(found)


def _together(records: Records) -> Finding:
    rapid = records["bars.rapid"]
    train, test = (rapid.array(f"hamming_{part}") for part in PART)
    last = [Number.of(rows[-1]) for rows in (train, test)]
    gap, along = Number.of(test[-1] - train[-1]), Number.of((test - train).mean(0))
    start = test[0].mean()
    return Finding(
        all_of(*(n.below(start / 2) for n in last), *(n.within(LEARNT / 2) for n in (gap, along))),
        f"after {rapid['epochs'][-1]} epochs {last[0]} (training) and {last[1]} (test), test minus "
        f"training {gap}, on average over the course {along}; at the start {start:.3f}"
        f"{_with_true_mean(records)}",
        f"Together: both fall to half or less, and differ by less than {LEARNT / 2}.",
    )


def _with_true_mean(records: Records) -> str:
    """The same with the true mean of the smaller last batch, if that was measured."""
    other = records.get("readings.bars-visible-true")
    if other is None:
        return ""
    train, test = (Number.of(other.array(f"hamming_{part}")[-1]) for part in PART)
    return f". With the true mean of the smaller last batch: {train} and {test}"


def _faster(records: Records) -> Finding:
    names = [name for name in bars.NAMES if f"bars.{name}" in records]
    found = {n: crossings(records[f"bars.{n}"], "hamming_test", LEARNT) for n in names}
    told = ", ".join(
        f"{bars.NAMES[n]} {_epochs(records[f'bars.{n}'], x)}" for n, x in found.items()
    )
    # One that never gets there needs at least as many epochs as it had.
    ends = {n: float(records[f"bars.{n}"]["epochs"][-1]) for n in names}
    others = [np.minimum(found[n], ends[n]) for n in names if n != "rapid"]
    ratio = np.min(others, 0) / found["rapid"]  # (1 + draws,)
    low, high = np.quantile(ratio[1:], (0.025, 0.975))
    bounded = all(math.isinf(found[n][0]) for n in names if n != "rapid")
    holds = True if low >= 10 else (False if high < 10 and not bounded else None)
    return Finding(
        None if math.isinf(found["rapid"][0]) else holds,
        f"epochs until the mean test distance is below {LEARNT}: {told}; the fastest of the others takes "
        f"{'at least ' if bounded else ''}{ratio[0]:.1f} times as many as RAPID (95 %: {low:.1f} to "
        f"{high:.1f})",
        "Orders of magnitude: at least ten times fewer.",
    )


def _epochs(record: Record, found: Array) -> str:
    if math.isinf(found[0]):
        return f"not in {record['epochs'][-1]}"
    if len(record.array("hamming_test")[0]) < 2 or np.isinf(found[1:]).any():
        return f"{found[0]:.0f}"
    return f"{found[0]:.1f} ± {found[1:].std(ddof=1):.1f}"


def _better_phase(records: Records) -> Finding:
    """CD < PCD < exact in the quality of the negative phase."""
    names = ("cd", "pcd", "exact")
    several = [records[f"bars.{n}"] for n in names]
    train = [crossings(record, "hamming_train", HALF) for record in several]
    test = [crossings(record, "hamming_test", HALF) for record in several]
    told = "; ".join(
        f"{bars.NAMES[n]} {_epochs(record, a)} (training), {_epochs(record, b)} (test)"
        for n, record, a, b in zip(names, several, train, test, strict=True)
    )
    alike = _share(np.max(train, 0) <= 2 * np.min(train, 0), train)
    order = (test[0] >= test[1]) & (test[1] >= test[2])
    faster = _share(order, test)
    ends = "; ".join(
        f"{bars.NAMES[n]} {Number.of(record.array('hamming_train')[-1])} and "
        f"{Number.of(record.array('hamming_test')[-1])}"
        for n, record in zip(names, several, strict=True)
    )
    return Finding(
        all_of(alike, faster),
        f"epochs until the mean distance is below {HALF}: {told}; at the end: {ends}",
        "Alike: within a factor of two. Faster: CD last, the exact gradient first.",
    )


def _share(answers: NDArray[np.bool_], epochs: list[Array]) -> bool | None:
    """What 97.5 % of the bootstrap draws answer; nothing where one of them never got there."""
    if not np.isfinite(epochs).all():
        return None
    share = float(answers[1:].mean())
    return True if share >= 0.975 else (False if share <= 0.025 else None)


_ALL = tuple(f"bars.{name}" for name in bars.NAMES)
CLAIMS = (
    Claim(
        "train-and-test-together",
        "Sec. V.A.3, Fig. 3",
        "With RAPID the distances of the training and of the test set of bars fall together.",
        ("bars.rapid",),
        _together,
        ("readings.bars-visible-true",),
    ),
    Claim(
        "fewer-epochs",
        "Sec. VI",
        "RAPID completes unseen bars after orders of magnitude fewer epochs than the standard methods.",
        _ALL,
        _faster,
        full=True,
    ),
    Claim(
        "memorise-alike-generalise-faster",
        "Sec. V.A.3, Fig. 3",
        "Standard machines memorise alike whatever the negative phase, and generalise the sooner the "
        "better it is (CD, PCD, exact).",
        _ALL[1:],
        _better_phase,
        full=True,
    ),
)
