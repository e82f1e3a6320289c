"""The paper's figures, tables and claims, and those that it leaves open: one module each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .bench import Claim, Item, Part

# study: the module that measures it
STUDIES = {
    "untrained": "fig1",
    "bars": "bars",
    "bas": "fig5",
    "corruption": "figC1",
    "mnist": "mnist",
    "probe": "probe",
    "costs": "costs",
    "ra-alone": "ra_alone",
    "projections": "projections",
    "large-start": "large_start",
    "conjecture": "conjecture",
    "hopfield": "hopfield",
    "readings": "readings",
    "landscape": "landscape",
}
# item: the module that draws it, in the order of the report
ITEMS = {
    "fig1": "fig1",
    "fig2a": "fig2",
    "fig2b": "fig2",
    "fig3a": "fig3",
    "fig3b": "fig3",
    "fig4": "fig4",
    "fig5": "fig5",
    "fig6a": "fig6",
    "fig6b": "fig6",
    "fig6c": "fig6",
    "probe": "probe",
    "fig7": "fig7",
    "variants": "fig6",
    "figC1": "figC1",
    "costs": "costs",
    "ra-alone": "ra_alone",
    "projections": "projections",
    "large-start": "large_start",
    "conjecture": "conjecture",
    "hopfield": "hopfield",
    "readings": "readings",
    "landscape": "landscape",
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
