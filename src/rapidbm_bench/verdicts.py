"""Whether `diagnose` is right about machines whose phase is known, and when it says that it cannot know.

Temperatures are in units of the critical one of random couplings, 1 for Sherrington and Kirkpatrick's
glass with variance 1/N and for a bipartite one with variance 1/√(VH). Loads far from the capacity, 0.2
√(VH) for two layers and 0.138 N for Hopfield's, are ordered below it and glasses above. A small or warm
glass may be undecided; no machine may be called what it is not.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import torch

from rapidbm.data.catalogue import load
from rapidbm.errors import LoadWarning
from rapidbm.glass.verdict import (
    CROSSED,
    CROWDED,
    ERGODIC,
    GLASS,
    LOST,
    ORDERED,
    PARAMAGNET,
    glassiness,
)
from rapidbm.machines.constructors import bm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.runs.diagnosis import gibbs_series
from rapidbm.training.negative import NegativePhase, PatternInduced, Persistent
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.projections import Sign
from rapidbm.training.train import train

from .running import option_parser, tell

Case = tuple[str, tuple[str, ...], Callable[[], Machine]]  # name, right verdicts, machine
GLASSY, ONE, LEARNT = (GLASS, LOST, CROSSED), (ORDERED, ERGODIC), (ORDERED, ERGODIC, CROWDED)


def sk(units: int, t: float, ferro: float = 0.0, seed: int = 0) -> Machine:
    """Sherrington and Kirkpatrick's glass, with a mean of `ferro`/N."""
    machine = bm(units, scale=1 / (t * math.sqrt(units)), seed=seed)
    cast(Dense, machine.couplings).weights["0-0"].data.add_(ferro / (t * units)).triu_(1)
    return machine


def bipartite(units: int, t: float, ferro: float = 0.0, seed: int = 0) -> Machine:
    """The same between two layers of so many units."""
    machine = rbm(units, units, scale=1 / (t * math.sqrt(units)), seed=seed)
    cast(Dense, machine.couplings).weights["0-1"].data.add_(ferro / (t * units))
    return machine


def in_field(machine: Machine, strength: float) -> Machine:
    shape = (1, machine.layers.columns)
    return Machine(machine.couplings, strength * torch.randn(shape, generator=stream(0, "field")))


def at(machine: Machine, t: float) -> Machine:
    """Patterns ±c with c² = √K / (t n), n the units that make the load."""
    n, patterns = machine.visible, machine.patterns
    assert patterns is not None
    patterns.data *= math.sqrt(math.sqrt(patterns.shape[1]) / (t * n))
    return machine


def learnt(
    name: str,
    machine: Machine,
    negative: NegativePhase,
    optimizer: Any,
    epochs: int,
    batch: int,
    **options: Any,
) -> Machine:
    data = load(name).train
    for _ in train(
        machine, data, negative, optimizer, epochs=epochs, batch_size=batch, seed=0, **options
    ):
        pass
    return machine


