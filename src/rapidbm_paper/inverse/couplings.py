"""Couplings that are learned from rows, beside those that the rows are drawn with.

    relative error = ‖Ĵ − J‖ / ‖J‖,        over all pairs                                        (1)

Full machines without hidden units have couplings that mean what the truth's do. Regularized Axons,
J = (1/√K) Σ_k ξᵏ ξᵏᵀ off the diagonal, are a matrix of rank K with eigenvalues ≥ 0 whose diagonal does
not count. With K = N any couplings are of this form, since their diagonal may be raised until no
eigenvalue is negative. With K ≪ N, the condition that keeps a machine out of the spin glass, few are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from rapidbm.errors import FitWarning, LoadWarning
from rapidbm.inference.couplings import effective_couplings
from rapidbm.machines.constructors import bm
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.categorical import Categorical
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.training.negative import Exact, NegativePhase, PatternInduced, Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.projections import Clip
from rapidbm.training.train import train

from ..claims import Finding, Number, all_of, claim
from ..drawing import Axes, Figure, item, legend_below, points
from ..lab import Lab, Part, Rows, Settings, by_scale
from ..records import Record, Records, Values, any_tiny
from .others import mean_field, pseudo_likelihood, screening
from .truths import CRITICAL, MEMORIES, SPINS, STATES, rows_of, truth

KINDS = (*SPINS, "potts")
NAMES = {
    "chain": "chain",
    "ferromagnet": "2D ferromagnet",
    "random-glass": "±J, random graph",
    "lattice-glass": "±J, lattice",
    "memory": f"{MEMORIES} patterns",
    "potts": f"Potts, q = {STATES}",
}
METHODS = {
    "dense": "dense, exact",
    "dense-pcd": "dense, PCD",
    "ra": "RA, K = N, exact",
    "ra-few": "RA, K = N/4, exact",
    "pid": "RA, K = N/4, PID",
    "pseudo-likelihood": "pseudo-likelihood",
    "screening": "RISE",
    "mean-field": "naive mean field",
}
WITH_PATTERNS = {"ra": "RA, exact", "pid": "RA, PID", "pid-swept": "RA, PID, 10 sweeps"}
AT = {"memory": 1.5, "ferromagnet": CRITICAL, "potts": 1.5}  # β where it does not vary; others: 0.7
BETA = 0.7
NEAR = 1.1  # of the error of a dense machine
CONTINUOUS = 0.3  # scale of the patterns at the start


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    units: int = by_scale(tiny=4, quick=16, paper=16)
    potts_units: int = by_scale(tiny=3, quick=8, paper=9)
    rows: tuple[int, ...] = by_scale(
        tiny=(50, 200), quick=(300, 3000), paper=(100, 300, 1000, 3000, 10000)
    )
    usual: int = by_scale(tiny=200, quick=3000, paper=3000)  # rows where they do not vary
    colder: tuple[float, ...] = by_scale(
        tiny=(0.5, 1.0), quick=(0.5, 1.5), paper=(0.25, 0.5, 1.0, 1.5, 2.0)
    )
    patterns: tuple[int, ...] = by_scale(tiny=(1, 2), quick=(2, 4, 16), paper=(1, 2, 4, 8, 16, 32))
    instances: int = by_scale(tiny=2, quick=2, paper=5)
    updates: int = by_scale(tiny=20, quick=500, paper=2000)
    particles: int = by_scale(tiny=50, quick=1000, paper=2000)
    rate: float = 0.1  # of Adam; it falls to a thousandth of this


def matrix_of(machine: Machine) -> Tensor:
    """Its couplings in the zero-sum gauge, (columns, columns)."""
    return effective_couplings(machine).pairs[0]


def relative_error(found: Tensor, true: Tensor) -> float:
    """Eq. (1)."""
    return float((found - true).norm() / true.norm())


def trained(
    rows: Tensor, like: Machine, negative: NegativePhase, patterns: int | None, scale: Scale, seed: int
) -> Machine:
    """A full machine of the truth's units that has seen the rows, all of them in every update. With PID,
    which bounds no couplings, patterns are clipped to [−1, 1] as the paper does."""
    spins = like.layers.spins
    start: dict[str, Any] = {} if patterns is None else {"continuous": True, "scale": CONTINUOUS}
    machine = bm(
        like.layers.units,
        patterns=patterns,
        units=SPIN if spins else Categorical(STATES),
        biases=not spins,
        device=rows.device,
        seed=seed,
        **start,
    )
    optimizer = adam(scale.rate, decay=1e-3 ** (1 / scale.updates))
    with warnings.catch_warnings():
        for kind in (FitWarning, LoadWarning):  # many patterns, and what PID makes of them, are meant
            warnings.simplefilter("ignore", kind)
        steps = train(
            machine,
            rows,
            negative,
            optimizer,
            epochs=scale.updates,
            batch_size=len(rows),
            projection=Clip() if isinstance(negative, PatternInduced) else None,
            seed=seed,
        )
        for _ in steps:
            pass
    return machine.requires_grad_(False)


def _learned(rows: Tensor, like: Machine, scale: Scale, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Couplings by each of METHODS."""
    units = like.layers.units
    few = max(1, units // 4)
    machines: dict[str, tuple[NegativePhase, int | None]] = {
        "dense": (Exact(), None),
        "dense-pcd": (Persistent(scale.particles), None),
        "ra": (Exact(), like.layers.columns),
        "ra-few": (Exact(), few),
        "pid": (PatternInduced(), few),
    }
    for name, (negative, patterns) in machines.items():
        yield name, matrix_of(trained(rows, like, negative, patterns, scale, seed))
    if like.layers.spins:
        yield "pseudo-likelihood", pseudo_likelihood(rows)
        yield "screening", screening(rows)
        yield "mean-field", mean_field(rows)
    else:
        yield "pseudo-likelihood", pseudo_likelihood(rows, STATES)


def _case(lab: Lab, scale: Scale, kind: str, beta: float, count: int, i: int) -> tuple[Machine, Tensor]:
    """The truth of instance `i`, and rows."""
    units = scale.potts_units if kind == "potts" else scale.units
    machine = truth(kind, units, beta, lab.rng("truth", i)).requires_grad_(False)
    return machine, rows_of(machine, count, lab.rng("rows", i, beta, count))


def _compared(lab: Lab, scale: Scale, kind: str, cases: list[tuple[float, float, int]]) -> Values:
    """Errors of every method at each x, of which a case is (x, β, rows)."""
    table, total = Rows(), len(cases) * scale.instances
    for number, (x, beta, count) in enumerate(cases):
        found: dict[str, list[float]] = {}
        for i in range(scale.instances):
            machine, rows = _case(lab, scale, kind, beta, count, i)
            true = matrix_of(machine)
            for name, matrix in _learned(rows, machine, scale, lab.seed + i):
                found.setdefault(name, []).append(relative_error(matrix, true))
            lab.tell((number * scale.instances + i + 1) / total)
        for name, errors in found.items():
            table.add({"x": x, "method": name, "error": errors})
    return table


def _by_rows(lab: Lab, scale: Scale, kind: str) -> Values:
    beta = AT.get(kind, BETA)
    return _compared(lab, scale, kind, [(count, beta, count) for count in scale.rows])


def _by_temperature(lab: Lab, scale: Scale, kind: str) -> Values:
    """β relative to the usual one."""
    beta = AT.get(kind, BETA)
    return _compared(lab, scale, kind, [(beta * x, beta * x, scale.usual) for x in scale.colder])


def _by_patterns(lab: Lab, scale: Scale, kind: str) -> Values:
    """Errors of Regularized Axons of K patterns."""
    table = Rows()
    negatives: dict[str, NegativePhase] = {
        "ra": Exact(),
        "pid": PatternInduced(),
        "pid-swept": PatternInduced(10),
    }
    for number, patterns in enumerate(scale.patterns):
        found: dict[str, list[float]] = {}
        for i in range(scale.instances):
            machine, rows = _case(lab, scale, kind, AT.get(kind, BETA), scale.usual, i)
            true = matrix_of(machine)
            for name, negative in negatives.items():
                learned = trained(rows, machine, negative, patterns, scale, lab.seed + i)
                found.setdefault(name, []).append(relative_error(matrix_of(learned), true))
            lab.tell((number + (i + 1) / scale.instances) / len(scale.patterns))
        for name, errors in found.items():
            table.add({"x": patterns, "method": name, "error": errors})
    return table


WAYS = {"rows": _by_rows, "temperature": _by_temperature, "patterns": _by_patterns}
PARTS = {f"{way}-{kind}": Part(measure, (kind,)) for way, measure in WAYS.items() for kind in KINDS}


# -- what is drawn ------------------------------------------------------------------------------------


def _course(record: Record, method: str) -> tuple[list[float], list[Number]]:
    """x and errors of a method."""
    found = [
        (x, Number.of(errors))
        for x, name, errors in zip(record["x"], record["method"], record.array("error"), strict=True)
        if name == method
    ]
    return [x for x, _ in found], [number for _, number in found]


def _drawn(records: Records, way: str, methods: dict[str, str], x: str) -> Figure:
    fig, axes = panels(3, 2, height=2.1)
    for axis, kind in zip(axes, KINDS, strict=True):
        record = records.get(f"inverse.{way}-{kind}")
        if record is not None:
            for pen, (method, words) in zip(PENS, methods.items(), strict=False):
                at, numbers = _course(record, method)
                if at:
                    points(axis, at, numbers, pen, words)
        _log_axes(axis, way)
        label(axis, x, "relative error", NAMES[kind])
    legend_below(fig, axes[0], 4)
    return fig


def _log_axes(axis: Axes, way: str) -> None:
    axis.set_yscale("log")
    if way != "temperature":
        axis.set_xscale("log")


@item("Couplings from few rows and many", tuple(f"inverse.rows-{kind}" for kind in KINDS))
def inverse_rows(records: Records) -> Figure:
    """Error of the couplings, ‖Ĵ − J‖ / ‖J‖ over all pairs, against the number of independent rows
    drawn from known couplings. N spins, of the Potts machine units of 3 states, without fields. Error
    bars: standard errors over instances."""
    return _drawn(records, "rows", METHODS, "rows")


@item("Couplings from warm rows and cold ones", tuple(f"inverse.temperature-{kind}" for kind in KINDS))
def inverse_temperature(records: Records) -> Figure:
    """The same errors against the size β of the couplings that the rows are drawn with; the ferromagnet
    is critical at 0.44."""
    return _drawn(records, "temperature", METHODS, "β")


@item("How many patterns couplings take", tuple(f"inverse.patterns-{kind}" for kind in KINDS))
def inverse_patterns(records: Records) -> Figure:
    """The same errors of Regularized Axons against the number of patterns K, with exact gradients and
    with those of PID, pure and after 10 sweeps."""
    return _drawn(records, "patterns", WITH_PATTERNS, "K")


# -- what is claimed ----------------------------------------------------------------------------------


def _at_end(record: Record, method: str, place: int) -> np.ndarray[Any, Any]:
    """Errors of the instances at the first or last x."""
    rows = [
        errors
        for name, errors in zip(record["method"], record.array("error"), strict=True)
        if name == method
    ]
    return np.asarray(rows[place], dtype=float)


@claim(tuple(f"inverse.rows-{kind}" for kind in SPINS))
def inverse_few_patterns(records: Records) -> Finding:
    """Sec. I: “The regularization we impose is not restrictive when it comes to the expressive power of
    the model”, under the condition K ≪ N that keeps it out of the spin-glass phase.
    Read as: Error of the couplings that N/4 patterns learn with exact gradients from the most rows,
    over that of a dense machine, for each of five sets of couplings.
    Rule: At most {NEAR} for each of them, by 2 σ."""
    told, answers = [], []
    for kind in SPINS:
        record = records[f"inverse.rows-{kind}"]
        ratio = Number.of(_at_end(record, "ra-few", -1) / _at_end(record, "dense", -1))
        answers.append(ratio.below(NEAR))
        told.append(f"{NAMES[kind]} {ratio}")
    answer = None if any_tiny(records) else all_of(*answers)
    return Finding(answer, "; ".join(told))


@claim(("inverse.rows-memory",))
def inverse_few_memories(records: Records) -> Finding:
    """Sec. IV.C: “First choose a number of patterns K large enough to faithfully learn the relevant
    features of the data”, and not larger.
    Read as: Rows of a machine of {MEMORIES} patterns; error of the couplings that N/4 patterns learn
    from the fewest rows, over that of a dense machine.
    Rule: Below 1, by 2 σ."""
    record = records["inverse.rows-memory"]
    ratio = Number.of(_at_end(record, "ra-few", 0) / _at_end(record, "dense", 0))
    return Finding(None if any_tiny(records) else ratio.below(1.0), f"{ratio}")
