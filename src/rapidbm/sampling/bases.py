"""Where annealing starts: independent units, with fields b_j that make a `Cooling` (`paths.py`).

    free      b = 0: far from every state, and from every mistake
    biases    b_i: what the machine's biases alone would do
    data      tanh b_i = ⟨v_i⟩, the marginals of given data
    modes     tanh b_i = μ_i, the mean-field solutions of lowest free energy, found by descent and by
              turning units over; with the free layers summed, or as modes of all layers

A machine may have a mode that chains from one of them never enter: biases that hold the spins, data on
one side, a first-order transition on the way. From several at once such a mode shows. Mean field is the
product distribution with the best of

    log Z ≥ −E(μ) + Σ_i S(μ_i)                                                            (1)

a bound that holds for any μ, so that a mode of large weight cannot be passed over in silence.

A mode may hang on a unit that is silent in all others: only where it is turned over do its couplings name
the state of the other layers that keeps it on. So units of every layer are held, alone and in pairs, at
values that they do not have, and mean field says where the rest goes.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.unit import Unit
from ..progress import report_progress
from .gibbs import run_sweeps
from .mean_field import relax, variational_bound
from .paths import Cooling
from .quench import quench

MODES = 32  # components of a base at the most, mirror images not counted
STRONGEST = 3.0  # field of a base that is a mode: a unit that is certain could not be left
ALL_MODES = "modes", "modes of all layers"  # paths from all that were found
PARTIAL_MODES = "some modes", "some modes of all layers"  # the same where there are many more
ALONE = 0.5  # of the cooled chains: if more end in modes of their own, most modes are not found
FAR = 16.0  # nats below the best: modes that no longer count
STARTS = 100  # chains that look for modes
UNIT_STATES = 200  # units of a layer whose couplings name a state, at most
COOLING = 40  # sweeps from hot to the machine's own temperature
ITERATIONS = 50  # of mean field
FLIPPED = 40  # units of each layer that are turned over
FLIPPED_PAIRS = 12  # of them in pairs
SOURCES = 2  # solutions in which they are turned over, in each of so many rounds
ROUNDS = 3
HELD_ITERATIONS = 6  # of mean field with a unit held, and then without, before the best are chosen
FURTHER = 64  # of which so many relax further


def free_spins(machine: Machine) -> Tensor:
    """b = 0, (1, e, 1, n)."""
    shape = (1, machine.replicas, 1, machine.layers.columns)
    return torch.zeros(shape, dtype=machine.dtype, device=machine.device)


def own_biases(machine: Machine) -> Tensor:
    """The machine's biases, (1, e, 1, n)."""
    base = free_spins(machine)
    return base if machine.biases is None else base + machine.biases.detach()[None, :, None]


def marginals(machine: Machine, data: Any) -> Tensor:
    """The fields of the data's marginals, smoothed by one observation of each spin, and their mirror
    image, (2, e, 1, n); hidden units have their biases."""
    rows = machine.layers.encode(data, what="the data of the base")
    field = machine.marginal_fields(rows).to(machine.device, machine.dtype)
    field = field if field.dim() == 1 else field[:, None]  # (v,) or (e, 1, v)
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
    them the path from modes is named `PARTIAL_MODES`."""
    bases = {"free spins": free_spins(machine)}
    if not mirrored(machine):
        bases["biases"] = own_biases(machine)
    if data is not None:  # with biases the other starts look after the other side
        bases["data"] = marginals(machine, data)[: 2 if mirrored(machine) else 1]
    paths = {name: Cooling(machine, base) for name, base in bases.items()}
    means, bounds, whole = _search_modes(machine, rng, starts)
    names = ALL_MODES if whole else PARTIAL_MODES
    paths[names[0]] = path_from_modes(machine, means, bounds)
    # Modes that differ in the units that are summed keep their weights on the way if nothing is. A mode
    # and its mirror image do not differ so.
    if machine.layers.inferred and means.shape[1] > 1 + mirrored(machine):
        paths[names[1]] = path_from_modes(machine, means, bounds, summing=False)
    return paths, bounds.amax(1)


def path_from_modes(machine: Machine, means: Tensor, bounds: Tensor, *, summing: bool = True) -> Cooling:
    """From mean-field solutions (e, j, n) and their bounds (e, j)."""
    layers = machine.layers
    fields = machine.by_layer(_base_field, means.double()).to(machine.dtype)
    bases = free_spins(machine).repeat(means.shape[1], 1, 1, 1)
    for layer, where in enumerate(layers.slices):
        if not (summing and layer in layers.inferred):
            bases[..., where] = fields.movedim(1, 0)[:, :, None, where]
    # Mean field knows the weight of a mode roughly: the square root spreads the chains more evenly.
    parts = 0.5 * (bounds - bounds.amax(1, keepdim=True)).mT
    if mirrored(machine):
        bases, parts = torch.cat([bases, -bases]), parts.repeat(2, 1)
    return Cooling(machine, bases, parts, summing=summing)


def _base_field(unit: Unit, means: Tensor) -> Tensor:
    """The field of these means; where states are listed, one that leaves each of them within reach."""
    field = unit.field_of(means)
    return field.clamp(-STRONGEST, STRONGEST) if unit.listed else field


# -- modes --------------------------------------------------------------------------------------------


@torch.no_grad()
def modes(machine: Machine, rng: torch.Generator, starts: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean-field solutions of largest bound (1), the best first: μ (e, j, n) and the bounds (e, j).

    Descent starts from the patterns or the couplings of single units, from random states, from chains
    that cooled down to the machine's temperature and from `starts` (e, c, n); every minimum then relaxes
    by mean field. More solutions come from units of every layer: from the states that each of them names,
    and from known solutions in which one or two units are turned over and held until the others have
    followed.
    """
    return _search_modes(machine, rng, starts)[:2]


