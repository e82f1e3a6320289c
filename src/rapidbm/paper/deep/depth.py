"""What depth, couplings within layers, the positive phase and centring are worth, on digits.

Machines of about as many parameters are trained alike by persistent chains, and one thing at a time is
another: how deep, how connected, what infers the hidden units, whether gradients are centred, whether a
first layer is trained before the rest. Of test images

    log p(v) = log Σ_h exp(−E(v, h)) − log Z,    gap: by how much mean field's bound lies below   (1)

the sum over hidden units annealed with the image held, with an interval; and of chains that have started
at images and settled, the sweeps after which they have forgotten where they were,

    C(t) = overlap of a chain with itself t sweeps ago, less that with others,   C(τ) = C(0)/e    (2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.catalogue import load
from ...data.splits import Dataset
from ...likelihood.log_z import log_bound, log_likelihood, log_z
from ...machines.machine import Machine
from ...runs.recipe import Recipe
from ...sampling.gibbs import sweeps
from ..claims import Finding, Number, claim, crossing
from ..drawing import PENS, Figure, item, label, panels
from ..lab import Lab, Settings, by_scale, each, shortened
from ..records import Records, Values
from .likelihood import first_layer

NAMES = {
    "rbm": "restricted",
    "dbm": "deep",
    "dbm-clamped": "deep, hidden units by clamped chains",
    "dbm-plain": "deep, gradients not centred",
    "dbm-layerwise": "deep, from a restricted one",
    "dbm3": "three hidden layers",
    "bm": "full",
    "bm-clamped": "full, hidden units by clamped chains",
    "bm-visible": "full, no hidden units",
    "dense-rbm": "restricted, dense",
    "dense-dbm": "deep, dense",
    "dense-bm": "full, dense",
}


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    train: int | None = by_scale(tiny=100, quick=None, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=20, quick=None, paper=None)
    instances: int = by_scale(tiny=2, quick=2, paper=5)
    hidden: int = by_scale(tiny=9, quick=100, paper=100)  # units in all, of full machines half
    patterns: int = by_scale(tiny=3, quick=40, paper=40)
    epochs: int = by_scale(tiny=2, quick=200, paper=200)
    batch_size: int = by_scale(tiny=50, quick=100, paper=100)
    particles: int = by_scale(tiny=10, quick=200, paper=200)
    sweeps: int = by_scale(tiny=1, quick=2, paper=2)
    lifetime: int = by_scale(tiny=10, quick=500, paper=500)
    rate: float = 3e-3
    dense_rate: float = 1e-3
    decay: float = 0.05
    chains: int = by_scale(tiny=4, quick=100, paper=100)  # of which τ is measured
    settle: int = by_scale(tiny=5, quick=300, paper=300)
    record: int = by_scale(tiny=8, quick=1000, paper=1000)  # sweeps


def _chosen(scale: Scale, visible: int, name: str) -> dict[str, Any]:
    """The machine, of about K (V + H) parameters whatever it is, and how it is trained."""
    h, k = scale.hidden, scale.patterns
    half, third = h // 2, h // 3
    numbers = k * (visible + h)
    wide = numbers // visible  # hidden units of a dense restricted machine
    layers = {"rbm": (h,), "dbm": (half, half), "dbm3": (h - 2 * third, third, third), "bm": (half,)}
    model, _, how = name.removeprefix("dense-").partition("-")
    chosen: dict[str, Any] = {"model": model.removesuffix("3"), "hidden": layers[model], "patterns": k}
    if model == "bm":
        chosen["patterns"] = numbers // (visible + half)
    if how == "visible":
        chosen |= {"hidden": (), "patterns": visible}  # more patterns than units add nothing
    if name.startswith("dense-"):
        shapes = {"rbm": (wide,), "dbm": (wide * 2 // 3, wide // 3), "bm": (half,)}
        chosen |= {"hidden": shapes[model], "patterns": None}
    chosen["rate"] = (scale.dense_rate if chosen["patterns"] is None else scale.rate,)
    if model != "rbm" and chosen["hidden"]:
        chosen |= {"positive": "clamped" if how == "clamped" else "meanfield", "positive_steps": 10}
    return chosen | {"centred": how != "plain"}


def _recipe(lab: Lab, scale: Scale, data: Dataset, name: str) -> Recipe:
    return lab.recipe(
        "digits",
        "auto",
        particles=scale.particles,
        sweeps=scale.sweeps,
        lifetime=scale.lifetime,
        batch_size=scale.batch_size,
        weight_decay=(scale.decay,),
        replicas=scale.instances,
        epochs=max(1, scale.epochs // (2 if name == "dbm-layerwise" else 1)),
        metrics=("hamming",),  # not asked for: the end is judged here
        **_chosen(scale, data.visible, name),
    )


def _trained(lab: Lab, scale: Scale, name: str) -> Values:
    data = shortened(load("digits"), scale.train, scale.test)
    recipe, start, rest = _recipe(lab, scale, data, name), None, lab.within(0.0, 0.5)
    if name == "dbm-layerwise":
        start, rest = first_layer(lab.within(0.0, 0.25), recipe, data), lab.within(0.25, 0.5)
    _, run = rest.train(recipe, {}, data=data, at=lambda epoch: False, start=start)
    machine = lab.machine(run)
    found: Values = {
        "parameters": sum(p.numel() for p in machine.parameters()) // machine.replicas,
        "updates": run.info["update"],
        "seconds": run.info["seconds"],
    }
    z = log_z(machine, seed=lab.seed, data=data.train)
    p = log_likelihood(machine, data.test, normaliser=z, seed=lab.seed)
    found |= {"test": p.value, "width": p.upper - p.lower}
    found |= {"train": log_bound(machine, data.train, z).value}
    if p.gap is not None:
        found["gap"] = p.gap
    lab.tell(0.8)
    return found | {"time": _time(lab, scale, machine, data)}


@torch.no_grad()
def _time(lab: Lab, scale: Scale, machine: Machine, data: Dataset) -> list[float]:
    """τ of eq. (2) for each instance; as many sweeps as were made where C does not fall so far."""
    rng, n = lab.rng("mixing"), machine.visible
    images = data.train.spins[torch.arange(scale.chains) * len(data.train) // scale.chains]
    now = sweeps(machine, machine.with_visible(images, means=True), rng, scale.settle, means=True)
    first, lags, courses = now[..., :n], [0], [_memory(now[..., :n], now[..., :n])]
    while lags[-1] < scale.record:
        lags.append(min(scale.record, max(lags[-1] + 1, lags[-1] * 5 // 4)))
        now = sweeps(machine, now, rng, lags[-1] - lags[-2])
        courses.append(_memory(first, now[..., :n]))
    times = []
    for course in torch.stack(courses, 1).double().cpu().numpy():  # (e, t)
        found = crossing(lags, course, float(course[0]) / math.e)
        times.append(float(scale.record) if found is None else found)
    return times


def _memory(one: Tensor, other: Tensor) -> Tensor:
    """C of eq. (2), (e,)."""
    overlap = one @ other.mT / one.shape[2]  # (e, c, c)
    own, all_of_them, c = overlap.diagonal(dim1=1, dim2=2).sum(1), overlap.sum((1, 2)), one.shape[1]
    found: Tensor = own / c - (all_of_them - own) / (c * (c - 1))
    return found


PARTS = each(_trained, tuple(NAMES))


def _of(records: Records, name: str, key: str) -> Number | None:
    record = records.get(f"deep-digits.{name}")
    return None if record is None or key not in record.values else Number.of(record.array(key))


def _told(records: Records) -> str:
    rows = []
    for name, words in NAMES.items():
        if (test := _of(records, name, "test")) is None:
            continue
        gap, record = _of(records, name, "gap"), records[f"deep-digits.{name}"]
        more = "" if gap is None else f", gap {gap}"
        width = float(record.array("width").max())
        numbers = f"{words} ({record['parameters']:,} parameters): {test}{more}"
        rows.append(f"{numbers}, intervals up to {width:.2f} wide")
    return (
        "Machines of about as many parameters, trained alike on digits. (a) log p of test images in "
        "nats; (b) by how much the bound of mean field lies below it; (c) sweeps after which chains "
        "have forgotten where they were. Means and standard errors over instances: "
        f"{'; '.join(rows)}."
    )


@item("What depth and couplings within layers add", ("deep-digits",), _told)
def deep_digits(records: Records) -> Figure:
    fig, axes = panels(3, height=3.2)
    seen = [name for name in NAMES if f"deep-digits.{name}" in records]
    keys = {"test": "log p", "gap": "variational gap", "time": "τ, sweeps"}
    for place, letter, (key, words) in zip(axes, "abc", keys.items(), strict=True):
        for i, name in enumerate(seen):
            number = _of(records, name, key)
            if number is not None:
                error = number.error if number.count > 1 else 0.0
                pen = PENS[1 if name.startswith("dense") else 0]
                place.errorbar([number.value], [-i], xerr=[error], color=pen.colour, marker=pen.marker)
        label(place, words, "", f"({letter})")
        place.set_ylim(-len(seen) + 0.5, 0.5)
        place.set_yticks(
            [-i for i in range(len(seen))], [NAMES[n] if letter == "a" else "" for n in seen]
        )
    axes[2].set_xlim(left=0)
    return fig


@claim(("deep-digits.rbm", "deep-digits.dbm", "deep-digits.dbm-layerwise", "deep-digits.dbm3"))
def deep_adds(records: Records) -> Finding:
    """Sec. VI: RAPID, or variations of it, should bring efficient training to deep machines.
    Read as: Test log p of a deep machine with Regularized Axons, the best of two and three hidden layers,
    from scratch and from a restricted one, less that of a restricted machine of as many parameters.
    Rule: Above 0 by 2 σ."""
    flat = records["deep-digits.rbm"].array("test")
    deep = {n: records[f"deep-digits.{n}"].array("test") for n in ("dbm", "dbm-layerwise", "dbm3")}
    less = {name: Number.of(rows) - Number.of(flat) for name, rows in deep.items()}
    best = max(less, key=lambda name: less[name].value)
    told = ", ".join(f"{NAMES[name]} {number}" for name, number in less.items())
    return Finding(less[best].above(0.0), f"less the restricted one's {Number.of(flat)}: {told}")
