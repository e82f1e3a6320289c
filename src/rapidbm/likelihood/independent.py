"""Does a machine fit its data worse than independent columns do? A proof, where there is a cheap one.

Columns that know nothing of each other have the marginals p_i of the data (smoothed by one observation of
each spin), and the mean log-likelihood

    L_0 = Σ_i [ p_i log p_i + (1 − p_i) log(1 − p_i) ]                                    (1)

A machine has L = ⟨log f(v)⟩ − log Z with f(v) = Σ_h exp(−E(v, h)). Any states s, each counted once, and
any means μ of independent units, with their entropy S, bound log Z from below:

    log Z ≥ log Σ_s f(s),        log Z ≥ S(μ) − E(μ)                                      (2)

the first is tight where few states have all the weight, as when couplings run away, the second (Gibbs and
Bogoliubov) where the machine is hot. So L ≤ ⟨log f(v)⟩ − (2), and if that is below (1) the machine is,
whatever log Z may be. Where log Z is a matter of milliseconds it is exact.

No proof, but near the truth, is L with the larger of (2) and a short annealing from the marginals
(`gain`).
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import effective_rows, mean_one
from ..display import Displayable
from ..errors import FitWarning
from ..machines import trusted
from ..machines.enumeration import log_prob_unnormalised, log_weight, states_of
from ..machines.machine import Machine
from ..machines.spins import column_sums
from ..machines.units.spin import SPIN
from ..sampling import annealing
from ..sampling.bases import path_to
from ..sampling.gibbs import run_sweeps
from ..sampling.mean_field import relax, variational_bound
from ..sampling.paths import free_at_0
from .log_z import log_z
from .row_means import RowMeans

IMAGES = 1000  # of the data that are judged, at most
STATES = 2**22  # hidden states of all images together that are summed
EXACT = 2**23  # numbers that an exact log Z may run through
CHAINS, SWEEPS = 32, 10
UNITS = 2**17  # of a machine, at most: chains of more take as much memory as its parameters
CLEAR = 0.1  # nats below which nothing is said
ANNEALED, STEPS = 100, 100  # chains and temperatures of a short annealing


@dataclass(frozen=True, repr=False)
class Fit(Displayable):
    """What is proven about the mean log-likelihood of data, in nats per sample."""

    most: Tensor  # (e,): it is not larger
    columns: float  # that of independent columns, eq. (1)
    images: int  # of the data, as many as were looked at
    least: Tensor  # (e,): log Z is not smaller
    exact: bool  # whether it is `least`

    @property
    def below(self) -> Tensor:
        """Replicas that are proven to be below independent columns, (e,)."""
        return self.most < self.columns - CLEAR


@torch.no_grad()
def fit(machine: Machine, data: Any, rng: torch.Generator, weights: Tensor | None = None) -> Fit | None:
    """An upper bound on the log-likelihood beside that of independent columns, of rows that may have
    weights (samples,); None where the sum over hidden units, or the bound, would take long."""
    if machine.layers.columns > UNITS:
        return None
    spins = machine.layers.encode(data)
    every = -(-len(spins) // IMAGES)
    images, weights = spins[::every], mean_one(weights)
    own = None if weights is None else weights[::every]
    if len(images) * states_of(machine.layers, machine.layers.visible) > STATES:
        return None
    columns = float(RowMeans.of(log_columns(machine, spins, images, weights=weights)[None], own).mean)
    double = copy.deepcopy(machine).double().requires_grad_(False)
    step = max(1, 2**22 // (double.layers.columns * double.replicas))
    if own is None:
        parts = [log_prob_unnormalised(double, x).sum(1) for x in torch.split(images, step)]
        seen = torch.stack(parts).sum(0) / len(images)
    else:
        whole = torch.cat([log_prob_unnormalised(double, x) for x in torch.split(images, step)], 1)
        seen = RowMeans.of(whole, own).mean
    cost = states_of(machine.layers) * machine.layers.columns * machine.replicas
    exact = cost <= EXACT
    one = log_z(machine, method="exact").value if exact else least_log_z(machine, double, images, rng)
    return Fit((seen - one).cpu(), columns, len(images), one.cpu(), exact)


def log_columns(
    machine: Machine,
    rows: Tensor,
    images: Tensor,
    known: Tensor | None = None,
    known_images: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """log p of the known cells of some rows, (samples,), if the visible units of a machine knew nothing
    of each other: by the smoothed marginals of the known cells of all rows, encoded ones (samples, v),
    which may have weights (samples,)."""
    layers, total = machine.layers, torch.zeros(len(images), dtype=torch.float64)
    if known is not None:
        rows = torch.where(known, rows, 0)
    every: Any = len(rows)
    if weights is not None:
        every = effective_rows(weights)
        weights = (weights * (every / weights.sum())).to(rows.device)
    sums = column_sums(rows, weights)
    for layer in layers.visible:
        where, unit = layers.slices[layer], layers.kinds[layer]
        if unit.parameters:
            whole, own = rows[:, where], weights
            if known is not None:  # of rows in which nothing of the layer is missing, if there are any
                kept = known[:, where].all(1)
                kept = kept if weights is None else kept & (weights > 0)
                if bool(kept.any()):
                    whole, own = whole[kept], None if weights is None else weights[kept]
            unit = unit.with_parameters(unit.fitted(whole) if own is None else unit.fitted(whole, own))
        count: Any = every
        if known is not None:
            here = known[:, where]
            count = here.sum(0) if weights is None else column_sums(here, weights)
        mean, seen = unit.smoothed_mean(sums[where], count), images[:, where].double()
        if unit == SPIN:
            up, p = (seen + 1.0) / 2.0, (1.0 + mean) / 2.0
            each = up * p.log() + (1.0 - up) * (1.0 - p).log()
        else:
            field = unit.field_of(mean[None])
            each = unit.per_unit(seen * field) - unit.energy(seen) - unit.log_sum(field)
        if known_images is not None:
            here = unit.per_unit(known_images[:, where].double()) > 0
            each = torch.where(here, each, 0.0)
        total = total + each.sum(1).cpu()
    return total


@torch.no_grad()
def gain(machine: Machine, data: Any, rng: torch.Generator) -> Tensor | None:
    """About how far the mean log-likelihood of data lies above that of independent columns, nats (e,);
    exact where log Z is, else log Z is the larger of what is proven and a short annealing."""
    found = fit(machine, data, rng)
    if found is None:
        return None
    above = found.most - found.columns
    if found.exact:
        return above
    betas = torch.linspace(0, 1, STEPS + 1).tolist()
    logs, _ = annealing.forward(path_to(machine, data), betas, ANNEALED, rng)
    annealed = annealing.LogMean.of(logs).value.cpu()
    return above - (annealed - found.least).clamp(min=0.0)


def least_log_z(machine: Machine, double: Machine, images: Tensor, rng: torch.Generator) -> Tensor:
    """The larger of eq. (2), (e,); `double` is the machine in float64."""
    ends = _settled(machine, images, rng).double()
    kept = [unit for i, unit in enumerate(machine.layers.kinds) if i not in machine.layers.inferred]
    if not all(unit.listed for unit in kept):
        return log_z_by_means(double, ends)  # of real units a sum over some states bounds no integral
    return torch.maximum(log_z_by_states(double, ends), log_z_by_means(double, ends))


def _settled(machine: Machine, visible: Tensor, rng: torch.Generator) -> Tensor:
    """Chains a few sweeps after random spins, data and patterns, (e, c, n)."""
    starts = [machine.random(CHAINS, rng), trusted.with_visible(machine, visible[:CHAINS])]
    if machine.patterns is not None:
        xi = machine.patterns.detach()[:, :CHAINS]
        starts.append(machine.by_layer(lambda unit, x: unit.nearest(x), xi))
    return run_sweeps(machine, torch.cat(starts, 1), rng, SWEEPS)


@torch.no_grad()
def log_z_by_states(machine: Machine, spins: Tensor) -> Tensor:
    """The first of eq. (2) over configurations (e, c, n), (e,)."""
    free = machine.layers.inferred  # summed over in closed form
    kept = free_at_0(machine.layers, spins, spins.dtype)
    if machine.symmetric:  # s and −s
        kept = torch.cat([kept, -kept], 1)
    sums = []
    for e, each in enumerate(kept):
        one, states = machine.replica(e), torch.unique(each, dim=0)
        sums.append(torch.logsumexp(log_weight(one, states[None], free, 1.0), 1))
    return torch.cat(sums)


@torch.no_grad()
def log_z_by_means(machine: Machine, spins: Tensor) -> Tensor:
    """The best of the second of eq. (2), means iterated from these configurations, (e,)."""
    means = relax(machine, spins.clone(), machine.layers.order, SWEEPS)
    return variational_bound(machine, means).amax(1)


ADVICE = (
    "Completions may be good all the same; for likelihoods train with persistent chains, biases and "
    "small couplings (preset small, docs/training.md), or at a smaller rate"
)


def warn_of_fit(fitted: Fit | None, advice: str = ADVICE) -> None:
    """Says so when replicas are below independent columns, and what to do."""
    if fitted is None or not bool(fitted.below.any()):
        return
    count, replicas = int(fitted.below.sum()), len(fitted.below)
    who = "this training ends" if replicas == 1 else f"{count} of {replicas} replicas end"
    most = float(fitted.most[fitted.below].max())
    warnings.warn(
        f"{who} below independent columns: the mean log-likelihood of {fitted.images:,} training images "
        f"is {most:,.1f} nats or less, and {fitted.columns:,.1f} without any coupling. {advice}",
        FitWarning,
        stacklevel=3,
    )
