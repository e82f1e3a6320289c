"""A pace of hidden patterns: they make a share of the steps that the optimiser would have them make.

The gradient moves the patterns of a layer by the overlaps of the layers that it is coupled to,

    Δξ_l ∝ ⟨(Σ_{l'~l} m_l') ⊗ s_l⟩,        m of V visible units ≤ V, of N hidden ones ≤ N         (1)

In a restricted machine those of hidden units move by V at most, slowly, those of visible ones by N:
hidden patterns are nearly fixed random features, and visible ones learn. Where hidden units are coupled
to each other their patterns move N / V times as fast, and each projection to ±1 rewrites them
(docs/deep.md). At a pace p ≪ 1

    ξ_h ← ξ_h + p Δξ_h                                                                    (2)
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...errors import InputError, is_number
from ...machines.machine import Machine
from ..optimisers import Rates, Updater


def check_pace(pace: float, patterned: bool) -> None:
    if not is_number(pace) or not 0 <= pace <= 1:
        raise InputError(f"the pace of hidden patterns is a share from 0 to 1, not {pace!r}; give one")
    if pace != 1 and not patterned:
        raise InputError(
            f"a pace of {pace:g} is one of patterns, and dense couplings have none; give --patterns, or "
            "leave --pace out"
        )


class Slowed:
    """An updater that takes back a part of the steps of hidden patterns, eq. (2)."""

    def __init__(self, updater: Updater, machine: Machine, pace: float) -> None:
        assert machine.patterns is not None
        self.updater, self.patterns, self.pace = updater, machine.patterns, pace
        self.visible = machine.visible

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        hidden = self.patterns.data[..., self.visible :]
        before = hidden.clone()
        self.updater.step(gradients, rates)
        hidden.copy_(torch.lerp(before, hidden, self.pace))

    def state(self) -> dict[str, Tensor]:
        return self.updater.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.updater.load(state)
