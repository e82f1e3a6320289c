"""Named settings for a training: the paper's, and what serves well otherwise.

A preset says what differs from the defaults of a `Recipe`; a choice made beside it changes one of them.
"""

from __future__ import annotations

from typing import Any

from ..data.catalogue import entry_of, is_file
from .spacing import OPEN

RAPID = {"negative": "pid", "projection": "sign", "batch_mean": "nominal"}
BARS = {**RAPID, "hidden": (1000,), "rate": (0.02,), "decay": 0.96, "rate_floor": 1e-5}
STANDARD = {  # what the paper compares with; its program counts Adam's correction by epochs
    "hidden": (1000,),
    "patterns": None,
    "optimizer": "adam",
    "adam_clock": "epoch",
    "rate": (1e-3,),
    "batch_size": 1,
    "epochs": 300,
}
EXACT = {**STANDARD, "negative": "exact"}
CD = {**STANDARD, "negative": "cd", "sweeps": 10}
PCD = {**STANDARD, "negative": "pcd", "sweeps": 10, "particles": 2048}
UPDATE = {"adam_clock": "update"}
LIKELIHOOD = {
    "scale": 0.1,
    "biases": True,
    "negative": "pcd",
    "optimizer": "adam",
    "rate": (1e-3,),
    "fall": "linear",
}
PRESETS: dict[str, dict[str, Any]] = {
    "paper-bars": {**BARS, "patterns": 8, "batch_size": 3, "epochs": 300},
    "paper-bars-exact": EXACT,
    "paper-bars-cd": CD,
    "paper-bars-pcd": PCD,
    "paper-bars-exact-update": {**EXACT, **UPDATE},
    "paper-bars-cd-update": {**CD, **UPDATE},
    "paper-bars-pcd-update": {**PCD, **UPDATE},
    "paper-bas12": {**BARS, "patterns": 40, "batch_size": 120, "epochs": 20},
    "paper-mnist": {
        **RAPID,
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
        **LIKELIHOOD,
        "hidden": (3000,),
        "patterns": 190,
        "particles": 1000,
        "sweeps": 10,
        "batch_size": 500,
        "epochs": 200,
    },
    "auto": {  # and what suits the data (choosing.py)
        **LIKELIHOOD,
        "centred": True,
        "metrics": ("log_likelihood",),
        "evaluate": "epoch",
        "epochs": OPEN,
    },
    "mnist-long": {  # minutes on a GPU (docs/results.md)
        **LIKELIHOOD,
        "hidden": (1500,),
        "patterns": 450,
        "particles": 1000,
        "sweeps": 10,
        "rate": (7e-4,),
        "weight_decay": (0.003,),
        "centred": True,
        "lifetime": 1000,
        "batch_size": 500,
        "epochs": 900,
    },
    "small": {
        **LIKELIHOOD,
        "hidden": (500,),
        "patterns": 16,
        "particles": 500,
        "sweeps": 5,
        "batch_size": 100,
        "epochs": 50,
    },
}
# The preset that serves a data set without trials; `small` serves any other.
SERVES = {
    "bars4": "paper-bars",
    "basN": "paper-bas12",
    "mnist": "mnist",
    "mnist-static": "mnist",
}


def metrics_for(dataset: str, preset: str, model: str) -> tuple[str, ...]:
    """What is measured when nobody says: the likelihood of a file's data, where the sum over hidden units
    has a closed form; reconstruction in the paper's tasks."""
    watched = is_file(dataset) and not preset.startswith("paper") and model == "rbm"
    return ("log_likelihood",) if watched else ("hamming",)


def preset_for(dataset: str, *, trying: bool = False) -> str:
    """The preset that serves a data set when none is named: the paper's for its tasks, for others `auto`
    where it may try, else what needs no trials."""
    served = SERVES.get(entry_of(dataset)[0] or "", "small")
    return "auto" if trying and not served.startswith("paper") else served
