"""Pure PID in deep and full machines, against how fast the patterns of hidden units move.

Where hidden units are coupled to each other the gradient moves their patterns as fast as those of
visible units, N / V times as fast as in a restricted machine (`training/coordinates/pace.py`), and each
projection to ±1 rewrites them. So a pace is put on the steps of hidden patterns, or their layers get
strengths (`training/coordinates/strengths.py`). Seen beside the distance of reconstructions is

    rewritten    the share of signs of hidden patterns that the first epoch changes              (1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rapidbm.machines.machine import Machine
from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, item, points
from ..lab import Lab, Part, Rows, Settings, by_scale
from ..observables import Observable, distances
from ..records import Records, Values

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
    paces: tuple[float, ...] = by_scale(
        tiny=(0.01, 1.0),
        quick=(0.001, 0.01, 0.1, 1.0),
        paper=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    )
    hidden: int = by_scale(tiny=40, quick=500, paper=1000)  # units of each hidden layer
    patterns: int = 8
    epochs: int = by_scale(tiny=2, quick=60, paper=100)
    rate: float = 0.02
    pull: float = 0.3  # s² N / V of the deepest layer where it has a strength
    full_strength: float = 4.0  # of the visible units of full machines: they would be hot
    bare_strength: float = 2.0  # the same without hidden units, and on bars and stripes
    full_rate: float = 0.005
    bas_size: int = by_scale(tiny=4, quick=12, paper=12)
    bas_instances: int = by_scale(tiny=1, quick=2, paper=5)
    bas_paces: tuple[float, ...] = by_scale(tiny=(0.01,), quick=(0.01, 1.0), paper=(0.01, 1.0))
    bas_patterns: int = by_scale(tiny=4, quick=40, paper=40)
    bas_pull: float = 0.03
    bas_rate: float = 0.025  # of full machines
    bas_epochs: int = by_scale(tiny=2, quick=20, paper=20)
    iterations: int = by_scale(tiny=3, quick=10, paper=10)  # of mean field
    tries: int | None = by_scale(tiny=1, quick=None, paper=None)  # reconstructions of each image


def rewritten(start: Machine) -> Observable:
    """Eq. (1), of a training that began with this machine."""

    def signs(machine: Machine) -> Tensor:
        assert machine.patterns is not None
        return machine.patterns.detach()[..., machine.visible :] >= 0

    first = signs(start)
    return lambda progress, data, rng: (signs(progress.machine) != first).double().mean((1, 2))


# -- parts --------------------------------------------------------------------------------------------


def _chosen(scale: Scale, kind: str, task: str) -> dict[str, Any]:
    bars = task == "bars"
    rate = scale.rate if kind == "dbm" else scale.full_rate if bars else scale.bas_rate
    chosen: dict[str, Any] = {
        "model": kind,
        "hidden": (scale.hidden, scale.hidden) if kind == "dbm" else (scale.hidden,),
        "patterns": scale.patterns if bars else scale.bas_patterns,
        "replicas": scale.instances if bars else scale.bas_instances,
        "epochs": scale.epochs if bars else scale.bas_epochs,
        "positive": "meanfield",
        "positive_steps": scale.iterations,
        "rate": (rate,),
    }
    if kind == "bm":
        chosen["strengths"] = (scale.full_strength if bars else scale.bare_strength, 1.0)
    return chosen


def _task(scale: Scale, task: str) -> tuple[str, str]:
    return ("bars4", "paper-bars") if task == "bars" else (f"bas{scale.bas_size}", "paper-bas12")


def _paced(lab: Lab, scale: Scale, kind: str, task: str) -> Values:
    """A training at every pace of the hidden patterns."""
    paces = scale.paces if task == "bars" else scale.bas_paces
    rows = Rows()
    for i, pace in enumerate(paces):
        recipe = lab.recipe(*_task(scale, task), **_chosen(scale, kind, task), pace=pace)
        part = lab.within(i / len(paces), (i + 1) / len(paces))
        seen = {**distances(scale.tries), "rewritten": rewritten(lab.first(recipe, recipe.data()))}
        found, _ = part.train(recipe, seen, at=lambda epoch: epoch == 1, name=f"pace-{i}")
        rows.add({"pace": pace, "rewritten": found["rewritten"][1]})
        rows.add({key: found[key][-1] for key in distances()})
    return rows


def _strong(lab: Lab, scale: Scale, task: str) -> Values:
    """A deep machine whose second hidden layer has a strength, full ones without hidden units and with
    more patterns, and a restricted one of the paper's recipe."""
    dataset, preset = _task(scale, task)
    visible = lab.recipe(dataset, preset).data().visible
    pull = scale.pull if task == "bars" else scale.bas_pull
    deep, full = _chosen(scale, "dbm", task), _chosen(scale, "bm", task)
    few = {key: full[key] for key in ("replicas", "epochs", "patterns")}
    kinds: dict[str, dict[str, Any]] = {
        "rbm": {**few, "hidden": (scale.hidden,)},
        "dbm": {**deep, "strengths": (1.0, 1.0, math.sqrt(pull * visible / scale.hidden))},
    }
    for times in (1, 2, 4):
        kinds[f"bm-{times}"] = {
            **few,
            "model": "bm",
            "hidden": (),
            "patterns": times * int(full["patterns"]),
            "strengths": (scale.bare_strength,),
            "rate": ((0.1 if task == "bars" else scale.bas_rate) * times**0.5,),
        }
    values: Values = {}
    for i, (name, chosen) in enumerate(kinds.items()):
        part = lab.within(i / len(kinds), (i + 1) / len(kinds))
        recipe = part.recipe(dataset, preset, **chosen)
        found, _ = part.train(recipe, distances(scale.tries), at=lambda epoch: False, name=name)
        values |= {f"{name}_{key}": found[key][-1] for key in distances()}
    return values


