"""Gibbs sampling of every graph at any inverse temperature.

A layer that is not coupled to itself is drawn at once from p(s_i = +1 | rest) = σ(2 β field_i).
A layer of patterns coupled to itself gets a Gaussian field per pattern (Hubbard–Stratonovich),

    exp( (β/2√K) m² ) ∝ ∫ dz exp( −z²/2 + √β K^(−1/4) m z )                               (1)
    z_k | s ~ N( √β K^(−1/4) m_k, 1 ),
    p(s_i = +1 | z, rest) = σ( 2 (β outside_i + √β K^(−1/4) Σ_k ξ_i^k z_k) )              (2)

with `outside` the field of the biases and the other layers: exact, and parallel over the layer. m² holds
the square of each unit, which is no coupling: of spins a constant, of columns at 0 and 1 linear in x, so
that their fields lose

    (1/2√K) Σ_k (ξ_i^k)²                                                                  (3)

Any other layer coupled to itself is drawn unit by unit. Where one column of each unit is 1 and the others
are 0, the field on a unit is a sum of rows, one for each unit j with the state a_j:

    field_i(a) = outside_i(a) + Σ_j J[(j, a_j), (i, a)]                                   (4)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ..accel import fused
from ..accel.devices import by_device
from ..accel.elementwise import one_hot_columns, sums_of_rows
from ..accel.recording import unseen
from ..arrays import as_mask, as_tensor
from ..errors import InputError, check_beta, check_count
from ..machines import trusted
from ..machines.couplings import Patterned
from ..machines.dense import FEWER
from ..machines.machine import Machine
from ..machines.units.unit import Beta, Unit
from ..progress import report_progress
from ..random import check_rng, rng_from


@torch.no_grad()
def sweep(
    machine: Machine,
    spins: Tensor,
    rng: torch.Generator | None = None,
    beta: float | Tensor = 1.0,
    clamp: Tensor | None = None,
    push: Tensor | None = None,
    *,
    means: bool = False,
    seed: int | None = None,
) -> Tensor:
    """One Gibbs pass over all layers, the visible one last; the input is left as it is.

    `beta` may be a tensor with one value per chain, (c,) or (e, c). `clamp` marks the units that
    stay: a mask of (n,), (c, n) or (e, c, n). A hidden unit at 0 counts as unknown; with `means` any
    unit, and no tensor is looked at, as loops over sweeps want it. `push` is added to β·field, (e, c, n)
    or a shape that widens to it: the distribution is ∝ exp(−βE + push·s). A push takes β = 1 where units
    have energies of their own, as real ones do.
    """
    return sweeps(machine, spins, rng, 1, beta, clamp, push, means=means, seed=seed)


@torch.no_grad()
def sweeps(
    machine: Machine,
    spins: Tensor,
    rng: torch.Generator | None = None,
    count: int = 1,
    beta: float | Tensor = 1.0,
    clamp: Tensor | None = None,
    push: Tensor | None = None,
    *,
    means: bool = False,
    seed: int | None = None,
) -> Tensor:
    """`count` sweeps in a row."""
    check_count("the number of sweeps", count, least=0)
    rng = rng_from(seed, rng, "sweeps", device=machine.device)
    spins = machine.configuration(spins, means=means)
    per_chain = _per_chain(spins, beta, checked=not means)
    keep = None if clamp is None else _mask(machine, spins, clamp)
    energies = any(unit.has_energy for unit in machine.layers.kinds)
    if push is not None and energies and not (isinstance(per_chain, float) and per_chain == 1.0):
        raise InputError(
            f"a push of {machine.layers.words} takes β = 1, not {beta}; leave one of them out"
        )
    return _swept(machine, spins, rng, count, per_chain, keep, push)


@torch.no_grad()
def run_sweeps(
    machine: Machine,
    spins: Tensor,
    rng: torch.Generator,
    count: int = 1,
    beta: float | Tensor = 1.0,
    clamp: Tensor | None = None,
    push: Tensor | None = None,
) -> Tensor:
    """`sweeps` for code of the package: configuration (e, c, n), mask and β are known to be right."""
    check_count("the number of sweeps", count, least=0)
    check_rng(rng, machine.device)
    keep = None if clamp is None else clamp.to(spins.device).expand(spins.shape)
    return _swept(machine, spins, rng, count, _per_chain(spins, beta, checked=False), keep, push)


def _swept(
    machine: Machine,
    spins: Tensor,
    rng: torch.Generator,
    count: int,
    beta: Beta,
    keep: Tensor | None,
    push: Tensor | None,
) -> Tensor:
    """The sweeps themselves; `keep` (e, c, n) marks the units that stay."""
    swept = _by_kernels(machine, spins, rng, count, beta, keep, push)
    if swept is not None:
        return swept
    spins = spins.clone()
    ones: dict[int, Tensor] = {}  # of the layers drawn here whose columns are mostly 0
    own: dict[int, Tensor] = {}  # couplings of layers with themselves, the same in all sweeps
    for layer in machine.layers.order * count:
        report_progress()
        where, unit = machine.layers.slices[layer], machine.unit(layer)
        if keep is None and push is None and not machine.layers.self_coupled(layer):
            field = trusted.field(machine, spins, layer, ones=ones)
            if _few_ones(unit, field):
                ones[layer] = unit.draw_ones(field, rng, beta, spins[..., where])
            else:
                unit.draw(field, rng, beta, overwrite=True, out=spins[..., where])
            continue
        stay = None if keep is None else keep[..., where]
        more = None if push is None else push[..., where]
        spins[..., where] = resample(machine, spins, layer, rng, beta, stay, more, own)
    return spins


def _few_ones(unit: Unit, columns: Tensor) -> bool:
    """Whether sums of rows beat products with columns, most of which are 0; on a GPU they do not."""
    width = columns.shape[-1]
    return unit.one_hot and by_device(columns.device, width >= FEWER * unit.units(width), False)


def _by_kernels(
    machine: Machine,
    spins: Tensor,
    rng: torch.Generator,
    count: int,
    beta: Beta,
    keep: Tensor | None,
    push: Tensor | None,
) -> Tensor | None:
    """The sweeps of a machine with two sides, one of which is drawn after the other."""
    pair = machine.operands()
    if not fused.serves(pair):
        return None
    ordered = machine.layers.bipartite_order
    units = (None if x is None else ordered(x) for x in (keep, push))
    swept = fused.sweeps(pair, ordered(spins), rng, count, beta, *units)
    return None if swept is None else machine.layers.layer_order(swept)


@torch.no_grad()
def resample(
    machine: Machine,
    spins: Tensor,
    layer: int,
    rng: torch.Generator,
    beta: Beta = 1.0,
    stay: Tensor | None = None,
    push: Tensor | None = None,
    own: dict[int, Tensor] | None = None,
) -> Tensor:
    """New spins of one layer given all the others, (e, c, n_l). `own` keeps what the couplings of a layer
    with itself give, from call to call while they stay the same."""
    old = spins[..., machine.layers.slices[layer]]
    unit, patterned = machine.unit(layer), machine.couplings.patterned
    if not machine.layers.self_coupled(layer):
        new = _draw(unit, trusted.field(machine, spins, layer), rng, beta, push)
    elif patterned is not None and unit.square != "other":
        new = _by_gaussian_fields(machine, patterned, spins, layer, rng, beta, push)
    else:
        return _unit_by_unit(machine, spins, layer, rng, beta, stay, push, {} if own is None else own)
    return new if stay is None else torch.where(stay, old, new)


def _draw(unit: Unit, field: Tensor, rng: torch.Generator, beta: Beta, push: Tensor | None) -> Tensor:
    if push is not None:  # u is not scaled by β: paths of annealing push, from units that are themselves
        field, beta = field * beta + push, 1.0
    return unit.draw(field, rng, beta, overwrite=True)


def _by_gaussian_fields(
    machine: Machine,
    couplings: Patterned,
    spins: Tensor,
    layer: int,
    rng: torch.Generator,
    beta: Beta,
    push: Tensor | None,
) -> Tensor:
    m = couplings.overlap(spins, layer)  # (e, c, k)
    root = beta**0.5 * couplings.scale**0.5  # √β K^(−1/4)
    noise = torch.randn(m.shape, generator=rng, dtype=m.dtype, device=m.device)
    z = root * m + noise
    outside = trusted.field(machine, spins, layer, own=False)
    unit, xi = machine.unit(layer), couplings.of_layer(layer)
    if unit.square == "linear":
        outside = outside - 0.5 * couplings.scale * xi.square().sum(1, keepdim=True)  # eq. (3)
    own = (root * z) @ xi
    field = beta * outside + own + (0.0 if push is None else push)
    return unit.draw(field, rng, overwrite=True)  # eq. (2)


def _unit_by_unit(
    machine: Machine,
    spins: Tensor,
    layer: int,
    rng: torch.Generator,
    beta: Beta,
    stay: Tensor | None,
    push: Tensor | None,
    own: dict[int, Tensor],
) -> Tensor:
    new, unit = spins[..., machine.layers.slices[layer]].clone(), machine.unit(layer)
    outside = trusted.field(machine, spins, layer, own=False)
    blocks = own.get(layer)
    if blocks is None:
        blocks = own[layer] = _blocks(unit, machine.couplings.matrix(layer, layer))
    # The states are looked at, which a recording may not see, and a GPU would have to be waited for.
    by_rows = unit.one_hot and by_device(new.device, True, False)
    if by_rows:
        unseen(_by_rows, new, unit, blocks, outside, rng, beta, stay, push)
    else:
        _by_products(new, unit, blocks, outside, rng, beta, stay, push)
    return new


def _blocks(unit: Unit, matrix: Tensor) -> Tensor:
    """The couplings of a layer with itself, (e, n_l, n_l), as those of each unit with all columns,
    (units, e, n_l, most columns of a unit), 0 beyond its columns."""
    kinds = list(unit.one_by_one(matrix.shape[-1]))
    widest = max(x.stop - x.start for x, _ in kinds)
    if all(x.stop - x.start == widest for x, _ in kinds):
        return matrix.view(*matrix.shape[:2], -1, widest).movedim(2, 0).contiguous()
    blocks = matrix.new_zeros((len(kinds), *matrix.shape[:2], widest))
    for block, (x, _) in zip(blocks, kinds, strict=True):
        block[..., : x.stop - x.start] = matrix[..., x]
    return blocks


def _by_products(
    new: Tensor,
    unit: Unit,
    blocks: Tensor,
    outside: Tensor,
    rng: torch.Generator,
    beta: Beta,
    stay: Tensor | None,
    push: Tensor | None,
) -> None:
    """Draws each unit of `new` (e, c, n_l), its field a product with all columns."""
    for block, (x, one) in zip(blocks, unit.one_by_one(new.shape[-1]), strict=True):
        field = outside[..., x] + new @ block[..., : x.stop - x.start]  # (e, c, columns of the unit)
        drawn = _draw(one, field, rng, beta, None if push is None else push[..., x])
        new[..., x] = drawn if stay is None else torch.where(stay[..., x], new[..., x], drawn)


def _by_rows(
    new: Tensor,
    unit: Unit,
    blocks: Tensor,
    outside: Tensor,
    rng: torch.Generator,
    beta: Beta,
    stay: Tensor | None,
    push: Tensor | None,
) -> None:
    """The same by eq. (4), if all columns are those of states, and units stay as a whole."""
    units = unit.units(new.shape[-1])
    ones = one_hot_columns(new, units)
    whole = stay is None or torch.equal(stay, unit.on_columns(_first_columns(unit, stay), new.shape[-1]))
    if ones is None or not whole:
        _by_products(new, unit, blocks, outside, rng, beta, stay, push)
        return
    drawn = new.new_empty((*new.shape[:2], blocks.shape[-1]))
    for i, (x, one) in enumerate(unit.one_by_one(new.shape[-1])):
        width = x.stop - x.start
        field = sums_of_rows(ones, blocks[i])[..., :width] + outside[..., x]
        scale = beta
        if push is not None:  # as in `_draw`
            field, scale = field * beta + push[..., x], 1.0
        column = one.draw_ones(field, rng, scale, drawn[..., :width]) + x.start  # (e, c, 1)
        ones[..., i] = (
            column[..., 0]
            if stay is None
            else torch.where(stay[..., x.start], ones[..., i], column[..., 0])
        )
    new.zero_().scatter_(-1, ones, 1.0)


def _first_columns(unit: Unit, values: Tensor) -> Tensor:
    """Of values on columns (…, n_l) those on the first column of each unit, (…, units)."""
    return values[..., [x.start for x, _ in unit.one_by_one(values.shape[-1])]]


def _per_chain(spins: Tensor, beta: Any, *, checked: bool) -> Beta:
    if isinstance(beta, Iterable) and not isinstance(beta, str):
        beta = as_tensor(beta, what="the inverse temperature β")
    if not isinstance(beta, Tensor) or (checked and not beta.dim()):
        check_beta(beta)
        return float(beta)
    if not beta.dim():
        return beta.to(spins.device)
    if tuple(beta.shape) not in (tuple(spins.shape[1:2]), tuple(spins.shape[:2])):
        raise InputError(
            f"give one β, one per chain ({spins.shape[1]},) or one per replica and chain "
            f"{tuple(spins.shape[:2])}, not {tuple(beta.shape)}"
        )
    if checked:
        check_beta(float(beta.min()))
        check_beta(float(beta.max()))
    return beta.to(spins)[..., None]


def _mask(machine: Machine, spins: Tensor, clamp: Any) -> Tensor:
    layers, before = machine.layers, [tuple(spins.shape[i:2]) for i in (2, 1, 0)]
    widths = dict.fromkeys((layers.columns, layers.units))
    shapes = tuple((*shape, width) for width in widths for shape in before)
    mask = as_mask(clamp, shapes, what=f"the mask clamp of all {layers.units} units")
    mask = mask if mask.shape[-1] == layers.columns else layers.column_mask(mask)
    return mask.to(spins.device).expand(spins.shape)
