"""Draws of missing cells given the observed ones, and their means.

Where the sums of `few_terms.py` serve a row, its draws are exact and independent of each other. Else
they are the ends of clamped chains (`chains.py`), each of a chain of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import check_count
from ..machines.cells import Cells, cells_of, precise
from ..machines.machine import Machine
from ..progress import watch
from ..random import rng_from
from .chains import clamped_chains
from .few_terms import FewTerms

SWEEPS = 100


@dataclass(frozen=True, repr=False)
class Completed(Displayable):
    """Rows whose missing cells were drawn.

    Attributes
    ----------
    values : Tensor of shape (e, draws, rows, units)
        Values of the visible units, the observed ones as they were given.
    means : Tensor of shape (e, rows, columns), optional
        Mean of every column given the observed cells of its row: of a categorical unit the
        probabilities of its states, of a spin ⟨x⟩.
    rhat : Tensor of shape (e, rows)
        R-hat of the row's chains; 1 where draws are exact.
    exact : Tensor of shape (rows,), bool
        Which rows were drawn exactly.
    """

    values: Tensor
    means: Tensor | None
    rhat: Tensor
    exact: Tensor

    def _facts(self) -> list[tuple[str, str]]:
        e, draws, rows, units = self.values.shape
        shape = f"{draws} draws of {rows:,} rows of {units} units, {e} replicas"
        exact, mixed = int(self.exact.sum()), f"R-hat up to {float(self.rhat.max()):.3g}"
        return [
            ("values", shape),
            ("how", f"{exact:,} rows exactly, {rows - exact:,} by chains, {mixed}"),
        ]


@torch.no_grad()
def draw_missing(
    machine: Machine,
    rows: Any,
    observed: Any = None,
    *,
    draws: int = 1,
    sweeps: int = SWEEPS,
    means: bool = False,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> Completed:
    """Rows with their missing cells drawn from the machine given the observed ones.

    Parameters
    ----------
    machine : Machine
        The machine.
    rows : Split or array of shape (rows, units)
        Values of the visible units, or their columns. What is not observed may hold anything.
    observed : array of bool of shape (rows, units), optional
        Which cells are observed; by default all that are not NaN.
    draws : int, default 1
        Draws of every row, independent of each other where the row is drawn exactly.
    sweeps : int, default 100
        Gibbs sweeps of a row's chains that are recorded, after half as many more; chains that do not
        agree start again and make four times as many.
    means : bool, default False
        Whether the means of missing cells are wanted, too.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Completed
        Values, means, and how far the chains agree.

    Raises
    ------
    InputError
        If rows or mask do not fit the machine.

    Examples
    --------
    >>> machine = rb.rbm(3, 2, units=rb.Categorical((2, 3, 2)), biases=True, seed=0)
    >>> found = rb.draw_missing(machine, [[1, float("nan"), 0]], draws=4, seed=0)
    >>> found.values.shape, found.values[..., 0].unique().tolist()
    (torch.Size([1, 4, 1, 3]), [1.0])
    """
    cells = cells_of(machine, rows, observed)
    check_count("the number of draws", draws)
    check_count("the number of sweeps", sweeps)
    machine.check_chains(draws * len(cells))
    rng = rng_from(seed, rng, "missing", device=machine.device)
    with watch("drawing missing cells", limit=limit, remedy="give fewer rows, draws= or sweeps="):
        columns, found_means, rhat, exact = completed(
            machine, FewTerms.of(precise(machine)), cells, draws, sweeps, means, rng
        )
    return Completed(machine.layers.decode(columns).to(torch.float64), found_means, rhat, exact)


def completed(
    machine: Machine,
    few: FewTerms,
    cells: Cells,
    draws: int,
    sweeps: int,
    means: bool,
    rng: torch.Generator,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Columns (e, draws, c, v), their means (e, c, v), R-hat (e, c), and which rows are exact (c,)."""
    exact = few.by(cells) > 0
    shape = (machine.replicas, draws, *cells.columns.shape)
    columns = torch.empty(shape, dtype=torch.float64, device=machine.device)
    all_means = torch.empty((shape[0], *shape[2:]), dtype=torch.float64, device=machine.device)
    rhat = torch.ones(shape[0], shape[2], dtype=torch.float64, device=machine.device)
    if bool(exact.any()):
        some = cells.take(exact)
        columns[:, :, exact] = few.draw(some, draws, rng)
        if means:
            all_means[:, exact] = few.unit_means(some)
    if not bool(exact.all()):
        run = clamped_chains(machine, cells.take(~exact), draws, sweeps, rng)
        seen = run.spins[:, :, :draws, : machine.visible].double()
        kept = cells.take(~exact)
        seen = torch.where(kept.held[:, None], kept.columns[:, None], seen)
        columns[:, :, ~exact] = seen.movedim(2, 1)
        all_means[:, ~exact], rhat[:, ~exact] = run.means, run.rhat
    return columns, all_means if means else None, rhat, exact


def probabilities(means: Tensor) -> Tensor:
    """Of the states of a unit, (rows, q), from the means of its columns."""
    return torch.cat([1 - means, 1 + means], 1) / 2 if means.shape[1] == 1 else means


def in_turn(values: Tensor, draws: int, rng: torch.Generator) -> Tensor:
    """So many of the draws (e, d, rows, units) of all replicas, (draws, rows, units): in each row from as
    many replicas as there are draws for, which ones by chance."""
    e, d, rows, _ = values.shape
    if e == 1:
        return values[0, :draws]
    order = torch.rand((d, rows, e), generator=rng, device=rng.device).argsort(-1)  # replicas of each row
    chosen = order.movedim(2, 1).flatten(0, 1)[:draws].to(values.device)  # (draws, rows)
    which = torch.arange(d).repeat_interleave(e)[:draws, None].to(values.device)
    return values[chosen, which, torch.arange(rows, device=values.device)]
