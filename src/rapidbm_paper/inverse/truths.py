"""Machines whose couplings are known, and rows that are drawn from them.

    chain          spins in a row, J = β between neighbours
    ferromagnet    a square lattice with periodic ends, J = β; critical at β = ½ log(1 + √2) ≈ 0.44
    random-glass   an Erdős–Rényi graph of mean degree 3, J = ±β
    lattice-glass  the same square lattice, J = ±β (Edwards and Anderson)
    memory         Hopfield's J = (β / N) Σ_μ ξ_i^μ ξ_j^μ of two random patterns
    potts          an Erdős–Rényi graph of units with 3 states, J = ±β δ, in the zero-sum gauge

None has fields. Rows of machines that can be enumerated are independent draws, others the ends of long
Gibbs chains, each its own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.categorical import Categorical
from rapidbm.machines.units.spin import SPIN
from rapidbm.sampling.samplers import sample

DEGREE = 3  # mean number of neighbours in a random graph
MEMORIES = 2
STATES = 3
CRITICAL = 0.5 * math.log(1 + math.sqrt(2))
LISTED = 2**16  # states from which rows are drawn at once
SPINS = ("chain", "ferromagnet", "random-glass", "lattice-glass", "memory")
SWEEPS = 500


def truth(kind: str, units: int, beta: float, rng: torch.Generator) -> Machine:
    """The machine of a kind; lattices take a square number of units."""
    matrix = _graph(kind, units, rng)
    if kind == "memory":
        matrix = matrix * beta
    elif kind in ("chain", "ferromagnet"):
        matrix = matrix.abs() * beta
    else:
        signs = torch.randint(2, matrix.shape, generator=rng, device=rng.device).triu(1) * 2.0 - 1
        matrix = matrix.abs() * beta * (signs.triu(1) + signs.triu(1).T)
    if kind != "potts":
        return Machine(Dense(Layers((units,), ((0, 0),), (SPIN,)), {(0, 0): matrix[None]}))
    unit = Categorical(STATES)
    blocks = torch.kron(matrix, torch.eye(STATES, device=matrix.device) - 1.0 / STATES)
    layers = Layers((unit.columns(units),), ((0, 0),), (unit,))
    return Machine(
        Dense(layers, {(0, 0): blocks[None]}), torch.zeros(1, layers.columns, device=rng.device)
    )


def _graph(kind: str, units: int, rng: torch.Generator) -> Tensor:
    """Couplings of size 1, (n, n)."""
    matrix = torch.zeros((units, units), device=rng.device)
    if kind == "chain":
        i = torch.arange(units - 1)
        matrix[i, i + 1] = 1.0
    elif kind in ("ferromagnet", "lattice-glass"):
        side = math.isqrt(units)
        place = torch.arange(units).reshape(side, side)
        for axis in (0, 1):
            matrix[place.flatten(), place.roll(-1, axis).flatten()] = 1.0
    elif kind == "memory":
        patterns = torch.randint(2, (MEMORIES, units), generator=rng, device=rng.device) * 2.0 - 1
        matrix = patterns.T @ patterns / units
        matrix.fill_diagonal_(0.0)
        return matrix
    else:
        drawn = torch.rand((units, units), generator=rng, device=rng.device) < DEGREE / (units - 1)
        matrix = drawn.triu(1).float()
    matrix = torch.maximum(matrix, matrix.T)
    return matrix.fill_diagonal_(0.0)


def rows_of(machine: Machine, count: int, rng: torch.Generator, sweeps: int = SWEEPS) -> Tensor:
    """So many independent rows, (count, columns)."""
    layers = machine.layers
    states = layers.count(layers.visible)
    if states is None or states > LISTED:
        return sample(machine, count, steps=sweeps, rng=rng)[0]
    every = layers.states(layers.visible, torch.arange(states, device=machine.device)).to(machine.dtype)
    logs = -machine.energy(every)[0].double() - log_z(machine).value
    drawn = torch.multinomial(logs.exp(), count, replacement=True, generator=rng)
    return every[drawn]
