"""Regularized Axons: J is built from K patterns ξ,

    J_ij = (1/√K) Σ_k ξ_i^k ξ_j^k                                                         (1)

and the work goes through the overlaps m_l^k = Σ_{i∈l} ξ_i^k s_i of each layer l, at a cost of K·N instead
of V·H per configuration:

    −E = (1/√K) Σ_edges(l,l') Σ_k m_l^k m_l'^k                                            (2)
    field_l = (1/√K) Σ_{l'~l} m_l' · ξ_l                                                  (3)
    ∂⟨E⟩/∂ξ_l = −(1/√K) ⟨ (Σ_{l'~l} m_l') ⊗ s_l ⟩                                        (4)

A layer coupled to itself has its self-terms taken out, those between the columns of one unit (of a spin
there is one):

    −E_l = (1/2√K) Σ_k [ (m_l^k)² − Σ_i (ξ_i^k s_i)² ]                                    (5)
    field_i = (1/√K) ( Σ_k m_l^k ξ_i^k − s_i Σ_k (ξ_i^k)² )                               (6)
    ∂⟨E_l⟩/∂ξ_i^k = −(1/√K) ⟨ m_l^k s_i − ξ_i^k s_i² ⟩                                    (7)

The units may be those of one process out of several (`others`): then its overlaps, summed over all of
them, are the only thing that (2) to (4) take from elsewhere, and what is asked of the machine as a whole
(its matrix, kernels) it does not have.

The K patterns nearest to given couplings J = Σ_k σ_k u_k v_kᵀ between two layers are the first singular
vectors (Eckart and Young 1936); what they leave is Σ_{k>K} σ_k²:

    ξ_v^k = K^¼ √σ_k u_k,        ξ_h^k = K^¼ √σ_k v_k                                     (8)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..accel.elementwise import product, sum_of_sizes
from ..accel.memory import check_room
from ..accel.operands import BipartiteOperands
from ..accel.ranks import Ranks
from ..errors import InputError, check_count, is_number
from .couplings import NO_ONES, Couplings, as_parameter
from .dense import Dense
from .layers import Layers


class Patterns(Couplings):
    """Regularized Axons, eq. (1): the patterns ξ (e, k, n) are the parameters."""

    kind, degree = "patterns", 2

    def __init__(
        self,
        layers: Layers,
        patterns: Any,
        others: Ranks | None = None,
        strengths: Sequence[float] | None = None,
    ) -> None:
        """`strengths` are what the ξ of each layer are measured in, the visible one first: where they
        start, step and are put back to (`training/coordinates`). The energy knows nothing of them."""
        super().__init__()
        self.layers, self.others = layers, others
        patterns = as_parameter(patterns, what="patterns")
        if patterns.dim() != 3 or patterns.shape[2] != layers.columns or 0 in patterns.shape:
            raise InputError(
                f"patterns must be (replicas, K, {layers.columns}) with K ≥ 1, not "
                f"{tuple(patterns.shape)}"
            )
        self.patterns = nn.Parameter(patterns)
        self.strengths = None if strengths is None else checked_strengths(layers, strengths)
        self.scale = 1.0 / math.sqrt(patterns.shape[1])

    @staticmethod
    @torch.no_grad()
    def from_dense(dense: Couplings, patterns: int) -> Patterns:
        """The `patterns` patterns nearest to couplings between two layers in mean square, eq. (8)."""
        check_count("the number of patterns K", patterns)
        layers = dense.layers
        if not layers.two_layers:
            raise InputError(
                "patterns from dense couplings need a restricted machine, two layers that are coupled "
                f"to each other and not to themselves; this one has layers {layers.sizes} and edges "
                f"{layers.edges}"
            )
        matrix = dense.matrix(0, 1)
        count = dense.replicas * patterns * layers.columns
        check_room(f"{patterns:,} patterns", count, size=matrix.element_size(), device=matrix.device)
        u, sigma, v = torch.linalg.svd(matrix.double(), full_matrices=False)
        root = patterns**0.25 * sigma[:, :patterns, None].sqrt()  # (e, k, 1)
        xi = torch.cat([u.mT[:, :patterns] * root, v[:, :patterns] * root], -1)
        spare = patterns - xi.shape[1]  # beyond the rank there is nothing to describe
        return Patterns(layers, torch.nn.functional.pad(xi, (0, 0, 0, spare)).to(matrix.dtype))

    @property
    def first(self) -> Tensor:
        return self.patterns

    @property
    def unit_strengths(self) -> Tensor | None:
        """The strength of every unit's layer, (n,); None where all are 1."""
        return None if self.strengths is None else spread(self.layers, self.strengths, self.patterns)

    @property
    def patterned(self) -> Patterns:
        return self

    def operands(self, biases: Tensor | None) -> BipartiteOperands | None:
        if self.others is not None:
            return None
        assert self.layers.sides is not None
        even, odd = self.layers.sides
        sizes = sum(self.layers.sizes[i] for i in even), sum(self.layers.sizes[i] for i in odd)
        names = ("couplings.patterns", "biases")
        if len(self.layers.edges) < len(even) * len(odd):  # ξᵀξ would couple all of them
            return BipartiteOperands(sizes, self.across(), None, biases, names)
        return BipartiteOperands(
            sizes, self.layers.bipartite_order(self.patterns.detach()), self.scale, biases, names
        )

    @property
    def limit(self) -> float:  # |E| ≤ (1/√K) Σ_k (Σ_i |ξ_i^k|)² ≤ (Σ_ki |ξ_i^k|)²
        return math.sqrt(torch.finfo(self.patterns.dtype).max)

    def finite(self) -> Tensor:
        return self.over_all_units(sum_of_sizes(self.patterns)) < self.limit

    def over_all_units(self, sums: Tensor) -> Tensor:
        return sums if self.others is None else self.others.add(sums)

    def of_layer(self, layer: int) -> Tensor:
        """ξ_l, (e, k, n_l)."""
        return self.patterns[..., self.layers.slices[layer]]

    def overlap(self, spins: Tensor, layer: int, ones: Tensor | None = None) -> Tensor:
        """m_l, (e, c, k); `ones` as of `field`."""
        return self.over_all_units(self._own_overlap(spins, layer, ones))

    def overlaps(self, spins: Tensor) -> list[Tensor]:
        """m_l of every layer, in one exchange with others."""
        each = [self._own_overlap(spins, layer) for layer in range(len(self.layers.sizes))]
        if self.others is None:
            return each
        return list(self.others.summed({str(i): m for i, m in enumerate(each)}).values())

    def _own_overlap(self, spins: Tensor, layer: int, ones: Tensor | None = None) -> Tensor:
        return product(spins[..., self.layers.slices[layer]], self.of_layer(layer).mT, ones)

    def matrix(self, a: int, b: int) -> Tensor:
        product = (self.of_layer(a).mT @ self.of_layer(b)) * self.scale
        if a != b:
            return product
        same = self.layers.same_unit(a)
        if same is not None:
            return product.masked_fill(same.to(product.device), 0.0)
        return product - torch.diag_embed(product.diagonal(dim1=-2, dim2=-1))

    def own_terms(self, spins: Tensor, layer: int) -> Tensor:
        """Σ_k ξ_i^k Σ_j ξ_j^k x_j over the columns j of the unit of i, from columns (e, c, n_l)."""
        xi, same = self.of_layer(layer), self.layers.same_unit(layer)
        if same is None:
            return spins * xi.square().sum(1, keepdim=True)
        return spins @ (xi.mT @ xi).masked_fill(~same.to(xi.device), 0.0)

    def _matrix_is_cheaper(self, chains: int, a: int, b: int) -> bool:
        k, na, nb = self.patterns.shape[1], self.layers.sizes[a], self.layers.sizes[b]
        return self.others is None and (chains + k) * na * nb < chains * k * (na + nb)

    def field(
        self,
        spins: Tensor,
        layer: int,
        *,
        own: bool = True,
        ones: Mapping[int, Tensor] = NO_ONES,
    ) -> Tensor:
        slices = self.layers.slices
        own = own and self.layers.self_coupled(layer)
        through, total = None, None  # overlaps (e, c, k); what went through a matrix (e, c, n_l)
        for other in self.layers.neighbours(layer):
            if self._matrix_is_cheaper(spins.shape[1], other, layer):
                part = product(spins[..., slices[other]], self.matrix(other, layer), ones.get(other))
                total = part if total is None else total + part
            else:
                m = self.overlap(spins, other, ones.get(other))
                through = m if through is None else through + m
        if own:
            m = self.overlap(spins, layer)
            through = m if through is None else through + m
        if through is not None:
            part = (through * self.scale) @ self.of_layer(layer)  # eq. (3)
            total = part if total is None else total + part
        if own and total is not None:  # eq. (6)
            total = total - self.scale * self.own_terms(spins[..., slices[layer]], layer)
        return torch.zeros_like(spins[..., slices[layer]]) if total is None else total

    def energy(self, spins: Tensor) -> Tensor:
        slices = self.layers.slices
        m = self.overlaps(spins)
        total = spins.new_zeros(spins.shape[:-1])
        for a, b in self.layers.edges:
            if a == b:  # eq. (5)
                part = spins[..., slices[a]]
                itself = (part * self.own_terms(part, a)).sum(-1)
                total = total + 0.5 * (m[a].square().sum(-1) - itself)
            else:  # eq. (2)
                total = total + (m[a] * m[b]).sum(-1)
        return -self.scale * total  # (e, c)

    @torch.no_grad()
    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        first, second = self.of_layer(0), self.of_layer(1)  # eq. (4), summed over the other layer
        parts = [second @ product.mT, first @ product]
        return {"patterns": torch.cat(parts, -1).mul_(-self.scale)}

    @torch.no_grad()
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        slices = self.layers.slices
        signed = (-self.scale * weights)[..., None]  # (e, c, 1)
        m = [overlap.mul_(signed) for overlap in self.overlaps(spins)]
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
            part = around.mT @ spins[..., where]  # eq. (4)
            if mine:  # eq. (7)
                part = part - self._own_gradient(signed, spins[..., where], layer)
            parts.append(part)
        return {"patterns": torch.cat(parts, -1)}

    def _own_gradient(self, signed: Tensor, part: Tensor, layer: int) -> Tensor:
        """What (7) takes off, (e, k, n_l)."""
        xi, same = self.of_layer(layer), self.layers.same_unit(layer)
        if same is None:
            return xi * (signed * part.square()).sum(1, keepdim=True)
        return xi @ ((signed * part).mT @ part).masked_fill(~same.to(xi.device), 0.0)

    @torch.no_grad()
    def add_gradient(self, total: dict[str, Tensor], spins: Tensor, weights: Tensor) -> None:
        if not self.layers.two_layers:
            super().add_gradient(total, spins, weights)
            return
        signed = (-self.scale * weights)[..., None]  # (e, c, 1)
        for layer, where in enumerate(self.layers.slices):
            around = self.overlap(spins, 1 - layer).mul_(signed)  # eq. (4)
            for out, m, s in zip(total["patterns"], around, spins, strict=True):
                out[:, where].addmm_(m.mT, s[:, where])

    def dense(self) -> Dense:
        """The same couplings as `Dense`."""
        return Dense(self.layers, {(a, b): self.matrix(a, b).detach() for a, b in self.layers.edges})

    # -- other machines ---------------------------------------------------------------------------

    def mixed(self, other: Couplings, x: float) -> Patterns:
        """Of 2K patterns: 1/√(2K) stands where 1/√K did."""
        theirs = other.patterned
        assert theirs is not None
        shares = (2.0**0.25 * (1 - x) ** 0.5, 2.0**0.25 * x**0.5)
        both = [share * c.patterns.detach() for share, c in zip(shares, (self, theirs), strict=True)]
        return Patterns(self.layers, torch.cat(both, 1))

    def project(self, mean: Callable[[Tensor, int], Tensor | None]) -> None:
        for layer in range(len(self.layers.sizes)):
            part = self.of_layer(layer).data
            of_units = mean(part, layer)
            if of_units is not None:
                part.sub_(of_units)

    def part(self, layers: Layers, kept: Sequence[Tensor]) -> Patterns:
        starts = [where.start for where in self.layers.slices]
        units = torch.cat([k + s for k, s in zip(kept, starts, strict=True)], 1)  # (e, n)
        index = units[:, None].expand(-1, self.patterns.shape[1], -1)
        return Patterns(layers, self.patterns.detach().gather(2, index))

    # -- how large they are -----------------------------------------------------------------------

    def sum_of_sizes(self, a: int, b: int) -> Tensor:
        xi, other = self.of_layer(a), self.of_layer(b)
        product = (xi.abs().sum(2) * other.abs().sum(2)).sum(1)
        if a == b:  # every pair once, and no unit with itself
            product = (product - xi.square().sum((1, 2))) / 2
        return self.scale * product

    def largest_form(self, a: int, b: int) -> Tensor:
        xi, other = self.of_layer(a), self.of_layer(b)
        # ξ = R Q with orthonormal Q: the singular values of ξ_a ξ_b are those of K × K numbers.
        left, right = (torch.linalg.qr(x.mT, mode="r")[1] for x in (xi, other))
        n = math.sqrt(self.layers.sizes[a] * self.layers.sizes[b])
        norm: Tensor = n * torch.linalg.matrix_norm(left @ right.mT, 2)
        if a == b:
            norm = (norm - xi.square().sum((1, 2))) / 2
        return self.scale * norm

    def norm(self, a: int, b: int) -> Tensor:
        xi, other = (torch.linalg.matrix_norm(self.of_layer(i)) for i in (a, b))
        product: Tensor = self.scale * xi * other
        return product

    def singular_values(self, a: int, b: int) -> Tensor:
        if self.patterns.shape[1] >= min(self.layers.sizes[a], self.layers.sizes[b]):
            whole: Tensor = torch.linalg.svdvals(self.matrix(a, b).double())
            return whole
        _, left = torch.linalg.qr(self.of_layer(a).double().mT)
        _, right = torch.linalg.qr(self.of_layer(b).double().mT)
        values: Tensor = torch.linalg.svdvals(left @ right.mT) * self.scale
        return values

    def running(self, spins: Tensor, layer: int) -> RunningOverlaps:
        return RunningOverlaps(self, spins, layer)


