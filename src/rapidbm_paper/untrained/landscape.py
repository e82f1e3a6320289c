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
from dataclasses import dataclass

import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.errors import InputError
from rapidbm.glass.minima import minima, stability
from rapidbm.glass.overlaps import ultrametricity
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.sampling.samplers import ParallelTempering

from ..claims import Number
from ..lab import Lab, Part, Rows, Settings, by_scale, random_rbm
from ..records import Values


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=3, quick=6, paper=10)
    # frustration
    patterns: tuple[int, ...] = by_scale(
        tiny=(1, 2, 3, 8),
        quick=(1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 256, 1024),
        paper=(1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 256, 1024),
    )
    visible: tuple[int, ...] = by_scale(tiny=(6,), quick=(8, 12, 16), paper=(8, 12, 16, 20))
    hidden: int = by_scale(tiny=10, quick=60, paper=200)
    # minima
    minima_visible: tuple[int, ...] = by_scale(tiny=(8,), quick=(16, 64), paper=(16, 64, 256))
    minima_hidden: tuple[int, ...] = by_scale(
        tiny=(12, 24), quick=(64, 256, 1024), paper=(64, 256, 1024, 4096)
    )
    minima_patterns: tuple[int, ...] = by_scale(tiny=(2, 4), quick=(2, 4, 8, 16), paper=(2, 4, 8, 16, 32))
    starts: int = by_scale(tiny=20, quick=200, paper=300)
    # binarized
    continuous_visible: int = by_scale(tiny=6, quick=16, paper=16)
    continuous_hidden: tuple[int, ...] = by_scale(tiny=(20,), quick=(60, 240), paper=(100, 1000))
    continuous_patterns: tuple[int, ...] = by_scale(
        tiny=(1, 2, 4), quick=(1, 2, 3, 4, 6, 8, 12, 16), paper=(1, 2, 3, 4, 6, 8, 12, 16, 24)
    )
    # ultrametricity
    data: tuple[str, ...] = by_scale(
        tiny=("bars4", "bas4"),
        quick=("bars4", "bas12", "digits"),
        paper=("bars4", "bas12", "digits", "mnist"),
    )
    # the data set of the trained machine
    learnt: str = by_scale(tiny="bas4", quick="digits", paper="digits")
    units: int = by_scale(tiny=8, quick=64, paper=128)  # V = H of the random machines
    replicas: int = by_scale(tiny=1, quick=6, paper=6)  # of each of them
    # J (VH)^(1/4), 1 at the glass transition
    coldness: float = by_scale(tiny=2.0, quick=3.0, paper=3.0)
    chains: int = by_scale(tiny=12, quick=50, paper=200)
    turns: int = by_scale(tiny=2, quick=200, paper=600)  # of parallel tempering
    epochs: int = by_scale(tiny=1, quick=20, paper=50)  # of that training
    # start
    bars_hidden: int = by_scale(tiny=40, quick=400, paper=1000)
    # data set, H, K
    large: tuple[str, int, int] = by_scale(
        tiny=("bas4", 10, 2), quick=("digits", 200, 16), paper=("mnist", 3000, 190)
    )
    temperatures: int = by_scale(tiny=20, quick=500, paper=1000)


# -- frustration --------------------------------------------------------------------------------------


def satisfied(machine: Machine) -> Tensor:
    """f of eq. (1) by an exact ground state, (e,)."""
    ground = ground_state(machine, method="exact").energy
    return -ground / machine.couplings.matrix(0, 1).double().abs().sum((1, 2))


