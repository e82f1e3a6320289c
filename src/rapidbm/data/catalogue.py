"""Data sets by name, or from a file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..display import Table
from ..errors import InputError, unknown
from ..registry import Option, Registry, options_of
from .bars import bars4, bars_and_stripes
from .digits import digits, mnist, mnist_static
from .files import READERS, TABLES, from_file
from .labelled import digits_labelled, mnist_labelled, with_labels
from .sequences import ENDINGS as SEQUENCES
from .splits import Dataset, held_out
from .tables import ENDINGS

FILE_ENDINGS = (*READERS, *ENDINGS, *TABLES, *SEQUENCES)
OF_FILES = (
    f"a file: {', '.join(FILE_ENDINGS)}, a row per sample: {{0,1}}, booleans or ±1, a table with "
    "columns of any kind, or aligned sequences; .npz and .h5 may hold train, test and valid"
)


OF_FILE = ("seed", "columns", "reals", "alphabet", "identity", "weights")  # options of `load`


class DatasetEntry(NamedTuple):
    """Where a data set comes from: what makes it, the options that takes, and words about it."""

    make: Callable[..., Dataset]
    options: tuple[str, ...]
    text: str


def source(make: Any, text: str = "") -> DatasetEntry:
    """A source from a function; its options are the parameters with defaults, its words, unless they are
    given, the first line of what is written about the function."""
    if not callable(make):
        raise TypeError(f"a function that makes a Dataset is needed, not {make!r}")
    parameters = inspect.signature(make).parameters.values()
    takes = tuple(p.name for p in parameters if p.default is not p.empty)
    options_of(make)
    return DatasetEntry(make, takes, text or (inspect.getdoc(make) or "").partition("\n")[0].rstrip("."))


# A name that ends in N stands for a family: N is the first argument.
DATASETS: Registry[DatasetEntry] = Registry(
    "data set",
    {
        "bars4": source(bars4, "4×4 bars, the paper's 10 to train and 4 to test; made on the spot"),
        "basN": source(
            bars_and_stripes,
            "N×N bars and stripes, N from 2 to 32, bas12 for instance; made on the spot",
        ),
        "digits": source(digits, "1,797 digits of 8×8 pixels; in scikit-learn"),
        "digits-labelled": source(digits_labelled),
        "mnist": source(
            mnist, "70,000 digits of 28×28 pixels; $RAPIDBM_DATA/mnist or a download of 11 MB"
        ),
        "mnist-labelled": source(mnist_labelled),
        "mnist-static": source(
            mnist_static,
            "Larochelle's binarization of MNIST; $RAPIDBM_DATA/binarized-mnist or a download of 94 MB",
        ),
    },
    "rapidbm.datasets",
    source,
    {"a file": from_file},
)


def is_file(name: str | Path) -> bool:
    return isinstance(name, Path) or Path(name).suffix.lower() in FILE_ENDINGS


def load(
    name: str | Path, *, valid: Any = None, stream: Any = None, labels: str | None = None, **options: Any
) -> Dataset:
    """A data set by name or from a file.

    Parameters
    ----------
    name : str or Path
        `bars4`, `basN` (`bas12` is 12 × 12), `digits`, `mnist`, `mnist-static`, `digits-labelled`,
        `mnist-labelled`, a name that another package registers, or a file; `datasets()` lists them.
    valid : float, optional
        Share of the training rows to hold out as a validation part; 0 trains on a validation part that
        the data bring. By default the parts stay as they are.
    stream : bool, optional
        Leave the rows of a file on disk; by default those of files with more than 2^31 spins.
    labels : str, optional
        Of a table the column that is predicted. Of data with labels any text: the label becomes one more
        unit, a category.
    **options : Any
        What the data set takes: `threshold`, `binarize`, `split`; `seed` (0) draws the parts.

    Returns
    -------
    Dataset
        Training and test part, and a validation part if there is one.

    Raises
    ------
    InputError
        If the name or an option is unknown, or the file cannot be read.

    Examples
    --------
    >>> data = rb.load("bars4")
    >>> len(data.train), len(data.test), data.shape
    (10, 4, (4, 4))
    """
    text = str(name)
    if is_file(name):
        _check_options(text, options, OF_FILE)
        return from_file(name, valid=valid, stream=stream, labels=labels, **options)
    if stream:
        raise InputError(f"only the rows of a file stay on disk, and {text} is none; leave stream out")
    key, number = entry_of(text)
    if key is None:
        near = [n.replace("N", "12") for n in DATASETS]
        raise InputError(f"{unknown('data set', text, near)}, or a file {', '.join(FILE_ENDINGS)}")
    make, takes, _ = DATASETS[key]
    seed = options.get("seed") or 0
    if valid is not None and "seed" not in takes:
        options.pop("seed", None)
    _check_options(text, options, takes)
    data = make(*number, **options)
    data = data if labels is None else with_labels(data)
    return data if valid is None else held_out(data, valid, seed)


def datasets() -> Table:
    """A table of the data sets that `load` knows; `rapidbm datasets` prints it.

    Returns
    -------
    Table
        A row per data set: name, what it is, the options it takes.

    Examples
    --------
    >>> "bars4" in [row[0] for row in rb.datasets().rows]
    True
    """
    rows = []
    for name, (_, options, text) in DATASETS.sound().items():
        package = DATASETS.package(name)
        rows.append((name, f"{text}; from {package}" if package else text, ", ".join(options)))
    return Table("data sets", ("name", "what it is", "options"), tuple(rows), (OF_FILES,))


def entry_of(name: str) -> tuple[str | None, tuple[int, ...]]:
    """The entry of `DATASETS` that makes a data set, and the number in the name of one of a family."""
    match = re.fullmatch(r"(.*?)(\d+)", name)
    if name not in DATASETS and match and f"{match[1]}N" in DATASETS:
        return f"{match[1]}N", (int(match[2]),)
    return (name if name in DATASETS and not name.endswith("N") else None), ()


def settings_for(name: str) -> Mapping[str, Option]:
    """What can be set of a data set, by flag; nothing of one that is not known."""
    if is_file(name):
        return options_of(from_file)
    key, _ = entry_of(name)
    return {} if key is None else options_of(DATASETS[key])


def _check_options(name: str, options: dict[str, Any], takes: tuple[str, ...]) -> None:
    for option in options:
        if option not in takes:
            raise InputError(
                f"the data set {name} takes {', '.join(takes) or 'no options'}, not {option!r}; "
                "leave it out"
            )
