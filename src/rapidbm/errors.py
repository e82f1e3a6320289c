"""What the library says when it is given something that it cannot use."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, TypeVar
from unicodedata import category

T = TypeVar("T")

EXTRAS = {  # modules that do not come with the package, and the extra that brings each
    "Bio": "sequences",
    "arviz": "diagnostics",
    "dimod": "dwave",
    "dwave.samplers": "dwave",
    "h5py": "hdf5",
    "learnergy": "bench",
    "ray": "ray",
    "rbms": "bench",
    "starlette": "studio",
    "tensorboard": "tensorboard",
    "torchebm": "bench",
    "uvicorn": "studio",
    "websockets": "studio",
    "zarr": "zarr",
}


class InputError(ValueError):
    """Raised for bad input; the message states the rule, the value and the remedy.

    The command prints it without a traceback and ends with exit code 2.

    Examples
    --------
    >>> try:
    ...     rb.rbm(0, 5)
    ... except rb.InputError as error:
    ...     print(error)
    the size of a layer must be a whole number of at least 1, not 0
    """


class TimeLimit(InputError):
    """Raised when a call reaches its `limit` in seconds.

    The message says how far the call came, how long all of it would take, and how to make it shorter.

    Examples
    --------
    >>> issubclass(rb.TimeLimit, rb.InputError)
    True
    """


class LostRank(RuntimeError):
    """Raised when a process of a joint training has died, so that the others cannot continue."""


class DiskError(InputError):
    """Something could not be written: the message says where, why, and what is left of it. `stopped`
    where work that had begun came to its end by it."""

    def __init__(self, message: str, *, stopped: bool = False) -> None:
        super().__init__(message)
        self.stopped = stopped


class LoadWarning(UserWarning):
    """Warns that a machine has so many patterns that they are no longer its low-energy states."""


class FitWarning(UserWarning):
    """Warns that a training ended with a likelihood below that of independent columns."""


class LossWarning(UserWarning):
    """Something that a run wrote earlier is gone."""


class DataWarning(UserWarning):
    """Warns that data, or a part of them, are not used as given."""


class PluginWarning(UserWarning):
    """Warns that another installed package offers an entry that cannot be used."""


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is in no registry; it names the nearest one that is."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InputError(f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}")


def lookup(kind: str, name: str, registry: Mapping[str, T]) -> T:
    """The entry of a registry."""
    if name not in registry:
        raise unknown(kind, name, registry)
    return registry[name]


def pip_line(module: str) -> str:
    """What installs a module of an extra, or one that comes with the package."""
    return f"pip install 'rapidbm[{EXTRAS[module]}]'" if module in EXTRAS else f"pip install {module}"


def require(module: str, doing: str) -> None:
    """Refuses what needs a module that is not installed, with the line that installs it."""
    try:
        missing = find_spec(module) is None
    except ModuleNotFoundError:  # not even the package that it is in
        missing = True
    if missing:
        raise InputError(f"{doing} needs {module}, which is not installed: {pip_line(module)}")


def check_choice(kind: str, value: str, known: Iterable[str]) -> None:
    names = list(known)
    if value not in names:
        raise unknown(kind, value, names)


def is_whole(value: Any) -> bool:
    """True for one whole number, whoever made it; 2.0 and booleans are none."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool) and "bool" not in str(getattr(value, "dtype", ""))


def check_count(what: str, value: Any, *, least: int = 1) -> None:
    if not is_whole(value) or value < least:
        raise InputError(f"{what} must be a whole number of at least {least}, not {value!r}")


def is_number(value: Any) -> bool:
    """True for one finite real number, whoever made it; text, booleans and complex numbers are none."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # numpy's and torch's
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_beta(beta: Any) -> None:
    if not (is_number(beta) and beta >= 0):
        raise InputError(f"the inverse temperature β must be finite and at least 0, not {beta!r}")


def printable(text: str) -> str:
    """The text without control characters: a name from a file must not move the cursor."""
    return "".join(c if c == "\n" or category(c)[0] != "C" else "\ufffd" for c in text)
