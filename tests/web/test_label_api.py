"""The JSON of the labelling page: keys, clients, bounds, and who is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tiny import TinyRuns

import greffon
from greffon.labelling.log import Log
from greffon.web.labelling import make_label_app

URL = "http://127.0.0.1:8000"


@pytest.fixture
def session(tiny: TinyRuns, tmp_path: Path) -> Iterator[greffon.Session]:
    heap = tmp_path / "heap.txt"
    heap.write_text("".join(f"le chat {word} {i}\n" for i in range(20) for word in ("dort", "mange")))
    with greffon.label(heap, body=tiny.causal, labels="a,b", out=tmp_path / "session", quiet=True) as session:
        yield session


@pytest.fixture
def client(session: greffon.Session) -> Iterator[TestClient]:
    with TestClient(make_label_app(session), base_url=URL) as client:
        yield client


def ask(server: TestClient, name: str, /, **question: object) -> dict:
    answer = server.post(f"/api/{name}", json=question)
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_a_repeated_request_writes_once(client: TestClient, session: greffon.Session) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    given = {"kind": "label", "text": text, "label": "a", "client": "x", "key": "k1"}
    answers = [ask(client, "mark", **given) for _ in range(3)]
    assert answers[0]["question"] == answers[1]["question"] == answers[2]["question"]
    assert answers[2]["progress"]["labels"] + answers[2]["progress"]["aside"] <= 1
    backs = [ask(client, "undo", client="x", key="k2") for _ in range(2)]
    assert [back["question"]["index"] for back in backs] == [text, text]
    assert [mark.kind for mark in Log(session.path / "log.jsonl").marks] == ["label", "undo"]


def test_a_text_that_somebody_else_has_judged_is_not_judged_again(client: TestClient) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    ask(client, "mark", kind="label", text=text, label="a", client="y", key="1", how="list")
    answer = ask(client, "mark", kind="label", text=text, label="b", client="x", key="2")
    assert "somebody else" in answer["note"]
    assert ask(client, "browse")["texts"][0]["label"] == "a"


def test_undo_is_for_the_tab_that_marked(client: TestClient) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    ask(client, "mark", kind="skip", text=text, client="x", key="1")
    assert ask(client, "undo", client="y", key="2")["note"] == "there is nothing to take back"
    assert ask(client, "undo", client="x", key="3")["question"]["index"] == text


def test_search_ignores_case_and_pages(client: TestClient) -> None:
    first = ask(client, "browse", which="all", query="CHAT D")
    assert (len(first["texts"]), first["more"]) == (20, False)
    assert ask(client, "browse", which="all", query="chat", offset=20)["more"] is False
    assert ask(client, "browse", which="all", query="chat")["more"] is True
    assert ask(client, "browse", which="all", query=".*")["texts"] == []


@pytest.mark.parametrize(
    ("name", "question", "error"),
    [
        ("mark", {"kind": "label", "text": 0, "label": "c", "client": "x", "key": "1"}, "unknown label 'c'"),
        ("mark", {"kind": "label", "text": 999, "label": "a", "client": "x", "key": "1"}, "there is no text 999"),
        ("mark", {"kind": "undo", "text": 0, "client": "x", "key": "1"}, "kind"),
        ("mark", {"kind": "skip", "text": -1, "client": "x", "key": "1"}, "choose a number from 0"),
        ("mark", {"kind": "skip", "text": 0, "client": "x" * 201, "key": "1"}, "send 200 at most"),
        ("mark", {"kind": "skip", "text": 0, "client": "x\ny", "key": "1"}, "the client"),
        ("text", {"text": 40}, "there is no text 40"),
        ("browse", {"which": "secrets"}, "which"),
        ("next", [], "expected a table"),
    ],
)
def test_mistakes(client: TestClient, session: greffon.Session, name: str, question: object, error: str) -> None:
    answer = client.post(f"/api/{name}", json=question)
    assert answer.status_code == 400
    assert error in answer.json()["error"]
    assert session.labels() == {}


def test_foreign_hosts_and_origins_are_refused(client: TestClient) -> None:
    question = {"client": "x"}
    assert client.post("/api/next", json=question, headers={"Host": "evil.example"}).status_code == 400
    for origin in ("http://evil.example", "http://127.0.0.1:9000", "http://localhost:8000", "null"):
        assert client.post("/api/next", json=question, headers={"Origin": origin}).status_code == 403, origin
        assert client.get("/labels.csv", headers={"Origin": origin}).status_code == 403
    assert client.post("/api/next", json=question, headers={"Origin": URL}).status_code == 200
    assert client.post("/api/next", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert (
        client.post("/api/next", content=b"x" * 1_000_001, headers={"Content-Type": "application/json"}).status_code
        == 413
    )


def test_the_page_and_its_tables(client: TestClient) -> None:
    page = client.get("/")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for file in ("label/label.js", "label/judge.js", "label/label.css", "style.css", "dom.js", "chart.js", "theme.js"):
        assert client.get(f"/static/{file}").status_code == 200, file
    assert client.get("/static/index.html").status_code == 404
    table = client.get("/labels.csv")
    assert table.text == "text,label,author,time\n"
    assert table.headers["Content-Disposition"] == 'attachment; filename="labels.csv"'
    for path in ("/log.jsonl", "/session.json", "/static/../session.json"):
        assert client.get(path).status_code == 404
