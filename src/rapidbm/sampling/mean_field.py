"""Mean field: every unit at its mean in the field of the others' means.

    μ_i = mean in field_i(μ), of spins tanh,      visible units held at the data          (1)

Any means give a bound on a sum over states (Jensen), the best ones where (1) holds:

    log Σ exp(−E)  ≥  −E(μ) + Σ_i S(μ_i)                                                  (2)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from ..accel import fused
from ..machines import trusted
from ..machines.machine import Machine


@torch.no_grad()
def mean_field(machine: Machine, visible: Tensor, iterations: int) -> Tensor:
    """Visible spins with the hidden layers at the fixed point of eq. (1), or as near as `iterations`
    get; the fixed point of a restricted machine is its conditional mean."""
    if machine.layers.hidden_independent:
        return trusted.complete(machine, visible)
    pair = machine.operands()
    if pair is not None:
        means = fused.mean_field(pair, trusted.visible(machine, visible), iterations)
        if means is not None:
            return machine.layers.layer_order(means)
    hidden = tuple(layer for layer in machine.layers.order if layer in machine.layers.hidden)
    return relax(machine, trusted.with_visible(machine, visible), hidden, iterations)


@torch.no_grad()
def relax(machine: Machine, means: Tensor, layers: Sequence[int], iterations: int) -> Tensor:
    """Eq. (1) for these layers in their order, in the place of `means` (e, c, n)."""
    for _ in range(iterations):
        for layer in layers:
            where = machine.layers.slices[layer]
            new = machine.unit(layer).mean(trusted.field(machine, means, layer))
            if machine.layers.self_coupled(layer):  # a parallel step would oscillate
                new = 0.5 * (new + means[..., where])
            means[..., where] = new
    return means


def variational_bound(machine: Machine, means: Tensor) -> Tensor:
    """The right side of eq. (2) in float64, (e, c); spins whose means are ±1 are held."""
    double = copy.deepcopy(machine).double()
    entropy = double.by_layer(lambda unit, m: unit.entropy(m), means)
    bound: Tensor = entropy.sum(-1) - trusted.energy(double, means.double())
    return bound
