"""Appendix E: hidden units that are Gaussian, and what the couplings that they leave can store.

A hybrid machine has binary visible and Gaussian hidden units. Integrated over the latter,

    ∫ dh exp(−h²/2 + v W h) = (2π)^(H/2) exp( ½ v W Wᵀ v )                                (1)

it is an Ising machine with J = W Wᵀ. With Regularized Axons W = ξ_vᵀ ξ_h / √K this reads

    J_ij = (1/K) Σ_kk' ξ_i^k ξ_j^k' M_kk',        M_kk' = Σ_h ξ_h^k ξ_h^k'                (2)

(eq. E2). M = 1 is Hebb's rule. With hidden parts of our choice M can be any positive matrix, in
particular the inverse of the patterns' correlations C_kk' = Σ_i ξ_i^k ξ_i^k' / N,

    M = C⁻¹,  ξ_h = C^(−1/2)   (H = K hidden units)                                       (3)

which is the projection rule (Personnaz, Guyon and Dreyfus 1986; Kanter and Sompolinsky 1987): every
pattern has the field ξ_i^k up to a factor, as long as P < N. Unrestricted couplings are learnt row by
row (no symmetry asked) and can hold up to 2N patterns (Cover 1965, Gardner 1988).

A pattern counts as stored when zero-temperature dynamics that starts from it keeps it,

    s_i ← sign( Σ_j J_ij s_j ),        m = (1/N) Σ_i ξ_i s_i                              (4)

and as retrieved when it comes back from a tenth of its spins turned. J_ii is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, all_of, claim, crossing
from ..drawing import Figure, curve, item, legend_below
from ..lab import Lab, Part, Rows, Settings, by_scale, each
from ..records import Array, Records, Values

AMIT = 0.138  # α_c of Hebb's rule (Amit, Gutfreund and Sompolinsky 1985)
HEBB = 0.14  # the paper's round number
AROUND = (0.12, 0.13, 0.14, 0.15, 0.16)  # loads near it
KEPT = 0.95  # a mean overlap above which patterns count as stored: at α_c it is 0.967
RULES = {
    "hebb": "Hebb",
    "random": "RA, random hidden parts",
    "best": "RA, best hidden parts",
    "free": "unrestricted",
}
LOOK = dict(zip(RULES, PENS, strict=False))


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    visible: int = by_scale(tiny=5, quick=8, paper=10)  # of the check of eq. (1)
    hidden: int = by_scale(tiny=3, quick=4, paper=6)
    patterns: int = by_scale(tiny=2, quick=3, paper=4)
    chains: int = by_scale(tiny=400, quick=20_000, paper=200_000)
    units: int = by_scale(tiny=40, quick=200, paper=1000)  # N of the retrieval
    instances: int = by_scale(tiny=2, quick=4, paper=10)
    # P/N
    loads: tuple[float, ...] = by_scale(
        tiny=(0.05, 0.3),
        quick=(0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9),
        paper=(0.02, 0.05, 0.08, 0.1, *AROUND, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9),
    )
    # for unrestricted couplings
    free_loads: tuple[float, ...] = by_scale(
        tiny=(0.5, 2.5),
        quick=(0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 1.7, 1.9, 2.1),
        paper=(0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 1.7, 1.8, 1.9, 2.0, 2.1),
    )
    # H/N of random hidden parts
    ratios: tuple[float, ...] = by_scale(tiny=(1.0,), quick=(1.0, 8.0), paper=(1.0, 8.0, 64.0))
    # over the patterns, to learn unrestricted couplings
    passes: int = by_scale(tiny=30, quick=800, paper=1500)


# -- the hybrid machine -------------------------------------------------------------------------------


def axons(xi_v: Tensor, xi_h: Tensor) -> Tensor:
    """W = ξ_vᵀ ξ_h / √K, (…, v, h)."""
    return xi_v.mT @ xi_h / math.sqrt(xi_v.shape[-2])


def effective(xi_v: Tensor, xi_h: Tensor) -> Tensor:
    """J of eq. (2), (…, v, v), diagonal included."""
    m = xi_h @ xi_h.mT  # (…, k, k)
    return xi_v.mT @ m @ xi_v / xi_v.shape[-2]


def log_marginal(visible: Tensor, weights: Tensor, order: int = 80) -> Tensor:
    """log ∫ dh of eq. (1) by Gauss–Hermite quadrature over each hidden unit, (c,).

    h = √2 x around 0, and not around its mean: a shifted lattice would assume the answer.
    """
    x, w = np.polynomial.hermite.hermgauss(order)
    nodes = torch.as_tensor(x * math.sqrt(2), dtype=torch.float64, device=visible.device)
    logs = torch.as_tensor(np.log(w) + 0.5 * math.log(2), device=visible.device)
    field = visible @ weights  # (c, h)
    return torch.logsumexp(logs + field[..., None] * nodes, -1).sum(-1)


def _hybrid(lab: Lab, scale: Scale) -> Values:
    rng = lab.rng()
    v, h, k = scale.visible, scale.hidden, scale.patterns
    xi = SPIN.random((k, v + h), rng, torch.float64)
    # ±1 patterns are cold: √scale of them keeps the sampler's chains moving.
    xi = xi * (2.0 / v) ** 0.5 / h**0.25
    xi_v, xi_h = xi[:, :v], xi[:, v:]
    weights, coupling = axons(xi_v, xi_h), effective(xi_v, xi_h)
    every = SPIN.states(v, torch.arange(2**v, device=lab.device)).double()
    integral = log_marginal(every, weights)
    closed = 0.5 * ((every @ coupling) * every).sum(1) + 0.5 * h * math.log(2 * math.pi)
    probability = torch.softmax(closed, 0)
    relative = (torch.softmax(integral, 0) / probability - 1).abs().max()
    lab.tell(0.1)
    # Block Gibbs of the hybrid machine, h | v ~ N(vW, 1), from exact draws of its visible units.
    at = torch.multinomial(probability, scale.chains, True, generator=rng)
    spins = every[at]
    for _ in range(20):
        noise = torch.randn((len(spins), h), generator=rng, dtype=torch.float64, device=rng.device)
        spins = SPIN.draw((spins @ weights + noise) @ weights.mT, rng)
    pairs = torch.triu_indices(v, v, 1, device=lab.device)
    exact = (every.mT * probability @ every)[pairs[0], pairs[1]]
    found = (spins.mT @ spins / len(spins))[pairs[0], pairs[1]]
    error = ((1 - exact.square()) / len(spins)).sqrt()
    lab.tell(1.0)
    return {
        "relative": float(relative),
        "constant": float((integral - closed).abs().max()),
        "exact": exact,
        "z": (found - exact) / error,
    }


def _likeness(one: Tensor, other: Tensor) -> Tensor:
    """Cosine between two coupling matrices off their diagonals, (…,)."""
    one, other = _hollow(one).flatten(-2), _hollow(other).flatten(-2)
    return torch.nn.functional.cosine_similarity(one, other, dim=-1)


def _hollow(matrix: Tensor) -> Tensor:
    return matrix - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))


# -- storage ------------------------------------------------------------------------------------------


def hebb(xi: Tensor) -> Tensor:
    """Σ_k ξ_i^k ξ_j^k / N for patterns (e, p, n)."""
    return _hollow(xi.mT @ xi / xi.shape[2])


def best(xi: Tensor) -> Tensor:
    """Eq. (2) with M of eq. (3): the projection onto the patterns, through hidden parts C^(−1/2)."""
    values, vectors = torch.linalg.eigh(xi @ xi.mT / xi.shape[2])  # C
    hidden = vectors @ torch.diag_embed(values.rsqrt()) @ vectors.mT  # (e, p, h = p)
    return _hollow(effective(xi, hidden) * (xi.shape[1] / xi.shape[2]))


def learnt(xi: Tensor, passes: int, tell: Callable[[float], None] = lambda share: None) -> Tensor:
    """Couplings that hold the patterns if there are any, each row learnt by itself.

    Minimises Σ_k max(0, 1 − ξ_i^k Σ_j J_ij ξ_j^k)² for every row i by Nesterov's accelerated
    gradient; the sum ends at 0 where the row can be learnt (a perceptron with a margin).
    """
    count, n = xi.shape[1:]
    rate = 1 / (n * (1 + math.sqrt(count / n)) ** 2)  # one over the largest curvature
    old = ahead = xi.new_zeros((len(xi), n, n))
    t = 1.0
    for step in range(passes):
        lack = (1 - xi @ ahead.mT * xi).clamp_min(0)  # (e, p, n): a row of J on the last axis
        if step % 20 == 0:
            tell(step / passes)
            if not bool((lack > 0.5).any()):
                break
        new = ahead + rate * _hollow((lack * xi).mT @ xi)
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        ahead = new + (t - 1) / following * (new - old)
        old, t = new, following
    return ahead


def settle(coupling: Tensor, spins: Tensor, passes: int = 100) -> Tensor:
    """Eq. (4), all units at once, until nothing turns; a unit without a field stays, (e, c, n)."""
    for _ in range(passes):
        field = spins @ coupling.mT
        new = torch.where(field == 0, spins, SPIN.nearest(field))
        if torch.equal(new, spins):
            break
        spins = new
    return spins


def _overlaps(coupling: Tensor, xi: Tensor, rng: torch.Generator) -> dict[str, Tensor]:
    """Mean overlap with the stored pattern: from itself, and from a tenth of its spins turned, (e,)."""
    turned = torch.rand(xi.shape, generator=rng, device=rng.device) < 0.1
    return {
        "kept": (settle(coupling, xi) * xi).mean((1, 2)),
        "retrieved": (settle(coupling, torch.where(turned, -xi, xi)) * xi).mean((1, 2)),
    }


def _storage(lab: Lab, scale: Scale, rule: str) -> Values:
    loads = scale.free_loads if rule == "free" else scale.loads
    ratios = scale.ratios if rule == "random" else (0.0,)
    found: Values = {"units": scale.units, "loads": list(loads), "ratios": list(ratios)}
    columns = Rows()
    part = 1 / (len(loads) * len(ratios))
    for i, ratio in enumerate(ratios):
        rows = Rows()
        for j, load in enumerate(loads):
            rng = lab.rng(ratio, load)
            count = max(1, round(load * scale.units))
            xi = SPIN.random((scale.instances, count, scale.units), rng)
            start = (i * len(loads) + j) * part
            if rule == "free":
                coupling = learnt(xi, scale.passes, lab.within(start, start + part).tell)
            else:
                coupling = _couplings(rule, xi, ratio, rng)
            rows.add({**_overlaps(coupling, xi, rng), "likeness": _likeness(coupling, hebb(xi))})
            lab.tell(start + part)
        columns.add(rows)
    return found | columns


def _couplings(rule: str, xi: Tensor, ratio: float, rng: torch.Generator) -> Tensor:
    if rule == "hebb":
        return hebb(xi)
    if rule == "best":
        return best(xi)
    count, units = xi.shape[1:]
    hidden = SPIN.random((len(xi), count, round(ratio * units)), rng)
    return _hollow(effective(xi, hidden)) / units


PARTS = {"hybrid": Part(_hybrid), **each(_storage, RULES)}


@item("Storage in Hopfield couplings of RA form", ("hopfield",))
def hopfield(records: Records) -> Figure:
    """Overlap of the state that zero-temperature dynamics reaches with the stored pattern, from the
    pattern (left) and from a tenth of its spins turned (right); bands are one standard deviation over
    instances, the line is Hebb's capacity {AMIT} N."""
    fig, (left, right) = panels(2)
    found = [(rule, records[f"hopfield.{rule}"]) for rule in RULES if f"hopfield.{rule}" in records]
    rows = [(rule, r, i, ratio) for rule, r in found for i, ratio in enumerate(r["ratios"])]
    for pen, (rule, record, i, ratio) in zip(PENS, rows, strict=False):
        words = RULES[rule] + (f", $H/N={ratio:g}$" if rule == "random" else "")
        curve(left, record["loads"], record.array("kept")[i], pen, words, floor=None)
        curve(right, record["loads"], record.array("retrieved")[i], pen, words, floor=None)
    for axes, what in ((left, "from the pattern"), (right, "from a tenth turned")):
        axes.axvline(AMIT, color="0.6", lw=0.8, zorder=0)
        axes.set(xscale="log", ylim=(-0.02, 1.04))
        label(axes, r"load $\alpha = P/N$", "overlap with the pattern", what)
    legend_below(fig, left, 3)
    return fig


