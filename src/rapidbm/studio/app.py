"""What the server answers: the page and its parts, one socket for each page, files in, reports out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..schema import Misfit
from .guard import Access, Guard
from .pages import while_open
from .studio import LETTERS, Studio
from .uploads import Refused, take_in
from .wire import SIZE, Header

HERE = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PARTS = {
    path.relative_to(HERE).as_posix(): path
    for path in sorted(HERE.rglob("*"))
    if path.is_file() and path.suffix in KINDS
}
SILENCE = 20.0  # seconds without a byte after which an upload is given up


def made(studio: Studio, access: Access) -> Guard:
    """The application, guarded."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await studio.open()
        yield
        await studio.close()

    async def page(request: Request) -> Response:
        return _part("index.html")

    async def part(request: Request) -> Response:
        return _part(request.path_params["path"])

    async def socket(request: WebSocket) -> None:
        await _socket(studio, request)

    async def upload(request: Request) -> Response:
        return await _upload(studio, request)

    async def export(request: Request) -> Response:
        return await _export(studio, request)

    routes = [
        Route("/", page, methods=["GET"]),
        Route("/page/{path:path}", part, methods=["GET"]),
        Route("/upload", upload, methods=["POST"]),
        Route("/export", export, methods=["GET"]),
        WebSocketRoute("/socket", socket),
    ]
    return Guard(Starlette(routes=routes, lifespan=life), access)


def _part(path: str) -> Response:
    """A file of the page; only those that were there when the server was loaded."""
    found = PARTS.get(path)
    if found is None:
        return Response("there is no such part of the page\n", 404, media_type="text/plain")
    headers = {"cache-control": "no-cache"}  # asked for again each time, sent again if it changed
    return FileResponse(found, media_type=KINDS[found.suffix], headers=headers)


async def _socket(studio: Studio, socket: WebSocket) -> None:
    page = studio.enter(socket.send_bytes)
    if page is None:
        await socket.close(1013, "too many pages are open")
        return
    try:
        await socket.accept()

        async def listen() -> None:
            while True:
                text = await socket.receive_text()
                if len(text) > LETTERS:
                    return
                studio.hear(page, text)

        await while_open(page, _ended(listen()))
    finally:
        studio.leave(page)


async def _ended(listening: Any) -> None:
    """What a page says that is no message ends it, as its leaving does."""
    try:
        await listening
    except (WebSocketDisconnect, RuntimeError, KeyError, ValueError, RecursionError, Misfit):
        return


async def _upload(studio: Studio, request: Request) -> Response:
    if studio.read_only:
        return _told(403, {"error": "this studio only shows (--read-only): no files are taken in"})

    async def pieces() -> AsyncIterator[bytes]:
        stream = request.stream().__aiter__()
        while True:
            try:
                yield await asyncio.wait_for(stream.__anext__(), SILENCE)
            except StopAsyncIteration:
                return

    try:
        claimed = request.headers.get("content-length")
        name = await take_in(studio.folder, request.query_params.get("name", ""), claimed, pieces())
    except Refused as refusal:
        return _told(refusal.status, {"error": str(refusal)}, close=True)
    except (TimeoutError, ClientDisconnect):
        return _told(408, {"error": "the file did not come"}, close=True)
    header, _ = await studio.read({"ask": "upload", "file": name})
    if "error" in header:
        return _told(422, {"error": str(header["error"]).replace(str(studio.folder), "…")})
    return _told(200, {"answer": header["answer"]})


async def _export(studio: Studio, request: Request) -> Response:
    run = request.query_params.get("run", "")
    header, whole = await studio.ask(studio.look, {"ask": "report", "run": run})
    if "error" in header:
        return _told(404, {"error": header["error"]})
    (size,) = SIZE.unpack_from(whole)
    name = quote(f"{run.replace('/', '-')}.html")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": "sandbox",  # it is to be saved, not to be run here
    }
    start = SIZE.size + size
    return Response(
        whole[start : start + int(header["arrays"][0][2][0])], headers=headers, media_type=KINDS[".html"]
    )


def _told(status: int, told: Header, *, close: bool = False) -> Response:
    headers = {"connection": "close"} if close else {}
    return Response(json.dumps(told), status, headers=headers, media_type="application/json")
