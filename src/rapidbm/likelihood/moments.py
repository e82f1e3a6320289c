"""Exact first and second moments, ⟨s_i⟩ and ⟨s_i s_j⟩, by the ways that give an exact log Z.

Enumeration sums over states (`enumeration.py`), quadrature over Gaussian fields (`quadrature.py`):
either way the other units are independent given what is summed over, and ⟨s_i s_j⟩ is the mean of a
product of means. Counting sums over the magnetisations M_t of the n_t units of each kind
(`counting.py`); for two units of a kind

    ⟨s_i s_j⟩ = (⟨M_t²⟩ − n_t) / (n_t (n_t − 1))                                          (1)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import check_beta
from ..machines import trusted
from ..machines.enumeration import enumerate_spins, free_layers, log_weight
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import Watch, watch, watched
from .counting import sides
from .counting import terms as terms_by_kinds
from .exact import exact_method
from .quadrature import lattice


@dataclass(frozen=True, repr=False)
class Moments(Displayable):
    """Means and pair moments of all units.

    Attributes
    ----------
    mean : Tensor of shape (e, n), float64
        ⟨s_i⟩.
    pairs : Tensor of shape (e, n, n), float64
        ⟨s_i s_j⟩, with 1 on the diagonal.
    method : str
        How the sum was done.
    """

    mean: Tensor  # (e, n) float64
    pairs: Tensor  # (e, n, n) float64
    method: str


@watched("exact moments", remedy="use samples")
@torch.no_grad()
def exact_moments(machine: Machine, *, beta: float = 1.0, limit: float | None = None) -> Moments:
    """Exact ⟨s_i⟩ and ⟨s_i s_j⟩ of all units, by the cheapest of enumeration, counting and quadrature.

    Parameters
    ----------
    machine : Machine
        A machine within reach of an exact sum.
    beta : float, default 1.0
        Inverse temperature.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Moments
        Means (e, n) and pair moments (e, n, n).

    Raises
    ------
    InputError
        If no exact sum is within reach.

    Examples
    --------
    >>> rb.exact_moments(rb.rbm(4, 3, seed=0)).pairs.shape
    torch.Size([1, 7, 7])
    """
    check_beta(beta)
    method, terms = exact_method(machine, beta, half=False, what="exact moments")
    double = copy.deepcopy(machine).double()
    with watch(f"moments by {method}", terms * machine.replicas) as tick:
        both = [METHODS[method](double, e, beta, tick) for e in range(machine.replicas)]
    mean = torch.stack([m for m, _ in both])
    pairs = torch.stack([p for _, p in both])
    if machine.layers.spins:
        pairs.diagonal(dim1=1, dim2=2).fill_(1.0)
    return Moments(mean, pairs, method)


def _by_enumeration(machine: Machine, replica: int, beta: float, tick: Watch) -> tuple[Tensor, Tensor]:
    machine = machine.replica(replica)
    layers, free = machine.layers, free_layers(machine.layers)
    others = [i for i in free if machine.unit(i).square == "other"]

    def parts() -> Iterator[tuple[Tensor, Tensor]]:
        for spins in enumerate_spins(machine, half=False):
            logs = log_weight(machine, spins, free, beta)[0]
            rows = trusted.infer(machine, spins.clone(), free, beta)[0]
            # What the squares of units, known by their means alone, have more than those of the means.
            more = [machine.unit(i).variance(trusted.field(machine, spins, i), beta)[0] for i in others]
            yield logs, torch.cat([rows, *more], 1)

    n = layers.columns
    mean, pairs = _average(parts(), tick)
    spread, mean, pairs = mean[n:], mean[:n], pairs[:n, :n]
    for layer in free:
        where, same = layers.slices[layer], layers.same_unit(layer)
        if layer in others:
            pairs[where, where].diagonal().add_(spread[: layers.sizes[layer]])
            spread = spread[layers.sizes[layer] :]
        elif machine.unit(layer).square == "linear":
            block = torch.eye(layers.sizes[layer], dtype=torch.bool) if same is None else same
            pairs[where, where].masked_fill_(block.to(pairs.device), 0.0)
            pairs[where, where].diagonal().copy_(mean[where])
        else:
            pairs[where, where].diagonal().fill_(1.0)
    return mean, pairs


def _by_quadrature(machine: Machine, replica: int, beta: float, tick: Watch) -> tuple[Tensor, Tensor]:
    kinds, parts = lattice(machine, replica, beta)
    mean, pairs = _average(((logs, SPIN.mean(field)) for logs, field in parts), tick)
    return _of_units(mean, pairs, kinds.which, kinds.flip)


def _by_counting(machine: Machine, replica: int, beta: float, tick: Watch) -> tuple[Tensor, Tensor]:
    layer, counted, summed = sides(machine, replica)
    n = counted.counts.double()
    parts = (
        (logs, torch.cat([magnet / n, SPIN.mean(field)], 1))
        for logs, magnet, field in terms_by_kinds(machine, replica, counted, summed, beta)
    )
    mean, pairs = _average(parts, tick)
    own = torch.arange(len(n), device=n.device)
    pairs[own, own] = (pairs[own, own] * n.square() - n) / (n * (n - 1)).clamp(min=1.0)  # eq. (1)
    order = [(counted.which, counted.flip), (summed.which + len(n), summed.flip)]
    if layer == 1:
        order.reverse()
    return _of_units(mean, pairs, *(torch.cat(both) for both in zip(*order, strict=True)))


METHODS = {"counting": _by_counting, "quadrature": _by_quadrature, "enumeration": _by_enumeration}


def _of_units(mean: Tensor, pairs: Tensor, which: Tensor, flip: Tensor) -> tuple[Tensor, Tensor]:
    """Moments of units from those of their kinds."""
    return mean[which] * flip, pairs[which][:, which] * flip * flip[:, None]


def _average(parts: Iterable[tuple[Tensor, Tensor]], tick: Watch) -> tuple[Tensor, Tensor]:
    """Mean and mean product of rows (c, d) with log weights (c,)."""
    peak, total = -math.inf, 0.0
    mean = pairs = torch.zeros(())
    for logs, rows in parts:
        top = max(peak, float(logs.max()))
        weights = (logs - top).exp()
        old = math.exp(peak - top)
        weighted = rows * weights[:, None]
        first, second = weighted.sum(0), rows.T @ weighted
        mean, pairs = mean.to(rows) * old + first, pairs.to(rows) * old + second
        total, peak = total * old + float(weights.sum()), top
        tick.add(len(logs))
    return mean / total, pairs / total
