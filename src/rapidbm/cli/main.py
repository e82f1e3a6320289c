"""The command `rapidbm`. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from .terminal.console import EXIT_BAD_INPUT, EXIT_LOST, Screen

COMMANDS = {  # the modules of this folder, and what each is for, in a line
    "train": "Train a machine into a run folder.",
    "demo": "The first thing to run: RAPID on bars and stripes, in under two minutes on two cores.",
    "reproduce": "The paper's figures, tables and claims, measured anew, on one page.",
    "report": "Everything about a run, or about a reproduction, on one page that needs no network.",
    "evaluate": "Likelihood, reconstruction errors and energies of a trained machine.",
    "diagnose": "Is it glassy, does it mix, what are its minima, how good are its samples?",
    "sample": "Draw samples, as a picture, array or table: by Gibbs sampling, tempering or annealing.",
    "impute": "Fill the gaps of a table: known cells stay, missing ones are drawn given them.",
    "predict": "Predict a column of a table from the others, or the labels of images.",
    "score": "How probable each row of a table is, and which of its cells is unusual.",
    "couplings": "Which pairs of units are coupled: contacts in a family of sequences.",
    "scan": "How every single mutation of a sequence changes log p.",
    "reconstruct": "Fill in the unknown pixels of images: the paper's task is one pass with nothing "
    "held.",
    "studio": "Watch machines learn, let them dream, and look at them, on a page in the browser.",
    "runs": "List the runs below a folder: status, machine, likelihood, size.",
    "sweep": "Train a grid of settings from one file; a table and a figure with error bars.",
    "bench": "How fast this machine and this library are, beside what else is installed.",
    "datasets": "What can be trained on, and where it comes from.",
    "pack": "Write data as packed spins, eight to a byte, to train on from disk; or check such a file.",
}
HOMES = {  # commands that lie elsewhere
    "pack": ".datasets",
    "bench": "rapidbm_bench.command",
    "reproduce": "rapidbm_paper.command",
}
SHARED = ("train", "sample", "evaluate")  # by the ranks that a launcher starts
STYLE: dict[str, Any] = {"rich_markup_mode": "rich", "pretty_exceptions_enable": False}
app = typer.Typer(
    name="rapidbm",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **STYLE,
)


class Deferred(TyperCommand):
    """A command whose module is imported when the command is used: torch takes its time."""

    @cached_property
    def whole(self) -> Any:
        with Screen().gentle_warnings():  # other packages are loaded, too
            module = import_module(HOMES.get(str(self.name), f".{self.name}"), __package__)
        alone = typer.Typer(add_completion=False, **STYLE)
        function = getattr(module, str(self.name))
        kind = getattr(module, "Command", TyperCommand)
        alone.command(self.name, cls=kind, help=_flowing(function.__doc__))(function)
        return typer.main.get_command(alone)

    def make_context(self, *words: Any, **more: Any) -> Any:
        return self.whole.make_context(*words, **more)

    @property
    def params(self) -> Any:
        return self.whole.params

    @params.setter
    def params(self, none: Any) -> None:
        """They are the whole command's."""


def _flowing(text: str) -> str:
    """A docstring whose paragraphs fill the terminal's lines, but for commands on a line of their own."""
    return re.sub(r"(?<!\n)\n(?!\n|\[bold\](?:rapidbm|torchrun) )", " ", cleandoc(text))


for _name, _line in COMMANDS.items():
    app.command(_name, help=_line, cls=Deferred)(lambda: None)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Train Boltzmann machines without getting lost in a spin glass.

    See digits at once: [bold]rapidbm sample pretrained:mnist[/].

    Start with [bold]rapidbm demo[/], or with a table of your own: [bold]rapidbm train my.csv[/].
    """
    if version:
        from .. import __version__

        typer.echo(f"rapidbm {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command; bad input ends it with its message and exit code 2."""
    from .. import interrupts
    from ..errors import DiskError, InputError, LostRank

    if "OMP_WAIT_POLICY" not in os.environ:
        # Read when torch is loaded: how long its threads spin before they sleep
        # (docs/decisions/threads.md).
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    interrupts.asked = None
    interrupts.go_on_with(str)
    with ExitStack() as stack:
        try:
            if os.environ.get("WORLD_SIZE", "1") != "1":
                _join(stack)
            app(prog_name="rapidbm")
        except InputError as error:
            stopped = isinstance(error, DiskError) and error.stopped
            _fail(str(error), 1 if stopped else EXIT_BAD_INPUT)
        except LostRank as error:
            if interrupts.asked is not None:  # the others had the same signal, and were quicker
                _fail(interrupts.sentence(), 128 + interrupts.asked)
            _fail(f"{error}; {_after_loss()}", EXIT_LOST)
        except BrokenPipeError:  # the reader of our output has left
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            _fail("standard output was closed; what was finished is saved", 1)
        except OSError as error:
            _fail(f"{error}; check the path, its permissions and the space on the disk", EXIT_BAD_INPUT)
        except (MemoryError, RuntimeError) as error:
            text = str(error).splitlines()[0] if str(error) else "out of memory"
            if not isinstance(error, MemoryError) and "memory" not in text:
                raise
            _fail(f"{text}; take a smaller machine, fewer replicas or smaller batches", EXIT_BAD_INPUT)
        except KeyboardInterrupt:  # where `main` is called, and no handler of the command's is in place
            _fail(interrupts.sentence(), 130)


def _join(stack: ExitStack) -> None:
    """Joins the other processes that a launcher started; the first one speaks for all."""
    from ..accel.ranks import in_ranks
    from ..errors import InputError

    ranks = stack.enter_context(in_ranks())
    if not ranks.first:
        Screen.silent = True
        os.environ["RAPIDBM_PROGRESS"] = "off"
    named = [word for word in sys.argv[1:] if word in COMMANDS]
    if ranks.world > 1 and named and named[0] not in SHARED:
        raise InputError(
            f"rapidbm {named[0]} is the work of one process; start it without torchrun "
            f"({', '.join(SHARED)} are shared)"
        )


def _after_loss() -> str:
    from ..accel.ranks import restarts_left

    if restarts_left():
        return "all of them are started again and go on from the last checkpoint"
    return (
        "what was saved is there: go on with --resume, or have torchrun start them again (--max-restarts)"
    )


def _fail(text: str, code: int) -> NoReturn:
    if "rapidbm.accel.ranks" in sys.modules:
        from ..accel.ranks import current_ranks

        Screen.silent = not current_ranks().reports_error()  # of several that fail, the first to ask
    Screen().fail(text)
    sys.exit(code)
