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


def variational_bound(machine: Machine, means: Tensor, held: tuple[int, ...] = ()) -> Tensor:
    """The right side of eq. (2) in float64, (e, c), over the units of the layers that are not `held`;
    spins whose means are ±1 are held, too."""
    double = copy.deepcopy(machine).double()
    if machine.layers.spins:
        entropy = double.by_layer(lambda unit, m: unit.entropy(m), means).sum(-1)
    else:
        entropy = means.new_zeros(means.shape[:-1], dtype=torch.float64)
        for layer, where in enumerate(machine.layers.slices):
            if layer not in held:
                entropy = entropy + double.unit(layer).entropy(means[..., where]).sum(-1)
    bound: Tensor = entropy - trusted.energy(double, means.double())
    return bound
