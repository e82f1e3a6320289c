"""The training of one batch, in a run folder of its own: whoever has a plan can call it, anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ..accel.devices import device_named
from ..data.catalogue import is_file
from ..data.splits import Dataset
from ..errors import InputError
from ..runs.folder import RunFolder
from ..runs.metrics import METRICS
from ..runs.recipe import Recipe
from ..runs.run import Run, Step
from .planning import Batch

OF_DATA = ("dataset", "threshold", "binarize", "split", "data_seed", "valid")


def train(study: Path, batch: Batch, stop: Callable[[], bool] = lambda: False) -> Iterator[Step]:
    """Trains a batch to its end, from the beginning or from where it was left; says so after every few
    updates. One that is finished has nothing to say."""
    found = begun(study, batch)
    if found is not None and found.status == "finished":
        return
    folder = batch.folder(study)
    if found is None:
        run = Run.create(folder, batch.recipe, batch.preset)
    else:  # whoever has the study has named its file
        named = batch.recipe.dataset
        run = Run(folder, named if is_file(named) else None)
    yield from run.go(stop)


def begun(study: Path, batch: Batch) -> RunFolder | None:
    """The run folder of a batch, if there is one."""
    folder = batch.folder(study)
    if not (folder / "run.json").exists():
        return None
    run = RunFolder(folder)
    recipe = run.recipe
    if recipe.budget is not None:  # it plans its epochs itself
        recipe = replace(recipe, epochs=batch.recipe.epochs)
    if recipe != batch.recipe:
        raise InputError(
            f"{folder} has other settings than its sweep: it was made longer, or by another sweep; move "
            "it away, or sweep into another --out"
        )
    return run


def finished(study: Path, batch: Batch) -> RunFolder | None:
    """The run folder of a batch that is trained to its end."""
    run = begun(study, batch)
    return run if run is not None and run.status == "finished" else None


def check(batch: Batch, measure: str, loaded: dict[str, Dataset]) -> None:
    """Builds a training and lets it go: it says what does not fit. Data stay `loaded` for the next."""
    recipe, data = batch.recipe, data_of(batch.recipe, loaded)
    if measure.endswith("_valid") and data.valid is None:
        raise InputError(f"{measure} is that of a validation part; give valid = 0.1 under [fixed]")
    trainer = recipe.trainer(data, device_named(recipe.device))
    for name in recipe.metrics:
        METRICS[name].check(trainer.machine)


def data_of(recipe: Recipe, loaded: dict[str, Dataset]) -> Dataset:
    """Its data, which stay loaded."""
    words = data_words(recipe)
    if words not in loaded:
        loaded[words] = recipe.data()
    return loaded[words]


def data_words(recipe: Recipe) -> str:
    """What tells one choice of data from another."""
    return repr([*(getattr(recipe, name) for name in OF_DATA), recipe.options])
