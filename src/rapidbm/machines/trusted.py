"""Energies, fields and means of tensors that are known to be right.

    E(x) = − Σ_pairs J_ij x_i x_j − Σ_i b_i x_i + Σ u(x),        field_i = Σ_j J_ij x_j + b_i      (1)

with u the units' own energies, 0 of spins.

The public methods of `Machine` check and encode what they are given, then call these. Code inside the
package calls these directly: its tensors were checked where they came in. Configurations are (e, c, n) of
the machine's type and device; visible rows, (c, v) or (e, c, v), may be of any type, int8 for instance.
A unit may hold its mean, a hidden one that is unknown 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError
from .couplings import NO_ONES
from .units.unit import Beta

if TYPE_CHECKING:
    from .machine import Machine


def field(
    machine: Machine,
    spins: Tensor,
    layer: int,
    *,
    own: bool = True,
    ones: Mapping[int, Tensor] = NO_ONES,
) -> Tensor:
    """The field on a layer, biases included, (e, c, n_l); without `own` that of the other layers. `ones`
    as of `Couplings.field`."""
    field = machine.couplings.field(spins, layer, own=own, ones=ones)
    if machine.biases is not None:
        field += machine.biases[:, None, machine.layers.slices[layer]]
    return field


def fields(machine: Machine, spins: Tensor) -> Tensor:
    """The field on every unit, (e, c, n)."""
    return torch.cat([field(machine, spins, layer) for layer in range(len(machine.layers.sizes))], -1)


def energy(machine: Machine, spins: Tensor) -> Tensor:
    """E(s), (e, c); of means the average over independent units."""
    energy = machine.couplings.energy(spins)
    if machine.biases is not None:
        energy = energy + bias_energy(machine, spins)
    return energy if machine.layers.spins else energy + unit_energy(machine, spins)


def unit_energy(machine: Machine, spins: Tensor, skipped: tuple[int, ...] = ()) -> Tensor:
    """The part of E(x) that units have without a field, (e, c), but for layers that are `skipped`."""
    total = spins.new_zeros(spins.shape[:-1])
    for layer, where in enumerate(machine.layers.slices):
        unit = machine.unit(layer)
        if unit.has_energy and layer not in skipped:
            total = total + unit.energy(spins[..., where]).sum(-1)
    return total


def bias_energy(machine: Machine, spins: Tensor) -> Tensor:
    """The part of E(s) that the biases give, (e, c)."""
    if machine.biases is None:
        return torch.zeros(spins.shape[:-1], dtype=machine.dtype, device=machine.device)
    return -(spins @ machine.biases[..., None]).squeeze(-1)


def shaped(machine: Machine, values: Tensor, width: int, what: str) -> Tensor:
    """(c, width) or (e, c, width) as (e, c, width) on the machine's device, of whatever type."""
    rows = values[None] if values.dim() == 2 else values
    right = rows.dim() == 3 and rows.shape[0] in (1, machine.replicas)
    if not right or rows.shape[2] != width:
        raise InputError(
            f"{what} of this machine is ({machine.replicas}, chains, {width}) or "
            f"(chains, {width}), not {tuple(rows.shape)}"
        )
    return rows.to(machine.device).expand(machine.replicas, -1, -1)


def visible(machine: Machine, rows: Tensor) -> Tensor:
    """Visible rows as (e, c, v) of the machine's type and device."""
    return shaped(machine, rows, machine.visible, "a visible configuration").to(machine.dtype)


def with_visible(machine: Machine, rows: Tensor) -> Tensor:
    """A new configuration with these visible rows and every hidden unit at 0, unknown, (e, c, n)."""
    seen = visible(machine, rows)
    spins = seen.new_zeros((*seen.shape[:2], machine.layers.columns))
    spins[..., : machine.visible] = seen
    return spins


def complete(machine: Machine, rows: Tensor, beta: Beta = 1.0) -> Tensor:
    """The same with the hidden units at their means given the visible ones; they are independent."""
    seen = visible(machine, rows)
    # No need to clear it: hidden units are not coupled to each other.
    spins = seen.new_empty((*seen.shape[:2], machine.layers.columns))
    spins[..., : machine.visible] = seen
    return infer(machine, spins, machine.layers.hidden, beta)


@torch.no_grad()
def infer(machine: Machine, spins: Tensor, layers: tuple[int, ...], beta: Beta = 1.0) -> Tensor:
    """`spins` itself, these layers set to their means given the rest; no coupling joins two of them."""
    for layer in layers:
        place = spins[..., machine.layers.slices[layer]]
        unit = machine.unit(layer)
        unit.mean(field(machine, spins, layer), beta, overwrite=True, out=place)
    return spins
