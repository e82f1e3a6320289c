"""The likelihood of a validation part, watched: the best machine so far, and when to stop.

Each replica has a best machine of its own, the one after the look at which its validation part was most
probable. All of them lie in one file, with what was seen, (e,) each:

    parameter/…    the parameters that were evaluated: the average, where one is kept
    best/value     log p of the validation part, −∞ before any
    best/update    after which update
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..data.splits import Dataset
from ..machines.files import load_tensors, save_tensors
from ..machines.machine import Machine
from .recipe import Recipe


@dataclass
class Best:
    """The best machine so far of every replica."""

    value: Tensor  # (e,) float64
    update: Tensor  # (e,)
    parameters: dict[str, Tensor]

    @staticmethod
    def none_yet(machine: Machine) -> Best:
        value = torch.full((machine.replicas,), -torch.inf, dtype=torch.float64)
        kept = {name: p.data.cpu().clone() for name, p in machine.named_parameters()}
        return Best(value, torch.zeros(machine.replicas, dtype=torch.int64), kept)

    @staticmethod
    def read(path: Path, machine: Machine) -> Best:
        """What a file holds, or the beginning where there is none or it does not fit."""
        if not path.is_file():
            return Best.none_yet(machine)
        tensors, _ = load_tensors(path)
        kept = {name: tensors[f"parameter/{name}"] for name, _ in machine.named_parameters()}
        return Best(tensors["best/value"], tensors["best/update"], kept)

    def better(self, seen: Sequence[float | None], update: int, machine: Machine) -> bool:
        """Takes over the replicas that are better than before; whether there are any."""
        value = torch.tensor([-torch.inf if x is None else x for x in seen], dtype=torch.float64)
        new = value > self.value
        if not bool(new.any()):
            return False
        self.value, self.update = self.value.where(~new, value), self.update.masked_fill(new, update)
        for name, parameter in machine.named_parameters():
            self.parameters[name][new] = parameter.data.cpu()[new]
        return True

    def save(self, path: Path, machine: Machine) -> None:
        tensors = {f"parameter/{name}": value for name, value in self.parameters.items()}
        tensors |= {"best/value": self.value, "best/update": self.update}
        save_tensors(path, machine, tensors, {"update": int(self.update.max())})


def watches(recipe: Recipe, data: Dataset) -> bool:
    """Whether the likelihood of a validation part is measured."""
    return data.valid is not None and "log_likelihood" in recipe.metrics
