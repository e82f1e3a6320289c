"""Arrays as people have them: whatever numpy can read, as plain numbers.

Every door that takes an array takes it through here: lists, arrays of any type and byte order, sparse
ones, tensors, frames of pandas. What is no array of numbers is refused, and so is a mask with something
behind it: nobody could tell what the hidden values are.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .accel.memory import check_room
from .errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
PLAIN = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


@contextmanager
def _converting(what: str) -> Iterator[None]:
    """What numpy, torch and the types of others raise when they cannot convert is bad input."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{what} must be an array of numbers: {line}") from error


def as_array(values: Any, *, what: str) -> Array:
    """The values as booleans, integers or floats of numpy; they may share memory with what was given."""
    if isinstance(values, Tensor):
        given = as_tensor(values, what=what).cpu()
        return np.asarray((given.float() if given.dtype == torch.bfloat16 else given).numpy())
    if isinstance(values, np.ma.MaskedArray):
        hidden = int(np.ma.getmaskarray(values).sum())
        if hidden:
            raise InputError(
                f"{what} must be known, but {hidden} of {values.size} values are masked; drop or fill "
                "them first"
            )
        values = values.data
    with _converting(what):
        if hasattr(values, "toarray"):  # scipy's sparse arrays
            check_room(what, math.prod(values.shape), size=values.dtype.itemsize)
            values = values.toarray()
        array = np.asarray(values)
        array = _unboxed(array) if array.dtype.kind == "O" else array
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be numbers or booleans, not {_kind(array)}; convert it first")
    return array


def as_tensor(values: Any, *, what: str) -> Tensor:
    """The same as a tensor; one that is given as such stays on its device."""
    if not isinstance(values, Tensor):
        array = as_array(values, what=what)
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch counts in signed ones
            array = _signed(array, what)
        elif array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        # What is not writable, or runs backwards, torch does not take.
        shared = native.flags.writeable and all(step >= 0 for step in native.strides)
        return torch.from_numpy(native if shared else native.copy())
    tensor = values.detach()
    if tensor.is_complex():
        raise InputError(f"{what} must be numbers or booleans, not {tensor.dtype}; convert it first")
    with _converting(what):
        if tensor.layout != torch.strided:
            check_room(what, tensor.numel(), size=tensor.element_size())
            tensor = tensor.to_dense()
        if tensor.dtype not in PLAIN:
            if tensor.is_floating_point():
                return tensor.float()
            tensor = torch.from_numpy(_signed(tensor.cpu().numpy(), what)).to(tensor.device)
    return tensor


def as_mask(values: Any, shapes: Sequence[tuple[int, ...]], *, what: str) -> Tensor:
    """A mask of booleans in one of the shapes, a copy."""
    mask = as_tensor(values, what=what)
    if mask.dtype != torch.bool or tuple(mask.shape) not in shapes:
        raise InputError(
            f"{what} holds booleans of shape {' or '.join(map(str, shapes))}, not {mask.dtype} of "
            f"{tuple(mask.shape)}"
        )
    return mask.clone()


def as_labels(values: Any) -> Tensor:
    """Labels as int64, a copy: whole numbers, none of which is rounded on the way."""
    array = as_array(values, what="labels")
    if array.dtype.kind == "f":
        inside = np.isfinite(array) & (array >= -(2.0**63)) & (array < 2.0**63)
        if not (inside.all() and (array == np.round(array)).all()):
            wrong = array[~(inside & (array == np.round(array)))][0]
            raise InputError(f"labels must be whole numbers below 2^63, not {wrong:g}; encode them")
    elif array.dtype.kind == "u":
        array = _signed(array, "labels")
    return torch.from_numpy(array.astype(np.int64))


def as_weights(values: Any, rows: int, replicas: int | None = None) -> Tensor:
    """Weights of rows in float64, a copy: (rows,), or for so many replicas (replicas, rows) as well."""
    weights = as_tensor(values, what="weights").to("cpu", torch.float64, copy=True)
    shapes = [(rows,), *([(replicas, rows)] if replicas is not None else [])]
    if tuple(weights.shape) not in shapes:
        raise InputError(
            f"weights are one for each row, of shape {' or '.join(map(str, shapes))}, not "
            f"{tuple(weights.shape)}; give as many as there are rows"
        )
    wrong = ~(weights.isfinite() & (weights >= 0))
    if bool(wrong.any()):
        place = wrong.nonzero()[0]
        raise InputError(
            f"weights must be finite and not negative, but that of row {int(place[-1])} is "
            f"{float(weights[tuple(place)]):g}; give 0 to a row that is not to count"
        )
    if not bool((weights.amax(-1) > 0).all()):
        raise InputError("weights must not all be 0; give some row a weight")
    return weights


def mean_one(weights: Tensor | None) -> Tensor | None:
    """Weights (…, rows) times what makes their mean 1; None where all rows weigh the same."""
    if weights is None:
        return None
    equal = weights.amin(-1, keepdim=True) == weights.amax(-1, keepdim=True)
    if bool(equal.all()):
        return None
    return torch.where(equal, 1.0, weights / weights.mean(-1, keepdim=True))


def effective_rows(weights: Tensor) -> Tensor:
    """How many rows of equal weight tell as much of a mean, (Σ w)² / Σ w², (…)."""
    return weights.sum(-1).square() / weights.square().sum(-1)


def counting_weights(weights: Tensor | None) -> Tensor | None:
    """Weights (rows,) times what makes their sum the number of effective rows, as counts of rows; None
    where all weigh the same."""
    uneven = mean_one(weights)
    return None if uneven is None else uneven * (effective_rows(uneven) / uneven.sum())


def finite(tensor: Tensor, *, what: str) -> Tensor:
    """The tensor itself, if it holds neither NaN nor infinity."""
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise InputError(
            f"{what} must be finite, but {bad} of {tensor.numel()} values are NaN or infinite; drop or "
            "fill them first"
        )
    return tensor


def _unboxed(array: Array) -> Array:
    """An array of Python's numbers as one of numpy's."""
    kinds = {type(value) for value in array.flat}
    for kind in kinds:
        if not issubclass(kind, numbers.Real | np.bool_):
            name = array.item() if not array.ndim else kind.__name__
            raise TypeError(f"it holds {name!r}, which is no number")
    if kinds and all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return array.astype(bool)
    whole = all(issubclass(kind, numbers.Integral | np.bool_) for kind in kinds)
    return array.astype(np.int64 if whole else np.float64)


def _signed(array: Array, what: str) -> Array:
    if array.size and int(array.max()) >= 2**63:
        raise InputError(f"{what} must be below 2^63, not {array.max()}; convert it first")
    return array.astype(np.int64)


def _kind(array: Array) -> str:
    return "text" if array.dtype.kind in "US" else str(array.dtype)
