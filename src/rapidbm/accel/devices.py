"""Devices: which there are, and what differs between a CPU and a GPU, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from ..errors import InputError
from .memory import keep_freed_memory

T = TypeVar("T")


def usable(device: Any) -> torch.device:
    """The device, if it is one and is here."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
        torch.Generator(found)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or ["unknown"])[0].partition(". ")[0]
        raise InputError(
            f"the device {device!r} cannot be used here: {reason}; use cpu, or cuda where there is a GPU"
        ) from error
    return found


def device_named(name: str) -> torch.device:
    """The device of that name, if it is here; `auto` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return usable(name)


def by_device(device: torch.device, cpu: T, gpu: T) -> T:
    """A size that suits the device: a CPU has caches to stay in, a GPU wants much at once."""
    return cpu if device.type == "cpu" else gpu


def prepare(device: torch.device) -> None:
    """Before work that makes and drops many tensors there."""
    if device.type == "cpu":
        keep_freed_memory()


def copy_in(place: torch.Tensor, values: torch.Tensor) -> None:
    """Copies from the host; a GPU is not waited for."""
    if place.is_cuda:
        values = values.pin_memory()
    place.copy_(values, non_blocking=True)


@contextmanager
def lone_thread() -> Iterator[None]:
    """Work of the CPU in the block is done by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def wait(device: torch.device) -> None:
    """Returns when the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def words(device: torch.device) -> str:
    """The device as people call it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_bytes(device: torch.device, *, anew: bool = False) -> int | None:
    """The most memory that tensors took on a GPU, since it was last asked for `anew`."""
    if device.type != "cuda":
        return None
    if anew:
        torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.max_memory_allocated(device)
