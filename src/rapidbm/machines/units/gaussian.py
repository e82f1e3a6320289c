"""Units that are real numbers, with a precision a > 0 of their own.

    u(x) = a x² / 2,        x ~ N(f/a, 1/βa),        A = βf²/2a + ½ log(2π/βa)                (1)

The trained parameter is log a, so that a is positive by construction: ∂⟨u⟩/∂ log a = a ⟨x²⟩ / 2. A unit
that holds its mean in its field has ⟨x²⟩ = mean² + 1/a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from dataclasses import field as of_dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .unit import Beta, Unit

LARGEST = 60.0  # |log a| from which on a unit is lost
LEAST_VARIANCE = 1e-6  # of a column of data, as a share of its mean square


@dataclass(frozen=True)
class Gaussian(Unit):
    """Real units with trained precisions: eq. (1).

    Examples
    --------
    >>> machine = rb.rbm(2, 5, units=rb.Gaussian(), biases=True, seed=0)
    >>> machine.start_biases([[0.5, 10.0], [1.5, 20.0], [1.0, 16.0]])
    >>> machine.own["0"].shape  # log a: (replicas, 1, units)
    torch.Size([1, 1, 2])
    """

    kind: ClassVar[str] = "gaussian"
    has_energy: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("log_precision",)

    log_precision: Tensor | None = of_dataclass(default=None, compare=False, repr=False)  # (e, 1, n)

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        return values if values.is_floating_point() else values.float()

    def with_parameters(self, own: Tensor) -> Gaussian:
        return Gaussian(own)

    def start(self, units: int) -> Tensor:
        return torch.zeros(1, units)

    def fitted(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        rows = rows.double()
        if weights is None:
            square, variance = rows.square().mean(0), rows.var(0, correction=0)
        else:
            share = (weights / weights.sum()).to(rows)
            square = share @ rows.square()
            variance = share @ (rows - share @ rows).square()
        least = LEAST_VARIANCE * square.clamp(min=LEAST_VARIANCE)
        return -torch.log(variance.clamp(min=least))[None]

    def precision(self, like: Tensor) -> Tensor:
        """a, (e, 1, n) or one for all."""
        if self.log_precision is None:
            return like.new_ones(())
        return self.log_precision.to(like.dtype).exp()

    def energy(self, states: Tensor) -> Tensor:
        return 0.5 * self.precision(states) * states.square()

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        a = self.precision(field).detach()
        noise = torch.randn(field.shape, generator=rng, dtype=field.dtype, device=field.device)
        drawn = noise.div_((a * beta) ** 0.5).add_(field.detach() / a)
        return drawn if out is None else out.copy_(drawn)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        means = field / self.precision(field)
        return means if out is None else out.copy_(means)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        a = self.precision(field) * beta
        return (field * beta).square() / (2.0 * a) + 0.5 * (math.log(2.0 * math.pi) - torch.log(a))

    def field_of(self, mean: Tensor) -> Tensor:
        return mean * self.precision(mean)

    def entropy(self, mean: Tensor) -> Tensor:
        mean = mean.double()
        return (0.5 * (math.log(2.0 * math.pi) - torch.log(self.precision(mean)))).expand_as(mean)

    def parameter_gradient(self, states: Tensor, weights: Tensor, means: bool) -> Tensor:
        a = self.precision(states)
        square = (weights[:, None] @ states.square()) * (0.5 * a)  # (e, 1, n)
        return square + 0.5 * weights.sum(1)[:, None, None] if means else square

    def finite(self) -> Tensor | None:
        if self.log_precision is None:
            return None
        return self.log_precision.detach().abs().flatten(1).amax(1) < LARGEST

    def tempered(self, own: Tensor, beta: float) -> Tensor:
        return own + math.log(beta)

    def mixed(self, own: Tensor, other: Tensor, x: float) -> Tensor:
        return torch.log(torch.lerp(own.exp(), other.exp(), x))
