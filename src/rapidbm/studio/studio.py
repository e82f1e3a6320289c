"""The studio: its workers, its trainings, the open pages, and which worker answers which question.

A page sends JSON: `{"id": 7, "ask": …}` wants an answer, `{"do": …}` does not. Nothing here loads torch:
the server starts at once, and everything that computes is a process of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ..disk import parse_json
from ..schema import Anything, Flag, Maybe, Names, Text, Whole
from .messages import CHANGES, QUERIES, TABLE_QUESTIONS, Header
from .pages import FRAME, Page
from .request_queue import Question, RequestQueue
from .trainings import LiveTraining, Trainings
from .uploads import UPLOADED
from .workers import ForkServer, Worker

MAX_PAGES = 24  # that may be open
MAX_TRAININGS = 4  # that may run at once, or as many as there are cores
MAX_READERS = 3  # files that are read at once, each by a worker of its own
MAX_UNANSWERED = 32  # questions of a page
MAX_CHARACTERS = 2**17  # of a page's message
ANALYSES = (
    "spectrum",
    "phases",
    "overlaps",
    "basins",
    "landscape",
    "likelihood",
    "along",
    "verdict",
    "learned",
)
MESSAGE = Names(
    {},
    {"id": Whole(0, 2**31), "ask": Text(40), "do": Text(40), "run": Maybe(Text(500)), "on": Flag()},
    others=Anything(),
)
Reply = Callable[[Mapping[str, Any]], None]


class Studio:
    """Everything that the pages have in common."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder, self.read_only = folder, read_only
        self.fork_server = ForkServer()
        self.analyses = self._queue("analyses")
        # By page and role, so that no page waits for what another asked.
        self.queues: dict[tuple[str, str], RequestQueue] = {}
        self.pages: dict[str, Page] = {}
        most = max(MAX_TRAININGS, os.cpu_count() or 1)
        self.trainings = Trainings(self.fork_server, str(folder), self.pages.values, most)
        self._reading = asyncio.Semaphore(MAX_READERS)
        self._readers: dict[asyncio.Task[None], Page] = {}
        self.dreamer: Worker | None = None
        self._names = count(1)
        self._analysing: dict[tuple[str, int], Question] = {}  # by page and id
        self._starting: dict[tuple[str, int], LiveTraining] = {}  # that compare settings first, the same

    def _queue(self, role: str) -> RequestQueue:
        return RequestQueue(self.fork_server, {"do": role, "folder": str(self.folder)})

    async def open(self) -> None:
        self._open_dreamer()  # the page opens with its chains

    async def close(self) -> None:
        for task in self._readers:
            task.cancel()
        await self.trainings.close()
        for page in self.pages.values():
            page.close()
        await self.fork_server.close()

    # -- pages ------------------------------------------------------------------------------------

    def open_page(self, send: Callable[[bytes], Any]) -> Page | None:
        """A new page; None where there are too many."""
        if len(self.pages) >= MAX_PAGES:
            return None
        page = Page(f"page-{next(self._names)}", send)
        self.pages[page.name] = page
        return page

    def close_page(self, page: Page) -> None:
        self.pages.pop(page.name, None)
        self.trainings.leave(page)
        if self.dreamer is not None:
            self.dreamer.send({"do": "close", "page": page.name})
        for key in [key for key in self._analysing if key[0] == page.name]:
            self.analyses.cancel(self._analysing.pop(key))
        for owner in [owner for owner in self.queues if owner[0] == page.name]:
            self.queues.pop(owner).close()
        for task, reader in self._readers.items():
            if reader is page:
                task.cancel()

    def receive(self, page: Page, text: str) -> None:
        """Does what a page's message says; raises `Misfit` or ValueError for what is no message."""
        asked = parse_json(text)
        MESSAGE.check(asked, "")
        if "ask" in asked:
            return self._asked(page, asked)
        match asked.get("do"):
            case "seen":
                page.seen(str(asked.get("key")))
                if asked.get("key") == f"{FRAME}dream":
                    self._send_dreamer(page, {"do": "seen"})
            case "dream":
                self._send_dreamer(page, {**asked, "do": asked.get("what")})
                if page.hidden and asked.get("what") == "open":
                    self._send_dreamer(page, {"do": "hidden", "on": True})
            case "hidden":
                page.hidden = asked.get("on") is True
                self._send_dreamer(page, {"do": "hidden", "on": page.hidden})
                self.trainings.look(page)
            case "watch":
                runs = asked.get("runs")
                known = runs if isinstance(runs, dict) else {}
                self.trainings.watch(page, {k: v for k, v in known.items() if isinstance(v, int)})
            case "steer" if not self.read_only:
                self.trainings.steer(asked)
            case "cancel":
                self._cancel(page, (page.name, int(asked.get("id", -1))))
        return None

    def _cancel(self, page: Page, key: tuple[str, int]) -> None:
        """Takes back a question of a page, or a training that has not begun."""
        question, training = self._analysing.pop(key, None), self._starting.pop(key, None)
        if question is not None:
            page.asking -= 1
            self.analyses.cancel(question)
        if training is not None and not training.run:
            training.worker.kill()

    # -- questions --------------------------------------------------------------------------------

    def _asked(self, page: Page, asked: Header) -> None:
        ask, number = asked["ask"], int(asked.get("id", 0))

        def reply(answer: Mapping[str, Any]) -> None:
            page.send(f"answer/{number}", {"event": "answer", "id": number, **answer})

        if page.asking >= MAX_UNANSWERED:
            return reply({"error": "too many questions at once; wait for an answer"})
        if ask == "hello":
            return reply({"answer": self._about()})
        if ask in ("train", "resume"):
            return self._start(page, asked, reply)
        if ask not in QUERIES + TABLE_QUESTIONS + ANALYSES:
            return reply({"error": f"nobody knows how to answer {ask!r}"})
        if ask in CHANGES and self.read_only:
            return reply({"error": "this studio only shows (--read-only): nothing is changed here"})
        if ask == "delete" and any(t.run == asked.get("run") for t in self.trainings.running()):
            return reply({"error": "this run is being trained; stop it first"})
        question = {**asked, "page": page.name}

        def on_message(header: Header, whole: bytes) -> None:
            self._pass_on(page, header, whole)

        page.asking += 1
        if ask in ("data", "columns") and str(asked.get("dataset")).startswith(UPLOADED):
            task = asyncio.create_task(self._read_for(page, question))
            self._readers[task] = page
            task.add_done_callback(self._readers.pop)
        elif ask in QUERIES:
            self._queue_of(page, "queries").ask(question, on_message)
        elif ask in TABLE_QUESTIONS:
            self._queue_of(page, "tables").ask(question, on_message)
        else:
            self._analysing[page.name, number] = self.analyses.ask(question, on_message)
        return None

    def _queue_of(self, page: Page, role: str) -> RequestQueue:
        if (page.name, role) not in self.queues:
            self.queues[page.name, role] = self._queue(role)
        return self.queues[page.name, role]

    def _pass_on(self, page: Page, header: Header, whole: bytes) -> None:
        number = header.get("id")
        if header.get("event") == "answer":
            page.asking -= 1
            self._analysing.pop((page.name, int(number or 0)), None)
            page.post(f"answer/{number}", whole)
        else:
            page.post(f"progress/{number}", whole)

    def _about(self) -> Header:
        return {
            "folder": self.folder.name,
            "read_only": self.read_only,
            "trainings": self.trainings.summaries(),
        }

    def _start(self, page: Page, asked: Header, reply: Reply) -> None:
        """Starts or resumes a training; the page hears of what is compared before it begins."""
        number = int(asked.get("id", 0))
        if self.read_only:
            return reply({"error": "this studio only shows (--read-only): nothing is trained here"})
        wanted = {k: asked.get(k) for k in ("dataset", "chosen", "preset", "pace", "paused", "replica")}
        if asked["ask"] == "resume":
            wanted["resume"] = asked.get("run")
        if name := asked.get("name"):
            if reason := name_error(name):
                return reply({"error": reason})
            wanted["name"] = name
        stop = asked.get("stop") or []
        if not isinstance(stop, list) or not all(isinstance(run, str) for run in stop):
            return reply({"error": "stop is a list of runs; name those that are to be stopped"})

        def answer(found: Mapping[str, Any]) -> None:
            self._starting.pop((page.name, number), None)
            reply(found if "error" in found else {"answer": found})

        def tell(line: str) -> None:
            told = {"event": "progress", "id": number, "line": line, "share": None}
            page.send(f"progress/{number}", told)

        training = self.trainings.start(wanted, answer, stop, tell)
        if training is not None:
            self._starting[page.name, number] = training
        return None

    async def _read_for(self, page: Page, question: Header) -> None:
        self._pass_on(page, *await self.read(question))

    async def read(self, question: Header, role: str = "read") -> tuple[Header, bytes]:
        """The answer to a question about a file, by a worker of its own: reading may take long."""
        async with self._reading:
            queue = self._queue(role)
            try:
                return await self.ask(queue, question)
            finally:
                queue.close()

    async def ask(self, queue: RequestQueue, question: Header) -> tuple[Header, bytes]:
        """An answer for the server itself."""
        future: asyncio.Future[tuple[Header, bytes]] = asyncio.get_running_loop().create_future()

        def on_message(header: Header, whole: bytes) -> None:
            if header.get("event") == "answer" and not future.done():
                future.set_result((header, whole))

        asked = queue.ask(question, on_message)
        try:
            return await future
        except asyncio.CancelledError:
            queue.cancel(asked)
            raise

    # -- dreams -----------------------------------------------------------------------------------

    def _open_dreamer(self) -> Worker:
        if self.dreamer is None:
            self.dreamer = self.fork_server.fork(self._on_dream_message, self._dream_ended)
            self.dreamer.send({"do": "dream", "folder": str(self.folder)})
        return self.dreamer

    def _send_dreamer(self, page: Page, header: Header) -> None:
        self._open_dreamer().send({**header, "page": page.name})

    def _on_dream_message(self, header: Header, whole: bytes) -> None:
        page = self.pages.get(str(header.get("page")))
        if page is None:
            return
        event = header.get("event")
        replaced = page.post(f"{FRAME if event == 'dreamt' else f'{event}/'}dream", whole)
        if replaced and event == "dreamt":
            self._send_dreamer(page, {"do": "seen"})  # the frame that waited will not be

    def _dream_ended(self, reason: str) -> None:
        self.dreamer = None
        for page in self.pages.values():
            page.send("woken", {"event": "woken", "text": f"the dream has ended: {reason}"})


def name_error(name: Any) -> str:
    """Why a run cannot have this name; empty if it can."""
    if not isinstance(name, str) or not name.strip() or len(name.encode()) > 120:
        return "the name of a run has 1 to 120 letters"
    if name.startswith(".") or any(c in "/\\" or not c.isprintable() for c in name):
        return f"the name of a run has no slash and does not begin with a dot, unlike {name!r}"
    if name == "data":
        return "data is the folder of uploaded files; take another name"
    return ""
