"""Machines of about as many parameters, by name, and how each is trained.

A name is a kind, rbm, dbm, dbm3 (three hidden layers) or bm, `dense-` before it where it has no patterns,
and behind it what else is another:

    most, half      restricted, with 4/5 or half of the hidden units
    even            two hidden layers of one size, not of 4/5 and 1/5
    strong          layers that start with one strength
    clamped         hidden units of data by clamped chains, not by mean field
    plain           gradients that are not centred
    layerwise       from a restricted machine of the first two layers
    visible         no hidden units
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from rapidbm.data.splits import Dataset
from rapidbm.runs.presets import DEEP, DEEP_START, two_layers
from rapidbm.runs.recipe import Recipe
from rapidbm.training.trainer import Trainer

from ..lab import Lab

DENSE = {"rbm": (), "dbm": (0.25,), "dbm3": (0.25, 0.125)}  # further layers, over the first one


@dataclass(frozen=True)
class Sizes:
    """What all machines of a study share."""

    visible: int
    hidden: int  # units in all, of machines that are not full
    full: int  # of full ones
    patterns: int
    rate: float
    dense_rate: float

    @property
    def numbers(self) -> int:
        """Parameters, biases apart."""
        return self.patterns * (self.visible + self.hidden)


def settings_of(name: str, sizes: Sizes) -> dict[str, Any]:
    """The machine of that name as settings of a recipe, of about K (V + H) parameters unless it is a
    smaller one."""
    model, _, how = name.removeprefix("dense-").partition("-")
    v, h = sizes.visible, sizes.hidden
    chosen: dict[str, Any] = {"model": model.removesuffix("3"), "patterns": sizes.patterns}
    other = {"most": two_layers(h)[:1], "half": (h // 2,), "even": (h // 2, h // 2), "visible": ()}
    chosen["hidden"] = other.get(how, _layers(model, sizes))
    if model == "bm":
        most = sizes.numbers // (v + sum(chosen["hidden"]))
        chosen["patterns"] = min(most, v + sum(chosen["hidden"]))  # more than units add nothing
    if name.startswith("dense-"):
        chosen["patterns"] = None
        if model != "bm":
            chosen["hidden"] = dense_layers(sizes.numbers, v, DENSE[model])
    chosen["rate"] = (sizes.dense_rate if chosen["patterns"] is None else sizes.rate,)
    if model != "rbm" and chosen["hidden"]:
        chosen |= DEEP | ({"positive": "clamped"} if how == "clamped" else {})
    if chosen["model"] == "dbm":
        chosen["deep_start"] = 1.0 if how == "strong" else DEEP_START
    return chosen | {"centred": how != "plain"}


def _layers(model: str, sizes: Sizes) -> tuple[int, ...]:
    h = sizes.hidden
    fifth, tenth = h // 5, h // 10
    three = (h - fifth - tenth, fifth, tenth)
    return {"rbm": (h,), "dbm": two_layers(h), "dbm3": three, "bm": (sizes.full,)}[model]


def dense_layers(couplings: int, visible: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Layers with so many couplings, a V + a² q of them, each further layer a share of the first, a."""
    q = sum(x * y for x, y in zip((1.0, *shares), shares, strict=False))
    a = couplings / visible
    if q:
        a = (math.sqrt(visible**2 + 4 * q * couplings) - visible) / (2 * q)
    return tuple(max(1, round(a * share)) for share in (1.0, *shares))


def first_layer(lab: Lab, recipe: Recipe, data: Dataset) -> Any:
    """Trains a restricted machine of the first two layers, from which the deep one of that recipe then
    starts."""
    whole: dict[str, Any] = {"model": "rbm", "hidden": recipe.hidden[:1], "positive": "auto"}
    flat = replace(recipe, **whole, positive_steps=None, deep_start=1.0)
    _, run = lab.train(flat, {}, data=data, at=lambda epoch: False, name="first")
    first = lab.machine(run)

    def start(trainer: Trainer) -> None:
        machine, n = trainer.machine, first.layers.columns
        assert machine.patterns is not None
        assert machine.biases is not None
        assert first.patterns is not None
        assert first.biases is not None
        machine.patterns.data[..., :n] = first.patterns
        machine.biases.data[..., :n] = first.biases

    return start
