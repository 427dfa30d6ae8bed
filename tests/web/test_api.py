"""Every question as JSON: the same answers as from Python, the failures one sentence each, and a true description."""

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate
from serving import Kinds
from starlette.testclient import TestClient
from tiny import TinyRuns

import greffon
from greffon.web.app import make_app
from greffon.web.catalogue import Catalogue


def ask(client: TestClient, name: str, **question: Any) -> Any:
    response = client.post(f"/api/{name}", json=question)
    assert response.status_code == 200, response.text[:300]
    return response.json()


def refused(client: TestClient, name: str, status: int = 400, **question: Any) -> str:
    response = client.post(f"/api/{name}", json=question)
    assert response.status_code == status, response.text[:300]
    assert list(response.json()) == ["error"]
    said: str = response.json()["error"]
    return said


def test_generate(client: TestClient, kinds: Kinds) -> None:
    made = ask(client, "generate", run="causal", prompt="le chat", max_new_tokens=6, seed=3)
    expected = greffon.generate(kinds.causal, "le chat", max_new_tokens=6, seed=3)
    assert made == {"prompt": "le chat", "text": expected.text, "tokens": expected.tokens, "seed": 3}


def test_stream_is_the_same_text_line_by_line(client: TestClient, kinds: Kinds) -> None:
    question = {"run": "causal", "prompt": "le chat", "max_new_tokens": 6, "seed": 3, "alternatives": 4}
    response = client.post("/api/generate/stream", json=question)
    assert response.headers["content-type"] == "application/x-ndjson"
    *written, last = map(json.loads, response.text.splitlines())
    assert last["generation"] == ask(client, "generate", run="causal", prompt="le chat", max_new_tokens=6, seed=3)
    assert "le chat" + "".join(line["written"]["text"] for line in written) == last["generation"]["text"]
    for line in written:
        chances = [one["probability"] for one in line["written"]["alternatives"]]
        assert len(chances) == 4
        assert chances == sorted(chances, reverse=True)


def test_fill(client: TestClient, kinds: Kinds) -> None:
    (mask,) = ask(client, "fill", run="masked", text="le [MASK] dort", top_k=3)
    (expected,) = greffon.fill(kinds.masked, "le [MASK] dort", top_k=3)
    assert mask["text"] == "le [MASK] dort"
    assert [one["token"] for one in mask["candidates"]] == [one.token for one in expected.candidates]


def test_classify_and_which_words_mattered(client: TestClient, kinds: Kinds) -> None:
    found = ask(client, "classify", run="classifier", texts=["le chat dort", "la vache"])
    assert [one["text"] for one in found] == ["le chat dort", "la vache"]
    assert set(found[0]["probabilities"]) == {"poil", "autre"}
    words = ask(client, "occlude", run="classifier", text="le chat dort")
    assert words["label"] == found[0]["label"]
    assert [one["word"] for one in words["words"]] == ["le", " chat", " dort"]
    expected = greffon.occlude(kinds.classifier, "le chat dort").words
    assert [one["influence"] for one in words["words"]] == pytest.approx([one.influence for one in expected], abs=1e-6)


def test_other_tasks_answer_in_their_form(tiny: TinyRuns, tmp_path: Path) -> None:
    files = {
        "spans": ("a.conll", "le O\nchat B-PET\n\nla O\nvache B-PET\n"),
        "labels": ("a.csv", "text,labels\nle chat,a|b\nla vache,b\nun,\n"),
        "score": ("b.csv", "text,score\nle chat,1\nla vache,2\nun,4\n"),
        "label": ("c.csv", "text_a,text_b,label\nle chat,un chat,x\nle chien,un chat,y\nun,deux,x\nun,la vache,y\n"),
    }
    runs = {}
    for field, (name, content) in files.items():
        (tmp_path / name).write_text(content)
        data = tmp_path / name
        runs[field] = greffon.finetune(tiny.causal, train=data, valid=data, out=tmp_path / field, epochs=1, quiet=True)
    with TestClient(make_app(Catalogue([*runs.values()])), base_url="http://127.0.0.1:8000") as client:
        served = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
        for field, run in runs.items():
            asked = {"second": "un chien"} if field == "label" else {}
            found = ask(client, "answer", run=field, text="le chat dort", **asked)
            assert found[field] is not None
            assert found["task"] == served[field]["task"] == run.recipe.task
            assert "answer" in served[field]["abilities"]
            assert "occlude" not in served[field]["abilities"]
            assert not any("/" in name for name in served[field]["scores"])
            refused = client.post("/api/classify", json={"run": field, "texts": ["x"]})
            assert refused.status_code == 400


