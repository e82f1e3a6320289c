"""`RapidRBM`: a restricted machine as scikit-learn has its models.

With v and h in {0, 1} as in `BernoulliRBM`, and spins s = 2v − 1,

    E = −vᵀ W h − a·v − d·h,        W = 4 J,    a = 2 (b − J 1),    d = 2 (c − Jᵀ 1)               (1)

up to a constant. It is trained by CD-1 with centred gradients and Adam, whose rate falls to zero: of what
was compared in short trainings the best (docs/results/ablations.md). The rate begins at

    10⁻² · min(1, 128² / (V H))        for dense couplings, at 10⁻² for patterns                   (2)

Adam makes steps of one size of gradients of any size, and those of rare columns are small: couplings
that noise alone moves lead to states that chains from the data never visit, and that come to outweigh the
data. So gradients below `EPSILON` make smaller steps, and constant columns have no couplings
(`training/constants.py`). A machine that ends below independent columns all the same is trained anew,
from weak couplings, by persistent chains at a lower rate. If that is below them too, the machine is that
of independent columns.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from ..accel.devices import device_named
from ..arrays import Array, as_mask
from ..errors import FitWarning, InputError, check_count, is_number
from ..estimates import Bounds
from ..likelihood.independent import gain, warn_of_fit
from ..likelihood.log_z import log_z
from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import quiet
from ..random import stream
from ..runs.auto_settings import usual_decay, usual_hidden
from ..runs.timing import seconds_of
from ..sampling.samplers import Sampler
from ..sampling.samplers import sample as drawn
from ..training.batches import InMemory
from ..training.negative import ContrastiveDivergence, NegativePhase, Persistent
from ..training.optimisers import adam
from ..training.trainer import Trainer
from .rows import BinaryTable, in_range, thresholds, warn_of_values, weights_of
from .start import completed, going_on, independent, started
from .trials import by_trials

Auto = Literal["auto"]
EACH = 3  # hidden units for a column
RATE, WIDE = 1e-2, 128**2  # of Adam in a short training; couplings from which on it is lower, eq. (2)
STEADY = 0.25  # of that, where it does not fall
EPSILON = 1e-2  # of Adam: gradients of this size make half a step
LOWER, WEAK, CHAINS = 0.3, 0.1, 100  # of the rate and the start, and chains, where it is trained anew
WORTH = 0.02  # nats below independent columns that are noise
UPDATES, FEWEST, MOST = 700, 5, 200  # of a training; passes, at least and at most
STEP = 2**22  # numbers at a time
KINDS = (np.float64, np.float32)
ADVICE = (
    "take a smaller learning_rate, fewer n_components, more rows or a larger weight_decay, or let trials "
    "choose (budget='1m')"
)
KEPT = ("optimizer/", "centring/")  # of a trainer's state, between two calls of partial_fit


class RapidRBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A restricted Boltzmann machine with binary units: features, likelihoods, samples.

    Values of `X` are in [0, 1]: probabilities of a one, drawn anew in every pass of the training.

    Parameters
    ----------
    n_components : int or "auto", default "auto"
        Hidden units; "auto" is three for each column, from 100 to 400 (1,000 on a GPU).
    n_patterns : int, None or "auto", default "auto"
        Build the couplings from so many patterns; None makes each coupling a parameter. "auto" is None;
        with a `budget` patterns are tried as well, from 48 columns on.
    learning_rate : float or "auto", default "auto"
        Rate of Adam; it falls to zero over a `fit` and is a quarter of "auto" in `partial_fit`.
    batch_size : int, default 50
        Rows per update.
    n_iter : int or "auto", default "auto"
        Passes over the data; "auto" makes 700 updates or more in 5 to 200 passes.
    weight_decay : float or "auto", default "auto"
        Couplings shrink by rate · decay in each update; "auto" is min(1, 150 / rows).
    budget : float or str, optional
        Seconds, or a text such as "5m", for trials that choose what is "auto", and for the training.
        Probabilities are then drawn once, and a tenth of the rows are held out to choose by.
    warm_start : bool, default False
        `fit` continues from the machine that is there.
    device : str, default "auto"
        "cpu", "cuda", or "auto": a GPU if there is one. A fitted machine lies on the CPU.
    verbose : int, default 0
        Print a line for each pass, and the progress of long calls.
    random_state : int, RandomState or None, default None
        A number makes every result repeatable, except with a `budget`, which depends on the clock.

    Attributes
    ----------
    machine_ : rapidbm.Machine
        The trained machine.
    log_z_ : rapidbm.Bounds
        Its log partition function: exact, or annealed when first asked for.
    components_ : array of shape (n_components, columns)
        W of eq. (1).
    intercept_visible_ : array of shape (columns,)
        a of eq. (1).
    intercept_hidden_ : array of shape (n_components,)
        d of eq. (1).
    n_components_ : int
        Hidden units.
    n_patterns_ : int or None
        Patterns.
    learning_rate_ : float
        Rate that was used.
    weight_decay_ : float
        Weight decay that was used.
    n_iter_ : int
        Passes that were made.
    n_samples_seen_ : int
        Rows that were seen.

    Examples
    --------
    >>> import numpy as np
    >>> from rapidbm import RapidRBM
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> RapidRBM(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    def __init__(
        self,
        n_components: int | Auto = "auto",
        *,
        n_patterns: int | Auto | None = "auto",
        learning_rate: float | Auto = "auto",
        batch_size: int = 50,
        n_iter: int | Auto = "auto",
        weight_decay: float | Auto = "auto",
        budget: float | str | None = None,
        warm_start: bool = False,
        device: str = "auto",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_patterns = n_patterns
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.weight_decay = weight_decay
        self.budget = budget
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @classmethod
    def from_machine(cls, machine: Machine, *, device: str = "auto", random_state: Any = None) -> Self:
        """A fitted estimator of a machine.

        Parameters
        ----------
        machine : Machine
            A restricted machine of spins with one hidden layer and one replica.
        device : str, default "auto"
            Where to compute.
        random_state : int, RandomState or None, default None
            Seed of what it draws.

        Returns
        -------
        RapidRBM
            With a copy of the machine.

        Raises
        ------
        InputError
            If the machine is of another kind.
        """
        machine.layers.check_spins("an estimator")
        if machine.replicas != 1 or not machine.layers.is_restricted:
            raise InputError(
                "an estimator has a restricted machine of one hidden layer and one replica, not "
                f"{machine.layers.describe()} units and {machine.replicas} replicas; take "
                "machine.replica(i)"
            )
        xi = machine.patterns
        k = None if xi is None else int(xi.shape[1])
        made = cls(machine.layers.sizes[1], n_patterns=k, device=device, random_state=random_state)
        made._seed, made._memory, made.n_iter_ = _seed(random_state), {}, 0
        made._constant = torch.zeros(machine.visible, dtype=torch.float64)
        made.n_features_in_ = machine.visible
        made._keep(copy.deepcopy(machine), seen=0)
        return made

    # -- training ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Trains a machine on rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Values in [0, 1].
        y : None
            Ignored.
        sample_weight : array of shape (rows,), optional
            A row of weight two counts as two rows.

        Returns
        -------
        RapidRBM
            The estimator itself.
        """
        goes_on = self.warm_start and self.budget is None and hasattr(self, "machine_")
        rows = self._rows(X, sample_weight, reset=not goes_on)
        self._seed = _seed(self.random_state)
        self._memory: dict[str, Tensor] = {}
        with quiet(not self.verbose):
            if self.budget is not None:
                self._fit_by_trials(rows)
                return self
            rng = stream(self._seed, "rows")
            spins = rows.draw(rng)
            machine = self._going_on(self._machine()) if goes_on else self._started(spins)
            self._choose_rates(machine, len(spins))
            per_pass = math.ceil(len(spins) / self.batch_size)
            passes = min(max(FEWEST, math.ceil(UPDATES / per_pass)), MOST)
            passes = passes if self.n_iter == "auto" else int(self.n_iter)
            self._constant = rows.constant
            trainer = self._trainer(machine, spins, passes, fall="linear")
            self._pass_over(trainer, rows, rng)
            _warn_of_divergence(trainer)
            if goes_on:
                warn_of_fit(trainer.fit(), ADVICE)
            elif passes:
                machine = self._kept_above(machine, spins, rows, passes)
        self._keep(machine, seen=len(spins))
        self.n_iter_ = passes
        return self

    def _pass_over(self, trainer: Trainer, rows: BinaryTable, rng: torch.Generator) -> None:
        """All passes of a training."""
        began = time.monotonic()
        for number in range(trainer.epochs):
            if number and rows.changing and isinstance(trainer.batches, InMemory):
                trainer.batches.replace(rows.draw(rng))
            trainer.finish_epoch()
            self._tell(f"pass {number + 1} of {trainer.epochs}, {time.monotonic() - began:.1f} s")

    def _kept_above(self, machine: Machine, spins: Tensor, rows: BinaryTable, passes: int) -> Machine:
        """The machine if it is not below independent columns, else the best of it, one that persistent
        chains train at a lower rate, and independent columns."""

        def above(one: Machine) -> float:
            found = gain(one, spins, stream(self._seed, "gain", device=one.device))
            return math.inf if found is None else float(found)

        first = above(machine)
        if first >= -WORTH:
            return machine
        self._tell(f"{-first:.2f} nats below independent columns: trained anew by persistent chains")
        other, rate = self._started(spins, size=WEAK), LOWER * self.learning_rate_
        chains = Persistent(CHAINS)
        trainer = self._trainer(other, spins, passes, fall="linear", rate=rate, negative=chains)
        self._pass_over(trainer, rows, stream(self._seed, "rows", "anew"))
        second = above(other)
        if max(first, second) >= -WORTH:
            return other
        warnings.warn(
            f"two trainings ended below independent columns, by {-first:,.2f} and {-second:,.2f} nats "
            "per row, and the machine is that of independent columns, whose features are the same for "
            f"all rows; {ADVICE}",
            FitWarning,
            stacklevel=3,
        )
        return independent(machine, spins)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Trains once over these rows, from the machine that is there or a new one, at a constant rate.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Values in [0, 1].
        y : None
            Ignored.
        sample_weight : array of shape (rows,), optional
            A row of weight two counts as two rows.

        Returns
        -------
        RapidRBM
            The estimator itself.
        """
        first = not hasattr(self, "machine_")
        rows = self._rows(X, sample_weight, reset=first)
        if first:
            self._seed, self._memory = _seed(self.random_state), {}
        seen = 0 if first else self.n_samples_seen_
        constant = rows.constant
        self._constant = constant if first else constant * (self._constant == constant)
        spins = rows.draw(stream(self._seed, "rows", seen))
        with quiet(not self.verbose):
            machine = self._started(spins) if first else self._going_on(self._machine())
            self._choose_rates(machine, seen + len(spins))
            if self.learning_rate == "auto":
                self.learning_rate_ *= STEADY
            trainer = self._trainer(machine, spins, 1, fall="none", seen=seen)
            trainer.load({**trainer.state(), **self._memory})
            trainer.finish_epoch()
            _warn_of_divergence(trainer)
        self._memory = {k: v.cpu() for k, v in trainer.state().items() if k.startswith(KEPT)}
        self._tell(f"{seen + len(spins)} rows seen")
        self._keep(machine, seen=seen + len(spins))
        self.n_iter_ = 1 if first else self.n_iter_ + 1
        return self

    def _fit_by_trials(self, rows: BinaryTable) -> None:
        given = {
            "hidden": self.n_components,
            "patterns": self.n_patterns,
            "rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "epochs": self.n_iter,
        }
        settings: dict[str, Any] = {name: x for name, x in given.items() if not _is_auto(x)}
        many = {"hidden", "rate", "weight_decay"} & set(settings)
        settings |= {name: (settings[name],) for name in many}
        settings |= {"batch_size": self.batch_size, "seed": self._seed, "device": self.device}
        settings["budget"] = f"{seconds_of(str(self.budget)):g}"
        spins = rows.draw(stream(self._seed, "rows"))
        self._constant = rows.constant
        found = by_trials(spins, settings, self._tell)
        self.n_iter_ = found.passes
        self.learning_rate_, self.weight_decay_ = found.rate, found.weight_decay
        self._keep(found.machine, seen=len(spins))

    def _started(self, spins: Tensor, size: float = 1.0) -> Machine:
        """A new machine, its couplings or patterns so many times as large as usual."""
        device = device_named(self.device)
        hidden, k = self.n_components, None if isinstance(self.n_patterns, str) else self.n_patterns
        if _is_auto(hidden):
            hidden = usual_hidden(spins.shape[1], device, EACH)
        return started(spins, int(hidden), k, seed=self._seed, device=device, size=size)

    def _going_on(self, machine: Machine) -> Machine:
        asked: dict[str, Any] = {"hidden": self.n_components, "patterns": self.n_patterns}
        return going_on(machine, **{name: x for name, x in asked.items() if not _is_auto(x)})

    def _choose_rates(self, machine: Machine, rows: int) -> None:
        dense = machine.patterns is None
        rate = RATE * (min(1.0, WIDE / math.prod(machine.layers.sizes)) if dense else 1.0)  # eq. (2)
        auto = _is_auto(self.learning_rate)
        self.learning_rate_ = rate if auto else float(self.learning_rate)
        auto = _is_auto(self.weight_decay)
        self.weight_decay_ = usual_decay(rows) if auto else float(self.weight_decay)

    def _trainer(
        self,
        machine: Machine,
        spins: Tensor,
        passes: int,
        *,
        fall: Any,
        rate: float | None = None,
        negative: NegativePhase | None = None,
        seen: int = 0,
    ) -> Trainer:
        """The training of these rows, after so many that were seen."""
        rate = self.learning_rate_ if rate is None else rate
        count = seen + len(spins)
        return Trainer(
            machine,
            spins,
            negative or ContrastiveDivergence(),
            adam(rate, epsilon=EPSILON, weight_decay=self.weight_decay_, fall=fall),
            epochs=passes,
            batch_size=self.batch_size,
            seed=self._seed + seen,
            centred=True,
            constant=self._constant * (count / (count + 2.0)),
        )

    def _keep(self, machine: Machine, *, seen: int) -> None:
        self.machine_ = machine.cpu().requires_grad_(False)
        self.n_components_ = int(machine.layers.sizes[1])
        self.n_patterns_ = None if machine.patterns is None else int(machine.patterns.shape[1])
        self.n_samples_seen_ = seen
        self.__dict__.pop("log_z_", None)

    # -- what a machine says of rows ---------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """P(h = 1) of each hidden unit given each row.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Values in [0, 1].

        Returns
        -------
        array of shape (rows, n_components)
            Probabilities, float32 for float32 input, else float64.
        """
        check_is_fitted(self)
        values = self._values(X, reset=False)
        single = values.dtype == np.float32
        machine = copy.deepcopy(self.machine_).to(torch.float32 if single else torch.float64)
        parts = [SPIN.up(trusted.field(machine, some, 1))[0] for some in _configurations(machine, values)]
        return torch.cat(parts).numpy()

    def score_samples(self, X: Any) -> Array:
        """log p of each row in nats, up to the error of `log_z_`, which all rows share.

        A row of probabilities has the mean of log p over 32 draws, the same draws for every row and
        machine.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Values in [0, 1].

        Returns
        -------
        array of shape (rows,)
            Log-likelihoods.
        """
        check_is_fitted(self)
        values = self._values(X, reset=False)
        grey = ~((values == 0) | (values == 1)).all(1)
        logs = np.empty(len(values))
        if not grey.all():
            logs[~grey] = self._log_weights(values[~grey] > 0.5)
        if grey.any():
            draws = [self._log_weights(values[grey] > u) for u in thresholds(values.shape[1])]
            logs[grey] = np.mean(draws, 0)
        return logs - float(self.log_z_.value)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p of the rows, in nats.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, columns)
            Values in [0, 1].
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log-likelihood.
        """
        return float(np.mean(self.score_samples(X)))

    @cached_property
    def log_z_(self) -> Bounds:
        """log Z of `machine_` with its 95 % interval: exact, or annealed when first asked for."""
        check_is_fitted(self)
        with quiet(not self.verbose):
            return log_z(self._machine(), seed=self._seed)

    def _log_weights(self, bits: Array) -> Array:
        """log Σ_h exp(−E) of binary rows, in float64."""
        machine = copy.deepcopy(self.machine_).double()
        step = max(1, STEP // machine.layers.columns)
        parts = [machine.log_prob_unnormalised(b)[0] for b in torch.split(torch.from_numpy(bits), step)]
        found: Array = torch.cat(parts).numpy()
        return found

    def reconstruct(
        self, X: Any, known: Any = None, *, passes: int = 100, random_state: Any = None
    ) -> Array:
        """Rows with unknown values replaced by their means given the known ones.

        Parameters
        ----------
        X : array of shape (rows, columns)
            Values in [0, 1]; NaN is unknown.
        known : array of shape (rows, columns) or (columns,), bool, optional
            True where a value is known, instead of NaN.
        passes : int, default 100
            Gibbs passes with the known values held; all but the first fifth are averaged.
        random_state : int, RandomState or None, default None
            Seed of the draws; by default the estimator's.

        Returns
        -------
        array of shape (rows, columns)
            Completed rows.

        Raises
        ------
        InputError
            If a value that `known` names is NaN.
        """
        check_is_fitted(self)
        values = validate_data(self, X, reset=False, dtype=KINDS, ensure_all_finite="allow-nan")
        missing, shapes = np.isnan(values), (values.shape, values.shape[1:])
        mask = ~missing if known is None else as_mask(known, shapes, what="known").numpy()
        mask = np.broadcast_to(mask, values.shape)
        if (missing & mask).any():
            raise InputError("values that are known must be there, and some are NaN; mark them unknown")
        given = in_range(np.where(mask, values, 0.5))
        machine = self._machine()
        rng = stream(self._seed_for(random_state), "reconstruct", device=machine.device)
        spins = torch.from_numpy(2.0 * given - 1.0)
        means = completed(machine, spins, torch.from_numpy(mask.copy()), rng, passes)
        return np.where(mask, given, means.cpu().numpy().astype(values.dtype))

    def sample(
        self,
        n_samples: int = 1,
        *,
        sampler: Sampler[Any] | None = None,
        steps: int | None = None,
        random_state: Any = None,
    ) -> Array:
        """Rows of zeros and ones drawn from the machine, each by a chain of its own.

        Parameters
        ----------
        n_samples : int, default 1
            Number of rows.
        sampler : rapidbm.Sampler, optional
            By default Gibbs sampling; `rapidbm.ParallelTempering()` mixes better.
        steps : int, optional
            Steps of the sampler; 1,000 sweeps of Gibbs by default.
        random_state : int, RandomState or None, default None
            Seed of the draws; by default the estimator's, so that the same call gives the same rows.

        Returns
        -------
        array of shape (n_samples, columns), int8
            Zeros and ones.
        """
        check_is_fitted(self)
        check_count("the number of samples", n_samples)
        seed, machine = self._seed_for(random_state), self._machine()
        with quiet(not self.verbose):
            spins = drawn(machine, n_samples, sampler=sampler, steps=steps, seed=seed)
        found: Array = (spins[0, :, : machine.visible] > 0).to(torch.int8).cpu().numpy()
        return found

    # -- as BernoulliRBM has it --------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        """W of eq. (1), (n_components, columns)."""
        check_is_fitted(self)
        return np.asarray(4.0 * self.machine_.couplings.matrix(0, 1)[0].double().T)

    @property
    def intercept_visible_(self) -> Array:
        """a of eq. (1), (columns,)."""
        return self._intercept(0)

    @property
    def intercept_hidden_(self) -> Array:
        """d of eq. (1), (n_components,)."""
        return self._intercept(1)

    def _intercept(self, layer: int) -> Array:
        check_is_fitted(self)
        biases, units = self.machine_.biases, self.machine_.layers.slices[layer]
        found = -self.machine_.couplings.matrix(0, 1)[0].double().sum(1 - layer)
        found += 0.0 if biases is None else biases[0, units].double()
        return np.asarray(2.0 * found)

    # -- scikit-learn's conventions ----------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> BinaryTable:
        self._check_settings()
        values = self._values(X, reset=reset)
        rows = BinaryTable.of(values, weights_of(sample_weight, len(values)))
        warn_of_values(rows)
        return rows

    def _values(self, X: Any, *, reset: bool) -> Array:
        values = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=KINDS)
        return in_range(values.toarray() if sparse.issparse(values) else values)

    def _check_settings(self) -> None:
        for name, least in (("n_components", 1), ("n_patterns", 1), ("n_iter", 0), ("batch_size", 1)):
            given = getattr(self, name)
            if (_is_auto(given) and name != "batch_size") or (given is None and name == "n_patterns"):
                continue
            check_count(name, given, least=least)
        for name in ("learning_rate", "weight_decay"):
            given = getattr(self, name)
            if not _is_auto(given) and not (is_number(given) and given >= 0):
                raise InputError(f"{name} is 'auto' or a number of at least 0, not {given!r}")
        if self.budget is not None:
            seconds_of(str(self.budget))

    def _machine(self) -> Machine:
        """A copy of the machine on the device that was asked for."""
        return copy.deepcopy(self.machine_).to(device_named(self.device))

    def _tell(self, line: str) -> None:
        if self.verbose:
            print(f"[RapidRBM] {line}", flush=True)

    def _seed_for(self, random_state: Any) -> int:
        """That of the fit, unless another is asked for."""
        return self._seed if random_state is None else _seed(random_state)


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _configurations(machine: Machine, values: Array) -> Iterator[Tensor]:
    """Configurations with these probabilities of visible units, (1, c, n), some at a time."""
    step = max(1, STEP // machine.layers.columns)
    for start in range(0, len(values), step):
        yield trusted.with_visible(machine, torch.from_numpy(2.0 * values[start : start + step] - 1.0))


def _warn_of_divergence(trainer: Trainer) -> None:
    if trainer.diverged():
        warnings.warn(
            "the training diverged, and the machine is what it was before; take a smaller learning_rate",
            FitWarning,
            stacklevel=3,
        )
