"""What the paper says of energy landscapes and shows in no figure: five short measurements.

Frustration: no state satisfies all couplings. The share of them that the ground state satisfies,

    f = −E_ground / Σ_pairs |J_ij|        (1 where nothing is frustrated)                 (1)

is 1 for one pattern (Mattis). Two patterns give J_ij = √2 ξ_i ξ_j among the units where they agree and
among those where they do not, and 0 between the two kinds: two Mattis machines side by side, f = 1.

Minima: distinct ends of descent, estimated in all (Chao), and the overlap of a pattern with the minimum
below it, against the load: K/N of the paper, K/√(VH), K/min(V, H), or K alone.

Binarized patterns: E(sign ξ) and E(sign ξ_v, hidden units that follow) over the ground state's.

Ultrametricity: of three states the two largest distances agree. Over triples, and over the same after
the spins are shuffled unit by unit, the share whose two largest distances are the closer ones,

    excess = P(d_3 − d_2 < d_2 − d_1) − P_shuffled                                        (2)

Start: the negative log-likelihood log Z − ⟨log Σ_h exp(−E(v, h))⟩ before any training.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.catalogue import load
from ...errors import InputError, LoadWarning
from ...glass.minima import minima, stability
from ...glass.overlaps import ultrametricity
from ...ground.ground_state import ground_state
from ...likelihood.log_z import log_likelihood, log_z
from ...machines.machine import Machine, rbm
from ...machines.spins import sign
from ...sampling.samplers import ParallelTempering
from ..courses import course, recipe_for
from ..study import Bench, Number, Part, Values
from .landscape_report import CLAIMS, ITEMS

__all__ = ["CLAIMS", "ITEMS", "SCALES", "Config", "parts"]


@dataclass(frozen=True)
class Config:
    instances: int
    # frustration
    patterns: tuple[int, ...]
    visible: tuple[int, ...]
    hidden: int
    # minima
    minima_visible: tuple[int, ...]
    minima_hidden: tuple[int, ...]
    minima_patterns: tuple[int, ...]
    starts: int
    # binarized
    continuous_visible: int
    continuous_hidden: tuple[int, ...]
    continuous_patterns: tuple[int, ...]
    # ultrametricity
    data: tuple[str, ...]
    learnt: str  # the data set of the trained machine
    units: int  # V = H of the random machines
    replicas: int  # of each of them
    coldness: float  # J (VH)^(1/4), 1 at the glass transition
    chains: int
    turns: int  # of parallel tempering
    epochs: int  # of that training
    # start
    bars_hidden: int
    large: tuple[str, int, int]  # data set, H, K
    temperatures: int


SCALES = {
    "tiny": Config(
        instances=3,
        patterns=(1, 2, 3, 8),
        visible=(6,),
        hidden=10,
        minima_visible=(8,),
        minima_hidden=(12, 24),
        minima_patterns=(2, 4),
        starts=20,
        continuous_visible=6,
        continuous_hidden=(20,),
        continuous_patterns=(1, 2, 4),
        data=("bars4", "bas4"),
        learnt="bas4",
        units=8,
        replicas=1,
        coldness=2.0,
        chains=12,
        turns=5,
        epochs=1,
        bars_hidden=40,
        large=("bas4", 10, 2),
        temperatures=20,
    ),
    "quick": Config(
        instances=6,
        patterns=(1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 256, 1024),
        visible=(8, 12, 16),
        hidden=60,
        minima_visible=(16, 64),
        minima_hidden=(64, 256, 1024),
        minima_patterns=(2, 4, 8, 16),
        starts=200,
        continuous_visible=16,
        continuous_hidden=(60, 240),
        continuous_patterns=(1, 2, 3, 4, 6, 8, 12, 16),
        data=("bars4", "bas12", "digits"),
        learnt="digits",
        units=64,
        replicas=6,
        coldness=3.0,
        chains=50,
        turns=200,
        epochs=20,
        bars_hidden=400,
        large=("digits", 200, 16),
        temperatures=500,
    ),
    "paper": Config(
        instances=10,
        patterns=(1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 256, 1024),
        visible=(8, 12, 16, 20),
        hidden=200,
        minima_visible=(16, 64, 256),
        minima_hidden=(64, 256, 1024, 4096),
        minima_patterns=(2, 4, 8, 16, 32),
        starts=300,
        continuous_visible=16,
        continuous_hidden=(100, 1000),
        continuous_patterns=(1, 2, 3, 4, 6, 8, 12, 16, 24),
        data=("bars4", "bas12", "digits", "mnist"),
        learnt="digits",
        units=128,
        replicas=6,
        coldness=3.0,
        chains=200,
        turns=600,
        epochs=50,
        bars_hidden=1000,
        large=("mnist", 3000, 190),
        temperatures=1000,
    ),
}


def _rbm(
    visible: int, hidden: int, patterns: int | None, count: int, rng: torch.Generator, **more: Any
) -> Machine:
    with warnings.catch_warnings():  # loads of all kinds are the subject
        warnings.simplefilter("ignore", LoadWarning)
        machine = rbm(visible, hidden, patterns, replicas=count, rng=rng, device=rng.device, **more)
    return machine.requires_grad_(False)


# -- frustration --------------------------------------------------------------------------------------


def satisfied(machine: Machine) -> Tensor:
    """f of eq. (1) by an exact ground state, (e,)."""
    ground = ground_state(machine, method="exact").energy
    return -ground / machine.couplings.matrix(0, 1).double().abs().sum((1, 2))


def _frustration(bench: Bench, config: Config) -> Values:
    found: Values = {
        "patterns": list(config.patterns),
        "visible": list(config.visible),
        "hidden": config.hidden,
        "satisfied": [],
        "minima": [],
        "gaussian": [],
    }
    for i, visible in enumerate(config.visible):
        rows, counts = [], []
        for j, k in enumerate(config.patterns):
            rng = bench.rng(visible, k)
            machine = _rbm(visible, config.hidden, k, config.instances, rng)
            rows.append(satisfied(machine).tolist())
            counts.append(minima(machine, config.starts, rng).distinct.tolist())
            bench.tell((i + (j + 1) / len(config.patterns)) / len(config.visible))
        rng = bench.rng(visible, "gaussian")
        dense = _rbm(visible, config.hidden, None, config.instances, rng, scale=1.0)
        found["satisfied"].append(rows)
        found["minima"].append(counts)
        found["gaussian"].append(satisfied(dense).tolist())
    # One continuous pattern: the ground state is ± its signs.
    rng = bench.rng("continuous")
    machine = _rbm(max(config.visible), config.hidden, 1, config.instances, rng, continuous=True)
    spins = ground_state(machine, method="exact").spins  # (e, n)
    assert machine.patterns is not None
    overlap = (spins * sign(machine.patterns[:, 0])).mean(1).abs()
    found["continuous_overlap"] = overlap
    found["continuous_satisfied"] = satisfied(machine)
    found["continuous_minima"] = minima(machine, config.starts, rng).distinct
    return found


# -- minima -------------------------------------------------------------------------------------------


def _minima(bench: Bench, config: Config) -> Values:
    sizes = [
        (v, h, k)
        for v in config.minima_visible
        for h in config.minima_hidden
        for k in config.minima_patterns
    ]
    found: Values = {"sizes": [list(s) for s in sizes], "starts": config.starts}
    found |= {"total": [], "distinct": [], "coincidence": [], "stability": []}
    for i, (v, h, k) in enumerate(sizes):
        rng = bench.rng(v, h, k)
        machine = _rbm(v, h, k, config.instances, rng)
        valleys = minima(machine, config.starts, rng)
        kept = stability(machine, rng)
        assert kept is not None
        found["stability"].append(kept.value.tolist())
        found["total"].append(valleys.total.value.tolist())
        found["distinct"].append(valleys.distinct.tolist())
        found["coincidence"].append(valleys.coincidence.value.tolist())
        bench.tell((i + 1) / len(sizes))
    return found


# -- binarized patterns -------------------------------------------------------------------------------


def shares(machine: Machine, rng: torch.Generator) -> dict[str, Tensor]:
    """Energies over the ground state's, means over the patterns, (e,): the patterns as spins; their
    visible part with hidden units that follow; and random states, likewise."""
    assert machine.patterns is not None
    ground = ground_state(machine, method="exact").energy
    whole = sign(machine.patterns)  # (e, k, n)
    random = machine.random(100, rng)
    return {
        "whole": machine.energy(whole).mean(1) / ground,
        "followed": machine.energy(_follow(machine, whole)).mean(1) / ground,
        "lowest": machine.energy(_follow(machine, whole)).amin(1) / ground,
        "random": machine.energy(random).mean(1) / ground,
        "random_followed": machine.energy(_follow(machine, random)).mean(1) / ground,
    }


def _follow(machine: Machine, spins: Tensor) -> Tensor:
    """The visible layer of `spins`, and hidden units that each take the sign of their field."""
    seen = machine.with_visible(spins[..., : machine.visible])
    seen[..., machine.layers.slices[1]] = sign(machine.field(seen, 1))
    return seen


def _binarized(bench: Bench, config: Config) -> Values:
    found: Values = {
        "visible": config.continuous_visible,
        "hidden": list(config.continuous_hidden),
        "patterns": list(config.continuous_patterns),
    }
    total = len(config.continuous_hidden) * len(config.continuous_patterns)
    done = 0
    for kind, continuous in (("binary", False), ("continuous", True)):
        columns: dict[str, list[list[list[float]]]] = {}
        for hidden in config.continuous_hidden:
            rows: dict[str, list[list[float]]] = {}
            for k in config.continuous_patterns:
                rng = bench.rng(kind, hidden, k)
                machine = _rbm(
                    config.continuous_visible,
                    hidden,
                    k,
                    config.instances,
                    rng,
                    continuous=continuous,
                )
                for name, value in shares(machine, rng).items():
                    rows.setdefault(name, []).append(value.tolist())
                done += 1
                bench.tell(done / (2 * total))
            for name, row in rows.items():
                columns.setdefault(name, []).append(row)
        found |= {f"{kind}_{name}": column for name, column in columns.items()}
    return found


# -- ultrametricity -----------------------------------------------------------------------------------


def _triangles(spins: Tensor, rng: torch.Generator) -> Values:
    """Of states (e, c, n), one value per replica, with jackknife errors; s and −s as two, as one."""
    found: Values = {}
    for name, fold in (("plain", False), ("folded", True)):
        seen = ultrametricity(spins, rng, triples=20_000, fold=fold)
        found[name] = {
            "isosceles": seen.found.isosceles.value,
            "error": seen.found.isosceles.error,
            "null": seen.null.isosceles.value,
            "k": seen.found.k.value,
            "null_k": seen.null.k.value,
        }
    return found


def _cold_samples(
    bench: Bench, name: str, machine: Machine, config: Config, span: tuple[float, float]
) -> tuple[Tensor, list[float]]:
    """Visible states by parallel tempering, (e, c, v), and by how many standard errors the energy
    still fell in the second half of the turns."""
    rng = bench.rng("cold", name)
    sampler = ParallelTempering()
    found, drift = [], []
    for e in range(machine.replicas):  # each has a ladder of its own
        one = machine.replica(e)
        state = sampler.init(one, config.chains, rng)
        energies = []
        for t in range(config.turns):
            state = sampler.step(one, state, rng)
            if t in (config.turns // 2, config.turns - 1):
                energies.append(
                    Number.of(one.energy(sampler.spins(state))[0].double().cpu().numpy())
                )
            done = (e + (t + 1) / config.turns) / machine.replicas
            bench.tell(span[0] + (span[1] - span[0]) * done)
        change = energies[0] - energies[-1]
        drift.append(change.value / max(change.error, 1e-12))
        found.append(sampler.spins(state)[..., : machine.visible])
    return torch.cat(found), drift


def _ultrametricity(bench: Bench, config: Config) -> Values:
    rng = bench.rng("triples")
    found: Values = {"names": [], "kind": []}

    def see(name: str, kind: str, spins: Tensor, drift: list[float]) -> None:
        found["names"].append(name)
        found["kind"].append(kind)
        found[name] = {**_triangles(spins, rng), "drift": drift}

    for name in config.data:
        data = load(name)
        images = torch.cat([data.train.spins, data.test.spins])
        order = torch.randperm(len(images), generator=rng, device=rng.device).cpu()
        see(name, "data", images[order[:1000]].to(bench.device)[None], [])
        bench.tell(0.05)
    units, count = config.units, config.replicas
    deviation = config.coldness / math.sqrt(units)
    few = max(2, units // 16)  # patterns: a third of what the layers hold
    glass = _rbm(units, units, None, count, bench.rng("glass"), scale=deviation)
    see("Gaussian", "glass", *_cold_samples(bench, "Gaussian", glass, config, (0.05, 0.4)))
    ra = _rbm(units, units, few, count, bench.rng("ra"), scale=math.sqrt(deviation))
    see("RA", "random RA", *_cold_samples(bench, "RA", ra, config, (0.4, 0.7)))
    recipe = recipe_for(
        bench,
        config.learnt,
        "small",
        hidden=(64,),
        patterns=16,
        particles=100,
        epochs=config.epochs,
        replicas=(count + 1) // 2,
    )
    _, trainer = course(bench, recipe, {}, span=(0.7, 0.9))
    trained = copy.deepcopy(trainer.machine).requires_grad_(False)
    see("trained", "trained", *_cold_samples(bench, "trained", trained, config, (0.9, 1.0)))
    found |= {"units": units, "patterns": few, "coldness": config.coldness}
    found["learnt"] = config.learnt
    return found


# -- the start of a training --------------------------------------------------------------------------


def _initial(bench: Bench, config: Config) -> Values:
    found: Values = {"bars": {}, "large": {}}
    name, hidden, patterns = config.large
    bars, large = load("bars4"), load(name)
    kinds: dict[str, tuple[bool, float]] = {
        "RA": (True, 1.0),
        "dense, 0.01": (False, 0.01),
        "dense, 1": (False, 1.0),
    }
    found["kinds"] = list(kinds)
    found["pixels"] = [bars.visible, large.visible]
    found["dataset"] = name
    for i, (kind, (regular, scale)) in enumerate(kinds.items()):
        rng = bench.rng(kind)
        machine = _rbm(
            16, config.bars_hidden, 8 if regular else None, config.instances, rng, scale=scale
        )
        exact = log_likelihood(machine, bars.train.spins, method="exact")
        found["bars"][kind] = -exact.value
        bench.tell((i + 0.1) / len(kinds))
        count = max(2, config.instances // 4)
        machine = _rbm(
            large.visible, hidden, patterns if regular else None, count, rng, scale=scale
        )
        found["large"][kind] = _between(machine, large.test.spins[:1000], rng, config)
        bench.tell((i + 1) / len(kinds))
    return found


def _between(machine: Machine, images: Tensor, rng: torch.Generator, config: Config) -> Values:
    """The negative log-likelihood: as annealing has it, and between bounds that need no sampling,

    −E_ground ≤ log Z ≤ N log 2 − E_bound.
    """
    double = copy.deepcopy(machine).double()
    step = max(1, 2**24 // (machine.layers.units * machine.replicas))
    parts = [double.log_prob_unnormalised(some).sum(1) for some in torch.split(images, step)]
    mean = torch.stack(parts).sum(0) / len(images)
    ground = ground_state(machine, starts=50, rng=rng)
    found: Values = {
        "proven_low": -ground.energy - mean,
        "proven_high": machine.layers.units * math.log(2) - ground.bound - mean,
    }
    try:
        z = log_z(machine, method="ais", rng=rng, chains=100, most=config.temperatures)
    except InputError:  # too cold for so few temperatures
        return found
    return {**found, "low": z.interval[0] - mean, "high": z.interval[1] - mean, "ess": z.ess}


def parts(config: Config) -> dict[str, Part]:
    jobs = {
        "frustration": _frustration,
        "minima": _minima,
        "binarized": _binarized,
        "ultrametricity": _ultrametricity,
        "initial": _initial,
    }

    def one(job: Any) -> Part:
        return Part(lambda bench: job(bench, config))

    return {name: one(job) for name, job in jobs.items()}