def checked_strengths(layers: Layers, given: Sequence[float]) -> tuple[float, ...]:
    """One positive number for each layer."""
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    if len(found) != len(layers.sizes) or not all(is_number(x) and x > 0 for x in found):
        raise InputError(
            f"strengths of the patterns are positive numbers, one for each of the layers {layers.sizes}, "
            f"not {given!r}; give {len(layers.sizes)} of them, the visible layer's first"
        )
    return tuple(map(float, found))


def spread(layers: Layers, values: Sequence[float], like: Tensor) -> Tensor:
    """One number for each layer as one for each unit, (n,)."""
    # Filled on the device: a copy from the host could not be captured in a graph.
    return torch.cat([like.new_full((n,), x) for n, x in zip(layers.sizes, values, strict=True)])


class RunningOverlaps:
    """A layer's own field while its units change one by one, through the overlaps: K instead of N steps
    per unit."""

    def __init__(self, couplings: Patterns, spins: Tensor, layer: int) -> None:
        self.xi, self.scale = couplings.of_layer(layer), couplings.scale  # (e, k, n_l)
        self.square = self.scale * self.xi.square().sum(1)  # (e, n_l)
        self.m = couplings.overlap(spins, layer)  # (e, c, k)

    def field(self, new: Tensor, unit: int) -> Tensor:
        own = self.scale * (self.m @ self.xi[:, :, unit, None]).squeeze(-1)
        return own - self.square[:, None, unit] * new[..., unit]

    def changed(self, unit: int, change: Tensor) -> None:
        self.m = self.m + change[..., None] * self.xi[:, None, :, unit]