def test_translate_and_where_it_looked(client: TestClient, kinds: Kinds) -> None:
    (made,) = ask(client, "translate", run="translator", texts=["two red dog"])
    (expected,) = greffon.translate(kinds.translator, "two red dog")
    assert made["translation"] == expected.translation
    looked = ask(client, "attention", run="translator", text="two red dog", to=made["translation"], kind="cross")
    assert looked["keys"][-1] == "</s>"
    assert (looked["layers"], looked["heads"], looked["layer"]) == (2, 2, 2)
    for head in looked["weights"]:
        assert len(head) == len(looked["queries"])
        for query in head:
            assert sum(query) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("run", ["causal", "masked", "classifier"])
def test_attention_on_itself(client: TestClient, kinds: Kinds, run: str) -> None:
    looked = ask(client, "attention", run=run, text="le chat dort", layer=1)
    expected = greffon.attention(getattr(kinds, run), "le chat dort")
    assert looked["queries"] == expected.queries
    assert looked["weights"][1][2] == pytest.approx(expected.of(1, 2)[2].tolist(), abs=1e-4)
    assert [habit["head"] for habit in looked["habits"]] == [1, 2]


def test_embed(client: TestClient, kinds: Kinds) -> None:
    found = ask(client, "embed", run="causal", texts=["le chat", "la vache"], pooling="last")["vectors"]
    expected = greffon.embed(kinds.causal, ["le chat", "la vache"], pooling="last")
    assert found[1] == pytest.approx(expected[1].tolist(), abs=1e-5)


def test_runs_say_what_can_be_asked_of_them(client: TestClient) -> None:
    served = client.get("/api/runs").json()
    runs = {run["name"]: run for run in served["runs"]}
    assert set(runs) == {"causal", "masked", "classifier", "translator"}
    assert runs["causal"]["abilities"] == ["generate", "embed", "attention"]
    assert runs["classifier"]["labels"] == ["autre", "poil"]
    assert {run["state"] for run in runs.values()} == {"finished"}
    assert runs["causal"]["steps_done"] == runs["causal"]["steps"] == 60
    (comparison,) = served["comparisons"]
    assert comparison["name"] == "verdict"
    assert "retraining" in comparison["verdict"]
    assert set(comparison["arms"]) >= {"pretrained", "scratch", "tfidf", "majority"}


def test_curve_and_ledger(client: TestClient, kinds: Kinds) -> None:
    curve = client.get("/api/runs/causal/curve").json()
    assert curve["steps"] == 60
    held = [entry for entry in kinds.causal.metrics() if "valid" in entry]
    assert curve["valid"]["loss"][-1] == pytest.approx(
        [held[-1]["step"], held[-1]["seconds"], held[-1]["valid"]["loss"]]
    )
    assert client.get("/api/runs/causal/ledger").json() == greffon.params(kinds.causal).to_json()


def test_the_report_is_shown_but_may_do_nothing(client: TestClient, kinds: Kinds) -> None:
    response = client.get("/api/comparisons/verdict/report")
    assert response.text == (kinds.verdict / "report.html").read_text(encoding="utf-8")
    policy = response.headers["content-security-policy"]
    assert policy.startswith("sandbox;")
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


def test_the_page_needs_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    folder = Path(greffon.__file__).parent / "web" / "static"
    for file in (path for path in folder.rglob("*") if path.is_file()):
        source = file.read_text(encoding="utf-8")
        for address in ("http://", "https://", "//cdn"):
            assert address not in source.replace("http://www.w3.org/", ""), (file, address)
        if file.parent == folder and file.name != "index.html":
            assert client.get(f"/static/{file.name}").content == file.read_bytes()


