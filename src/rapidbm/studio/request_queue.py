"""A queue of questions for one worker, which answers them one after the other.

The questions wait here, so that each can be cancelled: one that waits is dropped, and one that is being
answered ends with its worker. A new worker then goes on with the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from .messages import Header, message
from .workers import ForkServer, Worker

OnMessage = Callable[[Header, bytes], None]
MAX_WAITING = 64  # questions


@dataclass(eq=False)
class Question:
    """What is asked, and who hears the answer."""

    asked: Header
    on_message: OnMessage

    def fail(self, reason: str) -> None:
        """Answers it by an error."""
        answer = {"event": "answer", "page": self.asked.get("page"), "id": self.asked.get("id")}
        answer["error"] = reason
        self.on_message(answer, message(answer))


def _ignore(*_: object) -> None:
    """For what a worker that is being killed still sends."""


class RequestQueue:
    """Sends questions to a worker; each answer, and progress before it, has the question's `page` and
    `id`."""

    def __init__(self, fork_server: ForkServer, first_message: Header) -> None:
        self.fork_server, self.first_message = fork_server, first_message
        self.worker: Worker | None = None
        self.waiting: deque[Question] = deque()
        self.busy: Question | None = None

    def ask(self, asked: Header, on_message: OnMessage) -> Question:
        """The question, for `cancel`."""
        question = Question(asked, on_message)
        if len(self.waiting) >= MAX_WAITING:
            question.fail("too many questions wait; ask again later")
        else:
            self.waiting.append(question)
            self._next()
        return question

    def cancel(self, question: Question) -> None:
        with suppress(ValueError):
            self.waiting.remove(question)
        if self.busy is question:
            self.busy = None
            if self.worker is not None:
                self.worker.on_message = self.worker.on_exit = _ignore
                self.worker.kill()
                self.worker = None
            self._next()

    def close(self) -> None:
        """Lets the worker exit; what nobody waits for any more is not answered."""
        self.waiting.clear()
        if self.busy is not None:
            self.cancel(self.busy)
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def open(self) -> None:
        """Has a worker ready before anybody asks."""
        if self.worker is None:
            self.worker = self.fork_server.fork(self._on_message, self._on_exit)
            self.worker.send(self.first_message)

    def _next(self) -> None:
        if self.busy is None and self.waiting:
            self.open()
            assert self.worker is not None
            self.busy = self.waiting.popleft()
            self.worker.send(self.busy.asked)

    def _on_message(self, header: Header, whole: bytes) -> None:
        question = self.busy
        if question is None:
            return
        if header.get("event") == "answer":
            self.busy = None
        question.on_message(header, whole)
        self._next()

    def _on_exit(self, reason: str) -> None:
        self.worker = None
        question, self.busy = self.busy, None
        if question is not None:
            question.fail(f"no answer: {reason}")
        self._next()
