"""Pictures of where a machine stands among the phases of random pattern machines (`diagram.py`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..pictures import DOWN, INK, ORANGE, UNKNOWN, plain
from .phases import HOPFIELD, Boundaries, glass_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GLASS = "#cfcfcf"  # hatched: as a grey it is near the retrieval phase
RULE = 0.138  # patterns per unit in the Hopfield model, which the paper's K/N rule refers to


def show_phases(
    axes: Axes,
    boundaries: Boundaries,
    path: Sequence[tuple[float, float]] = (),
    *,
    names: Sequence[str] = (),
    rule: bool = True,
    title: str = "",
) -> None:
    """The phases in load and temperature, and a machine's (load, temperature) during training.

    With `names` the points are so many machines instead, not joined. `rule` marks K = 0.138 N beside
    the capacity of two layers, which depends on H/V.
    """
    load, glass, retrieval, stable = (
        x.numpy()
        for x in (boundaries.load, boundaries.glass, boundaries.retrieval, boundaries.stable)
    )
    points = np.array([p for p in path if all(math.isfinite(x) and x > 0 for x in p)]).reshape(
        -1, 2
    )
    low = min(5e-3, 0.5 * points[:, 1].min(initial=1.0))
    high = max(6.0, 2.5 * glass.max(), 2.5 * points[:, 1].max(initial=0.0))
    left = min(load[0], 0.7 * points[:, 0].min(initial=1.0))
    right = max(load[-1], 1.4 * points[:, 0].max(initial=0.0))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)

    reach = np.geomspace(left, right, 200)
    glass = glass_line(boundaries.theory, boundaries.aspect, torch.from_numpy(reach)).numpy()
    axes.fill_between(reach, low, glass, facecolor=GLASS, hatch="////", edgecolor="white", lw=0)
    axes.plot(reach, glass, color=INK, lw=1.4)
    for line, colour, style in ((retrieval, DOWN, "-"), (stable, UNKNOWN, "--")):
        x, y = _closed(load, line, low)
        axes.fill_between(x, low, y, color=colour, lw=0)
        axes.plot(x, y, style, color=INK, lw=1.2)

    def name(text: str, x: float, y: float, colour: str, **options: str) -> None:
        box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
        axes.text(x, y, text, color=INK, fontsize=9, bbox=box, **options)  # type: ignore[arg-type]

    name("paramagnet", left * 1.25, high * 0.72, "white", va="top")
    edge = load[~np.isnan(retrieval)].max(initial=left)
    inside = load[~np.isnan(stable)].max(initial=left)
    name("spin glass", math.sqrt(edge * right), 0.25, GLASS, ha="center")
    if inside > 2 * left:
        name("retrieval", math.sqrt(left * inside), 0.15, UNKNOWN, ha="center")
        name("metastable →", inside * 0.93, low * 1.6, UNKNOWN, ha="right")
    if rule and boundaries.theory != HOPFIELD:
        at = RULE * (math.sqrt(boundaries.aspect) + 1 / math.sqrt(boundaries.aspect))
        axes.axvline(at, color=INK, lw=1.0, ls=":")
        axes.text(at * 1.06, low * 1.25, "K = 0.138 N", color=INK, fontsize=8, rotation=90)
    if len(points):
        ends = [("start", 0, "white"), ("end", -1, ORANGE)]
        if len(points) == 1 or names:
            ends = [(name, i, ORANGE) for i, name in enumerate(names or ("here",))]
        else:
            axes.plot(points[:, 0], points[:, 1], "-", color=ORANGE, lw=1.8, zorder=4)
            axes.plot(points[1:-1, 0], points[1:-1, 1], ".", color=ORANGE, ms=5, zorder=4)
        for end, i, face in ends:
            axes.plot(*points[i], "o", mfc=face, mec=ORANGE, mew=1.6, ms=7, zorder=5)
            aside = points[i, 0] > 0.3 * right  # no room to the right of it
            axes.annotate(
                end,
                points[i],
                (-8 if aside else 8, -3),
                textcoords="offset points",
                ha="right" if aside else "left",
                fontsize=9,
                color=INK,
                zorder=6,
            )
    axes.set_xlabel("load  K/N" if boundaries.theory == HOPFIELD else "load  K/√(VH)")
    axes.set_ylabel("temperature  T")
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(plain(title), fontsize=10, color=INK)


def _closed(load: np.ndarray, line: np.ndarray, bottom: float) -> tuple[np.ndarray, np.ndarray]:
    """A line up to its last load, then straight down."""
    there = ~np.isnan(line)
    x, y = load[there], line[there]
    return np.append(x, x[-1:]), np.append(y, np.full(len(x[-1:]), bottom))
