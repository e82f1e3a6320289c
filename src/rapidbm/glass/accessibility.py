"""Accessibility: how near the ground state something comes, as a share of its energy,

    A = min_s E(s) / E_0                                                                  (1)

over the configurations s that Gibbs sampling reaches, or that a negative phase uses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..data.splits import Split
from ..errors import InputError, check_count
from ..ground.ground_state import ground_state
from ..machines.machine import Machine
from ..progress import watched
from ..random import rng_from
from ..sampling.gibbs import run_sweeps
from ..training.negative import HasConfigurations, NegativePhase


@watched("Gibbs accessibility", remedy="give the ground state's energy, ground=")
@torch.no_grad()
def gibbs_accessibility(
    machine: Machine,
    split: Split | None = None,
    rng: torch.Generator | None = None,
    *,
    chains: int = 10,
    steps: int = 10,
    ground: Tensor | None = None,
    seed: int | None = None,
    limit: float | None = None,
) -> Tensor:
    """How close Gibbs sampling from random spins comes to the ground state: lowest energy reached / E_0.

    Parameters
    ----------
    machine : Machine
        The machine.
    split : Split, optional
        Ignored; a metric of runs is called with it.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    chains : int, default 10
        Number of chains.
    steps : int, default 10
        Gibbs sweeps of each chain.
    ground : Tensor of shape (e,), optional
        Ground-state energies; computed when left out.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Tensor of shape (e,)
        At most 1, which means that the ground state was reached.

    Examples
    --------
    >>> rb.gibbs_accessibility(rb.rbm(10, 10, patterns=1, seed=0), seed=0)
    tensor([1.])
    """
    machine.check_chains(chains)
    check_count("the number of steps", steps, least=0)
    machine.layers.check_spins("accessibility")
    rng = rng_from(seed, rng, "accessibility", device=machine.device)
    ground = _ground(machine, rng, ground)
    spins = run_sweeps(machine, machine.random(chains, rng), rng, steps)
    return _share(machine.energy(spins).amin(1), ground)


@watched("method accessibility", remedy="give the ground state's energy, ground=")
@torch.no_grad()
def method_accessibility(
    machine: Machine,
    data: Any,
    rng: torch.Generator | None = None,
    *,
    negative: NegativePhase,
    chains: Tensor | None = None,
    repeats: int = 10,
    ground: Tensor | None = None,
    seed: int | None = None,
    limit: float | None = None,
) -> Tensor:
    """How close a negative phase comes to the ground state: lowest energy that it uses / E_0.

    The configurations are the patterns as spins for `PatternInduced`, the chains for `Persistent`, and
    what `ContrastiveDivergence` reaches from the data, `repeats` times.

    Parameters
    ----------
    machine : Machine
        The machine.
    data : Split or array of shape (samples, v)
        Rows from which contrastive divergence starts.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    negative : NegativePhase
        A phase with `configurations`: `cd`, `pcd`, `pid` or `pt`.
    chains : Tensor, optional
        Chains of a training; new ones when left out.
    repeats : int, default 10
        How often a phase without chains draws.
    ground : Tensor of shape (e,), optional
        Ground-state energies; computed when left out.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Tensor of shape (e,)
        At most 1, which means that the ground state is among the configurations.

    Raises
    ------
    InputError
        If the phase has no configurations of its own.
    """
    if not isinstance(negative, HasConfigurations):
        raise InputError(
            f"{type(negative).__name__} averages over no configurations of its own; method "
            "accessibility needs a phase with configurations(), such as cd, pcd or pid"
        )
    check_count("the number of repeats", repeats)
    machine.layers.check_spins("accessibility")
    rng = rng_from(seed, rng, "accessibility", device=machine.device)
    ground = _ground(machine, rng, ground)
    images = machine.visible_spins(data)
    if chains is None:
        chains = negative.init(machine, rng)
        if chains.shape[1]:
            _, chains = negative.step(machine, chains, images, rng)
    lowest = torch.full_like(ground, torch.inf)
    for _ in range(1 if chains.shape[1] else repeats):
        used = negative.configurations(machine, chains, images, rng)
        lowest = torch.minimum(lowest, machine.energy(used).amin(1))
    return _share(lowest, ground)


def _ground(machine: Machine, rng: torch.Generator, given: Any) -> Tensor:
    """The ground-state energy, unless it is given: exact where that is cheap, else the best found."""
    if given is None:
        return ground_state(machine, rng=rng).energy
    return as_tensor(given, what="the energy of the ground state")


def _share(energy: Tensor, ground: Tensor) -> Tensor:
    """An energy over the ground state's, which a search may have missed."""
    return energy / torch.minimum(ground.to(energy), energy)
