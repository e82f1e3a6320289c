"""Memory that is freed and wanted again a moment later.

An update makes and drops tensors of a few megabytes. By default glibc gives such memory back to the
system each time and gets it again page by page, which costs more than the arithmetic: 9.1 ms instead
of 2.7 ms for an update of 100 replicas of the paper's bars (`docs/decisions/memory.md`).
"""

from __future__ import annotations

import ctypes
from functools import cache

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
