"""Which layers a machine has and which of them are coupled.

Layer 0 is the visible one. A configuration holds all layers side by side, (e, c, n); each layer is a
slice of it. A layer may be coupled to itself: then every pair of its units is coupled, once. The units of
a layer are of one kind (`units.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, check_count, is_whole
from .spins import as_spins
from .units import SPIN, Unit


@dataclass(frozen=True)
class Layers:
    """Sizes of the layers and the pairs that are coupled; the order within a pair is free."""

    sizes: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    kinds: tuple[Unit, ...] = ()  # of the units of each layer; all spins if left out

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

    @cached_property
    def units(self) -> int:
        return sum(self.sizes)

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

    def check_spins(self, what: str) -> None:
        """Refuses what is known for spins alone: what reads or answers ±1, or has formulas of theirs."""
        if not self.spins:
            raise InputError(
                f"{what} is for spins, ±1, but the units of this machine are {self.kinds}; take spins. "
                "Other units have random states, sweeps and energies with means=True, the exact log Z, "
                "and the gradient over weighted configurations"
            )

    def encode(self, visible: Any, *, what: str = "data", asked_by: str) -> Tensor:
        """Visible rows in the states of the visible units, checked: the one place where data come in.

        `what` names them in errors; `asked_by` is what `check_spins` refuses for other units.
        """
        self.check_spins(asked_by)
        return as_spins(visible, what=what)

    def count(self, chosen: Iterable[int]) -> int:
        """How many states the units of these layers have together."""
        return int(math.prod(self.kinds[i].levels ** self.sizes[i] for i in chosen))

    def states(self, chosen: tuple[int, ...], numbers: Tensor) -> Tensor:
        """The states of these numbers of the chosen layers side by side, (c, units) in int8."""
        parts = []
        for layer in reversed(chosen):  # the last one changes fastest
            count = self.count((layer,))
            parts.append(self.kinds[layer].states(self.sizes[layer], numbers % count))
            numbers = torch.div(numbers, count, rounding_mode="floor")
        none = torch.empty((len(numbers), 0), dtype=torch.int8, device=numbers.device)
        return torch.cat([none, *reversed(parts)], 1)

    def by_layer(self, what: Callable[[Unit, Tensor], Tensor], values: Tensor) -> Tensor:
        """Something that each unit does, for whole configurations (…, n)."""
        if len(set(self.kinds)) == 1:
            return what(self.kinds[0], values)
        parts = zip(self.kinds, self.slices, strict=True)
        return torch.cat([what(unit, values[..., where]) for unit, where in parts], -1)

    def self_coupled(self, layer: int) -> bool:
        return (layer, layer) in self.edges

    def neighbours(self, layer: int) -> tuple[int, ...]:
        """The other layers that this one is coupled to."""
        pairs = [edge for edge in self.edges if layer in edge and edge[0] != edge[1]]
        return tuple(a if b == layer else b for a, b in pairs)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Steps from the visible layer; 0 for a layer that it does not reach."""
        depths = {0: 0}
        front = [0]
        while front:
            reached = [b for a in front for b in self.neighbours(a) if b not in depths]
            depths |= {b: depths[a] + 1 for a in front for b in self.neighbours(a) if b in reached}
            front = list(dict.fromkeys(reached))
        return tuple(depths.get(layer, 0) for layer in range(len(self.sizes)))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order of a sweep: odd depths, then even ones, the visible layer last."""
        return tuple(
            sorted(range(len(self.sizes)), key=lambda i: (1 - self.depths[i] % 2, -self.depths[i], -i))
        )

    def independent(self, chosen: tuple[int, ...]) -> bool:
        """True when no coupling joins two units of the chosen layers."""
        return not any(a in chosen and b in chosen for a, b in self.edges)

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.sizes)))

    @cached_property
    def hidden_independent(self) -> bool:
        """True when the hidden units are independent of each other given the visible ones."""
        return self.independent(self.hidden)

    @cached_property
    def is_restricted(self) -> bool:
        """True for two layers in all, coupled to each other and not to themselves: an RBM."""
        return len(self.sizes) == 2 and self.edges == ((0, 1),)

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
        """True when every pair of units is coupled."""
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
        return "×".join(str(size) for size in self.sizes)


@lru_cache(1024)
def _cover(layers: Layers, given: tuple[int, ...]) -> tuple[int, ...]:
    """The lightest vertex cover, by branching on the layer with the most neighbours: it is in the cover,
    or all of its neighbours are. What falls apart is covered part by part, and no part twice, so that a
    chain of layers takes a time that grows with a power of its length.

    A weight n_i 2^L − 2^(L−1−i) makes the choice unique: fewer units first, and of two covers of as many
    the one that holds the first layer in which they differ.
    """
    count = len(layers.sizes)
    weight = [size * 2**count - 2 ** (count - 1 - i) for i, size in enumerate(layers.sizes)]
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


def _reached(first: int, left: frozenset[int], near: list[frozenset[int]]) -> frozenset[int]:
    """The layers that paths within `left` lead to from the first."""
    found, front = {first}, [first]
    while front:
        new = (near[front.pop()] & left) - found
        found |= new
        front += new
    return frozenset(found)
