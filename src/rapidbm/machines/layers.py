"""Which layers a machine has and which of them are coupled.

The first layers are visible: one, or several where the visible units are of several kinds. A
configuration holds the columns of all layers side by side, (e, c, n); each layer is a slice of it. A
layer may be coupled to itself: then every pair of its units is coupled, once. The units of a layer are of
one kind (`units/`); `sizes` counts their columns, `counts` the units themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..errors import InputError, check_count, is_whole
from .spins import values_of
from .units.spin import SPIN
from .units.unit import Unit, refuse


@dataclass(frozen=True)
class Layers:
    """Sizes of the layers in columns and the pairs that are coupled; the order within a pair is free."""

    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    kinds: tuple[Unit, ...] = ()  # of the units of each layer; all spins if left out
    seen: int = 1  # how many of the layers, the first ones, are visible

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, Iterable):
            raise InputError(f"give the sizes of the layers, (10,) for one, not {self.sizes!r}")
        if not self.sizes:
            raise InputError("a machine has at least one layer, the visible one; sizes is empty")
        for size in self.sizes:
            check_count("the size of a layer", size)
        last = len(self.sizes) - 1
        for edge in self.edges:
            pair = tuple(edge) if isinstance(edge, Iterable) else ()
            if len(pair) != 2 or not all(is_whole(layer) and 0 <= layer <= last for layer in pair):
                raise InputError(
                    f"an edge is a pair of the layers 0 to {last}, or one of them twice, not {edge!r}"
                )
        edges = tuple(sorted((int(min(edge)), int(max(edge))) for edge in self.edges))
        if len(set(edges)) != len(edges):
            raise InputError(f"each pair of layers is coupled once, but edges are {edges}")
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "edges", edges)
        kinds = tuple(self.kinds) or (SPIN,) * len(self.sizes)
        if len(kinds) != len(self.sizes):
            raise InputError(f"give a kind of unit for each of {len(self.sizes)} layers, not {kinds}")
        object.__setattr__(self, "kinds", kinds)
        if not is_whole(self.seen) or not 1 <= self.seen <= len(self.sizes):
            raise InputError(
                f"of {len(self.sizes)} layers 1 to {len(self.sizes)} are visible, not {self.seen!r}"
            )
        for unit, size in zip(kinds, self.sizes, strict=True):
            unit.units(size)  # refuses columns that no whole number of units has
        for a, b in edges:
            if not kinds[a].listed and not kinds[b].listed:
                raise InputError(
                    f"units without a list of states, {kinds[a]} and {kinds[b]}, are not coupled to each "
                    f"other, as the edge {(a, b)} would: their energies may have no lowest value; couple "
                    "them through a layer of spins, binary or categorical units"
                )

    @cached_property
    def columns(self) -> int:
        """Columns of all layers together: n of a configuration."""
        return sum(self.sizes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many units each layer has."""
        return tuple(unit.units(size) for unit, size in zip(self.kinds, self.sizes, strict=True))

    @cached_property
    def units(self) -> int:
        """Units of all layers together."""
        return sum(self.counts)

    @cached_property
    def visible(self) -> tuple[int, ...]:
        """The visible layers."""
        return tuple(range(self.seen))

    @cached_property
    def visible_columns(self) -> int:
        """Columns of the visible layers, the first ones of a configuration."""
        return sum(self.sizes[: self.seen])

    @cached_property
    def visible_units(self) -> int:
        return sum(self.counts[: self.seen])

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        ends = [sum(self.sizes[: i + 1]) for i in range(len(self.sizes))]
        return tuple(slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True))

    def unit(self, layer: int) -> Unit:
        """What the units of a layer are."""
        return self.kinds[layer]

    @cached_property
    def spins(self) -> bool:
        """True when every unit is a spin."""
        return all(unit == SPIN for unit in self.kinds)

    @cached_property
    def visible_spins(self) -> bool:
        """True when every visible unit is a spin."""
        return all(self.kinds[layer] == SPIN for layer in self.visible)

    @cached_property
    def recorded(self) -> torch.dtype | None:
        """The type that records keep configurations in: int8 where all states are whole numbers, else
        None, that of the machine."""
        for unit, size in zip(self.kinds, self.sizes, strict=True):
            for one in {one for _, one in unit.one_by_one(size)}:
                count = one.count(one.columns(1))
                if count is None:
                    return None
                values = one.states(one.columns(1), torch.arange(count))
                if not bool((values == values.to(torch.int8)).all()):
                    return None
        return torch.int8

    @cached_property
    def listed(self) -> bool:
        """True when every unit has a list of states."""
        return all(unit.listed for unit in self.kinds)

    def check_spins(self, what: str, needed: str = "formulas of such units") -> None:
        """Refuses what is for spins alone by its nature; `needed` is what other units would take."""
        if not self.spins:
            raise InputError(
                f"{what} is for spins, ±1, but the layers of this machine have {self.words}; other units "
                f"would need {needed}"
            )

    @property
    def words(self) -> str:
        """The kinds of the units in words."""
        return ", ".join(dict.fromkeys(str(unit) for unit in self.kinds))

    def encode(self, visible: Any, *, what: str = "data") -> Tensor:
        """Visible rows (…, visible columns), checked: the one place where data come in.

        Values of units are (…, visible units): spins as ±1, {0, 1} or booleans, binary units as {0, 1},
        categorical ones as codes from 0, real ones as they are. Columns, as configurations have them, do
        as well. `what` names the data in errors.
        """
        if self.seen == 1 and self.kinds[0] == SPIN:
            return self.kinds[0].encode(visible, what=what)
        values = as_tensor(values_of(visible), what=what)
        values = values.to(torch.uint8) if values.dtype == torch.bool else values
        width = values.shape[-1] if values.dim() else 0
        if width not in (self.visible_units, self.visible_columns):
            both = sorted({self.visible_units, self.visible_columns})
            raise InputError(
                f"{what} have {' or '.join(map(str, both))} values in a row, one for each visible unit "
                f"or column, not {width}"
            )
        of_units = width == self.visible_units
        sizes = self.counts if of_units else self.sizes
        coded = []
        for layer, part in enumerate(torch.split(values, list(sizes[: self.seen]), -1)):
            unit, words = self.kinds[layer], what if self.seen == 1 else f"{what} of layer {layer}"
            _check_finite(part, words)
            coded.append((unit.encode if of_units else unit.encode_columns)(part, what=words))
        return coded[0] if len(coded) == 1 else torch.cat(coded, -1)  # of a type that holds all of them

    def decode(self, visible: Tensor) -> Tensor:
        """Values of the visible units, (…, visible units), of their columns; the inverse of `encode`."""
        parts = torch.split(visible, list(self.sizes[: self.seen]), -1)
        values = [unit.decode(part) for unit, part in zip(self.kinds, parts, strict=False)]
        return values[0] if len(values) == 1 else torch.cat(values, -1)

    def column_mask(self, units: Tensor) -> Tensor:
        """A mask of the visible units or of all units, (…, units), on their columns."""
        count = len(self.sizes) if units.shape[-1] == self.units else self.seen
        parts = torch.split(units, list(self.counts[:count]), -1)
        kinds = zip(self.kinds, self.sizes, parts, strict=False)
        return torch.cat([unit.on_columns(part, size) for unit, size, part in kinds], -1)

    def count(self, chosen: Iterable[int]) -> int | None:
        """How many states the units of these layers have together; None if some have no list."""
        counts = [self.kinds[i].count(self.sizes[i]) for i in chosen]
        return None if None in counts else math.prod(x for x in counts if x is not None)

    def states(self, chosen: tuple[int, ...], numbers: Tensor) -> Tensor:
        """The states of these numbers of the chosen layers side by side, (c, columns)."""
        parts = []
        for layer in reversed(chosen):  # the last one changes fastest
            count = self.count((layer,))
            assert count is not None
            parts.append(self.kinds[layer].states(self.sizes[layer], numbers % count))
            numbers = torch.div(numbers, count, rounding_mode="floor")
        none = torch.empty((len(numbers), 0), dtype=torch.int8, device=numbers.device)
        return torch.cat([none, *reversed(parts)], 1)

    def same_unit(self, layer: int) -> Tensor | None:
        """Which two columns of a layer are of one unit, (n_l, n_l); None where each unit has one."""
        if self.counts[layer] == self.sizes[layer]:
            return None
        unit = self.kinds[layer].unit_of_column(self.sizes[layer])
        return unit[:, None] == unit

    def self_coupled(self, layer: int) -> bool:
        return (layer, layer) in self.edges

    def neighbours(self, layer: int) -> tuple[int, ...]:
        """The other layers that this one is coupled to."""
        pairs = [edge for edge in self.edges if layer in edge and edge[0] != edge[1]]
        return tuple(a if b == layer else b for a, b in pairs)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Steps from the visible layers; 0 for a layer that they do not reach."""
        depths = dict.fromkeys(self.visible, 0)
        front = list(self.visible)
        while front:
            reached = [b for a in front for b in self.neighbours(a) if b not in depths]
            depths |= {b: depths[a] + 1 for a in front for b in self.neighbours(a) if b in reached}
            front = list(dict.fromkeys(reached))
        return tuple(depths.get(layer, 0) for layer in range(len(self.sizes)))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order of a sweep: odd depths, then even ones, the visible layers last."""
        return tuple(
            sorted(range(len(self.sizes)), key=lambda i: (1 - self.depths[i] % 2, -self.depths[i], -i))
        )

    def independent(self, chosen: tuple[int, ...]) -> bool:
        """True when no coupling joins two units of the chosen layers."""
        return not any(a in chosen and b in chosen for a, b in self.edges)

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        return tuple(range(self.seen, len(self.sizes)))

    @cached_property
    def hidden_independent(self) -> bool:
        """True when the hidden units are independent of each other given the visible ones."""
        return self.independent(self.hidden)

    @cached_property
    def is_restricted(self) -> bool:
        """True for one hidden layer, coupled to each visible one, and no other couplings: an RBM."""
        return len(self.hidden) == 1 and self.edges == tuple((i, self.seen) for i in self.visible)

    @cached_property
    def two_layers(self) -> bool:
        """True for a restricted machine of one visible layer."""
        return self.seen == 1 and self.is_restricted

    @cached_property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The layers of even depth, the visible one first, and those of odd depth; None where a coupling
        joins two units of one side, or there is but one."""
        even, odd = (
            tuple(i for i, depth in enumerate(self.depths) if depth % 2 == side) for side in (0, 1)
        )
        return (even, odd) if odd and self.independent(even) and self.independent(odd) else None

    def _side_by_side(self) -> tuple[int, ...]:
        assert self.sides is not None
        return self.sides[0] + self.sides[1]

    def bipartite_order(self, values: Tensor) -> Tensor:
        """What is one number per unit, (…, n), with the units of the odd side after all others."""
        order = self._side_by_side()
        ordered = order == tuple(range(len(order)))
        return values if ordered else torch.cat([values[..., self.slices[i]] for i in order], -1)

    def layer_order(self, values: Tensor) -> Tensor:
        """The same back in the order of the layers."""
        order = self._side_by_side()
        if order == tuple(range(len(order))):
            return values
        parts = torch.split(values, [self.sizes[i] for i in order], -1)
        return torch.cat([parts[order.index(i)] for i in range(len(order))], -1)

    @cached_property
    def full(self) -> bool:
        """True when every pair of units is coupled, but for several visible layers among each other."""
        return len(self.edges) == len(self.sizes) * (len(self.sizes) + 1) // 2

    @cached_property
    def inferred(self) -> tuple[int, ...]:
        """Hidden layers that a moment may hold as conditional means given all the others."""
        odd = tuple(i for i in self.hidden if self.depths[i] % 2 and not self.self_coupled(i))
        return odd if self.independent(odd) else ()

    def cover(self, given: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The fewest units to enumerate so that the rest, with `given` fixed, is independent.

        Of several such choices it is the first in the order of tuples.
        """
        return _cover(self, given)

    def describe(self) -> str:
        seen = "+".join(str(size) for size in self.counts[: self.seen])
        return "×".join([seen, *(str(size) for size in self.counts[self.seen :])])


