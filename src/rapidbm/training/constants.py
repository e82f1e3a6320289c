"""Constant columns: visible units that are the same in all rows are biases and nothing else.

A column that is s_i in each of n rows says nothing of any other. Left to a training, its couplings are
moved by noise alone, to states that no chain visits and that come to outweigh the data. So

    b_i = s_i atanh(n / (n + 2)),        J_ij = 0,        b_j ← b_j + Σ_i J_ij s_i        (1)

before the first update: the marginal smoothed by one observation of each spin, and for the other units
the machine that it was, given the constant ones. After that the gradient of b_i, J_ij and ξ_i is 0.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..data.splits import Split
from ..data.stored import Stored
from ..machines.machine import Machine
from ..machines.spins import column_sums
from ..machines.units.spin import SPIN


def constant_means(data: Tensor | Split, held: Tensor | None = None) -> Tensor:
    """⟨s_i⟩ of constant columns, smoothed by one observation of each spin; 0 of any other; (v,) float64.

    All rows count: those on disk are read until no column can be constant any more. Of a mask `held`
    (samples, v), or that of a split, only the cells that it marks.
    """
    some = data if isinstance(data, Tensor) else data.in_memory().spins
    held = data.observed if held is None and isinstance(data, Split) else held
    if held is not None:
        sums, counts = column_sums(some.masked_fill(~held, 0)), column_sums(held)
        constant = (sums.abs() == counts) & (counts > 0)
        return torch.where(constant, sums.sign(), 0.0) * (counts / (counts + 2.0))
    sums = column_sums(some)
    found = torch.where(sums.abs() == len(some), sums.sign(), 0.0)
    if isinstance(data, Stored) and len(some) < len(data):
        for number, size in enumerate(data.sizes):
            if not bool(found.any()):
                break
            if size:
                packed, _ = data.chunk(number)
                ups = np.unpackbits(np.bitwise_or.reduce(packed, 0))[data.bits]  # in any row, in all
                always = np.unpackbits(np.bitwise_and.reduce(packed, 0))[data.bits]
                same = torch.where(found > 0, torch.from_numpy(always), 1 - torch.from_numpy(ups))
                found *= same
    return found * (len(data) / (len(data) + 2.0))


class Constants:
    """The constant columns of a machine with biases, by their means, 0 for any other, (v,)."""

    def __init__(self, machine: Machine, means: Tensor) -> None:
        self.machine, self.means = machine, means.to(machine.device)
        layers, here = machine.layers, self.means != 0
        units = torch.nn.functional.pad(here, (0, layers.columns - len(here)))  # (n,)
        self.held = {"biases": units}  # entries of each parameter that stay
        if machine.patterns is not None:
            self.held["couplings.patterns"] = units
            return
        for a, b in layers.edges:
            x, y = units[layers.slices[a]], units[layers.slices[b]]
            self.held[f"couplings.weights.{a}-{b}"] = x[:, None] | y

    @staticmethod
    def of(machine: Machine, means: Tensor) -> Constants | None:
        """None where no column of spins is constant, or the machine has no biases."""
        if machine.biases is None:
            return None
        layers = machine.layers
        spins = [torch.full((layers.sizes[i],), layers.kinds[i] == SPIN) for i in layers.visible]
        means = torch.where(torch.cat(spins), means.cpu(), 0.0)
        return Constants(machine, means) if bool(means.any()) else None

    @torch.no_grad()
    def start(self) -> None:
        """Eq. (1); a second time it changes nothing."""
        machine, biases, layers = self.machine, self.machine.biases, self.machine.layers
        assert biases is not None
        spins = torch.zeros_like(biases.data)[:, None]
        spins[..., : machine.visible] = self.means.sign()
        fields = [machine.couplings.field(spins, layer) for layer in range(len(layers.sizes))]
        biases.data += torch.cat(fields, -1)[:, 0]
        here = self.held["biases"][: machine.visible]
        own = SPIN.field_of(self.means).to(machine.dtype)
        biases.data[:, : machine.visible] = torch.where(here, own, biases.data[:, : machine.visible])
        self.uncouple()

    def uncouple(self) -> None:
        """J_ij = 0."""
        for name, held in self.held.items():
            if name != "biases":
                self.machine.get_parameter(name).data.masked_fill_(held, 0.0)

    def masked(self, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradient, 0 where parameters stay."""
        held = self.held
        return {
            name: g.masked_fill(held[name], 0.0) if name in held else g for name, g in gradient.items()
        }
