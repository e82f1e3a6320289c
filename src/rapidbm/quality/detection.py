"""A classifier that tells real from sampled rows, and what it is worth on rows that it has not seen.

    AUC = P[ s(real) > s(sampled) ] + ½ P[ s(real) = s(sampled) ]                         (1)

s is the score of boosted trees that were fitted to the other folds. (1) is the mean over folds; with
a_i = P[s_i > s(sampled)] of a real row within its fold and b_j of a sampled one

    error² = var(a) / n + var(b) / m                                                      (2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..arrays import Array
from ..estimates import Estimate
from ..progress import report_progress
from .comparable import Comparable

FOLDS = 5
MOST_STATES = 255  # of a column that trees split by sets of words


def trees(both: Comparable, columns: Array, seed: int, *, numbers: bool = False) -> Any:
    """Boosted trees for these columns: classes, or `numbers`."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    words = [not both.numeric[i] and len(both.words[i]) <= MOST_STATES for i in columns]
    common: Any = {
        "categorical_features": words if any(words) else None,
        "early_stopping": False,
        "random_state": seed,
    }
    if numbers:
        return HistGradientBoostingRegressor(**common)
    return HistGradientBoostingClassifier(class_weight="balanced", **common)


def detection_auc(both: Comparable, real: Array, sampled: Array, seed: int) -> Estimate:
    """Eq. (1) with the error (2)."""
    from sklearn.model_selection import StratifiedKFold

    x = np.concatenate([real, sampled])
    is_real = np.arange(len(x)) < len(real)
    above, below = [], []
    for fit, judged in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, is_real):
        report_progress()
        model = trees(both, np.arange(x.shape[1]), seed).fit(x[fit], is_real[fit])
        score = model.predict_proba(x[judged])[:, 1]
        ours, others = score[is_real[judged]], score[~is_real[judged]]
        above.append(_placements(ours, others))
        below.append(1 - _placements(others, ours))
    mean = float(np.mean([a.mean() for a in above]))
    error = _error(np.concatenate(above), np.concatenate(below))
    return Estimate(*(torch.tensor([value], dtype=torch.float64) for value in (mean, error)))


def auc(ours: Array, others: Array) -> tuple[float, float]:
    """Eq. (1) of scores, and its error (2)."""
    a, b = _placements(ours, others), 1 - _placements(others, ours)
    return float(a.mean()), _error(a, b)


def _error(a: Array, b: Array) -> float:
    """Eq. (2)."""
    return float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))


def _placements(x: Array, among: Array) -> Array:
    """The share of `among` that each x is above, ties by half."""
    among = np.sort(among)
    both = np.searchsorted(among, x, "left") + np.searchsorted(among, x, "right")
    return np.asarray(both / (2 * len(among)))
