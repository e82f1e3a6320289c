"""Paths from a distribution that is easy to sample to a machine, for annealing and tempering.

`Cooling` leads from a mixture q of independent units, one component per base b_j, to the machine,

    q(s) = Σ_j π_j q_j(s),        q_j(s) = exp(b_j·s − Σ u(s_i)) / Π_i exp A_i(b_ji)      (1)
    f_β(s) = exp(−β E(s)) Σ_j π_j q_j(s)^(1 − β),        β from 0 to 1                    (2)

so that f_0 = q has the sum 1, and f_1 = exp(−E) whatever the bases; of spins u = 0 and exp A = 2 cosh b.
The units' own energies u are in E and in q alike: no position changes them. A chain draws its component
given its spins, then sweeps in that component's field. The free layers (`layers.inferred`) are summed in
closed form, unless bases differ on them. A machine without biases has E(s) = E(−s): a base that leans to
one side comes with its mirror image, or half of the states would never be seen. `Trajectory` leads
through machines of the same shape, such as the checkpoints of a run, by the parameters in between,

    θ_x = (1 − x + j) θ_j + (x − j) θ_{j+1},        j ≤ x ≤ j + 1                         (3)

`Crossing` leads from one machine to another of the same shape by their energies,

    E_x(s) = (1 − x) E_0(s) + x E_1(s)                                                    (4)

A position on a path is a number, which a graph reads from a tensor (), or a tensor (e, t) of rungs;
chains then stand rung by rung, (e, t·c, n).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..errors import InputError
from ..machines import trusted
from ..machines.enumeration import given_energy, log_weight
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..random import check_rng
from .gibbs import run_sweeps

Position = float | Tensor
LogWeights = Callable[[Position], Tensor]  # log f of given configurations at a position, (e, c) float64


class Path(Protocol):
    """A family of distributions between an easy one at 0 and the machine at `end`.

    Where it is `capturable`, positions may be tensors (), and neither moves nor weights wait for them."""

    capturable: ClassVar[bool]

    @property
    def end(self) -> float: ...
    def start(self, chains: int, rng: torch.Generator) -> Tensor:
        """Draws at position 0, (e, c, n)."""
        ...

    def move(self, spins: Tensor, rng: torch.Generator, at: Position) -> Tensor:
        """A sweep that leaves the distribution at `at` in place."""
        ...

    def weights(self, spins: Tensor) -> LogWeights:
        """log f of these configurations, for every position."""
        ...

    def fixed_parameters(self) -> AbstractContextManager[None]:
        """A block in which no parameter changes."""
        ...


@dataclass(frozen=True)
class Cooling:
    """Eq. (2). `bases` are the b_j, (j, e, 1, n), alike on the layers that are summed, and `parts` the
    log π_j, (j, e), equal by default. One base alone may differ from chain to chain, (1, e, c, n);
    columns that are `held` then stay as in `given`, all those of a unit."""

    capturable: ClassVar[bool] = True

    machine: Machine
    bases: Tensor
    parts: Tensor | None = None
    given: Tensor | None = None  # (e, c, n)
    held: Tensor | None = None  # bool, the columns of `given` that stay, (e, c, n)
    exact: bool = True  # weights in float64
    summing: bool = True  # over the free layers in closed form; if not, bases may differ there

    @property
    def end(self) -> float:
        return 1.0

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The layers that are summed."""
        return self.machine.layers.inferred if self.summing else ()

    def fixed_parameters(self) -> AbstractContextManager[None]:
        return self.machine.fixed_parameters()

    @cached_property
    def precise(self) -> Machine:
        """The same machine in float64: chains may move in float32, weights must not round. A cold
        machine has energies of 10⁵ and more, and log w is a sum of thousands of small differences."""
        return copy.deepcopy(self.machine).double() if self.exact else self.machine

    @cached_property
    def masses(self) -> Tensor:
        """The log of eq. (1)'s products, (j, e, 1) or (1, e, c)."""
        total = self.bases.new_zeros(self.bases.shape[:-1], dtype=torch.float64)
        if self.machine.layers.spins:
            each = self.machine.unit(0).log_sum(self.bases.double())
            return (each if self.held is None else torch.where(self.held, 0.0, each)).sum(-1)
        for layer, where in enumerate(self.machine.layers.slices):
            unit = self.precise.unit(layer)
            each = unit.log_sum(self.bases[..., where].double())
            if self.held is not None:
                here = unit.per_unit(self.held[..., where].to(torch.float64)) > 0
                each = torch.where(here, 0.0, each)
            total = total + each.sum(-1)
        return total

    @cached_property
    def shares(self) -> Tensor:
        """log π_j, (j, e, 1) or, where all are equal, (j, 1, 1)."""
        if self.parts is None:
            count = len(self.bases)
            return self.masses.new_full((count, 1, 1), -math.log(count))
        return torch.log_softmax(self.parts.double(), 0)[..., None]

    @cached_property
    def kept(self) -> list[tuple[slice, Tensor]]:
        """The layers that are not summed, and the bases on their units, 0 where one is held."""
        bases = self.bases.to(self.precise.dtype)
        if self.held is not None:
            bases = torch.where(self.held, 0.0, bases)
        kept = (x for i, x in enumerate(self.machine.layers.slices) if i not in self.free)
        return [(where, bases[..., where]) for where in kept]

    def log_q(self, spins: Tensor) -> Tensor:
        """log q_j of eq. (1) with the summed layers at 0, (j, e, c)."""
        total = -self.masses
        if not self.machine.layers.spins:  # of those that are held u is in E alone, and no draw
            total = total - self._loose_energy(spins.to(self.precise.dtype))
        for where, bases in self.kept:
            seen = spins[..., where].to(bases.dtype)
            if len(bases) == 1:
                total = total + (seen * bases[0]).sum(-1)
            else:
                total = total + (seen @ bases.squeeze(2).permute(1, 2, 0)).movedim(-1, 0)
        return total

    def _loose_energy(self, spins: Tensor) -> Tensor:
        """Σ u over the units that are neither summed nor held, (e, c)."""
        if self.held is None:
            return trusted.unit_energy(self.precise, spins, self.free)
        total = spins.new_zeros(spins.shape[:-1])
        for layer, where in enumerate(self.machine.layers.slices):
            unit = self.precise.unit(layer)
            if unit.has_energy and layer not in self.free:
                held = unit.per_unit(self.held[..., where].to(spins.dtype)) > 0
                total = total + unit.energy(spins[..., where]).masked_fill(held, 0.0).sum(-1)
        return total

    def start(self, chains: int, rng: torch.Generator) -> Tensor:
        """Exact draws at β = 0, from every component as many as it has a share in."""
        check_rng(rng, self.machine.device)
        self.machine.check_chains(chains)
        base = self.bases[0]
        if len(self.bases) > 1:
            total = self.shares.exp().cumsum(0)  # (j, e, 1)
            offset = torch.rand((len(base), 1), generator=rng, device=base.device)
            level = (torch.arange(chains, device=base.device) + offset) / chains  # (e, c)
            base = _of(self.bases, (total[:-1] < level).sum(0))
        base = base.expand(-1, chains, -1)
        spins = self.machine.by_layer(lambda unit, b: unit.draw(b, rng), base)
        if self.held is None or self.given is None:
            return spins
        return torch.where(self.held, self.given, spins)

    def move(self, spins: Tensor, rng: torch.Generator, at: Position) -> Tensor:
        beta = _per_chain(at, spins)
        bases = self.bases
        if not _differs(beta):  # before each chain has its own
            bases = bases * (1.0 - beta)
        push = bases[0] if len(bases) == 1 else _of(bases, self._component(spins, rng, beta))
        if _differs(beta):
            push = push * (1.0 - _by_unit(beta))
        return run_sweeps(self.machine, spins, rng, 1, beta, self.held, push)

    def _component(self, spins: Tensor, rng: torch.Generator, beta: Position) -> Tensor:
        """j given s with the free layers summed, (e, c)."""
        logs = self.shares + (1.0 - beta) * self.log_q(spins)
        total = torch.softmax(logs, 0).cumsum(0)  # (j, e, c)
        level = torch.rand(total.shape[1:], generator=rng, device=total.device, dtype=total.dtype)
        return (total[:-1] < level).sum(0)

    def weights(self, spins: Tensor) -> LogWeights:
        """log f_β(s) = −β E + log Σ_j π_j q_j^(1 − β) + Σ_free log 2cosh(β field + (1 − β) b), where q_j
        has the free layers at 0."""
        layers = self.machine.layers
        kept = free_at_0(layers, spins, self.precise.dtype) if self.free else spins.to(self.precise.dtype)
        energy, log_q = given_energy(self.precise, kept, self.free), self.log_q(kept)
        base = self.bases[0].to(self.precise.dtype)
        free = [
            (layer, trusted.field(self.precise, kept, layer), base[..., layers.slices[layer]])
            for layer in self.free
        ]

        def log_f(at: Position) -> Tensor:
            beta = _per_chain(at, energy)
            pulled = torch.logsumexp(self.shares + ((1.0 - beta) * log_q).double(), 0)
            total = pulled - (beta * energy).double()
            inner = _by_unit(beta)
            for layer, field, b in free:
                unit = self.precise.unit(layer)
                total = total + unit.log_sum(field * inner + b * (1.0 - inner)).sum(-1)
            return total

        return log_f


