"""How often 95 % intervals hold, where the truth is known (`families.py`).

200 machines of each family, annealed one by one with the default settings though they could be summed;
then what leans on the same weights: `log_z_along` over the checkpoints of trainings, the error of
Bennett's ratio between exact samples, hidden sums of deep and full machines, and the mean energy of
samples by trajectory tempering. A miss is counted in widths of its own interval. A few cases of some
families:

    python -m benchmarks coverage --cases 20 --families cold,holes
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from unittest import mock

import torch
from torch import Tensor

from rapidbm.estimates import Estimate
from rapidbm.likelihood import bridging
from rapidbm.likelihood import log_z as likelihood
from rapidbm.likelihood.annealed import FEW
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.ensembles import AllStates
from rapidbm.machines.machine import Machine, scaled
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.sampling import annealing as weights
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.paths import Crossing
from rapidbm.sampling.samplers import TrajectoryTempering

from .families import FAMILIES, TOGETHER, checkpoints, member
from .running import option_parser, tell

CASES = 200


@dataclass(frozen=True)
class Check:
    """An interval beside the exact value."""

    lower: float
    upper: float
    exact: float
    effective: float = math.inf  # chains that carry the estimate

    @property
    def width(self) -> float:
        return self.upper - self.lower

    @property
    def miss(self) -> float:
        """How many of its widths the interval lies beside the exact value."""
        beside = max(self.lower - self.exact, self.exact - self.upper, 0.0)
        return beside / max(self.width, 1e-12) if beside else 0.0


# -- what is checked, as functions of the numbers of the cases -------------------------------------------


def annealing(family: str, numbers: Iterable[int], device: str = "cpu") -> list[Check]:
    checks = []
    for number in numbers:
        machine, data = member(family, number)
        found = log_z(machine.to(device), method="ais", seed=number, data=data)
        machine = machine.to("cpu")
        exact = float(log_z(machine, method="exact").value)
        checks.append(Check(float(found.lower), float(found.upper), exact, float(found.ess)))
    return checks


def along(numbers: Iterable[int]) -> list[Check]:
    """Every checkpoint but the first and the last, which are anchors, one of them per case."""
    checks = []
    for number in numbers:
        machines, data = checkpoints(number)
        with mock.patch.object(bridging, "can_be_exact", return_value=False):
            found = bridging.log_z_along(machines, seed=number, data=data)
        at = 1 + number % (len(machines) - 2)
        exact = float(log_z(machines[at], method="exact").value)
        checks.append(Check(float(found[at].lower), float(found[at].upper), exact))
    return checks


def bennett(numbers: Iterable[int]) -> list[Check]:
    """From a machine to the same one cooled by a tenth and back, 1.96 errors, from exact samples."""
    checks = []
    for number in numbers:
        here, _ = member("generic", number)
        here = scaled(here, 1.0).double()
        there = scaled(here, 1.1)
        rng = stream(number, "bennett")
        path = Crossing(here, there, exact_samples(here, 500, rng))
        places = [0.0, 0.5, 1.0]
        logs, _ = weights.forward(path, places, 500, rng)
        back = weights.backward(path, places, exact_samples(there, 500, rng), rng)
        found = weights.bennett(logs, back)
        value, error = float(found.value), 1.96 * float(found.error)
        exact = float(log_z(there, method="exact").value - log_z(here, method="exact").value)
        checks.append(Check(value - error, value + error, exact))
    return checks


def hidden(numbers: Iterable[int]) -> list[Check]:
    """The likelihood of deep and full machines whose hidden units are annealed as if they were many."""
    checks = []
    for number in numbers:
        machine, _ = member(("deep", "full")[number % 2], number)
        rng = stream(number, "rows")
        data = exact_samples(machine, 20, rng)[0, :, : machine.visible]
        with mock.patch.object(likelihood, "HIDDEN", 0):
            found = likelihood.log_likelihood(machine, data, method="ais", seed=number)
        exact = likelihood.log_likelihood(machine, data, method="exact")
        checks.append(Check(float(found.lower), float(found.upper), float(exact.value)))
    return checks


def trajectory(numbers: Iterable[int]) -> list[Check]:
    """The mean energy by 200 walkers of trajectory tempering after 300 turns, 1.96 errors. Where they
    made fewer than 200 round trips they have not come to rest, which `trips` says: no check."""
    checks = []
    for number in numbers:
        machines, _ = checkpoints(number)
        machine, rng = machines[-1], stream(number, "walkers")
        sampler = TrajectoryTempering(tuple(machines))
        state = sampler.init(machine, 200, rng)
        for _ in range(300):
            state = sampler.step(machine, state, rng)
        if int(state.trips) < 200:
            continue
        found = Estimate.of(machine.double().energy(sampler.spins(state).double()))
        value, error = float(found.value), 1.96 * float(found.error)
        checks.append(Check(value - error, value + error, float(mean_energy(machine))))
    return checks


def mean_energy(machine: Machine) -> Tensor:
    """−∂ log Z / ∂β at β = 1, by a central difference of the exact sum."""
    step = 1e-4
    up, down = (log_z(scaled(machine, 1.0 + x), method="exact").value for x in (step, -step))
    return (down - up) / (2.0 * step)


def exact_samples(machine: Machine, count: int, rng: torch.Generator) -> Tensor:
    """Draws from the enumerated states, the summed layers given the others, (1, count, n)."""
    whole = AllStates(machine).whole()
    rows = torch.multinomial(whole.weights, count, True, generator=rng)
    drawn = whole.spins.gather(1, rows[..., None].expand(-1, -1, whole.spins.shape[2]))
    clamp = torch.zeros(machine.layers.columns, dtype=torch.bool)
    for layer in machine.layers.cover():
        clamp[machine.layers.slices[layer]] = True
    return sweeps(machine, drawn, rng, 1, clamp=clamp, means=True)


CHECKS: dict[str, Callable[[Iterable[int]], list[Check]]] = {
    **{family: functools.partial(annealing, family) for family in FAMILIES},
    "along a training": along,
    "Bennett's ratio": bennett,
    "hidden sums": hidden,
    "trajectory tempering": trajectory,
}

# -- all of them -----------------------------------------------------------------------------------------


def summary(checks: list[Check], seconds: float) -> dict[str, float]:
    widths = torch.tensor([check.width for check in checks])
    misses = [check.miss for check in checks]
    few = [check.miss for check in checks if check.effective < FEW]
    return {
        "cases": len(checks),
        "held": sum(miss == 0.0 for miss in misses) / len(checks),
        "median width": float(widths.median()),
        "widest": float(widths.max()),
        "worst miss in widths": max(misses),
        "of few effective chains": len(few),
        "of these held": few.count(0.0),
        "seconds per case": seconds / len(checks),
    }


def _job(job: tuple[str, range, str]) -> tuple[str, list[Check], float]:
    torch.set_num_threads(1)
    name, numbers, device = job
    began = time.perf_counter()
    with quiet():
        checks = annealing(name, numbers, device) if name in FAMILIES else CHECKS[name](numbers)
    return name, checks, time.perf_counter() - began


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--families", default=",".join(CHECKS), help="names, with commas between")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", default="cpu", help="on which machines are annealed: cpu, cuda, …")
    chosen = parser.parse_args(words)
    names = chosen.families.split(",")
    if wrong := [name for name in names if name not in CHECKS]:
        parser.error(f"unknown family {wrong[0]!r}: known are {', '.join(CHECKS)}")
    jobs = [
        (name, range(start, min(start + TOGETHER, chosen.cases)), chosen.device)
        for name in names
        for start in range(0, chosen.cases, TOGETHER)
    ]
    found: dict[str, list[Check]] = {name: [] for name in names}
    spent = dict.fromkeys(names, 0.0)
    with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as pool:
        for number, (name, checks, seconds) in enumerate(pool.map(_job, jobs), 1):
            found[name] += checks
            spent[name] += seconds
            for check in checks:
                if check.miss:
                    tell(f"{name}, cases {jobs[number - 1][1]}: {check}")
            tell(f"{number} of {len(jobs)} parts done: {name}")
    return {name: summary(found[name], spent[name]) for name in names}
