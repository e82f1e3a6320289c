"""`rapidbm sweep`."""

from __future__ import annotations

import shlex
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from .. import interrupts
from ..errors import FitWarning, InputError, check_choice
from ..runs.run import Run, Step
from ..runs.tensorboard import TensorBoard, check_installed
from ..studies.on_ray import check_installed as check_ray
from ..studies.planning import Batch
from ..studies.study import written
from ..studies.sweep import Sweep
from .terminal.console import Screen, Stopper, follow_sweep
from .terminal.options import Json, offers

ON = ("ray",)


def sweep(
    study: Annotated[Path, typer.Argument(help="A file of TOML: data, settings fixed and varied.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the sweep (default: one in runs/, by the file's name).",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every setting, list the batches and leave.")
    ] = False,
    tensorboard: Annotated[
        bool,
        typer.Option("--tensorboard", help="Write for TensorBoard into the run folder of each batch."),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            help="Where batches are trained: one after the other in this process (default), or several "
            "at once on ray: the cluster of RAY_ADDRESS, else this computer.",
            autocompletion=offers(ON),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a grid of settings from one file; a table and a figure with error bars.

    Trainings that differ in numbers alone, and the seeds of a row, run side by side as replicas. Killed
    at any moment, the same command goes on where it was; what is finished is not trained again.

    What would be trained:
    [bold]rapidbm sweep study.toml --dry-run[/]

    The same study on a cluster, to the same table:
    [bold]rapidbm sweep study.toml --on ray[/]
    """
    screen = Screen(as_json)
    if on is not None:
        check_choice("place to train on", on, ON)
        check_ray()
        if tensorboard:
            raise InputError("--tensorboard writes what this process trains; leave it or --on out")
    if tensorboard:
        check_installed()
    with screen.gentle_warnings():
        warnings.simplefilter("ignore", FitWarning)  # rows are there to be compared
        again = f"rapidbm sweep {shlex.quote(str(study))}"
        again += f" --out {shlex.quote(str(out))}" if out is not None else ""
        again += f" --on {on}" if on is not None else ""
        swept = Sweep(study, out)
        interrupts.go_on_with(lambda: again if (swept.folder / "plan.json").is_file() else "")
        left = swept.left()
        batches = len(swept.plan.batches)
        screen.say(
            f"{swept.study.name}: {_many(len(swept.plan.rows), 'row')}, "
            f"{_many(swept.study.seeds, 'seed')} each, in {_many(batches, 'batch', 'batches')}, "
            f"{batches - len(left)} finished; "
            f"{_many(sum(batch.recipe.replicas for batch in left), 'training')} to go → {swept.folder}"
        )
        for batch in swept.plan.passed_over:
            screen.say(f"batch {batch.name} belongs to no row of this study and is left alone")
        screen.say(str(swept.plan))
        for batch in swept.plan.batches:
            points = [written(point) for point in swept.plan.points_of(batch)]
            more = {"points": points, "finished": batch not in left}
            screen.result({"event": "batch", **batch.as_dict(), **more})
        if dry_run:
            swept.check()
            return
        stopper = Stopper()
        with stopper.listening(), Boards(swept.folder) as boards:
            if on == "ray":
                swept.go_on_ray(lambda line: screen.say(f"  {line}"), stopper)
            else:
                follow_sweep(swept, screen, stopper, boards if tensorboard else lambda batch, step: None)
        found = swept.table()
        over = "over trainings" if swept.study.seeds > 1 else "of the measurement, where it has one"
        screen.say(f"\n{found}\nmean ± standard error {over}")
        for row in found.as_dicts():
            screen.result({"event": "row", **row})
        state = "interrupted" if swept.left() else "finished"
        screen.result({"event": state, "out": str(swept.folder)})
        if swept.left():
            screen.say(f"interrupted; everything is saved. Go on with: {again}")
            raise typer.Exit(stopper.code)
        screen.say(f"table.csv, table.json and figure.png in {swept.folder}")


class Boards(ExitStack):
    """What TensorBoard shows of a sweep: a board for each batch, in its run folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.boards = folder, dict[str, TensorBoard]()

    def __call__(self, batch: Batch, step: Step) -> None:
        if batch.name not in self.boards:
            self.close()  # that of the batch before
            board = TensorBoard(Run(batch.folder(self.folder)))
            self.boards[batch.name] = self.enter_context(board)
        self.boards[batch.name](step)


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or f'{one}s'}"
