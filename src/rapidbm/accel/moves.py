"""A step of an optimiser, the check for divergence and the clipping of patterns in two launches.

In float32 where kernels run; elsewhere the answer is False, nothing has changed, and the plain path goes
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import fused

Rates = tuple[float, ...] | Tensor  # one, or one for each replica; a tensor where a graph is to read them
Values = Mapping[str, Tensor]
MOST = 2**30  # values of a replica


@dataclass(frozen=True)
class Rule:
    """An optimiser in numbers: SGD with (momentum, –) or Adam with (β₁, β₂), by its memory.

    The memory of each parameter is none, u, or a and q; `unbias` are 1 − β₁ᵗ and 1 − β₂ᵗ, () in float64.
    A `decay` leaves the biases alone.
    """

    memory: Sequence[Values] = ()
    betas: tuple[float, float] = (0.0, 0.0)
    epsilon: float = 0.0
    decay: float = 0.0
    unbias: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Guard:
    """Replicas that move, (e,), as long as Σ|θ| of their couplings is below the limit and that of their
    biases finite; couplings are clipped to [−bound, bound]."""

    alive: Tensor
    limit: float
    bound: float | None = None


def serves(parameters: Values) -> bool:
    """Whether the kernels know these parameters (e, …): couplings and biases, not the units' own."""
    if any(name.startswith("own.") for name in parameters):
        return False
    return all(fused.runs(p) and p.is_contiguous() and p[0].numel() <= MOST for p in parameters.values())


def step(parameters: Values, gradients: Values, rates: Rates, rule: Rule, guard: Guard) -> bool:
    """Moves the parameters of living replicas and the memory of all; whether that is done."""

    def work() -> bool:
        from .kernels import moves as kernel

        known = rates
        if not isinstance(known, Tensor):
            known = torch.tensor(known, dtype=torch.float64, device=guard.alive.device)
        kernel.step(parameters, gradients, known, rule, guard)
        return True

    return fused.tried(guard.alive.device, "steps", work) is not None
