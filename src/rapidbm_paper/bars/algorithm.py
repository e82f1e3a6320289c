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

from dataclasses import dataclass

import torch
from torch import Tensor

from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.machines.machine import Machine
from rapidbm.pictures import PENS, panels
from rapidbm.runs.recipe import Recipe
from rapidbm.training.loop import Progress
from rapidbm.training.negative import NegativePhase, PatternInduced
from rapidbm.training.projections import Sign
from rapidbm.training.trainer import Trainer

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, course_points, epochs_axis, item, legend_below
from ..lab import Lab, Part, by_scale
from ..observables import SPLITS
from ..records import Records, Values, any_tiny
from .reconstruction import LEARNT
from .variants import DATA, BothSets, called, course, last, needs, recipe_on, summary

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


@dataclass(frozen=True, kw_only=True)
class Scale(BothSets):
    bars_instances: int = by_scale(tiny=2, quick=60, paper=100)
    bars_epochs: int = by_scale(tiny=2, quick=150, paper=300)
    bas_instances: int = by_scale(tiny=2, quick=6, paper=20)


class RawPatterns(PatternInduced):
    """Eq. (2): the patterns as they are, between two projections not spins."""

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins, Tensor]:
        assert machine.patterns is not None  # init refuses dense couplings
        visible = machine.patterns.detach()[..., : machine.visible]
        return WeightedSpins.equal(machine.complete(visible, means=True)), chains


class LiteralRecipe(Recipe):
    """A recipe whose negative phase is eq. (1), which the command does not offer: it does not learn."""

    def negative_phase(self) -> NegativePhase:
        return PatternInduced(units="all")


class RawRecipe(Recipe):
    """A recipe whose negative phase is eq. (2), which the command does not offer."""

    def negative_phase(self) -> NegativePhase:
        return RawPatterns()


RECIPES = {"visible": Recipe, "all": LiteralRecipe, "raw": RawRecipe}


def _drift(lab: Lab, scale: Scale, data: str) -> Values:
    """How close to ±1 the patterns are at the end of each epoch, before the sign is taken, (t, e)."""
    recipe = recipe_on(lab, scale, data, batch_mean="nominal", projection="none")

    def off(progress: Progress) -> Tensor:
        assert progress.machine.patterns is not None
        return (progress.machine.patterns.detach().abs() - 1).abs()

    def sign(trainer: Trainer) -> None:
        Sign().apply(trainer.machine, trainer.rng)

    found, _ = lab.train(
        recipe,
        {
            "close": lambda progress, *_: (off(progress) < CLOSE).double().mean((1, 2)),
            "off": lambda progress, *_: off(progress).double().mean((1, 2)),
        },
        at=lambda epoch: True,
        after=sign,
    )
    return {key: found[key][1:] for key in ("close", "off")}  # the start has no epoch


def _train(lab: Lab, scale: Scale, data: str, name: str) -> Values:
    units, mean = READINGS[name]
    recipe = RECIPES[units](**recipe_on(lab, scale, data, batch_mean=mean).as_dict())
    return course(lab, scale, data, recipe)


PARTS = {
    **{f"{data}-{name}": Part(_train, (data, name)) for data in DATA for name in READINGS},
    **{f"{data}-drift": Part(_drift, (data,)) for data in DATA},
}


@item("Readings of the algorithm", ("readings",))
def readings(records: Records) -> Figure:
    """Share of wrong pixels in completed images while RAPID machines are trained with different
    readings of the negative phase, and with two divisors of the last batch of an epoch (nominal unless
    it says true). Error bars: standard errors over instances."""
    fig, axes = panels(2, 2, height=2.3)
    for row, data in enumerate(DATA):
        for column, part in enumerate(SPLITS):
            here = axes[2 * row + column]
            for name, pen in LOOK.items():
                record = records.get(f"readings.{data}-{name}")
                course_points(here, record, f"hamming_{part}", pen, NAMES[name])
            here.set_ylim(0, 0.6)
            which = "training" if part == "train" else "test"
            letter = "abcd"[2 * row + column]
            epochs_axis(here, "Hamming distance", f"({letter}) {called(records, data)}, {which} set")
    legend_below(fig, axes[0], 3)
    return fig


def _summary(records: Records, names: tuple[str, ...]) -> str:
    return summary(records, {n: NAMES[n].replace("$_v$", "_v") for n in names}, "readings")


def _learnt(records: Records, name: str) -> bool | None:
    if any_tiny(records):
        return None
    ends = [last(records, f"readings.{d}-{name}", part) for d in DATA for part in SPLITS]
    return all_of(*(end.below(LEARNT) for end in ends))


@claim(needs("readings", "all", "all-true", "visible"), one_recipe=True)
def algorithm_1_as_printed(records: Records) -> Finding:
    """Eq. 6, Algorithm 1: Averages under the model are those “over the values of the spins in the
    patterns”, hidden parts included.
    Read as: RAPID with sign(ξ) on all units in the negative phase and the mean over each batch, as
    printed, with the rates of the released program.
    Rule: All four last distances, of two data sets, below {LEARNT}, by 2 σ."""
    return Finding(_learnt(records, "all-true"), _summary(records, ("all", "all-true", "visible")))


@claim(needs("readings", "visible-true", "visible"))
def true_batch_mean(records: Records) -> Finding:
    """Algorithm 1: The phases are averages of the gradient of the free energy.
    Read as: RAPID with the positive phase of a smaller last batch divided by its own size.
    Rule: All four last distances, of two data sets, below {LEARNT}, by 2 σ."""
    return Finding(_learnt(records, "visible-true"), _summary(records, ("visible-true", "visible")))


@claim(needs("readings", "drift"), needs("readings", "raw", "visible"))
def patterns_stay_close_to_spins(records: Records) -> Finding:
    """Sec. III.B: After an update the patterns are not spins, “although they usually remain close to
    ±1”.
    Read as: Usually: more than half of the components. Close: within {CLOSE} of ±1, nearer than to 0.
    At the end of each epoch, before the sign is taken; a mean over the training.
    Rule: Above a half on both data sets, by 2 σ."""
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
        more = f"Patterns averaged over as they are, {_summary(records, ('raw', 'visible'))}."
    return Finding(
        None if any_tiny(records) else all_of(*answers),
        f"share of components within {CLOSE} of ±1: {'; '.join(told)}",
        more,
    )
