"""The trainings on 4×4 bars behind figs. 2, 3 and 4: RAPID beside CD-10, PCD-10 and exact gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..spectra import spectrum
from .bench import Bench, Part, Values
from .courses import DISTANCES, Look, accessibilities, course, machine_for, recipe_for
from .drawing import PENS

NAMES = {"rapid": "RAPID", "cd": "CD-10", "pcd": "PCD-10", "exact": "exact gradient"}
LOOK = dict(zip(NAMES, PENS, strict=False))


@dataclass(frozen=True)
class Config:
    instances: int
    hidden: int
    patterns: int
    epochs: int
    particles: int
    exact_instances: int  # enumeration takes longest
    exact_epochs: int


SCALES = {
    "tiny": Config(2, 40, 8, 6, 20, 1, 4),
    "quick": Config(6, 1000, 8, 100, 100, 2, 60),
    "paper": Config(100, 1000, 8, 300, 2048, 100, 300),
}


def _train(bench: Bench, config: Config, name: str) -> Values:
    chosen: dict[str, Any] = {
        "hidden": (config.hidden,),
        "replicas": config.exact_instances if name == "exact" else config.instances,
        "epochs": config.exact_epochs if name == "exact" else config.epochs,
    }
    if name == "rapid":
        chosen["patterns"] = config.patterns
    if name == "pcd":
        chosen["particles"] = config.particles
    recipe = recipe_for(
        bench, "bars4", "paper-bars" if name == "rapid" else f"paper-bars-{name}", **chosen
    )
    start = machine_for(recipe, recipe.data(), bench.device)
    # The exact gradient averages over no configurations of its own.
    looks: dict[str, Look] = {**DISTANCES, **accessibilities(method=name != "exact")}
    found, trainer = course(bench, recipe, looks)
    found["singular"] = spectrum(trainer.machine).values
    found["start_singular"] = spectrum(start).values
    bench.keep(trainer.machine)
    return found


def parts(config: Config) -> dict[str, Part]:
    def one(name: str) -> Part:
        return Part(lambda bench: _train(bench, config, name))

    return {name: one(name) for name in NAMES}
