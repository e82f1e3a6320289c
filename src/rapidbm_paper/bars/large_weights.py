"""Dense machines that start from large weights: do they learn bars as fast as RAPID? (Sec. V.A.3)

Weights drawn from N(0, s²) put a machine of V visible units at an effective temperature T/s; patterns ±1
give couplings of s = 1. CD-10 and PCD-10 from several s, each at the paper's rate and at a larger one,
and exact gradients from s = 1, all with the usual Adam, whose clock counts updates. Seen: Hamming
distances on the way, Gibbs accessibility at the start and at the end. RAPID of the study "bars" stands
beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rapidbm.glass.accessibility import gibbs_accessibility
from rapidbm.pictures import PENS, Pen, label, panels

from .. import drawing
from ..claims import Finding, Number, claim
from ..drawing import Axes, Figure, curve, epochs_axis, item, points
from ..lab import Lab, Part, Settings, by_scale
from ..observables import SPLITS, distances
from ..records import Array, Record, Records, Values
from . import bars4 as bars
from .reconstruction import LEARNT
from .standard import dense_settings

# the standard deviation of the weights, by the name of the part
STARTS = {"hundredth": 0.01, "tenth": 0.1, "third": 0.3, "one": 1.0, "three": 3.0}
LOOK = dict(zip(STARTS, PENS[1:], strict=False))
SAMPLED = ("cd", "pcd")
# CD and PCD, each at two rates
ENDS = tuple(Pen(*look) for look in (("#000000", "-", "o"), ("#000000", "--", "s"),
                                     ("#CC79A7", "-", "^"), ("#CC79A7", "--", "v")))  # fmt: skip
AT_START = Pen("#8a8a8a", ":", "D")
MUCH = 0.5  # of the accessibility: much closer
LARGE = 0.3  # the smallest start that counts as large


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=1, quick=3, paper=20)  # of each rate
    exact_instances: int = by_scale(tiny=1, quick=1, paper=2)
    hidden: int = by_scale(tiny=20, quick=1000, paper=1000)
    epochs: int = by_scale(tiny=1, quick=60, paper=80)
    exact_epochs: int = by_scale(tiny=1, quick=3, paper=80)  # each update runs through all states
    particles: int = by_scale(tiny=4, quick=12, paper=256)
    rates: tuple[float, float] = (0.001, 0.01)
    tries: int = by_scale(tiny=2, quick=10, paper=100)


def _train(lab: Lab, scale: Scale, method: str, start: str) -> Values:
    each = scale.exact_instances if method == "exact" else scale.instances
    chosen: dict[str, Any] = {
        "hidden": (scale.hidden,),
        "epochs": scale.exact_epochs if method == "exact" else scale.epochs,
        "scale": STARTS[start],
        "replicas": 2 * each,
        "rate": tuple(rate for rate in scale.rates for _ in range(each)),  # side by side
    }
    if method == "pcd":
        chosen["particles"] = scale.particles
    recipe = lab.recipe("bars4", dense_settings(method, "update"), **chosen)
    found, run = lab.train(recipe, distances(scale.tries))
    first, last = lab.first(recipe, recipe.data()), lab.machine(run)
    found["gibbs_start"] = gibbs_accessibility(first, None, lab.rng("start"))
    found["gibbs_end"] = gibbs_accessibility(last, None, lab.rng("end"))
    found["rates"] = list(scale.rates)
    return found


PARTS = {
    **{f"{method}-{s}": Part(_train, (method, s)) for method in SAMPLED for s in STARTS},
    "exact-one": Part(_train, ("exact", "one")),
}


def of_rate(record: Record, key: str, rate: int) -> Array:
    """The columns that were trained with the paper's rate, 0, or with the larger one, 1."""
    rows = record.array(key)
    half = rows.shape[-1] // 2
    return rows[..., :half] if rate == 0 else rows[..., half:]


@item("Standard machines from large weights", ("large-start", "bars.rapid"))
def large_start(records: Records) -> Figure:
    """Dense machines on 4×4 bars from weights of different size, with the usual Adam. Left and middle:
    share of wrong pixels at the paper's rate, RAPID beside them. Right: the same at the end, for two
    rates, and how near Gibbs sampling comes to the ground state before and after training. Bands: one
    standard deviation, bars: standard errors."""
    fig, axes = panels(3, 2, height=2.4)
    for row, method in enumerate(SAMPLED):
        starts = ((start, f"start {STARTS[start]:g}", pen) for start, pen in LOOK.items())
        shown = [(f"large-start.{method}-{start}", words, pen) for start, words, pen in starts]
        if method == "pcd":
            shown.append(("large-start.exact-one", "exact gradient, start 1", PENS[7]))
        for column, part in enumerate(SPLITS):
            here = axes[3 * row + column]
            for name, words, pen in shown:
                if name in records:
                    rows = of_rate(records[name], f"hamming_{part}", 0)
                    curve(here, records[name]["epochs"], rows, pen, words)
            if "bars.rapid" in records:
                rapid = records["bars.rapid"]
                curve(here, rapid["epochs"], rapid.array(f"hamming_{part}"), PENS[0], "RAPID")
            here.set_ylim(bottom=0)
            which = "training" if part == "train" else "test"
            title = f"({'abcdef'[3 * row + column]}) {bars.METHODS[method]}, {which} set"
            epochs_axis(here, "Hamming distance", title)
    _draw_ends(axes[2], axes[5], records)
    drawing.legend_below(fig, axes[3], 7, columnspacing=1.0)
    return fig


