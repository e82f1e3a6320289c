"""Couplings against random ones: singular values, and how far the patterns are from orthogonal.

Independent couplings of mean square J² between V and H units have no singular value above the edge of
their bulk (Marchenko and Pastur 1967); a layer coupled to itself none above Wigner's,

    σ_edge = J (√V + √H),        λ_edge = 2 J √N                                          (1)

but for fluctuations: in one case of a hundred the largest lies beyond (Johnstone 2001)

    σ² = J² [ r² + 2.02 r (1/√(V−1) + 1/√H)^(1/3) ],     r = √(V−1) + √H                  (2)

What is larger than that carries structure. Through patterns, J = ξ_vᵀ ξ_h / √K, with ξ_vᵀ = Q_v R_v,

    σ(J) = σ(R_v R_hᵀ) / √K                                                               (3)

costs K²(V + H) and never builds J. Two independent patterns of n units overlap by 1/√n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..display import Displayable, words
from ..errors import InputError
from ..ground.lower_bound import whole_matrix
from ..machines.machine import Machine

CHANCE = 2.02  # 99 of 100 values of the real Tracy–Widom law lie below


@dataclass(frozen=True, repr=False)
class Spectrum(Displayable):
    """Singular values of the couplings, or eigenvalues where units of one layer are coupled."""

    values: Tensor  # (e, r), falling; those that K patterns cannot reach, 0, are left out
    edge: Tensor  # (e,) eq. (1)
    limit: Tensor  # (e,) the edge and a margin for chance, eq. (2)
    kind: str  # "singular values" or "eigenvalues"

    def _line(self) -> str:
        return f"{words(self.values)}; beyond the limit {words(self.outliers)}"

    @property
    def outliers(self) -> Tensor:
        """How many values lie beyond the limit, (e,)."""
        return (self.values.abs() > self.limit[:, None]).sum(1)

    @property
    def effective_rank(self) -> Tensor:
        """The participation ratio (Σσ²)²/Σσ⁴, (e,): how many directions carry the couplings."""
        square = self.values.square()
        return square.sum(1).square() / square.square().sum(1)


@torch.no_grad()
def spectrum(machine: Machine) -> Spectrum:
    """Singular values of the couplings, and the edge that random couplings would have.

    They are those between the visible and the first hidden layer. Where the visible layer is coupled to
    itself, eigenvalues of all couplings are taken.

    Parameters
    ----------
    machine : Machine
        A machine with couplings of the visible layer.

    Returns
    -------
    Spectrum
        `values` (e, r), falling; `edge` (e,) of random couplings; `limit` (e,), which includes a margin
        for chance.

    Examples
    --------
    >>> rb.spectrum(rb.rbm(20, 10, patterns=2, seed=0)).values.shape
    torch.Size([1, 2])
    """
    layers = machine.layers
    if layers.self_coupled(0):
        values = torch.linalg.eigvalsh(whole_matrix(machine.couplings)).flip(-1)
        n = values.shape[1]
        rms = values.square().sum(1).div(n * (n - 1)).sqrt()
        edge = 2.0 * rms * math.sqrt(n)
        return Spectrum(values, edge, edge + rms * CHANCE * n ** (-1 / 6), "eigenvalues")
    if not layers.neighbours(0):
        raise InputError(
            f"a spectrum needs couplings of the visible layer, this machine has {layers.edges}"
        )
    other = min(layers.neighbours(0))
    v, h = layers.sizes[0], layers.sizes[other]
    values = machine.couplings.singular_values(0, other)
    rms = values.square().sum(1).div(v * h).sqrt()  # the Frobenius norm is that of J
    r = math.sqrt(v - 1) + math.sqrt(h)
    width = r * (1 / math.sqrt(max(v - 1, 1)) + 1 / math.sqrt(h)) ** (1 / 3)
    limit = rms * math.sqrt(r**2 + CHANCE * width)  # eq. (2)
    return Spectrum(values, rms * (math.sqrt(v) + math.sqrt(h)), limit, "singular values")


@dataclass(frozen=True, repr=False)
class PatternOverlaps(Displayable):
    """C_kl = ξ_k·ξ_l / |ξ_k||ξ_l| within each layer."""

    matrices: tuple[Tensor, ...]  # per layer (e, k, k)
    rms: Tensor  # (e, layers) off the diagonal; NaN for a single pattern
    expected: Tensor  # (layers,) 1/√n, that of independent patterns


@torch.no_grad()
def pattern_overlaps(machine: Machine) -> PatternOverlaps | None:
    """How correlated the patterns are, layer by layer.

    Parameters
    ----------
    machine : Machine
        A machine with patterns.

    Returns
    -------
    PatternOverlaps or None
        Cosines between patterns per layer, their root mean square, and 1/√n, the value of independent
        patterns. None for dense couplings.

    Examples
    --------
    >>> rb.pattern_overlaps(rb.rbm(20, 10, patterns=3, seed=0)).rms.shape
    torch.Size([1, 2])
    """
    couplings = machine.couplings.patterned
    if couplings is None:
        return None
    matrices = []
    for layer in range(len(machine.layers.sizes)):
        xi = torch.nn.functional.normalize(couplings.of_layer(layer).double(), dim=-1)
        matrices.append(xi @ xi.mT)
    k = matrices[0].shape[1]
    apart = ~torch.eye(k, dtype=torch.bool, device=matrices[0].device)
    rms = torch.stack([c[:, apart].square().mean(1).sqrt() for c in matrices], 1)
    sizes = torch.tensor(machine.layers.sizes, dtype=torch.float64, device=rms.device)
    return PatternOverlaps(tuple(matrices), rms, sizes.rsqrt())
