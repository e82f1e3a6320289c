"""Pictures of images, patterns and curves, and the style of figures for print.

In print each curve has its own colour (Okabe and Ito's, of different lightness), dash and marker, so that
any one of them tells it from the others, in grey and for the colour-blind.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from .disk import write_bytes
from .errors import printable
from .estimates import WIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, INK = "#2a6f97", "#d9782d", "#1d2b36"
DOWN, UNKNOWN = "#d3dde5", "#86b0cb"
COLUMN, PAGE = 3.4, 7.0  # inches: one column of a journal, and two
MOST_NAMES = 60  # columns of a table that are named in a picture
MOST_LINES = 5000  # cells of a table with lines between them


def mosaic(
    images: Tensor, shape: tuple[int, int], columns: int | None = None
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Images (samples, v) side by side as one array, enlarged; the gaps between them are NaN."""
    zoom = max(1, 36 // max(shape))
    rows, cols = shape[0] * zoom, shape[1] * zoom
    gap = max(1, max(rows, cols) // 10)
    count = len(images)
    columns = min(count, columns or math.ceil(math.sqrt(count * rows / cols)))
    lines = math.ceil(count / columns)
    out = np.full((lines * (rows + gap) - gap, columns * (cols + gap) - gap), np.nan)
    for i, image in enumerate(images.detach().float().cpu().numpy().reshape(count, *shape)):
        y, x = (i // columns) * (rows + gap), (i % columns) * (cols + gap)
        out[y : y + rows, x : x + cols] = image.repeat(zoom, 0).repeat(zoom, 1)
    return out


def is_table(shape: tuple[int, int]) -> bool:
    """Rows of one line each: as images they would be hair-thin."""
    return 1 in shape


def _colours() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("spins", [DOWN, UNKNOWN, INK]).with_extremes(bad="white")


def show_images(
    axes: Axes, images: Tensor, shape: tuple[int, int], columns: int | None = None, title: str = ""
) -> None:
    """Draws a mosaic, or a table row by row: up is dark, down is light, 0 (unknown) is blue."""
    if is_table(shape):
        show_table(axes, images, title=title)
        return
    tiles = mosaic(images, shape, columns)
    axes.imshow(tiles, cmap=_colours(), vmin=-1, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    _set_title(axes, title)


def show_table(axes: Axes, rows: Tensor, names: Sequence[str] = (), title: str = "") -> None:
    """Draws rows (samples, v) one below the other, under the names of their columns."""
    cells = rows.detach().float().cpu().numpy()
    look: dict[str, Any] = {"cmap": _colours(), "vmin": -1, "vmax": 1, "interpolation": "nearest"}
    axes.imshow(cells, aspect="auto", **look)
    if cells.size <= MOST_LINES:
        for line in range(1, cells.shape[1]):
            axes.axvline(line - 0.5, color="white", lw=0.8)
        for line in range(1, len(cells)):
            axes.axhline(line - 0.5, color="white", lw=0.8)
    if 0 < len(names) <= MOST_NAMES:
        axes.set_yticks([])
        axes.set_xticks(range(len(names)), [plain(x[:24]) for x in names], rotation=90, fontsize=7)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    else:
        axes.set_axis_off()
    _set_title(axes, title)


def _set_title(axes: Axes, title: str) -> None:
    axes.set_title(plain(title), fontsize=10, color=INK)


def name_axes(axes: Axes, x: str, y: str) -> None:
    """Words at two axes, and no lines at the other sides."""
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)


def figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def image_figure(
    images: Tensor,
    shape: tuple[int, int],
    *,
    columns: int | None = None,
    title: str = "",
    names: Sequence[str] = (),
) -> Figure:
    """A figure of one mosaic, or of a table under the names of its columns."""
    if is_table(shape):
        fig = figure(min(14.0, 2.0 + 0.2 * max(shape)), min(12.0, 1.0 + 0.12 * len(images)))
        show_table(fig.subplots(), images, names, title)
        return fig
    tiles = mosaic(images, shape, columns)
    height, width = tiles.shape
    scale = 6.0 / max(width, 1)
    fig = figure(6.0, min(12.0, max(1.0, height * scale)) + 0.4)
    show_images(fig.subplots(), images, shape, columns, title)
    return fig


def comparison_figure(
    rows: Sequence[tuple[str, Tensor]], shape: tuple[int, int], names: Sequence[str] = ()
) -> Figure:
    """The same images in several states, one below the other; tables side by side."""
    count = len(rows[0][1])
    if not is_table(shape):
        fig = figure(min(14.0, 0.6 * count + 1.5), 1.2 * len(rows))
        for axes, (title, images) in zip(fig.subplots(len(rows), 1), rows, strict=True):
            show_images(axes, images, shape, count, title)
        return fig
    wide = max(shape) > 24  # side by side they would not be told apart
    width, height = 1.0 + 0.22 * max(shape), 1.2 + 0.14 * count
    if wide:
        fig = figure(min(14.0, width), min(16.0, height * len(rows)))
        panels = fig.subplots(len(rows), 1)
    else:
        fig = figure(width * len(rows), min(12.0, height))
        panels = fig.subplots(1, len(rows))
    for axes, (title, images) in zip(panels, rows, strict=True):
        show_table(axes, images, names, title)
    return fig


def show_curves(axes: Axes, records: Sequence[Mapping[str, Any]], name: str, label: str) -> None:
    """A metric of each part of the data against epochs: mean and one standard deviation; of one replica
    the 95 % interval, where there is an error."""
    from matplotlib.ticker import MaxNLocator

    records = [r for r in records if any(key == name or key.startswith(f"{name}_") for key in r)]
    epochs = [record["epoch"] for record in records]
    alone = name in records[0]
    parts = (("train", BLUE, "-"), ("test", ORANGE, "--"), ("valid", INK, ":"))
    for part, colour, style in (("", BLUE, "-"),) if alone else parts:
        key = name if alone else f"{name}_{part}"
        if key not in records[0]:  # most data have no third part
            continue
        found = [[x for x in record[key] if x is not None] for record in records]
        mean = np.array([np.mean(row) if row else np.nan for row in found])
        axes.plot(epochs, mean, style, color=colour, label=part, linewidth=1.8)
        if len(records[0][key]) > 1:
            spread = np.array([np.std(row, ddof=1) if len(row) > 1 else 0.0 for row in found])
            low = mean - spread
            if name == "hamming":
                low = np.maximum(low, 0.0)
            axes.fill_between(epochs, low, mean + spread, color=colour, alpha=0.18, lw=0)
        elif f"{name}_error_{part}" in records[0]:
            errors = (record[f"{name}_error_{part}"][0] for record in records)
            half = WIDE * np.array([np.nan if x is None else x for x in errors])
            axes.fill_between(epochs, mean - half, mean + half, color=colour, alpha=0.18, lw=0)
    name_axes(axes, "epoch", label)
    if not alone:
        axes.legend(frameon=False, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def map_figure(scores: Tensor, names: Sequence[str] = ()) -> Figure:
    """A map of scores between units (n, n), the darkest the highest; below 0 is white."""
    values = scores.detach().double().cpu().numpy()
    fig = figure(5.2, 4.6)
    axes = fig.subplots()
    top = max(float(values.max(initial=0.0)), 1e-12)
    drawn = axes.imshow(values, cmap="Greys", vmin=0.0, vmax=top, interpolation="nearest")
    if len(names) == len(values):
        step = max(1, math.ceil(len(names) / 20))
        labels = [plain(name[:20]) for name in names[::step]]
        places = range(0, len(names), step)
        axes.set_xticks(places, labels, fontsize=7, rotation=90)
        axes.set_yticks(places, labels, fontsize=7)
    fig.colorbar(drawn, ax=axes, label="score of a pair", shrink=0.8)
    return fig


def scan_figure(changes: Tensor, symbols: str, wildtype: Sequence[int]) -> Figure:
    """Changes of log p (sites, symbols), blue where a mutation is more probable; a dot marks the sequence
    itself."""
    values = changes.detach().double().cpu().numpy().T
    fig = figure(max(5.2, 0.11 * values.shape[1]), max(2.4, 0.16 * len(symbols) + 1.0))
    axes = fig.subplots()
    top = max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-12)
    look: dict[str, Any] = {"cmap": "RdBu", "vmin": -top, "vmax": top, "interpolation": "nearest"}
    drawn = axes.imshow(values, aspect="auto", **look)
    axes.plot(range(values.shape[1]), list(wildtype), ".", color=INK, ms=2.5)
    axes.set_yticks(range(len(symbols)), [plain(x) for x in symbols], fontsize=7)
    ticks = range(9, values.shape[1], 10)
    axes.set_xticks(ticks, [str(site + 1) for site in ticks], fontsize=7)
    name_axes(axes, "site", "")
    fig.colorbar(drawn, ax=axes, label="change of log p, nats", shrink=0.8)
    return fig


def curve_figure(records: Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """All metrics of a run, one panel each."""
    aside = ("epoch", "update", "seconds", "diverged")
    keys = {key for record in records for key in record if key not in aside}
    names = sorted({re.sub("_(train|test|valid)$", "", key) for key in keys})
    names = [name for name in names if name.removesuffix("_error") not in set(names) - {name}]
    fig = figure(4.6 * len(names), 3.4)
    for axes, name in zip(np.ravel(fig.subplots(1, len(names))), names, strict=True):
        show_curves(axes, records, name, label_of(name))
    fig.suptitle(plain(title), fontsize=11, color=INK)
    return fig


def thermodynamics_figure(
    betas: Tensor, panels: Mapping[str, tuple[Tensor, Tensor]], title: str = ""
) -> Figure:
    """Quantities (b,) with their errors against β, one panel each."""
    order = betas.argsort()
    fig = figure(9.0, 6.0)
    for axes, (name, (value, error)) in zip(np.ravel(fig.subplots(2, 2)), panels.items(), strict=True):
        look: dict[str, Any] = {"fmt": "o-", "ms": 3.5, "lw": 1.6, "elinewidth": 1.0, "capsize": 2.0}
        numbers = (x[order].numpy() for x in (betas, value, error))
        axes.errorbar(*numbers, color=BLUE, ecolor=INK, **look)
        name_axes(axes, "inverse temperature  β", name)
    fig.suptitle(plain(title), fontsize=11, color=INK)
    return fig


def label_of(metric: str) -> str:
    known = {
        "hamming": "Hamming distance",
        "log_likelihood": "log p per row, nats",
        "log_bound": "lower bound of log p per row, nats",
    }
    return known.get(metric) or plain(metric.replace("_", " "))


def plain(name: str) -> str:
    """A name as matplotlib is to write it: a dollar sign is one, and no mathematics."""
    return printable(name).replace("$", r"\$")


def save(fig: Figure, path: Path) -> Path:
    """Writes a figure; the ending says how."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name's script may not be in the font
        fig.savefig(buffer, dpi=160, format=path.suffix.removeprefix("."))
    write_bytes(path, buffer.getvalue())
    return path


# -- figures for print --------------------------------------------------------------------------------


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
    """Within it figures have the style for print."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def panels(
    columns: int = 1, rows: int = 1, *, width: float | None = None, height: float = 2.4
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order."""
    fig = figure(width or (COLUMN if columns == 1 else PAGE), height * rows)
    return fig, list(np.ravel(fig.subplots(rows, columns)))


def label(axes: Axes, x: str, y: str, title: str = "", **more: Any) -> None:
    """Words at the axes, and what else they are to be: scales, limits."""
    axes.set(xlabel=x, ylabel=y, **more)
    if title:
        axes.set_title(title, loc="left")