PARTS = {
    **{
        f"{kind}-{task}": Part(_paced, (kind, task)) for task in ("bars", "bas") for kind in ("dbm", "bm")
    },
    "strong-bars": Part(_strong, ("bars",)),
    "strong-bas": Part(_strong, ("bas",)),
}


@item("Pure PID in deep and full machines", ("deep-steering",))
def deep_steering(records: Records) -> Figure:
    """Machines with two equal hidden layers (deep) or with all pairs coupled (full), trained by pure PID,
    against the pace of the patterns of hidden units, 1 being that of the gradient. (a) Share of wrong
    pixels in completed test images; grey: restricted machines. (b) Share of the signs of hidden patterns
    that the first epoch rewrites. Error bars: standard errors over instances."""
    fig, (test, moved) = panels(2, height=2.6)
    for name, pen in LOOK.items():
        record = records.get(f"deep-steering.{name}")
        if record is None:
            continue
        for axes, key in ((test, "hamming_test"), (moved, "rewritten")):
            points(axes, record["pace"], Number.each(record.array(key)), pen, NAMES[name])
    for name, dash in (("strong-bars", ":"), ("strong-bas", "--")):
        record = records.get(f"deep-steering.{name}")
        if record is not None:
            test.axhline(Number.of(record.array("rbm_hamming_test")).value, ls=dash, c="0.5", lw=0.9)
    label(test, "pace of hidden patterns", "test distance", "(a)", xscale="log", ylim=(0, None))
    label(moved, "pace of hidden patterns", "rewritten in an epoch", "(b)", xscale="log", ylim=(0, None))
    test.legend(loc="upper left", fontsize=6)
    return fig


def _best(record: Any) -> tuple[float, Number]:
    """The pace with the lowest mean test distance, and that mean."""
    numbers = Number.each(record.array("hamming_test"))
    i = min(range(len(numbers)), key=lambda j: numbers[j].value)
    return record["pace"][i], numbers[i]


@claim(("deep-steering.dbm-bars", "deep-steering.bm-bars"), full=True)
def deep_straightforward(records: Records) -> Finding:
    """Sec. III.B: “The general-case algorithm for arbitrary, deep or fully connected BMs, can be
    straightforwardly obtained”.
    Read as: Test distance on bars after pure PID with two equal hidden layers and with full
    connectivity, hidden patterns at the pace of the gradient.
    Rule: At most {LEARNT} in both, by 2 σ."""
    answers, told = [], []
    for name in ("dbm-bars", "bm-bars"):
        record = records[f"deep-steering.{name}"]
        plain, share = (Number.of(record.array(k)[-1]) for k in ("hamming_test", "rewritten"))
        answers.append(plain.below(LEARNT))
        told.append(f"{NAMES[name]} {plain}, {share} of hidden signs rewritten in an epoch")
    return Finding(all_of(*answers), "; ".join(told))


@claim(
    ("deep-steering.dbm-bars", "deep-steering.strong-bars", "deep-steering.strong-bas"),
    ("deep-steering.bm-bars", "deep-steering.dbm-bas", "deep-steering.bm-bas"),
    full=True,
)
def deep_pid(records: Records) -> Finding:
    """Sec. VI: “We expect that RAPID, or variations of it, will bring the long-sought-after efficient
    algorithms for training deep Boltzmann machines”.
    Read as: The lowest test distance after pure PID of deep and of full machines, hidden patterns at
    any pace, layers with or without strengths, hidden units or none in full ones.
    Rule: At most {LEARNT} on bars and {LEARNT_BAS} on bars and stripes, by 2 σ, of both."""
    answers, told = [], []
    for task, limit in (("bars", LEARNT), ("bas", LEARNT_BAS)):
        strong = records[f"deep-steering.strong-{task}"]
        for kind, others in (("dbm", ("dbm",)), ("bm", ("bm-1", "bm-2", "bm-4"))):
            each = {f"strengths, {n}": Number.of(strong.array(f"{n}_hamming_test")) for n in others}
            if (record := records.get(f"deep-steering.{kind}-{task}")) is not None:
                pace, number = _best(record)
                each[f"pace {pace:g}"] = number
            best = min(each, key=lambda name: each[name].value)
            answers.append(each[best].below(limit))
            told.append(f"{NAMES[f'{kind}-{task}']} {each[best]} ({best})")
    return Finding(all_of(*answers), "; ".join(told))
