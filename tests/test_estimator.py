"""The estimator: scikit-learn's checks, exact likelihoods, weights, and what people do with it."""

import importlib
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import rapidbm as rb
from rapidbm import RapidRBM
from rapidbm.errors import DataWarning, FitWarning, InputError
from rapidbm.estimator.rows import BinaryTable
from rapidbm.estimator.trials import Chosen

STATES = np.array(list(itertools.product((0, 1), repeat=6)))
SMALL = {"n_components": 8, "n_iter": 20, "random_state": 0}


def table(count=200, seed=0):
    """Two groups of columns that agree, and a little noise."""
    rng = np.random.default_rng(seed)
    bits = np.repeat(rng.integers(2, size=(count, 2)), 3, 1)
    return np.where(rng.random(bits.shape) < 0.1, 1 - bits, bits)


@pytest.fixture(scope="module")
def fitted():
    return RapidRBM(**SMALL | {"n_iter": 60}).fit(table())


@pytest.mark.filterwarnings("ignore::rapidbm.errors.DataWarning")  # checks come with any values
@parametrize_with_checks([RapidRBM(5, n_iter=2), RapidRBM(5, n_patterns=3, n_iter=2)])
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else two of them skip themselves
    check(estimator)


# -- likelihoods --------------------------------------------------------------------------------------


def test_probabilities_of_all_states_sum_to_one(fitted):
    logs = fitted.score_samples(STATES)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-9)
    assert fitted.log_z_.method == "exact"
    assert fitted.score(table()) > np.log(2) * -6 + 0.5  # fair coins


def test_weights_for_zeros_and_ones_give_the_same_energies_and_features(fitted):
    w, a, d = fitted.components_, fitted.intercept_visible_, fitted.intercept_hidden_
    logs = STATES @ a + np.logaddexp(0, STATES @ w.T + d).sum(1)
    shifted = fitted.score_samples(STATES) - logs
    assert np.ptp(shifted) < 1e-6
    like = BernoulliRBM(n_components=8, n_iter=0).fit(STATES)
    like.components_, like.intercept_visible_, like.intercept_hidden_ = w, a, d
    assert np.allclose(like.transform(STATES), fitted.transform(STATES), atol=1e-6)


def test_a_row_of_probabilities_has_the_mean_over_its_draws(fitted):
    row = np.array([[0.5, 0.2, 1.0, 0.0, 0.9, 0.5]])
    chances = np.prod(np.where(STATES, row, 1 - row), 1)
    mean = float(chances @ fitted.score_samples(STATES))
    spread = float(np.sqrt(chances @ (fitted.score_samples(STATES) - mean) ** 2))
    assert abs(fitted.score_samples(row)[0] - mean) < 6 * spread / 32**0.5  # p < 1e-8
    assert np.ptp(fitted.score_samples(np.vstack([row, STATES, row]))[[0, -1]]) < 1e-9


def test_annealed_log_z_is_the_same_again_and_holds_the_truth():
    rows = np.tile(table(), (1, 4))
    model = RapidRBM(21, random_state=3, n_iter=1).fit(rows)
    again = pickle.loads(pickle.dumps(clone(model).fit(rows)))
    assert "log_z_" not in vars(model)
    assert model.score(rows) == again.score(rows)
    low, high = model.log_z_.interval
    truth = rb.log_z(model.machine_, method="exact").value
    assert model.log_z_.method == "ais"
    assert low - 0.1 < truth < high + 0.1
    assert "log_z_" in vars(pickle.loads(pickle.dumps(model)))
    model.partial_fit(rows)
    assert "log_z_" not in vars(model)


# -- training -----------------------------------------------------------------------------------------


def test_what_is_auto():
    x = np.tile(table(60), (1, 6))  # 36 columns
    model = RapidRBM(random_state=0).fit(x)
    assert (model.n_components_, model.n_patterns_) == (108, None)  # three for each column
    assert model.n_iter_ == 200  # as many passes as there may be: two updates each
    assert model.weight_decay_ == 1


def test_it_learns_more_than_columns(fitted):
    rows = table(1000, seed=1)
    p = table().mean(0)
    columns = np.log(np.where(rows, p, 1 - p)).sum(1).mean()
    assert fitted.score(rows) > columns + 0.5


