"""An update of a Potts machine with 21 states, beside `rbms`' Potts–Bernoulli machine.

    python -m benchmarks potts                  PCD-10, 100 units, 500 hidden: dense, then K=50 patterns
    python -m benchmarks potts --threads 2      as many threads of torch on either side; one unless said

Both train by SGD with as many chains, images, sweeps and threads, in float32, and keep the zero-sum gauge
of the couplings as their own trainings do; neither centres its gradient. Rounds alternate. A ratio is the
CPU time of `rbms` over that of rapidbm, so more is better; `low` and `high` are its quartiles over the
rounds, `least` is the ratio of the smallest times.

Exit code 0: both reach what is asked of them; 1: one does not; 2: bad input.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from rapidbm.errors import InputError, check_count
from rapidbm.machines.constructors import rbm
from rapidbm.machines.units.categorical import Categorical
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import sgd
from rapidbm.training.trainer import Trainer

from .clock import Action, interleaved
from .guard import summary
from .running import Row, option_parser, tell
from .speed.jobs import BATCHES, Size
from .speed.peers import REMEDY
from .speed.run import busy

STATES, SWEEPS, RATE = 21, 10, 0.01
SIZES = {"dense": Size(100, 500), "K=50": Size(100, 500, 50)}
ASKED = {"dense": 1.3, "K=50": 2.5}  # how many times as fast as rbms
ROUNDS, LEAST = 9, 0.5  # of each measurement; seconds of a side in a round


def codes(size: Size, states: int, seed: int) -> Tensor:
    """Random states 0 … q − 1 of every visible unit."""
    rows = (BATCHES * size.chains, size.visible)
    return torch.randint(states, rows, generator=stream(seed, "codes"))


def ours(size: Size, states: int, sweeps: int, seed: int) -> Action:
    machine = rbm(
        size.visible,
        size.hidden,
        size.patterns,
        units=Categorical(states),
        biases=True,
        scale=0.1 if size.patterns else 0.01,
        seed=seed,
    )
    rows, negative = codes(size, states, seed), Persistent(size.chains, sweeps)
    more = {"epochs": 10**9, "batch_size": size.chains, "seed": seed}
    return Trainer(machine, rows, negative, sgd(RATE), **more).step  # type: ignore[arg-type]


def by_rbms(size: Size, states: int, sweeps: int, seed: int) -> Action:
    from rbms.potts_bernoulli.classes import PBRBM
    from rbms.potts_bernoulli.utils import ensure_zero_sum_gauge
    from rbms.training.pcd import fit_batch_pcd

    data, ones = codes(size, states, seed).float(), torch.ones(size.chains)
    machine = PBRBM(
        0.01 * torch.randn(size.visible, states, size.hidden, generator=stream(seed, "rbms")),
        torch.zeros(size.visible, states),
        torch.zeros(size.hidden),
    )
    for parameter in machine.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.SGD(machine.parameters(), RATE, maximize=True)
    chains = machine.init_chains(size.chains)

    @torch.no_grad()
    def update() -> None:
        nonlocal chains
        batch = (data[torch.randperm(len(data))[: size.chains]], ones)
        optimizer.zero_grad(set_to_none=False)
        chains, _ = fit_batch_pcd(batch, chains, machine, sweeps, 1.0, centered=False)
        optimizer.step()
        ensure_zero_sum_gauge(machine)

    return update


def run(
    words: Sequence[str] = (),
    sizes: dict[str, Size] = SIZES,
    rounds: int = ROUNDS,
    least: float = LEAST,
) -> dict[str, Row]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args(words).threads
    check_count("the number of threads (--threads)", threads)
    if find_spec("rbms") is None:
        raise InputError(f"this is a comparison with the package rbms, which is missing: {REMEDY}")
    if load := busy():
        tell(f"the machine is busy (load {load:.1f}): ratios may be off by 15 % and more")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads), quiet():
            return {name: compared(name, size, rounds, least) for name, size in sizes.items()}
    finally:
        torch.set_num_threads(before)


def compared(name: str, size: Size, rounds: int, least: float) -> Row:
    """Milliseconds of an update on either side, and their ratio."""
    made = {kind: build(size, STATES, SWEEPS, 0) for kind, build in BUILDERS.items()}
    times = interleaved(made, rounds, pause=0, least=least, timer=time.process_time)
    mine, theirs = (times[kind].seconds for kind in BUILDERS)
    row = summary([b / a for a, b in zip(mine, theirs, strict=True)])
    row |= {"least": min(theirs) / min(mine), "asked": ASKED.get(name)}
    return row | {"ms": 1e3 * min(mine), "ms of rbms": 1e3 * min(theirs)}


def failed(rows: dict[str, Row]) -> bool:
    return any(row["asked"] is not None and row["ratio"] < row["asked"] for row in rows.values())


BUILDERS = {"rapidbm": ours, "rbms": by_rbms}
