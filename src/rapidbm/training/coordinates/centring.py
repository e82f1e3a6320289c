"""Centred gradients: couplings that act on what differs from the mean.

With μ the means of the units given data, a machine with biases is trained as

    E = −Σ_pairs J_ij (s_i − μ_i)(s_j − μ_j) − b'·s,        b_i = b'_i − Σ_j J_ij μ_j      (1)

which is the same machine, but a step of J does not move the means with it. With g the gradient of the
biases

    ∂E/∂J_ij = ∂E/∂J_ij|_plain − g_i μ_j − μ_i g_j                                         (2)

and for patterns through J_ij = (1/√K) Σ_k ξ_i^k ξ_j^k, the sum over the units j that i is coupled to,

    ∂E/∂ξ_i^k = ∂E/∂ξ_i^k|_plain − (1/√K) Σ_j ξ_j^k (g_i μ_j + μ_i g_j)                    (3)

After the step b_i moves by −Σ_j ΔJ_ij μ_j. Means of hidden units are followed: those of the data are
those of the model, as its chains have them, less g.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InputError
from ...machines.machine import Machine
from ...machines.spins import column_sums

FORGETS = 0.05  # the share of the newest means of hidden units


class Centring:
    """Means that couplings leave out, and what follows from them."""

    def __init__(
        self,
        machine: Machine,
        spins: Tensor,
        *,
        persistent: bool,
        held: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """For data (samples, v), of which the cells that are `held` count, rows by `weights` (e or 1,
        samples), and a negative phase with or without persistent chains."""
        if machine.biases is None:
            raise InputError(
                f"centred gradients are for a machine with biases, this one of "
                f"{machine.layers.describe()} units has none; give --biases, or leave --centred out"
            )
        if not machine.layers.hidden_independent and not persistent:
            raise InputError(
                f"centred gradients of a deep or full machine ({machine.layers.describe()} units) follow "
                "the means of hidden units by persistent chains; use the negative phase 'pcd' "
                "(--negative pcd), or leave --centred out"
            )
        if any(machine.layers.same_unit(i) is not None for i, j in machine.layers.edges if i == j):
            raise InputError(
                "centred gradients take units of one column where a layer is coupled to itself, and this "
                f"machine has {machine.layers.words}; leave --centred out"
            )
        self.machine = machine
        self.offsets = torch.zeros_like(machine.biases.data)[:, None]  # μ, (e, 1, n)
        each = [None] if weights is None else list(weights)
        means = torch.stack([_means(spins, held, w) for w in each])  # (e or 1, v)
        self.offsets[..., : machine.visible] = means[:, None].to(machine.dtype)

    def gradient(self, gradient: dict[str, Tensor]) -> dict[str, Tensor]:
        """Eqs. (2) and (3)."""
        xi, layers = self.machine.patterns, self.machine.layers
        g, mu = gradient["biases"][:, None], self.offsets  # (e, 1, n)
        if xi is not None:
            return gradient | {"couplings.patterns": gradient["couplings.patterns"] - self._of(xi, g)}
        found = dict(gradient)
        for a, b in layers.edges:
            x, y = layers.slices[a], layers.slices[b]
            one, two = g[..., x].mT @ mu[..., y], mu[..., x].mT @ g[..., y]
            if a == b:  # the strict upper triangle counts
                one, two = one.triu(1), two.triu(1)
            name = f"couplings.weights.{a}-{b}"
            found[name] = found[name] - one - two
        return found

    def _of(self, xi: Tensor, g: Tensor) -> Tensor:
        """What eq. (3) takes from the gradient of ξ, (e, k, n)."""
        xi, mu, layers = xi.detach(), self.offsets, self.machine.layers
        of_mu = [xi[..., x] @ mu[..., x].mT for x in layers.slices]  # overlaps of μ and g, (e, k, 1)
        of_g = [xi[..., x] @ g[..., x].mT for x in layers.slices]
        parts = []
        for i, x in enumerate(layers.slices):
            around = layers.neighbours(i)
            if layers.self_coupled(i):
                around = (*around, i)
            part = torch.zeros_like(xi[..., x])
            for j in around:
                part += of_mu[j] * g[..., x] + of_g[j] * mu[..., x]
            if layers.self_coupled(i):  # no unit is coupled to itself
                part -= 2.0 * xi[..., x] * mu[..., x] * g[..., x]
            parts.append(part)
        whole: Tensor = torch.cat(parts, -1) * xi.shape[1] ** -0.5
        return whole

    def fields(self) -> Tensor:
        """Σ_j J_ij μ_j, (e, n)."""
        layers = range(len(self.machine.layers.sizes))
        fields = [self.machine.couplings.field(self.offsets, layer) for layer in layers]
        return torch.cat(fields, -1).squeeze(1).detach()

    def move(self, before: Tensor) -> None:
        """Takes from the biases what the fields have gained."""
        assert self.machine.biases is not None
        self.machine.biases.data.sub_(self.fields() - before)

    def follow(self, hidden: Tensor) -> None:
        """Goes on to newer means of the hidden units given data, (e, 1, h)."""
        self.offsets[..., self.machine.visible :].lerp_(hidden, FORGETS)


def _means(spins: Tensor, held: Tensor | None, weights: Tensor | None) -> Tensor:
    """Means of columns over the cells that are held, rows by weight, (v,)."""
    if held is None:
        count = len(spins) if weights is None else weights.sum(dtype=torch.float64)
        return column_sums(spins, weights) / count
    least = 1.0 if weights is None else 1e-300  # of a column that has no weight
    known = column_sums(held, weights).clamp(min=least)
    return column_sums(spins.masked_fill(~held, 0), weights) / known
