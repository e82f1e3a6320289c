"""The trainings on 4×4 bars behind figs. 2, 3 and 4: RAPID beside CD-10, PCD-10 and exact gradients.

The standard machines take Adam, and there are two of it (`optim`, eq. 2): the released program's, whose
clock ticks with the epochs, and the usual one, by updates. The paper's claims are judged with the first,
which learns more slowly and is followed for longer, by fewer instances; the second stands beside it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from ...glass.spectra import spectrum
from ...machines.machine import Machine
from ...runs.run import on_log_grid
from ...training.optimisers import CLOCKS
from ...training.trainer import Trainer
from ..courses import DISTANCES, Look, accessibilities, course, likelihoods, machine_for, recipe_for
from ..drawing import PENS
from ..study import Bench, Part, Record, Values

METHODS = {"cd": "CD-10", "pcd": "PCD-10", "exact": "exact gradient"}
# part of a method: released and usual Adam
RELEASED, USUAL = ({method: f"{method}-{clock}" for method in METHODS} for clock in CLOCKS[::-1])
NAMES = {
    "rapid": "RAPID",
    **{RELEASED[method]: words for method, words in METHODS.items()},
    **{USUAL[method]: f"{words}, usual Adam" for method, words in METHODS.items()},
}
LOOK = dict(zip(NAMES, PENS, strict=False))
PAPERS = tuple(f"bars.{part}" for part in ("rapid", *RELEASED.values()))  # the paper's trainings
ADAMS = "CD, PCD and exact gradients take Adam as released unless it says usual."  # of a caption
BESIDE = tuple(f"bars.{part}" for part in USUAL.values())


@dataclass(frozen=True)
class Config:
    instances: int
    hidden: int
    patterns: int
    epochs: int  # at which the paper's figures end
    particles: int
    exact_instances: int  # enumeration takes longest
    exact_epochs: int
    # with the released program's Adam
    longer_instances: int
    longer_exact_instances: int
    longer_epochs: int


SCALES = {
    "tiny": Config(2, 40, 8, 6, 20, 1, 4, 2, 1, 8),
    "quick": Config(6, 1000, 8, 100, 100, 2, 60, 3, 1, 100),
    "paper": Config(100, 1000, 8, 300, 2048, 100, 300, 25, 10, 1200),
}


def _train(bench: Bench, config: Config, name: str) -> Values:
    method, _, clock = name.partition("-")
    chosen: dict[str, Any] = {"hidden": (config.hidden,)}
    if clock == "epoch":
        few = config.longer_exact_instances if method == "exact" else config.longer_instances
        chosen |= {"replicas": few, "epochs": config.longer_epochs}
    elif method == "exact":
        chosen |= {"replicas": config.exact_instances, "epochs": config.exact_epochs}
    else:
        chosen |= {"replicas": config.instances, "epochs": config.epochs}
    if method == "rapid":
        chosen["patterns"] = config.patterns
    if method == "pcd":
        chosen["particles"] = config.particles
    preset = {"rapid": "paper-bars", f"{method}-epoch": f"paper-bars-{method}"}
    recipe = recipe_for(bench, "bars4", preset.get(name, f"paper-bars-{name}"), **chosen)
    start = machine_for(recipe, recipe.data(), bench.device)
    # The exact gradient averages over no configurations of its own.
    looks: dict[str, Look] = {**DISTANCES, **accessibilities(method=method != "exact")}
    if clock == "epoch":
        looks["likelihood"] = likelihoods
    ends: list[Machine] = []  # the machines where the paper stops

    def keep(trainer: Trainer) -> None:
        if trainer.progress().epoch == min(config.epochs, recipe.epochs):
            ends.append(copy.deepcopy(trainer.machine))

    def at(epoch: int) -> bool:
        return on_log_grid(epoch) or (clock == "epoch" and epoch % 50 == 0)

    found, _ = course(bench, recipe, looks, at=at, each_epoch=keep)
    if "likelihood" in found:
        found["likelihood_train"] = [train for train, _ in found.pop("likelihood")]
    (end,) = ends
    found["singular"] = spectrum(end).values
    found["start_singular"] = spectrum(start).values
    bench.keep(end)
    return found


def parts(config: Config) -> dict[str, Part]:
    def one(name: str) -> Part:
        return Part(lambda bench: _train(bench, config, name))

    return {name: one(name) for name in NAMES}


def paper_end(record: Record) -> int:
    """The row of a course at which the paper stops; the released Adam's goes on."""
    epochs = record["epochs"]
    last = min(record.settings.get("epochs", epochs[-1]), epochs[-1])
    return max(row for row, epoch in enumerate(epochs) if epoch <= last)
