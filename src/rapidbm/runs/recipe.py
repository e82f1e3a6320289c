"""A recipe: everything a person chose for a training, flat, so that it fits a command line and a file.

`Recipe.made` fills what was left open from a preset and from the data; the other methods build the
objects that `train` takes. A field says what it means by a `Setting`; one without is an option of a part
(a phase, a projection, a data set), and that part's own field of this flag says it. Options of parts that
have no field here, such as those of other packages, are in `options`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..accel.ranks import Ranks
from ..accel.rounding import PRECISIONS, Precision
from ..arrays import counting_weights
from ..data.catalogue import DATASETS, is_file, load, settings_for
from ..data.splits import Dataset, Split, check_share, held_out
from ..data.weights import is_weights_file
from ..errors import InputError, check_choice, check_count, lookup
from ..inference.bootstrap import bootstrap_weights
from ..likelihood.chow_liu import ChowLiuTree
from ..machines.constructors import bm, dbm, rbm
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..random import check_seed
from ..registry import Option, Registry, build, check_takes, options_of, setting
from ..schema import Maybe, OneOf, Shape, of_fields
from ..training.coordinates.pace import check_pace
from ..training.loop import Training
from ..training.negative import NEGATIVE, NegativePhase, Persistent
from ..training.optimisers import CLOCKS, Optimizer, torch_optimizers
from ..training.positive import POSITIVE, PositivePhase
from ..training.projections import PROJECTIONS, Projection
from ..training.schedules import FALLS
from ..training.sharded.abreast import SHARDED, check_units, divided
from ..training.trainer import BATCH_MEANS, Trainer
from .choices import check_bootstrap, check_machine, one_or_each, optimizer_of, tuples
from .correlations import check_target
from .metrics import METRICS
from .presets import layers_for, metrics_for, preset_for, settings_of
from .timing import OPEN, SPACINGS, seconds_of, spacing_of

STARTS = ("columns", "tree")
BIAS_STARTS = ("marginals", "zero")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MODELS: dict[str, Callable[..., Machine]] = {
    "rbm": lambda visible, hidden, **more: rbm(visible, hidden[0], **more),
    "dbm": dbm,
    "bm": lambda visible, hidden, **more: bm(visible, sum(hidden), **more),
}
PARTS: dict[str, Registry[Any]] = {  # what is chosen by name
    "dataset": DATASETS,
    "negative": NEGATIVE,
    "positive": POSITIVE,
    "projection": PROJECTIONS,
}
OF_DATA = ("alphabet", "identity", "labels")  # options of alignments, and of data with labels
ONE_OR_EACH = ("scale", "momentum", "bound")  # a number, or one for each of several replicas
PER_REPLICA = ("rate", "weight_decay", *ONE_OR_EACH)
# The first field of each section, under which the command lists its options.
SECTIONS = {
    "dataset": "Data",
    "model": "Machine",
    "negative": "Phases of the gradient",
    "projection": "Updates",
    "metrics": "What is measured and kept",
    "seed": "Run",
}


@dataclass(frozen=True)
class Recipe:
    """The choices of one training, by the names of the options of `rapidbm train`.

    None leaves a choice to the thing that it concerns. `Recipe.made` fills in a preset.
    """

    dataset: str
    threshold: float | None = None
    binarize: str | None = None
    split: str | None = None
    columns: str | None = None
    reals: str | None = None
    weights: str | None = None
    data_seed: int | None = None
    valid: float | None = setting(
        None,
        "Hold out this share of the training data to validate, drawn by --data-seed; 0 trains on a "
        "validation part that the data have.",
    )
    stream: bool | None = setting(
        None,
        "Leave the rows of a file on disk, or read them all into memory (default: on disk from 2^31 "
        "spins on).",
    )

    alphabet: str | None = setting(
        None,
        "Of an alignment: protein, rna, dna, or its symbols, the gap first (default: by its letters).",
    )
    identity: float | None = setting(
        None,
        "Of an alignment: sequences that agree at more than this share of sites are near, and no test "
        "sequence is near one in training (0.8).",
    )

    labels: str | None = setting(
        None,
        "The label: of a table the column that is predicted; of images nothing need follow, their labels "
        "become one more unit, a category.",
    )

    model: str = setting(
        "rbm", "rbm (restricted), dbm (deep) or bm (fully connected).", choices=tuple(MODELS)
    )
    hidden: tuple[int, ...] = setting(
        (500,), "Hidden units; repeat it for the layers of a dbm; 0 for a bm without.", least=0
    )
    patterns: int | None = setting(None, "Regularized Axons: K patterns build the couplings.")
    scale: tuple[float, ...] | float | None = setting(
        None,
        "Start of the patterns, ±scale (1), or sd of dense couplings (0.01); repeat it to give each "
        "replica its own.",
    )
    continuous: bool = setting(
        False, "Patterns start spread over [−scale, scale] instead of at ±scale.", off="binary"
    )
    strengths: tuple[float, ...] = setting(
        (),
        "What patterns of each layer are measured in, visible ones first (1); deep ones want √(cV/N).",
        flag="strength",
    )
    deep_start: float = setting(1.0, "Start of hidden layers beyond the first, times that of the others.")
    biases: bool = setting(False, "Biases, the visible ones started at the data's marginals.")
    bias_start: str = setting(
        "marginals", "Where visible biases start: marginals or zero.", choices=BIAS_STARTS
    )
    start: str = setting(
        "columns",
        "What the machine is at first: independent columns, or the best tree of pairs of them (dense "
        "restricted machines of two-valued columns).",
        choices=STARTS,
    )
    replicas: int = setting(1, "Independent trainings, side by side.")
    bootstrap: int | None = setting(
        None,
        "So many more replicas on resampled rows, for errors of couplings (rapidbm couplings); 20 serve "
        "well.",
        least=1,
    )
    dtype: str = setting("float32", "float32 or float64.", choices=tuple(DTYPES))

    negative: str = setting(
        "pid",
        "Model average: {names}. pid takes the patterns, and with --sweeps 0 needs no Monte Carlo; "
        "pt is parallel tempering, dimod an annealer.",
    )
    sweeps: int | None = None
    particles: int | None = None
    lifetime: int | None = None
    born: str | None = None
    scouts: float | None = None
    rungs: int | None = None
    positive: str = setting("auto", "Data average: auto, {names}; mean is for an rbm.", choices=("auto",))
    positive_steps: int | None = None

    discriminative: float = setting(
        0.0,
        "Adds so many times the mean of log p(label | rest) to what is raised; for an rbm with --labels.",
    )

    projection: str = setting("none", "What keeps the patterns in place: {names}.")
    bound: tuple[float, ...] | float | None = None
    project_every: str | None = None
    optimizer: str = setting(
        "sgd",
        "sgd, adam, or another of torch's: rmsprop, nadam, …",
        choices=("sgd", *(name.lower() for name in torch_optimizers())),
    )
    rate: tuple[float, ...] = setting(
        (), "Learning rate; repeat it to give each replica its own.", belongs_to="optimizer"
    )
    momentum: tuple[float, ...] | float | None = setting(
        None,
        "Momentum of sgd, or of torch's optimisers that have one; of sgd repeat it to give each replica "
        "its own.",
        belongs_to="optimizer",
    )
    adam_clock: str | None = setting(
        None,
        "What adam's correction for its start counts: update, or epoch as the paper's program.",
        belongs_to="optimizer",
        choices=CLOCKS,
    )
    weight_decay: tuple[float, ...] | float | None = setting(
        (),
        "Shrinks the couplings by rate·decay per update (torch's optimisers: their way); repeat it to "
        "give each replica its own.",
    )
    decay: float = setting(1.0, "Factor on the rate after each epoch.", belongs_to="optimizer")
    decay_after: int = setting(0, "Last epoch with the full rate.", belongs_to="optimizer")
    rate_floor: float = setting(0.0, "The decay ends at this rate.", belongs_to="optimizer")
    fall: str = setting(
        "none", "Fall of the rate to zero over the training: linear, cosine, none.", choices=FALLS
    )
    falls: tuple[int, ...] = ()  # epochs at which earlier falls ended, of a run that was prolonged
    rate_changes: tuple[tuple[float, ...], ...] = ()  # (update, rate since then), of one that was steered
    centred: bool = setting(
        False, "Centred gradients: couplings act on what differs from the means; needs biases."
    )
    pace: float = setting(1.0, "Share of their steps that patterns of hidden units make.")
    batch_size: int = setting(100, "Images per update.")
    batch_mean: str = setting(
        "true",
        "Divide the data's moments of a smaller last batch by its true or by the nominal size.",
        choices=BATCH_MEANS,
    )
    epochs: int = setting(20, "Passes over the data.")
    budget: str | None = setting(
        None,
        "Wall time of the training, such as 90s, 5m or 1h: epochs are planned to fit, so that the rate's "
        "fall ends with it; --epochs is then the most.",
    )
    average: int | None = setting(
        None, "Keep and evaluate an average of the parameters over about this many updates."
    )

    metrics: tuple[str, ...] = setting(
        ("hamming",),
        "{names}; repeatable (default: for files log_likelihood, or log_bound, a lower bound of it, of "
        "deep and full machines; hamming for named data sets).",
        flag="metric",
    )
    evaluate: str = setting(
        "log",
        "When to evaluate: log (spaced), epoch, end, or every so many updates.",
        flag="evaluate_at",
        choices=SPACINGS,
    )
    patience: int | None = setting(
        None, "Stop after so many looks without a better likelihood of the validation part."
    )
    until_correlation: float | None = setting(
        None,
        "Stop when pair correlations of the chains agree with those of the data so well, by Pearson's "
        "coefficient, such as 0.95; for pcd.",
    )
    checkpoints: str = setting(
        "log",
        "When to keep the parameters: log (spaced), epoch, end, or a number of updates.",
        choices=SPACINGS,
    )

    seed: int = setting(0, "Seed of the training (default: 0).", least=0)
    device: str = setting("auto", "auto, cpu, cuda, …", choices=("auto", "cpu", "cuda"))
    precision: Precision | None = setting(
        None, "Products of matrices on a GPU: bf16 (default, the fastest), tf32 or float32."
    )
    shards: int = setting(
        1,
        "Parts with random numbers of their own, which the processes of a launcher share (default: 1, "
        "under torchrun one for each process).",
        least=1,
    )
    shard_by: str = setting(
        "chains",
        "What a shard has a part of: chains (and images), replicas, or units (patterns; pid, cd, pcd).",
        choices=SHARDED,
    )
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.weight_decay, tuple):  # one number, as older files have it
            decay = () if self.weight_decay is None else (self.weight_decay,)
            object.__setattr__(self, "weight_decay", decay)
        for name in ONE_OR_EACH:
            object.__setattr__(self, name, one_or_each(getattr(self, name)))
        check_choice("model", self.model, MODELS)
        check_choice("start", self.start, STARTS)
        check_choice("start of the biases", self.bias_start, BIAS_STARTS)
        check_choice("type", self.dtype, DTYPES)
        check_choice("batch mean", self.batch_mean, BATCH_MEANS)
        if self.precision is not None:
            check_choice("precision", self.precision, PRECISIONS)
        for name in self.metrics:
            lookup("metric", name, METRICS)
        spacing_of("evaluation", self.evaluate)
        spacing_of("checkpoint", self.checkpoints)
        check_machine(self)
        check_count("the number of replicas", self.replicas)
        check_bootstrap(self)
        check_count("the number of shards", self.shards)
        check_choice("part of a shard", self.shard_by, SHARDED)
        if self.budget is not None:
            seconds_of(self.budget)
        if self.valid is not None:
            check_share(self.valid)
        if self.patience is not None:
            check_count("the number of looks to be patient for", self.patience)
        check_target(self)
        check_seed(self.seed)
        for name in PER_REPLICA:
            given, what = getattr(self, name), name.replace("_", " ")
            if isinstance(given, tuple) and len(given) not in (0, 1, self.replicas):
                raise InputError(
                    f"give one {what}, or one for each of the {self.replicas} replicas, not {len(given)}"
                )
        if self.centred and not self.biases:
            raise InputError(
                "centred gradients are for machines with biases; give --biases, or leave --centred out"
            )
        check_pace(self.pace, self.patterns is not None)
        if self.discriminative and self.labels is None:
            raise InputError("--discriminative asks for the label, which is not named; give --labels")
        if self.bias_start != "marginals" and not self.biases:
            raise InputError("--bias-start needs biases; give --biases, or leave it out")
        if self.decay == 1 and (self.decay_after or self.rate_floor):
            raise InputError(
                "the rate does not decay, so --decay-after and --rate-floor have no effect; give "
                "--decay below 1, or leave them out"
            )
        self.check_parts()

    def check_parts(self) -> None:
        """Checks phases, projection and optimiser, and that every option belongs to one of them.

        Raises
        ------
        InputError
            With the first option that does not fit.
        """
        self.negative_phase()
        self.positive_phase()
        self.projection_choice()
        self.optimizer_choice()
        for flag in self.options:
            if not any(flag in self._takes(choice) for choice in PARTS):
                self._refuse(flag)

    @staticmethod
    def made(
        dataset: str, chosen: Mapping[str, Any], preset: str | Mapping[str, Any] | None = None
    ) -> Recipe:
        """A recipe from chosen settings; a preset fills in the rest.

        Parameters
        ----------
        dataset : str
            Name or file of the data.
        chosen : mapping of str to Any
            Settings by the names of the fields below, or options of a phase or a projection.
        preset : str or mapping, optional
            Name of the preset, or its settings; by default the one for the data set.

        Returns
        -------
        Recipe
            Complete and checked.

        Raises
        ------
        InputError
            If a setting or the preset is unknown, or settings do not fit together.

        Examples
        --------
        >>> rb.Recipe.made("bars4", {"epochs": 3}).epochs
        3
        """
        named = preset or preset_for(dataset, chosen)
        name, base = (named, settings_of(named)) if isinstance(named, str) else ("", named)
        # What a preset says of one part or optimiser does not carry over to another.
        drop = {flag for flag in _own_flags("dataset") if flag not in settings_for(dataset)}
        for key, owner in _owners().items():
            if owner in chosen and chosen[owner] != base.get(owner):
                drop.add(key)
        if chosen.get("biases") is False:
            drop.add("centred")
        if chosen.get("shard_by") == "units":
            drop.add("scouts")
        if chosen.get("decay") == 1:
            drop |= {"decay_after", "rate_floor"}
        if "patterns" in chosen and chosen["patterns"] is None:  # dense: nothing to project
            drop |= {"scale", "strengths", "pace", "scouts", "projection", *_own_flags("projection")}
        count, known = (len(x.get("hidden", base.get("hidden", ()))) for x in (chosen, base))
        drop |= {"strengths"} if count != known else set()  # those are of other layers
        drop |= {"deep_start"} if count < 2 or chosen.get("model", "dbm") != "dbm" else set()
        values = {k: v for k, v in base.items() if k not in drop} | dict(chosen)
        values["hidden"] = chosen.get("hidden", layers_for(values))
        if values.get("bootstrap") is not None and "replicas" not in chosen:
            values["replicas"] = 1 + values["bootstrap"]
        values.setdefault("metrics", metrics_for(dataset, name, values))
        if values.get("budget") is not None and "epochs" not in chosen:
            values["epochs"] = OPEN
        if is_file(dataset):  # found again from wherever the run is looked at
            dataset = str(Path(dataset).resolve())
        if is_weights_file(values.get("weights")):
            values["weights"] = str(Path(values["weights"]).resolve())
        options = {**values.pop("options", {}), **{k: values[k] for k in values if k not in FIELDS}}
        return Recipe(dataset, options=options, **{k: values[k] for k in values if k in FIELDS})

    # -- what it builds ---------------------------------------------------------------------------

    def data(self, given: Dataset | None = None) -> Dataset:
        """The data of this recipe, with a validation part held out if it asks for one.

        Parameters
        ----------
        given : Dataset, optional
            Data to use instead of those that `dataset` names.

        Returns
        -------
        Dataset
            Training and test part, and a validation part.
        """
        if given is not None:
            share, seed = self.valid, self.data_seed or 0
            return given if share is None else held_out(given, share, seed)
        names = {f: next(iter(options.values())).name for f, options in _own_flags("dataset").items()}
        names |= {flag: option.name for flag, option in settings_for(self.dataset).items()}
        options = {names[flag]: value for flag, value in self._given("dataset").items()}
        options |= {name: getattr(self, name) for name in OF_DATA if getattr(self, name) is not None}
        return load(self.dataset, valid=self.valid, stream=self.stream, **options)

    def machine(self, data: Dataset, device: torch.device) -> Machine:
        """A new machine, before its first update.

        Parameters
        ----------
        data : Dataset
            Data whose width and marginals it starts from.
        device : torch.device
            Where its parameters are.

        Returns
        -------
        Machine
            With as many replicas as the recipe says.
        """
        counts, kinds = data.visible_units
        machine = MODELS[self.model](
            counts,
            self.hidden,
            units=kinds,
            patterns=self.patterns,
            replicas=self.replicas,
            biases=self.biases,
            scale=self.scale,
            continuous=self.continuous,
            strengths=self.strengths or None,
            **({} if self.deep_start == 1 else {"deep_start": self.deep_start}),
            seed=self.seed,
            device=device,
            dtype=DTYPES[self.dtype],
        )
        if self.biases and self.bias_start == "marginals":
            machine.start_biases(data.train.in_memory())
        if (tree := self._tree(data)) is not None:
            tree.put(machine)
        return machine

    def _tree(self, data: Dataset) -> ChowLiuTree | None:
        """The tree that the machine starts as."""
        return start_tree(data) if self.start == "tree" else None

    def trainer(self, data: Dataset, device: torch.device, ranks: Ranks | None = None) -> Training:
        """The training that this recipe describes, before its first update.

        Parameters
        ----------
        data : Dataset
            The data.
        device : torch.device
            Where to train.
        ranks : Ranks, optional
            Processes that share its shards; by default this one alone.

        Returns
        -------
        Training
            Makes the updates.
        """
        machine, ranks = self.machine(data, device), ranks or Ranks()
        ranks.check_device(device)
        if self.shard_by == "units":
            check_units(machine, self.negative_phase(), self.positive_phase(), self.centred)
        how: Any = {"by": self.shard_by, "count": self.shards, "seed": self.seed, "ranks": ranks}
        each = partial(self._trainer, tree=self._tree(data))
        if self.shard_by != "units":
            each = partial(each, label=data.label, discriminative=self.discriminative)
        elif self.discriminative:
            raise InputError("a discriminative term needs all units at once; take --shard-by chains")
        return divided(machine, data.train.rows, self.optimizer_choice(), each, **how)

    def _trainer(
        self,
        machine: Machine,
        spins: Tensor | Split,
        replicas: slice | None = None,
        *,
        tree: ChowLiuTree | None = None,
        **more: Any,
    ) -> Trainer:
        own = self if replicas is None else self.of_replicas(replicas)
        if self.bootstrap is not None:
            given = getattr(spins, "weights", None)
            rows = len(spins) if given is None else given
            more["weights"] = bootstrap_weights(rows, self.bootstrap, seed=self.seed)
        negative = own.negative_phase()
        if tree is not None and isinstance(negative, Persistent):
            negative = replace(negative, start=tree)
        return Trainer(
            machine,
            spins,
            negative,
            own.optimizer_choice(),
            epochs=self.epochs,
            batch_size=self.batch_size,
            positive=self.positive_phase(),
            projection=own.projection_choice(),
            batch_mean="nominal" if self.batch_mean == "nominal" else "true",
            average=self.average,
            precision=self.precision,
            centred=self.centred,
            pace=self.pace,
            **{"seed": self.seed, **more},
        )

    def of_replicas(self, some: slice) -> Recipe:
        """The recipe of some of the replicas.

        Parameters
        ----------
        some : slice
            Which replicas.

        Returns
        -------
        Recipe
            With their rates and other settings per replica.
        """
        each = {name: getattr(self, name) for name in PER_REPLICA}
        own: Any = {k: v[some] for k, v in each.items() if isinstance(v, tuple) and len(v) > 1}
        return replace(self, replicas=some.stop - some.start, **own)

    def negative_phase(self) -> NegativePhase:
        """The negative phase that was chosen.

        Returns
        -------
        NegativePhase
            With its options.
        """
        return build(NEGATIVE, self.negative, self._given("negative"))

    def positive_phase(self) -> PositivePhase | None:
        """The positive phase that was chosen.

        Returns
        -------
        PositivePhase or None
            None for "auto": training chooses it for the machine.
        """
        if self.positive != "auto":
            return build(POSITIVE, self.positive, self._given("positive"))
        if self.positive_steps is not None:
            raise InputError("--positive-steps needs a named positive phase; give --positive")
        return None

    def projection_choice(self) -> Projection:
        """The projection that was chosen.

        Returns
        -------
        Projection
            With its options.
        """
        return build(PROJECTIONS, self.projection, self._given("projection"))

    def _takes(self, choice: str) -> Mapping[str, Option]:
        """What can be set of the part that was chosen."""
        if choice == "dataset":
            return settings_for(self.dataset)
        name, registry = getattr(self, choice), PARTS[choice]
        return {} if name == "auto" else options_of(lookup(registry.kind, name, registry))

    def _given(self, choice: str) -> dict[str, Any]:
        """What was said of a part, by flag."""
        given = {flag: getattr(self, flag) for flag in _own_flags(choice) if flag in FIELDS}
        for flag, option in self._takes(choice).items():
            if flag in self.options:
                what = f"the option {option.dashed} of {getattr(self, choice)}:"
                given[flag] = option.shape.checked(self.options[flag], what, "give another")
        return {flag: value for flag, value in given.items() if value is not None}

    def _refuse(self, flag: str) -> None:
        for choice, registry in PARTS.items():
            if flag in registry.options():
                check_takes(registry.kind, getattr(self, choice), self._takes(choice), flag)
        raise InputError(f"a recipe has no {flag!r}, and no part of it has such an option")

    def optimizer_choice(self) -> Optimizer:
        """The optimiser that was chosen.

        Returns
        -------
        Optimizer
            With rate, weight decay and schedule.
        """
        return optimizer_of(self)

    # -- as a file --------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values, for `run.json`.

        Returns
        -------
        dict
            `options` only if there are any.
        """
        return {k: v for k, v in asdict(self).items() if v or k != "options"}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Recipe:
        """A recipe from the values of `as_dict`.

        Parameters
        ----------
        values : mapping
            Fields by name.

        Returns
        -------
        Recipe
            Checked.

        Raises
        ------
        InputError
            If a name is unknown or a value does not fit.
        """
        values = {k: v for k, v in values.items() if k not in GONE or not GONE[k].fits(v)}
        if extra := sorted(set(values) - FIELDS):
            raise InputError(f"a recipe has no {', '.join(map(repr, extra))}; is it a newer one's?")
        lists = tuples(values)
        try:
            return Recipe(**lists | {"options": tuples(lists.get("options", {}))})
        except InputError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"this is not a recipe: {error}; restore the file") from error


