"""`RapidImputer` and `RapidClassifier`: tables of any kind, with gaps, as scikit-learn takes them.

Both train a restricted machine on all rows, with missing cells marginalised, and answer by conditional
probabilities of it: of missing cells given the others, and of a label y,

    p(y | x_O) = Σ_h exp(−E(y, x_O, h)) / Σ_y' Σ_h exp(−E(y', x_O, h))                            (1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..arrays import Array
from ..data.columns import Words
from ..data.table_schema import TableSchema
from ..errors import InputError, check_choice, check_count, is_number
from ..inference.labels import predict
from ..progress import quiet
from ..runs.filling import filled_by
from ..runs.tables import HOW, imputed
from .containers import (
    as_table,
    checked_input,
    column_names,
    filled_in,
    gaps_of,
    is_frame,
    known_part,
    with_column,
)
from .rbm import Auto, _is_auto, _seed
from .table_training import encoded, trained, trained_together

if TYPE_CHECKING:
    import pyarrow

REALS = ("auto", "bins", "gaussian")
SMALL = 2000  # rows up to which "auto" takes Gaussian units to fill gaps
UPDATES, FEWEST, MOST = 2500, 10, 200  # of a training; epochs, at least and at most
UPDATES_TOGETHER, MOST_TOGETHER = 1500, 1000  # of several machines, whose end is kept
HIDDEN, HIDDEN_TOGETHER = 32, 24  # of a machine by itself, and of each of several
RATE = 0.01
DECAY = 20.0  # over the number of rows, at most `MOST_DECAY`
MOST_DECAY = 0.1
SPREAD = 3.0  # weight decays of several machines reach from 1/3 to 3 times the usual one
AT_ONCE = 2000  # rows of a prediction


class _TableEstimator(BaseEstimator):  # type: ignore[misc]
    """What both have: settings, columns, and the training."""

    n_hidden: int | Auto
    n_epochs: int | Auto
    learning_rate: float | Auto
    batch_size: int
    weight_decay: float | Auto
    reals: str
    columns: Mapping[str, str] | None
    missing_values: Any
    random_state: Any

    def _check_settings(self) -> None:
        for name in ("n_hidden", "n_epochs"):
            if not _is_auto(getattr(self, name)):
                check_count(name, getattr(self, name))
        check_count("batch_size", self.batch_size)
        for name in ("learning_rate", "weight_decay"):
            number = getattr(self, name)
            if not _is_auto(number) and not (is_number(number) and number >= 0):
                raise InputError(f"{name} is 'auto' or a number of at least 0, not {number!r}")
        check_choice("reals", self.reals, REALS)

    def _recognised(self, table: pyarrow.Table, small: bool) -> TableSchema:
        real = self.reals
        if real == "auto":
            real = "gaussian" if small else "bins"
        return TableSchema.recognise(table, overrides=self.columns, real=real)

    def _choices(self, rows: int, hidden: int, updates: int, most_epochs: int) -> dict[str, Any]:
        """Settings of a training on so many rows, without the weight decay."""
        batch, epochs, rate = min(self.batch_size, rows), self.n_epochs, self.learning_rate
        if isinstance(epochs, str):
            epochs = min(max(FEWEST, math.ceil(updates * batch / rows)), most_epochs)
        self.learning_rate_ = RATE if isinstance(rate, str) else float(rate)
        self.n_iter_ = int(epochs)
        return {
            "hidden": hidden if isinstance(self.n_hidden, str) else int(self.n_hidden),
            "epochs": self.n_iter_,
            "rate": self.learning_rate_,
            "batch_size": self.batch_size,
            "seed": self._seed,
        }

    def _decay(self, rows: int, most: float) -> float:
        decay = self.weight_decay
        self.weight_decay_ = min(most, DECAY / rows) if isinstance(decay, str) else float(decay)
        return self.weight_decay_

    def _table(self, X: Any) -> pyarrow.Table:
        """Checked input with the names that were learned."""
        return as_table(X, column_names(self), self.missing_values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


class RapidImputer(TransformerMixin, _TableEstimator):  # type: ignore[misc]
    """Fills gaps of tables whose columns are words, categories, integers or real numbers.

    Restricted Boltzmann machines are trained on all rows; missing cells are marginalised, never filled in
    beforehand. `transform` fills a gap from its distribution given the known cells of the row, averaged
    over the machines.

    Parameters
    ----------
    how : {"mean", "likely", "draw"}, default "mean"
        What fills a gap: the mean of a number, its median, or a draw. Of words "mean" and "likely" both
        take the most probable one. Draws keep the spread of a column; another
        `random_state` in `transform` gives other ones.
    n_hidden : int or "auto", default "auto"
        Hidden units of each machine; "auto" is 24.
    n_machines : int, default 4
        Machines that are trained side by side, as replicas of one.
    n_epochs : int or "auto", default "auto"
        Passes over the rows; "auto" makes about 1,500 updates in 10 to 1,000 passes.
    learning_rate : float or "auto", default "auto"
        Rate of Adam, which falls to zero; "auto" is 0.01.
    batch_size : int, default 100
        Rows per update.
    weight_decay : float or "auto", default "auto"
        Couplings shrink by rate · decay in each update. "auto" is 20 / rows, at most 1, for the middle of
        the machines, and from a third to three times as much for the others.
    reals : {"auto", "bins", "gaussian"}, default "auto"
        How numbers become units: a category of ordered bins, or a Gaussian unit after a monotone map.
        "auto" takes Gaussian units up to 2,000 rows and bins beyond.
    columns : mapping of str to str, optional
        What columns are where that is not recognised: "category", "integer", "real" or "skip". Columns of
        arrays are called x0, x1, …
    missing_values : number or str, default NaN
        A value that says that a cell is missing, beside NaN, None and null.
    add_indicator : bool, default False
        Append a column for each column that had gaps in `fit`: 1 where its cell was missing.
    sweeps : int, default 100
        Gibbs sweeps of the chains that fill rows with too many gaps to be summed.
    random_state : int, RandomState or None, default None
        A number makes every result repeatable.

    Attributes
    ----------
    machine_ : rapidbm.Machine
        The trained machines, a replica each.
    schema_ : rapidbm.data.table_schema.TableSchema
        What each column is; `schema_.lines()` says so.
    learning_rate_ : float
        Rate that was used.
    weight_decay_ : float
        Weight decay that was used, of the middle of the machines.
    n_iter_ : int
        Passes that were made.
    indicated_ : array of int
        Columns that had gaps in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from rapidbm import RapidImputer
    >>> size = np.arange(60.0) % 30
    >>> X = np.stack([size, 2 * size + 1], axis=1)
    >>> X[3, 1] = np.nan
    >>> RapidImputer(n_epochs=2, random_state=0).fit_transform(X).shape
    (60, 2)
    """

    def __init__(
        self,
        how: Literal["mean", "likely", "draw"] = "mean",
        *,
        n_hidden: int | Auto = "auto",
        n_machines: int = 4,
        n_epochs: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        batch_size: int = 100,
        weight_decay: float | Auto = "auto",
        reals: str = "auto",
        columns: Mapping[str, str] | None = None,
        missing_values: Any = np.nan,
        add_indicator: bool = False,
        sweeps: int = 100,
        random_state: Any = None,
    ) -> None:
        self.how = how
        self.n_hidden = n_hidden
        self.n_machines = n_machines
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.reals = reals
        self.columns = columns
        self.missing_values = missing_values
        self.add_indicator = add_indicator
        self.sweeps = sweeps
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Trains a machine on rows with gaps.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Numbers, words and gaps.
        y : None
            Ignored.

        Returns
        -------
        RapidImputer
            The estimator itself.
        """
        self._check_settings()
        check_choice("way to fill gaps", self.how, HOW)
        check_count("the number of sweeps", self.sweeps)
        check_count("n_machines", self.n_machines)
        X = checked_input(self, X, reset=True)
        table = self._table(X)
        self._seed = _seed(self.random_state)
        self.schema_ = self._recognised(table, table.num_rows <= SMALL)
        self.indicated_ = np.flatnonzero([column.null_count for column in table.columns])
        values, observed = encoded(self.schema_, table)
        decay = self._decay(len(values), 1.0)
        spread = np.geomspace(1 / SPREAD, SPREAD, self.n_machines) if self.n_machines > 1 else [1.0]
        told = not isinstance(self.weight_decay, str)
        with quiet():
            self.machine_ = trained_together(
                self.schema_,
                values,
                observed,
                decays=[decay * (1.0 if told else float(factor)) for factor in spread],
                **self._choices(len(values), HIDDEN_TOGETHER, UPDATES_TOGETHER, MOST_TOGETHER),
            )
        return self

    def transform(self, X: Any) -> Any:
        """Rows with their gaps filled.

        Words that were not there in `fit` are kept, with a warning, and gaps of their rows are filled as
        if those words were missing. A column without any value in `fit` stays empty.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Numbers, words and gaps.

        Returns
        -------
        array or data frame of shape (rows, columns + indicators)
            Known cells as they were. Numbers are an array of floats and words one of objects; frames are
            what `set_output` asks for, with the types of their columns.
        """
        check_is_fitted(self)
        X = checked_input(self, X, reset=False)
        table = self._table(X)
        lost = np.stack([np.asarray(column.is_null().to_numpy(), bool) for column in table.columns], 1)
        config = _output_config(self)
        found = filled_in(X, self._filled(table), lost, config)
        if not self.add_indicator or not len(self.indicated_):
            return found
        marks = lost[:, self.indicated_]
        if is_frame(found):
            return _beside(found, marks, self.get_feature_names_out()[len(lost[0]) :])
        return np.hstack([found, marks.astype(found.dtype)])

    def _filled(self, table: pyarrow.Table) -> pyarrow.Table:
        """The table without gaps."""
        import pyarrow
        import pyarrow.compute as pc

        if not any(column.null_count for column in table.columns):
            return table
        # Rows without a gap have nothing to be asked.
        open_rows = np.zeros(table.num_rows, bool)
        for column in table.columns:
            open_rows |= np.asarray(column.is_null().to_numpy(), bool)
        rows = pyarrow.array(np.flatnonzero(open_rows))
        some = known_part(self.schema_, table.take(rows))
        with quiet():
            if self.how == "draw":
                seed = _seed(self.random_state)
                answers = imputed(self.machine_, self.schema_, some, seed=seed, sweeps=self.sweeps)[0]
            else:
                answers = filled_by(
                    self.machine_, self.schema_, some, self.how, seed=self._seed, sweeps=self.sweeps
                )
        places = np.zeros(table.num_rows, np.int64)
        places[open_rows] = np.arange(len(rows))
        columns = {}
        for name in table.column_names:
            cells = table.column(name)
            if name in answers.column_names and cells.null_count:
                answer = answers.column(name).take(pyarrow.array(places))
                if cells.type != answer.type:
                    wide = not (pyarrow.types.is_integer(cells.type) and _floating(answer.type))
                    kind = cells.type if wide and not pyarrow.types.is_null(cells.type) else answer.type
                    cells, answer = cells.cast(kind), answer.cast(kind)
                cells = pc.coalesce(cells, answer)
            columns[name] = cells
        return pyarrow.table(columns)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of the output.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns of the input, where `fit` saw none.

        Returns
        -------
        array of str
            Those of the input, and "missingindicator_NAME" of indicators.
        """
        from sklearn.utils.validation import _check_feature_names_in

        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features), object)
        if not self.add_indicator:
            return names
        marks = [f"missingindicator_{names[i]}" for i in self.indicated_]
        return np.concatenate([names, np.asarray(marks, object)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _floating(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_floating(kind))


def _output_config(estimator: Any) -> str:
    """What set_output asks for: "default", "pandas" or "polars"."""
    from sklearn.utils._set_output import _get_output_config

    return str(_get_output_config("transform", estimator)["dense"])


def _beside(frame: Any, marks: Array, names: Array) -> Any:
    """A frame of pandas or polars with more columns."""
    columns = {str(name): marks[:, i] for i, name in enumerate(names)}
    if hasattr(frame, "assign"):
        return frame.assign(**columns)
    import polars  # type: ignore[import-not-found, unused-ignore]

    return frame.with_columns(**{name: polars.Series(name, x) for name, x in columns.items()})


class RapidClassifier(ClassifierMixin, _TableEstimator):  # type: ignore[misc]
    """A classifier of tables with words, numbers and gaps, by exact p(y | x) of a machine of both.

    The label is one more column of the table: a restricted Boltzmann machine is trained on rows and
    labels together, so rows without a label (None or NaN) train, too. Missing cells are marginalised.

    Parameters
    ----------
    n_hidden : int or "auto", default "auto"
        Hidden units; "auto" is 32.
    n_epochs : int or "auto", default "auto"
        Passes over the rows; "auto" makes about 2,500 updates in 10 to 200 passes.
    learning_rate : float or "auto", default "auto"
        Rate of Adam, which falls to zero; "auto" is 0.01.
    batch_size : int, default 100
        Rows per update.
    weight_decay : float or "auto", default "auto"
        Couplings shrink by rate · decay in each update; "auto" is 20 / rows, at most 0.1.
    reals : {"auto", "bins", "gaussian"}, default "auto"
        How numbers become units: a category of ordered bins, as "auto" has it, or a Gaussian unit after a
        monotone map.
    columns : mapping of str to str, optional
        What columns are where that is not recognised: "category", "integer", "real" or "skip". Columns of
        arrays are called x0, x1, …
    missing_values : number or str, default NaN
        A value that says that a cell is missing, beside NaN, None and null.
    random_state : int, RandomState or None, default None
        A number makes every result repeatable.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        Labels, in order.
    machine_ : rapidbm.Machine
        The trained machine of columns and label.
    schema_ : rapidbm.data.table_schema.TableSchema
        What each column is; the last one is the label.
    best_epoch_ : int
        The epoch whose machine is kept: the best by rows that were held out.
    curve_ : tuple of (int, float)
        Epochs, and the mean of log p(y | x) of the rows held out after them.
    learning_rate_ : float
        Rate that was used.
    weight_decay_ : float
        Weight decay that was used.
    n_iter_ : int
        Passes that were made.

    Examples
    --------
    >>> import numpy as np
    >>> from rapidbm import RapidClassifier
    >>> size = np.arange(60.0) % 30
    >>> y = np.where(size < 15, "small", "large")
    >>> model = RapidClassifier(random_state=0).fit(size[:, None], y)
    >>> print(*model.predict([[2.0], [28.0]]))
    small large
    """

    def __init__(
        self,
        n_hidden: int | Auto = "auto",
        *,
        n_epochs: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        batch_size: int = 100,
        weight_decay: float | Auto = "auto",
        reals: str = "auto",
        columns: Mapping[str, str] | None = None,
        missing_values: Any = np.nan,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.reals = reals
        self.columns = columns
        self.missing_values = missing_values
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Trains a machine on rows and their labels.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Numbers, words and gaps.
        y : array of shape (rows,)
            Labels; None or NaN for a row without a label.

        Returns
        -------
        RapidClassifier
            The estimator itself.

        Raises
        ------
        InputError
            If there are not two different labels, or a column cannot be recognised.
        """
        self._check_settings()
        if y is None:
            raise InputError("requires y to be passed, but the target y is None; give a label per row")
        X = checked_input(self, X, reset=True)
        labels, known = _labels(y)
        check_consistent_length(X, labels)
        table = self._table(X)
        self._seed = _seed(self.random_state)
        self.classes_, codes = np.unique(labels[known].tolist(), return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"y has {len(self.classes_)} class, and a classifier needs two; give rows of another "
                "class"
            )
        words = tuple(f"{i}" for i in range(len(self.classes_)))
        name = "label" if "label" not in table.column_names else _another_name(table.column_names)
        label = Words(name, "string", int((~known).sum()), len(labels), words)
        self.schema_ = with_column(self._recognised(table, False), label)
        cells: list[str | None] = [None] * len(labels)
        for row, code in zip(np.flatnonzero(known).tolist(), codes.tolist(), strict=True):
            cells[row] = words[code]
        import pyarrow

        table = table.append_column(name, pyarrow.array(cells, pyarrow.string()))
        values, observed = encoded(self.schema_, table)
        with quiet():
            fit = trained(
                self.schema_,
                values,
                observed,
                decay=self._decay(len(values), MOST_DECAY),
                label=self._label,
                **self._choices(len(values), HIDDEN, UPDATES, MOST),
            )
        self.machine_, self.best_epoch_, self.curve_ = fit.machine, fit.epoch, fit.curve
        return self

    @property
    def _label(self) -> int:
        """The unit of the label."""
        return self.schema_.unit_columns.index(self.schema_.columns[-1].name)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class given the known cells of each row, eq. (1).

        It is exact where few enough cells of a row are missing, else an average over draws of these.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Numbers, words and gaps.

        Returns
        -------
        array of shape (rows, classes)
            Probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        table = self._table(checked_input(self, X, reset=False))
        import pyarrow

        empty = pyarrow.nulls(table.num_rows, pyarrow.string())
        name = self.schema_.columns[-1].name
        table = known_part(self.schema_, table.append_column(name, empty))
        values, observed = encoded(self.schema_, table)
        parts = []
        with quiet():
            for start in range(0, len(values), AT_ONCE):
                rows = slice(start, start + AT_ONCE)
                answer = predict(
                    self.machine_, values[rows], self._label, observed[rows], seed=self._seed
                ).probabilities
                assert answer is not None
                parts.append(answer[0].numpy())
        return np.concatenate(parts)

    def predict(self, X: Any) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Numbers, words and gaps.

        Returns
        -------
        array of shape (rows,)
            Labels.
        """
        check_is_fitted(self)
        found: Array = self.classes_[self.predict_proba(X).argmax(1)]
        return found


def _labels(y: Any) -> tuple[Array, Array]:
    """Labels of rows (rows,), and which rows have one."""
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, allow_nan=True, input_name="y")
    known = ~gaps_of(labels)
    check_classification_targets(np.array(labels[known].tolist()))
    return labels, known


def _another_name(names: list[str]) -> str:
    number = 2
    while f"label_{number}" in names:
        number += 1
    return f"label_{number}"
