"""The exact ground state of patterns at any size: a vertex of a zonotope.

Choose layers A so that the others, B, are not coupled to each other. The units of B follow their
fields, and what is left depends on A through sums of overlaps and through its biases,

    −min_B E = Σ_{i∈B} | (1/√K) m_S(i) · ξ_i + b_i |  +  (1/2√K) Σ_C |m_C|²  +  b_A·s_A         (1)
    m_S = Σ_{i∈A, layer in S} ξ_i s_i

up to a constant, with S(i) the neighbours of the layer of i, and C the parts of A in which every pair
of units is coupled. With a generator g_i for each unit of A, p = Σ_i g_i s_i holds all m_S and b_A·s_A;
eq. (1) is convex in p, so it has its maximum at a vertex of the zonotope {Σ_i g_i s_i, |s_i| ≤ 1}:

    s_i = sign(u · g_i) for some direction u                                                 (2)

In d dimensions t generators have of the order of t^(d−1) vertices instead of 2^t. Each vertex lies on a
face whose direction u is orthogonal to d − 1 of the generators. So, for every set T of d − 1 of them: the
face's centre c has s_i = sign(u · g_i) outside T and 0 in T, and its corners are c + Σ_{j∈T} ± g_j. As

    f(corner) ≤ f(c) + Σ_{j∈T} L_j,        L_j ≥ |∂f/∂s_j| everywhere in the zonotope         (3)

only the faces that could beat the best vertex so far show their corners. Every candidate is a
configuration of the machine, so a superset of the vertices is as good as the vertices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np
import torch
from torch import Tensor

from ..accel.devices import by_device, prepare
from ..errors import InputError
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import Watch, watch
from ..random import stream

LARGEST = 2**31  # candidates that are taken on unless the caller says otherwise
CHUNK_BYTES = 2**22  # what stays in the caches of a CPU
LARGE_CHUNK_BYTES = 2**27
TIE = 1e-12  # cosines below it are zero: the generators are not in general position
SHAKE = 1e-5  # see `_best_signs`: well above the rounding of a direction, 1e-16 / SHAKE
SETS = 2**18  # of d − 1 generators, made at a time
CLIMBS = 64  # starts


@dataclass(frozen=True)
class Zonotope:
    """Eq. (1) for one replica and one choice of A, units of the same direction taken together."""

    chosen: tuple[int, ...]  # A
    generators: Tensor  # (t, D)
    directions: Tensor  # (t, d): unit vectors, an invertible linear map of the generators' span
    kind: Tensor  # (n_A,): which generator a unit belongs to; t for a unit without any
    turned: Tensor  # (n_A,): ±1, the unit's sign in it
    rows: Tensor  # (τ, D): the fields of B are rows · p + offsets, units of one direction added up
    offsets: Tensor  # (τ,)
    squares: tuple[slice, ...]  # the coordinates m_C
    scale: float
    has_bias: bool  # the last coordinate of p is b_A · s_A
    has_offsets: bool

    @property
    def symmetric(self) -> bool:
        return not self.has_bias and not self.has_offsets

    @property
    def faces(self) -> int:
        t, d = self.directions.shape
        return math.comb(t, d - 1) if d else 1

    @property
    def by_signs(self) -> bool:
        """True when all signs of the generators are fewer than the corners of the faces."""
        t, d = self.directions.shape
        return d < 2 or 2 ** (t - 1) <= self.faces * 2 ** (d - 1)

    @property
    def candidates(self) -> int:
        """How many configurations of A are looked at, at most."""
        t, d = self.directions.shape
        count = 2 ** max(t - 1, 0) if self.by_signs else self.faces * 2 ** (d - 1)
        return int(count if self.symmetric else 2 * count)

    def describe(self) -> str:
        t, d = self.directions.shape
        if self.by_signs:
            return f"{self.candidates:,} signs of {t} kinds of units"
        return f"{self.candidates:,} corners of a zonotope in {d} dimensions"

    def value(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """The larger of eq. (1) at p and at −p, and whether −p has it; p is (c, D)."""
        field = torch.addmm(self.offsets, p, self.rows.T)  # (c, τ)
        up = down = torch.linalg.vector_norm(field, 1, 1)
        if self.has_offsets:
            down = torch.linalg.vector_norm(field.sub_(2.0 * self.offsets), 1, 1)
        if self.has_bias:
            up, down = up + p[:, -1], down - p[:, -1]
        values = torch.maximum(up, down)
        for where in self.squares:
            values = values + 0.5 * self.scale * p[:, where].square().sum(1)
        return values, down > up

    def slopes(self) -> Tensor:
        """L_j of eq. (3), (t,)."""
        slopes: Tensor = torch.linalg.vector_norm(self.generators @ self.rows.T, 1, 1)
        for where in self.squares:
            sizes = torch.linalg.vector_norm(self.generators[:, where], 2, 1)
            slopes = slopes + self.scale * sizes * sizes.sum()
        return slopes + self.generators[:, -1].abs() if self.has_bias else slopes

    def climb(self, signs: Tensor) -> Tensor:
        """Signs (c, t) moved uphill, s ← sign(g · ∇f): f is convex, so no step goes down."""
        for _ in range(100):
            p = signs @ self.generators
            slope = SPIN.nearest(p @ self.rows.T + self.offsets) @ self.rows
            for where in self.squares:
                slope[:, where] += self.scale * p[:, where]
            if self.has_bias:
                slope[:, -1] += 1.0
            new = SPIN.nearest(slope @ self.generators.T)
            if torch.equal(new, signs):
                break
            signs = new
        return signs

    def spins(self, signs: Tensor) -> Tensor:
        """The spins of A (n_A,) at the signs (t,) of the generators."""
        return torch.cat([signs, signs.new_ones(1)])[self.kind] * self.turned


# -- from the machine to its zonotopes ----------------------------------------------------------------


def zonotopes(machine: Machine) -> list[Zonotope] | None:
    """For each replica the zonotope with the fewest candidates; None where eq. (1) does not hold."""
    if machine.patterns is None:
        return None
    choices = [
        (chosen, cliques)
        for size in range(len(machine.layers.sizes) + 1)
        for chosen in combinations(range(len(machine.layers.sizes)), size)
        if (cliques := _cliques(machine.layers, chosen)) is not None
    ]
    if not choices:
        return None
    return [
        min(
            (_zonotope(machine, replica, chosen, cliques) for chosen, cliques in choices),
            key=lambda z: z.candidates,
        )
        for replica in range(machine.replicas)
    ]


def _cliques(layers: Layers, chosen: tuple[int, ...]) -> list[tuple[int, ...]] | None:
    """The parts of `chosen` in which every pair of units is coupled; None if A and B do not serve.

    A quadratic form Σ_edges m_a · m_b is convex only as a sum of squares |Σ_{a∈C} m_a|², one for each
    connected part: two coupled layers that are not coupled to themselves give an indefinite one.
    """
    rest = tuple(i for i in range(len(layers.sizes)) if i not in chosen)
    if not layers.independent(rest):
        return None
    cliques = set()
    for layer in chosen:
        part = {layer, *layers.neighbours(layer)} & set(chosen)
        coupled = [edge for edge in layers.edges if set(edge) <= part]
        if len(part) == 1 and not coupled:
            continue
        if len(coupled) != len(part) * (len(part) + 1) // 2:
            return None
        cliques.add(tuple(sorted(part)))
    return sorted(cliques)


@torch.no_grad()
def _zonotope(
    machine: Machine, replica: int, chosen: tuple[int, ...], cliques: list[tuple[int, ...]]
) -> Zonotope:
    couplings, layers = machine.couplings.patterned, machine.layers
    assert couplings is not None  # `zonotopes`
    xi = couplings.patterns[replica].detach().double().T  # (n, k)
    k = xi.shape[1]
    biases = xi.new_zeros(layers.columns)
    if machine.biases is not None:
        biases = machine.biases[replica].detach().double()
    rest = [i for i in range(len(layers.sizes)) if i not in chosen]
    seen = {layer: tuple(sorted(layers.neighbours(layer))) for layer in rest}
    views = sorted({*cliques, *(view for view in seen.values() if view)})
    where = {view: slice(k * i, k * (i + 1)) for i, view in enumerate(views)}

    width = k * len(views)

    def part(layer: int, of: Iterable[tuple[int, ...]], scale: float, columns: int) -> Tensor:
        """What units of a layer add to the overlaps m_S, and last their biases."""
        mine = layers.slices[layer]
        found = xi.new_zeros((layers.sizes[layer], columns))
        for view in of:
            found[:, where[view]] = scale * xi[mine]
        found[:, -1] = biases[mine]
        return found

    none = xi.new_zeros((0, width + 2))
    parts = [part(layer, [view for view in views if layer in view], 1.0, width + 1) for layer in chosen]
    units = torch.cat([none[:, 1:], *parts])
    has_bias = bool(units[:, -1].any())
    generators, kind, turned = _merge(units if has_bias else units[:, :width])
    parts = [part(i, filter(None, [seen[i]]), couplings.scale, width + 2) for i in rest]
    rows, _, _ = _merge(
        torch.cat([none, *parts])
    )  # |c x| = c |x|: units of one direction add up here too
    return Zonotope(
        chosen,
        generators,
        _directions(generators),
        kind,
        turned,
        rows[:, : generators.shape[1]],
        rows[:, -1],
        tuple(where[clique] for clique in cliques),
        couplings.scale,
        has_bias,
        bool(rows[:, -1].any()),
    )


def _merge(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Parallel rows added up, each with the sign that aligns it: sums, labels and signs. Rows of
    zeros get the label after the last."""
    nonzero = (rows != 0).any(1)
    if not bool(nonzero.any()):
        empty = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        return rows[:0], empty, torch.ones_like(empty, dtype=rows.dtype)
    first = (rows != 0).to(torch.int8).argmax(1, keepdim=True)
    pivot = rows.gather(1, first)
    # A quotient is correctly rounded, so rows that are parallel have the same bits here.
    slopes = rows[nonzero] / pivot[nonzero] + 0.0  # −0 + 0 = 0
    unique, labels = torch.unique(slopes, dim=0, return_inverse=True)
    turned = torch.where(pivot[:, 0] < 0, -1.0, 1.0).to(rows.dtype)
    kind = torch.full((len(rows),), len(unique), device=rows.device)
    kind[nonzero] = labels
    sums = rows.new_zeros((len(unique) + 1, rows.shape[1]))
    sums.index_add_(0, kind, rows * turned[:, None])
    return sums[:-1], kind, turned


