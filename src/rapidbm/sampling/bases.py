"""Where annealing starts: independent units, with fields b_j that make a `Cooling` (`paths.py`).

    free      b = 0: far from every state, and from every mistake
    biases    b_i: what the machine's biases alone would do
    data      tanh b_i = ⟨v_i⟩, the marginals of given data
    modes     tanh b_i = μ_i, the mean-field solutions of lowest free energy, found by descent

A machine may have a mode that chains from one of them never enter: biases that hold the spins, data on
one side, a first-order transition on the way. From several at once such a mode shows. Mean field is the
product distribution with the best of

    log Z ≥ −E(μ) + Σ_i S(μ_i)                                                            (1)

a bound that holds for any μ, so that a mode of large weight cannot be passed over in silence.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..machines.machine import Machine
from ..machines.spins import to_spins
from ..machines.units import SPIN
from .gibbs import sweep
from .mean_field import relax, variational_bound
from .paths import Cooling
from .quench import descend

MODES = 32  # components of a base at the most, mirror images not counted
STRONGEST = 3.0  # field of a base that is a mode: a unit that is certain could not be left
SOME = "some modes"
ALONE = 0.5  # of the cooled chains: if more end in modes of their own, most modes are not found
FAR = 16.0  # nats below the best: modes that no longer count
STARTS = 100  # chains that look for modes
HINTS = 200  # units whose couplings name a state, at most
COOLING = 40  # sweeps from hot to the machine's own temperature
ITERATIONS = 50  # of mean field


def free_spins(machine: Machine) -> Tensor:
    """b = 0, (1, e, 1, n)."""
    shape = (1, machine.replicas, 1, machine.layers.units)
    return torch.zeros(shape, dtype=machine.dtype, device=machine.device)


def own_biases(machine: Machine) -> Tensor:
    """The machine's biases, (1, e, 1, n)."""
    base = free_spins(machine)
    return base if machine.biases is None else base + machine.biases.detach()[None, :, None]


def marginals(machine: Machine, data: Any) -> Tensor:
    """The fields of the data's marginals, smoothed by one observation of each spin, and their mirror
    image, (2, e, 1, n); hidden units have their biases."""
    spins = to_spins(data, what="the data of the base")
    if spins.dim() != 2 or spins.shape[1] != machine.visible:
        raise InputError(f"the base needs data (samples, {machine.visible}), not {tuple(spins.shape)}")
    mean = spins.sum(0, dtype=torch.float64) / (len(spins) + 2.0)
    field = machine.layers.unit(0).field_of(mean).to(machine.device, machine.dtype)
    bases = own_biases(machine).repeat(2, 1, 1, 1)
    bases[0, ..., : machine.visible] = field
    bases[1, ..., : machine.visible] = -field
    return bases


def mirrored(machine: Machine) -> bool:
    """True where E(s) = E(−s): no biases, or none but zeros."""
    unbiased = machine.biases is None or not bool(machine.biases.any())
    return unbiased and all(unit.mirrored for unit in machine.layers.kinds)


def path_to(machine: Machine, data: Any = None, *, exact: bool = True) -> Cooling:
    """The path from free spins, or with `data` from the data's marginals and their mirror image: a
    machine whose biases are weak has weight on either side."""
    bases = free_spins(machine) if data is None else marginals(machine, data)
    return Cooling(machine, bases, exact=exact)


def paths_to(
    machine: Machine, data: Any, rng: torch.Generator, starts: Tensor | None = None
) -> tuple[dict[str, Cooling], Tensor]:
    """A path from every base that differs from the others, by its name, and the bound (1), (e,); the
    search for modes begins at these configurations, `starts` (e, c, n), too. Where it found but some of
    them the path from modes is named `SOME`."""
    bases = {"free spins": free_spins(machine)}
    if not mirrored(machine):
        bases["biases"] = own_biases(machine)
    if data is not None:  # with biases the other starts look after the other side
        bases["data"] = marginals(machine, data)[: 2 if mirrored(machine) else 1]
    paths = {name: Cooling(machine, base) for name, base in bases.items()}
    means, bounds, whole = _searched(machine, rng, starts)
    paths["modes" if whole else SOME] = path_from_modes(machine, means, bounds)
    return paths, bounds.amax(1)


