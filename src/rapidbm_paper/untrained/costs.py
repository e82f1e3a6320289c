"""Appendix D: what one negative phase costs, measured, beside the operations that it takes.

    CD-k from f configurations, dense couplings                     2 k f V H             (1)
    PID, couplings built from the patterns after an update            K V H               (2)
    PID through overlaps, for its K configurations                    K · K (V + H)       (3)

each times a small number, and with the gradient that the configurations give. (2) is the paper's
count; (3) is how this library does it, and never builds the couplings. Times are medians of repeats
after a warm-up, on one device and with one number of threads; exponents are slopes of log time
against log size over the upper range, where the start of an operation no longer counts.

This is the one study whose records differ from run to run: they hold times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rapidbm.accel.devices import wait
from rapidbm.estimates import power_law
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, Pen, label, panels
from rapidbm.training.negative import ContrastiveDivergence, NegativePhase, PatternInduced

from ..claims import Finding, Number, all_of, claim
from ..drawing import Axes, Figure, item
from ..lab import Lab, Part, Rows, Settings, by_scale, random_rbm
from ..records import Array, Record, Records, Values

WAYS = {"cd": "CD", "built": "PID, couplings built", "overlaps": "PID, overlaps"}
LOOK = dict(zip(WAYS, PENS, strict=False))
UPPER = 4  # points of a fit, those of the largest sizes
NEAR = 0.2  # by how much an exponent may miss: sizes still differ in how well they fill the device


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    # V, H, f, k from which one is varied at a time
    cd: tuple[int, int, int, int] = by_scale(
        tiny=(20, 30, 10, 1), quick=(400, 1000, 200, 1), paper=(4096, 8192, 2048, 1)
    )
    # V, H, K
    pid: tuple[int, int, int] = by_scale(
        tiny=(20, 30, 5), quick=(800, 1000, 40), paper=(6272, 24_000, 800)
    )
    # by which V, H, K and f are varied
    factors: tuple[float, ...] = by_scale(
        tiny=(0.5, 1, 2), quick=(0.25, 0.5, 1, 2, 4, 8), paper=(0.25, 0.5, 1, 2, 4, 8)
    )
    # k
    sweeps: tuple[int, ...] = by_scale(
        tiny=(1, 2, 4), quick=(1, 2, 4, 8, 16, 32), paper=(1, 2, 4, 8, 16, 32)
    )
    # V, H, K of the comparison
    size: tuple[int, int, int] = by_scale(
        tiny=(30, 50, 5), quick=(784, 3000, 190), paper=(784, 3000, 190)
    )
    # f of the comparison
    batches: tuple[int, ...] = by_scale(tiny=(5, 20), quick=(190, 1000), paper=(190, 8000))
    repeats: int = by_scale(tiny=3, quick=5, paper=9)


def seconds(lab: Lab, work: Callable[[], object], repeats: int) -> list[float]:
    """Times of `repeats` runs after two to warm up."""

    def once() -> float:
        start = time.perf_counter()
        work()
        wait(lab.device)
        return time.perf_counter() - start

    return [once() for _ in range(repeats + 2)][2:]


def _machine(lab: Lab, visible: int, hidden: int, patterns: int | None) -> Machine:
    return random_rbm(visible, hidden, patterns, lab.rng("machine"))


def phase(lab: Lab, machine: Machine, negative: NegativePhase, configurations: int) -> Callable[[], Any]:
    """One negative phase and its gradient, ready to run."""
    rng = lab.rng("phase")
    data = SPIN.random((1, configurations, machine.visible), rng, machine.dtype)
    chains = negative.init(machine, rng)

    def run() -> dict[str, torch.Tensor]:
        return machine.gradient(negative.step(machine, chains, data, rng)[0])

    return run


def built(machine: Machine) -> Callable[[], Any]:
    """PID as the paper counts it: W from the patterns, hidden means through W, the gradient."""

    def run() -> dict[str, torch.Tensor]:
        assert machine.patterns is not None
        dense = Machine(machine.couplings.dense()).requires_grad_(False)  # type: ignore[operator]
        visible = SPIN.nearest(machine.patterns[..., : machine.visible])
        spins = dense.complete(visible, means=True)
        return machine.gradient(WeightedSpins.equal(spins))

    return run


def _varied(
    lab: Lab, middle: dict[str, int], scale: Scale, time_of: Callable[..., dict[str, list[float]]]
) -> Values:
    """Times with each size varied while the others stay in the middle."""
    found: Values = {"threads": torch.get_num_threads(), "device": lab.device.type}
    for i, (name, size) in enumerate(middle.items()):
        values = [round(size * x) for x in scale.factors] if name != "k" else list(scale.sweeps)
        rows = Rows()
        for j, value in enumerate(values):
            times = time_of(*{**middle, name: value}.values())
            rows.add({f"{way}_{name}": each for way, each in times.items()})
            lab.tell((i + (j + 1) / len(values)) / len(middle))
        found |= {f"sizes_{name}": values, **rows}
    return found


def _cd(lab: Lab, scale: Scale) -> Values:
    def time_of(v: int, h: int, f: int, k: int) -> dict[str, list[float]]:
        work = phase(lab, _machine(lab, v, h, None), ContrastiveDivergence(k), f)
        return {"cd": seconds(lab, work, scale.repeats)}

    return _varied(lab, dict(zip("VHfk", scale.cd, strict=True)), scale, time_of)


def _pid(lab: Lab, scale: Scale) -> Values:
    def time_of(v: int, h: int, k: int) -> dict[str, list[float]]:
        machine = _machine(lab, v, h, k)
        works = {"built": built(machine), "overlaps": phase(lab, machine, PatternInduced(), 1)}
        return {way: seconds(lab, work, scale.repeats) for way, work in works.items()}

    return _varied(lab, dict(zip("VHK", scale.pid, strict=True)), scale, time_of)


def _size(lab: Lab, scale: Scale) -> Values:
    """All ways at one size, the paper's for MNIST."""
    v, h, k = scale.size
    patterns, dense = _machine(lab, v, h, k), _machine(lab, v, h, None)
    jobs: dict[str, Callable[[], Any]] = {
        "PID, overlaps": phase(lab, patterns, PatternInduced(), 1),
        "PID, couplings built": built(patterns),
        "PID and 1 sweep": phase(lab, patterns, PatternInduced(1), 1),
        "PID and 10 sweeps": phase(lab, patterns, PatternInduced(10), 1),
    }
    for f in scale.batches:
        for sweeps in (1, 10):
            name = f"CD-{sweeps}, f = {f:,}"
            jobs[name] = phase(lab, dense, ContrastiveDivergence(sweeps), f)
    found: Values = {
        "size": list(scale.size),
        "batches": list(scale.batches),
        "threads": torch.get_num_threads(),
        "device": lab.device.type,
        "names": list(jobs),
        "times": [],
    }
    for i, work in enumerate(jobs.values()):
        found["times"].append(seconds(lab, work, scale.repeats))
        lab.tell((i + 1) / len(jobs))
    return found


