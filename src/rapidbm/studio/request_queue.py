"""A queue of questions for a worker that answers them questions, one after the other.

The questions wait here, so that one that nobody wants any more is taken back: while it waits without a
trace, while it is answered by ending the worker. A new one then goes on with the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from .messages import Header, message
from .workers import ForkServer, Worker

OnMessage = Callable[[Header, bytes], None]
MAX_WAITING = 64  # questions that wait


@dataclass
class _Request:
    message: Header
    on_message: OnMessage


def _ignore(*_: object) -> None:
    """For what a worker that is being killed still sends."""


class RequestQueue:
    """Whoever asks is told the answer, and on the way how far it is, as messages with the asker's own
    `page` and `id`."""

    def __init__(self, fork_server: ForkServer, first_message: Header) -> None:
        self.fork_server, self.first_message = fork_server, first_message
        self.worker: Worker | None = None
        self.waiting: OrderedDict[int, _Request] = OrderedDict()
        self.busy: tuple[int, _Request] | None = None
        self._numbers = count()

    def ask(self, told: Header, on_message: OnMessage) -> int:
        """The number of the question, to take it back by."""
        number = next(self._numbers)
        question = _Request(told, on_message)
        if len(self.waiting) >= MAX_WAITING:
            self._fail(question, "too many questions wait; ask again later")
            return number
        self.waiting[number] = question
        self._next()
        return number

    def cancel(self, number: int) -> None:
        self.waiting.pop(number, None)
        if self.busy is not None and self.busy[0] == number:
            self.busy = None
            if self.worker is not None:
                # What it still has to say is about a question that nobody asks.
                self.worker.on_message, self.worker.on_exit = _ignore, _ignore
                self.worker.kill()
                self.worker = None
            self._next()

    def close(self) -> None:
        """Lets the worker go."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def open(self) -> None:
        """Has a worker ready before anybody asks."""
        if self.worker is None:
            self.worker = self.fork_server.fork(self._on_message, self._on_exit)
            self.worker.send(self.first_message)

    def _next(self) -> None:
        if self.busy is not None or not self.waiting:
            return
        self.open()
        assert self.worker is not None
        self.busy = self.waiting.popitem(last=False)
        self.worker.send(self.busy[1].message)

    def _on_message(self, header: Header, whole: bytes) -> None:
        if self.busy is None:
            return
        question = self.busy[1]
        if header.get("event") == "answer":
            self.busy = None
        question.on_message(header, whole)
        self._next()

    def _on_exit(self, reason: str) -> None:
        self.worker = None
        if self.busy is not None:
            question, self.busy = self.busy[1], None
            self._fail(question, f"no answer: {reason}")
        self._next()

    def _fail(self, question: _Request, reason: str) -> None:
        head = {k: question.message.get(k) for k in ("page", "id")}
        told: Header = {"event": "answer", **head, "error": reason}
        question.on_message(told, message(told))
