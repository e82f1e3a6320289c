"""A trained machine in one small file: its parameters in half precision, some images of its data as
bits, and a card that says how it was made and how good it is.

`open_trained` opens what a command is given: a run folder, or `pretrained:NAME`, the machine NAME of the
package.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.catalogue import is_file, load
from ...data.files import from_arrays
from ...data.labelled import with_labels
from ...data.mixed import from_table
from ...data.sequences import as_rows, is_alignment
from ...data.splits import Dataset, Split, top_half
from ...data.table_schema import TableSchema
from ...errors import InputError, lookup
from ...machines.files import load_machine, load_tensors, save_machine
from ...machines.machine import Machine
from ...machines.spins import to_bits
from ...random import stream
from ...schema import of_fields
from ...training.negative import NegativePhase
from ..folder import PRETRAINED, RunFolder
from ..recipe import Recipe
from ..single import ENDINGS, SingleMachine
from ..trained import Checkpoint, SamplingDefaults, Trained

HERE = Path(__file__).parent
IMAGES = 500  # of each part of the data


@dataclass(frozen=True)
class Card:
    """How a machine was made and how good it is; intervals are of 95 %."""

    data: str
    shape: tuple[int, ...]  # of an image
    machine: str  # in a few words
    parameters: int
    recipe: Mapping[str, Any]
    command: str
    replica: str  # which one of those that the command trained
    updates: int
    seconds: float  # of the training
    device: str
    log_p: Mapping[str, tuple[float, ...]]  # a part of the data: value, lower and upper end
    log_z: tuple[float, ...]
    rounding: tuple[float, ...]  # between which half precision moves log p of the test images

    def line(self) -> str:
        """The card in a line."""
        value, low, high = self.log_p["test"]
        return (
            f"{self.machine}, trained on {self.data}; log p of a test image {value:.2f} nats, "
            f"{low:.2f} to {high:.2f}"
        )


CARD = of_fields(Card)


def pack(path: str | Path, machine: Machine, data: Dataset, card: Card) -> None:
    """Writes the file of a machine of one replica, with images of `data` drawn by a fixed seed."""
    if machine.replicas != 1:
        raise InputError(f"one machine is packed, not {machine.replicas}; take machine.replica(i)")
    images = {}
    for part, split in (("train", data.train), ("test", data.test)):
        rows = torch.randperm(len(split), generator=stream(0, "pretrained", part))[:IMAGES]
        bits = np.packbits(to_bits(split.spins[rows]).numpy().astype(np.uint8), axis=1)
        images[f"images/{part}"] = torch.from_numpy(bits)
    save_machine(machine, path, half=True, beside=images, card=asdict(card))


class Pretrained(Trained):
    """A machine of the package, as the commands look at it."""

    sampling_defaults = SamplingDefaults(sweeps=500, passes=200, clamp=True)

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, f"{PRETRAINED}{path.stem}"
        self._tensors, header = load_tensors(path)
        card = CARD.checked(header.get("card"), f"{path} has no sound card:", "install rapidbm again")
        self.card = Card(**card)
        self.recipe = Recipe.from_dict(self.card.recipe)
        self.info = {"data": {"name": self.card.data, "shape": self.card.shape}}
        counts = " and ".join(f"{len(s)} {part}" for part, s in self.data().parts.items())
        self.notes = (f"measured on the {counts} images in the package",)

    def __str__(self) -> str:
        return self.name

    def _facts(self) -> list[tuple[str, str]]:
        return [("name", self.name), ("card", self.card.line())]

    def own_data(self) -> Dataset:
        """The images that are in the package."""
        train, test = (self._split(part) for part in ("train", "test"))
        return Dataset(self.card.data, train, test, self.shape)

    @property
    def negative(self) -> NegativePhase:
        return self.recipe.negative_phase()

    def _split(self, part: str) -> Split:
        rows, columns = self.shape
        packed: Tensor = lookup("part of the images", f"images/{part}", self._tensors)
        bits = np.unpackbits(packed.numpy(), axis=1, count=rows * columns)
        return Split(torch.from_numpy(bits), known=top_half(self.shape))

    @property
    def latest(self) -> Path:
        return self.path

    def where(self, which: Checkpoint = None) -> tuple[int, str]:
        self.chosen(which)
        return self.card.updates, f"the pretrained machine ({self.card.line()})"

    def machine(self, update: Checkpoint = None, replica: int | None = None) -> Machine:
        self.chosen(update)
        return load_machine(self.path, replica=replica)

    @property
    def figures(self) -> Path:
        return Path(self.name.replace(":", "-"))  # the package is no place to write to


def known() -> dict[str, Path]:
    """The machines of the package."""
    return {path.stem: path for path in sorted(HERE.glob("*.safetensors"))}


def open_trained(run: str | Path | Trained | Machine, data: Any = None) -> Trained:
    """What the commands look at: a run folder, `pretrained:NAME`, or a machine, in a file or at hand.

    `data` are what it is measured on: a data set, its name, a file, or rows. A file that holds what the
    run was trained on is where that lies now; anything else are other data.
    """
    found = _opened(run)
    if data is None:
        return found
    file = isinstance(data, (str, Path)) and is_file(str(data))
    if file and isinstance(found, RunFolder) and found.finds(Path(data)):
        return found
    if found.schema is not None:
        given = _as_table(data, found.schema)
    elif found.alphabet and isinstance(data, (str, Path)) and is_alignment(data):
        given = as_rows(Path(data), found.alphabet)
    else:
        given = _as_data(data)
        if found.classes:
            given = _with_labels_of(found, given)
    if not (isinstance(found, RunFolder) and found.is_own(given)):
        found.measure_on(given, str(data) if isinstance(data, (str, Path)) else given.name)
    return found


def _as_data(data: Any) -> Dataset:
    if isinstance(data, (str, Path)):
        return load(str(data))
    if isinstance(data, Split):
        some = data.in_memory()
        return from_arrays(some.spins, train_labels=some.labels, name="rows")
    return data if isinstance(data, Dataset) else from_arrays(data, name="rows")


def _with_labels_of(run: Trained, data: Dataset) -> Dataset:
    """Data with their labels as a unit, where those are the labels of a run that has them so."""
    labelled = data if data.classes else with_labels(data)
    if labelled.classes != run.classes:
        raise InputError(
            f"{data.name} has labels {', '.join(map(str, labelled.classes[:20]))}, and {run} was trained "
            f"on {', '.join(map(str, run.classes[:20]))}; give data with these labels"
        )
    return labelled


def _as_table(data: Any, schema: TableSchema) -> Dataset:
    """A table in the columns of a run's own."""
    if isinstance(data, Dataset):
        return data
    name = Path(data).stem if isinstance(data, (str, Path)) else "rows"
    return from_table(data, name=name, schema=schema)


def _opened(run: str | Path | Trained | Machine) -> Trained:
    if isinstance(run, Machine):
        return SingleMachine(run)
    if isinstance(run, Trained):
        return copy(run)  # data to measure on are none to train on
    if not isinstance(run, (str, Path)):
        raise InputError(
            "give a machine, a Run, or the path of a run folder or of a machine's file, not a "
            f"{type(run).__name__}; of an estimator take machine_"
        )
    if str(run).startswith(PRETRAINED):
        return Pretrained(lookup("pretrained machine", str(run).removeprefix(PRETRAINED), known()))
    path = Path(run)
    return SingleMachine.of(path) if path.is_file() or path.suffix in ENDINGS else RunFolder(path)


def pretrained(name: str) -> Machine:
    """A trained machine that comes with the package.

    Parameters
    ----------
    name : str
        `mnist`: 28 × 28 digits.

    Returns
    -------
    Machine
        One replica.

    Raises
    ------
    InputError
        If there is no machine of that name.

    Examples
    --------
    >>> rb.pretrained("mnist").visible
    784
    """
    return load_machine(lookup("pretrained machine", name, known()))
