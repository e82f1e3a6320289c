"""Worker processes, seen from the server: how they start, what they are sent, how they end.

The fork server, `python -m rapidbm.studio.work`, loads torch and the library once. A worker is a fork of
it: ready in a hundredth of a second, with most of its memory shared. A socket connects the server and a
worker; when either ends, so does the other. Only the server sends messages to a worker.
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

from .messages import SIZE, Header, message, message_size, parse_header, with_size

OnMessage = Callable[[Header, bytes], None]
OnExit = Callable[[str], None]
END_TIMEOUT = 5.0  # seconds after which a worker that should exit is killed
OUTPUT_KEPT = 2000  # bytes of a worker's last output


class Worker:
    """One process: `on_message` gets each message, `on_exit` the reason of its end, once."""

    def __init__(self, on_message: OnMessage, on_exit: OnExit) -> None:
        self.on_message, self.on_exit = on_message, on_exit
        self.exited = asyncio.Event()
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._pid: int | None = None  # a descriptor of the process: numbers are used again, this is not
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._killed = self._closed = False
        self._waiting: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, server: socket.socket) -> None:
        """Asks the fork server for a process at the other end of a socket."""
        here, there = socket.socketpair()
        with there:
            socket.send_fds(server, [b"worker"], [there.fileno(), self._output.fileno()])
        self._task = asyncio.create_task(self._listen(here))

    def started(self, pid: int) -> None:
        with suppress(OSError):  # it has exited already
            self._pid = os.pidfd_open(pid)
        if self._killed:
            self.kill()

    def set_status(self, status: int) -> None:
        if not self._status.done():
            self._status.set_result(status)

    def send(self, header: Header) -> None:
        """A message to it; lost if it has ended."""
        whole = with_size(message(header))
        if self._writer is None:
            self._waiting.append(whole)
        elif not self._writer.is_closing():
            self._writer.write(whole)

    async def _listen(self, link: socket.socket) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=link)
        self._writer.writelines(self._waiting)
        if self._closed:
            self._writer.close()
        with suppress(asyncio.IncompleteReadError, OSError, ValueError):
            while True:
                whole = await reader.readexactly(message_size(await reader.readexactly(SIZE.size)))
                self.on_message(parse_header(whole), whole)
        self._writer.close()
        try:
            status = await asyncio.wait_for(asyncio.shield(self._status), END_TIMEOUT)
        except TimeoutError:  # what it sent was no message, or the fork server has exited
            self.kill()
            status = -signal.SIGKILL
        reason = self._reason(status)
        self._output.close()
        if self._pid is not None:
            os.close(self._pid)
            self._pid = None
        self.exited.set()
        self.on_exit(reason)

    def _reason(self, status: int) -> str:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with code {status}"
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - OUTPUT_KEPT))
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1][:300]}" if lines and status > 0 else "")

    def close(self) -> None:
        """Ends its socket, upon which it saves and exits."""
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    def kill(self) -> None:
        self._killed = True
        if self._pid is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pid, signal.SIGKILL)

    async def end(self) -> None:
        """Closes it, and kills it if it does not exit."""
        self.close()
        try:
            await asyncio.wait_for(self.exited.wait(), END_TIMEOUT)
        except TimeoutError:
            self.kill()


class ForkServer:
    """The process that workers are forks of, and the workers that run."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._starting: deque[Worker] = deque()
        self._running: dict[int, Worker] = {}

    def open(self) -> socket.socket:
        """Starts it, if it does not run."""
        if self._link is not None:
            return self._link
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # -P: nothing is imported from the folder that the command was started in.
        command = [sys.executable, "-P", "-m", "rapidbm.studio.work", str(there.fileno())]
        with there:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env={**os.environ, "RAPIDBM_PROGRESS": "off"},
                start_new_session=True,  # Ctrl-C is for the server: it asks its workers to save
            )
        here.setblocking(False)
        asyncio.get_running_loop().add_reader(here, self._receive)
        self._link = here
        return here

    def fork(self, on_message: OnMessage, on_exit: OnExit) -> Worker:
        """A new worker; its first message says what it does."""
        worker = Worker(on_message, on_exit)
        worker.start(self.open())
        self._starting.append(worker)
        return worker

    def _receive(self) -> None:
        """Which worker has started or exited."""
        assert self._link is not None
        try:
            news = json.loads(self._link.recv(4096) or b"{}")
        except BlockingIOError:
            return
        except OSError:
            news = {}
        if not news:
            self._end()
        elif "started" in news:
            worker = self._running[news["started"]] = self._starting.popleft()
            worker.started(news["started"])
        elif news["exited"] in self._running:
            self._running.pop(news["exited"]).set_status(news["status"])

    def _end(self) -> None:
        """Ends it; workers run on, and the next fork starts another one."""
        assert self._link is not None
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(self._link)
        self._link.close()
        self._link = None
        try:
            status = self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        starting, self._starting = self._starting, deque()
        for worker in starting:
            worker.set_status(status or 1)

    async def close(self) -> None:
        workers = [*self._running.values(), *self._starting]
        await asyncio.gather(*(worker.end() for worker in workers), return_exceptions=True)
        if self._link is not None:
            self._end()
