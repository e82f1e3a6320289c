"""Units with a few numbers as states, the base of kinds such as spins of size 1: −1, 0, 1.

p(x) ∝ exp β (f x − u(x))        over the listed x                                     (1)
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from ...accel import elementwise
from .unit import Beta, Unit, refuse


@lru_cache(64)
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Made once: a graph on a GPU copies nothing from the CPU."""
    return torch.tensor(values, dtype=dtype, device=device)


class Levels(Unit):
    """Units of one column whose states are listed: a subclass gives `kind`, `values` and, where states
    differ in energy without a field, `energies`.

    Examples
    --------
    >>> class SpinOne(rb.Levels):
    ...     kind = "spin-one"
    ...     values = (-1.0, 0.0, 1.0)
    >>> rb.rbm(4, 3, units=SpinOne(), seed=0).layers.count((0,))
    81
    """

    values: ClassVar[tuple[float, ...]]  # the states, ascending
    energies: ClassVar[tuple[float, ...]] = ()  # u of each; 0 by default

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def has_energy(self) -> bool:  # type: ignore[override]
        return any(self.energies)

    def _values(self, like: Tensor) -> Tensor:
        return _constant(self.values, like.dtype, like.device)

    def _energies(self, like: Tensor) -> Tensor:
        return _constant(self.energies or (0.0,) * len(self.values), like.dtype, like.device)

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        wrong = (values[..., None].double() != self._values(values.double())).all(-1)
        if bool(wrong.any()):
            listed = ", ".join(f"{x:g}" for x in self.values)
            raise refuse(what, f"are among {listed}", values, wrong, "write them so")
        return values if values.is_floating_point() else values.float()

    def count(self, columns: int) -> int:
        return int(len(self.values) ** columns)

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        count, digits = len(self.values), []
        for _ in range(columns):
            digits.append(numbers % count)
            numbers = torch.div(numbers, count, rounding_mode="floor")
        codes = torch.stack(digits[::-1], -1)
        return self._values(codes.double())[codes]

    def energy(self, states: Tensor) -> Tensor:
        if not self.has_energy:
            return torch.zeros_like(states)
        # Between two states, of a mean, by the line that joins them.
        values, energies = self._values(states), self._energies(states)
        right = torch.searchsorted(values, states.contiguous()).clamp(1, len(self.values) - 1)
        share = (states - values[right - 1]) / (values[right] - values[right - 1])
        return torch.lerp(energies[right - 1], energies[right], share)

    def _logits(self, field: Tensor, beta: Beta) -> Tensor:
        beta = beta[..., None] if isinstance(beta, Tensor) and beta.dim() else beta
        logits: Tensor = (field[..., None] * self._values(field) - self._energies(field)) * beta
        return logits

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        total = torch.softmax(self._logits(field.detach(), beta), -1).cumsum(-1)
        level = elementwise.uniform(total[..., -1:], rng).mul_(total[..., -1:])
        drawn = self._values(field)[(total <= level).sum(-1)]
        return drawn if out is None else out.copy_(drawn)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        means = torch.softmax(self._logits(field, beta), -1) @ self._values(field)
        return means if out is None else out.copy_(means)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        return torch.logsumexp(self._logits(field, beta), -1)

    def nearest(self, field: Tensor) -> Tensor:
        return self._values(field)[self._logits(field.detach(), 1.0).argmax(-1)]

    def smoothed_mean(self, total: Tensor, rows: int | Tensor) -> Tensor:
        return (total + sum(self.values)) / (rows + len(self.values))
