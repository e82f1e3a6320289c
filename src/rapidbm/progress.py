"""How far a long call has come, how long it will still take, and where it must stop.

    left ≈ elapsed · (1 − f) / f,        f = (done + f_inner) / total                             (1)

with f_inner the share of a watch within this one; what is told is that of the outermost watch with a
total. Nothing is shown for the first seconds; then a bar on a terminal or in a notebook's cell, elsewhere
a line now and then, on standard error. A tick reads the clock and compares: it draws nothing, touches no
device, and may stand in any loop of the host.

    with watch("annealing log Z", total=len(betas), limit=limit) as tick:
        for beta in betas:
            ...
            tick()
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import Any, ParamSpec, TypeVar

from .errors import InputError, TimeLimit, is_number

SILENT = 3.0  # seconds before anything is shown
LINES = 10.0  # seconds between two lines
FRAMES = 0.2  # seconds between two states of a bar
CELL_FRAMES = 0.5  # of one in a notebook, each of which is a message to a browser
SWITCH = "RAPIDBM_PROGRESS"  # this environment variable at "off": never a word

P = ParamSpec("P")
T = TypeVar("T")
clock = time.monotonic


Tell = Callable[[str, float | None], None]  # a line, and the share that is done where that is known


class _Here(threading.local):
    """The innermost watch of this thread, how many ask for silence, and who is told instead of shown."""

    watch: Watch | None = None
    quiet: int = 0
    tell: Tell | None = None


_here = _Here()


@contextmanager
def watch(
    what: str,
    total: float | None = None,
    *,
    limit: float | None = None,
    remedy: str = "ask for less work",
) -> Iterator[Watch]:
    """A `Watch` over the calls inside; after `limit` seconds the next tick raises `TimeLimit`.

    Watches nest: the outermost one is shown, with the inner ones behind it, and a limit holds for all
    that runs within it. Not for a generator that yields inside: it may never come back.
    """
    check_limit(limit)
    outer = _here.watch
    mine = _here.watch = Watch(what, total, limit, remedy, outer)
    try:
        yield mine
    finally:
        _here.watch = outer
        mine.close()


def watched(
    what: str, *, remedy: str = "ask for less work"
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function with the keyword `limit`: all that it does is watched."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def run(*given: P.args, **named: P.kwargs) -> T:
            limit: Any = named.get("limit")
            with watch(what, limit=limit, remedy=remedy):
                return function(*given, **named)

        return run

    return decorate


def report_progress() -> None:
    """For a loop that counts for nobody: obeys the limits of the watches around it."""
    if _here.watch is not None:
        _here.watch.look()


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """No progress is shown for calls inside; limits still hold."""
    _here.quiet += wanted
    try:
        yield
    finally:
        _here.quiet -= wanted


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """How far calls inside are is told to a function, about five times a second, and shown nowhere."""
    before, _here.tell = _here.tell, tell
    try:
        yield
    finally:
        _here.tell = before


def check_limit(limit: float | None) -> None:
    if limit is not None and not (is_number(limit) and limit > 0) and limit != math.inf:
        raise InputError(f"a limit is a positive number of seconds, or None, not {limit!r}")


class Watch:
    """What runs, how far it is, and when to look up next. Call it with what is done by now, or with
    nothing for one more."""

    def __init__(
        self, what: str, total: float | None, limit: float | None, remedy: str, outer: Watch | None
    ) -> None:
        self.what, self.total, self.remedy, self.limit = what, total, remedy, limit
        self.done = 0.0
        self.started = clock()
        self.deadline = self.started + (math.inf if limit is None else limit)
        self.chain: tuple[Watch, ...] = (*(outer.chain if outer else ()), self)  # outermost first
        self.display: _Display | None = None
        off = _here.tell is None and os.environ.get(SWITCH, "").lower() in ("off", "0", "no")
        silent = bool(_here.quiet) or off
        later = SILENT if _here.tell is None else FRAMES
        self.show_at = math.inf if silent else self.started + later  # read of the outermost alone
        self.due = self._due()

    def __call__(self, done: float | None = None) -> None:
        self.done = self.done + 1 if done is None else done
        self.look()

    def add(self, more: float) -> None:
        """So many more are done."""
        self.done += more
        self.look()

    def look(self) -> None:
        """Obeys the limits, shows what is due."""
        if (now := clock()) < self.due:
            return
        for each in self.chain:
            if now >= each.deadline:
                raise each.over(self, now)
        outermost = self.chain[0]
        if now >= outermost.show_at:
            outermost.display = outermost.display or _display(now - outermost.started)
            outermost.display.show(self, now)
            outermost.show_at = now + outermost.display.interval
        self.due = self._due()

    def foresee(self) -> None:
        """Raises already where eq. (1) says that a limit will be passed twice over."""
        now = clock()
        for each in self.chain:
            share = self.share(each)
            if share and each.limit and (now - each.started) / share > 2.0 * each.limit:
                raise each.over(self, now)

    def _due(self) -> float:
        return min(self.chain[0].show_at, *(each.deadline for each in self.chain))

    def whole(self) -> float | None:
        """The share that is told."""
        return self.share(self.measured(self.chain[0]))

    def share(self, since: Watch) -> float | None:
        """f of eq. (1), of a watch around this one or of itself."""
        inner: float | None = None
        for each in reversed(self.chain[self.chain.index(since) :]):
            if each.total:  # one without a total is as far as what runs within it
                inner = min(1.0, (each.done + (inner or 0.0)) / each.total)
        return inner

    def over(self, inner: Watch, now: float) -> TimeLimit:
        """The error when the limit has passed."""
        found = inner.measured(since=self)
        done = f"{found.count()} after {duration(now - found.started)}"
        done = done if found is self else f"{found.what}: {done}"
        share = inner.share(found)
        whole = (
            f"{'the whole' if found is self else 'that alone'} would take about "
            f"{duration((now - found.started) / share)}"
            if share
            else "too early to tell how long the whole would take"
        )
        return TimeLimit(
            f"{self.what} stopped at its limit of {duration(self.limit or 0.0)}: {done}, {whole}; give "
            f"a larger limit=, or {self.remedy}"
        )

    def measured(self, since: Watch) -> Watch:
        """The outermost watch with a total, from `since` inwards, or else that one."""
        within = self.chain[self.chain.index(since) :]
        return next((each for each in within if each.total), since)

    def left(self, now: float) -> str:
        """Eq. (1) in words."""
        found = self.measured(self.chain[0])
        share = self.share(found)
        return f"about {duration((now - found.started) * (1 - share) / share)} left" if share else ""

    def count(self) -> str:
        done = f"{self.done:,.0f}"
        return f"{done} of {self.total:,.0f} done" if self.total else f"{done} done"

    def text(self) -> str:
        """What runs, from the outermost watch inwards."""
        return "; ".join(
            f"{each.what}: {each.count()}" if each.total or each.done else each.what
            for each in self.chain
        )

    def line(self, now: float) -> str:
        """All that can be said."""
        left = self.left(now)
        left = f", {left}" if left else ""
        return f"{self.text()}, {duration(now - self.chain[0].started)} so far{left}"

    def close(self) -> None:
        if self.display is not None:
            self.display.close()


def duration(seconds: float) -> str:
    """A length of time in words."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