def _frustration(lab: Lab, scale: Scale) -> Values:
    found: Values = {
        "patterns": list(scale.patterns),
        "visible": list(scale.visible),
        "hidden": scale.hidden,
    }
    columns = Rows()
    for i, visible in enumerate(scale.visible):
        rows = Rows()
        for j, k in enumerate(scale.patterns):
            rng = lab.rng(visible, k)
            machine = random_rbm(visible, scale.hidden, k, rng, replicas=scale.instances)
            rows.add({"satisfied": satisfied(machine)})
            rows.add({"minima": minima(machine, scale.starts, rng).distinct})
            lab.tell((i + (j + 1) / len(scale.patterns)) / len(scale.visible))
        rng = lab.rng(visible, "gaussian")
        dense = random_rbm(visible, scale.hidden, None, rng, replicas=scale.instances, scale=1.0)
        columns.add({**rows, "gaussian": satisfied(dense)})
    found |= columns
    # One continuous pattern: the ground state is ± its signs.
    rng = lab.rng("continuous")
    sizes = (max(scale.visible), scale.hidden, 1)
    machine = random_rbm(*sizes, rng, replicas=scale.instances, continuous=True)
    spins = ground_state(machine, method="exact").spins  # (e, n)
    assert machine.patterns is not None
    overlap = (spins * SPIN.nearest(machine.patterns[:, 0])).mean(1).abs()
    found["continuous_overlap"] = overlap
    found["continuous_satisfied"] = satisfied(machine)
    found["continuous_minima"] = minima(machine, scale.starts, rng).distinct
    return found


# -- minima -------------------------------------------------------------------------------------------


def _minima(lab: Lab, scale: Scale) -> Values:
    sizes = [
        (v, h, k)
        for v in scale.minima_visible
        for h in scale.minima_hidden
        for k in scale.minima_patterns
    ]
    found: Values = {"sizes": [list(s) for s in sizes], "starts": scale.starts}
    rows = Rows()
    for i, (v, h, k) in enumerate(sizes):
        rng = lab.rng(v, h, k)
        machine = random_rbm(v, h, k, rng, replicas=scale.instances)
        valleys = minima(machine, scale.starts, rng)
        kept = stability(machine, rng)
        assert kept is not None
        rows.add({"total": valleys.total.value, "distinct": valleys.distinct})
        rows.add({"coincidence": valleys.coincidence.value, "stability": kept.value})
        lab.tell((i + 1) / len(sizes))
    return found | rows


# -- binarized patterns -------------------------------------------------------------------------------


def shares(machine: Machine, rng: torch.Generator) -> dict[str, Tensor]:
    """Energies over the ground state's, means over the patterns, (e,): the patterns as spins; their
    visible part with hidden units that follow; and random states, likewise."""
    assert machine.patterns is not None
    ground = ground_state(machine, method="exact").energy
    whole = SPIN.nearest(machine.patterns)  # (e, k, n)
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
    seen[..., machine.layers.slices[1]] = SPIN.nearest(machine.field(seen, 1))
    return seen


def _binarized(lab: Lab, scale: Scale) -> Values:
    found: Values = {
        "visible": scale.continuous_visible,
        "hidden": list(scale.continuous_hidden),
        "patterns": list(scale.continuous_patterns),
    }
    total = 2 * len(scale.continuous_hidden) * len(scale.continuous_patterns)
    done = 0
    for kind in ("binary", "continuous"):
        columns = Rows()
        for hidden in scale.continuous_hidden:
            rows = Rows()
            for k in scale.continuous_patterns:
                rng = lab.rng(kind, hidden, k)
                sizes = (scale.continuous_visible, hidden, k)
                many = {"replicas": scale.instances, "continuous": kind == "continuous"}
                rows.add(shares(random_rbm(*sizes, rng, **many), rng))
                done += 1
                lab.tell(done / total)
            columns.add(rows)
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


