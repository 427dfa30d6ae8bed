"""What is served in these tests, and a real server to serve it."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from greffon.runs.run import Run
from greffon.web.catalogue import Catalogue
from greffon.web.limits import DEFAULT, Limits
from greffon.web.server import listen, make_server


@dataclass(frozen=True)
class Kinds:
    """What is served, by the names that clients use."""

    causal: Run
    masked: Run
    classifier: Run
    translator: Run
    verdict: Path

    @property
    def paths(self) -> list[Path]:
        runs = (self.causal, self.masked, self.classifier, self.translator)
        return [*(run.path for run in runs), self.verdict]


@dataclass(frozen=True)
class Address:
    """A server that is running."""

    port: int
    server: uvicorn.Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def working(self) -> int:
        """How much model work it has, or has waiting."""
        inside: int = self.server.config.app.state.pool.inside
        return inside

    def connect(self, sent: bytes = b"", timeout: float = 10) -> socket.socket:
        """Open a connection and say something on it."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout)
        client.sendall(sent)
        return client


@contextlib.contextmanager
def running(paths: list[Path], limits: Limits = DEFAULT) -> Iterator[Address]:
    """Run a real server in a thread."""
    with listen("127.0.0.1", 0) as listener:
        server = make_server(Catalogue(paths), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield Address(listener.getsockname()[1], server)
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            assert not thread.is_alive()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
