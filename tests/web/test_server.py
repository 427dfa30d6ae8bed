"""A real server on a real socket: foreign hosts, large bodies, clients that say nothing, and clients that leave."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx2
import pytest
from serving import Address, Kinds, running, until

from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.web.limits import Limits
from greffon.web.server import listen

PATIENCE = 1.0
LONG = {"run": "causal", "prompt": "le chat", "max_new_tokens": 400, "temperature": 3.0}


@pytest.fixture(scope="module")
def server(kinds: Kinds) -> Iterator[Address]:
    with running(kinds.paths, Limits(read_seconds=PATIENCE, at_once=1, waiting=1)) as address:
        yield address


def head(path: str, host: str = "127.0.0.1", method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def status(client: socket.socket) -> int:
    with client:
        answer = client.recv(4096)
    return int(answer.split()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]:80", "localhost."])
def test_own_hosts_are_welcome(server: Address, host: str) -> None:
    assert status(server.connect(head("/api/runs", host))) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::2]", "a:b:c"]
)
def test_foreign_hosts_are_refused(server: Address, host: str) -> None:
    for path in ("/", "/api/runs", "/static/app.js"):
        assert status(server.connect(head(path, host))) == 400


def test_a_request_without_a_host_is_refused(server: Address) -> None:
    assert status(server.connect(b"GET / HTTP/1.0\r\n\r\n")) == 400
    assert status(server.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")) == 400


def test_large_bodies_are_refused_before_they_are_read(server: Address) -> None:
    promised = head("/api/generate", method="POST", Content_Type="application/json", Content_Length="1000001")
    assert status(server.connect(promised)) == 413
    response = httpx2.post(f"{server.url}/api/generate", json={"run": "causal", "prompt": "x" * 1_000_000})
    assert response.status_code == 413
    assert response.json()["error"] == "the request is too large; send 1,000,000 bytes at most"


def test_large_bodies_without_a_length_are_refused_too(server: Address) -> None:
    def chunks() -> Iterator[bytes]:
        yield from [b"x" * 100_000] * 11

    kind = {"Content-Type": "application/json"}
    assert httpx2.post(f"{server.url}/api/generate", content=chunks(), headers=kind).status_code == 413


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", head("/")[:-2], b"POST /api/fill HTTP/1.1\r\nHost: localhost\r\nX: "]
)
def test_a_client_that_stalls_is_cut_off(server: Address, sent: bytes) -> None:
    with server.connect(sent) as client:
        assert client.recv(100) == b""  # closed by the server


def test_a_trickle_does_not_buy_time(server: Address) -> None:
    with server.connect() as client:
        client.settimeout(0.02)
        begun = time.monotonic()
        while time.monotonic() < begun + 20:
            client.send(b"x")
            try:
                assert client.recv(1) == b""  # closed by the server
                break
            except TimeoutError:
                pass
        assert PATIENCE / 2 < time.monotonic() - begun < 20


def test_a_body_that_does_not_arrive_in_time(server: Address) -> None:
    half = head("/api/fill", method="POST", Content_Type="application/json", Content_Length="50") + b'{"run":'
    with server.connect(half) as client:
        answer = b""
        while more := client.recv(4096):  # until the server closes
            answer += more
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not arrive in time" in answer


def test_a_second_request_on_a_connection_has_its_own_time(server: Address) -> None:
    with server.connect(head("/api/runs")) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET / HT")
        while client.recv(65536):
            pass


def test_too_many_questions_are_sent_away_and_dropped_ones_stop(server: Address) -> None:
    """With room for one at work and one waiting; each question would take a while."""
    body = json.dumps({**LONG, "alternatives": 20}).encode()
    whole = head("/api/generate/stream", method="POST", Content_Type="application/json", Content_Length=str(len(body)))
    first, second = server.connect(whole + body), server.connect(whole + body)
    until(lambda: server.working == 2)
    third = httpx2.post(f"{server.url}/api/generate", json=LONG)
    assert third.status_code == 503
    assert third.headers["retry-after"] == "1"
    assert third.json()["error"].startswith("too many requests")
    assert httpx2.get(f"{server.url}/api/runs").status_code == 200  # the loop is free
    first.close()
    second.close()
    until(lambda: server.working == 0)
    assert httpx2.post(f"{server.url}/api/generate", json={**LONG, "max_new_tokens": 1}).status_code == 200


def test_a_dropped_question_stops_at_its_next_step(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only streams: a plain question, too, and long before its end."""
    from greffon.inference import sampling

    steps = []
    logits = sampling.Reader.logits

    def slow(self: sampling.Reader) -> object:
        steps.append(time.sleep(0.02))
        return logits(self)

    monkeypatch.setattr(sampling.Reader, "logits", slow)
    body = json.dumps(LONG).encode()
    asked = head("/api/generate", method="POST", Content_Type="application/json", Content_Length=str(len(body))) + body
    client = server.connect(asked)
    until(lambda: len(steps) > 2)
    client.close()
    until(lambda: server.working == 0)
    assert len(steps) < 300


def test_lines_come_one_by_one(server: Address) -> None:
    question = {**LONG, "max_new_tokens": 20}
    with httpx2.stream("POST", f"{server.url}/api/generate/stream", json=question) as response:
        pieces = list(response.iter_raw())
    assert len(pieces) > 1
    assert "generation" in json.loads(b"".join(pieces).splitlines()[-1])


def test_a_port_that_cannot_be_had(server: Address) -> None:
    with pytest.raises(UserError, match=f"port {server.port} is taken; choose another with port"):
        listen("127.0.0.1", server.port)
    with pytest.raises(UserError, match="port is 70000"):
        listen("127.0.0.1", 70000)
    with pytest.raises(UserError, match="there is no host 'no such host'"):
        listen("no such host", 0)


def test_the_command_refuses_what_is_no_run(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["serve"], "nothing to serve"), (["serve", str(tmp_path)], "is no run")):
        assert command(words) == 1
        assert said in capsys.readouterr().err


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from greffon.cli import main; main(['serve', 'runs/body'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr == (
        "greffon: the page needs starlette and uvicorn; install them with: pip install 'greffon[serve]'\n"
    )