def test_neither_order_nor_repetition_matters_but_as_weight():
    x = table(30)
    weights = np.random.default_rng(1).integers(0, 4, size=30)
    order = np.random.default_rng(2).permutation(30)
    one = RapidRBM(**SMALL).fit(x[order], sample_weight=weights[order])
    two = RapidRBM(**SMALL).fit(np.repeat(x, weights, 0))
    assert np.array_equal(one.components_, two.components_)
    assert one.n_samples_seen_ == weights.sum()
    other = RapidRBM(**SMALL).fit(x)
    assert not np.allclose(one.components_, other.components_)


def test_a_pass_holds_rows_by_their_weights_and_ones_by_their_probabilities():
    values = np.array([[0.25, 1.0], [0.75, 0.0]])
    rows = BinaryTable.of(values, np.array([2.5, 0.5]) * 4000)
    assert rows.count == 12_000
    spins = rows.draw(rb.stream(0)).double()
    heavy = spins[:, 1] == 1
    assert heavy.sum() == 10_000
    for some, p in ((heavy, 0.25), (~heavy, 0.75)):
        share = (spins[some, 0] == 1).double().mean()
        assert abs(share - p) < 5.5 * (p * (1 - p) / some.sum()) ** 0.5  # p < 1e-7
    normal = BinaryTable.of(table(50), np.full(50, 1 / 50))
    assert normal.count == len(np.unique(table(50), axis=0))
    assert not BinaryTable.of(table(50), None).changing


def test_the_same_seed_gives_the_same_machine_and_another_does_not():
    x = table(50)
    first, second, third = (RapidRBM(4, n_iter=3, random_state=s).fit(x) for s in (1, 1, 2))
    assert np.array_equal(first.components_, second.components_)
    assert not np.array_equal(first.components_, third.components_)
    assert np.array_equal(first.sample(9, steps=5), second.sample(9, steps=5))
    assert not np.array_equal(first.sample(9, steps=5), first.sample(9, steps=5, random_state=5))


def test_partial_fit_learns_and_keeps_the_memory_of_adam():
    x = table(400)
    model = RapidRBM(8, random_state=0, batch_size=20)
    scores = []
    for _ in range(8):
        for part in np.split(x, 4):
            model.partial_fit(part)
        scores.append(model.score(x))
    model.partial_fit(x[:1])  # a row at a time, and no warning that all rows are the same
    assert scores[-1] > scores[0] + 0.3
    assert model.n_samples_seen_ == 3201
    whole, halves = RapidRBM(8, random_state=0), RapidRBM(8, random_state=0)
    whole.partial_fit(x).partial_fit(x)
    halves.partial_fit(x)
    halves._memory = {}
    halves.partial_fit(x)
    assert not np.allclose(whole.components_, halves.components_)


def test_warm_start_goes_on_and_refuses_another_shape():
    x = table()
    model = RapidRBM(**SMALL | {"n_iter": 5}, warm_start=True).fit(x)
    before, score = model.components_, model.score(x)
    model.set_params(n_iter=40).fit(x)
    assert model.score(x) > score
    model.set_params(n_iter=0).fit(x)
    kept = model.components_
    assert np.array_equal(kept, model.fit(x).components_)
    assert not np.array_equal(before, kept)
    with pytest.raises(InputError, match=r"has 8 hidden, and 9.*warm_start=False"):
        model.set_params(n_components=9).fit(x)
    with pytest.raises(InputError, match="has no patterns, and 3"):
        model.set_params(n_components=8, n_patterns=3).fit(x)
    with pytest.raises(ValueError, match="expecting 6 features"):
        model.set_params(n_patterns=None).fit(x[:, :4])
    assert np.array_equal(kept, model.fit(x).components_)


def test_a_budget_chooses_by_trials(capsys):
    model = RapidRBM(6, budget=1, random_state=0, verbose=1).fit(table())
    assert "auto: " in capsys.readouterr().out
    assert model.n_components_ == 6
    assert model.n_iter_ >= 1
    assert model.score(table()) > -6 * np.log(2)


def test_with_a_budget_it_says_the_settings_of_the_trials(monkeypatch):
    machine = RapidRBM(4, n_iter=1, random_state=0).fit(table()).machine_
    chosen = Chosen(machine, 7, 0.0123, 0.0456)
    monkeypatch.setattr("rapidbm.estimator.rbm.by_trials", lambda *given: chosen)
    model = RapidRBM(budget="1m").fit(table())
    assert (model.learning_rate_, model.weight_decay_, model.n_iter_) == (0.0123, 0.0456, 7)


