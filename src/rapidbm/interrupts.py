"""How SIGINT (Ctrl-C) and SIGTERM end the process of the command `rapidbm`.

    exit code = 128 + number of the signal,  130 or 143                                           (1)

Files are whole at every moment (`disk`), and a run that was cut anywhere goes on to the same bits, so
nothing has to be unwound: a signal removes temporary files, says how to go on and leaves. An exception
would be lost where another package catches all of them, and a destructor would print it as a traceback.
What can be saved first asks for a notice (`cli.terminal.console.Stopper`).

Only `__main__` installs this: a library leaves the handlers of its user alone.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM)
AGAIN = "stopped; the same command starts again"
SHOW_CURSOR = b"\x1b[?25h\n"  # a bar of progress hides it

clean_up: list[Callable[[], None]] = []  # what is called before the process ends
asked: int | None = None  # the signal that a `Stopper` took as a request
began: float | None = None  # when the command did, by the monotonic clock
_go_on: Callable[[], str] = str


def go_on_with(command: Callable[[], str]) -> None:
    """From now on this command goes on with what is done so far; "" where there is nothing yet."""
    global _go_on  # noqa: PLW0603
    _go_on = command


def sentence() -> str:
    """What is said of a stop."""
    command = ""
    with suppress(Exception):  # whatever was interrupted, this is said
        command = _go_on()
    return f"stopped; what was finished is saved. Go on with: {command}" if command else AGAIN


def install() -> None:
    """From now on a signal ends this process by eq. (1), and its forks start with Python's defaults."""
    _handle(leave)
    atexit.register(_handle, signal.SIG_IGN)  # the first one registered is called last
    if hasattr(os, "register_at_fork"):  # not on a system without forks
        os.register_at_fork(after_in_child=_restore)


def finish(code: int) -> None:
    """The command is done: a signal from now on only hastens the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or none
            stream.flush()
    _handle(lambda number, frame: os._exit(code))


def leave(number: int, frame: FrameType | None = None) -> NoReturn:
    """Ends the process, as a handler of a signal."""
    _handle(lambda again, frame: os._exit(128 + again))  # should anything here wait for somebody
    for call in clean_up:
        with suppress(Exception):
            call()
    with suppress(OSError):
        if terminal := [handle for handle in (2, 1) if os.isatty(handle)]:
            os.write(terminal[0], SHOW_CURSOR)
        if os.environ.get("RANK", "0") == "0":  # of several ranks the first one speaks
            os.write(2, f"{sentence()}\n".encode())
    os._exit(128 + number)


def _handle(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in NUMBERS:
        signal.signal(number, handler)


def _restore() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
