"""What a worker is told and tells.

A thread reads what comes; the end of the socket means that the server is gone or has no more use for the
worker. Then `Closed` is raised where the worker listens next, so that a training saves and leaves. One
that does not listen within `GRACE` seconds is in the middle of something long and is ended: a run goes on
from its newest checkpoint, to the same bits.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from typing import BinaryIO

from ..wire import SIZE, Header, header_of, message, piped, size_in
from .arrays import Arrays, packed

GRACE = 2.0


class Closed(Exception):
    """Nobody tells anything any more."""


class Pipe:
    """The worker's end of the socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._source: BinaryIO = link.makefile("rb")
        self._inbox: deque[Header] = deque()
        self._change = threading.Condition()
        self._closed = False
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, header: Header, arrays: Arrays | None = None) -> None:
        payload = b""
        if arrays:
            kinds, payload = packed(arrays)
            header = {**header, "arrays": kinds}
        try:
            self._link.sendall(piped(message(header, payload)))
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
        threading.Event().wait(GRACE)
        os._exit(0)

    def _exactly(self, size: int) -> bytes:
        found = self._source.read(size)
        if len(found) < size:
            raise OSError("the socket ended")
        return found
