"""Options of the command: those that several commands share, and those that follow from fields.

A command with many settings shows the few that people use. The others are options too, hidden from
`--help` and listed by `--help-all`; `--set name=value` gives any of them by the name that a study has.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from rich.markup import escape

from ...errors import InputError, PluginWarning
from ...registry import Option, Registry, Setting


def offers(names: Iterable[str]) -> Callable[[], list[str]]:
    """What a shell offers where one of these is to be given; none leaves it the names of files."""
    words = list(names)
    return lambda: words


def run_names() -> list[str]:
    """Run folders that are near, and what comes with the package."""
    from ...runs.pretrained.packed import known

    near = [path.parent for where in ("*", "runs/*") for path in sorted(Path().glob(f"{where}/run.json"))]
    return [*map(str, near), *(f"pretrained:{name}" for name in known())]


Json = Annotated[bool, typer.Option("--json", help="Write JSON, one object per line, for machines.")]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        autocompletion=run_names,
        help="A run folder; pretrained:mnist, a machine that comes with the package; or a machine's "
        "file, .safetensors or .h5.",
    ),
]
FIGURES = "RUN/figures, ./pretrained-NAME, or beside the file of a machine"
Update = Annotated[
    str | None,
    typer.Option(
        help="Take the checkpoint after this update, best or last (default: the best by validation, "
        "where that was watched, else the last).",
        autocompletion=offers(("best", "last")),
    ),
]
Everything = Annotated[
    bool,
    typer.Option("--all", help="Of a table: everything, where otherwise the first lines are printed."),
]
Replica = Annotated[int, typer.Option(help="Which replica to show.", min=0)]
DataFile = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Measure on these data: a file, or a name of [bold]rapidbm datasets[/]. The file that the "
        "run was trained on, if it has moved or the run is not your own, counts as its own: nothing "
        "outside a folder is read that you have not named.",
    ),
]
METAVARS = {int: "N", float: "X", str: "TEXT"}  # of the help, of one or of a list
DEVICES = ("auto", "cpu", "cuda")
Device = Annotated[
    str,
    typer.Option(help="auto (a GPU if there is one), cpu, cuda, …", autocompletion=offers(DEVICES)),
]
Limit = Annotated[
    float | None,
    typer.Option(help="Stop after so many seconds, and say how far it was."),
]
Shards = Annotated[
    int | None,
    typer.Option(
        help="Parts of the chains with random numbers of their own, which the processes of a launcher "
        "share (default: one for each process).",
        min=1,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.", min=0)]
Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="A table with the columns of the run's: .csv, .parquet, .feather."
    ),
]
TableOut = Annotated[Path, typer.Option(help="A new .csv, .tsv, .parquet or .feather.")]


def _show_all(context: typer.Context, asked: bool) -> None:
    if asked:
        for option in context.command.params:
            option.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", help="Show every option and exit.", is_eager=True, callback=_show_all),
]


def in_panel(
    panel: str | None,
    text: str,
    *names: str,
    least: int | None = None,
    values: Iterable[str] = (),
    metavar: str | None = None,
    hidden: bool = False,
) -> Any:
    """An option under a heading of the help; what it is by default, its text says."""
    return typer.Option(
        *names,
        help=text,
        rich_help_panel=panel,
        show_default=False,
        min=least,
        metavar=metavar,
        hidden=hidden,
        autocompletion=offers(values),
    )


def parameter(
    flag: str,
    hint: Any,
    text: str,
    setting: Setting,
    panel: str | None = None,
    values: Iterable[str] = (),
    hidden: bool = False,
) -> inspect.Parameter:
    """An option as typer reads it from a function; None if it is not given."""
    kind, dashed = _kind(hint), flag.replace("_", "-")
    names = [f"--{dashed}/--{setting.off or f'no-{dashed}'}"] if kind is bool else [f"--{dashed}"]
    values = [*setting.choices, *values, *_words(hint)]
    option = in_panel(
        panel,
        escape(text),
        *names,
        least=setting.least,
        values=values,
        metavar=METAVARS.get(get_args(kind)[0] if get_origin(kind) is list else kind),
        hidden=hidden,
    )
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(flag, keyword, default=None, annotation=Annotated[kind | None, option])


def _kind(hint: Any) -> Any:
    """What the command reads for a type: words for one of a few, a list for a tuple."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _kind(inner[0])
    if origin is tuple:
        return list[inner[0]]  # type: ignore[valid-type]
    return str if origin is Literal else hint