def test_the_description_is_valid_and_complete(client: TestClient) -> None:
    described = client.get("/api/openapi.json").json()
    validate(described)
    served = {route.path for route in client.app.routes if route.path.startswith("/api/")}  # type: ignore[attr-defined]
    assert set(described["paths"]) == served - {"/api/openapi.json"}
    prompt = described["paths"]["/api/generate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert prompt["required"] == ["run"]
    assert prompt["properties"]["max_new_tokens"] == {"type": "integer", "minimum": 1, "maximum": 400, "default": 40}
    assert prompt["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "question", "said"),
    [
        ("generate", {"run": "masked"}, "is a masked run and cannot generate"),
        ("generate/stream", {"run": "masked"}, "is a masked run and cannot generate"),
        ("generate", {"run": "causal", "promt": "x"}, "unknown setting 'promt'; did you mean 'prompt'?"),
        ("generate", {"run": "causal", "max_new_tokens": 401}, "max_new_tokens is 401; choose a number from 1 to 400"),
        ("generate", {"run": "causal", "max_new_tokens": 0}, "max_new_tokens is 0"),
        ("generate", {"run": "causal", "max_new_tokens": "10"}, "expected int, found '10'"),
        ("generate", {"run": "causal", "max_new_tokens": True}, "expected int, found True"),
        ("generate", {"run": "causal", "temperature": -1}, "temperature is -1.0"),
        ("generate", {"run": "causal", "temperature": 10**400}, "a number is too large"),
        ("generate", {"run": "causal", "top_p": 0}, "choose a share above 0"),
        ("generate", {"run": "causal", "seed": -1}, "seed is -1"),
        ("generate", {"run": "causal", "prompt": "x" * 20_001}, "prompt has 20,001 characters; send 20,000 at most"),
        ("generate", {"prompt": "x"}, "'run' is missing"),
        ("generate", {"run": 3}, "expected str, found 3"),
        ("generate/stream", {"run": "causal", "alternatives": 21}, "alternatives is 21"),
        ("fill", {"run": "masked", "text": "le chat"}, "no [MASK]"),
        ("fill", {"run": "masked", "text": "[MASK] " * 60}, "shorten it"),
        ("classify", {"run": "causal", "texts": ["x"]}, "no classifier"),
        ("classify", {"run": "classifier", "texts": "x"}, "expected"),
        ("classify", {"run": "classifier", "texts": ["x"] * 65}, "texts has 65 texts; send 64 at most"),
        ("classify", {"run": "classifier", "texts": ["x" * 20_001]}, "20,001 characters"),
        ("occlude", {"run": "classifier", "text": "x", "label": "poli"}, "did you mean 'poil'"),
        ("translate", {"run": "causal", "texts": ["x"]}, "no translator"),
        ("translate", {"run": "translator", "texts": ["x"], "beam_size": 17}, "beam_size is 17"),
        ("translate", {"run": "translator", "texts": ["one", "two dog " * 20]}, "reads 1 to 31; shorten it"),
        ("attention", {"run": "causal", "text": "x", "layer": 3}, "there is no layer 3; choose from 1 to 2"),
        ("attention", {"run": "causal", "text": "x", "kind": "cross"}, "without cross attention; choose self"),
        ("attention", {"run": "causal", "text": " "}, "the text is empty"),
        ("attention", {"run": "causal", "text": "le chat " * 30}, "reads 1 to 47"),
        ("attention", {"run": "causal", "text": "le chat " * 200}, "reads 1 to 47"),
        ("embed", {"run": "causal", "texts": ["x"], "pooling": "cls"}, "choose mean or last"),
        ("embed", {"run": "translator", "texts": ["x"]}, "is a translator"),
    ],
)
def test_a_bad_question_gets_one_sentence(client: TestClient, name: str, question: Any, said: str) -> None:
    assert said in refused(client, name, **question)


def test_half_a_character_is_refused(client: TestClient) -> None:
    for body in (b'{"run": "causal", "prompt": "\\ud800"}', b'{"run": "causal", "\\ud800": 1}', b'{"run": "\\ud800"}'):
        response = client.post("/api/generate", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 404)
        assert response.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"run": NaN}'])
