"""How fast the machine can be, and how much an update or a sweep asks of it.

    rate ≤ min( highest rate of products, operations / bytes · bandwidth )                (1)

Operations are those of products of matrices, a multiplication and an addition being two; bytes are those
that must move at least, w of them for an operand (2 in bf16) and 4 for all else. For e replicas, c chains
and as many images:

    operations of a sweep through patterns    4 e c K (V + H)                             (2)
    bytes of k sweeps in one call             w e k K (V + H) + 8 e c (V + H)             (3)
    operations of one of the two phases       2 e c K (2V + 3H)                           (4)
    bytes of an update with k sweeps          e (w (k + 2) + 36) K (V + H)
                                              + e c (w (V + 4H) + 8 (V + H))              (5)

(4) has the overlaps with V, the fields on H, the overlaps with H and both halves of the gradient. In (5)
patterns are read by k sweeps and both phases, each phase writes a gradient, Adam moves seven numbers;
images are read, chains read and written, hidden means of both phases written and read. With dense
couplings V H stands for K (V + H), and (4) is 4 e c V H. Drawing the spins is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rapidbm.accel import rounding

from ..clock import interleaved
from .jobs import Size

WORD = 4  # bytes of float32
ADAM, PHASES = 7, 2


@dataclass(frozen=True)
class Count:
    """What a piece of work takes at least."""

    operations: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes


def parameters(size: Size) -> int:
    v, h, k = size.visible, size.hidden, size.patterns
    return size.replicas * (v * h if k is None else k * (v + h))


def operand() -> int:
    """Bytes of an operand of products, in the precision of this moment."""
    return 2 if rounding.current() == "bf16" else WORD


def sweep_count(size: Size, sweeps: int) -> Count:
    """Eqs. (2) and (3), for one call of so many sweeps."""
    units = size.replicas * size.chains * (size.visible + size.hidden)
    moved = operand() * sweeps * parameters(size) + 2 * WORD * units
    return Count(4 * sweeps * size.chains * parameters(size), moved)


def update_count(size: Size, sweeps: int) -> Count:
    """Eqs. (2), (4) and (5)."""
    v, h, k = size.visible, size.hidden, size.patterns
    rows = size.replicas * size.chains
    phase = 4 * rows * v * h if k is None else 2 * rows * k * (2 * v + 3 * h)
    moved = (operand() * (sweeps + PHASES) + WORD * (PHASES + ADAM)) * parameters(size)
    moved += rows * (operand() * (v + 4 * h) + 2 * WORD * (v + h))
    return Count(sweep_count(size, sweeps).operations + PHASES * phase, moved)


# -- the machine --------------------------------------------------------------------------------------


def measured(device: torch.device, rounds: int, quick: bool) -> dict[str, Any]:
    """Operations per second of products, by precision, and bytes per second of a copy."""
    gpu = device.type == "cuda"
    found: dict[str, Any] = {}
    sizes = (512,) if quick else (4096, 8192) if gpu else (1024, 2048)
    for name in rounding.PRECISIONS if gpu else ("float32",):
        rates = [_products(n, name, device, rounds) for n in sizes]
        found[name] = max(rates, key=lambda rate: rate["median"])
    words = 2**22 if quick else 2**28 if gpu else 2**26
    source, target = (torch.ones(words, device=device) for _ in range(2))
    times = interleaved(
        {"copy": lambda: target.copy_(source)}, rounds, pause=0, least=0.02, device=device
    )["copy"]
    found["copy"] = _rate(2 * WORD * words, times.seconds)
    return found


def best(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The higher of two measurements of each rate: other work on the machine only lowers them."""
    return {name: max(one[name], other[name], key=lambda rate: rate["median"]) for name in one}


def _products(n: int, precision: rounding.Precision, device: torch.device, rounds: int) -> dict[str, Any]:
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b, out = (torch.randn((n, n), device=device).to(dtype) for _ in range(3))
    with rounding.precision(precision):
        times = interleaved(
            {"product": lambda: torch.mm(a, b, out=out)},
            rounds,
            pause=0,
            least=0.02,
            device=device,
        )["product"]
    return {**_rate(2 * n**3, times.seconds), "size": n}


def _rate(amount: int, seconds: tuple[float, ...]) -> dict[str, Any]:
    low, middle, high = torch.tensor([amount / s for s in seconds], dtype=torch.float64).quantile(
        torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    )
    return {"median": float(middle), "quartiles": [float(low), float(high)]}


def ceiling(machine: dict[str, Any], precision: str) -> float:
    """The highest rate of products at this precision. Where three products of tf32, which give the digits
    of float32, are faster than one of float32, they are its ceiling."""
    best = float(machine[precision]["median"])
    if precision == "float32" and "tf32" in machine:
        best = max(best, machine["tf32"]["median"] / 3)
    return best


def roof(machine: dict[str, Any], precision: str, intensity: float) -> float:
    """Eq. (1)."""
    return float(min(ceiling(machine, precision), intensity * machine["copy"]["median"]))
