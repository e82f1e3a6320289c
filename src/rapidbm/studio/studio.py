"""The studio: its workers, its trainings, the pages that are open, and who answers what.

A page tells in JSON: `{"id": 7, "ask": …}` wants an answer, `{"do": …}` does not. Nothing here loads
torch: the server starts at once, and whatever computes is a process of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from .. import __version__
from ..disk import parse_json
from ..schema import Anything, Flag, Maybe, Names, Text, Whole
from .messages import Header
from .pages import FRAME, Page
from .request_queue import RequestQueue
from .trainings import Trainings
from .workers import ForkServer, Worker

MAX_PAGES = 24  # that may be open
MAX_TRAININGS = 4  # that may run at once, or as many as there are cores
MAX_READERS = 3  # files that are read at once, each by a worker of its own
UPLOAD = "upload:"  # before the name of a file that was dropped here
MAX_UNANSWERED = 32  # questions of a page that wait
MAX_CHARACTERS = 2**17  # of what a page tells at once
QUERIES = ("machines", "runs", "run", "datasets", "data", "recipe", "place")
ANALYSES = ("spectrum", "phases", "overlaps", "basins", "landscape", "likelihood", "along", "verdict")
TRAIN = ("train", "resume")
MESSAGE = Names(
    {},
    {"id": Whole(0, 2**31), "ask": Text(40), "do": Text(40), "run": Maybe(Text(500)), "on": Flag()},
    others=Anything(),
)


class Studio:
    """Everything that the pages have in common."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.folder, self.read_only = folder, read_only
        self.fork_server = ForkServer()
        first = {"folder": str(folder)}
        self.queries = RequestQueue(self.fork_server, {**first, "do": "queries"})
        self.analyses = RequestQueue(self.fork_server, {**first, "do": "analyses"})
        self.pages: dict[str, Page] = {}
        most = max(MAX_TRAININGS, os.cpu_count() or 1)
        self.trainings = Trainings(self.fork_server, str(folder), self.pages.values, most)
        self._reading = asyncio.Semaphore(MAX_READERS)
        self._readers: dict[asyncio.Task[None], Page] = {}
        self.dreamer: Worker | None = None
        self._names = count(1)
        self._analysing: dict[tuple[str, int], int] = {}  # page and id: the queue's number

    async def open(self) -> None:
        self._open_dreamer()  # first: somebody waits for a picture
        self.queries.open()

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
        for key, number in list(self._analysing.items()):
            if key[0] == page.name:
                del self._analysing[key]
                self.analyses.cancel(number)
        for task, reader in self._readers.items():
            if reader is page:
                task.cancel()

    def receive(self, page: Page, text: str) -> None:
        """What a page says; what is no message at all ends it."""
        told = parse_json(text)
        MESSAGE.check(told, "")
        if "ask" in told:
            self._asked(page, told)
        elif told.get("do") == "seen":
            page.seen(str(told.get("key")))
            if told.get("key") == f"{FRAME}dream":
                self._send_dreamer(page, {"do": "seen"})
        elif told.get("do") == "dream":
            self._send_dreamer(page, {**told, "do": told.get("what")})
        elif told.get("do") == "watch":
            runs = told.get("runs")
            known = runs if isinstance(runs, dict) else {}
            self.trainings.watch(page, {k: v for k, v in known.items() if isinstance(v, int)})
        elif told.get("do") == "steer" and not self.read_only:
            self.trainings.steer(told)
        elif told.get("do") == "cancel":
            number = self._analysing.pop((page.name, int(told.get("id", -1))), None)
            if number is not None:
                page.asking -= 1
                self.analyses.cancel(number)

    # -- questions --------------------------------------------------------------------------------

    def _asked(self, page: Page, told: Header) -> None:
        ask, number = told["ask"], int(told.get("id", 0))

        def reply(answer: Mapping[str, Any]) -> None:
            page.send(f"answer/{number}", {"event": "answer", "id": number, **answer})

        if page.asking >= MAX_UNANSWERED:
            return reply({"error": "too many questions at once; wait for an answer"})
        if ask == "hello":
            return reply({"answer": self._about()})
        if ask in TRAIN:
            return self._start(page, told, reply)
        question = {**told, "page": page.name}

        def on_message(header: Header, whole: bytes) -> None:
            self._pass_on(page, header, whole)

        if ask == "data" and str(told.get("dataset")).startswith(UPLOAD):
            page.asking += 1
            task = asyncio.create_task(self._read_for(page, question))
            self._readers[task] = page
            task.add_done_callback(self._readers.pop)
        elif ask in QUERIES:
            page.asking += 1
            self.queries.ask(question, on_message)
        elif ask in ANALYSES:
            page.asking += 1
            self._analysing[page.name, number] = self.analyses.ask(question, on_message)
        else:
            reply({"error": f"nobody knows how to answer {ask!r}"})
        return None

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
            "version": __version__,
            "folder": self.folder.name,
            "read_only": self.read_only,
            "cores": os.cpu_count(),
            "trainings": [training.summary() for training in self.trainings.all.values() if training.run],
        }

    def _start(self, page: Page, told: Header, reply: Callable[[Mapping[str, Any]], None]) -> None:
        if self.read_only:
            return reply({"error": "this studio only shows (--read-only): nothing is trained here"})
        asked = {k: told.get(k) for k in ("dataset", "chosen", "preset", "pace", "paused", "replica")}
        if told["ask"] == "resume":
            asked["resume"] = told.get("run")
        if name := told.get("name"):
            if reason := name_error(name):
                return reply({"error": reason})
            asked["name"] = name
        self.trainings.start(asked, lambda found: reply(found if "error" in found else {"answer": found}))
        return None

    async def _read_for(self, page: Page, question: Header) -> None:
        self._pass_on(page, *await self.read(question))

    async def read(self, question: Header) -> tuple[Header, bytes]:
        """An answer for which a file is read, which may take long: by a worker of its own, so that nobody
        waits for it but those who want files read, too."""
        async with self._reading:
            queue = RequestQueue(self.fork_server, {**self.queries.first_message, "do": "read"})
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

        number = queue.ask(question, on_message)
        try:
            return await future
        except asyncio.CancelledError:
            queue.cancel(number)
            raise

    # -- dreams -----------------------------------------------------------------------------------

    def _open_dreamer(self) -> Worker:
        if self.dreamer is None:
            self.dreamer = self.fork_server.fork(self._on_dream_message, self._dream_ended)
            self.dreamer.send({"do": "dream", "folder": str(self.folder)})
        return self.dreamer

    def _send_dreamer(self, page: Page, told: Header) -> None:
        self._open_dreamer().send({**told, "page": page.name})

    def _on_dream_message(self, header: Header, whole: bytes) -> None:
        page = self.pages.get(str(header.get("page")))
        if page is None:
            return
        if header.get("event") == "dreamt":
            if page.post(f"{FRAME}dream", whole):
                self._send_dreamer(page, {"do": "seen"})  # the one before never will be
        else:
            page.post(f"{header.get('event')}/dream", whole)

    def _dream_ended(self, reason: str) -> None:
        self.dreamer = None
        for page in self.pages.values():
            page.send("woken", {"event": "woken", "text": f"the dream has ended: {reason}"})


def name_error(name: Any) -> str:
    """Why a run cannot be called that, or nothing."""
    if not isinstance(name, str) or not name.strip() or len(name.encode()) > 120:
        return "a run has a name of 1 to 120 letters"
    if name.startswith(".") or any(c in "/\\" or not c.isprintable() for c in name):
        return f"a run is called by letters without a slash, and not by a dot first, not {name!r}"
    if name in ("data",):
        return "data is the folder of what was dropped here; take another name"
    return ""