PARTS = {"cd": Part(_cd), "pid": Part(_pid), "size": Part(_size)}


def _summary(records: Records) -> str:
    where = next((f"{r['device']}, {r['threads']} threads" for r in records.values()), "")
    return (
        "Time of one negative phase with its gradient, medians of repeats, against the numbers of "
        "units (left), of configurations and of sweeps (middle), and at one size (right); measured "
        f"on: {where}."
    )


@item("The cost of a negative phase", ("costs",), _summary)
def costs(records: Records) -> Figure:
    fig, axes = panels(3, height=2.4)
    for way, pen in LOOK.items():
        record = records.get("costs.cd" if way == "cd" else "costs.pid")
        if record is None:
            continue
        _times(axes[0], record, way, "V", pen, WAYS[way])
        _times(axes[0], record, way, "H", replace(pen, dash=":"))
        _times(axes[1], record, way, "f" if way == "cd" else "K", pen)
        if way == "cd":
            _times(axes[1], record, way, "k", replace(pen, dash=":", marker="x"))
    label(axes[0], "units: $V$, dotted $H$", "time (ms)")
    label(axes[1], "configurations $f$ or $K$, dotted sweeps $k$", "time (ms)")
    for each in axes[:2]:
        each.set(xscale="log", yscale="log")
    record = records.get("costs.size")
    if record is not None:
        times = np.median(record.array("times"), 1) * 1e3
        ways = {"CD": "cd", "PID, couplings built": "built"}  # by the name, or how it begins
        known = [ways.get(n[:2], ways.get(n, "overlaps")) for n in record["names"]]
        colours = [LOOK[way].colour for way in known]
        places = np.arange(len(times))[::-1]
        axes[2].barh(places, times, color=colours, height=0.65)
        axes[2].set_yticks(places, record["names"], fontsize=6)
        axes[2].set_xscale("log")
        v, h, k = record["size"]
        label(axes[2], f"time (ms), {v}×{h}, $K={k}$", "")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return fig


def _times(axes: Axes, record: Record, way: str, size: str, pen: Pen, name: str = "") -> None:
    times = np.median(record.array(f"{way}_{size}"), 1) * 1e3
    style = {"color": pen.colour, "linestyle": pen.dash, "marker": pen.marker}
    axes.plot(record[f"sizes_{size}"], times, label=name or None, **style)