def _search_modes(
    machine: Machine, rng: torch.Generator, starts: Tensor | None
) -> tuple[Tensor, Tensor, bool]:
    """`modes`, and whether the search has come to its end: the share of cooled chains that end in a mode
    where no other one does estimates what is not found yet (Good and Turing)."""
    exact = copy.deepcopy(machine).double()
    found = [_states_of_parameters(exact), _cooled(machine, rng).double()]
    spins = torch.cat(found if starts is None else [*found, starts.double()], 1)
    if exact.layers.listed:
        spins = quench(exact, spins)
    means = relax(exact, spins, exact.layers.order, ITERATIONS)
    cooled = means[:, found[0].shape[1] :][:, :STARTS]
    near = torch.cdist(cooled, cooled, p=1.0).le(_closest(exact)).sum(2)  # itself with it
    whole = bool((near == 1).double().mean(1).max() <= ALONE)
    known = _best(means, variational_bound(exact, means), _closest(exact))
    naming = _strongly_coupled(exact, UNIT_STATES)
    known = _with_new_solutions(exact, known, _relaxed_around(exact, *_states_of_units(exact, naming)))
    units = _strongly_coupled(exact, FLIPPED)
    used = means[:, :0]
    for _ in range(ROUNDS):
        sources = _unused(known[0], used, _closest(exact))
        if not sources.shape[1]:
            break
        used = torch.cat([used, sources], 1)
        known = _with_new_solutions(exact, known, _after_flips(exact, sources, units))
    return known[0].to(machine.dtype), known[1], whole


def _best(means: Tensor, bounds: Tensor, closest: float, known: int = 0) -> tuple[Tensor, Tensor]:
    """The solutions of largest bound that differ from each other by more than `closest`, (e, j, n) and
    (e, j). Of those alike it is one of the `known`, which stand in front, or the best."""
    front = bounds.clone()
    front[:, :known] = torch.inf
    order = front.argsort(dim=1, descending=True, stable=True)
    worth = (bounds > bounds.amax(1, keepdim=True) - FAR).gather(1, order)
    chosen = []
    for m, b, o, w in zip(means, bounds, order, worth, strict=True):
        rows = o[w][: known + 4 * MODES]
        rows = rows[_distinct(m[rows], closest)]
        chosen.append(rows[b[rows].argsort(dim=0, descending=True, stable=True)][:MODES])
    return _rows(means, chosen), bounds.gather(1, _side_by_side(chosen))


def _side_by_side(chosen: list[Tensor]) -> Tensor:
    """Row numbers of each replica as (e, j), the first again where there are fewer."""
    count = max(len(rows) for rows in chosen)
    return torch.stack([torch.cat([rows, rows[:1].expand(count - len(rows))]) for rows in chosen])


def _rows(means: Tensor, chosen: list[Tensor]) -> Tensor:
    """These rows of means (e, c, n)."""
    index = _side_by_side(chosen)
    return means.gather(1, index[..., None].expand(-1, -1, means.shape[2]))


