"""Pure PID in deep and full machines, against how strongly hidden layers pull on each other.

A layer of N units that follow a pattern pulls on a neighbouring unit with about s² N, s the strength of
its axons; the V visible units pull with V. In a deep machine v–h1–h2, and in a full one between its
hidden units, the ratio of the two is

    c = s² N / V                                                                          (1)

Where c > 1 hidden units follow each other instead of the image: mean field ends in the pattern that
the image is nearest to, the average over the data becomes one over patterns, and what is learnt are
prototypes. Patterns of strength s = √(c V / N) (`training/coordinates`) make c a choice. How many
different states the first hidden layer has for the images is counted,

    different = (states) / (images),        two states are one if |overlap| > 0.9         (2)

Without strengths, s = 1, c is N / V: 62.5 for bars with 1,000 units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.splits import Dataset
from ...machines.machine import Machine
from ...sampling.mean_field import mean_field
from ..claims import Finding, Number, all_of, claim
from ..drawing import PENS, Figure, item, label, panels, points
from ..lab import Lab, Part, Rows, Settings, by_scale
from ..observables import distances
from ..records import Records, Values

SAME = 0.9  # an overlap from which on two states are one
LEARNT, LEARNT_BAS = 0.03, 0.1  # test distances
NAMES = {
    "dbm-bars": "deep, 4×4 bars",
    "bm-bars": "full, 4×4 bars",
    "dbm-bas": "deep, bars and stripes",
    "bm-bas": "full, bars and stripes",
}
LOOK = dict(zip(NAMES, PENS, strict=False))


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=2, quick=4, paper=20)
    pulls: tuple[float, ...] = by_scale(  # c of eq. (1)
        tiny=(0.1,), quick=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0), paper=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    )
    hidden: int = by_scale(tiny=40, quick=1000, paper=1000)  # units of each hidden layer
    full_hidden: int = by_scale(tiny=60, quick=3000, paper=3000)  # of a full machine on bars
    patterns: int = 8
    epochs: int = by_scale(tiny=2, quick=60, paper=100)
    rate: float = 0.02
    full_rate: float = 0.0125  # of full machines, which are colder
    full_strength: float = 2.0  # of their visible units
    bas_size: int = by_scale(tiny=4, quick=12, paper=12)
    bas_instances: int = by_scale(tiny=1, quick=2, paper=5)
    bas_pulls: tuple[float, ...] = by_scale(
        tiny=(0.1,), quick=(0.01, 0.1), paper=(0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    )
    bas_patterns: int = by_scale(tiny=4, quick=40, paper=40)
    bas_rate: float = 0.025  # of full machines
    bas_epochs: int = by_scale(tiny=2, quick=20, paper=20)
    iterations: int = by_scale(tiny=3, quick=10, paper=10)  # of mean field
    tries: int | None = by_scale(tiny=1, quick=None, paper=None)  # reconstructions of each image


def _strengths(kind: str, pull: float, visible: int, hidden: int, first: float) -> tuple[float, ...]:
    """Those for which eq. (1) has this value; `first` is that of a full machine's visible units."""
    deep = math.sqrt(pull * visible / hidden)
    return (1.0, 1.0, deep) if kind == "dbm" else (first, first * deep)


def _swept(lab: Lab, scale: Scale, kind: str, task: str) -> Values:
    """A training for every pull, and one without strengths."""
    bars = task == "bars"
    pulls = scale.pulls if bars else scale.bas_pulls
    hidden = scale.full_hidden if bars and kind == "bm" else scale.hidden
    rows = Rows()
    for i, pull in enumerate((*pulls, None)):
        chosen: dict[str, Any] = {
            "model": kind,
            "hidden": (hidden, hidden) if kind == "dbm" else (hidden,),
            "patterns": scale.patterns if bars else scale.bas_patterns,
            "replicas": scale.instances if bars else scale.bas_instances,
            "epochs": scale.epochs if bars else scale.bas_epochs,
            "positive": "meanfield",
            "positive_steps": scale.iterations,
            "rate": (scale.rate,),
        }
        if kind == "bm" and pull is not None:
            chosen["rate"] = (scale.full_rate if bars else scale.bas_rate,)
        dataset = "bars4" if bars else f"bas{scale.bas_size}"
        preset = "paper-bars" if bars else "paper-bas12"
        data = lab.recipe(dataset, preset).data()
        if pull is not None:
            chosen["strengths"] = _strengths(kind, pull, data.visible, hidden, scale.full_strength)
        recipe = lab.recipe(dataset, preset, **chosen)
        part = lab.within(i / (len(pulls) + 1), (i + 1) / (len(pulls) + 1))
        found, run = part.train(recipe, distances(scale.tries), at=lambda epoch: False, name=f"pull-{i}")
        machine = lab.machine(run)
        rows.add({"pull": pull if pull is not None else hidden / data.visible})
        rows.add({key: found[key][-1] for key in distances()})
        rows.add({"different": different(machine, data, scale.iterations)})
    return rows


def _alone(lab: Lab, scale: Scale, task: str) -> Values:
    """Full machines without hidden units, beside restricted ones of the paper's recipe."""
    bars = task == "bars"
    dataset, preset = ("bars4", "paper-bars") if bars else (f"bas{scale.bas_size}", "paper-bas12")
    few: dict[str, Any] = {
        "patterns": scale.patterns if bars else scale.bas_patterns,
        "replicas": scale.instances if bars else scale.bas_instances,
        "epochs": scale.epochs if bars else scale.bas_epochs,
    }
    kinds: dict[str, dict[str, Any]] = {"rbm": {"hidden": (scale.hidden,)}}
    for times in (1, 2, 4):
        kinds[f"bm-{times}"] = {
            "model": "bm",
            "hidden": (),
            "patterns": times * int(few["patterns"]),
            "strengths": (scale.full_strength,),
            "rate": ((0.1 if bars else scale.bas_rate) * times**0.5,),
        }
    values: Values = {}
    for i, (name, chosen) in enumerate(kinds.items()):
        recipe = lab.recipe(dataset, preset, **few | chosen)
        part = lab.within(i / len(kinds), (i + 1) / len(kinds))
        found, _ = part.train(recipe, distances(scale.tries), at=lambda epoch: False, name=name)
        values |= {f"{name}_{key}": found[key][-1] for key in distances()}
        values[f"{name}_patterns"] = recipe.patterns
    return values


