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


SCALES = {
    "tiny": Config(instances=2, hidden=40, patterns=8, epochs=6, particles=20),
    "quick": Config(instances=8, hidden=200, patterns=8, epochs=150, particles=256),
    "paper": Config(instances=100, hidden=1000, patterns=8, epochs=300, particles=2048),
}


def _train(bench: Bench, config: Config, name: str) -> Values:
    chosen: dict[str, Any] = {
        "hidden": (config.hidden,),
        "replicas": config.instances,
        "epochs": config.epochs,
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
        return Part(lambda bench: _train(bench, config, name), keeps=True)

    return {name: one(name) for name in NAMES}
