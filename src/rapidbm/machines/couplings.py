"""Couplings between layers: every coupled pair of units counts once.

    E(s) = − Σ_pairs J_ij s_i s_j,        field_i = Σ_j J_ij s_j                          (1)

`Dense` stores J. `Patterns` (Regularized Axons) builds it from K patterns ξ,

    J_ij = (1/√K) Σ_k ξ_i^k ξ_j^k                                                         (2)

and works through the overlaps m_l^k = Σ_{i∈l} ξ_i^k s_i of each layer l, at a cost of K·N instead
of V·H per configuration:

    −E = (1/√K) Σ_edges(l,l') Σ_k m_l^k m_l'^k                                            (3)
    field_l = (1/√K) Σ_{l'~l} m_l' · ξ_l                                                  (4)
    ∂⟨E⟩/∂ξ_l = −(1/√K) ⟨ (Σ_{l'~l} m_l') ⊗ s_l ⟩                                        (5)

A layer coupled to itself has its self-terms taken out:

    −E_l = (1/2√K) Σ_k [ (m_l^k)² − Σ_i (ξ_i^k s_i)² ]                                    (6)
    field_i = (1/√K) ( Σ_k m_l^k ξ_i^k − s_i Σ_k (ξ_i^k)² )                               (7)
    ∂⟨E_l⟩/∂ξ_i^k = −(1/√K) ⟨ m_l^k s_i − ξ_i^k s_i² ⟩                                    (8)

The K patterns nearest to given couplings J = Σ_k σ_k u_k v_kᵀ between two layers are the first singular
vectors (Eckart and Young 1936); what they leave is Σ_{k>K} σ_k²:

    ξ_v^k = K^¼ √σ_k u_k,        ξ_h^k = K^¼ √σ_k v_k                                     (9)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..accel.fused import Pair
from ..accel.memory import check_room
from ..arrays import as_tensor, finite
from ..errors import InputError, check_count
from .layers import Layers


class Couplings(nn.Module, ABC):
    """What `Machine` needs of its couplings. Subclasses are final."""

    layers: Layers
    kind: str  # its word in files
    degree: int  # of J as a polynomial in the parameters

    @property
    def xi(self) -> Tensor | None:
        """The patterns (e, k, n), where there are any."""
        return None

    @property
    @abstractmethod
    def first(self) -> Tensor:
        """One of the parameters; each has all replicas, and all have one type and device."""

    @property
    def replicas(self) -> int:
        return self.first.shape[0]

    @abstractmethod
    def field(self, spins: Tensor, layer: int, *, own: bool = True) -> Tensor:
        """The field on a layer, (e, c, n_l); `own=False` leaves out the layer's own couplings."""

    @abstractmethod
    def energy(self, spins: Tensor) -> Tensor:
        """E(s), (e, c)."""

    @abstractmethod
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """∂⟨E⟩/∂θ of every parameter, under its name in `named_parameters()`, over configurations
        (e, c, n) with weights (e, c)."""

    @abstractmethod
    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        """The same from ⟨s_i s_j⟩ (e, n_0, n_1) of two layers coupled to each other alone."""

    @abstractmethod
    def pair(self, biases: Tensor | None) -> Pair:
        """Two layers coupled to each other alone, as kernels read them."""

    @abstractmethod
    def matrix(self, a: int, b: int) -> Tensor:
        """J between two coupled layers, (e, n_a, n_b); a layer with itself has a zero diagonal."""

    @abstractmethod
    def finite(self) -> Tensor:
        """Which replicas have energies, and products on the way to them, that no spins make infinite,
        (e,)."""


