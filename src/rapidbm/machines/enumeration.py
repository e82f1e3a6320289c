"""Sums over configurations that need no sampling.

Of the layers that are not given, a few are enumerated, so that the rest, the free ones, are not
coupled to each other. The sum over the free units is then a product,

    Σ_free exp(−βE) = exp(−β E(s; free = 0)) · Π_{i free} 2 cosh(β field_i)               (1)

and given the enumerated ones each free unit has the mean tanh(β field_i). For an RBM this is the
sum over 2^min(V, H) states; without biases s and −s weigh the same, and half of them do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..accel.memory import keep_freed_memory
from ..errors import InputError
from ..progress import pulse
from .layers import Layers
from .spins import Beta, WeightedSpins, mean_spin, softplus_2, states

LARGEST = 2**26  # states that an exact method takes on unless it is told otherwise
GPU_LARGEST = 2**28
CHUNK_BYTES = 2**22  # on a CPU: what stays in its caches
GPU_CHUNK_BYTES = 2**30


class HasEnergy(Protocol):
    """The part of a machine that enumeration needs."""

    @property
    def layers(self) -> Layers: ...
    @property
    def replicas(self) -> int: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def symmetric(self) -> bool: ...
    def energy(self, spins: Tensor, *, means: bool = False) -> Tensor: ...
    def bias_energy(self, spins: Tensor, *, means: bool = False) -> Tensor: ...
    def field(self, spins: Tensor, layer: int, *, means: bool = False) -> Tensor: ...


def free_layers(layers: Layers, given: tuple[int, ...] = ()) -> tuple[int, ...]:
    fixed = given + layers.cover(given)
    return tuple(i for i in range(len(layers.sizes)) if i not in fixed)


def states_of(layers: Layers, given: tuple[int, ...] = ()) -> int:
    """How many states an exact sum runs through."""
    return int(2 ** sum(layers.sizes[i] for i in layers.cover(given)))


def most_states(device: torch.device) -> int:
    """How many states an exact method takes on there."""
    return LARGEST if device.type == "cpu" else GPU_LARGEST


def check_states(
    layers: Layers, given: tuple[int, ...] = (), *, largest: int = LARGEST, what: str
) -> None:
    """Refuses an enumeration that would not end."""
    bits = sum(layers.sizes[i] for i in layers.cover(given))
    if 2**bits > largest:
        per = "per image " if given else ""
        raise InputError(
            f"{what} enumerates at most {largest:,} states {per}but this {layers.describe()} machine "
            f"has 2^{bits} ≈ 10^{bits * 0.30103:.0f} of them, each costing a pass over its "
            f"{layers.units} units; use a sampled method or a smaller machine"
        )


def log_weight(machine: HasEnergy, spins: Tensor, free: tuple[int, ...], beta: Beta) -> Tensor:
    """The logarithm of eq. (1) in float64, (e, c); the free layers of `spins` hold 0."""
    flat = beta.squeeze(-1) if isinstance(beta, Tensor) else beta
    total = -flat * given_energy(machine, spins, free).double()
    for layer in free:
        field = machine.field(spins, layer, means=True)
        if isinstance(beta, Tensor) or beta != 1.0:
            field = field * beta
        # Σ log 2cosh x = Σ (2 softplus_2(x) − x): fewer passes over memory than term by term.
        total += 2.0 * softplus_2(field).sum(-1, dtype=torch.float64)
        total -= field.sum(-1, dtype=torch.float64)
    return total


def given_energy(machine: HasEnergy, spins: Tensor, free: tuple[int, ...]) -> Tensor:
    """E(s; free = 0), (e, c): where every coupling has a free end, that of the biases alone."""
    touched = all(a in free or b in free for a, b in machine.layers.edges)
    if touched:
        return machine.bias_energy(spins, means=True)
    return machine.energy(spins, means=True)


@torch.no_grad()
def infer(machine: HasEnergy, spins: Tensor, free: tuple[int, ...], beta: Beta = 1.0) -> Tensor:
    """`spins` with the free layers at their conditional means; they do not touch each other."""
    for layer in free:
        field = machine.field(spins, layer, means=True)
        spins[..., machine.layers.slices[layer]] = mean_spin(field, beta)
    return spins


def _place(spins: Tensor, layers: Layers, chosen: tuple[int, ...], values: Tensor) -> None:
    """Writes values (…, bits) into the chosen layers, one after the other."""
    start = 0
    for layer in chosen:
        stop = start + layers.sizes[layer]
        spins[..., layers.slices[layer]] = values[..., start:stop]
        start = stop


def enumerate_spins(machine: HasEnergy, *, half: bool) -> Iterator[Tensor]:
    """All states in chunks (e, c, n) with the free layers at 0; `half` leaves out the negatives."""
    layers = machine.layers
    chosen = layers.cover()
    bits = sum(layers.sizes[i] for i in chosen)
    count = 2**bits // (2 if half and bits else 1)
    row = machine.replicas * layers.units * torch.finfo(machine.dtype).bits // 8
    if machine.device.type == "cpu":
        keep_freed_memory()
        step = max(1, min(count, CHUNK_BYTES // row))
    else:
        step = max(1, min(count, GPU_CHUNK_BYTES // row))
    for start in range(0, count, step):
        some = states(bits, start, min(start + step, count), device=machine.device)
        spins = torch.zeros((len(some), layers.units), dtype=machine.dtype, device=machine.device)
        _place(spins, layers, chosen, some)
        yield spins.expand(machine.replicas, -1, -1)
        pulse()


@dataclass(frozen=True)
class AllStates:
    """Every state with its Boltzmann weight, as `WeightedSpins` that need not fit in memory."""

    machine: HasEnergy

    @torch.no_grad()
    def _parts(self, half: bool) -> Iterator[WeightedSpins]:
        free = free_layers(self.machine.layers)
        logs = [
            log_weight(self.machine, spins, free, 1.0)
            for spins in enumerate_spins(self.machine, half=half)
        ]
        weights = torch.softmax(torch.cat(logs, 1), 1).to(self.machine.dtype)  # (e, c)
        start = 0
        for spins in enumerate_spins(self.machine, half=half):
            stop = start + spins.shape[1]
            filled = infer(self.machine, spins.clone(), free)
            yield WeightedSpins(filled, weights[:, start:stop])
            start = stop

    @torch.no_grad()
    def products(self) -> tuple[Tensor, Tensor]:
        """⟨s_a s_b⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) of two layers that are coupled to each other alone.

        The same sums as those over `chunks`, without writing configurations down.
        """
        machine, layers = self.machine, self.machine.layers
        if not layers.two:
            raise InputError(
                "products are of two layers that are coupled to each other alone, this machine has "
                f"layers {layers.sizes} and edges {layers.edges}; use chunks()"
            )
        (given,) = layers.cover()
        free = 1 - given
        half = machine.symmetric
        logs = [log_weight(machine, s, (free,), 1.0) for s in enumerate_spins(machine, half=half)]
        weights = torch.softmax(torch.cat(logs, 1), 1).to(machine.dtype)  # (e, c)
        sizes = (machine.replicas, layers.sizes[given], layers.sizes[free])
        product = torch.zeros(sizes, dtype=machine.dtype, device=machine.device)
        mean = torch.zeros(
            (machine.replicas, layers.units), dtype=machine.dtype, device=machine.device
        )
        start = 0
        for spins in enumerate_spins(machine, half=half):
            share = weights[:, start : start + spins.shape[1], None]
            start += spins.shape[1]
            signed = spins[..., layers.slices[given]] * share
            inferred = mean_spin(machine.field(spins, free, means=True))
            product.baddbmm_(signed.mT, inferred)
            if not half:  # by symmetry 0 otherwise
                mean[:, layers.slices[given]] += signed.sum(1)
                mean[:, layers.slices[free]] += (share.mT @ inferred).squeeze(1)
        return (product if given == 0 else product.mT), mean

    def chunks(self) -> Iterator[WeightedSpins]:
        """Parts of the average of an even function, such as the energy's gradient: where s and −s
        weigh the same, one of the two stands for both."""
        return self._parts(half=self.machine.symmetric)

    def whole(self) -> WeightedSpins:
        parts = list(self._parts(half=False))
        return WeightedSpins(
            torch.cat([p.spins for p in parts], 1), torch.cat([p.weights for p in parts], 1)
        )

    @property
    def spins(self) -> Tensor:
        return self.whole().spins

    @property
    def weights(self) -> Tensor:
        return self.whole().weights


def clamped_states(machine: HasEnergy, visible: Tensor, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """For every visible row (e, c, v) all states of the hidden units: spins (e, c, x, n) with the
    free layers at 0, and log weights (e, c, x)."""
    layers = machine.layers
    chosen = layers.cover((0,))
    free = free_layers(layers, (0,))
    e, c, v = visible.shape
    bits = sum(layers.sizes[i] for i in chosen)
    spins = torch.zeros((e, c, 2**bits, layers.units), dtype=machine.dtype, device=machine.device)
    spins[..., :v] = visible[:, :, None]
    _place(spins, layers, chosen, states(bits, 0, 2**bits, device=machine.device))
    logs = log_weight(machine, spins.flatten(1, 2), free, beta).reshape(e, c, 2**bits)
    return spins, logs
