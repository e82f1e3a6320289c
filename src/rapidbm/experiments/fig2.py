"""Fig. 2: accessibility of the ground state during training on 4×4 bars.

(a) by Gibbs sampling: the lowest energy that ten sweeps from random starts reach; (b) by the method:
the lowest energy among the configurations that its negative phase uses; both over the ground state's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import bars
from .bench import Claim, Finding, Item, Number, Record, Records, all_of
from .drawing import curve, epochs_axis, panels, sizes_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = {
    "gibbs": "Gibbs accessibility",
    "method": "method accessibility",
}


def _draw(records: Records, key: str) -> Figure:
    fig, (axes,) = panels()
    for name, pen in bars.LOOK.items():
        record = records.get(f"bars.{name}")
        if record is not None and key in record.values:
            curve(axes, record["epochs"], record.array(key), pen, bars.NAMES[name])
    axes.set_ylim(0, 1.03)
    epochs_axis(axes, KIND[key])
    axes.legend(loc="best")
    return fig


def _caption(records: Records, key: str) -> str:
    what = {
        "gibbs": "Lowest energy after ten Gibbs sweeps of ten chains from random starts",
        "method": "Lowest energy among the configurations that the negative phase uses (of PID the "
        "patterns as spins, though it averages over hidden means; the exact gradient has none)",
    }[key]
    return (
        f"{what}, over the ground-state energy, during training on 4×4 bars. Bands: one standard "
        f"deviation over instances. {sizes_of(records)}"
    )


def _item(key: str) -> Item:
    return Item(
        f"{KIND[key][0].upper()}{KIND[key][1:]} during training",
        ("bars",),
        lambda records: _draw(records, key),
        lambda records: _caption(records, key),
    )


ITEMS = {"fig2a": _item("gibbs"), "fig2b": _item("method")}


# -- claims -------------------------------------------------------------------------------------------


def _at(record: Record, key: str, index: int) -> Number:
    return Number.of(record.array(key)[index])


def _rises(records: Records) -> Finding:
    told, answers = [], []
    for name in ("cd", "pcd", "exact"):
        record = records[f"bars.{name}"]
        start, end = _at(record, "gibbs", 0), _at(record, "gibbs", -1)
        told.append(f"{bars.NAMES[name]} {start} → {end}")
        answers.append((end - start).above(start.value))
    return Finding(all_of(*answers), "; ".join(told), "Dramatically: to twice the start or more.")


def _efficient(records: Records) -> Finding:
    ends = {n: _at(records[f"bars.{n}"], "gibbs", -1) for n in ("cd", "pcd", "exact")}
    epochs = records["bars.cd"]["epochs"][-1]
    told = "; ".join(f"{bars.NAMES[n]} {end}" for n, end in ends.items())
    return Finding(
        all_of(*(end.above(0.9) for end in ends.values())),
        f"Gibbs accessibility after {epochs} epochs: {told}",
        "Efficient: above 0.9. With the rates of the released program the weights still grow then.",
    )


def _always(records: Records) -> Finding:
    least = record_least(records["bars.rapid"], "gibbs")
    return Finding(least.above(0.9), f"lowest mean over the training {least}")


def record_least(record: Record, key: str) -> Number:
    """The lowest mean over instances of a course."""
    rows = record.array(key)
    return Number.of(rows[int(np.argmin(rows.mean(1)))])


def _early_and_late(records: Records) -> Finding:
    rapid = records["bars.rapid"]
    told, early, late = [], [], []
    first = rapid["epochs"].index(1)
    for name in ("cd", "pcd"):
        other = records[f"bars.{name}"]
        start = _at(rapid, "method", first) - _at(other, "method", other["epochs"].index(1))
        end = _at(rapid, "method", -1) - _at(other, "method", -1)
        early.append(start.above(0.0))
        late.append(end.below(0.0))
        told.append(f"RAPID minus {bars.NAMES[name]}: {start} at epoch 1, {end} at the end")
    return Finding(all_of(*early, *late), "; ".join(told))


def _flat(records: Records) -> Finding:
    rapid = records["bars.rapid"]
    rows = rapid.array("method")
    first = rapid["epochs"].index(1)
    low = first + int(np.argmin(rows[first:].mean(1)))
    change = Number.of(rows[-1] - rows[0])
    return Finding(
        change.below(0.05),
        f"method accessibility of PID {_at(rapid, 'method', 0)} before training, "
        f"{_at(rapid, 'method', first)} after epoch 1, lowest {_at(rapid, 'method', low)} at epoch "
        f"{rapid['epochs'][low]}, {_at(rapid, 'method', -1)} at the end: change over all {change}, "
        f"from the lowest {Number.of(rows[-1] - rows[low])}",
        "No improvement: the end is less than 0.05 above the start.",
    )


def _like_gibbs(records: Records) -> Finding:
    told, answers = [], []
    for name in ("cd", "pcd"):
        record = records[f"bars.{name}"]
        difference = record.array("method") - record.array("gibbs")
        rows = [Number.of(row) for row in difference]
        least = min(rows, key=lambda n: n.value)
        most = max(rows, key=lambda n: n.value)
        told.append(f"{bars.NAMES[name]}: method minus Gibbs between {least} and {most}")
        answers.append(not least.below(0.0))
    return Finding(all_of(*answers), "; ".join(told))


_ALL = tuple(f"bars.{name}" for name in bars.NAMES)
CLAIMS = (
    Claim(
        "access-rises-in-training",
        "Sec. V.A.1, Fig. 2a",
        "During the training of standard machines the Gibbs accessibility rises dramatically.",
        _ALL[1:],
        _rises,
    ),
    Claim(
        "access-ends-efficient",
        "Sec. V.A.1, Fig. 2a",
        "After training, Gibbs sampling reaches the lowest energies of all standard machines with ease.",
        _ALL[1:],
        _efficient,
        full=True,
    ),
    Claim(
        "ra-always-accessible",
        "Sec. V.A.1, Fig. 2a",
        "RA machines are easy to sample at every moment of their training.",
        _ALL[:1],
        _always,
    ),
    Claim(
        "pid-early-and-late",
        "Sec. V.A.2, Fig. 2b",
        "In method accessibility PID is far ahead in the first epochs, and behind at the end.",
        _ALL[:3],
        _early_and_late,
        full=True,
    ),
    Claim(
        "pid-does-not-improve",
        "Sec. V.A.2, Fig. 2b",
        "The method accessibility of PID does not improve with training.",
        _ALL[:1],
        _flat,
    ),
    Claim(
        "method-like-gibbs",
        "Sec. V.A.2, Fig. 2b",
        "CD's and PCD's method accessibility is as good as their Gibbs accessibility, or better.",
        _ALL[1:3],
        _like_gibbs,
    ),
)
