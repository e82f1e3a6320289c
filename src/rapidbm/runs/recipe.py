"""A recipe: everything a person chose for a training, flat, so that it fits a command line and a file.

Presets are recipes with names. `Recipe.made` fills what was left open from a preset and from the
data; the other methods build the objects that `train` takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..accel.fast import PRECISIONS, Precision
from ..data.catalogue import FILE_ENDINGS, load
from ..data.splits import Dataset
from ..errors import InputError, LoadWarning, check_choice, check_count, lookup, unknown
from ..machines.machine import Machine, bm, dbm, rbm
from ..random import check_seed
from ..training.negative import NEGATIVE, NegativePhase
from ..training.optimisers import (
    CLOCKS,
    Optimizer,
    Schedule,
    TorchOptimizer,
    adam,
    sgd,
    torch_optimizers,
)
from ..training.positive import POSITIVE, PositivePhase
from ..training.projections import PROJECTIONS, Projection
from ..training.trainer import Trainer
from .metrics import METRICS

T = TypeVar("T")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
SPACINGS = ("log", "epoch", "end")


@dataclass(frozen=True)
class Recipe:
    """The choices of one training; None leaves a choice to the thing it concerns."""

    dataset: str
    # data
    threshold: float | None = None
    binarize: str | None = None
    split: str | None = None
    data_seed: int | None = None
    # machine
    model: str = "rbm"
    hidden: tuple[int, ...] = (500,)
    patterns: int | None = None
    scale: float | None = None
    continuous: bool = False
    biases: bool = False
    bias_start: str = "marginals"
    replicas: int = 1
    dtype: str = "float32"
    # phases
    negative: str = "pid"
    sweeps: int | None = None
    particles: int | None = None
    rungs: int | None = None
    pattern_units: str | None = None
    positive: str = "auto"
    positive_steps: int | None = None
    # updates
    projection: str = "none"
    bound: float | None = None
    project_every: str | None = None
    optimizer: str = "sgd"
    rate: tuple[float, ...] = ()  # the optimiser's own: 0.02 for sgd, 0.001 for the others
    momentum: float | None = None
    adam_clock: str | None = None
    weight_decay: float | None = None
    decay: float = 1.0
    decay_after: int = 0
    rate_floor: float = 0.0
    fall: str = "none"
    falls: tuple[int, ...] = ()  # epochs at which earlier falls ended, of a run that was prolonged
    batch_size: int = 100
    batch_mean: str = "true"
    epochs: int = 20
    average: int | None = None
    # looking
    metrics: tuple[str, ...] = ("hamming",)
    evaluate: str = "log"
    checkpoints: str = "log"
    # where and with which numbers
    seed: int = 0
    device: str = "auto"
    precision: Precision | None = None

    def __post_init__(self) -> None:
        check_choice("model", self.model, ("rbm", "dbm", "bm"))
        check_choice("start of the biases", self.bias_start, ("marginals", "zero"))
        check_choice("type", self.dtype, DTYPES)
        check_choice("batch mean", self.batch_mean, ("true", "nominal"))
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)
        for name in self.metrics:
            lookup("metric", name, METRICS)
        spacing_of("evaluation", self.evaluate)
        spacing_of("checkpoint", self.checkpoints)
        if self.model == "rbm" and len(self.hidden) != 1:
            raise InputError(
                f"an rbm has one hidden layer, not {self.hidden}; use --model dbm for more"
            )
        if self.model == "bm" and len(self.hidden) > 1:
            raise InputError(f"a bm has at most one group of hidden units, not {self.hidden}")
        if self.patterns is None and self.continuous:
            raise InputError("continuous patterns need patterns; give --patterns K or leave it out")
        check_count("the number of replicas", self.replicas)
        check_seed(self.seed)
        if len(self.rate) not in (0, 1, self.replicas):
            raise InputError(
                f"give one rate, or one for each of the {self.replicas} replicas, "
                f"not {len(self.rate)}"
            )
        if self.bias_start != "marginals" and not self.biases:
            raise InputError("--bias-start needs biases; give --biases, or leave it out")
        if self.decay == 1 and (self.decay_after or self.rate_floor):
            raise InputError(
                "the rate does not decay, so --decay-after and --rate-floor have no effect; give "
                "--decay below 1, or leave them out"
            )
        self.negative_phase(), self.positive_phase(), self.projection_choice()
        self.optimizer_choice()

    @staticmethod
    def made(dataset: str, chosen: Mapping[str, Any], preset: str | None = None) -> Recipe:
        """A recipe from what was chosen; a preset fills in the rest."""
        name = preset or preset_for(dataset)
        values = {**lookup("preset", name, PRESETS), **chosen}
        if dataset != "mnist" and "split" not in chosen:
            values.pop("split", None)  # only mnist has the paper's split
        if chosen.get("decay") == 1:
            values = {k: v for k, v in values.items() if k in chosen or k not in _DECAY}
        if "patterns" in chosen and chosen["patterns"] is None:  # dense: nothing to project
            for key in ("projection", "scale", "bound", "project_every"):
                if key not in chosen:
                    values.pop(key, None)
        for key, owner in _BELONGS.items():
            # What a preset says of one phase or optimiser does not carry over to another.
            changed = owner in chosen and chosen[owner] != PRESETS[name].get(owner)
            if changed and key not in chosen:
                values.pop(key, None)
        if Path(dataset).suffix in FILE_ENDINGS:  # found again from wherever the run is looked at
            dataset = str(Path(dataset).resolve())
        return Recipe(dataset=dataset, **values)

    # -- what it builds ---------------------------------------------------------------------------

    def data(self) -> Dataset:
        options = {
            "threshold": self.threshold,
            "binarize": self.binarize,
            "split": self.split,
            "seed": self.data_seed,
        }
        return load(self.dataset, **{k: v for k, v in options.items() if v is not None})

    def machine(self, data: Dataset, device: torch.device) -> Machine:
        common: dict[str, Any] = {
            "patterns": self.patterns,
            "replicas": self.replicas,
            "biases": self.biases,
            "scale": self.scale,
            "continuous": self.continuous,
            "seed": self.seed,
            "device": device,
            "dtype": DTYPES[self.dtype],
        }
        with warnings.catch_warnings():
            if self.negative != "pid":  # the others do not rely on the patterns as states
                warnings.simplefilter("ignore", LoadWarning)
            if self.model == "rbm":
                machine = rbm(data.visible, self.hidden[0], **common)
            elif self.model == "dbm":
                machine = dbm(data.visible, self.hidden, **common)
            else:
                machine = bm(data.visible, self.hidden[0] if self.hidden else 0, **common)
        if self.biases and self.bias_start == "marginals":
            machine.start_biases(data.train.spins)
        return machine

    def trainer(self, data: Dataset, device: torch.device) -> Trainer:
        """The training that this recipe describes, before its first update."""
        return Trainer(
            self.machine(data, device),
            data.train.spins,
            self.negative_phase(),
            self.optimizer_choice(),
            epochs=self.epochs,
            batch_size=self.batch_size,
            positive=self.positive_phase(),
            projection=self.projection_choice(),
            batch_mean="nominal" if self.batch_mean == "nominal" else "true",
            average=self.average,
            seed=self.seed,
            precision=self.precision,
        )

    def negative_phase(self) -> NegativePhase:
        options = {
            "sweeps": ("sweeps", self.sweeps),
            "particles": ("particles", self.particles),
            "rungs": ("rungs", self.rungs),
            "pattern-units": ("units", self.pattern_units),
        }
        return _build("negative phase", NEGATIVE, self.negative, options)

    def positive_phase(self) -> PositivePhase | None:
        if self.positive == "auto":
            if self.positive_steps is not None:
                raise InputError("--positive-steps needs a named positive phase; give --positive")
            return None
        key = "iterations" if self.positive == "meanfield" else "sweeps"
        options = {"positive-steps": (key, self.positive_steps)}
        return _build("positive phase", POSITIVE, self.positive, options)

    def projection_choice(self) -> Projection:
        options = {"bound": ("x", self.bound), "project-every": ("every", self.project_every)}
        return _build("projection", PROJECTIONS, self.projection, options)

    def optimizer_choice(self) -> Optimizer:
        own = 0.02 if self.optimizer == "sgd" else 1e-3
        rate = self.rate if len(self.rate) > 1 else (*self.rate, own)[0]
        schedule = Schedule(
            self.decay, self.decay_after, self.rate_floor, _fall(self.fall), self.falls
        )
        if self.adam_clock is not None and self.optimizer != "adam":
            raise InputError(f"{self.optimizer} has no clock; use adam, or leave --adam-clock out")
        if self.optimizer == "sgd":
            plain = sgd(rate, momentum=self.momentum or 0.0, weight_decay=self.weight_decay or 0.0)
            return replace(plain, schedule=schedule)
        if self.optimizer == "adam":
            if self.momentum is not None:
                raise InputError("adam has no momentum option; use sgd, or leave --momentum out")
            plain_adam = adam(
                rate, weight_decay=self.weight_decay or 0.0, clock=_clock(self.adam_clock)
            )
            return replace(plain_adam, schedule=schedule)
        names = {name.lower(): name for name in torch_optimizers()}
        if self.optimizer not in names:
            raise unknown("optimiser", self.optimizer, {"sgd", "adam", *names})
        given = {"momentum": self.momentum, "weight_decay": self.weight_decay}
        options = tuple((k, v) for k, v in given.items() if v is not None)
        if not isinstance(rate, float):
            raise InputError(f"{self.optimizer} takes one rate for all replicas, not {rate}")
        return TorchOptimizer(names[self.optimizer], rate, options, schedule)

    # -- as a file --------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Recipe:
        known = {f.name for f in fields(Recipe)}
        if extra := sorted(set(values) - known):
            raise InputError(f"a recipe has no {', '.join(map(repr, extra))}; is it a newer one's?")
        lists: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        try:
            return Recipe(**lists)
        except InputError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is not a recipe: {error}; restore the file") from error


_DECAY = ("decay_after", "rate_floor")  # they mean nothing without a decay
# key: the choice that it belongs to
_BELONGS = {
    "sweeps": "negative",
    "particles": "negative",
    "rungs": "negative",
    "pattern_units": "negative",
    "bound": "projection",
    "project_every": "projection",
    "momentum": "optimizer",
    "adam_clock": "optimizer",
    "rate": "optimizer",
    "decay": "optimizer",
    "decay_after": "optimizer",
    "rate_floor": "optimizer",
}


def _build(
    kind: str, registry: Mapping[str, type[T]], name: str, options: dict[str, tuple[str, Any]]
) -> T:
    """An entry of a registry with what was given; `options` maps a flag to a field and a value."""
    found = lookup(kind, name, registry)
    has = {f.name for f in fields(found)}  # type: ignore[arg-type]
    given = {flag: pair for flag, pair in options.items() if pair[1] is not None}
    if extra := [flag for flag, (key, _) in given.items() if key not in has]:
        takes = [f"--{flag}" for flag, (key, _) in options.items() if key in has]
        raise InputError(
            f"the {kind} {name!r} has no option --{extra[0]}; it takes {', '.join(takes) or 'none'}"
        )
    return found(**dict(given.values()))


def _fall(name: str) -> Any:
    check_choice("fall of the rate", name, ("none", "linear", "cosine"))
    return name


def _clock(name: str | None) -> Any:
    check_choice("clock of adam", name or "update", CLOCKS)
    return name or "update"


def spacing_of(what: str, spacing: str) -> str | int:
    """`log`, `epoch`, `end`, or a number of updates."""
    if spacing in SPACINGS:
        return spacing
    if spacing.isdecimal() and int(spacing) > 0:
        return int(spacing)
    raise InputError(
        f"the {what} spacing is {', '.join(SPACINGS)} or a number of updates, not {spacing!r}"
    )


_RAPID = {"negative": "pid", "projection": "sign", "batch_mean": "nominal"}
_STANDARD = {
    "hidden": (1000,),
    "patterns": None,
    "optimizer": "adam",
    "adam_clock": "epoch",
    "rate": (1e-3,),
    "batch_size": 1,
    "epochs": 300,
}
_CD = {**_STANDARD, "negative": "cd", "sweeps": 10}
_PCD = {**_STANDARD, "negative": "pcd", "sweeps": 10, "particles": 2048}
_EXACT = {**_STANDARD, "negative": "exact"}
_UPDATE = {"adam_clock": "update"}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-bars": {
        **_RAPID,
        "hidden": (1000,),
        "patterns": 8,
        "rate": (0.02,),
        "decay": 0.96,
        "rate_floor": 1e-5,
        "batch_size": 3,
        "epochs": 300,
    },
    "paper-bars-exact": _EXACT,
    "paper-bars-cd": _CD,
    "paper-bars-pcd": _PCD,
    "paper-bars-exact-update": {**_EXACT, **_UPDATE},
    "paper-bars-cd-update": {**_CD, **_UPDATE},
    "paper-bars-pcd-update": {**_PCD, **_UPDATE},
    "paper-bas12": {
        **_RAPID,
        "hidden": (1000,),
        "patterns": 40,
        "rate": (0.02,),
        "decay": 0.96,
        "rate_floor": 1e-5,
        "batch_size": 120,
        "epochs": 20,
    },
    "paper-mnist": {
        **_RAPID,
        "split": "paper",
        "hidden": (3000,),
        "patterns": 190,
        "sweeps": 10,
        "projection": "clip",
        "bound": 1.0,
        "rate": (0.015,),
        "decay": 0.99,
        "decay_after": 100,
        "rate_floor": 1e-3,
        "batch_size": 8000,
        "epochs": 500,
    },
    "mnist": {
        "hidden": (3000,),
        "patterns": 190,
        "scale": 0.1,
        "biases": True,
        "negative": "pcd",
        "particles": 1000,
        "sweeps": 10,
        "optimizer": "adam",
        "rate": (1e-3,),
        "fall": "linear",
        "batch_size": 500,
        "epochs": 200,
    },
    "small": {
        "hidden": (500,),
        "patterns": 16,
        "scale": 0.1,
        "biases": True,
        "negative": "pcd",
        "particles": 500,
        "sweeps": 5,
        "optimizer": "adam",
        "rate": (1e-3,),
        "fall": "linear",
        "batch_size": 100,
        "epochs": 50,
    },
}


def preset_for(dataset: str) -> str:
    """The preset that serves a data set when none is named."""
    if dataset == "bars4":
        return "paper-bars"
    if dataset.startswith("bas") and dataset[3:].isdecimal():
        return "paper-bas12"
    return "mnist" if dataset in ("mnist", "mnist-static") else "small"
