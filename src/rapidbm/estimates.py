"""A sampled number and its standard error, one of each per replica."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error."""

    value: Tensor  # (e,) float64
    error: Tensor  # (e,) float64

    @staticmethod
    def of(samples: Tensor) -> Estimate:
        """The mean of independent samples (e, c)."""
        samples = samples.double()
        count = samples.shape[1]
        spread = samples.std(1) if count > 1 else torch.full_like(samples[:, 0], torch.nan)
        return Estimate(samples.mean(1), spread / count**0.5)

    @staticmethod
    def jackknife(
        function: Callable[[Tensor], Tensor], samples: Tensor, blocks: int = 20
    ) -> Estimate:
        """A function (e, c, …) → (e,) of independent samples, by leaving out blocks of them."""
        samples = samples.double()
        count = samples.shape[1]
        blocks = min(blocks, count)
        index = torch.arange(count, device=samples.device)
        parts = torch.stack([function(samples[:, index % blocks != b]) for b in range(blocks)])
        spread = (parts - parts.mean(0)).square().sum(0)
        return Estimate(function(samples), (spread * (blocks - 1) / blocks).sqrt())

    def replica(self, index: int) -> tuple[float, float]:
        """Value and error of one replica."""
        return float(self.value[index]), float(self.error[index])
