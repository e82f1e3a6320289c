"""Centred gradients: couplings that act on what differs from the mean.

With μ the data's means and λ those of the hidden units given data, a restricted machine with biases is
trained as

    E = −(v−μ)ᵀ J (h−λ) − b'·v − c'·h,        b = b' − J λ,    c = c' − Jᵀ μ                (1)

which is the same machine, but a step of J does not move the means with it. With g_b and g_c the gradients
of the biases

    ∂E/∂J = ∂E/∂J|_plain − g_b λᵀ − μ g_cᵀ                                                 (2)

for patterns through J = ξ_vᵀ ξ_h / √K. After the step b and c move by −ΔJ λ and −ΔJᵀ μ. λ is followed:
⟨h⟩ of the data is that of the model, as its chains have it, less g_c.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from ..machines.machine import Machine
from ..machines.spins import column_sums

FORGETS = 0.05  # the share of the newest λ


class Centring:
    """Means that couplings leave out, and what follows from them."""

    def __init__(self, machine: Machine, spins: Tensor) -> None:
        if len(machine.layers.sizes) != 2 or machine.biases is None or machine.layers.edges != ((0, 1),):
            raise InputError(
                f"centred gradients are for a restricted machine with biases, not for "
                f"{machine.layers.describe()}{' without' if machine.biases is None else ''}; give "
                "--biases, or leave --centred out"
            )
        self.machine = machine
        self.offsets = torch.zeros_like(machine.biases.data)[:, None]  # (e, 1, n): μ and λ
        self.offsets[..., : machine.visible] = column_sums(spins).to(machine.dtype) / len(spins)

    def gradient(self, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """Eq. (2)."""
        v, xi = self.machine.visible, self.machine.patterns
        mu, hidden = self.offsets[..., :v], self.offsets[..., v:]  # (e, 1, n_l)
        b, c = gradient["biases"][:, None, :v], gradient["biases"][:, None, v:]
        name = next(name for name in gradient if name != "biases")
        if xi is None:
            return gradient | {name: gradient[name] - b.mT @ hidden - mu.mT @ c}
        xi_v, xi_h = xi.detach()[..., :v], xi.detach()[..., v:]
        of_v = (xi_h @ hidden.mT) @ b + (xi_h @ c.mT) @ mu
        of_h = (xi_v @ b.mT) @ hidden + (xi_v @ mu.mT) @ c
        scale = xi.shape[1] ** -0.5
        return gradient | {name: gradient[name] - scale * torch.cat([of_v, of_h], -1)}

    def fields(self) -> Tensor:
        """J λ and Jᵀ μ, (e, n)."""
        fields = [self.machine.couplings.field(self.offsets, layer) for layer in (0, 1)]
        return torch.cat(fields, -1).squeeze(1).detach()

    def move(self, before: Tensor) -> None:
        """Takes from the biases what the fields have gained."""
        assert self.machine.biases is not None
        self.machine.biases.data.sub_(self.fields() - before)

    def follow(self, hidden: Tensor) -> None:
        """Goes on to newer means of the hidden units given data, (e, 1, h)."""
        self.offsets[..., self.machine.visible :].lerp_(hidden, FORGETS)
