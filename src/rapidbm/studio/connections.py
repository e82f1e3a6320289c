"""Connections that say nothing: a socket that does not ask within seconds is closed, and when there are
too many the one that has been silent longest makes room for the next."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT = 10.0  # to ask something
MAX_SILENT = 96  # connections that have not asked yet


class TimeoutProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with an end to its patience."""

    _silent: ClassVar[dict[TimeoutProtocol, None]] = {}  # the oldest first
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._silent[self] = None
        while len(self._silent) > MAX_SILENT:
            next(iter(self._silent)).abort()
        self._timer = self.loop.call_later(REQUEST_TIMEOUT, self.abort)

    def handle_events(self) -> None:
        before = self.scope
        super().handle_events()
        if self.scope is not before:  # it has asked
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def abort(self) -> None:
        self._stop_timer()
        self.transport.abort()

    def _stop_timer(self) -> None:
        self._silent.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
