"""Partition function and likelihood, exact or with an interval.

    Z = Σ_s exp(−β E(s)),        log p(v) = log Σ_h exp(−β E(v, h)) − log Z               (1)

`exact` enumerates in float64, counts states by the kinds of their units or integrates over Gaussian
fields, whichever is least (`exact.py`), and the interval is a point. `ais` anneals from several bases,
there and back (`annealed.py`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..accel.devices import by_device
from ..arrays import mean_one
from ..data.splits import Split
from ..errors import InputError, check_beta, check_choice, check_count
from ..estimates import WIDE, Bounds
from ..machines.enumeration import (
    enumerate_spins,
    free_layers,
    log_prob_unnormalised,
    log_weight,
    states_of,
)
from ..machines.machine import Machine, scaled
from ..machines.spins import weights_of
from ..progress import report_progress, watch
from ..random import seed_from, stream
from ..sampling.chain_shards import ChainShards
from .annealed import annealed
from .counting import log_z_by_counting
from .exact import QUICK, TERMS, can_be_exact, exact_method
from .hidden_sums import bounds_of, hidden_sums
from .quadrature import log_z_by_quadrature
from .row_means import RowMeans

HIDDEN = 2**16  # hidden states per image that are summed one by one
Method = Literal["auto", "exact", "ais"]


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
    shards: int | None = None,
    limit: float | None = None,
) -> Bounds:
    """log Z, the logarithm of the partition function, exact or with a 95 % interval.

    Annealing starts from free spins, from the biases, from modes of mean field and, with `data`, from
    the data's marginals.

    Parameters
    ----------
    machine : Machine
        The machine.
    method : {"auto", "exact", "ais"}, default "auto"
        "auto" is exact where at most 2^20 terms suffice, else "ais", annealing in both directions.
    beta : float, default 1.0
        Inverse temperature.
    seed : int, optional
        Seed of the annealing.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    data : Split or array of shape (samples, v), optional
        Training data, whose marginals are one base of annealing.
    samples : Tensor of shape (e, c, n), optional
        Equilibrated configurations for the way back; by default forward chains are resampled and swept.
    chains : int, optional
        Chains from each base; 500, on a GPU 2,000.
    most : int, default 10_000
        Largest number of temperatures.
    shards : int, optional
        Parts of the chains with random numbers of their own, shared by the processes of `in_ranks`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Bounds
        log Z in nats, one value per replica.

    Raises
    ------
    InputError
        If an exact sum is asked for that is out of reach.

    Examples
    --------
    >>> machine = rb.rbm(8, 6, patterns=2, scale=0.3, seed=0)
    >>> exact, annealed = rb.log_z(machine), rb.log_z(machine, method="ais", seed=0)
    >>> bool(annealed.lower <= exact.value), bool(exact.value <= annealed.upper)
    (True, True)
    """
    check_choice("method for log Z", method, ("auto", "exact", "ais"))
    check_beta(beta)
    if method == "exact" or (method == "auto" and can_be_exact(machine, QUICK, beta)):
        with watch("exact log Z", limit=limit, remedy="anneal it (method='ais')"):
            return _exact(machine, beta)
    chains = by_device(machine.device, 500, 2000) if chains is None else chains
    machine.check_chains(chains, least=2)
    check_count("the largest number of temperatures", most, least=2)
    return annealed(
        machine,
        seed_from(seed, rng),
        beta=beta,
        data=data,
        samples=samples,
        chains=chains,
        most=most,
        limit=limit,
        shards=ChainShards.over(shards),
    ).bounds


def _exact(machine: Machine, beta: float) -> Bounds:
    method, terms = exact_method(machine, beta, half=machine.symmetric, what="exact log Z")
    return Bounds.exactly(METHODS[method](machine, beta), f"{terms:,} {TERMS[method]}")


def _by_enumeration(machine: Machine, beta: float) -> Tensor:
    double = copy.deepcopy(machine).double()
    free = free_layers(machine.layers)
    total = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64, device=machine.device)
    for spins in enumerate_spins(double, half=machine.symmetric):
        part = torch.logsumexp(log_weight(double, spins, free, beta), 1)
        total = torch.logaddexp(total, part)
    if machine.symmetric and len(free) < len(machine.layers.sizes):  # s and −s weigh the same
        total = total + math.log(2.0)
    return total


METHODS = {
    "counting": log_z_by_counting,
    "quadrature": log_z_by_quadrature,
    "enumeration": _by_enumeration,
}


@torch.no_grad()
def log_likelihood(
    machine: Machine,
    data: Any,
    *,
    method: Method = "auto",
    beta: float = 1.0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    normaliser: Bounds | None = None,
    limit: float | None = None,
) -> Bounds:
    """The mean of log p(v) over data, in nats per row; by the weights of a `Split` that has some.

    Where hidden units are coupled to each other and too many to enumerate, the sum over them is annealed
    too; `gap` then says how far the variational bound (mean field) lies below, measured on evenly spaced
    rows.

    Parameters
    ----------
    machine : Machine
        The machine. Where visible units are real numbers p(v) is a density.
    data : Split or array of shape (samples, v)
        Rows to evaluate, as `Layers.encode` takes them. Of a split on disk some rows are taken, and the
        interval covers the mean over all.
    method : {"auto", "exact", "ais"}, default "auto"
        How log Z is found, as in `log_z`.
    beta : float, default 1.0
        Inverse temperature.
    seed : int, optional
        Seed of the annealing.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    normaliser : Bounds, optional
        log Z of this machine, if it is known already.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Bounds
        Mean log p, one value per replica.

    Raises
    ------
    InputError
        If the data have another width than the visible layer.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, scale=1e-6, seed=0), rb.load("bars4")
    >>> round(float(rb.log_likelihood(machine, data.test).value), 3)  # 16 fair coins
    -11.09
    """
    check_beta(beta)
    data = data.in_memory() if isinstance(data, Split) else data
    spins, weights = machine.layers.encode(data), mean_one(weights_of(data))
    if spins.dim() != 2 or spins.shape[1] != machine.visible:
        raise InputError(
            f"the likelihood needs data (samples, {machine.visible}), not {tuple(spins.shape)}"
        )
    seed = seed_from(seed, rng)
    with watch("log-likelihood", limit=limit, remedy="take fewer samples or method='exact'"):
        z = normaliser or log_z(machine, method=method, beta=beta, seed=seed, data=spins)
        if states_of(machine.layers, machine.layers.visible) > HIDDEN:
            return _of_rows(_with_hidden(machine, spins, beta, seed, z, weights), data, None)
        double = copy.deepcopy(machine).double()
        step = max(1, 2**24 // (machine.layers.columns * machine.replicas))
        total, squares = torch.zeros_like(z.value), torch.zeros_like(z.value)
        for start in range(0, len(spins), step):
            each = log_prob_unnormalised(double, spins[start : start + step], beta)
            if weights is None:
                total += each.sum(1)
                squares += each.square().sum(1)
            else:
                own = weights[start : start + step].to(each)
                total += each @ own
                squares += each.square() @ own
            report_progress()
    mean = total / len(spins)
    return _of_rows(_less(mean, z), data, (squares / len(spins) - mean.square()).clamp(min=0.0))


def log_bound(machine: Machine, data: Any, z: Bounds) -> Bounds:
    """The same with the sum over hidden units bounded from below by mean field: what is proven of mean
    log p, as far as log Z is known."""
    data = data.in_memory() if isinstance(data, Split) else data
    logs = bounds_of(machine, machine.layers.encode(data))  # (e, rows)
    found = RowMeans.of(logs, mean_one(weights_of(data)))
    return _of_rows(_less(found.mean, z), data, found.deviation.square())


def _less(mean: Tensor, z: Bounds) -> Bounds:
    """A mean less log Z."""
    return replace(
        z,
        value=mean - z.value,
        lower=mean - z.upper,
        upper=mean - z.lower,
        forward=mean - z.forward,
        back=mean - z.back,
    )


def _of_rows(found: Bounds, data: Any, variance: Tensor | None) -> Bounds:
    """The interval of the mean over all rows, where some were taken: wider by the error of the draw, with
    the variance of log p among rows, if that is known."""
    if not isinstance(data, Split) or data.of is None or data.of <= len(data):
        return found
    told = f"{len(data):,} of {data.of:,} rows"
    if variance is None:
        note = f"{found.note}; " if found.note else ""
        return replace(found, note=f"{note}of {told}, and the interval knows nothing of the others")
    drawn = WIDE * (variance * (1.0 - len(data) / data.of) / len(data)).sqrt()
    return replace(
        found,
        lower=found.value - torch.hypot(found.value - found.lower, drawn),
        upper=found.value + torch.hypot(found.upper - found.value, drawn),
        method="rows" if found.method == "exact" else found.method,
        effort=f"{found.effort}; {told}",
    )


def _with_hidden(
    machine: Machine, spins: Tensor, beta: float, seed: int, z: Bounds, weights: Tensor | None
) -> Bounds:
    if beta != 1.0:
        machine = scaled(machine, beta)
    rng = stream(seed, "hidden", device=machine.device)
    sums = hidden_sums(machine, spins, rng, weights=weights)
    forward, back = sums.forward.value, sums.back.value
    value = 0.5 * (forward + back)
    low, high = sums.interval(WIDE)
    # Errors of independent parts add in squares.
    return Bounds(
        value - z.value,
        value - z.value - torch.hypot(value - low, z.upper - z.value),
        value - z.value + torch.hypot(high - value, z.value - z.lower),
        forward - z.forward,
        back - z.back,
        torch.where(z.ess.isinf(), torch.nan, z.ess),  # of the hidden sums there is one per image
        z.largest,
        "ais",
        f"{z.effort}; hidden units over {sums.steps:,} temperatures{_how_many(sums.images, spins)}",
        value - sums.mean_field,
        z.note,
    )


def _how_many(annealed: int, spins: Tensor) -> str:
    return "" if annealed == len(spins) else f", those of {annealed:,} of {len(spins):,} samples"
