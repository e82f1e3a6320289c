"""Partition function and likelihood, between two bounds.

    Z = Σ_s exp(−β E(s)),        log p(v) = log Σ_h exp(−β E(v, h)) − log Z               (1)

`exact` enumerates in float64, counts states by the kinds of their units (`counting.py`) or integrates
over Gaussian fields (`quadrature.py`), whichever is least, and both bounds coincide. `ais` anneals:
forward for a lower bound in probability, and back from equilibrated samples for an upper one
(`ais.py`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from . import ais
from .counting import can_count, log_z_by_counting, terms_of
from .enumeration import (
    check_states,
    enumerate_spins,
    free_layers,
    log_weight,
    most_states,
    states_of,
)
from .errors import InputError, check_beta, check_choice, check_count
from .gibbs import sweeps
from .machine import Machine, scaled
from .posterior import hidden_sums
from .quadrature import can_integrate, log_z_by_quadrature, points_of
from .routes import path_to
from .spins import to_spins
from .streams import generator, seed_from

SETTLE = 100  # sweeps between the two directions
NARROW = 0.5  # nats: an interval that needs no more temperatures
HIDDEN = 2**16  # hidden states per image that are summed one by one
LARGEST_COUNT = 2**33  # terms; 250 million take half a minute on two cores
ENUMERATION = "states"
COUNTING = "terms of states counted by the kinds of units"
QUADRATURE = "points of a lattice of Gaussian fields"
Method = Literal["auto", "exact", "ais"]


@dataclass(frozen=True)
class Bounds:
    """A quantity between two bounds, one value per replica, and how it was obtained."""

    lower: Tensor  # (e,) float64
    upper: Tensor  # (e,) float64
    interval: tuple[Tensor, Tensor]  # the ends of the 95 % interval
    ess: Tensor  # (e,): how many samples carry the estimate, the smaller of the two directions'
    largest: Tensor  # (e,): the largest weight's share, the larger of the two directions'
    method: str
    effort: str  # what it took, in words
    gap: Tensor | None = None  # (e,): how far the variational bound over hidden units lies below

    @staticmethod
    def exactly(value: Tensor, effort: str) -> Bounds:
        none = torch.zeros_like(value)
        return Bounds(value, value, (value, value), none + torch.inf, none, "exact", effort)


def can_enumerate(machine: Machine, largest: int | None = None) -> bool:
    """True when log Z by enumeration is within reach."""
    return states_of(machine.layers) <= (largest or most_states(machine.device))


@torch.no_grad()
def log_z(
    machine: Machine,
    *,
    method: Method = "auto",
    beta: float = 1.0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    data: Any = None,
    samples: Tensor | None = None,
    chains: int | None = None,
    most: int = 10_000,
) -> Bounds:
    """log Z, eq. (1); `auto` is exact where at most 2^20 terms do.

    The rest is for annealing. Its base is the machine's biases alone, or with `data` the data's
    marginals. `samples` (e, c, n) are equilibrated configurations for the way back; without them the
    forward chains are drawn again by their weights and swept. There are 500 `chains`, on a GPU, which
    would idle, 2,000; `most` limits the temperatures.
    """
    check_choice("method for log Z", method, ("auto", "exact", "ais"))
    check_beta(beta)
    if method == "exact" or (method == "auto" and can_be_exact(machine, 2**20, beta)):
        return _exact(machine, beta)
    chains = (500 if machine.device.type == "cpu" else 2000) if chains is None else chains
    check_count("the number of chains", chains, least=2)
    return annealed(machine, beta, seed_from(seed, rng), data, samples, chains, most)[0]


def _terms(machine: Machine, beta: float) -> dict[str, int]:
    """How many terms each exact method takes."""
    found = {ENUMERATION: states_of(machine.layers) // (2 if machine.symmetric else 1)}
    if can_count(machine):
        found[COUNTING] = terms_of(machine)
    if can_integrate(machine):
        found[QUADRATURE] = points_of(machine, beta)
    return found


def can_be_exact(machine: Machine, largest: int | None = None, beta: float = 1.0) -> bool:
    """True when log Z takes at most so many terms, by enumeration, counting or quadrature."""
    return min(_terms(machine, beta).values()) <= (largest or most_states(machine.device))


def _exact(machine: Machine, beta: float) -> Bounds:
    terms = _terms(machine, beta)
    for name, sum_up in ((COUNTING, log_z_by_counting), (QUADRATURE, log_z_by_quadrature)):
        cheapest = terms.get(name, math.inf) == min(terms.values())
        if cheapest and terms[name] <= LARGEST_COUNT:
            return Bounds.exactly(sum_up(machine, beta), f"{terms[name]:,} {name}")
    check_states(machine.layers, largest=most_states(machine.device), what="exact log Z")
    double = copy.deepcopy(machine).double()
    free = free_layers(machine.layers)
    total = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64, device=machine.device)
    count = 0
    for spins in enumerate_spins(double, half=machine.symmetric):
        part = torch.logsumexp(log_weight(double, spins, free, beta), 1)
        total = torch.logaddexp(total, part)
        count += spins.shape[1]
    if machine.symmetric:  # s and −s weigh the same
        total = total + torch.log(torch.tensor(2.0, dtype=torch.float64))
    return Bounds.exactly(total, f"{count:,} states")


def annealed(
    machine: Machine,
    beta: float,
    seed: int,
    data: Any,
    samples: Tensor | None,
    chains: int,
    most: int,
) -> tuple[Bounds, Tensor, int]:
    """log Z by annealing both ways, the configurations that the way back started from, and how many
    steps it took."""
    if beta != 1.0:
        machine = scaled(machine, beta)
    path = path_to(machine, data)

    def stream(name: str) -> torch.Generator:
        return generator(seed, "log_z", name, device=machine.device)

    betas = ais.schedule(path, stream("schedule"), most=max(2, most // 2))
    while True:
        logs, ends = ais.forward(path, betas, chains, stream("forward"))
        settled, apart = samples, None
        if settled is None:
            settle = stream("settle")
            drawn, apart = ais.resample(ends, logs, settle)
            settled = sweeps(machine, drawn, settle, SETTLE)
        settled = machine.configuration(settled)
        if settled.shape[1] < 2:
            raise InputError(f"the way back needs two samples or more, not {settled.shape[1]}")
        back = ais.backward(path, betas, settled, stream("backward"))
        effort = f"{len(betas):,} temperatures, {chains:,} chains"
        found = _joined(path.log_z0().squeeze(1), logs, back, apart, effort)
        narrow = float((found.interval[1] - found.interval[0]).max()) <= NARROW
        # Where chains move slowly, steps add up to more than the pilot saw: take shorter ones.
        if narrow or float(found.ess.min()) >= 0.2 * chains or 2 * len(betas) > most:
            return found, settled, len(betas) - 1
        betas = ais.resized(betas, 2 * len(betas) - 1)


def _joined(start: Tensor, logs: Tensor, back: Tensor, apart: Tensor | None, effort: str) -> Bounds:
    """Bounds from log w of both directions."""
    below, above = ais.LogMean.of(logs), ais.LogMean.of(back)
    best = ais.bennett(logs, back, apart)
    lower, upper, middle = start + below.value, start - above.value, start + best.value
    error = 2.24 * best.error  # 97.5 % of a normal: the error is itself an estimate
    # Bennett's interval leans on both directions alike. Both estimates belong to it too, and with
    # their own errors where they contradict each other.
    apart_too_far = (upper - lower).abs() > 1.96 * torch.hypot(below.error, above.error)
    low, high = (torch.where(apart_too_far, 1.96 * x.error, 0.0) for x in (below, above))
    return Bounds(
        lower,
        upper,
        (
            torch.stack([middle - error, lower - low, upper - high]).amin(0),
            torch.stack([middle + error, lower + low, upper + high]).amax(0),
        ),
        best.ess,
        best.largest,
        "ais",
        effort,
    )


@torch.no_grad()
def log_likelihood(
    machine: Machine,
    data: Any,
    *,
    method: Method = "auto",
    beta: float = 1.0,
    seed: int | None = None,
    normaliser: Bounds | None = None,
) -> Bounds:
    """Mean log p(v) over the data, in nats per sample; `normaliser` saves a second log Z.

    Annealing starts from the marginals of the data. Where hidden units are coupled to each other and
    too many to enumerate, the sum over them is annealed too, and `gap` says by how much the
    variational bound (mean field) lies below it.
    """
    spins = to_spins(getattr(data, "spins", data))
    if spins.dim() != 2 or spins.shape[1] != machine.visible:
        raise InputError(
            f"the likelihood needs data (samples, {machine.visible}), not {tuple(spins.shape)}"
        )
    seed = seed_from(seed, None)
    z = normaliser or log_z(machine, method=method, beta=beta, seed=seed, data=spins)
    if states_of(machine.layers, (0,)) > HIDDEN:
        return _between_hidden(machine, spins, beta, seed, z)
    double = copy.deepcopy(machine).double()
    step = max(1, 2**24 // (machine.layers.units * machine.replicas))
    parts = [double.log_prob_unnormalised(some, beta).sum(1) for some in torch.split(spins, step)]
    mean = torch.stack(parts).sum(0) / len(spins)
    ends = (mean - z.interval[1], mean - z.interval[0])
    return Bounds(mean - z.upper, mean - z.lower, ends, z.ess, z.largest, z.method, z.effort)


def _between_hidden(machine: Machine, spins: Tensor, beta: float, seed: int, z: Bounds) -> Bounds:
    if beta != 1.0:
        machine = scaled(machine, beta)
    rng = generator(seed, "hidden", device=machine.device)
    found = hidden_sums(machine, spins, rng)
    # Standard errors of independent parts add in squares.
    low = ((z.interval[1] - z.upper).square() + (1.96 * found.lower_error).square()).sqrt()
    high = ((z.lower - z.interval[0]).square() + (1.96 * found.upper_error).square()).sqrt()
    lower, upper = found.lower - z.upper, found.upper - z.lower
    return Bounds(
        lower,
        upper,
        (torch.minimum(lower, upper) - low, torch.maximum(lower, upper) + high),
        torch.where(z.ess.isinf(), torch.nan, z.ess),  # of the hidden sums there is one per image
        z.largest,
        "ais",
        f"{z.effort}; hidden units over {found.steps:,} temperatures",
        0.5 * (found.lower + found.upper) - found.mean_field,
    )
