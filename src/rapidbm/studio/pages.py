"""A page that is open in some browser, and what waits to be told to it.

What waits has a key, and of one key only the newest is kept: a page that is slow, or a laptop that was
closed, gets the latest picture and not a queue of old ones. Pictures, whose keys begin with `frame/`, are
sent two ahead of what the page says that it has seen. Answers have keys of their own and are all sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from .messages import Header, message

FRAME = "frame/"
AHEAD = 2
MAX_WAITING = 400  # things that wait; a page that asks for more than it takes is closed

Message = bytes | Callable[[], bytes | None]  # or what makes it when its turn comes


class Page:
    """One page, through one socket."""

    def __init__(self, name: str, send_bytes: Callable[[bytes], Awaitable[None]]) -> None:
        self.name = name
        self.watching: dict[str, int] = {}  # trainings, and how many of their records the page has
        self.asking = 0  # questions that are not answered
        self._send_bytes = send_bytes
        self._slots: dict[str, Message] = {}
        self._flight: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self.closed = False

    def send(self, key: str, header: Header) -> None:
        self.post(key, message(header))

    def post(self, key: str, told: Message) -> bool:
        """To be sent, in place of what waits under this key; whether something did."""
        replaces = key in self._slots
        if not replaces and len(self._slots) >= MAX_WAITING:
            self.closed = True
        if not self.closed:
            self._slots[key] = told
        self._wake.set()
        return replaces

    def seen(self, key: str) -> None:
        if self._flight[key] > 0:
            self._flight[key] -= 1
            self._wake.set()

    async def deliver(self) -> None:
        """Sends what waits, the oldest first, until the page is closed."""
        while not self.closed:
            await self._wake.wait()
            self._wake.clear()
            while (key := self._next()) is not None:
                told = self._slots.pop(key)
                whole = told if isinstance(told, bytes) else told()
                if whole is None:
                    continue
                if key.startswith(FRAME):
                    self._flight[key] += 1
                try:
                    await self._send_bytes(whole)
                except (RuntimeError, OSError):  # it has left
                    self.closed = True
                    return

    def _next(self) -> str | None:
        for key in self._slots:
            if not key.startswith(FRAME) or self._flight[key] < AHEAD:
                return key
        return None

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