def path_from_modes(machine: Machine, means: Tensor, bounds: Tensor) -> Cooling:
    """From mean-field solutions (e, j, n) and their bounds (e, j)."""
    layers = machine.layers
    fields = layers.by_layer(lambda unit, m: unit.field_of(m), means.double())
    fields = fields.clamp(-STRONGEST, STRONGEST).to(machine.dtype)
    bases = free_spins(machine).repeat(means.shape[1], 1, 1, 1)
    for layer, where in enumerate(layers.slices):
        if layer not in layers.inferred:
            bases[..., where] = fields.movedim(1, 0)[:, :, None, where]
    # Mean field knows the weight of a mode roughly: the square root spreads the chains more evenly.
    parts = 0.5 * (bounds - bounds.amax(1, keepdim=True)).mT
    if mirrored(machine):
        bases, parts = torch.cat([bases, -bases]), parts.repeat(2, 1)
    return Cooling(machine, bases, parts)


# -- modes --------------------------------------------------------------------------------------------


@torch.no_grad()
def modes(machine: Machine, rng: torch.Generator, starts: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean-field solutions of largest bound (1), the best first: μ (e, j, n) and the bounds (e, j).

    Descent starts from the patterns or the couplings of single units, from random states, from chains
    that cooled down to the machine's temperature and from `starts` (e, c, n); every minimum then relaxes
    by mean field.
    """
    return _searched(machine, rng, starts)[:2]


def _searched(
    machine: Machine, rng: torch.Generator, starts: Tensor | None
) -> tuple[Tensor, Tensor, bool]:
    """`modes`, and whether the search has come to its end: the share of cooled chains that end in a mode
    where no other one does estimates what is not found yet (Good and Turing)."""
    exact = copy.deepcopy(machine).double()
    found = [_hints(exact), _cooled(machine, rng).double()]
    spins = torch.cat(found if starts is None else [*found, starts.double()], 1)
    means = relax(exact, descend(exact, spins, means=True), exact.layers.order, ITERATIONS)
    bounds = variational_bound(exact, means)  # (e, c)
    cooled = means[:, len(found[0][0]) :][:, :STARTS]
    near = torch.cdist(cooled, cooled, p=1.0).le(2.0).sum(2)  # itself with it
    whole = bool((near == 1).double().mean(1).max() <= ALONE)
    order = bounds.argsort(1, descending=True)
    means = means.gather(1, order[..., None].expand_as(means))
    bounds = bounds.gather(1, order)
    worth = bounds > bounds[:, :1] - FAR
    chosen = [_distinct(m[w][: 4 * MODES]) for m, w in zip(means, worth, strict=True)]
    count = max(len(rows) for rows in chosen)
    index = torch.tensor([rows + [0] * (count - len(rows)) for rows in chosen], device=means.device)
    picked = index[..., None].expand(-1, -1, means.shape[2])
    return means.gather(1, picked).to(machine.dtype), bounds.gather(1, index), whole


def _hints(machine: Machine) -> Tensor:
    """States that the parameters name, (e, c, n), and their negatives: the signs of the patterns, or of
    each hidden unit's couplings, the other units unknown; the signs of the biases."""
    visible = machine.visible
    if machine.patterns is not None:
        whole = SPIN.nearest(machine.patterns.detach())
        rows = machine.with_visible(whole[..., :visible], means=True)
        hints = [whole, rows]
    else:
        ends = [b for a, b in machine.layers.edges if a == 0]
        columns = [machine.couplings.matrix(0, layer).detach().mT for layer in sorted(ends)]
        signs = [SPIN.nearest(_strongest(torch.cat(columns, 1)))] if columns else []
        hints = [machine.with_visible(x, means=True) for x in signs]
    if machine.biases is not None:
        hints.append(SPIN.nearest(machine.biases.detach())[:, None])
    whole = torch.cat(hints, 1) if hints else free_spins(machine)[0, :, :0]
    return torch.cat([whole, -whole], 1)


def _strongest(columns: Tensor) -> Tensor:
    """The couplings (e, h, v) of the units with the largest ones, `HINTS` at most."""
    if columns.shape[1] <= HINTS:
        return columns
    order = columns.norm(dim=2).argsort(dim=1, descending=True, stable=True)[:, :HINTS]
    return columns.gather(1, order[..., None].expand(-1, -1, columns.shape[2]))


def _cooled(machine: Machine, rng: torch.Generator) -> Tensor:
    spins = machine.random(STARTS, rng)
    for step in range(COOLING):
        spins = sweep(machine, spins, rng, (step + 1) / COOLING, means=True)
    return spins


def _distinct(means: Tensor) -> list[int]:
    """Rows (c, n), in their order, that differ by a spin or more from all before them."""
    near = torch.cdist(means, means, p=1.0).le(2.0).cpu()
    rows: list[int] = []
    for i in range(len(means)):
        if len(rows) < MODES and not bool(near[i, rows].any()):
            rows.append(i)
    return rows
