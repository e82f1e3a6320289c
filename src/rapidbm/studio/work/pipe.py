"""The worker's end of its socket to the server.

A thread reads messages. The socket ends when the server has exited or needs the worker no more: then the
worker's next `receive` raises `PipeClosed`, so that a training saves and exits. A worker that does not
receive within `GRACE` seconds is in a long computation and is ended; its run resumes from the newest
checkpoint, to the same bits.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from typing import BinaryIO

from ..messages import SIZE, Header, message, message_size, parse_header, with_size
from .arrays import Arrays, packed

GRACE = 2.0


class PipeClosed(Exception):
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

    def send(self, header: Header, arrays: Arrays | None = None) -> None:
        payload = b""
        if arrays:
            kinds, payload = packed(arrays)
            header = {**header, "arrays": kinds}
        try:
            self._link.sendall(with_size(message(header, payload)))
        except OSError as error:
            raise PipeClosed from error

    def receive_all(self) -> list[Header]:
        """What came since; raises `PipeClosed` when all of it was given out and no more can come."""
        with self._change:
            found, self._inbox = list(self._inbox), deque()
            if not found and self._closed:
                raise PipeClosed
            return found

    def receive(self, seconds: float | None = None) -> Header:
        """The next message; an empty one when none came in time."""
        with self._change:
            self._change.wait_for(lambda: self._inbox or self._closed, seconds)
            if self._inbox:
                return self._inbox.popleft()
            if self._closed:
                raise PipeClosed
            return {}

    def _read(self) -> None:
        try:
            while prefix := self._exactly(SIZE.size):
                header = parse_header(self._exactly(message_size(prefix)))
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
