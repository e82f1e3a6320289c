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
from typing import TYPE_CHECKING, Any

from ...training.projections import Sign
from ...training.trainer import Trainer
from ..drawing import PENS, epochs_axis, panels, points, sizes_of
from ..study import (
    Bench,
    Claim,
    Finding,
    Item,
    Number,
    Part,
    Record,
    Records,
    Values,
    all_of,
    any_of,
)
from .fig3 import HALF, LEARNT
from .two_sets import DATA, TwoSets, called, distances, last, needs, recipe_on, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
class Config(TwoSets):
    bars_intervals: tuple[int, int]
    bas_intervals: tuple[int, int]


SCALES = {
    "tiny": Config(
        bars_instances=2,
        bars_hidden=500,
        bars_epochs=1,
        bars_intervals=(1, 1),
        bas_size=4,
        bas_instances=2,
        bas_hidden=500,
        bas_patterns=6,
        bas_batch=12,
        bas_epochs=1,
        bas_intervals=(1, 1),
        bars_tries=2,
        bas_tries=2,
    ),
    "quick": Config(
        bars_instances=12,
        bars_hidden=1000,
        bars_epochs=100,
        bars_intervals=(10, 50),
        bas_size=8,
        bas_instances=6,
        bas_hidden=1000,
        bas_patterns=20,
        bas_batch=20,
        bas_epochs=30,
        bas_intervals=(5, 15),
        bars_tries=20,
        bas_tries=10,
    ),
    "paper": Config(
        bars_instances=100,
        bars_hidden=1000,
        bars_epochs=300,
        bars_intervals=(10, 50),
        bas_size=12,
        bas_instances=10,
        bas_hidden=1000,
        bas_patterns=40,
        bas_batch=120,
        bas_epochs=20,
        bas_intervals=(5, 10),
        bars_tries=100,
        bas_tries=2,
    ),
}


def every(epochs: int) -> Callable[[Trainer], None]:
    """Eq. (1) each so many epochs, for `course(each_epoch=…)`."""

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


def _train(bench: Bench, config: Config, data: str, name: str) -> Values:
    small = data == "bars"
    intervals = config.bars_intervals if small else config.bas_intervals
    options, by_hand = _choice(name, intervals, config.bars_epochs if small else config.bas_epochs)
    recipe = recipe_on(bench, config, data, **options)
    return distances(bench, config, data, recipe, every(by_hand) if by_hand else None)


def parts(config: Config) -> dict[str, Part]:
    def one(data: str, name: str) -> Part:
        return Part(lambda bench: _train(bench, config, data, name))

    return {f"{data}-{name}": one(data, name) for data in DATA for name in NAMES}


# -- figure -------------------------------------------------------------------------------------------

_CLIP = ("clip-half", "clip-one", "clip-two")
_GIBBS = ("gibbs-update", "gibbs-slow", "gibbs-epoch")
GROUPS = (
    ("sign-epoch", "sign-update", "sign-some", "sign-many", "sign-end"),
    ("sign-epoch", *_CLIP, *_GIBBS, "none"),
)


def _draw(records: Records) -> Figure:
    fig, axes = panels(2, 2, height=2.5)
    for row, data in enumerate(DATA):
        for column, names in enumerate(GROUPS):
            here = axes[2 * row + column]
            for pen, name in zip(PENS, names, strict=False):
                record = records.get(f"projections.{data}-{name}")
                if record is not None:
                    means = [Number.of(values) for values in record.array("hamming_test")]
                    points(here, record["epochs"], means, pen, NAMES[name].format(**_every(record)))
            here.set_ylim(0, 0.55)
            letter = "abcd"[2 * row + column]
            epochs_axis(here, "Hamming distance, test set", f"({letter}) {called(records, data)}")
    left, right = axes[0].get_legend_handles_labels(), axes[1].get_legend_handles_labels()
    if left[0]:
        fig.legend(*left, loc="outside lower left", ncols=2)
    if right[0]:
        fig.legend(*right, loc="outside lower right", ncols=2)
    return fig


