"""Tables of words and numbers as data frames, and cells that are removed from them.

`penguins.csv` and `adult.csv.gz` are read from `$RAPIDBM_DATA/tables` (github mwaskom/seaborn-data and
UCI Adult), the others come with scikit-learn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rapidbm.arrays import Array
from rapidbm.data.digits import data_folder
from rapidbm.errors import InputError, lookup

FILES = {"penguins": "penguins.csv", "adult": "adult.csv.gz"}
FROM_SKLEARN = ("wine", "iris", "breast_cancer", "diabetes")
TABLES = (*FILES, *FROM_SKLEARN)
LABELS = {"penguins": "species", "adult": "income"}  # of those of scikit-learn it is "target"
DRIVERS = {"penguins": "body_mass_g", "adult": "age"}  # else the first column of numbers
RULES = ("random", "rule")


def opened(name: str, rows: int | None = None, seed: int = 0) -> pd.DataFrame:
    """A table; of one with more rows so many of them, drawn by the seed."""
    lookup("table", name, {known: known for known in TABLES})
    frame = _from_file(name) if name in FILES else _from_sklearn(name)
    if rows is not None and rows < len(frame):
        frame = frame.sample(rows, random_state=seed).reset_index(drop=True)
    return frame


def _from_file(name: str) -> pd.DataFrame:
    folder = data_folder()
    path = Path(folder or "", "tables", FILES[name])
    if folder is None or not path.is_file():
        raise InputError(
            f"{name} is read from $RAPIDBM_DATA/tables/{FILES[name]}, and it is not there; download it "
            "and set RAPIDBM_DATA to the folder that has tables/"
        )
    return pd.read_csv(path, skipinitialspace=True, na_values="?")


def _from_sklearn(name: str) -> pd.DataFrame:
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{name}")(as_frame=True)
    frame, target = loaded.data.copy(), loaded.target
    words = [str(word) for word in getattr(loaded, "target_names", ())]
    frame["target"] = [words[i] for i in target] if words else target
    return frame


def is_number(column: pd.Series) -> bool:
    """Whether a column counts as real, and not as one of categories."""
    return bool(column.dtype.kind in "iuf")


def driver(name: str, frame: pd.DataFrame) -> str:
    """The column whose rank decides how many cells of a row the rule removes."""
    return DRIVERS.get(name) or next(str(c) for c in frame if is_number(frame[c]))


def holes(name: str, frame: pd.DataFrame, share: float, rule: str, seed: int) -> Array:
    """Which known cells are removed, (rows, columns).

    "random" removes each cell with the probability `share`. By "rule" a cell is missing at random given
    another one: it goes with the probability 2 · share · u, where u in (0, 1) is the rank of the row in
    the driver's column, which is kept."""
    rng = np.random.default_rng([seed, TABLES.index(name), RULES.index(rule), round(1000 * share)])
    p = np.full(frame.shape, share)
    if rule == "rule":
        column = driver(name, frame)
        rank = frame[column].rank(pct=True).fillna(0.5).to_numpy()
        p = np.minimum(1.0, 2 * share * rank)[:, None].repeat(frame.shape[1], 1)
        p[:, list(frame.columns).index(column)] = 0
    known = frame.notna().to_numpy()
    removed: Array = (rng.random(frame.shape) < p) & known
    removed[(known & ~removed).sum(1) == 0] = False  # a row keeps a cell
    return removed


def one_hot(frame: pd.DataFrame) -> tuple[Array, list[Any]]:
    """Numbers as they are and words as indicators without that of their first level, with NaN where they
    are missing; and the levels of each column, None of numbers."""
    parts: list[Array] = []
    levels: list[Any] = []
    for name in frame:
        column = frame[name]
        if is_number(column):
            parts.append(column.to_numpy(float)[:, None])
            levels.append(None)
            continue
        words = sorted(column.dropna().unique())
        part = np.stack([(column == word).to_numpy(float) for word in words[1:]], 1)
        part[column.isna().to_numpy()] = np.nan
        parts.append(part)
        levels.append(words)
    return np.concatenate(parts, 1), levels


def from_one_hot(values: Array, levels: list[Any], names: Any) -> pd.DataFrame:
    """The way back: of words the level with the largest indicator."""
    found, start = {}, 0
    for name, words in zip(names, levels, strict=True):
        if words is None:
            found[name] = values[:, start]
            start += 1
            continue
        part = values[:, start : start + len(words) - 1]
        start += len(words) - 1
        whole = np.concatenate([1 - part.sum(1, keepdims=True), part], 1)
        found[name] = np.array(words, object)[whole.argmax(1)]
    return pd.DataFrame(found)
