"""Missing cells of a batch, drawn from the machine of this update given the observed ones.

    ∂ log p(x_O) / ∂θ  =  −⟨∂E/∂θ⟩_{x_M, h | x_O}  +  ⟨∂E/∂θ⟩_model                       (1)

M what is missing of a row: the data average takes draws of it, new ones at every update, from chains with
the observed cells held (stochastic EM). Nothing is filled in beforehand. The chains start from the units'
own biases, so that an update needs nothing of those before it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..machines import trusted
from ..machines.machine import Machine
from ..sampling.gibbs import run_sweeps

SWEEPS = 10


@torch.no_grad()
def completed(machine: Machine, batch: Tensor, held: Tensor, rng: torch.Generator, sweeps: int) -> Tensor:
    """Rows (e, b, v) of which the cells that are not `held` are drawn, in the type that they had."""
    layers = machine.layers
    spins = trusted.with_visible(machine, batch)
    for layer in layers.visible:
        where = layers.slices[layer]
        field = torch.zeros_like(spins[..., where])
        if machine.biases is not None:
            field += machine.biases.detach()[:, None, where]
        start = machine.unit(layer).draw(field, rng)
        spins[..., where] = torch.where(held[..., where], spins[..., where], start)
    mask = torch.nn.functional.pad(held, (0, layers.columns - machine.visible))
    swept = run_sweeps(machine, spins, rng, sweeps, clamp=mask)
    return swept[..., : machine.visible].to(batch.dtype)