def _every(record: Record) -> dict[str, str]:
    """The intervals in words: on bars / on bars and stripes."""
    pairs = [record.settings.get(f"{data}_intervals", ("few", "many")) for data in DATA]
    return {
        name: "/".join(str(pair[i]) for pair in pairs) for i, name in enumerate(("some", "many"))
    }


def _caption(records: Records) -> str:
    return (
        "Share of wrong pixels in completed test images while RAPID machines are trained with different "
        "projections of the patterns: left, the sign at different intervals (on bars / on bars and "
        "stripes); right, restriction to [−x, x] after each update, a Gibbs draw, and none. Error bars: "
        f"standard errors over instances. {sizes_of(records)}"
    )


ITEMS = {"projections": Item("Projections of the patterns", ("projections",), _draw, _caption)}


# -- claims -------------------------------------------------------------------------------------------


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
    tiny = any(record.scale == "tiny" for record in records.values())
    return Finding(None if tiny else holds, told(records, words, "projections"), note)


def _too_often(records: Records) -> Finding:
    def check(data: str) -> bool | None:
        gap = _last(records, data, "sign-update") - _last(records, data, "sign-epoch")
        return gap.above(0)

    return _judge(
        records,
        ("sign-update", "sign-epoch"),
        check,
        any_of,
    )


def _too_rarely(records: Records) -> Finding:
    def check(data: str) -> bool | None:
        usual = _last(records, data, "sign-epoch")
        return all_of(
            *((_last(records, data, n) - usual).above(0) for n in ("sign-many", "sign-end"))
        )

    return _judge(
        records,
        ("sign-epoch", "sign-some", "sign-many", "sign-end"),
        check,
        any_of,
    )


def _any_bound(records: Records) -> Finding:
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


def _gibbs(records: Records) -> Finding:
    def check(data: str) -> bool | None:
        pairs = [
            all_of(*(_last(records, data, name, part).below(LEARNT) for part in ("train", "test")))
            for name in ("gibbs-update", "gibbs-slow")
        ]
        if True in pairs:
            return True
        return None if None in pairs else False

    return _judge(
        records,
        ("gibbs-update", "gibbs-slow", "gibbs-epoch"),
        check,
    )


CLAIMS = (
    Claim(
        "sign-too-often",
        "App. B",
        "Discretizing too often “may result in the erasure of the information learnt”.",
        "The last test distance with the sign after each update minus that with the sign after each "
        "epoch.",
        "Above 0 on one of the two data sets at least, by 2 σ.",
        needs("projections", "sign-update", "sign-epoch"),
        _too_often,
    ),
    Claim(
        "sign-too-rarely",
        "App. B",
        "Not discretizing often enough “may result on a similar phenomenon”.",
        "The last test distances with rare signs, and with one at the end alone, minus that with the "
        "sign after each epoch.",
        "Both above 0 on one of the two data sets at least, by 2 σ.",
        needs("projections", "sign-epoch", "sign-some", "sign-many", "sign-end"),
        _too_rarely,
    ),
    Claim(
        "any-bound",
        "App. B",
        "For other bounds x than 1 “we observe similar results in terms of training quality”.",
        "The last test distances with x = 1/2 and x = 2 minus that with x = 1, where the latter learns.",
        f"Within {ALIKE} wherever x = 1 ends below {HALF}, half of chance, by 2 σ.",
        needs("projections", "clip-half", "clip-one", "clip-two"),
        _any_bound,
    ),
    Claim(
        "gibbs-projection",
        "App. B",
        "A third way, “for small learning rates”: Gibbs steps from the continuous patterns, “very "
        "natural to perform it at every training step”.",
        "The last distances with a Gibbs draw of the patterns after each update, at the usual rate or "
        "a tenth of it. The paper shows no such training.",
        f"All below {LEARNT} at one of the rates, on both data sets, by 2 σ.",
        needs("projections", "gibbs-update", "gibbs-slow", "gibbs-epoch"),
        _gibbs,
        one_recipe=True,
    ),
)
