"""Spins: what a unit does in its field, what counts as spins, and all states of a few of them.

    p(s = +1 | field) = 1 / (1 + exp(−2 β field)),        ⟨s⟩ = tanh(β field)            (1)

Shapes everywhere: `e` replica, `c` chain or sample, `k` pattern, `n` unit, `v` visible, `h` hidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, as_array, as_tensor
from ..errors import InputError, check_count

CHUNK = 2**18  # values that are converted at a time
MANY = 2**15  # random numbers from which on seeding a faster generator pays
Beta = float | Tensor  # a tensor has one value per chain: (c, 1) or (e, c, 1)


@dataclass(frozen=True)
class WeightedSpins:
    """Configurations and their weights; a unit may hold its conditional mean instead of ±1."""

    spins: Tensor  # (e, c, n)
    weights: Tensor  # (e, c)

    def __post_init__(self) -> None:
        for name in ("spins", "weights"):
            if not isinstance(getattr(self, name), Tensor):
                object.__setattr__(self, name, as_tensor(getattr(self, name), what=name))
        if self.spins.dim() != 3 or self.weights.shape != self.spins.shape[:2]:
            raise InputError(
                "weighted spins are (replicas, configurations, units) with weights (replicas, "
                f"configurations), not {tuple(self.spins.shape)} and {tuple(self.weights.shape)}"
            )

    @staticmethod
    def even(spins: Tensor) -> WeightedSpins:
        """Equal weights that sum to one."""
        e, c, _ = spins.shape
        check_count("the number of configurations to average over", c)
        return WeightedSpins(spins, spins.new_full((e, c), 1.0 / c))

    def chunks(self) -> Iterator[WeightedSpins]:
        """Parts whose moments add up to the whole's; an enumeration yields many."""
        yield self

    def times(self, factor: float) -> WeightedSpins:
        """The same with all weights times a factor."""
        return WeightedSpins(self.spins, self.weights * factor)


def up_probability(field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False) -> Tensor:
    """The probability of s = +1, eq. (1); in the place of `field` if it may go."""
    argument = field.mul_(2.0 * beta) if overwrite else field * (2.0 * beta)
    return torch.sigmoid(argument) if argument.requires_grad else argument.sigmoid_()


def mean_spin(field: Tensor, beta: Beta = 1.0) -> Tensor:
    """⟨s⟩ of eq. (1); on a CPU through the sigmoid, six times faster than torch.tanh there."""
    if field.is_cuda:  # where each pass over memory counts
        return torch.tanh(field if isinstance(beta, float) and beta == 1.0 else field * beta)
    up = up_probability(field, beta)
    return 2.0 * up - 1.0 if up.requires_grad else up.mul_(2.0).sub_(1.0)


