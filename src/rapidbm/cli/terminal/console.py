"""What the command shows: a progress bar on a terminal, plain lines elsewhere, JSON for machines."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from rich.markup import escape

from ... import interrupts
from ...display import MEASURED, short, spread
from ...errors import DataWarning, FitWarning, LoadWarning, LossWarning, PluginWarning, printable
from ...progress import Watch, quiet, watch
from .telling import ASIDE, Telling

if TYPE_CHECKING:
    from ...runs.run import Run, Step
    from ...runs.trained import Trained
    from ...studies.planning import Batch
    from ...studies.sweep import Sweep

EXIT_BAD_INPUT = 2
EXIT_LOST = 3  # another rank was


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would leave without a word


class Screen:
    """Where the command writes: what it did to standard output, warnings and errors to the other. Of
    several ranks the first one does."""

    silent: ClassVar[bool] = False  # in another rank

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        quiet = self.silent
        self.out = _Console(highlight=False, soft_wrap=True, emoji=False, quiet=quiet)
        self.err = _Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, quiet=quiet)

    def say(self, text: str) -> None:
        """A line for people."""
        if not self.as_json:
            self.out.print(escape(printable(text)))

    def warn(self, text: str) -> None:
        self.err.print(f"[yellow]warning:[/] {escape(printable(text))}")

    def fail(self, text: str) -> None:
        self.err.print(f"[red]error:[/] {escape(printable(text))}")

    def result(self, value: dict[str, Any]) -> None:
        """A line for machines."""
        if self.as_json and not self.silent:
            sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def track(self, steps: range) -> Iterable[int]:
        """The steps, with what they come to and how long they will take."""
        with self.watching("steps", len(steps)) as tick:
            for step in steps:
                yield step
                tick()

    def bar(self, *columns: Any) -> Any:
        """A bar of progress on a terminal, with these columns after it."""
        from rich.progress import BarColumn, Progress, TextColumn

        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *columns,
            console=self.out,
            disable=self.as_json or self.silent or not self.out.is_terminal,
            transient=True,
        )

    @contextmanager
    def watching(
        self, what: str, total: float | None = None, *, limit: float | None = None
    ) -> Iterator[Watch]:
        """A watch over what runs inside; for machines it says nothing."""
        with quiet(self.as_json), watch(what, total, limit=limit) as tick:
            yield tick

    @contextmanager
    def gentle_warnings(self) -> Iterator[None]:
        """Warnings as one readable line."""
        with warnings.catch_warnings():
            for kind in (DataWarning, FitWarning, LoadWarning, LossWarning, PluginWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = lambda message, *_, **__: self.warn(str(message))
            yield


class Stopper:
    """Turns the first Ctrl-C or SIGTERM into a request to stop; a second one does what it would have done
    without this: it ends the command at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def code(self) -> int:
        """The exit code of what was stopped."""
        return 128 + (self.signal or signal.SIGINT)

    @contextmanager
    def listening(self) -> Iterator[Stopper]:
        def heard(number: int, frame: object) -> None:
            if self.signal is None:
                self.signal = interrupts.asked = number
                return
            signal.signal(number, old[number])
            signal.raise_signal(number)

        old: dict[int, Any] = {each: signal.getsignal(each) for each in interrupts.NUMBERS}
        for number in old:
            signal.signal(number, heard)
        try:
            yield self
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


def others(run: Trained) -> dict[str, str]:
    """What machines are told of data that are not the run's own."""
    return {} if run.other is None else {"other_data": run.other_name}


def tell_notes(run: Trained, screen: Screen) -> None:
    """Says on what was measured, where that are not the run's own data."""
    for note in run.notes if run.other is not None else ():
        screen.say(f"  {note}")


def meaning(replicas: int) -> str:
    """What `spread` writes, in words."""
    if replicas > 1:
        return f"mean ± standard deviation over {replicas} replicas"
    return "one replica" if replicas else "no replica is left"


