"""The estimator: scikit-learn's checks, exact likelihoods, weights, and what people do with it."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rapidbm import RapidRBM

pytestmark = [
    pytest.mark.filterwarnings("ignore::rapidbm.errors.DataWarning"),  # checks come with any values
]


@parametrize_with_checks([RapidRBM(), RapidRBM(5, n_patterns=3, n_iter=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
