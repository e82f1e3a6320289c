"""The style of the paper's figures: for print, in grey, and for the colour-blind.

Each curve has a colour (Okabe and Ito's, of different lightness), a dash and a marker of its own, so
that any one of them tells it from the others. Bands are one standard deviation over instances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..pictures import INK, figure, show_images
from .study import Array, Number, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a journal, and two


@dataclass(frozen=True)
class Pen:
    """How one curve looks."""

    colour: str
    dash: Any
    marker: str


PENS = (
    Pen("#0072B2", "-", "o"),  # blue
    Pen("#D55E00", "--", "s"),  # vermilion
    Pen("#009E73", "-.", "^"),  # green
    Pen("#56350a", ":", "D"),  # brown
    Pen("#E69F00", (0, (5, 1, 1, 1, 1, 1)), "v"),  # amber
    Pen("#56B4E9", (0, (8, 2)), "P"),  # sky
    Pen("#CC79A7", (0, (1, 1)), "X"),  # purple
    Pen("#000000", (0, (3, 1)), "*"),  # black
)
STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text
    "savefig.dpi": 220,
}


@contextmanager
def print_style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def panels(
    columns: int = 1, rows: int = 1, *, width: float | None = None, height: float = 2.4
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order."""
    fig = figure(width or (COLUMN if columns == 1 else PAGE), height * rows)
    return fig, list(np.ravel(fig.subplots(rows, columns)))


def curve(
    axes: Axes, x: Any, rows: Array, pen: Pen, label: str, *, floor: float | None = 0.0
) -> None:
    """Mean and band of `rows` (x, instances); markers are few, so that the line shows."""
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    mean = np.nanmean(rows, 1)
    every = max(1, len(mean) // 8)
    axes.plot(
        x,
        mean,
        linestyle=pen.dash,
        color=pen.colour,
        marker=pen.marker,
        markevery=every,
        label=label,
    )
    if rows.shape[1] > 1:
        spread = np.nanstd(rows, 1, ddof=1)
        low = mean - spread if floor is None else np.maximum(mean - spread, floor)
        axes.fill_between(x, low, mean + spread, color=pen.colour, alpha=0.18, lw=0)


def points(axes: Axes, x: Any, numbers: Sequence[Number], pen: Pen, label: str) -> None:
    """Means with error bars."""
    axes.errorbar(
        x,
        [n.value for n in numbers],
        [n.error if np.isfinite(n.error) else 0.0 for n in numbers],
        linestyle=pen.dash,
        color=pen.colour,
        marker=pen.marker,
        label=label,
        capsize=2,
        linewidth=1.1,
    )


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left")


def epochs_axis(axes: Axes, y: str, title: str = "") -> None:
    """Epochs on a logarithmic axis that has room for epoch 0."""
    from matplotlib.ticker import FuncFormatter

    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    label(axes, "epoch", y, title)


def tiles(
    axes: Axes, packed: Sequence[str], shape: Sequence[int], columns: int, title: str = ""
) -> None:
    """Images from a record."""
    images = unpack(packed, shape[0] * shape[1])
    show_images(axes, torch.from_numpy(images), (shape[0], shape[1]), columns)
    if title:
        axes.set_title(title, loc="left")


def pack(images: torch.Tensor) -> list[str]:
    """Images of ±1 (samples, v) as lines of hexadecimal digits, for a record."""
    bits = (images.detach().cpu().numpy() > 0).astype(np.uint8)
    return [row.tobytes().hex() for row in np.packbits(bits, axis=1)]


def unpack(packed: Sequence[str], visible: int) -> Array:
    rows = np.stack([np.frombuffer(bytes.fromhex(line), np.uint8) for line in packed])
    bits = np.unpackbits(rows, axis=1, count=visible)
    return bits.astype(float) * 2 - 1


def instances(record: Record, key: str) -> int:
    """Over how many instances a value (t, e) was measured."""
    return int(np.atleast_2d(record.array(key)).shape[1])


def sizes_of(records: Mapping[str, Record]) -> str:
    """The settings and seeds of some records in a sentence, for a caption."""
    told = []
    for study in dict.fromkeys(name.partition(".")[0] for name in records):
        record = next(r for name, r in records.items() if name.partition(".")[0] == study)
        pairs = ", ".join(f"{k.replace('_', ' ')} {_short(v)}" for k, v in record.settings.items())
        told.append(f"{study} ({record.scale} scale, seed {record.seed}): {pairs}")
    return "; ".join(told) + "."


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(map(_short, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