def capacity(loads: Array, rows: Array, limit: float = KEPT) -> Number:
    """The load at which the mean overlap of each instance falls below the limit, by interpolation;
    NaN where it never does, the mean and error over instances."""
    found = [None if each[0] < limit else crossing(loads, each, limit) for each in rows.T]
    return Number.of([math.nan if load is None else load for load in found])


@claim(("hopfield.hybrid",))
def hybrid_marginal(records: Records) -> Finding:
    """App. E, eqs. E1 and E2: Integrating out the Gaussian hidden units of a machine with RA couplings
    leaves Ising couplings that are a quadratic form of the patterns.
    Read as: Probabilities of all visible states by quadrature over the hidden units against eq. (E2),
    and pair moments of block Gibbs samples.
    Rule: Probabilities agree to a millionth of themselves, exactly but for rounding; no moment off by
    4.5 σ."""
    record = records["hopfield.hybrid"]
    z = record.array("z")
    largest, count = float(np.abs(z).max()), len(z)
    holds = record["relative"] < 1e-6 and largest < 4.5
    return Finding(
        holds,
        f"probabilities of all visible states by quadrature and by eq. (E2) differ by at most "
        f"{record['relative']:.1g} of themselves; block Gibbs gives the pair moments of (E2), largest "
        f"of {count} z-scores {largest:.1f}",
    )


