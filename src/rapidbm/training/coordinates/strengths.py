"""Axons of different strengths: the patterns of each layer are measured in a unit of their own.

    ξ_l = s_l η_l,        J_ij = (1/√K) s_a s_b Σ_k η_i^k η_j^k        (i in layer a, j in b)   (1)

The gradient of ξ_l is of the size of the overlaps around l: of V visible units V at most, of N hidden
ones N. Patterns of hidden layers that are coupled to each other so move N / V times as fast as those of
a restricted machine, and projections to ±1 rewrite them at every epoch (docs/deep.md). With strengths
s_l = √(c V / N) and c < 1 they do not. Larger ones make a machine colder, s² times.

Such a training is one of η: with g = ∂E/∂ξ the optimiser sees η and its gradient s g.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..optimisers import Rates, Updater

NAME = "couplings.patterns"


class Measured:
    """An updater of η, eq. (1)."""

    def __init__(self, updater: Updater, patterns: Tensor, measure: Tensor) -> None:
        self.updater, self.patterns, self.measure = updater, patterns, measure

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        self.patterns.data.div_(self.measure)
        self.updater.step({**gradients, NAME: gradients[NAME] * self.measure}, rates)
        self.patterns.data.mul_(self.measure)

    def state(self) -> dict[str, Tensor]:
        return self.updater.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.updater.load(state)
