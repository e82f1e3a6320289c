"""Trainings that the studio has started: where each stands, and who watches it.

Each is a run in a worker of its own. What the worker tells is kept: the state, all evaluations, and the
newest frame. A page that comes, or comes back, is told what it does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from .pages import FRAME, Page
from .wire import Header, message
from .workers import Nursery, Worker

OVER = ("finished", "interrupted", "failed", "refused", "killed")
STEERED = ("pause", "go", "step", "stop", "rate", "pace", "replica")
PATIENCE = 15.0  # seconds in which trainings save when the studio ends
KEPT = 50  # trainings that are over and still known
RECORDS = 10_000  # of a training that pages are told; the folder has all


class Training:
    """One run in the making."""

    def __init__(self, number: int, asked: Header) -> None:
        self.number = number
        self.run: str = str(asked.get("resume") or "")
        self.state: Header = {"status": "starting", "update": 0}
        self.about: Header = {}
        self.records: list[Any] = []
        self.frame: bytes | None = None
        self.answer: Callable[[Header], None] | None = None  # to whoever started it
        self.watchers: set[Page] = set()

    @property
    def over(self) -> bool:
        return self.state["status"] in OVER

    def line(self) -> Header:
        """Where it stands, for a list."""
        return {"run": self.run, **self.state}

    def news(self, page: Page) -> bytes | None:
        """State, and the records that the page does not have."""
        have = page.watching.get(self.run)
        if have is None:
            return None
        page.watching[self.run] = len(self.records)
        told = {"event": "training", "run": self.run, "from": have, "records": self.records[have:]}
        return message({**told, "state": self.state, "about": self.about if have == 0 else None})

    def publish(self) -> None:
        for page in self.watchers:
            page.post(f"training/{self.run}", lambda page=page: self.news(page))  # type: ignore[misc]

    def show(self) -> None:
        if self.frame is not None:
            for page in self.watchers:
                page.post(f"{FRAME}{self.run}", self.frame)


class Trainings:
    """All of them."""

    def __init__(
        self, nursery: Nursery, folder: str, pages: Callable[[], Iterable[Page]], most: int
    ) -> None:
        self.nursery, self.folder, self.pages, self.most = nursery, folder, pages, most
        self.all: dict[int, Training] = {}
        self._workers: dict[int, Worker] = {}
        self._numbers = count()
        self._ended = asyncio.Event()

    def of(self, run: str) -> Training | None:
        """The newest training of a run."""
        return next((t for t in reversed(self.all.values()) if t.run == run), None)

    def running(self) -> list[Training]:
        return [training for training in self.all.values() if not training.over]

    def start(self, asked: Header, answer: Callable[[Header], None]) -> None:
        """Starts one, or goes on with one; the answer comes when the run is there, or is refused."""
        if len(self.running()) >= self.most:
            return answer({"error": f"{self.most} trainings run already; stop one, or wait for it"})
        training = Training(next(self._numbers), asked)
        if training.run and any(t.run == training.run for t in self.running()):
            return answer({"error": f"{training.run} is being trained already"})
        training.answer = answer
        self.all[training.number] = training
        worker = self.nursery.worker(
            lambda header, whole: self._hear(training, header, whole),
            lambda reason: self._gone(training, reason),
        )
        self._workers[training.number] = worker
        worker.tell({**asked, "do": "train", "folder": self.folder})
        self._forget()
        return None

    def _forget(self) -> None:
        over = [number for number, t in self.all.items() if t.over and not t.watchers]
        for number in over[: max(0, len(over) - KEPT)]:
            del self.all[number]

    def steer(self, told: Header) -> None:
        training = self.of(str(told.get("run")))
        if training is not None and not training.over and told.get("what") in STEERED:
            self._workers[training.number].tell({**told, "do": told["what"]})

    def watch(self, page: Page, runs: dict[str, int]) -> None:
        """The page looks at these trainings from now on, and has so many records of each."""
        page.watching = {}
        for training in self.all.values():
            if self.of(training.run) is not training:
                continue
            if training.run in runs:
                page.watching[training.run] = max(0, min(runs[training.run], len(training.records)))
                training.watchers.add(page)
                page.post(f"training/{training.run}", lambda t=training: t.news(page))  # type: ignore[misc]
                training.show()
            else:
                training.watchers.discard(page)
            self._tell_watched(training)

    def leave(self, page: Page) -> None:
        for training in self.all.values():
            if page in training.watchers:
                training.watchers.discard(page)
                self._tell_watched(training)

    def _tell_watched(self, training: Training) -> None:
        if not training.over:
            told = {"do": "watched", "watched": bool(training.watchers)}
            self._workers[training.number].tell(told)

    def announce(self) -> None:
        """All pages are told which trainings there are."""
        lines = [training.line() for training in self.all.values() if training.run]
        for page in self.pages():
            page.tell("trainings", {"event": "trainings", "trainings": lines})

    # -- what workers tell ------------------------------------------------------------------------

    def _hear(self, training: Training, header: Header, whole: bytes) -> None:
        event = header.pop("event", None)
        if event == "frame":
            training.frame = whole
            training.show()
        elif event == "record":
            if len(training.records) < RECORDS:
                training.records.append(header["record"])
            training.publish()
        elif event == "created":
            training.run, training.records = str(header["run"]), header.pop("records")
            training.about = header
            training.state = {**training.state, "status": "running"}
            self._answer(training, {"run": training.run})
            self.announce()
        elif event == "state":
            changed = header.get("status") != training.state.get("status")
            training.state = header
            training.publish()
            if changed:
                self.announce()
        elif event == "remark":
            for page in training.watchers:
                page.tell(f"remark/{training.run}", {"event": "remark", "text": header.get("text")})
        elif event == "ended":
            self._over(training, header)

    def _over(self, training: Training, told: Header) -> None:
        training.state = {**training.state, **told}
        if training.answer is not None:
            self._answer(training, {"error": str(told.get("reason") or told.get("status"))})
            self.all.pop(training.number, None)
        self._workers[training.number].close()
        training.publish()
        self.announce()
        self._ended.set()

    def _gone(self, training: Training, reason: str) -> None:
        if not training.over:
            self._over(training, {"status": "killed", "reason": reason})
        self._workers.pop(training.number, None)

    def _answer(self, training: Training, told: Header) -> None:
        answer, training.answer = training.answer, None
        if answer is not None:
            answer(told)

    async def close(self) -> None:
        """Lets all of them save and end."""
        for training in self.running():
            self._workers[training.number].tell({"do": "stop"})
        try:
            async with asyncio.timeout(PATIENCE):
                while self.running():
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return
