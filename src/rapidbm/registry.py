"""Things by name, the library's own and those of other packages, and what a person may set of each.

What can be set of a thing are those fields of its dataclass, or parameters of its function, that carry a
`Setting`; the command's options, their help and their checks follow:

    @dataclass(frozen=True)
    class Tempered:
        rungs: int = setting(10, "temperatures of the ladder")

    def digits(threshold: Annotated[float, Setting("brighter pixels are up")] = 0.5) -> Dataset: ...

Another package adds a thing of its own by an entry point, here in its pyproject.toml:

    [project.entry-points."rapidbm.negative_phases"]
    mine = "my_package:MyPhase"
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, get_args, get_type_hints

from .errors import InputError, PluginWarning, lookup
from .schema import Shape, of_hint

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What the command line and the page say about one option.

    Attributes
    ----------
    help : str
        One sentence for `--help`.
    flag : str, default ""
        Name of the option if it is not the field's name.
    least : int, optional
        Smallest whole number allowed.
    belongs_to : str, default ""
        Name of the choice that this option needs.
    off : str, default ""
        Name of the option that means False, if it is not `--no-…`.
    choices : tuple of str, default ()
        Words that shells offer for completion.

    Examples
    --------
    >>> rb.Setting("Gibbs sweeps per update", least=1).least
    1
    """

    help: str
    flag: str = ""  # the option's name, where it is not the field's
    least: int | None = None
    belongs_to: str = ""  # the choice without which it means nothing
    off: str = ""  # the option for False, where it is not --no-…
    choices: tuple[str, ...] = ()  # words that may be given, for shells to offer


def setting(default: Any, help: str, **more: Any) -> Any:
    """A dataclass field that the command line can set.

    Parameters
    ----------
    default : Any
        Default of the field.
    help : str
        One sentence for `--help`.
    **more : Any
        Further attributes of `Setting`, such as `flag`, `least` or `choices`.

    Returns
    -------
    Any
        A `dataclasses.field` with a `Setting` in its metadata.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class MyPhase:
    ...     sweeps: int = rb.setting(1, "Gibbs sweeps per update")
    >>> MyPhase().sweeps
    1
    """
    return field(default=default, metadata={"setting": Setting(help, **more)})


@dataclass(frozen=True)
class Option:
    """A field or a parameter that can be set: its own name and type, and what the command calls it."""

    name: str
    flag: str
    hint: Any
    setting: Setting

    shape: Shape

    @property
    def dashed(self) -> str:
        return f"--{self.flag.replace('_', '-')}"


@cache
def options_of(thing: Any) -> dict[str, Option]:
    """What can be set of a dataclass, a function, or what a function `make`s, by flag; TypeError for a
    type that no option can have."""
    thing = getattr(thing, "make", thing)
    hints = get_type_hints(thing, include_extras=True)
    if is_dataclass(thing):
        told = {f.name: (hints[f.name], f.metadata.get("setting")) for f in fields(thing)}
    else:
        notes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
        told = {name: (get_args(hints[name])[0], *notes[name]) for name in notes if notes[name]}
    found = {}
    for name, (kind, setting, *_) in told.items():
        if isinstance(setting, Setting):
            flag = setting.flag or name
            found[flag] = Option(name, flag, kind, setting, of_hint(kind))
    return found


class Registry(Mapping[str, T]):
    """Things of one kind. Those of other packages have the entry points of `group`; each is loaded when
    it is asked for, and `adapted` to an entry, or refused by a TypeError."""

    def __init__(
        self,
        kind: str,
        own: Mapping[str, T],
        group: str,
        adapted: Callable[[Any], T],
        unnamed: Mapping[str, Any] | None = None,
    ) -> None:
        """`unnamed` are things of this kind that have options, but no name to ask for, such as files."""
        self.kind, self.own, self.group, self._adapted = kind, own, group, adapted
        self.unnamed = dict(unnamed or {})
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name in self.own:
            return self.own[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._points[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._points

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self._points

    def __len__(self) -> int:
        return len(self.own) + len(self._points)

    def sound(self) -> dict[str, T]:
        """Everything that can be loaded; what cannot, or has a name that is taken, is a warning."""
        for point in self._found:
            if self._points.get(point.name) is not point:
                self._warn(f"{self._words(point)} is passed over: its name is taken; give it another")
        found = dict(self.own)
        for name in self._points:
            try:
                found[name] = self[name]
            except InputError as error:
                self._warn(str(error))
        return found

    def options(self) -> dict[str, dict[str, Option]]:
        """Every flag, and the options of that name by what has them."""
        return by_flag(self.sound() | self.unnamed)

    def own_options(self) -> dict[str, dict[str, Option]]:
        """Those of the library itself."""
        return by_flag({**self.own, **self.unnamed})

    def package(self, name: str) -> str:
        """The package that a thing comes from; nothing for the library's own."""
        return "" if name in self.own else _package(self._points[name])

    @cached_property
    def _found(self) -> list[EntryPoint]:
        return sorted(entry_points(group=self.group), key=_package)

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        return {p.name: p for p in reversed(self._found) if p.name not in self.own}

    def _load(self, point: EntryPoint) -> T:
        try:
            return self._adapted(point.load())
        except (Exception, SystemExit) as error:  # whatever another package raises
            raise InputError(
                f"{self._words(point)} cannot be used: {type(error).__name__}: {error}; mend or "
                "uninstall the package"
            ) from error

    def _words(self, point: EntryPoint) -> str:
        return f"the {self.kind} {point.name!r} of the package {_package(point)}"

    def _warn(self, text: str) -> None:
        warnings.warn(text, PluginWarning, stacklevel=3)


def by_flag(things: Mapping[str, Any]) -> dict[str, dict[str, Option]]:
    """Every flag of some things, and the options of that name by what has them."""
    found: dict[str, dict[str, Option]] = {}
    for name, thing in things.items():
        for flag, option in options_of(thing).items():
            found.setdefault(flag, {})[name] = option
    return found


def a_class_with(*names: str) -> Callable[[Any], Any]:
    """Takes a dataclass that has these methods or constants."""

    def adapted(thing: Any) -> Any:
        if not (isinstance(thing, type) and is_dataclass(thing)):
            raise TypeError(f"a dataclass is needed, not {thing!r}")
        if lost := [name for name in names if not hasattr(thing, name)]:
            raise TypeError(f"{thing.__name__} must have {', '.join(names)}, but has no {lost[0]}")
        options_of(thing)
        return thing

    return adapted


def build(registry: Registry[type[T]], name: str, given: Mapping[str, Any], **filled: Any) -> T:
    """An entry of a registry with what was given, by flag, and what is `filled` in, by field."""
    thing: Any = lookup(registry.kind, name, registry)
    takes = options_of(thing)
    for flag in given:
        check_takes(registry.kind, name, takes, flag)
    built: T = thing(**{takes[flag].name: value for flag, value in given.items()}, **filled)
    return built


def check_takes(kind: str, name: str, takes: Mapping[str, Option], flag: str) -> None:
    if flag not in takes:
        known = ", ".join(option.dashed for option in takes.values()) or "none"
        raise InputError(
            f"the {kind} {name!r} has no option --{flag.replace('_', '-')}; it takes {known}"
        )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
