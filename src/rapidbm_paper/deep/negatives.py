"""What can stand in for the model average where PID fails: exact log p of small machines after training.

Restricted, deep and full machines, small enough to be enumerated, learn the bars of `moments` by the
gradient

    g = −⟨∂E/∂θ⟩_data + ⟨∂E/∂θ⟩_model                                                     (1)

whose first average is exact and whose second is each of

    exact     the sum over all states
    pid       the patterns, with no sweep, one or ten Gibbs sweeps from them at every update
    seeded    chains that start at the patterns once, and live through the training
    cd, pcd   chains from the images, and chains that live; ten sweeps
    pt        the same with a ladder of temperatures

Measured is log p of the training images, exact; 12 images have −log 12 = −2.48 at best. What an average
costs is what the exact one ends above it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.units.spin import SPIN
from rapidbm.pictures import PENS, label, panels
from rapidbm.training.loop import Progress
from rapidbm.training.trainer import Trainer

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, item, points
from ..lab import Lab, Rows, Settings, by_scale, each
from ..records import Records, Values
from .moments import small_bars

MODELS = {"rbm": "restricted", "dbm": "deep", "bm": "full"}
LOOK = dict(zip(MODELS, PENS, strict=False))
PHASES: dict[str, dict[str, Any]] = {
    "exact": {"negative": "exact"},
    "pid": {"negative": "pid", "sweeps": 0},
    "pid, 1 sweep": {"negative": "pid", "sweeps": 1},
    "pid, 10 sweeps": {"negative": "pid", "sweeps": 10},
    "seeded": {"negative": "pcd", "sweeps": 10},
    "cd": {"negative": "cd", "sweeps": 10},
    "pcd": {"negative": "pcd", "sweeps": 10},
    "pt": {"negative": "pt", "sweeps": 2, "rungs": 5},
}
CHAINS = ("seeded", "pcd", "pt")  # which live through the training
NEAR = 0.1  # nats below the exact average's end: it serves


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=2, quick=5, paper=10)
    hidden: int = by_scale(tiny=4, quick=6, paper=6)  # units of each hidden layer
    patterns: int = by_scale(tiny=3, quick=6, paper=6)
    epochs: int = by_scale(tiny=2, quick=500, paper=500)  # an update each
    rate: float = 0.02
    particles: int = by_scale(tiny=5, quick=100, paper=100)


def _trained(lab: Lab, scale: Scale, model: str) -> Values:
    """Ends of the trainings by every average."""
    data, rows = small_bars(), Rows()
    n = scale.hidden
    shape: dict[str, Any] = {
        "model": model,
        "hidden": (n, n) if model == "dbm" else (n,),
        "patterns": scale.patterns,
        "replicas": scale.instances,
        "scale": 1.0,  # ±1: from weaker ones every chain forgets at once where it started
        "dtype": "float64",
        "positive": "auto" if model == "rbm" else "enumerated",
        "epochs": scale.epochs,
        "batch_size": len(data.train),
        "rate": (scale.rate,),
    }

    def likelihood(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
        return log_likelihood(progress.machine, data.train, method="exact").value

    for i, (name, phase) in enumerate(PHASES.items()):
        part = lab.within(i / len(PHASES), (i + 1) / len(PHASES))
        living = {"particles": scale.particles} if name in CHAINS else {"particles": None}
        chosen = {**shape, **phase, **living}
        recipe = part.recipe("bars4", "small", **chosen)
        found, run = part.train(
            recipe,
            {"likelihood": likelihood},
            data=data,
            at=lambda epoch: False,
            start=seeded if name == "seeded" else None,
            name=f"phase-{i}",
        )
        rows.add({"phase": name, "likelihood": found["likelihood"][-1], "updates": run.info["update"]})
    return rows


def seeded(trainer: Trainer) -> None:
    """The chains at the patterns, one after another."""
    assert trainer.machine.patterns is not None
    signs = SPIN.nearest(trainer.machine.patterns.detach())  # (e, k, n)
    chains = trainer.chains
    chains.copy_(signs.repeat(1, -(-chains.shape[1] // signs.shape[1]), 1)[:, : chains.shape[1]])


PARTS = each(_trained, tuple(MODELS))


def _ends(record: Any) -> dict[str, Number]:
    """log p at the end, by average."""
    return dict(zip(record["phase"], Number.each(record.array("likelihood")), strict=True))


@item("What stands in for the model average", ("deep-phases",))
def deep_phases(records: Records) -> Figure:
    """Machines small enough to be enumerated, after training on bars of 2 × 4 pixels by gradients whose
    model average is each of these. Exact log p of the training images; dotted: the best that any machine
    can have. Error bars: standard errors over instances."""
    fig, (axes,) = panels(1, width=5.2, height=2.8)
    for i, (model, pen) in enumerate(LOOK.items()):
        record = records.get(f"deep-phases.{model}")
        if record is not None:
            ends = _ends(record)
            x = [j + 0.15 * (i - 1) for j in range(len(ends))]
            points(axes, x, list(ends.values()), type(pen)(pen.colour, "", pen.marker), MODELS[model])
            axes.set_xticks(range(len(ends)), list(ends), rotation=25, ha="right")
    axes.axhline(-math.log(12), color="0.5", ls=":", lw=0.9)
    label(axes, "", "log p of the training images", "")
    axes.set_yscale("symlog", linthresh=4)
    axes.set_ylim(top=-1.5)
    axes.legend(fontsize=6, loc="lower right")
    return fig


@claim(tuple(f"deep-phases.{model}" for model in MODELS))
def deep_negative(records: Records) -> Finding:
    """Sec. III.B: The model average may be estimated from the patterns, with or without Gibbs steps that
    start from them, in any Boltzmann machine.
    Read as: Exact log p after training by PID with ten sweeps, less that after training by the exact
    average, in restricted, deep and full machines; other averages beside it.
    Rule: Above −{NEAR} nats by 2 σ, in each of them."""
    answers, told = [], []
    for model, words in MODELS.items():
        record = records[f"deep-phases.{model}"]
        rows = dict(zip(record["phase"], record.array("likelihood"), strict=True))
        less = {name: Number.of(row - rows["exact"]) for name, row in rows.items() if name != "exact"}
        answers.append(less["pid, 10 sweeps"].above(-NEAR))
        each_one = ", ".join(f"{name} {number}" for name, number in less.items())
        told.append(f"{words} ({Number.of(rows['exact'])} by the exact one): {each_one}")
    return Finding(all_of(*answers), "; ".join(told))
