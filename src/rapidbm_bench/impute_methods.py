"""Ways to fill the gaps of a table, each a function of a data frame and a seed.

`rapid` is `RapidImputer()` with its defaults; `iterative` scikit-learn's IterativeImputer of 20 rounds on
numbers and one-hot words; `miceforest` the mean, or the most frequent word, of five data sets; `marginal`
the mean and the most frequent word of each column.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow

from rapidbm import RapidImputer
from rapidbm.arrays import Array
from rapidbm.runs.tables import imputed

from .tables import from_one_hot, is_number, one_hot

INTERVALS = 40  # draws that a 90 % interval is taken of
DATASETS, ROUNDS = 5, 5  # of miceforest


class Filled(NamedTuple):
    """A table without gaps; the ends of 90 % intervals of its numbers, where the method has them."""

    frame: pd.DataFrame
    low: pd.DataFrame | None = None
    high: pd.DataFrame | None = None


def rapid(gaps: pd.DataFrame, seed: int, **settings: Any) -> Filled:
    imputer = RapidImputer(random_state=seed, **settings).set_output(transform="pandas")
    frame = imputer.fit_transform(gaps)
    table = pyarrow.Table.from_pandas(gaps, preserve_index=False)
    drawn = imputed(imputer.machine_, imputer.schema_, table, draws=INTERVALS, seed=seed)
    numbers = [name for name in gaps if is_number(gaps[name])]
    each = np.stack(
        [np.stack([one.column(name).to_numpy().astype(float) for name in numbers], 1) for one in drawn]
    )
    low, high = np.quantile(each, (0.05, 0.95), axis=0, method="weibull")  # holds a 41st draw in 90 %
    return Filled(frame, pd.DataFrame(low, columns=numbers), pd.DataFrame(high, columns=numbers))


def iterative(gaps: pd.DataFrame, seed: int) -> Filled:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    values, levels = one_hot(gaps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged after 20 rounds
        full: Array = IterativeImputer(max_iter=20, random_state=seed).fit_transform(values)
    return Filled(from_one_hot(full, levels, gaps.columns))


def miceforest(gaps: pd.DataFrame, seed: int) -> Filled:
    import miceforest as package

    frame = gaps.copy()
    words = [name for name in frame if not is_number(frame[name])]
    for name in frame:
        frame[name] = frame[name].astype("category" if name in words else float)
    # Matching by log odds fails where a forest is certain, so words are drawn from its probabilities.
    matched = {name: "fast" if name in words else "normal" for name in frame}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = package.ImputationKernel(
            frame, num_datasets=DATASETS, mean_match_strategy=matched, random_state=seed
        )
        kernel.mice(ROUNDS, verbose=False, num_threads=1)
    each = [kernel.complete_data(i) for i in range(DATASETS)]
    found = {}
    for name in gaps:
        if name in words:
            found[name] = pd.concat([one[name].astype(str) for one in each], axis=1).mode(axis=1)[0]
        else:
            found[name] = np.mean([one[name].to_numpy(float) for one in each], 0)
    return Filled(pd.DataFrame(found))


def marginal(gaps: pd.DataFrame, seed: int) -> Filled:
    return Filled(
        gaps.fillna({c: gaps[c].mean() if is_number(gaps[c]) else gaps[c].mode()[0] for c in gaps})
    )


METHODS: dict[str, Callable[[pd.DataFrame, int], Filled]] = {
    "rapid": rapid,
    "iterative": iterative,
    "miceforest": miceforest,
    "marginal": marginal,
}
