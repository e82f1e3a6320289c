"""Worker processes, seen from the server: how they are born, what they are told, what becomes of them.

The nursery, `python -m rapidbm.studio.work`, loads torch and the library once. A worker is a fork of it:
there in a hundredth of a second, with most of its memory shared. The server and a worker have a socket
between them, whose end is the end of either. Nothing but the server's own messages reaches a worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from .wire import SIZE, Header, header_of, message, piped, size_in

Hear = Callable[[Header, bytes], None]
Gone = Callable[[str], None]
KIND = 5.0  # seconds between the wish that a worker ends and the end
WORDS = 2000  # bytes of what a worker said last


class Worker:
    """One process; `hear` is called with each message, `gone` once, with the reason of its end."""

    def __init__(self, hear: Hear, gone: Gone) -> None:
        self.hear, self.gone = hear, gone
        self.over = asyncio.Event()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._pid: int | None = None  # a descriptor of the process, which no other can take over
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._killed = self._closed = False
        self._waiting: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, nursery: socket.socket) -> None:
        """Asks the nursery for a process at the other end of a socket."""
        mine, its = socket.socketpair()
        with its:
            socket.send_fds(nursery, [b"worker"], [its.fileno(), self._said.fileno()])
        self._task = asyncio.create_task(self._listen(mine))

    def born(self, pid: int) -> None:
        with suppress(OSError):  # it is dead already
            self._pid = os.pidfd_open(pid)
        if self._killed:
            self.kill()

    def died(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def tell(self, header: Header) -> None:
        """Something to do; what a dead worker is told is lost."""
        whole = piped(message(header))
        if self._writer is None:
            self._waiting.append(whole)
        elif not self._writer.is_closing():
            self._writer.write(whole)

    async def _listen(self, link: socket.socket) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=link)
        for whole in self._waiting:
            self._writer.write(whole)
        if self._closed:
            self._writer.close()
        with suppress(asyncio.IncompleteReadError, OSError, ValueError):
            while True:
                whole = await reader.readexactly(size_in(await reader.readexactly(SIZE.size)))
                self.hear(header_of(whole), whole)
        self._writer.close()
        try:
            status = await asyncio.wait_for(asyncio.shield(self._status), KIND)
        except TimeoutError:  # it sent nonsense, or the nursery is gone
            self.kill()
            status = -signal.SIGKILL
        reason = self._reason(status)
        self._forget()
        self.over.set()
        self.gone(reason)

    def _reason(self, status: int) -> str:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with code {status}"
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - WORDS))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1][:300]}" if lines and status > 0 else "")

    def _forget(self) -> None:
        self._said.close()
        if self._pid is not None:
            os.close(self._pid)
            self._pid = None

    def close(self) -> None:
        """It has nothing more to do: the end of its socket lets it save and leave."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    def kill(self) -> None:
        self._killed = True
        if self._pid is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pid, signal.SIGKILL)

    async def end(self) -> None:
        """Closed, and killed if it does not leave."""
        self.close()
        try:
            await asyncio.wait_for(self.over.wait(), KIND)
        except TimeoutError:
            self.kill()


class Nursery:
    """The process that workers are forks of, and all that live."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._unborn: deque[Worker] = deque()
        self._living: dict[int, Worker] = {}

    def open(self) -> socket.socket:
        """Starts it, if it does not run."""
        if self._link is not None:
            return self._link
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # -P: nothing is imported from the folder that the command was started in.
        command = [sys.executable, "-P", "-m", "rapidbm.studio.work", str(its.fileno())]
        with its:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env={**os.environ, "RAPIDBM_PROGRESS": "off"},
                start_new_session=True,  # Ctrl-C is the server's: it asks its workers to save
            )
        mine.setblocking(False)
        asyncio.get_running_loop().add_reader(mine, self._hear)
        self._link = mine
        return mine

    def worker(self, hear: Hear, gone: Gone) -> Worker:
        """A new worker; it has no role before its first message."""
        found = Worker(hear, gone)
        found.begin(self.open())
        self._unborn.append(found)
        return found

    def _hear(self) -> None:
        assert self._link is not None
        try:
            told = self._link.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        if not told:
            self._lose()
            return
        news = json.loads(told)
        if "born" in news:
            worker = self._unborn.popleft()
            self._living[news["born"]] = worker
            worker.born(news["born"])
        elif news["died"] in self._living:
            self._living.pop(news["died"]).died(news["status"])

    def _lose(self) -> None:
        """It is gone, or is to go; another one is started when one is needed. Workers live on."""
        assert self._link is not None
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(self._link)
        self._link.close()
        self._link = None
        try:
            status = self._process.wait(KIND)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        unborn, self._unborn = self._unborn, deque()
        for worker in unborn:
            worker.died(status or 1)

    async def close(self) -> None:
        workers = [*self._living.values(), *self._unborn]
        await asyncio.gather(*(worker.end() for worker in workers), return_exceptions=True)
        if self._link is not None:
            self._lose()
