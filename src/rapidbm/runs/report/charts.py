"""Curves as SVG that takes its colours from the page, so that they suit a light and a dark one.

A chart is `WIDTH` by `HEIGHT` units. A value y is drawn at

    top + (high − y) / (high − low) · (bottom − top)                                      (1)

and x likewise, or by its logarithm, log(1 + x), where looks crowd at the start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from .html import template

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 70, 90, 14, 42  # margins: ticks, names of the curves, –, the axis
GAP = 15.0  # between two names of curves
MANY = 10  # looks from which on the first fifth may leave the frame
FAR = 1e4  # of the frame, for what is outside
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten

Value = float | None


@dataclass(frozen=True)
class Curve:
    """Values against x, and how far a band goes to each side."""

    name: str
    x: Sequence[float]
    y: Sequence[Value]
    half: Sequence[Value] = ()


@dataclass(frozen=True)
class Chart:
    """Curves in one frame."""

    title: str
    across: str  # what x is
    curves: Sequence[Curve]
    level: float | None = None  # a line across
    log: bool = False  # of x
    below: str = ""  # what the bands are

    def last(self) -> str:
        """What the last look says."""
        frame = _Frame.around(self)
        return "" if frame is None else str(_looks(self, frame)[-1]["text"])

    def svg(self) -> Markup:
        """The chart, or nothing where no value is finite."""
        frame = _Frame.around(self)
        if frame is None:
            return Markup("")
        known = [(i, curve) for i, curve in enumerate(self.curves) if _known(curve)]
        names_at = _apart([(i, frame.y(_last(curve))) for i, curve in known])
        ends = "; ".join(f"{c.name or self.title} ends at {short(_last(c))}" for _, c in known)
        marks = labelled((log_ticks if self.log else ticks)(frame.x_low, frame.x_high))
        shown = self.level is not None and frame.low <= self.level <= frame.high
        text = template("chart.svg").render(
            **{"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP},
            bottom=HEIGHT - BOTTOM,
            label=f"{self.title} against {self.across}: {ends}.",
            looks=json.dumps(_looks(self, frame)),
            rows=[(frame.y(y), told) for y, told in labelled(ticks(frame.low, frame.high))],
            columns=[(frame.x(x), told) for x, told in marks],
            across=self.across,
            level=frame.y(self.level) if shown and self.level is not None else None,
            curves=[_drawn(curve, frame) | {"number": i, "name_at": names_at[i]} for i, curve in known],
            count=len(self.curves),
        )
        return Markup("".join(line.strip() for line in text.splitlines()))


@dataclass(frozen=True)
class _Frame:
    x_low: float
    x_high: float
    low: float
    high: float
    log: bool

    @staticmethod
    def around(chart: Chart) -> _Frame | None:
        xs = [x for c in chart.curves for x in c.x]
        ys = [edge for c in chart.curves for edge in _edges(c)]
        if not ys:
            return None
        # A start far away would flatten all that follows: it may leave the frame.
        later = [
            edge
            for c in chart.curves
            for edge in _edges(c, max(2, len(c.x) // 5) if len(c.x) >= MANY else 0)
        ]
        if later and max(ys) - min(ys) > 6 * (max(later) - min(later)) > 0:
            ys = later
        if chart.level is not None and _near(chart.level, ys):
            ys.append(chart.level)
        low, high = min(ys), max(ys)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        floor = 0.0 if low >= 0 else -math.inf
        wide = max(xs) - min(xs)
        return _Frame(
            min(xs), max(xs) if wide else min(xs) + 1, max(low - room, floor), high + room, chart.log
        )

    def x(self, value: float) -> float:
        def scale(x: float) -> float:
            return math.log1p(x - self.x_low) if self.log else x - self.x_low

        share = scale(value) / scale(self.x_high)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float, room: float = 4.0) -> float:
        """Where it is, or so far outside the frame."""
        share = (self.high - value) / (self.high - self.low)  # eq. (1)
        at = TOP + share * (HEIGHT - TOP - BOTTOM)
        return round(min(max(at, TOP - room), HEIGHT - BOTTOM + room), 1)


def _edges(curve: Curve, skip: int = 0) -> list[float]:
    """The ends of the bands; what is never negative has none below 0."""
    floor = _floor(curve)
    half = curve.half or [0.0] * len(curve.y)
    rows = [(y, h or 0.0) for y, h in zip(curve.y, half, strict=True) if y is not None]
    return [edge for y, h in rows[skip:] for edge in (max(y - h, floor), y + h)]


def _floor(curve: Curve) -> float:
    return 0.0 if all(y is None or y >= 0 for y in curve.y) else -math.inf


def _near(value: float, ys: list[float]) -> bool:
    span = (max(ys) - min(ys)) or abs(max(ys)) or 1.0
    return min(ys) - span <= value <= max(ys) + span


def _known(curve: Curve) -> bool:
    return any(y is not None for y in curve.y)


def _last(curve: Curve) -> float:
    return next(y for y in reversed(curve.y) if y is not None)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two others."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in STEPS if s * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """0 and powers of ten, or halves and fifths of these where there are few."""
    powers = range(math.ceil(math.log10(max(high, 1.0))) + 1)
    steps = (1, 2, 5) if high <= 100 else (1,)
    found = [float(s * 10**p) for p in powers for s in steps if s * 10**p <= high]
    return [x for x in (0.0, *found) if low <= x <= high]


def labelled(marks: list[float]) -> list[tuple[float, str]]:
    """Ticks with their texts, of as many digits as tell them apart."""
    exact = (d for d in range(9) if all(abs(round(x, d) - x) < 1e-9 + 1e-9 * abs(x) for x in marks))
    digits = next(exact, 9)
    return [(x, f"{x:,.{digits}f}".replace("-", "−")) for x in marks]


def short(value: float) -> str:
    """A number in few digits."""
    if value == 0:
        return "0"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def with_error(value: float, error: float) -> str:
    """A value with as many digits as two of its error take; the line is not broken within it."""
    if not error or error < 1e-9 * abs(value):
        return f"{short(value)}\u00a0±\u00a00"
    digits = max(0, 1 - math.floor(math.log10(error)))
    form = f",.{digits}f" if digits < 7 else ".4g"
    return f"{value:{form}}\u00a0±\u00a0{error:{form}}".replace("-", "−")


def _drawn(curve: Curve, frame: _Frame) -> dict[str, Any]:
    """Where the line of a curve goes, and its band where it has one."""
    half = curve.half or [None] * len(curve.y)
    rows = [(frame.x(x), y, h) for x, y, h in zip(curve.x, curve.y, half, strict=True) if y is not None]

    def path(edge: Callable[[float, float], float]) -> list[str]:
        return [f"{x:g},{frame.y(edge(y, h or 0.0), FAR):g}" for x, y, h in rows]

    band, floor = list[str](), _floor(curve)
    if any(h for _, _, h in rows):
        band = [*path(lambda y, h: y + h), *reversed(path(lambda y, h: max(y - h, floor)))]
    end, at = rows[-1][0], frame.y(rows[-1][1])
    return {"name": curve.name, "band": band, "line": path(lambda y, h: y), "end": end, "at": at}


def _apart(ends: list[tuple[int, float]]) -> dict[int, float]:
    """Where the names of curves go, so that none lies on another."""
    placed: dict[int, float] = {}
    at = -math.inf
    for i, y in sorted(ends, key=lambda end: end[1]):
        at = max(y, at + GAP)
        placed[i] = at
    over = max(placed.values(), default=0.0) - (HEIGHT - BOTTOM)
    return {i: y - max(0.0, over) for i, y in placed.items()}


def _looks(chart: Chart, frame: _Frame) -> list[dict[str, object]]:
    """For the script: where each look is, and what it says."""
    found = []
    by_x = [
        dict(zip(c.x, zip(c.y, c.half or [None] * len(c.y), strict=True), strict=True))
        for c in chart.curves
    ]
    for x in sorted({x for c in chart.curves for x in c.x}):
        values = [rows.get(x, (None, None)) for rows in by_x]
        told = [
            f"{c.name} {with_error(y, h) if h else short(y)}".strip()
            for c, (y, h) in zip(chart.curves, values, strict=True)
            if y is not None
        ]
        found.append(
            {
                "x": frame.x(x),
                "y": [None if y is None else frame.y(y) for y, _ in values],
                "text": f"{chart.across} {short(x)}: {', '.join(told)}",
            }
        )
    return found
