"""Sampled rows beside real ones, in sentences, numbers and pictures of the page."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ...pictures import BLUE, INK, MOST_NAMES, ORANGE, figure, name_axes, plain
from .html import PNG, embedded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 1.96  # standard errors to each side of a 95 % interval
DRAWN = 12  # columns whose shares are drawn
HARDLY, EASILY = 0.6, 0.75  # AUC
LABEL = 14  # characters of a word under a bar


def rows_of(found: dict[str, Any]) -> dict[str, Any] | None:
    """What the page says of sampled rows; None where they were not measured, or the cache does not hold
    together."""
    if "table" not in found:
        return None
    rows = found["table"]
    names = [column["name"] for column in rows["columns"]]
    try:
        images = [
            (
                _picture(_marginals(rows)),
                "Shares of values in real rows and in samples; the least alike first",
            )
        ]
        if len(names) > 1:
            images.append(
                (_picture(_pairs(rows, names)), "Similarity of each pair of columns; 1 is equal")
            )
        images.append(
            (
                _picture(_distances(rows["privacy"])),
                "Distance to the nearest training row, of samples and of held-out rows",
            )
        )
    except (ValueError, IndexError):  # lengths that differ
        return None
    return {
        "good": _good(rows),
        "copies": rows["privacy"]["copies"],
        "verdict": _sentence(rows["privacy"]["verdict"]),
        "count": f"{rows['count']:,}",
        "sweeps": f"{rows['sweeps']:,}",
        "train": f"{rows['train']:,}",
        "held_out": f"{rows['held_out']:,}",
        "images": images,
        "columns": [
            (column["name"], _three(column["samples"]), _three(column["train"]))
            for column in sorted(rows["columns"], key=_least)
        ],
        "utility": [
            (
                one["column"],
                one["measure"],
                *(_interval(one[name]) for name in ("synthetic", "real", "gap")),
                _three(one["baseline"]),
            )
            for one in rows["utility"]
        ],
        "left_out": ", ".join(rows["left_out"]),
        "trained_on": f"{rows['utility'][0]['rows'][0]:,}" if rows["utility"] else "",
        "private": _private(rows["privacy"]),
        "names": names,
        "rows": rows["rows"],
        "train_rows": rows["train_rows"],
    }


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _good(rows: dict[str, Any]) -> str:
    auc, error = rows["auc"]
    how = "hardly tells" if auc < HARDLY else "tells" if auc > EASILY else "can in part tell"
    told = f"A classifier {how} samples from held-out rows: AUC {_interval([auc, error])}, 0.5 by chance"
    columns = [c["samples"] for c in rows["columns"] if c["samples"] is not None]
    train = [c["train"] for c in rows["columns"] if c["train"] is not None]
    if columns and train:
        told += f"; columns are {np.mean(columns):.3f} alike (training rows {np.mean(train):.3f})"
    pairs = [x for line in rows["pairs"] for x in line if x is not None]
    if pairs and rows["train_pairs"] is not None:
        told += f", pairs of columns {np.mean(pairs):.3f} (training rows {rows['train_pairs']:.3f})"
    return f"{told}; 1 is equal."


def _private(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Name, number, and what it would be by chance."""
    return [
        ("Share of samples that would be copies", _interval(found["copied"]), "0"),
        ("Nearest row is a training row", _three(found["nearer"]), _three(found["expected"])),
        ("Equal to a training row", _three(found["exact"][0]), f"{found['exact'][1]:.3f}, held-out rows"),
        (
            "Median distance to the nearest training row",
            f"{found['medians'][0]:.3g}",
            f"{found['medians'][1]:.3g}, held-out rows",
        ),
        ("log p of training rows above held-out rows, nats", _interval(found["gap"], 2), "0"),
        ("Pairs of both that log p tells apart", _interval(found["pairs"]), "0.5"),
    ]


def _least(column: dict[str, Any]) -> float:
    return 2.0 if column["samples"] is None else float(column["samples"])


def _three(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _interval(pair: list[float], digits: int = 3) -> str:
    value, half = pair[0], WIDE * pair[1]
    ends = (f"{x:.{digits}f}".replace("-", "−") for x in (value - half, value + half))
    return f"{value:.{digits}f}".replace("-", "−") + f" [{', '.join(ends)}]"


# -- pictures -----------------------------------------------------------------------------------------


def _picture(fig: Figure) -> str:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name's script may not be in the font
        fig.savefig(buffer, dpi=120, format="png")
    return embedded(buffer.getvalue(), PNG)


def _short(text: str, most: int = LABEL) -> str:
    return plain(text if len(text) <= most else f"{text[: most - 1]}…")


def _marginals(rows: dict[str, Any]) -> Figure:
    chosen = sorted(rows["columns"], key=_least)[:DRAWN]
    across = min(3, len(chosen))
    down = -(-len(chosen) // across)
    fig = figure(3.6 * across, 2.3 * down + 0.3)
    panels = np.atleast_1d(fig.subplots(down, across)).reshape(-1)
    for axes, column in zip(panels, chosen, strict=False):
        _show_shares(axes, column)
    for axes in panels[len(chosen) :]:
        axes.set_axis_off()
    handles = panels[0].get_legend_handles_labels()
    fig.legend(*handles, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return fig


def _show_shares(axes: Axes, column: dict[str, Any]) -> None:
    """Real rows as bars, samples as steps or spots."""
    real, drawn = column["real"], column["drawn"]
    if edges := column["edges"]:
        axes.stairs(real, edges, fill=True, color=BLUE, alpha=0.35, label="real rows")
        axes.stairs(drawn, edges, color=ORANGE, lw=1.6, label="samples")
    else:
        at = np.arange(len(real))
        axes.bar(at, real, color=BLUE, alpha=0.35, width=0.8, label="real rows")
        axes.plot(at, drawn, "o", color=ORANGE, ms=5, label="samples")
        axes.set_xticks(at, [_short(label) for label in column["labels"]])
        if len(at) > 3 or max(map(len, column["labels"])) > 9:
            axes.tick_params(axis="x", labelrotation=40)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_short(column["name"], 30), fontsize=9, color=INK)
    axes.set_ylim(bottom=0)


def _pairs(rows: dict[str, Any], names: list[str]) -> Figure:
    count = len(names)
    values = np.array([[np.nan if x is None else x for x in line] for line in rows["pairs"]], float)
    if values.shape != (count, count):
        raise ValueError("a line of pairs is missing")
    size = min(9.0, 2.6 + 0.32 * count)
    fig = figure(size + 0.8, size)
    axes = fig.subplots()
    known = values[np.isfinite(values)]
    low = min(0.8, float(known.min())) if len(known) else 0.0
    image = axes.imshow(values, cmap="cividis", vmin=low, vmax=1.0)
    if count <= MOST_NAMES:
        told = [_short(name, 18) for name in names]
        axes.set_xticks(range(count), told, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
        axes.set_yticks(range(count), told, fontsize=8)
    bar = fig.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.tick_params(labelsize=8)
    return fig


def _distances(found: dict[str, Any]) -> Figure:
    fig = figure(5.6, 3.2)
    axes = fig.subplots()
    axes.stairs(
        found["held_out"], found["edges"], fill=True, color=BLUE, alpha=0.35, label="held-out rows"
    )
    axes.stairs(found["drawn"], found["edges"], color=ORANGE, lw=1.6, label="samples")
    name_axes(axes, "distance to the nearest training row", "share of rows")
    axes.legend(frameon=False, fontsize=9)
    return fig
