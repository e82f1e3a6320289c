"""Sums over missing cells and hidden units by annealing, a value with its interval for each row.

The observed cells are held, and chains of the others walk from independent units to the machine and back
(`sampling/annealing.py`), `chains` of each row from either of two bases: near, the means of mean field,
and far, half of the field of what is observed. A base near one mode of several looks certain and misses
the others, so the far one is taken where it carries the weights well. Rows whose chains do not carry the
estimate yet go on with twice as many temperatures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..estimates import WIDE
from ..machines import trusted
from ..machines.cells import Cells
from ..machines.machine import Machine
from ..machines.units.unit import Unit
from ..progress import report_progress
from ..sampling import annealing
from ..sampling.gibbs import run_sweeps
from ..sampling.paths import Cooling

CHAINS = 20  # of a row, from each base
FIRST, MOST = 50, 3200  # temperatures
SETTLE = 20  # sweeps between the two directions
ITERATIONS = 50  # of mean field
AT_ONCE = 2**22  # units of all the chains of some rows
EDGE = 1e-4  # of a state's probability in a base: one that is certain could not be left
CARRIED = 0.5  # share of the chains that shall be effective
FEW = 0.3  # with a smaller share of effective chains the error is not trusted (likelihood/annealed.py)
DOUBT = 0.25  # nats


@dataclass(frozen=True)
class RowSums:
    """log Σ exp(−E) of every row with the ends of its interval, all (e, c)."""

    value: Tensor
    lower: Tensor
    upper: Tensor
    forward: Tensor
    back: Tensor
    ess: Tensor
    largest: Tensor
    steps: int  # temperatures, at most


NAMES = ("value", "lower", "upper", "forward", "back", "ess", "largest")


@torch.no_grad()
def anneal_rows(
    machine: Machine, cells: Cells, rng: torch.Generator, *, chains: int = CHAINS, most: int = MOST
) -> RowSums:
    """log Σ exp(−E) over all that is not observed of every row."""
    step = max(1, AT_ONCE // (machine.replicas * machine.layers.columns * chains))
    parts = [_of_rows(machine, some, rng, chains, most) for some in cells.split(step)]
    whole = torch.cat([numbers for numbers, _ in parts], 2)
    numbers = dict(zip(NAMES, whole.unbind(0), strict=True))
    return RowSums(**numbers, steps=max(steps for _, steps in parts))


def _of_rows(
    machine: Machine, cells: Cells, rng: torch.Generator, chains: int, most: int
) -> tuple[Tensor, int]:
    """The numbers of some rows, (7, e, c), and the temperatures."""
    found = torch.zeros((len(NAMES), machine.replicas, len(cells)), dtype=torch.float64)
    found, rows, steps = found.to(machine.device), torch.arange(len(cells)), FIRST
    rows = rows.to(machine.device)
    while True:
        found[:, :, rows] = _both_ways(machine, cells.take(rows), rng, chains, steps)
        short = (found[5][:, rows] < CARRIED * chains).any(0)
        rows = rows[short]
        if not len(rows) or 2 * steps > most:
            return found, steps
        steps *= 2


def _both_ways(machine: Machine, cells: Cells, rng: torch.Generator, chains: int, steps: int) -> Tensor:
    paths = [path_of(machine, cells, base, chains) for base in bases_of(machine, cells)]
    e, c, n = machine.replicas, len(cells), machine.layers.columns
    apart = (e * c, chains)
    betas = [i / steps for i in range(steps + 1)]
    runs = [annealing.forward(path, betas, c * chains, rng) for path in paths]
    logs = [run[0].reshape(apart) for run in runs]
    # The ends of both paths, weighted, are one population; each path takes half of it back.
    ends = torch.cat([run[1].reshape(*apart, n) for run in runs], 1)
    again, _ = annealing.resample(ends, torch.cat(logs, 1), rng)
    ways = []
    for path, log, half in zip(paths, logs, torch.split(again, chains, 1), strict=True):
        report_progress()
        settled = run_sweeps(machine, half.reshape(e, -1, n), rng, SETTLE, clamp=path.held)
        back = annealing.backward(path, betas, settled, rng).reshape(apart)
        ways.append(_interval(log, back))
    near, far = ways  # (8, e·c)
    sound = (far[5] >= CARRIED * chains) | (far[7] <= near[7])
    return torch.where(sound, far, near)[:7].reshape(7, e, c)


def _interval(log: Tensor, back: Tensor) -> Tensor:
    """Value, ends, both directions, effective chains, largest share, and how doubtful it is, (8, r)."""
    below, above = annealing.LogMean.of(log), annealing.LogMean.of(back)
    best = annealing.bennett(log, back)
    forward, backward = below.value, -above.value
    apart = (backward - forward).abs() > 1.96 * torch.hypot(below.error, above.error)
    low, high = (torch.where(apart, WIDE * x.error, 0.0) for x in (below, above))
    error = WIDE * best.error
    few = FEW * log.shape[1]
    thin = torch.where(best.ess < few, DOUBT * few / best.ess, 0.0)
    lower = torch.stack([best.value - error, forward - low, backward - high, best.value - thin]).amin(0)
    upper = torch.stack([best.value + error, forward + low, backward + high, best.value + thin]).amax(0)
    doubt = (backward - forward).square() + below.error.square() + above.error.square()
    return torch.stack([best.value, lower, upper, forward, backward, best.ess, best.largest, doubt])


def bases_of(machine: Machine, cells: Cells) -> tuple[Tensor, Tensor]:
    """b of the two paths, (e, c, n): near the mean-field mode, and far from every mode."""
    given, held = given_and_held(machine, cells)
    means = given.clone()
    for _ in range(ITERATIONS):
        for layer in machine.layers.order:
            where = machine.layers.slices[layer]
            new = machine.unit(layer).mean(trusted.field(machine, means, layer))
            if machine.layers.self_coupled(layer):  # a parallel step would oscillate
                new = 0.5 * (new + means[..., where])
            means[..., where] = torch.where(held[..., where], means[..., where], new)
    near = machine.by_layer(_base_field, means)
    far = torch.cat(
        [0.5 * trusted.field(machine, given, layer) for layer in range(len(machine.layers.sizes))], -1
    )
    return near.masked_fill(held, 0.0), far.masked_fill(held, 0.0)


def _base_field(unit: Unit, means: Tensor) -> Tensor:
    if unit.mirrored:
        return unit.field_of(means.clamp(EDGE - 1.0, 1.0 - EDGE))
    field = unit.field_of(means)
    strongest = math.log(2.0 / EDGE)
    field = field.clamp(-strongest, strongest) if unit.listed else field
    return field.to(means.dtype)


def given_and_held(machine: Machine, cells: Cells) -> tuple[Tensor, Tensor]:
    """Configurations with what is observed, 0 else, and the mask of it, both (e, c, n)."""
    given = trusted.with_visible(machine, cells.columns)
    rest = machine.layers.columns - machine.visible
    held = torch.nn.functional.pad(cells.held, (0, rest))
    return given, held.expand_as(given)


def path_of(machine: Machine, cells: Cells, base: Tensor, chains: int) -> Cooling:
    """The path of so many chains for each row, which stand row by row."""
    given, held = given_and_held(machine, cells)
    wide = [x.repeat_interleave(chains, 1) for x in (base, given, held)]
    return Cooling(machine, wide[0][None], None, wide[1], wide[2])
