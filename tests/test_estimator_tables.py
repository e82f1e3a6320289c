"""Estimators of tables: scikit-learn's checks, gaps, words, labels that are missing, containers."""

import pickle

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from rapidbm import RapidClassifier, RapidImputer
from rapidbm.data.columns import Binned, Words
from rapidbm.data.monotone import Bins
from rapidbm.data.table_schema import TableSchema
from rapidbm.errors import DataWarning, InputError
from rapidbm.estimator import table_training, tables
from rapidbm.estimator.table_training import _marginal_fill, encoded, trained_together
from rapidbm.inference.missing import in_turn
from rapidbm.runs.filling import _correction, _of_bins

FAST = {"n_hidden": 4, "n_epochs": 3, "random_state": 0}
LEARNING = {"n_hidden": 8, "n_epochs": 40, "batch_size": 20, "random_state": 0}
QUICK = RapidClassifier(8, n_epochs=30, learning_rate=0.03, batch_size=20)


@pytest.mark.filterwarnings("ignore::rapidbm.errors.DataWarning")  # checks come with any values
@parametrize_with_checks([RapidImputer(**FAST, reals="bins"), QUICK])
def test_scikit_learns_checks(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else two of them skip themselves
    check(estimator)


def animals(count=300, seed=0):
    """Three species that differ in size, colour and weight; two of them are hard to tell by colour."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=count)
    colour = np.where(rng.random(count) < 0.9, np.array(["grey", "grey", "red"])[kind], "blue")
    return pd.DataFrame(
        {
            "species": np.array(["cat", "dog", "fox"])[kind],
            "size": np.array([1.0, 4.0, 7.0])[kind] + 0.3 * rng.standard_normal(count),
            "colour": colour,
            "weight": np.array([3.0, 9.0, 6.0])[kind] + 0.2 * rng.standard_normal(count),
        }
    )


def with_gaps(frame, share=0.2, seed=1):
    """The frame with cells removed, and which they are."""
    holes = np.random.default_rng(seed).random(frame.shape) < share
    return frame.mask(pd.DataFrame(holes, columns=frame.columns, index=frame.index)), holes


@pytest.fixture(scope="module")
def imputer():
    return RapidImputer(**LEARNING).set_output(transform="pandas").fit(with_gaps(animals())[0])


@pytest.fixture(scope="module")
def classifier():
    frame = animals()
    return RapidClassifier(**LEARNING).fit(frame.drop(columns="species"), frame["species"])


# -- gaps ---------------------------------------------------------------------------------------------


def test_gaps_are_filled_by_what_the_other_cells_say(imputer):
    whole = animals(200, seed=5)
    gaps, holes = with_gaps(whole)
    filled = imputer.transform(gaps)
    assert not filled.isna().any(axis=None)
    for i, name in enumerate(whole):
        assert (filled[name][~holes[:, i]] == whole[name][~holes[:, i]]).all()
    assert (filled["species"] == whole["species"])[holes[:, 0]].mean() > 0.8
    error = (filled["size"] - whole["size"])[holes[:, 1]]
    assert np.sqrt((error**2).mean()) < 0.6 * whole["size"].std()


def test_draws_keep_the_spread_that_means_lose(imputer):
    lost = animals(200, seed=6)
    lost[["species", "size", "colour", "weight"]] = None  # draws of the machine itself, and one mean
    lost = lost.astype({"species": "str", "size": float, "colour": "str", "weight": float})
    drawn = pickle.loads(pickle.dumps(imputer)).set_params(how="draw")
    first, again = drawn.transform(lost), drawn.transform(lost)
    assert first.equals(again)
    assert not first.equals(drawn.set_params(random_state=1).transform(lost))
    assert first["size"].std() > 1.5  # of the animals 2.5
    assert imputer.transform(lost)["size"].std() < 0.5


def test_the_same_seed_gives_the_same_answers():
    gaps = with_gaps(animals(80))[0]
    model = RapidImputer(**FAST).set_output(transform="pandas")
    one, two = model.fit_transform(gaps), clone(model).fit(gaps).transform(gaps)
    pd.testing.assert_frame_equal(one, two)


def test_arrays_of_numbers_of_any_kind():
    rng = np.random.default_rng(0)
    size = rng.normal(size=100)
    X = np.stack([size, size + 0.1 * rng.normal(size=100), rng.integers(2, size=100)], 1)
    X[::7, 1] = np.nan
    for kind in (np.float32, np.float64):
        filled = RapidImputer(**FAST).fit_transform(X.astype(kind))
        assert filled.dtype == kind
        assert np.isfinite(filled).all()
        assert np.array_equal(filled[~np.isnan(X)], X.astype(kind)[~np.isnan(X)])
    marked = np.where(np.isnan(X), -99, np.round(X * 10)).astype(int)
    filled = RapidImputer(**FAST, missing_values=-99).fit_transform(marked)
    assert not (filled == -99).any()
    assert np.array_equal(filled[marked != -99], marked[marked != -99])


def test_arrays_of_objects_and_a_word_for_missing():
    frame = animals(80)
    X = frame.to_numpy(dtype=object)
    X[::5, 0], X[1::5, 1], X[2::5, 2] = "?", None, np.nan
    filled = RapidImputer(**FAST, missing_values="?").fit_transform(X)
    assert set(filled[:, 0]) == {"cat", "dog", "fox"}
    assert set(filled[:, 2]) == set(frame["colour"])
    assert all(isinstance(x, float) and np.isfinite(x) for x in filled[:, 1])


def test_frames_keep_types_names_and_row_labels():
    gaps = with_gaps(animals(80))[0]
    gaps.index = gaps.index + 100
    gaps["colour"] = gaps["colour"].astype("category")
    gaps["legs"] = pd.array([4, 3] * 40, dtype="Int64")
    model = RapidImputer(**FAST, add_indicator=True).set_output(transform="pandas")
    filled = model.fit_transform(gaps)
    assert list(filled.columns) == list(model.get_feature_names_out())
    assert list(filled.columns[5:]) == [f"missingindicator_{x}" for x in gaps.columns[:4]]
    assert filled.index.equals(gaps.index)
    assert filled["colour"].dtype == gaps["colour"].dtype
    assert (filled["missingindicator_size"] == gaps["size"].isna()).all()
    plain = clone(model).set_output(transform="default").fit_transform(gaps)
    assert plain.shape == (80, 9)
    assert plain.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        model.transform(gaps[list(gaps.columns[::-1])])


def test_any_frame_with_arrows_interface():
    class Frame:
        """What polars and others have in common."""

        def __init__(self, table):
            self.table, self.columns, self.shape = table, table.column_names, table.shape

        def __len__(self):
            return self.shape[0]

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    gaps = with_gaps(animals(80))[0]
    table = pyarrow.Table.from_pandas(gaps, preserve_index=False)
    one = RapidImputer(**FAST).fit(gaps).transform(gaps)
    assert np.array_equal(one, RapidImputer(**FAST).fit(Frame(table)).transform(Frame(table)))


def test_unseen_words_are_kept_and_told(imputer):
    rows = animals(3, seed=9)
    rows.loc[0, "colour"], rows.loc[0, "size"] = "green", np.nan
    with pytest.warns(DataWarning, match=r"'colour' holds 'green', which was not there in fit"):
        filled = imputer.transform(rows)
    assert filled.loc[0, "colour"] == "green"
    assert np.isfinite(filled.loc[0, "size"])


def test_columns_without_units():
    frame = animals(60)
    frame["planet"], frame["nothing"] = "earth", np.nan
    gaps = frame.copy()
    gaps.loc[3, "planet"] = None
    filled = RapidImputer(**FAST).set_output(transform="pandas").fit_transform(gaps)
    assert filled.loc[3, "planet"] == "earth"
    assert filled["nothing"].isna().all()


def test_means_and_medians_of_bins():
    column = Binned("x", "double", 0, 9, False, (), (), Bins((0.0, 1.0, 3.0, 7.0), (0.0, 0.0), False))
    p = np.array([[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    # Numbers stand evenly in bins from 0 to 1, 1 to 3 and 3 to 7, whose middles are 0.5, 2 and 5.
    assert _of_bins(column, p, "mean") == pytest.approx([0.05 + 0.4 + 3.5, 0.5])
    assert _of_bins(column, p, "likely") == pytest.approx([3 + 4 * 0.2 / 0.7, 0.5], abs=0.2)


def test_biases_start_from_observed_cells_alone(imputer):
    values, observed = encoded(imputer.schema_, with_gaps(animals())[0])
    filled = _marginal_fill(values, observed, 0)
    assert (filled[observed] == values[observed]).all()
    unit = imputer.schema_.unit_columns.index("species")
    known = values[observed[:, unit], unit]
    share = (filled[:, unit] == 0).double().mean() - (known == 0).double().mean()
    assert abs(share) < 0.08


# -- several machines ---------------------------------------------------------------------------------


def test_machines_are_replicas_with_weight_decays_around_one(monkeypatch):
    seen = {}

    def noted(*args, decays, **kwargs):
        seen["decays"] = decays
        return trained_together(*args, decays=decays, **kwargs)

    monkeypatch.setattr(tables, "trained_together", noted)
    model = RapidImputer(**FAST).fit(with_gaps(animals(80))[0])
    assert model.machine_.replicas == 4
    assert model.weight_decay_ == pytest.approx(20 / 80)
    assert min(seen["decays"]) == pytest.approx(20 / 80 / 3)
    assert max(seen["decays"]) == pytest.approx(20 / 80 * 3)
    one = RapidImputer(**FAST, n_machines=1, weight_decay=0.5).fit(with_gaps(animals(80))[0])
    assert (one.machine_.replicas, seen["decays"]) == (1, [0.5])


def test_a_gap_is_filled_by_the_mean_over_machines():
    gaps = with_gaps(animals(80))[0]
    model = RapidImputer(**FAST, n_machines=2, reals="bins").set_output(transform="pandas").fit(gaps)
    both = model.machine_
    whole = model.transform(gaps)["size"]
    parts = []
    for i in range(2):
        model.machine_ = both.replica(i)
        parts.append(model.transform(gaps)["size"])
    assert np.allclose(whole, (parts[0] + parts[1]) / 2)
    assert not np.allclose(parts[0], parts[1])


def test_machines_that_diverge_are_left_out_or_train_anew(monkeypatch):
    schema = TableSchema.recognise(animals(60))
    values, observed = encoded(schema, animals(60))
    how = {"hidden": 2, "epochs": 2, "decays": (0.0, 0.1), "batch_size": 20, "seed": 0}
    real, rates = table_training.adam, []

    def noted(rate, **kwargs):
        rates.append(rate)
        return real(rate, **kwargs)

    monkeypatch.setattr(table_training, "adam", noted)
    lost = iter([(0, 1), (1,)])
    monkeypatch.setattr(table_training.Trainer, "diverged", lambda self: next(lost))
    assert trained_together(schema, values, observed, rate=0.01, **how).replicas == 1
    assert rates == [0.01, 0.0025]
    monkeypatch.setattr(table_training.Trainer, "diverged", lambda self: (0, 1))
    with pytest.raises(InputError, match="all 2 machines diverged"):
        trained_together(schema, values, observed, rate=0.01, **how)


def test_draws_come_from_each_machine_in_turn():
    values = torch.arange(3)[:, None, None, None] + torch.zeros(3, 2, 50, 1)  # of replica r they are r
    found = in_turn(values, 6, torch.Generator().manual_seed(0))[..., 0]  # (draws, rows)
    assert (found.sort(0).values == torch.tensor([0, 0, 1, 1, 2, 2])[:, None]).all()
    one = in_turn(values, 1, torch.Generator().manual_seed(0))
    assert one.shape == (1, 50, 1)
    assert set(one.flatten().tolist()) == {0, 1, 2}
    assert torch.equal(in_turn(values[:1], 2, torch.Generator()), values[0])


def test_means_of_draws_are_corrected_by_the_mean_of_the_unit():
    column = recognise({"x": np.exp(np.random.default_rng(0).normal(size=2000)).tolist()})
    rng = np.random.default_rng(1)
    drawn = 0.5 + 0.3 * rng.normal(size=(8, 400))
    means = np.full(400, 0.5)
    x = np.asarray(column.decode([drawn.ravel()], np.zeros, rows=drawn.size, outside=False))
    plain = x.reshape(drawn.shape).mean(0)
    better = plain + _correction(column, drawn, means)
    truth = np.exp(0.5 + 0.3**2 / 2)
    assert better.std() < 0.5 * plain.std()
    assert better.mean() == pytest.approx(truth, rel=0.05)


def recognise(columns):
    return TableSchema.recognise(columns).columns[0]


# -- labels -------------------------------------------------------------------------------------------


def test_probabilities_are_those_of_the_machine(classifier):
    rows = animals(50, seed=3).drop(columns="species")
    p = classifier.predict_proba(rows)
    assert p.shape == (50, 3)
    assert p.sum(1) == pytest.approx(1)
    values, observed = encoded(classifier.schema_, rows.assign(label=pd.Series([None] * 50, dtype="str")))
    label = classifier.schema_.unit_columns.index("label")
    logs = []
    for state in range(3):
        values[:, label] = state
        columns = classifier.machine_.layers.encode(values)
        logs.append(classifier.machine_.double().log_prob_unnormalised(columns)[0].numpy())
    weights = np.exp(np.stack(logs, 1) - np.max(logs, 0)[:, None])
    assert np.allclose(p, weights / weights.sum(1, keepdims=True), atol=1e-6)
    assert observed[:, label].sum() == 0


def test_it_learns_and_takes_gaps(classifier):
    test = animals(200, seed=4)
    rows, y = test.drop(columns="species"), test["species"]
    assert list(classifier.classes_) == ["cat", "dog", "fox"]
    assert classifier.score(rows, y) > 0.95
    gaps, _ = with_gaps(rows, 0.3)
    p = classifier.predict_proba(gaps)
    assert np.isfinite(p).all()
    assert (classifier.classes_[p.argmax(1)] == y).mean() > 0.7
    nothing = gaps.mask(np.ones(gaps.shape, bool))
    prior = classifier.predict_proba(nothing)[0]  # all cells missing: the marginal of the label
    assert np.abs(prior - 1 / 3).max() < 0.15


@pytest.mark.parametrize("gap", [None, np.nan])
def test_rows_without_a_label_train_too(gap):
    frame = animals(300)
    y = frame["species"].to_numpy(dtype=object)
    y[30:] = gap
    model = RapidClassifier(**LEARNING).fit(frame.drop(columns="species"), y)
    test = animals(200, seed=4)
    assert model.schema_.columns[-1].missing == 270
    assert list(model.classes_) == ["cat", "dog", "fox"]
    assert model.score(test.drop(columns="species"), test["species"]) > 0.9


def test_labels_of_numbers_and_a_column_that_is_called_label():
    frame = animals(80).rename(columns={"species": "label"})
    y = np.where(frame["size"] > 3, 7.0, 2.0)
    y[:3] = np.nan
    model = RapidClassifier(**FAST).fit(frame, y)
    assert model.classes_.tolist() == [2.0, 7.0]
    assert model.schema_.columns[-1].name == "label_2"
    assert isinstance(model.schema_.columns[-1], Words)
    assert set(model.predict(frame)) <= {2.0, 7.0}


def test_in_a_pipeline():
    frame = animals(80)
    X, y = with_gaps(frame[["size", "weight"]])[0], frame["species"]
    pipeline = make_pipeline(RapidImputer(**FAST), RapidClassifier(**FAST))
    assert pipeline.fit(X, y).predict(X).shape == (80,)


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"how": "best"}, "way to fill gaps"),
        ({"n_hidden": 0}, "n_hidden"),
        ({"n_epochs": "many"}, "n_epochs"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"weight_decay": None}, "weight_decay"),
        ({"batch_size": 0}, "batch_size"),
        ({"reals": "floats"}, "reals"),
        ({"sweeps": 0}, "sweeps"),
        ({"n_machines": 0}, "n_machines"),
        ({"columns": {"height": "real"}}, "height"),
    ],
)
def test_settings_that_are_none_are_refused_in_fit(given, match):
    model = RapidImputer(**given)
    with pytest.raises(InputError, match=match):
        model.fit(animals(20))


def test_what_cannot_be_learned_is_refused():
    frame = animals(20)
    with pytest.raises(InputError, match="y has 1 class"):
        RapidClassifier().fit(frame, ["cat"] * 20)
    with pytest.raises(InputError, match="found 1 sample"):
        RapidImputer().fit(frame[:1])
    with pytest.raises(InputError, match="no column has two different values"):
        RapidImputer().fit(np.ones((20, 2)))
    with pytest.raises(NotFittedError):
        RapidImputer().transform(frame)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RapidClassifier().fit(frame, ["cat", "dog"])
