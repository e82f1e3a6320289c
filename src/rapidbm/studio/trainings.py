"""Trainings that the studio has started: the state of each, and which pages watch it.

Each is a run in a worker of its own. What the worker sends is kept: the state, all evaluations and the
newest frame. A page that comes, or comes back, is sent what it does not have.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .messages import Header, message
from .pages import FRAME, Page
from .workers import ForkServer, Worker

ENDED = ("finished", "interrupted", "failed", "refused", "killed")
CONTROLS = ("pause", "go", "step", "stop", "rate", "pace", "replica")
SAVE_TIMEOUT = 15.0  # seconds in which trainings save when the studio ends
MAX_ENDED = 50  # trainings that have ended and are still listed
ANNOUNCED = 2.0  # seconds between two lists of trainings, where only how far they are is new
MAX_RECORDS = 10_000  # of a training that pages are sent; the folder has all


class LiveTraining:
    """A training, its worker, and what the worker has sent."""

    worker: Worker

    def __init__(
        self,
        run: str,
        answer: Callable[[Header], None],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.run = run
        self.tell = tell  # the page that started it, of settings that are compared
        self.state: Header = {"status": "starting", "update": 0}
        self.replaces: tuple[str, ...] = ()  # runs that are stopped once this one exists
        self.about: Header = {}
        self.records: list[Any] = []
        self.frame: bytes | None = None
        self.answer: Callable[[Header], None] | None = answer  # to the page that started it
        self.watchers: set[Page] = set()

    @property
    def ended(self) -> bool:
        return self.state["status"] in ENDED

    def message_for(self, page: Page) -> bytes | None:
        """State, and the records that the page does not have; None while its tab is hidden."""
        have = page.watching.get(self.run)
        if have is None or page.hidden:
            return None
        page.watching[self.run] = len(self.records)
        told = {"event": "training", "run": self.run, "from": have, "records": self.records[have:]}
        return message({**told, "state": self.state, "about": self.about if have == 0 else None})

    def send_state(self) -> None:
        for page in self.watchers:
            page.post(f"training/{self.run}", partial(self.message_for, page))

    def send_frame(self) -> None:
        if self.frame is not None:
            for page in self.watchers:
                if not page.hidden:
                    page.post(f"{FRAME}{self.run}", self.frame)

    def send_watched(self) -> None:
        """Tells the worker whether anybody wants frames."""
        if not self.ended:
            watched = any(not page.hidden for page in self.watchers)
            self.worker.send({"do": "watched", "watched": watched})

    def reply(self, answer: Header) -> None:
        """Answers the page that started it, once."""
        reply, self.answer = self.answer, None
        if reply is not None:
            reply(answer)


class Trainings:
    """All of them, the oldest first."""

    def __init__(
        self, fork_server: ForkServer, folder: str, pages: Callable[[], Iterable[Page]], max_running: int
    ) -> None:
        self.fork_server, self.folder, self.pages = fork_server, folder, pages
        self.max_running = max_running
        self.all: list[LiveTraining] = []
        self._one_ended = asyncio.Event()
        self._announced = 0.0

    def newest(self, run: str) -> LiveTraining | None:
        """The newest training of a run."""
        return next((t for t in reversed(self.all) if t.run == run), None)

    def running(self) -> list[LiveTraining]:
        return [training for training in self.all if not training.ended]

    def summaries(self) -> list[Header]:
        """Each with its state, and what is trained on what."""
        return [
            {
                "run": t.run,
                **t.state,
                "machine": t.about.get("machine"),
                "data": (t.about.get("data") or {}).get("name"),
                "negative": (t.about.get("recipe") or {}).get("negative"),
            }
            for t in self.all
            if t.run
        ]

    def start(
        self,
        asked: Header,
        answer: Callable[[Header], None],
        replaces: Sequence[str] = (),
        tell: Callable[[str], None] = lambda line: None,
    ) -> LiveTraining | None:
        """Starts or resumes a training; the answer comes when the run exists, or is refused.

        The runs that it `replaces` are stopped when it exists; if it is refused they go on.
        """
        if len([t for t in self.running() if t.run not in replaces]) >= self.max_running:
            most = f"{self.max_running} trainings run already"
            answer({"error": f"{most}; stop one, or wait for it"})
            return None
        run = str(asked.get("resume") or "")
        if run and any(t.run == run for t in self.running()):
            answer({"error": f"{run} is being trained already"})
            return None
        training = LiveTraining(run, answer, tell)
        training.replaces = tuple(replaces)
        training.worker = self.fork_server.fork(
            partial(self._on_message, training), partial(self._on_exit, training)
        )
        training.worker.send({**asked, "do": "train", "folder": self.folder})
        ended = [t for t in self.all if t.ended and not t.watchers]
        for old in ended[: max(0, len(ended) - MAX_ENDED)]:
            self.all.remove(old)
        self.all.append(training)
        return training

    def steer(self, asked: Header) -> None:
        training = self.newest(str(asked.get("run")))
        if training is not None and not training.ended and asked.get("what") in CONTROLS:
            training.worker.send({**asked, "do": asked["what"]})

    def watch(self, page: Page, runs: dict[str, int]) -> None:
        """From now on the page watches these runs, and has so many records of each."""
        page.watching = {}
        for training in self.all:
            if self.newest(training.run) is not training:
                continue
            if training.run in runs:
                page.watching[training.run] = max(0, min(runs[training.run], len(training.records)))
                training.watchers.add(page)
                page.post(f"training/{training.run}", partial(training.message_for, page))
                training.send_frame()
            else:
                training.watchers.discard(page)
            training.send_watched()

    def look(self, page: Page) -> None:
        """The page's tab was hidden, or is looked at again and is sent what it missed."""
        for training in self.all:
            if page in training.watchers:
                training.send_watched()
                if not page.hidden:
                    page.post(f"training/{training.run}", partial(training.message_for, page))
                    training.send_frame()
        if not page.hidden:
            page.send("trainings", {"event": "trainings", "trainings": self.summaries()})

    def leave(self, page: Page) -> None:
        for training in self.all:
            if page in training.watchers:
                training.watchers.discard(page)
                training.send_watched()

    def announce(self) -> None:
        """Sends all pages the list of trainings."""
        self._announced = time.monotonic()
        for page in self.pages():
            if page.hidden:
                continue  # it is sent the list when it is looked at again
            page.send("trainings", {"event": "trainings", "trainings": self.summaries()})

    # -- what workers send ------------------------------------------------------------------------

    def _on_message(self, training: LiveTraining, header: Header, whole: bytes) -> None:
        match header.pop("event", None):
            case "frame":
                training.frame = whole
                training.send_frame()
            case "record":
                if len(training.records) < MAX_RECORDS:
                    training.records.append(header["record"])
                training.send_state()
            case "search":
                training.tell(str(header.get("line")))
            case "created":
                training.run, training.records = str(header["run"]), header.pop("records")
                training.about = header
                training.state = {**training.state, "status": "running"}
                training.reply({"run": training.run})
                for old in self.running():
                    if old is not training and old.run in training.replaces:
                        old.worker.send({"do": "stop"})
                self.announce()
            case "state":
                changed = header.get("status") != training.state.get("status")
                training.state = header
                training.send_state()
                if changed or time.monotonic() - self._announced > ANNOUNCED:
                    self.announce()
            case "remark":
                for page in training.watchers:
                    page.send(f"remark/{training.run}", {"event": "remark", "text": header.get("text")})
            case "ended":
                self._end(training, header)

    def _end(self, training: LiveTraining, ending: Header) -> None:
        training.state = {**training.state, **ending}
        if training.answer is not None:
            training.reply({"error": str(ending.get("reason") or ending.get("status"))})
            self.all.remove(training)
        training.worker.close()
        training.send_state()
        self.announce()
        self._one_ended.set()

    def _on_exit(self, training: LiveTraining, reason: str) -> None:
        if not training.ended:
            self._end(training, {"status": "killed", "reason": reason})

    async def close(self) -> None:
        """Lets all of them save and end."""
        for training in self.running():
            training.worker.send({"do": "stop"})
        with suppress(TimeoutError):
            async with asyncio.timeout(SAVE_TIMEOUT):
                while self.running():
                    self._one_ended.clear()
                    await self._one_ended.wait()
