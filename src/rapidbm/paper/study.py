"""What an experiment is made of.

A *study* measures: a module with a frozen `Config`, one per scale in `SCALES`, and
`parts(config)`, pieces of work that each leave one record of plain numbers. An *item* draws: a figure
or a table of the paper, from records alone. A *claim* judges: a sentence of the paper, from records
alone. A module's `ITEMS` and `CLAIMS` hold what it has of the last two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..disk import read_json, write_bytes
from ..machines.files import load_machine, save_machine
from ..machines.machine import Machine
from ..random import generator
from ..schema import Anything, Names, Text, Whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE_NAMES = ("tiny", "quick", "paper")
DIGITS = 7  # of a number in a record: as many as float32 has
Values = dict[str, Any]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bench:
    """Where a part works: its device, its random numbers, the machines it keeps, whom it tells."""

    name: str  # "study.part"
    device: torch.device
    seed: int
    machines: Path
    tell: Callable[[float], None]  # the share that is done; raises when the work is to stop

    def rng(self, *words: object) -> torch.Generator:
        """A stream of this part's own."""
        return generator(self.seed, self.name, *words, device=self.device)

    def keep(self, machine: Machine) -> None:
        """Saves the machine for the parts that need it."""
        self.machines.mkdir(parents=True, exist_ok=True)
        save_machine(machine, machine_path(self.machines, self.name))

    def kept(self, name: str) -> Machine:
        """The machine that the part `name` saved."""
        machine = load_machine(machine_path(self.machines, name)).to(self.device)
        return machine.requires_grad_(False)


def machine_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


@dataclass(frozen=True)
class Part:
    """A piece of work that leaves one record; `needs` names parts whose machines it takes."""

    run: Callable[[Bench], Values]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """The numbers that a part left, with the settings that gave them."""

    name: str
    scale: str
    seed: int
    settings: Values
    values: Values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def array(self, key: str) -> Array:
        """Numbers, with NaN for what was not finite."""
        return np.array(self.values[key], dtype=float)


Records = Mapping[str, Record]


@dataclass(frozen=True)
class Item:
    """A figure or a table: `needs` are the records it may use, 'study.part', or 'study' for all."""

    title: str
    needs: tuple[str, ...]
    draw: Callable[[Records], Figure]
    caption: Callable[[Records], str]


@dataclass(frozen=True)
class Finding:
    """What records say of a claim; `holds` is None when they cannot tell."""

    holds: bool | None
    measured: str  # the numbers, with their errors
    note: str = ""  # what a reader should know beside the verdict


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and how it is judged: as strictly as it is put, no more and no less."""

    name: str
    where: str  # in the paper
    says: str  # the paper, in short
    reads: str  # what we take it to mean, as something that can be measured
    rule: str  # when it holds: a limit, and how many standard errors σ it must be passed by
    needs: tuple[str, ...]  # records, 'study.part', without which it is not measured
    check: Callable[[Records], Finding]
    also: tuple[str, ...] = ()  # records that say more, where they are there
    full: bool = False  # it speaks of trainings at the paper's sizes to their end: not judged below
    one_recipe: bool = (
        False  # when it fails, it fails with the recipe that was tried: no refutation
    )


# -- records as files ---------------------------------------------------------------------------------


def settings_of(config: Any) -> Values:
    """A config as it stands in a file."""
    values: Values = json.loads(json.dumps(asdict(config)))
    return values


def plain(value: Any) -> Any:
    """Tensors and arrays as lists of rounded numbers; what is not finite becomes null."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def write_record(folder: Path, record: Record) -> None:
    """One line per value, so that files stay small and differences readable."""
    head = {k: v for k, v in asdict(record).items() if k != "values"}
    lines = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in head.items()]
    inner = [
        f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False, separators=(',', ':'))}"
        for k, v in plain(record.values).items()
    ]
    lines.append('"values": {\n' + ",\n".join(inner) + "\n}")
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / f"{record.name}.json", ("{\n" + ",\n".join(lines) + "\n}\n").encode())


RECORD = Names(
    {
        "name": Text(),
        "scale": Text(),
        "seed": Whole(),
        "settings": Names({}, others=Anything()),
        "values": Names({}, others=Anything()),
    },
    others=Anything(),
)


def read_record(path: Path) -> Record:
    found = read_json(path, RECORD, "a record", "remove it, and it is measured again")
    return Record(**{name: found[name] for name in RECORD.must})


# -- numbers ------------------------------------------------------------------------------------------


# Student's t: what takes the place of 2 standard errors with so few degrees of freedom.
STUDENT = (13.97, 4.53, 3.31, 2.87, 2.65, 2.52, 2.43, 2.37, 2.32, 2.28)


@dataclass(frozen=True)
class Number:
    """A mean over instances with its standard error; `count` 0 stands for an error that is known."""

    value: float
    error: float
    count: int = 0

    @staticmethod
    def of(values: Sequence[float] | Array) -> Number:
        found = np.asarray(values, dtype=float)
        found = found[np.isfinite(found)]
        if not len(found):
            return Number(math.nan, math.nan, 0)
        error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
        return Number(float(found.mean()), error, len(found))

    def __sub__(self, other: Number) -> Number:
        error = math.hypot(self.error, other.error)
        counts = [n.count for n in (self, other) if n.count]  # a known error costs no freedom
        return Number(self.value - other.value, error, min(counts, default=0))

    def margin(self, sigmas: float = 2.0) -> float:
        """So many standard errors, more of them the fewer the instances; infinite without an error."""
        if not math.isfinite(self.error):
            return math.inf
        wide = 1.0
        if self.count > 1:
            free = self.count - 1
            wide = (STUDENT[free - 1] if free <= len(STUDENT) else 2.0 + 2.7 / free) / 2.0
        return sigmas * wide * self.error

    def above(self, limit: float, sigmas: float = 2.0) -> bool | None:
        """Whether it lies above the limit; None when the error leaves it open."""
        apart = self.value - limit
        if not math.isfinite(apart) or abs(apart) <= self.margin(sigmas):
            return None
        return apart > 0

    def below(self, limit: float, sigmas: float = 2.0) -> bool | None:
        found = self.above(limit, sigmas)
        return None if found is None else not found

    def within(self, limit: float, sigmas: float = 2.0) -> bool | None:
        """Whether its size is below the limit."""
        return Number(abs(self.value), self.error, self.count).below(limit, sigmas)

    def __str__(self) -> str:
        if max(abs(self.value), self.error) < 1e-12:
            return "0"
        if not math.isfinite(self.error):
            return f"{self.value:.4g}"
        if self.error < 1e-6 * abs(self.value):  # all instances alike: a record has seven digits
            return f"{self.value:.4g} ± 0"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        if digits > 6 or abs(self.value) >= 1e6:
            return f"{self.value:.4g} ± {self.error:.2g}"
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


def any_of(*answers: bool | None) -> bool | None:
    """True if one is, None if one is open, else False."""
    if any(answers):
        return True
    return None if any(answer is None for answer in answers) else False


def all_of(*answers: bool | None) -> bool | None:
    """False if one is, None if one is open, else True."""
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True
