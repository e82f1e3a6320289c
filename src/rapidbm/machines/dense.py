"""Dense couplings: every J_ij is a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..accel.elementwise import moment, product, sum_of_sizes
from ..accel.operands import BipartiteOperands
from ..errors import InputError
from .couplings import NO_ONES, Couplings, as_parameter
from .layers import Layers

FEWER = 3  # columns per unit from which on sums of rows are faster than a product


class Dense(Couplings):
    """Every coupling is a parameter. Of a layer coupled to itself the strict upper triangle counts, but
    for two columns of one unit."""

    kind, degree = "dense", 1

    def __init__(self, layers: Layers, weights: Mapping[tuple[int, int], Any]) -> None:
        super().__init__()
        self.layers = layers
        if not layers.edges:
            raise InputError(
                "dense couplings need at least one edge, a pair of layers to couple, and these layers "
                f"{layers.sizes} have none; use Patterns for units that are free but for their biases"
            )
        if set(weights) != set(layers.edges):
            raise InputError(
                f"dense couplings need one matrix per edge {layers.edges}, not {tuple(weights)}"
            )
        given = {edge: as_parameter(w, what=f"weights of edge {edge}") for edge, w in weights.items()}
        replicas = {weight.shape[:1] for weight in given.values()}
        for (a, b), weight in given.items():
            shape = (*weight.shape[:1], layers.sizes[a], layers.sizes[b])
            if tuple(weight.shape) != shape or len(replicas) != 1:
                raise InputError(
                    f"the weights of edge {(a, b)} must be (replicas, {layers.sizes[a]}, "
                    f"{layers.sizes[b]}), the same number of replicas for all edges; got "
                    f"{tuple(weight.shape)}"
                )
        self.weights = nn.ParameterDict(
            {f"{a}-{b}": nn.Parameter(self._pairs(a, w) if a == b else w) for (a, b), w in given.items()}
        )
        vars(self)["weights"] = self.weights  # found at once: the cost of a small machine is calls

    @property
    def first(self) -> Tensor:
        return cast(Tensor, next(iter(self.weights._parameters.values())))

    @property
    def limit(self) -> float:  # |E| ≤ Σ |J_ij|
        return math.inf

    def finite(self) -> Tensor:
        sums = [sum_of_sizes(w) for w in self.weights.values()]
        return sum(sums[1:], sums[0]) < math.inf

    def _pairs(self, layer: int, matrix: Tensor) -> Tensor:
        """Of a square of a layer's columns the pairs that count."""
        upper, same = matrix.triu(1), self.layers.same_unit(layer)
        return upper if same is None else upper.masked_fill(same.to(upper.device), 0.0)

    def matrix(self, a: int, b: int) -> Tensor:
        if a == b:
            upper = self._pairs(a, self.weights[f"{a}-{a}"])
            return upper + upper.mT
        weight: Tensor = self.weights[f"{min(a, b)}-{max(a, b)}"]
        return weight if a < b else weight.mT

    def field(
        self,
        spins: Tensor,
        layer: int,
        *,
        own: bool = True,
        ones: Mapping[int, Tensor] = NO_ONES,
    ) -> Tensor:
        slices = self.layers.slices
        others = list(self.layers.neighbours(layer))
        if own and self.layers.self_coupled(layer):
            others.append(layer)
        total = None
        for other in others:
            columns, matrix = spins[..., slices[other]], self.matrix(other, layer)
            part = product(columns, matrix, ones.get(other), self._count(other))
            total = part if total is None else total + part  # (e, c, n_l)
        return torch.zeros_like(spins[..., slices[layer]]) if total is None else total

    def energy(self, spins: Tensor) -> Tensor:
        slices = self.layers.slices
        total = spins.new_zeros(spins.shape[:-1])
        for a, b in self.layers.edges:
            weight = self.weights[f"{a}-{b}"]
            weight = self._pairs(a, weight) if a == b else weight
            total = total - ((spins[..., slices[a]] @ weight) * spins[..., slices[b]]).sum(-1)
        return total  # (e, c)

    @torch.no_grad()
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        slices = self.layers.slices
        signed = spins * -weights[..., None]  # (e, c, n)
        gradients = {}
        for a, b in self.layers.edges:
            if count := self._count(a):  # the weights with the factor that is not looked at
                found = moment(spins[..., slices[a]], signed[..., slices[b]], count)
            else:
                found = signed[..., slices[a]].mT @ spins[..., slices[b]]
            gradients[f"weights.{a}-{b}"] = self._pairs(a, found) if a == b else found
        return gradients

    def _count(self, layer: int) -> int:
        """How many columns of a layer are 1 in a state, if they are few."""
        size = self.layers.sizes[layer]
        units = self.layers.kinds[layer].units(size)
        return units if size >= FEWER * units else 0

    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        return {"weights.0-1": -product}

    def operands(self, biases: Tensor | None) -> BipartiteOperands:
        j = self.first.detach() if self.layers.two_layers else self.across()
        names = ("couplings.weights.0-1", "biases")
        return BipartiteOperands((j.shape[1], j.shape[2]), j, None, biases, names)

    # -- other machines ---------------------------------------------------------------------------

    def mixed(self, other: Couplings, x: float) -> Dense:
        assert isinstance(other, Dense)
        edges = {(a, b): f"{a}-{b}" for a, b in self.layers.edges}
        return Dense(
            self.layers,
            {
                edge: torch.lerp(self.weights[key].detach(), other.weights[key].detach(), x)
                for edge, key in edges.items()
            },
        )

    def project(self, mean: Callable[[Tensor, int], Tensor | None]) -> None:
        for a, b in self.layers.edges:
            whole = self.matrix(a, b).detach().clone()
            of_b = mean(whole, b)
            whole = whole if of_b is None else whole - of_b
            of_a = mean(whole.mT, a)
            whole = whole if of_a is None else whole - of_a.mT
            if of_a is not None or of_b is not None:
                self.weights[f"{a}-{b}"].data.copy_(self._pairs(a, whole) if a == b else whole)

    def part(self, layers: Layers, kept: Sequence[Tensor]) -> Dense:
        replica = torch.arange(self.replicas, device=self.first.device)[:, None, None]
        return Dense(
            layers,
            {
                (a, b): self.matrix(a, b).detach()[replica, kept[a][:, :, None], kept[b][:, None]]
                for a, b in layers.edges
            },
        )

    # -- how large they are -----------------------------------------------------------------------

    def sum_of_sizes(self, a: int, b: int) -> Tensor:
        total = self.matrix(a, b).abs().sum((1, 2))
        return total / 2 if a == b else total

    def largest_form(self, a: int, b: int) -> Tensor:
        matrix = self.matrix(a, b)
        n = math.sqrt(self.layers.sizes[a] * self.layers.sizes[b])
        if a == b:
            largest: Tensor = n / 2 * torch.linalg.eigvalsh(matrix)[:, -1]
            return largest
        sigma: Tensor = n * torch.linalg.matrix_norm(matrix, 2)
        return sigma

    def norm(self, a: int, b: int) -> Tensor:
        found: Tensor = torch.linalg.matrix_norm(self.matrix(a, b))
        return found

    def singular_values(self, a: int, b: int) -> Tensor:
        values: Tensor = torch.linalg.svdvals(self.matrix(a, b).double())
        return values

    def running(self, spins: Tensor, layer: int) -> RunningMatrix:
        return RunningMatrix(self.matrix(layer, layer))


class RunningMatrix:
    """A layer's own field while its units change one by one."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix  # (e, n_l, n_l)

    def field(self, new: Tensor, unit: int) -> Tensor:
        return (new @ self.matrix[:, :, unit, None]).squeeze(-1)

    def changed(self, unit: int, change: Tensor) -> None:
        return
