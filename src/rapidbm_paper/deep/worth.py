"""What a unit is worth in a second hidden layer and in the first, with nothing approximated.

Given the first hidden layer, all others are independent: of a machine with H₁ units there

    Z = Σ_{h₁} e^{b·h₁} Π_i 2cosh(field_i(h₁)),    i over all units of the other layers           (1)

2^H₁ terms, however many i there are. So with few units in the first layer the gradient of log p is exact
in both of its averages, and so is log p, for real images. A machine of H₁ units gets some more of them,
in its first layer or in a second one. The deep machine contains the restricted one of H₁ units, couplings
to its second layer at 0; what the second layer adds is read off, with no chain, no mean field and no
glass that could stand in its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rapidbm.data.catalogue import load
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.pictures import PENS, label, panels

from ..claims import Finding, Number, claim
from ..drawing import Figure, item, legend_below, points
from ..lab import Lab, Rows, Settings, by_scale, each, shortened
from ..records import Record, Records, Values

NAMES = {"ra": "RA", "dense": "dense"}
PLACES = {"first": "in the first layer", "second": "in a second layer"}
FAIR = 0.5  # of what units are worth in the first layer


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    train: int | None = by_scale(tiny=60, quick=None, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=20, quick=None, paper=None)
    instances: int = by_scale(tiny=2, quick=3, paper=10)
    first: int = by_scale(tiny=3, quick=6, paper=6)  # units of the first layer, H₁
    more: tuple[int, ...] = by_scale(tiny=(1, 2), quick=(2, 6), paper=(2, 4, 6))
    patterns: int = by_scale(tiny=3, quick=12, paper=12)
    epochs: int = by_scale(tiny=1, quick=100, paper=200)
    batch_size: int = by_scale(tiny=30, quick=200, paper=200)
    rate: float = 0.01


def _trained(lab: Lab, scale: Scale, kind: str) -> Values:
    """Exact log p after exact ascent, of the plain machine and with units added in either place."""
    data, rows = shortened(load("digits"), scale.train, scale.test), Rows()
    places = [("first", 0)] + [(place, more) for more in scale.more for place in PLACES]
    for i, (place, more) in enumerate(places):
        deep = place == "second"
        chosen: dict[str, Any] = {
            "model": "dbm" if deep else "rbm",
            "hidden": (scale.first, more) if deep else (scale.first + more,),
            "positive": "enumerated" if deep else "mean",
        }
        part = lab.within(i / len(places), (i + 1) / len(places))
        recipe = part.recipe(
            "digits",
            "auto",
            patterns=scale.patterns if kind == "ra" else None,
            negative="exact",
            centred=False,  # the means of hidden units are followed by chains, and here are none
            replicas=scale.instances,
            rate=(scale.rate,),
            batch_size=scale.batch_size,
            epochs=scale.epochs,
            metrics=("hamming",),  # not asked for: the end is judged here
            **chosen,
        )
        name = f"{place}-{more}"
        _, run = part.train(recipe, {}, data=data, at=lambda epoch: False, name=name)
        machine = part.machine(run)
        ends = {
            key: log_likelihood(machine, split, method="exact").value
            for key, split in (("train", data.train), ("test", data.test))
        }
        rows.add({"place": place, "more": more, "updates": run.info["update"], **ends})
    return rows


PARTS = each(_trained, tuple(NAMES))


def _gains(record: Record, place: str, key: str = "test") -> dict[int, Number]:
    """By how much log p is above that of the machine without units added."""
    rows = list(zip(record["place"], record["more"], record.array(key), strict=True))
    (bare,) = [Number.of(values) for _, more, values in rows if not more]
    return {more: Number.of(values) - bare for at, more, values in rows if more and at == place}


def _ends(record: Record, place: str) -> list[Number]:
    """Test log p, of the plain machine first."""
    rows = list(zip(record["place"], record["more"], record.array("test"), strict=True))
    return [Number.of(values) for at, more, values in rows if not more or at == place]


@item("What a unit is worth in a second layer", ("deep-worth",))
def deep_worth(records: Records) -> Figure:
    """Exact log p of test digits after ascent by exact gradients, against how many units were added to a
    restricted machine, in its first hidden layer or in a second one: (a) Regularized Axons, (b) dense
    couplings. Error bars: standard errors over instances."""
    fig, axes = panels(2, height=2.6)
    for axis, letter, (kind, words) in zip(axes, "ab", NAMES.items(), strict=True):
        record = records.get(f"deep-worth.{kind}")
        if record is not None:
            added = sorted({0, *record["more"]})
            for pen, (place, where) in zip(PENS, PLACES.items(), strict=False):
                points(axis, added, _ends(record, place), pen, where)
        label(axis, "units added", "log p of test images", f"({letter}) {words}")
    legend_below(fig, axes[0], 2)
    return fig


@claim(("deep-worth.ra", "deep-worth.dense"), full=True)
def deep_worth_of_a_unit(records: Records) -> Finding:
    """Sec. VI: Efficient algorithms for training deep Boltzmann machines are “long-sought-after”.
    Read as: Exact log p of test images that units add in a second hidden layer, over what as many add in
    the first, both trained by exact gradients; the most that were added.
    Rule: At least {FAIR} with Regularized Axons and with dense couplings, by 2 σ."""
    told, answers = [], []
    for kind, words in NAMES.items():
        record = records[f"deep-worth.{kind}"]
        first, second = (_gains(record, place) for place in PLACES)
        most = max(first)
        answers.append((second[most] - first[most] * FAIR).above(0.0))
        told.append(f"{words}, {most} units: first layer {first[most]}, second {second[most]}")
    holds = None if None in answers else all(answers)
    return Finding(holds, "; ".join(told))
