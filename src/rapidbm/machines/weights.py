"""Machines as others write them: weights of units at two levels, and binary quadratic models.

A unit at the levels (lo, hi) is x = m + d s, with m = (hi + lo)/2, d = (hi − lo)/2 and s = ±1. So weights

    E'(x, y) = − xᵀW y − b·x − c·y                                                        (1)

are those of a restricted machine of spins, for each pair of levels exactly,

    J = d² W,    b_s = d (b + m W·1),    c_s = d (c + m Wᵀ·1)                             (2)
    E' = E + constant,    constant = − m² Σ W − m (Σ b + Σ c)                             (3)

and free energies differ by the same constant. A binary quadratic model of spins has the opposite signs,

    E'(s) = Σ_i h_i s_i + Σ_pairs J'_ij s_i s_j + offset,      h = −b,  J' = −J           (4)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..accel.memory import check_room
from ..errors import InputError, check_choice, is_number, require
from .couplings import as_parameter
from .dense import Dense
from .layers import Layers
from .machine import Machine

Names = tuple[tuple[Hashable, ...], ...]  # of the units of each layer


@dataclass(frozen=True)
class Weights:
    """The parameters of eq. (1), a row for each replica, and the constant of eq. (3)."""

    W: Tensor  # (e, v, h) float64
    b: Tensor  # (e, v), of the visible units
    c: Tensor  # (e, h), of the hidden ones
    levels: tuple[float, float]
    constant: Tensor  # (e,): what energies and free energies have more than the machine's


def from_weights(W: Any, b: Any = None, c: Any = None, levels: tuple[float, float] = (0, 1)) -> Machine:
    """The machine of eq. (2)."""
    middle, half = _of_levels(levels)
    given = as_parameter(W, what="W")
    w = (given[None] if given.dim() == 2 else given).double()
    if w.dim() != 3 or 0 in w.shape:
        raise InputError(f"W is (visible, hidden) or (replicas, visible, hidden), not {tuple(w.shape)}")
    seen = _bias(b, w.sum(2), "b, of the visible units,") + middle * w.sum(2)
    unseen = _bias(c, w.sum(1), "c, of the hidden ones,") + middle * w.sum(1)
    biases = half * torch.cat([seen, unseen], 1)
    layers = Layers((w.shape[1], w.shape[2]), ((0, 1),))
    couplings = Dense(layers, {(0, 1): (half**2 * w).to(given.dtype)})
    free = b is None and c is None and not middle
    return Machine(couplings, None if free else biases)


def to_weights(machine: Machine, levels: tuple[float, float] = (0, 1)) -> Weights:
    """Eq. (2) the other way."""
    middle, half = _of_levels(levels)
    layers = machine.layers
    layers.check_spins("a conversion to weights")
    if not layers.two_layers:
        raise InputError(
            "weights W, b and c are those of a restricted machine, two layers that are coupled to each "
            f"other; this one has layers {layers.sizes} and edges {layers.edges}: use to_bqm"
        )
    w = machine.couplings.matrix(0, 1).detach().double() / half**2
    biases = _biases(machine) / half
    b = biases[:, : machine.visible] - middle * w.sum(2)
    c = biases[:, machine.visible :] - middle * w.sum(1)
    constant = -(middle**2) * w.sum((1, 2)) - middle * (b.sum(1) + c.sum(1))
    return Weights(w, b, c, (float(levels[0]), float(levels[1])), constant)


def _of_levels(levels: Any) -> tuple[float, float]:
    """m and d."""
    pair = tuple(levels) if isinstance(levels, Iterable) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not pair[0] < pair[1]:
        raise InputError(
            f"levels are the two values of a unit, the lower first, (0, 1) or (-1, 1), not {levels!r}"
        )
    return (pair[1] + pair[0]) / 2, (pair[1] - pair[0]) / 2


def _bias(values: Any, like: Tensor, what: str) -> Tensor:
    """As (e, n) in the shape of `like`."""
    if values is None:
        return torch.zeros_like(like)
    given = as_parameter(values, what=what, like=like)
    if tuple(given.shape) not in (tuple(like.shape), tuple(like.shape[1:])):
        raise InputError(f"{what} must be {tuple(like.shape[1:])}, not {tuple(given.shape)}")
    return given.expand_as(like)


def _biases(machine: Machine) -> Tensor:
    """(e, n) in float64; zeros where there are none."""
    if machine.biases is not None:
        return machine.biases.detach().double()
    shape = (machine.replicas, machine.layers.columns)
    return torch.zeros(shape, dtype=torch.float64, device=machine.device)


# -- binary quadratic models --------------------------------------------------------------------------


def to_bqm(machine: Machine, *, names: Sequence[Hashable] | None = None, vartype: str = "SPIN") -> Any:
    """Eq. (4) as a model of dimod."""
    layers = machine.layers
    layers.check_spins("a binary quadratic model")
    vartype = getattr(vartype, "name", vartype)  # of dimod's own
    check_choice("vartype", vartype, ("SPIN", "BINARY"))
    require("dimod", "a binary quadratic model")
    import dimod

    if machine.replicas != 1:
        raise InputError(
            f"a binary quadratic model is of one machine, and here are {machine.replicas} replicas; take "
            "one of them, machine.replica(0)"
        )
    labels = list(range(layers.columns)) if names is None else list(names)
    known = {label for label in labels if isinstance(label, Hashable)}
    if len(labels) != layers.columns or len(known) != layers.columns:
        raise InputError(
            f"give {layers.columns} different names, one for each unit, not {labels[:20]}; a name is a "
            "text, a number or a tuple"
        )
    firsts, seconds = [np.empty(0, int)], [np.empty(0, int)]
    values = [np.empty(0)]
    for a, b in layers.edges:
        matrix = machine.couplings.matrix(a, b)[0].detach().double().cpu().numpy()
        i, j = np.triu_indices(len(matrix), 1) if a == b else np.indices(matrix.shape).reshape(2, -1)
        firsts.append(i + layers.slices[a].start)
        seconds.append(j + layers.slices[b].start)
        values.append(-matrix[i, j])
    pairs = tuple(np.concatenate(parts) for parts in (firsts, seconds, values))
    fields = -_biases(machine)[0].cpu().numpy()
    found = dimod.BinaryQuadraticModel.from_numpy_vectors(fields, pairs, 0.0, "SPIN")
    if names is not None:
        found.relabel_variables(dict(enumerate(labels)))
    return found if vartype == "SPIN" else found.change_vartype(vartype, inplace=False)


def bqm_layers(bqm: Any) -> Names:
    """The names of the variables of a binary quadratic model as the units of layers: two, if every
    coupling joins one to the other, with the first variable in the visible one, else all visible."""
    _check_bqm(bqm)
    near: dict[Hashable, list[Hashable]] = {name: [] for name in bqm.variables}
    for a, b in bqm.quadratic:
        near[a].append(b)
        near[b].append(a)
    side: dict[Hashable, int] = {}
    for first in near:  # of each part that hangs together
        front = [] if first in side else [first]
        side.setdefault(first, 0)
        while front:
            name = front.pop()
            front += [other for other in near[name] if other not in side]
            side |= {other: 1 - side[name] for other in near[name] if other not in side}
    if not bqm.num_interactions or any(side[a] == side[b] for a, b in bqm.quadratic):
        return (tuple(near),)
    return tuple(tuple(name for name in near if side[name] == layer) for layer in (0, 1))


def from_bqm(
    bqm: Any, layers: Sequence[Sequence[Hashable]] | None = None, dtype: torch.dtype = torch.float64
) -> Machine:
    """The machine whose energy is the model's less a constant, `bqm.spin.offset`."""
    _check_bqm(bqm)
    names = bqm_layers(bqm) if layers is None else tuple(tuple(layer) for layer in layers)
    flat = [name for layer in names for name in layer]
    if len(flat) != len(set(flat)) or set(flat) != set(bqm.variables):
        raise InputError(
            f"the layers name each of the {bqm.num_variables} variables of the model once, and these "
            f"{len(flat)} names do not; bqm_layers(bqm) gives names that do"
        )
    check_room(f"the couplings of {len(flat):,} variables", len(flat) ** 2, size=8)
    place = np.array([i for i, layer in enumerate(names) for _ in layer])  # the layer of each unit
    layered = Layers(tuple(map(len, names)), ())
    fields, (firsts, seconds, values), _ = bqm.spin.to_numpy_vectors(variable_order=flat)
    first, second = np.minimum(firsts, seconds), np.maximum(firsts, seconds)
    matrix = np.zeros((len(flat), len(flat)))
    matrix[first, second] = np.negative(values)
    joined = sorted(set(zip(place[first].tolist(), place[second].tolist(), strict=True)))
    edges = tuple(joined) or ((0, 0),)  # of units that are free but for their biases, couplings of 0
    where = layered.slices
    couplings = Dense(
        replace(layered, edges=edges),
        {(a, b): torch.from_numpy(matrix[None, where[a], where[b]]).to(dtype) for a, b in edges},
    )
    biases = -torch.from_numpy(np.asarray(fields, np.float64))[None]
    return Machine(couplings, biases.to(dtype) if bool((biases != 0).any()) else None)


def _check_bqm(bqm: Any) -> None:
    if not hasattr(bqm, "to_numpy_vectors") or not len(bqm.variables):
        raise InputError(
            "a binary quadratic model of dimod with at least one variable is needed, not "
            f"{type(bqm).__name__!r}; make one with dimod.BinaryQuadraticModel"
        )
