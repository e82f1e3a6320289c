"""What can be looked at after a training, and the data that it is measured on.

These are its own, those it was trained on, unless others are named. Other data have the same width, and
whatever is measured on them says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..data.sequences import check_alphabet
from ..data.splits import Dataset, Split
from ..data.table_schema import TableSchema
from ..display import Displayable
from ..errors import InputError
from ..machines.machine import Machine
from ..training.negative import NegativePhase

Checkpoint = int | str | None  # the number of an update, `best`, `last`, or None for the usual one


@dataclass(frozen=True)
class SamplingDefaults:
    """How samples and reconstructions are made where nobody says: from where Gibbs chains start and how
    long they go (None: as long as the sampler does), passes, and whether known pixels are held."""

    start: str = "random"
    sweeps: int | None = None
    passes: int = 1
    clamp: bool = False


class Trained(Displayable, ABC):
    """What can be looked at after a training: a run folder, a machine that comes with the package, or one
    in a file or at hand."""

    info: dict[str, Any]  # of the shape `RUN`
    sampling_defaults = SamplingDefaults()
    shards = 1  # that its chains are of
    notes: tuple[str, ...] = ()  # on what is measured
    other: Dataset | None = None  # data to measure on that are not its own
    other_name: str = ""  # as the user calls them
    _kind_of_other = "other data than it was trained on: "

    @abstractmethod
    def __str__(self) -> str: ...
    @abstractmethod
    def own_data(self) -> Dataset | None:
        """What it was trained on, if that is known."""

    def data(self) -> Dataset:
        """The data to measure on: others if they were named, else its own.

        Returns
        -------
        Dataset
            The data.

        Raises
        ------
        InputError
            If there are none.
        """
        found = self.own_data() if self.other is None else self.other
        if found is None:
            raise InputError(f"{self} comes without data, which are needed here; name some: --data FILE")
        return found

    @property
    def has_data(self) -> bool:
        return True

    def parts(self) -> dict[str, Split]:
        """What is measured on, under its names: the parts of its own data; other data as they are in
        their file; nothing where there are none. Of rows on disk these are some."""
        if self.other is not None:
            return self.other.in_memory().original_parts
        return self.data().in_memory().parts if self.has_data else {}

    def measure_on(self, data: Dataset, name: str) -> None:
        """From now on these data are measured on, which it was not trained on."""
        rows, columns = self.shape
        if data.visible != rows * columns:
            raise InputError(
                f"{name} has {data.visible} columns, but {self} has {rows * columns} visible units; give "
                "data of that width"
            )
        if data.columns and self.columns and data.columns != self.columns:
            i = next(i for i, (a, b) in enumerate(zip(data.columns, self.columns, strict=True)) if a != b)
            raise InputError(
                f"the columns of {name} are not those of {self}: number {i + 1} is "
                f"{data.columns[i][:40]!r}, not {self.columns[i][:40]!r}; put them in that order"
            )
        self.other, self.other_name = data, name
        counts = {part: f"{len(split):,}" for part, split in data.original_parts.items()}
        told = ", ".join(n if part == "data" else f"{part} {n}" for part, n in counts.items())
        self.notes = (f"measured on {self._kind_of_other}{name} ({told} rows)",)

    @property
    def shape(self) -> tuple[int, int]:
        """Of its rows, as pictures show them."""
        rows, columns = self.info["data"]["shape"]
        return rows, columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names, of a table that has them."""
        return tuple(self.info["data"].get("columns", ()))

    @property
    def schema(self) -> TableSchema | None:
        """What the columns of its table are; None where it was not trained on a table of any kind."""
        told = self.info["data"].get("schema")
        return None if told is None else TableSchema.from_json(told)

    @property
    def alphabet(self) -> str:
        """The symbols of its sequences; empty where it was not trained on an alignment."""
        told = self.info["data"].get("alphabet")
        return "" if told is None else check_alphabet(told)

    @property
    def classes(self) -> tuple[int, ...]:
        """The labels that the last visible unit stands for; () where it is no label."""
        return tuple(self.info["data"].get("classes", ()))

    @property
    def label(self) -> int | None:
        """The number of the visible unit that is the label, where one is; −1 is the last."""
        schema = self.schema
        return -1 if self.classes else None if schema is None else schema.label_unit

    @property
    def replicas(self) -> int:
        return 1

    @property
    def negative(self) -> NegativePhase | None:
        """The negative phase that it was trained by, if that is known."""
        return None

    @property
    @abstractmethod
    def latest(self) -> Path:
        """The file of the newest machine."""

    def checkpoints(self) -> dict[int, Path]:
        """The saved history, if there is one: update number → file."""
        return {}

    def checkpoints_until(self, which: Checkpoint, most: int) -> list[int]:
        """The updates of checkpoints up to this one, so many at most, evenly spread."""
        last = self.where(which)[0]
        saved = [update for update in sorted(self.checkpoints()) if last is not None and update <= last]
        spread = {round(i * (len(saved) - 1) / (most - 1)) for i in range(most)} if saved else set()
        return [saved[i] for i in sorted(spread)]

    def chosen(self, which: Checkpoint = None) -> int | Literal["best", "last"]:
        """The checkpoint that is meant."""
        if which is not None:
            raise InputError(
                f"{self} is one machine without checkpoints, there is no update {which}; leave --update "
                "out"
            )
        return "last"

    @abstractmethod
    def where(self, which: Checkpoint = None) -> tuple[int | None, str]:
        """The update of a checkpoint, if that is known, and words about it."""

    @abstractmethod
    def machine(self, update: Checkpoint = None, replica: int | None = None) -> Machine: ...
    @property
    @abstractmethod
    def figures(self) -> Path:
        """The folder for pictures."""

    def picture(self, name: str) -> Path:
        """Where a picture goes."""
        return self.figures / name
