"""`rapidbm train`: its options are the fields of a recipe, and those of the parts that a recipe names."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .. import interrupts, pictures
from ..accel.ranks import current_ranks, restarted, restarts
from ..data.catalogue import DATASETS, FILE_ENDINGS, is_file
from ..errors import InputError
from ..registry import options_of
from ..runs import auto_settings
from ..runs.baseline import Baseline
from ..runs.choices import one_or_each
from ..runs.folder import check_free
from ..runs.metrics import METRICS
from ..runs.monitor import left_out
from ..runs.presets import PRESETS, preset_for
from ..runs.recipe import ONE_OR_EACH, PARTS, SECTIONS, Recipe
from ..runs.run import Run
from ..runs.tensorboard import TensorBoard, check_installed
from ..runs.timing import OPEN, PROLONG
from .terminal.console import Screen, Stopper, follow
from .terminal.options import (
    HelpAll,
    Json,
    free_options,
    in_panel,
    of_parts,
    offers,
    parameter,
    set_by_name,
    with_settings,
)

OWN = (  # beside fields
    "preset", "dense", "out", "resume", "prolong", "tensorboard", "set", "json", "help", "help_all",
)  # fmt: skip
SHOWN = {  # by --help, with those of `train` that are not hidden
    "model", "hidden", "patterns", "replicas", "negative", "rate", "batch_size", "epochs", "budget",
    "seed", "device",
}  # fmt: skip
LABEL = "label"  # what --labels alone stands for
FLAGS = {option.name: flag for flag, option in options_of(Recipe).items()}
FIELD = {flag: name for name, flag in FLAGS.items()}


def settings() -> Iterator[inspect.Parameter]:
    """The options, in the order of the recipe's fields; then those that have no field there."""
    names, panels, panel = {f.name for f in fields(Recipe)}, {}, ""
    named: dict[str, Any] = {**PARTS, "metrics": METRICS}
    parts = {}
    for choice, registry in PARTS.items():
        taken = {*OWN, *FLAGS.values(), *names} - set(registry.own_options())
        parts[choice] = dict(free_options(registry, taken))
    together = {flag: by_name for flags in parts.values() for flag, by_name in flags.items()}
    for field in fields(Recipe):
        panel = panels[field.name] = SECTIONS.get(field.name, panel)
        if field.name in FLAGS:
            option = options_of(Recipe)[FLAGS[field.name]]
            text = option.setting.help.replace("{names}", ", ".join(named.get(field.name, ())))
            names_of = named.get(field.name, ())
            hidden = option.flag not in SHOWN
            yield parameter(option.flag, option.hint, text, option.setting, panel, names_of, hidden)
        elif field.name in together:
            yield of_parts(field.name, together[field.name], panel, hidden=True)
    for choice, flags in parts.items():
        for flag in [flag for flag in flags if flag not in names]:
            yield of_parts(flag, together[flag], panels[choice], hidden=True)


OPTIONS = list(settings())


