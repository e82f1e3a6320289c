"""Fig. 2: accessibility of the ground state during training on 4×4 bars.

(a) by Gibbs sampling: the lowest energy that ten sweeps from random starts reach; (b) by the method:
the lowest energy among the configurations that its negative phase uses; both over the ground state's.
"""

from __future__ import annotations

import numpy as np

from ..claims import Finding, Number, all_of, claim
from ..drawing import Figure, item
from ..records import Record, Records
from . import bars4 as bars

EASY = 0.9  # the accessibility of a machine that is easy to sample
ALIKE = 0.1  # a difference of accessibilities that are very similar
IMPROVED = 0.05  # a rise that counts


_OVER = (
    f"over the ground-state energy, during training on 4×4 bars. {bars.ADAMS} Bands: one standard "
    "deviation over instances."
)


@item("Gibbs accessibility during training", ("bars",))
def fig2a(records: Records) -> Figure:
    """Lowest energy after ten Gibbs sweeps of ten chains from random starts, {_OVER}"""
    return bars.figure(records, "gibbs", "Gibbs accessibility", 1.03)


@item("Method accessibility during training", ("bars",))
def fig2b(records: Records) -> Figure:
    """Lowest energy among the configurations that the negative phase uses (of PID the patterns as
    spins, though it averages over hidden means; the exact gradient has none), {_OVER}"""
    return bars.figure(records, "method", "method accessibility", 1.03)


def _at(record: Record, key: str, index: int) -> Number:
    return Number.of(record.array(key)[index])


def _epochs(records: Records) -> str:
    _, _, record = bars.standard(records)[0]
    return f"after {record['epochs'][bars.paper_end(record)]} epochs"


_ADAM = "Adam as released."
_SAMPLED = tuple(f"bars.{bars.RELEASED[method]}" for method in ("cd", "pcd"))
_BESIDE = tuple(f"bars.{bars.USUAL[method]}" for method in ("cd", "pcd"))


@claim(bars.PAPERS[1:], bars.BESIDE)
def access_rises_in_training(records: Records) -> Finding:
    """Sec. V.A.1, Fig. 2a: During the training of standard RBMs the ability to reach low-energy states
    by Gibbs sampling “rises dramatically”.
    Read as: The Gibbs accessibility of CD-10, PCD-10 and the exact gradient before and after. {_ADAM}
    Rule: Each ends at more than twice its start, by 2 σ."""
    told, answers = [], []
    for name, words, record in bars.standard(records):
        rows, last = record.array("gibbs"), bars.paper_end(record)
        told.append(f"{words} {Number.of(rows[0])} → {Number.of(rows[last])}")
        if name in bars.RELEASED.values():
            answers.append(Number.of(rows[last] - 2 * rows[0]).above(0))
    return Finding(all_of(*answers), f"{_epochs(records)}: {'; '.join(told)}")


@claim(bars.PAPERS[1:], bars.BESIDE, full=True, one_recipe=True)
def access_ends_efficient(records: Records) -> Finding:
    """Sec. V.A.1, Fig. 2a: After training “all standard RBM models end up in a regime where Gibbs
    sampling is efficiently reaching the low-energy sector”.
    Read as: The Gibbs accessibility at the released program's last epoch. {_ADAM}
    Rule: Each above {EASY}, by 2 σ."""
    told, answers = [], []
    for name, words, record in bars.standard(records):
        last = bars.paper_end(record)
        end = _at(record, "gibbs", last)
        later = record["epochs"][-1]
        more = f" (after {later}: {_at(record, 'gibbs', -1)})"
        told.append(f"{words} {end}{more if record['epochs'][last] != later else ''}")
        if name in bars.RELEASED.values():
            answers.append(end.above(EASY))
    return Finding(all_of(*answers), f"Gibbs accessibility {_epochs(records)}: {'; '.join(told)}")


