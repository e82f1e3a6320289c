"""What counts as spins.

Shapes everywhere: `e` replica, `c` chain or sample, `k` pattern, `n` unit, `v` visible, `h` hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, as_array, as_tensor
from ..errors import InputError

CHUNK = 2**18  # values that are converted at a time


def to_spins(values: Any, *, what: str = "data") -> Tensor:
    """The values as ±1 (int8): bool, {0, 1} and ±1 are recognised, anything else is refused.

    1 is +1 either way; an array of zeros alone is {0, 1}, all of it −1. The spins are a copy.

    Examples:
        >>> rb.to_spins([[0, 1, 1]])
        tensor([[-1,  1,  1]], dtype=torch.int8)
    """
    array = as_array(values_of(values), what=what)
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


def values_of(values: Any) -> Any:
    """Those of a `Split`; a frame of pandas may have a column of that name."""
    found = getattr(values, "spins", None)
    return found if isinstance(found, Tensor) else values


def weights_of(values: Any) -> Tensor | None:
    """The weights of the rows of a `Split`, if it has some."""
    found = getattr(values, "weights", None)
    return found if isinstance(found, Tensor) else None


def as_spins(values: Any, *, what: str = "data") -> Tensor:
    """The same where the values are: a tensor of ±1 comes back as it is."""
    values = values_of(values)
    if not isinstance(values, Tensor):
        return to_spins(values, what=what)
    given = as_tensor(values, what=what)
    if given.numel() and given.dtype != torch.bool and bool((given.abs() == 1).all()):
        return given
    return to_spins(given, what=what).to(given.device)


def column_sums(spins: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ s of every column of (samples, v), exact, or Σ w s with weights (samples,), (v,) float64; torch
    alone would make eight times as many bytes of them."""
    total = torch.zeros(spins.shape[1], dtype=torch.float64, device=spins.device)
    step = max(1, 16 * CHUNK // max(1, spins.shape[1]))
    for start in range(0, len(spins), step):
        some = spins[start : start + step]
        if weights is None:
            total += some.sum(0, dtype=torch.float64)
        else:
            total += weights[start : start + step].to(total) @ some.double()
    return total


def to_bits(spins: Any) -> Tensor:
    """{0, 1} as int8 from ±1.

    Examples:
        >>> rb.to_bits(rb.to_spins([[0, 1, 1]])).tolist()
        [[0, 1, 1]]
    """
    return (as_spins(spins, what="spins") > 0).to(torch.int8)


def pack(spins: Tensor) -> list[str]:
    """±1 (samples, v) as lines of hexadecimal digits, for files of text."""
    bits = (spins.detach().cpu().numpy() > 0).astype(np.uint8)
    return [row.tobytes().hex() for row in np.packbits(bits, axis=1)]


def unpack(rows: Sequence[str], visible: int) -> Tensor:
    """The same back; ValueError for lines that are no such thing."""
    packed = np.stack([np.frombuffer(bytes.fromhex(row), np.uint8) for row in rows])
    if packed.shape[1] != -(-visible // 8):
        raise ValueError(f"{visible} spins take {-(-visible // 8)} bytes a line, not {packed.shape[1]}")
    return to_spins(np.unpackbits(packed, axis=1, count=visible))
