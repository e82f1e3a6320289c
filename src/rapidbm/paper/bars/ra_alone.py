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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..courses import Look, accessibilities, course, hamming, likelihoods, recipe_for
from ..drawing import PENS, epochs_axis, panels, points, sizes_of
from ..study import (
    Array,
    Bench,
    Claim,
    Finding,
    Item,
    Number,
    Part,
    Record,
    Records,
    Values,
    all_of,
    any_of,
)
from ..theory.landscape_report import rank_correlation
from . import trainings as bars
from .fig3 import LEARNT
from .two_sets import few

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@dataclass(frozen=True)
class Config:
    instances: int
    exact_instances: int  # each update runs through all states
    hidden: int
    patterns: int
    rate: float  # of patterns ±1; what moves ξ_v grows with the hidden layer
    small_rate: float  # of Adam
    epochs: int
    particles: int
    tries: int  # reconstructions of each image


SCALES = {
    "tiny": Config(
        instances=2,
        exact_instances=1,
        hidden=30,
        patterns=8,
        rate=0.05,
        small_rate=0.005,
        epochs=1,
        particles=10,
        tries=2,
    ),
    "quick": Config(
        instances=12,
        exact_instances=2,
        hidden=200,
        patterns=8,
        rate=0.05,
        small_rate=0.005,
        epochs=50,
        particles=64,
        tries=20,
    ),
    "paper": Config(
        instances=25,
        exact_instances=10,
        hidden=1000,
        patterns=8,
        rate=0.02,
        small_rate=0.002,
        epochs=300,
        particles=512,
        tries=100,
    ),
}


def _train(bench: Bench, config: Config, name: str) -> Values:
    negative = name.removeprefix("small-")
    exact = negative == "exact"
    chosen: dict[str, Any] = {
        "hidden": (config.hidden,),
        "patterns": config.patterns,
        "replicas": config.exact_instances if exact else config.instances,
        "epochs": config.epochs,
        "negative": negative,
        "rate": (config.rate,),
    }
    if negative in ("cd", "pcd"):
        chosen["sweeps"] = 10
    if negative == "pcd":
        chosen["particles"] = config.particles
    if name != negative:
        chosen |= {
            "scale": 0.1,
            "projection": "none",
            "batch_mean": "true",
            "optimizer": "adam",
            "rate": (config.small_rate,),
        }
    recipe = recipe_for(bench, "bars4", "paper-bars", **chosen)
    looks: dict[str, Look] = {
        "hamming_train": hamming("train", config.tries),
        "hamming_test": hamming("test", config.tries),
        **accessibilities(method=False),
        "likelihood": likelihoods,
    }
    found, _ = course(bench, recipe, looks, at=few)
    both = torch.tensor(found.pop("likelihood"), dtype=torch.float64)  # (t, 2, e)
    return found | {"likelihood_train": both[:, 0], "likelihood_test": both[:, 1]}


def parts(config: Config) -> dict[str, Part]:
    def one(name: str) -> Part:
        return Part(lambda bench: _train(bench, config, name))

    return {name: one(name) for name in NAMES}


# -- figure -------------------------------------------------------------------------------------------


def _draw(records: Records) -> Figure:
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
            means = [Number.of(sign * values) for values in record.array(key)]
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
    handles, labels = train.get_legend_handles_labels()
    if handles:
        fig.legend(handles, labels, loc="outside lower center", ncols=6)
    return fig


def _caption(records: Records) -> str:
    return (
        "Machines with Regularized Axons trained on 4×4 bars with four negative phases, and from "
        "small patterns (±0.1, with the usual Adam, the true batch mean and no projection): share of "
        "wrong pixels in completed images of (a) the training and (b) the test set; grey: dense "
        "machines with the released program's Adam, dashed as the same negative phase. (c) Exact mean "
        "negative log-likelihood per training image: machines that complete images well may give them "
        f"a lower probability than chance. Error bars: standard errors. {sizes_of(records)}"
    )


ITEMS = {
    "ra-alone": Item("What RA gives and what PID gives", ("ra-alone", "bars"), _draw, _caption)
}


# -- claims -------------------------------------------------------------------------------------------


def _last(records: Records, name: str, key: str) -> Number:
    return Number.of(records[f"ra-alone.{name}"].array(key)[-1])


def _independent(records: Records) -> Finding:
    answers, told = [], []
    for name, words in NAMES.items():
        pair = [_last(records, name, f"hamming_{part}") for part in ("train", "test")]
        told.append(f"{words} {pair[0]} / {pair[1]} ({pair[0].count} instances)")
        if name in ("cd", "pcd", "exact"):
            answers.append(all_of(*(number.below(LEARNT) for number in pair)))
    return Finding(
        None if records["ra-alone.pid"].scale == "tiny" else any_of(*answers),
        f"distances at the end, training / test: {'; '.join(told)}",
    )


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


def _distance_is_quality(records: Records) -> Finding:
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


_ALL = tuple(f"ra-alone.{name}" for name in NAMES)
CLAIMS = (
    Claim(
        "ra-and-pid-are-independent",
        "Sec. III.B",
        "RA and PID are independent: “it is possible to replace PID with other techniques”.",
        "Machines with patterns ±1 on 4×4 bars, trained with CD-10, PCD-10 or the exact average in "
        "place of PID.",
        f"One of them at least ends with both distances below {LEARNT}, by 2 σ.",
        _ALL,
        _independent,
    ),
    Claim(
        "distance-tells-quality",
        "Sec. V.A.3",
        "For simple data the Hamming distance is “a very good assessment of the quality of training”, "
        "though the NLL is what is optimised.",
        "As a training of the paper goes on (RAPID; dense, CD-10, PCD-10 and exact, Adam as released) "
        "distance and exact NLL of the training set fall together.",
        f"Rank correlation along the course above {VERY_GOOD} in each, a mean over instances, by 2 σ.",
        (*_ALL, *bars.PAPERS[1:]),
        _distance_is_quality,
        one_recipe=True,
    ),
)
