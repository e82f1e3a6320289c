"""Fig. 6: RAPID on MNIST: negative log-likelihood during training, the zoom, and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import mnist
from .bench import Array, Claim, Finding, Item, Number, Record, Records
from .drawing import PENS, curve, epochs_axis, panels, sizes_of, tiles, unpack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = (("train", PENS[0], "training set"), ("test", PENS[1], "test set"))


def _curves(records: Records, *, zoom: bool) -> Figure:
    fig, (axes,) = panels()
    record = records["mnist.rapid"]
    epochs = np.array(record["epochs"], dtype=float)
    late = epochs >= 0.5 * epochs[-1] if zoom else epochs >= 0
    for part, pen, words in PARTS:
        curve(axes, epochs[late], record.array(f"nll_{part}")[late], pen, words, floor=None)
    if zoom:
        axes.set_xlabel("epoch")
        axes.set_ylabel("NLL (nats per image)")
    else:
        axes.set_yscale("log")
        epochs_axis(axes, "NLL (nats per image)")
    axes.legend()
    return fig


def _samples(records: Records) -> Figure:
    record = records["mnist.samples"]
    shown = [n for n in ("more", "rapid") if f"{n}_pictures" in record.values]
    fig, all_axes = panels(len(shown), width=3.4 * len(shown), height=3.6)
    config = record.settings
    k = {"more": config["more_patterns"], "rapid": config["patterns"]}
    for axes, name in zip(all_axes, shown, strict=True):
        tiles(axes, record[f"{name}_pictures"][:64], record["shape"], 8, f"K = {k[name]}")
    return fig


def _variants(records: Records) -> Figure:
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


def _caption_variants(records: Records) -> str:
    return (
        "What the recipe on MNIST needs. (a) NLL of the test set by annealing forward: RAPID, with more "
        "patterns, with one Gibbs sweep, with none, and with the true mean of the smaller last batch. "
        f"(b) Test minus training NLL: what overfits. {sizes_of(records)}"
    )


def _caption_curve(records: Records, words: str) -> str:
    record = records["mnist.rapid"]
    told = ""
    if "final_test" in record.values:
        low, high = (Number.of(x) for x in record.array("final_test"))
        told = (
            f" At the end, annealed both ways over {record['temperatures']:,} temperatures, the test "
            f"NLL lies between {low} (annealed forward) and {high} (back)."
        )
    return (
        f"Negative log-likelihood per image by annealing forward, a lower bound, {words}; bands: one "
        f"standard deviation over instances. {_splits(record)}{told} {sizes_of(records)}"
    )


def _splits(record: Record) -> str:
    if record.settings["dataset"] != "mnist" or record.settings["train"] is not None:
        return "The test set are the images after those of the training set."
    return (
        "As in the released program, training takes the first 57,000 of MNIST's training images and the "
        "test set are the 3,000 that follow."
    )


def _caption_samples(records: Records) -> str:
    return (
        "Samples by Gibbs sampling from random starts, of the first machine with each number of "
        f"patterns; not chosen. {sizes_of(records)}"
    )


ITEMS = {
    "fig6a": Item(
        "Likelihood on MNIST during training",
        ("mnist.rapid",),
        lambda records: _curves(records, zoom=False),
        lambda records: _caption_curve(records, "during training"),
    ),
    "fig6b": Item(
        "Likelihood on MNIST, late training",
        ("mnist.rapid",),
        lambda records: _curves(records, zoom=True),
        lambda records: _caption_curve(records, "late in training"),
    ),
    "variants": Item(
        "What the recipe on MNIST needs",
        tuple(f"mnist.{name}" for name in mnist.VARIANTS),
        _variants,
        _caption_variants,
    ),
    "fig6c": Item("Samples of digits", ("mnist.samples",), _samples, _caption_samples),
}


# -- claims -------------------------------------------------------------------------------------------


def last(record: Record, part: str) -> Array:
    """The NLL at the end of each instance: the middle of its interval, else the lower bound."""
    key = f"final_{part}_interval"
    rows = record.array(key).mean(0) if key in record.values else record.array(f"nll_{part}")[-1]
    return np.asarray(rows)


def coins(record: Record) -> float:
    """The NLL of fair coins, V log 2: what a machine that knows nothing has."""
    return mnist.PIXELS[record.settings["dataset"]] * math.log(2)


def _orders(records: Records) -> Finding:
    record = records["mnist.rapid"]
    start, end = record.array("nll_test")[0], last(record, "test")
    orders = Number.of(np.log10(start / end))
    return Finding(
        orders.above(2.0),
        f"test NLL {Number.of(start)} at the start, {Number.of(end)} at the end: {orders} orders of "
        f"magnitude (fair coins: {coins(record):.0f}){_with_true_mean(records)}",
        "Orders: two at least. The paper has four; four are "
        f"{'reached' if orders.above(4.0, 0.0) else 'not reached'} here.",
    )


def _with_true_mean(records: Records) -> str:
    """The same with the true mean of the smaller last batch, if that was measured."""
    other = records.get("mnist.true-mean")
    if other is None:
        return ""
    end = Number.of(other.array("nll_test")[-1])
    return f". With the true mean of the smaller last batch it ends at {end}"


def _parallel(records: Records) -> Finding:
    record = records["mnist.rapid"]
    train, test = last(record, "train"), last(record, "test")
    gap = Number.of((test - train) / train)
    course = (record.array("nll_test") / record.array("nll_train")).mean(1) - 1
    return Finding(
        gap.within(0.05),
        f"at the end {Number.of(train)} (training), {Number.of(test)} (test), {Number.of(test - train)} "
        f"apart, a share of {gap}; at most {np.abs(course).max():.3f} on the way",
        "Together: they end within a twentieth of each other.",
    )


def _target(records: Records) -> Finding:
    record = records["mnist.rapid"]
    end = Number.of(last(record, "test"))
    told = f"test NLL {end} after {record['epochs'][-1]} epochs{_with_true_mean(records)}"
    if record.scale != "paper":
        return Finding(None, told, "The values of other machines are of the whole of MNIST.")
    return Finding(
        end.below(150),
        told,
        "Table 3 of Uria et al. (2016) has 86 to 106 nats for RBMs and other models, on another "
        "binarization; comparable: below 150.",
    )


def _fewer_patterns(records: Records) -> Finding:
    few, many = records["mnist.rapid"], records["mnist.more"]
    gain = Number.of(last(many, "test")) - Number.of(last(few, "test"))
    k = few.settings
    return Finding(
        gain.above(0),
        f"test NLL {Number.of(last(few, 'test'))} with K={k['patterns']}, "
        f"{Number.of(last(many, 'test'))} with K={k['more_patterns']}: difference {gain}",
    )


def twins(packed: Sequence[str], pixels: int) -> float:
    """The share of images that have another one within 2 % of the pixels."""
    images = unpack(packed, pixels)
    overlap = images @ images.T / pixels - 2 * np.eye(len(images))
    return float((overlap.max(1) >= 0.96).mean())


def _better_samples(records: Records) -> Finding:
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
        f"{record['test_nearest']:.3f}. Samples with a twin among a hundred: {same[0]:.0%} and "
        f"{same[1]:.0%}; distance of the adversarial accuracy from 1/2, 0 for samples like the data: "
        f"{away[0]} and {away[1]}",
        "The paper judges by eye. Here by how clean digits are: their distance to the training images, "
        "beside that of test images. Clean is not varied: the twins and the adversarial accuracy tell.",
    )


def _overfits(records: Records) -> Finding:
    pure, rapid = records["mnist.pure"], records["mnist.rapid"]
    gap = {
        r.name: Number.of(r.array("nll_test")[-1] - r.array("nll_train")[-1]) for r in (pure, rapid)
    }
    rows = pure.array("nll_test").mean(1)
    best = int(np.argmin(rows))
    limit = 0.05 * float(pure.array("nll_train")[-1].mean())
    return Finding(
        gap["mnist.pure"].above(limit),
        f"pure PID: test minus training NLL {gap['mnist.pure']} at the end, test NLL {rows[-1]:.4g} "
        f"(lowest {rows[best]:.4g}, at epoch {pure['epochs'][best]}); with Gibbs sweeps the "
        f"difference is {gap['mnist.rapid']} and the NLL {rapid.array('nll_test')[-1].mean():.4g}",
        "Strongly: by more than a twentieth of the training NLL.",
    )


def _divisor(records: Records) -> Finding:
    nominal, true = records["mnist.rapid"], records["mnist.true-mean"]
    ends = {r.name: Number.of(r.array("nll_test")[-1]) for r in (nominal, true)}
    change = ends["mnist.true-mean"] - ends["mnist.rapid"]
    found = change.above(0)
    return Finding(
        None if found is None else True,
        f"test NLL {ends['mnist.rapid']} when the last, smaller batch is divided by the nominal batch "
        f"size, {ends['mnist.true-mean']} when by its own",
        "The paper does not mention the divisor; the released program has the nominal one.",
    )


def _one_sweep(records: Records) -> Finding:
    one, ten, pure = (records[f"mnist.{n}"] for n in ("one", "rapid", "pure"))
    ends = [Number.of(r.array("nll_test")[-1]) for r in (pure, one, ten)]
    start = Number.of(one.array("nll_test")[0])
    return Finding(
        ends[1].below(coins(one)),
        f"test NLL {ends[0]} without a sweep, {ends[1]} with one, {ends[2]} with "
        f"{one.settings['sweeps']}; at the start {start}, fair coins {coins(one):.0f}",
        "Enough: below the NLL of fair coins.",
    )


def _binarized(records: Records) -> Finding:
    record = records["mnist.binarized"]
    told = ", ".join(
        f"{words} {Number.of(record.array(key))}"
        for key, words in (
            ("pattern", "binarized patterns"),
            ("pattern_visible", "with the hidden units set by the visible ones"),
            ("pattern_swept", "ten Gibbs sweeps later"),
            ("sample", "samples"),
            ("random", "random states"),
        )
    )
    return Finding(
        (Number.of(record.array("pattern")) - Number.of(record.array("sample"))).above(-0.1),
        f"mean energy over the lowest one found: {told}",
        "Low-energy: within a tenth of the lowest energy of what samples have. Random patterns have a "
        "claim of their own (binarized-patterns-low), against random states.",
    )


CLAIMS = (
    Claim(
        "nll-falls-by-orders",
        "Sec. V.B, Fig. 6a",
        "On MNIST the NLL falls by orders of magnitude (the paper: four).",
        ("mnist.rapid",),
        _orders,
        ("mnist.true-mean",),
        full=True,
    ),
    Claim(
        "nll-in-parallel",
        "Sec. V.B, Fig. 6",
        "The NLL of training and test images move together: there is no overfitting.",
        ("mnist.rapid",),
        _parallel,
        full=True,
    ),
    Claim(
        "nll-comparable",
        "Sec. V.B",
        "The final NLL is comparable to that of standard RBMs and other models.",
        ("mnist.rapid",),
        _target,
        ("mnist.true-mean",),
        full=True,
    ),
    Claim(
        "fewer-patterns-lower-nll",
        "Sec. V.B, Fig. 6",
        "Fewer patterns (K=190 against 290) reach a lower NLL.",
        ("mnist.rapid", "mnist.more"),
        _fewer_patterns,
        full=True,
    ),
    Claim(
        "more-patterns-better-samples",
        "Sec. V.B, Fig. 6c",
        "More patterns (K=290 against 190) give samples that look better.",
        ("mnist.samples",),
        _better_samples,
        full=True,
    ),
    Claim(
        "pure-pid-overfits",
        "Sec. V.B",
        "On MNIST pure PID overfits strongly.",
        ("mnist.pure", "mnist.rapid"),
        _overfits,
        full=True,
    ),
    Claim(
        "one-sweep-is-enough",
        "Sec. III.B",
        "A single Gibbs step from the patterns is enough for complex data.",
        ("mnist.one", "mnist.rapid", "mnist.pure"),
        _one_sweep,
        full=True,
    ),
    Claim(
        "needs-the-divisor",
        "not in the paper",
        "The NLL of fig. 6 depends on how the smaller last batch of an epoch is divided.",
        ("mnist.rapid", "mnist.true-mean"),
        _divisor,
        full=True,
    ),
    Claim(
        "binarized-trained-patterns",
        "Sec. V.B",
        "Binarized, the continuous patterns of trained machines lie in the low-energy sector.",
        ("mnist.binarized",),
        _binarized,
        full=True,
    ),
)
