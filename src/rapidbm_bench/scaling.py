"""Memory, traffic and time of an update on 1 to 1,024 ranks, simulated from measured constants.

With n numbers of four bytes, α the latency and B the bandwidth of a link, a sum over W ranks takes the
shorter of a ring and a tree,

    ring = 2 (W − 1) (α + 4n / (W B)),        tree = 2 ⌈log₂ W⌉ (α + 4n / B)              (1)

Multiplications of an update of a restricted machine, b rows and c chains of k sweeps,

    patterns    K (V + H) (3 b + (2 k + 3) c),        dense    V H (2 b + (2 k + 2) c)    (2)

numbers that are summed,

    chains, patterns    K (V + H) + V + H             once                                (3)
    chains, dense       V H + V + H                   once                                (4)
    units, patterns     K (3 b + (2 k + 3) c)         in 2 k + 4 sums                     (5)

and numbers that a rank holds, with Adam: the parameters, their gradient, a copy, two moments, and the
gradient flat; and chains, rows and overlaps. By chains every rank holds and moves all parameters; by
units it holds its own. A rank's own work varies from update to update by a spread that was measured, and
a sum waits for the slowest, so that each update is drawn: W times, their longest, and eq. (1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .running import option_parser, write

RANKS = tuple(2**i for i in range(11))
UPDATES = 200  # that are drawn
BYTES = 4
SPREAD = 0.02  # of a GPU's time from update to update; not measured
SAVED = 20.0  # seconds between two saves of a run
FAILS = {"a month": 30 * 86400.0, "a day": 86400.0}  # after which a rank fails; not measured
COPIES = 6  # of the parameters: themselves, gradient, gradient flat, copy, two moments


@dataclass(frozen=True)
class Link:
    """Between two ranks: seconds until the first byte, and bytes a second."""

    latency: float
    bandwidth: float

    def sum(self, numbers: float, ranks: int) -> float:
        """Eq. (1)."""
        if ranks == 1:
            return 0.0
        size = BYTES * numbers
        ring = 2 * (ranks - 1) * (self.latency + size / (ranks * self.bandwidth))
        tree = 2 * math.ceil(math.log2(ranks)) * (self.latency + size / self.bandwidth)
        return min(ring, tree)


# What was not measured here is an assumption, written down.
LINKS = {
    "NVLink": Link(3e-6, 4.5e11),
    "100 Gb/s InfiniBand": Link(5e-6, 12.5e9),
    "10 Gb/s Ethernet": Link(50e-6, 1.25e9),
    "internet, 100 Mb/s": Link(50e-3, 12.5e6),
}


@dataclass(frozen=True)
class Work:
    """An update: sizes of the machine, rows, chains, sweeps."""

    visible: int
    hidden: int
    patterns: int
    rows: int
    chains: int
    sweeps: int

    @property
    def units(self) -> int:
        return self.visible + self.hidden

    def products(self, dense: bool) -> float:
        """Eq. (2)."""
        b, c, k = self.rows, self.chains, self.sweeps
        if dense:
            return self.visible * self.hidden * (2 * b + (2 * k + 2) * c)
        return self.patterns * self.units * (3 * b + (2 * k + 3) * c)

    def parameters(self, dense: bool) -> float:
        couplings = self.visible * self.hidden if dense else self.patterns * self.units
        return couplings + self.units

    def summed(self, scheme: str) -> tuple[float, int]:
        """Eqs. (3) to (5): numbers, and in how many sums."""
        if scheme == "units":
            b, c, k = self.rows, self.chains, self.sweeps
            return self.patterns * (3 * b + (2 * k + 3) * c), 2 * k + 4
        return self.parameters(scheme == "dense"), 1

    def held(self, scheme: str, ranks: int) -> float:
        """Bytes of a rank."""
        share = 1.0 / ranks
        moving = (self.rows + 2 * self.chains) * self.units * share  # rows; chains and a sweep of them
        numbers = COPIES * self.parameters(scheme == "dense") * (share if scheme == "units" else 1.0)
        overlaps = self.patterns * (self.rows + self.chains) * (1.0 if scheme == "units" else share)
        return BYTES * (numbers + moving + (0.0 if scheme == "dense" else overlaps))


WORKS = {
    "paper": Work(784, 3000, 190, 8000, 8000, 10),
    "wide": Work(100_000, 10_000, 300, 4096, 4096, 1),
    "million": Work(1_000_000, 100_000, 1000, 4096, 4096, 1),
}
SCHEMES = ("chains", "dense", "units")  # patterns by chains, dense couplings by chains, patterns by units


@dataclass(frozen=True)
class Processor:
    """Multiplications a second, parameters that a step moves a second, and the spread of the time."""

    products: float
    steps: float
    spread: float


def simulated(
    work: Work, scheme: str, ranks: int, link: Link, processor: Processor, seed: int = 0
) -> dict[str, float]:
    """Seconds of an update on average, its parts, and bytes."""
    rng = np.random.default_rng([seed, ranks])
    share = 1.0 / ranks
    moved = work.parameters(scheme == "dense") * (share if scheme == "units" else 1.0)
    own = work.products(scheme == "dense") * share / processor.products + moved / processor.steps
    factors = np.exp(processor.spread * rng.standard_normal((UPDATES, ranks)))
    slowest = own * factors.max(1).mean() / math.exp(processor.spread**2 / 2)
    numbers, sums = work.summed(scheme)
    waited = sums * link.sum(numbers / sums, ranks)
    return {
        "seconds": slowest + waited,
        "own": own,
        "waited": slowest - own + waited,
        "sent": BYTES * numbers if ranks > 1 else 0.0,
        "held": work.held(scheme, ranks),
    }


def pays_up_to(times: Mapping[int, float]) -> int:
    """The most ranks of which each does at least half the work that one alone does in the same time."""
    return max(w for w, seconds in times.items() if times[1] / (w * seconds) >= 0.5)


def goodput(ranks: int, between: float, saved: float, restart: float, seed: int = 0) -> float:
    """The share of a week that is not lost, where each rank fails every `between` seconds on average, the
    state is saved every `saved` ones and all ranks start again within `restart`."""
    rng = np.random.default_rng([seed, ranks])
    week = 7 * 86400.0
    done, now = 0.0, 0.0
    while now < week:
        alive = rng.exponential(between / ranks)
        done += math.floor(min(alive, week - now) / saved) * saved
        now += alive + restart
    return min(1.0, done / week)


def constants(path: Path) -> dict[str, Any]:
    """What `python -m benchmarks ranks --out FILE` measured."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def loopback(sums: Mapping[str, float]) -> Link:
    """α and B of two ranks of one computer, from the shortest and the longest sum: 2 (α + 2n / B)."""
    sizes = sorted((int(n), t) for n, t in sums.items())
    latency = min(t for n, t in sizes if n <= 1000) / 2
    n, seconds = sizes[-1]
    return Link(latency, BYTES * n / (seconds - 2 * latency))


