"""Couplings between layers: every coupled pair of units counts once.

    E(s) = − Σ_pairs J_ij s_i s_j,        field_i = Σ_j J_ij s_j                          (1)

Pairs are those of columns; two columns of one unit are never coupled.

`Dense` (dense.py) stores J, `Patterns` (patterns.py) builds it from ξ. What differs between the two is
asked for here, by a method; what only patterns have, through `patterned`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..accel.operands import BipartiteOperands
from ..accel.ranks import Ranks
from ..arrays import as_tensor, finite
from .layers import Layers

NO_ONES: Mapping[int, Tensor] = {}


class RunningField(Protocol):
    """`field` is that of the layer's own couplings on a unit, (e, c), given its new states (e, c, n_l);
    `changed` is told what was added to a unit."""

    def field(self, new: Tensor, unit: int) -> Tensor: ...
    def changed(self, unit: int, change: Tensor) -> None: ...


class Patterned(Protocol):
    """What only patterns have."""

    scale: float  # J = scale · ξᵀξ

    @property
    def patterns(self) -> Tensor:
        """ξ, (e, k, n)."""
        ...

    @property
    def unit_strengths(self) -> Tensor | None:
        """What the ξ of every unit are measured in, (n,); None where that is 1."""
        ...

    def of_layer(self, layer: int) -> Tensor:
        """ξ_l, (e, k, n_l)."""
        ...

    def overlap(self, spins: Tensor, layer: int) -> Tensor:
        """m_l, (e, c, k)."""
        ...


class Couplings(nn.Module, ABC):
    """What `Machine` needs of its couplings. Subclasses are final."""

    layers: Layers
    kind: str  # its word in files
    degree: int  # of J as a polynomial in the parameters
    strengths: tuple[float, ...] | None = None  # what the parameters of each layer are measured in
    others: Ranks | None = None  # who has the other units, where some of them are elsewhere

    @property
    def patterned(self) -> Patterned | None:
        """These couplings, if they are built from patterns, for what only patterns have."""
        return None

    @property
    @abstractmethod
    def first(self) -> Tensor:
        """One of the parameters; each has all replicas, and all have one type and device."""

    @property
    def replicas(self) -> int:
        return self.first.shape[0]

    @abstractmethod
    def field(
        self,
        spins: Tensor,
        layer: int,
        *,
        own: bool = True,
        ones: Mapping[int, Tensor] = NO_ONES,
    ) -> Tensor:
        """The field on a layer, (e, c, n_l); `own=False` leaves out the layer's own couplings. With
        `ones`, (e, c, units), of layers whose columns are known to be 1 there and else 0."""

    @abstractmethod
    def energy(self, spins: Tensor) -> Tensor:
        """E(s), (e, c)."""

    @abstractmethod
    def gradient(self, spins: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """∂⟨E⟩/∂θ of every parameter, under its name in `named_parameters()`, over configurations
        (e, c, n) with weights (e, c)."""

    def add_gradient(self, total: dict[str, Tensor], spins: Tensor, weights: Tensor) -> None:
        """Adds the same to what there is, with no second copy of it where that can be avoided."""
        for name, value in self.gradient(spins, weights).items():
            total[name].add_(value)

    @abstractmethod
    def gradient_of(self, product: Tensor) -> dict[str, Tensor]:
        """The same from ⟨s_i s_j⟩ (e, n_0, n_1) of two layers coupled to each other alone."""

    @abstractmethod
    def operands(self, biases: Tensor | None) -> BipartiteOperands | None:
        """The two `layers.sides` as kernels read them, the biases (e, n) side by side, too; None where no
        kernel can."""

    def across(self) -> Tensor:
        """J between the two sides, (e, n_even, n_odd): 0 between layers that are not coupled."""
        assert self.layers.sides is not None
        even, odd = self.layers.sides

        def block(a: int, b: int) -> Tensor:
            if (min(a, b), max(a, b)) in self.layers.edges:
                return self.matrix(a, b).detach()
            return self.first.new_zeros((self.replicas, self.layers.sizes[a], self.layers.sizes[b]))

        return torch.cat([torch.cat([block(a, b) for b in odd], 2) for a in even], 1)

    @abstractmethod
    def matrix(self, a: int, b: int) -> Tensor:
        """J between two coupled layers, (e, n_a, n_b); a layer with itself has a zero diagonal."""

    @abstractmethod
    def mixed(self, other: Couplings, x: float) -> Couplings:
        """Those of the energy (1 − x) E + x E', the other's of the same kind."""

    @abstractmethod
    def project(self, mean: Callable[[Tensor, int], Tensor | None]) -> None:
        """Takes off the parameters, in place, what `mean` answers of them for the columns of a layer, the
        last dimension; None is nothing."""

    @abstractmethod
    def part(self, layers: Layers, kept: Sequence[Tensor]) -> Couplings:
        """Those between the units `kept` of each layer, (e, n_l) numbers within it."""

    @abstractmethod
    def sum_of_sizes(self, a: int, b: int) -> Tensor:
        """Σ |J_ij| over the pairs of an edge, or a bound on it, (e,)."""

    @abstractmethod
    def largest_form(self, a: int, b: int) -> Tensor:
        """A bound on Σ J_ij s_i s_j over the pairs of an edge by the largest singular value, (e,)."""

    @abstractmethod
    def norm(self, a: int, b: int) -> Tensor:
        """A bound on √(Σ J_ij²) over an edge, or its value, (e,)."""

    @abstractmethod
    def singular_values(self, a: int, b: int) -> Tensor:
        """Of J between two layers, in float64, the largest first."""

    @abstractmethod
    def running(self, spins: Tensor, layer: int) -> RunningField:
        """A layer's own field while its units change one by one from `spins`."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """Σ|θ| over the parameters of a replica from which on it is not `finite`."""

    def over_all_units(self, sums: Tensor) -> Tensor:
        """Sums over the units here as sums over all units, in the same place; they may be elsewhere."""
        return sums

    @abstractmethod
    def finite(self) -> Tensor:
        """Which replicas have energies, and products on the way to them, that no spins make infinite,
        (e,)."""


def as_parameter(values: Any, *, what: str, like: Tensor | None = None) -> Tensor:
    """A copy as float32 or float64, finite, of the type and device of `like`: training changes it in
    place, and it must not change the caller's."""
    given = finite(as_tensor(values, what=what), what=what)
    if like is not None:
        return given.to(like.device, like.dtype, copy=True)
    wide = given.dtype in (torch.float32, torch.float64)
    return given.to(given.dtype if wide else torch.float32, copy=True)
