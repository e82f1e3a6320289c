"""The figure of a sweep: the measure along one setting, a curve for each value of the others; of a search
a panel for each setting, with all rows.

Along the axis is the setting with the most values, of numbers if there are such; a third setting and
those after it make panels, so that no panel has more curves than there are pens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

from ..pictures import PAGE, PENS, label, label_of, panels, plain, print_style
from .results import Row, Table
from .search import Range
from .study import Study, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.2, 3.0  # inches, of a panel
ACROSS = 3  # panels
WIDE = 5.0  # largest over smallest, from which on an axis is logarithmic
TICKS = 10  # values that stand below the axis, each of them
NAMES = {"hidden": "hidden units", "patterns": "patterns K", "rate": "learning rate"}
Setting = tuple[str, Any]


def grid_figure(table: Table) -> Any:
    """Means with their standard errors."""
    study = table.study
    along, lines, apart = axes_of(study)
    each = list(product(*([(name, value) for value in study.grid[name]] for name in apart)))
    many = f"{study.seeds} trainings" if study.seeds > 1 else "one training"
    with _panels(study, len(each), f"mean and standard error of {many}") as (fig, places, lowest):
        for i, (axes, panel) in enumerate(zip(places, each, strict=True)):
            title = ", ".join(f"{_name(k)} {shown(v)}" for k, v in panel)
            _panel(axes, table, along, lines, dict(panel))
            label(axes, plain(_name(along)) if along and i >= lowest else "", "", plain(title))
        ends = [axes.get_ylim() for axes in places]
        for axes in places:
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        handles, words = places[0].get_legend_handles_labels()
        if lines:
            where: Any = "outside lower center"
            fig.legend(handles, words, loc=where, ncols=min(4, len(words)), title=plain(_of(lines)))
    return fig


def search_figure(table: Table) -> Any:
    """Means with their standard errors over every setting that was searched; hollow ones were stopped."""
    study, measure = table.study, str(table.study.measure)
    rows = [row for row in table.rows if math.isfinite(row.mean(measure)[0])]
    with _panels(study, len(study.varied), f"{len(rows)} rows of a search") as (fig, places, _):
        for axes, name in zip(places, study.varied, strict=True):
            _searched(axes, study, name, rows, measure)
            label(axes, plain(_name(name)), "", "")
    return fig


@contextmanager
def _panels(study: Study, count: int, told: str) -> Iterator[tuple[Figure, list[Any], int]]:
    """A figure, so many panels, to be drawn into, and the first one that has none below it."""
    across = min(ACROSS, count)
    down = math.ceil(count / across)
    with print_style():
        fig, places = panels(across, down, width=max(WIDTH, min(PAGE, 2.6 * across)), height=HEIGHT)
        for axes in places[count:]:
            axes.set_visible(False)
        yield fig, places[:count], count - across
        for axes in places[:count]:
            axes.grid(axis="y", color="#d3dde5", linewidth=0.5)
            axes.set_axisbelow(True)
        fig.supylabel(_measure(str(study.measure)), fontsize=8)
        fig.suptitle(plain(f"{study.name}: {told}"), fontsize=8.5)


def _searched(axes: Any, study: Study, name: str, rows: list[Row], measure: str) -> None:
    part = study.searched.over[name] if study.searched else ()
    numbers = all(_number(row.settings[name]) is not None for row in rows)
    words = part if isinstance(part, tuple) else [row.settings[name] for row in rows]
    known = list(dict.fromkeys(map(shown, words)))
    for row in rows:
        mean, error = row.mean(measure)
        value = row.settings[name]
        spot = _number(value) if numbers else known.index(shown(value))
        fill = "white" if row.stopped else PENS[0].colour
        style = {"color": PENS[0].colour, "marker": "o", "markersize": 4, "markerfacecolor": fill}
        axes.errorbar([spot], [mean], [error if math.isfinite(error) else 0.0], capsize=2, **style)
    if isinstance(part, Range) and part.log:
        axes.set_xscale("log")
    if not numbers:
        axes.set_xticks(range(len(known)), [plain(word) for word in known])


def axes_of(study: Study) -> tuple[str | None, list[str], list[str]]:
    """The setting along the axis, those of the curves and those of the panels."""
    varied = [name for name, values in study.grid.items() if len(values) > 1]
    if not varied:
        return (next(iter(study.grid), None)), [], []

    def rank(name: str) -> tuple[bool, int]:
        return _numbers(study, name), len(study.grid[name])

    along = study.x or max(varied, key=rank)
    others = [name for name in varied if name != along]
    lines: list[str] = []
    for name in others:
        many = math.prod(len(study.grid[x]) for x in (*lines, name))
        if many > len(PENS) or len(lines) == 2:
            break
        lines.append(name)
    lines = lines or others[:1]
    return along, lines, [name for name in others if name not in lines]


def _panel(axes: Any, table: Table, along: str | None, lines: list[str], panel: dict[str, Any]) -> None:
    study, measure = table.study, str(table.study.measure)
    values = list(study.grid[along]) if along else [None]
    numbers = along is not None and _numbers(study, along)
    spots = [_number(v) for v in values] if numbers else list(range(len(values)))
    length = max(spots) - min(spots) if numbers else 1.0
    curves = list(product(*([(name, value) for value in study.grid[name]] for name in lines)))
    wide = numbers and min(spots) > 0 and max(spots) / min(spots) >= WIDE
    for i, curve in enumerate(curves):
        aside = (0.008 if numbers else 0.12) * (i - (len(curves) - 1) / 2)  # no bar hides another
        pen = PENS[i % len(PENS)]
        points = []
        for spot, value in zip(spots, values, strict=True):
            wanted = {**panel, **dict(curve), **({along: value} if along else {})}
            row = next((r for r in table.rows if wanted.items() <= r.settings.items()), None)
            mean, error = row.mean(measure) if row is not None else (math.nan, math.nan)
            beside = spot * (max(spots) / min(spots)) ** aside if wide else spot + aside * length
            points.append((beside, mean, error if math.isfinite(error) else 0.0))
        style = {"linestyle": pen.dash if numbers else "", "color": pen.colour, "marker": pen.marker}
        told = ", ".join(shown(value) for _, value in curve)
        axes.errorbar(*zip(*points, strict=True), label=plain(told), capsize=2.5, **style)
    if numbers:
        if wide:
            axes.set_xscale("log")
        if len(spots) <= TICKS:
            axes.set_xticks(spots, [shown(value) for value in values])
            axes.minorticks_off()
    else:
        axes.set_xticks(spots, [plain(shown(value)) for value in values])
        axes.set_xlim(-0.5, len(values) - 0.5)


def _numbers(study: Study, name: str) -> bool:
    return all(_number(value) is not None for value in study.grid[name])


def _number(value: Any) -> Any:
    value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _measure(measure: str) -> str:
    name, _, part = measure.rpartition("_")
    of_part = part in ("train", "test", "valid")
    return f"{label_of(name)} ({part})" if of_part else label_of(measure)


def _name(setting: str) -> str:
    return NAMES.get(setting, setting.replace("_", " "))


def _of(settings: list[str]) -> str:
    return ", ".join(map(_name, settings))