def exponent(sizes: Array, times: Array) -> Number:
    """Slope of log time against log size over the largest sizes."""
    value, error = power_law(sizes[-UPPER:], np.median(times, 1)[-UPPER:])
    return Number(value, error, min(len(sizes), UPPER))


def _near(found: Number, wanted: float) -> bool | None:
    """Times that grow faster than operations contradict their count; slower ones say only that the
    device was not full, and nothing of the count."""
    miss = found.value - wanted
    if abs(miss) <= NEAR:
        return True
    return False if miss > NEAR + 2 * found.error else None


def _exponents(record: Record, way: str, names: str) -> dict[str, Number]:
    return {n: exponent(record.array(f"sizes_{n}"), record.array(f"{way}_{n}")) for n in names}


def _summary_of(found: dict[str, Number]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in found.items())


_SMALL = "Sizes at this scale are too small: the start of an operation rules."


def _ratio(one: Array, other: Array) -> Number:
    """Ratio of medians; the error from the quartiles of both, as for a normal spread."""
    value = float(np.median(one) / np.median(other))
    spread = [
        float(np.subtract(*np.quantile(t, (0.75, 0.25)))) / 1.349 / np.median(t) / math.sqrt(len(t))
        for t in (one, other)
    ]
    return Number(value, value * 1.2533 * math.hypot(*spread), min(len(one), len(other)))


@claim(("costs.size",))
def pid_cheaper(records: Records) -> Finding:
    """App. D: “PID presents a speedup in the complexity of the computation of each update.”
    Read as: The time of pure PID's negative phase over that of CD-1 and CD-10, with the sizes and the
    batch of the training on MNIST.
    Rule: Below 1, both with the couplings built and through overlaps, by 2 σ."""
    record = records["costs.size"]
    time_of = dict(zip(record["names"], record.array("times"), strict=True))
    most = max(record["batches"])
    told, answers = [], []
    for name in ("PID, couplings built", "PID, overlaps", "PID and 10 sweeps"):
        ratios = []
        for f in sorted({record["batches"][0], most}):
            for sweeps in (1, 10):
                ratio = _ratio(time_of[name], time_of[f"CD-{sweeps}, f = {f:,}"])
                ratios.append(f"{ratio} of CD-{sweeps} with f = {f:,}")
                if name != "PID and 10 sweeps" and f == most:
                    answers.append(ratio.below(1))
        told.append(f"{name}: {', '.join(ratios)}")
    v, h, k = record["size"]
    if record.scale == "tiny":
        return Finding(None, "; ".join(told), _SMALL)
    return Finding(
        all_of(*answers),
        f"V = {v}, H = {h}, K = {k}, times: {'; '.join(told)}",
        f"± is that of a ratio of medians of {len(record.array('times')[0])} repeats, by the "
        "quartiles. The paper's own training on MNIST takes 10 sweeps from the patterns.",
    )


@claim(("costs.pid",))
def pid_cost(records: Records) -> Finding:
    """App. D: PID costs O(K V H) operations, those that build the couplings from the patterns.
    Read as: Exponents of the time with V, H and K over the largest sizes.
    Rule: Each within {NEAR} of 1. Above by 2 σ more it fails; below, the device was not full:
    undecided."""
    record = records["costs.pid"]
    first, second = (_exponents(record, way, "VHK") for way in ("built", "overlaps"))
    measured = (
        f"exponents of the time with the couplings built: {_summary_of(first)} (1 predicted); through "
        f"overlaps: {_summary_of(second)} (at most 1, 1 and 2 predicted)"
    )
    if record.scale == "tiny":
        return Finding(None, measured, _SMALL)
    return Finding(
        all_of(*(_near(n, 1) for n in first.values())),
        measured,
        "± is that of a straight line's slope. The gradient for K patterns from K configurations "
        "takes K² (V + H) more, which the paper leaves out: it counts once K (V + H) is not far below "
        "V H. Overlaps take no more than that.",
    )


@claim(("costs.cd",))
def cd_cost(records: Records) -> Finding:
    """App. D: CD-k from f configurations costs O(2 k f V H) operations.
    Read as: Exponents of the time with V, H, f and k over the largest sizes.
    Rule: Each within {NEAR} of 1. Above by 2 σ more it fails; below, the device was not full:
    undecided."""
    record = records["costs.cd"]
    found = _exponents(record, "cd", "VHfk")
    holds = all_of(*(_near(n, 1) for n in found.values()))
    if record.scale == "tiny":
        return Finding(None, f"exponents of the time: {_summary_of(found)}", _SMALL)
    return Finding(
        holds,
        f"exponents of the time: {_summary_of(found)}; 1 is predicted",
        "± is that of a straight line's slope. The gradient and the last hidden means are no sweep "
        "and lower the exponent of k.",
    )
