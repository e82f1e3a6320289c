"""Items, the paper's figures and tables, and how their curves are drawn.

Bands are one standard deviation over instances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from rapidbm.pictures import Pen, label, show_images

from .claims import Number, words_of
from .records import Array, Record, Records, sizes_of, unpack

if TYPE_CHECKING:
    from matplotlib import axes
    from matplotlib import figure as figures

    Axes: TypeAlias = axes.Axes
    Figure: TypeAlias = figures.Figure
else:  # matplotlib is imported when something is drawn
    Axes = Figure = Any


@dataclass(frozen=True)
class Item:
    """A figure or a table: `needs` are the records it may use, 'study.part', or 'study' for all."""

    title: str
    needs: tuple[str, ...]
    text: str | Callable[[Records], str]  # the caption, less the settings
    draw: Callable[[Records], Figure]

    def records(self, every: Records) -> dict[str, Record]:
        """Those that it uses; none unless every part that it names is there, and some part of every study
        that it names."""
        found: dict[str, Record] = {}
        for need in self.needs:
            some = {n: r for n, r in every.items() if n == need or n.partition(".")[0] == need}
            if not some:
                return {}
            found |= some
        return found

    def caption(self, records: Records) -> str:
        text = self.text if isinstance(self.text, str) else self.text(records)
        return f"{text} {sizes_of(records)}"


def item(
    title: str, needs: tuple[str, ...], text: Callable[[Records], str] | None = None
) -> Callable[[Callable[[Records], Figure]], Item]:
    """Makes an item of the function that draws it: its id is the function's name, its caption the
    docstring, unless the records have a part in it."""
    return lambda draw: Item(title, needs, text or words_of(draw), draw)


def curve(axes: Axes, x: Any, rows: Array, pen: Pen, label: str, *, floor: float | None = 0.0) -> None:
    """Mean and band of `rows` (x, instances); markers are few, so that the line shows."""
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    mean = np.nanmean(rows, 1)
    style = {"linestyle": pen.dash, "color": pen.colour, "marker": pen.marker}
    axes.plot(x, mean, markevery=max(1, len(mean) // 8), label=label, **style)
    if rows.shape[1] > 1:
        spread = np.nanstd(rows, 1, ddof=1)
        low = mean - spread if floor is None else np.maximum(mean - spread, floor)
        axes.fill_between(x, low, mean + spread, color=pen.colour, alpha=0.18, lw=0)


def curves(
    axes: Axes,
    records: Records,
    study: str,
    names: Mapping[str, str],
    pens: Mapping[str, Pen],
    key: str,
    **more: Any,
) -> None:
    """A value against the epochs, mean and band over instances, of each part that has it."""
    for name, pen in pens.items():
        record = records.get(f"{study}.{name}")
        if record is not None and key in record.values:
            curve(axes, record["epochs"], record.array(key), pen, names[name], **more)


def course_points(axes: Axes, record: Record | None, key: str, pen: Pen, label: str) -> None:
    """A value against the epochs of a record, if there is one: means with their standard errors."""
    if record is not None:
        points(axes, record["epochs"], Number.each(record.array(key)), pen, label)


def legend_below(fig: Figure, axes: Axes, columns: int, where: Any = "center", **more: Any) -> None:
    """The curves of some axes below the whole figure."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        place: Any = f"outside lower {where}"
        fig.legend(handles, labels, loc=place, ncols=columns, **more)


def points(axes: Axes, x: Any, numbers: Sequence[Number], pen: Pen, label: str) -> None:
    """Means with error bars."""
    errors = [n.error if np.isfinite(n.error) else 0.0 for n in numbers]
    style = {"linestyle": pen.dash, "color": pen.colour, "marker": pen.marker, "linewidth": 1.1}
    axes.errorbar(x, [n.value for n in numbers], errors, label=label, capsize=2, **style)


def epochs_axis(axes: Axes, y: str, title: str = "", **more: Any) -> None:
    """Epochs on a logarithmic axis that has room for epoch 0."""
    from matplotlib.ticker import FuncFormatter

    axes.set(**more)
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    label(axes, "epoch", y, title)


def tiles(axes: Axes, packed: Sequence[str], shape: Sequence[int], columns: int, title: str = "") -> None:
    """Images from a record."""
    images = unpack(packed, shape[0] * shape[1])
    show_images(axes, torch.from_numpy(images), (shape[0], shape[1]), columns)
    if title:
        axes.set_title(title, loc="left")