# -- what people do with it ---------------------------------------------------------------------------


def test_frames_names_and_output_as_pandas():
    frame = pd.DataFrame(table(40), columns=list("abcdef"))
    model = RapidRBM(3, n_iter=2).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["rapidrbm0", "rapidrbm1", "rapidrbm2"]
    assert list(model.feature_names_in_) == list("abcdef")
    assert ((out > 0) & (out < 1)).all(axis=None)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("fedcba")])


def test_grids_choose_by_likelihood_and_pipelines_classify():
    x = table(120)
    grid = GridSearchCV(RapidRBM(random_state=0, n_iter=30), {"n_components": [1, 8]}, cv=2).fit(x)
    assert grid.best_params_ == {"n_components": 8}
    labels = x[:, 0] ^ x[:, 3]
    pipeline = make_pipeline(RapidRBM(20, random_state=0, n_iter=50), LogisticRegression(C=100))
    assert pipeline.fit(x, labels).score(x, labels) > 0.75  # no linear function of columns gets far


def test_reconstruction_finds_the_conditional_means(fitted):
    known = np.array([True, True, False, True, False, False])
    row = np.array([[1, 1, 0, 0, 0, 0]])
    p = np.exp(fitted.score_samples(STATES))
    some = (STATES[:, known] == row[:, known]).all(1)
    means = p[some] @ STATES[some] / p[some].sum()
    rows = np.repeat(row, 400, 0)
    filled = fitted.reconstruct(rows, known=known, passes=50)
    error = filled.std(0) / 20
    assert (np.abs(filled.mean(0) - means) <= 6 * error + 1e-9).all()  # p < 1e-6
    assert error.max() < 0.02
    assert (filled[:, known] == row[:, known]).all()
    nans = np.where(known, rows, np.nan)
    assert np.array_equal(filled, fitted.reconstruct(nans, passes=50))
    with pytest.raises(InputError, match="some are NaN"):
        fitted.reconstruct(nans, known=np.ones(6, bool))


def test_samples_have_the_machines_moments(fitted):
    p = np.exp(fitted.score_samples(STATES))
    drawn = fitted.sample(2000, steps=50)
    assert set(np.unique(drawn)) == {0, 1}
    error = np.sqrt(p @ STATES * (1 - p @ STATES) / 2000)
    assert (np.abs(drawn.mean(0) - p @ STATES) < 5.5 * error).all()  # of six columns: p < 1e-6


def test_any_restricted_machine_becomes_an_estimator():
    machine = rb.rbm(6, 4, patterns=2, seed=0)
    model = RapidRBM.from_machine(machine, random_state=0)
    assert np.exp(model.score_samples(STATES)).sum() == pytest.approx(1, abs=1e-9)
    assert model.transform(STATES).shape == (64, 4)
    expected = (1 + machine.hidden_mean(torch.from_numpy(STATES))[0]) / 2
    assert np.allclose(model.transform(STATES), expected.detach(), atol=1e-6)
    for other in (rb.rbm(6, 4, replicas=2), rb.bm(6, 4), rb.dbm(6, (4, 3))):
        with pytest.raises(InputError, match="one hidden layer and one replica"):
            RapidRBM.from_machine(other)


@pytest.mark.parametrize("machine", [rb.rbm(6, 4, seed=0), rb.rbm(6, 4, patterns=2, biases=True, seed=0)])
def test_training_goes_on_from_any_restricted_machine(machine):
    x = table()
    model = RapidRBM.from_machine(machine, random_state=0)
    start = model.score(x)
    assert model.partial_fit(x).partial_fit(x).score(x) > start
    assert (model.n_iter_, model.n_samples_seen_) == (2, 400)
    assert model.set_params(warm_start=True, n_iter=40).fit(x).score(x) > start + 0.1
    assert (machine.biases is None) == (model.n_patterns_ is None)  # the one given is as it was
    assert all(parameter.requires_grad for parameter in machine.parameters())


@pytest.fixture(scope="module")
def hard():
    """The benchmark of tables that a machine is easily lost on."""
    return importlib.import_module("rapidbm_bench.hard_tables")


def check_above(hard, name, seed):
    x = hard.tables()[name]
    model = RapidRBM(random_state=seed).fit(x)
    assert model.score(x) > hard.independent(x) - 0.05
    constant = (x == x[0]).all(0)
    assert not model.components_[:, constant].any()
    return model


