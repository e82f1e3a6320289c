"""What a training is given, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..arrays import as_weights, mean_one
from ..data.stored import Stored
from ..errors import InputError
from ..machines.cells import known_and_filled
from ..machines.machine import Machine
from ..machines.spins import weights_of
from .optimisers import Optimizer

if TYPE_CHECKING:
    from .trainer import Trainer

StateParts = dict[str, dict[str, Tensor]]


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


def rows_for(machine: Machine, data: Any, observed: Any = None) -> tuple[Tensor | Stored, Tensor | None]:
    """Visible columns (samples, v) of this machine on its device, a copy; rows that stay on disk as they
    are. And a mask of the observed ones, (samples, v); None where all are."""
    if hasattr(data, "train") and hasattr(data, "test"):
        raise InputError(
            "train needs spins (samples, visible) or a Split, such as data.train, not "
            f"{type(data).__name__}"
        )
    if isinstance(data, Stored):
        machine.layers.check_spins("training on rows that stay on disk", "a file of their values")
    observed = getattr(data, "observed", None) if observed is None else observed
    held = None
    if observed is not None:
        if isinstance(data, Stored):
            raise InputError(
                "rows with missing cells are trained on in memory; load them with stream=False"
            )
        data, known = known_and_filled(machine, data, observed, what="training data")
        held = machine.layers.column_mask(known).to(machine.device)
        if not bool(held.any()):
            raise InputError("training data need some observed cells, and all of them are missing")
        held = None if bool(held.all()) else held
    spins = data if isinstance(data, Stored) else machine.layers.encode(data, what="training data")
    shape = (len(data), data.visible) if isinstance(spins, Stored) else tuple(spins.shape)
    if len(shape) != 2 or shape[1] != machine.visible or not shape[0]:
        raise InputError(f"the data of this machine is (samples, {machine.visible}), not {shape}")
    # A copy: what the caller writes into the array later is not part of the training.
    return spins if isinstance(spins, Stored) else spins.to(machine.device, copy=True), held


def weights_for(machine: Machine, data: Any, weights: Any, rows: Tensor | Stored) -> Tensor | None:
    """Weights of mean 1 for every replica, (e, samples), or for all of them, (1, samples), on the device
    and in the type of the machine; None where all rows weigh the same."""
    given = weights_of(data) if weights is None else weights
    if given is None:
        return None
    if isinstance(rows, Stored):
        raise InputError("rows that stay on disk have no weights; load them with stream=False")
    scaled = mean_one(as_weights(given, len(rows), machine.replicas))
    if scaled is None:
        return None
    return (scaled[None] if scaled.dim() == 1 else scaled).to(machine.device, machine.dtype)


def fitting(trainer: Trainer, state: Mapping[str, Tensor]) -> StateParts:
    """A saved state by its parts, if it is one of this training."""
    parts: StateParts = {"parameter": {}, "average": {}, "optimizer": {}}
    for key, value in state.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = value
    here = trainer.state(gathered=False, copied=False)
    lost = [key for key in here if key not in state and not key.startswith("optimizer/")]
    if lost:
        raise InputError(f"the saved state lacks {lost[0]}; it is damaged, or of other settings")
    for key, value in here.items():
        if key in state and (state[key].shape, state[key].dtype) != (value.shape, value.dtype):
            raise InputError(
                f"the saved state does not fit: {key} is {value.dtype} of {tuple(value.shape)} here "
                f"and {state[key].dtype} of {tuple(state[key].shape)} there"
            )
    wrong = _wrong(trainer, parts)
    if wrong:
        raise InputError(f"the saved state is damaged: {wrong}; take another checkpoint")
    return parts


def _wrong(trainer: Trainer, parts: StateParts) -> str:
    """What no training can have left, in words."""
    training = parts["training"]
    update, last = int(training["update"]), trainer.epochs * trainer.per_epoch
    dead = ~training["alive"].cpu()
    for states in (training["rng"][None], parts.get("shards", {}).get("rng", training["rng"][None])):
        for drawn in states:
            try:
                torch.Generator(trainer.rng.device).set_state(drawn.cpu().clone())
            except (RuntimeError, TypeError):
                return "its state of the random numbers is none"
    if not 0 <= update <= last:
        return f"it is of update {update}, and this training has {last}"
    if int(training["seed"]) < 0:
        return f"its seed is {int(training['seed'])}"
    if not bool(training["chains"].isfinite().all()):
        return "its chains are not finite"
    for name, value in {**parts["parameter"], **parts["average"]}.items():
        if not bool((value.flatten(1).isfinite().all(1).cpu() | dead).all()):
            return f"{name} is not finite"
    return ""
