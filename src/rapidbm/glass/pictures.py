"""Pictures of overlaps, minima, spectra, phases and samples, one panel each, from numbers at hand.

Every panel shows one replica. What is measured is dark or filled, what chance alone would give is
dashed or hollow, so that the panels read without colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..pictures import BLUE, DOWN, INK, ORANGE, UNKNOWN, figure, name_axes, plain
from .growth import Growth
from .minima import Minima
from .neighbours import Nearest
from .overlaps import OverlapDistribution, Ultrametricity
from .phases import HOPFIELD, Boundaries, glass_line
from .relaxation import Relaxation
from .sample_moments import Moment, Projections
from .spectra import Spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[np.float64]]
GLASS = "#cfcfcf"  # hatched: as a grey it is near the retrieval phase
RULE = 0.138  # patterns per unit in the Hopfield model, which the paper's K/N rule refers to
MOMENTS = {1: "⟨v⟩", 2: "⟨δδ⟩", 3: "⟨δδδ⟩"}
STATISTICS = {"accuracy": "|AA − 1/2|", "second": "rms of second moments"}
POINTS = 4000  # more make a blot
OUTLINE: dict[str, Any] = {"density": True, "histtype": "step"}


# -- the landscape ------------------------------------------------------------------------------------


def show_overlaps(axes: Axes, overlaps: OverlapDistribution, replica: int = 0) -> None:
    """P(q) with its errors."""
    density, error = (_numbers(x[replica]) for x in (overlaps.density.value, overlaps.density.error))
    edges = _numbers(overlaps.edges)
    middle = (edges[1:] + edges[:-1]) / 2
    axes.stairs(density, edges, fill=True, color=BLUE, alpha=0.35, lw=0)
    axes.stairs(density, edges, color=BLUE, lw=1.4)
    there = density > 0
    axes.errorbar(middle[there], density[there], error[there], fmt="none", ecolor=INK, lw=0.9)
    axes.set_ylim(bottom=0)
    name_axes(axes, "overlap q of two chains", "P(q)")


def show_energies(axes: Axes, samples: Tensor, minima: Minima, replica: int = 0) -> None:
    """Energies of samples and, weighted by how often they are found, of minima."""
    valley = minima.valleys[replica]
    warm, cold = _numbers(samples[replica]), _numbers(valley.energies)
    low, high = min(warm.min(), cold.min()), max(warm.max(), cold.max())
    least = 0.02 * max(abs(low), abs(high), 1e-6)  # energies that all agree still need a width
    if high - low < least:
        low, high = low - least / 2, high + least / 2
    edges = np.linspace(low, high + 1e-9 * (1 + abs(high)), 41).tolist()
    axes.hist(warm, edges, density=True, color=BLUE, alpha=0.45, label="samples")
    starts = _numbers(valley.counts)
    axes.hist(cold, edges, weights=starts, color=INK, lw=1.6, label="minima, by starts", **OUTLINE)
    name_axes(axes, "energy per unit", "density")
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
        first = side == 1  # both sides share the words
        edge_name, limit_name = "edge of random couplings", "1 in 100 of them beyond"
        axes.axhline(side * edge, color=ORANGE, ls="--", lw=1.4, label=edge_name if first else None)
        axes.axhline(side * limit, color=INK, ls=":", lw=1.0, label=limit_name if first else None)
    top = 1.45 * max(values.max(), limit) or 1.0  # room for the legend; couplings may all be 0
    axes.set_ylim(0 if len(sides) == 1 else 1.1 * min(values.min(), -limit), top)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    name_axes(axes, "rank", spectrum.kind.removesuffix("s"))
    axes.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)


def show_rarefaction(axes: Axes, minima: Minima, replica: int = 0) -> None:
    """Distinct minima against starts; the dotted diagonal is a new one from every start."""
    m, distinct = minima.rarefaction()
    x, y, error = (_numbers(t) for t in (m, distinct.value[replica], distinct.error[replica]))
    axes.fill_between(x, np.maximum(y - error, 0), y + error, color=BLUE, alpha=0.25, lw=0)
    axes.plot(x, y, "-", color=BLUE, lw=1.8)
    axes.plot([0, minima.starts], [0, minima.starts], ":", color=INK, lw=1.0)
    middle = (0.5 * minima.starts, 0.5 * minima.starts)
    _aside(axes, "every start a new one", middle, (6, -10), size=7)
    name_axes(axes, "starts", "distinct minima")


def show_growth(axes: Axes, growth: Growth, replica: int = 0) -> None:
    """Minima against units, every dilution and their mean; an arrow marks a bound from below."""
    units = _numbers(growth.units)
    total = _numbers(growth.total[replica])  # (tries, f)
    axes.semilogy(np.tile(units, len(total)), total.ravel(), "o", ms=3.5, mfc="white", mec=BLUE)
    mean = np.exp(np.log(total).mean(0))
    value, error = growth.slope.replica(replica)
    axes.semilogy(units, mean, "-", color=BLUE, lw=1.8, label=f"slope {value:.4f} ± {error:.4f}")
    for x, y, full in zip(units, mean, growth.saturated[replica].tolist(), strict=True):
        if full:
            arrow = {"arrowstyle": "->", "color": INK, "lw": 1.2}
            axes.annotate("", (x, y * 2.2), (x, y), arrowprops=arrow)
    if total.max() / total.min() < 10:  # a flat curve is not to look steep
        axes.set_ylim(total.min() / 3, total.max() * 30)
    name_axes(axes, "units", "minima in all (Chao 1)")
    axes.legend(frameon=False, fontsize=9, loc="upper left")


def show_triples(axes: Axes, triples: Ultrametricity, replica: int = 0) -> None:
    """The share of triples below each K: an ultrametric set is at 1 from the start. Distances are
    multiples of 1/N, so a histogram would show a comb."""
    kinds = (("chains", triples.found, BLUE, "-"), ("shuffled", triples.null, INK, "--"))
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
    name_axes(axes, "K = (d₃ − d₂) / sd(d)", "share of triples below K")
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="lower right")


def landscape_figure(
    overlaps: OverlapDistribution,
    triples: Ultrametricity,
    samples: Tensor,
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


# -- phases ---------------------------------------------------------------------------------------------


def show_phases(
    axes: Axes,
    boundaries: Boundaries,
    path: Sequence[tuple[float, float]] = (),
    *,
    names: Sequence[str] = (),
    title: str = "",
) -> None:
    """The phases in load and temperature, and a machine's (load, temperature) during training.

    With `names` the points are so many machines instead, not joined. K = 0.138 N stands beside the
    capacity of two layers, which depends on H/V.
    """
    load, glass, retrieval, stable = (
        x.numpy() for x in (boundaries.load, boundaries.glass, boundaries.retrieval, boundaries.stable)
    )
    points = np.array([p for p in path if all(math.isfinite(x) and x > 0 for x in p)]).reshape(-1, 2)
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
    if boundaries.theory != HOPFIELD:
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
            _aside(axes, end, points[i], (-8 if aside else 8, -3))
    load_name = "load  K/N" if boundaries.theory == HOPFIELD else "load  K/√(VH)"
    name_axes(axes, load_name, "temperature  T")
    _title(axes, plain(title), size=10)


def _closed(load: Array, line: Array, bottom: float) -> tuple[Array, Array]:
    """A line up to its last load, then straight down."""
    there = ~np.isnan(line)
    x, y = load[there], line[there]
    return np.append(x, x[-1:]), np.append(y, np.full(len(x[-1:]), bottom))


# -- samples --------------------------------------------------------------------------------------------


def show_moments(axes: Axes, moment: Moment, replica: int = 0) -> None:
    """Moments of the samples against those of the data; at most 4,000 evenly chosen ones."""
    step = -(-len(moment.data) // POINTS)
    x, y = _numbers(moment.data[::step]), _numbers(moment.samples[replica, ::step])
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    margin = 0.05 * (ends[1] - ends[0]) or 0.05  # of moments that are all the same
    ends = [ends[0] - margin, ends[1] + margin]
    axes.plot(ends, ends, color=INK, lw=1, zorder=1)
    axes.plot(x, y, ".", color=BLUE, ms=4 if len(x) > 500 else 7, alpha=0.5, mew=0, rasterized=True)
    rms, error = moment.rms.replica(replica)
    slope = moment.slope.replica(replica)[0]
    text = f"rms {rms:.3f} ± {error:.3f}\nfloor {float(moment.floor[replica]):.3f}\nslope {slope:.2f}"
    axes.text(0.04, 0.96, text, transform=axes.transAxes, va="top", fontsize=8, color=INK)
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    name = MOMENTS[moment.order]
    name_axes(axes, f"{name} of data", f"{name} of samples")


def show_projections(axes: Axes, projections: Projections, replica: int = 0) -> None:
    """The first two principal components: the data's density in grey, samples as dots."""
    from matplotlib.colors import LinearSegmentedColormap

    data, samples = _numbers(projections.data), _numbers(projections.samples[replica, :1000])
    greys = LinearSegmentedColormap.from_list("density", [DOWN, INK])
    axes.hexbin(*data[:, :2].T, gridsize=28, cmap=greys, mincnt=1, bins="log", lw=0.2)
    dots: dict[str, Any] = {"ms": 2.6, "color": ORANGE, "mec": "white", "mew": 0.3, "alpha": 0.9}
    axes.plot(*samples[:, :2].T, "o", rasterized=True, **dots)
    names = [f"component {i + 1} ({100 * float(projections.share[i]):.0f} %)" for i in (0, 1)]
    name_axes(axes, names[0], names[1])
    one, two = (float(x) for x in projections.distance.value[replica, :2])
    floors = f"floor {float(projections.floor[0]):.2f}, {float(projections.floor[1]):.2f}"
    _title(axes, f"distance {one:.2f}, {two:.2f};  {floors}")