def draw(
    field: Tensor,
    rng: torch.Generator,
    beta: Beta = 1.0,
    *,
    overwrite: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Spins drawn from eq. (1), independently of each other, into `out` or a tensor of their own.

    With `overwrite` the field need not outlive the call.
    """
    up = up_probability(field, beta, overwrite=overwrite).detach()
    if field.is_cuda:
        uniform = torch.rand(field.shape, generator=rng, dtype=field.dtype, device=field.device)
        spins = torch.rsub((uniform < up).to(field.dtype), -1.0, alpha=-2.0)
        return spins if out is None else out.copy_(spins)
    # The sign of p − u in one pass, where a comparison takes three.
    if field.numel() < MANY or field.dtype != torch.float32:
        up.sub_(torch.rand(field.shape, generator=rng, dtype=field.dtype))
    else:
        up.sub_(_words(field, rng), alpha=2.0**-32)
    one = torch.ones((), dtype=field.dtype)
    return torch.copysign(one, up, out=up if out is None else out)


def _words(like: Tensor, rng: torch.Generator) -> Tensor:
    """Random words of 32 bits as float32 in the shape of `like`, on a CPU: from numpy's SFC64, seeded by
    `rng`, faster than torch's generator (docs/decisions/random.md)."""
    seed = torch.randint(2**63 - 1, (2,), generator=rng).tolist()
    raw = np.random.SFC64(seed).random_raw((like.numel() + 1) // 2)
    return torch.from_numpy(raw.view(np.uint32)[: like.numel()].astype(np.float32)).view(like.shape)


def random_spins(
    shape: tuple[int, ...], rng: torch.Generator, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Fair ±1 spins."""
    bits = torch.randint(2, shape, generator=rng, dtype=torch.int8, device=rng.device)
    return bits.mul_(2).sub_(1).to(dtype)


def sign(values: Tensor) -> Tensor:
    """±1, with sign(0) = +1, so that the result is always a spin."""
    return (values >= 0).to(values.dtype).mul_(2.0).sub_(1.0)


def log_2cosh(x: Tensor) -> Tensor:
    """log(2 cosh x) without overflow."""
    return softplus_2(x).mul_(2.0).sub_(x)


def softplus_2(x: Tensor) -> Tensor:
    """½ log(1 + e^{2x}); beyond 2x = 40 linear, which is right to the last bit in float64 too."""
    return torch.nn.functional.softplus(x, 2.0, 40.0)


def states(units: int, start: int, stop: int, *, device: torch.device | str = "cpu") -> Tensor:
    """States number start … stop−1 of `units` spins as int8; the first unit is the highest bit,
    so that the first half of all states has it at −1."""
    numbers = torch.arange(start, stop, device=device)[:, None]
    shifts = torch.arange(units - 1, -1, -1, device=device)
    return ((numbers >> shifts) & 1).to(torch.int8).mul_(2).sub_(1)  # (c, n)


def to_spins(values: Any, *, what: str = "data") -> Tensor:
    """The values as ±1 (int8): bool, {0, 1} and ±1 are recognised, anything else is refused.

    1 is +1 either way; an array of zeros alone is {0, 1}, all of it −1. The spins are a copy.
    """
    array = as_array(_spins_of(values), what=what)
    if array.size == 0:
        raise InputError(f"{what} must hold at least one value, its shape is {array.shape}")
    spins = np.empty(array.shape, np.int8)
    rows, out = np.atleast_1d(array), np.atleast_1d(spins)
    step = max(1, CHUNK * len(rows) // array.size)  # no pass makes an array as large as the data
    zero = down = False
    for start in range(0, len(rows), step):
        some, part = rows[start : start + step], out[start : start + step]
        up = some == 1
        np.multiply(up, 2, out=part, dtype=np.int8)
        part -= 1
        zeros, downs = some == 0, some == -1
        zero, down = zero or bool(zeros.any()), down or bool(downs.any())
        if not (up | zeros | downs).all():
            raise _no_spins(array, what)
    if zero and down:
        raise InputError(
            f"{what} must have two levels, {{0, 1}}, {{−1, +1}} or booleans, but it holds −1, 0 and 1: "
            "write the lower level as one of the two; unknown values are a mask, "
            "`Split(spins, known=mask)`"
        )
    return torch.from_numpy(spins)


def _no_spins(array: Array, what: str) -> InputError:
    """The error for values other than −1, 0 and 1."""
    if array.dtype.kind == "f" and (bad := int((~np.isfinite(array)).sum())):
        return InputError(
            f"{what} must be finite, but {bad} of {array.size} values are NaN or infinite; "
            "drop or fill them first"
        )
    levels = np.unique(array)
    shown = ", ".join(f"{level:g}" for level in levels[:5]) + (", …" if levels.size > 5 else "")
    return InputError(
        f"{what} must have two levels, {{0, 1}}, {{−1, +1}} or booleans, but it holds "
        f"{levels.size} values: {shown}; threshold it first, for instance `values > 0.5`"
    )


def _spins_of(values: Any) -> Any:
    """Those of a `Split`; a frame of pandas may have a column of that name."""
    spins = getattr(values, "spins", None)
    return spins if isinstance(spins, Tensor) else values


def as_spins(values: Any, *, what: str = "data") -> Tensor:
    """The same where the values are: a tensor of ±1 comes back as it is."""
    values = _spins_of(values)
    if not isinstance(values, Tensor):
        return to_spins(values, what=what)
    given = as_tensor(values, what=what)
    if given.numel() and given.dtype != torch.bool and bool((given.abs() == 1).all()):
        return given
    return to_spins(given, what=what).to(given.device)


def to_bits(spins: Any) -> Tensor:
    """{0, 1} as int8 from ±1."""
    return (as_spins(spins, what="spins") > 0).to(torch.int8)