FIELDS = frozenset(f.name for f in fields(Recipe))
GONE: dict[str, Shape] = {"pattern_units": Maybe(OneOf(("visible",)))}  # of older files, as it still is
IN_A_FILE = of_fields(Recipe)
IN_A_FILE = replace(IN_A_FILE, may={**(IN_A_FILE.may or {}), **GONE})
_HELP = {  # where an option's help does not fit all of its parts, or there is none
    "dataset": "Name or file of the data.",
    "sweeps": "Gibbs sweeps per update of the negative phase.",
    "particles": "Chains of pcd, or of each temperature of pt.",
    "positive_steps": "Iterations or sweeps of the positive phase.",
    "falls": "Epochs at which earlier falls of the rate ended, of a run that was prolonged.",
    "rate_changes": "(update, rate since then), of a run whose rate was changed while it trained.",
    "options": "Options of parts that other packages bring, by name.",
}


def can_be_tree(data: Dataset) -> bool:
    """Whether all columns have two values, and no cell is missing."""
    _, kinds = data.visible_units
    return data.train.observed is None and all(kind == SPIN for kind in kinds)


def start_tree(data: Dataset) -> ChowLiuTree:
    """The tree of its columns that a training starts from.

    Raises
    ------
    InputError
        If columns have more than two values, or cells are missing.
    """
    if not can_be_tree(data):
        raise InputError(
            "a tree of columns is one of columns with two values and without missing cells, and these "
            "data have others; leave --start tree out"
        )
    rows = data.train.in_memory()
    return ChowLiuTree.fitted(rows.spins, weights=counting_weights(rows.weights)).loosened()


