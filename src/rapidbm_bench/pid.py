"""A PID update at MNIST size through the overlaps, against fields through a rebuilt W.

The reference builds W by one matrix product per update and sends all fields through it; everything
else is the same. Both run in one process; memory is measured in a fresh one.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import torch

from rapidbm.machines.constructors import rbm
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.training.negative import PatternInduced
from rapidbm.training.optimisers import sgd
from rapidbm.training.projections import Clip
from rapidbm.training.trainer import Trainer

from .clock import interleaved
from .processes import megabytes
from .running import option_parser

VISIBLE, HIDDEN, PATTERNS, BATCH = 784, 3000, 190, 500


def trainer() -> Trainer:
    return Trainer(
        rbm(VISIBLE, HIDDEN, PATTERNS, seed=0),
        SPIN.random((4 * BATCH, VISIBLE), stream(0), torch.int8),
        PatternInduced(),
        sgd(1e-4),
        epochs=10**6,
        batch_size=BATCH,
        projection=Clip(),
        seed=0,
    )


def through_w(made: Trainer) -> None:
    """One update whose fields go through W."""
    built = made.machine.couplings.matrix(0, 1).detach()
    with (
        mock.patch.object(Patterns, "_matrix_is_cheaper", return_value=True),
        mock.patch.object(Patterns, "matrix", lambda self, a, b: built if a < b else built.mT),
    ):
        made.step()


def peak_megabytes() -> float:
    """How far the process grows during updates, in a process of its own (Linux)."""
    code = "from rapidbm_bench.pid import grow; print(grow())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(out.stdout)


def grow() -> float:
    made = trainer()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before = resident("VmRSS")
    for _ in range(8):
        made.step()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """MB of this process."""
    return megabytes("self", field) or 0.0


def run(words: Sequence[str] = ()) -> dict[str, float]:
    option_parser(__name__, __doc__).parse_args(words)
    fast, slow = trainer(), trainer()
    for _ in range(3):
        fast.step()
        through_w(slow)
    a, b = fast.machine.patterns, slow.machine.patterns
    if a is None or b is None or not torch.allclose(a, b, atol=1e-6):
        raise AssertionError("the two updates must move the patterns alike")
    times = interleaved({"overlaps": fast.step, "matrix": lambda: through_w(slow)}, rounds=30)
    seconds = {name: found.median for name, found in times.items()}
    return {
        "ms per update through overlaps": 1e3 * seconds["overlaps"],
        "ms per update through a rebuilt W": 1e3 * seconds["matrix"],
        "W over overlaps": seconds["matrix"] / seconds["overlaps"],
        "peak extra memory of the overlaps, MB": peak_megabytes(),
    }
