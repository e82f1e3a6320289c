"""Spins, couplings and numbers as the bytes of a message (`messages`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ..messages import ALIGNED

Arrays = Mapping[str, tuple[str, Any]]  # a name: its kind, and what `packed` takes for it
KINDS = {"i8": np.int8, "u8": np.uint8, "f32": np.float32}


def packed(arrays: Arrays) -> tuple[list[list[Any]], bytes]:
    """Name, kind and shape of each array, and all of them as bytes."""
    kinds, parts = [], []
    for name, (kind, values) in arrays.items():
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        raw = (
            np.packbits(array > 0, axis=-1).tobytes()
            if kind == "bits"
            else np.asarray(array, KINDS[kind]).tobytes()
        )
        kinds.append([name, kind, list(array.shape)])
        parts.append(raw + b"\0" * (-len(raw) % ALIGNED))
    return kinds, b"".join(parts)


def spins(values: Tensor) -> tuple[str, Tensor]:
    """±1 of any shape, eight of a row to a byte."""
    return "bits", values


def numbers(values: Any) -> tuple[str, Any]:
    return "f32", values


def fields(values: Tensor) -> tuple[tuple[str, Tensor], float]:
    """Real numbers in 255 steps between plus and minus the size that one in a hundred exceeds, and that
    size."""
    values = values.detach().float()
    most = (float(np.quantile(values.abs().cpu().numpy(), 0.99)) if values.numel() else 0.0) or 1.0
    return ("i8", (values / most * 127.0).round().clamp(-127, 127)), most
