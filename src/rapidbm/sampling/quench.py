"""A quench, descent at zero temperature: every unit follows its field until none wants to turn.

    s_i ← sign(field_i),        stable when s_i field_i ≥ 0 for all i                     (1)

and a unit of another kind goes to its state of lowest energy.

A layer that is not coupled to itself turns at once, a layer that is coupled to itself unit by unit. The
energy never rises; a unit without a field stays as it is.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from ..errors import InputError, check_count
from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.unit import Unit
from ..progress import report_progress


@torch.no_grad()
def descend(machine: Machine, spins: Tensor, *, passes: int = 1000, means: bool = False) -> Tensor:
    """Local minima below given configurations: no single flip lowers the energy.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    spins : Tensor of shape (e, c, n)
        Where to start. A hidden unit at 0 is unknown and takes the sign of its field, +1 without a
        field.
    passes : int, default 1000
        Largest number of passes over the layers.
    means : bool, default False
        Accept values between −1 and 1, and 0 for any unit.

    Returns
    -------
    Tensor of shape (e, c, n)
        The minima.

    Examples
    --------
    >>> machine = rb.rbm(8, 8, patterns=1, seed=0)
    >>> spins = machine.random(5, seed=0)
    >>> bool((machine.energy(rb.descend(machine, spins)) <= machine.energy(spins)).all())
    True
    """
    check_count("the number of passes", passes)
    if not machine.layers.listed:
        raise InputError(
            f"descent goes from state to state, and of {machine.layers.words} some have no list of them; "
            "take a machine of spins, binary or categorical units"
        )
    return quench(machine, machine.configuration(spins, means=means), passes)


@torch.no_grad()
def quench(machine: Machine, spins: Tensor, passes: int = 1000) -> Tensor:
    """`descend` for code of the package: from configurations (e, c, n) that are known to be right."""
    spins = spins.to(machine.dtype, copy=True)
    noise = _rounding(machine)
    for _ in range(passes):
        report_progress()
        before = spins.clone()
        for layer in machine.layers.order:
            where = machine.layers.slices[layer]
            if machine.layers.self_coupled(layer):
                spins[..., where] = _unit_by_unit(machine, spins, layer, noise[..., where])
            else:
                field = trusted.field(machine, spins, layer)
                spins[..., where] = _follow(
                    machine.unit(layer), field, spins[..., where], noise[..., where]
                )
        if torch.equal(spins, before):
            return spins
    raise InputError(f"descent has not come to rest in {passes:,} passes; allow more of them")


def _rounding(machine: Machine) -> Tensor:
    """What a field may owe to rounding, (e, 1, n): ε √n Σ_j |J_ij|. A unit that turned for less could
    turn for ever, as do units whose field is zero but for the order of summation."""
    absolute = copy.deepcopy(machine)
    for parameter in absolute.parameters():
        parameter.data.abs_()
    ones = torch.ones((machine.replicas, 1, machine.layers.columns)).to(absolute.couplings.first)
    reach = trusted.fields(absolute, ones)
    return reach * (torch.finfo(machine.dtype).eps * math.sqrt(machine.layers.columns))


def _follow(unit: Unit, field: Tensor, spins: Tensor, noise: Tensor) -> Tensor:
    turns = (unit.flip_cost(spins, field) < -2.0 * noise) | unit.unknown(spins)
    return torch.where(turns, unit.nearest(field), spins)


def _unit_by_unit(machine: Machine, spins: Tensor, layer: int, noise: Tensor) -> Tensor:
    new, kind = spins[..., machine.layers.slices[layer]].clone(), machine.unit(layer)
    outside = trusted.field(machine, spins, layer, own=False)
    if kind.units(new.shape[-1]) != new.shape[-1]:
        matrix = machine.couplings.matrix(layer, layer)
        for x, unit in kind.one_by_one(new.shape[-1]):
            field = outside[..., x] + new @ matrix[:, :, x]
            new[..., x] = _follow(unit, field, new[..., x].clone(), noise[..., x])
        return new
    own = machine.couplings.running(spins, layer)
    for i in range(new.shape[-1]):
        old = new[..., i].clone()
        field = outside[..., i] + own.field(new, i)
        new[..., i] = _follow(kind, field, old, noise[..., i])
        own.changed(i, new[..., i] - old)
    return new
