"""States that outgrow the data unseen, and chains that are born at the patterns.

Persistent chains average over what they visit. A state that none of them visits can sink below the data
while nothing unlearns it, and then it is most of Z. Chains that start anew at random spins find some such
states, not all. Patterns are nearer to what a machine has made deep: chains may be born there
(`training/negative.py`). Restricted machines of several seeds are trained on static MNIST with either
birth, and of each

    log p     of test images: a machine is lost where it lies below the best one's by more than `LOST`
    below     by how much the lowest free energy of chains that have come from random spins, or from the
              patterns and their mirror images, is under the lowest of chains from images         (1)

(1) says from where such a state is found in a machine that has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.accel.devices import by_device
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.likelihood.log_z import log_bound, log_likelihood, log_z
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.sampling.gibbs import sweeps

from ..claims import Finding, claim
from ..drawing import Figure, item, legend_below
from ..lab import Lab, Settings, by_scale, each, shortened
from ..records import Records, Values

NAMES = {"patterns": "born at the patterns", "random": "born at random spins"}
LOST = 10.0  # nats


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    dataset: str = by_scale(tiny="digits", quick="mnist-static", paper="mnist-static")
    train: int | None = by_scale(tiny=300, quick=5000, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=50, quick=1000, paper=None)
    instances: int = by_scale(tiny=2, quick=2, paper=5)
    hidden: int = by_scale(tiny=10, quick=200, paper=1000)
    patterns: int = by_scale(tiny=2, quick=60, paper=222)
    updates: int = by_scale(tiny=12, quick=2000, paper=60_000)
    batch_size: int = by_scale(tiny=50, quick=100, paper=500)
    particles: int = by_scale(tiny=20, quick=100, paper=1000)
    sweeps: int = by_scale(tiny=1, quick=1, paper=10)
    lifetime: int = by_scale(tiny=10, quick=500, paper=1000)
    rate: float = by_scale(tiny=3e-3, quick=3e-3, paper=1e-3)
    decay: float = 0.003
    chains: int = by_scale(tiny=20, quick=100, paper=1000)  # of annealing
    temperatures: int = by_scale(tiny=300, quick=2000, paper=10_000)  # at most
    walk: int = by_scale(tiny=5, quick=50, paper=200)  # sweeps of the chains of eq. (1)


def _trained(lab: Lab, scale: Scale, born: str) -> Values:
    data = shortened(load(scale.dataset), scale.train, scale.test)
    recipe = lab.recipe(
        scale.dataset,
        "auto",
        hidden=(scale.hidden,),
        patterns=scale.patterns,
        replicas=scale.instances,
        born=born,
        particles=scale.particles,
        sweeps=scale.sweeps,
        lifetime=scale.lifetime,
        batch_size=scale.batch_size,
        rate=(scale.rate,),
        weight_decay=(scale.decay,),
        metrics=("hamming",),  # not asked for: the end is judged here
        epochs=max(1, round(scale.updates * scale.batch_size / len(data.train))),
        precision=by_device(lab.device, None, "bf16"),  # as trainings on a GPU have it
    )
    _, run = lab.within(0.0, 0.7).train(recipe, {}, data=data, at=lambda epoch: False)
    machine = lab.machine(run)
    images = data.train.spins[:10_000]
    z = log_z(machine, seed=lab.seed, data=images, chains=scale.chains, most=scale.temperatures)
    lab.tell(0.9)
    p = log_likelihood(machine, data.test.spins, normaliser=z)
    return {
        "parameters": sum(p.numel() for p in machine.parameters()) // machine.replicas,
        "updates": run.info["update"],
        "seconds": run.info["seconds"],
        "test": [p.value, p.lower, p.upper],
        "train": log_bound(machine, images, z).value,
        **below(machine, data, lab.rng("walks"), count=scale.patterns, walk=scale.walk),
    }


@torch.no_grad()
def below(
    machine: Machine, data: Dataset, rng: torch.Generator, *, count: int, walk: int
) -> dict[str, Tensor]:
    """Eq. (1) of as many chains from images, random spins and patterns, 2 `count` of each, (e,)."""
    assert machine.patterns is not None
    signs = SPIN.nearest(machine.patterns.detach()[:, :count])
    starts = {
        "images": machine.with_visible(data.train.spins[: 2 * count], means=True),
        "random": machine.random(2 * count, rng),
        "patterns": torch.cat([signs, -signs], 1),
    }
    lowest = {}
    for name, spins in starts.items():
        ends = sweeps(machine, spins, rng, walk, means=True)[..., : machine.visible]
        lowest[name] = machine.free_energy(ends).amin(1)
    return {f"below_{name}": lowest["images"] - lowest[name] for name in ("random", "patterns")}


PARTS = each(_trained, tuple(NAMES))


def _nlls(records: Records, name: str) -> list[float]:
    record = records.get(f"deep-ghosts.{name}")
    return [] if record is None else [-float(x) for x in record["test"][0]]


def lost(records: Records) -> dict[str, int]:
    """How many machines of each birth are."""
    best = min(x for name in NAMES for x in _nlls(records, name))
    return {name: sum(x > best + LOST for x in _nlls(records, name)) for name in NAMES}


@item("States that outgrow the data unseen", ("deep-ghosts",))
def deep_ghosts(records: Records) -> Figure:
    """Restricted machines on static MNIST, chains born again at random spins or at the patterns, a point
    for each seed. (a) Negative log-likelihood of test images; (b) how far below those from images the
    lowest free energy lies that chains find from random spins and from the patterns."""
    fig, axes = panels(2, height=2.6)
    for i, (pen, (name, words)) in enumerate(zip(PENS, NAMES.items(), strict=False)):
        record = records.get(f"deep-ghosts.{name}")
        if record is None:
            continue
        style: Any = {"color": pen.colour, "marker": pen.marker, "linestyle": "none"}
        nlls = _nlls(records, name)
        axes[0].plot([i + 0.04 * j for j in range(len(nlls))], nlls, label=words, **style)
        axes[1].plot(record["below_random"], record["below_patterns"], **style)
    axes[0].set_xticks([])
    axes[0].set_xlim(-0.5, len(NAMES) - 0.2)
    label(axes[0], "seeds", "negative log p, nats", "(a)")
    label(axes[1], "found from random spins", "found from patterns", "(b)")
    legend_below(fig, axes[0], 2)
    return fig


@claim(("deep-ghosts.patterns", "deep-ghosts.random"), full=True)
def deep_patterns_know(records: Records) -> Finding:
    """Sec. III.A: The patterns are “explicit low-energy configurations” of their machine.
    Read as: Machines that end more than {LOST} nats below the best one because of a state that no chain
    visited, of those whose chains are born at random spins and of those whose chains are born at the
    patterns.
    Rule: Some of the first and none of the second, exactly."""
    count = lost(records)
    told = []
    for name, words in NAMES.items():
        nlls = sorted(_nlls(records, name))
        each_one = ", ".join(f"{x:.2f}" for x in nlls)
        told.append(f"{words}: {count[name]} of {len(nlls)} lost ({each_one})")
    holds = None if not count["random"] and not count["patterns"] else not count["patterns"]
    return Finding(holds, "; ".join(told))
