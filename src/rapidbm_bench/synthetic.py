"""Rows sampled from a machine that was trained on adult, beside rows that arfpy makes.

    python -m benchmarks synthetic --rows 5000 --budget 2m --splits 2

Of adult --rows rows train and as many others test. `rapidbm train FILE --budget B` and `rapidbm sample`
draw as many rows as there were; so does arfpy (Watson et al. 2023) with its defaults, where it is
installed. Shown are means over splits:

    accuracy    of the test rows' income, mean of three classifiers that were trained on the sampled rows:
                logistic regression, a random forest, gradient boosting
    auc         how well gradient boosting tells sampled rows from test rows, on rows that it was not
                trained on; 0.5 is not at all
    logistic    the same by logistic regression

Every measurement is a file in the folder --out, and what is there is not measured again.
"""

from __future__ import annotations

import shutil
import time
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pandas as pd

from rapidbm.arrays import Array
from rapidbm.disk import make_folder, read_json, write_json
from rapidbm.errors import InputError, check_choice, check_count
from rapidbm.runs.timing import seconds_of
from rapidbm.schema import Anything

from .debd_methods import command
from .running import Row, option_parser, tell
from .tables import LABELS, is_number, opened

TABLE = "adult"
METHODS = ("real", "rapid", "arfpy")
MEASURES = ("accuracy", "auc", "logistic", "seconds")


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--rows", type=int, default=5000, help="to train, and as many to test")
    parser.add_argument("--splits", type=int, default=2, help="of the rows")
    parser.add_argument("--budget", default="2m", help="of each training, such as 90s, 2m or 1h")
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/synthetic"), help="folder of what was measured"
    )
    return parser.parse_args(words)


def run(words: Sequence[str] = ()) -> dict[str, Row]:
    given = arguments(words)
    methods = given.methods.split(",")
    for method in methods:
        check_choice("method", method, METHODS)
    check_count("the number of --splits", given.splits)
    check_count("the number of --rows", given.rows, least=100)
    given.seconds = seconds_of(given.budget)
    if "arfpy" in methods and find_spec("arfpy") is None:
        tell("arfpy is not installed and left out; pip install arfpy")
        methods.remove("arfpy")
    make_folder(given.out)
    found: dict[str, Row] = {}
    for method in methods:
        rows = [measured(given, method, split) for split in range(given.splits)]
        found[method] = {}
        for key in MEASURES:
            values = [row[key] for row in rows if row[key] is not None]
            found[method][key] = mean(values) if values else None
            found[method][f"{key} ±"] = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return found


def measured(given: Namespace, method: str, split: int) -> Row:
    """One measurement, which is kept in a file."""
    cost = f".{given.seconds:g}s" if method == "rapid" else ""
    path = given.out / f"{TABLE}.{given.rows}.{split}.{method}{cost}.json"
    if path.is_file():
        row: Row = read_json(path, Anything(), "a measurement", "remove it, and it is measured again")
        return row
    frame = opened(TABLE, 2 * given.rows, split)
    half = len(frame) // 2
    train, test = frame[:half], frame[half:]
    began = time.perf_counter()
    made = train if method == "real" else MAKERS[method](train, given, path.with_suffix(""), split)
    seconds = time.perf_counter() - began
    row = {**judged(made, test, split), "seconds": seconds}
    write_json(path, row)
    tell(path.stem, *(f"{key} {value:.4g}" for key, value in row.items() if value is not None))
    return row


def rapid(train: pd.DataFrame, given: Namespace, folder: Path, seed: int) -> pd.DataFrame:
    """Rows of `rapidbm sample`."""
    file, log = folder.with_suffix(".csv"), folder.with_suffix(".log")
    made = folder.with_suffix(".sampled.csv")
    train.to_csv(file, index=False)
    shutil.rmtree(folder, ignore_errors=True)
    made.unlink(missing_ok=True)
    words = [
        "train",
        str(file),
        "--budget",
        f"{given.seconds:g}s",
        "--seed",
        str(seed),
        "--out",
        str(folder),
    ]
    sample = ["sample", str(folder), "--count", str(len(train)), "--out", str(made)]
    if command(words, log) is None or command(sample, log) is None:
        raise InputError(f"the training or the samples failed; see {log}")
    return pd.read_csv(made)


def arfpy(train: pd.DataFrame, given: Namespace, folder: Path, seed: int) -> pd.DataFrame:
    """Rows of adversarial random forests; a missing word is a word of its own."""
    from arfpy import arf

    words = [name for name in train if not is_number(train[name])]
    whole = train.reset_index(drop=True).copy()
    for name in words:
        whole[name] = whole[name].astype(object).fillna("?")  # it knows no strings of pandas 3
    np.random.seed(seed)  # noqa: NPY002  arfpy draws from the global stream
    try:
        forest = arf.arf(x=whole, verbose=False, random_state=seed)
        forest.forde()
        made: pd.DataFrame = forest.forge(n=len(train))
    except (AttributeError, KeyError) as error:
        raise InputError(
            f"arfpy failed ({error!r}); its version 0.1.1 takes NumPy before 2.4 and pandas before 3: "
            "install these in an environment of their own, or leave arfpy out by --methods"
        ) from error
    for name in words:
        made[name] = made[name].astype(object).where(made[name] != "?", None)
    return made[list(train.columns)]


MAKERS = {"rapid": rapid, "arfpy": arfpy}


def features(frame: pd.DataFrame, like: pd.DataFrame) -> Array:
    """Numbers, scaled, and words one-hot, by the columns of another frame; 0 for a missing number."""
    parts = []
    for name in like:
        if is_number(like[name]):
            x = frame[name].to_numpy(float)
            scaled = (x - like[name].mean()) / (like[name].std() or 1.0)
            parts.append(np.nan_to_num(scaled)[:, None])
        else:
            levels = sorted(like[name].dropna().unique())
            parts.append(np.stack([(frame[name] == word).to_numpy(float) for word in levels], 1))
    return np.concatenate(parts, 1)


def judged(made: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, Any]:
    """Accuracy of classifiers of the label, and AUCs of those that tell the rows apart."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    label = LABELS[TABLE]
    made = made[made[label].notna()]
    known = test.drop(columns=label)
    X, y = features(made.drop(columns=label), known), made[label].to_numpy().astype(str)
    rows, answers = features(known, known), test[label].to_numpy().astype(str)
    models = (
        LogisticRegression(max_iter=2000),
        RandomForestClassifier(100, min_samples_leaf=5, random_state=seed),
        HistGradientBoostingClassifier(random_state=seed),
    )
    right = [float((model.fit(X, y).predict(rows) == answers).mean()) for model in models]
    both = np.concatenate([features(made, test), features(test, test)])
    which = np.repeat([1, 0], [len(made), len(test)])
    parts = train_test_split(both, which, test_size=0.3, random_state=seed, stratify=which)
    auc = [
        roc_auc_score(parts[3], model.fit(parts[0], parts[2]).predict_proba(parts[1])[:, 1])
        for model in (models[2], models[0])
    ]
    return {"accuracy": mean(right), "auc": float(auc[0]), "logistic": float(auc[1])}
