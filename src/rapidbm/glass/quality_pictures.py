"""Pictures of how well samples stand for data (`quality.py`), one replica each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ..pictures import BLUE, DOWN, INK, ORANGE
from .quality import Moment, Nearest, Projections, Relaxation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {1: "⟨v⟩", 2: "⟨δδ⟩", 3: "⟨δδδ⟩"}
STATISTICS = {"accuracy": "|AA − 1/2|", "second": "rms of second moments"}
POINTS = 4000  # more make a blot


def show_moments(axes: Axes, moment: Moment, replica: int = 0) -> None:
    """Moments of the samples against those of the data; at most 4,000 evenly chosen ones."""
    step = -(-len(moment.data) // POINTS)
    x, y = moment.data[::step].cpu().numpy(), moment.samples[replica, ::step].cpu().numpy()
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    margin = 0.05 * (ends[1] - ends[0])
    ends = [ends[0] - margin, ends[1] + margin]
    axes.plot(ends, ends, color=INK, lw=1, zorder=1)
    axes.plot(x, y, ".", color=BLUE, ms=4 if len(x) > 500 else 7, alpha=0.5, mew=0, rasterized=True)
    rms, error = moment.rms.replica(replica)
    slope = moment.slope.replica(replica)[0]
    text = (
        f"rms {rms:.3f} ± {error:.3f}\nfloor {float(moment.floor[replica]):.3f}\nslope {slope:.2f}"
    )
    axes.text(0.04, 0.96, text, transform=axes.transAxes, va="top", fontsize=8, color=INK)
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.set_xlabel(f"{NAMES[moment.order]} of data")
    axes.set_ylabel(f"{NAMES[moment.order]} of samples")
    axes.spines[["top", "right"]].set_visible(False)


def show_projections(
    axes: Axes, found: Projections, replica: int = 0, pair: tuple[int, int] = (0, 1)
) -> None:
    """Two principal components: the data's density in grey, samples as dots."""
    from matplotlib.colors import LinearSegmentedColormap

    a, b = pair
    data, samples = found.data.cpu().numpy(), found.samples[replica, :1000].cpu().numpy()
    greys = LinearSegmentedColormap.from_list("density", [DOWN, INK])
    axes.hexbin(data[:, a], data[:, b], gridsize=28, cmap=greys, mincnt=1, bins="log", lw=0.2)
    axes.plot(
        samples[:, a],
        samples[:, b],
        "o",
        ms=2.6,
        color=ORANGE,
        mec="white",
        mew=0.3,
        alpha=0.9,
        rasterized=True,
    )
    for along, i in (("x", a), ("y", b)):
        label = f"component {i + 1} ({100 * float(found.share[i]):.0f} %)"
        (axes.set_xlabel if along == "x" else axes.set_ylabel)(label)
    distance, floor = found.distance.value[replica], found.floor
    axes.set_title(
        f"distance {float(distance[a]):.2f}, {float(distance[b]):.2f};  "
        f"floor {float(floor[a]):.2f}, {float(floor[b]):.2f}",
        fontsize=8,
        color=INK,
    )
    axes.spines[["top", "right"]].set_visible(False)


def show_nearest(axes: Axes, found: Nearest, replica: int = 0) -> None:
    """How far samples, and test images, are from the training set."""
    samples, test = found.samples[replica].cpu().numpy(), found.test.cpu().numpy()
    # Edges between the distances that occur, which are whole numbers of pixels.
    most = round(max(samples.max(), test.max()) * found.pixels)
    bins = ((np.arange(0, most + 2, max(1, most // 30)) - 0.5) / found.pixels).tolist()
    bins.append(bins[-1] + max(1, most // 30) / found.pixels)
    axes.hist(samples, bins=bins, density=True, color=BLUE, alpha=0.45, label="samples")
    axes.hist(
        test, bins=bins, density=True, histtype="step", color=ORANGE, lw=1.8, ls="--", label="test"
    )
    share, ratio = found.copies.replica(replica)[0], found.ratio.replica(replica)
    axes.set_title(
        f"copies {100 * share:.1f} %;  mean over test {ratio[0]:.2f} ± {ratio[1]:.2f}",
        fontsize=8,
        color=INK,
    )
    axes.set_xlabel("distance to the nearest training image")
    axes.set_yticks([])
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)


def show_relaxation(
    axes: Axes,
    found: Relaxation,
    replica: int = 0,
    statistic: Literal["accuracy", "second"] = "accuracy",
) -> None:
    """Quality against sweeps, from random spins and from data; a line where they have met."""
    starts = (("random", BLUE, "o-", "full"), ("data", ORANGE, "s--", "none"))
    for name, colour, style, fill in starts:
        course = getattr(getattr(found, name), statistic)
        axes.errorbar(
            found.sweeps,
            course.value[replica].cpu().numpy(),
            course.error[replica].cpu().numpy(),
            fmt=style,
            color=colour,
            fillstyle=fill,
            ms=5,
            lw=1.6,
            elinewidth=1,
            capsize=2,
            label=f"from {name}",
        )
    met = found.equilibrium[replica]
    if met is not None:
        axes.axvline(met, color=INK, lw=1, ls=":", zorder=0)
    axes.set_title(
        "not in equilibrium" if met is None else f"equilibrium from {met} sweeps on",
        fontsize=9,
        color=INK,
    )
    axes.set_xscale("symlog", linthresh=1)  # the start is at 0
    axes.set_xlim(-0.2, 1.3 * max(1, found.sweeps[-1]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("sweeps")
    axes.set_ylabel(STATISTICS[statistic])
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
