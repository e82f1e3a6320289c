"""Couplings of the visible units alone, what is left when hidden units are summed over.

    log p(v) = c + Σ_i f_i(v_i) + Σ_{i<j} J_ij(v_i, v_j) + Σ_{i<j<k} J_ijk(v_i, v_j, v_k) + …     (1)
    Σ_a f_i(a) = 0,        Σ_a J_ij(a, b) = Σ_b J_ij(a, b) = 0                                      (2)

In the zero-sum gauge (2) each term is a mean over uniform states of all other units, less the terms of
fewer units, so the first two need no knowledge of the rest. Of a machine without hidden units they are
its biases and couplings. A hidden unit α adds A(φ_α), φ_α = b_α + Σ_i w_iα(v_i). Of a Gaussian one A is
φ²/2a and (1) ends after the pairs. Of a spin

    log 2cosh φ = c − ½ ∫ dt e^{itφ} / (t sinh(πt/2))                                               (3)

where e^{itφ} is a product over the units, and so is its mean over uniform states:

    J_ij(a, b) = −∫_0^∞ dt / (t sinh(πt/2)) Re [ e^{itb} D_i(a) D_j(b) Π_{k≠i,j} g_k ]              (4)
    g_k = mean over a of e^{itw_k(a)},        D_i(a) = e^{itw_i(a)} − g_i

and J_ijk(a, b, c) the same with a third D_k(c). By the trapezoidal rule at (n + ½)h, (4) has an error
below e^{−2(2π/h − max|φ|)}: exact to rounding.
A binary unit is a spin of half the weight: log(1 + e^φ) = φ/2 + log 2cosh(φ/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..accel.memory import check_room
from ..display import Displayable, words
from ..errors import InputError, is_whole
from ..machines.gauge import zero_sum
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.binary import Binary
from ..machines.units.categorical import Categorical
from ..machines.units.gaussian import Gaussian
from ..machines.units.spin import Spin
from ..progress import report_progress

MARGIN, LARGEST_T = 20.0, 25.0  # of eq. (4): both leave an error of 1e-17
CHUNK = 2**22  # numbers of a block of eq. (4)


@dataclass(frozen=True, repr=False)
class EffectiveCouplings(Displayable):
    """Fields and pair couplings of visible units, on the columns x of configurations.

    log p(v) = constant + fields·x + ½ x·pairs·x + ⅙ Σ triples x x x + terms of more units.

    Attributes
    ----------
    fields : Tensor of shape (e, columns), float64
        Of one-hot columns they sum to zero over each unit.
    pairs : Tensor of shape (e, columns, columns), float64
        Symmetric, 0 between columns of one unit; the same sums are zero.
    layers : Layers
        The visible layers.
    complete : bool
        True where log p has no other terms.
    triples : Tensor of shape (e, columns, columns, columns), float64, optional
        Couplings of three units, where they were asked for; symmetric, 0 where two columns are of one
        unit.
    """

    fields: Tensor
    pairs: Tensor
    layers: Layers
    complete: bool
    triples: Tensor | None = None

    def _facts(self) -> list[tuple[str, str]]:
        more = "no terms of more units" if self.complete else "terms of more units are left out"
        more = more if self.triples is None else f"couplings of three units, {more}"
        return [
            ("units", self.layers.words),
            ("pairs", f"{self.layers.visible_units} × {self.layers.visible_units}, {more}"),
            ("largest", words(self.pairs.abs().amax((1, 2)))),
        ]

    def norms(self, *, without: int | None = None) -> Tensor:
        """The Frobenius norm of the couplings of each pair of units.

        Parameters
        ----------
        without : int, optional
            A state of categorical units that is left out of the sums, such as the gap.

        Returns
        -------
        Tensor of shape (e, units, units)
            √(Σ_ab J_ij(a, b)²), 0 on the diagonal.
        """
        squares = self.pairs.square()
        if without is not None:
            kept = self._others(without).to(squares.device)
            squares = squares * kept[:, None] * kept
        return self._per_unit(self._per_unit(squares).mT).sqrt()

    def contacts(self, *, without: int | None = None) -> Tensor:
        """Frobenius norms less their average product, the usual score of contacts in a family.

        Parameters
        ----------
        without : int, optional
            A state of categorical units that is left out of the sums, such as the gap.

        Returns
        -------
        Tensor of shape (e, units, units)
            F_ij − F_i· F_·j / F_··, with means over the other units; 0 on the diagonal.
        """
        norms = self.norms(without=without)
        units = norms.shape[-1]
        if units < 2:
            return norms
        each = norms.sum(-1) / (units - 1)  # (e, units), the diagonal is 0
        whole = each.mean(-1).clamp(min=torch.finfo(norms.dtype).tiny)
        scores = norms - each[:, :, None] * each[:, None] / whole[:, None, None]
        scores.diagonal(dim1=1, dim2=2).zero_()
        return scores

    def _others(self, without: int) -> Tensor:
        """1 on the columns that count, (columns,)."""
        kept = torch.ones(self.layers.visible_columns)
        for layer in self.layers.visible:
            unit, where = self.layers.kinds[layer], self.layers.slices[layer]
            each = unit.each(self.layers.sizes[layer]) if isinstance(unit, Categorical) else (0,)
            if not (is_whole(without) and 0 <= without < min(each)):
                raise InputError(
                    f"without={without!r} must be a state, from 0, of categorical units, and these are "
                    f"{unit}; leave it out"
                )
            ends = torch.tensor(each).cumsum(0)
            kept[where.start + ends - torch.tensor(each) + without] = 0.0
        return kept

    def _per_unit(self, values: Tensor) -> Tensor:
        parts = torch.split(values, list(self.layers.sizes), -1)
        kinds = self.layers.kinds
        return torch.cat([unit.per_unit(part) for unit, part in zip(kinds, parts, strict=True)], -1)


@torch.no_grad()
def effective_couplings(machine: Machine, *, order: int = 2) -> EffectiveCouplings:
    """Fields and couplings of the visible units, hidden ones summed over, in the zero-sum gauge.

    Exact to rounding. Couplings of more units, which hidden spins bring, are not part of it; `complete`
    says whether there are any.

    Parameters
    ----------
    machine : Machine
        Visible units are spins, binary or categorical; hidden ones spins, binary or Gaussian and not
        coupled to each other.
    order : {2, 3}, default 2
        Up to how many units; three take memory and time that grow with the third power of the columns.

    Returns
    -------
    EffectiveCouplings
        `fields` (e, columns) and `pairs` (e, columns, columns), with order 3 `triples`; `norms` and
        `contacts` of units.

    Raises
    ------
    InputError
        If units are of another kind, or hidden ones are coupled to each other.

    Examples
    --------
    >>> machine = rb.rbm(4, 6, units=rb.Categorical(3), biases=True, seed=0)
    >>> found = rb.effective_couplings(machine)
    >>> found.pairs.shape, found.contacts().shape, found.complete
    (torch.Size([1, 12, 12]), torch.Size([1, 4, 4]), False)
    """
    layers = machine.layers
    if order not in (2, 3):
        raise InputError(f"effective couplings are of order 2 or 3, pairs or three units, not {order!r}")
    _check(layers)
    if order == 3:
        columns = layers.visible_columns
        what = f"couplings of three of {columns:,} columns"
        check_room(what, machine.replicas * columns**3, size=8, device=machine.device)
    seen = Layers(layers.sizes[: layers.seen], (), layers.kinds[: layers.seen], layers.seen)
    fields, pairs = _direct(machine)
    triples = None if order == 2 else pairs.new_zeros((*pairs.shape, pairs.shape[-1]))
    for layer in layers.hidden:
        weights = torch.cat([_between(machine, i, layer) for i in layers.visible], 1)  # (e, v, h)
        biases = _biases(machine)[:, layers.slices[layer]]  # (e, h)
        if isinstance(machine.unit(layer), Gaussian):
            precision = machine.unit(layer).precision(weights)  # type: ignore[attr-defined]
            of_one, of_two = _quadratic(weights, biases, precision, seen)
        else:
            binary = isinstance(machine.unit(layer), Binary)
            of_one, of_two, of_three = _of_spins(weights, biases, seen, binary, order)
            triples = None if triples is None else triples + of_three
        fields, pairs = fields + of_one, pairs + of_two
    complete = all(isinstance(layers.kinds[i], Gaussian) for i in layers.hidden)
    return EffectiveCouplings(fields, pairs, seen, complete, triples)


def _check(layers: Layers) -> None:
    shown, hidden = (Spin, Binary, Categorical), (Spin, Binary, Gaussian)
    for layer, unit in enumerate(layers.kinds):
        kinds = hidden if layer in layers.hidden else shown
        if not isinstance(unit, kinds):
            where = "hidden" if layer in layers.hidden else "visible"
            raise InputError(
                f"effective couplings take {where} units that are "
                f"{', '.join(kind.__name__ for kind in kinds)}, and layer {layer} has {unit}"
            )
    if not layers.hidden_independent:
        raise InputError(
            "effective couplings need hidden units that are not coupled to each other, as an rbm has "
            f"them; this machine has layers {layers.sizes} and edges {layers.edges}"
        )


def _biases(machine: Machine) -> Tensor:
    if machine.biases is None:
        return torch.zeros(
            (machine.replicas, machine.layers.columns), dtype=torch.float64, device=machine.device
        )
    return machine.biases.detach().double()


def _between(machine: Machine, a: int, b: int) -> Tensor:
    """J between two layers in float64, zeros where they are not coupled."""
    if (min(a, b), max(a, b)) in machine.layers.edges:
        return machine.couplings.matrix(a, b).detach().double()
    sizes = machine.layers.sizes
    shape = (machine.replicas, sizes[a], sizes[b])
    return torch.zeros(shape, dtype=torch.float64, device=machine.device)


def _direct(machine: Machine) -> tuple[Tensor, Tensor]:
    """Biases and couplings of the visible units themselves, in the gauge (2)."""
    layers = machine.layers
    rows = [torch.cat([_between(machine, a, b) for b in layers.visible], 2) for a in layers.visible]
    return zero_sum(layers, _biases(machine)[:, : layers.visible_columns], torch.cat(rows, 1))


def _same_unit(layers: Layers, like: Tensor) -> Tensor:
    """Which two visible columns are of one unit, (v, v)."""
    numbers, first = [], 0
    for layer in layers.visible:
        numbers.append(layers.kinds[layer].unit_of_column(layers.sizes[layer]) + first)
        first += layers.counts[layer]
    unit = torch.cat(numbers).to(like.device)
    return unit[:, None] == unit


def _quadratic(
    weights: Tensor, biases: Tensor, precision: Tensor, layers: Layers
) -> tuple[Tensor, Tensor]:
    """What Gaussian hidden units add: φ²/2a over them."""
    precision = precision.double().expand(len(weights), 1, weights.shape[2])
    scaled = weights / precision  # (e, v, h)
    whole = scaled @ weights.mT  # (e, v, v)
    same = _same_unit(layers, whole)
    fields = (scaled @ biases[:, :, None])[..., 0]
    # On one unit x_a x_b is x_a where a = b and else 0; of a spin x² = 1, a constant.
    own = 0.5 * whole.diagonal(dim1=1, dim2=2)
    fields = fields + torch.where(_spin_columns(layers, whole), 0.0, own)
    return zero_sum(layers, fields, whole.masked_fill(same, 0.0))


def _spin_columns(layers: Layers, like: Tensor) -> Tensor:
    parts = [torch.full((layers.sizes[i],), isinstance(layers.kinds[i], Spin)) for i in layers.visible]
    return torch.cat(parts).to(like.device)


def _of_spins(
    weights: Tensor, biases: Tensor, layers: Layers, binary: bool, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What hidden spins or binary units add, eq. (4), replica by replica; with order 2 no triples."""
    linear = torch.zeros_like(weights[..., 0])
    if binary:
        weights, biases = 0.5 * weights, 0.5 * biases
        linear = weights.sum(-1)
    # A visible binary unit x = (σ + 1) / 2 is a spin σ of half the weight.
    ups = torch.cat(
        [torch.full((n,), isinstance(k, Binary)) for k, n in zip(layers.kinds, layers.sizes, strict=True)]
    ).to(weights.device)
    half = torch.where(ups, 0.5, 1.0).double()[:, None]
    biases = biases + (0.5 * weights * ups[:, None]).sum(1)
    found = [_integrals(w, b, layers, order) for w, b in zip(weights * half, biases, strict=True)]
    fields, pairs, triples = (torch.stack(each) for each in zip(*found, strict=True))
    # h·σ + ½ σKσ + ⅙ Tσσσ with σ = S x − d
    scale, shift = torch.where(ups, 2.0, 1.0).double(), ups.double()
    fields = fields - pairs @ shift
    if order == 3:
        fields = fields + 0.5 * (triples @ shift) @ shift
        pairs = pairs - triples @ shift
        triples = triples * scale[:, None, None] * scale[:, None] * scale
    linear, _ = zero_sum(layers, linear, torch.zeros_like(pairs))
    return scale * fields + linear, scale[:, None] * pairs * scale, triples


