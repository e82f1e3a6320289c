"""Slow answers: pictures of a machine, as numbers that the page draws.

Each is what `rapidbm diagnose` and `rapidbm evaluate` measure, from streams of its own; how far it is, is
told while it is measured. What was found is kept as long as the machine's file is the same.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...estimates import Estimate
from ...glass.basins import basins
from ...glass.growth import growth
from ...glass.minima import minima, stability
from ...glass.overlaps import freezing, overlap_distribution
from ...glass.phases import Boundaries, boundaries, capacity, phase_point
from ...glass.spectra import spectrum
from ...glass.verdict import Glassiness
from ...likelihood.exact import can_be_exact
from ...likelihood.log_z import log_likelihood, log_z
from ...progress import telling, watch
from ...random import stream
from ...runs.diagnosis import gibbs_series
from ...runs.evaluation import WORTH, likelihood_curve, measured_parts
from ...runs.report.page import write_report
from .landscape import landscape
from .machines import Subject, check_spins, run_folder, subject
from .pipe import Pipe
from .plain import learned, plain_verdict
from .queries import Answer, answer

CHAINS, SWEEPS = 48, 200  # of Gibbs sampling from random starts
STARTS = 200  # of descents
LIMIT = 600.0  # seconds that any of them may take
REPORT = 60.0  # of a page that is exported
LOADS = 24  # at which the lines of the phase diagram are drawn
SPINS_ALONE = ("spectrum", "phases", "overlaps", "basins", "landscape", "verdict")
PATH = 40  # checkpoints on the way through it


def work(pipe: Pipe, first: dict[str, Any]) -> None:
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # a training may run beside
    looks = Analyses(Path(first["folder"]))
    while True:
        asked = pipe.receive()
        head = {"event": "progress", "page": asked.get("page"), "id": asked.get("id")}

        def report(line: str, share: float | None, head: dict[str, Any] = head) -> None:
            pipe.send({**head, "line": line, "share": share})

        with telling(report), watch("", limit=LIMIT, remedy="look by the command"):
            answer(pipe, asked, looks.answers, looks.folder)


class Analyses:
    """What can be looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[tuple[Any, ...], Answer] = {}
        views: dict[str, Callable[[Subject], Answer]] = {
            "spectrum": spectrum_of,
            "phases": phases_of,
            "overlaps": overlaps_of,
            "basins": basins_of,
            "landscape": landscape,
            "likelihood": likelihood_of,
            "verdict": verdict_of,
        }
        self.answers: dict[str, Callable[[dict[str, Any]], Answer]] = {
            name: lambda asked, name=name, view=view: self.once(name, view, asked)  # type: ignore[misc]
            for name, view in views.items()
        }
        self.answers |= {"along": self.along, "report": self.report, "learned": self.learned}

    def once(self, name: str, view: Callable[[Subject], Answer], asked: dict[str, Any]) -> Answer:
        """The view, measured if it was not."""
        found = subject(self.folder, asked)
        if name in SPINS_ALONE:
            check_spins(found.machine, "This card", "Its likelihood can be measured.")
        key = (name, found.name, found.update, found.replica, found.saved())
        if key not in self.kept:
            self.kept[key] = view(found)
            while len(self.kept) > 60:
                del self.kept[next(iter(self.kept))]
        return self.kept[key]

    def along(self, asked: dict[str, Any]) -> Answer:
        """The likelihood of every checkpoint, bridged from one to the next."""
        found = subject(self.folder, {**asked, "update": None})
        run, replica = found.trained, found.replica
        with watch("checkpoints", max(1, len(run.checkpoints()))) as tick:

            def track(steps: range) -> Any:
                for step in steps:
                    yield step
                    tick()

            records = likelihood_curve(run, track=track, replica=replica)
        measured = measured_parts(records[0])
        return {"records": records, "parts": list(measured), "keys": list(measured.values())}, {}

    def learned(self, asked: dict[str, Any]) -> Answer:
        """What the machine has learned, in a sentence."""
        return learned(subject(self.folder, asked)), {}

    def report(self, asked: dict[str, Any]) -> Answer:
        """A run as one page that holds everything."""
        folder = run_folder(self.folder, str(asked.get("run")))
        with tempfile.TemporaryDirectory() as out:
            page, _ = write_report(folder, Path(out), limit=REPORT)
            return {}, {"page": ("u8", np.frombuffer(page.read_bytes(), np.uint8))}


def _floats(values: Tensor) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in values.double().flatten().tolist()]


def _pair(found: Estimate, e: int = 0) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in found.replica(e)]


def spectrum_of(found: Subject) -> Answer:
    """Singular values beside the edge of random couplings, now and at the first checkpoint."""
    now = spectrum(found.machine)
    saved = sorted(found.trained.checkpoints())
    first = (
        spectrum(found.trained.machine(saved[0], found.replica)).values[0] if saved else now.values[0][:0]
    )
    return {
        "kind": now.kind,
        "values": _floats(now.values[0][:400]),
        "first": _floats(first[:400]),
        "limit": float(now.limit[0]),
        "outliers": int(now.outliers[0]),
        "rank": float(now.effective_rank[0]),
    }, {}


