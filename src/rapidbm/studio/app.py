"""What the server answers: the page and its files, one socket for each open page, uploads, reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..disk import parse_json
from ..schema import Misfit
from .guard import Access, Guard
from .messages import SIZE, Header
from .pages import serve_page
from .studio import MAX_CHARACTERS, MESSAGE, Studio
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
    """The ASGI application, behind its guard."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await studio.open()
        yield
        await studio.close()

    routes = [
        Route("/", _file, methods=["GET"]),
        Route("/page/{path:path}", _file, methods=["GET"]),
        Route("/upload", partial(_upload, studio), methods=["POST"]),
        Route("/export", partial(_export, studio), methods=["GET"]),
        Route("/table", partial(_table, studio), methods=["GET"]),
        WebSocketRoute("/socket", partial(_socket, studio)),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), access)


async def _file(request: Request) -> Response:
    """A file of the page; only those that were there when this module was imported."""
    path = FILES.get(request.path_params.get("path", "index.html"))
    if path is None:
        return PlainTextResponse("the page has no such file\n", 404)
    headers = {"cache-control": "no-cache"}  # asked for again each time, sent again if it changed
    return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers=headers)


async def _socket(studio: Studio, socket: WebSocket) -> None:
    page = studio.open_page(socket.send_bytes)
    if page is None:
        await socket.close(1013, "too many pages are open")
        return

    async def listen() -> None:
        """Until the page is closed, or sends something that is no message."""
        try:
            while len(text := await socket.receive_text()) <= MAX_CHARACTERS:
                studio.receive(page, text)
        except (WebSocketDisconnect, RuntimeError, KeyError, ValueError, RecursionError, Misfit):
            return

    try:
        await socket.accept()
        await serve_page(page, listen())
    finally:
        studio.close_page(page)


async def _upload(studio: Studio, request: Request) -> Response:
    if studio.read_only:
        return JSONResponse({"error": "this studio only shows (--read-only): it takes no files"}, 403)

    async def pieces() -> AsyncIterator[bytes]:
        stream = aiter(request.stream())
        while (piece := await asyncio.wait_for(anext(stream, None), UPLOAD_TIMEOUT)) is not None:
            yield piece

    try:
        claimed = request.headers.get("content-length")
        name = await save_upload(studio.folder, request.query_params.get("name", ""), claimed, pieces())
    except UploadError as error:
        return JSONResponse({"error": str(error)}, error.status, {"connection": "close"})
    except (TimeoutError, ClientDisconnect):
        return JSONResponse({"error": "the upload stopped before its end"}, 408, {"connection": "close"})
    header, _ = await studio.read({"ask": "upload", "file": name})
    if "error" in header:
        return JSONResponse({"error": str(header["error"]).replace(str(studio.folder), "…")}, 422)
    return JSONResponse({"answer": header["answer"]})


async def _export(studio: Studio, request: Request) -> Response:
    run = request.query_params.get("run", "")
    header, whole = await studio.ask(studio.analyses, {"ask": "report", "run": run})
    if "error" in header:
        return JSONResponse({"error": header["error"]}, 404)
    return _saved(header, whole, f"{run}.html", MEDIA_TYPES[".html"])


async def _table(studio: Studio, request: Request) -> Response:
    """Samples, scores or a filled table as a file; `asked` is what a page would ask, as JSON."""
    try:
        asked = parse_json(request.query_params.get("asked", ""))
        MESSAGE.check(asked, "")
    except (ValueError, RecursionError, Misfit):
        return JSONResponse({"error": "a table is asked for in JSON"}, 400)
    header, whole = await studio.read({**asked, "ask": "file"}, "tables")
    if "error" in header:
        return JSONResponse({"error": header["error"]}, 422)
    return _saved(header, whole, f"{asked.get('what')}.csv", "text/csv; charset=utf-8")


def _saved(header: Header, whole: bytes, name: str, kind: str) -> Response:
    """The first array of an answer as a file."""
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name.replace('/', '-'))}",
        "content-security-policy": "sandbox",  # to be saved, not to run here
    }
    (size,) = SIZE.unpack_from(whole)
    start = SIZE.size + size
    content = whole[start : start + int(header["arrays"][0][2][0])]
    return Response(content, headers=headers, media_type=kind)