def _cold_samples(lab: Lab, name: str, machine: Machine, scale: Scale) -> tuple[Tensor, list[float]]:
    """Visible states by parallel tempering, (e, c, v), and by how many standard errors the energy
    still fell in the second half of the turns."""
    rng = lab.rng("cold", name)
    sampler = ParallelTempering()
    found, drift = [], []
    for e in range(machine.replicas):  # each has a ladder of its own
        one = machine.replica(e)
        state = sampler.init(one, scale.chains, rng)
        energies = []
        for t in range(scale.turns):
            state = sampler.step(one, state, rng)
            if t in (scale.turns // 2, scale.turns - 1):
                now = one.energy(sampler.spins(state))[0]
                energies.append(Number.of(now.double().cpu().numpy()))
            lab.tell((e + (t + 1) / scale.turns) / machine.replicas)
        change = energies[0] - energies[-1]
        drift.append(change.value / max(change.error, 1e-12))
        found.append(sampler.spins(state)[..., : machine.visible])
    return torch.cat(found), drift


def _ultrametricity(lab: Lab, scale: Scale) -> Values:
    rng = lab.rng("triples")
    found: Values = {"names": [], "kind": []}

    def see(name: str, kind: str, spins: Tensor, drift: list[float]) -> None:
        found["names"].append(name)
        found["kind"].append(kind)
        found[name] = {**_triangles(spins, rng), "drift": drift}

    for name in scale.data:
        data = load(name)
        images = torch.cat([data.train.spins, data.test.spins])
        order = torch.randperm(len(images), generator=rng, device=rng.device).cpu()
        see(name, "data", images[order[:1000]].to(lab.device)[None], [])
        lab.tell(0.05)
    units, count = scale.units, scale.replicas
    deviation = scale.coldness / math.sqrt(units)
    few = max(2, units // 16)  # patterns: a third of what the layers hold
    many = {"replicas": count, "scale": deviation}
    glass = random_rbm(units, units, None, lab.rng("glass"), **many)
    see("Gaussian", "glass", *_cold_samples(lab.within(0.05, 0.4), "Gaussian", glass, scale))
    many["scale"] = math.sqrt(deviation)
    ra = random_rbm(units, units, few, lab.rng("ra"), **many)
    see("RA", "random RA", *_cold_samples(lab.within(0.4, 0.7), "RA", ra, scale))
    sizes = {"hidden": (64,), "patterns": 16, "particles": 100, "replicas": (count + 1) // 2}
    recipe = lab.recipe(scale.learnt, "small", epochs=scale.epochs, **sizes)
    _, run = lab.within(0.7, 0.9).train(recipe, {}, at=lambda epoch: False)
    trained = lab.machine(run)
    see("trained", "trained", *_cold_samples(lab.within(0.9, 1.0), "trained", trained, scale))
    found |= {"units": units, "patterns": few, "coldness": scale.coldness}
    found["learnt"] = scale.learnt
    return found


# -- the start of a training --------------------------------------------------------------------------


def _initial(lab: Lab, scale: Scale) -> Values:
    found: Values = {"bars": {}, "large": {}}
    name, hidden, patterns = scale.large
    bars, large = load("bars4"), load(name)
    kinds: dict[str, tuple[bool, float]] = {
        "RA": (True, 1.0),
        "dense, 0.01": (False, 0.01),
        "dense, 1": (False, 1.0),
    }
    found["kinds"] = list(kinds)
    found["pixels"] = [bars.visible, large.visible]
    found["dataset"] = name
    for i, (kind, (regular, size)) in enumerate(kinds.items()):
        rng = lab.rng(kind)
        many = {"replicas": scale.instances, "scale": size}
        machine = random_rbm(16, scale.bars_hidden, 8 if regular else None, rng, **many)
        exact = log_likelihood(machine, bars.train.spins, method="exact")
        found["bars"][kind] = -exact.value
        lab.tell((i + 0.1) / len(kinds))
        many["replicas"] = max(2, scale.instances // 4)
        machine = random_rbm(large.visible, hidden, patterns if regular else None, rng, **many)
        found["large"][kind] = _between(machine, large.test.spins[:1000], rng, scale)
        lab.tell((i + 1) / len(kinds))
    return found


def _between(machine: Machine, images: Tensor, rng: torch.Generator, scale: Scale) -> Values:
    """The negative log-likelihood: as annealing has it, and between bounds that need no sampling,

    −E_ground ≤ log Z ≤ N log 2 − E_bound.
    """
    double = copy.deepcopy(machine).double()
    step = max(1, 2**24 // (machine.layers.columns * machine.replicas))
    parts = [double.log_prob_unnormalised(some).sum(1) for some in torch.split(images, step)]
    mean = torch.stack(parts).sum(0) / len(images)
    ground = ground_state(machine, starts=50, rng=rng)
    found: Values = {
        "proven_low": -ground.energy - mean,
        "proven_high": machine.layers.columns * math.log(2) - ground.bound - mean,
    }
    try:
        z = log_z(machine, method="ais", rng=rng, chains=100, most=scale.temperatures)
    except InputError:  # too cold for so few temperatures
        return found
    return {**found, "low": z.interval[0] - mean, "high": z.interval[1] - mean, "ess": z.ess}


PARTS = {
    "frustration": Part(_frustration),
    "minima": Part(_minima),
    "binarized": Part(_binarized),
    "ultrametricity": Part(_ultrametricity),
    "initial": Part(_initial),
}
