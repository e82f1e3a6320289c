"""Fig. 5: RAPID on 12×12 bars and stripes: Hamming distance, and samples from random starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rapidbm.data.splits import Dataset
from rapidbm.pictures import PENS, label, panels
from rapidbm.sampling.gibbs import sweeps

from ..claims import Finding, Number, all_of, claim
from ..drawing import Axes, Figure, curve, item
from ..lab import Lab, Part, Settings, by_scale
from ..observables import distances
from ..records import Records, Values, pack, unpack

KINDS = ("train", "test", "uniform", "neither")
FELL, PARALLEL = 0.1, 0.02  # of the distance: a fall, and two that are parallel
SHOWN = 12  # samples of each kind that are kept for the picture


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    size: int = by_scale(tiny=4, quick=12, paper=12)
    instances: int = by_scale(tiny=2, quick=4, paper=100)
    hidden: int = by_scale(tiny=60, quick=1000, paper=1000)
    patterns: int = by_scale(tiny=4, quick=40, paper=40)
    batch_size: int = by_scale(tiny=5, quick=120, paper=120)
    epochs: int = by_scale(tiny=4, quick=20, paper=20)
    chains: int = by_scale(tiny=40, quick=250, paper=1000)  # samples per instance
    sweeps: int = by_scale(tiny=10, quick=100, paper=100)


def kinds(samples: Tensor, data: Dataset) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What each sample (c, v) is: 0 in the training set, 1 in the test set, 2 uniform, 3 neither."""

    def keys(spins: Tensor) -> list[bytes]:
        return [row.tobytes() for row in np.packbits(spins.cpu().numpy() > 0, axis=1)]

    known = dict.fromkeys(keys(data.train.spins), 0)
    known.update(dict.fromkeys(keys(data.test.spins), 1))
    ones = torch.ones(1, data.visible)
    known.update(dict.fromkeys(keys(torch.cat([ones, -ones])), 2))
    return np.array([known.get(key, 3) for key in keys(samples)])


def _train(lab: Lab, scale: Scale) -> Values:
    recipe = lab.recipe(
        f"bas{scale.size}",
        "paper-bas12",
        hidden=(scale.hidden,),
        patterns=scale.patterns,
        replicas=scale.instances,
        batch_size=scale.batch_size,
        epochs=scale.epochs,
    )
    data = recipe.data()
    found, run = lab.train(recipe, distances(), at=lambda epoch: True)
    machine, rng = lab.machine(run), lab.rng("samples")
    shares, distinct = [], []
    pictures: dict[str, list[str]] = {}
    for i in range(machine.replicas):
        one = machine.replica(i)
        drawn = sweeps(one, one.random(scale.chains, rng), rng, scale.sweeps)
        spins = drawn[0, :, : machine.visible]
        kind = torch.from_numpy(kinds(spins, data)).to(spins.device)
        shares.append([float((kind == k).double().mean()) for k in range(len(KINDS))])
        distinct.append(len(torch.unique(spins[kind == 1], dim=0)))
        for k, name in enumerate(KINDS):
            some = pictures.setdefault(name, [])
            if len(some) < SHOWN and bool((kind == k).any()):
                different = torch.unique(spins[kind == k], dim=0)
                order = torch.randperm(len(different), generator=rng, device=rng.device)
                some += pack(different[order][: SHOWN - len(some)])
        lab.tell(1.0)
    return {
        **found,
        "shares": shares,  # (e, kind)
        "distinct_test": distinct,  # (e,) different images of the test set among the samples
        "pictures": pictures,
        "shape": list(data.shape),
        "test_images": len(data.test),
    }


PARTS = {"rapid": Part(_train)}


def _framed(axes: Axes, image: np.ndarray, colour: str, dash: str) -> None:
    axes.imshow(image, cmap="Greys", vmin=-1, vmax=1.6, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor=colour, linewidth=1.6, linestyle=dash)


def _summary(records: Records) -> str:
    record = records["bas.rapid"]
    pairs = zip(KINDS, record.array("shares").mean(0), strict=True)
    size = record.settings["size"]
    return (
        f"Hamming distance of reconstructions of {size}×{size} bars and stripes during training with "
        "pure PID; bands: one standard deviation over instances. Inset: samples from random starts, in a "
        "solid frame if they are in the test set only, dotted if in the training set. Of all samples: "
        f"{', '.join(f'{words} {x:.1%}' for words, x in pairs)}."
    )


@item("12×12 bars and stripes", ("bas",), _summary)
def fig5(records: Records) -> Figure:
    from matplotlib.ticker import MaxNLocator

    record = records["bas.rapid"]
    fig, (axes,) = panels(height=2.9)
    for part, pen, words in (("train", PENS[0], "training set"), ("test", PENS[1], "test set")):
        curve(axes, record["epochs"], record.array(f"hamming_{part}"), pen, words)
    label(axes, "epoch", "Hamming distance", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="center right")
    shape, pictures = record["shape"], record["pictures"]
    frames = [(line, PENS[1].colour, "-") for line in pictures.get("test", [])[:3]]
    frames += [(line, PENS[0].colour, ":") for line in pictures.get("train", [])[:3]]
    for i, (line, colour, dash) in enumerate(frames):
        inset = axes.inset_axes((0.22 + 0.13 * i, 0.72, 0.12, 0.18))
        _framed(inset, unpack([line], shape[0] * shape[1]).reshape(shape), colour, dash)
    if frames:
        words = "samples: new (solid frame), in the training set (dotted)"
        axes.text(0.22, 0.93, words, transform=axes.transAxes, fontsize=6)
    return fig


@claim(("bas.rapid",))
def bas_parallel(records: Records) -> Finding:
    """Sec. V.B, Fig. 5: On 12×12 bars and stripes the distances of training and test set “decrease
    parallel to each other”.
    Read as: The fall of the test distance, and the mean difference of the two over the course.
    Rule: It falls by more than {FELL}, and they differ by less than {PARALLEL}, by 2 σ."""
    record = records["bas.rapid"]
    train, test = record.array("hamming_train"), record.array("hamming_test")
    fall = Number.of(test[0] - test[-1])
    gap = Number.of(np.abs((test - train).mean(0)))
    return Finding(
        all_of(fall.above(FELL), gap.below(PARALLEL)),
        f"test distance {Number.of(test[0])} → {Number.of(test[-1])}, training "
        f"{Number.of(train[-1])}; mean difference over the course {Number.of((test - train).mean(0))}",
    )


@claim(("bas.rapid",))
def generates_unseen(records: Records) -> Finding:
    """Sec. V.B, Fig. 5: The machine “is able to generate images that were not contained in the training
    set”.
    Read as: Different images of the test set among the samples of an instance, from random starts.
    Rule: More than one on average, by 2 σ."""
    record = records["bas.rapid"]
    shares = record.array("shares")
    told = ", ".join(f"{k} {Number.of(shares[:, i])}" for i, k in enumerate(KINDS))
    learnt = shares[:, 0] + shares[:, 1]
    ratio = Number.of(shares[:, 1] / np.where(learnt > 0, learnt, np.nan))
    found = Number.of(record.array("distinct_test"))
    return Finding(
        found.above(1.0),
        f"share of samples from random starts: {told}; of those that are bars or stripes, {ratio} are in "
        f"the test set, which holds a fifth of them; different test images per instance {found}",
        "Uniform images are in neither set.",
    )