def _directions(generators: Tensor) -> Tensor:
    """The generators as unit vectors in as many dimensions as they span.

    An invertible linear map takes u · g to u' · g' and leaves all signs as they are, so the one that
    conditions best is taken: the left singular vectors.
    """
    if not len(generators):
        return generators[:, :0]
    sizes = torch.linalg.vector_norm(generators, 2, 0)
    scaled = generators / torch.where(sizes > 0, sizes, 1.0)
    left, values, _ = torch.linalg.svd(_units(scaled), full_matrices=False)
    least = float(values[0]) * max(generators.shape) * 1e-15
    return _units(left[:, : int((values > least).sum())])


def _units(rows: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.vector_norm(rows, 2, 1, keepdim=True)
    return rows / sizes


# -- the search ---------------------------------------------------------------------------------------


@torch.no_grad()
def lowest_spins(machine: Machine, plan: list[Zonotope] | None) -> tuple[Tensor, str]:
    """A ground state of each replica, (e, n) float64, and what it took, by its `zonotopes`."""
    if plan is None:
        kind = "dense couplings" if machine.patterns is None else f"edges {machine.layers.edges}"
        raise InputError(
            "the zonotope needs patterns whose layers fall into two sides, or that couple every pair "
            f"of units; this machine has {kind}: use method='auto'"
        )
    dearest = max(plan, key=lambda z: z.candidates)
    if dearest.candidates > LARGEST:
        raise InputError(
            f"the zonotope is searched up to {LARGEST:,} candidates, but this "
            f"{machine.layers.describe()} machine has {too_many(dearest)}; use fewer patterns, sign "
            "patterns, or method='auto', which settles for a heuristic"
        )
    spins = torch.zeros(
        (machine.replicas, machine.layers.columns), dtype=torch.float64, device=machine.device
    )
    prepare(machine.device)
    for replica, zonotope in enumerate(plan):
        spins_of_a = zonotope.spins(_best_signs(zonotope))
        sizes = [machine.layers.sizes[layer] for layer in zonotope.chosen]
        for layer, part in zip(zonotope.chosen, torch.split(spins_of_a, sizes), strict=True):
            spins[replica, machine.layers.slices[layer]] = part
    return spins, dearest.describe()


def too_many(zonotope: Zonotope) -> str:
    """The size of a search that was refused."""
    power = math.log10(zonotope.candidates)
    t, d = zonotope.directions.shape
    return f"10^{power:.0f} of them, from {t} kinds of units in {d} dimensions"


def _best_signs(zonotope: Zonotope) -> Tensor:
    if zonotope.by_signs:
        return _search_signs(zonotope)
    with watch("faces of a zonotope", zonotope.faces) as tick:
        signs = _search_faces(zonotope, zonotope.directions, tick)
    if signs is not None:
        return signs
    # Not in general position: more than d − 1 generators are orthogonal to some u, as for sign
    # patterns of K ≥ 4. Shake the directions, for choosing signs only. A vertex belongs to an open cone
    # of u in which no u · g_i vanishes; at a u inside it no sign changes while the shake is small
    # enough, so the shaken arrangement has all those cones, and some more. A cone too narrow for that
    # belongs to a vertex that lies within SHAKE, relatively, of one that is found.
    rng = stream(0, "zonotope")
    noise = torch.randn(zonotope.directions.shape, generator=rng, dtype=torch.float64)
    shaken = _units(zonotope.directions + SHAKE * noise.to(zonotope.directions))
    with watch("faces of a shaken zonotope", zonotope.faces) as tick:
        signs = _search_faces(zonotope, shaken, tick, check=False)
    assert signs is not None
    return signs


def _rows_at_a_time(zonotope: Zonotope) -> int:
    widest = max(len(zonotope.generators), len(zonotope.rows), 1)
    room = by_device(zonotope.generators.device, CHUNK_BYTES, LARGE_CHUNK_BYTES)
    return max(64, room // (8 * widest))


def _search_signs(zonotope: Zonotope) -> Tensor:
    t = len(zonotope.generators)
    count, step = 2 ** max(t - 1, 0), _rows_at_a_time(zonotope)
    best, winner = -math.inf, None
    with watch("signs of a zonotope", count) as tick:
        for start in range(0, count, step):
            signs = SPIN.states(
                t, torch.arange(start, min(start + step, count), device=zonotope.generators.device)
            )
            best, winner = _better(zonotope, signs.double(), best, winner)
            tick(start + len(signs))
    assert winner is not None
    return winner


def _better(
    zonotope: Zonotope, signs: Tensor, best: float, winner: Tensor | None
) -> tuple[float, Tensor | None]:
    """The best of the signs (c, t) and their negatives, if it beats the winner so far."""
    values, turned = zonotope.value(signs @ zonotope.generators)
    top = int(values.argmax())
    if float(values[top]) <= best:
        return best, winner
    return float(values[top]), -signs[top] if bool(turned[top]) else signs[top]


def _search_faces(
    zonotope: Zonotope, directions: Tensor, tick: Watch, *, check: bool = True
) -> Tensor | None:
    """The signs (t,) of the best vertex; None at the first face with more than d − 1 generators."""
    d = directions.shape[1]
    generators, slopes = zonotope.generators, zonotope.slopes()
    corners = corner_signs(d - 1).to(generators)  # (2^(d−1), d − 1)
    step = _rows_at_a_time(zonotope)
    # A good vertex to start from lets eq. (3) close most faces at once.
    start = torch.randn((CLIMBS, d), generator=stream(0, "climb"), dtype=torch.float64)
    climbed = zonotope.climb(SPIN.nearest(start.to(directions) @ directions.T))
    best, winner = _better(zonotope, climbed, -math.inf, None)
    margin = 1e-12 * float(slopes.sum())  # rounding must not close a face
    for all_sets, all_u in _rays(directions):
        for sets, u in zip(torch.split(all_sets, step), torch.split(all_u, step), strict=True):
            tick.add(len(sets))
            sides = u @ directions.T  # (c, t)
            if check:
                nearest = torch.linalg.vector_norm(sides.scatter_(1, sets, torch.inf), -torch.inf, 1)
                if not float(nearest.min()) > TIE:  # NaN: the set itself is dependent
                    return None
            sides.sign_().scatter_(1, sets, 0.0)
            value, _ = zonotope.value(sides @ generators)
            hopeful = (value + slopes[sets].sum(1) + margin > best).nonzero()[:, 0]
            for few in torch.split(hopeful, max(1, step // len(corners))) if len(hopeful) else ():
                signs = sides[few, None].expand(-1, len(corners), -1)
                where = sets[few, None].expand(-1, len(corners), -1)
                signs = signs.scatter(2, where, corners.expand(len(few), -1, -1))
                best, winner = _better(zonotope, signs.flatten(0, 1), best, winner)
    return winner


def corner_signs(count: int) -> Tensor:
    """All signs of the generators of a face: its corners."""
    return SPIN.states(count, torch.arange(2**count))


def _rays(directions: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """All sets of d − 1 directions (c, d−1) and the unit vector u (c, d) orthogonal to each, in chunks.

    The first d − 2 of a set leave a plane, by QR; within it u is the last one turned by 90°. Both are
    backward stable: a set that is nearly dependent costs u no more accuracy than it must.
    """
    t, d = directions.shape
    device, host = directions.device, directions.cpu()
    prefixes = combinations(range(t), d - 2)
    several = max(1, SETS // t)
    while chunk := list(islice(prefixes, several)):
        flat = np.fromiter(chain.from_iterable(chunk), dtype=np.int64)
        sets = torch.from_numpy(flat).reshape(len(chunk), d - 2)
        if d == 2:
            plane = torch.eye(2, dtype=torch.float64)[None]
        else:
            plane = torch.linalg.qr(host[sets].mT, mode="complete")[0][..., d - 2 :]  # (x, d, 2)
        last = sets[:, -1] if d > 2 else torch.full((1,), -1)
        first, second = (torch.arange(t) > last[:, None]).nonzero().T.to(device)
        if not len(first):
            continue
        plane, sets = plane.to(device)[first], sets.to(device)
        a, b = plane.unbind(-1)  # (c, d)
        end = directions[second]
        u = (end * b).sum(1, keepdim=True) * a - (end * a).sum(1, keepdim=True) * b
        yield torch.cat([sets[first], second[:, None]], 1), _units(u)
