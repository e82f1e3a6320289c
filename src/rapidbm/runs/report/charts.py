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

from markupsafe import Markup, escape

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 90.0, 14.0, 42.0  # margins: ticks, names of the curves, –, the axis
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
        parts = [*_axes(self, frame)]
        if self.level is not None:
            parts.append(_level(self.level, frame))
        ends = _apart([(i, frame.y(_last(c))) for i, c in enumerate(self.curves) if _known(c)])
        for i, curve in enumerate(self.curves):
            if _known(curve):
                parts.append(_drawn(i, curve, frame, ends[i]))
        parts.append(
            Markup('<line class="cursor" x1="0" x2="0" y1="{}" y2="{}"/>').format(TOP, HEIGHT - BOTTOM)
        )
        parts += [
            Markup('<circle class="at series-{}" r="4"/>').format(i % 3) for i in range(len(self.curves))
        ]
        told = "; ".join(
            f"{c.name or self.title} ends at {short(_last(c))}" for c in self.curves if _known(c)
        )
        looks = json.dumps(_looks(self, frame))
        return Markup(
            '<svg class="chart" viewBox="0 0 {w:g} {h:g}" role="img" tabindex="0" aria-label="{label}" '
            'data-looks="{looks}">{parts}</svg>'
        ).format(
            w=WIDTH,
            h=HEIGHT,
            label=f"{self.title} against {self.across}: {told}.",
            looks=looks,
            parts=Markup("").join(parts),
        )


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


def _axes(chart: Chart, frame: _Frame) -> list[Markup]:
    parts = []
    line = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    text = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
    for y, told in labelled(ticks(frame.low, frame.high)):
        at = frame.y(y)
        parts.append(line.format(LEFT, WIDTH - RIGHT, at, at))
        parts.append(text.format(LEFT - 8, at + 4, "end", told))
    bottom = HEIGHT - BOTTOM
    marks = log_ticks if chart.log else ticks
    for x, told in labelled(marks(frame.x_low, frame.x_high)):
        at = frame.x(x)
        parts.append(line.format(at, at, bottom, bottom + 5))
        parts.append(text.format(at, bottom + 19, "middle", told))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(text.format(middle, HEIGHT - 5, "middle", escape(chart.across)))
    return parts


def _level(value: float, frame: _Frame) -> Markup:
    if not frame.low <= value <= frame.high:
        return Markup("")
    at = frame.y(value)
    line = Markup('<line class="level" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    return line.format(LEFT, WIDTH - RIGHT, at, at)


def _drawn(number: int, curve: Curve, frame: _Frame, label_at: float) -> Markup:
    half = curve.half or [None] * len(curve.y)
    rows = [(frame.x(x), y, h) for x, y, h in zip(curve.x, curve.y, half, strict=True) if y is not None]

    def path(edge: Callable[[float, float], float]) -> list[str]:
        return [f"{x:g},{frame.y(edge(y, h or 0.0), FAR):g}" for x, y, h in rows]

    parts, floor = [], _floor(curve)
    if any(h for _, _, h in rows):
        outline = [*path(lambda y, h: y + h), *reversed(path(lambda y, h: max(y - h, floor)))]
        parts.append(Markup('<polygon class="band" points="{}"/>').format(" ".join(outline)))
    line = path(lambda y, h: y)
    parts.append(Markup('<polyline class="line" points="{}"/>').format(" ".join(line)))
    # An inner svg cuts off what is outside of it.
    x, y, wide, high = LEFT - 4, TOP - 4, WIDTH - LEFT - RIGHT + 8, HEIGHT - TOP - BOTTOM + 8
    place = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
    box = f'viewBox="{x:g} {y:g} {wide:g} {high:g}" aria-hidden="true"'
    parts = [Markup("<svg {}>{}</svg>").format(Markup(f"{place} {box}"), Markup("").join(parts))]
    end, at = rows[-1][0], frame.y(rows[-1][1])
    parts.append(Markup('<circle class="spot" r="3" cx="{}" cy="{}"/>').format(end, at))
    parts.append(
        Markup('<text class="mark" x="{}" y="{:g}">{}</text>').format(end + 8, label_at + 4, curve.name)
    )
    return Markup('<g class="series-{}">{}</g>').format(number % 3, Markup("").join(parts))


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
