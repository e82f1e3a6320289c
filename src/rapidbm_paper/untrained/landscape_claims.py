"""Figure and claims of the study `landscape`, from its records alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, allowance, claim, rank_correlation
from ..drawing import Axes, Figure, curve, item, points
from ..records import Array, Record, Records

CLOSE = 0.05  # a difference of two shares that does not count
PHASE = 0.7  # overlap with the minimum below a pattern: Hopfield's falls from 0.97 to 0.35 at once
FEW = 0.02  # K/N that is ≪ 1
TWICE = 2.0  # a factor between numbers of minima that does not count
WHOLE = 1e-6  # a share this close to 1 is 1: couplings are float32
LOADS = {"K": "$K$", "K/N": "$K/N$"}


def _draw_frustration(place: list[Axes], record: Record) -> None:
    (axes,) = place
    for pen, visible, rows, dense in zip(
        PENS, record["visible"], record.array("satisfied"), record.array("gaussian"), strict=False
    ):
        curve(axes, record["patterns"], rows, pen, f"$V={visible}$")
        axes.axhline(dense.mean(), color=pen.colour, lw=0.7, ls=":")
    axes.set_xscale("log", base=2)
    label(axes, "patterns $K$", "satisfied couplings", "(a)", ylim=(0.25, 1.05))
    axes.legend()


def _draw_minima(place: list[Axes], record: Record) -> None:
    """Colours tell V, dashes and markers H."""
    sizes = record.array("sizes").astype(int)
    numbers = Number.each(record.array("total"))
    visible, hidden = np.unique(sizes[:, 0]), np.unique(sizes[:, 1])
    colours = {v: pen.colour for v, pen in zip(visible, PENS, strict=False)}
    dashes = dict(zip(hidden, PENS, strict=False))
    for axes, name, letter in zip(place, ("K/N", "K"), "bc", strict=True):
        x = _loads(sizes)[name]
        for v, h in sorted({(v, h) for v, h, _ in sizes}):
            rows = np.nonzero((sizes[:, 0] == v) & (sizes[:, 1] == h))[0]
            pen = replace(dashes[h], colour=colours[v])
            points(axes, x[rows], [numbers[i] for i in rows], pen, "")
        axes.set_xscale("log", base=10 if name == "K/N" else 2)
        label(axes, LOADS[name], "distinct minima", f"({letter})", yscale="log")
    for v, colour in colours.items():
        place[1].plot([], [], color=colour, label=f"$V={v}$")
    for h, pen in dashes.items():
        place[1].plot([], [], color="0.3", ls=pen.dash, marker=pen.marker, label=f"$H={h}$")
    place[1].legend(fontsize=6, loc="upper left", labelspacing=0.25)


def _draw_binarized(place: list[Axes], record: Record) -> None:
    (axes,) = place
    kinds = {
        "binary_whole": "±1 patterns",
        "continuous_whole": "signs of continuous",
        "continuous_followed": "same, $h$ follows $v$",
        "continuous_random_followed": "random $v$, $h$ follows",
    }
    for pen, (key, name) in zip(PENS, kinds.items(), strict=False):
        curve(axes, record["patterns"], record.array(key)[-1], pen, name)
    axes.set_ylim(0, 1.05)
    axes.set_xscale("log", base=2)
    label(axes, "patterns $K$", "energy over ground state", "(d)")
    axes.legend(fontsize=5.5, loc="lower right")


def _draw_ultrametricity(place: list[Axes], record: Record) -> None:
    (axes,) = place
    numbers = [excess(record, name) for name in record["names"]]
    colours = {"data": PENS[0], "glass": PENS[1], "random RA": PENS[2], "trained": PENS[4]}
    axes.axhline(0, color="0.6", lw=0.7)
    for i, (number, kind) in enumerate(zip(numbers, record["kind"], strict=True)):
        style: Any = {"color": colours[kind].colour, "marker": colours[kind].marker}
        axes.errorbar(i, number.value, np.nan_to_num(number.error), capsize=2, **style)
    axes.set_xticks(range(len(numbers)), record["names"], rotation=35, ha="right")
    label(axes, "", "excess of isosceles triples", "(e)")


def _draw_initial(place: list[Axes], record: Record) -> None:
    (axes,) = place
    x, pixels = np.arange(len(record["kinds"])), record["pixels"]
    exact, bounded = PENS[:2]
    means = [np.mean(record["bars"][kind]) / pixels[0] for kind in record["kinds"]]
    axes.plot(x - 0.12, means, exact.marker, color=exact.colour, label="bars4")
    for at, kind in zip(x + 0.12, record["kinds"], strict=True):
        low, high = (end / pixels[1] for end in interval(record, kind))
        axes.plot(at, (low + high) / 2, bounded.marker, color=bounded.colour)
        axes.vlines(at, low, high, color=bounded.colour)
    axes.axhline(math.log(2), color="0.6", lw=0.7)
    axes.set(yscale="log", xlim=(-0.5, len(x) - 0.5))
    axes.set_xticks(x, record["kinds"])
    axes.plot([], [], bounded.marker + "-", color=bounded.colour, label=record["dataset"])
    label(axes, "start", "NLL per pixel (nats)", "(f)")
    axes.legend()


@item("Energy landscapes", ("landscape",))
def landscape(records: Records) -> Figure:
    """(a) Share of the couplings that the ground state satisfies, dotted: Gaussian couplings. (b, c)
    Distinct minima below random starts against K/N and K. (d) Energies of patterns as spins over the
    ground state's. (e) Triples of states whose two largest distances are the closer ones, above
    shuffled spins; s and −s are one where the set is symmetric. (f) Negative log-likelihood before
    training, exact for bars and between bounds for the larger set; the line is fair coins."""
    fig, axes = panels(3, 2, height=2.25)
    drawn = {
        "frustration": (axes[:1], _draw_frustration),
        "minima": (axes[1:3], _draw_minima),
        "binarized": (axes[3:4], _draw_binarized),
        "ultrametricity": (axes[4:5], _draw_ultrametricity),
        "initial": (axes[5:], _draw_initial),
    }
    for name, (place, draw) in drawn.items():
        record = records.get(f"landscape.{name}")
        if record is not None:
            draw(place, record)
        for each in place if record is None else ():
            each.set_axis_off()
    return fig


def _loads(sizes: Array) -> dict[str, Array]:
    v, h, k = sizes.T
    return {
        "K": k,
        "K/N": k / (v + h),
        "K/√(VH)": k / np.sqrt(v * h),
        "K/min(V, H)": k / np.minimum(v, h),
    }


def _correlations(sizes: Array, values: list[Number]) -> str:
    means = np.array([n.value for n in values])
    return ", ".join(f"{k} {rank_correlation(x, means):.2f}" for k, x in _loads(sizes).items())


def _called(size: Array) -> str:
    v, h, k = size.astype(int)
    return f"{v}×{h}, K = {k}"


def _side(overlap: Number, sigmas: float) -> bool | None:
    """Whether the patterns are states of low energy; None when the error leaves it open."""
    return overlap.value > PHASE if overlap.error == 0 else overlap.above(PHASE, sigmas)


SYMMETRIC = ("bars", "bas", "Gaussian", "RA")  # sets that hold −s for every s: it counts as s


def excess(record: Record, name: str, key: str = "isosceles") -> Number:
    """Eq. (2), or with `k` the same for ⟨K⟩; over replicas, or of one set with its jackknife error."""
    seen = record[name]["folded" if name.startswith(SYMMETRIC) else "plain"]
    null = np.array(seen["null" if key == "isosceles" else "null_k"], dtype=float)
    found = np.array(seen[key], dtype=float) - null
    if len(found) > 1:
        return Number.of(found)
    return Number(float(found[0]), float(seen["error"][0]), 1)


def interval(record: Record, kind: str) -> tuple[float, float]:
    """Between which values the negative log-likelihood of every instance lies: annealing's interval
    where its samples carry it, else the proven one."""
    seen = record["large"][kind]
    ends = [np.array(seen[f"proven_{end}"], dtype=float) for end in ("low", "high")]
    if "ess" in seen:
        good = np.array(seen["ess"], dtype=float) > 10
        annealed = (np.array(seen[end], dtype=float) for end in ("low", "high"))
        ends = [np.where(good, a, b) for a, b in zip(annealed, ends, strict=True)]
    low, high = ends
    return max(float(low.min()), 0.0), float(high.max())  # −log p is never negative


@claim(("landscape.frustration",))
def one_and_two_patterns_unfrustrated(records: Records) -> Finding:
    """Sec. IV.C and V.B: “For K = 1, 2 the system is unfrustrated”; a single pattern, continuous too,
    has just two ground states, plus and minus its signs.
    Read as: The share of |J| that the exact ground state satisfies, the number of minima, and the
    overlap of the ground state with the signs of one continuous pattern.
    Rule: Share and overlap exactly 1 but for rounding, and at most K minima up to the sign, in every
    instance."""
    record = records["landscape.frustration"]
    patterns = record["patterns"]
    share, count = record.array("satisfied"), record.array("minima")
    few = [i for i, k in enumerate(patterns) if k <= 2]
    more = [i for i, k in enumerate(patterns) if k > 2]
    least = float(share[:, few].min())
    most = {patterns[i]: int(count[:, i].max()) for i in few}
    three = Number.of(share[:, more[0]].ravel())
    alone = record.array("continuous_overlap").min()
    holds = least > 1 - WHOLE and all(most[k] <= k for k in most) and alone > 1 - WHOLE
    return Finding(
        bool(holds),
        f"K = 1, 2: every coupling is satisfied (least share {least:.7f}), minima {most} at most; "
        f"K = {patterns[more[0]]}: {three}; one continuous pattern: the ground state overlaps by "
        f"{alone:g} with its signs",
        "Up to the global sign: one ground state for K = 1; two for K = 2, four with their negatives.",
    )


@claim(("landscape.frustration",))
def many_patterns_random(records: Records) -> Finding:
    """Sec. IV.C: For K → ∞ “the weights are uncorrelated random Gaussian variables leading to the SKSG
    model”.
    Read as: The share of |J| that the ground state satisfies, at the largest K and with Gaussian
    couplings.
    Rule: It falls with K, and the two differ by less than {CLOSE} for every V, by 2 σ."""
    record = records["landscape.frustration"]
    share, dense = record.array("satisfied"), record.array("gaussian")
    told, answers = [], []
    for visible, rows, other in zip(record["visible"], share, dense, strict=True):
        last, limit = Number.of(rows[-1]), Number.of(other)
        apart = last - limit
        told.append(f"V = {visible}: {last} against {limit}")
        answers.append(apart.within(CLOSE) if record["patterns"][-1] >= 256 else None)
    falls = Number.of((share[:, 0] - share[:, -1]).ravel()).above(0)
    return Finding(
        all_of(falls, *answers),
        f"satisfied couplings at K = {record['patterns'][-1]} and with Gaussian couplings, "
        f"{'; '.join(told)}",
    )


@claim(("landscape.minima",))
def larger_layer_leaves_the_glass(records: Records) -> Finding:
    """Sec. IV.C: First choose K, and then “the number H that makes the ratio K/(V + H) low enough to
    avoid the spin-glass phase”.
    Read as: With the largest hidden layer, where K/N is far below Hopfield's 0.14, the patterns are
    states of low energy: a pattern overlaps with the minimum below it.
    Rule: Overlaps above {PHASE} for every V and K with K/N below {FEW:g}, by as many σ as the largest
    of so many exceeds by chance once in twenty."""
    record = records["landscape.minima"]
    sizes, kept = record.array("sizes").astype(int), record.array("stability")
    total = Number.each(np.log(record.array("total")))
    top = sizes[:, 1].max()
    rows = [i for i, (v, h, k) in enumerate(sizes) if h == top and k / (v + h) < FEW]
    if not rows:
        return Finding(None, f"no machine has K/N below {FEW:g}")
    numbers = {i: Number.of(kept[i]) for i in rows}
    worst = min(rows, key=lambda i: numbers[i].value)
    v, _, k = sizes[worst]
    same = [i for i in range(len(sizes)) if (sizes[i, 0], sizes[i, 2]) == (v, k)]
    told = ", ".join(
        f"{Number.of(kept[i])} and {math.exp(total[i].value):.0f} minima at H = {sizes[i, 1]} "
        f"(K/N = {k / (v + sizes[i, 1]):.2g})"
        for i in same
    )
    return Finding(
        all_of(*(_side(number, allowance(len(rows))) for number in numbers.values())),
        f"of {len(rows)} machines with H = {top} the lowest overlap is that of V = {v}, K = {k}: as H "
        f"grows, {told}",
        f"{allowance(len(rows)):.1f} σ each. Numbers of minima are estimates from below (Chao) from "
        f"{record['starts']} starts.",
    )


@claim(("landscape.minima",))
def phase_set_by_load(records: Records) -> Finding:
    """Sec. IV.C: “The ratio K/N is the parameter that determines the phase” at low temperature.
    Read as: Untrained machines with the same K/N are in the same phase: whether a pattern overlaps with
    the minimum below it by more than {PHASE}.
    Rule: No pair on two sides, by as many σ as the largest of so many exceeds by chance once in twenty.
    """
    record = records["landscape.minima"]
    sizes, kept = record.array("sizes"), Number.each(record.array("stability"))
    told = f"rank correlations of that overlap with the loads: {_correlations(sizes, kept)}"
    load = np.log(_loads(sizes)["K/N"])
    every = combinations(range(len(sizes)), 2)
    pairs = [(i, j) for i, j in every if abs(load[i] - load[j]) < 0.1]
    if not pairs:
        return Finding(None, told)
    sides = [_side(number, allowance(2 * len(pairs))) for number in kept]
    apart = [(i, j) for i, j in pairs if {sides[i], sides[j]} == {True, False}]
    i, j = max(apart or pairs, key=lambda p: abs(kept[p[0]].value - kept[p[1]].value))
    unsure = any(sides[k] is None for pair in pairs for k in pair)
    return Finding(
        False if apart else (None if unsure else True),
        f"of {len(pairs)} pairs with the same K/N (to 10 %) {len(apart)} are on two sides; the widest "
        f"apart are {_called(sizes[i])} and {_called(sizes[j])}: a pattern overlaps by {kept[i]} and "
        f"{kept[j]} with the minimum below it; {told}",
        f"{allowance(2 * len(pairs)):.1f} σ each. Descent at zero temperature.",
    )


@claim(("landscape.minima",))
def minima_set_by_patterns(records: Records) -> Finding:
    """Sec. V.A.1: In RA machines “the number of minima is controlled not by H or V, but by K”.
    Read as: Where K ≪ N (K/N below {FEW:g}): numbers of minima of machines with the same K that differ
    in one layer alone.
    Rule: All within a factor of {TWICE:g}, by as many σ as the largest of so many exceeds by chance
    once in twenty."""
    record = records["landscape.minima"]
    sizes, total = record.array("sizes").astype(int), Number.each(np.log(record.array("total")))
    few = [i for i, (v, h, k) in enumerate(sizes) if k / (v + h) < FEW]
    told: list[str] = []
    answers: list[bool | None] = []
    for axis, name in ((1, "H"), (0, "V")):
        # Two machines that differ in one layer alone.
        pairs = [
            (total[j] - total[i], i, j)
            for i, j in combinations(few, 2)
            if np.array_equal(np.delete(sizes[i], axis), np.delete(sizes[j], axis))
        ]
        if not pairs:
            answers.append(None)
            continue
        gap, i, j = max(pairs, key=lambda p: abs(p[0].value))
        told.append(
            f"of {len(pairs)} pairs that differ in {name} alone {_called(sizes[i])} and "
            f"{_called(sizes[j])} are widest apart: {math.exp(total[i].value):.0f} and "
            f"{math.exp(total[j].value):.0f} minima (log of the ratio {gap}, "
            f"{allowance(len(pairs)):.1f} σ allowed)"
        )
        size = Number(abs(gap.value), gap.error, gap.count)
        answers.append(size.below(math.log(TWICE), allowance(len(pairs))))
    return Finding(
        all_of(*answers),
        "; ".join(told),
        f"Rank correlations over all sizes: {_correlations(sizes, total)}. Numbers of minima are "
        f"estimates from below (Chao) from {record['starts']} starts, geometric means over instances.",
    )


@claim(("landscape.binarized",))
def binarized_patterns_low(records: Records) -> Finding:
    """Sec. V.B: “A simple binarization of the patterns produces configurations that lie in the
    low-energy sector.”
    Read as: Random continuous patterns: the energy of their signs on all units beside that of random
    visible states whose hidden units follow, over the ground state's.
    Rule: Lower for every K up to V/2 and every H, by 2 σ."""
    record = records["landscape.binarized"]
    patterns, half = record["patterns"], record["visible"] / 2
    rows = [i for i, k in enumerate(patterns) if k <= half]
    answers, told = [], []
    for h, hidden in enumerate(record["hidden"]):
        whole, follow, random, own = (
            record.array(key)[h]
            for key in (
                "continuous_whole",
                "continuous_followed",
                "continuous_random_followed",
                "binary_whole",
            )
        )
        answers += [(Number.of(whole[i]) - Number.of(random[i])).above(0) for i in rows]
        told += [
            f"H = {hidden}, K = {patterns[i]}: {Number.of(whole[i])}, with hidden units that follow "
            f"{Number.of(follow[i])}, ±1 patterns {Number.of(own[i])}, random states that follow "
            f"{Number.of(random[i])}"
            for i in (rows[-1], len(patterns) - 1)
        ]
    return Finding(
        all_of(*answers),
        f"energy of the signs over the ground state's, V = {record['visible']}: {'; '.join(told)}",
        "Trained patterns have a claim of their own, binarized-trained-patterns.",
    )


@claim(("landscape.ultrametricity",))
def ultrametricity(records: Records) -> Finding:
    """Sec. IV.B: Machines in the SKSG phase give “strongly ultrametrically distributed outputs, much
    more than the training data” and than a trained machine.
    Read as: Triples of states whose two largest distances are the closer ones, above shuffled spins:
    Gaussian couplings beside data and a trained machine.
    Rule: Gaussian above 0, above every data set and above the trained machine, by 2 σ."""
    record = records["landscape.ultrametricity"]
    found = {name: excess(record, name) for name in record["names"]}
    data = [n for n, kind in zip(record["names"], record["kind"], strict=True) if kind == "data"]
    glass = found["Gaussian"]
    answers = [glass.above(0), *((glass - found[name]).above(0) for name in (*data, "trained"))]
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    k = ", ".join(f"{name} {excess(record, name, 'k').value:+.2f}" for name in record["names"])
    drift = max(abs(x) for name in ("Gaussian", "RA", "trained") for x in record[name]["drift"])
    return Finding(
        all_of(*answers),
        f"share of isosceles triples above shuffled spins: {told}; the same for ⟨K⟩, negative when "
        f"ultrametric: {k}",
        f"Gaussian and RA: {record['units']} + {record['units']} units, J (VH)^¼ = "
        f"{record['coldness']:g}, visible states by parallel tempering (energies drifted by at most "
        f"{drift:.1f} standard errors in the second half); trained on {record['learnt']}. A cold RA "
        "machine has few states, at equal distances: most of its triples are ties, which count half.",
    )


@claim(("landscape.initial",))
def smaller_initial_nll(records: Records) -> Finding:
    """Sec. V.B: “The initial value for the NLL in RA-RBM models is much smaller than the average
    initial values in unregularized RBMs.”
    Read as: The NLL before training, of bars exactly and of MNIST between bounds, RA beside dense
    couplings of standard deviation 0.01, the released start, and 1.
    Rule: RA below both on both data sets, on bars by 2 σ, on MNIST by intervals that do not overlap."""
    record = records["landscape.initial"]
    bars = {kind: Number.of(np.array(record["bars"][kind])) for kind in record["kinds"]}
    large = {kind: interval(record, kind) for kind in record["kinds"]}
    answers = []
    for kind in record["kinds"][1:]:
        answers.append((bars[kind] - bars["RA"]).above(0))
        if large["RA"][0] > large[kind][1]:
            answers.append(False)
        else:
            answers.append(True if large["RA"][1] < large[kind][0] else None)
    told = ", ".join(f"{kind} {number}" for kind, number in bars.items())
    more = ", ".join(f"{kind} {a:.0f} to {b:.0f}" for kind, (a, b) in large.items())
    return Finding(
        all_of(*answers),
        f"nats per image of bars4, exact: {told}; of {record['dataset']}: {more}",
        "Dense couplings of standard deviation 0.01 start near V log 2 = "
        f"{record['pixels'][0] * math.log(2):.0f} and {record['pixels'][1] * math.log(2):.0f} nats, fair "
        "coins; those of standard deviation 1 have the size of RA's. Over machines whose signs are "
        "random ⟨p(v)⟩ = 2^−V, so that by convexity no such start lies below V log 2 on average.",
    )
