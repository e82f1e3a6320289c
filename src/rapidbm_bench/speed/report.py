"""What a benchmark found, as lines and as a figure; both from its plain numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rapidbm import pictures
from rapidbm.pictures import PENS, label, panels, print_style

from . import roofline, sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "784×3000, K=190"
Result = dict[str, Any]
WORK_PENS = dict(zip(sizes.WORKS, PENS, strict=False))


def lines(found: Result) -> Iterator[str]:
    """The tables."""
    yield (
        f"rapidbm {found['rapidbm']}, torch {found['torch']}, {found['device']} "
        f"({found['processor']}), threads {found['threads']}, {found['precision']}; medians, "
        "[quartiles]"
    )
    machine = found["roofline"]
    yield "roofline"
    for name, rate in machine.items():
        text = "GB/s, read and written" if name == "copy" else "billion operations/s, products"
        low, high = (q / 1e9 for q in rate["quartiles"])
        yield f"  {name:<10} {rate['median'] / 1e9:>10.4g}  [{low:.4g}, {high:.4g}]  {text}"
    size = found["peers"]["size"]
    yield (
        f"one update, dense {size['visible']}×{size['hidden']}, batch and chains {size['chains']}; "
        "ms, and times rapidbm's of as many sweeps"
    )
    yield from map(_row, found["peers"]["rows"])
    if found["precision"] == "bf16":
        yield "  bf16 is rapidbm's own: the products of the others are tf32"
    yield "Regularized Axons beside the plain dense loop; ms, and times rapidbm's"
    yield from map(_row, found["axons"])
    yield "replicas side by side; ms per update, and times that of the first"
    yield from map(_row, found["replicas"])
    what = found["paper"][0]["machine"]
    yield f"PID on {what}{', as on MNIST in the paper' if what == PAPER else ''}; ms"
    yield from map(_paper_row, found["paper"])
    for group in found["groups"]:
        yield f"{group['title']}; ms"
        yield from map(_group_row, group["rows"])
        if "left_out" in group:
            yield f"  left out: {group['left_out']}"
    for work in sizes.WORKS:
        yield from _table(found, work)


def _paper_row(row: dict[str, Any]) -> str:
    told = f"per {row['per']}"
    if "spin_updates_per_ns" in row:
        told += f": {row['spin_updates_per_ns']:.4g} spin updates"
        told += f" and {row['couplings_per_ns']:.4g} couplings per ns"
    return f"{_head(row)} {_milliseconds(row)}  {told}"


def _group_row(row: dict[str, Any]) -> str:
    if "missing" in row:
        return f"{_head(row, 46)} {row['missing']}"
    told = f"per {row['per']}"
    told += f": {row['rate']:.4g} {row['rate_of']}" if "rate" in row else ""
    told += f"  ×{row['ratio']:.3g}" if "ratio" in row else ""
    return f"{_head(row, 46)} {_milliseconds(row)}  {told}"


def _row(row: dict[str, Any]) -> str:
    if "missing" in row:
        return f"{_head(row)} {row['missing']}"
    return f"{_head(row)} {_milliseconds(row)}  ×{row['ratio']:.3g}"


def _head(row: dict[str, Any], width: int = 34) -> str:
    return f"  {row['name']:<{width}} {row['method']:<17}"


def _milliseconds(row: dict[str, Any]) -> str:
    low, high = (1e3 * q for q in row["quartiles"])
    return f"{1e3 * row['seconds']:>9.4g}  [{low:.4g}, {high:.4g}]"


def _table(found: Result, work: str) -> Iterator[str]:
    what = (
        f"update (PCD-{found['sweeps_per_update']})"
        if work == "update"
        else f"Gibbs sweep ({found['sweeps_per_call']} in a call)"
    )
    yield f"{what} against size; memory: {found['peak_bytes_from']}"
    yield (
        f"  {'varied':<9}{'V×H':>12}{'K':>6}{'chains':>8}{'replicas':>9}{'ms':>10}{'1/s':>10}"
        f"{'spins/ns':>10}{'couplings/ns':>14}{'MB':>9}{'Gop':>9}{'op/byte':>9}{'roof':>7}"
    )
    for row in found["sizes"]:
        if row["work"] != work:
            continue
        yield (
            f"  {row['varied']:<9}{row['visible']:>6}×{row['hidden']:<5}{row['patterns']:>6}"
            f"{row['chains']:>8}{row['replicas']:>9}{1e3 * row['seconds']:>10.4g}"
            f"{row['per_second']:>10.4g}{row['spin_updates_per_ns']:>10.3g}"
            f"{row['couplings_per_ns']:>14.4g}{row['peak_bytes'] / 1e6:>9.4g}"
            f"{row['operations'] / 1e9:>9.3g}{row['operations_per_byte']:>9.3g}"
            f"{row['share_of_roof']:>7.1%}"
        )
    fit = found["fits"][work]
    told = ", ".join(f"{name} {_number(n)}" for name, n in fit["exponents"].items())
    yield f"  exponents of the time over the largest sizes: {told}; 1 is predicted, less is better"
    for law in (fit["law"], fit["law_with_draws"]):
        yield f"  {law_text(law)}; sizes of K and V+H miss it by up to {law['worst_miss']:.0%}"
    if any(row["work"] == work and row["share_of_roof"] > 1 for row in found["sizes"]):
        yield "  a share above 100 %: the machine was busier when its roofline was measured"


def _number(number: dict[str, Any]) -> str:
    error = "" if number["error"] is None else f" ± {number['error']:.2f}"
    return f"{number['value']:.2f}{error}"


def law_text(law: dict[str, Any]) -> str:
    terms = {"a": (1e3, "ms"), "b": (1e9, "ns · K(V+H)"), "d": (1e9, "ns · (V+H)")}
    told = (
        f"({unit * law[n]['value']:.3g} ± {unit * law[n]['error']:.1g}) {words}"
        for n, (unit, words) in terms.items()
        if n in law
    )
    return f"time = {' + '.join(told)}"


# -- the figure ---------------------------------------------------------------------------------------


def draw(found: Result, folder: Path) -> None:
    """bench.png and bench.pdf."""
    with print_style():
        fig, axes = panels(2, 2, height=3.0)
        _peers(axes[0], found)
        _sizes(axes[1], found)
        _groups(axes[2], found)
        _roof(axes[3], found)
        for ending in ("png", "pdf"):
            pictures.save(fig, folder / f"bench.{ending}")


def _peers(axes: Axes, found: Result) -> None:
    rows = [row for row in found["peers"]["rows"] + found["axons"] if "seconds" in row]
    mine = [row["name"].startswith("rapidbm") for row in rows]
    _dots(
        axes, rows, [PENS[0].colour if own else "#888888" for own in mine], [_tick(row) for row in rows]
    )
    size = found["peers"]["size"]
    label(axes, "time of an update (ms)", "", f"(a) {size['visible']}×{size['hidden']} unless said")


def _groups(axes: Axes, found: Result) -> None:
    rows, colours = [], []
    for group, pen in zip(found["groups"], cycle(PENS), strict=False):  # a colour each
        some = [row for row in group["rows"] if "seconds" in row]
        rows += some
        colours += [pen.colour] * len(some)
        axes.scatter([], [], s=14, color=pen.colour, label=group["name"])
    _dots(axes, rows, colours, [f"{row['name']}, {row['method']}" for row in rows], size=4.0)
    axes.legend(fontsize=5.5)
    label(axes, "time of one part (ms)", "", "(c) sweeps, updates, steps, turns")


def _dots(
    axes: Axes, rows: list[Result], colours: list[str], names: list[str], size: float = 5.5
) -> None:
    """Times with their quartiles, a line each."""
    places = np.arange(len(rows))[::-1]
    times = np.array([row["seconds"] for row in rows]) * 1e3
    ends = np.array([row["quartiles"] for row in rows]).T * 1e3
    axes.hlines(places, _decade(times.min()), times, color="#dddddd", linewidth=0.8)
    axes.errorbar(times, places, xerr=abs(ends - times), linestyle="none", color="#333333")
    axes.scatter(times, places, color=colours, s=14, zorder=3)
    axes.set_xscale("log")
    axes.set_xlim(left=_decade(times.min()))
    axes.set_yticks(places, names, fontsize=size)


def _tick(row: dict[str, Any]) -> str:
    short = row["method"].partition(",")[0]
    return row["name"] if short in row["name"] else f"{row['name']}, {row['method']}"


def _sizes(axes: Axes, found: Result) -> None:
    for work, pen in WORK_PENS.items():
        rows = [r for r in found["sizes"] if r["work"] == work and r["varied"] in ("K", "V+H")]
        law = found["fits"][work]["law"]
        x = np.array([sizes.product(row) for row in rows])
        for varied, marker in (("K", pen.marker), ("V+H", "x")):
            here = [row for row in rows if row["varied"] == varied]
            axes.plot(
                [sizes.product(row) for row in here],
                [1e3 * row["seconds"] for row in here],
                linestyle="none",
                marker=marker,
                color=pen.colour,
                label=f"{work}, {varied} varied",
            )
        grid = np.geomspace(x.min(), x.max(), 60)
        axes.plot(
            grid,
            1e3 * (law["a"]["value"] + law["b"]["value"] * grid),
            color=pen.colour,
            linestyle=pen.dash,
        )
    _logarithmic(axes)
    label(axes, "$K(V+H)$", "time (ms)", "(b) line: $a+b\\,K(V+H)$")


def _roof(axes: Axes, found: Result) -> None:
    machine, precision = found["roofline"], found["precision"]
    x = np.array([row["operations_per_byte"] for row in found["sizes"]])
    grid = np.geomspace(0.1, 2 * x.max(), 80)
    axes.plot(grid, [roofline.roof(machine, precision, i) for i in grid], color="#333333")
    for work, pen in WORK_PENS.items():
        rows = [row for row in found["sizes"] if row["work"] == work]
        axes.plot(
            [row["operations_per_byte"] for row in rows],
            [row["operations_per_second"] for row in rows],
            linestyle="none",
            marker=pen.marker,
            color=pen.colour,
            label=work,
        )
    _logarithmic(axes)
    label(axes, "operations per byte", "operations per second", f"(d) roofline, {precision}")


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlim(left=_decade(axes.get_xlim()[0]))
    axes.set_ylim(bottom=_decade(axes.get_ylim()[0]))
    axes.legend(fontsize=5.5)


def _decade(least: float) -> float:
    return float(10 ** np.floor(np.log10(least)))