def _draw_ends(distance: Axes, access: Axes, records: Records) -> None:
    """What is left at the end, and how near the ground state is, against the size of the start."""
    for i, method in enumerate(SAMPLED):
        name = bars.METHODS[method]
        keys = {size: f"large-start.{method}-{start}" for start, size in STARTS.items()}
        sizes = [size for size, key in keys.items() if key in records]
        found = [records[keys[size]] for size in sizes]
        if not found:
            continue
        for rate in (0, 1):
            ends = [Number.of(of_rate(record, "hamming_test", rate)[-1]) for record in found]
            words = f"{name}, rate {found[0]['rates'][rate]:g}"
            points(distance, sizes, ends, ENDS[2 * i + rate], words)
        if i == 0:
            starts = [Number.of(record.array("gibbs_start")) for record in found]
            points(access, sizes, starts, AT_START, "at the start")
        ends = [Number.of(of_rate(record, "gibbs_end", 0)) for record in found]
        points(access, sizes, ends, ENDS[2 * i], f"at the end, {name}")
    if "bars.rapid" in records:
        rapid = records["bars.rapid"]
        distance.axhline(rapid.array("hamming_test")[-1].mean(), color=PENS[0].colour, lw=0.9)
        access.axhline(rapid.array("gibbs")[0].mean(), color=PENS[0].colour, lw=0.9)
    for axes, y, title, top in (
        (distance, "Hamming distance, test set", "(c) at the end; line: RAPID", 0.62),
        (access, "Gibbs accessibility", "(f) line: RAPID at the start", 1.05),
    ):
        axes.set(xscale="log", ylim=(0, top))
        label(axes, "standard deviation of the start", y, title)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=6)


def settled(record: Record, rows: Array) -> float:
    """The epoch from which on the mean over instances stays below LEARNT; infinity if it does not."""
    above = np.nonzero(~(rows.mean(1) < LEARNT))[0]
    first = above[-1] + 1 if len(above) else 0
    return float(record["epochs"][first]) if first < len(rows) else math.inf


def _word(epoch: float) -> str:
    return "never" if math.isinf(epoch) else f"{epoch:.0f}"


_SAMPLED = tuple(f"large-start.{method}-{start}" for method in SAMPLED for start in STARTS)


@claim((*(f"large-start.cd-{start}" for start in STARTS), "bars.rapid"))
def large_start_is_accessible(records: Records) -> Finding:
    """Sec. V.A.3, Fig. 1: Larger weights make the starting points of standard models “much closer” to
    that of RA.
    Read as: Gibbs accessibility of dense weights of standard deviation 1 minus that of 0.01.
    Rule: Above {MUCH}, by 2 σ."""
    rapid = Number.of(records["bars.rapid"].array("gibbs")[0])
    found = {s: Number.of(records[f"large-start.cd-{s}"].array("gibbs_start")) for s in STARTS}
    gain = found["one"] - found["hundredth"]
    return Finding(
        gain.above(MUCH),
        "Gibbs accessibility at the start: "
        + ", ".join(f"{STARTS[start]:g}: {number}" for start, number in found.items())
        + f"; RA {rapid}",
    )


@claim((*_SAMPLED, "bars.rapid"))
def large_start_learns_as_fast(records: Records) -> Finding:
    """Sec. V.A.3: The results “need not imply” that RAPID learns in fewer epochs: standard models can
    start from larger weights.
    Read as: Epochs from which on the mean test distance of bars stays below {LEARNT}, for the best of
    the starts of {LARGE} or more. With the usual Adam.
    Rule: At most twice those of RAPID, and its last distance below {LEARNT}, by 2 σ."""
    # The best of the large starts, at either rate, against RAPID.
    rapid = settled(records["bars.rapid"], records["bars.rapid"].array("hamming_test"))
    told, best, end = [], math.inf, Number(math.nan, math.nan)
    for method in SAMPLED:
        for start, size in STARTS.items():
            record = records[f"large-start.{method}-{start}"]
            both = [of_rate(record, "hamming_test", rate) for rate in (0, 1)]
            epochs = [settled(record, rows) for rows in both]
            told.append(f"{bars.METHODS[method]} from {size:g} {' and '.join(map(_word, epochs))}")
            for rows, epoch in zip(both, epochs, strict=True):
                if size >= LARGE and epoch < best:
                    best, end = epoch, Number.of(rows[-1])
    holds = best <= 2 * rapid and end.below(LEARNT)
    return Finding(
        None if records["bars.rapid"].scale == "tiny" or math.isinf(rapid) else holds,
        f"epochs from which on the mean test distance is below {LEARNT}, at the paper's and the larger "
        f"rate: {', '.join(told)}; RAPID {_word(rapid)}; the fastest large start ends at {end}",
        "The paper leaves it open; the best is a choice of twelve, and epochs are those of the looks.",
    )
