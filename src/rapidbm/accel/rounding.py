"""How the operands of products of matrices are rounded on a GPU.

float32 (three TF32 products stand for one), tf32 (to 10 bits) or bf16 (to 7 bits; hidden means and
overlaps are stored so). Sums are float32 in each. Where nobody chooses, a training takes bf16, whose
machines are as good (docs/performance.md), and all else float32.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

import torch

from ..errors import InputError, check_choice

Precision = Literal["float32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

_precision: ContextVar[Precision | None] = ContextVar("precision", default=None)  # None: not chosen
_lock = threading.Lock()
_inside: dict[int, list[Precision]] = {}  # the blocks that each thread is inside of, innermost last
_outside: list[str] = []  # torch's setting before the first of them


@contextmanager
def precision(name: Precision) -> Iterator[None]:
    """A context manager that sets how products of float32 matrices are rounded on a GPU.

    torch has one setting for all threads; it stays at float32 while any thread asks for that.

    Parameters
    ----------
    name : {"float32", "tf32", "bf16"}
        Format of the factors: full float32, or faster ones with 10 or 7 bits of mantissa.

    Raises
    ------
    InputError
        If the name is another one.

    Examples
    --------
    >>> with rb.precision("tf32"):
    ...     machine = rb.rbm(16, 8, seed=0)
    """
    check_choice("precision", name, PRECISIONS)
    token, thread = _precision.set(name), threading.get_ident()
    with _lock:
        if not _inside:
            _outside[:] = [torch.get_float32_matmul_precision()]
        _inside.setdefault(thread, []).append(name)
        _set_torch()
    try:
        yield
    finally:
        _precision.reset(token)
        with _lock:
            _inside[thread].pop()
            if not _inside[thread]:
                del _inside[thread]
            _set_torch()


def _set_torch() -> None:
    exact = any(names[-1] == "float32" for names in _inside.values())
    setting = _outside[0] if not _inside else "highest" if exact else "high"
    torch.set_float32_matmul_precision(setting)


def check_precision(name: Precision | None, device: torch.device) -> None:
    """Refuses a precision that is none, or that the device does not have."""
    if name is None:
        return
    check_choice("precision", name, PRECISIONS)
    if name != "float32" and device.type != "cuda":
        raise InputError(
            f"the precision {name!r} is for a GPU, but this machine is on {device}; leave "
            "it out, or move the machine (--device cuda)"
        )


def of_training(name: Precision | None, device: torch.device) -> Precision | None:
    """What a training is rounded to: as it was asked, else as the block around it says, else bf16 on a
    GPU."""
    chosen = name is not None or _precision.get() is not None
    return name if chosen or device.type != "cuda" else "bf16"


def current() -> Precision:
    """The precision of this moment."""
    return _precision.get() or "float32"


def in_triton() -> str:
    """The same in Triton's words, for products of float32."""
    return "tf32x3" if current() == "float32" else "tf32"


def kind() -> torch.dtype:
    """The type that operands are stored in."""
    return torch.bfloat16 if current() == "bf16" else torch.float32
