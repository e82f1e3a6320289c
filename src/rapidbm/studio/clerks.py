"""A clerk: a worker that answers questions, one after the other.

The questions wait here, so that one that nobody wants any more is taken back: while it waits without a
trace, while it is answered by ending the worker. A new one then goes on with the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from .wire import Header, message
from .workers import Nursery, Worker

Hear = Callable[[Header, bytes], None]
MOST = 64  # questions that wait


@dataclass
class _Question:
    told: Header
    hear: Hear


class Clerk:
    """Whoever asks is told the answer, and on the way how far it is, as messages with the asker's own
    `page` and `id`."""

    def __init__(self, nursery: Nursery, first: Header) -> None:
        self.nursery, self.first = nursery, first
        self.worker: Worker | None = None
        self.waiting: OrderedDict[int, _Question] = OrderedDict()
        self.busy: tuple[int, _Question] | None = None
        self._numbers = count()

    def ask(self, told: Header, hear: Hear) -> int:
        """The number of the question, to take it back by."""
        number = next(self._numbers)
        question = _Question(told, hear)
        if len(self.waiting) >= MOST:
            self._fail(question, "too many questions wait; ask again later")
            return number
        self.waiting[number] = question
        self._turn()
        return number

    def take_back(self, number: int) -> None:
        self.waiting.pop(number, None)
        if self.busy is not None and self.busy[0] == number:
            self.busy = None
            if self.worker is not None:
                # What it still has to say is about a question that nobody asks.
                self.worker.hear, self.worker.gone = (lambda header, whole: None), (lambda reason: None)
                self.worker.kill()
                self.worker = None
            self._turn()

    def close(self) -> None:
        """Lets the worker go."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def open(self) -> None:
        """Has a worker ready before anybody asks."""
        if self.worker is None:
            self.worker = self.nursery.worker(self._hear, self._gone)
            self.worker.tell(self.first)

    def _turn(self) -> None:
        if self.busy is not None or not self.waiting:
            return
        self.open()
        assert self.worker is not None
        self.busy = self.waiting.popitem(last=False)
        self.worker.tell(self.busy[1].told)

    def _hear(self, header: Header, whole: bytes) -> None:
        if self.busy is None:
            return
        question = self.busy[1]
        if header.get("event") == "answer":
            self.busy = None
        question.hear(header, whole)
        self._turn()

    def _gone(self, reason: str) -> None:
        self.worker = None
        if self.busy is not None:
            question, self.busy = self.busy[1], None
            self._fail(question, f"no answer: {reason}")
        self._turn()

    def _fail(self, question: _Question, reason: str) -> None:
        head = {k: question.told.get(k) for k in ("page", "id")}
        told: Header = {"event": "answer", **head, "error": reason}
        question.hear(told, message(told))
