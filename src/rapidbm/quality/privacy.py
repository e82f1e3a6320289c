"""Are sampled rows copies of training rows? A test against rows that were held out.

A machine that has learned a distribution draws rows that lie as near to held-out rows as to training
rows; one that copies draws rows that lie at training rows. The distance of two rows is the mean over
their columns of

    1 [a ≠ b]  for words,      |rank(a) − rank(b)|  for numbers, ranks from 0 to 1             (1)

and ½ where a cell is missing in one of them. Each sample gives a weight of 1 to the row that is nearest
among the n training and the m held-out rows together, or in parts to rows that are equally near. Of S
samples the training rows have the weight W, and if a share f of the samples are copies

    W / S = f + (1 − f) n / (n + m)                                                           (2)

If samples do not know which rows were trained on, the rows that were are n random ones of n + m: W then
has the mean S n / (n + m) and the variance

    n m / ((n + m)(n + m − 1)) · Σ_r (w_r − w̄)²                                               (3)

whatever the samples and the shape of the table. f is significant above `SIGMAS` standard errors of (3).
Every machine knows its training rows a little better than others, so that this alone is no copying: f
must be above `SHARE` by `MARGIN` standard errors, too, or above `EXACTLY` where only samples count that
equal a row.

A machine that is overfitted gives itself away by log p, too: the share of pairs of a training and a
held-out row in which the training row has the larger one (½ if the machine knows nothing of its rows) is
above `PAIRS` by as many standard errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..arrays import Array, as_array
from ..data.table_schema import TableSchema
from ..display import Displayable, number
from ..errors import InputError
from ..estimates import Estimate
from ..progress import report_progress, watched
from .comparable import LEAST, Comparable, comparable
from .detection import auc

SHARE = 0.25  # of samples that are copies, above which it is copying
EXACTLY = 0.1  # the same of samples that equal a row
PAIRS = 0.7  # of pairs that log p tells apart, above which rows are known by heart
SIGMAS = 4.0  # standard errors; by chance in one of 30,000 tables
MARGIN = 2.5
CELLS = 2**18  # distances at once
MOST = 1000  # held-out rows whose own distances are taken, evenly spaced
EQUAL = 1e-9  # distances that are the same


@dataclass(frozen=True, repr=False)
class Privacy(Displayable):
    """Whether samples are copies of training rows.

    Attributes
    ----------
    copies : bool
        Whether copying is proven.
    verdict : str
        The same in words.
    copied : Estimate
        The share of samples that are copies of training rows, eq. (2) of `rapidbm.quality.privacy`, (1,);
        about 0, below it by chance, for samples that are new.
    nearer : float
        The share of samples whose nearest row is a training row.
    expected : float
        What that would be if samples did not know the training rows.
    exact : tuple of float
        The share of samples that equal a training row, and of held-out rows that do.
    distances : array of shape (samples,)
        Distance of each sample to the nearest training row, from 0 to 1.
    held_out : array of shape (held-out rows,)
        The same of each held-out row, or of 1,000 of them.
    gap : Estimate, optional
        Mean log p of training rows minus that of held-out rows, in nats, (1,).
    pairs : Estimate, optional
        The share of pairs of a training and a held-out row in which log p is larger in the training row,
        (1,): ½ when log p does not tell them apart.
    """

    copies: bool
    verdict: str
    copied: Estimate
    nearer: float
    expected: float
    exact: tuple[float, float]
    distances: Array
    held_out: Array
    gap: Estimate | None = None
    pairs: Estimate | None = None

    def _facts(self) -> list[tuple[str, str]]:
        middle, other = np.median(self.distances), np.median(self.held_out)
        of_log_p = []
        if self.gap is not None and self.pairs is not None:
            words = "nats, training rows above held-out ones"
            of_log_p = [
                ("gap of log p", f"{self.gap._line()} {words}"),
                ("pairs that log p tells apart", f"{self.pairs._line()}, 0.5 by chance"),
            ]
        return [
            ("verdict", self.verdict),
            ("share of copies", self.copied._line()),
            ("nearest row is a training row", f"{self.nearer:.3f}, {self.expected:.3f} by chance"),
            ("equal to a training row", f"{self.exact[0]:.3f}, held-out rows {self.exact[1]:.3f}"),
            (
                "median distance to training rows",
                f"{number(float(middle))}, held-out rows {number(float(other))}",
            ),
            *of_log_p,
        ]


@watched("distances of rows", remedy="give fewer samples")
def privacy(
    train: Any,
    held_out: Any,
    synthetic: Any,
    *,
    log_p: tuple[Any, Any] | None = None,
    schema: TableSchema | None = None,
    limit: float | None = None,
) -> Privacy:
    """Whether sampled rows are copies of training rows, judged by rows that were held out.

    Samples of a machine that copies lie nearer to training rows than to held-out rows of the same source:
    distances to the closest record, with the test of eqs. (1) to (3) of `rapidbm.quality.privacy`. It
    proves copying or does not. It is no guarantee of privacy: it says nothing of what else can be
    inferred about a person.

    Parameters
    ----------
    train : table
        The rows that were trained on: a path, a frame, or columns by name.
    held_out : table
        Rows of the same source that were not; a random part of the whole.
    synthetic : table
        Sampled rows, independent of each other.
    log_p : tuple of array, optional
        log p of training rows and of held-out rows by the machine, as `rb.log_p` has it, to see whether
        it is overfitted.
    schema : TableSchema, optional
        What the columns are; by default recognised from `train`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Privacy
        Verdict, share of copies, distances.

    Raises
    ------
    InputError
        If the tables differ in their columns or have fewer than 10 rows.

    Examples
    --------
    >>> import random
    >>> random.seed(0)
    >>> rows = [{"a": [random.gauss(0, 1) for _ in range(100)]} for _ in range(3)]
    >>> rb.privacy(*rows).copies, rb.privacy(rows[0], rows[1], rows[0]).copies
    (False, True)
    """
    found = comparable(schema, (train, held_out, synthetic), ("train", "held_out", "synthetic"))
    ours, others, samples = ranked(found)
    n, m = len(ours), len(others)
    weights, exactly, to_train, equal = _nearest(samples, np.concatenate([ours, others]), n, found)
    some = others[:: -(-m // MOST)]
    _, _, of_held_out, held_equal = _nearest(some, ours, n, found)
    count = len(samples)
    near, same = (_copied(each, n, count) for each in (weights, exactly))
    gap, pairs = (None, None) if log_p is None else _of_log_p(*log_p)
    proven = _proven(*near, SHARE) or _proven(*same, EXACTLY)
    return Privacy(
        proven or (pairs is not None and _above(pairs, PAIRS)),
        _verdict(near, same, pairs),
        _estimate(*near),
        float(weights[:n].sum() / count),
        n / (n + m),
        (float(equal.mean()), float(held_equal.mean())),
        to_train,
        of_held_out,
        gap,
        pairs,
    )


def _copied(weights: Array, n: int, count: int) -> tuple[float, float]:
    """The share f of (2) with the error (3), from the weights of the rows, n of them trained on, that
    `count` samples gave, all or some of them."""
    total, m = float(weights.sum()), len(weights) - n
    spread = float(((weights - weights.mean()) ** 2).sum())
    error = math.sqrt(n * m / ((n + m) * (n + m - 1)) * spread)
    scale = count * m / (n + m)
    return (float(weights[:n].sum()) - total * n / (n + m)) / scale, error / scale


def _verdict(near: tuple[float, float], same: tuple[float, float], pairs: Estimate | None) -> str:
    copied, error = near
    if _proven(copied, error, SHARE):
        told = f"about {100 * copied:.0f} % of the samples"
        return f"copies training rows: {told} lie at a training row, which no new row would"
    if _proven(*same, EXACTLY):
        told = f"about {100 * same[0]:.0f} % of the samples"
        return f"copies training rows: {told} equal a training row, which no new row would"
    if pairs is not None and _above(pairs, PAIRS):
        return (
            "copies training rows: the machine knows them by heart, log p is larger in a training row "
            f"than in a held-out one in {100 * float(pairs.value):.0f} % of pairs"
        )
    if not _proven(1.0, error, SHARE):
        return "too few rows to tell whether it copies training rows; hold out more"
    if copied > SIGMAS * error or (pairs is not None and _above(pairs, 0.5)):
        return (
            "no sign that it copies training rows, but it knows them better than held-out ones "
            "(overfitting)"
        )
    return "no sign that it copies training rows"


def _proven(copied: float, error: float, share: float) -> bool:
    """Whether so large a share is copying; in a table of few rows not even 1 is."""
    return copied > max(SIGMAS * error, share + MARGIN * error)


def _above(found: Estimate, level: float) -> bool:
    return float(found.value) - SIGMAS * float(found.error) > level


def _of_log_p(train: Any, held_out: Any) -> tuple[Estimate, Estimate]:
    """The gap of the means, and the share of pairs that are told apart."""
    a, b = (
        np.asarray(as_array(x, what=f"log p of {name}"), np.float64).reshape(-1)
        for x, name in ((train, "training rows"), (held_out, "held-out rows"))
    )
    for x, name in ((a, "training"), (b, "held-out")):
        if len(x) < LEAST or not np.isfinite(x).all():
            raise InputError(
                f"log p of {name} rows must be {LEAST} finite numbers or more, not {len(x)} of which "
                f"{int(np.isfinite(x).sum())} are finite; give rb.log_p(machine, rows).value[0]"
            )
    error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return _estimate(float(a.mean() - b.mean()), error), _estimate(*auc(a, b))


def _estimate(value: float, error: float) -> Estimate:
    return Estimate(*(torch.tensor([x], dtype=torch.float64) for x in (value, error)))


def ranked(found: Comparable) -> list[Array]:
    """Tables with numbers as ranks among the rows of the first two, from 0 to 1."""
    tables = [table.copy() for table in found.tables]
    for column in np.flatnonzero(found.numeric):
        known = np.concatenate([table[:, column] for table in tables[:2]])
        known = np.sort(known[~np.isnan(known)])
        for table in tables:
            x = table[:, column]
            middle = np.searchsorted(known, x, "left") + np.searchsorted(known, x, "right")
            table[:, column] = np.where(np.isnan(x), np.nan, middle / (2 * max(1, len(known))))
    return tables


def _nearest(rows: Array, among: Array, n: int, found: Comparable) -> tuple[Array, Array, Array, Array]:
    """How often each of `among` is nearest to one of the rows, ties in parts, and how often it equals
    one; the distance of each row to the nearest of the first n, and whether these are equal."""
    weights, exactly = np.zeros(len(among)), np.zeros(len(among))
    nearest = np.empty(len(rows))
    step = max(1, CELLS // len(among))
    for start in range(0, len(rows), step):
        report_progress()
        distance = _distances(rows[start : start + step], among, found.numeric)
        low = distance.min(1, keepdims=True)
        least = distance <= low + EQUAL
        each = least / least.sum(1, keepdims=True)
        weights += each.sum(0)
        exactly += each[low[:, 0] < EQUAL].sum(0)
        nearest[start : start + step] = distance[:, :n].min(1)
    return weights, exactly, nearest, nearest < EQUAL


def _distances(a: Array, b: Array, numeric: tuple[bool, ...]) -> Array:
    """Eq. (1), (rows of a, rows of b)."""
    total = np.zeros((len(a), len(b)))
    for column, ranks in enumerate(numeric):
        x, y = a[:, column, None], b[None, :, column]
        apart = np.abs(x - y) if ranks else (x != y).astype(np.float64)
        lost_x, lost_y = np.isnan(x), np.isnan(y)
        if lost_x.any() or lost_y.any():
            apart = np.where(lost_x | lost_y, np.where(lost_x & lost_y, 0.0, 0.5), apart)
        total += apart
    return total / len(numeric)
