"""Sums over missing cells and hidden units that are exact, because some of them have few states.

Of a row with the observed part x_O two sums are within reach. Over the states s of hidden layers that
leave all other units independent (of a restricted machine its hidden layer) it is

    Σ_s exp( c(s) + Σ_{i in O} [f_i(s)·x_i − u(x_i)] + Σ_{i in M} A_i(f_i(s)) )                 (1)

with f(s) the fields on the visible units, A the log sum of a unit and c what s has alone: for all rows a
product of matrices. Over the states of the missing cells themselves, with the hidden units summed as
ever,

    Σ_{x_M} exp( log p*(x_O, x_M) )                                                            (2)

where a missing real unit takes the points of a lattice: given the hidden units it is Gaussian with the
deviation σ = 1/√a, of which a sum over points 0.7 σ apart is the integral to 10⁻¹⁷
(`likelihood/quadrature`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..likelihood.quadrature import MARGIN, SPACING
from ..machines import trusted
from ..machines.cells import Cells, Place, columns_of, places
from ..machines.enumeration import free_layers, log_weight
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.gaussian import Gaussian
from ..progress import report_progress

TERMS = 2**16  # of a row, at most
NUMBERS = 2**25  # of the states of hidden layers, all columns together
CHUNK = 2**22  # numbers at a time
CHEAPER = 4  # a term of eq. (1) is so much cheaper than one of (2)


def listed_layers(layers: Layers) -> tuple[int, ...] | None:
    """The hidden layers that eq. (1) lists; None where visible units are coupled to each other."""
    if not layers.independent(layers.visible):
        return None
    near = tuple(sorted({b for a in layers.visible for b in layers.neighbours(a)}))
    return tuple(sorted({*near, *layers.cover(layers.visible + near)}))


class HiddenStates:
    """Eq. (1) of a machine in float64."""

    def __init__(self, machine: Machine, listed: tuple[int, ...]) -> None:
        self.machine, layers = machine, machine.layers
        count = layers.count(listed)
        assert count is not None
        spins = torch.zeros((count, layers.columns), dtype=torch.float64, device=machine.device)
        values = layers.states(listed, torch.arange(count, device=machine.device))
        start = 0
        for layer in listed:
            stop = start + layers.sizes[layer]
            spins[:, layers.slices[layer]] = values[:, start:stop].double()
            start = stop
        spins = spins.expand(machine.replicas, -1, -1)
        free = tuple(i for i in layers.hidden if i not in listed)
        own = -machine.couplings.energy(spins) - trusted.bias_energy(machine, spins)
        self.own = own - trusted.unit_energy(machine, spins, free + layers.visible)  # c, (e, s)
        for layer in free:
            machine.unit(layer).add_log_sums(self.own, trusted.field(machine, spins, layer))
        self.fields = torch.cat([trusted.field(machine, spins, i) for i in layers.visible], -1)
        sums = [machine.unit(i).log_sum(self.fields[..., layers.slices[i]]) for i in layers.visible]
        self.sums = torch.cat(sums, -1)  # A, (e, s, units)

    @staticmethod
    def of(machine: Machine) -> HiddenStates | None:
        """None where there are too many states, or no list of them."""
        listed = listed_layers(machine.layers)
        count = None if listed is None else machine.layers.count(listed)
        if listed is None or count is None or count > TERMS:
            return None
        if count * machine.layers.columns * machine.replicas > NUMBERS:
            return None
        return HiddenStates(machine, listed)

    @property
    def terms(self) -> int:
        return self.own.shape[1]

    def logs(self, cells: Cells) -> Tensor:
        """The exponents of eq. (1), (e, c, s)."""
        seen = cells.columns @ self.fields.mT - observed_energy(self.machine, cells)[..., None]
        return seen + cells.missing.double() @ self.sums.mT + self.own[:, None]

    def parts(self, cells: Cells, more: int = 1) -> Iterator[Cells]:
        """Rows that are looked at together."""
        for some in cells.split(max(1, CHUNK // (self.terms * self.machine.replicas * more))):
            report_progress()
            yield some

    def log_sums(self, cells: Cells) -> Tensor:
        return torch.cat([torch.logsumexp(self.logs(x), -1) for x in self.parts(cells)], 1)

    def means(self, cells: Cells, of_states: Tensor) -> Tensor:
        """Averages, (e, c, x), of what states have, (e, s, x), given the observed cells."""
        return torch.cat(
            [torch.softmax(self.logs(x), -1) @ of_states for x in self.parts(cells)],
            1,
        )

    @cached_property
    def unit_means(self) -> Tensor:
        """⟨x⟩ of every visible column given each state, (e, s, v)."""
        layers = self.machine.layers
        each = [
            self.machine.unit(i).mean(self.fields[..., layers.slices[i]].clone()) for i in layers.visible
        ]
        return torch.cat(each, -1)

    def draw(self, cells: Cells, draws: int, rng: torch.Generator) -> Tensor:
        """Completed rows, independent of each other, (e, draws, c, v)."""
        machine, layers, found = self.machine, self.machine.layers, []
        for some in self.parts(cells, draws):
            p = torch.softmax(self.logs(some), -1)  # (e, c, s)
            chosen = torch.multinomial(p.flatten(0, 1), draws, True, generator=rng)
            chosen = chosen.reshape(len(p), -1)  # (e, c·draws)
            wide = chosen[..., None].expand(-1, -1, self.fields.shape[2])
            field = self.fields.gather(1, wide)
            new = [machine.unit(i).draw(field[..., layers.slices[i]], rng) for i in layers.visible]
            drawn = torch.cat(new, -1).reshape(len(p), len(some), draws, -1)
            found.append(torch.where(some.held[:, None], some.columns[:, None], drawn).movedim(2, 1))
        return torch.cat(found, 2)


def observed_energy(machine: Machine, cells: Cells) -> Tensor:
    """Σ u(x_i) over the observed units, (e, c)."""
    total = torch.zeros((machine.replicas, len(cells)), dtype=torch.float64, device=machine.device)
    known = torch.split(cells.observed, list(machine.layers.counts[: machine.layers.seen]), -1)
    for layer, seen in zip(machine.layers.visible, known, strict=True):
        unit = machine.unit(layer)
        if unit.has_energy:
            each = unit.energy(cells.columns[None, :, machine.layers.slices[layer]])
            total += torch.where(seen, each, 0.0).sum(-1)
    return total


@dataclass(frozen=True)
class Lattice:
    """Points that stand for the values of a real unit."""

    first: float
    step: float
    count: int

    def points(self, device: torch.device) -> Tensor:
        return self.first + self.step * torch.arange(self.count, device=device, dtype=torch.float64)


class MissingStates:
    """Eq. (2) of a machine in float64."""

    def __init__(self, machine: Machine) -> None:
        self.machine, layers = machine, machine.layers
        self.places = places(machine)
        self.hidden = layers.cover(layers.visible)
        self.free = free_layers(layers, layers.visible)
        self.inner = layers.count(self.hidden)  # states of hidden layers for each state of the cells
        self.lattices = lattices(machine)
        counts: list[float] = []
        for number, place in enumerate(self.places):
            count = place.kind.count(place.where.stop - place.where.start)
            if count is None:
                lattice = self.lattices.get(number)
                counts.append(math.inf if lattice is None else lattice.count)
            else:
                counts.append(count)
        self.counts = torch.tensor(counts, dtype=torch.float64, device=machine.device)  # of every unit

    def bits(self, cells: Cells) -> Tensor:
        """log₂ of the terms of every row, (c,); ∞ where there is no list."""
        if self.inner is None:
            return torch.full((len(cells),), math.inf, dtype=torch.float64, device=cells.columns.device)
        logs = torch.where(cells.missing, self.counts.log2(), 0.0)
        return logs.sum(1) + math.log2(self.inner)

    def parts(self, cells: Cells) -> Iterator[tuple[Tensor, Cells]]:
        """Rows of about as many terms each, and their numbers."""
        order = self.bits(cells).argsort(stable=True)
        terms = (2.0 ** self.bits(cells)[order]).round().long().tolist()
        width, start = self.machine.layers.columns * self.machine.replicas, 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * terms[stop] * width <= CHUNK:
                stop += 1
            report_progress()
            yield order[start:stop], cells.take(order[start:stop])
            start = stop

    def states(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """Configurations (c, s, n), free layers at 0, and which of them there are, (c, s): a row with
        fewer states than another has some more than once."""
        layers, device = self.machine.layers, self.machine.device
        assert self.inner is not None  # `bits`
        radix = torch.where(cells.missing, self.counts, 1.0).long()  # (c, units)
        stride = torch.cat([torch.ones_like(radix[:, :1]), radix.cumprod(1)], 1)
        count = stride[:, -1] * self.inner
        numbers = torch.arange(int(count.max()), device=device)
        outer = torch.div(numbers, self.inner, rounding_mode="floor")
        codes = torch.div(outer[:, None], stride[:, None, :-1], rounding_mode="floor") % radix[:, None]
        spins = torch.zeros(
            (len(cells), len(numbers), layers.columns), dtype=torch.float64, device=device
        )
        start = 0
        for layer in layers.visible:
            stop = start + layers.counts[layer]
            part, where = codes[..., start:stop], layers.slices[layer]
            if not layers.kinds[layer].listed:
                values = self._on_lattice(part, start)
            else:
                values = columns_of(layers.kinds[layer], part, layers.sizes[layer])
            held = cells.held[:, None, where]
            spins[..., where] = torch.where(held, cells.columns[:, None, where], values)
            start = stop
        inner = layers.states(self.hidden, numbers % self.inner)
        start = 0
        for layer in self.hidden:
            stop = start + layers.sizes[layer]
            spins[..., layers.slices[layer]] = inner[:, start:stop].double()
            start = stop
        return spins, numbers < count[:, None]

    def _on_lattice(self, codes: Tensor, first: int) -> Tensor:
        none = Lattice(0.0, 0.0, 1)
        chosen = [self.lattices.get(first + i, none) for i in range(codes.shape[-1])]
        start = torch.tensor([x.first for x in chosen], dtype=torch.float64, device=codes.device)
        step = torch.tensor([x.step for x in chosen], dtype=torch.float64, device=codes.device)
        return start + step * codes

    def logs(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """Configurations (c, s, n) and the exponents of eq. (2), (e, c, s)."""
        spins, there = self.states(cells)
        c, s, n = spins.shape
        whole = spins.reshape(1, c * s, n).expand(self.machine.replicas, -1, -1)
        logs = log_weight(self.machine, whole, self.free, 1.0).reshape(-1, c, s)
        spacing = torch.zeros(len(self.places), dtype=torch.float64, device=logs.device)
        for number, lattice in self.lattices.items():
            spacing[number] = math.log(lattice.step)
        logs = logs + (cells.missing.double() @ spacing)[:, None]
        return spins, torch.where(there, logs, -math.inf)

    def log_sums(self, cells: Cells) -> Tensor:
        found = torch.empty(
            (self.machine.replicas, len(cells)), dtype=torch.float64, device=self.machine.device
        )
        for rows, some in self.parts(cells):
            found[:, rows] = torch.logsumexp(self.logs(some)[1], -1)
        return found

    def means(self, cells: Cells, of_states: Callable[[Tensor], Tensor], width: int) -> Tensor:
        """Averages, (e, c, width), of what configurations (c, s, n) have, (c, s, width)."""
        shape = (self.machine.replicas, len(cells), width)
        found = torch.empty(shape, dtype=torch.float64, device=self.machine.device)
        for rows, some in self.parts(cells):
            spins, logs = self.logs(some)
            p = torch.softmax(logs, -1)  # (e, c, s)
            found[:, rows] = (p[:, :, None] @ of_states(spins)).squeeze(2)
        return found

    def draw(self, cells: Cells, draws: int, rng: torch.Generator) -> Tensor:
        """Completed rows, independent of each other, (e, draws, c, v)."""
        machine, layers = self.machine, self.machine.layers
        shape = (machine.replicas, draws, len(cells), machine.visible)
        found = torch.empty(shape, dtype=torch.float64, device=machine.device)
        real = [i for i in layers.visible if not layers.kinds[i].listed]
        for rows, some in self.parts(cells):
            spins, logs = self.logs(some)
            p = torch.softmax(logs, -1)
            e, c, _ = p.shape
            chosen = torch.multinomial(p.flatten(0, 1), draws, True, generator=rng).reshape(e, c, draws)
            whole = spins[torch.arange(c, device=p.device)[:, None], chosen].flatten(1, 2)
            if real:  # from the points of a lattice to real numbers: once more, given the hidden units
                for layer in self.free:
                    field = trusted.field(machine, whole, layer)
                    whole[..., layers.slices[layer]] = machine.unit(layer).draw(field, rng)
                for layer in real:
                    where = layers.slices[layer]
                    new = machine.unit(layer).draw(trusted.field(machine, whole, layer), rng)
                    held = some.held[:, where].repeat_interleave(draws, 0)
                    whole[..., where] = torch.where(held, whole[..., where], new)
            seen = whole[..., : machine.visible].reshape(e, c, draws, -1)
            found[:, :, rows] = seen.movedim(2, 1)
        return found


def lattices(machine: Machine) -> dict[int, Lattice]:
    """A lattice for every visible real unit whose neighbours have bounded states, by its number."""
    layers, found, first = machine.layers, {}, 0
    for layer in layers.visible:
        unit, count = machine.unit(layer), layers.counts[layer]
        if isinstance(unit, Gaussian):
            ends = _field_ends(machine, layer)
            if ends is not None:
                a = unit.precision(ends[0][:, None]).expand(machine.replicas, 1, count)[:, 0]
                low = (ends[0] / a - MARGIN / a.sqrt()).amin(0).tolist()
                high = (ends[1] / a + MARGIN / a.sqrt()).amax(0).tolist()
                steps = (SPACING / a.sqrt()).amin(0).tolist()
                for i, (left, right, step) in enumerate(zip(low, high, steps, strict=True)):
                    found[first + i] = Lattice(left, step, math.ceil((right - left) / step) + 1)
        first += count
    return found


def _field_ends(machine: Machine, layer: int) -> tuple[Tensor, Tensor] | None:
    """The least and the largest field that a layer can have, (e, n_l) each; None where there is none."""
    layers = machine.layers
    shape = (machine.replicas, layers.sizes[layer])
    low = torch.zeros(shape, dtype=torch.float64, device=machine.device)
    if machine.biases is not None:
        low += machine.biases[:, layers.slices[layer]].double()
    high = low.clone()
    for other in layers.neighbours(layer):
        kind, size = layers.kinds[other], layers.sizes[other]
        if not kind.listed:
            return None
        matrix = machine.couplings.matrix(other, layer).detach().double()  # (e, n_o, n_l)
        for where, one in kind.one_by_one(size):
            width = where.stop - where.start
            states = one.states(width, torch.arange(one.count(width) or 0)).double().to(matrix.device)
            fields = states @ matrix[:, where]  # (e, q, n_l)
            low, high = low + fields.amin(1), high + fields.amax(1)
    return low, high


@dataclass(frozen=True)
class FewTerms:
    """The two sums of a machine, whichever serves a row."""

    hidden: HiddenStates | None
    missing: MissingStates

    @staticmethod
    def of(machine: Machine) -> FewTerms:
        """Of a machine in float64."""
        return FewTerms(HiddenStates.of(machine), MissingStates(machine))

    def by(self, cells: Cells) -> Tensor:
        """What serves each row, (c,): 1 hidden states, 2 missing states, 0 none."""
        bits = self.missing.bits(cells)
        served = torch.where(bits <= math.log2(TERMS), 2, 0)
        if self.hidden is None:
            return served
        return torch.where(bits + math.log2(CHEAPER) <= math.log2(self.hidden.terms), 2, 1)

    def log_sums(self, cells: Cells) -> tuple[Tensor, Tensor]:
        """log Σ exp(−E) of every row, (e, c), NaN where it is not known, and where it is, (c,)."""
        by = self.by(cells)
        machine = self.missing.machine
        found = torch.full((machine.replicas, len(cells)), math.nan, dtype=torch.float64)
        found = found.to(cells.columns.device)
        for number, way in ((1, self.hidden), (2, self.missing)):
            rows = (by == number).nonzero()[:, 0]
            if len(rows) and way is not None:
                found[:, rows] = way.log_sums(cells.take(rows))
        return found, by > 0

    def unit_means(self, cells: Cells) -> Tensor:
        """⟨x⟩ of every visible column, (e, c, v), of rows that are served."""
        by = self.by(cells)
        machine, visible = self.missing.machine, self.missing.machine.visible
        found = torch.empty((machine.replicas, *cells.columns.shape), dtype=torch.float64)
        found = found.to(cells.columns.device)
        for number in (1, 2):
            rows = (by == number).nonzero()[:, 0]
            if not len(rows):
                continue
            some = cells.take(rows)
            if number == 1:
                assert self.hidden is not None
                new = self.hidden.means(some, self.hidden.unit_means)
            else:
                new = self.missing.means(some, lambda spins: spins[..., :visible], visible)
            found[:, rows] = torch.where(some.held, some.columns, new)
        return found

    def moments(self, cells: Cells, place: Place) -> Tensor:
        """⟨x⟩ and ⟨x²⟩ of a real unit that is missing in all rows, (e, c, 2); rows that are served."""
        by, machine = self.by(cells), self.missing.machine
        found = torch.empty((machine.replicas, len(cells), 2), dtype=torch.float64)
        found = found.to(cells.columns.device)
        for number in (1, 2):
            rows = (by == number).nonzero()[:, 0]
            if not len(rows):
                continue
            some = cells.take(rows)
            if number == 1:
                assert self.hidden is not None
                of_states = given_field(machine, place, self.hidden.fields[..., place.where])
                found[:, rows] = self.hidden.means(some, of_states)
            else:
                found[:, rows] = self.missing.means(
                    some, lambda spins: torch.cat([spins[..., place.where] ** k for k in (1, 2)], -1), 2
                )
        return found

    def draw(self, cells: Cells, draws: int, rng: torch.Generator) -> Tensor:
        """Completed rows, (e, draws, c, v), of rows that are served."""
        by = self.by(cells)
        machine = self.missing.machine
        shape = (machine.replicas, draws, *cells.columns.shape)
        found = torch.empty(shape, dtype=torch.float64, device=cells.columns.device)
        for number, way in ((1, self.hidden), (2, self.missing)):
            rows = (by == number).nonzero()[:, 0]
            if len(rows) and way is not None:
                found[:, :, rows] = way.draw(cells.take(rows), draws, rng)
        return found


def log_states(place: Place, fields: Tensor) -> Tensor:
    """log p of the states of a listed unit in fields (…, columns), (…, q)."""
    states = place.states
    assert states is not None
    states = states.to(fields.device)
    energies = place.kind.energy(states)[:, 0]
    return torch.log_softmax(fields @ states.mT - energies, -1)


def given_field(machine: Machine, place: Place, fields: Tensor) -> Tensor:
    """⟨x⟩ and ⟨x²⟩ of a real unit in fields (e, …, 1), (e, …, 2)."""
    layer = machine.layers.slices[place.layer]
    wide = torch.zeros((*fields.shape[:-1], layer.stop - layer.start), dtype=torch.float64)
    wide = wide.to(fields.device)
    wide[..., place.number : place.number + 1] = fields
    shaped = wide.reshape(len(wide), -1, wide.shape[-1])
    unit = machine.unit(place.layer)
    mean, variance = (
        x.reshape(wide.shape)[..., place.number] for x in (unit.mean(shaped), unit.variance(shaped))
    )
    return torch.stack([mean, variance + mean.square()], -1)
