"""Ensembles: configurations with weights, written down or not, and the gradient over them.

    ⟨∂E/∂θ⟩ = Σ_c w_c ∂E(s_c)/∂θ                                                          (1)

A phase of training answers with one. `WeightedSpins` holds its configurations; `GivenVisible` only their
visible part, the hidden units at their means given it; `AllStates` none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from ..accel import fused
from ..arrays import as_tensor
from ..display import Displayable
from ..errors import InputError, check_count
from . import trusted
from .enumeration import enumerate_spins, free_layers, log_weight

if TYPE_CHECKING:
    from .machine import Machine

LARGE, PART = 2**26, 2**25  # numbers of an ensemble from which on it goes in parts; of a part


class Ensemble(Protocol):
    """Weighted configurations: the weights of the data, and of the model, sum to one."""

    @property
    def spins(self) -> Tensor: ...
    @property
    def weights(self) -> Tensor: ...

    def gradient(self, machine: Machine) -> dict[str, Tensor]:
        """Eq. (1) for every parameter, under its name in `named_parameters()`."""
        ...

    def gradient_difference(
        self, model: Ensemble, machine: Machine, mine: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Eq. (1), which may be given as `mine`, less that of the model."""
        ...

    def gradient_comes_first(self, machine: Machine) -> bool:
        """Whether eq. (1) is better had before the model's configurations are there."""
        ...


