"""All of the benchmark in one go: settings in, one object of plain numbers out."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from typing import Any, cast

import torch

from rapidbm import __version__
from rapidbm.accel import rounding
from rapidbm.accel.devices import device_named
from rapidbm.display import Displayable
from rapidbm.errors import InputError, check_choice
from rapidbm.progress import quiet
from rapidbm.random import check_seed

from . import groups, peers, roofline, sizes
from .jobs import Size
from .peak import HOW

SWEEPS = 10
Result = dict[str, Any]


def busy() -> float | None:
    """The load, if it leaves too few processors for our threads."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return load if load + torch.get_num_threads() > (os.cpu_count() or 1) + 0.5 else None


def checked(device: str, precision: str) -> tuple[torch.device, rounding.Precision]:
    """The device and the precision by their names."""
    check_choice("precision", precision, rounding.PRECISIONS)
    on = device_named(device)
    if on.type not in HOW:
        raise InputError(f"bench knows cpu and cuda, not {on.type!r}; give --device cpu or cuda")
    if on.type == "cpu" and precision != "float32":
        raise InputError(
            f"products on a CPU are float32, not {precision}; leave --precision out or give --device cuda"
        )
    return on, cast(rounding.Precision, precision)


@dataclass(frozen=True, repr=False)
class Benchmark(Displayable):
    """What `rapidbm bench` measures; its `repr` is what the command prints."""

    numbers: Result

    def __repr__(self) -> str:
        from .report import lines

        return "\n".join(lines(self.numbers))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def benchmark(
    *, quick: bool = False, device: str = "auto", precision: str = "float32", seed: int = 0
) -> Benchmark:
    """How fast this machine and this library are, beside what else is installed: `rapidbm bench`."""
    check_seed(seed)
    on, rounded = checked(device, precision)
    with quiet():
        return Benchmark(measured(on, rounded, quick, seed, tell=lambda text: None))


def measured(
    device: torch.device,
    precision: rounding.Precision,
    quick: bool,
    seed: int,
    tell: Callable[[str], object],
) -> Result:
    rounds = 3 if quick else 11
    dense = Size(784, 100, chains=100) if quick else Size(784, 500)
    axons = (Size(784, 100, 4, 100),) if quick else (Size(784, 500, 40), Size(784, 3000, 190))
    replicas = (1, 5) if quick else (1, 100)
    load = busy()
    kind = "quick" if quick else device.type
    plan = sizes.PLANS[kind]
    cuda = device.type == "cuda"
    with (
        torch.random.fork_rng([device] if cuda else []),  # the peers draw from the global stream
        torch.cuda.device(device) if cuda else nullcontext(),
    ):
        torch.manual_seed(seed)
        tell("roofline")
        machine = roofline.measured(device, rounds, quick)
        with rounding.precision(precision):
            tell("peers")
            packages = peers.peers(dense, SWEEPS, rounds, device, seed)
            tell("Regularized Axons")
            patterns = peers.axons(axons, SWEEPS, rounds, device, seed)
            tell("replicas")
            side = peers.many(replicas, rounds, device)
            tell("the paper's machine for MNIST")
            large = peers.paper(*_paper(device, quick), rounds, device, seed)
            more = groups.measured(groups.PLANS[kind], device, seed, tell)
            rows = sizes.measured(plan, device, seed, tell)
        machine = roofline.best(machine, roofline.measured(device, rounds, quick))
    for row in rows:
        highest = roofline.roof(machine, precision, row["operations_per_byte"])
        row["share_of_roof"] = row["operations_per_second"] / highest
    return {
        "rapidbm": __version__,
        "torch": torch.__version__,
        "device": device.type,
        "processor": _processor(device),
        "threads": torch.get_num_threads(),
        "precision": precision,
        "busy": load,
        "quick": quick,
        "seed": seed,
        "roofline": machine,
        "peers": {"size": vars(dense), "rows": packages},
        "axons": patterns,
        "replicas": side,
        "paper": large,
        "groups": more,
        "sizes": rows,
        "fits": sizes.fits(rows),
        "sweeps_per_update": sizes.UPDATE_SWEEPS,
        "sweeps_per_call": plan.sweeps,
        "peak_bytes_from": HOW[device.type],
    }


def _paper(device: torch.device, quick: bool) -> tuple[Size, int, tuple[int, ...], int]:
    """The machine, images per update, numbers of replicas and of chains that the device bears."""
    if quick:
        return Size(784, 100, 4), 100, (1, 2), 100
    size = Size(784, 3000, 190)
    return (size, 8000, (1, 25), 16_384) if device.type == "cuda" else (size, 1000, (1,), 500)


def _processor(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} with {torch.backends.cpu.get_cpu_capability()}"
