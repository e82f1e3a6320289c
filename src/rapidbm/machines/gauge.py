"""The gauge of units whose columns sum to one: parameters that change no probability are kept at 0.

With c_i = 1/q on the q columns of such a unit and 0 on all others, and P what takes the mean over the
columns of each unit off them (`Unit.gauge`),

    x = P x + c,        ½ xᵀJx + b·x = ½ xᵀ(PJP)x + (b + J c)·x + constant                 (1)

so J may be PJP, its columns sum to zero over each unit on either side, if J c goes to the biases; of
patterns ξ P does the same. The biases b then lose what is equal on all columns of a unit, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .layers import Layers

if TYPE_CHECKING:
    from .machine import Machine


def has_gauge(layers: Layers) -> bool:
    """Whether any kind of unit has columns that sum to one."""
    return any(
        unit.gauge(torch.zeros(n)) is not None for unit, n in zip(layers.kinds, layers.sizes, strict=True)
    )


@torch.no_grad()
def fix_gauge(machine: Machine) -> None:
    """Eq. (1), in place. Without biases the couplings are projected alone."""
    if machine.biases is not None:
        shares = _shares(machine)  # (1, 1, n)
        layers = range(len(machine.layers.sizes))
        fields = [machine.couplings.field(shares, layer) for layer in layers]
        machine.biases.data.add_(torch.cat(fields, -1)[:, 0])
        machine.biases.data.sub_(_means(machine, machine.biases.data))
    machine.couplings.project(lambda values, layer: _mean(machine.layers, values, layer))


def zero_sum(layers: Layers, fields: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. (1) for fields (e, v) on the visible columns and pair couplings (e, v, v)."""
    seen = range(layers.seen)

    def mean(values: Tensor) -> Tensor:
        parts = []
        for layer in seen:
            part = values[..., layers.slices[layer]]
            found = _mean(layers, part, layer)
            parts.append(torch.zeros_like(part) if found is None else found)
        return torch.cat(parts, -1)

    shares = mean(torch.ones_like(fields[:1]))  # 1 on columns of such units
    counts = []
    for layer in seen:
        kind, size = layers.kinds[layer], layers.sizes[layer]
        counts.append(kind.on_columns(kind.per_unit(torch.ones(size)), size))
    shares = shares / torch.cat(counts).to(shares)
    fields = fields + (pairs @ shares[:, :, None])[..., 0]
    pairs = pairs - mean(pairs)
    pairs = pairs - mean(pairs.mT).mT
    return fields - mean(fields), pairs


def _mean(layers: Layers, values: Tensor, layer: int) -> Tensor | None:
    """What (…, n_l) has on all columns of each unit; None where nothing is to be taken off."""
    return layers.kinds[layer].gauge(values)


def _means(machine: Machine, values: Tensor) -> Tensor:
    parts = []
    for layer, where in enumerate(machine.layers.slices):
        part = values[..., where]
        mean = _mean(machine.layers, part, layer)
        parts.append(torch.zeros_like(part) if mean is None else mean)
    return torch.cat(parts, -1)


def _shares(machine: Machine) -> Tensor:
    """c of eq. (1): as the gauge of a column of ones less that of what stands alone."""
    parts = []
    for layer, size in enumerate(machine.layers.sizes):
        ones = torch.ones(size, dtype=machine.dtype, device=machine.device)
        kind = machine.layers.kinds[layer]
        if kind.gauge(ones) is None:
            parts.append(torch.zeros_like(ones))
        else:
            parts.append(1.0 / kind.on_columns(kind.per_unit(ones), size))
    return torch.cat(parts)[None, None].expand(machine.replicas, 1, -1)
