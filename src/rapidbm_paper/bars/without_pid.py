"""What Regularized Axons give without PID, and PID without better samples, on 4×4 bars.

The same couplings, J = (1/√K) Σ_k ξ_k ξ_k, are trained with four negative phases: the patterns themselves
(PID), CD-10, PCD-10 and the exact average; and once more from small continuous patterns, ξ = ±0.1 with
Adam and no projection. Seen on the way: reconstruction, accessibility, and the exact mean
log-likelihood (nats per image), which a uniform distribution over 2^V images puts at

    ⟨log p⟩ = −V log 2                                                                    (1)

Dense machines, trained by the study "bars", stand beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rapidbm.pictures import PENS, panels

from ..claims import Finding, Number, all_of, any_of, claim, rank_correlation
from ..drawing import Figure, epochs_axis, item, legend_below, points
from ..lab import Lab, Settings, by_scale, each
from ..observables import SPLITS, accessibilities, distances, likelihoods
from ..records import Array, Record, Records, Values
from . import bars4 as bars
from .reconstruction import LEARNT
from .variants import few

NAMES = {
    "pid": "PID",
    "cd": "CD-10",
    "pcd": "PCD-10",
    "exact": "exact",
    "small-pcd": "small start, PCD-10",
    "small-exact": "small start, exact",
}
LOOK = dict(zip(NAMES, PENS, strict=False))
VERY_GOOD = 0.8  # a rank correlation
UNIFORM = -16 * math.log(2)  # eq. (1)


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=2, quick=12, paper=25)
    # each update runs through all states
    exact_instances: int = by_scale(tiny=1, quick=2, paper=10)
    hidden: int = by_scale(tiny=30, quick=200, paper=1000)
    patterns: int = 8
    # of patterns ±1; what moves ξ_v grows with the hidden layer
    rate: float = by_scale(tiny=0.05, quick=0.05, paper=0.02)
    small_rate: float = by_scale(tiny=0.005, quick=0.005, paper=0.002)  # of Adam
    epochs: int = by_scale(tiny=1, quick=50, paper=300)
    particles: int = by_scale(tiny=10, quick=64, paper=512)
    tries: int = by_scale(tiny=2, quick=20, paper=100)  # reconstructions of each image


def _train(lab: Lab, scale: Scale, name: str) -> Values:
    negative = name.removeprefix("small-")
    exact = negative == "exact"
    chosen: dict[str, Any] = {
        "hidden": (scale.hidden,),
        "patterns": scale.patterns,
        "replicas": scale.exact_instances if exact else scale.instances,
        "epochs": scale.epochs,
        "negative": negative,
        "rate": (scale.rate,),
    }
    if negative in ("cd", "pcd"):
        chosen["sweeps"] = 10
    if negative == "pcd":
        chosen["particles"] = scale.particles
    if name != negative:
        chosen |= {
            "scale": 0.1,
            "projection": "none",
            "batch_mean": "true",
            "optimizer": "adam",
            "rate": (scale.small_rate,),
        }
    recipe = lab.recipe("bars4", "paper-bars", **chosen)
    seen = {**distances(scale.tries), **accessibilities(method=False), **likelihoods(*SPLITS)}
    return lab.train(recipe, seen, at=few)[0]


PARTS = each(_train, NAMES)


@item("What RA gives and what PID gives", ("ra-alone", "bars"))
def ra_alone(records: Records) -> Figure:
    """Machines with Regularized Axons trained on 4×4 bars with four negative phases, and from small
    patterns (±0.1, with the usual Adam, the true batch mean and no projection): share of wrong pixels
    in completed images of (a) the training and (b) the test set; grey: dense machines with the released
    program's Adam, dashed as the same negative phase. (c) Exact mean negative log-likelihood per
    training image: machines that complete images well may give them a lower probability than chance.
    Error bars: standard errors."""
    fig, (train, test, likelihood) = panels(3, height=2.6)
    for name, pen in LOOK.items():
        record = records.get(f"ra-alone.{name}")
        if record is None:
            continue
        for axes, key, sign in (
            (train, "hamming_train", 1),
            (test, "hamming_test", 1),
            (likelihood, "likelihood_train", -1),
        ):
            means = Number.each(sign * record.array(key))
            points(axes, record["epochs"], means, pen, NAMES[name])
    for name in bars.METHODS:
        record = records.get(f"bars.{bars.RELEASED[name]}")
        if record is not None:
            for axes, part in ((train, "train"), (test, "test")):
                mean = record.array(f"hamming_{part}").mean(1)
                pen = LOOK[name]
                axes.plot(record["epochs"], mean, color="0.6", lw=0.8, ls=pen.dash, zorder=0)
    likelihood.axhline(-UNIFORM, color="0.4", lw=0.8)
    beside = likelihood.get_yaxis_transform()
    likelihood.text(0.98, -1.05 * UNIFORM, "uniform", transform=beside, ha="right", fontsize=7)
    likelihood.set_yscale("log")
    for axes in (train, test):
        axes.set_ylim(bottom=0)
    epochs_axis(train, "Hamming distance", "(a) training set")
    epochs_axis(test, "Hamming distance", "(b) test set")
    epochs_axis(likelihood, "−log-likelihood [nats]", "(c) training set, exact")
    legend_below(fig, train, 6)
    return fig


def _last(records: Records, name: str, key: str) -> Number:
    return Number.of(records[f"ra-alone.{name}"].array(key)[-1])


def follows(record: Record) -> Number:
    """Rank correlation of distance and negative log-likelihood of the training set along a training,
    over its instances."""
    rows = slice(0, bars.paper_end(record) + 1)
    both = zip(
        record.array("hamming_train")[rows].T, record.array("likelihood_train")[rows].T, strict=True
    )
    return Number.of([rank_correlation(distance, -likelihood) for distance, likelihood in both])


def between(records: Records) -> Number:
    """The same from training to training, at their ends; the error by a bootstrap over instances."""
    ends = [
        np.stack([records[name].array(key)[-1] for key in ("hamming_train", "likelihood_train")])
        for name in _ALL
    ]
    rng = np.random.default_rng(0)

    def once(rows: list[Array]) -> float:
        distance, likelihood = np.array([each.mean(1) for each in rows]).T
        return rank_correlation(distance, -likelihood)

    draws = [
        once([each[:, rng.integers(0, each.shape[1], each.shape[1])] for each in ends])
        for _ in range(200)
    ]
    return Number(once(ends), float(np.std(draws, ddof=1)))


_ALL = tuple(f"ra-alone.{name}" for name in NAMES)


@claim(_ALL)
def ra_and_pid_are_independent(records: Records) -> Finding:
    """Sec. III.B: RA and PID are independent: “it is possible to replace PID with other techniques”.
    Read as: Machines with patterns ±1 on 4×4 bars, trained with CD-10, PCD-10 or the exact average in
    place of PID.
    Rule: One of them at least ends with both distances below {LEARNT}, by 2 σ."""
    answers, told = [], []
    for name, words in NAMES.items():
        pair = [_last(records, name, f"hamming_{part}") for part in SPLITS]
        told.append(f"{words} {pair[0]} / {pair[1]} ({pair[0].count} instances)")
        if name in ("cd", "pcd", "exact"):
            answers.append(all_of(*(number.below(LEARNT) for number in pair)))
    return Finding(
        None if records["ra-alone.pid"].scale == "tiny" else any_of(*answers),
        f"distances at the end, training / test: {'; '.join(told)}",
    )


@claim((*_ALL, *bars.PAPERS[1:]), one_recipe=True)
def distance_tells_quality(records: Records) -> Finding:
    """Sec. V.A.3: For simple data the Hamming distance is “a very good assessment of the quality of
    training”, though the NLL is what is optimised.
    Read as: As a training of the paper goes on (RAPID; dense, CD-10, PCD-10 and exact, Adam as
    released) distance and exact NLL of the training set fall together.
    Rule: Rank correlation along the course above {VERY_GOOD} in each, a mean over instances, by 2 σ."""
    told = ", ".join(
        f"{words} {_last(records, n, 'likelihood_train')} at {_last(records, n, 'hamming_train')}"
        for n, words in NAMES.items()
    )
    papers = {"RAPID": follows(records["ra-alone.pid"])}
    papers |= {
        f"dense, {words}": follows(records[f"bars.{bars.RELEASED[method]}"])
        for method, words in bars.METHODS.items()
    }
    others = {f"RA, {NAMES[n]}": follows(records[f"ra-alone.{n}"]) for n in NAMES if n != "pid"}
    along = ", ".join(f"{words} {number}" for words, number in (papers | others).items())
    return Finding(
        None
        if records["ra-alone.pid"].scale == "tiny"
        else all_of(*(number.above(VERY_GOOD) for number in papers.values())),
        f"rank correlation of distance and negative log-likelihood along the training: {along}; at the "
        f"end, from one of the six RA trainings to another, {between(records)}: exact mean "
        f"log-likelihood of the training set (nats per image; uniform {UNIFORM:.1f}) at its distance: "
        f"{told}",
        "Machines with patterns ±1 complete images well and give them less probability than chance.",
    )
