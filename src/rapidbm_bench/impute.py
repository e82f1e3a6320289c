"""Gaps of tables filled by `RapidImputer`, beside scikit-learn's IterativeImputer and miceforest.

    python -m benchmarks impute                                    penguins, adult and wine
    python -m benchmarks impute penguins --draws 3 --removed 0.2 --rule random

Of each table cells are removed, at random or by a rule (`tables.holes`), as often as --draws says. Every
method sees the same gaps, with its defaults (`impute_methods`). Shown are means over draws with their
standard errors:

    accuracy    share of the removed words that are filled in right
    error       root mean square error of the removed numbers, each in standard deviations of its column
    coverage    share of the removed numbers within their 90 % interval, from 40 draws

Every measurement is a file in the folder --out, and what is there is not measured again: the same command
goes on after an interruption. miceforest is left out where it is not installed.
"""

from __future__ import annotations

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
from rapidbm.errors import InputError, check_choice, check_count, lookup
from rapidbm.progress import quiet
from rapidbm.schema import Anything

from .impute_methods import METHODS, Filled
from .running import Row, option_parser, tell
from .tables import RULES, TABLES, holes, is_number, opened

USUAL = ("penguins", "adult", "wine")
MEASURES = ("accuracy", "error", "coverage", "seconds")


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="TABLES", help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--draws", type=int, default=10, help="of the cells that are removed")
    parser.add_argument("--removed", default="0.2,0.4", help="shares of the cells, with commas")
    parser.add_argument("--rule", default="random,rule", help="how: random, rule, or both")
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas")
    parser.add_argument(
        "--rows", type=int, default=2000, help="of a table that has more, drawn anew each time"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/impute"), help="folder of what was measured"
    )
    return parser.parse_args(words)


def shares(told: str) -> list[float]:
    """Shares as --removed says them."""
    try:
        found = [float(part) for part in told.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < share < 1 for share in found):
        raise InputError(f"--removed takes shares between 0 and 1, such as 0.2,0.4, not {told!r}")
    return found


def run(words: Sequence[str] = ()) -> dict[str, Any]:
    given = arguments(words)
    removed, rules, methods = shares(given.removed), given.rule.split(","), given.methods.split(",")
    for name in given.names:
        lookup("table", name, {known: known for known in TABLES})
    for rule in rules:
        check_choice("--rule", rule, RULES)
    for method in methods:
        check_choice("method", method, METHODS)
    check_count("the number of --draws", given.draws)
    check_count("the number of --rows", given.rows)
    if "miceforest" in methods and find_spec("miceforest") is None:
        tell("miceforest is not installed and left out; pip install miceforest")
        methods.remove("miceforest")
    make_folder(given.out)
    found: dict[str, Row] = {}
    for name in given.names or USUAL:
        for rule in rules:
            for share in removed:
                for method in methods:
                    rows = [measured(given, name, rule, share, method, i) for i in range(given.draws)]
                    found[f"{name} {share:g} {rule}, {method}"] = summary(rows)
    return found


def measured(given: Namespace, name: str, rule: str, share: float, method: str, draw: int) -> Row:
    """One measurement, which is kept in a file."""
    path = given.out / f"{name}.{given.rows}.{rule}.{share:g}.{draw}.{method}.json"
    if path.is_file():
        row: Row = read_json(path, Anything(), "a measurement", "remove it, and it is measured again")
        return row
    frame = opened(name, given.rows, draw)
    gone = holes(name, frame, share, rule, draw)
    gaps = frame.mask(pd.DataFrame(gone, columns=frame.columns))
    began = time.process_time()
    with quiet():
        filled = METHODS[method](gaps, draw)
    row = {**scored(frame, gone, filled), "seconds": time.process_time() - began}
    write_json(path, row)
    tell(path.stem, *(f"{key} {cell(value)}" for key, value in row.items()))
    return row


def scored(frame: pd.DataFrame, gone: Array, filled: Filled) -> Row:
    """Accuracy, error and coverage over the removed cells."""
    right, errors, covered = [], [], []
    for i, name in enumerate(frame):
        where = gone[:, i]
        truth, answer = frame[name].to_numpy()[where], filled.frame[name].to_numpy()[where]
        if not is_number(frame[name]):
            right.append(truth.astype(str) == answer.astype(str))
            continue
        errors.append((answer.astype(float) - truth) / frame[name].std())
        if filled.low is not None and filled.high is not None:
            low, high = filled.low[name].to_numpy()[where], filled.high[name].to_numpy()[where]
            covered.append((low <= truth) & (truth <= high))
    return {
        "accuracy": _mean(right),
        "error": None if (mse := _mean([x**2 for x in errors])) is None else mse**0.5,
        "coverage": _mean(covered),
    }


def _mean(parts: list[Array]) -> float | None:
    whole = np.concatenate(parts) if parts else np.zeros(0)
    return float(whole.mean()) if len(whole) else None


def summary(rows: list[Row]) -> Row:
    """Means over draws, with standard errors."""
    found: Row = {}
    for key in MEASURES:
        values = [row[key] for row in rows if row[key] is not None]
        if not values:
            found[key] = None
            continue
        found[key] = mean(values)
        if key != "seconds" and len(values) > 1:
            found[f"{key} ±"] = stdev(values) / len(values) ** 0.5
    return found


def cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def show(result: dict[str, Row]) -> None:
    """A line for each table, share, rule and method."""
    wide = max(map(len, result))
    print(" " * wide, *(f"{key:>18}" for key in MEASURES))
    for key, row in result.items():
        told = [
            cell(row[m]) + (f" ± {row[f'{m} ±']:.4f}" if row.get(f"{m} ±") is not None else "")
            for m in MEASURES
        ]
        print(f"{key:<{wide}}", *(f"{one:>18}" for one in told))
