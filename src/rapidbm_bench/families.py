"""Families of machines whose log Z is known exactly, for the coverage of sampled intervals.

A family is a function of a number that answers with a machine and, where the family is about them, with
data. Members differ in size, strength and seed; none was left out for being hard.
"""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.errors import FitWarning, LoadWarning
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.training.negative import NegativePhase, PatternInduced, Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.train import train

from .watched import clusters

Member = tuple[Machine, Tensor | None]
Family = Callable[[int], Member]
TOGETHER = 25  # machines of a family that are trained side by side


@contextmanager
def _quietly() -> Iterator[None]:
    """Many patterns and bad fits are meant here."""
    with warnings.catch_warnings():
        for kind in (FitWarning, LoadWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _uniform(number: int, low: float, high: float, *words: object) -> float:
    return low + (high - low) * float(torch.rand((), generator=stream(number, *words)))


def _biased(machine: Machine, number: int, spread: float) -> Machine:
    assert machine.biases is not None
    noise = torch.randn(machine.biases.shape, generator=stream(number, "biases"))
    machine.biases.data.copy_(spread * noise)
    return machine


def _graph(number: int, strength: float, biases: float | None) -> Machine:
    """RBM, DBM and BM, dense and with patterns, in turn."""
    patterns = (None, 3)[number // 3 % 2]
    options: dict[str, Any] = {
        "patterns": patterns,
        "scale": strength * (0.2 if patterns is None else 0.5),
        "biases": biases is not None,
        "seed": number,
    }
    graph = number % 3
    if graph == 0:
        machine = rbm(16, 10, **options)
    elif graph == 1:
        machine = dbm(16, (8, 6), **options)
    else:
        machine = bm(16, 2 if patterns else 0, **options)
    return machine if biases is None else _biased(machine, number, biases)


def generic(number: int) -> Member:
    strength = (0.5, 1.0, 1.5, 2.0)[number // 12 % 4]
    return _graph(number, strength, 0.5 if number // 6 % 2 else None), None


def cold(number: int) -> Member:
    """Couplings of two to six times the strength at which order sets in."""
    strength = _uniform(number, 3.0, 10.0, "strength")
    return _graph(number, strength, 2.0 if number // 6 % 2 else None), None


def one_sided(number: int) -> Member:
    """No biases, data whose columns lie on one side."""
    return _graph(number, _uniform(number, 0.5, 4.0, "strength"), None), _rows(16, number)


def one_sided_biased(number: int) -> Member:
    return _graph(number, _uniform(number, 0.5, 4.0, "strength"), 1.0), _rows(16, number)


def _rows(visible: int, number: int) -> Tensor:
    rng = stream(number, "rows")
    up = 0.02 + 0.3 * torch.rand(visible, generator=rng)
    return 2.0 * (torch.rand((500, visible), generator=rng) < up).double() - 1.0


def against(number: int) -> Member:
    """Biases that pull the two layers apart, couplings that hold them together."""
    rng = stream(number, "shape")
    v, h = (int(torch.randint(5, 13, (), generator=rng)) for _ in range(2))
    machine = rbm(v, h, biases=True, seed=number, scale=0.1)
    assert machine.biases is not None
    cast(Dense, machine.couplings).weights["0-1"].data.add_(_uniform(number, 0.2, 1.3, "coupling"))
    pull = _uniform(number, 1.0, 6.0, "pull")
    machine.biases.data[:, :v] = pull
    machine.biases.data[:, v:] = -pull
    return machine, None


def first_order(number: int) -> Member:
    """A Mattis machine in a random field of two values, near its first-order transition."""
    units = 2 * int(_uniform(number, 10, 40, "units"))
    field, ratio = _uniform(number, 1.0, 4.0, "field"), _uniform(number, 0.85, 1.3, "ratio")
    machine = bm(
        units, 0, 1, biases=True, seed=number,
        scale=math.sqrt(2.0 * ratio * field / units), dtype=torch.float64,
    )  # fmt: skip
    assert machine.biases is not None
    assert machine.patterns is not None
    turns = torch.ones(units)
    turns[1::2] = -1.0
    machine.biases.data.copy_(field * machine.patterns.detach()[:, 0].sign() * turns)
    return machine, None


def holes(number: int) -> Member:
    """Hidden units that are silent but for one visible state each: narrow holes in a flat landscape, as
    deep as the plain is wide."""
    rng = stream(number, "holes")
    v = int(torch.randint(10, 19, (), generator=rng))
    h = int(torch.randint(1, 4, (), generator=rng))
    machine = rbm(v, h, biases=True, seed=number, scale=0.05)
    assert machine.biases is not None
    weight = 3.0
    signs = 2.0 * torch.randint(2, (v, h), generator=rng).float() - 1.0
    cast(Dense, machine.couplings).weights["0-1"].data.add_(weight * signs)
    # At its own state a hidden unit gains 2 (v·weight + bias); the plain has v log 2.
    gain = v * math.log(2.0) * _uniform(number, 0.8, 1.3, "gain")
    machine.biases.data[:, v:] = 0.5 * gain - weight * v
    machine.biases.data[:, :v] = weight * signs.sum(1)  # level as long as they are silent
    return machine, None


def deep(number: int) -> Member:
    patterns = (None, 3)[number % 2]
    sizes = ((8, 8), (10, 6), (6, 6, 6), (12, 4))[number // 2 % 4]
    strength = _uniform(number, 0.5, 6.0, "strength")
    scale = strength * (0.2 if patterns is None else 0.5)
    biases = bool(number // 8 % 2)
    machine = dbm(12, sizes, patterns, biases=biases, scale=scale, seed=number)
    return (_biased(machine, number, 1.0) if biases else machine), None


def full(number: int) -> Member:
    patterns = (None, 1, 2, 4)[number % 4]
    strength = _uniform(number, 0.5, 6.0, "strength")
    scale = strength * (0.2 if patterns is None else 0.5)
    biases = bool(number // 4 % 2)
    machine = bm(12, 4, patterns, biases=biases, scale=scale, seed=number)
    return (_biased(machine, number, 1.0) if biases else machine), None


def _with_matrix(layers: Layers, matrix: Tensor, biases: Tensor) -> Machine:
    """The dense machine with these couplings (n, n), symmetric, where layers are coupled."""
    where = layers.slices
    weights = {(a, b): matrix[None, where[a], where[b]] for a, b in layers.edges}
    return Machine(Dense(layers, weights), biases[None])


def _noise(units: int, scale: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Weak symmetric couplings (n, n), and biases (n,) that are zero."""
    upper = scale * torch.randn((units, units), generator=rng, dtype=torch.float64).triu(1)
    return upper + upper.mT, torch.zeros(units, dtype=torch.float64)


def _signs(count: int, rng: torch.Generator) -> Tensor:
    return 2.0 * torch.randint(2, (count,), generator=rng).double() - 1.0


def _couple(matrix: Tensor, one: Tensor | int, two: Tensor | int, weights: Tensor | float) -> None:
    matrix[one, two] = weights
    matrix[two, one] = weights


def _silence(
    matrix: Tensor, biases: Tensor, unit: int, others: Tensor, weights: Tensor, net: float
) -> None:
    """Couples a unit so that it is silent but where the others follow the signs of its weights, a state
    that weighs e^net times as much as the plain of all states in which the unit is silent."""
    _couple(matrix, unit, others, weights)
    biases[unit] += 0.5 * (net + len(others) * math.log(2.0)) - weights.abs().sum()
    biases[others] += weights  # level as long as the unit is silent


def _net(number: int, units: int) -> float:
    """log weight of a hole over that of a plain of so many units."""
    return units * math.log(2.0) * _uniform(number, -0.2, 0.3, "gain")


def deep_holes(number: int) -> Member:
    """Deep machines whose last layer, one or two above the first hidden one, is silent but for one state
    of the layer below for each of its units; dense and with patterns."""
    rng = stream(number, "deep holes")
    first = int(torch.randint(10, 33, (), generator=rng))
    silent = int(torch.randint(1, 4, (), generator=rng))
    if number % 2:
        sizes: tuple[int, ...] = (int(torch.randint(4, 8, (), generator=rng)), first, silent)
    else:
        middle = int(torch.randint(11, 16, (), generator=rng))
        sizes = (int(torch.randint(3, 5, (), generator=rng)), first, middle, silent)
    layers = Layers(sizes, tuple((i, i + 1) for i in range(len(sizes) - 1)))
    matrix, biases = _noise(layers.columns, 0.1, rng)
    below = torch.arange(layers.columns)[layers.slices[-2]]
    last = range(layers.columns - silent, layers.columns)
    for unit in last:
        weights = 3.0 * _signs(len(below), rng)
        _silence(matrix, biases, unit, below, weights, _net(number, len(below)))
    if number // 2 % 2 == 0:
        return _with_matrix(layers, matrix, biases), None
    # J = ξᵀξ / √K with a pattern for each silent unit; the other layers' ξ are weak.
    patterns = 0.1 * torch.randn((silent, layers.columns), generator=rng, dtype=torch.float64)
    strong = (9.0 * silent) ** 0.25
    patterns[:, layers.slices[-1]] = strong * torch.eye(silent, dtype=torch.float64)
    patterns[:, below] = strong * matrix[layers.slices[-1], below].sign()
    return Machine(Patterns(layers, patterns[None]), biases[None]), None


def full_holes(number: int) -> Member:
    """Full machines with units that are silent but for one state of the others for each of them."""
    rng = stream(number, "full holes")
    units = int(torch.randint(12, 18, (), generator=rng))
    silent = int(torch.randint(1, 4, (), generator=rng))
    order = torch.randperm(units, generator=rng)
    matrix, biases = _noise(units, 0.05, rng)
    for unit in order[:silent].tolist():
        weights = 3.0 * _signs(units - silent, rng)
        _silence(matrix, biases, unit, order[silent:], weights, _net(number, units - silent))
    return _with_matrix(_full(units, (0, 1, 4)[number % 3]), matrix, biases), None


def _full(units: int, hidden: int) -> Layers:
    if not hidden:
        return Layers((units,), ((0, 0),))
    return Layers((units - hidden, hidden), ((0, 0), (0, 1), (1, 1)))


def paired_holes(number: int) -> Member:
    """Holes that two units open together: each names a state of half of the others and alone costs more
    than it gains. A coupling (full machines) or a unit above them (deep ones) rewards both."""
    rng = stream(number, "paired holes")
    deep = number % 2 == 0
    half = int(torch.randint(6, 15 if deep else 8, (), generator=rng))
    visible = int(torch.randint(4, 8, (), generator=rng)) if deep else 0
    one = visible + 2 * half
    two, above, units = one + 1, one + 2, one + (3 if deep else 2)
    matrix, biases = _noise(units, 0.05, rng)
    alone = -_uniform(number, 4.0, 10.0, "alone")
    halves = (visible + torch.randperm(2 * half, generator=rng)).split(half)  # type: ignore[no-untyped-call]
    for unit, part in zip((one, two), halves, strict=True):
        _silence(matrix, biases, unit, part, 3.0 * _signs(half, rng), alone)
    together = _net(number, 2 * half) - 2.0 * alone  # what their agreement is worth
    if not deep:
        _couple(matrix, one, two, 0.25 * together)  # ¼ t (s s' + s + s'): t for both, nothing for one
        biases[[one, two]] += 0.25 * together
        return _with_matrix(_full(units, (0, 2)[number // 2 % 2]), matrix, biases), None
    # J u (s + s') + J (s + s') − 4 u of the unit u above: 4 J − 8 more for all three, nothing for one.
    strength = 0.25 * together + 2.0
    _couple(matrix, above, torch.tensor([one, two]), strength)
    biases[[one, two]] += strength
    biases[above] -= 4.0
    layers = Layers((visible, 2 * half, 2, 1), ((0, 1), (1, 2), (2, 3)))
    return _with_matrix(layers, matrix, biases), None


def overlapping_holes(number: int) -> Member:
    """Silent units anywhere in deep machines, triangles of layers and full machines. Each names a state
    of some of its neighbours by weights of all sizes, and several may agree."""
    rng = stream(number, "overlapping holes")
    graph = number % 3
    if graph == 0:
        sizes = (
            int(torch.randint(6, 11, (), generator=rng)),
            int(torch.randint(14, 24, (), generator=rng)),
            5,
        )
        layers = Layers(sizes, ((0, 1), (1, 2)))
    elif graph == 1:
        layers = Layers((12, 4, 4), ((0, 1), (0, 2), (1, 2)))
    else:
        layers = _full(17, (0, 4)[number // 3 % 2])
    matrix, biases = _noise(layers.columns, 0.1, rng)
    hubs = layers.sizes.index(max(layers.sizes))  # the layer whose states are named
    named = torch.arange(layers.columns)[layers.slices[hubs]]
    others = torch.arange(layers.columns)
    if layers.self_coupled(hubs):
        named = named[torch.randperm(len(named), generator=rng)[:13]]
    others = others[~torch.isin(others, named)]
    others = others[torch.randperm(len(others), generator=rng)]
    silent = int(torch.randint(2, 5, (), generator=rng))
    for unit in others[:silent].tolist():
        share = _uniform(number, 0.6, 1.0, "share", unit)
        part = named[torch.randperm(len(named), generator=rng)[: int(share * len(named))]]
        weights = _signs(len(part), rng) * (1.0 + 2.0 * torch.rand(len(part), generator=rng).double())
        _silence(matrix, biases, unit, part, weights, _net(number, len(part)))
    return _with_matrix(layers, matrix, biases), None


def parity_checks(number: int) -> Member:
    """An RBM of parity checks on three visible units each, planted at one state: four hidden units per
    check, each silent but at one of the four settings that the planted state's parity allows. No unit
    names a mode; only all checks together do."""
    rng = stream(number, "parity checks")
    visible = int(torch.randint(12, 19, (), generator=rng))
    checks = int(visible * _uniform(number, 0.8, 1.3, "checks"))
    planted = _signs(visible, rng)
    weight, gain = 3.0, _uniform(number, 0.8, 4.0, "gain")  # nats of a check that is met
    units = visible + 4 * checks
    matrix, biases = _noise(units, 0.02, rng)
    unit = visible
    for _ in range(checks):
        others = torch.randperm(visible, generator=rng)[:3]
        for one, two in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)):
            signs = planted[others] * torch.tensor([one, two, one * two], dtype=torch.float64)
            _silence(matrix, biases, unit, others, weight * signs, gain - 3.0 * math.log(2.0))
            unit += 1
    return _with_matrix(Layers((visible, 4 * checks), ((0, 1),)), matrix, biases), None


def two_transitions(number: int) -> Member:
    """Full machines of two patterns in a random field of two values: the phase of the field beside those
    of either sign of either pattern, near their first-order transitions."""
    rng = stream(number, "two transitions")
    units = 4 * int(_uniform(number, 8, 30, "units"))
    one, two = _signs(units, rng), _signs(units, rng)
    turns = torch.where(torch.rand(units, generator=rng) < 0.5, -1.0, 1.0).double()
    field, ratio = _uniform(number, 1.0, 4.0, "field"), _uniform(number, 0.85, 1.3, "ratio")
    strength = math.sqrt(2.0 * ratio * field / units) * 2.0**0.25  # J = ξᵀξ / √2
    patterns = strength * torch.stack([one, two])
    layers = Layers((units,), ((0, 0),))
    return Machine(Patterns(layers, patterns[None]), (field * turns)[None]), None


def tripled_holes(number: int) -> Member:
    """Full and deep machines with a hole that three units open only together: each names a state of a
    third of the others and alone, or with one other, costs more than it gains. The search for modes
    turns over one unit or two."""
    rng = stream(number, "tripled holes")
    deep = number % 2 == 0
    third = int(torch.randint(4, 9, (), generator=rng)) if deep else 4
    visible = int(torch.randint(4, 8, (), generator=rng)) if deep else 0
    hubs = visible + torch.randperm(3 * third, generator=rng)
    three = torch.arange(3) + visible + 3 * third
    units = visible + 3 * third + 3
    matrix, biases = _noise(units, 0.05, rng)
    alone = -_uniform(number, 4.0, 10.0, "alone")
    for unit, part in zip(three.tolist(), hubs.split(third), strict=True):  # type: ignore[no-untyped-call]
        _silence(matrix, biases, unit, part, 3.0 * _signs(third, rng), alone)
    # ¼ t (s s' + s + s') of each pair: t where both are on, so 3 t for all three and t for two.
    together = (_net(number, 3 * third) - 3.0 * alone) / 3.0
    for i in range(3):
        others = three[torch.arange(3) != i]
        matrix[three[i], others] += 0.25 * together
        biases[three[i]] += 0.5 * together
    if not deep:
        return _with_matrix(_full(units, (0, 3)[number // 2 % 2]), matrix, biases), None
    sizes, edges = (visible, 3 * third, 3), ((0, 1), (1, 2), (2, 2))
    return _with_matrix(Layers(sizes, edges), matrix, biases), None


def weak_units(number: int) -> Member:
    """Deep machines with 60 units above the hidden layer, each silent but for one state of it. That of
    the weakest couplings opens a hole, the others open next to nothing."""
    rng = stream(number, "weak units")
    first = int(torch.randint(14, 19, (), generator=rng))
    visible, above = int(torch.randint(4, 7, (), generator=rng)), 60
    layers = Layers((visible, first, above), ((0, 1), (1, 2)))
    matrix, biases = _noise(layers.columns, 0.1, rng)
    below = torch.arange(visible, visible + first)
    for unit in range(visible + first, layers.columns - 1):
        _silence(matrix, biases, unit, below, 4.0 * _signs(first, rng), -12.0)
    gain = _uniform(number, -1.0, 3.0, "gain")
    _silence(matrix, biases, layers.columns - 1, below, 3.0 * _signs(first, rng), gain)
    return _with_matrix(layers, matrix, biases), None


# -- trained ------------------------------------------------------------------------------------------


def _digits(size: int) -> Tensor:
    """MNIST, the middle 20×20 pixels averaged down to size×size."""
    images = load("mnist").train.spins[:4000].float().reshape(-1, 28, 28)[:, 4:24, 4:24]
    small = torch.nn.functional.adaptive_avg_pool2d(images[:, None], size).flatten(1)
    return SPIN.nearest(small)


@functools.lru_cache(maxsize=16)
def _trained(name: str, group: int) -> tuple[list[Machine], Tensor]:
    """TOGETHER machines after the same training from other starts; groups differ in the recipe."""
    biases = bool(group % 2)
    hidden = (8, 12, 10, 14)[group // 2 % 4]
    patterns = (None, 6)[group // 4 % 2]
    if name in LOST:
        return _lost(name, group)
    if name == "bars":
        data, epochs, batch = load("bars4").train.spins.float(), (30, 100, 300)[group % 3], 5
    elif name == "digits":
        data, epochs, batch = load("digits").train.spins.float(), (5, 20, 60)[group % 3], 50
    else:
        data, epochs, batch = _digits(10), (3, 10, 20)[group % 3], 100
    machine = rbm(
        data.shape[1], hidden, patterns, biases=biases, replicas=TOGETHER, seed=group,
        scale=None if patterns is None else 0.3,
    )  # fmt: skip
    if biases:
        machine.start_biases(data)
    negative: NegativePhase = Persistent(100, 5)
    if name == "bars" and patterns and group % 3 == 0:
        negative = PatternInduced(1)
    for _ in train(machine, data, negative, adam(3e-3), epochs=epochs, batch_size=batch, seed=group):
        pass
    machine.requires_grad_(False)
    return [machine.replica(i) for i in range(TOGETHER)], data


LOST = ("lost images", "lost clusters")  # of trainings whose chains do not mix


def _lost(name: str, group: int) -> tuple[list[Machine], Tensor]:
    """TOGETHER machines of 784 columns after the same training at a high rate, by few chains and one
    sweep an update."""
    if name == "lost images":
        data = load("mnist").train.spins[2000 * group :][:2000].float()
    else:
        data = clusters(group, 784)[0].train.spins.float()
    hidden, rate = (17, 11, 14, 8)[group % 4], (0.05, 0.01, 0.02, 0.005)[group // 2 % 4]
    patterns = (None, None, 10)[group % 3]
    machine = rbm(
        784, hidden, patterns, biases=True, replicas=TOGETHER, seed=group,
        scale=0.05 if patterns is None else 0.2,
    )  # fmt: skip
    machine.start_biases(data)
    negative = Persistent(50, 1)
    batch = len(data) // 6
    for _ in train(machine, data, negative, adam(rate), epochs=60, batch_size=batch, seed=group):
        pass
    machine.requires_grad_(False)
    return [machine.replica(i) for i in range(TOGETHER)], data


def _of(name: str) -> Family:
    def member(number: int) -> Member:
        machines, data = _trained(name, number // TOGETHER)
        return machines[number % TOGETHER], data

    return member


FAMILIES: dict[str, Family] = {
    "generic": generic,
    "cold": cold,
    "one-sided": one_sided,
    "one-sided with biases": one_sided_biased,
    "biases against couplings": against,
    "first-order": first_order,
    "holes": holes,
    "deep": deep,
    "full": full,
    "deep holes": deep_holes,
    "full holes": full_holes,
    "paired holes": paired_holes,
    "overlapping holes": overlapping_holes,
    "parity checks": parity_checks,
    "two transitions": two_transitions,
    "tripled holes": tripled_holes,
    "weak units": weak_units,
    "bars": _of("bars"),
    "digits": _of("digits"),
    "mnist": _of("mnist"),
    **{name: _of(name) for name in LOST},
}


def member(family: str, number: int) -> Member:
    with _quietly():
        machine, data = FAMILIES[family](number)
    return machine.requires_grad_(False), data


def checkpoints(number: int) -> tuple[list[Machine], Tensor]:
    """Machines along one training on 4×4 bars, RBM, DBM and BM in turn, from close together to far
    apart."""
    data = load("bars4").train.spins.float()
    biases, patterns = bool(number % 2), (None, 4)[number // 2 % 2]
    options: dict[str, Any] = {
        "biases": biases, "patterns": patterns, "scale": 0.05 if patterns is None else 0.2, "seed": number
    }  # fmt: skip
    graph = number // 4 % 3
    every = (5, 10, 20)[number // 12 % 3]
    with _quietly():
        if graph == 0:
            machine = rbm(16, 9, **options)
        else:
            machine = dbm(16, (6, 5), **options) if graph == 1 else bm(16, 3, **options)
        course = train(
            machine,
            data,
            Persistent(100, 3),
            adam(0.01),
            epochs=8 * every,
            batch_size=5,
            seed=number,
        )
        found = [copy.deepcopy(machine)]
        found += [copy.deepcopy(machine) for progress in course if progress.epoch % every == 0]
    return [one.requires_grad_(False) for one in found], data
