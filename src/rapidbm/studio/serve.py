"""The server: a socket, an address with a token, and a browser that is opened on it."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from ..errors import InputError
from .app import application
from .connections import TimeoutProtocol
from .guard import LOOPBACK, Access
from .studio import MAX_CHARACTERS, Studio

PORT = 8715
PORTS_TRIED = 20  # ports after the usual one
MAX_HEAD = 2**14  # bytes of the head of a request
PING_SECONDS = 20.0  # seconds between two signs of life


def listening_socket(host: str, port: int | None) -> socket.socket:
    """A socket on this port, or on the first free one from the usual one on."""
    ports = range(PORT, PORT + PORTS_TRIED) if port is None else (port,)
    for number in ports:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
        except OSError as error:
            found.close()
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            raise InputError(
                f"{host}:{number} cannot be had: {error.strerror}; give another --port"
            ) from error
        return found
    raise InputError(f"ports {PORT} to {PORT + PORTS_TRIED - 1} are all taken; give another --port")


def is_loopback(host: str) -> bool:
    return host in ("127.0.0.1", "localhost", "::1")


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    names: tuple[str, ...] = (),
    read_only: bool = False,
    browser: bool = True,
    told: Callable[[str], None] = print,
) -> None:
    """Serves the studio of a folder until it is interrupted; `told` gets the address."""
    listener = listening_socket(host, port)
    number = int(listener.getsockname()[1])
    public = not is_loopback(host)
    access = Access(
        secrets.token_urlsafe(24),
        number,
        (*LOOPBACK, *(name.lower() for name in names)),
        any_address=public,
    )
    shown = names[0] if names else _host_name(host)
    address = f"http://{shown}:{number}/?token={access.token}"
    studio = Studio(folder.resolve(), read_only=read_only)
    logging.getLogger("uvicorn.error").addFilter(_is_server_error)
    config = uvicorn.Config(
        application(studio, access),
        http=TimeoutProtocol,
        ws="websockets-sansio",
        ws_max_size=4 * MAX_CHARACTERS,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=MAX_HEAD,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
    )
    listener.listen(128)  # whoever comes before the server runs, waits
    told(address)
    if browser and has_screen():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):  # how a server ends
        uvicorn.Server(config).run(sockets=[listener])


def _is_server_error(record: logging.LogRecord) -> bool:
    """Errors, but for text of a page that is no UTF-8, which ends its socket."""
    foreign = record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError)
    return record.levelno >= logging.ERROR and not foreign


def has_screen() -> bool:
    """Whether a browser would have somewhere to open; one in the terminal would be no help."""
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in named)


def _host_name(host: str) -> str:
    """A name of this computer that a browser can open."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