def _own_flags(choice: str) -> dict[str, dict[str, Option]]:
    """The flags of a choice's parts in the library itself."""
    return PARTS[choice].own_options()


def _owners() -> dict[str, str]:
    """Settings that belong to a choice, and that choice."""
    ours = {o.name: o.setting.belongs_to for o in options_of(Recipe).values()}
    parts = {flag: choice for choice in PARTS for flag in _own_flags(choice)}
    return {key: owner for key, owner in (ours | parts).items() if owner}


def _parameters() -> str:
    """The section of a recipe's docstring that explains its fields, from the help of the options."""
    help_of = {f: next(iter(x.values())).setting.help for c in PARTS for f, x in _own_flags(c).items()}
    help_of |= {f.name: f.metadata["setting"].help for f in fields(Recipe) if f.metadata} | _HELP
    rows = ["Parameters", "----------"]
    for field_ in fields(Recipe):
        text = help_of[field_.name]
        registry = {**PARTS, "metrics": METRICS}.get(field_.name)
        if registry is not None:
            text = text.replace("{names}", ", ".join(registry.own))
        default = "" if field_.default is MISSING else f", default {field_.default!r}"
        rows += [f"{field_.name} : {field_.type}{default}", f"    {text.rstrip('.')}."]
    return "\n".join(rows)


Recipe.__doc__ = f"{cleandoc(Recipe.__doc__ or '')}\n\n{_parameters()}\n"
