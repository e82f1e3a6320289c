"""The probe: logistic regression from sampled hidden spins to the digit.

The machines of fig. 6 beside three controls under the same probe: a standard RBM with 300 hidden
units (the paper's), raw pixels, and random patterns of the same size that were never trained. The
strength of its regularisation is chosen on validation images, which the machines have not seen; the test
images have been seen by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset, Split
from rapidbm.machines.machine import Machine
from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, item
from ..lab import Lab, Part, Settings, by_scale, shortened
from ..linear_probe import fit_probe, hidden_samples
from ..observables import SPLITS
from ..records import Records, Values
from . import mnist

NAMES = {
    "rapid": "RA, trained",
    "random": "RA, random patterns",
    "control": "standard RBM",
    "pixels": "raw pixels",
}
PAPER = {"rapid": (0.9547, 0.9384), "control": (0.9301, 0.9204)}  # train, test
POINT = 0.01  # a percentage point


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    # whose machines of the study mnist it takes
    scale: str = by_scale(tiny="tiny", quick="quick", paper="paper")
    machines: int = by_scale(tiny=2, quick=3, paper=25)  # at most so many
    test: int | None = by_scale(tiny=100, quick=2000, paper=None)
    control_hidden: int = by_scale(tiny=20, quick=100, paper=300)
    control_epochs: int = by_scale(tiny=2, quick=20, paper=30)
    control_batch: int = by_scale(tiny=57, quick=100, paper=500)


def _splits(scale: Scale) -> tuple[Dataset, Split]:
    """What the machines were trained on and the images after it, for validation; and the test images."""
    of = mnist.Scale.at(scale.scale)
    seen = mnist.data_of(of)
    if of.dataset == "mnist":
        return seen, load("mnist").test.take(slice(0, scale.test))
    # Another data set is divided once more.
    half = len(seen.test) // 2
    return shortened(seen, None, half), seen.test.take(slice(half, None))


def _probe(features: Tensor, rows: tuple[Tensor, ...]) -> list[float]:
    """Accuracy on training and test images, and λ; `rows` are labels of training, validation, test."""
    train, valid, test = torch.split(features, [len(r) for r in rows])
    found = fit_probe(train, rows[0], (valid, rows[1]))
    return [found.accuracy(train, rows[0]), found.accuracy(test, rows[2]), found.strength]


def _measure(lab: Lab, scale: Scale, name: str) -> Values:
    seen, test = _splits(scale)
    of = mnist.Scale.at(scale.scale)
    splits = (seen.train, seen.test, test)
    images = torch.cat([s.spins for s in splits]).to(lab.device)
    rows = tuple(s.labels.to(lab.device) for s in splits if s.labels is not None)
    values: Values = {}
    if name == "pixels":
        found = [_probe(images, rows)]
    else:
        count = min(scale.machines, of.instances)
        machine = lab.kept("mnist.rapid") if name == "rapid" else _other(lab, scale, seen, name, count)
        found = []
        for i in range(count):
            features = hidden_samples(machine.replica(i), images, lab.rng("hidden", i))
            found.append(_probe(features, rows))
            lab.tell((i + 1) / count)
        values["hidden"] = machine.layers.columns - machine.visible
    train, tested, strength = zip(*found, strict=True)
    return {**values, "train": train, "test": tested, "strength": strength}


def _other(lab: Lab, scale: Scale, seen: Dataset, name: str, count: int) -> Machine:
    """Random patterns, or a standard RBM: dense couplings, biases, PCD-10, Adam."""
    of = mnist.Scale.at(scale.scale)
    if name == "random":
        sizes = {"hidden": (of.hidden,), "patterns": of.patterns, "replicas": count}
        return lab.first(lab.recipe(of.dataset, "paper-mnist", **sizes), seen)
    recipe = lab.recipe(
        of.dataset,
        "mnist",
        patterns=None,
        hidden=(scale.control_hidden,),
        replicas=count,
        epochs=scale.control_epochs,
        batch_size=scale.control_batch,
        particles=scale.control_batch,
    )
    _, run = lab.within(0.0, 0.5).train(recipe, {}, data=seen, at=lambda epoch: False)
    return lab.machine(run)


PARTS = {name: Part(_measure, (name,), ("mnist.rapid",) if name == "rapid" else ()) for name in NAMES}


@item("A linear probe of the hidden spins", ("probe",))
def probe(records: Records) -> Figure:
    """Accuracy of logistic regression from one draw of the hidden spins (or from raw pixels) to the
    digit, its regularisation chosen on validation images. Bars: one standard deviation over machines.
    Open symbols: the paper's values."""
    fig, (axes,) = panels(height=2.6)
    shown = [name for name in NAMES if f"probe.{name}" in records]
    for i, name in enumerate(shown):
        record = records[f"probe.{name}"]
        for part, pen, shift in (("train", PENS[0], -0.12), ("test", PENS[1], 0.12)):
            rows = 100 * record.array(part)
            spread = rows.std(ddof=1) if len(rows) > 1 else 0.0
            look: Any = {"color": pen.colour, "marker": pen.marker, "capsize": 2}
            words = f"{part} set" if i == 0 else None
            axes.errorbar(i + shift, rows.mean(), spread, label=words, **look)
            if name in PAPER:
                words = "the paper's" if (i, part) == (0, "test") else None
                outline: Any = {"marker": pen.marker, "mfc": "none", "color": "black", "ls": "none"}
                axes.plot(i + shift, 100 * PAPER[name][part == "test"], label=words, **outline)
    axes.set_xticks(range(len(shown)), [NAMES[name].replace(", ", ",\n") for name in shown])
    axes.margins(x=0.15)
    label(axes, "", "accuracy of the probe (%)")
    axes.legend()
    return fig


