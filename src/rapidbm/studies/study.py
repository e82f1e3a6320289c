"""What a sweep is asked for, in Python or as a file of TOML:

    dataset = "digits"
    preset = "small"                  # which fills in what is not said; by default that of the data set
    seeds = 5                         # trainings of each row
    measure = "log_likelihood_test"   # what the figure shows
    [fixed]
    hidden = 64
    [grid]
    patterns = [8, 16, "dense"]
    rate = [1e-3, 3e-3]

A row of the table is a point of the grid; in the place of [grid] rows may be drawn from ranges, [search]
(`search.py`). [ray] says what a batch takes of a cluster (`on_ray.py`). Settings are the options of
`rapidbm train`, by the names that they have there or in a `Recipe`. All of them are checked before
anything is trained.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ..disk import reading
from ..errors import InputError, check_choice, check_count, unknown
from ..registry import options_of
from ..runs.metrics import METRICS, WATCHED
from ..runs.presets import preset_for
from ..runs.recipe import ONE_OR_EACH, PARTS, PER_REPLICA, Recipe
from ..schema import Anything, Maybe, Misfit, Names, Real, Several, Shape, Text, Whole, of_hint
from .search import SEARCH, Range, Search, range_of

DENSE = "dense"
RAY = Names({}, {"cpus": Real(0), "gpus": Real(0), "retries": Whole(0), "at_once": Whole(1)})
SEEDS, TOGETHER = 3, 64
MOST_ROWS = 10_000
SPLITS = ("train", "test", "valid")
STUDY = Names(
    {},
    {
        "dataset": Text(),
        "preset": Text(),
        "seeds": Whole(1),
        "together": Whole(1),
        "measure": Text(),
        "x": Text(),
        "fixed": Names({}, others=Anything()),
        "grid": Names({}, others=Several(Anything())),
        "search": SEARCH,
        "ray": RAY,
    },
)
REFUSED = {  # settings that a study has another word for
    "replicas": "seeds = 5 above [fixed] says how many trainings a row has",
    "seed": "seeds = 5 above [fixed] says how many trainings a row has, and the seed is that of all",
    "dense": 'write patterns = "dense"',
    "out": "the folder is --out of rapidbm sweep",
    "resume": "a sweep goes on where it stopped",
    "seeds": "it stands above [fixed]",
    "measure": "it stands above [fixed]",
    "together": "it stands above [fixed]",
}


@dataclass(frozen=True)
class Study:
    """A grid of settings, or settings drawn from ranges; each point is trained with several seeds.

    Parameters
    ----------
    dataset : str, optional
        Name or file of the data, unless it is a setting of the grid.
    grid : mapping of str to sequence, default {}
        Settings of a `Recipe` and their values; all combinations are trained.
    fixed : mapping, default {}
        Settings that all points share.
    preset : str, optional
        Preset that fills in the rest; by default the one of the data set.
    seeds : int, default 3
        Trainings of each point.
    measure : str, optional
        Column that the figure shows; by default the test likelihood if it is measured, else the first.
    x : str, optional
        Setting on the figure's axis; by default the one with the most numbers.
    together : int, default 64
        Largest number of trainings side by side.
    search : mapping, optional
        Ranges to draw from, in place of a grid.
    ray : mapping, default {}
        What each batch takes of a Ray cluster: `cpus`, `gpus`, `retries`, `at_once`.
    name : str, default "study"
        Name of the study.
    known : tuple of mapping, optional
        Points of a search so far; set by `Sweep`.

    Raises
    ------
    InputError
        If a setting is unknown, or both fixed and varied.

    Examples
    --------
    >>> study = rb.Study("bars4", grid={"hidden": [8, 16], "rate": [0.01]}, fixed={"epochs": 2})
    >>> [dict(point) for point in study.points()][0]
    {'hidden': (8,), 'rate': (0.01,)}
    """

    dataset: str | None = None  # or a setting of the grid
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    seeds: int = SEEDS
    measure: str | None = None  # None: the likelihood of the test part if it is measured, else the first
    x: str | None = None  # the setting along the figure's axis; None: the one with the most numbers
    together: int = TOGETHER  # trainings side by side, at most
    search: Mapping[str, Any] | Search | None = None  # in place of a grid
    ray: Mapping[str, Any] = field(default_factory=dict)  # of a cluster, for each batch
    name: str = "study"
    known: tuple[Mapping[str, Any], ...] | None = None  # points of a search that does not draw by chance

    def __post_init__(self) -> None:
        check_count("the number of seeds", self.seeds)
        check_count("the number of trainings side by side", self.together)
        grid = {_field(k): _values(k, v) for k, v in self.grid.items()}
        fixed = {_field(k): _value(_field(k), v) for k, v in self.fixed.items()}
        if self.dataset is not None:
            fixed["dataset"] = self.dataset
        if self.preset is not None:
            fixed["preset"] = self.preset
        if self.search is not None:
            if grid:
                raise InputError("a study has a [grid] or a [search], not both; leave one of them out")
            object.__setattr__(self, "search", _search(self.search))
        varied = set(self.varied) | set(grid)
        if twice := sorted(varied & set(fixed)):
            raise InputError(f"{twice[0]} is both fixed and varied; leave one of them out")
        if "dataset" not in grid and "dataset" not in fixed:
            raise InputError('a study needs data; write dataset = "digits" on its first line')
        if "seed" in varied:
            raise InputError(f"seed is not varied: {REFUSED['seed']}")
        if self.x is not None:
            check_choice("setting of the grid", _field(self.x), sorted(varied))
            object.__setattr__(self, "x", _field(self.x))
        if (rows := math.prod(map(len, grid.values()))) > MOST_ROWS:
            raise InputError(f"a study has at most {MOST_ROWS:,} rows, not {rows:,}; vary fewer settings")
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "fixed", fixed)
        if self.measure is None:
            object.__setattr__(self, "measure", _usual(self.recipe(next(self.points()))))
        for recipe in self.recipes:  # which say what does not fit
            _check_measure(str(self.measure), recipe)

    @staticmethod
    def read(path: str | Path) -> Study:
        """A study from a TOML file (docs/sweeps.md).

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Study
            Named after the file.

        Raises
        ------
        InputError
            If the file is missing or no study.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"there is no study {path}; check the path")
        with reading(path, "a study", "mend the file (docs/sweeps.md has one)"):
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        told = STUDY.checked(found, f"{path} is no study:", "mend it (docs/sweeps.md has one)")
        return Study(**told, name=path.stem)

    def as_dict(self) -> dict[str, Any]:
        """The study as its TOML file would hold it.

        Returns
        -------
        dict
            Plain values.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "known"}
        own |= {"fixed": written(self.fixed), "grid": {k: _listed(v) for k, v in self.grid.items()}}
        if self.searched is not None:
            over = {k: _listed(part) for k, part in self.searched.over.items()}
            own["search"] = vars(self.searched) | {"over": over}
        return {k: v for k, v in own.items() if k not in ("search", "ray") or v}

    @property
    def searched(self) -> Search | None:
        """What rows are drawn from, unless there is a grid."""
        return self.search if isinstance(self.search, Search) else None

    @property
    def varied(self) -> list[str]:
        """Names of the settings that vary."""
        return list(self.grid if self.searched is None else self.searched.over)

    @property
    def judges(self) -> bool:
        """Whether results decide what is trained next, which needs Ray Tune."""
        return self.searched is not None and self.searched.judges

    def points(self) -> Iterator[dict[str, Any]]:
        """All points, the last setting varying fastest; of a search, those drawn.

        Yields
        ------
        dict
            Settings of a point, as a recipe has them.
        """
        if self.known is not None:
            yield from (dict(point) for point in self.known)
        elif self.searched is not None:
            for point in self.searched.drawn(int(self.fixed.get("seed", 0))):
                yield self.point(point)
        else:
            for values in product(*self.grid.values()):
                yield dict(zip(self.grid, values, strict=True))

    def point(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Drawn settings in the form that a recipe has.

        Parameters
        ----------
        given : mapping
            Setting and value.

        Returns
        -------
        dict
            The same settings with checked values.
        """
        return {name: _value(name, value) for name, value in given.items()}

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """One recipe per point."""
        return tuple(map(self.recipe, self.points()))

    def recipe(self, point: Mapping[str, Any]) -> Recipe:
        """The recipe of one training of a point.

        Parameters
        ----------
        point : mapping
            Settings of the point.

        Returns
        -------
        Recipe
            With one replica.

        Raises
        ------
        InputError
            If the settings do not fit together; the message names the point.
        """
        chosen = {**self.fixed, **point}
        dataset, preset = chosen.pop("dataset"), self.preset_of(point)
        if "metrics" not in chosen and self.measure is not None:
            chosen["metrics"] = (_metric(self.measure),)
        try:
            recipe = Recipe.made(dataset, {k: v for k, v in chosen.items() if k != "preset"}, preset)
        except InputError as error:
            told = in_words(point)
            raise InputError(f"in the row {told}: {error}" if told else str(error)) from error
        return replace(recipe, replicas=1)

    def preset_of(self, point: Mapping[str, Any]) -> str:
        """The preset that fills in a point.

        Parameters
        ----------
        point : mapping
            Settings of the point.

        Returns
        -------
        str
            Name of the preset.
        """
        chosen = {**self.fixed, **point}
        preset = chosen.get("preset") or preset_for(chosen["dataset"], chosen)
        if preset == "auto":
            raise InputError("a sweep has no preset auto, which tries settings itself; give another")
        return str(preset)