@claim(("hopfield.hebb",))
def hebbian_capacity(records: Records) -> Finding:
    """App. E: “The maximum capacity for Hebbian patterns is 0.14 N.”
    Read as: The load at which the mean overlap of a pattern with the state below it falls under {KEPT}.
    Rule: Within 0.02 of {HEBB}, by 2 σ, for N of 1,000 or more."""
    record = records["hopfield.hebb"]
    found = capacity(record.array("loads"), record.array("kept")[0])
    large = record["units"] >= 1000  # the jump is sharp, and the value Amit's, for large N only
    near = Number(found.value - HEBB, found.error, found.count).within(0.02)
    return Finding(
        near if large else None,
        f"the mean overlap falls below {KEPT} at P = {found} N (N = {record['units']})",
        "" if large else "The transition is rounded at this size.",
    )


@claim(("hopfield.hebb", "hopfield.random"))
def ra_form_is_not_hebbian(records: Records) -> Finding:
    """App. E: The Hebbian form of RA weights “does not correspond to the Hebbian form of weights in the
    resultant Hopfield model”.
    Read as: The cosine between the couplings (E2) of random hidden parts and Hebb's couplings of the
    same patterns.
    Rule: Below 1 for every ratio H/N, by 2 σ."""
    random, plain = records["hopfield.random"], records["hopfield.hebb"]
    loads = random.array("loads")
    row = int(np.argmin(np.abs(loads - 0.1)))
    told, below = [], []
    for i, ratio in enumerate(random["ratios"]):
        alike = Number.of(random.array("likeness")[i][row])
        stored = capacity(loads, random.array("kept")[i])
        told.append(f"H/N = {ratio:g}: cosine {alike} at P/N = {loads[row]:g}, capacity {stored}")
        below.append(alike.below(1))
    ordinary = capacity(plain.array("loads"), plain.array("kept")[0])
    return Finding(
        all_of(*below),
        f"couplings (E2) of random hidden parts beside Hebb's (capacity {ordinary}): {'; '.join(told)}",
        "They tend to Hebb's as H/P grows, since M/H tends to 1.",
    )


