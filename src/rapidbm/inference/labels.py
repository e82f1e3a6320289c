"""What one unit is likely to be, given the others.

    p(y | x_O) = Σ_h exp(−E(y, x_O, h)) / Σ_y' Σ_h exp(−E(y', x_O, h))                    (1)

A unit of q states takes q sums of each row, exact wherever `few_terms.py` serves; hidden units that are
coupled to each other and too many are annealed. Where other cells are missing, and too many to be
summed, they are drawn by clamped chains in which y is free, and (1) is averaged over the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable, words
from ..errors import check_count
from ..machines import trusted
from ..machines.cells import Cells, Place, cells_of, place_of, precise
from ..machines.machine import Machine
from ..progress import watch
from ..random import rng_from
from .annealed_rows import anneal_rows
from .chains import clamped_chains
from .few_terms import FewTerms, given_field, log_states

DRAWS = 20
SWEEPS = 100


@dataclass(frozen=True, repr=False)
class Prediction(Displayable):
    """What one unit is likely to be in every row.

    Attributes
    ----------
    states : Tensor of shape (q,), optional
        Values of the unit's states; None of a real unit.
    probabilities : Tensor of shape (e, rows, q), optional
        Probability of every state; None of a real unit.
    mean : Tensor of shape (e, rows), optional
        Mean of a real unit.
    deviation : Tensor of shape (e, rows), optional
        Standard deviation of a real unit.
    rhat : Tensor of shape (e, rows)
        R-hat of the row's chains; 1 where nothing was drawn.
    """

    states: Tensor | None
    probabilities: Tensor | None
    mean: Tensor | None
    deviation: Tensor | None
    rhat: Tensor

    def _facts(self) -> list[tuple[str, str]]:
        if self.states is None:
            assert self.mean is not None
            assert self.deviation is not None
            facts = [("mean", words(self.mean)), ("deviation", words(self.deviation))]
        else:
            assert self.probabilities is not None
            e, rows, q = self.probabilities.shape
            facts = [("probabilities", f"of {q} states in {rows:,} rows, {e} replicas")]
        drawn = int((self.rhat != 1).any(0).sum())
        how = f"R-hat of {drawn:,} rows up to {float(self.rhat.max()):.3g}" if drawn else "without draws"
        return [*facts, ("how", how)]


@torch.no_grad()
def predict(
    machine: Machine,
    rows: Any,
    unit: int,
    observed: Any = None,
    *,
    draws: int = DRAWS,
    sweeps: int = SWEEPS,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> Prediction:
    """Probabilities of the states of one visible unit given the other observed cells of each row.

    Parameters
    ----------
    machine : Machine
        The machine.
    rows : Split or array of shape (rows, units)
        Values of the visible units, or their columns; those of the unit itself are not looked at.
    unit : int
        Number of the visible unit, from 0.
    observed : array of bool of shape (rows, units), optional
        Which cells are observed; by default all that are not NaN.
    draws : int, default 20
        Draws of other missing cells, where they are too many to be summed.
    sweeps : int, default 100
        Gibbs sweeps of those chains.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Prediction
        Probabilities of the states, or of a real unit mean and standard deviation.

    Raises
    ------
    InputError
        If there is no such unit, or rows or mask do not fit the machine.

    Examples
    --------
    >>> machine = rb.rbm(3, 2, units=rb.Categorical((2, 3, 2)), biases=True, seed=0)
    >>> found = rb.predict(machine, [[1, 0, 0], [0, 0, 1]], unit=1)
    >>> found.probabilities.round(decimals=2).tolist()
    [[[0.33, 0.33, 0.33], [0.33, 0.33, 0.33]]]
    """
    number, place = place_of(machine, unit)
    cells = _unit_left_out(machine, rows, observed, number, place)
    check_count("the number of draws", draws)
    check_count("the number of sweeps", sweeps)
    rng = rng_from(seed, rng, "predict", device=machine.device)
    rhat = torch.ones((machine.replicas, len(cells)), dtype=torch.float64, device=machine.device)
    with watch("predicting", limit=limit, remedy="give fewer rows, draws= or sweeps="):
        asked = _Asked(machine, number, place, draws, sweeps, rng)
        found, known = asked.summed(cells)
        if not bool(known.all()):
            found[:, ~known], rhat[:, ~known] = asked.otherwise(cells.take(~known))
    states = place.values
    if states is not None:
        return Prediction(states, found, None, None, rhat)
    mean, square = found.unbind(-1)
    return Prediction(None, None, mean, (square - mean.square()).clamp(min=0.0).sqrt(), rhat)


def _unit_left_out(machine: Machine, rows: Any, observed: Any, number: int, place: Place) -> Cells:
    """The cells of rows with one unit missing, whatever stands there."""
    return cells_of(machine, rows, observed, ignored=number).without(number, place.where)


@dataclass(frozen=True)
class _Asked:
    """A question about one unit; answers are probabilities (e, c, q), or ⟨x⟩ and ⟨x²⟩ (e, c, 2)."""

    machine: Machine
    number: int
    place: Place
    draws: int
    sweeps: int
    rng: torch.Generator

    def __post_init__(self) -> None:
        object.__setattr__(self, "few", FewTerms.of(precise(self.machine)))

    few: FewTerms = None  # type: ignore[assignment]

    def summed(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """The answer by exact sums, and for which rows it is known, (c,)."""
        states = self.place.states
        if states is None:
            known = self.few.by(cells) > 0
            shape = (self.machine.replicas, len(cells), 2)
            found = torch.empty(shape, dtype=torch.float64, device=self.machine.device)
            if bool(known.any()):
                found[:, known] = self.few.moments(cells.take(known), self.place)
            return found, known
        sums, there = [], []
        for state in states.to(self.machine.device):
            one, known = self.few.log_sums(cells.having(self.number, self.place.where, state))
            sums.append(one)
            there.append(known)
        return torch.softmax(torch.stack(sums, -1), -1), torch.stack(there).all(0)

    def otherwise(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """The answer for rows without an exact sum, and R-hat, (e, c)."""
        machine, states = self.machine, self.place.states
        alone = cells.missing.sum(1) == 1
        if states is not None and not machine.layers.hidden_independent and bool(alone.all()):
            sums = [
                anneal_rows(machine, cells.having(self.number, self.place.where, x), self.rng).value
                for x in states.to(machine.device)
            ]
            return torch.softmax(torch.stack(sums, -1), -1), torch.ones_like(sums[0])
        run = clamped_chains(machine, cells, self.draws, self.sweeps, self.rng)
        total: Tensor | float = 0.0
        for spins in run.spins.unbind(2):  # a chain of every row, (e, c, n)
            total = total + self._given(spins) / run.spins.shape[2]
        assert isinstance(total, Tensor)
        return total, run.rhat

    def _given(self, spins: Tensor) -> Tensor:
        """The answer given the other visible units of configurations (e, c, n)."""
        machine = self.machine
        parts = []
        for replica, each in enumerate(spins[..., : machine.visible].double()):
            everything = torch.ones(len(each), machine.layers.visible_units, dtype=torch.bool)
            whole = Cells(each, everything.to(each.device), torch.ones_like(each, dtype=torch.bool))
            found, known = self.summed(whole.without(self.number, self.place.where))
            if not bool(known.all()):  # hidden units too: those of the chain
                found = self._in_field(spins)
            parts.append(found[replica])
        return torch.stack(parts)

    def _in_field(self, spins: Tensor) -> Tensor:
        layer = self.place.layer
        start = self.machine.layers.slices[layer].start
        inner = slice(self.place.where.start - start, self.place.where.stop - start)
        fields = trusted.field(self.machine, spins, layer)[..., inner].double()
        if self.place.states is None:
            return given_field(precise(self.machine), self.place, fields)
        return log_states(self.place, fields).exp()