class Dense(Couplings):
    """Every coupling is a parameter. Of a layer coupled to itself the strict upper triangle counts."""

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
        given = {
            edge: as_parameter(w, what=f"weights of edge {edge}") for edge, w in weights.items()
        }
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
            {f"{a}-{b}": nn.Parameter(_upper(w) if a == b else w) for (a, b), w in given.items()}
        )

    @property
    def first(self) -> Tensor:
        a, b = self.layers.edges[0]
        weight: Tensor = self.weights[f"{a}-{b}"]
        return weight

    def finite(self) -> Tensor:  # |E| ≤ Σ |J_ij|
        sums = [torch.linalg.vector_norm(w, 1, (1, 2)) for w in self.weights.values()]
        return torch.stack(sums).sum(0).isfinite()

    def matrix(self, a: int, b: int) -> Tensor:
        if a == b:
            upper = _upper(self.weights[f"{a}-{a}"])
            return upper + upper.mT
        weight: Tensor = self.weights[f"{min(a, b)}-{max(a, b)}"]
        return weight if a < b else weight.mT

    def field(self, spins: Tensor, layer: int, *, own: bool = True) -> Tensor:
        slices = self.layers.slices
        others = list(self.layers.neighbours(layer))
        if own and self.layers.self_coupled(layer):
            others.append(layer)
        total = None
        for other in others:
            part = spins[..., slices[other]] @ self.matrix(other, layer)  # (e, c, n_l)
            total = part if total is None else total + part
        return _no_field(spins, slices[layer]) if total is None else total

    def energy(self, spins: Tensor) -> Tensor:
        slices = self.layers.slices
        total = spins.new_zeros(spins.shape[:-1])
        for a, b in self.layers.edges:
            weight = self.weights[f"{a}-{b}"]
            weight = _upper(weight) if a == b else weight
            total = total - ((spins[..., slices[a]] @ weight) * spins[..., slices[b]]).sum(-1)
        return total  # (e, c)

    @torch.no_grad()
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        slices = self.layers.slices
        signed = spins * -weights[..., None]  # (e, c, n)
        gradients = {}
        for a, b in self.layers.edges:
            moment = signed[..., slices[a]].mT @ spins[..., slices[b]]
            gradients[f"weights.{a}-{b}"] = _upper(moment) if a == b else moment
        return gradients

    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        return {"weights.0-1": -product}

    def pair(self, biases: Tensor | None) -> Pair:
        v, h = self.layers.sizes
        names = ("couplings.weights.0-1", "biases")
        return Pair((v, h), self.first.detach(), None, biases, names)