def phases_of(found: Subject) -> Answer:
    """The place of the machine and of its checkpoints, and the lines of random machines."""
    here = phase_point(found.machine)
    saved = sorted(found.trained.checkpoints())
    spread = {round(i * (len(saved) - 1) / (PATH - 1)) for i in range(PATH)} if saved else set()
    path = [phase_point(found.trained.machine(saved[i], found.replica)) for i in sorted(spread)]
    lines = _lines(here.theory, here.aspect)
    return {
        "here": [float(here.load[0]), float(here.temperature[0])],
        "phase": here.phase[0],
        "patterns": float(here.patterns[0]),
        "patterned": found.machine.patterns is not None,
        "path": [[float(x.load[0]), float(x.temperature[0])] for x in path],
        "updates": [saved[i] for i in sorted(spread)],
        **{name: _floats(getattr(lines, name)) for name in ("load", "glass", "retrieval", "stable")},
    }, {}


@cache
def _lines(theory: str, aspect: float) -> Boundaries:
    """The lines of the diagram, with more points where retrieval comes down to T = 0."""
    even = torch.logspace(-3, 0.5, LOADS, dtype=torch.float64)
    edge = capacity(theory, aspect) * torch.tensor([0.8, 0.9, 0.95, 0.98], dtype=torch.float64)
    return boundaries(theory, aspect, torch.cat([even, edge]).sort().values)


def overlaps_of(found: Subject) -> Answer:
    """P(q) of Gibbs chains from random starts, and q of a chain with its later self."""
    machine = found.machine
    series = gibbs_series(machine, CHAINS, SWEEPS, stream(0, "studio", "overlaps"))
    pairs = overlap_distribution(series[:, :, -1].to(machine.dtype))
    times = freezing(series, fold=machine.symmetric)
    return {
        "edges": _floats(pairs.edges),
        "density": _floats(pairs.density.value[0]),
        "error": _floats(pairs.density.error[0]),
        "within": _pair(times.within),
        "between": _pair(times.between),
        "chains": CHAINS,
        "sweeps": SWEEPS,
    }, {}


def basins_of(found: Subject) -> Answer:
    """How far a pattern's basin reaches."""
    wide = basins(found.machine, stream(0, "studio", "basins"), most=24, tries=2)
    if wide is None:
        raise InputError("dense couplings have no patterns, so that there are no basins of them")
    return {
        "flipped": _floats(wide.flipped),
        "overlap": _floats(wide.overlap.value[0]),
        "overlap_error": _floats(wide.overlap.error[0]),
        "returned": _floats(wide.returned.value[0]),
        "returned_error": _floats(wide.returned.error[0]),
        "radius": _floats(wide.radius[0]),
    }, {}


def likelihood_of(found: Subject) -> Answer:
    """log p of each part of the data with both bounds: exact, or annealed there and back."""
    parts = found.trained.parts()
    if not parts:
        raise InputError(f"{found.name} comes without data, and a likelihood is that of data")
    card = getattr(found.trained, "card", None)
    if card is not None and not can_be_exact(found.machine, WORTH):
        kept = {part: {"value": x[0], "lower": x[1], "upper": x[2]} for part, x in card.log_p.items()}
        note = "as measured when the machine was packed; annealing it here takes minutes"
        return {"parts": kept, "method": "ais", "effort": "", "note": note}, {}
    exact = can_be_exact(found.machine, WORTH)
    first = None if exact else next(iter(parts.values()))
    normaliser = log_z(found.machine, method="exact" if exact else "ais", seed=0, data=first)
    told: dict[str, Any] = {}
    for part, split in parts.items():
        bounds = log_likelihood(found.machine, split.spins, normaliser=normaliser, seed=0)
        ends = ("value", "lower", "upper", "forward", "back")
        told[part] = {name: _floats(getattr(bounds, name))[0] for name in ends}
    return {
        "parts": told,
        "method": normaliser.method,
        "effort": normaliser.effort,
        "note": normaliser.note,
        "independent": _independent(found),
    }, {}


def _independent(found: Subject) -> float | None:
    """log p of the training data by independent columns, which any machine should beat."""
    data = found.data()
    if data is None or data.units is not None:
        return None
    p = ((data.train.spins > 0).double().mean(0)).clamp(1e-6, 1 - 1e-6)
    return float((p * p.log() + (1 - p) * (1 - p).log()).sum())


def verdict_of(found: Subject) -> Answer:
    """Paramagnet, ordered or glass, in words, with the numbers that decided."""
    machine = found.machine
    rng = stream(0, "studio", "verdict")
    with watch("verdict", 4) as tick:
        series = gibbs_series(machine, CHAINS, SWEEPS, stream(0, "studio", "overlaps"))
        tick()
        times = freezing(series, fold=machine.symmetric)
        pairs = overlap_distribution(series[:, :, -1].to(machine.dtype), fold=machine.symmetric)
        valleys = minima(machine, STARTS, rng)
        tick()
        grown = growth(machine, STARTS // 2, rng, tries=3)
        tick()
        glass = Glassiness(
            times.within, times.between, times.gap, pairs.square, pairs.variance,
            valleys, grown, stability(machine, rng), spectrum(machine),
        )  # fmt: skip
    rows = [
        ["q_EA, of a chain with its later self", _pair(glass.edwards_anderson)],
        ["overlap of different chains", _pair(glass.between)],
        ["two descents meet (Y)", _pair(valleys.coincidence)],
        ["slope of log(minima) per unit", _pair(grown.slope)],
    ]
    if glass.stability is not None:
        rows.append(["overlap that a pattern keeps", _pair(glass.stability)])
    told = glass.verdict[0]
    return {"verdict": told, "plain": plain_verdict(told), "rows": rows, "starts": STARTS}, {}
