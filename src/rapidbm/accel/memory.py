"""Memory: what a call would take, and what is freed and wanted again a moment later.

An update makes and drops tensors of a few megabytes. By default glibc gives such memory back to the
system each time and gets it again page by page, which costs more than the arithmetic: 9.1 ms instead
of 2.7 ms for an update of 100 replicas of the paper's bars (`docs/decisions/memory.md`).
"""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InputError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT = 256 * 2**20  # bytes that may lie free in this process
OWN = 32 * 2**20  # an allocation from this size on is mapped for itself, and given back


@cache
def keep_freed_memory() -> bool:
    """Lets this process keep up to 256 MB of freed memory; False where the C library has no such knob."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, OWN)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))


def check_room(
    what: str, count: int, *, size: int, device: Any = "cpu", remedy: str = "", free: bool = False
) -> None:
    """Refuses `count` numbers of `size` bytes that the memory there cannot hold, before it is taken; with
    `free` that of the CPU that is not in use."""
    there = free_memory() if free else memory_of(str(device))
    if count * size > there:
        raise InputError(
            f"{what} would take {_words(count * size)} of memory, and there are {_words(there)}; "
            f"{remedy or 'ask for less'}"
        )


@cache
def memory_of(device: str) -> float:
    """Bytes in all; without limit where nobody says."""
    if device.startswith("cuda"):
        import torch

        return float(torch.cuda.mem_get_info(device)[1])
    try:
        pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return math.inf
    try:  # what a container may use
        return float(min(pages, int(Path("/sys/fs/cgroup/memory.max").read_text())))
    except (OSError, ValueError):
        return float(pages)


def free_memory() -> float:
    """Bytes that this process can still take: of the machine, of its container and of its own limit."""
    found = [memory_of("cpu")]
    for read in (_free_of_machine, _free_of_container, _free_of_limit):
        with suppress(ImportError, OSError, ValueError, KeyError, StopIteration):  # not told
            found.append(read())
    return min(found)


def _free_of_machine() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024.0 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))


def _free_of_container() -> float:
    folder = Path("/sys/fs/cgroup")
    most, used = (int((folder / f"memory.{name}").read_text()) for name in ("max", "current"))
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    cache = int(stat["active_file"]) + int(stat["inactive_file"])  # is given back when it is wanted
    return float(most - used + cache)


def _free_of_limit() -> float:
    """What `ulimit -v` leaves."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if most == resource.RLIM_INFINITY else max(0.0, float(most - _taken()))


def limit_memory(more: int) -> None:
    """From now on this process gets at most so many bytes more; no limit where the system has none."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (_taken() + more, most))


def _taken() -> int:
    """Bytes of addresses that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _words(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"
