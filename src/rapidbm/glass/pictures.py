"""Pictures of overlaps, minima and spectra, one panel each; all read numbers that are at hand.

Every panel shows one replica. What is measured is dark or filled, what chance alone would give is
dashed or hollow, so that the panels read without colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..pictures import BLUE, INK, ORANGE, figure, plain
from .growth import Growth
from .minima import Minima
from .overlaps import Energies, OverlapDistribution, Ultrametricity
from .spectra import Spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def show_overlaps(axes: Axes, found: OverlapDistribution, replica: int = 0) -> None:
    """P(q) with its errors."""
    density, error = (_numbers(x[replica]) for x in (found.density.value, found.density.error))
    edges = _numbers(found.edges)
    middle = (edges[1:] + edges[:-1]) / 2
    axes.stairs(density, edges, fill=True, color=BLUE, alpha=0.35, lw=0)
    axes.stairs(density, edges, color=BLUE, lw=1.4)
    there = density > 0
    axes.errorbar(middle[there], density[there], error[there], fmt="none", ecolor=INK, lw=0.9)
    axes.set_ylim(bottom=0)
    _label(axes, "overlap q of two chains", "P(q)")


def show_energies(axes: Axes, samples: Energies, minima: Minima, replica: int = 0) -> None:
    """Energies of samples and, weighted by how often they are found, of minima."""
    valley = minima.valleys[replica]
    warm, cold = _numbers(samples.values[replica]), _numbers(valley.energies)
    low, high = min(warm.min(), cold.min()), max(warm.max(), cold.max())
    least = 0.02 * max(abs(low), abs(high), 1e-6)  # energies that all agree still need a width
    if high - low < least:
        low, high = low - least / 2, high + least / 2
    edges = np.linspace(low, high + 1e-9 * (1 + abs(high)), 41).tolist()
    axes.hist(warm, edges, density=True, color=BLUE, alpha=0.45, label="samples")
    axes.hist(
        cold,
        edges,
        density=True,
        weights=_numbers(valley.counts),
        histtype="step",
        color=INK,
        lw=1.6,
        label="minima, by starts",
    )
    _label(axes, "energy per unit", "density")
    axes.legend(frameon=False, fontsize=9)


def show_spectrum(axes: Axes, spectrum: Spectrum, replica: int = 0) -> None:
    """Singular values or eigenvalues in order, with the edge of independent couplings."""
    from matplotlib.ticker import MaxNLocator

    values = _numbers(spectrum.values[replica])
    rank = np.arange(1, len(values) + 1)
    limit = float(spectrum.limit[replica])
    out = np.abs(values) > limit
    axes.plot(rank[~out], values[~out], "o", ms=3.5, mfc="white", mec=BLUE, label="in the bulk")
    axes.plot(rank[out], values[out], "s", ms=4.5, color=INK, label=f"beyond: {out.sum()}")
    edge = float(spectrum.edge[replica])
    sides = (1,) if spectrum.kind == "singular values" else (1, -1)
    for side in sides:
        names = (
            ("edge of random couplings", "1 in 100 of them beyond") if side == 1 else (None, None)
        )
        axes.axhline(side * edge, color=ORANGE, ls="--", lw=1.4, label=names[0])
        axes.axhline(side * limit, color=INK, ls=":", lw=1.0, label=names[1])
    top = 1.45 * max(values.max(), limit)  # room for the legend
    axes.set_ylim(0 if len(sides) == 1 else 1.1 * min(values.min(), -limit), top)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _label(axes, "rank", spectrum.kind.removesuffix("s"))
    axes.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)


def show_rarefaction(
    axes: Axes, minima: Minima, replica: int = 0, *, label: str = "", style: str = "-"
) -> None:
    """Distinct minima against starts; the dotted diagonal is a new one from every start."""
    m, found = minima.rarefaction()
    x, y, error = (_numbers(t) for t in (m, found.value[replica], found.error[replica]))
    axes.fill_between(x, np.maximum(y - error, 0), y + error, color=BLUE, alpha=0.25, lw=0)
    axes.plot(x, y, style, color=BLUE, lw=1.8, label=label or None)
    axes.plot([0, minima.starts], [0, minima.starts], ":", color=INK, lw=1.0)
    axes.annotate(
        "every start a new one",
        (0.5 * minima.starts, 0.5 * minima.starts),
        xytext=(6, -10),
        textcoords="offset points",
        ha="left",
        fontsize=7,
        color=INK,
    )
    _label(axes, "starts", "distinct minima")
    if label:
        axes.legend(frameon=False, fontsize=9)


def show_growth(axes: Axes, growth: Growth, replica: int = 0) -> None:
    """Minima against units, every cut and their mean; an arrow marks a bound from below."""
    units = _numbers(growth.units)
    total = _numbers(growth.total[replica])  # (tries, f)
    axes.semilogy(np.tile(units, len(total)), total.ravel(), "o", ms=3.5, mfc="white", mec=BLUE)
    mean = np.exp(np.log(total).mean(0))
    value, error = growth.slope.replica(replica)
    axes.semilogy(units, mean, "-", color=BLUE, lw=1.8, label=f"slope {value:.4f} ± {error:.4f}")
    for x, y, full in zip(units, mean, growth.saturated[replica].tolist(), strict=True):
        if full:
            axes.annotate(
                "",
                (x, y * 2.2),
                (x, y),
                arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2},
            )
    if total.max() / total.min() < 10:  # a flat curve is not to look steep
        axes.set_ylim(total.min() / 3, total.max() * 30)
    _label(axes, "units", "minima in all (Chao 1)")
    axes.legend(frameon=False, fontsize=9, loc="upper left")


def show_triples(axes: Axes, found: Ultrametricity, replica: int = 0) -> None:
    """The share of triples below each K: an ultrametric set is at 1 from the start. Distances are
    multiples of 1/N, so a histogram would show a comb."""
    kinds = (("chains", found.found, BLUE, "-"), ("shuffled", found.null, INK, "--"))
    for name, triangles, colour, style in kinds:
        sides = triangles.distances[replica]
        k = np.sort(_numbers((sides[:, 2] - sides[:, 1]) / triangles.spread[replica]))
        if not np.isfinite(k).all():  # all chains agree: there are no triangles
            continue
        value, error = triangles.k.replica(replica)
        label = f"{name}: ⟨K⟩ = {value:.2f} ± {error:.2f}"
        share = np.arange(1, len(k) + 1) / len(k)
        axes.step(k, share, style, where="post", color=colour, lw=1.8, label=label)
    axes.set_xlim(0, 3)
    axes.set_ylim(0, 1.02)
    _label(axes, "K = (d₃ − d₂) / sd(d)", "share of triples below K")
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="lower right")


def landscape_figure(
    overlaps: OverlapDistribution,
    triples: Ultrametricity,
    samples: Energies,
    minima: Minima,
    growth: Growth,
    spectrum: Spectrum,
    *,
    replica: int = 0,
    title: str = "",
) -> Figure:
    """All six panels of one replica."""
    fig = figure(12.0, 6.4)
    panels = fig.subplots(2, 3)
    show_overlaps(panels[0, 0], overlaps, replica)
    show_triples(panels[0, 1], triples, replica)
    show_energies(panels[0, 2], samples, minima, replica)
    show_rarefaction(panels[1, 0], minima, replica)
    show_growth(panels[1, 1], growth, replica)
    show_spectrum(panels[1, 2], spectrum, replica)
    fig.suptitle(plain(title), fontsize=11, color=INK)
    return fig


def _numbers(values: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    array: np.ndarray[Any, np.dtype[np.float64]] = values.detach().to("cpu", torch.float64).numpy()
    return array


def _label(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
