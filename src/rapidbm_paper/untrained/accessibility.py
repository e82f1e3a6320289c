"""Fig. 1: how near Gibbs sampling comes to the ground state of machines that nobody has trained.

    accessibility = min over chains of E(after 10 sweeps) / E(ground state)               (1)

against the standard deviation J of the couplings, which is an inverse temperature: E and the
ground-state energy are linear in J, so that one exact ground state serves every J. Independent
couplings freeze where a field that units send to each other and back neither grows nor dies,

    J (V H)^(1/4) = 1                                                                     (2)

and below that are a paramagnet. Glorot's start has J² = 2/(V + H) (Glorot and Bengio 2010).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rapidbm.glass.accessibility import gibbs_accessibility
from rapidbm.ground.ground_state import ground_state
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine, scaled
from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, allowance, claim
from ..drawing import Figure, curve, item, points
from ..lab import Lab, Rows, Settings, by_scale, each, random_rbm
from ..records import Array, Record, Records, Values

NAMES = {"ra": "RA", "gaussian": "Gaussian", "uniform": "uniform"}
LOOK = dict(zip(NAMES, PENS, strict=False))
PLATEAU = 3.0  # standard deviations from which thermal noise should no longer matter
ALIKE = 0.05  # a difference of two kinds of machines that counts as none
FLAT = 0.01  # a change of accessibility that counts as none


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=3, quick=10, paper=100)
    visible: int = by_scale(tiny=8, quick=20, paper=20)
    hidden: int = by_scale(tiny=30, quick=1000, paper=1000)
    patterns: int = by_scale(tiny=3, quick=10, paper=10)
    # standard deviations, evenly in their logarithm from 10⁻³ to 10²
    points: int = by_scale(tiny=6, quick=16, paper=16)
    # numbers of visible units of the inset
    sizes: tuple[int, ...] = by_scale(
        tiny=(4, 8), quick=(4, 8, 12, 16, 20), paper=(4, 6, 8, 10, 12, 14, 16, 18, 20, 22)
    )
    inset_deviation: float = 10.0


def deviations(count: int) -> list[float]:
    return [10 ** (-3 + 5 * i / (count - 1)) for i in range(count)]


def glorot(visible: int, hidden: int) -> float:
    return math.sqrt(2 / (visible + hidden))


def untrained(name: str, visible: int, scale: Scale, rng: torch.Generator) -> Machine:
    """Machines whose couplings have mean 0 and standard deviation 1."""
    if name == "uniform":
        shape = (scale.instances, visible, scale.hidden)
        even = torch.rand(shape, generator=rng, device=rng.device) * 2 - 1
        layers = Layers((visible, scale.hidden), ((0, 1),))
        return Machine(Dense(layers, {(0, 1): even * math.sqrt(3)})).requires_grad_(False)
    patterns = scale.patterns if name == "ra" else None
    return random_rbm(visible, scale.hidden, patterns, rng, replicas=scale.instances, scale=1.0)


def _reached(
    machine: Machine, ground: Tensor, deviation: float, rng: torch.Generator, chains: int = 10
) -> Tensor:
    """Eq. (1) for couplings of that standard deviation."""
    cold = scaled(machine, deviation)
    return gibbs_accessibility(cold, None, rng, chains=chains, ground=ground * deviation)


def _ground(lab: Lab, machine: Machine) -> Tensor:
    """Exact ground-state energies (e,), of so many machines at a time that the lab hears of it."""
    step = max(1, 2**20 // 2**machine.visible)
    found = []
    for start in range(0, machine.replicas, step):
        some = copy.deepcopy(machine)
        for parameter in some.parameters():
            parameter.data = parameter.data[start : start + step]
        found.append(ground_state(some, method="exact").energy)
        lab.tell(start / machine.replicas)
    return torch.cat(found)


def _measure(lab: Lab, scale: Scale, name: str) -> Values:
    wanted = deviations(scale.points)
    found: Values = {
        "visible": scale.visible,
        "hidden": scale.hidden,
        "wanted": wanted,
        "sizes": list(scale.sizes),
    }
    rows = Rows()
    sizes = tuple(dict.fromkeys((*scale.sizes, scale.visible)))
    work, done = sum(2**v for v in sizes), 0
    for visible in sizes:
        rng = lab.rng(visible)
        machine = untrained(name, visible, scale, rng)
        ground = _ground(lab.within(done / work, (done + 2**visible) / work), machine)
        spread = machine.couplings.matrix(0, 1).flatten(1).std(1)
        if visible in scale.sizes:
            rows.add({"inset": _reached(machine, ground, scale.inset_deviation, rng)})
            rows.add({"inset_one_chain": _reached(machine, ground, scale.inset_deviation, rng, 1)})
        if visible == scale.visible:
            for deviation in wanted:
                reached = _reached(machine, ground, deviation, rng)
                rows.add({"deviations": spread * deviation, "gibbs": reached})
            if name == "gaussian":
                start = glorot(visible, scale.hidden)
                found["glorot_deviation"] = start
                found["glorot"] = _reached(machine, ground, start, rng).tolist()
        done += 2**visible
    lab.tell(1.0)
    return found | rows


PARTS = each(_measure, NAMES)


@item("Gibbs accessibility of untrained machines", ("untrained",))
def fig1(records: Records) -> Figure:
    """The lowest energy that ten Gibbs chains reach in ten sweeps from random spins, over the
    ground-state energy, in untrained machines; bands are one standard deviation over instances, the
    star is Glorot's start. Inset: the same against the number of visible units, with standard errors.
    """
    fig, (axes,) = panels(height=2.7)
    inset = axes.inset_axes((0.62, 0.3, 0.36, 0.38))
    for name, pen in LOOK.items():
        record = records.get(f"untrained.{name}")
        if record is None:
            continue
        spread = record.array("deviations").mean(1)
        curve(axes, spread, record.array("gibbs"), pen, NAMES[name])
        points(inset, record["sizes"], Number.each(record.array("inset")), pen, "")
    start = records.get("untrained.gaussian")
    if start is not None:
        reached = np.mean(start["glorot"])
        axes.plot(start["glorot_deviation"], reached, "k*", markersize=9, zorder=5, label="Glorot")
    axes.set(xscale="log", ylim=(0, 1.04))
    label(axes, "standard deviation of the couplings", "Gibbs accessibility")
    axes.legend(loc="upper left")
    inset.tick_params(labelsize=6)
    inset.set_xlabel("visible units", fontsize=6.5, labelpad=1)
    inset.set_title("at deviation 10", fontsize=6.5, pad=2)
    return fig


def _differences(one: Record, other: Record, rows: Sequence[int]) -> list[Number]:
    a, b = one.array("gibbs"), other.array("gibbs")
    return [Number.of(a[i]) - Number.of(b[i]) for i in rows]


def frozen(record: Record) -> list[int]:
    """The rows beyond the transition of independent couplings, eq. (2)."""
    edge = (record["visible"] * record["hidden"]) ** -0.25
    return [i for i, wanted in enumerate(record["wanted"]) if wanted > edge]


def _slopes(record: Record) -> Number:
    """Change per decade on the plateau; each instance keeps its couplings, so each has a slope."""
    rows = record.array("wanted") >= PLATEAU
    x = np.log10(record.array("wanted")[rows])
    y = record.array("gibbs")[rows]
    x = x - x.mean()
    return Number.of(x @ y / (x @ x))


def slope(x: Array, rows: Array) -> Number:
    """Least-squares slope of means over independent instances."""
    numbers = Number.each(rows)
    y = np.array([n.value for n in numbers])
    error = np.array([n.error for n in numbers])
    x = x - x.mean()
    weight = x / (x @ x)
    return Number(float(weight @ y), float(np.sqrt((weight**2) @ error**2)), len(y))


_ALL = tuple(f"untrained.{name}" for name in NAMES)
_WHERE = "Sec. V.A.1, Fig. 1"


@claim(_ALL[:2])
def ra_more_accessible(records: Records) -> Finding:
    """{_WHERE}: “Except for extremely small energy scales”, in the paramagnet, Gibbs accessibility is
    higher for untrained RA machines than for standard ones.
    Read as: RA minus Gaussian at every deviation of the couplings beyond the glass transition of
    independent ones, (VH)^(−1/4).
    Rule: Each difference above 0, by as many σ as the largest of so many exceeds by chance once in
    twenty."""
    ra, gaussian = records["untrained.ra"], records["untrained.gaussian"]
    rows = frozen(ra)
    found = _differences(ra, gaussian, rows)
    sigmas = allowance(len(rows))
    least = min(range(len(rows)), key=lambda i: found[i].value)
    hot = _differences(ra, gaussian, [i for i in range(len(ra["wanted"])) if i not in rows])
    worst = min(hot, key=lambda n: n.value, default=Number(math.nan, math.nan))
    return Finding(
        all_of(*(n.above(0, sigmas) for n in found)),
        f"RA minus Gaussian beyond the glass transition: between {found[least]} "
        f"(at deviation {ra['wanted'][rows[least]]:.2g}) and {max(found, key=lambda n: n.value)}; "
        f"lowest difference in the paramagnet {worst}",
        f"{len(rows)} deviations: {sigmas:.1f} σ each.",
    )


@claim(_ALL[1:])
def gaussian_and_uniform_alike(records: Records) -> Finding:
    """{_WHERE}: The difficulty “is not affected by whether” weights are Gaussian or uniform.
    Read as: Gaussian minus uniform at every deviation.
    Rule: Each difference within {ALIKE}, by as many σ as the largest of so many exceeds by chance once
    in twenty."""
    one, other = records["untrained.gaussian"], records["untrained.uniform"]
    rows = range(len(one["wanted"]))
    found = _differences(one, other, rows)
    sigmas = allowance(len(rows))
    # Two distributions are never the same to all digits: alike means a small difference.
    answers = [n.within(ALIKE, sigmas) for n in found]
    top = max(found, key=lambda n: abs(n.value))
    return Finding(
        False if False in answers else all_of(*answers),
        f"largest difference {top}",
        f"{len(rows)} deviations: {sigmas:.1f} σ each.",
    )


@claim(_ALL[1:2])
def glorot_far_from_ground(records: Records) -> Finding:
    """{_WHERE}: From Glorot's start Gibbs sampling reaches energies “not lower than” a third of the
    ground state's (the paper: three times it) “in small models”.
    Read as: The accessibility of Gaussian couplings at Glorot's deviation, 20 and 1,000 units as in
    fig. 1.
    Rule: Below 1/3 by 2 σ."""
    record = records["untrained.gaussian"]
    reached = Number.of(record["glorot"])
    same = (record["visible"], record["hidden"]) == (20, 1000)  # J (VH)^¼ depends on the size
    return Finding(
        reached.below(1 / 3) if same else None,
        f"at deviation {record['glorot_deviation']:.3f} the accessibility is {reached}",
        "It depends on the size of the machine, the paper's is 20 and 1,000 units: J (VH)^(1/4) is "
        f"{record['glorot_deviation'] * (record['visible'] * record['hidden']) ** 0.25:.2f} here.",
    )


@claim(_ALL)
def plateau(records: Records) -> Finding:
    """{_WHERE}: For large weights “the Gibbs accessibility is independent of the energy scale”: a
    plateau.
    Read as: Its slope against the logarithm of the deviation, from deviation {PLATEAU:g} on.
    Rule: Within {FLAT} per decade for all three kinds of couplings, by 2 σ."""
    slopes = {name: _slopes(records[f"untrained.{name}"]) for name in NAMES}
    flat = {n: records[f"untrained.{n}"].array("wanted") >= PLATEAU for n in NAMES}
    rows = {n: records[f"untrained.{n}"].array("gibbs")[flat[n]] for n in NAMES}
    height = {n: Number.of(some.mean(0)) for n, some in rows.items()}
    told = ", ".join(f"{NAMES[n]} {height[n]} (slope {slopes[n]} per decade)" for n in NAMES)
    return Finding(
        all_of(*(s.within(FLAT) for s in slopes.values())),
        f"accessibility from deviation {PLATEAU:g} on: {told}",
    )


@claim(_ALL)
def ra_constant_with_size(records: Records) -> Finding:
    """{_WHERE}, inset: On the plateau the accessibility of standard machines “quickly decreases” as V
    grows, that of RA machines “stays constant”.
    Read as: The change over all V by a straight line.
    Rule: RA within {FLAT}; Gaussian and uniform lower by more than that; 2 σ each."""
    told, changes = [], {}
    for name, shown in NAMES.items():
        record = records[f"untrained.{name}"]
        sizes = record.array("sizes")
        span = sizes[-1] - sizes[0]
        ten, one = (slope(sizes, record.array(key)) * span for key in ("inset", "inset_one_chain"))
        changes[name] = ten
        last = Number.of(record.array("inset")[-1])
        told.append(f"{shown} {ten}, to {last} (single chains {one})")
    falls = all_of(*(changes[name].below(-FLAT) for name in ("gaussian", "uniform")))
    return Finding(
        all_of(changes["ra"].within(FLAT), falls),
        f"change from V = {int(sizes[0])} to {int(sizes[-1])} by a straight line: {'; '.join(told)}",
        "Accessibility is that of the best of ten chains; single chains stand in brackets.",
    )