class Command(TyperCommand):
    """What `--set` gives are options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known, args = {option.name: option for option in self.params}, with_label_named(args)
        names = {option.name: option.name for option in OPTIONS} | FLAGS
        return super().parse_args(
            ctx, set_by_name(args, {name: known[flag] for name, flag in names.items()})
        )


def with_label_named(words: list[str]) -> list[str]:
    """The words of a command, in which --labels may have nothing after it: of images."""
    named = []
    for number, word in enumerate(words):
        alone = word == "--labels" and (words[number + 1 :] or ["--"])[0].startswith("--")
        named += [word, LABEL] if alone else [word]
    return named


@with_settings(OPTIONS, after="preset")
def train(
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="A name from [bold]rapidbm datasets[/] (bars4, bas12, digits, mnist, …) or a file "
            f"{', '.join(FILE_ENDINGS)} of {{0,1}}, booleans or ±1. Not needed with --resume.",
            autocompletion=offers(name.replace("N", "12") for name in DATASETS),
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        in_panel(
            "Run",
            f"Start from named settings: {', '.join(PRESETS)}; every other option changes one of them "
            "(default: the one for the data set).",
            values=PRESETS,
        ),
    ] = None,
    dense: Annotated[
        bool, in_panel("Machine", "Ordinary couplings, every one a parameter.", "--dense")
    ] = False,
    out: Annotated[
        Path | None, in_panel("Run", "The run folder (default: a new one under runs/).")
    ] = None,
    resume: Annotated[
        bool,
        in_panel(
            "Run",
            "Go on with the run in --out where it stopped; a larger --epochs prolongs it.",
            "--resume",
        ),
    ] = False,
    prolong: Annotated[
        str | None,
        in_panel(
            "Run",
            "With --resume and a larger --epochs, a rate that falls to zero falls as planned and then "
            "again, from the full rate over the added epochs (default), or is a stretch: from there on "
            "that of a fall over all epochs.",
            values=PROLONG,
            hidden=True,
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        in_panel(
            "Run",
            "Write scalars, histograms and pictures of every evaluation for TensorBoard into the run "
            "folder, under tensorboard/.",
            "--tensorboard",
            hidden=True,
        ),
    ] = False,
    by_name: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting, by the name that --help-all or a study has; repeatable.",
            autocompletion=offers(f"{option.name}=" for option in OPTIONS),
            show_default=False,
        ),
    ] = None,
    all_options: HelpAll = False,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Train a machine into a run folder.

    The paper's 4×4 bars, 100 trainings at once:
    [bold]rapidbm train bars4 --replicas 100[/]

    A table or images of your own, settings by trials, judged by a tenth held out:
    [bold]rapidbm train my.csv --budget 10m[/]

    The same for so many epochs, with settings of your own and no trials:
    [bold]rapidbm train my.npy --dense --hidden 200 --epochs 100[/]

    The best likelihood of MNIST (minutes on a GPU):
    [bold]rapidbm train mnist-static --preset mnist-long --set valid=0[/]

    Go on after an interruption, to the same bits:
    [bold]rapidbm train --resume --out R[/]

    Train a finished run for longer:
    [bold]rapidbm train --resume --out R --epochs 100[/]

    By four processes, which are started again when one is lost:
    [bold]torchrun --nproc-per-node 4 --max-restarts 3 -m rapidbm train mnist --out R[/]
    """
    screen, chosen, ranks = Screen(as_json), chosen_settings(given, dense), current_ranks()
    if resume and out is None:
        raise InputError("--resume needs the run folder to go on with; give --out")
    if dataset is None and not resume:
        raise InputError("train needs a data set; `rapidbm datasets` lists them")
    if restarts() and out is None:
        raise InputError("a run that may be started again must be found again; give --out")
    resume = resume or restarted()
    if tensorboard:
        check_installed()
    if out is not None:
        interrupts.go_on_with(lambda: _again(out) if (out / "run.json").is_file() else "")
    with screen.gentle_warnings():
        there = out is not None and ranks.broadcast((out / "run.json").is_file)
        if resume and out is not None and (dataset is None or there):
            run = _resumed(out, dataset, preset, chosen, prolong, screen)
        else:
            if prolong is not None:
                raise InputError("--prolong goes with --resume and --epochs; leave it out")
            assert dataset is not None
            run = _begun(out, dataset, preset, chosen, screen)
        interrupts.go_on_with(lambda: _again(run.folder))
        screen.say(describe(run))
        if told := run.info["data"].get("weighted"):
            screen.say(f"{told}; the gradient, starts of biases and log p are by these weights")
        stopper = Stopper()
        tensorboard = tensorboard and ranks.first
        board = TensorBoard(run) if tensorboard else nullcontext(lambda step: None)
        if tensorboard:
            screen.say(f"see it with: tensorboard --logdir {shlex.quote(str(run.folder))}")
        with stopper.listening(), board as watcher:
            follow(run, screen, stopper, watcher)
        if ranks.first:
            _finish(run, screen)
        if run.status == "interrupted":
            raise typer.Exit(stopper.code)


def chosen_settings(given: dict[str, Any], dense: bool) -> dict[str, Any]:
    """The options as fields of a recipe, or as options of its parts."""
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    chosen = {FIELD.get(flag, flag): value for flag, value in lists.items()}
    chosen |= {name: one_or_each(chosen[name]) for name in ONE_OR_EACH if name in chosen}
    if chosen.get("hidden") == (0,):
        chosen["hidden"] = ()
    if dense:
        if "patterns" in chosen:
            raise InputError("couplings are dense or built from patterns: give --dense or --patterns")
        chosen["patterns"] = None
    return chosen


def _begun(
    out: Path | None, dataset: str, preset: str | None, chosen: dict[str, Any], screen: Screen
) -> Run:
    found: list[str] = []
    starts: list[Baseline | None] = []  # on the first rank

    def hear(line: str) -> None:
        found.append(line)
        screen.say(line)

    def by_trials() -> dict[str, Any]:
        made = auto_settings.find_settings(recipe, chosen, tell=hear, began=interrupts.began)
        starts.append(made.start)
        return made.recipe.as_dict()

    ranks = current_ranks()
    name = preset or preset_for(dataset, chosen, trying=auto_settings.is_default_for(chosen))
    chosen = {"shards": ranks.world, **chosen}
    recipe = Recipe.made(dataset, chosen, name)
    if out is not None:
        ranks.broadcast(lambda: check_free(out))
    if name == "auto":
        recipe = Recipe.from_dict(ranks.broadcast(by_trials))
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = out or Path("runs") / f"{Path(dataset).stem}-{recipe.negative}-{stamp}"
    start = starts[0] if starts else None
    run = Run.create(folder, recipe, name, renamed=out is None, start=start)
    if name == "auto":
        run.note("auto", {"budget": chosen.get("budget"), "found": found})
    if preset is None:
        screen.say(f"settings: preset {name}, the one for {dataset} (see --preset)")
    return run


