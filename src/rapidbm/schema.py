"""The shape of what a file says, checked in one place before anything is built from it.

A shape is put together from the kinds below; `checked` answers the value, or says which part of it does
not fit, what would, and what to do.
"""

from __future__ import annotations

import math
import types
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import InputError


class Misfit(Exception):
    """A part that does not fit."""

    def __init__(self, where: str, rule: str, value: Any) -> None:
        told = repr(value)
        told = told if len(told) < 60 else f"{told[:60]}…"
        super().__init__(f"{where or 'it'} must be {rule}, not {told}")


class Shape(ABC):
    """What a value may be."""

    @abstractmethod
    def check(self, value: Any, where: str) -> None:
        """Raises `Misfit`."""

    def fits(self, value: Any) -> bool:
        try:
            self.check(value, "")
        except (Misfit, RecursionError):
            return False
        return True

    def checked(self, value: Any, what: str, remedy: str) -> Any:
        """The value; one that does not fit is bad input."""
        try:
            self.check(value, "")
        except (Misfit, RecursionError) as error:
            raise InputError(f"{what} {error}; {remedy}") from error
        return value


@dataclass(frozen=True)
class Whole(Shape):
    """A whole number."""

    least: int = 0
    most: int = 2**63 - 1

    def check(self, value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Misfit(where, "a whole number", value)
        if not self.least <= value <= self.most:
            raise Misfit(where, f"a whole number from {self.least} to {self.most}", value)


@dataclass(frozen=True)
class Real(Shape):
    """A finite number."""

    least: float = -math.inf

    def check(self, value: Any, where: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misfit(where, "a number", value)
        if not (abs(value) < 1e300 and value >= self.least):
            above = "" if math.isinf(self.least) else f" of at least {self.least:g}"
            raise Misfit(where, f"a finite number{above}", value)


@dataclass(frozen=True)
class Text(Shape):
    """Words that can be written."""

    most: int = 4096

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, str) or len(value) > self.most:
            raise Misfit(where, f"a text of at most {self.most} characters", value)
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Misfit(where, "a text that can be written", value)


@dataclass(frozen=True)
class Flag(Shape):
    """True or false."""

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, bool):
            raise Misfit(where, "true or false", value)


@dataclass(frozen=True)
class OneOf(Shape):
    """One of a few words."""

    words: tuple[str, ...]

    def check(self, value: Any, where: str) -> None:
        if value not in self.words:
            raise Misfit(where, f"one of {', '.join(self.words)}", value)


@dataclass(frozen=True)
class Maybe(Shape):
    """Null, or a shape."""

    shape: Shape

    def check(self, value: Any, where: str) -> None:
        if value is not None:
            self.shape.check(value, where)


@dataclass(frozen=True)
class Either(Shape):
    """One of several shapes; what fits none is told of the first."""

    shapes: tuple[Shape, ...]

    def check(self, value: Any, where: str) -> None:
        for shape in self.shapes[1:]:
            try:
                return shape.check(value, where)
            except Misfit:
                pass
        self.shapes[0].check(value, where)


@dataclass(frozen=True)
class Several(Shape):
    """A list of one shape, of so many entries."""

    shape: Shape
    count: int | None = None
    most: int = 2**63

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, list | tuple):
            raise Misfit(where, "a list", value)
        if self.count is not None and len(value) != self.count:
            raise Misfit(where, f"a list of {self.count}", value)
        if len(value) > self.most:
            raise Misfit(where, f"a list of at most {self.most}", value)
        for number, entry in enumerate(value):
            self.shape.check(entry, f"{where}[{number}]")


@dataclass(frozen=True)
class Names(Shape):
    """Names with values: `must` be there, `may` be there, and `others` under any name."""

    must: Mapping[str, Shape]
    may: Mapping[str, Shape] | None = None
    others: Shape | None = None

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Misfit(where, "a set of names with values", value)
        if lost := [name for name in self.must if name not in value]:
            raise Misfit(where, f"names with values, {lost[0]!r} among them", list(value))
        known = {**(self.may or {}), **self.must}
        for name, entry in value.items():
            Text(200).check(name, f"a name in {where or 'it'}")
            shape = known.get(name, self.others)
            if shape is None:
                raise Misfit(where, f"of the names {', '.join(known)}", name)
            shape.check(entry, f"{where}.{name}".lstrip("."))


class Anything(Shape):
    """Whatever JSON can say, of finite numbers and of names and texts that can be written."""

    def check(self, value: Any, where: str) -> None:
        words, left = Text(2**20), [value]
        while left:  # records hold a million numbers: no call for each
            some = left.pop()
            if isinstance(some, dict):
                for name in some:
                    words.check(name, f"a name in {where or 'it'}")
                left.extend(some.values())
            elif isinstance(some, list):
                if {*map(type, some)} <= {float, int} and some:
                    Real().check(max(some), where)
                    Real().check(min(some), where)
                else:
                    left.extend(some)
            elif isinstance(some, str):
                words.check(some, where)
            elif some is not None and not isinstance(some, bool):
                Real().check(some, where)


PLAIN: Mapping[Any, Shape] = {
    int: Whole(-(2**63)), float: Real(), str: Text(), bool: Flag(), Any: Anything(),
}  # fmt: skip


def of_fields(kind: type) -> Names:
    """The shape of a dataclass's fields; those with defaults may be left out."""
    hints = get_type_hints(kind)
    must: dict[str, Shape] = {}
    may: dict[str, Shape] = {}
    for field in fields(kind):
        needed = field.default is MISSING and field.default_factory is MISSING
        (must if needed else may)[field.name] = of_hint(hints[field.name])
    return Names(must, may)


def of_hint(hint: Any) -> Shape:
    """The shape of a type; TypeError for one that no file could hold."""
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and is_dataclass(hint):
        return of_fields(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return OneOf(inner)
    if origin is Mapping and inner[:1] == (str,):
        return Names({}, others=of_hint(inner[1]))
    if origin is tuple and inner[1:] == (...,):
        return Several(of_hint(inner[0]))
    if origin in (Union, types.UnionType):
        known = [of_hint(kind) for kind in inner if kind is not type(None)]
        shape = known[0] if len(known) == 1 else Either(tuple(known))
        return Maybe(shape) if type(None) in inner else shape
    raise TypeError(f"no shape for {hint}")
