"""One set of tiny runs of every kind, and a real server over them where a test needs one."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

import greffon
from greffon.run import Run
from greffon.web.app import make_app
from greffon.web.catalogue import Catalogue
from greffon.web.limits import DEFAULT, Limits
from greffon.web.server import listen, make_server
from tiny import TinyRuns


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


@pytest.fixture(scope="session")
def kinds(tiny: TinyRuns) -> Kinds:
    out = tiny.folder / "verdict"
    made = greffon.compare([tiny.causal], train=tiny.table, seeds=1, epochs=1, jobs=1, out=out, quiet=True)
    return Kinds(tiny.causal, tiny.masked, tiny.classifier, tiny.translator, made.path)


@pytest.fixture(scope="session")
def client(kinds: Kinds) -> Iterator[TestClient]:
    with TestClient(make_app(Catalogue(kinds.paths)), base_url="http://127.0.0.1:8000") as client:
        yield client


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
        inside: int = self.server.config.app.state.workshop.inside
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


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)
