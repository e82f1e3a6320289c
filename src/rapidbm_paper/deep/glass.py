"""When does a machine become glassy while it is trained, with Regularized Axons and without?

Restricted, deep and full machines are trained alike, by persistent chains, on digits. Along the way, of
the machine at β = 1,

    q_EA         overlap of a chain, from a random start, with its own later self
    apart        q_EA less the overlap of different chains: chains sit in different states     (1)
    Y            the chance that two descents from random starts end in the same minimum       (2)
    lost         energy of chains from random starts less that of chains from images, per unit (3)

A spin glass is frozen (q_EA > 0.1), its chains are apart (> 0.1) and two descents hardly ever meet
(Y < 0.02), the thresholds of `glass/verdict.py`; biases alone freeze a machine, but keep no chains apart.
(3) is not 0 where random starts do not find what the machine has learnt, or find something that outweighs
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.glass.minima import minima
from rapidbm.glass.overlaps import freezing
from rapidbm.glass.verdict import BROKEN, FROZEN, MEET
from rapidbm.machines.machine import Machine
from rapidbm.pictures import PENS, Pen, panels
from rapidbm.sampling.gibbs import sweep
from rapidbm.sampling.gibbs import sweeps as run_sweeps
from rapidbm.training.loop import Progress

from ..claims import Finding, Number, claim
from ..drawing import Axes, Figure, course_points, epochs_axis, item, legend_below
from ..lab import Lab, Settings, by_scale, each, shortened
from ..observables import Observable, once
from ..records import Records, Values

MODELS = {"rbm": "restricted", "dbm": "deep", "bm": "full"}
NAMES = {
    f"{model}-{kind}": f"{words}, {kind.replace('ra', 'RA')}"
    for kind in ("ra", "dense")
    for model, words in MODELS.items()
}
LOOK = dict(zip(NAMES, PENS, strict=False))
MEASURES = {  # at an axis, and the line beyond which it counts
    "frozen": ("q_EA", FROZEN),
    "apart": ("q_EA − overlap of chains", BROKEN),
    "meet": ("two descents meet, Y", MEET),
    "lost": ("energy from random starts", None),
}


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    train: int | None = by_scale(tiny=60, quick=None, paper=None)  # images; None takes all
    instances: int = by_scale(tiny=2, quick=3, paper=5)
    hidden: int = by_scale(tiny=8, quick=100, paper=100)  # units in all; of full machines half
    patterns: int = by_scale(tiny=3, quick=39, paper=39)
    epochs: int = by_scale(tiny=1, quick=100, paper=300)
    looks: tuple[int, ...] = by_scale(
        tiny=(1,), quick=(1, 3, 10, 30, 100), paper=(1, 2, 4, 8, 16, 32, 64, 128, 300)
    )
    particles: int = by_scale(tiny=10, quick=100, paper=100)
    rate: float = 5e-3
    dense_rate: float = 2e-3
    chains: int = by_scale(tiny=4, quick=32, paper=64)
    sweeps: int = by_scale(tiny=4, quick=100, paper=200)  # before, and as many that are recorded
    starts: int = by_scale(tiny=5, quick=100, paper=200)  # of descents


def _recipe(lab: Lab, scale: Scale, name: str) -> Any:
    model, kind = name.split("-")
    half = scale.hidden // 2
    hidden = {"rbm": (scale.hidden,), "dbm": (half, half), "bm": (half,)}[model]
    chosen: dict[str, Any] = {
        "model": model,
        "hidden": hidden,
        "patterns": scale.patterns if kind == "ra" else None,
        "rate": (scale.rate if kind == "ra" else scale.dense_rate,),
        "replicas": scale.instances,
        "epochs": scale.epochs,
        "particles": scale.particles,
        "sweeps": 1,
        "batch_size": 100,
        "metrics": ("hamming",),  # not asked for: the looks are the study's
    }
    if model != "rbm":
        chosen |= {"positive": "meanfield", "positive_steps": 10}
    return lab.recipe("digits", "auto", **chosen)


@torch.no_grad()
def glassiness(
    machine: Machine, data: Dataset, rng: torch.Generator, *, chains: int, sweeps: int, starts: int
) -> dict[str, Tensor]:
    """Eqs. (1) to (3) of a machine, (e,) each."""
    spins = run_sweeps(machine, machine.random(chains, rng), rng, sweeps)
    series = []
    for _ in range(sweeps):
        spins = sweep(machine, spins, rng, means=True)
        series.append(spins)
    order = freezing(torch.stack(series, 2))  # (e, c, t, n)
    images = data.train.spins[torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))]
    near = machine.with_visible(images[:chains], means=True)
    near = run_sweeps(machine, near, rng, 2 * sweeps, means=True)
    lost = (machine.energy(spins).mean(1) - machine.energy(near).mean(1)) / machine.layers.columns
    return {
        "frozen": order.within.value,
        "apart": order.gap.value,
        "meet": minima(machine, starts, rng).coincidence.value,
        "lost": lost,
    }


def watching(**sizes: int) -> dict[str, Observable]:
    """`glassiness` of so many chains, sweeps and starts as observables of a training."""

    def look(progress: Progress, data: Dataset, rng: torch.Generator) -> dict[str, Tensor]:
        return glassiness(progress.machine, data, rng, **sizes)

    measured = once(look)

    def of(key: str) -> Observable:
        return lambda progress, data, rng: measured(progress, data, rng)[key]

    return {key: of(key) for key in MEASURES}


def _train(lab: Lab, scale: Scale, name: str) -> Values:
    data = shortened(load("digits"), scale.train, None)
    seen = watching(chains=scale.chains, sweeps=scale.sweeps, starts=scale.starts)
    recipe = _recipe(lab, scale, name)
    return lab.train(recipe, seen, data=data, at=lambda epoch: epoch in scale.looks)[0]


PARTS = each(_train, tuple(NAMES))


def glassy(record: Any) -> list[Number]:
    """The share of instances that are frozen, apart and with many minima, at each look."""
    frozen, apart, meet = (record.array(key) for key in ("frozen", "apart", "meet"))
    return Number.each(((frozen > FROZEN) & (apart > BROKEN) & (meet < MEET)).astype(float))


@item("Glassiness along the training", ("deep-glass",))
def deep_glass(records: Records) -> Figure:
    """Restricted, deep and full machines with Regularized Axons and with dense couplings, trained alike
    on digits. From chains that start at random: (a) how much they remember of themselves, (b) how much
    more than of each other; (c) the chance that two descents meet; (d) energy per unit above, or below,
    that of chains that start at images. Dotted: beyond these lines a machine that is frozen, apart and
    has many minima counts as a spin glass. Error bars: standard errors over instances."""
    looks = {name: (NAMES[name], pen) for name, pen in LOOK.items()}
    return courses(records, "deep-glass", looks)[0]


def courses(
    records: Records, study: str, looks: Mapping[str, tuple[str, Pen]], *, rows: int = 2
) -> tuple[Figure, list[Axes]]:
    """Eqs. (1) to (3) against the epochs, of some parts of a study, each in its words and look; and the
    axes of further rows."""
    fig, axes = panels(2, rows, height=2.2)
    for place, letter, (key, (words, limit)) in zip(axes, "abcd", MEASURES.items(), strict=False):
        for name, (whose, pen) in looks.items():
            course_points(place, records.get(f"{study}.{name}"), key, pen, whose)
        if limit is not None:
            place.axhline(limit, color="0.5", ls=":", lw=0.9)
        epochs_axis(place, words, f"({letter})", **({"yscale": "log"} if key == "meet" else {}))
    legend_below(fig, axes[0], 3)
    return fig, axes[4:]


@claim(tuple(f"deep-glass.{name}" for name in NAMES), full=True)
def deep_glass_control(records: Records) -> Finding:
    """Sec. VI: Where RAPID fails, “SKSG phenomenology is not the actual reason for the difficulty of
    training of deep BMs”; with Regularized Axons machines stay out of the spin glass.
    Read as: The largest share of instances that are frozen, apart and have many minima at any look, with
    Regularized Axons and with dense couplings.
    Rule: More than half with dense couplings and exactly none with Regularized Axons, of each kind of
    machine."""
    most = {}
    for name in NAMES:
        shares = glassy(records[f"deep-glass.{name}"])
        most[name] = max(shares, key=lambda number: number.value).value
    holds = all(most[f"{m}-dense"] > 0.5 and most[f"{m}-ra"] == 0.0 for m in MODELS)
    return Finding(holds, ", ".join(f"{NAMES[name]} {share:.0%}" for name, share in most.items()))
