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

from .errors import InputError, check_count

MANY = 2**15  # random numbers from which on seeding a faster generator pays
Beta = float | Tensor  # a tensor has one value per chain: (c, 1) or (e, c, 1)


@dataclass(frozen=True)
class WeightedSpins:
    """Configurations and their weights; a unit may hold its conditional mean instead of ±1."""

    spins: Tensor  # (e, c, n)
    weights: Tensor  # (e, c)

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

    1 is +1 either way; an array of zeros alone is {0, 1}, all of it −1.
    """
    values = getattr(values, "spins", values)  # of a Split
    if isinstance(values, Tensor):
        given = values.detach().cpu()
        array = (given.float() if given.dtype == torch.bfloat16 else given).numpy()
    else:
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise InputError(f"{what} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{what} must be numbers or booleans, not {array.dtype}; convert it to an array first"
        )
    if array.size == 0:
        raise InputError(f"{what} must hold at least one value, its shape is {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise InputError(
            f"{what} must be finite, but {bad} of {array.size} values are NaN or infinite; "
            "drop or fill them first"
        )
    if array.dtype.kind == "b":
        return torch.from_numpy(np.where(array, 1, -1).astype(np.int8))
    up = array == 1
    zero, down = array == 0, array == -1
    if (up | zero).all():
        return torch.from_numpy(np.where(up, 1, -1).astype(np.int8))
    if (up | down).all():
        return torch.from_numpy(array.astype(np.int8))
    if (up | zero | down).all():
        raise InputError(
            f"{what} must have two levels, {{0, 1}}, {{−1, +1}} or booleans, but it holds −1, 0 and 1: "
            "write the lower level as one of the two; unknown values are a mask, "
            "`Split(spins, known=mask)`"
        )
    levels = np.unique(array)
    shown = ", ".join(f"{level:g}" for level in levels[:5]) + (", …" if levels.size > 5 else "")
    raise InputError(
        f"{what} must have two levels, {{0, 1}}, {{−1, +1}} or booleans, but it holds "
        f"{levels.size} values: {shown}; threshold it first, for instance `values > 0.5`"
    )


def as_spins(values: Any, *, what: str = "data") -> Tensor:
    """The same where the values are: a tensor of ±1 comes back as it is."""
    values = getattr(values, "spins", values)
    if not isinstance(values, Tensor):
        return to_spins(values, what=what)
    known = values.numel() and values.dtype != torch.bool and not values.is_complex()
    if known and bool((values.abs() == 1).all()):
        return values
    return to_spins(values, what=what).to(values.device)


def to_bits(spins: Tensor) -> Tensor:
    """{0, 1} as int8 from ±1."""
    return (spins > 0).to(torch.int8)