def _words(hint: Any) -> Iterator[str]:
    """The words that a type is made of."""
    for inner in get_args(hint):
        if get_origin(hint) is Literal:
            yield str(inner)
        else:
            yield from _words(inner)


def of_parts(
    flag: str, by_name: Mapping[str, Option], panel: str | None, *, hidden: bool = False
) -> inspect.Parameter:
    """The option of those entries of a registry that have it; its help says what it is to each."""
    told: dict[str, list[str]] = {}
    for name, option in by_name.items():
        told.setdefault(option.setting.help, []).append(name)
    text = "; ".join(f"{', '.join(names)}: {words}" for words, names in told.items())
    first = next(iter(by_name.values()))
    return parameter(flag, first.hint, f"{text.rstrip('.')}.", first.setting, panel, (), hidden)


def set_by_name(words: list[str], options: Mapping[str, Any]) -> list[str]:
    """The words of a command with the option itself in place of each `--set name=value`, so that it is
    read and checked as such; the options by their names."""
    read, given = list[str](), set[str]()
    left = iter(words)
    for word in left:
        if word != "--set" and not word.startswith("--set="):
            read.append(word)
            continue
        text = next(left, "") if word == "--set" else word.removeprefix("--set=")
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set takes name=value, such as --set fall=cosine, not {text!r}")
        option = options.get(name.replace("-", "_"))
        if option is None:
            near = ", ".join(get_close_matches(name.replace("-", "_"), options, n=3, cutoff=0.5))
            hint = f"the nearest are {near}, and " if near else ""
            raise InputError(f"there is no setting {name!r}; {hint}--help-all lists all")
        if option.name in given:
            raise InputError(f"the setting {name} is given twice; give it once")
        given.add(option.name)
        if option.secondary_opts:
            if value.lower() not in ("true", "false"):
                raise InputError(f"the setting {name} is true or false, not {value!r}")
            read.append((option.opts if value.lower() == "true" else option.secondary_opts)[0])
        else:
            several = value.split(",") if option.multiple else [value]
            read += [f"{option.opts[0]}={each}" for each in several]
    return read


def free_options(
    registry: Registry[Any], taken: Collection[str]
) -> Iterator[tuple[str, dict[str, Option]]]:
    """The flags of a registry's entries; another package's flag that is taken is a warning."""
    for flag, by_name in registry.options().items():
        if flag not in taken:
            yield flag, by_name
            continue
        for name, option in by_name.items():
            warnings.warn(
                f"the option {option.dashed} of the {registry.kind} {name!r} of the package "
                f"{registry.package(name)} cannot be given: it means something else here; it needs a "
                "flag of its own",
                PluginWarning,
                stacklevel=2,
            )


def with_settings(
    settings: list[inspect.Parameter], after: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command options beside those in its signature; what was given of them are keywords."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(**given: Any) -> None:
            names = {setting.name for setting in settings}
            function(**{k: v for k, v in given.items() if k not in names or v is not None})

        own = [
            p.replace(kind=p.KEYWORD_ONLY)
            for p in inspect.signature(function, eval_str=True).parameters.values()
            if p.kind is not p.VAR_KEYWORD
        ]
        place = 1 + [p.name for p in own].index(after)
        parameters = [*own[:place], *settings, *own[place:]]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}
        return command

    return decorate
