"""log p of rows of which some cells are missing: the missing ones are summed over, never filled in.

    log p(x_O) = log Σ_{x_M, h} exp(−E(x_O, x_M, h)) − log Z                              (1)

The sum is exact where the hidden side or the missing cells have few states (`few_terms.py`), else
annealed with the observed cells held (`annealed_rows.py`). A row of which nothing is observed has log p
= 0.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ..errors import check_count
from ..estimates import Bounds
from ..likelihood.log_z import log_z
from ..machines.cells import Cells, cells_of, precise
from ..machines.machine import Machine
from ..progress import watch
from ..random import seed_from, stream
from .annealed_rows import CHAINS, RowSums, anneal_rows
from .few_terms import FewTerms


@torch.no_grad()
def log_p(
    machine: Machine,
    rows: Any,
    observed: Any = None,
    *,
    normaliser: Bounds | None = None,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    chains: int | None = None,
    limit: float | None = None,
) -> Bounds:
    """log p of every row in nats, missing cells summed over, exact or with a 95 % interval.

    Where some visible units are real numbers p is a density.

    Parameters
    ----------
    machine : Machine
        The machine.
    rows : Split or array of shape (rows, units)
        Values of the visible units, or their columns, as `Layers.encode` takes them. What is not
        observed may hold anything.
    observed : array of bool of shape (rows, units), optional
        Which cells are observed, by unit or by column; by default all that are not NaN.
    normaliser : Bounds, optional
        log Z of this machine, if it is known already.
    seed : int, optional
        Seed of the annealing.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    chains : int, optional
        Chains for each row where its sum is annealed; 20 from each of two bases.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Bounds
        log p, (e, rows); 0 of a row of which nothing is observed.

    Raises
    ------
    InputError
        If rows or mask do not fit the machine, or an observed value is no state of its unit.

    Examples
    --------
    >>> machine = rb.rbm(3, 2, units=rb.Categorical((2, 3, 2)), biases=True, seed=0)
    >>> rows = [[1, 2, 0], [1, float("nan"), 0], [float("nan")] * 3]
    >>> rb.log_p(machine, rows).value.round(decimals=2).tolist()
    [[-2.48, -1.39, 0.0]]
    """
    cells = cells_of(machine, rows, observed)
    if chains is not None:
        check_count("the number of chains", chains, least=2)
    seed = seed_from(seed, rng)
    with watch("log p of rows", limit=limit, remedy="give fewer rows or chains="):
        z = normaliser or log_z(machine, seed=seed)
        sums = row_sums(machine, cells, stream(seed, "rows", device=machine.device), chains or CHAINS)
    return less(sums, z, ~cells.observed.any(1))


def row_sums(machine: Machine, cells: Cells, rng: torch.Generator, chains: int = CHAINS) -> RowSums:
    """log Σ exp(−E) over what is not observed of every row; `steps` is 0 where all are exact."""
    exact, known = FewTerms.of(precise(machine)).log_sums(cells)
    sums = exactly(exact)
    # With nothing observed it is log Z, which the caller has.
    rows = (~known & cells.observed.any(1)).nonzero()[:, 0]
    if not len(rows):
        return sums
    annealed = anneal_rows(machine, cells.take(rows), rng, chains=chains)
    for field in fields(RowSums):
        if field.name != "steps":
            getattr(sums, field.name)[:, rows] = getattr(annealed, field.name)
    return RowSums(
        sums.value,
        sums.lower,
        sums.upper,
        sums.forward,
        sums.back,
        sums.ess,
        sums.largest,
        annealed.steps,
    )


def exactly(value: Tensor) -> RowSums:
    """Sums without an error."""
    none = torch.zeros_like(value)
    ends = {name: value.clone() for name in ("lower", "upper", "forward", "back")}
    return RowSums(value, **ends, ess=none + torch.inf, largest=none, steps=0)


def less(sums: RowSums, z: Bounds, nothing: Tensor) -> Bounds:
    """Sums less log Z; of rows of which nothing is observed 0."""

    def clear(values: Tensor, by: float = 0.0) -> Tensor:
        return values.masked_fill(nothing, by)

    def of_z(values: Tensor) -> Tensor:
        return values.to(sums.value.device)[:, None]

    value = sums.value - of_z(z.value)
    # Errors of independent parts add in squares.
    down = torch.hypot(sums.value - sums.lower, of_z(z.upper - z.value))
    up = torch.hypot(sums.upper - sums.value, of_z(z.value - z.lower))
    exact = z.method == "exact" and not sums.steps
    effort = z.effort
    if sums.steps:
        effort = f"{effort}; rows over up to {sums.steps:,} temperatures"
    return Bounds(
        clear(value),
        clear(value - down),
        clear(value + up),
        clear(sums.forward - of_z(z.forward)),
        clear(sums.back - of_z(z.back)),
        clear(torch.minimum(sums.ess, of_z(z.ess)), torch.inf),
        clear(torch.maximum(sums.largest, of_z(z.largest))),
        "exact" if exact else "ais",
        effort,
        note=z.note,
    )