@claim(("hopfield.hebb", "hopfield.best", "hopfield.free"))
def higher_capacity(records: Records) -> Finding:
    """App. E, left open: Whether the form (E2) “would allow to reach higher capacities” is left for
    future work.
    Read as: The largest load at which the best hidden parts keep every pattern (overlap above 0.999).
    Rule: Above the load that Hebb's rule keeps, by 2 σ."""
    hebbian, chosen, free = (records[f"hopfield.{r}"] for r in ("hebb", "best", "free"))
    low = capacity(hebbian.array("loads"), hebbian.array("kept")[0])
    loads = chosen.array("loads")
    kept = Number.each(chosen.array("kept")[0])
    back = Number.each(chosen.array("retrieved")[0])
    held = max((a for a, n in zip(loads, kept, strict=True) if n.value > 0.999), default=0.0)
    again = max((a for a, n in zip(loads, back, strict=True) if n.value > KEPT), default=0.0)
    most = capacity(free.array("loads"), free.array("kept")[0])
    beyond = low.below(held) if math.isfinite(low.value) else None
    return Finding(
        beyond,
        f"with M the inverse of the patterns' correlations all patterns are fixed points up to "
        f"P = {held:g} N (the largest load tried: {loads[-1]:g}) and come back from a tenth turned up "
        f"to {again:g} N; "
        f"Hebb's rule {low} N; unrestricted couplings {most} N as found (2 N in theory)",
        "(E2) with M = C⁻¹ is the projection rule; it needs continuous hidden parts, H ≥ P, and P < N.",
    )