def _check_finite(values: Tensor, what: str) -> None:
    """Refuses NaN and infinity, by the row and the place of the first one."""
    wrong = ~torch.isfinite(values)
    if bool(wrong.any()):
        raise refuse(what, "are finite numbers", values, wrong, "drop or fill them first")


@lru_cache(1024)
def _cover(layers: Layers, given: tuple[int, ...]) -> tuple[int, ...]:
    """The lightest vertex cover, by branching on the layer with the most neighbours: it is in the cover,
    or all of its neighbours are. What falls apart is covered part by part, and no part twice, so that a
    chain of layers takes a time that grows with a power of its length.

    A weight b_i 2^L − 2^(L−1−i), with b_i the bits of a layer's states, makes the choice unique: fewer
    states first, and of two covers of as many the one that holds the first layer in which they differ. A
    layer without a list weighs more than all others.
    """
    count = len(layers.sizes)
    states = [unit.count(size) for unit, size in zip(layers.kinds, layers.sizes, strict=True)]
    bits = [math.inf if x is None else round(_log2(x), 9) for x in states]
    most = 1.0 + sum(x for x in bits if x < math.inf)
    weight = [min(x, most) * 2**count - 2 ** (count - 1 - i) for i, x in enumerate(bits)]
    near = [frozenset(layers.neighbours(i)) for i in range(count)]
    forced = frozenset(i for i in range(count) if i not in given and layers.self_coupled(i))

    @cache
    def lightest(left: frozenset[int]) -> frozenset[int]:
        left = frozenset(i for i in left if near[i] & left)
        if not left:
            return left
        part = _reached(min(left), left, near)
        if part != left:
            return lightest(part) | lightest(left - part)
        # Of equals the one in the middle, where a chain falls into halves.
        ranks = {layer: abs(2 * rank - len(left)) for rank, layer in enumerate(sorted(left))}
        hub = min(left, key=lambda i: (-len(near[i] & left), ranks[i]))
        around = near[hub] & left
        with_hub = lightest(left - {hub}) | {hub}
        without = lightest(left - {hub} - around) | around
        return min(with_hub, without, key=lambda chosen: sum(weight[i] for i in chosen))

    rest = frozenset(range(count)) - forced - frozenset(given)
    return tuple(sorted(forced | lightest(rest)))


def _log2(count: int) -> float:
    """Of whole numbers of any size; exact for powers of two."""
    return count.bit_length() - 1 if count & (count - 1) == 0 else math.log2(count)


def _reached(first: int, left: frozenset[int], near: list[frozenset[int]]) -> frozenset[int]:
    """The layers that paths within `left` lead to from the first."""
    found, front = {first}, [first]
    while front:
        new = (near[front.pop()] & left) - found
        found |= new
        front += new
    return frozenset(found)
