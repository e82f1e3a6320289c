"""Units: what one kind of unit is, and the only place with its formulas.

A unit s has an energy −f s in its field f. Of a spin, s = ±1,

    Σ_s exp(β f s) = 2 cosh βf,        p(+1) = 1 / (1 + exp(−2βf)),        ⟨s⟩ = tanh βf      (1)

and a mean μ leaves it the entropy S(μ) = −Σ_± ½(1 ± μ) log ½(1 ± μ).

A layer asks its own kind, `layers.unit(i)`; a layer of another kind is another class with these methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ..accel import elementwise

Beta = float | Tensor  # a tensor has one value per chain, (c, 1) or (e, c, 1), or one for all, ()


class Unit(Protocol):
    """One kind of unit; fields and states are (e, c, n) or any shape that ends in the units."""

    @property
    def levels(self) -> int:
        """How many states a unit has."""
        ...

    @property
    def mirrored(self) -> bool:
        """Whether −s is a state like s."""
        ...

    def states(self, count: int, numbers: Tensor) -> Tensor:
        """The states of these numbers of `count` units as int8, (c, count); the first changes slowest."""
        ...

    def random(
        self, shape: tuple[int, ...], rng: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Units without a field."""
        ...

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        """Units in their fields, into `out` or a tensor of their own; with `overwrite` the field need not
        outlive the call."""
        ...

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        """The mean of a unit in its field; `overwrite` and `out` as of `draw`."""
        ...

    def field_of(self, mean: Tensor) -> Tensor:
        """The field in which a unit has this mean."""
        ...

    def log_sum(self, field: Tensor) -> Tensor:
        """log Σ_s exp(f s) of each unit, without overflow."""
        ...

    def add_log_sums(self, total: Tensor, field: Tensor) -> None:
        """Adds it, summed over the units, to `total` (e, c) in float64."""
        ...

    def entropy(self, mean: Tensor) -> Tensor:
        """S(μ) of each unit."""
        ...

    def nearest(self, values: Tensor) -> Tensor:
        """The state next to a value; that of lowest energy, if it is a field."""
        ...

    def flip_cost(self, spins: Tensor, field: Tensor) -> Tensor:
        """What the energy rises by when a unit changes to its other state."""
        ...


@dataclass(frozen=True)
class Ising:
    """Spins, ±1: eq. (1)."""

    levels: ClassVar[int] = 2
    mirrored: ClassVar[bool] = True

    def states(self, count: int, numbers: Tensor) -> Tensor:
        return elementwise.bits_of(numbers, count)

    def random(
        self, shape: tuple[int, ...], rng: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        bits = torch.randint(2, shape, generator=rng, dtype=torch.int8, device=rng.device)
        return bits.mul_(2).sub_(1).to(dtype)

    def up(self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False) -> Tensor:
        """The probability of +1; in the place of the field if it may go."""
        doubled = field.mul_(2.0 * beta) if overwrite else field * (2.0 * beta)
        return elementwise.sigmoid(doubled)

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        return elementwise.signs(self.up(field, beta, overwrite=overwrite).detach(), rng, out)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        return elementwise.tanh(field, beta, overwrite=overwrite, out=out)

    def field_of(self, mean: Tensor) -> Tensor:
        return torch.atanh(mean)

    def log_sum(self, field: Tensor) -> Tensor:
        return _half_softplus(field).mul_(2.0).sub_(field)

    def add_log_sums(self, total: Tensor, field: Tensor) -> None:
        # Σ log 2cosh x = Σ (2 · ½ log(1 + e^{2x}) − x): fewer passes over memory than unit by unit
        total += 2.0 * _half_softplus(field).sum(-1, dtype=torch.float64)
        total -= field.sum(-1, dtype=torch.float64)

    def entropy(self, mean: Tensor) -> Tensor:
        up = (1.0 + mean.double()) / 2.0
        entropy: Tensor = torch.special.entr(up) + torch.special.entr(1.0 - up)
        return entropy

    def nearest(self, values: Tensor) -> Tensor:
        return torch.sign(values.detach()).add_(0.5).sign_()  # 0 is +1: always a spin

    def flip_cost(self, spins: Tensor, field: Tensor) -> Tensor:
        return 2.0 * spins * field


SPIN = Ising()


def _half_softplus(x: Tensor) -> Tensor:
    """½ log(1 + e^{2x}); beyond 2x = 40 linear, which is right to the last bit in float64 too."""
    return torch.nn.functional.softplus(x, 2.0, 40.0)
