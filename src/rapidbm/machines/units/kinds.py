"""Kinds of units by their words in files, those of other packages among them (entry points
`rapidbm.units`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InputError, lookup
from ...registry import Registry
from .binary import Binary
from .categorical import Categorical
from .gaussian import Gaussian
from .spin import Spin
from .unit import Unit


def _a_kind(thing: Any) -> type[Unit]:
    """Takes a kind of unit."""
    if not (isinstance(thing, type) and issubclass(thing, Unit)):
        raise TypeError(f"a subclass of rapidbm.Unit is needed, not {thing!r}")
    return thing


KINDS: Registry[type[Unit]] = Registry(
    "kind of unit",
    {"spin": Spin, "binary": Binary, "categorical": Categorical, "gaussian": Gaussian},
    "rapidbm.units",
    _a_kind,
)


def described(unit: Unit) -> dict[str, Any]:
    """A kind in plain words and numbers."""
    return {"kind": unit.kind, **unit.settings()}


def kind_of(words: Mapping[str, Any]) -> Unit:
    """The kind that was described."""
    settings = {name: value for name, value in words.items() if name != "kind"}
    settings = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}
    kind = lookup(KINDS.kind, words["kind"], KINDS)
    try:
        return kind(**settings)
    except TypeError as error:
        raise InputError(f"a unit of kind {words['kind']!r} takes no {settings}: {error}") from error
