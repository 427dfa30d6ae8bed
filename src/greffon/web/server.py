"""The HTTP server: its socket, and a deadline for slow clients."""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from greffon.core.console import say
from greffon.core.errors import UserError, out_of_range, setting
from greffon.runs.run import Run
from greffon.web.app import make_app
from greffon.web.catalogue import Catalogue
from greffon.web.limits import DEFAULT, Limits


def run_server(runs: Sequence[str | Path | Run], host: str, port: int) -> None:
    """Print the address of the page, and serve it until Ctrl-C."""
    catalogue = Catalogue(runs)
    serve_app(lambda hosts: make_app(catalogue, DEFAULT, hosts), host, port, "use the runs")


def serve_app(make: Callable[[Sequence[str]], Starlette], host: str, port: int, risk: str) -> None:
    """Print the address of an application, made for the names of this host, and serve it until Ctrl-C."""
    with listen(host, port) as listener:
        address, number = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        say(f"greffon is at http://{shown}:{number} (Ctrl-C stops it)")
        if not ipaddress.ip_address(address).is_loopback:
            say(f"warning: everybody who can reach this address can {risk}; there is no password")
        server_of(make([host, socket.gethostname()]), DEFAULT).run(sockets=[listener])
        # It ends only when it is asked to, and passes the signal on; where that came too late, it is said here.
        raise KeyboardInterrupt


def listen(host: str, port: int) -> socket.socket:
    """Open the socket; raise a `UserError` if the address cannot be used."""
    if not 0 <= port <= 65535:
        raise out_of_range("port", port, "choose a number from 0 (any free one) to 65535")
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return socket.create_server((str(address[0]), int(address[1])), family=family, backlog=256)
    except socket.gaierror:
        raise UserError(f"there is no host {host!r}; give an address of this machine, such as 127.0.0.1") from None
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE:
            raise UserError(
                f"port {port} is taken; choose another with {setting('port')}, or 0 for any free one"
            ) from None
        raise UserError(f"cannot listen on {host}, port {port}: {problem.strerror}; choose others") from None


def make_server(catalogue: Catalogue, limits: Limits = DEFAULT, hosts: Sequence[str] = ()) -> uvicorn.Server:
    """Make a server of runs without starting it."""
    return server_of(make_app(catalogue, limits, hosts), limits)


def server_of(app: Starlette, limits: Limits) -> uvicorn.Server:
    """Make a server of an application without starting it."""

    class Protocol(ReadDeadline):
        seconds = limits.read_seconds

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


class ReadDeadline(H11Protocol):
    """HTTP with a deadline: a connection is closed if the head of a request does not arrive in time.

    The body of a request is read by the application, with the same deadline.
    """

    seconds: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the deadline once the head of a request is complete."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadline of a closed connection."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.seconds, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