def cases() -> Iterator[Case]:
    for n in (40, 64, 100):
        for t in (0.2, 0.5, 0.7):
            yield f"SK, {n} units, T = {t}", GLASSY, partial(sk, n, t, seed=1)
        for t in (1.5, 3.0):
            yield f"SK, {n} units, T = {t}", (PARAMAGNET,), partial(sk, n, t, seed=1)
    yield "SK, 200 units, T = 0.2", GLASSY, lambda: sk(200, 0.2)
    for n in (30, 64, 100):
        for t in (0.3, 0.7):
            yield f"bipartite, {n}×{n}, T = {t}", GLASSY, partial(bipartite, n, t)
        for t in (1.2, 2.0):
            yield f"bipartite, {n}×{n}, T = {t}", (PARAMAGNET,), partial(bipartite, n, t)
    for t in (0.7, 0.85):
        yield f"bipartite, 200×200, T = {t}", GLASSY, partial(bipartite, 200, t, seed=2)
    for v, h, few, many in (
        (30, 30, (1, 2), (10, 20, 30)),
        (20, 40, (1,), (20,)),
        (64, 64, (2, 3), (40, 64)),
        (100, 100, (1, 3), (60, 100)),
    ):
        for k in few:
            yield f"BAM, {v}×{h}, K = {k}", (ORDERED,), partial(rbm, v, h, k, seed=0)
        for k in many:
            yield f"BAM, {v}×{h}, K = {k}", GLASSY, partial(rbm, v, h, k, seed=0)
    yield "BAM, 100×100, K = 2, T = 2", (PARAMAGNET,), lambda: at(rbm(100, 100, 2, seed=0), 2.0)
    for n, k, right in ((40, 1, (ORDERED,)), (100, 2, (ORDERED,)), (200, 5, (ORDERED,))):
        yield f"Hopfield, {n} units, K = {k}", right, partial(bm, n, 0, k, seed=0)
    for n, k in ((40, 12), (40, 40), (100, 30)):
        yield f"Hopfield, {n} units, K = {k}", GLASSY, partial(bm, n, 0, k, seed=0)
    yield (
        "Hopfield, 100 units, K = 2, T = 1.6",
        (PARAMAGNET,),
        lambda: at(bm(100, 0, 2, seed=0), 1.6),
    )
    for t, right in ((0.3, (ORDERED,)), (0.7, (ORDERED,)), (1.5, (PARAMAGNET,))):
        yield f"ferromagnet, 60 units, T = {t}", right, partial(sk, 60, 50 * t, ferro=50.0)
    yield "SK with a mean of 2/N, 100 units, T = 0.7", ONE, lambda: sk(100, 0.7, ferro=2.0)
    yield "bipartite with a mean, 100×100, T = 0.8", ONE, lambda: bipartite(100, 0.8, ferro=2.0)
    yield "bipartite in a field, 64×64, T = 2", ONE, lambda: in_field(bipartite(64, 2.0), 1.0)
    yield "free spins in a field, 32×32", ONE, lambda: in_field(bipartite(32, 50.0), 1.0)
    yield "SK in a weak field, 100 units, T = 0.3", GLASSY, lambda: in_field(sk(100, 0.3), 0.3)
    yield (
        "4×4 bars learnt, K = 3",
        LEARNT,
        lambda: learnt(
            "bars4",
            rbm(16, 100, 3, scale=0.1, biases=True, seed=0),
            Persistent(100, 2),
            adam(0.01),
            100,
            5,
        ),
    )
    yield (
        "4×4 bars learnt, dense",
        LEARNT,
        lambda: learnt("bars4", rbm(16, 30, seed=0), Persistent(100, 2), adam(0.01), 200, 5),
    )
    yield (
        "6×6 bars and stripes learnt by RAPID",
        LEARNT,
        lambda: learnt(
            "bas6", rbm(36, 200, 6, seed=0), PatternInduced(), sgd(0.02), 10, 10, projection=Sign()
        ),
    )


def verdict_on(machine: Machine, chains: int = 64, sweeps: int = 500, starts: int = 400) -> str:
    """As `diagnose` comes to it."""
    machine.requires_grad_(False)
    series = gibbs_series(machine, chains, sweeps, stream(0, "gibbs"))
    return glassiness(machine, series, stream(0, "minima"), starts=starts).verdict[0]


def run(words: Sequence[str] = ()) -> dict[str, float]:
    option_parser(__name__, __doc__).parse_args(words)
    counts = {"right": 0, "undecided": 0, "wrong": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        for name, right, make in cases():
            said = verdict_on(make())
            kind = "right" if said in right else "wrong"
            kind = "undecided" if said.startswith("undecided") else kind
            counts[kind] += 1
            if kind != "right":
                tell(f"  {kind}: {name}: {said}")
    return {"machines": sum(counts.values()), **counts}