def show_nearest(axes: Axes, nearest: Nearest, replica: int = 0) -> None:
    """How far samples, and test images, are from the training set."""
    samples, test = _numbers(nearest.samples[replica]), _numbers(nearest.test)
    # Edges between the distances that occur, which are whole numbers of pixels.
    most = round(max(samples.max(), test.max()) * nearest.pixels)
    bins = ((np.arange(0, most + 2, max(1, most // 30)) - 0.5) / nearest.pixels).tolist()
    bins.append(bins[-1] + max(1, most // 30) / nearest.pixels)
    axes.hist(samples, bins=bins, density=True, color=BLUE, alpha=0.45, label="samples")
    axes.hist(test, bins=bins, color=ORANGE, lw=1.8, ls="--", label="test", **OUTLINE)
    share, ratio = nearest.copies.replica(replica)[0], nearest.ratio.replica(replica)
    over = f"mean over test {ratio[0]:.2f} ± {ratio[1]:.2f}"
    _title(axes, f"copies {100 * share:.1f} %;  {over}")
    axes.set_xlabel("distance to the nearest training image")
    axes.set_yticks([])
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)


def show_relaxation(
    axes: Axes,
    relaxation: Relaxation,
    replica: int = 0,
    statistic: Literal["accuracy", "second"] = "accuracy",
) -> None:
    """Quality against sweeps, from random spins and from data; a line where they have met."""
    starts = (("random", BLUE, "o-", "full"), ("data", ORANGE, "s--", "none"))
    for name, colour, style, fill in starts:
        course = getattr(getattr(relaxation, name), statistic)
        value, error = _numbers(course.value[replica]), _numbers(course.error[replica])
        look: dict[str, Any] = {"color": colour, "fmt": style, "fillstyle": fill, "ms": 5, "lw": 1.6}
        bars: dict[str, Any] = {"elinewidth": 1, "capsize": 2}
        axes.errorbar(relaxation.sweeps, value, error, label=f"from {name}", **look, **bars)
    met = relaxation.equilibrium[replica]
    if met is not None:
        axes.axvline(met, color=INK, lw=1, ls=":", zorder=0)
    words = "not in equilibrium" if met is None else f"equilibrium from {met} sweeps on"
    _title(axes, words, size=9)
    axes.set_xscale("symlog", linthresh=1)  # the start is at 0
    axes.set_xlim(-0.2, 1.3 * max(1, relaxation.sweeps[-1]))
    axes.set_ylim(bottom=0)
    name_axes(axes, "sweeps", STATISTICS[statistic])
    axes.legend(frameon=False, fontsize=9)


def _numbers(values: Tensor) -> Array:
    array: Array = values.detach().to("cpu", torch.float64).numpy()
    return array


def _title(axes: Axes, text: str, size: int = 8) -> None:
    axes.set_title(text, fontsize=size, color=INK)


def _aside(axes: Axes, text: str, point: Any, away: tuple[int, int], size: int = 9) -> None:
    """Words beside a point, so many dots away."""
    side = "left" if away[0] > 0 else "right"
    look: dict[str, Any] = {"ha": side, "fontsize": size, "color": INK, "zorder": 6}
    axes.annotate(text, point, away, textcoords="offset points", **look)
