"""Thermodynamics of a machine over β: exact, or from parallel tempering with errors.

    Z(β) = Σ_s exp(−βE(s)),        U = ⟨E⟩,        C = β²(⟨E²⟩ − ⟨E⟩²)                    (1)
    F = −(log Z)/β,                S = log Z + βU                                         (2)
    m = ⟨M⟩/N,                     χ = β(⟨M²⟩ − ⟨M⟩²)/N,        M = Σ_i s_i               (3)

Enumeration gives all of it exactly: given the states that it runs through, the free units are
independent, so that E and M have the moments of sums of independent terms. Beyond its reach walkers climb
between free spins, whose log Z = N log 2 is known, and the coldest β; every state they visit counts at
every β (`reweighting.py`). The ladders are independent of each other: errors are a jackknife over them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..display import Displayable, Table, with_error
from ..errors import InputError, check_beta, check_choice, check_count
from ..estimates import BLOCKS, Bounds, Estimate, jackknife
from ..machines import trusted
from ..machines.enumeration import (
    check_states,
    enumerate_spins,
    free_layers,
    given_energy,
    most_states,
    states_of,
)
from ..machines.machine import Machine, scaled
from ..machines.units.spin import SPIN
from ..progress import watch, watched
from ..random import seed_from, stream
from ..sampling.bases import mirrored, path_to
from ..sampling.tempering import Walkers, start_walkers, tempering_step
from .log_z import log_z
from .reweighting import averages, log_sums

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = tuple(i / 10 for i in range(1, 21))
QUICK = 2**22  # states times β that are summed where nobody names a method
ROOM = 2**23  # recorded energies times rungs
MAGNET = 5  # the place of the magnetisation, which symmetry knows to be 0
LEAST = 10  # rungs: trades, which sum over free layers, take fewer than energies need to overlap
FAR = 4.5  # standard errors between the halves of a record that chance does not explain
CONTRADICTED = 3.0  # the same between log Z of the walkers and of annealing


@dataclass(frozen=True, repr=False)
class Thermodynamics(Displayable):
    """Thermodynamic quantities at every β, with standard errors (0 where exact).

    log Z, energy, heat capacity, free energy and entropy are of the whole machine, magnetisation and
    susceptibility per unit. Estimates are (e, b).

    Attributes
    ----------
    betas : Tensor of shape (b,), float64
        Inverse temperatures.
    log_z : Estimate
        log Z(β).
    energy : Estimate
        U = ⟨E⟩.
    heat_capacity : Estimate
        C = β² (⟨E²⟩ − ⟨E⟩²).
    entropy : Estimate
        S = log Z + β U.
    free_energy : Estimate
        F = −log Z / β; NaN at β = 0.
    magnetisation : Estimate
        m = ⟨M⟩ / N.
    susceptibility : Estimate
        χ = β (⟨M²⟩ − ⟨M⟩²) / N.
    units : int
        N.
    method : str
        "exact" or "tempering".
    effort : str
        What was computed, in words.
    note : str
        What keeps the values from being better known; empty if nothing does.
    """

    betas: Tensor  # (b,) float64
    log_z: Estimate
    energy: Estimate
    heat_capacity: Estimate
    entropy: Estimate
    free_energy: Estimate  # NaN at β = 0
    magnetisation: Estimate
    susceptibility: Estimate
    units: int
    method: str  # "exact" or "tempering"
    effort: str
    note: str = ""  # what keeps it from being better known

    def table(self, replica: int = 0) -> Table:
        """All numbers of one replica, a row for every β.

        Parameters
        ----------
        replica : int, default 0
            Number of the replica.

        Returns
        -------
        Table
            Values with their errors.
        """
        columns = [f.name for f in fields(self) if isinstance(getattr(self, f.name), Estimate)]
        rows = tuple(
            (f"{float(beta):g}", *(self._cell(name, replica, i) for name in columns))
            for i, beta in enumerate(self.betas)
        )
        names = ("β", *(name.replace("_", " ") for name in columns))
        told = f"thermodynamics, {self.method}: {self.effort}"
        return Table(told, names, rows, (self.note,) if self.note else ())

    def _cell(self, name: str, replica: int, i: int) -> str:
        estimate: Estimate = getattr(self, name)
        return with_error(float(estimate.value[replica, i]), float(estimate.error[replica, i]))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def figure(self, replica: int = 0, title: str = "") -> Figure:
        """Energy, heat capacity, entropy and susceptibility per unit against β.

        Parameters
        ----------
        replica : int, default 0
            Number of the replica.
        title : str, default ""
            Title of the figure.

        Returns
        -------
        matplotlib.figure.Figure
            Four panels.
        """
        from ..pictures import thermodynamics_figure

        panels = {
            "energy per unit  U/N": (self.energy, 1.0 / self.units),
            "heat capacity per unit  C/N": (self.heat_capacity, 1.0 / self.units),
            "entropy per unit  S/N": (self.entropy, 1.0 / self.units),
            "susceptibility  χ": (self.susceptibility, 1.0),
        }
        numbers = {
            name: (factor * estimate.value[replica], factor * estimate.error[replica])
            for name, (estimate, factor) in panels.items()
        }
        return thermodynamics_figure(self.betas, numbers, title)


@watched("thermodynamics", remedy="take fewer betas, chains or steps")
@torch.no_grad()
def thermodynamics(
    machine: Machine,
    betas: Any = BETAS,
    *,
    method: Literal["auto", "exact", "tempering"] = "auto",
    chains: int = 40,
    steps: int = 200,
    skip: int | None = None,
    check: bool = True,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> Thermodynamics:
    """Energy, heat capacity, entropy, free energy, magnetisation and susceptibility at every β.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    betas : sequence of float, default (0.1, 0.2, …, 2.0)
        Inverse temperatures.
    method : {"auto", "exact", "tempering"}, default "auto"
        "auto" is exact where enumeration is short, else parallel tempering.
    chains : int, default 40
        Independent ladders of tempering, at least 20.
    steps : int, default 200
        Recorded turns of tempering.
    skip : int, optional
        Turns before recording; as many as `steps` when left out.
    check : bool, default True
        Compare log Z at the largest β with `log_z`; where they contradict each other, errors are ∞.
    seed : int, optional
        Seed of the tempering.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Thermodynamics
        Estimates (e, b); `note` says what speaks against the errors.

    Raises
    ------
    InputError
        If β is not positive for tempering, or an exact sum is out of reach.

    Examples
    --------
    >>> found = rb.thermodynamics(rb.rbm(6, 4, seed=0), [0.5, 1.0])
    >>> found.method, found.energy.value.shape
    ('exact', torch.Size([1, 2]))
    """
    check_choice("method for thermodynamics", method, ("auto", "exact", "tempering"))
    machine.layers.check_spins("thermodynamics")
    wanted = _checked(betas)
    machine = copy.deepcopy(machine).requires_grad_(False)
    if method == "exact" or (method == "auto" and states_of(machine.layers) * len(wanted) <= QUICK):
        check_states(machine.layers, largest=most_states(machine.device), what="exact thermodynamics")
        return _exact(machine, wanted)
    check_count("the number of ladders", chains, least=BLOCKS)
    check_count("the number of recorded steps", steps, least=2)
    skip = steps if skip is None else skip
    check_count("the number of skipped steps", skip, least=0)
    if not bool((wanted > 0).any()):
        raise InputError("tempering needs a β above 0; give one, or method='exact'")
    return _tempered(machine, wanted, chains, steps, skip, check, seed_from(seed, rng))


def _checked(betas: Any) -> Tensor:
    wanted: Tensor = as_tensor(betas, what="inverse temperatures").double().cpu()
    wanted = wanted[None] if wanted.dim() == 0 else wanted
    if wanted.dim() != 1 or not len(wanted):
        raise InputError(f"betas are one or more inverse temperatures, not {tuple(wanted.shape)}")
    for beta in wanted.tolist():
        check_beta(beta)
    return wanted


def _of_sums(betas: Tensor, sums: Tensor, means: Tensor, units: int, mirror: bool) -> tuple[Tensor, ...]:
    """Eqs. (1) to (3) from log Z (…, b) and ⟨E⟩, ⟨E²⟩, ⟨M⟩, ⟨M²⟩ (…, b, 4), in the order of fields."""
    energy, square, magnet, magnets = means.unbind(-1)
    if mirror:
        magnet = torch.zeros_like(magnet)
    spread = (square - energy.square()).clamp(min=0.0)
    free = torch.where(betas > 0, -sums / betas, torch.nan)
    turned = betas * (magnets - magnet.square()).clamp(min=0.0) / units
    capacity, entropy = betas.square() * spread, sums + betas * energy
    return sums, energy, capacity, entropy, free, magnet / units, turned


def _result(
    betas: Tensor, found: Sequence[Estimate], units: int, method: str, effort: str, note: str = ""
) -> Thermodynamics:
    sums, energy, capacity, entropy, free, magnet, turned = found
    every = (sums, energy, capacity, entropy, free, magnet, turned)
    return Thermodynamics(betas, *every, units, method, effort, note)


# -- exact ----------------------------------------------------------------------------------------------


def _exact(machine: Machine, betas: Tensor) -> Thermodynamics:
    double, layers = copy.deepcopy(machine).double(), machine.layers
    free = free_layers(layers)
    half = machine.symmetric and len(free) < len(layers.sizes)  # s and −s weigh the same
    states = states_of(layers) // (2 if half else 1)
    peak = torch.full((len(betas), machine.replicas), -torch.inf, dtype=torch.float64)
    peak = peak.to(machine.device)
    total = torch.zeros((*peak.shape, 5), dtype=torch.float64, device=machine.device)
    with watch("thermodynamics by enumeration", states) as tick:
        for spins in enumerate_spins(double, half=half):
            parts = _given(double, spins, free)
            for b, beta in enumerate(betas.tolist()):
                logs, rows = parts(beta)  # (e, c), (e, c, 5)
                top = torch.maximum(peak[b], logs.amax(1))
                old, weights = (peak[b] - top).exp(), (logs - top[:, None]).exp()
                total[b] = total[b] * old[:, None] + (weights[:, None] @ rows).squeeze(1)
                peak[b] = top
            tick.add(spins.shape[1])
    sums = (peak + total[..., 0].log() + math.log(2.0 if half else 1.0)).T.cpu()  # (e, b)
    means = (total[..., 1:] / total[..., :1]).movedim(0, 1).cpu()
    found = _of_sums(betas, sums, means, layers.columns, machine.symmetric)
    exact = [Estimate(value, torch.zeros_like(value)) for value in found]
    return _result(betas, exact, layers.columns, "exact", f"{states:,} states at each β")


def _given(
    machine: Machine, spins: Tensor, free: tuple[int, ...]
) -> Callable[[float], tuple[Tensor, Tensor]]:
    """Of states whose free layers are at 0, for a β: log weights (e, c), and 1, E, E², M, M² (e, c, 5)
    on average over the free units."""
    energy, magnet = given_energy(machine, spins, free), spins.sum(-1)
    fields_of = [trusted.field(machine, spins, layer) for layer in free]
    field = torch.cat(fields_of, -1) if free else spins.new_zeros((*spins.shape[:2], 0))

    def at(beta: float) -> tuple[Tensor, Tensor]:
        mean = SPIN.mean(field, beta)
        spread = 1.0 - mean.square()
        logs = -beta * energy + SPIN.log_sum(beta * field).sum(-1)
        e, m = energy - (field * mean).sum(-1), magnet + mean.sum(-1)
        ee = e.square() + (field.square() * spread).sum(-1)
        return logs, torch.stack([torch.ones_like(e), e, ee, m, m.square() + spread.sum(-1)], -1)

    return at


# -- by tempering ---------------------------------------------------------------------------------------


def _tempered(
    machine: Machine, betas: Tensor, chains: int, steps: int, skip: int, check: bool, seed: int
) -> Thermodynamics:
    coldest = float(betas.max())
    rng = stream(seed, "thermodynamics", device=machine.device)
    path = path_to(scaled(machine, coldest), exact=False)
    double, units = copy.deepcopy(machine).double(), machine.layers.columns
    with watch("tempering", skip + steps) as tick:
        walkers = start_walkers(path, chains, rng)
        if walkers.rungs.shape[1] < LEAST:
            walkers = start_walkers(path, chains, rng, rungs=LEAST)
        rungs = walkers.rungs.shape[1]
        records = max(2, min(steps, ROOM // (rungs * rungs * chains)))
        every = math.ceil(steps / records)
        seen: list[Tensor] = []
        for number in range(skip + steps):
            walkers = tempering_step(path, walkers, rng)
            if number >= skip and (number - skip) % every == 0:
                both = double.energy(walkers.spins.double()), walkers.spins.double().sum(-1)
                seen.append(torch.stack(both, 1).reshape(machine.replicas, 2, rungs, chains).cpu())
            tick()
    record = torch.stack(seen, -1)  # (e, 2, t, c, records)
    places = (coldest * walkers.rungs).double().cpu()  # (e, t)
    mirror = mirrored(machine)
    rows = [_rows(record[e], places[e], betas, units, mirror) for e in range(machine.replicas)]
    found = [jackknife(torch.stack(every_replica, 1)) for every_replica in zip(*rows, strict=True)]
    notes = _doubts(record[:, 0], walkers, chains)
    if check:
        told, doubtful = _contradiction(machine, found[0], betas, seed)
        notes += told
        found = [
            x
            if mirror and i == MAGNET
            else Estimate(x.value, x.error.masked_fill(betas >= doubtful, torch.inf))
            for i, x in enumerate(found)
        ]
    effort = f"{chains} ladders of {rungs} rungs, {skip:,} turns and {steps:,} recorded"
    return _result(betas, found, units, "tempering", effort, "; ".join(notes))


def _rows(record: Tensor, rungs: Tensor, betas: Tensor, units: int, mirror: bool) -> tuple[Tensor, ...]:
    """All quantities (1 + B, b) of one replica, of all ladders and without each block of them, from
    energies and magnets (2, t, c, records)."""
    known = units * math.log(2.0)
    ladders = torch.arange(record.shape[2])
    sums: Tensor | None = None
    rows = []
    for block in range(-1, BLOCKS):  # −1: all
        kept = record[:, :, ladders % BLOCKS != block].flatten(2)  # (2, t, n)
        energy, magnet = kept
        sums_here = log_sums(energy, rungs, known, sums)
        sums = sums_here if sums is None else sums
        values = torch.stack([energy, energy.square(), magnet, magnet.square()])
        rows.append(_of_sums(betas, *averages(energy, rungs, sums_here, betas, values), units, mirror))
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def _doubts(energies: Tensor, walkers: Walkers, chains: int) -> list[str]:
    """What the walkers themselves say against their record (e, t, c, records)."""
    notes = []
    trips = int(walkers.trips.min())
    if trips < chains:
        notes.append(
            f"{trips} round trips of {chains} ladders: they may not have settled, and the errors be too "
            "small; take more steps"
        )
    half = energies.shape[-1] // 2
    early, late = energies[..., :half].mean(-1), energies[..., -half:].mean(-1)
    drift = Estimate.of((early - late).flatten(0, 1))
    if bool((drift.value.abs() > FAR * drift.error).any()):
        notes.append("the energies still drift: take a longer skip=")
    return notes


def _contradiction(
    machine: Machine, found: Estimate, betas: Tensor, seed: int
) -> tuple[list[str], float]:
    """What `log_z` at the coldest β says against the walkers, and the hottest β where it still does:
    found by halving, of colder ones they know no more; ∞ where nothing speaks against them."""

    def against(beta: float) -> tuple[float | None, Bounds]:
        other, at = log_z(machine, beta=beta, seed=seed), int((betas == beta).nonzero()[0, 0])
        value, error = found.value[:, at], CONTRADICTED * found.error[:, at]
        out = (value + error < other.lower.cpu()) | (value - error > other.upper.cpu())
        return float((value - other.value.cpu()).abs().max()) if bool(out.any()) else None, other

    known = sorted({beta for beta in betas.tolist() if beta > 0})
    apart, other = against(known[-1])
    notes = [f"log Z at β = {known[-1]:g}: {other.note}"] if other.note else []
    if apart is None:
        return notes, math.inf
    low, high = 0, len(known) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if against(known[middle])[0] is not None else (middle + 1, high)
    notes.append(
        f"log Z at β = {known[-1]:g} differs by {apart:.2g} from that of `log_z` ({other.method}): the "
        f"walkers have missed something, from β = {known[high]:g} on the errors are not known, and below "
        "they may be too small"
    )
    return notes, known[high]
