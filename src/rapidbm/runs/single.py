"""A machine by itself, in a file or at hand: it can be looked at without the run that trained it.

    .safetensors    of `rapidbm.save_machine`, and checkpoints of a run
    .h5, .hdf5      of the package rbms (`exchange`)
    .dat            parameters of adabmDCA, of aligned sequences

Without data it can be sampled and diagnosed, and has a log Z; with data it is evaluated like a run.
"""

from __future__ import annotations

import math
from pathlib import Path

from ..data.splits import Dataset
from ..errors import InputError
from ..exchange.adabm_files import ENDING, read_params
from ..exchange.rbms_files import load_rbms
from ..machines.files import load_machine
from ..machines.machine import Machine
from .trained import Checkpoint, Trained

RBMS = (".h5", ".hdf5")
ENDINGS = (".safetensors", *RBMS, ENDING)


class SingleMachine(Trained):
    """One machine, as the commands look at it."""

    _kind_of_other = ""  # nobody knows what it was trained on

    def __init__(self, machine: Machine, path: Path | None = None) -> None:
        self.path = path
        self._machine = machine
        side = math.isqrt(machine.visible)
        square = side * side == machine.visible
        shape = (side, side) if square else (1, machine.visible)
        self.info = {"data": {"name": "machine" if path is None else path.stem, "shape": shape}}

    @staticmethod
    def of(path: Path) -> SingleMachine:
        """The machine of a file, by its ending."""
        if not path.is_file():
            raise InputError(f"there is no file {path}; check the path")
        if path.suffix not in ENDINGS:
            raise InputError(
                f"{path} is neither a run folder nor a file of a machine, {', '.join(ENDINGS)}; data are "
                "named by --data"
            )
        if path.suffix == ENDING:
            return SingleMachine.of_sequences(path)
        return SingleMachine(load_rbms(path) if path.suffix in RBMS else load_machine(path), path)

    @staticmethod
    def of_sequences(path: Path) -> SingleMachine:
        """The machine of a parameter file of adabmDCA."""
        machine, alphabet = read_params(path)
        single = SingleMachine(machine, path)
        sites = machine.layers.visible_units
        single.info["data"] |= {
            "shape": (1, machine.visible),
            "alphabet": alphabet,
            "columns": [str(site) for site in range(1, sites + 1)],
        }
        return single

    def __str__(self) -> str:
        return "this machine" if self.path is None else str(self.path)

    def _facts(self) -> list[tuple[str, str]]:
        return [("machine", self._machine._line()), ("file", "none" if self.path is None else str(self))]

    def own_data(self) -> None:
        return None

    @property
    def has_data(self) -> bool:
        return self.other is not None

    def measure_on(self, data: Dataset, name: str) -> None:
        super().measure_on(data, name)
        self.info["data"] |= {"shape": data.shape, "columns": data.columns}

    @property
    def replicas(self) -> int:
        return self._machine.replicas

    @property
    def latest(self) -> Path:
        raise InputError(f"{self} has no checkpoints")

    def where(self, which: Checkpoint = None) -> tuple[None, str]:
        self.chosen(which)
        return None, f"the machine of {self}" if self.path else str(self)

    def machine(self, update: Checkpoint = None, replica: int | None = None) -> Machine:
        self.chosen(update)
        return self._machine if replica is None else self._machine.replica(replica)

    @property
    def figures(self) -> Path:
        return Path() if self.path is None else self.path.parent

    def picture(self, name: str) -> Path:
        return self.figures / f"{self.info['data']['name']}-{name}"