def _states_of_parameters(machine: Machine) -> Tensor:
    """States that the parameters name, (e, c, n), and their negatives: the signs of the patterns, or of
    each hidden unit's couplings, the other units unknown; the signs of the biases."""
    visible = machine.visible
    if machine.patterns is not None:
        whole = _both(machine, machine.patterns.detach())
        hints = [[x, trusted.with_visible(machine, x[..., :visible])] for x in whole]
    else:
        signs = _both(machine, _seen_columns(machine))
        hints = [[trusted.with_visible(machine, x[..., :visible])] for x in signs]
    if machine.biases is not None:
        of_biases = _both(machine, machine.biases.detach()[:, None])
        hints = [[*some, x] for some, x in zip(hints, of_biases, strict=True)]
    return torch.cat([x for some in hints for x in some], 1)


def _both(machine: Machine, fields: Tensor) -> tuple[Tensor, Tensor]:
    """The states of lowest energy in fields (e, c, n) and in their negatives; of spins one is the mirror
    image of the other."""
    near = machine.by_layer(lambda unit, x: unit.nearest(x), fields)
    if machine.layers.spins:
        return near, -near
    return near, machine.by_layer(lambda unit, x: unit.nearest(x), -fields)


def _seen_columns(machine: Machine) -> Tensor:
    """The couplings of single units to the visible columns, (e, c, n), those of the strongest units."""
    layers, parts = machine.layers, []
    for a in layers.visible:
        ends = sorted(b for x, b in layers.edges if x == a and (b in layers.hidden or b == a))
        columns = [machine.couplings.matrix(a, layer).detach().mT for layer in ends]
        if columns:
            parts.append(_strongest(torch.cat(columns, 1)))
    least = min((x.shape[1] for x in parts), default=0)
    seen = [x[:, :least] for x in parts]
    whole = machine.couplings.first.new_zeros((machine.replicas, least, layers.columns))
    if seen:
        whole[..., : machine.visible] = torch.cat(seen, -1)
    return whole


def _strongest(columns: Tensor) -> Tensor:
    """The couplings (e, h, v) of the units with the largest ones, `UNIT_STATES` at most."""
    if columns.shape[1] <= UNIT_STATES:
        return columns
    order = columns.norm(dim=2).argsort(dim=1, descending=True, stable=True)[:, :UNIT_STATES]
    return columns.gather(1, order[..., None].expand(-1, -1, columns.shape[2]))


def _cooled(machine: Machine, rng: torch.Generator) -> Tensor:
    spins, push = machine.random(STARTS, rng), None
    if any(unit.has_energy for unit in machine.layers.kinds):  # which a push leaves at β = 1
        push = torch.zeros(machine.layers.columns, dtype=machine.dtype, device=machine.device)
    for step in range(COOLING):
        spins = run_sweeps(machine, spins, rng, beta=(step + 1) / COOLING, push=push)
    return spins


def _closest(machine: Machine) -> float:
    """How far apart two different states are, at least; solutions that are nearer are one."""
    return min(unit.closest for unit in machine.layers.kinds)


def _distinct(means: Tensor, closest: float) -> list[int]:
    """Rows (c, n), in their order, that differ by a unit or more from all before them."""
    near = torch.cdist(means, means, p=1.0).le(closest).cpu().numpy()
    rows: list[int] = []
    for i in range(len(means)):
        if not near[i, rows].any():
            rows.append(i)
    return rows


# -- modes that units open ------------------------------------------------------------------------------


def _strongly_coupled(machine: Machine, most: int) -> Tensor:
    """At most so many units of the strongest couplings of every layer, (e, u), layer after layer."""
    layers = machine.layers
    sizes = torch.zeros((machine.replicas, layers.columns), dtype=machine.dtype, device=machine.device)
    if machine.patterns is not None:
        sizes += machine.patterns.detach().abs().sum(1)
    else:
        for a, b in layers.edges:
            matrix = machine.couplings.matrix(a, b).detach().abs()
            sizes[:, layers.slices[a]] += matrix.sum(2)
            if a != b:
                sizes[:, layers.slices[b]] += matrix.sum(1)
    orders = [sizes[:, x].argsort(dim=1, descending=True, stable=True) + x.start for x in layers.slices]
    return torch.cat([order[:, :most] for order in orders], 1)


