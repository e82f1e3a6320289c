"""Appendix B: how, and how often, the patterns are put back in their place.

    sign    ξ ← sign(ξ)            each update, each epoch, every few epochs, or once at the end   (1)
    clip    ξ ← min(x, max(−x, ξ)) each update, x = ½, 1, 2                                        (2)
    Gibbs   ξ_v ~ p(· | ξ_h), ξ_h ~ p(· | ξ_v)  each update, also with a tenth of the rate, for which
            the paper means it, or each epoch                                                      (3)

and not at all. RAPID on 4×4 bars and on bars and stripes; seen: the Hamming distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rapidbm.pictures import PENS, panels
from rapidbm.training.projections import Sign
from rapidbm.training.trainer import Trainer

from ..claims import Finding, Number, all_of, any_of, claim
from ..drawing import Figure, course_points, epochs_axis, item, legend_below
from ..lab import Lab, Part, by_scale
from ..observables import SPLITS
from ..records import Record, Records, Values, any_tiny
from .reconstruction import HALF, LEARNT
from .variants import DATA, BothSets, called, course, last, needs, recipe_on, summary

BOUNDS = {"half": 0.5, "one": 1.0, "two": 2.0}
# part: what it does, as a figure says it
NAMES = {
    "sign-update": "sign, each update",
    "sign-epoch": "sign, each epoch",
    "sign-some": "sign, every {some} epochs",
    "sign-many": "sign, every {many} epochs",
    "sign-end": "sign, at the end",
    "clip-half": "clip to 1/2",
    "clip-one": "clip to 1",
    "clip-two": "clip to 2",
    "gibbs-update": "Gibbs, each update",
    "gibbs-slow": "Gibbs, each update, rate/10",
    "gibbs-epoch": "Gibbs, each epoch",
    "none": "none",
}
ALIKE = 0.05  # of the Hamming distance


@dataclass(frozen=True, kw_only=True)
class Scale(BothSets):
    bars_intervals: tuple[int, int] = by_scale(tiny=(1, 1), quick=(10, 50), paper=(10, 50))
    bas_intervals: tuple[int, int] = by_scale(tiny=(1, 1), quick=(5, 15), paper=(5, 10))


def every(epochs: int) -> Callable[[Trainer], None]:
    """Eq. (1) each so many epochs, at the end of an epoch."""

    def apply(trainer: Trainer) -> None:
        if trainer.progress().epoch % epochs == 0:
            Sign().apply(trainer.machine, trainer.rng)

    return apply


def _choice(name: str, intervals: tuple[int, int], epochs: int) -> tuple[dict[str, Any], int]:
    """Options of the recipe, and after how many epochs the sign is taken by hand, 0 for never."""
    kind, _, how = name.partition("-")
    if kind == "clip":
        return {"projection": "clip", "bound": BOUNDS[how], "project_every": "update"}, 0
    if how == "slow":
        return {"projection": kind, "project_every": "update", "rate": (0.002,)}, 0
    if how in ("update", "epoch"):
        return {"projection": kind, "project_every": how}, 0
    by_hand = {"some": intervals[0], "many": intervals[1], "end": epochs}
    return {"projection": "none"}, by_hand.get(how, 0)


def _train(lab: Lab, scale: Scale, data: str, name: str) -> Values:
    small = data == "bars"
    intervals = scale.bars_intervals if small else scale.bas_intervals
    options, by_hand = _choice(name, intervals, scale.bars_epochs if small else scale.bas_epochs)
    recipe = recipe_on(lab, scale, data, **options)
    return course(lab, scale, data, recipe, before=every(by_hand) if by_hand else None)


PARTS = {f"{data}-{name}": Part(_train, (data, name)) for data in DATA for name in NAMES}

_CLIP = ("clip-half", "clip-one", "clip-two")
_GIBBS = ("gibbs-update", "gibbs-slow", "gibbs-epoch")
GROUPS = (
    ("sign-epoch", "sign-update", "sign-some", "sign-many", "sign-end"),
    ("sign-epoch", *_CLIP, *_GIBBS, "none"),
)


@item("Projections of the patterns", ("projections",))
def projections(records: Records) -> Figure:
    """Share of wrong pixels in completed test images while RAPID machines are trained with different
    projections of the patterns: left, the sign at different intervals (on bars / on bars and stripes);
    right, restriction to [−x, x] after each update, a Gibbs draw, and none. Error bars: standard errors
    over instances."""
    fig, axes = panels(2, 2, height=2.5)
    for row, data in enumerate(DATA):
        for column, names in enumerate(GROUPS):
            here = axes[2 * row + column]
            for pen, name in zip(PENS, names, strict=False):
                record = records.get(f"projections.{data}-{name}")
                words = "" if record is None else NAMES[name].format(**_every(record))
                course_points(here, record, "hamming_test", pen, words)
            here.set_ylim(0, 0.55)
            letter = "abcd"[2 * row + column]
            epochs_axis(here, "Hamming distance, test set", f"({letter}) {called(records, data)}")
    legend_below(fig, axes[0], 2, "left")
    legend_below(fig, axes[1], 2, "right")
    return fig


def _every(record: Record) -> dict[str, str]:
    """The intervals in words: on bars / on bars and stripes."""
    pairs = [record.settings.get(f"{data}_intervals", ("few", "many")) for data in DATA]
    return {name: "/".join(str(pair[i]) for pair in pairs) for i, name in enumerate(("some", "many"))}


def _last(records: Records, data: str, name: str, part: str = "test") -> Number:
    return last(records, f"projections.{data}-{name}", part)


def _judge(
    records: Records,
    names: tuple[str, ...],
    check: Callable[[str], bool | None],
    together: Callable[..., bool | None] = all_of,
    where: Sequence[str] = DATA,
    note: str = "",
) -> Finding:
    words = {n: NAMES[n].format(**_every(records[f"projections.bars-{n}"])) for n in names}
    holds = together(*(check(data) for data in where)) if where else None
    return Finding(None if any_tiny(records) else holds, summary(records, words, "projections"), note)


@claim(needs("projections", "sign-update", "sign-epoch"))
def sign_too_often(records: Records) -> Finding:
    """App. B: Discretizing too often “may result in the erasure of the information learnt”.
    Read as: The last test distance with the sign after each update minus that with the sign after each
    epoch.
    Rule: Above 0 on one of the two data sets at least, by 2 σ."""

    def check(data: str) -> bool | None:
        gap = _last(records, data, "sign-update") - _last(records, data, "sign-epoch")
        return gap.above(0)

    return _judge(records, ("sign-update", "sign-epoch"), check, any_of)


@claim(needs("projections", "sign-epoch", "sign-some", "sign-many", "sign-end"))
def sign_too_rarely(records: Records) -> Finding:
    """App. B: Not discretizing often enough “may result on a similar phenomenon”.
    Read as: The last test distances with rare signs, and with one at the end alone, minus that with the
    sign after each epoch.
    Rule: Both above 0 on one of the two data sets at least, by 2 σ."""

    def check(data: str) -> bool | None:
        usual = _last(records, data, "sign-epoch")
        return all_of(*((_last(records, data, n) - usual).above(0) for n in ("sign-many", "sign-end")))

    return _judge(records, ("sign-epoch", "sign-some", "sign-many", "sign-end"), check, any_of)


@claim(needs("projections", "clip-half", "clip-one", "clip-two"))
def any_bound(records: Records) -> Finding:
    """App. B: For other bounds x than 1 “we observe similar results in terms of training quality”.
    Read as: The last test distances with x = 1/2 and x = 2 minus that with x = 1, where the latter
    learns.
    Rule: Within {ALIKE} wherever x = 1 ends below {HALF}, half of chance, by 2 σ."""

    def check(data: str) -> bool | None:
        one = _last(records, data, "clip-one")
        gaps = [_last(records, data, n) - one for n in ("clip-half", "clip-two")]
        return all_of(*(x for gap in gaps for x in (gap.below(ALIKE), gap.above(-ALIKE))))

    learnt = [data for data in DATA if _last(records, data, "clip-one").below(HALF)]
    places = " and ".join(called(records, data) for data in learnt) or "nowhere"
    return _judge(
        records,
        ("clip-half", "clip-one", "clip-two"),
        check,
        where=learnt,
        note=f"x = 1 learns: {places}.",
    )


@claim(needs("projections", "gibbs-update", "gibbs-slow", "gibbs-epoch"), one_recipe=True)
def gibbs_projection(records: Records) -> Finding:
    """App. B: A third way, “for small learning rates”: Gibbs steps from the continuous patterns, “very
    natural to perform it at every training step”.
    Read as: The last distances with a Gibbs draw of the patterns after each update, at the usual rate
    or a tenth of it. The paper shows no such training.
    Rule: All below {LEARNT} at one of the rates, on both data sets, by 2 σ."""

    def check(data: str) -> bool | None:
        pairs = [
            all_of(*(_last(records, data, name, part).below(LEARNT) for part in SPLITS))
            for name in ("gibbs-update", "gibbs-slow")
        ]
        return any_of(*pairs)

    return _judge(records, ("gibbs-update", "gibbs-slow", "gibbs-epoch"), check)
