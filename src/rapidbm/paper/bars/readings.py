"""Two readings of the algorithm that decide whether it learns.

What PID averages over (eq. 6 and Algorithm 1 of the paper):

    all       s = sign(ξ) on every unit, as printed                                       (1)
    raw       s_v = ξ_v,        s_h = tanh(field(s_v))                                    (2)
    visible   s_v = sign(ξ_v),  s_h = tanh(field(s_v)), as the authors' program does      (3)

What the data's moments are divided by in the last, smaller batch of an epoch: its own size, the true
mean, or the nominal size of a batch, as that program does, which leaves the negative phase in excess.
RAPID on 4×4 bars and on bars and stripes with each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...machines.machine import Machine
from ...machines.spins import WeightedSpins
from ...runs.recipe import Recipe
from ...training.negative import NegativePhase, PatternInduced
from ...training.projections import Sign
from ...training.trainer import Trainer
from ..courses import course
from ..drawing import PENS, epochs_axis, panels, points, sizes_of
from ..study import Bench, Claim, Finding, Item, Number, Part, Records, Values, all_of
from .fig3 import LEARNT
from .two_sets import DATA, PARTS, TwoSets, called, distances, last, needs, recipe_on, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# part: (what PID averages over, what the moments are divided by)
READINGS = {
    "visible": ("visible", "nominal"),
    "all": ("all", "nominal"),
    "raw": ("raw", "nominal"),
    "visible-true": ("visible", "true"),
    "all-true": ("all", "true"),
}
NAMES = {
    "visible": "sign ξ$_v$, hidden means",
    "all": "sign ξ, all units",
    "raw": "ξ$_v$, hidden means",
    "visible-true": "sign ξ$_v$, true batch mean",
    "all-true": "sign ξ, true batch mean",
}
LOOK = dict(zip(NAMES, PENS, strict=False))
CLOSE = 0.5  # to ±1: nearer than to 0


SCALES = {
    "tiny": TwoSets(
        bars_instances=2,
        bars_hidden=500,
        bars_epochs=2,
        bas_size=4,
        bas_instances=2,
        bas_hidden=500,
        bas_patterns=6,
        bas_batch=12,
        bas_epochs=1,
        bars_tries=2,
        bas_tries=2,
    ),
    "quick": TwoSets(
        bars_instances=60,
        bars_hidden=1000,
        bars_epochs=150,
        bas_size=8,
        bas_instances=6,
        bas_hidden=1000,
        bas_patterns=20,
        bas_batch=20,
        bas_epochs=30,
        bars_tries=20,
        bas_tries=10,
    ),
    "paper": TwoSets(
        bars_instances=100,
        bars_hidden=1000,
        bars_epochs=300,
        bas_size=12,
        bas_instances=20,
        bas_hidden=1000,
        bas_patterns=40,
        bas_batch=120,
        bas_epochs=20,
        bars_tries=100,
        bas_tries=2,
    ),
}


class RawPatterns(PatternInduced):
    """Eq. (2): the patterns as they are, between two projections not spins."""

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins, Tensor]:
        assert machine.patterns is not None  # init refuses dense couplings
        visible = machine.patterns.detach()[..., : machine.visible]
        return WeightedSpins.even(machine.complete(visible, means=True)), chains


class RawRecipe(Recipe):
    """A recipe whose negative phase is eq. (2), which no command offers."""

    def negative_phase(self) -> NegativePhase:
        return RawPatterns()


def _drift(bench: Bench, config: TwoSets, data: str) -> Values:
    """How close to ±1 the patterns are at the end of each epoch, before the sign is taken, (t, e)."""
    recipe = recipe_on(bench, config, data, batch_mean="nominal", projection="none")
    found: Values = {"close": [], "off": []}

    def look(trainer: Trainer) -> None:
        assert trainer.machine.patterns is not None
        off = (trainer.machine.patterns.detach().abs() - 1).abs()
        found["close"].append((off < CLOSE).double().mean((1, 2)).tolist())
        found["off"].append(off.double().mean((1, 2)).tolist())
        Sign().apply(trainer.machine, trainer.rng)

    course(bench, recipe, {}, at=lambda epoch: False, each_epoch=look)
    return found


def _train(bench: Bench, config: TwoSets, data: str, name: str) -> Values:
    units, mean = READINGS[name]
    if units == "raw":
        recipe: Recipe = RawRecipe(**recipe_on(bench, config, data, batch_mean=mean).as_dict())
    else:
        recipe = recipe_on(bench, config, data, batch_mean=mean, pattern_units=units)
    return distances(bench, config, data, recipe)


def parts(config: TwoSets) -> dict[str, Part]:
    def one(data: str, name: str) -> Part:
        return Part(lambda bench: _train(bench, config, data, name))

    def drift(data: str) -> Part:
        return Part(lambda bench: _drift(bench, config, data))

    found = {f"{data}-{name}": one(data, name) for data in DATA for name in READINGS}
    return found | {f"{data}-drift": drift(data) for data in DATA}


# -- figure -------------------------------------------------------------------------------------------


def _draw(records: Records) -> Figure:
    fig, axes = panels(2, 2, height=2.3)
    for row, data in enumerate(DATA):
        for column, part in enumerate(PARTS):
            here = axes[2 * row + column]
            for name, pen in LOOK.items():
                record = records.get(f"readings.{data}-{name}")
                if record is not None:
                    means = [Number.of(values) for values in record.array(f"hamming_{part}")]
                    points(here, record["epochs"], means, pen, NAMES[name])
            here.set_ylim(0, 0.6)
            which = "training" if part == "train" else "test"
            letter = "abcd"[2 * row + column]
            epochs_axis(
                here, "Hamming distance", f"({letter}) {called(records, data)}, {which} set"
            )
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return fig


def _caption(records: Records) -> str:
    return (
        "Share of wrong pixels in completed images while RAPID machines are trained with different "
        "readings of the negative phase, and with two divisors of the last batch of an epoch (nominal "
        f"unless it says true). Error bars: standard errors over instances. {sizes_of(records)}"
    )


ITEMS = {"readings": Item("Readings of the algorithm", ("readings",), _draw, _caption)}


# -- claims -------------------------------------------------------------------------------------------


def _told(records: Records, names: tuple[str, ...]) -> str:
    return told(records, {n: NAMES[n].replace("$_v$", "_v") for n in names}, "readings")


def _learnt(records: Records, name: str) -> bool | None:
    if any(record.scale == "tiny" for record in records.values()):
        return None
    ends = [last(records, f"readings.{d}-{name}", part) for d in DATA for part in PARTS]
    return all_of(*(end.below(LEARNT) for end in ends))


def _printed(records: Records) -> Finding:
    return Finding(
        _learnt(records, "all-true"),
        _told(records, ("all", "all-true", "visible")),
    )


def _true_mean(records: Records) -> Finding:
    return Finding(
        _learnt(records, "visible-true"),
        _told(records, ("visible-true", "visible")),
    )


def _close(records: Records) -> Finding:
    told, answers = [], []
    for data in DATA:
        record = records[f"readings.{data}-drift"]
        share, off = (Number.of(record.array(key).mean(0)) for key in ("close", "off"))
        first, last = (Number.of(record.array("close")[row]) for row in (0, -1))
        answers.append(share.above(0.5))
        told.append(
            f"{called(records, data)} {share} ({first} in the first epoch, {last} in the last; mean "
            f"distance from ±1 {off})"
        )
    more = ""
    if set(needs("readings", "raw", "visible")) <= set(records):
        more = f"Patterns averaged over as they are, {_told(records, ('raw', 'visible'))}."
    return Finding(
        None if any(r.scale == "tiny" for r in records.values()) else all_of(*answers),
        f"share of components within {CLOSE} of ±1: {'; '.join(told)}",
        more,
    )


CLAIMS = (
    Claim(
        "algorithm-1-as-printed",
        "Eq. 6, Algorithm 1",
        "Averages under the model are those “over the values of the spins in the patterns”, hidden parts "
        "included.",
        "RAPID with sign(ξ) on all units in the negative phase and the mean over each batch, as "
        "printed, with the rates of the released program.",
        f"All four last distances, of two data sets, below {LEARNT}, by 2 σ.",
        needs("readings", "all", "all-true", "visible"),
        _printed,
        one_recipe=True,
    ),
    Claim(
        "true-batch-mean",
        "Algorithm 1",
        "The phases are averages of the gradient of the free energy.",
        "RAPID with the positive phase of a smaller last batch divided by its own size.",
        f"All four last distances, of two data sets, below {LEARNT}, by 2 σ.",
        needs("readings", "visible-true", "visible"),
        _true_mean,
    ),
    Claim(
        "patterns-stay-close-to-spins",
        "Sec. III.B",
        "After an update the patterns are not spins, “although they usually remain close to ±1”.",
        f"Usually: more than half of the components. Close: within {CLOSE} of ±1, nearer than to 0. At "
        "the end of each epoch, before the sign is taken; a mean over the "
        "training.",
        "Above a half on both data sets, by 2 σ.",
        needs("readings", "drift"),
        _close,
        needs("readings", "raw", "visible"),
    ),
)
