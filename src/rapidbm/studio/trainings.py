"""Trainings that the studio has started: where each stands, and who watches it.

Each is a run in a worker of its own. What the worker tells is kept: the state, all evaluations, and the
newest frame. A page that comes, or comes back, is told what it does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from .messages import Header, message
from .pages import FRAME, Page
from .workers import ForkServer, Worker

ENDED = ("finished", "interrupted", "failed", "refused", "killed")
CONTROLS = ("pause", "go", "step", "stop", "rate", "pace", "replica")
SAVE_TIMEOUT = 15.0  # seconds in which trainings save when the studio ends
MAX_ENDED = 50  # trainings that are over and still known
MAX_RECORDS = 10_000  # of a training that pages are told; the folder has all


class LiveTraining:
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
    def ended(self) -> bool:
        return self.state["status"] in ENDED

    def summary(self) -> Header:
        """Where it stands, for a list."""
        return {"run": self.run, **self.state}

    def message_for(self, page: Page) -> bytes | None:
        """State, and the records that the page does not have."""
        have = page.watching.get(self.run)
        if have is None:
            return None
        page.watching[self.run] = len(self.records)
        told = {"event": "training", "run": self.run, "from": have, "records": self.records[have:]}
        return message({**told, "state": self.state, "about": self.about if have == 0 else None})

    def send_state(self) -> None:
        for page in self.watchers:
            page.post(f"training/{self.run}", lambda page=page: self.message_for(page))  # type: ignore[misc]

    def send_frame(self) -> None:
        if self.frame is not None:
            for page in self.watchers:
                page.post(f"{FRAME}{self.run}", self.frame)


class Trainings:
    """All of them."""

    def __init__(
        self, fork_server: ForkServer, folder: str, pages: Callable[[], Iterable[Page]], max_running: int
    ) -> None:
        self.fork_server, self.folder, self.pages, self.max_running = (
            fork_server,
            folder,
            pages,
            max_running,
        )
        self.all: dict[int, LiveTraining] = {}
        self._workers: dict[int, Worker] = {}
        self._numbers = count()
        self._one_ended = asyncio.Event()

    def newest(self, run: str) -> LiveTraining | None:
        """The newest training of a run."""
        return next((t for t in reversed(self.all.values()) if t.run == run), None)

    def running(self) -> list[LiveTraining]:
        return [training for training in self.all.values() if not training.ended]

    def start(self, asked: Header, answer: Callable[[Header], None]) -> None:
        """Starts one, or goes on with one; the answer comes when the run is there, or is refused."""
        if len(self.running()) >= (most := self.max_running):
            return answer({"error": f"{most} trainings run already; stop one, or wait for it"})
        training = LiveTraining(next(self._numbers), asked)
        if training.run and any(t.run == training.run for t in self.running()):
            return answer({"error": f"{training.run} is being trained already"})
        training.answer = answer
        self.all[training.number] = training
        worker = self.fork_server.fork(
            lambda header, whole: self._on_message(training, header, whole),
            lambda reason: self._on_exit(training, reason),
        )
        self._workers[training.number] = worker
        worker.send({**asked, "do": "train", "folder": self.folder})
        self._forget()
        return None

    def _forget(self) -> None:
        over = [number for number, t in self.all.items() if t.ended and not t.watchers]
        for number in over[: max(0, len(over) - MAX_ENDED)]:
            del self.all[number]

    def steer(self, told: Header) -> None:
        training = self.newest(str(told.get("run")))
        if training is not None and not training.ended and told.get("what") in CONTROLS:
            self._workers[training.number].send({**told, "do": told["what"]})

    def watch(self, page: Page, runs: dict[str, int]) -> None:
        """The page looks at these trainings from now on, and has so many records of each."""
        page.watching = {}
        for training in self.all.values():
            if self.newest(training.run) is not training:
                continue
            if training.run in runs:
                page.watching[training.run] = max(0, min(runs[training.run], len(training.records)))
                training.watchers.add(page)
                page.post(f"training/{training.run}", lambda t=training: t.message_for(page))  # type: ignore[misc]
                training.send_frame()
            else:
                training.watchers.discard(page)
            self._send_watched(training)

    def leave(self, page: Page) -> None:
        for training in self.all.values():
            if page in training.watchers:
                training.watchers.discard(page)
                self._send_watched(training)

    def _send_watched(self, training: LiveTraining) -> None:
        if not training.ended:
            told = {"do": "watched", "watched": bool(training.watchers)}
            self._workers[training.number].send(told)

    def announce(self) -> None:
        """All pages are told which trainings there are."""
        lines = [training.summary() for training in self.all.values() if training.run]
        for page in self.pages():
            page.send("trainings", {"event": "trainings", "trainings": lines})

    # -- what workers tell ------------------------------------------------------------------------

    def _on_message(self, training: LiveTraining, header: Header, whole: bytes) -> None:
        event = header.pop("event", None)
        if event == "frame":
            training.frame = whole
            training.send_frame()
        elif event == "record":
            if len(training.records) < MAX_RECORDS:
                training.records.append(header["record"])
            training.send_state()
        elif event == "created":
            training.run, training.records = str(header["run"]), header.pop("records")
            training.about = header
            training.state = {**training.state, "status": "running"}
            self._answer(training, {"run": training.run})
            self.announce()
        elif event == "state":
            changed = header.get("status") != training.state.get("status")
            training.state = header
            training.send_state()
            if changed:
                self.announce()
        elif event == "remark":
            for page in training.watchers:
                page.send(f"remark/{training.run}", {"event": "remark", "text": header.get("text")})
        elif event == "ended":
            self._end(training, header)

    def _end(self, training: LiveTraining, told: Header) -> None:
        training.state = {**training.state, **told}
        if training.answer is not None:
            self._answer(training, {"error": str(told.get("reason") or told.get("status"))})
            self.all.pop(training.number, None)
        self._workers[training.number].close()
        training.send_state()
        self.announce()
        self._one_ended.set()

    def _on_exit(self, training: LiveTraining, reason: str) -> None:
        if not training.ended:
            self._end(training, {"status": "killed", "reason": reason})
        self._workers.pop(training.number, None)

    def _answer(self, training: LiveTraining, told: Header) -> None:
        answer, training.answer = training.answer, None
        if answer is not None:
            answer(told)

    async def close(self) -> None:
        """Lets all of them save and end."""
        for training in self.running():
            self._workers[training.number].send({"do": "stop"})
        try:
            async with asyncio.timeout(SAVE_TIMEOUT):
                while self.running():
                    self._one_ended.clear()
                    await self._one_ended.wait()
        except TimeoutError:
            return