def with_error(values: Sequence[float | None], errors: Sequence[float | None]) -> str:
    """A value ± its standard error; over replicas `spread`, and the largest error."""
    known = [e for e in errors if e is not None]
    if not known:
        return "not known"
    if len(values) > 1:
        return f"{spread(values)} (error {short(max(known))})"
    value = values[0]
    digits = 3 if max(known) < 0.005 else 2
    return "not known" if value is None else f"{value:.{digits}f} ± {short(known[0])}"


def record_line(record: dict[str, Any]) -> str:
    """An evaluation in one line."""
    told: dict[str, list[str]] = {}  # a metric: its value, or one for each part of the data
    for key, values in record.items():
        name, _, part = key.rpartition("_")
        split = part in ("train", "test", "valid")
        if key in ASIDE or (split and name.endswith("_error")):
            continue
        error = record.get(f"{name}_error_{part}")
        words = spread(values) if error is None else with_error(values, error)
        told.setdefault(MEASURED.get(name, name) if split else key, []).append(
            f"{part} {words}" if split else words
        )
    return f"epoch {record['epoch']:>4}  " + "; ".join(
        f"{name} {', '.join(words)}" for name, words in told.items()
    )


def follow(
    run: Run, screen: Screen, stopper: Stopper, watcher: Callable[[Step], None] = lambda step: None
) -> None:
    """Trains a run and shows how it goes, to a `watcher` as well: a line when something has changed
    (`telling.py`), and for machines one for each evaluation."""
    bar = _updates(screen)
    frozen: set[int] = set()
    telling, told, untold = Telling(), "", ""  # lines
    if run.recipe.replicas > 1:
        screen.say(f"values are {meaning(run.recipe.replicas)}")
    with bar, quiet(screen.as_json or not bar.disable):
        task = bar.add_task(printable(run.info["data"]["name"]), total=None)
        for step in run.go(stopper):
            bar.update(task, completed=step.update, total=step.updates)
            watcher(step)
            record = step.record
            news = record is None or telling.worth(record)
            _tell(step, screen, frozen, aloud=news)
            if record is not None:
                shown = record_line(record)
                untold, told = ("", shown) if news or shown == told else (shown, told)
                if words := telling.levelled(record):
                    screen.say(words)
    if untold:
        screen.say(untold)


def follow_sweep(
    sweep: Sweep,
    screen: Screen,
    stopper: Stopper,
    watcher: Callable[[Batch, Step], None] = lambda batch, step: None,
) -> None:
    """Trains what is left of a sweep and shows how far it is: values of different settings side by side
    have no mean worth showing."""
    bar, now, number, left = _updates(screen), "", 0, len(sweep.left())
    frozen: set[int] = set()
    with bar, quiet(screen.as_json or not bar.disable):
        task = bar.add_task("", total=None)
        for batch, step in sweep.go(stopper):
            if batch.name != now:
                now, number = batch.name, number + 1
                frozen.clear()
                many = batch.recipe.replicas
                words = f"batch {now}, {number} of {left}: {many} training{'s' if many > 1 else ''}"
                screen.say(words)
                bar.reset(task, description=words)
            bar.update(task, completed=step.update, total=step.updates)
            watcher(batch, step)
            _tell(replace(step, record=None), screen, frozen)
            if step.record is not None:
                screen.result({"event": "evaluation", "batch": now, **step.record})


def _updates(screen: Screen) -> Any:
    """A bar of updates."""
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = (TextColumn("update"), MofNCompleteColumn())
    return screen.bar(*counts, TimeElapsedColumn(), TimeRemainingColumn())


def _tell(step: Step, screen: Screen, frozen: set[int], *, aloud: bool = True) -> None:
    new = [i for i in step.diverged if i not in frozen]
    if new:
        frozen.update(new)
        told = "; ".join(str(x) for x in step.progress.trainer.divergences() if x.replica in new)
        screen.warn(
            f"{told}. It stays as it was before, and others go on; a smaller --rate, or a projection "
            "(--projection clip), may help"
        )
    if step.record is not None:
        if aloud or step.back:
            screen.say(record_line(step.record))
        if step.back:
            screen.warn(step.back)
        screen.result({"event": "evaluation", **step.record})
