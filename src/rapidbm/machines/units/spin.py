"""Spins, ±1.

    Σ_s exp(β f s) = 2 cosh βf,        p(+1) = 1 / (1 + exp(−2βf)),        ⟨s⟩ = tanh βf      (1)

and a mean μ leaves a spin the entropy S(μ) = −Σ_± ½(1 ± μ) log ½(1 ± μ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...accel import elementwise
from ..spins import as_spins
from .unit import Beta, Unit


@dataclass(frozen=True)
class Spin(Unit):
    """Units that are ±1: eq. (1).

    Examples
    --------
    >>> rb.rbm(4, 3, units=rb.Spin(), seed=0).random(2, seed=0).unique().tolist()
    [-1.0, 1.0]
    """

    kind: ClassVar[str] = "spin"
    mirrored: ClassVar[bool] = True
    closest: ClassVar[float] = 2.0
    square: ClassVar[Literal["constant", "linear", "other"]] = "constant"

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        return as_spins(values, what=what)

    def count(self, columns: int) -> int:
        return int(2**columns)

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        return elementwise.bits_of(numbers, columns)

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

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        field = _times(field, beta)
        return _half_softplus(field).mul_(2.0).sub_(field)

    def add_log_sums(self, total: Tensor, field: Tensor, beta: Beta = 1.0) -> None:
        field = _times(field, beta)
        # Σ log 2cosh x = Σ (2 · ½ log(1 + e^{2x}) − x): fewer passes over memory than unit by unit
        total += 2.0 * _half_softplus(field).sum(-1, dtype=torch.float64)
        total -= field.sum(-1, dtype=torch.float64)

    def entropy(self, mean: Tensor) -> Tensor:
        up = (1.0 + mean.double()) / 2.0
        entropy: Tensor = torch.special.entr(up) + torch.special.entr(1.0 - up)
        return entropy

    def nearest(self, values: Tensor) -> Tensor:
        return torch.sign(values.detach()).add_(0.5).sign_()  # 0 is +1: always a spin

    def unknown(self, states: Tensor) -> Tensor:
        return states == 0

    def smoothed_mean(self, total: Tensor, rows: int | Tensor) -> Tensor:
        return total / (rows + 2.0)

    def flip_cost(self, spins: Tensor, field: Tensor) -> Tensor:
        return 2.0 * spins * field


SPIN = Spin()


def _times(field: Tensor, beta: Beta) -> Tensor:
    return field if isinstance(beta, float) and beta == 1.0 else field * beta


def _half_softplus(x: Tensor) -> Tensor:
    """½ log(1 + e^{2x}); beyond 2x = 40 linear, which is right to the last bit in float64 too."""
    return torch.nn.functional.softplus(x, 2.0, 40.0)
