"""The most memory that is held at once while something runs, beyond what was held before."""

from __future__ import annotations

import os
import tracemalloc

import torch

from ..clock import Action

HOW = {
    "cuda": "torch.cuda.max_memory_allocated",
    "cpu": "torch.profiler's peak plus numpy's of tracemalloc, at most a little too high",
}


def peak_bytes(action: Action, device: torch.device) -> int:
    """The peak of what torch, and on a CPU numpy, allocates in the call."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        action()
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would write of its start and end
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        tracemalloc.start()
        try:
            action()
            _, numpy_peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert found.profiler is not None
    events = found.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = torch_peak = 0
    for _, change in changes:
        held += change
        torch_peak = max(torch_peak, held)
    return torch_peak + numpy_peak