def _percent(records: Records, name: str, part: str = "test") -> Number:
    return Number.of(100 * records[f"probe.{name}"].array(part))


def _summary(records: Records, name: str) -> str:
    train, test = (_percent(records, name, part) for part in SPLITS)
    return f"{NAMES[name]} {train} % (training), {test} % (test)"


@claim(("probe.rapid",), full=True, one_recipe=True)
def probe_accuracy(records: Records) -> Finding:
    """Sec. V.B: A probe of the hidden spins of trained RA machines is right for 95.47 ± 0.19 % of the
    training and 93.84 ± 0.19 % of the test images.
    Read as: The same with our probe, its regularisation chosen on validation images.
    Rule: Both within one percentage point, by 2 σ."""
    rows = {part: records["probe.rapid"].array(part) for part in SPLITS}
    off = [Number.of(x - there) for x, there in zip(rows.values(), PAPER["rapid"], strict=True)]
    spread = " and ".join(f"{100 * x.std(ddof=1):.2f}" for x in rows.values() if len(x) > 1)
    return Finding(
        all_of(*(number.within(POINT) for number in off)),
        f"{_summary(records, 'rapid')}; standard deviations over machines {spread or 'unknown'}",
        "The paper says neither what its ± is nor how its probe was regularised.",
    )


@claim(("probe.rapid", "probe.control"), full=True, one_recipe=True)
def probe_beats_control(records: Records) -> Finding:
    """Sec. V.B: With standard RBMs of 300 hidden units the same procedure gives 93.01 % and 92.04 %,
    less than with RA machines.
    Read as: The probe's accuracy on test images, RA minus standard RBM.
    Rule: Above 0, by 2 σ."""
    gain = _percent(records, "rapid") - _percent(records, "control")
    return Finding(
        gain.above(0.0),
        f"{_summary(records, 'rapid')}; {_summary(records, 'control')}; "
        f"test gain {gain} percentage points",
        "The control is ours: biases, PCD-10 and the usual Adam.",
    )


@claim(("probe.rapid", "probe.random", "probe.pixels"), full=True)
def probe_shows_learning(records: Records) -> Finding:
    """Sec. V.B: The accuracy demonstrates that the hidden layers “have learnt to distill the relevant
    information”.
    Read as: What training adds: test accuracy of trained minus untrained, random patterns, with the
    same probe.
    Rule: Above 0, by 2 σ."""
    gain = _percent(records, "rapid") - _percent(records, "random")
    pixels = float(np.mean(records["probe.pixels"].array("test")))
    return Finding(
        gain.above(0.0),
        f"{_summary(records, 'rapid')}; {_summary(records, 'random')}; raw pixels {pixels:.2%} (test); "
        f"gain of training on the test set {gain} percentage points",
        "The paper has no such control: a probe on many random features is accurate by itself.",
    )
