"""How usual a row is, and which of its cells is not.

The score of a row is log p of its observed cells; the part of a cell is

    log p(x_i | all other observed cells)                                                 (1)

of a listed unit the logarithm of a probability, of a real one that of a density. The cell of the
smallest part is the one that the others least expect. The parts do not add up to the score: what two
cells say of each other counts in both.

Where all that is missing can be summed (1) is a difference of two sums. Of a row with nothing missing,
and hidden units that are independent given the visible ones, a state in the place of x_i changes the
fields on them by a column of couplings, which is all that is computed. Missing cells that are too many
are drawn given the observed ones, and then

    1 / p(x_i | x_O∖i) = ⟨ 1 / p(x_i | x_O∖i, x_M) ⟩_{x_M | x_O}                          (2)

an identity (Gelfand, Dey and Chang 1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable, words
from ..errors import check_count
from ..estimates import Bounds
from ..likelihood.log_z import log_z
from ..machines import trusted
from ..machines.cells import Cells, Place, cells_of, precise
from ..machines.machine import Machine
from ..progress import report_progress, watch
from ..random import seed_from, stream
from .chains import clamped_chains
from .few_terms import CHUNK, FewTerms, log_states
from .rows import less, row_sums

DRAWS = 20
SWEEPS = 100


@dataclass(frozen=True, repr=False)
class Scores(Displayable):
    """How usual rows are, and their cells.

    Attributes
    ----------
    log_p : Bounds
        log p of the observed cells of each row, (e, rows).
    parts : Tensor of shape (e, rows, units)
        log p of each observed cell given the other observed ones; NaN of a missing cell.
    """

    log_p: Bounds
    parts: Tensor

    def _facts(self) -> list[tuple[str, str]]:
        return [("log p", words(self.log_p.value)), ("how", f"{self.log_p.method}: {self.log_p.effort}")]

    @property
    def unusual(self) -> Tensor:
        """The unit whose cell the others of its row least expect, (e, rows)."""
        return self.parts.nan_to_num(nan=math.inf).argmin(-1)


@torch.no_grad()
def scores(
    machine: Machine,
    rows: Any,
    observed: Any = None,
    *,
    normaliser: Bounds | None = None,
    draws: int = DRAWS,
    sweeps: int = SWEEPS,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> Scores:
    """log p of every row and its part by cell: what each is worth given the others.

    Parameters
    ----------
    machine : Machine
        The machine.
    rows : Split or array of shape (rows, units)
        Values of the visible units, or their columns. What is not observed may hold anything.
    observed : array of bool of shape (rows, units), optional
        Which cells are observed; by default all that are not NaN.
    normaliser : Bounds, optional
        log Z of this machine, if it is known already.
    draws : int, default 20
        Draws of missing cells, where they are too many to be summed.
    sweeps : int, default 100
        Gibbs sweeps of those chains.
    seed : int, optional
        Seed of the annealing and of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Scores
        log p of rows, and of each cell given the others.

    Raises
    ------
    InputError
        If rows or mask do not fit the machine.

    Examples
    --------
    >>> machine = rb.rbm(3, 2, units=rb.Categorical((2, 3, 2)), biases=True, seed=0)
    >>> found = rb.scores(machine, [[1, 2, 0]])
    >>> found.parts.round(decimals=2).tolist()
    [[[-0.69, -1.1, -0.69]]]
    """
    cells = cells_of(machine, rows, observed)
    check_count("the number of draws", draws)
    check_count("the number of sweeps", sweeps)
    seed = seed_from(seed, rng)
    with watch("scores", limit=limit, remedy="give fewer rows"):
        z = normaliser or log_z(machine, seed=seed)
        sums = row_sums(machine, cells, stream(seed, "rows", device=machine.device))
        found = less(sums, z, ~cells.observed.any(1))
        parts = _parts(machine, cells, draws, sweeps, stream(seed, "parts", device=machine.device))
    return Scores(found, parts)


def _parts(machine: Machine, cells: Cells, draws: int, sweeps: int, rng: torch.Generator) -> Tensor:
    """Eq. (1), (e, c, units)."""
    few = FewTerms.of(precise(machine))
    shape = (machine.replicas, len(cells), machine.layers.visible_units)
    found = torch.full(shape, math.nan, dtype=torch.float64, device=machine.device)
    whole = cells.observed.all(1) & machine.layers.hidden_independent
    # With another cell missing a row may have no exact sum any more.
    worst = [few.by(cells.without(i, p.where)) > 0 for i, p in enumerate(few.missing.places)]
    summed = ~whole & torch.stack(worst).all(0)
    drawn = ~whole & ~summed
    if bool(whole.any()):
        found[:, whole] = _of_whole_rows(few, cells.take(whole))
    if bool(summed.any()):
        found[:, summed] = _by_sums(few, cells.take(summed))
    if bool(drawn.any()):
        found[:, drawn] = _by_draws(machine, few, cells.take(drawn), draws, sweeps, rng)
    return found.masked_fill(~cells.observed, math.nan)


def _by_sums(few: FewTerms, cells: Cells) -> Tensor:
    known, _ = few.log_sums(cells)
    parts = []
    for number, place in enumerate(few.missing.places):
        without, _ = few.log_sums(cells.without(number, place.where))
        parts.append(known - without)
    return torch.stack(parts, -1)


def _of_whole_rows(few: FewTerms, cells: Cells) -> Tensor:
    """Eq. (1) of rows with nothing missing, by what a state in the place of another changes."""
    machine, layers = few.missing.machine, few.missing.machine.layers
    widest = max((int(x) for x in few.missing.counts.tolist() if math.isfinite(x)), default=1)
    wide = machine.replicas * max(1, layers.columns - machine.visible) * widest
    found = []
    for some in cells.split(max(1, CHUNK // wide)):
        spins = trusted.with_visible(machine, some.columns)
        fields = {i: trusted.field(machine, spins, i) for i in range(len(layers.sizes))}
        parts = [
            _part(few, number, place, some, fields) for number, place in enumerate(few.missing.places)
        ]
        found.append(torch.stack(parts, -1))
        report_progress()
    return torch.cat(found, 1)


def _part(few: FewTerms, number: int, place: Place, cells: Cells, fields: dict[int, Tensor]) -> Tensor:
    """Eq. (1) of one unit, (e, c)."""
    machine, layers = few.missing.machine, few.missing.machine.layers
    seen = cells.columns[:, place.where]  # (c, w)
    states, spacing = place.states, 0.0
    if states is None:
        lattice = few.missing.lattices.get(number)
        if lattice is None:
            return few.log_sums(cells)[0] - few.log_sums(cells.without(number, place.where))[0]
        states, spacing = lattice.points(machine.device)[:, None], math.log(lattice.step)
    states = states.to(machine.device)
    start = layers.slices[place.layer].start
    inner = slice(place.where.start - start, place.where.stop - start)
    unit, size = machine.unit(place.layer), layers.sizes[place.layer]

    def worth(x: Tensor) -> Tensor:
        """log weight with states x (c or 1, s, w) in the place of what is seen, (e, c, s)."""
        change = x - seen[:, None]  # (c, s, w)
        total = (fields[place.layer][..., None, inner] * change).sum(-1)  # (e, c, s)
        if unit.has_energy:
            whole = torch.zeros((1, x.shape[0] * x.shape[1], size), dtype=x.dtype, device=x.device)
            whole[..., inner] = x.reshape(1, -1, x.shape[-1])
            energy = unit.energy(whole)[..., place.number]
            total = total - energy.reshape(-1, *x.shape[:2])
        for layer in layers.neighbours(place.layer):
            if layer in layers.hidden:
                matrix = machine.couplings.matrix(place.layer, layer)[:, None, inner]  # (e, 1, w, n_l)
                field = fields[layer][:, :, None] + change @ matrix  # (e, c, s, n_l)
                logs = machine.unit(layer).log_sum(field.flatten(1, 2)).sum(-1)
                total = total + logs.reshape(total.shape)
        return total

    return worth(seen[:, None])[..., 0] - spacing - torch.logsumexp(worth(states[None]), -1)


def _by_draws(
    machine: Machine, few: FewTerms, cells: Cells, draws: int, sweeps: int, rng: torch.Generator
) -> Tensor:
    """Eq. (2), by clamped chains of rows with missing cells; of a machine whose hidden units are coupled
    to each other these are drawn, too."""
    run = clamped_chains(machine, cells, draws, sweeps, rng)
    if machine.layers.hidden_independent:
        each = [
            _of_drawn_rows(few, cells, spins[..., : machine.visible].double())
            for spins in run.spins.unbind(2)
        ]
    else:
        each = [_in_fields(few, cells, spins.double()) for spins in run.spins.unbind(2)]
    logs = torch.stack(each)  # (draws, e, c, units)
    return math.log(len(logs)) - torch.logsumexp(-logs, 0)


def _of_drawn_rows(few: FewTerms, cells: Cells, rows: Tensor) -> Tensor:
    """Eq. (1) of completed rows, (e, c, v), in the replica that drew them."""
    parts = []
    for replica, each in enumerate(rows):
        columns = torch.where(cells.held, cells.columns, each)
        whole = Cells(columns, torch.ones_like(cells.observed), torch.ones_like(cells.held))
        parts.append(_of_whole_rows(few, whole)[replica])
    return torch.stack(parts)


def _in_fields(few: FewTerms, cells: Cells, spins: Tensor) -> Tensor:
    """log p(x_i | all other units of a configuration (e, c, n)), (e, c, units)."""
    machine, parts = few.missing.machine, []
    fields = {i: trusted.field(machine, spins, i) for i in machine.layers.visible}
    for place in few.missing.places:
        start = machine.layers.slices[place.layer].start
        inner = slice(place.where.start - start, place.where.stop - start)
        field, states = fields[place.layer][..., inner], place.states
        seen = spins[..., place.where]
        if states is None:
            unit = machine.unit(place.layer)
            layer = spins[..., machine.layers.slices[place.layer]]
            log_sum = unit.log_sum(fields[place.layer])[..., place.number]
            parts.append((field * seen).sum(-1) - unit.energy(layer)[..., place.number] - log_sum)
            continue
        here = (seen[..., None, :] - states).abs().sum(-1).argmin(-1)
        parts.append(log_states(place, field).gather(-1, here[..., None])[..., 0])
    return torch.stack(parts, -1)
