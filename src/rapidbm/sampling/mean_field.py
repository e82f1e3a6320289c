"""Mean field: every unit at its mean in the field of the others' means.

    μ_i = tanh(field_i(μ)),      visible units held at the data                           (1)

Any means give a bound on a sum over states (Jensen), the best ones where (1) holds:

    log Σ exp(−E)  ≥  −E(μ) + Σ_i S(μ_i)                                                  (2)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from ..accel import fused
from ..machines.machine import Machine


@torch.no_grad()
def mean_field(machine: Machine, visible: Tensor, iterations: int) -> Tensor:
    """Visible spins with the hidden layers at the fixed point of eq. (1), or as near as `iterations`
    get; the fixed point of a restricted machine is its conditional mean."""
    if machine.layers.hidden_independent:
        return machine.complete(visible, means=True)
    pair = machine.operands()
    if pair is not None:
        means = fused.mean_field(pair, machine.visible_spins(visible, means=True), iterations)
        if means is not None:
            return machine.layers.layer_order(means)
    hidden = tuple(layer for layer in machine.layers.order if layer != 0)
    return relax(machine, machine.with_visible(visible, means=True), hidden, iterations)


@torch.no_grad()
def relax(machine: Machine, means: Tensor, layers: Sequence[int], iterations: int) -> Tensor:
    """Eq. (1) for these layers in their order, in the place of `means` (e, c, n)."""
    for _ in range(iterations):
        for layer in layers:
            where = machine.layers.slices[layer]
            new = machine.layers.unit(layer).mean(machine.field(means, layer, means=True))
            if machine.layers.self_coupled(layer):  # a parallel step would oscillate
                new = 0.5 * (new + means[..., where])
            means[..., where] = new
    return means


def variational_bound(machine: Machine, means: Tensor) -> Tensor:
    """The right side of eq. (2) in float64, (e, c); units whose means are ±1 are held."""
    entropy = machine.layers.by_layer(lambda unit, m: unit.entropy(m), means)
    bound: Tensor = entropy.sum(-1) - copy.deepcopy(machine).double().energy(means, means=True)
    return bound
