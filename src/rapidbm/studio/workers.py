"""Worker processes, seen from the server: who they are, what they are told, what becomes of them.

A worker is `python -m rapidbm.studio.work`, with a pipe to and one from it. It loads torch and then waits
for its first message, which says what it is to be. One spare worker is always loaded, so that whoever
needs one does not wait. A worker that dies says so to whoever took it; the server goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from .wire import SIZE, Header, header_of, message, piped, size_in

Hear = Callable[[Header, bytes], None]
Gone = Callable[[str], None]
TAIL = 12  # lines of what a worker said last that are kept
KIND = 5.0  # seconds between the wish that a worker ends and the end


class Worker:
    """One process; `hear` is called with each message, `gone` once, with its last words."""

    def __init__(self) -> None:
        self.hear: Hear = lambda header, whole: None
        self.gone: Gone = lambda reason: None
        self.ready = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=TAIL)
        self._waiting: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        # -P: nothing is imported from the folder that the command was started in.
        command = (sys.executable, "-P", "-m", "rapidbm.studio.work")
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "RAPIDBM_PROGRESS": "off"},
            start_new_session=True,  # Ctrl-C is the server's: it asks its workers to save
        )
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]
        waiting, self._waiting = self._waiting, []
        for whole in waiting:
            self._write(whole)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def tell(self, header: Header) -> None:
        """Something to do; what a dead worker is told is lost."""
        whole = piped(message(header))
        if self.process is None:
            self._waiting.append(whole)
        else:
            self._write(whole)

    def _write(self, whole: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(ConnectionError, RuntimeError):
            self.process.stdin.write(whole)

    async def _listen(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        stream = self.process.stdout
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while True:
                whole = await stream.readexactly(size_in(await stream.readexactly(SIZE.size)))
                header = header_of(whole)
                if header.get("event") == "ready":
                    self.ready.set()
                else:
                    self.hear(header, whole)
        try:  # a kill just when it has ended would take its exit status away from whoever waits for it
            code = await asyncio.wait_for(self.process.wait(), KIND)
        except TimeoutError:  # one that sends nonsense is of no use
            self.kill()
            code = await self.process.wait()
        self.ready.set()
        await asyncio.sleep(0)  # its last words
        self.gone(self._reason(code))

    async def _overhear(self) -> None:
        assert self.process is not None
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self._said.append(line.decode("utf-8", "replace").rstrip())

    def _reason(self, code: int) -> str:
        how = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        said = next((line for line in reversed(self._said) if line.strip()), "")
        return f"its process was {how}" + (f": {said[:300]}" if said and code > 0 else "")

    def close(self) -> None:
        """It has nothing more to do: the end of its pipe lets it save and leave."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(ConnectionError, RuntimeError):
                self.process.stdin.close()

    def kill(self) -> None:
        if self.alive and self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()

    async def end(self) -> None:
        """Closed, and killed if it does not leave."""
        if self.process is None:
            return
        self.close()
        try:
            await asyncio.wait_for(self.process.wait(), KIND)
        except TimeoutError:
            self.kill()
            await self.process.wait()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task


class Workshop:
    """All workers, and the spare one."""

    def __init__(self) -> None:
        self.spare: Worker | None = None
        self.all: list[Worker] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def prepare(self) -> None:
        """Sees to it that there is a spare worker."""
        if self._closing or (self.spare is not None and self.spare.alive):
            return
        if self.spare is not None and self.spare.process is None:  # is being started
            return
        self.spare = self._new()

    def take(self, hear: Hear, gone: Gone, *, then: float = 1.0) -> Worker:
        """A worker for oneself; another spare one is made, some seconds after this one is at work."""
        worker, self.spare = self.spare, None
        if worker is None or (worker.process is not None and not worker.alive):
            worker = self._new()
        worker.hear, worker.gone = hear, gone
        self._later(self._refill(worker, then))
        return worker

    def give_back(self, worker: Worker) -> None:
        """A worker that has done nothing yet is as good as a spare one."""
        worker.hear, worker.gone = (lambda header, whole: None), (lambda reason: None)
        if self.spare is None and not self._closing:
            self.spare = worker
        else:
            worker.close()

    async def _refill(self, busy: Worker, seconds: float) -> None:
        await busy.ready.wait()
        await asyncio.sleep(seconds)  # what the other does first is what somebody waits for
        self.prepare()

    def _new(self) -> Worker:
        self.all = [w for w in self.all if w.alive or w.process is None]
        worker = Worker()
        self.all.append(worker)
        self._later(worker.start())
        return worker

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(worker.end() for worker in self.all), return_exceptions=True)
