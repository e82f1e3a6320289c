"""Units that are 0 or 1.

p(1) = 1 / (1 + exp(−βf)),        A = log(1 + exp βf),        ⟨x⟩ = p(1)               (1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...accel import elementwise
from .unit import Beta, Unit, refuse


@dataclass(frozen=True)
class Binary(Unit):
    """Units that are 0 or 1: eq. (1).

    Examples
    --------
    >>> machine = rb.rbm(4, 3, units=rb.Binary(), seed=0)
    >>> sorted(set(machine.random(50, seed=0)[..., :4].flatten().tolist()))
    [0.0, 1.0]
    """

    kind: ClassVar[str] = "binary"
    square: ClassVar[Literal["constant", "linear", "other"]] = "linear"

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        """{0, 1} or ±1, as data sets of spins are."""
        down = values == -1
        return self._checked(
            torch.where(down, 0, values) if not bool((values == 0).any()) else values, what
        )

    def encode_columns(self, columns: Tensor, *, what: str) -> Tensor:
        return self._checked(columns, what)

    @staticmethod
    def _checked(values: Tensor, what: str) -> Tensor:
        wrong = (values != 0) & (values != 1)
        if bool(wrong.any()):
            raise refuse(what, "of binary units are 0 or 1", values, wrong, "write them so")
        return values.to(torch.int8)

    def count(self, columns: int) -> int:
        return int(2**columns)

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        return (elementwise.bits_of(numbers, columns) + 1) // 2

    def nearest(self, field: Tensor) -> Tensor:
        return (field.detach() >= 0).to(field.dtype)

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        up = self.mean(field, beta, overwrite=overwrite).detach()
        drawn = elementwise.uniform(up, rng).lt(up)
        return drawn.to(up.dtype) if out is None else out.copy_(drawn)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        scaled = field.mul_(beta) if overwrite else field * beta
        up = elementwise.sigmoid(scaled)
        return up if out is None else out.copy_(up)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        return torch.nn.functional.softplus(field * beta, 1.0, 40.0)

    def field_of(self, mean: Tensor) -> Tensor:
        return torch.logit(mean)

    def entropy(self, mean: Tensor) -> Tensor:
        mean = mean.double()
        entropy: Tensor = torch.special.entr(mean) + torch.special.entr(1.0 - mean)
        return entropy

    def smoothed_mean(self, total: Tensor, rows: int | Tensor) -> Tensor:
        return (total + 1.0) / (rows + 2.0)
