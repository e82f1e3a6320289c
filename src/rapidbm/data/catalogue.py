"""Data sets by name, or from a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown
from .bars import bars4, bars_and_stripes
from .digits import digits, mnist, mnist_static
from .files import from_file
from .splits import Dataset

# name: (what makes it, options it takes, where it comes from)
DATASETS: dict[str, tuple[Callable[..., Dataset], tuple[str, ...], str]] = {
    "bars4": (bars4, (), "4×4 bars, the paper's 10 to train and 4 to test; made on the spot"),
    "basN": (
        bars_and_stripes,
        ("seed",),
        "N×N bars and stripes, N from 2 to 32, bas12 for instance; made on the spot",
    ),
    "digits": (digits, ("threshold", "seed"), "1,797 digits of 8×8 pixels; in scikit-learn"),
    "mnist": (
        mnist,
        ("threshold", "binarize", "split", "seed"),
        "70,000 digits of 28×28 pixels; $RAPIDBM_DATA/mnist or a download of 11 MB",
    ),
    "mnist-static": (
        mnist_static,
        (),
        "Larochelle's binarization of MNIST; $RAPIDBM_DATA/binarized-mnist or a download of 94 MB",
    ),
}
FILE_ENDINGS = (".npy", ".npz", ".csv", ".h5", ".hdf5")


def load(name: str | Path, **options: Any) -> Dataset:
    """A data set by name (`bars4`, `bas12`, `digits`, `mnist`, `mnist-static`) or from a file.

    Options that the data set takes: `threshold`, `binarize`, `split`, `seed`.
    """
    text = str(name)
    if Path(text).suffix in FILE_ENDINGS or isinstance(name, Path):
        _check_options(text, options, ("seed",))
        return from_file(name, **options)
    match = re.fullmatch(r"bas(\d+)", text)
    key = "basN" if match else text
    if key not in DATASETS or text == "basN":
        near = [n.replace("N", "12") for n in DATASETS]
        raise InputError(f"{unknown('data set', text, near)}, or a file {', '.join(FILE_ENDINGS)}")
    make, takes, _ = DATASETS[key]
    _check_options(text, options, takes)
    return make(int(match[1]), **options) if match else make(**options)


def _check_options(name: str, options: dict[str, Any], takes: tuple[str, ...]) -> None:
    for option in options:
        if option not in takes:
            raise InputError(
                f"the data set {name} takes {', '.join(takes) or 'no options'}, not {option!r}; "
                "leave it out"
            )