def _integrals(
    weights: Tensor, biases: Tensor, layers: Layers, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Eq. (4), the same for fields and with order 3 for three units, over all hidden spins: (v,), (v, v)
    and (v, v, v)."""
    largest = sum(_unit_max(layers, i, weights[layers.slices[i]].abs()).sum(0) for i in layers.visible)
    reach = float((largest + biases.abs()).max())
    step = 2.0 * math.pi / (reach + MARGIN)
    count = math.ceil(LARGEST_T / step)
    columns, hidden = weights.shape
    fields, pairs = weights.new_zeros(columns), weights.new_zeros((columns, columns))
    triples = weights.new_zeros((columns,) * order if order == 3 else (0,))
    some = max(1, CHUNK // (columns * hidden))
    for start in range(0, count, some):
        n = torch.arange(start, min(start + some, count), device=weights.device)
        t = (n.double() + 0.5) * step
        share = -step / (t * torch.sinh(0.5 * math.pi * t))  # (t,)
        means, changes = _factors(weights, t, layers)  # (units, h, t) logs, (v, h, t)
        product = torch.exp(means.sum(0) + 1j * biases[:, None] * t)  # (h, t)
        root = torch.sqrt(product * share)
        fields += (changes * (root * root)).real.sum((1, 2))
        parts = (changes * root).flatten(1)  # (v, h·t)
        pairs += parts.real @ parts.real.T - parts.imag @ parts.imag.T
        if order == 3:
            third = changes.flatten(1)
            for one, of_one in zip(triples, third, strict=True):  # the real part of a product of three
                turned = parts * of_one
                one += turned.real @ parts.real.T - turned.imag @ parts.imag.T
        report_progress()
    same = _same_unit(layers, pairs)
    if order == 3:
        triples.masked_fill_(same[:, :, None] | same[:, None] | same, 0.0)
    return fields, pairs.masked_fill(same, 0.0), triples


def _unit_max(layers: Layers, layer: int, sizes: Tensor) -> Tensor:
    """The largest |w| of each unit, (units, h)."""
    unit = layers.kinds[layer]
    if isinstance(unit, Categorical):
        return unit.padded(sizes.T, 0.0).amax(-1).T
    return sizes


def _factors(weights: Tensor, t: Tensor, layers: Layers) -> tuple[Tensor, Tensor]:
    """log g_i of eq. (4), (units, h, t), and D_i(a) / g_i on columns, (v, h, t).

    A product over all g, less those of a pair, loses nothing where one of them is small: it is divided by
    the number that it was multiplied with.
    """
    logs, changes = [], []
    for layer in layers.visible:
        unit, size = layers.kinds[layer], layers.sizes[layer]
        turned = weights[layers.slices[layer], :, None] * t  # (n, h, t)
        if isinstance(unit, Categorical):
            each = torch.exp(1j * turned)
            total = unit.per_unit(each.movedim(0, -1)).movedim(-1, 0)
            q = torch.tensor(unit.each(size), device=weights.device)[:, None, None]
            mean = _not_zero(total / q)
            spread = mean[unit.unit_of_column(size).to(weights.device)]
            changes.append(each / spread - 1.0)
        else:
            mean = _not_zero(torch.cos(turned).to(torch.complex128))
            changes.append(1j * torch.sin(turned) / mean)
        logs.append(torch.log(mean))
    return torch.cat(logs), torch.cat(changes)


def _not_zero(values: Tensor) -> Tensor:
    return torch.where(values.abs() < 1e-100, 1e-100, values)