@dataclass(frozen=True, repr=False)
class WeightedSpins(Displayable):
    """Configurations and their weights; a unit may hold its conditional mean in place of a state."""

    spins: Tensor  # (e, c, n)
    weights: Tensor  # (e, c)
    means: tuple[int, ...] = ()  # the layers whose units hold their means in their fields

    def __post_init__(self) -> None:
        for name in ("spins", "weights"):
            if not isinstance(getattr(self, name), Tensor):
                object.__setattr__(self, name, as_tensor(getattr(self, name), what=name))
        if self.spins.dim() != 3 or self.weights.shape != self.spins.shape[:2]:
            raise InputError(
                "weighted spins are (replicas, configurations, units) with weights (replicas, "
                f"configurations), not {tuple(self.spins.shape)} and {tuple(self.weights.shape)}"
            )

    @staticmethod
    def equal(spins: Tensor, means: tuple[int, ...] = ()) -> WeightedSpins:
        """Equal weights that sum to one."""
        e, c, _ = spins.shape
        check_count("the number of configurations to average over", c)
        return WeightedSpins(spins, spins.new_full((e, c), 1.0 / c), means)

    def gradient(self, machine: Machine) -> dict[str, Tensor]:
        return machine.gradient_over(self.spins, self.weights, self.means)

    def gradient_difference(
        self, model: Ensemble, machine: Machine, mine: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        if mine is None and isinstance(model, WeightedSpins) and self.means == model.means:
            if fused.joined(self.spins, model.spins):
                return self.minus(model).gradient(machine)
        return _difference(self, model, machine, mine)

    def gradient_comes_first(self, machine: Machine) -> bool:
        return False

    def times(self, factor: float | Tensor) -> WeightedSpins:
        """The same with all weights times a factor, one or (e, c) or (e, 1)."""
        return replace(self, weights=self.weights * factor)

    def minus(self, other: WeightedSpins) -> WeightedSpins:
        """Both, the weights of the other negative."""
        spins = torch.cat([self.spins, other.spins], 1)
        return replace(self, spins=spins, weights=torch.cat([self.weights, -other.weights], 1))


@dataclass(frozen=True)
class GivenVisible:
    """Weighted visible spins; the hidden units are at their means given them, and are not written down
    before somebody asks."""

    machine: Machine
    visible: Tensor  # (e, c, v)
    weights: Tensor  # (e, c)

    @property
    def spins(self) -> Tensor:
        return trusted.complete(self.machine, self.visible)

    def gradient(self, machine: Machine) -> dict[str, Tensor]:
        pair = machine.operands() if machine is self.machine else None
        fused_sum = None if pair is None else fused.gradient(pair, self.visible, self.weights)
        if fused_sum is not None:
            return fused_sum
        if self.visible.numel() < LARGE:
            return machine.gradient_over(self.spins, self.weights, machine.layers.hidden)
        return self._in_parts(machine)

    def _in_parts(self, machine: Machine) -> dict[str, Tensor]:
        """The same of some configurations at a time: hidden units are written beside a copy of them."""
        total = {name: torch.zeros_like(p.data) for name, p in machine.named_parameters()}
        start = "couplings."
        of_couplings = {k.removeprefix(start): v for k, v in total.items() if k.startswith(start)}
        step = max(1, PART // (self.visible.shape[0] * self.visible.shape[2]))
        parts = zip(*(torch.split(x, step, 1) for x in (self.visible, self.weights)), strict=True)
        for visible, weights in parts:
            spins = trusted.complete(self.machine, visible)
            machine.couplings.add_gradient(of_couplings, spins, weights)
            if "biases" in total:
                total["biases"] -= (weights[:, None] @ spins).squeeze(1)
            of_units = machine.gradient_of_units(spins, weights, machine.layers.hidden)
            for name, value in of_units.items():
                total[name] += value
        return total

    def gradient_difference(
        self, model: Ensemble, machine: Machine, mine: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        pair = machine.operands()
        if mine is None and isinstance(model, GivenVisible) and pair is not None:
            if fused.joins(pair, max(self.visible.shape[1], model.visible.shape[1])):
                return self.minus(model).gradient(machine)
        return _difference(self, model, machine, mine)

    def gradient_comes_first(self, machine: Machine) -> bool:
        pair = machine.operands()
        return pair is not None and fused.long(pair, self.visible.shape[1])

    def times(self, factor: float | Tensor) -> GivenVisible:
        return replace(self, weights=self.weights * factor)

    def minus(self, other: GivenVisible) -> GivenVisible:
        """Both, the weights of the other negative."""
        visible = torch.cat([self.visible, other.visible.to(self.visible.dtype)], 1)
        return replace(self, visible=visible, weights=torch.cat([self.weights, -other.weights], 1))


@dataclass(frozen=True)
class AllStates:
    """Every state with its Boltzmann weight, as `WeightedSpins` that need not fit in memory."""

    machine: Machine
    factor: Tensor | None = None  # (e, 1): on all weights

    @torch.no_grad()
    def _parts(self, half: bool) -> Iterator[WeightedSpins]:
        free = free_layers(self.machine.layers)
        logs = [
            log_weight(self.machine, spins, free, 1.0)
            for spins in enumerate_spins(self.machine, half=half)
        ]
        weights = torch.softmax(torch.cat(logs, 1), 1).to(self.machine.dtype)  # (e, c)
        weights = weights if self.factor is None else weights * self.factor
        start = 0
        for spins in enumerate_spins(self.machine, half=half):
            stop = start + spins.shape[1]
            filled = trusted.infer(self.machine, spins.clone(), free)
            yield WeightedSpins(filled, weights[:, start:stop], free)
            start = stop

    @torch.no_grad()
    def products(self) -> tuple[Tensor, Tensor]:
        """⟨s_a s_b⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) of two layers that are coupled to each other alone.

        The same sums as those over `chunks`, without writing configurations down.
        """
        machine, layers = self.machine, self.machine.layers
        if not layers.two_layers:
            raise InputError(
                "products are of two layers that are coupled to each other alone, this machine has "
                f"layers {layers.sizes} and edges {layers.edges}; use chunks()"
            )
        (given,) = layers.cover()
        free = 1 - given
        half = machine.symmetric
        logs = [log_weight(machine, s, (free,), 1.0) for s in enumerate_spins(machine, half=half)]
        weights = torch.softmax(torch.cat(logs, 1), 1).to(machine.dtype)  # (e, c)
        sizes = (machine.replicas, layers.sizes[given], layers.sizes[free])
        product = torch.zeros(sizes, dtype=machine.dtype, device=machine.device)
        mean = torch.zeros((machine.replicas, layers.columns), dtype=machine.dtype, device=machine.device)
        start = 0
        for spins in enumerate_spins(machine, half=half):
            share = weights[:, start : start + spins.shape[1], None]
            start += spins.shape[1]
            signed = spins[..., layers.slices[given]] * share
            inferred = machine.unit(free).mean(trusted.field(machine, spins, free))
            product.baddbmm_(signed.mT, inferred)
            if not half:  # by symmetry 0 otherwise
                mean[:, layers.slices[given]] += signed.sum(1)
                mean[:, layers.slices[free]] += (share.mT @ inferred).squeeze(1)
        return (product if given == 0 else product.mT), mean

    @torch.no_grad()
    def gradient(self, machine: Machine) -> dict[str, Tensor]:
        if machine.layers.two_layers and machine.own is None:
            pair = machine.operands() if machine is self.machine else None
            sums = None if pair is None else fused.products(pair)
            product, mean = sums or self.products()
            if self.factor is not None:
                product, mean = product * self.factor[..., None], mean * self.factor
            return machine.gradient_of(product, mean)
        total: dict[str, Tensor] = {}
        for part in self.chunks():
            found = part.gradient(machine)
            total = {k: total[k].add_(v) for k, v in found.items()} if total else found
        return total

    def gradient_difference(
        self, model: Ensemble, machine: Machine, mine: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        return _difference(self, model, machine, mine)

    def gradient_comes_first(self, machine: Machine) -> bool:
        return False

    def times(self, factor: Tensor) -> AllStates:
        """The same with all weights times a factor (e, 1)."""
        return replace(self, factor=factor if self.factor is None else self.factor * factor)

    def chunks(self) -> Iterator[WeightedSpins]:
        """Parts of the average of an even function, such as the energy's gradient: where s and −s
        weigh the same, one of the two stands for both."""
        return self._parts(half=self.machine.symmetric)

    def whole(self) -> WeightedSpins:
        parts = list(self._parts(half=False))
        spins, weights = (torch.cat([getattr(p, x) for p in parts], 1) for x in ("spins", "weights"))
        return WeightedSpins(spins, weights, parts[0].means)

    @property
    def spins(self) -> Tensor:
        return self.whole().spins

    @property
    def weights(self) -> Tensor:
        return self.whole().weights


def given_visible(machine: Machine, visible: Tensor) -> WeightedSpins | GivenVisible:
    """Equal weights for visible rows that are known to be right, hidden units at their means."""
    if not machine.layers.is_restricted:
        return WeightedSpins.equal(trusted.complete(machine, visible), machine.layers.hidden)
    visible = trusted.shaped(machine, visible, machine.visible, "a visible configuration")
    e, c, _ = visible.shape
    check_count("the number of configurations to average over", c)
    share = torch.full((), 1.0 / c, dtype=machine.dtype, device=machine.device)
    return GivenVisible(machine, visible, share.expand(e, c))


def _difference(
    data: Ensemble, model: Ensemble, machine: Machine, mine: dict[str, Tensor] | None
) -> dict[str, Tensor]:
    difference = data.gradient(machine) if mine is None else mine
    for name, value in model.gradient(machine).items():
        difference[name].sub_(value)
    return difference
