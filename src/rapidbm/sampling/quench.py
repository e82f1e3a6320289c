"""A quench, descent at zero temperature: every unit follows its field until none wants to turn.

    s_i ← sign(field_i),        stable when s_i field_i ≥ 0 for all i                     (1)

A layer that is not coupled to itself turns at once, a layer that is coupled to itself unit by unit. The
energy never rises; a unit without a field stays as it is.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from ..errors import InputError, check_count
from ..machines.couplings import Patterns
from ..machines.machine import Machine
from ..machines.spins import sign
from ..progress import pulse


@torch.no_grad()
def descend(machine: Machine, spins: Tensor, *, passes: int = 1000, means: bool = False) -> Tensor:
    """Local minima below the configurations (e, c, n): no single flip lowers the energy.

    A hidden unit at 0 counts as unknown, with `means` any unit; it takes the sign of its field, +1 where
    it has none.
    """
    check_count("the number of passes", passes)
    spins = machine.configuration(spins, means=means).clone()
    noise = _rounding(machine)
    for _ in range(passes):
        pulse()
        before = spins.clone()
        for layer in machine.layers.order:
            where = machine.layers.slices[layer]
            if machine.layers.self_coupled(layer):
                spins[..., where] = _unit_by_unit(machine, spins, layer, noise[..., where])
            else:
                field = machine.field(spins, layer, means=True)
                spins[..., where] = _follow(field, spins[..., where], noise[..., where])
        if torch.equal(spins, before):
            return spins
    raise InputError(f"descent has not come to rest in {passes:,} passes; allow more of them")


def _rounding(machine: Machine) -> Tensor:
    """What a field may owe to rounding, (e, 1, n): ε √n Σ_j |J_ij|. A unit that turned for less could
    turn for ever, as do units whose field is zero but for the order of summation."""
    absolute = copy.deepcopy(machine)
    for parameter in absolute.parameters():
        parameter.data.abs_()
    ones = torch.ones(1, machine.layers.units)
    reach = torch.cat([absolute.field(ones, i) for i in range(len(machine.layers.sizes))], -1)
    return reach * (torch.finfo(machine.dtype).eps * math.sqrt(machine.layers.units))


def _follow(field: Tensor, spins: Tensor, noise: Tensor) -> Tensor:
    return torch.where((spins * field < -noise) | (spins == 0), sign(field), spins)


def _unit_by_unit(machine: Machine, spins: Tensor, layer: int, noise: Tensor) -> Tensor:
    new = spins[..., machine.layers.slices[layer]].clone()
    outside = machine.field(spins, layer, own=False, means=True)
    couplings = machine.couplings
    if isinstance(couplings, Patterns):  # through the overlap, in K instead of N steps per unit
        xi = couplings.of_layer(layer)  # (e, k, n_l)
        square = couplings.scale * xi.square().sum(1)  # (e, n_l)
        m = couplings.overlap(spins, layer)  # (e, c, k)
        for i in range(new.shape[-1]):
            own = couplings.scale * (m @ xi[:, :, i, None]).squeeze(-1)
            old = new[..., i].clone()
            field = outside[..., i] + own - square[:, None, i] * old
            new[..., i] = _follow(field, old, noise[..., i])
            m = m + (new[..., i] - old)[..., None] * xi[:, None, :, i]
        return new
    matrix = couplings.matrix(layer, layer)
    for i in range(new.shape[-1]):
        field = outside[..., i] + (new @ matrix[:, :, i, None]).squeeze(-1)
        new[..., i] = _follow(field, new[..., i], noise[..., i])
    return new
