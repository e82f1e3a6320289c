"""The paper's figures, tables and claims, and those that it leaves open: one module each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .study import Claim, Item, Part

# study: the module that measures it
STUDIES = {
    "untrained": "theory.fig1",
    "bars": "bars.trainings",
    "bas": "bars.fig5",
    "corruption": "bars.figC1",
    "mnist": "digits.trainings",
    "probe": "digits.probe",
    "costs": "theory.costs",
    "ra-alone": "bars.ra_alone",
    "projections": "bars.projections",
    "large-start": "bars.large_start",
    "conjecture": "theory.conjecture",
    "hopfield": "theory.hopfield",
    "readings": "bars.readings",
    "landscape": "theory.landscape",
}
# item: the module that draws it, in the order of the report
ITEMS = {
    "fig1": "theory.fig1",
    "fig2a": "bars.fig2",
    "fig2b": "bars.fig2",
    "fig3a": "bars.fig3",
    "fig3b": "bars.fig3",
    "fig4": "bars.fig4",
    "fig5": "bars.fig5",
    "fig6a": "digits.fig6",
    "fig6b": "digits.fig6",
    "fig6c": "digits.fig6",
    "probe": "digits.probe",
    "fig7": "digits.fig7",
    "variants": "digits.fig6",
    "figC1": "bars.figC1",
    "costs": "theory.costs",
    "ra-alone": "bars.ra_alone",
    "projections": "bars.projections",
    "large-start": "bars.large_start",
    "conjecture": "theory.conjecture",
    "hopfield": "theory.hopfield",
    "readings": "bars.readings",
    "landscape": "theory.landscape",
}


def module(name: str) -> Any:
    return import_module(f".{name}", __name__)


def item(name: str) -> Item:
    """A figure or table by its id."""
    found: Item = module(ITEMS[name]).ITEMS[name]
    return found


def config(study: str, scale: str) -> Any:
    """The settings of a study at a scale."""
    return module(STUDIES[study]).SCALES[scale]


def parts(study: str, scale: str) -> dict[str, Part]:
    """The parts of a study at a scale, by their full names."""
    found: dict[str, Part] = module(STUDIES[study]).parts(config(study, scale))
    return {f"{study}.{name}": part for name, part in found.items()}


def claims() -> list[Claim]:
    """All claims, in the order of the report."""
    names = dict.fromkeys([*ITEMS.values(), *STUDIES.values()])
    return [claim for name in names for claim in getattr(module(name), "CLAIMS", ())]