@torch.no_grad()
def different(machine: Machine, data: Dataset, iterations: int) -> Tensor:
    """Eq. (2), of at most 200 images, (e,)."""
    images = torch.cat([data.train.spins, data.test.spins])[:200].to(machine.device, machine.dtype)
    spins = mean_field(machine, images.expand(machine.replicas, -1, -1), iterations)
    first = spins[..., machine.layers.slices[1]]
    first = first / first.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    same = (first @ first.mT).abs() > SAME  # (e, c, c); v and −v have the same states
    new = ~(same & torch.ones_like(same).tril(-1)).any(-1)
    share: Tensor = new.double().mean(-1)
    return share


PARTS = {
    **{
        f"{kind}-{task}": Part(_swept, (kind, task)) for task in ("bars", "bas") for kind in ("dbm", "bm")
    },
    "alone-bars": Part(_alone, ("bars",)),
    "alone-bas": Part(_alone, ("bas",)),
}


@item("Pure PID in deep and full machines", ("deep-steering",))
def deep_steering(records: Records) -> Figure:
    """Machines with two hidden layers (deep) or with all pairs coupled (full), trained by pure PID,
    against c, how hard hidden units pull on each other over how hard the image does; the last point of
    each curve is without strengths. (a) Share of wrong pixels in completed test images; lines: restricted
    machines. (b) Different states of the first hidden layer per image: where it falls, whatever is seen
    ends in a few patterns. Error bars: standard errors over instances."""
    fig, (test, states) = panels(2, height=2.6)
    for name, pen in LOOK.items():
        record = records.get(f"deep-steering.{name}")
        if record is None:
            continue
        for axes, key in ((test, "hamming_test"), (states, "different")):
            points(axes, record["pull"], Number.each(record.array(key)), pen, NAMES[name])
    for name, dash in (("alone-bars", ":"), ("alone-bas", "--")):
        record = records.get(f"deep-steering.{name}")
        if record is not None:
            test.axhline(Number.of(record.array("rbm_hamming_test")).value, ls=dash, c="0.5", lw=0.9)
    label(test, "pull c of hidden units", "test distance", "(a)", xscale="log", ylim=(0, None))
    label(states, "pull c of hidden units", "different states per image", "(b)", xscale="log")
    states.set_ylim(0, None)
    test.legend(loc="upper left", fontsize=6)
    return fig


def _best(record: Any, key: str = "hamming_test") -> tuple[float, Number]:
    """The pull with the lowest mean, and that mean; the training without strengths apart."""
    numbers = Number.each(record.array(key)[:-1])
    i = min(range(len(numbers)), key=lambda j: numbers[j].value)
    return record["pull"][i], numbers[i]


@claim(("deep-steering.dbm-bars", "deep-steering.bm-bars"), full=True)
def deep_straightforward(records: Records) -> Finding:
    """Sec. III.B: “The general-case algorithm for arbitrary, deep or fully connected BMs, can be
    straightforwardly obtained”.
    Read as: Test distance on bars after pure PID with two equal hidden layers and with full
    connectivity, all axons of strength 1.
    Rule: At most {LEARNT} in both, by 2 σ."""
    answers, told = [], []
    for name in ("dbm-bars", "bm-bars"):
        record = records[f"deep-steering.{name}"]
        plain, states = (Number.of(record.array(k)[-1]) for k in ("hamming_test", "different"))
        more = Number.of(record.array("different")[record["pull"].index(_best(record)[0])])
        answers.append(plain.below(LEARNT))
        told.append(f"{NAMES[name]} {plain}, {states} hidden states per image ({more} at the best pull)")
    return Finding(all_of(*answers), "; ".join(told))


@claim(
    (
        "deep-steering.dbm-bars",
        "deep-steering.bm-bars",
        "deep-steering.dbm-bas",
        "deep-steering.alone-bas",
    ),
    full=True,
)
def deep_pid(records: Records) -> Finding:
    """Sec. VI: “We expect that RAPID, or variations of it, will bring the long-sought-after efficient
    algorithms for training deep Boltzmann machines”.
    Read as: Test distances after pure PID with axons of the strength that does best, of full machines
    on bars and stripes without hidden units.
    Rule: At most {LEARNT} on bars and {LEARNT_BAS} on bars and stripes, by 2 σ, each."""
    deep, full, bas = (_best(records[f"deep-steering.{n}"]) for n in ("dbm-bars", "bm-bars", "dbm-bas"))
    alone = records["deep-steering.alone-bas"]
    each = (Number.of(alone.array(f"bm-{n}_hamming_test")) for n in (1, 2, 4))
    least = min(each, key=lambda x: x.value)
    small, large = (deep[1], full[1]), (bas[1], least)
    return Finding(
        all_of(*(x.below(LEARNT) for x in small), *(x.below(LEARNT_BAS) for x in large)),
        f"bars: deep {deep[1]} (c = {deep[0]:g}), full {full[1]} (c = {full[0]:g}); bars and stripes: "
        f"deep {bas[1]} (c = {bas[0]:g}), full without hidden units {least}",
    )
