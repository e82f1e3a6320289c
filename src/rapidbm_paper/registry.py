"""Which module measures each study and which draws each item; claims are found beside them."""

from __future__ import annotations

import re
from importlib import import_module
from types import ModuleType
from typing import Any

from .claims import Claim, claims_of
from .drawing import Item
from .lab import Part

# study: the module that measures it (`Scale`, `PARTS`)
STUDIES = {
    "untrained": "untrained.accessibility",
    "bars": "bars.bars4",
    "bas": "bars.bars_and_stripes",
    "corruption": "bars.corruption",
    "mnist": "digits.mnist",
    "probe": "digits.probe",
    "costs": "untrained.costs",
    "ra-alone": "bars.without_pid",
    "projections": "bars.projections",
    "large-start": "bars.large_weights",
    "conjecture": "bars.few_patterns",
    "hopfield": "untrained.hopfield",
    "readings": "bars.algorithm",
    "landscape": "untrained.landscape",
    "deep-steering": "deep.steering",
    "deep-moments": "deep.moments",
    "deep-phases": "deep.negatives",
    "deep-worth": "deep.worth",
    "deep-digits": "deep.depth",
    "deep-mnist": "deep.likelihood",
    "deep-ghosts": "deep.ghosts",
    "deep-glass": "deep.glass",
    "deep-minima": "deep.minima",
    "inverse": "inverse.couplings",
    "inverse-intervals": "inverse.intervals",
}
# item: the module with a function of that name that draws it, in the order of the report
ITEMS = {
    "fig1": "untrained.accessibility",
    "fig2a": "bars.accessibility",
    "fig2b": "bars.accessibility",
    "fig3a": "bars.reconstruction",
    "fig3b": "bars.reconstruction",
    "fig4": "bars.singular_values",
    "fig5": "bars.bars_and_stripes",
    "fig6a": "digits.likelihood",
    "fig6b": "digits.likelihood",
    "fig6c": "digits.likelihood",
    "probe": "digits.probe",
    "fig7": "digits.patterns",
    "variants": "digits.likelihood",
    "figC1": "bars.corruption",
    "costs": "untrained.costs",
    "ra-alone": "bars.without_pid",
    "projections": "bars.projections",
    "large-start": "bars.large_weights",
    "conjecture": "bars.few_patterns",
    "hopfield": "untrained.hopfield",
    "readings": "bars.algorithm",
    "landscape": "untrained.landscape_claims",
    "deep-steering": "deep.steering",
    "deep-moments": "deep.moments",
    "deep-phases": "deep.negatives",
    "deep-worth": "deep.worth",
    "deep-digits": "deep.depth",
    "deep-bars": "deep.depth",
    "deep-mnist": "deep.likelihood",
    "deep-ghosts": "deep.ghosts",
    "deep-glass": "deep.glass",
    "deep-watched": "deep.likelihood",
    "deep-minima": "deep.minima",
    "inverse-rows": "inverse.couplings",
    "inverse-temperature": "inverse.couplings",
    "inverse-patterns": "inverse.couplings",
    "inverse-intervals": "inverse.intervals",
}


def module(name: str) -> ModuleType:
    return import_module(f"{__package__}.{name}")


def item(name: str) -> Item:
    """A figure or table by its id."""
    found: Item = getattr(module(ITEMS[name]), name.replace("-", "_"))
    return found


def settings(study: str, scale: str) -> Any:
    """The settings of a study at a scale."""
    return module(STUDIES[study]).Scale.at(scale)


def parts(study: str) -> dict[str, Part]:
    """The parts of a study by their full names."""
    found: dict[str, Part] = module(STUDIES[study]).PARTS
    return {f"{study}.{name}": part for name, part in found.items()}


def claims() -> list[Claim]:
    """All claims, in the order of the report."""
    names = dict.fromkeys([*ITEMS.values(), *STUDIES.values()])
    return [claim for name in names for claim in claims_of(module(name))]


def shown_by(claim: Claim) -> list[str]:
    """The items drawn from all that a claim needs: those that it names as the paper's figures, else those
    that stand beside it."""
    number = re.search(r"Fig\. (\w+)", claim.where)

    def draws(name: str) -> bool:
        needs = item(name).needs
        return all(need in needs or need.partition(".")[0] in needs for need in claim.needs)

    def rank(name: str) -> tuple[bool, bool]:
        named = number is not None and name.startswith(f"fig{number[1]}")
        return not named, module(ITEMS[name]).__name__ != claim.check.__module__

    found = [name for name in ITEMS if draws(name)]
    return [name for name in found if rank(name) == min(map(rank, found))]
