"""Configurations as points of a plane whose distances are those of their overlaps, as far as a plane can.

    d²_ab = 2 (1 − q_ab),      q_ab = (1/N) Σ_i s_i^a s_i^b,      B = −½ J d² J,   J = 1 − 1/n    (1)

The two largest eigenvalues of B and their vectors place the points (classical scaling, Torgerson 1952);
where all q count this is principal component analysis of the spins. Of a machine without biases s and −s
are one state: `fold` takes |q|, which no space may fit, so that B has negative eigenvalues too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..display import Displayable
from ..errors import InputError


@dataclass(frozen=True, repr=False)
class Plane(Displayable):
    """Where each configuration lies, and how much of their distances a plane can show."""

    places: Tensor  # (c, 2)
    kept: float  # the two eigenvalues' share of all, by size


def overlap_plane(spins: Tensor, *, fold: bool = False) -> Plane:
    """Configurations as points of a plane, at distances that reflect their overlaps.

    Parameters
    ----------
    spins : Tensor of shape (c, n)
        Configurations of −1, 0 and 1; at least two.
    fold : bool, default False
        Treat s and −s as one state (machines without biases).

    Returns
    -------
    Plane
        `places` (c, 2), and `kept`, the share of the distances that a plane can show.

    Raises
    ------
    InputError
        If there are fewer than two configurations.

    Examples
    --------
    >>> plane = rb.overlap_plane([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]])
    >>> round(plane.kept, 6)  # three points lie in a plane
    1.0
    """
    states = as_tensor(spins, what="configurations")
    if states.dim() != 2 or len(states) < 2 or states.dtype == torch.bool or not states.shape[1]:
        raise InputError(
            "a plane is of at least two configurations (c, n) of −1, 0 and 1, not "
            f"{states.dtype} of {tuple(states.shape)}"
        )
    states = states.double().cpu()
    q = states @ states.mT / states.shape[1]
    square = 2.0 * (1.0 - (q.abs() if fold else q))
    square = 0.5 * (square + square.mT)
    centred = square - square.mean(0) - square.mean(1, keepdim=True) + square.mean()
    values, vectors = torch.linalg.eigh(-0.5 * centred)
    first = vectors[:, -2:].flip(1)
    # Eigenvectors come with either sign: the larger half lies to the right and above.
    sides = torch.where(first.pow(3).sum(0) < 0, -1.0, 1.0)
    lengths = values[-2:].flip(0).clamp_min(0.0)
    total = float(values.abs().sum())
    kept = float(lengths.sum()) / total if total > 0 else 1.0
    return Plane(first * sides * lengths.sqrt(), kept)
