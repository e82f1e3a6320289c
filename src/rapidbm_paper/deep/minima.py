"""What a pattern is, once a machine is trained: minima against K, and which images fall into each.

Restricted machines with K patterns are trained on digits, by persistent chains for their likelihood and
by PID. Descent from training images, the hidden units inferred, and from random spins ends in minima. Of
those below images,

    own        overlap with the nearest of the patterns, |⟨sign(ξ_v) v⟩|, visible units           (1)
    seen       overlap with the nearest training image                                            (2)
    pure       share of the images in a minimum that have the commonest label there               (3)

each averaged over images. A pattern that is a memory has own near 1; a basis for many memories leaves it
near what the nearest of K random vectors has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.glass.minima import minima
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.sampling.quench import descend

from ..claims import Finding, Number, claim
from ..drawing import Figure, item, points, tiles
from ..lab import Lab, Part, Rows, Settings, by_scale, shortened
from ..records import Records, Values, pack

NAMES = {"pcd": "persistent chains", "pid": "PID with sweeps"}
LOOK = dict(zip(NAMES, PENS, strict=False))
SHOWN, BESIDE = 10, 3  # minima in the picture, and images beside each
RECALLED = 0.9  # an overlap from which on a minimum is a pattern


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    train: int | None = by_scale(tiny=60, quick=None, paper=None)  # images; None takes all
    patterns: tuple[int, ...] = by_scale(tiny=(2, 4), quick=(4, 16, 64), paper=(2, 4, 8, 16, 32, 64))
    hidden: int = by_scale(tiny=10, quick=200, paper=200)
    instances: int = by_scale(tiny=2, quick=3, paper=5)
    epochs: int = by_scale(tiny=1, quick=60, paper=60)
    starts: int = by_scale(tiny=5, quick=100, paper=300)  # random ones


def _trained(lab: Lab, scale: Scale, name: str) -> Values:
    data = shortened(load("digits"), scale.train, None)
    rows, pictures = Rows(), {}
    for i, count in enumerate(scale.patterns):
        chosen: dict[str, Any] = {
            "hidden": (scale.hidden,),
            "patterns": count,
            "replicas": scale.instances,
            "epochs": scale.epochs,
            "batch_size": 100,
        }
        if name == "pid":
            recipe = lab.recipe("digits", "paper-mnist", **chosen, sweeps=10)
        else:
            recipe = lab.recipe("digits", "auto", **chosen, particles=100, sweeps=1, rate=(5e-3,))
        part = lab.within(i / len(scale.patterns), (i + 1) / len(scale.patterns))
        _, run = part.train(recipe, {}, data=data, at=lambda epoch: False, name=f"k-{count}")
        machine = lab.machine(run)
        rows.add({"patterns": count})
        rows.add(_below(machine, data))
        rows.add({"random": minima(machine, scale.starts, lab.rng(count)).distinct.double()})
        if i == len(scale.patterns) // 2:
            pictures = _pictures(machine.replica(0), data)
    return {**rows, **pictures, "shape": list(data.shape), "images": len(data.train)}


@torch.no_grad()
def _ends(machine: Machine, images: Tensor) -> Tensor:
    """Minima below images, hidden units at their most probable ones, (e, c, n)."""
    spins = machine.complete(images.to(machine.device, machine.dtype).expand(machine.replicas, -1, -1))
    return descend(machine, SPIN.nearest(spins))


@torch.no_grad()
def _below(machine: Machine, data: Dataset) -> dict[str, Tensor]:
    """Eqs. (1) to (3) and how many minima there are below the training images, (e,) each."""
    images = data.train.spins
    assert data.train.labels is not None
    assert machine.patterns is not None
    ends = _ends(machine, images)
    visible = ends[..., : machine.visible]
    signs = SPIN.nearest(machine.patterns.detach())[..., : machine.visible]
    own = (visible @ signs.mT).abs().amax(2).mean(1) / machine.visible
    rows = images.to(visible).expand(machine.replicas, -1, -1)
    seen = (visible @ rows.mT).amax(2).mean(1) / machine.visible
    distinct, pure = [], []
    for e in range(machine.replicas):
        states, which = torch.unique(ends[e], dim=0, return_inverse=True)
        table = torch.zeros(len(states), 10, device=which.device)
        table.index_put_((which, data.train.labels.to(which.device)), torch.ones(()), accumulate=True)
        distinct.append(len(states))
        pure.append(float(table.amax(1).sum() / table.sum()))
    return {"own": own, "seen": seen, "pure": torch.tensor(pure), "below": torch.tensor(distinct)}


@torch.no_grad()
def _pictures(machine: Machine, data: Dataset) -> Values:
    """The minima that most images fall into, some of these images, and the nearest patterns."""
    images = data.train.spins
    assert machine.patterns is not None
    ends = _ends(machine, images)[0]
    states, which, counts = torch.unique(ends, dim=0, return_inverse=True, return_counts=True)
    order = counts.argsort(descending=True, stable=True)[:SHOWN]
    visible = states[order][:, : machine.visible]
    signs = SPIN.nearest(machine.patterns.detach())[0, :, : machine.visible]
    overlap = visible @ signs.mT
    best = overlap.abs().argmax(1)
    nearest = signs[best] * overlap.gather(1, best[:, None]).sign()
    some = [images[which.cpu() == int(i)][:BESIDE] for i in order]
    blank = torch.full((BESIDE, machine.visible), -1, dtype=images.dtype)
    beside = [torch.cat([x, blank])[:BESIDE] for x in some]
    return {
        "shown": machine.patterns.shape[1],
        "minima": pack(visible.to(torch.int8)),
        "nearest": pack(nearest.to(torch.int8)),
        "beside": [line for x in beside for line in pack(x)],
        "fell": counts[order],
    }


PARTS = {name: Part(_trained, (name,)) for name in NAMES}


@item("What a pattern is", ("deep-minima",))
def deep_minima(records: Records) -> Figure:
    """Minima of restricted machines with K patterns, trained on digits. (a) How many minima lie below the
    training images, and below as many random starts as were tried (dotted). (b) Overlap of the minimum
    below an image with the nearest pattern, and with the nearest training image (dotted). (c) The minima
    that most images fall into (first row), the nearest patterns (second), and images that fall there
    (below), of a machine trained by persistent chains."""
    fig, (count, overlap, pictures) = panels(3, height=2.6)
    for name, pen in LOOK.items():
        record = records.get(f"deep-minima.{name}")
        if record is None:
            continue
        k = record["patterns"]
        points(count, k, Number.each(record.array("below")), pen, f"{NAMES[name]}, images")
        light = type(pen)(pen.colour, ":", pen.marker)
        points(count, k, Number.each(record.array("random")), light, f"{NAMES[name]}, random")
        points(overlap, k, Number.each(record.array("own")), pen, f"{NAMES[name]}, patterns")
        points(overlap, k, Number.each(record.array("seen")), light, f"{NAMES[name]}, images")
    label(count, "patterns K", "minima", "(a)", xscale="log", yscale="log")
    label(overlap, "patterns K", "overlap of minima", "(b)", xscale="log", ylim=(0, 1.02))
    tried = sorted({k for record in records.values() for k in record["patterns"]})
    for axes in (count, overlap):
        axes.set_xticks(tried, list(map(str, tried)))
        axes.minorticks_off()
    count.legend(fontsize=5.5)
    overlap.legend(fontsize=5.5)
    record = records.get("deep-minima.pcd")
    if record is not None:
        shown = len(record["minima"])
        beside = [record["beside"][i * BESIDE + j] for j in range(BESIDE) for i in range(shown)]
        lines = [*record["minima"], *record["nearest"], *beside]
        tiles(pictures, lines, record["shape"], shown, f"(c) K = {record['shown']}")
    else:
        pictures.set_axis_off()
    return fig


@claim(("deep-minima.pcd", "deep-minima.pid"))
def deep_memories(records: Records) -> Finding:
    """Sec. V.C: The patterns of a trained machine are memories, configurations that chains are drawn to.
    Read as: Overlap of the minimum below a training image with the nearest pattern, at the largest K.
    Rule: Above {RECALLED} by 2 σ, by either training."""
    told, answers = [], []
    for name, words in NAMES.items():
        record = records[f"deep-minima.{name}"]
        own = Number.of(record.array("own")[-1])
        answers.append(own.above(RECALLED))
        told.append(f"{words}: {own} at K = {record['patterns'][-1]}")
    return Finding(any(answers) if None not in answers else None, "; ".join(told))
