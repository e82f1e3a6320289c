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
from .messages import SIZE, Header
from .pages import serve_page
from .studio import MAX_CHARACTERS, Studio
from .uploads import UploadError, save_upload

PAGE = Path(__file__).parent / "page"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES = {
    path.relative_to(PAGE).as_posix(): path
    for path in sorted(PAGE.rglob("*"))
    if path.is_file() and path.suffix in MEDIA_TYPES
}
UPLOAD_TIMEOUT = 20.0  # seconds without a byte after which an upload is given up


def application(studio: Studio, access: Access) -> Guard:
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
    found = FILES.get(path)
    if found is None:
        return Response("there is no such part of the page\n", 404, media_type="text/plain")
    headers = {"cache-control": "no-cache"}  # asked for again each time, sent again if it changed
    return FileResponse(found, media_type=MEDIA_TYPES[found.suffix], headers=headers)


async def _socket(studio: Studio, socket: WebSocket) -> None:
    page = studio.open_page(socket.send_bytes)
    if page is None:
        await socket.close(1013, "too many pages are open")
        return
    try:
        await socket.accept()

        async def listen() -> None:
            while True:
                text = await socket.receive_text()
                if len(text) > MAX_CHARACTERS:
                    return
                studio.receive(page, text)

        await serve_page(page, _ended(listen()))
    finally:
        studio.close_page(page)


async def _ended(listening: Any) -> None:
    """What a page says that is no message ends it, as its leaving does."""
    try:
        await listening
    except (WebSocketDisconnect, RuntimeError, KeyError, ValueError, RecursionError, Misfit):
        return


async def _upload(studio: Studio, request: Request) -> Response:
    if studio.read_only:
        return _json(403, {"error": "this studio only shows (--read-only): no files are taken in"})

    async def pieces() -> AsyncIterator[bytes]:
        stream = request.stream().__aiter__()
        while True:
            try:
                yield await asyncio.wait_for(stream.__anext__(), UPLOAD_TIMEOUT)
            except StopAsyncIteration:
                return

    try:
        claimed = request.headers.get("content-length")
        name = await save_upload(studio.folder, request.query_params.get("name", ""), claimed, pieces())
    except UploadError as refusal:
        return _json(refusal.status, {"error": str(refusal)}, close=True)
    except (TimeoutError, ClientDisconnect):
        return _json(408, {"error": "the file did not come"}, close=True)
    header, _ = await studio.read({"ask": "upload", "file": name})
    if "error" in header:
        return _json(422, {"error": str(header["error"]).replace(str(studio.folder), "…")})
    return _json(200, {"answer": header["answer"]})


async def _export(studio: Studio, request: Request) -> Response:
    run = request.query_params.get("run", "")
    header, whole = await studio.ask(studio.analyses, {"ask": "report", "run": run})
    if "error" in header:
        return _json(404, {"error": header["error"]})
    (size,) = SIZE.unpack_from(whole)
    name = quote(f"{run.replace('/', '-')}.html")
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": "sandbox",  # it is to be saved, not to be run here
    }
    start = SIZE.size + size
    report = whole[start : start + int(header["arrays"][0][2][0])]
    return Response(report, headers=headers, media_type=MEDIA_TYPES[".html"])


def _json(status: int, told: Header, *, close: bool = False) -> Response:
    headers = {"connection": "close"} if close else {}
    return Response(json.dumps(told), status, headers=headers, media_type="application/json")
