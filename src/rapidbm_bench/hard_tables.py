"""Tables that a machine is easily lost on: constant, rare and one-hot columns, few rows of many columns.

For each of them mean log p of the training rows under `RapidRBM()`, beside independent columns (smoothed
by one observation of each value), for some seeds.

    python -m benchmarks hard_tables --seeds 3
"""

from collections.abc import Sequence

import numpy as np

from rapidbm import RapidRBM
from rapidbm.arrays import Array

from .running import option_parser

ROWS = 2000


def survey(rng: np.random.Generator, rows: int = ROWS, columns: int = 6) -> Array:
    """Answers that lean to one side or the other, by a mood that each row has."""
    yes = np.where(rng.integers(2, size=(rows, 1)) == 1, 0.75, 0.35)
    return (rng.random((rows, columns)) < yes + rng.normal(0, 0.05, columns)).astype(np.int8)


def one_hot(rng: np.random.Generator, levels: int) -> Array:
    return np.eye(levels, dtype=np.int8)[rng.integers(levels, size=ROWS)]


def tables() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    constant = np.tile(rng.integers(2, size=40, dtype=np.int8), (ROWS, 1))
    rare = (rng.random((ROWS, 50)) < 1e-3).astype(np.int8)
    factors = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 200)) + rng.normal(size=(30, 200))
    return {
        "6 survey, 40 constant columns": np.hstack([survey(rng), constant]),
        "50 columns of 0.1 % ones": rare,
        "one-hot, 50 levels": one_hot(rng, 50),
        "40 constant columns": constant,
        "two one-hot, 20 and 30 levels": np.hstack([one_hot(rng, 20), one_hot(rng, 30)]),
        "survey, constant, rare, one-hot": np.hstack(
            [survey(rng), constant[:, :15], rare[:, :15], one_hot(rng, 15)]
        ),
        "30 rows of 200 columns": (factors > 0.5).astype(np.int8),
    }


def independent(table: Array) -> float:
    """Mean log p of the rows by independent columns."""
    p = (table.sum(0) + 1.0) / (len(table) + 2.0)
    return float(np.where(table == 1, np.log(p), np.log(1 - p)).sum(1).mean())


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--seeds", type=int, default=3)
    how = parser.parse_args(words)
    found = {}
    for name, table in tables().items():
        row = {"independent columns": independent(table)}
        for seed in range(how.seeds):
            row[f"seed {seed}"] = RapidRBM(random_state=seed).fit(table).score(table)
        found[name] = row
    return found