@claim(bars.PAPERS[:1])
def ra_always_accessible(records: Records) -> Finding:
    """Sec. V.A.1, Fig. 2a: RA machines “are always in a regime of good sampling”.
    Read as: The Gibbs accessibility of RAPID at every look.
    Rule: The lowest mean above {EASY}, by 2 σ."""
    rows = records["bars.rapid"].array("gibbs")
    least = Number.of(rows[int(np.argmin(rows.mean(1)))])
    return Finding(least.above(EASY), f"lowest mean over the training {least}")


@claim(("bars.rapid", *_SAMPLED), _BESIDE, full=True, one_recipe=True)
def pid_early_and_late(records: Records) -> Finding:
    """Sec. V.A.2, Fig. 2b: In method accessibility PID is “greatly better” in the initial epochs, and
    conventional methods “seem” better at late stages.
    Read as: RAPID minus CD-10 and minus PCD-10, after epoch 1 and at the released program's last one.
    {_ADAM}
    Rule: Above 0 after epoch 1 and below 0 at the end for both, by 2 σ."""
    rapid = records["bars.rapid"]
    told, early, late = [], [], []
    first = rapid["epochs"].index(1)
    for name, words, other in bars.standard(records):
        if "method" not in other.values:
            continue
        last = bars.paper_end(other)
        start = _at(rapid, "method", first) - _at(other, "method", other["epochs"].index(1))
        end = _at(rapid, "method", -1) - _at(other, "method", last)
        if name in bars.RELEASED.values():
            early.append(start.above(0.0))
            late.append(end.below(0.0))
        later, more = other["epochs"][-1], ""
        if later > other["epochs"][last]:
            far = _at(rapid, "method", -1) - _at(other, "method", -1)
            more = f", {far} when the latter has gone on to epoch {later}"
        told.append(f"RAPID minus {words}: {start} at epoch 1, {end} at the end{more}")
    return Finding(all_of(*early, *late), "; ".join(told))


@claim(bars.PAPERS[:1])
def pid_does_not_improve(records: Records) -> Finding:
    """Sec. V.A.2, Fig. 2b: “For PID the method accessibility does not improve with training.”
    Read as: The end of the training minus its start.
    Rule: Less than {IMPROVED}, by 2 σ."""
    rapid = records["bars.rapid"]
    rows = rapid.array("method")
    first = rapid["epochs"].index(1)
    low = first + int(np.argmin(rows[first:].mean(1)))
    change = Number.of(rows[-1] - rows[0])
    return Finding(
        change.below(IMPROVED),
        f"method accessibility of PID {_at(rapid, 'method', 0)} before training, "
        f"{_at(rapid, 'method', first)} after epoch 1, lowest {_at(rapid, 'method', low)} at epoch "
        f"{rapid['epochs'][low]}, {_at(rapid, 'method', -1)} at the end: change over all {change}, "
        f"from the lowest {Number.of(rows[-1] - rows[low])}",
    )


@claim(_SAMPLED, _BESIDE)
def method_like_gibbs(records: Records) -> Finding:
    """Sec. V.A.2, Fig. 2b: For CD method and Gibbs accessibility are “very similar”, the former
    “slightly better”; for PCD it is better.
    Read as: Their difference, a mean over the course. {_ADAM}
    Rule: CD-10 between 0 and {ALIKE}, PCD-10 above 0, by 2 σ."""
    told, answers = [], []
    for name, words, record in bars.standard(records):
        if "method" not in record.values:
            continue
        difference = record.array("method") - record.array("gibbs")
        rows = Number.each(difference)
        mean = Number.of(difference.mean(0))
        least, most = (some(rows, key=lambda n: n.value) for some in (min, max))
        told.append(f"{words} {mean}, between {least} and {most}")
        if name == bars.RELEASED["cd"]:
            answers += [mean.above(0.0), mean.below(ALIKE)]
        elif name == bars.RELEASED["pcd"]:
            answers.append(mean.above(0.0))
    return Finding(all_of(*answers), f"method minus Gibbs accessibility: {'; '.join(told)}")
