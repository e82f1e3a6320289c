"""The landscape as a map: minima from many starts, patterns and data, in the plane of their overlaps.

Height is the energy per unit. Of data and patterns the hidden units are where their fields put them: of a
restricted machine, where the energy given the visible units is lowest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...glass.maps import overlap_plane
from ...glass.minima import minima
from ...machines import trusted
from ...machines.machine import Machine
from ...machines.units.spin import SPIN
from ...random import stream
from .arrays import spins
from .machines import Subject
from .queries import Answer

STARTS = 300
SMALLER = 120  # starts of a large machine
LARGE = 1000  # units from which on it is one
SHOWN = 150  # minima on the map
DATA, PATTERNS = 60, 40


@torch.no_grad()
def landscape(found: Subject) -> Answer:
    machine = found.machine
    starts = STARTS if machine.layers.columns < LARGE else SMALLER
    valleys = minima(machine, starts, stream(0, "studio", "landscape"))
    (one,) = valleys.valleys
    shown = min(SHOWN, len(one.counts))
    groups: list[tuple[str, Tensor]] = [("minima", one.spins[:shown].to(machine.dtype))]
    if machine.patterns is not None:
        signs = SPIN.nearest(machine.patterns[0, :PATTERNS])
        groups.append(("patterns", _resting(machine, signs[:, : machine.visible])))
    data = found.data()
    if data is not None:
        some = (
            data.train.spins[: 20 * DATA : 20]
            if len(data.train) >= 20 * DATA
            else data.train.spins[:DATA]
        )
        groups.append(("data", _resting(machine, some.to(machine.dtype))))
    states = torch.cat([group for _, group in groups])
    plane = overlap_plane(states, fold=machine.symmetric)
    random = (
        machine.energy(machine.random(200, stream(0, "studio", "random")))[0] / machine.layers.columns
    )
    told: dict[str, Any] = {
        "groups": [[name, len(group)] for name, group in groups],
        "places": plane.places.tolist(),
        "kept": plane.kept,
        "energies": _energies(machine, one.energies[:shown], groups),
        "counts": one.counts[:shown].tolist(),
        "overlaps": None if one.overlaps is None else one.overlaps[:shown].tolist(),
        "starts": starts,
        "distinct": int(valleys.distinct[0]),
        "total": [float(x) for x in valleys.total.replica(0)],
        "retrieval": None if valleys.retrieval is None else float(valleys.retrieval.value[0]),
        "folded": machine.symmetric,
        "random": [float(random.mean()), float(random.std())],
        "shape": list(found.shape),
    }
    return told, {"images": spins(states[:, : machine.visible])}


def _resting(machine: Machine, visible: Tensor) -> Tensor:
    """Configurations with these visible units and the hidden ones at rest, (c, n)."""
    whole = machine.with_visible(visible)
    if len(machine.layers.sizes) == 1:
        return whole[0]
    for layer in machine.layers.order:
        if layer != 0:
            where = machine.layers.slices[layer]
            whole[..., where] = SPIN.nearest(trusted.field(machine, whole, layer))
    return whole[0]


def _energies(machine: Machine, of_minima: Tensor, groups: list[tuple[str, Tensor]]) -> list[float]:
    """Per unit; those of minima are known already, where a unit without a field may stand at 0."""
    found = of_minima.tolist()
    for name, group in groups:
        if name != "minima":
            energy = trusted.energy(machine, group[None])[0] / machine.layers.columns
            found += energy.double().tolist()
    return found
