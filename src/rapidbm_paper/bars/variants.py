"""RAPID on 4×4 bars and on bars and stripes, for studies that vary one choice on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rapidbm.runs.recipe import Recipe

from ..claims import Number
from ..lab import Lab, Settings, by_scale
from ..observables import distances
from ..records import Records, Values

DATA = ("bars", "bas")


@dataclass(frozen=True, kw_only=True)
class BothSets(Settings):
    """Sizes of the trainings on both data sets."""

    bars_instances: int = by_scale(tiny=2, quick=12, paper=100)
    bars_hidden: int = by_scale(tiny=500, quick=1000, paper=1000)
    bars_epochs: int = by_scale(tiny=1, quick=100, paper=300)
    bas_size: int = by_scale(tiny=4, quick=8, paper=12)
    bas_instances: int = by_scale(tiny=2, quick=6, paper=10)
    bas_hidden: int = by_scale(tiny=500, quick=1000, paper=1000)
    bas_patterns: int = by_scale(tiny=6, quick=20, paper=40)
    bas_batch: int = by_scale(tiny=12, quick=20, paper=120)
    bas_epochs: int = by_scale(tiny=1, quick=30, paper=20)
    bars_tries: int = by_scale(tiny=2, quick=20, paper=100)  # reconstructions of each image
    bas_tries: int = by_scale(tiny=2, quick=10, paper=2)


def few(epoch: int) -> bool:
    """Epochs 1, 2, 5, 10, 20, 50, …"""
    return str(epoch).rstrip("0") in ("1", "2", "5")


def recipe_on(lab: Lab, scale: BothSets, data: str, **options: Any) -> Recipe:
    """The paper's recipe on one of the data sets, with some options of its own."""
    if data == "bars":
        sizes = {"hidden": (scale.bars_hidden,), "replicas": scale.bars_instances}
        return lab.recipe("bars4", "paper-bars", epochs=scale.bars_epochs, **sizes, **options)
    return lab.recipe(
        f"bas{scale.bas_size}",
        "paper-bas12",
        hidden=(scale.bas_hidden,),
        patterns=scale.bas_patterns,
        replicas=scale.bas_instances,
        batch_size=scale.bas_batch,
        epochs=scale.bas_epochs,
        **options,
    )


def course(lab: Lab, scale: BothSets, data: str, recipe: Recipe, **more: Any) -> Values:
    """Hamming distances at a few epochs of a training."""
    tries = scale.bars_tries if data == "bars" else scale.bas_tries
    return lab.train(recipe, distances(tries), at=few, **more)[0]


def called(records: Records, data: str) -> str:
    """A data set as a figure names it."""
    if data == "bars":
        return "4×4 bars"
    sizes = (record.settings.get("bas_size") for record in records.values())
    size = next((size for size in sizes if size is not None), "N")
    return f"{size}×{size} bars and stripes"


def last(records: Records, name: str, part: str = "test") -> Number:
    """The distance at the end."""
    return Number.of(records[name].array(f"hamming_{part}")[-1])


def summary(records: Records, words: dict[str, str], study: str) -> str:
    """The distances of some parts at the end, on both data sets."""
    lines = []
    for data in DATA:
        pairs = "; ".join(
            f"{said} {last(records, f'{study}.{data}-{name}', 'train')} / "
            f"{last(records, f'{study}.{data}-{name}')}"
            for name, said in words.items()
        )
        counts = {last(records, f"{study}.{data}-{name}").count for name in words}
        lines.append(f"{called(records, data)} ({max(counts)} instances): {pairs}")
    return f"final distance, training / test: {'. '.join(lines)}"


def needs(study: str, *names: str) -> tuple[str, ...]:
    """The records of some parts on both data sets."""
    return tuple(f"{study}.{data}-{name}" for data in DATA for name in names)
