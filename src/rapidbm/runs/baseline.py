"""What a run begins with: the best machine of its trials, or that of independent columns or of a tree.

It is the run's best machine until the training has a better one, by the pessimistic end

    worst = value − 2 error                                                               (1)

of the likelihood of the validation part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..accel.devices import device_named
from ..arrays import counting_weights, mean_one
from ..data.splits import Dataset
from ..disk import inside
from ..estimates import Estimate
from ..likelihood.chow_liu import ChowLiuTree
from ..likelihood.row_means import RowMeans
from ..machines import trusted
from ..machines.files import save_tensors
from ..machines.machine import Machine
from ..random import stream
from .folder import RunFolder
from .incomplete import mean_log_p
from .metrics import BOUND
from .monitor import DOUBT, judging
from .recipe import Recipe

COLUMNS, TREE = "independent columns", "a tree"
SMOOTHING = (0.03, 0.3, 3.0)  # of trees that are compared
BEFORE = -1  # the update of a best machine that is not of the training itself


@dataclass(frozen=True)
class Baseline:
    """The best machine before a run, of one replica."""

    what: str  # a trial, independent columns or a tree
    value: float  # log p of the validation part
    error: float
    parameters: dict[str, Tensor]

    @property
    def worst(self) -> float:
        """Eq. (1)."""
        end = self.value - DOUBT * self.error
        return end if math.isfinite(end) else -math.inf

    @property
    def verb(self) -> str:
        return "are" if self.what == COLUMNS else "is"

    def save(self, run: RunFolder, machine: Machine) -> None:
        """Writes it into a new run folder, as if each replica of its machine had come to it."""
        inside(run.folder, "checkpoints").mkdir(exist_ok=True)
        e = machine.replicas
        best = {f"parameter/{k}": x.repeat(e, *[1] * (x.dim() - 1)) for k, x in self.parameters.items()}
        best["best/value"] = torch.full((e,), self.value, dtype=torch.float64)
        best["best/error"] = torch.full((e,), self.error, dtype=torch.float64)
        best["best/update"] = torch.full((e,), BEFORE)
        save_tensors(run.best, machine, best, {"update": 0})
        run.note("best_from", {"what": self.what, "value": self.value, "error": self.error})


def independent_columns(recipe: Recipe, data: Dataset) -> Baseline:
    """The machine of a recipe without couplings, with the marginals of the training data: its log Z is
    exact, and nothing that is worse is worth having."""
    machine = _alone(recipe, data)
    for parameter in machine.couplings.parameters():
        parameter.zero_()
    if machine.biases is not None:
        machine.start_biases(data.train.in_memory())
    free, rest = machine.random(1, stream(0, device=machine.device)), 0.0
    for layer in range(len(machine.layers.sizes)):
        field = trusted.field(machine, free, layer).double()
        rest += float(machine.unit(layer).log_sum(field).sum())
    kept = {name: p.data.cpu() for name, p in machine.named_parameters()}
    return Baseline(COLUMNS, *_valid(recipe, machine, data, rest, 0.0), kept)


def best_tree(recipe: Recipe, data: Dataset) -> Baseline:
    """The machine of a recipe that is the best tree of columns (`chow_liu.py`) by the validation part, of
    some smoothed differently, as they are and loose."""
    assert data.valid is not None
    machine, rows, judges = (
        _alone(recipe, data),
        data.train.in_memory(),
        data.valid.in_memory(),
    )
    weights, judging_weights = counting_weights(rows.weights), mean_one(judges.weights)
    fitted = [ChowLiuTree.fitted(rows.spins, each, weights=weights) for each in SMOOTHING]
    rivals = [tree for one in fitted for tree in (one, one.loosened(0.1))]

    def mean_log_p_of(tree: ChowLiuTree) -> float:
        logs = torch.from_numpy(tree.log_p(judges.spins))[None]
        return float(RowMeans.of(logs, judging_weights).mean)

    best = max(rivals, key=mean_log_p_of)
    log_z = best.put(machine, alone=True)
    kept = {name: p.data.cpu() for name, p in machine.named_parameters()}
    return Baseline(TREE, *_valid(recipe, machine, data, log_z, 0.0), kept)


def _alone(recipe: Recipe, data: Dataset) -> Machine:
    """A machine of the recipe of one replica."""
    machine = replace(recipe, replicas=1).machine(data, device_named(recipe.device))
    machine.requires_grad_(False)
    return machine


def _valid(
    recipe: Recipe, machine: Machine, data: Dataset, log_z: float, error: float
) -> tuple[float, float]:
    """log p of the validation part, or its bound, with its error."""
    assert data.valid is not None
    z = Estimate(*(torch.tensor([x], dtype=torch.float64, device=machine.device) for x in (log_z, error)))
    found = mean_log_p(machine, data.valid.in_memory(), z, bound=judging(recipe) == BOUND)
    return float(found.value), float(found.error)
