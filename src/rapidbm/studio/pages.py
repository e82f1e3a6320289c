"""An open page, and the messages that wait to be sent to it.

Each message has a key; of one key only the newest is kept, so a slow page, or a closed laptop, later gets
the latest picture and not a queue of old ones. Of pictures, whose keys begin with `frame/`, at most two
are sent before the page says that it has drawn them. Each answer has a key of its own, so all are sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from .messages import Header, message

FRAME = "frame/"
AHEAD = 2
MAX_WAITING = 400  # messages; a page that asks for more than it takes is closed

Message = bytes | Callable[[], bytes | None]  # or what makes it when its turn comes


class Page:
    """One page, through one socket."""

    def __init__(self, name: str, send_bytes: Callable[[bytes], Awaitable[None]]) -> None:
        self.name = name
        self.watching: dict[str, int] = {}  # runs, and how many of their records the page has
        self.asking = 0  # questions without an answer yet
        self.closed = False
        self.hidden = False  # its tab is not looked at, so that it is sent no pictures
        self._send_bytes = send_bytes
        self._slots: dict[str, Message] = {}
        self._unseen: Counter[str] = Counter()  # frames that were sent
        self._wake = asyncio.Event()

    def send(self, key: str, header: Header) -> None:
        self.post(key, message(header))

    def post(self, key: str, content: Message) -> bool:
        """Will be sent, in place of what waits under this key; whether something did."""
        replaces = key in self._slots
        if not replaces and len(self._slots) >= MAX_WAITING:
            self.closed = True
        if not self.closed:
            self._slots[key] = content
        self._wake.set()
        return replaces

    def seen(self, key: str) -> None:
        """The page has drawn a frame."""
        if self._unseen[key] > 0:
            self._unseen[key] -= 1
            self._wake.set()

    async def deliver(self) -> None:
        """Sends what waits, the oldest first, until the page is closed."""
        while not self.closed:
            await self._wake.wait()
            self._wake.clear()
            while (key := self._next()) is not None:
                content = self._slots.pop(key)
                whole = content if isinstance(content, bytes) else content()
                if whole is None:
                    continue
                if key.startswith(FRAME):
                    self._unseen[key] += 1
                try:
                    await self._send_bytes(whole)
                except (RuntimeError, OSError):  # the socket has ended
                    self.closed = True
                    return

    def _next(self) -> str | None:
        due = (k for k in self._slots if not k.startswith(FRAME) or self._unseen[k] < AHEAD)
        return next(due, None)

    def close(self) -> None:
        self.closed = True
        self._wake.set()


async def serve_page(page: Page, listen: Awaitable[None]) -> None:
    """Listens to a page and delivers to it until either ends."""
    tasks = [asyncio.ensure_future(listen), asyncio.ensure_future(page.deliver())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        page.close()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
