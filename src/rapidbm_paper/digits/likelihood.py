"""Fig. 6: RAPID on MNIST: negative log-likelihood during training, the zoom, and samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, curve, epochs_axis, item, tiles
from ..records import Array, Record, Records, unpack
from . import mnist

FOUR = 3.5  # orders of magnitude: what rounds to four
TOGETHER = 0.05  # a share of the NLL by which training and test set may differ
TABLE = 106.0  # nats: the highest NLL in table 3 of Uria et al. (2016), from 86 on
LOW = 0.1  # of the lowest energy
SETS = (("train", PENS[0], "training set"), ("test", PENS[1], "test set"))


def _curves(records: Records, *, zoom: bool) -> Figure:
    fig, (axes,) = panels()
    record = records["mnist.rapid"]
    epochs = np.array(record["epochs"], dtype=float)
    late = epochs >= 0.5 * epochs[-1] if zoom else epochs >= 0
    for part, pen, words in SETS:
        curve(axes, epochs[late], record.array(f"nll_{part}")[late], pen, words, floor=None)
    if zoom:
        label(axes, "epoch", "NLL (nats per image)")
    else:
        epochs_axis(axes, "NLL (nats per image)", yscale="log")
    axes.legend()
    return fig


def _zoomed(words: str) -> Callable[[Records], str]:
    """The caption of the whole course or of its end."""

    def text(records: Records) -> str:
        record, told = records["mnist.rapid"], ""
        if "final_test" in record.values:
            forward, back = Number.each(record.array("final_test"))
            told = (
                f" The claims take the end annealed both ways over {record['temperatures']:,} "
                "temperatures, the middle of each machine's interval and all training images: test NLL "
                f"{Number.of(last(record, 'test'))} (forward {forward}, back {back})."
            )
        return (
            "Negative log-likelihood per image by annealing forward, which is optimistic, over "
            f"{record.settings['steps']:,} temperatures, of the test set and of the first 10,000 "
            f"training images, {words}; bands: one standard deviation over instances. "
            f"{_splits(record)}{told}"
        )

    return text


def _splits(record: Record) -> str:
    if record.settings["dataset"] != "mnist" or record.settings["train"] is not None:
        return "The test set are the images after those of the training set."
    return (
        "As in the released program, training takes the first 57,000 of MNIST's training images and the "
        "test set are the 3,000 that follow."
    )


@item("Likelihood on MNIST during training", ("mnist.rapid",), _zoomed("during training"))
def fig6a(records: Records) -> Figure:
    return _curves(records, zoom=False)


@item("Likelihood on MNIST, late training", ("mnist.rapid",), _zoomed("late in training"))
def fig6b(records: Records) -> Figure:
    return _curves(records, zoom=True)


@item("Samples of digits", ("mnist.samples",))
def fig6c(records: Records) -> Figure:
    """Samples by Gibbs sampling from random starts, of the first machine with each number of patterns;
    not chosen."""
    record = records["mnist.samples"]
    shown = [n for n in ("more", "rapid") if f"{n}_pictures" in record.values]
    fig, all_axes = panels(len(shown), width=3.4 * len(shown), height=3.6)
    scale = record.settings
    k = {"more": scale["more_patterns"], "rapid": scale["patterns"]}
    for axes, name in zip(all_axes, shown, strict=True):
        tiles(axes, record[f"{name}_pictures"][:64], record["shape"], 8, f"K = {k[name]}")
    return fig


@item("What the recipe on MNIST needs", tuple(f"mnist.{name}" for name in mnist.VARIANTS))
def variants(records: Records) -> Figure:
    """What the recipe on MNIST needs. (a) NLL of the test set by annealing forward: RAPID, with more
    patterns, with one Gibbs sweep, with none, and with the true mean of the smaller last batch. (b)
    Test minus training NLL (of the first 10,000 training images): what overfits."""
    fig, (left, right) = panels(2)
    for (name, words), pen in zip(mnist.VARIANTS.items(), PENS, strict=False):
        record = records.get(f"mnist.{name}")
        if record is None:
            continue
        curve(left, record["epochs"], record.array("nll_test"), pen, words, floor=None)
        gap = record.array("nll_test") - record.array("nll_train")
        curve(right, record["epochs"], gap.mean(1, keepdims=True), pen, words, floor=None)
    left.set_yscale("log")
    right.set_yscale("symlog", linthresh=10)
    right.axhline(0, color="0.6", linewidth=0.7)
    epochs_axis(left, "test NLL (nats per image)", "(a)")
    epochs_axis(right, "test minus training NLL", "(b)")
    left.legend()
    return fig


def last(record: Record, part: str) -> Array:
    """The NLL at the end of each instance: the middle of its interval, else as annealed forward. All
    claims take this one, so that a machine has one NLL."""
    key = f"final_{part}_interval"
    rows = record.array(key).mean(0) if key in record.values else record.array(f"nll_{part}")[-1]
    return np.asarray(rows)


def coins(record: Record) -> float:
    """The NLL of fair coins, V log 2: what a machine that knows nothing has."""
    return mnist.PIXELS[record.settings["dataset"]] * math.log(2)


def _end(record: Record, part: str = "test") -> str:
    """`last` in words: how it was annealed, where not both ways, and by how many machines."""
    found = last(record, part)
    how = "" if f"final_{part}_interval" in record.values else "annealed forward, "
    return f"{Number.of(found)} ({how}{len(found)} machines)"


def _with_true_mean(records: Records) -> str:
    """The same with the true mean of the smaller last batch, if that was measured."""
    other = records.get("mnist.true-mean")
    if other is None:
        return ""
    return f". With the true mean of the smaller last batch it ends at {_end(other)}"


def twins(packed: Sequence[str], pixels: int) -> float:
    """The share of images that have another one within 2 % of the pixels."""
    images = unpack(packed, pixels)
    overlap = images @ images.T / pixels - 2 * np.eye(len(images))
    return float((overlap.max(1) >= 0.96).mean())


@claim(("mnist.rapid",), ("mnist.true-mean",), full=True)
def nll_falls_by_orders(records: Records) -> Finding:
    """Sec. V.B, Fig. 6a: On MNIST the NLL attains “final values four orders of magnitude smaller than
    the initial” one.
    Read as: The logarithm of first over last NLL of the test set.
    Rule: Above {FOUR}, which rounds to four, by 2 σ."""
    record = records["mnist.rapid"]
    rows, end = record.array("nll_test"), last(record, "test")
    orders = Number.of(np.log10(rows[0] / end))
    return Finding(
        orders.above(FOUR),
        f"test NLL {Number.of(rows[0])} at the start, annealed forward, {_end(record)} at the end: "
        f"{orders} orders of magnitude; from the highest on the way "
        f"{Number.of(np.log10(rows.max(0) / end))} (fair coins: "
        f"{coins(record):.0f}){_with_true_mean(records)}",
    )


@claim(("mnist.rapid",), full=True)
def nll_in_parallel(records: Records) -> Finding:
    """Sec. V.B, Fig. 6: The NLL of training and test images “move parallel, showcasing the absence of
    overfitting”.
    Read as: Test minus training NLL as a share of the latter, at the end and at every look.
    Rule: Within {TOGETHER} throughout, by 2 σ."""
    record = records["mnist.rapid"]
    train, test = last(record, "train"), last(record, "test")
    gap = Number.of((test - train) / train)
    course = [Number.of(r) for r in record.array("nll_test") / record.array("nll_train") - 1]
    most = max(course, key=lambda n: abs(n.value))
    return Finding(
        all_of(*(n.within(TOGETHER) for n in (gap, *course))),
        f"at the end {Number.of(train)} (training), {Number.of(test)} (test), {Number.of(test - train)} "
        f"apart, a share of {gap}; at most {most} on the way, annealed forward, with the first 10,000 "
        "training images",
    )


@claim(("mnist.rapid",), ("mnist.true-mean",), full=True, one_recipe=True)
def nll_comparable(records: Records) -> Finding:
    """Sec. V.B: The NLL ends at “values comparable to, although not necessarily better than” those of
    standard RBMs and other models (table 3 of Uria et al. 2016).
    Read as: The last NLL of the test set beside the highest of that table, {TABLE:g} nats; the lowest
    is 86.
    Rule: Below {TABLE:g}, by 2 σ."""
    record = records["mnist.rapid"]
    told = f"test NLL {_end(record)} after {record['epochs'][-1]} epochs{_with_true_mean(records)}"
    return Finding(
        Number.of(last(record, "test")).below(TABLE),
        told,
        "Another binarization, by a draw per pixel, and the usual test set are behind the table.",
    )


@claim(("mnist.rapid", "mnist.more"), full=True)
def fewer_patterns_lower_nll(records: Records) -> Finding:
    """Sec. V.B, Fig. 6: “Lower NLL values are achieved by models with lower K.”
    Read as: The last NLL of the test set with K=290 minus that with K=190.
    Rule: Above 0, by 2 σ."""
    few, many = records["mnist.rapid"], records["mnist.more"]
    gain = Number.of(last(many, "test")) - Number.of(last(few, "test"))
    k = few.settings
    return Finding(
        gain.above(0),
        f"test NLL {_end(few)} with K={k['patterns']}, {_end(many)} with K={k['more_patterns']}: "
        f"difference {gain}",
    )


@claim(("mnist.samples",), full=True)
def more_patterns_better_samples(records: Records) -> Finding:
    """Sec. V.B, Fig. 6c: “In terms of visual quality, models with larger values of K generate better
    samples.”
    Read as: The paper judges by eye; here by how clean digits are: how far the distance of samples to
    the nearest training image is from that of test images.
    Rule: Nearer with K=290 than with K=190, by 2 σ."""
    record = records["mnist.samples"]
    names, k = ("rapid", "more"), record.settings
    pixels = mnist.PIXELS[k["dataset"]]
    away = [Number.of(np.abs(record.array(f"{n}_adversarial") - 0.5).mean(1)) for n in names]
    near = [record.array(f"{n}_nearest") for n in names]
    off = [Number.of(np.abs(x - record["test_nearest"])) for x in near]
    same = [twins(record[f"{n}_pictures"], pixels) for n in names]
    return Finding(
        (off[0] - off[1]).above(0),
        f"share of pixels by which samples miss the nearest training image: {Number.of(near[0])} with "
        f"K={k['patterns']}, {Number.of(near[1])} with K={k['more_patterns']}, test images "
        f"{record['test_nearest']:.3f}. Of a hundred samples of one machine {same[0]:.0%} and "
        f"{same[1]:.0%} have a twin; distance of the adversarial accuracy from 1/2, 0 for samples like "
        f"the data: {away[0]} and {away[1]}",
        "Clean is not varied: the twins and the adversarial accuracy tell.",
    )


@claim(("mnist.pure", "mnist.rapid"), full=True, one_recipe=True)
def pure_pid_overfits(records: Records) -> Finding:
    """Sec. V.B: On MNIST “employing pure PID for computing the negative phase led to a strong
    overfitting”.
    Read as: Test minus training NLL as a share of the latter at the end, with no Gibbs sweep and all
    else alike.
    Rule: Above {TOGETHER}, by 2 σ."""
    pure, rapid = records["mnist.pure"], records["mnist.rapid"]
    gap, usual = (Number.of(last(r, "test") - last(r, "train")) for r in (pure, rapid))
    share = Number.of(last(pure, "test") / last(pure, "train") - 1)
    rows = pure.array("nll_test").mean(1)
    best = int(np.argmin(rows))
    return Finding(
        share.above(TOGETHER),
        f"pure PID: test minus training NLL {gap}, a share of {share}, at the end, test NLL "
        f"{_end(pure)}, lowest on average {rows[best]:.4g} at epoch {pure['epochs'][best]}; with Gibbs "
        f"sweeps the difference is {usual} and the NLL {_end(rapid)}",
    )


@claim(("mnist.one", "mnist.rapid", "mnist.pure"), full=True, one_recipe=True)
def one_sweep_is_enough(records: Records) -> Finding:
    """Sec. III.B: “As few as a single Gibbs step is enough to learn complex” datasets.
    Read as: The last NLL on MNIST with one Gibbs sweep from the patterns and all else alike.
    Rule: Below that of fair coins, by 2 σ."""
    one, ten, pure = (records[f"mnist.{n}"] for n in ("one", "rapid", "pure"))
    return Finding(
        Number.of(last(one, "test")).below(coins(one)),
        f"test NLL {_end(pure)} without a sweep, {_end(one)} with one, {_end(ten)} with "
        f"{one.settings['sweeps']}; at the start {Number.of(one.array('nll_test')[0])}, fair coins "
        f"{coins(one):.0f}",
    )


@claim(("mnist.rapid", "mnist.true-mean"), full=True)
def needs_the_divisor(records: Records) -> Finding:
    """not in the paper: The NLL of fig. 6 depends on what the moments of a smaller last batch are
    divided by, which the paper does not mention.
    Read as: The last NLL with the nominal batch size and with its own.
    Rule: They differ, by 2 σ."""
    nominal, true = records["mnist.rapid"], records["mnist.true-mean"]
    change = Number.of(last(true, "test")) - Number.of(last(nominal, "test"))
    return Finding(
        None if change.above(0) is None else True,
        f"test NLL {_end(nominal)} when the last, smaller batch is divided by the nominal batch size, "
        f"{_end(true)} when by its own",
        "The released program has the nominal divisor.",
    )


@claim(("mnist.binarized",), full=True)
def binarized_trained_patterns(records: Records) -> Finding:
    """Sec. V.B: “A simple binarization of the patterns produces configurations that lie in the
    low-energy sector.”
    Read as: Trained patterns on MNIST as released: the signs of the visible parts, the hidden units
    following them; their energy beside that of samples, over the lowest one found.
    Rule: Their share of the lowest energy at most {LOW} below that of samples, by 2 σ."""
    record = records["mnist.binarized"]
    told = ", ".join(
        f"{words} {Number.of(record.array(key))}"
        for key, words in (
            ("pattern_visible", "signs of the visible parts with the hidden units that follow"),
            ("pattern_swept", "ten Gibbs sweeps later"),
            ("pattern", "signs of all units"),
            ("sample", "samples"),
            ("random", "random states"),
        )
    )
    low = Number.of(record.array("pattern_visible") - record.array("sample"))
    return Finding(
        low.above(-LOW),
        f"mean energy over the lowest one found: {told}",
        "Random patterns have a claim of their own, binarized-patterns-low.",
    )
