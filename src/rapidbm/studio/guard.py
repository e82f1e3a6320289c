"""Which requests are answered: those that know the token and come from the studio's own page.

    Host      one of the names that the studio was started for. This stops DNS rebinding, where a foreign
              name is made to point to this computer.
    Origin    the studio's own. Every socket, and every request that changes something, must have one.
    token     once in the address, then in a cookie that scripts cannot read; compared in constant time

Responses carry headers that forbid foreign scripts, styles, frames and connections.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=(), payment=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """What a request must know."""

    token: str
    port: int
    names: tuple[str, ...] = LOOPBACK  # of this computer
    any_address: bool = False  # every IP address is ours: the server listens on all of them

    @property
    def cookie(self) -> str:
        """Its name, with the port: browsers send a host's cookies to all of its ports."""
        return f"rapidbm-studio-{self.port}"

    def is_host(self, value: str) -> bool:
        """Whether a Host header names this server."""
        name, _, port = (value if self.port != 80 or ":" in value else f"{value}:80").rpartition(":")
        if port != str(self.port):
            return False
        return name.lower() in self.names or (self.any_address and _is_address(name))

    def is_origin(self, value: str, host: str) -> bool:
        """Whether an Origin header is that of the page, from this very host."""
        return value.lower() == f"http://{host.lower()}"

    def is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware: refuses a request, or passes it on and adds headers to the response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        request = HTTPConnection(scope)
        reason = self._foreign(request)
        if reason is None and self._brings_token(request):
            # From the address, which others may see, into a cookie.
            cookie = f"{self.access.cookie}={self.access.token}; Path=/; HttpOnly; SameSite=Strict"
            answer = RedirectResponse("/", 303, {"set-cookie": cookie})
            return await answer(scope, receive, _with_headers(send, HEADERS))
        if reason is None and not self._has_token(request):
            reason = "the token is missing or wrong; open the address that rapidbm studio printed"
        if reason is None:
            # Some browsers do not count a socket of the page's own host as 'self'.
            policy = {**POLICY, "connect-src": f"'self' ws://{_single(request, 'host')}"}
            policy_header = "; ".join(f"{k} {v}" for k, v in policy.items())
            headers = {**HEADERS, "content-security-policy": policy_header}
            return await self.app(scope, receive, _with_headers(send, headers))
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        refusal = PlainTextResponse(f"refused: {reason}\n", 403, {"connection": "close"})
        return await refusal(scope, receive, _with_headers(send, HEADERS))

    def _foreign(self, request: HTTPConnection) -> str | None:
        """Why the request does not come from the studio's own page; None if it does."""
        host, origin = _single(request, "host"), _single(request, "origin")
        if not self.access.is_host(host):
            return "this is not the host that you asked for"
        must_say = request.scope["type"] == "websocket" or request.scope["method"] not in ("GET", "HEAD")
        if (must_say or "origin" in request.headers) and not self.access.is_origin(origin, host):
            return "only the studio's own page may ask"
        if _single(request, "sec-fetch-site") not in ("", "same-origin", "none"):
            return "only the studio's own page may ask"
        return None

    def _has_token(self, request: HTTPConnection) -> bool:
        bearer = _single(request, "authorization").removeprefix("Bearer ")
        return self.access.is_token(request.cookies.get(self.access.cookie) or bearer)

    def _brings_token(self, request: HTTPConnection) -> bool:
        """Whether this is the printed address, with the token."""
        scope = request.scope
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = request.query_params.getlist("token")
        return len(given) == 1 and self.access.is_token(given[0])


def _single(request: HTTPConnection, name: str) -> str:
    """A header's value; empty where it is missing or comes twice."""
    found = request.headers.getlist(name)
    return found[0].strip() if len(found) == 1 else ""


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Adds headers that the response does not have."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = MutableHeaders(scope=message)
            for name, value in headers.items():
                own.setdefault(name, value)
        await send(message)

    return send_with_headers
