"""`RapidRBM` beside scikit-learn's `BernoulliRBM`: features for a logistic regression, and densities.

The task is that of scikit-learn's own example of its RBM: 8×8 digits in [0, 1] and their shifts by one
pixel in four directions, a fifth of them to test. `BernoulliRBM` has the example's settings, `RapidRBM`
none. For each seed one is fitted after the other; seconds are of the whole pipeline, by the clock and, as
others may keep the machine busy, of this process.

The regression is the example's, but for its tolerance: tol=1 was of the gradient of a sum over rows, that
of today's scikit-learn is of their mean and would stop before the first step, so it is 1 / rows.

    python -m benchmarks estimator --seeds 5 --out estimator.json
"""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import minmax_scale

from rapidbm import Dense, Layers, Machine, RapidRBM

from .running import Row, option_parser, write

MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


def digits() -> list[np.ndarray]:
    """Training and test images, then their labels."""
    images, labels = load_digits(return_X_y=True)
    framed = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = [framed[:, 1 + y : 9 + y, 1 + x : 9 + x].reshape(-1, 64) for y, x in MOVES]
    pixels = minmax_scale(np.concatenate(moved))
    tiled = np.tile(labels, len(MOVES))
    parts: list[np.ndarray] = train_test_split(pixels, tiled, test_size=0.2, random_state=0)
    return parts


def machine_of(fitted: BernoulliRBM) -> Machine:
    """The same distribution in spins (`estimator/rbm.py`, eq. (1))."""
    couplings = torch.from_numpy(fitted.components_.T / 4).float()  # (v, h)
    b = torch.from_numpy(fitted.intercept_visible_).float() / 2 + couplings.sum(1)
    c = torch.from_numpy(fitted.intercept_hidden_).float() / 2 + couplings.sum(0)
    layers = Layers(tuple(couplings.shape), ((0, 1),))
    return Machine(Dense(layers, {(0, 1): couplings[None]}), torch.cat([b, c])[None])


def measured(rbm: Any, data: list[np.ndarray]) -> Row:
    train, test, labels, answers = data
    regression = LogisticRegression(solver="newton-cg", C=6000, tol=1 / len(train))
    pipeline = make_pipeline(rbm, regression)
    began, used = time.perf_counter(), time.process_time()
    pipeline.fit(train, labels)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    density = rbm
    if isinstance(rbm, BernoulliRBM):
        density = RapidRBM.from_machine(machine_of(rbm), random_state=0)
    low, high = density.log_z_.interval
    return {
        "accuracy": pipeline.score(test, answers),
        "log p": density.score(test),
        "width": float(high - low),
        "seconds": seconds,
        "of the process": used,
    }


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    how = parser.parse_args(words)
    data = digits()
    found: dict[str, list[Row]] = {"BernoulliRBM": [], "RapidRBM": []}
    for seed in range(how.seeds):
        theirs = BernoulliRBM(learning_rate=0.06, n_iter=10, n_components=100, random_state=seed)
        for rbm in (theirs, RapidRBM(random_state=seed)):
            found[type(rbm).__name__].append(measured(rbm, data))
    write(how.out, found)
    theirs, ours = found["BernoulliRBM"], found["RapidRBM"]
    pairs = list(zip(theirs, ours, strict=True))
    table = {
        name: {key: statistics.mean(row[key] for row in rows) for key in rows[0]}
        for name, rows in found.items()
    }
    worst = {
        "accuracy": min(b["accuracy"] - a["accuracy"] for a, b in pairs),
        "log p": min(b["log p"] - a["log p"] for a, b in pairs),
        "width": max(row["width"] for row in theirs + ours),
        **{key: max(b[key] / a[key] for a, b in pairs) for key in ("seconds", "of the process")},
    }
    return {**table, "least gain, largest ratio": worst}