def _search(given: Any) -> Search:
    if isinstance(given, Search):
        return given
    told = SEARCH.checked(dict(given), "[search] cannot be read:", "mend it (docs/sweeps.md has one)")
    over: dict[str, Any] = {}
    for name, part in told["over"].items():
        found = range_of(name, part)
        if found is not None:
            _value(_field(name), found.low)  # a setting that takes numbers
        over[_field(name)] = _values(name, part) if found is None else found
    return Search(**{**told, "over": over})


def shown(value: Any) -> str:
    """A setting in a table."""
    if value is None:
        return DENSE
    if isinstance(value, tuple):
        return ", ".join(map(shown, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {shown(v)}" for k, v in point.items())


def written(point: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a study has them."""
    return {name: _written(value) for name, value in point.items()}


def _written(value: Any) -> Any:
    value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return DENSE if value is None else value


def _listed(part: Range | Sequence[Any]) -> Any:
    """What a setting varies over, as a file has it."""
    return asdict(part) if isinstance(part, Range) else list(map(_written, part))


@cache
def _hints() -> dict[str, Any]:
    hints = get_type_hints(Recipe)
    own = {f.name for f in fields(Recipe)} - {"falls", "rate_changes", "options"}
    return {name: hints[name] for name in own} | {"preset": str}


def _field(name: str) -> str:
    """A setting by the name of its field, or of an option of a part."""
    word = name.replace("-", "_")
    if word in REFUSED and word != "seed":
        raise InputError(f"a study has no setting {name!r}: {REFUSED[word]}")
    flags = {flag: option.name for flag, option in options_of(Recipe).items()}
    word = flags.get(word, word)
    parts = {flag for registry in PARTS.values() for flag in registry.options()}
    if word not in _hints() and word not in parts:
        raise unknown("setting", name, {*_hints(), *flags, *parts} - set(REFUSED))
    return word


def _values(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"the grid has a list of values of {name}, not {given!r}; or is it [fixed]?")
    values = tuple(_value(_field(name), value) for value in given)
    if not values or len(set(values)) < len(values):
        raise InputError(f"the grid has one or more values of {name}, each once, not {list(given)}")
    return values


def _value(name: str, given: Any) -> Any:
    """As the recipe has it: one of several may stand alone, a whole number for a number or a text."""
    if name == "patterns" and given in (DENSE, None):
        return None
    hint = _hints().get(name)
    if hint is None:  # an option of a part, which checks it
        return tuple(given) if isinstance(given, list) else given
    kinds = (hint, *get_args(hint))
    several = any(get_origin(kind) is tuple for kind in kinds)
    value = tuple(given) if isinstance(given, list | tuple) else given
    if several and name not in ONE_OR_EACH and not isinstance(value, tuple):
        value = (value,)
    if name in PER_REPLICA:
        if isinstance(value, tuple) and (len(value) != 1 or name in ONE_OR_EACH):
            raise InputError(f"{name} is one number in each row, not {given!r}; vary it under [grid]")
        value = tuple(map(_float, value)) if isinstance(value, tuple) else _float(value)
    if str in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    shape: Shape = of_hint(hint)
    shape = shape.shape if isinstance(shape, Maybe) else shape  # TOML has no null
    try:
        shape.check(value, name)
    except Misfit as error:
        raise InputError(f"in a study {error}; mend it") from error
    return value


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _metric(measure: str) -> str:
    """The metric that a measure is one of."""
    name, _, part = measure.rpartition("_")
    return name if part in SPLITS and measure not in METRICS else measure


def _usual(recipe: Recipe) -> str:
    if not recipe.metrics:
        raise InputError("a study measures something; leave metric out, or name one")
    name = next((name for name in WATCHED if name in recipe.metrics), recipe.metrics[0])
    return f"{name}_test" if METRICS[name].of_split else name


def _check_measure(measure: str, recipe: Recipe) -> None:
    known = [
        f"{name}_{part}" if METRICS[name].of_split else name
        for name in recipe.metrics
        for part in (SPLITS if METRICS[name].of_split else ("",))
    ]
    check_choice("measure", measure, known)
