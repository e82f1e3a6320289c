"""RAPID on 4×4 bars and on bars and stripes, for studies that vary one choice on both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...runs.recipe import Recipe
from ...training.trainer import Trainer
from ..courses import course, hamming, recipe_for
from ..study import Bench, Number, Records, Values

DATA = ("bars", "bas")
PARTS = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class TwoSets:
    """Sizes of the trainings on both data sets."""

    bars_instances: int
    bars_hidden: int
    bars_epochs: int
    bas_size: int
    bas_instances: int
    bas_hidden: int
    bas_patterns: int
    bas_batch: int
    bas_epochs: int
    bars_tries: int  # reconstructions of each image
    bas_tries: int


def few(epoch: int) -> bool:
    """Epochs 1, 2, 5, 10, 20, 50, …"""
    return str(epoch).rstrip("0") in ("1", "2", "5")


def recipe_on(bench: Bench, config: TwoSets, data: str, **options: Any) -> Recipe:
    """The paper's recipe on one of the data sets, with some options of its own."""
    if data == "bars":
        return recipe_for(
            bench,
            "bars4",
            "paper-bars",
            hidden=(config.bars_hidden,),
            replicas=config.bars_instances,
            epochs=config.bars_epochs,
            **options,
        )
    return recipe_for(
        bench,
        f"bas{config.bas_size}",
        "paper-bas12",
        hidden=(config.bas_hidden,),
        patterns=config.bas_patterns,
        replicas=config.bas_instances,
        batch_size=config.bas_batch,
        epochs=config.bas_epochs,
        **options,
    )


def distances(
    bench: Bench,
    config: TwoSets,
    data: str,
    recipe: Recipe,
    each_epoch: Callable[[Trainer], None] | None = None,
) -> Values:
    """Hamming distances at a few epochs of a training."""
    tries = config.bars_tries if data == "bars" else config.bas_tries
    looks = {f"hamming_{part}": hamming(part, tries) for part in PARTS}
    return course(bench, recipe, looks, at=few, each_epoch=each_epoch)[0]


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


def told(records: Records, words: dict[str, str], study: str) -> str:
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
