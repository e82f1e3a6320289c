"""Who may ask: requests that know the token, come from the studio's own page and name it as their host.

    Host      one of the names that the studio was started for: a name that a stranger lets point to this
              computer (DNS rebinding) is none of them
    Origin    the studio's own; a request that changes something and every socket must have one
    token     once in the address, then in a cookie that scripts cannot read; compared in constant time

What is answered carries headers that forbid scripts, styles, frames and connections of anybody else.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

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
        return f"rapidbm-studio-{self.port}"  # cookies of all ports are one heap

    def is_host(self, value: str) -> bool:
        name, _, port = (value if self.port != 80 or ":" in value else f"{value}:80").rpartition(":")
        if port != str(self.port):
            return False
        return name.lower() in self.names or (self.any_address and _is_address(name))

    def is_origin(self, value: str, host: str) -> bool:
        """The page's own: of this very host."""
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
    """Refuses, or lets through and dresses what is answered."""

    def __init__(self, app: App, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = _Headers(scope["headers"])
        reason = self._refusal(scope, headers)
        if reason is None and self._brings_token(scope):
            return await self._set_cookie(send)
        if reason is None and not self._knows_token(headers):
            reason = "the token is missing or wrong; open the address that rapidbm studio printed"
        if reason is None:
            return await self.app(scope, receive, self._with_headers(send, headers.one("host")))
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        return await self._refuse(send, reason)

    def _refusal(self, scope: Scope, headers: _Headers) -> str | None:
        """Why the request is not from the studio's own page, if it is not."""
        host = headers.one("host")
        if not self.access.is_host(host):
            return "this is not the host that you asked for"
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        origin = headers.one("origin")
        if (origin or changes or headers.has("origin")) and not self.access.is_origin(origin, host):
            return "only the studio's own page may ask"
        if headers.one("sec-fetch-site") not in ("", "same-origin", "none"):
            return "only the studio's own page may ask"
        return None

    def _knows_token(self, headers: _Headers) -> bool:
        bearer = headers.one("authorization").removeprefix("Bearer ")
        return self.access.is_token(headers.cookie(self.access.cookie) or bearer)

    def _brings_token(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=8).get("token", [])
        return len(given) == 1 and self.access.is_token(given[0])

    async def _set_cookie(self, send: Send) -> None:
        """The token moves from the address, which others may see, into a cookie."""
        cookie = f"{self.access.cookie}={self.access.token}; Path=/; HttpOnly; SameSite=Strict"
        await self._respond(send, 303, "", {"location": "/", "set-cookie": cookie})

    async def _refuse(self, send: Send, reason: str) -> None:
        await self._respond(send, 403, f"refused: {reason}\n", {"connection": "close"})

    async def _respond(self, send: Send, status: int, text: str, more: dict[str, str]) -> None:
        own = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(text.encode()))}
        start = {"type": "http.response.start", "status": status}
        await send({**start, "headers": _raw({**HEADERS, **own, **more}.items())})
        await send({"type": "http.response.body", "body": text.encode()})

    def _with_headers(self, send: Send, host: str) -> Send:
        # Some browsers do not count a socket of the page's own host as 'self'.
        policy = {**POLICY, "connect-src": f"'self' ws://{host}"}
        own = {**HEADERS, "content-security-policy": "; ".join(f"{k} {v}" for k, v in policy.items())}

        async def send_with_headers(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                given = {name.decode("latin-1").lower() for name, _ in event.get("headers", [])}
                more = [(k, v) for k, v in own.items() if k not in given]
                event = {**event, "headers": [*event.get("headers", []), *_raw(more)]}
            await send(event)

        return send_with_headers


class _Headers:
    """Headers of a request; one that comes twice is none."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self.all = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in raw]

    def has(self, name: str) -> bool:
        return any(k == name for k, _ in self.all)

    def one(self, name: str) -> str:
        found = [v for k, v in self.all if k == name]
        return found[0].strip() if len(found) == 1 else ""

    def cookie(self, name: str) -> str:
        jar: SimpleCookie = SimpleCookie()
        try:
            for key, value in self.all:
                if key == "cookie":
                    jar.load(value)
        except CookieError:
            return ""
        return jar[name].value if name in jar else ""


def _raw(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers]
