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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    for number in range(PORT, PORT + PORTS_TRIED) if port is None else (port,):
        try:
            return socket.create_server((host, number), family=family, dualstack_ipv6=both)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            reason = str(error.strerror).partition(" (while")[0]
            raise InputError(f"{host}:{number} cannot be had: {reason}; give another --port") from error
    raise InputError(f"ports {PORT} to {PORT + PORTS_TRIED - 1} are all taken; give another --port")


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach the host."""
    return host in ("127.0.0.1", "localhost", "::1")


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    names: tuple[str, ...] = (),
    read_only: bool = False,
    browser: bool = True,
    on_address: Callable[[str], None] = print,
) -> None:
    """Serves the studio of a folder until it is interrupted.

    Parameters
    ----------
    folder
        The runs that are shown, and where new ones go.
    host, port
        Where to listen; without a port the first free one from 8715 on. Any host but this computer itself
        opens the studio to the network.
    names
        Names of this computer that browsers may ask for, besides 127.0.0.1 and localhost.
    read_only
        Nothing is trained, uploaded or written.
    browser
        Opens a browser on the page, where there is a screen.
    on_address
        Gets the address of the page, with its token.

    Raises
    ------
    InputError
        If the port is taken, or the host is none of this computer.
    """
    listener = listening_socket(host, port)
    number = int(listener.getsockname()[1])
    known = (*LOOPBACK, *(name.lower() for name in names))
    access = Access(secrets.token_urlsafe(24), number, known, any_address=not is_loopback(host))
    address = f"http://{names[0] if names else _host_name(host)}:{number}/?token={access.token}"
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
    on_address(address)
    if browser and has_screen():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with suppress(KeyboardInterrupt):  # how a server ends
        uvicorn.Server(config).run(sockets=[listener])


def _is_server_error(record: logging.LogRecord) -> bool:
    """Whether it is logged; that a page sent no UTF-8 is not, as it only ends its socket."""
    foreign = record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError)
    return record.levelno >= logging.ERROR and not foreign


def has_screen() -> bool:
    """Whether a browser can open a window (one in the terminal cannot show the page)."""
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in named)


def _host_name(host: str) -> str:
    """A name of this computer that a browser can open."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
