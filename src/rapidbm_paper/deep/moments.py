"""PID beside the truth, in machines that can be enumerated, while pure PID trains them.

The gradient of log p and what PID puts in its place,

    g = −⟨∂E/∂ξ⟩_data + ⟨∂E/∂ξ⟩_model,        ĝ = −⟨∂E/∂ξ⟩_mean field + ⟨∂E/∂ξ⟩_PID       (1)

with both averages on the left exact. Measured are the cosine of the angle between g and ĝ, the root mean
square by which PID's ⟨s_i s_j⟩ of coupled units miss the model's, exact log p, and the energies, over
that of the ground state, of what may be meant by the states of the patterns:

    all          sign(ξ) on every unit
    inferred     sign(ξ_v), the rest at the fixed point of mean field
    clamped      sign(ξ_v), the rest by Gibbs sweeps with it held
    minimum      where descent from sign(ξ) ends

beside ⟨E⟩ of the model. The images are bars of 2 rows and 4 columns, of which the two alternating ones
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset, Split
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.likelihood.moments import exact_moments
from rapidbm.machines.ensembles import AllStates
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.mean_field import mean_field
from rapidbm.sampling.quench import descend
from rapidbm.training.loop import Progress
from rapidbm.training.negative import PatternInduced
from rapidbm.training.positive import Enumerated, MeanField, positive_for

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, epochs_axis, item, points
from ..lab import Lab, Settings, by_scale, each
from ..observables import Observable, once
from ..records import Records, Values

KINDS = {  # name: model, pull of hidden units (`steering`, eq. 1), None for axons of strength 1
    "rbm": ("rbm", None),
    "dbm-weak": ("dbm", 0.3),
    "dbm": ("dbm", None),
    "bm-weak": ("bm", 0.3),
    "bm": ("bm", None),
}
NAMES = {
    "rbm": "restricted",
    "dbm-weak": "deep, c = 0.3",
    "dbm": "deep",
    "bm-weak": "full, c = 0.3",
    "bm": "full",
}
LOOK = dict(zip(NAMES, PENS, strict=False))
READINGS = ("all", "inferred", "clamped", "minimum", "model")


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=2, quick=10, paper=40)
    hidden: int = by_scale(tiny=4, quick=8, paper=8)  # units of each hidden layer
    patterns: int = 3
    epochs: int = by_scale(tiny=2, quick=60, paper=200)
    rate: float = 0.05
    looks: tuple[int, ...] = by_scale(
        tiny=(1, 2), quick=(1, 3, 10, 30, 60), paper=(1, 3, 10, 30, 60, 100, 200)
    )
    sweeps: int = 30  # of clamped chains


def small_bars() -> Dataset:
    """Bars of 2 rows: every line of 4 pixels but the uniform ones, the alternating two to test."""
    lines = SPIN.states(4, torch.arange(1, 15))
    alternating = (lines[:, 1:] != lines[:, :-1]).all(1)
    known = torch.arange(8) < 4

    def split(some: Tensor) -> Split:
        return Split(some.repeat(1, 2), known=known)

    return Dataset("small bars", split(lines[~alternating]), split(lines[alternating]), (2, 4))


# -- what is seen ---------------------------------------------------------------------------------------


@torch.no_grad()
def _angle(machine: Machine, data: Dataset, rng: torch.Generator) -> Tensor:
    """The cosine between g and ĝ of eq. (1), (e,)."""
    images = data.train.spins.to(machine.device, machine.dtype).expand(machine.replicas, -1, -1)
    exact = positive_for(machine) if machine.layers.hidden_independent else Enumerated()
    inferred = positive_for(machine) if machine.layers.hidden_independent else MeanField()
    model, _ = PatternInduced().step(machine, machine.random(1, rng), images, rng)
    truth = exact.step(machine, images, rng).gradient_difference(AllStates(machine), machine)
    guess = inferred.step(machine, images, rng).gradient_difference(model, machine)
    one, two = (x["couplings.patterns"].flatten(1) for x in (truth, guess))
    found: Tensor = torch.nn.functional.cosine_similarity(one, two, 1)
    return found


@torch.no_grad()
def _missed(machine: Machine, data: Dataset, rng: torch.Generator) -> Tensor:
    """Root mean square of PID's ⟨s_i s_j⟩ less the model's over coupled pairs, (e,)."""
    model, _ = PatternInduced().step(machine, machine.random(1, rng), machine.random(1, rng), rng)
    guess = (model.spins * model.weights[..., None]).mT @ model.spins  # (e, n, n)
    apart = (guess.double() - exact_moments(machine).pairs.to(guess.device)).square()
    coupled = torch.zeros_like(apart[0], dtype=torch.bool)
    for a, b in machine.layers.edges:
        coupled[machine.layers.slices[a], machine.layers.slices[b]] = True
    coupled = coupled.triu(1)
    return apart[:, coupled].mean(1).sqrt()


@torch.no_grad()
def _energies(sweeps_: int) -> Callable[[Progress, Dataset, torch.Generator], dict[str, Tensor]]:
    """Mean energies of the readings over that of the ground state, (e,) each."""

    def see(progress: Progress, data: Dataset, rng: torch.Generator) -> dict[str, Tensor]:
        machine = progress.machine
        assert machine.patterns is not None
        signs = SPIN.nearest(machine.patterns.detach())
        visible = signs[..., : machine.visible]
        held = torch.arange(machine.layers.columns, device=machine.device) < machine.visible
        start = machine.with_visible(visible, means=True)
        states = {
            "all": signs,
            "inferred": mean_field(machine, visible, 30),
            "clamped": sweeps(machine, start, rng, sweeps_, clamp=held, means=True),
            "minimum": descend(machine, signs),
        }
        found = {name: machine.energy(spins, means=True).mean(1) for name, spins in states.items()}
        whole = AllStates(machine).whole()
        found["model"] = (machine.energy(whole.spins, means=True) * whole.weights).sum(1)
        lowest = ground_state(machine, method="enumeration").energy
        return {name: energy.double() / lowest for name, energy in found.items()}

    return see


def _observables(scale: Scale) -> dict[str, Observable]:
    energies = once(_energies(scale.sweeps))

    def reading(name: str) -> Observable:
        return lambda progress, data, rng: energies(progress, data, rng)[name]

    def likelihood(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        return log_likelihood(progress.machine, data.train, method="exact").value

    return {
        "cosine": lambda progress, data, rng: _angle(progress.machine, data, rng),
        "missed": lambda progress, data, rng: _missed(progress.machine, data, rng),
        "likelihood": likelihood,
        **{f"energy_{name}": reading(name) for name in READINGS},
    }


# -- parts ----------------------------------------------------------------------------------------------


def _train(lab: Lab, scale: Scale, name: str) -> Values:
    model, pull = KINDS[name]
    n, data = scale.hidden, small_bars()
    chosen: dict[str, Any] = {
        "model": model,
        "hidden": (n, n) if model == "dbm" else (n,),
        "patterns": scale.patterns,
        "replicas": scale.instances,
        "epochs": scale.epochs,
        "rate": (scale.rate,),
        "batch_size": 4,
        "batch_mean": "true",
        "projection": "none",
        "dtype": "float64",
        "continuous": True,
    }
    if pull is not None:
        deep = math.sqrt(pull * data.visible / n)
        chosen["strengths"] = (1.0, 1.0, deep) if model == "dbm" else (1.0, deep)
    recipe = lab.recipe("bars4", "paper-bars", **chosen)
    return lab.train(recipe, _observables(scale), data=data, at=lambda e: e in scale.looks)[0]


PARTS = each(_train, tuple(KINDS))


@item("PID's states and moments beside exact ones", ("deep-moments",))
def deep_moments(records: Records) -> Figure:
    """Machines small enough to be enumerated, while PID trains them on bars of 2 × 4 pixels. (a) Cosine
    of the angle between PID's gradient and that of log p: above 0 a small step makes the images more
    probable. (b) By how much PID's moments of coupled pairs miss the model's, root mean square.
    (c) At the end: mean energy of what may be meant by the states of the patterns, over the ground
    state's; “model”: ⟨E⟩ at β = 1. Error bars: standard errors over instances."""
    fig, (angle, missed, energy) = panels(3, height=2.7)
    for i, (name, pen) in enumerate(LOOK.items()):
        record = records.get(f"deep-moments.{name}")
        if record is None:
            continue
        for axes, key in ((angle, "cosine"), (missed, "missed")):
            points(axes, record["epochs"], Number.each(record.array(key)), pen, NAMES[name])
        ends = [Number.of(record.array(f"energy_{reading}")[-1]) for reading in READINGS]
        x = [j + 0.12 * (i - 2) for j in range(len(READINGS))]
        points(energy, x, ends, type(pen)(pen.colour, "", pen.marker), NAMES[name])
    angle.axhline(0.0, color="0.6", lw=0.7)
    epochs_axis(angle, "cosine of PID's gradient", "(a)")
    epochs_axis(missed, "error of pair moments", "(b)", ylim=(0, None))
    label(energy, "", "energy / ground state", "(c)")
    energy.set_xticks(range(len(READINGS)), READINGS, rotation=30)
    angle.legend(fontsize=6)
    return fig


@claim(("deep-moments.rbm", "deep-moments.dbm", "deep-moments.bm"))
def deep_low_energy(records: Records) -> Finding:
    """Sec. III.B: The patterns are “low-energy configurations” also of deep and fully connected machines.
    Read as: Energy of sign(ξ) on all units over that of the ground state, less the same of the model's
    ⟨E⟩, at the end of training by pure PID.
    Rule: Not below the model's by 2 σ, in any of them."""
    answers, told = [], []
    for name in ("rbm", "dbm", "bm"):
        record = records[f"deep-moments.{name}"]
        model, mine = (record.array(f"energy_{reading}")[-1] for reading in ("model", "all"))
        less = Number.of(mine - model).below(0.0)
        answers.append(None if less is None else not less)
        told.append(f"{NAMES[name]} {Number.of(mine)} (model {Number.of(model)})")
    return Finding(all_of(*answers), "; ".join(told))