@pytest.mark.filterwarnings("ignore:all 2000 rows are the same")
@pytest.mark.parametrize(
    "name", ["6 survey, 40 constant columns", "50 columns of 0.1 % ones", "40 constant columns"]
)
def test_it_is_not_below_independent_columns(hard, name):
    check_above(hard, name, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:all 2000 rows are the same")
@pytest.mark.parametrize("seed", range(3))
def test_it_is_never_below_independent_columns(hard, seed):
    for name in hard.tables():
        check_above(hard, name, seed)


def test_what_cannot_be_mended_is_independent_columns(monkeypatch):
    x = np.tile(table(), (1, 5))
    with pytest.warns(FitWarning, match="machine is that of independent columns.*learning_rate"):
        model = RapidRBM(20, learning_rate=30.0, weight_decay=0, n_iter=20, random_state=0).fit(x)
    p = (x.sum(0) + 1) / (len(x) + 2)
    assert model.score(x) == pytest.approx(np.where(x, np.log(p), np.log(1 - p)).sum(1).mean(), abs=0.1)
    assert not model.components_.any()


def test_a_column_counts_as_constant_until_it_is_not():
    x, rng = table(80), np.random.default_rng(3)
    x[:60, 2] = 1
    model = RapidRBM(8, random_state=0, batch_size=10).partial_fit(x[:30])
    model.partial_fit(x[30:60])
    assert not model.components_[:, 2].any()
    assert model.intercept_visible_[2] == pytest.approx(np.log(61))  # 60 ones, smoothed
    model.partial_fit(x[60:])
    assert model.components_[:, 2].any()
    learnt = model.components_[:, 2]
    model.partial_fit(x[:30])  # constant here, and not before
    assert model.components_[:, 2].any()
    assert not np.array_equal(learnt, model.components_[:, 2])
    grey = rng.uniform(0, 0.02, (20, 6))
    grey[:, 0] = 0
    model = RapidRBM(4, n_iter=2, random_state=0).fit(np.vstack([grey, x]))
    assert model.components_[:, 1].any()


def test_warnings_teach():
    with pytest.warns(FitWarning, match="diverged"):
        RapidRBM(4, learning_rate=1e5, random_state=0).partial_fit(table()).partial_fit(table())
    with pytest.warns(DataWarning, match="from 0 to 16.*MinMaxScaler"):
        RapidRBM(2, n_iter=1).fit(table() * 16)
    with pytest.warns(DataWarning, match="rows are the same"):
        RapidRBM(2, n_iter=1).fit(np.zeros((5, 3)))
    with pytest.warns(DataWarning, match="read as probabilities"):
        RapidRBM(2, n_iter=1).fit(np.random.default_rng(0).uniform(0.1, 0.9, (20, 4)))
    with pytest.warns(FitWarning, match="below independent columns.*take a smaller learning_rate"):
        RapidRBM(50, learning_rate=3.0, weight_decay=0, n_iter=50, random_state=0).fit(table())


def test_spins_booleans_and_bits_are_the_same_data():
    x = table(50)
    one, two, three = (RapidRBM(**SMALL).fit(y) for y in (x, 2 * x - 1, x.astype(bool)))
    assert np.array_equal(one.components_, two.components_)
    assert np.array_equal(one.components_, three.components_)
    assert np.array_equal(one.transform(x), two.transform(2 * x - 1))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": "many"}, "n_components"),
        ({"n_patterns": 0}, "n_patterns"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"batch_size": None}, "batch_size"),
        ({"n_iter": 1.5}, "n_iter"),
        ({"weight_decay": "strong"}, "weight_decay"),
        ({"budget": "soon"}, "budget"),
        ({"device": "abacus"}, "device"),
    ],
)
def test_settings_that_are_none_are_refused_in_fit(given, match):
    model = RapidRBM(**given)
    with pytest.raises(InputError, match=match):
        model.fit(table(20))


def test_what_is_not_fitted_or_not_weighted_is_refused():
    for ask in (RapidRBM().sample, lambda: RapidRBM().score(table()), lambda: RapidRBM().log_z_):
        with pytest.raises(NotFittedError):
            ask()
    for weights, match in (
        (np.full(20, 1e308), "from 0 to 1e"),
        (np.zeros(20), "zero"),
        (-np.ones(20), "not from -1 to"),
        (np.ones(3), "20 rows"),
    ):
        with pytest.raises(InputError, match=match):
            RapidRBM().fit(table(20), sample_weight=weights)
