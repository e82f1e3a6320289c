"""How like real rows sampled rows are: columns, pairs of columns, and a classifier that tells them apart.

Similarities are 1 for equal distributions, 0 for those that have nothing in common:

    words      1 − ½ Σ_a |p(a) − q(a)|              total variation                         (1)
    numbers    1 − max_x |F(x) − G(x)|              Kolmogorov and Smirnov                  (2)
    pairs      1 − ½ Σ_ab |p(a, b) − q(a, b)|       of numbers 10 bins as wide as each other    (3)
    numbers    1 − ½ |ρ − ρ'|                       correlations                            (4)

(1), (2) and (4) are over the cells that are known, in (3) a missing cell is a state of its own: the
definitions of sdmetrics' TVComplement, KSComplement, ContingencySimilarity and CorrelationSimilarity.
Even real rows fall short of 1 beside other real rows, the more so the fewer they are; compare with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..arrays import Array
from ..data.table_schema import TableSchema
from ..display import Displayable
from ..estimates import Estimate
from ..progress import report_progress, watched
from ..random import check_seed
from .comparable import Comparable, comparable, with_gaps_of
from .detection import detection_auc

BINS = 10  # of a column of numbers, in pairs
SHOWN = 3  # columns that are named


@dataclass(frozen=True, repr=False)
class Fidelity(Displayable):
    """How like real rows sampled rows are.

    Attributes
    ----------
    columns : dict of str to float
        Similarity of each column, 1 when equal: (1) or (2) of `rapidbm.quality.fidelity`.
    pairs : dict of tuple of str to float
        Similarity of each pair of columns: (4) for two columns of numbers, else (3); NaN where a
        correlation is not defined.
    auc : Estimate
        Area under the ROC curve of a classifier that tells real from sampled rows, cross-fitted, with
        its standard error, (1,): 0.5 when it cannot, 1 when it always can.
    """

    columns: dict[str, float]
    pairs: dict[tuple[str, str], float]
    auc: Estimate

    @property
    def column_mean(self) -> float:
        """The mean over columns."""
        return float(np.nanmean([*self.columns.values()]))

    @property
    def pair_mean(self) -> float:
        """The mean over pairs of columns; NaN where there is one column."""
        known = [x for x in self.pairs.values() if np.isfinite(x)]
        return float(np.mean(known)) if known else float("nan")

    def _facts(self) -> list[tuple[str, str]]:
        worst = sorted(self.columns, key=lambda name: self.columns[name])[:SHOWN]
        told = ", ".join(f"{name} {self.columns[name]:.3f}" for name in worst)
        pairs = [(f"{self.pair_mean:.3f}, 1 is equal", "pairs")] if self.pairs else []
        return [
            ("columns", f"{self.column_mean:.3f}, 1 is equal; least {told}"),
            *((name, text) for text, name in pairs),
            ("classifier", f"AUC {self.auc._line()}, 0.5 is equal"),
        ]


@watched("fidelity of rows", remedy="give fewer rows")
def fidelity(
    real: Any,
    synthetic: Any,
    *,
    schema: TableSchema | None = None,
    seed: int = 0,
    limit: float | None = None,
) -> Fidelity:
    """How like real rows sampled rows are: each column, each pair, and a classifier's AUC.

    Give real rows that were not trained on: a copy of the training rows is like them. Where only the real
    rows have gaps, sampled rows get the gaps of random real ones.

    Parameters
    ----------
    real : table
        Real rows: a path, a frame, or columns by name.
    synthetic : table
        Sampled rows with the same columns.
    schema : TableSchema, optional
        What the columns are; by default recognised from `real`.
    seed : int, default 0
        Seed of the folds, and of the gaps.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Fidelity
        Similarities and the AUC.

    Raises
    ------
    InputError
        If the tables differ in their columns or have fewer than 10 rows.

    Examples
    --------
    >>> import random
    >>> random.seed(0)
    >>> rows = [{"a": [random.gauss(m, 1) for _ in range(200)]} for m in (0, 0, 2)]
    >>> rb.fidelity(rows[0], rows[1]).columns["a"] > 0.85 > rb.fidelity(rows[0], rows[2]).columns["a"]
    True
    """
    check_seed(seed)
    both = comparable(schema, (real, synthetic), ("real", "synthetic"))
    p, q = both.tables
    q = with_gaps_of(p, q, np.random.default_rng(seed))
    return Fidelity(
        column_similarities(both, p, q), pair_similarities(both, p, q), detection_auc(both, p, q, seed)
    )


def column_similarities(both: Comparable, p: Array, q: Array) -> dict[str, float]:
    """(1) of words and (2) of numbers, by name."""
    return {
        name: _of_numbers(p[:, i], q[:, i]) if both.numeric[i] else _of_words([p[:, i]], [q[:, i]])
        for i, name in enumerate(both.names)
    }


def pair_similarities(both: Comparable, p: Array, q: Array) -> dict[tuple[str, str], float]:
    """(4) of two columns of numbers, else (3), by names."""
    binned = [_in_bins(p[:, i], q[:, i]) if both.numeric[i] else None for i in range(len(both.names))]
    found = {}
    for i, j in combinations(range(len(both.names)), 2):
        report_progress()
        if both.numeric[i] and both.numeric[j]:
            similarity = 1 - abs(_correlation(p[:, (i, j)]) - _correlation(q[:, (i, j)])) / 2
        else:
            a, b = ([x[:, k] for k in (i, j)] for x in (p, q))
            for place, k in enumerate((i, j)):
                if (codes := binned[k]) is not None:
                    a[place], b[place] = codes
            similarity = _of_words(a, b, gaps=True)
        found[both.names[i], both.names[j]] = float(similarity)
    return found


def _of_words(p: Sequence[Array], q: Sequence[Array], *, gaps: bool = False) -> float:
    """1 minus the total variation of the states that columns have together."""
    a, b = (np.stack([np.where(np.isnan(x), -1, x) for x in columns], 1) for columns in (p, q))
    if not gaps:
        a, b = (x[(x >= 0).all(1)] for x in (a, b))
    if not len(a) or not len(b):
        return float("nan")
    _, which = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    count = which.max() + 1
    shares = [np.bincount(x, minlength=count) / len(x) for x in np.split(which, [len(a)])]
    return 1 - float(np.abs(shares[0] - shares[1]).sum()) / 2


def _of_numbers(p: Array, q: Array) -> float:
    """1 minus the largest distance of the distribution functions."""
    a, b = (np.sort(x[~np.isnan(x)]) for x in (p, q))
    if not len(a) or not len(b):
        return float("nan")
    every = np.concatenate([a, b])
    below = [np.searchsorted(x, every, "right") / len(x) for x in (a, b)]
    return 1 - float(np.abs(below[0] - below[1]).max())


def _in_bins(p: Array, q: Array) -> tuple[Array, Array]:
    """Codes of bins that are equally wide over the range of p; those at the ends hold what is beyond."""
    known = p[~np.isnan(p)]
    edges = np.linspace(known.min(), known.max(), BINS + 1)[1:-1] if len(known) else np.empty(0)

    def code(x: Array) -> Array:
        return np.where(np.isnan(x), np.nan, np.searchsorted(edges, x, "right").astype(np.float64))

    return code(p), code(q)


def _correlation(pair: Array) -> float:
    """Pearson's, of the rows that have both numbers."""
    known = pair[~np.isnan(pair).any(1)]
    if len(known) < 2 or (np.ptp(known, 0) == 0).any():
        return float("nan")
    return float(np.corrcoef(known.T)[0, 1])
