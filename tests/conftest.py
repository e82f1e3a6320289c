"""Shared by all tests: one thread per worker, the machines that the contracts run over, and a check that
each test leaves the process as it was."""

import os
import signal
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from rapidbm.accel.ranks import ThreadRanks
from rapidbm.machines.units.spin import SPIN
from rapidbm.runs import diagnosis
from rapidbm.testing import small_machines
from visits import browser, visit  # noqa: F401

torch.set_num_threads(1)
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="rapidbm-tests-")  # whom we trust is our own
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.environ["XDG_CACHE_HOME"])  # torch._dynamo would
os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # the command would
os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "True")  # as scikit-learn would, and this one:
os.environ.setdefault("KMP_INIT_AT_FORK", "FALSE")
os.environ["RAPIDBM_PROGRESS"] = "off"  # test_progress and test_limits turn it on
# No property fails because its examples take long to draw or to try: the computer may be busy.
settings.register_profile("rapidbm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rapidbm")
diagnosis.boundaries = cache(diagnosis.boundaries)  # lines of one diagram, seconds each
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels run on the CPU


def own_threads() -> list[threading.Thread]:
    """All but those of zarr, which stay once it has written something."""
    return [t for t in threading.enumerate() if not t.name.startswith(("zarr_io", "asyncio_"))]


def process_state() -> dict[str, object]:
    """What a test could leave behind for the next one: what stands here, by name."""
    variables = {f"variable {k}": v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    handlers = {f"handler of {s.name}": signal.getsignal(s) for s in signal.Signals}
    threads = {f"thread {t.name}": t.ident for t in own_threads()}
    return {
        **variables,
        **handlers,
        **threads,
        "working directory": os.getcwd(),
        "sys.path": tuple(sys.path),
        "torch threads": torch.get_num_threads(),
        "torch default type": torch.get_default_dtype(),
        "torch gradients": torch.is_grad_enabled(),
        "torch determinism": torch.are_deterministic_algorithms_enabled(),
        "torch matmul precision": torch.get_float32_matmul_precision(),
        "torch global random state": torch.get_rng_state().numpy().tobytes(),
    }


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """What differs, by name."""
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))


POOLS = []  # of threads that train shards abreast; they would end whenever their trainer is collected
_thread_ranks = ThreadRanks.__init__


def _recorded(thread_ranks, *options):
    _thread_ranks(thread_ranks, *options)
    POOLS.append(thread_ranks.pool)


ThreadRanks.__init__ = _recorded


LATE = 10.0  # seconds after which a thread counts as left behind


def end_pools():
    while POOLS:
        POOLS.pop().shutdown()


def left_as_found():
    end_pools()
    before = process_state()
    yield
    end_pools()
    for thread in own_threads():
        if thread.ident not in before.values():
            thread.join(LATE)  # one that reads ahead ends by itself
    if found := changes(before, process_state()):
        pytest.fail(f"left behind: {', '.join(found)}; a test restores what it changes", pytrace=False)


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_the_process_as_it_was():
    yield from left_as_found()


@pytest.fixture(autouse=True)
def _test_leaves_the_process_as_it_was(_module_leaves_the_process_as_it_was):
    yield from left_as_found()


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
