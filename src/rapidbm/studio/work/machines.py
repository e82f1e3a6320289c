"""What can be dreamt of and looked at: runs of the folder, machines of the package, and specimens.

A specimen is a random machine that shows one phase, made on the spot: what the words paramagnet,
retrieval and spin glass mean is seen best where nothing was trained.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.splits import Dataset
from ...errors import InputError, LoadWarning, lookup
from ...machines.constructors import rbm
from ...machines.machine import Machine
from ...runs.folder import PRETRAINED
from ...runs.pretrained.packed import Pretrained, known, open_trained
from ...runs.single import SingleMachine
from ...runs.trained import Trained
from .page_words import without_options

SPECIMEN = "specimen:"
SIDE = 10  # of the images of a specimen


@dataclass(frozen=True)
class Specimen:
    """A random machine, its name on the page, and what it shows."""

    title: str
    text: str
    make: Callable[[], Machine]


def _patterned(count: int) -> Machine:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # one of them is meant to be overloaded
        return rbm(SIDE**2, SIDE**2, count, seed=0)


SPECIMENS = {
    "retrieval": Specimen(
        "Three random patterns", "Few patterns: each is a deep valley of its own.", lambda: _patterned(3)
    ),
    "crowded": Specimen(
        "Sixty random patterns",
        "Too many patterns for 100 units: their valleys are lost among others.",
        lambda: _patterned(60),
    ),
    "glass": Specimen(
        "A spin glass",
        "Dense random couplings: countless valleys, none of them meant.",
        lambda: rbm(SIDE**2, SIDE**2, scale=1.0, seed=0),
    ),
    "paramagnet": Specimen(
        "A paramagnet",
        "Weak random couplings: every unit does what it likes.",
        lambda: rbm(SIDE**2, SIDE**2, scale=0.02, seed=0),
    ),
}


@dataclass(frozen=True)
class Subject:
    """One machine of one replica, and whence it is."""

    name: str
    trained: Trained
    machine: Machine
    update: int | str | None
    replica: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.trained.shape

    def saved(self) -> int:
        """When the machine was saved, of a run that may be training; 0 where no file has it."""
        try:
            return self.trained.latest.stat().st_mtime_ns
        except (InputError, OSError):
            return 0

    def data(self) -> Dataset | None:
        """Its own data; None where there are none, or where they may not be read."""
        if not self.trained.has_data:
            return None
        try:
            return self.trained.data()
        except InputError:
            return None


def opened(folder: Path, name: Any) -> Trained:
    """What a name on the page stands for; nothing outside the folder but what comes with the package."""
    if not isinstance(name, str):
        raise InputError(f"a machine has a name, not {name!r}")
    if name.startswith(SPECIMEN):
        return SingleMachine(lookup("specimen", name.removeprefix(SPECIMEN), SPECIMENS).make())
    if name.startswith(PRETRAINED):
        return open_trained(name)
    return open_trained(run_folder(folder, name))


def run_folder(folder: Path, name: str) -> Path:
    """The folder of a run by the name that it is listed under: its path below `folder`."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not name or "\0" in name:
        raise InputError(f"a run is named by its path below the studio's folder, not {name!r}")
    whole = folder.joinpath(path)
    if not whole.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name!r} is a link that leads out of the studio's folder; put the run there")
    if not (whole / "run.json").is_file():
        raise InputError(f"there is no run {name!r} in the studio's folder; it may have been removed")
    return whole


def without_places(error: object, folder: Path) -> str:
    """What an error says, without where the studio's folder lies or where a link leads."""
    words = re.sub(
        r"( leads out of ).*?(: what a folder holds)", r"\1its folder\2", f"{error}", flags=re.S
    )
    for place in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):
        words = words.replace(f"{place}/", "").replace(place, "the studio's folder")
    return without_options(words) or type(error).__name__


def check_spins(machine: Machine, what: str, instead: str) -> None:
    """Refuses what is for spins alone, in a sentence for the page."""
    if not machine.layers.spins:
        raise InputError(
            f"{what} is for machines whose units are all ±1. This machine also has units for categories "
            f"or numbers, so there is nothing to show here. {instead}"
        )


def cell_names(found: Subject) -> list[str]:
    """What each visible column of a machine for a table stands for: a column of the table, and of
    categories which one; empty where the units are spins."""
    if found.machine.layers.visible_spins:
        return list(found.trained.columns)
    schema = found.trained.schema
    if schema is None:
        return []
    names: list[str] = []
    units = iter(schema.unit_columns)
    for kind, told in schema.layers():
        for states in told if kind == "categorical" else [1] * told:
            name = next(units)
            names += (
                [name] if states == 1 else [f"{name}, {state + 1} of {states}" for state in range(states)]
            )
    return names


def subject(folder: Path, asked: dict[str, Any]) -> Subject:
    """The machine that a message asks for: `machine`, and which `update` and `replica` of it."""
    name, update = asked.get("machine"), asked.get("update")
    replica = asked.get("replica") or 0
    found = opened(folder, name)
    if not isinstance(replica, int) or not 0 <= replica < found.replicas:
        raise InputError(f"{name} has {found.replicas} replicas, from 0 on; there is none {replica!r}")
    if not (update is None or isinstance(update, int) or update in ("best", "last")):
        raise InputError(f"a checkpoint is that of an update, best or last, not {update!r}")
    machine = found.machine(update, replica).requires_grad_(False)
    return Subject(str(name), found, machine, update, replica)


def embedded() -> list[dict[str, str]]:
    """The machines that are there without any run."""
    found = [
        {
            "name": f"{PRETRAINED}{name}",
            "title": f"{name.upper()}, trained",
            "text": Pretrained(path).card.line(),
        }
        for name, path in known().items()
    ]
    for name, specimen in SPECIMENS.items():
        found.append({"name": f"{SPECIMEN}{name}", "title": specimen.title, "text": specimen.text})
    return found