def test_a_broken_body_is_refused(client: TestClient, body: bytes) -> None:
    response = client.post("/api/generate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert len(response.json()["error"]) < 600


def test_other_kinds_of_body_are_refused(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post("/api/generate", content=b'{"run": "causal"}', headers={"Content-Type": kind})
        assert response.status_code == 415


@pytest.mark.parametrize(
    "name", ["nothing", "..", "../causal", "/etc/passwd", "causal/..", "verdict", "C:\\", "\0", "causal ", ""]
)
def test_only_names_on_the_list_are_served(client: TestClient, name: str) -> None:
    assert "is served" in refused(client, "generate", 404, run=name)
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    for path in (f"/api/runs/{quoted}/curve", f"/api/runs/{quoted}/ledger", f"/static/{quoted}"):
        assert client.get(path).status_code == 404
    if name != "verdict":
        assert client.get(f"/api/comparisons/{quoted}/report").status_code == 404


def test_paths_that_climb_find_nothing(client: TestClient) -> None:
    for path in ("/static/..%2fapp.py", "/static/%2e%2e/app.py", "/../pyproject.toml", "/static/"):
        assert client.get(path).status_code == 404
    assert client.get("/api/generate").status_code == 405


def test_no_other_site_may_read_or_ask(client: TestClient) -> None:
    foreign = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = client.options("/api/generate", headers=foreign)
    assert preflight.status_code == 403
    for response in (preflight, client.get("/api/runs", headers=foreign)):
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_runs_of_one_name_are_told_apart(kinds: Kinds, tmp_path: Path) -> None:
    twin = tmp_path / "causal"
    twin.symlink_to(kinds.masked.path)
    copy = tmp_path / "elsewhere" / "causal"
    copy.parent.mkdir()
    copy.mkdir()
    (copy / "recipe.json").write_bytes((kinds.causal.path / "recipe.json").read_bytes())
    catalogue = Catalogue([kinds.causal, copy, kinds.causal.path])
    assert [run.name for run in catalogue.describe().runs] == ["causal", "causal-2"]
    assert catalogue.describe().runs[1].abilities == ()
    assert [run.name for run in Catalogue([twin]).describe().runs] == ["masked"]


def test_a_run_in_progress_is_followed(kinds: Kinds, tmp_path: Path) -> None:
    run = tmp_path / "growing"
    run.mkdir()
    (run / "recipe.json").write_bytes((kinds.causal.path / "recipe.json").read_bytes())
    with TestClient(make_app(Catalogue([run])), base_url="http://localhost") as client:
        (described,) = client.get("/api/runs").json()["runs"]
        assert (described["state"], described["steps_done"], described["abilities"]) == ("training", 0, [])
        assert client.get("/api/runs/growing/curve").json() == {"steps": 60, "training": {}, "valid": {}}
        assert "tokenizer" in refused(client, "generate", run="growing")
        with (run / "metrics.jsonl").open("w") as log:
            log.write('{"step": 1, "loss": 5.5, "seconds": 0.5}\n{"step": 2, "loss": NaN, "seconds": 1.0}\n{"ste')
        (described,) = client.get("/api/runs").json()["runs"]
        assert described["steps_done"] == 2
        assert client.get("/api/runs/growing/curve").json()["training"] == {"loss": [[1.0, 0.5, 5.5]]}
        for file in ("tokenizer.json", "model.safetensors", "manifest.json", "finished"):
            (run / file).write_bytes((kinds.causal.path / file).read_bytes())
        (described,) = client.get("/api/runs").json()["runs"]
        assert described["state"] == "finished"
        assert ask(client, "generate", run="growing", max_new_tokens=2)["tokens"] <= 2


def test_a_damaged_run_is_told_and_harms_no_other(kinds: Kinds, tmp_path: Path) -> None:
    run = tmp_path / "damaged"
    run.mkdir()
    (run / "recipe.json").write_bytes((kinds.causal.path / "recipe.json").read_bytes())
    catalogue = Catalogue([run, kinds.causal])
    (run / "recipe.json").write_text("{")
    with TestClient(make_app(catalogue), base_url="http://localhost") as client:
        damaged, other = client.get("/api/runs").json()["runs"]
        assert damaged["state"] == "damaged"
        assert "recipe.json" in damaged["problem"]
        assert other["state"] == "finished"
        assert "recipe.json" in refused(client, "generate", run="damaged")


def test_a_comparison_without_results_says_so(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text("{}")
    with TestClient(make_app(Catalogue([tmp_path])), base_url="http://localhost") as client:
        (comparison,) = client.get("/api/runs").json()["comparisons"]
        assert comparison["verdict"] is None
        report = client.get(f"/api/comparisons/{tmp_path.name}/report")
        assert report.status_code == 404
        assert "no report yet" in report.json()["error"]


def test_errors_name_runs_not_directories(client: TestClient) -> None:
    said = refused(client, "fill", run="causal", text="le [MASK] dort")
    assert said.startswith("causal is a causal run")
    said = refused(client, "attention", run="causal", text="le chat " * 150)
    assert "causal reads 1 to" in said
    assert "/" not in said
