"""Fig. 3: Hamming distance of reconstructions during training on 4×4 bars, training and test set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from . import bars
from .bench import Claim, Finding, Item, Number, Record, Records, all_of
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


def first_below(record: Record, key: str, limit: float = LEARNT) -> float:
    """The first epoch after which the mean over instances lies below the limit; infinity if none."""
    mean = record.array(key).mean(1)
    below = np.nonzero(mean < limit)[0]
    return float(record["epochs"][below[0]]) if len(below) else math.inf


def _together(records: Records) -> Finding:
    rapid = records["bars.rapid"]
    last = {part: Number.of(rapid.array(f"hamming_{part}")[-1]) for part in PART}
    gap = Number.of(rapid.array("hamming_test")[-1] - rapid.array("hamming_train")[-1])
    start = rapid.array("hamming_test")[0].mean()
    return Finding(
        all_of(
            last["test"].below(start / 2), last["train"].below(start / 2), gap.below(LEARNT / 2)
        ),
        f"after {rapid['epochs'][-1]} epochs {last['train']} (training) and {last['test']} (test), "
        f"difference {gap}; at the start {start:.3f}{_with_true_mean(records)}",
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
    first = {n: first_below(records[f"bars.{n}"], "hamming_test") for n in names}
    told = ", ".join(
        f"{bars.NAMES[n]} {_epochs(records[f'bars.{n}'], e)}" for n, e in first.items()
    )
    # One that never gets there needs at least as many epochs as it had.
    others = min(
        records[f"bars.{n}"]["epochs"][-1] if math.isinf(first[n]) else first[n]
        for n in names
        if n != "rapid"
    )
    never = all(math.isinf(first[n]) for n in names if n != "rapid")
    holds: bool | None = others >= 10 * first["rapid"]
    if math.isinf(first["rapid"]) or (not holds and never):
        holds = None
    return Finding(
        holds,
        f"epochs until the mean test distance is below {LEARNT}: {told}",
        "Orders of magnitude: at least ten times fewer.",
    )


def _epochs(record: Record, value: float) -> str:
    return f"not in {record['epochs'][-1]}" if math.isinf(value) else f"{value:.0f}"


def _better_phase(records: Records) -> Finding:
    """CD < PCD < exact in the quality of the negative phase."""
    names = ("cd", "pcd", "exact")
    several = [records[f"bars.{n}"] for n in names]
    train = [first_below(record, "hamming_train", HALF) for record in several]
    test = [first_below(record, "hamming_test", HALF) for record in several]
    told = "; ".join(
        f"{bars.NAMES[n]} {_epochs(record, a)} (training), {_epochs(record, b)} (test)"
        for n, record, a, b in zip(names, several, train, test, strict=True)
    )
    alike = None if math.isinf(max(train)) else max(train) <= 2 * min(train)
    faster = None if math.isinf(max(test)) else test[0] >= test[1] >= test[2] and test[0] > test[2]
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
    ),
    Claim(
        "memorise-alike-generalise-faster",
        "Sec. V.A.3, Fig. 3",
        "Standard machines memorise alike whatever the negative phase, and generalise the sooner the "
        "better it is (CD, PCD, exact).",
        _ALL[1:],
        _better_phase,
    ),
)
