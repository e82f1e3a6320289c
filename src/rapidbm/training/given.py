"""What a training is given, and what it refuses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..data.stored import Stored
from ..errors import InputError
from ..machines.machine import Machine
from ..machines.spins import as_spins
from .optimisers import Optimizer


def check_objects(negative: object, positive: object, projection: object, optimizer: object) -> None:
    for what, thing, method in (
        ("negative phase", negative, "step"),
        ("positive phase", positive, "step"),
        ("projection", projection, "apply"),
    ):
        if thing is not None and (isinstance(thing, type) or not hasattr(thing, method)):
            raise InputError(
                f"the {what} must be an object with {method}(), such as Persistent() or Sign(), "
                f"not {thing!r}"
            )
    if not isinstance(optimizer, Optimizer | torch.optim.Optimizer) and not callable(optimizer):
        raise InputError(f"the optimiser must be one, such as rapidbm.sgd(0.02), not {optimizer!r}")


def check_each(optimizer: Optimizer, replicas: int) -> None:
    decay = getattr(optimizer, "weight_decay", 0.0)
    momentum = getattr(optimizer, "momentum", 0.0)
    numbers = {"learning rate": optimizer.rate, "weight decay": decay, "momentum": momentum}
    for what, given in numbers.items():
        if isinstance(given, tuple) and len(given) != replicas:
            raise InputError(
                f"give one {what} or one for each of the {replicas} replicas, not {len(given)}"
            )


def rows_for(machine: Machine, data: Any) -> Tensor | Stored:
    """Spins (samples, v) of this machine on its device, a copy; rows that stay on disk as they are."""
    if hasattr(data, "train") and hasattr(data, "test"):
        raise InputError(
            "train needs spins (samples, visible) or a Split, such as data.train, not "
            f"{type(data).__name__}"
        )
    spins = data if isinstance(data, Stored) else as_spins(data, what="training data")
    shape = (len(data), data.visible) if isinstance(spins, Stored) else tuple(spins.shape)
    if len(shape) != 2 or shape[1] != machine.visible or not shape[0]:
        raise InputError(f"the data of this machine is (samples, {machine.visible}), not {shape}")
    # A copy: what the caller writes into the array later is not part of the training.
    return spins if isinstance(spins, Stored) else spins.to(machine.device, copy=True)