def _resumed(
    out: Path,
    dataset: str | None,
    preset: str | None,
    chosen: dict[str, Any],
    prolong: str | None,
    screen: Screen,
) -> Run:
    """The run in a folder, made longer if that is asked for; a command for another run is refused."""
    named = dataset if dataset and is_file(dataset) else None
    run = Run(out, named)
    _check_same(run, None if named else dataset, preset, chosen)
    epochs = chosen.get("epochs", run.recipe.epochs)
    budget = chosen.get("budget", run.recipe.budget)
    if budget == run.info.get("auto", {}).get("budget"):
        budget = run.recipe.budget  # as it was asked for, the trials with it
    if budget != run.recipe.budget:
        if "epochs" in chosen:
            raise InputError("a run is made longer by --epochs or by --budget; give one of them")
        screen.say(run.prolong(rate=prolong, budget=budget))
    elif epochs != run.recipe.epochs:
        screen.say(run.prolong(epochs, prolong))
    elif prolong is not None:
        raise InputError(
            f"--prolong goes with an --epochs above the {run.recipe.epochs} of {out}; give one, or "
            "leave it out"
        )
    return run


def _check_same(run: Run, dataset: str | None, preset: str | None, chosen: dict[str, Any]) -> None:
    wanted = chosen if dataset is None else {**chosen, "dataset": dataset}
    if preset is not None:
        wanted = _flat(Recipe.made(dataset or run.recipe.dataset, chosen, preset))
    saved = _flat(run.recipe)
    free = {"epochs", "falls", "budget", "rate_changes"}  # they tell of a run made longer, or steered
    free |= {"shards"} - set(chosen)  # as many as there are processes, where nobody says
    told = [
        f"{k} is {saved.get(k)!r} there, {v!r} here"
        for k, v in wanted.items()
        if k not in free and saved.get(k) != v
    ]
    if told:
        raise InputError(
            f"a resumed run keeps its settings, but {'; '.join(told)}; leave the options out, or "
            "train into another folder"
        )


def _flat(recipe: Recipe) -> dict[str, Any]:
    """All settings side by side."""
    return {**recipe.as_dict(), **recipe.options, "options": {}}


def describe(run: Run) -> str:
    """One line on what is being trained."""
    recipe, data = run.recipe, run.info["data"]
    shape = "×".join(map(str, (data["shape"][0] * data["shape"][1], *recipe.hidden)))
    kind = f"K={recipe.patterns} patterns" if recipe.patterns else "dense couplings"
    sweeps = "" if recipe.sweeps is None else f"-{recipe.sweeps}"
    long = f"{recipe.epochs:,} epoch{'s' if recipe.epochs > 1 else ''}"
    if recipe.budget is not None:
        long = f"{recipe.budget}, " + ("epochs to fit" if recipe.epochs >= OPEN else f"at most {long}")
    third = f", {data['valid']:,} to validate (measured, not trained on)" if "valid" in data else ""
    rows = "rows" if data["shape"][0] == 1 else "images"
    return (
        f"{data['name']}: {data['train']:,} {rows} to train, {data['test']:,} to test{third}; "
        f"{recipe.model} {shape}, {kind}, {recipe.negative}{sweeps}, "
        f"{recipe.replicas} replica{'s' if recipe.replicas > 1 else ''}, "
        f"{_shards(recipe)}{long} → {run.folder}"
    )


def _shards(recipe: Recipe) -> str:
    world = current_ranks().world
    if recipe.shards == world == 1:
        return ""
    many = f"{world} process{'es' if world > 1 else ''}"
    return f"{recipe.shards} shards of its {recipe.shard_by} in {many}, "


def _again(folder: Path) -> str:
    """The command that goes on with a run."""
    return f"rapidbm train --resume --out {shlex.quote(str(folder))}"


def _finish(run: Run, screen: Screen) -> None:
    info = run.info
    told = {key: info[key] for key in ("update", "updates", "seconds")}
    screen.result({"event": run.status, "out": str(run.folder), **told})
    if run.status == "interrupted":
        screen.say(
            f"interrupted at update {info['update']} of {info['updates']}; everything is saved. Go on "
            f"with: {_again(run.folder)}"
        )
        return
    words = f"{run.status}: {info['seconds']:.1f} s of training"
    if "stopped" in info:
        words += f"; stopped {info['stopped']}"
    if run.best.is_file():
        words += f"; {run.where('best')[1]}, is what other commands take"
    if records := run.metrics():
        fig = pictures.curve_figure(records, info["data"]["name"])
        try:
            words += f"; curves in {pictures.save(fig, run.figures / 'curves.png')}"
        except (InputError, OSError) as error:  # the training is over and saved
            words += f"; the curves were not drawn: {error}: rapidbm report draws them, too"
    screen.say(words)
    if skipped := left_out(info.get("looks", {})):
        screen.say(skipped)
