"""What a worker is told and tells.

A thread reads what comes; the end of the pipe means that the server is gone or has no more use for the
worker. Then `Closed` is raised where the worker listens next, so that a training saves and leaves. One
that does not listen within `GRACE` seconds is in the middle of something long and is ended: a run goes on
from its newest checkpoint, to the same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from typing import Any, BinaryIO

from ..wire import SIZE, Header, header_of, message, piped, size_in
from .arrays import Arrays, packed

GRACE = 2.0


class Closed(Exception):
    """Nobody tells anything any more."""


class Pipe:
    """Standard input and output, of which nobody else writes to the latter from now on."""

    def __init__(self, source: BinaryIO | None = None, target: BinaryIO | None = None) -> None:
        self._source = sys.stdin.buffer if source is None else source
        if target is None:
            target = os.fdopen(os.dup(1), "wb")
            os.dup2(2, 1)  # what others print goes to standard error
        self._target = target
        self._inbox: deque[Header] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._grace = GRACE
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, header: Header, arrays: Arrays | None = None) -> None:
        payload = b""
        if arrays:
            kinds, payload = packed(arrays)
            header = {**header, "arrays": kinds}
        try:
            self._target.write(piped(message(header, payload)))
            self._target.flush()
        except OSError as error:
            raise Closed from error

    def pending(self) -> list[Header]:
        """What came since; raises `Closed` when all of it was given out and no more can come."""
        with self._change:
            found, self._inbox = list(self._inbox), deque()
            if not found and self._closed:
                raise Closed
            return found

    def wait(self, seconds: float | None = None) -> Header:
        """The next message; an empty one when none came in time."""
        with self._change:
            self._change.wait_for(lambda: self._inbox or self._closed, seconds)
            if self._inbox:
                return self._inbox.popleft()
            if self._closed:
                raise Closed
            return {}

    def _read(self) -> None:
        try:
            while prefix := self._exactly(SIZE.size):
                header = header_of(self._exactly(size_in(prefix)))
                with self._change:
                    self._inbox.append(header)
                    self._change.notify_all()
        except (OSError, ValueError):
            pass
        with self._change:
            self._closed = True
            self._change.notify_all()
        threading.Event().wait(self._grace)
        os._exit(0)

    def _exactly(self, size: int) -> bytes:
        found = self._source.read(size)
        if len(found) < size:
            raise OSError("the pipe ended")
        return found


def asked(header: Header, *names: str) -> list[Any]:
    """These entries of a message, None where they are missing."""
    return [header.get(name) for name in names]