def core(known: Mapping[str, Any]) -> Processor:
    """One thread of this computer, from an update of 784×3000 units with 200 patterns by pcd-1."""
    work = Work(784, 3000, 200, 1000, 1000, 1)
    seconds = known["cases"]["pcd, K=200"]["1 thread, ms"] / 1e3
    return Processor(work.products(False) / seconds, known["moved a second"], known["spread"])


def h200(path: Path) -> Processor:
    """An H200, from its update of 784×3000 units with 190 patterns by PID-10 (docs/performance)."""
    rows = json.loads(path.read_text())["paper"]
    seconds = next(x["seconds"] for x in rows if x["method"] == "PID-10" and "1 replica" in x["name"])
    work = Work(784, 3000, 190, 8000, 190, 10)
    copy = json.loads(path.read_text())["roofline"]["copy"]["median"]  # a step reads and writes them all
    return Processor(work.products(False) / seconds, copy / (BYTES * COPIES), SPREAD)


def curves(known: Mapping[str, Any], gpu_file: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Every place, machine, link and scheme: what `simulated` answers, by the number of ranks."""
    cpu, gpu = core(known), h200(gpu_file)
    places = {
        "cores": (cpu, {"loopback": loopback(known["sums"]), **_links("10 Gb/s Ethernet")}),
        "H200s": (gpu, _links("NVLink", "100 Gb/s InfiniBand", "10 Gb/s Ethernet")),
        "anybody": (gpu, _links("internet, 100 Mb/s")),
    }
    return {
        f"{place}; {name}; {link_name}; {scheme}": {
            w: simulated(work, scheme, w, link, processor) for w in RANKS
        }
        for place, (processor, links) in places.items()
        for name, work in WORKS.items()
        for link_name, link in links.items()
        for scheme in SCHEMES
    }


def markdown(found: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[str]:
    """The table of docs/scaling.md: ranks up to which each scheme pays, and an update's time there."""
    names = {"paper": "784×3000, K=190", "wide": "10⁵×10⁴, K=300", "million": "10⁶×10⁵, K=1000"}
    lines = ["| machine | on | patterns, chains | dense, chains | patterns, units |", "|" + " --- |" * 5]
    for key in dict.fromkeys(key.rpartition("; ")[0] for key in found):
        place, name, link = key.split("; ")
        cells = []
        for scheme in SCHEMES:
            times = {w: x["seconds"] for w, x in found[f"{key}; {scheme}"].items()}
            most = pays_up_to(times)
            cells.append(f"{most:,} ({_time(times[most])})")
        where = {"cores": "cores, ", "H200s": "H200s, ", "anybody": "H200s, "}[place] + link
        lines.append(f"| {names[name]} | {where} | {' | '.join(cells)} |")
    return lines


def _time(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return (
                f"{seconds / size:.2g} {unit}" if seconds / size < 100 else f"{seconds / size:.0f} {unit}"
            )
    return "0"


def run(words: Sequence[str] = ()) -> dict[str, Any]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--constants", type=Path, default=Path("docs/performance/ranks.json"))
    parser.add_argument("--gpu", type=Path, default=Path("docs/performance/h200.json"))
    parser.add_argument("--out", type=Path, help="a file for all numbers")
    parser.add_argument("--figures", type=Path, help="a folder for the pictures")
    given = parser.parse_args(words)
    known = constants(given.constants)
    found: dict[str, Any] = dict(curves(known, given.gpu))
    table = {
        key: {
            "ms, 1 rank": 1e3 * curve[1]["seconds"],
            "ms, 64": 1e3 * curve[64]["seconds"],
            "ms, 1024": 1e3 * curve[1024]["seconds"],
            "MB sent": curve[2]["sent"] / 1e6,
            "GB held, 64": curve[64]["held"] / 1e9,
            "pays up to": pays_up_to({w: x["seconds"] for w, x in curve.items()}),
        }
        for key, curve in found.items()
    }
    for often, between in FAILS.items():
        kept = {w: goodput(w, between, SAVED, known["start"]) for w in RANKS}
        found[f"kept where a rank fails after {often}"] = kept
        table[f"kept, failures after {often}"] = {f"{w} ranks": kept[w] for w in (1, 64, 1024)}
    write(given.out, found)
    if given.figures is not None:
        draw(found, given.figures)
    return table


def _links(*names: str) -> dict[str, Link]:
    return {name: LINKS[name] for name in names}


def draw(found: Mapping[str, Any], folder: Path) -> None:
    """Time of an update against ranks, and memory, as pictures."""
    from rapidbm.pictures import PENS, label, panels, print_style, save

    names = {"chains": "patterns, by chains", "dense": "dense, by chains", "units": "patterns, by units"}
    shown = (
        ("H200s; paper; NVLink", "784×3000, K=190, NVLink"),
        ("H200s; wide; 100 Gb/s InfiniBand", "10⁵×10⁴, K=300, InfiniBand"),
        ("anybody; million; internet, 100 Mb/s", "10⁶×10⁵, K=1000, internet"),
    )
    with print_style():
        fig, places = panels(3, 1, width=7.0, height=2.6)
        for axes, (key, title) in zip(places, shown, strict=True):
            for pen, scheme in zip(PENS, SCHEMES, strict=False):
                curve = found[f"{key}; {scheme}"]
                times = [curve[w]["seconds"] for w in RANKS]
                axes.loglog(RANKS, times, color=pen.colour, linestyle=pen.dash, label=names[scheme])
            label(axes, "ranks", "seconds an update" if axes is places[0] else "", title)
        handles, words = places[0].get_legend_handles_labels()
        fig.legend(handles, words, loc="outside lower center", ncols=3)
    save(fig, folder / "scaling-time.png")
    with print_style():
        fig, places = panels(2, 1, width=5.6, height=2.6)
        for axes, name in zip(places, ("wide", "million"), strict=True):
            for pen, scheme in zip(PENS, SCHEMES, strict=False):
                held = [WORKS[name].held(scheme, w) / 1e9 for w in RANKS]
                axes.loglog(RANKS, held, color=pen.colour, linestyle=pen.dash, label=names[scheme])
            axes.axhline(139 * 2**30 / 1e9, color="#7d8b99", linewidth=0.7)
            title = {"wide": "10⁵×10⁴, K=300", "million": "10⁶×10⁵, K=1000"}[name]
            label(axes, "ranks", "GB a rank" if axes is places[0] else "", title)
        handles, words = places[0].get_legend_handles_labels()
        fig.legend(handles, words, loc="outside lower center", ncols=3)
    save(fig, folder / "scaling-memory.png")
