"""Checks of every request: is its host served here, is it small enough, does it arrive in time?"""

import asyncio
import ipaddress
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from greffon.web.limits import Limits

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The page may load files of this server only, and no other site may embed it or read its responses."""


class SafeHeaders:
    """Add security headers to every response; a response may set stricter ones."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers to every response."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


class KnownHost:
    """Refuse requests for another host name, as in DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = LOCAL | {_plain(host) for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, or answer 400."""
        if scope["type"] == "http" and not self._known(scope):
            answer = JSONResponse({"error": "this host is not served here; use the address that was printed"}, 400)
            await answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _known(self, scope: Scope) -> bool:
        asked = Headers(scope=scope).getlist("host")
        if len(asked) != 1:
            return False
        host = _plain(asked[0])
        # The address that the connection came in by is ours, if it is a number: no name can lead there by deceit.
        own = (scope.get("server") or ("",))[0]
        return host in self.hosts or (_is_address(own) and host == _plain(own))


class OwnOrigin:
    """Refuse requests that a page of another origin sends, if its browser says so."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, or answer 403."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            own = {f"{scheme}://{headers.get('host', '')}".lower() for scheme in ("http", "https")}
            if any(origin.lower() not in own for origin in headers.getlist("origin")):
                answer = JSONResponse({"error": "this page answers to itself only, not to other sites"}, 403)
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _plain(host: str) -> str:
    """Remove the port and the brackets from a host."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".") if host.count(":") <= 1 else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class BoundedBody:
    """Refuse bodies that are too large (413) or do not arrive in time (408)."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what is received, and the time it takes."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        too_large = HTTPException(413, f"the request is too large; send {self.limits.body:,} bytes at most")
        promised = Headers(scope=scope).get("content-length", "0")
        deadline = time.monotonic() + self.limits.read_seconds
        received, complete = 0, False

        async def bounded() -> Message:
            nonlocal received, complete
            if complete:  # from here on we only wait for the client to leave
                return await receive()
            if promised.isdigit() and int(promised) > self.limits.body:
                raise too_large
            try:
                message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise HTTPException(408, "the request did not arrive in time", {"Connection": "close"}) from None
            received += len(message.get("body", b""))
            if received > self.limits.body:
                raise too_large
            complete = not message.get("more_body", False)
            return message

        await self.app(scope, bounded, send)