class Patterns(Couplings):
    """Regularized Axons, eq. (2): the patterns ξ (e, k, n) are the parameters."""

    kind, degree = "patterns", 2

    def __init__(self, layers: Layers, patterns: Any) -> None:
        super().__init__()
        self.layers = layers
        patterns = as_parameter(patterns, what="patterns")
        if patterns.dim() != 3 or patterns.shape[2] != layers.units or 0 in patterns.shape:
            raise InputError(
                f"patterns must be (replicas, K, {layers.units}) with K ≥ 1, "
                f"not {tuple(patterns.shape)}"
            )
        self.patterns = nn.Parameter(patterns)
        self.scale = 1.0 / math.sqrt(patterns.shape[1])

    @staticmethod
    @torch.no_grad()
    def from_dense(dense: Couplings, patterns: int) -> Patterns:
        """The `patterns` patterns nearest to couplings between two layers in mean square, eq. (9)."""
        check_count("the number of patterns K", patterns)
        layers = dense.layers
        if not layers.two:
            raise InputError(
                "patterns from dense couplings need a restricted machine, two layers that are coupled "
                f"to each other and not to themselves; this one has layers {layers.sizes} and edges "
                f"{layers.edges}"
            )
        matrix = dense.matrix(0, 1)
        count = dense.replicas * patterns * layers.units
        check_room(
            f"{patterns:,} patterns", count, size=matrix.element_size(), device=matrix.device
        )
        u, sigma, v = torch.linalg.svd(matrix.double(), full_matrices=False)
        root = patterns**0.25 * sigma[:, :patterns, None].sqrt()  # (e, k, 1)
        xi = torch.cat([u.mT[:, :patterns] * root, v[:, :patterns] * root], -1)
        spare = patterns - xi.shape[1]  # beyond the rank there is nothing to describe
        return Patterns(layers, torch.nn.functional.pad(xi, (0, 0, 0, spare)).to(matrix.dtype))

    @property
    def first(self) -> Tensor:
        return self.patterns

    @property
    def xi(self) -> Tensor:
        return self.patterns

    def pair(self, biases: Tensor | None) -> Pair:
        v, h = self.layers.sizes
        names = ("couplings.patterns", "biases")
        return Pair((v, h), self.patterns.detach(), self.scale, biases, names)

    def extra_repr(self) -> str:
        return f"K={self.patterns.shape[1]}"

    def finite(self) -> Tensor:  # |E| ≤ (1/√K) Σ_k (Σ_i |ξ_i^k|)² ≤ (Σ_ki |ξ_i^k|)²
        total: Tensor = torch.linalg.vector_norm(self.patterns, 1, (1, 2))
        return total < math.sqrt(torch.finfo(total.dtype).max)

    def of_layer(self, layer: int) -> Tensor:
        """ξ_l, (e, k, n_l)."""
        return self.patterns[..., self.layers.slices[layer]]

    def overlap(self, spins: Tensor, layer: int) -> Tensor:
        """m_l, (e, c, k)."""
        return spins[..., self.layers.slices[layer]] @ self.of_layer(layer).mT

    def matrix(self, a: int, b: int) -> Tensor:
        product = (self.of_layer(a).mT @ self.of_layer(b)) * self.scale
        if a == b:
            return product - torch.diag_embed(product.diagonal(dim1=-2, dim2=-1))
        return product

    def _matrix_is_cheaper(self, chains: int, a: int, b: int) -> bool:
        k, na, nb = self.patterns.shape[1], self.layers.sizes[a], self.layers.sizes[b]
        return (chains + k) * na * nb < chains * k * (na + nb)

    def field(self, spins: Tensor, layer: int, *, own: bool = True) -> Tensor:
        slices = self.layers.slices
        own = own and self.layers.self_coupled(layer)
        through, total = None, None  # overlaps (e, c, k); what went through a matrix (e, c, n_l)
        for other in self.layers.neighbours(layer):
            if self._matrix_is_cheaper(spins.shape[1], other, layer):
                part = spins[..., slices[other]] @ self.matrix(other, layer)
                total = part if total is None else total + part
            else:
                m = self.overlap(spins, other)
                through = m if through is None else through + m
        if own:
            m = self.overlap(spins, layer)
            through = m if through is None else through + m
        if through is not None:
            part = (through * self.scale) @ self.of_layer(layer)  # eq. (4)
            total = part if total is None else total + part
        if own and total is not None:  # eq. (7)
            square = self.of_layer(layer).square().sum(1, keepdim=True)  # (e, 1, n_l)
            total = total - self.scale * spins[..., slices[layer]] * square
        return _no_field(spins, slices[layer]) if total is None else total

    def energy(self, spins: Tensor) -> Tensor:
        slices = self.layers.slices
        m = [self.overlap(spins, layer) for layer in range(len(self.layers.sizes))]
        total = spins.new_zeros(spins.shape[:-1])
        for a, b in self.layers.edges:
            if a == b:  # eq. (6)
                square = self.of_layer(a).square().sum(1, keepdim=True)
                itself = (spins[..., slices[a]].square() * square).sum(-1)
                total = total + 0.5 * (m[a].square().sum(-1) - itself)
            else:  # eq. (3)
                total = total + (m[a] * m[b]).sum(-1)
        return -self.scale * total  # (e, c)

    @torch.no_grad()
    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        first, second = self.of_layer(0), self.of_layer(1)  # eq. (5), summed over the other layer
        parts = [second @ product.mT, first @ product]
        return {"patterns": torch.cat(parts, -1).mul_(-self.scale)}

    @torch.no_grad()
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        slices = self.layers.slices
        signed = (-self.scale * weights)[..., None]  # (e, c, 1)
        m = [self.overlap(spins, layer).mul_(signed) for layer in range(len(slices))]
        parts = []
        for layer, where in enumerate(slices):
            mine = self.layers.self_coupled(layer)
            others = [m[other] for other in self.layers.neighbours(layer)]
            around = sum(others[1:], others[0]) if others else None
            if mine:
                around = m[layer] if around is None else around + m[layer]
            if around is None:
                parts.append(torch.zeros_like(self.of_layer(layer)))
                continue
            part = around.mT @ spins[..., where]  # eq. (5)
            if mine:  # eq. (8)
                square = (signed * spins[..., where].square()).sum(1, keepdim=True)
                part = part - self.of_layer(layer) * square
            parts.append(part)
        return {"patterns": torch.cat(parts, -1)}

    def dense(self) -> Dense:
        """The same couplings as `Dense`."""
        return Dense(
            self.layers, {(a, b): self.matrix(a, b).detach() for a, b in self.layers.edges}
        )


def as_parameter(values: Any, *, what: str, like: Tensor | None = None) -> Tensor:
    """A copy as float32 or float64, finite, of the type and device of `like`: training changes it in
    place, and it must not change the caller's."""
    given = finite(as_tensor(values, what=what), what=what)
    if like is not None:
        return given.to(like.device, like.dtype, copy=True)
    wide = given.dtype in (torch.float32, torch.float64)
    return given.to(given.dtype if wide else torch.float32, copy=True)


def _upper(matrix: Tensor) -> Tensor:
    return matrix.triu(1)


def _no_field(spins: Tensor, where: slice) -> Tensor:
    return torch.zeros_like(spins[..., where])
