"""Are trained machines well approximated by few patterns? (Sec. VI, and the "≈ 4 patterns" of fig. 4)

The couplings W of dense machines, trained, are replaced by K patterns,

    W ≈ (1/√K) Σ_k ξ_v^k ξ_h^k                                                            (1)

the nearest ones in mean square (`Patterns.from_dense`), or, as a stricter reading of Regularized Axons,
patterns of spins with one common scale, ξ = x·sign of the same singular vectors,

    x² = ⟨W, S⟩ / ⟨S, S⟩,        S = (1/√K) Σ_k sign(u_k) sign(v_k)ᵀ                      (2)

What is lost against K: on bars, by enumeration, the likelihood, the reconstructions and

    KL = Σ_v p(v) log [ p(v) / p_K(v) ]                                                   (3)

and on digits the likelihood by annealing, beside machines that were trained with K patterns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.errors import InputError
from rapidbm.estimates import Bounds
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.couplings import Couplings
from rapidbm.machines.enumeration import enumerate_spins, free_layers, log_weight
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.runs.metrics import hamming_distance

from ..claims import Finding, Number, all_of, claim
from ..drawing import Axes, Figure, curve, item, points
from ..lab import Lab, Part, Rows, Settings, by_scale, shortened
from ..observables import SPLITS
from ..records import Record, Records, Values, any_tiny
from . import bars4 as bars

# part: the part of the study "bars" that trained its machines
DENSE = {**{part: part for part in bars.RELEASED.values()}, **bars.USUAL}
READINGS = ("continuous", "rounded")
ABOUT_FOUR = 5  # patterns, at most
NEAR = 1.0  # nats per image
ALIKE = 0.05  # of the Hamming distance
FLOOR = 1e-5  # nats: less is not drawn


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=1, quick=2, paper=100)  # of those that were trained on bars
    patterns: tuple[int, ...] = by_scale(
        tiny=(1, 4),
        quick=(1, 2, 3, 4, 5, 8, 16),
        paper=tuple(range(1, 17)),
    )
    dataset: str = by_scale(tiny="digits", quick="digits", paper="mnist")
    images: int = by_scale(tiny=100, quick=0, paper=0)  # to train on; 0 for all
    hidden: int = by_scale(tiny=6, quick=64, paper=500)
    epochs: int = by_scale(tiny=2, quick=40, paper=20)
    replicas: int = by_scale(tiny=2, quick=2, paper=4)
    larger_patterns: tuple[int, ...] = by_scale(
        tiny=(1, 6), quick=(2, 4, 8, 16, 32, 64), paper=(10, 50, 100, 200, 500)
    )
    trained_patterns: tuple[int, ...] = by_scale(tiny=(2,), quick=(8, 16, 32), paper=(100,))
    chains: int = by_scale(tiny=10, quick=200, paper=200)
    temperatures: int = by_scale(tiny=20, quick=1000, paper=3000)


# -- few patterns in place of many couplings ----------------------------------------------------------


@torch.no_grad()
def rounded(dense: Couplings, patterns: int) -> Patterns:
    """Patterns ±x with the x of eq. (2)."""
    spins = SPIN.nearest(Patterns.from_dense(dense, patterns).patterns)
    shape = Patterns(dense.layers, spins).matrix(0, 1)
    square = (shape * dense.matrix(0, 1)).sum((1, 2)) / shape.square().sum((1, 2))
    return Patterns(dense.layers, spins * square.clamp(min=0).sqrt()[:, None, None])


def described(machine: Machine, patterns: int, reading: str = "continuous") -> Machine:
    """The machine with its couplings replaced, eq. (1)."""
    take = Patterns.from_dense if reading == "continuous" else rounded
    biases = None if machine.biases is None else machine.biases.data
    return Machine(take(machine.couplings, patterns), biases).requires_grad_(False)


def residual(machine: Machine, other: Machine) -> Tensor:
    """|W − W_K| / |W|, (e,)."""
    whole = machine.couplings.matrix(0, 1)
    left = whole - other.couplings.matrix(0, 1)
    share: Tensor = left.norm(dim=(1, 2)) / whole.norm(dim=(1, 2))
    return share


@torch.no_grad()
def visible_weights(machine: Machine) -> Tensor:
    """log Σ_h exp(−E) of all visible states, of one of v and −v where they weigh the same, (e, x)."""
    free = free_layers(machine.layers)
    some = enumerate_spins(machine, half=machine.symmetric)
    return torch.cat([log_weight(machine, spins, free, 1.0) for spins in some], 1)


def divergence(logs: Tensor, other: Tensor) -> Tensor:
    """Eq. (3) from `visible_weights`, (e,)."""
    p, q = torch.log_softmax(logs, 1), torch.log_softmax(other, 1)
    return (p.exp() * (p - q)).sum(1)


# -- bars ---------------------------------------------------------------------------------------------


def _seen(lab: Lab, machine: Machine, data: Dataset, logs: Tensor) -> dict[str, Tensor]:
    total = torch.logsumexp(logs, 1) + (math.log(2) if machine.symmetric else 0.0)
    z = Bounds.exactly(total, "states")
    found = {}
    for name in SPLITS:
        split = getattr(data, name)
        found[f"hamming_{name}"] = hamming_distance(machine, split, lab.rng("hamming", name))
        found[f"likelihood_{name}"] = log_likelihood(machine, split, normaliser=z).value
    return found


def _bars(lab: Lab, scale: Scale, need: str) -> Values:
    whole = lab.kept(need)
    for parameter in whole.parameters():
        parameter.data = parameter.data[: scale.instances]
    data = load("bars4")
    logs = visible_weights(whole)
    found: Values = {"patterns": list(scale.patterns)}
    found |= {f"dense_{k}": v for k, v in _seen(lab, whole, data, logs).items()}
    rows = Rows()  # (k, e)
    jobs = [(reading, patterns) for reading in READINGS for patterns in scale.patterns]
    for i, (reading, patterns) in enumerate(jobs):
        few = described(whole, patterns, reading)
        theirs = visible_weights(few)
        seen = _seen(lab, few, data, theirs)
        seen |= {"residual": residual(whole, few), "divergence": divergence(logs, theirs)}
        rows.add({f"{reading}_{key}": value for key, value in seen.items()})
        lab.tell((i + 1) / len(jobs))
    return found | rows


# -- digits -------------------------------------------------------------------------------------------


def _trained(lab: Lab, scale: Scale, patterns: int | None) -> tuple[Machine, Dataset]:
    chosen: dict[str, Any] = {
        "patterns": patterns,
        "hidden": (scale.hidden,),
        "epochs": scale.epochs,
        "replicas": scale.replicas,
    }
    if scale.dataset == "mnist":
        recipe = lab.recipe(scale.dataset, "mnist", split="paper", **chosen)
    else:
        recipe = lab.recipe(scale.dataset, "small", **chosen)
    data = recipe.data()
    if scale.images:
        data = shortened(data, scale.images, scale.images)
    name = "dense" if patterns is None else f"{patterns}-patterns"
    _, run = lab.train(recipe, {}, data=data, at=lambda epoch: False, name=name)
    return lab.machine(run), data


def _likelihood(lab: Lab, scale: Scale, machine: Machine, data: Dataset) -> Values:
    """The middle of the interval of the mean log p of the test set, and its ends, (e,); NaN for a
    machine that so few temperatures do not anneal."""
    options: Any = {"seed": lab.seed, "chains": scale.chains, "most": scale.temperatures}
    try:
        z = log_z(machine, data=data.train.spins, **options)
    except InputError:
        return {key: [math.nan] * machine.replicas for key in ("likelihood", "low", "high")}
    low, high = log_likelihood(machine, data.test, normaliser=z).interval
    middle = 0.5 * (low + high)
    return {"likelihood": middle.tolist(), "low": low.tolist(), "high": high.tolist()}


def _larger(lab: Lab, scale: Scale) -> Values:
    whole, data = _trained(lab.within(0.0, 0.4), scale, None)
    found: Values = {
        "patterns": list(scale.larger_patterns),
        "shape": [whole.visible, scale.hidden],
    }
    found |= {f"dense_{k}": v for k, v in _likelihood(lab, scale, whole, data).items()}
    rng = lab.rng("hamming")
    found["dense_hamming"] = hamming_distance(whole, data.test, rng)
    rows = Rows()
    for i, patterns in enumerate(scale.larger_patterns):
        few = described(whole, patterns)
        rows.add(_likelihood(lab, scale, few, data))
        rows.add({"hamming": hamming_distance(few, data.test, rng), "residual": residual(whole, few)})
        lab.tell(0.4 + 0.6 * (i + 1) / len(scale.larger_patterns))
    return found | rows


def _with_patterns(lab: Lab, scale: Scale) -> Values:
    rows = Rows()
    share = 1 / len(scale.trained_patterns)
    for i, patterns in enumerate(scale.trained_patterns):
        machine, data = _trained(lab.within(i * share, (i + 0.5) * share), scale, patterns)
        rows.add({"patterns": patterns, **_likelihood(lab, scale, machine, data)})
        lab.tell((i + 1) * share)
    return rows


PARTS = {
    **{name: Part(_bars, (f"bars.{part}",), (f"bars.{part}",)) for name, part in DENSE.items()},
    "larger": Part(_larger),
    "trained": Part(_with_patterns),
}


@item("Trained machines described by K patterns", ("conjecture",))
def conjecture(records: Records) -> Figure:
    """Trained dense machines with their couplings replaced by the K nearest patterns (a truncated
    singular value decomposition; dotted: patterns ±x with one common x). (a) Share of wrong pixels in
    completed test images of 4×4 bars, (b) by how much the exact mean log-likelihood of the training set
    changes (with as many patterns as visible units what is left is rounding), (c) the same for digits
    by annealing, beside machines that were trained with K patterns. On bars, {bars.ADAMS}"""
    fig, (errors, changes, digits) = panels(3, height=2.5)
    for name in DENSE:
        record = records.get(f"conjecture.{name}")
        if record is None:
            continue
        k, pen = record["patterns"], bars.LOOK[DENSE[name]]
        curve(errors, k, record.array("continuous_hamming_test"), pen, bars.NAMES[DENSE[name]])
        for reading, dash, face in (("continuous", "-", pen.colour), ("rounded", ":", "white")):
            change = np.abs(loss(record, reading, "train")).mean(1)
            style: Any = {"color": pen.colour, "marker": pen.marker, "mfc": face, "ls": dash}
            changes.plot(k, np.maximum(change, FLOOR), **style)
    label(errors, "patterns $K$", "Hamming distance, test set", "(a) bars", ylim=(0, None))
    label(changes, "patterns $K$", "change of log-likelihood [nats]", "(b) bars, training set")
    changes.set_yscale("log")
    changes.axhline(NEAR, color="0.6", lw=0.7)
    changes.plot([], [], color="0.3", ls="-", marker="o", label="nearest patterns")
    changes.plot([], [], color="0.3", ls=":", marker="o", mfc="white", label="patterns ±x")
    changes.legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
    if errors.get_legend_handles_labels()[0]:
        errors.legend()
    _draw_digits(digits, records)
    return fig


def _draw_digits(axes: Axes, records: Records) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    larger, trained = records.get("conjecture.larger"), records.get("conjecture.trained")
    shown = ((larger, "dense, then $K$ patterns"), (trained, "trained with $K$ patterns"))
    for pen, (record, words) in zip(PENS, shown, strict=False):
        if record is not None:
            found = Number.each(-record.array("likelihood"))
            points(axes, record["patterns"], found, pen, words)
            name = "MNIST" if record.settings.get("dataset") == "mnist" else "digits"
            label(axes, "patterns $K$", "−log-likelihood, test set [nats]", f"(c) {name}")
            axes.legend()
    if larger is None:
        return
    whole = -larger.array("dense_likelihood").mean()
    axes.axhline(whole, color="0.3", ls="--", lw=0.9, zorder=0)
    axes.text(0.02, whole, "dense", transform=axes.get_yaxis_transform(), va="bottom", fontsize=7)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(larger["patterns"]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    if (-larger.array("likelihood")).mean(1).max() > 3 * whole:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def loss(record: Record, reading: str, part: str) -> Any:
    """Log-likelihood of the dense machine less that of its description, (k, e)."""
    whole = record.array(f"dense_likelihood_{part}")
    return whole - record.array(f"{reading}_likelihood_{part}")


def enough(record: Record, reading: str = "continuous") -> int | None:
    """The fewest patterns that change no distance by ALIKE and no likelihood by NEAR, on average over
    instances and by 2 standard errors."""
    for i, patterns in enumerate(record["patterns"]):
        apart = [
            np.abs(record.array(f"{reading}_hamming_{p}")[i] - record.array(f"dense_hamming_{p}"))
            for p in SPLITS
        ]
        nats = [np.abs(loss(record, reading, part)[i]) for part in SPLITS]
        if _small(apart, ALIKE) and _small(nats, NEAR):
            return int(patterns)
    return None


def _small(changes: Iterable[Any], limit: float) -> bool:
    """Whether all lie below the limit; one instance has no error, and its value decides."""
    numbers = [Number.of(change) for change in changes]
    return all(n.value < limit if n.count < 2 else n.below(limit) for n in numbers)


@claim(
    tuple(f"conjecture.{name}" for name in bars.RELEASED.values()),
    tuple(f"conjecture.{name}" for name in bars.USUAL),
)
def four_patterns(records: Records) -> Finding:
    """Sec. V.A.4, Fig. 4: The four large singular values “suggest that only ≈ 4 patterns should be
    sufficient to describe the weight matrix of a standard RBM trained” on bars, for all methods.
    Read as: The fewest nearest patterns that change no distance by {ALIKE} and no mean log-likelihood
    by {NEAR:g} nat. Adam as released.
    Rule: At most {ABOUT_FOUR} for each method; changes below their limits by 2 σ."""
    told, answers = [], []
    for name, part in DENSE.items():
        record = records.get(f"conjecture.{name}")
        if record is None:
            continue
        found = enough(record)
        strict = enough(record, "rounded")
        at = record["patterns"].index(4) if 4 in record["patterns"] else 0
        left = Number.of(record.array("continuous_divergence")[at])
        if name in bars.RELEASED.values():
            answers.append(None if found is None else found <= ABOUT_FOUR)
        told.append(
            f"{bars.NAMES[part]}: {found or 'more'} (patterns ±x: {strict or 'none'}); KL "
            f"{left} nats at K = {record['patterns'][at]}"
        )
    if any_tiny(records):
        answers = [None]
    return Finding(
        all_of(*answers),
        f"patterns that keep the distances within {ALIKE} and the log-likelihoods within {NEAR:g} nat: "
        + "; ".join(told),
        "Patterns ±x with one common x are a stricter reading, which nothing here meets."
        if all(enough(r, "rounded") is None for r in records.values())
        else "",
    )


@claim(("conjecture.larger", "conjecture.trained"))
def trained_machines_are_ra(records: Records) -> Finding:
    """Sec. VI: “We conjecture that trained RBMs are well approximated by RA-RBMs.”
    Read as: A dense machine trained on MNIST with its couplings replaced by the K nearest patterns, for
    the smallest K that loses less than {NEAR:g} nat per test image.
    Rule: Such a K exists and has fewer parameters than the couplings; losses below {NEAR:g} nat by 2 σ.
    """
    record = records["conjecture.larger"]
    whole = record.array("dense_likelihood")
    lost = whole - record.array("likelihood")  # (k, e)
    shorter = np.prod(record["shape"]) / np.sum(record["shape"])  # K(V + H) < VH
    k_values = record["patterns"]
    near, tenth = (
        next((k for k, row in zip(k_values, np.abs(lost), strict=True) if _small([row], limit)), None)
        for limit in (NEAR, 0.1 * np.abs(whole).mean())
    )
    told = (
        f"dense {Number.of(whole)} nats; within 10 % at K = {tenth or 'more'}, within {NEAR:g} nat at "
        f"K = {near or 'more'}; K patterns are fewer parameters below K = {shorter:.0f}"
    )
    if "conjecture.trained" in records:
        trained = records["conjecture.trained"]
        rows = zip(trained["patterns"], trained.array("likelihood"), strict=True)
        told += "; trained with patterns " + ", ".join(f"K = {k}: {Number.of(r)}" for k, r in rows)
    holds = None if near is None else bool(near < shorter)
    return Finding(
        None if record.scale == "tiny" else holds,
        f"mean log-likelihood of the test set: {told}",
    )
