"""Machines from their sizes: restricted, deep and fully connected ones, with patterns or dense."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..accel.devices import usable
from ..accel.memory import check_room
from ..errors import InputError, check_count, is_number
from ..random import seed_from, stream
from .couplings import Couplings
from .dense import Dense
from .gauge import has_gauge
from .layers import Layers
from .machine import Machine
from .patterns import Patterns, checked_strengths
from .units.spin import SPIN
from .units.unit import Unit

Units = Unit | Sequence[Unit]


def rbm(
    visible: int | Sequence[int],
    hidden: int,
    patterns: int | None = None,
    *,
    units: Units = SPIN,
    hidden_units: Unit = SPIN,
    replicas: int = 1,
    biases: bool = False,
    scale: float | Sequence[float] | None = None,
    continuous: bool = False,
    strengths: Sequence[float] | None = None,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Machine:
    """A restricted machine: one hidden layer, coupled to the visible one.

    `patterns=K` gives Regularized Axons that start at ±`scale` (1 by default; `continuous=True`
    spreads them evenly over [−scale, scale]); `patterns=None` gives dense couplings drawn from
    N(0, `scale`²), 0.01 by default. A `scale` may be one for each replica. `strengths`, one for each
    layer, are what patterns are measured in: they start at ±`scale` times that of their layer, and
    projections put them back to it. Biases start at 0.

    `units` is the kind of the visible units, spins by default, `hidden_units` that of the hidden ones.
    Visible units of several kinds are several layers: `visible` has the number of units of each and
    `units` their kinds. Own parameters of units start where their kind says.

    Examples:
        >>> machine = rb.rbm(visible=16, hidden=50, patterns=4, replicas=3, seed=0)
        >>> machine.layers.sizes, machine.replicas
        ((16, 50), 3)
        >>> kinds = (rb.Spin(), rb.Categorical((3, 5)), rb.Gaussian())
        >>> rb.rbm((4, 2, 3), 10, units=kinds, seed=0).layers.sizes
        (4, 8, 3, 10)
    """
    layers = _layers(visible, (hidden,), units, hidden_units)
    rng = stream(seed_from(seed, rng), "machine", device=usable(device))
    return _machine(layers, patterns, replicas, biases, scale, continuous, strengths, rng, dtype)


def dbm(
    visible: int | Sequence[int],
    hidden: Sequence[int],
    patterns: int | None = None,
    *,
    units: Units = SPIN,
    hidden_units: Units = SPIN,
    replicas: int = 1,
    biases: bool = False,
    scale: float | Sequence[float] | None = None,
    continuous: bool = False,
    strengths: Sequence[float] | None = None,
    deep_start: float = 1.0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Machine:
    """A deep machine: hidden layers in a chain, each coupled to the next. Options as for `rbm`.

    Patterns of hidden layers beyond the first, or couplings to them, start at `deep_start` times what the
    others start at: from a weak start a machine begins as a restricted one (docs/deep.md).

    Examples:
        >>> rb.dbm(16, (20, 10), seed=0).layers.sizes
        (16, 20, 10)
    """
    if not isinstance(hidden, Iterable):
        raise InputError(
            f"a deep machine takes the sizes of its hidden layers, ({hidden},) for one, not {hidden!r}"
        )
    hidden = tuple(hidden)
    if not hidden:
        raise InputError("a deep machine needs at least one hidden layer; hidden is empty")
    layers = _layers(visible, hidden, units, hidden_units)
    check_deep_start(deep_start, len(hidden))
    rng = stream(seed_from(seed, rng), "machine", device=usable(device))
    return _machine(
        layers, patterns, replicas, biases, scale, continuous, strengths, rng, dtype, deep_start
    )


def bm(
    visible: int | Sequence[int],
    hidden: int = 0,
    patterns: int | None = None,
    *,
    units: Units = SPIN,
    hidden_units: Unit = SPIN,
    replicas: int = 1,
    biases: bool = False,
    scale: float | Sequence[float] | None = None,
    continuous: bool = False,
    strengths: Sequence[float] | None = None,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Machine:
    """A fully connected machine: every pair of units is coupled. Options as for `rbm`.

    Examples:
        >>> rb.bm(12, patterns=2, seed=0).patterns.shape
        torch.Size([1, 2, 12])
    """
    check_count("the number of hidden units", hidden, least=0)
    layers = _layers(visible, (hidden,) if hidden else (), units, hidden_units, full=True)
    rng = stream(seed_from(seed, rng), "machine", device=usable(device))
    return _machine(layers, patterns, replicas, biases, scale, continuous, strengths, rng, dtype)


def _layers(
    visible: int | Sequence[int],
    hidden: tuple[int, ...],
    units: Units,
    hidden_units: Units,
    *,
    full: bool = False,
) -> Layers:
    """Visible layers, each coupled to the first hidden one, and hidden layers in a chain; all coupled to
    all and to themselves in a `full` machine."""
    counts = (*(tuple(visible) if isinstance(visible, list | tuple) else (visible,)), *hidden)
    seen = len(counts) - len(hidden)
    for count in counts:
        check_count("the size of a layer", count)
    kinds = (*_each(units, seen, "visible"), *_each(hidden_units, len(hidden), "hidden"))
    sizes = tuple(unit.columns(count) for unit, count in zip(kinds, counts, strict=True))
    if full:
        edges = tuple((a, b) for a in range(len(sizes)) for b in range(a, len(sizes)))
    else:
        chain = tuple((i, i + 1) for i in range(seen, len(sizes) - 1))
        edges = (*((i, seen) for i in range(seen)), *chain)
    return Layers(sizes, edges, kinds, seen)


def _each(units: Units, count: int, which: str) -> tuple[Unit, ...]:
    """A kind for each of so many layers."""
    kinds = (units,) * count if isinstance(units, Unit) else tuple(units)
    if len(kinds) != count or not all(isinstance(unit, Unit) for unit in kinds):
        raise InputError(
            f"give one kind of unit for the {which} layers, such as rb.Spin(), or one for each of "
            f"{count}, not {units!r}"
        )
    return kinds


def check_deep_start(share: float, hidden: int) -> None:
    """Refuses a start of deeper layers that is no share, or one where so few layers are hidden."""
    if not is_number(share) or not 0 < share <= 1:
        raise InputError(
            f"deeper layers start at a share of the scale above 0 and up to 1, not {share!r}; give one"
        )
    if share != 1 and hidden < 2:
        raise InputError(
            f"a start of {share:g} is for hidden layers beyond the first, and a machine with {hidden} "
            "has none; leave deep_start (--deep-start) out"
        )


def _machine(
    layers: Layers,
    patterns: int | None,
    replicas: int,
    biases: bool,
    scale: float | Sequence[float] | None,
    continuous: bool,
    strengths: Sequence[float] | None,
    rng: torch.Generator,
    dtype: torch.dtype,
    deep_start: float = 1.0,
) -> Machine:
    check_count("the number of replicas", replicas)
    if patterns is not None:
        check_count("the number of patterns K", patterns)
    if strengths is not None:
        if patterns is None:
            raise InputError("strengths are those of patterns; give patterns=K, or leave them out")
        strengths = checked_strengths(layers, strengths)
    if scale is None:
        scale = 0.01 if patterns is None else 1.0
    given = tuple(scale) if isinstance(scale, list | tuple) else (scale,)
    if not given or not all(is_number(x) and x > 0 for x in given):
        raise InputError(f"the scale of the initial couplings must be positive, not {scale!r}")
    if len(given) not in (1, replicas):
        raise InputError(
            f"give one scale of the initial couplings, or one for each of the {replicas} replicas, not "
            f"{len(given)}"
        )
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"a machine's type is torch.float32 or torch.float64, not {dtype!r}")
    each = (
        sum(layers.sizes[a] * layers.sizes[b] for a, b in layers.edges)
        if patterns is None
        else patterns * layers.columns
    )
    check_room(
        f"a machine of {layers.describe()} units and {replicas:,} replicas",
        replicas * each,
        size=dtype.itemsize,
        device=rng.device,
        remedy="take fewer units or replicas, or patterns=K instead of dense couplings"
        if patterns is None
        else "take fewer units, patterns or replicas",
    )
    size: Any = given[0]
    if len(given) > 1:
        size = torch.tensor(given, dtype=dtype, device=rng.device).view(-1, 1, 1)
    couplings: Couplings
    if patterns is None:
        couplings = Dense(
            layers,
            {
                (a, b): (size * deep_start if a >= layers.seen else size)
                * torch.randn(
                    (replicas, layers.sizes[a], layers.sizes[b]),
                    generator=rng,
                    dtype=dtype,
                    device=rng.device,
                )
                for a, b in layers.edges
            },
        )
    else:
        shape = (replicas, patterns, layers.columns)
        if continuous:
            xi = torch.rand(shape, generator=rng, dtype=dtype, device=rng.device) * 2 - 1
        else:
            xi = SPIN.random(shape, rng, dtype)
        xi[..., sum(layers.sizes[: layers.seen + 1]) :] *= deep_start
        couplings = Patterns(layers, xi * size, strengths=strengths)
        if couplings.unit_strengths is not None:
            couplings.patterns.data.mul_(couplings.unit_strengths)
    start = torch.zeros((replicas, layers.columns), dtype=dtype, device=rng.device)
    if has_gauge(layers):
        couplings.project(lambda values, layer: layers.kinds[layer].gauge(values))
    return Machine(couplings, start if biases else None)
