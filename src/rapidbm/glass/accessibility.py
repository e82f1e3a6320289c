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
    """The lowest E of `chains` chains, `steps` sweeps after a random start, over the ground state's; the
    machine alone counts, whatever the split."""
    machine.check_chains(chains)
    check_count("the number of steps", steps, least=0)
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
    """The lowest energy among the configurations that a negative phase uses, over the ground state's:
    the patterns as spins, the chains as they are, or `repeats` times what k sweeps from the data reach.
    """
    if not isinstance(negative, HasConfigurations):
        raise InputError(
            f"{type(negative).__name__} averages over no configurations of its own; method "
            "accessibility needs a phase with configurations(), such as cd, pcd or pid"
        )
    check_count("the number of repeats", repeats)
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
