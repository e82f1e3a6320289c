"""Estimators of tables: scikit-learn's checks, gaps, words, labels that are missing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rapidbm import RapidClassifier, RapidImputer

FAST = {"n_hidden": 4, "n_epochs": 3, "random_state": 0}


@pytest.mark.filterwarnings("ignore::rapidbm.errors.DataWarning")  # checks come with any values
@parametrize_with_checks(
    [
        RapidImputer(**FAST, reals="bins"),
        RapidImputer(**FAST),
        RapidClassifier(8, n_epochs=30, learning_rate=0.03, batch_size=20),
    ]
)
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else two of them skip themselves
    check(estimator)
