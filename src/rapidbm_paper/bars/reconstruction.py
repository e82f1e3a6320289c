"""Fig. 3: Hamming distance of reconstructions during training on 4×4 bars, training and test set."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..claims import Finding, Number, all_of, claim, crossing
from ..drawing import Figure, item
from ..observables import SPLITS
from ..records import Array, Record, Records
from . import bars4 as bars

ORDER = 10.0  # times fewer: the least that an order of magnitude may mean
# distances: of a set that is learnt, between two that go together, and half-way from guessing, 0.5
LEARNT, APART, HALF = 0.1, 0.05, 0.25


_COMPLETED = (
    f"set of 4×4 bars are completed from their first line. {bars.ADAMS} Bands: one standard deviation "
    "over instances."
)


@item("Reconstruction of the training set", ("bars",))
def fig3a(records: Records) -> Figure:
    """Share of wrong pixels when images of the training {_COMPLETED}"""
    return bars.figure(records, "hamming_train", "Hamming distance, training set")


@item("Reconstruction of the test set", ("bars",))
def fig3b(records: Records) -> Figure:
    """Share of wrong pixels when images of the test {_COMPLETED}"""
    return bars.figure(records, "hamming_test", "Hamming distance, test set")


def crossings(record: Record, key: str, limit: float) -> Array:
    """The epoch at which the mean over all instances crosses the limit, then that of 200 bootstrap draws
    of them; infinity for never."""
    epochs, rows = record["epochs"], record.array(key)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, rows.shape[1], (200, rows.shape[1]))
    means = [rows.mean(1), *(rows[:, some].mean(1) for some in draws)]
    found = [crossing(epochs, mean, limit) for mean in means]
    return np.array([math.inf if epoch is None else epoch for epoch in found])


def _with_true_mean(records: Records) -> str:
    """The same with the true mean of the smaller last batch, if that was measured."""
    other = records.get("readings.bars-visible-true")
    if other is None:
        return ""
    train, test = (Number.of(other.array(f"hamming_{part}")[-1]) for part in SPLITS)
    return f". With the true mean of the smaller last batch: {train} and {test}"


def _epochs(record: Record, found: Array) -> str:
    if math.isinf(found[0]):
        return f"not in {record['epochs'][-1]}"
    if len(record.array("hamming_test")[0]) < 2 or np.isinf(found[1:]).any():
        return f"{found[0]:.0f}"
    return f"{found[0]:.1f} ± {found[1:].std(ddof=1):.1f}"


def _share(answers: NDArray[np.bool_], epochs: list[Array]) -> bool | None:
    """What 97.5 % of the bootstrap draws answer; nothing where one of them never got there."""
    if not np.isfinite(epochs).all():
        return None
    share = float(answers[1:].mean())
    return True if share >= 0.975 else (False if share <= 0.025 else None)


@claim(("bars.rapid",), ("readings.bars-visible-true",))
def train_and_test_together(records: Records) -> Finding:
    """Sec. V.A.3, Fig. 3: With RAPID there is “almost no difference between the performance on
    memorization and generalization”.
    Read as: The distances of training and test set at the end, and their difference, there and on
    average.
    Rule: Both below half the start, the differences within {APART}, by 2 σ."""
    rapid = records["bars.rapid"]
    train, test = (rapid.array(f"hamming_{part}") for part in SPLITS)
    last = [Number.of(rows[-1]) for rows in (train, test)]
    gap, along = Number.of(test[-1] - train[-1]), Number.of((test - train).mean(0))
    start = test[0].mean()
    return Finding(
        all_of(*(n.below(start / 2) for n in last), *(n.within(APART) for n in (gap, along))),
        f"after {rapid['epochs'][-1]} epochs {last[0]} (training) and {last[1]} (test), test minus "
        f"training {gap}, on average over the course {along}; at the start {start:.3f}"
        f"{_with_true_mean(records)}",
    )


@claim(bars.PAPERS, bars.BESIDE, full=True, one_recipe=True)
def fewer_epochs(records: Records) -> Finding:
    """Sec. VI: The epochs that it takes to reconstruct bars not trained on “can be orders of magnitude
    smaller” than with standard RBMs.
    Read as: Epochs until the mean test distance is below {LEARNT}, RAPID against the fastest of CD-10,
    PCD-10 and the exact gradient. Adam as released.
    Rule: At least {ORDER:g} times fewer, one order, in 97.5 % of the bootstrap draws over instances."""
    names = [name for name in bars.NAMES if f"bars.{name}" in records]
    found = {n: crossings(records[f"bars.{n}"], "hamming_test", LEARNT) for n in names}
    told = ", ".join(f"{bars.NAMES[n]} {_epochs(records[f'bars.{n}'], x)}" for n, x in found.items())
    ratios = []
    for words, parts in (("released", bars.RELEASED), ("usual", bars.USUAL)):
        several = [part for part in parts.values() if part in found]
        if not several:
            continue
        # One that never gets there needs at least as many epochs as it had.
        ends = [np.minimum(found[n], records[f"bars.{n}"]["epochs"][-1]) for n in several]
        ratio = np.min(ends, 0) / found["rapid"]  # (1 + draws,)
        low, high = np.quantile(ratio[1:], (0.025, 0.975))
        bounded = all(math.isinf(found[n][0]) for n in several)
        holds = True if low >= ORDER else (False if high < ORDER and not bounded else None)
        times = f"{'at least ' if bounded else ''}{ratio[0]:.1f} times as many as RAPID"
        ratios.append((holds, f"{times} with the {words} Adam (95 %: {low:.1f} to {high:.1f})"))
    return Finding(
        None if math.isinf(found["rapid"][0]) else ratios[0][0],
        f"epochs until the mean test distance is below {LEARNT}: {told}; the fastest of the others takes "
        f"{', '.join(words for _, words in ratios)}",
    )


@claim(bars.PAPERS[1:], bars.BESIDE, full=True)
def memorise_alike_generalise_faster(records: Records) -> Finding:
    """Sec. V.A.3, Fig. 3: The methods for standard RBMs “lead to very similar memorization”, while
    generalization is “faster with improved approximations of the negative phase”.
    Read as: Epochs until the mean distance is below {HALF}. Similar on the training set: within a
    factor of two. Faster on the test set: CD-10 last, then PCD-10, the exact gradient first. Adam as
    released.
    Rule: Both, in 97.5 % of the bootstrap draws over instances."""
    # CD < PCD < exact in the quality of the negative phase.
    told, ends, answers = [], [], []
    for parts in (bars.RELEASED, bars.USUAL):
        several = {n: records[f"bars.{n}"] for n in parts.values() if f"bars.{n}" in records}
        if len(several) < len(parts):
            continue
        train, test = (
            [crossings(record, f"hamming_{part}", HALF) for record in several.values()] for part in SPLITS
        )
        for (name, record), a, b in zip(several.items(), train, test, strict=True):
            words, last = bars.NAMES[name], bars.paper_end(record)
            told.append(f"{words} {_epochs(record, a)} (training), {_epochs(record, b)} (test)")
            pair = (Number.of(record.array(f"hamming_{part}")[last]) for part in SPLITS)
            ends.append(f"{words} {' and '.join(map(str, pair))}")
        alike = _share(np.max(train, 0) <= 2 * np.min(train, 0), train)
        faster = _share((test[0] >= test[1]) & (test[1] >= test[2]), test)
        answers.append(all_of(alike, faster))
    last = bars.paper_end(records[bars.PAPERS[1]])
    return Finding(
        answers[0],
        f"epochs until the mean distance is below {HALF}: {'; '.join(told)}; distances after "
        f"{records[bars.PAPERS[1]]['epochs'][last]} epochs: {'; '.join(ends)}",
    )