def _states_of_units(machine: Machine, units: Tensor) -> tuple[Tensor, Tensor]:
    """The states that units name, and their negatives: by its couplings each unit gives signs to its
    neighbours, those to the next layers; and which unit it was, both (e, c, n)."""
    layers = machine.layers
    held = _whole_units(machine, torch.nn.functional.one_hot(units, layers.columns).bool())
    spins = torch.nn.functional.one_hot(units, layers.columns).to(machine.dtype)
    stop = 0
    for layer, size in enumerate(layers.sizes):
        start, stop = stop, stop + min(size, UNIT_STATES)
        part = spins[:, start:stop]
        front, reached = [layer], {layer}
        while front:
            for other in front:
                where = layers.slices[other]
                if other != layer or layers.self_coupled(layer):
                    field = machine.couplings.field(part, other)
                    kept = part[..., where] if other == layer else 0.0
                    signs = machine.unit(other).nearest(field)
                    part[..., where] = torch.where(held[:, start:stop, where], kept, signs)
            front = sorted({b for a in front for b in layers.neighbours(a)} - reached)
            reached |= set(front)
    turned = -spins if layers.spins else _both(machine, -spins)[0]
    return torch.cat([spins, turned], 1), torch.cat([held, held], 1)


def _whole_units(machine: Machine, columns: Tensor) -> Tensor:
    """A mask (…, n) with all columns of the units of which it has one."""
    if machine.layers.spins:
        return columns

    def of_units(unit: Unit, mask: Tensor) -> Tensor:
        return unit.on_columns(unit.per_unit(mask.to(torch.float32)), mask.shape[-1]) > 0

    return machine.by_layer(of_units, columns)


def _unused(means: Tensor, used: Tensor, closest: float) -> Tensor:
    """The first solutions that are none of the used ones, (e, j, n), at most SOURCES of each replica."""
    chosen = []
    for m, u in zip(means, used, strict=True):
        chosen.append(torch.cdist(m, u, p=1.0).gt(closest).all(1).nonzero()[:SOURCES, 0])
    if not any(len(rows) for rows in chosen):
        return means[:, :0]
    chosen = [rows if len(rows) else rows.new_zeros(1) for rows in chosen]
    return _rows(means, chosen)


def _after_flips(machine: Machine, sources: Tensor, units: Tensor) -> Tensor:
    """Where other units follow when these units of the sources (e, j, n), or pairs of those that
    change most, are turned over, (e, c, n)."""
    masks = _whole_units(
        machine, torch.nn.functional.one_hot(units, sources.shape[2]).bool()
    )  # (e, u, n)
    most = min(FLIPPED_PAIRS, units.shape[1])
    one, two = torch.triu_indices(most, most, 1, device=masks.device)
    replica = torch.arange(len(masks), device=masks.device)[:, None]
    found = []
    for source in sources.unbind(1):
        alone = _relaxed_around(machine, *_flipped(machine, source, masks))
        found.append(alone)
        change = (alone - source[:, None]).abs().sum(2).argsort(dim=1, descending=True, stable=True)
        pairs = masks[replica, change[:, one]] | masks[replica, change[:, two]]
        found.append(_relaxed_around(machine, *_flipped(machine, source, pairs)))
    return torch.cat(found, 1)


def _flipped(machine: Machine, source: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """A source (e, n) with the units of each mask (e, c, n) turned over, and the masks: a spin to the
    other state, any other unit to that of the lowest energy in its reversed field."""
    means = source[:, None].expand_as(masks)

    def over(unit: Unit, mean: Tensor) -> Tensor:
        return -unit.nearest(mean) if unit.mirrored else unit.nearest(-unit.field_of(mean))

    return torch.where(masks, machine.by_layer(over, means), means), masks


def _relaxed_around(machine: Machine, means: Tensor, held: Tensor) -> Tensor:
    """Mean field of all units but the `held` ones, from means (e, c, n)."""
    kept = means.clone()
    for _ in range(HELD_ITERATIONS):
        report_progress()
        for layer in machine.layers.order:
            where = machine.layers.slices[layer]
            relax(machine, means, (layer,), 1)
            means[..., where] = torch.where(held[..., where], kept[..., where], means[..., where])
    return means


def _with_new_solutions(
    machine: Machine, found: tuple[Tensor, Tensor], means: Tensor
) -> tuple[Tensor, Tensor]:
    """The best of the solutions that are known and of those next to these means."""
    order, known = machine.layers.order, found[0].shape[1]
    bounds = variational_bound(machine, relax(machine, means, order, HELD_ITERATIONS))
    chosen = []
    for m, o in zip(means, bounds.argsort(dim=1, descending=True, stable=True), strict=True):
        chosen.append(o[_distinct(m[o], _closest(machine))][:FURTHER])
    means = torch.cat([found[0], relax(machine, _rows(means, chosen), order, ITERATIONS)], 1)
    bounds = torch.cat([found[1], variational_bound(machine, means[:, known:])], 1)
    return _best(means, bounds, _closest(machine), known)