@dataclass(frozen=True)
class _Display:
    """What shows how far the innermost watch is, every so many seconds, and takes that away."""

    interval: float
    show: Callable[[Watch, float], object]
    close: Callable[[], object] = lambda: None


def _write_line(inner: Watch, now: float) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error may be closed, or none
        sys.stderr.write(f"{inner.line(now)}\n")
        sys.stderr.flush()


def _bar(rich: Any, console: Any, spent: float) -> _Display:
    """A bar of rich's for a call that has taken so many seconds; it goes when the watch ends."""
    bar = rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[left]}", markup=False),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=None, left="")
    bar.tasks[0].start_time = bar.get_time() - spent
    bar.start()

    def show(inner: Watch, now: float) -> None:
        share = inner.whole()
        total = None if share is None else 1.0
        done = share or 0.0
        bar.update(task, description=inner.text(), total=total, completed=done, left=inner.left(now))

    return _Display(FRAMES, show, bar.stop)


def _cell(display: Any) -> _Display:
    """A bar below a notebook's cell, which goes when the watch ends."""

    def bundle(line: str, share: float | None) -> dict[str, str]:
        value = "" if share is None else f' value="{share:.4f}"'  # without one it moves to and fro
        bar = f'<progress max="1"{value}></progress>'
        return {"text/html": f"<div>{bar} {escape(line)}</div>", "text/plain": line}

    handle = display(bundle("", None), raw=True, display_id=True)
    return _Display(
        CELL_FRAMES,
        lambda inner, now: handle.update(bundle(inner.line(now), inner.whole()), raw=True),
        lambda: handle.update({"text/html": "", "text/plain": ""}, raw=True),
    )


def _notebook() -> Any:
    """How a notebook shows things; None where there is no notebook."""
    if "ipykernel" not in sys.modules:
        return None
    with suppress(ImportError):
        from IPython import get_ipython
        from IPython.display import display

        return display if getattr(get_ipython(), "kernel", None) is not None else None
    return None


def _display(spent: float) -> _Display:
    """A bar where a person looks, lines elsewhere; a function where one asked to be told."""
    if (tell := _here.tell) is not None:
        return _Display(FRAMES, lambda inner, now: tell(inner.line(now), inner.whole()))
    if threading.current_thread() is not threading.main_thread():
        return _Display(LINES, _write_line)
    if display := _notebook():
        return _cell(display)
    terminal = False
    with suppress(OSError, ValueError, AttributeError):
        terminal = sys.stderr.isatty()
    if terminal:
        with suppress(ImportError):
            from rich import console, progress

            return _bar(progress, console.Console(stderr=True), spent)
    return _Display(LINES, _write_line)
