"""What an update and a Gibbs sweep cost against K, V + H, chains and replicas, varied one at a time.

    time = a + b K (V + H)                                                                (1)
    time = a + b K (V + H) + d (V + H)                                                    (2)

(1) must hold for patterns, where a dense machine takes V H; (2) knows that drawing a spin costs the
same whatever K is. Both are fitted over all sizes of K and of V + H. Exponents are slopes of log time
against log size over the largest sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from rapidbm.estimates import power_law

from ..clock import WARM_UP, Action, Times, interleaved
from .jobs import Size, gibbs, ours
from .peak import peak_bytes
from .roofline import sweep_count, update_count

UPDATE_SWEEPS = 3
LARGEST = 4  # sizes of the fit of an exponent
WORKS = ("update", "sweep")
VARIED = ("K", "V+H", "chains", "replicas")
TOGETHER = (("K", "V+H"), ("chains",), ("replicas",))  # in one alternation: the laws need both
Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """From which size one number at a time is varied, by which factors, and how often it is timed."""

    base: Size
    factors: tuple[float, ...]
    pattern_factors: tuple[float, ...]
    replicas: tuple[int, ...]
    sweeps: int  # in one call
    rounds: int

    def sizes(self, varied: str) -> list[Size]:
        base = self.base
        assert base.patterns is not None
        if varied == "K":
            return [replace(base, patterns=round(x * base.patterns)) for x in self.pattern_factors]
        if varied == "V+H":
            both = ((round(x * base.visible), round(x * base.hidden)) for x in self.factors)
            return [replace(base, visible=v, hidden=h) for v, h in both]
        if varied == "chains":
            return [replace(base, chains=round(x * base.chains)) for x in self.factors]
        return [replace(base, replicas=n) for n in self.replicas]


# Layers that are wide against K, so that fields through patterns are cheaper than through W throughout.
PLANS = {
    "cpu": Plan(Size(2048, 2048, 128, 128), (0.25, 0.5, 1, 2, 4), (0.5, 1, 2, 3, 4), (1, 2, 4, 8), 5, 7),
    "cuda": Plan(
        Size(4096, 4096, 128, 16_384),
        (0.25, 0.5, 1, 2, 4),
        (0.25, 0.5, 1, 2, 3, 4),
        (1, 2, 4, 8),
        20,
        7,
    ),  # enough chains to fill the chip
    "quick": Plan(Size(512, 512, 32, 64), (0.5, 1, 2), (0.5, 1, 2), (1, 2), 5, 3),
}


def measured(plan: Plan, device: torch.device, seed: int, tell: Callable[[str], object]) -> list[Row]:
    """A row per size and work."""
    rows: list[Row] = []
    for group in TOGETHER:
        tell(f"cost against {' and '.join(group)}")
        points = [(v, size, work) for v in group for size in plan.sizes(v) for work in WORKS]
        jobs = {f"{work} {size!r}": (size, work) for _, size, work in points}
        peaks = {name: peak(*job, plan, device, seed) for name, job in jobs.items()}
        actions = {name: build(*job, plan, device, seed) for name, job in jobs.items()}
        times = interleaved(actions, plan.rounds, pause=0, least=0.02, device=device)
        for varied, size, work in points:
            name = f"{work} {size!r}"
            row = {"varied": varied, "work": work, **vars(size), "peak_bytes": peaks[name]}
            rows.append(row | rates(size, work, plan.sweeps, times[name]))
    return rows


def build(size: Size, work: str, plan: Plan, device: torch.device, seed: int) -> Action:
    """An update, or many sweeps in one call."""
    if work == "update":
        return ours(size, UPDATE_SWEEPS, device, seed)
    return gibbs(size, plan.sweeps, device, seed)


def peak(size: Size, work: str, plan: Plan, device: torch.device, seed: int) -> int:
    """Bytes held at most, from building the machine on."""

    def all_of_it() -> None:
        action = build(size, work, plan, device, seed)
        for _ in range(WARM_UP):
            action()

    return peak_bytes(all_of_it, device)


def rates(size: Size, work: str, sweeps: int, times: Times) -> Row:
    """Times of a call as rates; a sweep's seconds are those of one of the `sweeps` in the call."""
    made = UPDATE_SWEEPS if work == "update" else sweeps
    count = update_count(size, made) if work == "update" else sweep_count(size, made)
    spins = made * size.replicas * size.chains * (size.visible + size.hidden)
    couplings = made * size.replicas * size.chains * 2 * size.visible * size.hidden
    parts = 1 if work == "update" else sweeps
    return {
        **times.per(parts).as_dict(),
        "per_second": parts / times.median,
        "spin_updates_per_ns": spins / times.median / 1e9,
        "couplings_per_ns": couplings / times.median / 1e9,
        "operations": count.operations // parts,
        "bytes": count.bytes / parts,
        "operations_per_byte": count.intensity,
        "operations_per_second": count.operations / times.median,
    }


# -- fits ---------------------------------------------------------------------------------------------


def fits(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Of each work: the exponents of all that was varied, and eqs. (1) and (2)."""
    found: dict[str, dict[str, Any]] = {}
    for work in WORKS:
        mine = [row for row in rows if row["work"] == work]
        exponents = {}
        for varied in VARIED:
            some = [row for row in mine if row["varied"] == varied]
            sizes = np.array([value(row, varied) for row in some])
            seconds = np.array([row["seconds"] for row in some])
            power, error = power_law(sizes[-LARGEST:], seconds[-LARGEST:])
            exponents[varied] = {"value": power, "error": error if math.isfinite(error) else None}
        some = [row for row in mine if row["varied"] in ("K", "V+H")]
        times = [row["seconds"] for row in some]
        columns = {"a": [1.0] * len(some), "b": [product(row) for row in some]}
        drawn = {**columns, "d": [value(row, "V+H") for row in some]}
        found[work] = {
            "exponents": exponents,
            "law": law(columns, times),
            "law_with_draws": law(drawn, times),
        }
    return found


def value(row: Row, varied: str) -> float:
    if varied == "V+H":
        return float(row["visible"] + row["hidden"])
    return float(row["patterns" if varied == "K" else varied])


def product(row: Row) -> float:
    """K (V + H)."""
    return value(row, "K") * value(row, "V+H")


def law(columns: Mapping[str, ArrayLike], seconds: ArrayLike) -> dict[str, Any]:
    """The factors of the columns whose sum is the time: least squares of the relative misses, with
    standard errors, and the largest miss."""
    t = np.asarray(seconds, float)
    x = np.stack([np.asarray(column, float) for column in columns.values()], 1)
    unit = x.max(0)  # so that all columns are of order one
    x = x / unit / t[:, None]
    factors, *_ = np.linalg.lstsq(x, np.ones_like(t))
    misses = x @ factors - 1
    variance = float(misses @ misses) / max(len(t) - len(factors), 1)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
    both = zip((factors / unit).tolist(), (errors / unit).tolist(), strict=True)
    numbers = {n: {"value": f, "error": e} for n, (f, e) in zip(columns, both, strict=True)}
    return {**numbers, "worst_miss": float(np.abs(misses).max())}
