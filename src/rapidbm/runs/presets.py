"""Named settings for a training: the paper's, and what serves well otherwise.

A preset says what differs from the defaults of a `Recipe`; a choice made beside it changes one of them.
What the paper compares with, by CD, PCD and exact gradients, is in `rapidbm_paper/bars/standard.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data.catalogue import entry_of, is_file
from ..data.sequences import is_alignment
from ..errors import lookup
from .timing import OPEN

Settings = dict[str, Any]
RAPID: Settings = {"negative": "pid", "projection": "sign", "batch_mean": "nominal"}
BARS: Settings = dict(RAPID, hidden=(1000,), rate=(0.02,), decay=0.96, rate_floor=1e-5)
BARS4 = dict(BARS, patterns=8, batch_size=3)
BAS12 = dict(BARS, batch_size=120, epochs=20)
# Where hidden units are coupled to each other.
DEEP: Settings = {"positive": "meanfield", "positive_steps": 10}
DEEP_START = 0.1  # of layers beyond the first hidden one, where likelihoods are learnt
ADAM: Settings = {"optimizer": "adam", "rate": (1e-3,), "fall": "linear"}
LIKELIHOOD: Settings = dict(ADAM, negative="pcd", scale=0.1, biases=True)
CHAINS = dict(LIKELIHOOD, particles=1000, sweeps=10, batch_size=500)
ALL_ROWS = 1_000_000  # of a batch: those of most families
SCOUTS = 0.1  # of the chains; none with dense couplings
LIFETIME = 1000  # updates of a chain of theirs
RENEWED: Settings = dict(CHAINS, centred=True, lifetime=LIFETIME, weight_decay=(0.003,))
LAYERED = dict(  # by clamped chains: mean field is cheaper, and worse (docs/deep.md)
    RENEWED | DEEP, positive="clamped", scouts=SCOUTS, metrics=("log_bound",), evaluate="1000"
)
PRESETS: dict[str, Settings] = {
    "paper-bars": dict(BARS4, epochs=300),
    "paper-bas12": dict(BAS12, patterns=40),
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
    "mnist": dict(CHAINS, hidden=(3000,), patterns=190, epochs=200),
    # And what suits the data (auto_settings.py).
    "auto": dict(LIKELIHOOD, centred=True, scouts=SCOUTS, evaluate="epoch", epochs=OPEN),
    "mnist-long": {  # minutes on a GPU (docs/results.md); no scouts: its likelihoods were measured so
        **RENEWED,
        "hidden": (1500,),
        "patterns": 450,
        "rate": (7e-4,),
        "metrics": ("log_likelihood",),
        "evaluate": "2000",
        "epochs": 900,
    },
    "dbm-mnist": dict(
        LAYERED, model="dbm", hidden=(800, 200), patterns=222, deep_start=DEEP_START, epochs=600
    ),
    "bm-mnist": dict(LAYERED, model="bm", hidden=(200,), patterns=402, epochs=200),
    # Full machines of aligned sequences: all rows in each update, whose moments are found once, and many
    # short updates (docs/sequences.md).
    "sequences": {
        "model": "bm",
        "hidden": (),
        "negative": "pcd",
        "particles": 1000,
        "sweeps": 1,
        "optimizer": "sgd",
        "rate": (0.4,),
        "fall": "linear",
        "scale": 1e-4,
        "biases": True,
        "batch_size": ALL_ROWS,
        "epochs": 3000,
    },
    "small": dict(
        LIKELIHOOD, hidden=(500,), patterns=16, particles=500, sweeps=5, batch_size=100, epochs=50
    ),
}
# Pure PID in deep and full machines, for which the paper's tasks are served by these in place of their
# own: what hidden patterns must not do, docs/deep.md. Nobody has to name them.
OF_TASKS: dict[str, Settings] = {
    "dbm-paper-bars": dict(BARS4 | DEEP, model="dbm", hidden=(1000, 1000), pace=0.01, epochs=100),
    "bm-paper-bars": dict(
        BARS4 | DEEP, model="bm", rate=(0.005,), strengths=(4.0, 1.0), pace=0.01, epochs=100
    ),
    "dbm-paper-bas12": dict(
        BAS12 | DEEP,
        model="dbm",
        hidden=(1000, 1000),
        strengths=(1.0, 1.0, 0.0657),  # √(0.03 · 144 / 1000)
        patterns=40,
    ),
    "bm-paper-bas12": dict(BAS12, model="bm", hidden=(), strengths=(2.0,), rate=(0.05,), patterns=160),
}
# The preset that serves a data set without trials; `small` serves any other.
SERVES = {"bars4": "paper-bars", "basN": "paper-bas12", "mnist": "mnist", "mnist-static": "mnist"}


def settings_of(preset: str) -> Mapping[str, Any]:
    """What a preset says."""
    return OF_TASKS.get(preset) or lookup("preset", preset, PRESETS)


def layers_for(values: Mapping[str, Any]) -> tuple[int, ...]:
    """The hidden layers where nobody says: those of the preset, one of them as two for a dbm."""
    hidden: tuple[int, ...] = values.get("hidden", (500,))
    return two_layers(hidden[0]) if values.get("model") == "dbm" and len(hidden) == 1 else hidden


def two_layers(units: int) -> tuple[int, int]:
    """The hidden units of a deep machine: a fifth of them, and one at least, in its second layer."""
    rest = max(1, units // 5)
    return units - rest, rest


def metrics_for(dataset: str, preset: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """What is measured when nobody says: the likelihood of a file's data, and wherever settings are
    compared by it; reconstruction in the paper's tasks."""
    watched = (is_file(dataset) or "labels" in values) and not preset.startswith("paper")
    if not watched and preset != "auto":
        return ("hamming",)
    return (watched_for(values.get("model", "rbm"), values["hidden"]),)


def watched_for(model: str, hidden: Sequence[int]) -> str:
    """The likelihood where the sum over hidden units has a closed form, else its lower bound."""
    closed = model == "rbm" or len(hidden) < (2 if model == "dbm" else 1)
    return "log_likelihood" if closed else "log_bound"


def _full(chosen: Mapping[str, Any]) -> bool:
    """Whether every pair of sites is to be coupled, and nothing else."""
    if {"model", "hidden", "patterns"}.isdisjoint(chosen):
        return "until_correlation" in chosen
    return chosen.get("model") == "bm" and chosen.get("hidden") == () and chosen.get("patterns") is None


def preset_for(dataset: str, chosen: Mapping[str, Any], *, trying: bool = False) -> str:
    """The preset that serves a data set and the model that was chosen when none is named: the paper's for
    its tasks, for others `auto` where it may try, else what needs no trials."""
    if is_alignment(dataset) and _full(chosen):
        return "sequences"
    served = SERVES.get(entry_of(dataset)[0] or "", "small")
    if trying and not served.startswith("paper"):
        return "auto"
    kind = f"{chosen.get('model')}-{served}"
    return kind if kind in PRESETS or kind in OF_TASKS else served
