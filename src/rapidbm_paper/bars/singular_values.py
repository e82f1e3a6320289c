"""Fig. 4: singular values of the weights after training on 4×4 bars, all methods."""

from __future__ import annotations

import numpy as np

from rapidbm.pictures import label, panels

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, curve, item
from ..records import Array, Record, Records
from . import bars4 as bars

SHARE = 0.9  # of Σs² that the large singular values carry together


def _trained(records: Records) -> list[tuple[str, str, Record]]:
    """Part, words and record of each training that is there."""
    pairs = ((name, words, f"bars.{name}") for name, words in bars.NAMES.items())
    return [(name, words, records[key]) for name, words, key in pairs if key in records]


def _shares(values: Array) -> Array:
    """The share of Σs² that the largest singular values (e, r) carry together."""
    found: Array = np.cumsum(values**2, 1) / np.sum(values**2, 1, keepdims=True)
    return found


@item("Singular values of trained weights", ("bars",))
def fig4(records: Records) -> Figure:
    """(a) Singular values of the weights after training on 4×4 bars; thin dotted lines: before
    training. RA machines have no more than K of them. (b) The share of their squares that the largest
    ones carry; the grey line marks four. {bars.ADAMS} Bands: one standard deviation over instances."""
    fig, (left, right) = panels(2)
    for name, words, record in _trained(records):
        pen = bars.LOOK[name]
        values, start = (
            record.array("singular"),
            record.array("start_singular").mean(0),
        )  # (e, r), (r,)
        rank = np.arange(1, values.shape[1] + 1)
        curve(left, rank, values.T, pen, words)
        left.plot(np.arange(1, len(start) + 1), start, ":", color=pen.colour, linewidth=0.7)
        curve(right, rank, _shares(values).T, pen, words)
    top = max(np.max(r.array("singular")) for r in records.values())
    left.set(yscale="log", ylim=(1e-4 * top, 3 * top))  # below it: patterns that have become equal
    right.axvline(4, color="0.6", linewidth=0.7)
    right.set_ylim(0, 1.03)
    label(left, "rank", "singular value", "(a)")
    label(right, "rank", "cumulative share of Σs²", "(b)")
    right.legend(loc="lower right")
    return fig


def large(values: Array) -> Array:
    """How many singular values carry 90 % of Σs² in each instance, (e,)."""
    found: Array = 1.0 + (_shares(values) < SHARE).sum(1)
    return found


def gap(values: Array) -> Array:
    """After which singular value the largest drop (by a factor) comes, (e,)."""
    kept = np.maximum(values, 1e-6 * values[:, :1])
    found: Array = 1.0 + np.argmax(kept[:, :-1] / kept[:, 1:], axis=1)
    return found


@claim(bars.PAPERS, bars.BESIDE)
def few_singular_values(records: Records) -> Finding:
    """Sec. V.A.4, Fig. 4: Whatever the training method, if the RBM learns the data “there is a small
    number of relevant singular values”.
    Read as: How many carry {SHARE:.0%} of the sum of squares, after as many epochs as released. Adam as
    released.
    Rule: At most half of those that there can be, by 2 σ, for RAPID and each standard method."""
    told, answers = [], []
    for name, words, record in _trained(records):
        before, after = (Number.of(large(record.array(k))) for k in ("start_singular", "singular"))
        told.append(f"{words} {before} → {after}")
        if f"bars.{name}" in bars.PAPERS:
            limit = 0.5 * min(16, record.array("singular").shape[1])
            answers.append(after.below(limit) if after.error else after.value <= limit)
    return Finding(
        all_of(*answers),
        f"singular values s that carry {SHARE:.0%} of Σs², before → after: {'; '.join(told)}",
    )


@claim(bars.PAPERS, bars.BESIDE, full=True)
def four_singular_values(records: Records) -> Finding:
    """Sec. V.A.4, Fig. 4: “Clearly, in all cases, four large singular values stand out.”
    Read as: The largest drop, as a ratio of neighbours, comes after the fourth. Adam as released.
    Rule: In more than half of the instances of each method, by 2 σ."""
    told, answers = [], []
    for name, words, record in _trained(records):
        at = gap(record.array("singular"))
        share = Number.of(at == 4)
        told.append(f"{words} {share} (median {np.median(at):.0f})")
        if f"bars.{name}" in bars.PAPERS:
            answers.append(share.above(0.5) if share.error else share.value > 0.5)
    return Finding(
        all_of(*answers),
        f"share of instances whose largest drop comes after the fourth: {'; '.join(told)}",
    )
