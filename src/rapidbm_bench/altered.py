"""Trainings of restricted machines with biases that differ in one thing, for `ablations`.

`Decaying` shrinks by another penalty than the squares of all parameters, decoupled from the gradient too:

    ½ Σ_k ξ_vᵏ M ξ_vᵏ,  or of the columns of dense J,    θ ← θ − rate · decay · M θ         (1)
    ½ |J|²  through patterns,    ξ_v ← ξ_v − rate · decay · ξ_h Jᵀ / √K, and so ξ_h         (2)
"""

from typing import Any

import torch
from torch import Tensor

from rapidbm.accel.executors import Plan
from rapidbm.machines.machine import Machine
from rapidbm.training.trainer import Trainer


class Centred(Trainer):
    """Centred gradients (`training/coordinates/centring.py`)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, centred=True, **options)


class Decaying(Trainer):
    """Eq. (1) with `metric` M (v, v), hidden units with 1; without one, eq. (2)."""

    metric: Tensor | None = None
    decay = 0.0

    def update_from(self, plan: Plan) -> None:
        super().update_from(plan)
        rate = torch.as_tensor(plan.rates, dtype=self.machine.dtype).reshape(-1, 1, 1)
        theta = self.machine.couplings.first.data
        theta.sub_(penalty(self.machine, self.metric).mul_(rate * self.decay))


def penalty(machine: Machine, metric: Tensor | None) -> Tensor:
    """The gradient of (1) or (2)."""
    theta, v = machine.couplings.first.detach(), machine.visible
    if machine.patterns is None:
        return theta.clone() if metric is None else metric @ theta
    xi_v, xi_h = theta[..., :v], theta[..., v:]
    if metric is not None:
        return torch.cat([xi_v @ metric, xi_h], -1)
    square_v, square_h = ((xi @ xi.mT) / theta.shape[1] for xi in (xi_v, xi_h))  # (e, k, k)
    return torch.cat([square_h @ xi_v, square_v @ xi_h], -1)


def covariance_metric(spins: Tensor, least: float = 0.1) -> Tensor:
    """(C + least)⁻¹ of the data, with trace v: patterns live where data vary."""
    x = spins.double()
    c = torch.cov(x.T, correction=0) + least * torch.eye(x.shape[1], dtype=torch.float64)
    return _of_trace(torch.linalg.inv(c)).float()


def smooth_metric(shape: tuple[int, int]) -> Tensor:
    """The Laplacian of the grid of pixels, with trace v: neighbours alike."""
    at = torch.arange(shape[0] * shape[1]).view(shape)
    pairs = torch.cat([torch.stack([at[1:], at[:-1]], -1).flatten(0, 1),
                       torch.stack([at[:, 1:], at[:, :-1]], -1).flatten(0, 1)])  # fmt: skip
    laplacian = torch.zeros(at.numel(), at.numel())
    for a, b in (pairs.T, pairs.flip(1).T):
        laplacian.index_put_((a, a), torch.ones(len(a)), accumulate=True)
        laplacian[a, b] -= 1.0
    return _of_trace(laplacian)


def _of_trace(matrix: Tensor) -> Tensor:
    return matrix * (len(matrix) / matrix.trace())


class Noisy(Trainer):
    """Each pixel of a batch is flipped with probability `flips`."""

    flips = 0.0

    def gradient(self, batch: Tensor, size: int, *weights: Any) -> dict[str, Tensor]:
        level = torch.rand(batch.shape, generator=self.rng, dtype=batch.dtype, device=batch.device)
        return super().gradient(torch.where(level < self.flips, -batch, batch), size, *weights)


class Sided(Trainer):
    """The patterns of hidden units move by `faster` times the step of the others."""

    faster = 1.0

    def update_from(self, plan: Plan) -> None:
        hidden = self.machine.couplings.first.data[..., self.machine.visible :]
        before = hidden.clone()
        super().update_from(plan)
        hidden.copy_(before + self.faster * (hidden - before))
