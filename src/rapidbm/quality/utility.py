"""Train on sampled rows, test on real ones: is a model of one column as good as one of real rows?

The same boosted trees are fitted to sampled rows and to as many real ones, and judged on real rows that
neither has seen: by the share of words that are right, or for numbers by

    R² = 1 − Σ (y − ŷ)² / Σ (y − ȳ)²                                                      (1)

ȳ is the mean of the tested rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..arrays import Array
from ..data.table_schema import TableSchema
from ..display import Displayable
from ..errors import InputError, unknown
from ..estimates import Estimate
from ..progress import watched
from ..random import check_seed
from .comparable import Comparable, comparable, with_gaps_of
from .detection import trees

ACCURACY, R2 = "accuracy", "R²"


@dataclass(frozen=True, repr=False)
class Utility(Displayable):
    """A column predicted from the others, by models of sampled and of real rows.

    Attributes
    ----------
    column : str
        What is predicted.
    measure : str
        "accuracy" of words, "R²" of numbers: 1 is perfect.
    synthetic : Estimate
        Of the model that was trained on sampled rows, on real rows, (1,).
    real : Estimate
        Of the model that was trained on as many real rows.
    gap : Estimate
        real − synthetic; its error is that of the difference on the same rows.
    baseline : float
        Of the most frequent word, or of the mean: 0.
    rows : tuple of int
        Rows that each was trained on, and rows of the test.
    """

    column: str
    measure: str
    synthetic: Estimate
    real: Estimate
    gap: Estimate
    baseline: float
    rows: tuple[int, int]

    def _facts(self) -> list[tuple[str, str]]:
        few = f"{self.measure} {self.baseline:.3f}, of the most frequent word"
        return [
            ("column", self.column),
            ("trained on sampled rows", f"{self.measure} {self.synthetic._line()}"),
            ("trained on real rows", f"{self.measure} {self.real._line()}"),
            ("difference", self.gap._line()),
            ("without a model", few if self.measure == ACCURACY else "R² 0, of the mean"),
            ("rows", f"{self.rows[0]:,} to train, {self.rows[1]:,} to test"),
        ]


@watched("models of a column", remedy="give fewer rows")
def utility(
    train: Any,
    test: Any,
    synthetic: Any,
    column: str,
    *,
    schema: TableSchema | None = None,
    seed: int = 0,
    limit: float | None = None,
) -> Utility:
    """Train on synthetic, test on real: the score of a model of one column, beside that of real rows.

    Both models are boosted trees, fitted to the same number of rows.

    Parameters
    ----------
    train : table
        Real rows to train on: a path, a frame, or columns by name.
    test : table
        Real rows that neither model sees.
    synthetic : table
        Sampled rows.
    column : str
        What is predicted from the other columns.
    schema : TableSchema, optional
        What the columns are; by default recognised from `train`.
    seed : int, default 0
        Seed of the choice of rows, and of the trees.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Utility
        Both scores, and their difference with its error.

    Raises
    ------
    InputError
        If there is no such column, or too few rows have a value in it.

    Examples
    --------
    >>> import random
    >>> random.seed(0)
    >>> x = [random.random() for _ in range(400)]
    >>> rows = {"x": x, "y": ["high" if a > 0.5 else "low" for a in x]}
    >>> rb.utility(rows, rows, rows, "y").measure
    'accuracy'
    """
    check_seed(seed)
    both = comparable(schema, (train, test, synthetic), ("train", "test", "synthetic"))
    return of_column(both, column, seed)


def of_column(both: Comparable, column: str, seed: int) -> Utility:
    """The same of tables that are training rows, test rows and samples."""
    if column not in both.names:
        raise unknown("column with two different values", column, both.names)
    if len(both.names) < 2:
        raise InputError(
            f"column {column!r} is the only one; a model predicts it from others: give a table of two "
            "columns or more"
        )
    rng, at = np.random.default_rng(seed), both.names.index(column)
    real, test, sampled = both.tables
    sampled = with_gaps_of(real, sampled, rng)
    real, test, sampled = (x[~np.isnan(x[:, at])] for x in (real, test, sampled))
    count = min(len(real), len(sampled))
    if count < 2 or len(test) < 2:
        raise InputError(
            f"column {column!r} must be known in two rows of each table, not in {len(real)}, {len(test)} "
            f"and {len(sampled)}; give more rows"
        )
    some = [x[rng.permutation(len(x))[:count]] for x in (sampled, real)]
    y = test[:, at]
    losses, scale = [], 1.0
    for rows in some:
        guess = _predictions(both, rows, test, at, seed)
        if both.numeric[at]:
            losses.append((guess - y) ** 2)
            scale = float(((y - y.mean()) ** 2).mean()) or 1.0
        else:
            losses.append((guess != y).astype(np.float64))
    theirs, ours = (_score(1 - loss / scale) for loss in losses)
    gap = _score((losses[0] - losses[1]) / scale)
    if both.numeric[at]:
        return Utility(column, R2, theirs, ours, gap, 0.0, (count, len(y)))
    words, counts = np.unique(some[1][:, at], return_counts=True)
    baseline = float((y == words[counts.argmax()]).mean())
    return Utility(column, ACCURACY, theirs, ours, gap, baseline, (count, len(y)))


def _predictions(both: Comparable, rows: Array, test: Array, at: int, seed: int) -> Array:
    others = np.delete(np.arange(rows.shape[1]), at)
    y = rows[:, at]
    if (y == y[0]).all():
        return np.full(len(test), y[0])
    numeric = both.numeric[at]
    model = trees(both, others, seed, numbers=numeric)
    if not numeric:
        model.set_params(class_weight=None)  # as many right as can be
    return np.asarray(model.fit(rows[:, others], y).predict(test[:, others]), np.float64)


def _score(each: Array) -> Estimate:
    """The mean over rows with its standard error."""
    return Estimate.of(torch.from_numpy(each)[None])
