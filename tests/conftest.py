"""Shared by all tests: one thread per worker, and the machines that the contracts run over."""

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

from rapidbm.machines.units import SPIN
from rapidbm.runs import diagnosis
from rapidbm.testing import small_machines

torch.set_num_threads(1)
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="rapidbm-tests-")  # whom we trust is our own
os.environ["RAPIDBM_PROGRESS"] = "off"  # test_progress and test_limits turn it on
diagnosis.boundaries = cache(diagnosis.boundaries)  # lines of one diagram, seconds each
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels run on the CPU


def machines(replicas: int = 1, **options):
    """pytest parameters: every graph × dense, patterns."""
    return [
        pytest.param(machine, id=f"{name}-{replicas}")
        for name, machine in small_machines(replicas, **options)
    ]


@pytest.fixture
def mnist_folder() -> Path:
    folder = os.environ.get("RAPIDBM_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("MNIST is not here; set RAPIDBM_DATA")
    return Path(folder)


def states(units, start, stop, *, device="cpu"):
    """States number start … stop − 1 of spins, (c, n) in int8."""
    return SPIN.states(units, torch.arange(start, stop, device=device))
