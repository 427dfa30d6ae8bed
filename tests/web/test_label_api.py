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


def mark(server: TestClient, client: str, text: int, key: str, label: str = "a", **given: object) -> dict:
    return ask(server, "mark", **{"kind": "label", "text": text, "label": label, "client": client, "key": key} | given)


@pytest.mark.parametrize("how", ["list", "again"])
def test_a_second_label_that_was_taken_back_can_be_given_again(client: TestClient, how: str) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    mark(client, "x", text, "1")
    if how == "again":
        assert ask(client, "next", client="x", again=True)["question"]["index"] == text
    mark(client, "x", text, "2", label="b", how=how)
    assert ask(client, "undo", client="x", key="3")["question"]["index"] == text
    answer = mark(client, "x", text, "4", label="b")
    assert answer["note"] == ""
    assert answer["question"]["index"] != text
    assert [one["label"] for one in ask(client, "browse")["texts"]] == ["b"]


def test_whoever_takes_a_label_back_that_another_has_changed_is_asked_again(client: TestClient) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    mark(client, "x", text, "1")
    mark(client, "y", text, "2", label="b", how="list")
    assert ask(client, "undo", client="x", key="3")["question"]["index"] == text
    assert ask(client, "browse")["texts"][0]["label"] == "b"
    assert mark(client, "x", text, "4")["note"] == ""
    assert ask(client, "browse")["texts"][0]["label"] == "a"


def test_nothing_to_take_back_leaves_the_text_where_it_is(client: TestClient) -> None:
    text = ask(client, "next", client="x")["question"]["index"]
    answer = ask(client, "undo", client="x", key="1")
    assert (answer["note"], answer["question"]["index"]) == ("there is nothing to take back", text)


def label_some(client: TestClient, n: int) -> list[int]:
    texts = []
    for number in range(n):
        texts.append(ask(client, "next", client="first")["question"]["index"])
        mark(client, "first", texts[-1], f"first {number}")
    return texts


def test_a_second_judgement_that_is_skipped_leaves_the_first(client: TestClient, session: greffon.Session) -> None:
    label_some(client, 2)
    asked = []
    for number in range(2):
        asked.append(ask(client, "next", client="x", again=True)["question"]["index"])
        mark(client, "x", asked[-1], f"{number}", kind="skip", how="again")
    assert len(set(asked)) == 2
    assert len(session.labels()) == 2
    assert session.progress().skipped == 0
    assert ask(client, "next", client="x", again=True)["question"] is None


def test_second_judgements_are_shared_out_and_there_is_no_third(client: TestClient, session: greffon.Session) -> None:
    label_some(client, 2)
    texts = [ask(client, "next", client=tab, again=True)["question"]["index"] for tab in "xy"]
    assert len(set(texts)) == 2
    assert ask(client, "next", client="x", again=True)["question"]["index"] == texts[0]  # until it is judged
    mark(client, "x", texts[0], "1", label="b", how="again")
    late = mark(client, "z", texts[0], "2", how="again")
    assert "somebody else" in late["note"]
    assert session.desk.marks.judged_twice() == {texts[0]: ("a", "b")}


def test_a_first_label_that_was_taken_back_among_second_judgements_stays_what_it_was(
    client: TestClient, session: greffon.Session
) -> None:
    texts = label_some(client, 10)
    (aside,) = session.desk.aside()
    while ask(client, "undo", client="first", key=f"undo {len(texts)}")["question"]["index"] != aside:
        texts.pop()
    mark(client, "first", aside, "new", label="b", how="again")
    assert session.desk.aside() == {aside: "b"}


def test_a_closed_tab_does_not_withhold_the_last_text(client: TestClient, session: greffon.Session) -> None:
    kept = ask(client, "next", client="closed")["question"]["index"]
    texts = label_some(client, 40)
    assert texts[-1] == kept
    assert len(session.labels()) == 40
    assert ask(client, "next", client="first")["question"] is None
    late = mark(client, "closed", kept, "late", label="b")
    assert "somebody else" in late["note"]


def test_search_ignores_case_and_pages(client: TestClient) -> None:
    first = ask(client, "browse", which="all", query="CHAT D")
    assert (len(first["texts"]), first["more"]) == (20, False)
    assert ask(client, "browse", which="all", query="chat", offset=20)["more"] is False
    assert ask(client, "browse", which="all", query="chat")["more"] is True
    assert ask(client, "browse", which="all", query=".*")["texts"] == []


def test_search_goes_over_line_breaks(client: TestClient, session: greffon.Session) -> None:
    session.desk.heap.texts[7] = "le chien\nregarde"
    assert [one["index"] for one in ask(client, "browse", which="all", query="chien  regarde")["texts"]] == [7]


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