def free_at_0(layers: Layers, spins: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """A copy of the spins with the free layers, which are summed over, at 0."""
    kept = spins.to(dtype, copy=True)
    for layer in layers.inferred:
        kept[..., layers.slices[layer]] = 0.0
    return kept


def _of(bases: Tensor, component: Tensor) -> Tensor:
    """The base (j, e, 1, n) of every chain's component (e, c), (e, c, n)."""
    replica = torch.arange(len(component), device=component.device)[:, None]
    return bases.squeeze(2)[component, replica]


def check_one_shape(machines: Sequence[Machine]) -> None:
    """Refuses machines that do not lie on one way."""
    shapes = [{name: tuple(p.shape) for name, p in m.named_parameters()} for m in machines]
    for i, machine in enumerate(machines):
        if machine.layers != machines[0].layers or shapes[i] != shapes[0]:
            raise InputError(
                f"machines along a training have one shape, {shapes[0]}, but number {i} has "
                f"{shapes[i]}; give each shape on its own"
            )


class Trajectory:
    """Eq. (3) through machines of the same shape, from random spins."""

    capturable: ClassVar[bool] = True

    def __init__(self, machines: Sequence[Machine]) -> None:
        if len(machines) < 2:
            raise InputError(f"a trajectory leads through two machines or more, not {len(machines)}")
        check_one_shape(machines)
        self.machine = copy.deepcopy(machines[0]).requires_grad_(False)
        self.stops = {  # (machine, e, …)
            name: torch.stack([m.get_parameter(name).detach() for m in machines])
            for name, _ in self.machine.named_parameters()
        }

    @property
    def end(self) -> float:
        return float(len(next(iter(self.stops.values()))) - 1)

    def fixed_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start(self, chains: int, rng: torch.Generator) -> Tensor:
        return self.machine.random(chains, rng)

    def at(self, at: Position) -> Machine:
        """The machines at these positions: replicas e·t, rung after rung of each."""
        device = self.machine.device
        where = at if isinstance(at, Tensor) else torch.tensor(float(at))
        where = where.to(device, torch.float64).clamp(0.0, self.end)
        where = where if where.dim() else where.expand(self.machine.replicas, 1)  # (e, t)
        left = where.floor().long().clamp(max=int(self.end) - 1)
        replica = torch.arange(len(where), device=device)[:, None]
        made = copy.deepcopy(self.machine)
        for name, parameter in made.named_parameters():
            stops = self.stops[name]
            share = (where - left).to(stops).reshape(*where.shape, *([1] * (stops.dim() - 2)))
            mixed = torch.lerp(stops[left, replica], stops[left + 1, replica], share)
            parameter.data = mixed.flatten(0, 1)
        return made

    def move(self, spins: Tensor, rng: torch.Generator, at: Position) -> Tensor:
        machine = self.at(at)
        apart = spins.reshape(machine.replicas, -1, spins.shape[2])
        return run_sweeps(machine, apart, rng).reshape(spins.shape)

    def weights(self, spins: Tensor) -> LogWeights:
        kept = free_at_0(self.machine.layers, spins)

        def log_f(at: Position) -> Tensor:
            machine = self.at(at).double()
            apart = kept.reshape(machine.replicas, -1, machine.layers.columns)
            return log_weight(machine, apart, machine.layers.inferred, 1.0).reshape(kept.shape[:2])

        return log_f


@dataclass(frozen=True)
class Crossing:
    """Eq. (4), from chains `first` (e, c, n) of the machine `here`."""

    capturable: ClassVar[bool] = False  # the machine of eq. (4) is made, and looked at, on the way

    here: Machine
    there: Machine
    first: Tensor

    @property
    def end(self) -> float:
        return 1.0

    def fixed_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()

    @cached_property
    def precise(self) -> tuple[Machine, Machine]:
        return copy.deepcopy(self.here).double(), copy.deepcopy(self.there).double()

    def start(self, chains: int, rng: torch.Generator) -> Tensor:
        return repeat_chains(self.first, chains)

    def move(self, spins: Tensor, rng: torch.Generator, at: Position) -> Tensor:
        return run_sweeps(mixed(self.here, self.there, float(at)), spins, rng)

    def weights(self, spins: Tensor) -> LogWeights:
        """log f_x(s) = −(1 − x) E_0 − x E_1 + Σ_free log 2cosh((1 − x) field_0 + x field_1)."""
        layers = self.here.layers
        kept = free_at_0(layers, spins)
        one, two = self.precise
        energies = given_energy(one, kept, layers.inferred), given_energy(two, kept, layers.inferred)
        fields = [
            (layer, trusted.field(one, kept, layer), trusted.field(two, kept, layer))
            for layer in layers.inferred
        ]

        def log_f(at: Position) -> Tensor:
            x = float(at)
            total = -torch.lerp(*energies, x)
            between = None if one.own is None else mixed(one, two, x)
            for layer, here, there in fields:
                unit = one.unit(layer) if between is None else between.unit(layer)
                total = total + unit.log_sum(torch.lerp(here, there, x)).sum(-1)
            return total

        return log_f


def mixed(here: Machine, there: Machine, x: float) -> Machine:
    """The machine of eq. (4); its couplings are those of both, so 2K patterns where there were K."""
    made = here.couplings.mixed(there.couplings, x)
    own = {}
    for name, mine in (here.own or {}).items():
        assert there.own is not None  # of the same layers
        own[name] = here.layers.kinds[int(name)].mixed(mine.detach(), there.own[name].detach(), x)
    if here.biases is None or there.biases is None:
        return Machine(made, own=own)
    return Machine(made, torch.lerp(here.biases.detach(), there.biases.detach(), x), own)


def repeat_chains(spins: Tensor, chains: int) -> Tensor:
    """So many chains, from the first of the spins (e, c, n) on, over and over."""
    return spins[:, torch.arange(chains, device=spins.device) % spins.shape[1]]


def _per_chain(at: Position, like: Tensor) -> Position:
    """Rungs (e, t) as one value per chain, (e, t·c)."""
    if not isinstance(at, Tensor) or not at.dim():
        return at
    return at.repeat_interleave(like.shape[1] // at.shape[1], 1).to(like)


def _differs(beta: Position) -> bool:
    """Whether every chain has a β of its own."""
    return isinstance(beta, Tensor) and beta.dim() > 0


def _by_unit(beta: Position) -> Position:
    """β in the shape that fields take it, (e, c, 1) where chains differ."""
    return beta[..., None] if isinstance(beta, Tensor) and beta.dim() else beta
