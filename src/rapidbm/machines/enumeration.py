"""Sums over configurations that need no sampling.

Of the layers that are not given, a few are enumerated, so that the rest, the free ones, are not
coupled to each other. The sum over the free units is then a product,

    Σ_free exp(−βE) = exp(−β E(s; free = 0)) · Π_{i free} 2 cosh(β field_i)               (1)

and given the enumerated ones each free unit has the mean tanh(β field_i). For an RBM this is the
sum over 2^min(V, H) states; without biases s and −s weigh the same, and half of them do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..accel.devices import by_device, prepare
from ..errors import InputError
from ..progress import report_progress, watch
from . import trusted
from .layers import Layers

if TYPE_CHECKING:
    from .machine import Machine

LARGEST = 2**26  # states that an exact method takes on unless it is told otherwise
MANY = 2**28  # the same on a GPU
CHUNK_BYTES = 2**22  # what stays in the caches of a CPU
LARGE_CHUNK_BYTES = 2**30


def free_layers(layers: Layers, given: tuple[int, ...] = ()) -> tuple[int, ...]:
    fixed = given + layers.cover(given)
    return tuple(i for i in range(len(layers.sizes)) if i not in fixed)


def states_of(layers: Layers, given: tuple[int, ...] = ()) -> int:
    """How many states an exact sum runs through; beyond all limits where some have no list."""
    count = layers.count(layers.cover(given))
    return 2**10_000 if count is None else count


def most_states(device: torch.device) -> int:
    """How many states an exact method takes on there."""
    return by_device(device, LARGEST, MANY)


def check_states(
    layers: Layers, given: tuple[int, ...] = (), *, largest: int = LARGEST, what: str
) -> None:
    """Refuses an enumeration that would not end."""
    count = states_of(layers, given)
    if layers.count(layers.cover(given)) is None:
        raise InputError(
            f"{what} lists the states of some layers and sums the others in closed form, but in this "
            f"machine of {layers.words} layers without a list are coupled to layers that are coupled to "
            "each other; use a sampled method"
        )
    if count > largest:
        per = "per image " if given else ""
        raise InputError(
            f"{what} enumerates at most {largest:,} states {per}but this {layers.describe()} machine "
            f"has 2^{math.log2(count):.0f} ≈ 10^{math.log10(count):.0f} of them, each costing a pass "
            f"over its {layers.units} units; use a sampled method or a smaller machine"
        )


def log_weight(machine: Machine, spins: Tensor, free: tuple[int, ...], beta: float) -> Tensor:
    """The logarithm of eq. (1) in float64, (e, c); the free layers of `spins` hold 0."""
    total = -beta * given_energy(machine, spins, free).double()
    for layer in free:
        machine.unit(layer).add_log_sums(total, trusted.field(machine, spins, layer), beta)
    return total


def given_energy(machine: Machine, spins: Tensor, free: tuple[int, ...]) -> Tensor:
    """E(s; free = 0), (e, c): where every coupling has a free end, that of the biases and units alone."""
    energy = trusted.bias_energy(machine, spins)
    if not all(a in free or b in free for a, b in machine.layers.edges):
        energy = machine.couplings.energy(spins) + energy
    return energy if machine.layers.spins else energy + trusted.unit_energy(machine, spins, free)


def _place(spins: Tensor, layers: Layers, chosen: tuple[int, ...], values: Tensor) -> None:
    """Writes values (…, bits) into the chosen layers, one after the other."""
    start = 0
    for layer in chosen:
        stop = start + layers.sizes[layer]
        spins[..., layers.slices[layer]] = values[..., start:stop]
        start = stop


def enumerate_spins(machine: Machine, *, half: bool) -> Iterator[Tensor]:
    """All states in chunks (e, c, n) with the free layers at 0; `half` leaves out the negatives."""
    layers = machine.layers
    chosen = layers.cover()
    count = states_of(layers) // (2 if half and chosen else 1)
    row = machine.replicas * layers.columns * machine.dtype.itemsize
    prepare(machine.device)
    step = max(1, min(count, by_device(machine.device, CHUNK_BYTES, LARGE_CHUNK_BYTES) // row))
    for start in range(0, count, step):
        numbers = torch.arange(start, min(start + step, count), device=machine.device)
        some = layers.states(chosen, numbers)
        spins = torch.zeros((len(some), layers.columns), dtype=machine.dtype, device=machine.device)
        _place(spins, layers, chosen, some)
        yield spins.expand(machine.replicas, -1, -1)
        report_progress()


def clamped_states(machine: Machine, visible: Tensor, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """For every visible row (e, c, v) all states of the hidden units: spins (e, c, x, n) with the
    free layers at 0, and log weights (e, c, x)."""
    layers = machine.layers
    chosen = layers.cover(layers.visible)
    free = free_layers(layers, layers.visible)
    e, c, v = visible.shape
    count = states_of(layers, layers.visible)
    spins = torch.zeros((e, c, count, layers.columns), dtype=machine.dtype, device=machine.device)
    spins[..., :v] = visible[:, :, None]
    _place(spins, layers, chosen, layers.states(chosen, torch.arange(count, device=machine.device)))
    logs = log_weight(machine, spins.flatten(1, 2), free, beta).reshape(e, c, count)
    return spins, logs


def log_prob_unnormalised(machine: Machine, visible: Tensor, beta: float = 1.0) -> Tensor:
    """log Σ_h exp(−β E(v, h)) of visible rows that are known to be right, in float64, (e, c)."""
    layers = machine.layers
    check_states(layers, layers.visible, largest=2**16, what="the sum over hidden states")
    if layers.hidden_independent:
        return log_weight(machine, trusted.with_visible(machine, visible), layers.hidden, beta)
    visible = trusted.visible(machine, visible)
    step = max(1, 2**22 // (states_of(layers, layers.visible) * layers.columns * machine.replicas))
    parts = []
    with watch("sum over hidden states", visible.shape[1]) as tick:
        for some in torch.split(visible, step, 1):
            parts.append(torch.logsumexp(clamped_states(machine, some, beta)[1], -1))
            tick.add(some.shape[1])
    return torch.cat(parts, 1)
