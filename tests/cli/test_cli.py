"""Every command refuses bad input as the contract says: exit 1, one sentence on stderr, no traceback."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import greffon
from greffon.cli import COMMANDS, run
from greffon.cli.outcome import _when
from greffon.cli.texts import asked_texts
from greffon.core.locks import LOCK
from greffon.core.shape import FREE, Shape
from greffon.core.training import PAIR_SETTINGS
from greffon.runs.run import Run


def refuse(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    code = run([str(word) for word in words])
    out, said = capsys.readouterr()
    assert code == 1, said
    assert out == ""
    last = said.strip().splitlines()[-1]
    assert last.startswith("greffon: ")
    assert "Traceback" not in said
    return last


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("body")
    text = folder / "text.txt"
    text.write_text("\n".join(f"Bonjour les amis numéro {i}" for i in range(60)), encoding="utf-8")
    shape = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 16, "batch_size": 2}
    return greffon.pretrain([text], out=folder / "run", vocab_size=300, steps=3, quiet=True, **shape).path


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = re.findall(r"^  (\w+) ", capsys.readouterr().out, flags=re.M)
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run([command, "--help"])
    assert stop.value.code == 0
    assert f"greffon {command}" in capsys.readouterr().out


def test_resuming_ends_in_the_same_line_as_pretraining(
    body: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tokenizer", body, "--steps", 2, "--hidden-size", 16, "--layers", 1, "--batch-size", 2, "--context", 16]
    assert run([str(word) for word in ("pretrain", body.parent / "text.txt", "--out", tmp_path / "run", *words)]) == 0
    first = capsys.readouterr().out
    assert run(["resume", str(tmp_path / "run"), "--extra-steps", "1"]) == 0
    form = r"\S+: held-out loss \d\.\d{3} nats a token, \d\.\d{3} bits per byte \(best at step \d\)\n"
    assert re.fullmatch(form, first)
    assert re.fullmatch(form, capsys.readouterr().out)


def test_help_does_not_import_torch() -> None:
    code = "import sys, greffon.cli; greffon.cli.run(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pretrian"], "unknown command 'pretrian'; did you mean 'pretrain'?"),
        (["pretrain", "{text}", "--out", "{new}", "--setps", "3"], "did you mean --steps?"),
        (["pretrain", "{text}", "--out", "{new}", "--steps", "three"], "--steps"),
        (["pretrain", "{text}", "--out", "{new}", "--objective", "casual"], "--objective"),
        (["pretrain", "{text}", "--out", "{new}", "--preset", "lob"], "unknown preset 'lob'; did you mean 'lab'?"),
        (["pretrain", "{text}"], "name a directory with --out"),
        (["pretrain", "--out", "{new}"], "no text to train on"),
        (["pretrain", "{missing}", "--out", "{new}"], "missing.txt"),
        (["pretrain", "{text}", "--out", "{new}", "--steps", "0"], "--steps is 0; choose a number above 0"),
        (["pretrain", "{text}", "--out", "{new}", "--minutes", "inf"], "--minutes is inf; choose a number above 0"),
        (["pretrain", "{text}", "--out", "{new}", "--minutes", "1e300"], "--minutes is 1e+300"),
        (["pretrain", "{text}", "--out", "{new}", "--steps", "1", "--minutes", "1"], "exclude each other"),
        (["pretrain", "{text}", "--out", "{new}", "--heads", "7", "--steps", "1"], "cannot be cut into 7 heads"),
        (["pretrain", "{text}", "--out", "{body}", "--steps", "1"], "holds a run already"),
        (["pretrain", "{text}", "--out", "{text}", "--steps", "1"], "is a file"),
        (["pretrain", "{one}", "--out", "{new}", "--steps", "1", "--vocab-size", "300"], "single document"),
        (["pretrain", "{bad}", "--out", "{new}", "--steps", "1"], "bad.txt:2"),
        (["pretrain", "{text}", "--out", "{new}", "--tokenizer", "{missing}", "--steps", "1"], "missing.txt"),
        (["pretrain", "{text}", "--out", "{new}", "--tokenizer", "{body}", "--vocab-size", "9"], "not both"),
        (["pretrain", "{text}", "--out", "{new}", "--config", "{missing}"], "missing.txt"),
        (
            ["pretrain", "{text}", "--out", "{new}", "--config", "{config}"],
            "unknown setting 'laers'; did you mean 'layers'?",
        ),
        (
            ["pretrain", "{text}", "--out", "{new}", "--mix", "1", "2"],
            "--mix has 2 numbers for 1 texts",
        ),
        (["pretrain", "{text}", "--out", "{new}", "--mix", "0"], "--mix takes 0 sequences of a text"),
        (
            ["pretrain", "{text}", "--out", "{new}", "--positions", "rotery"],
            "unknown choice 'rotery'; did you mean 'rotary'?",
        ),
        (["pretrain", "{text}", "--dry-run", "--hidden-size", "99999", "--heads", "1", "--positions", "none"], "GB"),
        (["pretrain", "{text}", "--dry-run", "--batch-size", "100000000"], "a smaller shape or --batch-size"),
        (["pretrain", "{text}", "--dry-run", "--layers", "1000000"], "choose 1000 at most"),
        (["pretrain", "{text}", "--dry-run", "--learning-rate", "inf"], "--learning-rate is inf"),
        (["pretrain", "{text}", "--out", "{new}", "--config", "{config2}"], "seed: expected int, found 'two'"),
        (["tokenizer", "{text}", "--out", "{new}", "--vocab-size", "99999999999"], "beyond reason"),
        (["tokenizer", "", "--out", "{new}"], "the name of a text file is empty"),
        (["tokenizer", "{missing}", "--out", "{new}"], "missing.txt"),
        (["tokenizer", "{text}", "--out", "{new}", "--vocab-size", "10"], "10"),
        (["tokenizer", "{text}", "--out", "{text}"], "exists already"),
        (["tokenizer", "{text}"], "--out"),
        (["generate", "{missing}", "Bonjour"], "no run at"),
        (["generate", "{body}"], "PROMPT is missing"),
        (["generate", "{body}", "Bonjour", "les"], "unexpected word 'les'; put a text with spaces in quotes"),
        (["generate", "{body}", "Bonjour", "--max-new-tokens", "many"], "--max-new-tokens: 'many' is no whole number"),
        (["generate", "{body}", "Bonjour", "--temperature", "nan"], "--temperature is nan"),
        (["generate", "{body}", "Bonjour", "--seed", "-1"], "--seed is -1"),
        (["generate", "{body}", "Bonjour", "--seed", "99999999999999999999999"], "--seed is 9"),
        (["params", "{body}", "--classes", "2"], "leave out --classes"),
        (["generate", "{body}", "Bonjour", "--temperature", "-1"], "--temperature is -1"),
        (["generate", "{body}", "Bonjour", "--max-new-tokens", "0"], "--max-new-tokens is 0"),
        (["resume", "{missing}"], "no run at"),
        (["resume", "{body}"], "has finished its 3 steps"),
        (["resume", "{body}", "--extra-steps", "-2"], "--extra-steps is -2"),
        (["show", "{missing}"], "no run at"),
        (["params", "--preset", "lob"], "did you mean 'lab'?"),
        (["params", "--objective", "foo"], "unknown objective 'foo'; choose from causal, contrastive, masked, seq2seq"),
        (["params", "--preset", "lab", "--objective", "casual"], "unknown objective 'casual'; did you mean 'causal'?"),
        (["params", "{missing}"], "no run at"),
        (["params", "--vocab-size", "0"], "--vocab-size is 0"),
        (["params", "--bias", "perhaps"], "choose true or false"),
        (["evaluate", "{body}", "{missing}"], "missing.txt"),
        (["classify", "{body}", "Bonjour"], "no classifier"),
        (["classify", "{body}"], "nothing to classify"),
        (["classify", "{body}", "--file", "{header}"], "is a causal run, no classifier"),
        (["translate", "{body}", "--file", "{nothing}"], "nothing.txt is empty: nothing to translate"),
        (["finetune", "{missing}", "--train", "{labelled}", "--out", "{new}"], "no run at"),
        (["finetune", "{body}", "--train", "{missing}", "--out", "{new}"], "missing.txt"),
        (["finetune", "{body}", "--train", "{oneclass}", "--out", "{new}"], "class"),
        (["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--epochs", "0"], "--epochs is 0"),
        (
            ["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--freeze", "--layer-decay", "0.9"],
            "--layer-decay has no effect with --freeze: no layer of the body is trained; give one of them",
        ),
        (
            ["pretrain", "{text}", "--out", "{new}", "--optimizer", "adamw", "--muon-learning-rate", "0.1"],
            "--muon-learning-rate has no effect with --optimizer adamw",
        ),
        (
            ["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--muon-learning-rate", "0.1"],
            "--muon-learning-rate has no effect with --optimizer adamw",
        ),
        (
            ["pretrain", "{text}", "--out", "{new}", "--label-smoothing", "0.1"],
            "has no effect here: it is for transl",
        ),
        (["pretrain", "{text}", "--out", "{new}", "--mix", "3"], "--mix has no effect on a single text"),
        (["pretrain", "{text}", "--out", "{new}", "--text-column", "avis"], "plain text has no columns; leave"),
        (["tokenizer", "{text}", "--out", "{new}", "--text-column", "avis"], "plain text has no columns; leave"),
        (["generate", "{body}", "Bonjour", "--temperature", "0", "--top-k", "5"], "no effect with --temperature 0"),
        (["generate", "{body}", "Bonjour", "--temperature", "0", "--top-p", "0.9"], "no effect with --temperature 0"),
        (["generate", "{body}", "Bonjour", "--temperature", "0.9", "--top-k", "1"], "no effect with --top-k 1"),
        (["evaluate", "{body}", "{text}", "--beam-size", "4"], "run: it is for translators; leave it out"),
        (
            ["evaluate", "{body}", "{text}", "--label-column", "label"],
            "run: it is for classifiers; leave it out",
        ),
        (
            ["evaluate", "{body}", "{text}", "--source-column", "en"],
            "run: it is for translators; leave it out",
        ),
        (["evaluate", "{body}", "{text}", "--text-column", "avis"], "plain text has no columns; leave"),
        (["classify", "{body}", "Bonjour", "--text-column", "avis"], "--text-column avis has no effect without --file"),
        (["translate", "{body}", "Bonjour", "--text-column", "en"], "--text-column en has no effect without --file"),
        (
            ["classify", "{body}", "--file", "{text}", "--text-column", "avis"],
            "plain text has no columns; leave",
        ),
        (["rank", "{body}", "le", "--file", "{text}", "--text-column", "avis"], "plain text has no columns; leave"),
        (["rank", "{body}"], "QUERY is missing"),
        (["rank", "{body}", " ", "--file", "{text}"], "the query is empty"),
        (["embed", "{body}", "--file", "{text}", "--nearest", " "], "--nearest is empty"),
        (["classify", "{body}", "Bonjour", "--json", "--out", "{new}"], "--json has no effect with --out: the ending"),
        (["draw", "attention", "{body}", "Bonjour", "--threads", "0"], "--threads is 0"),
        (["draw", "extrapolation", "{body}", "--threads", "0"], "--threads is 0"),
        (["draw", "embeddings", "{body}", "--file", "{labelled}", "--threads", "0"], "--threads is 0"),
        (["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--threads", "0"], "--threads is 0"),
        (
            ["translate", "{body}", "Bonjour", "--beam-size", "1", "--length-penalty", "2"],
            "--length-penalty has no effect with --beam-size 1: greedy search",
        ),
        (["pretrain", "{text}", "--dry-run", "--force"], "writes nothing; leave out --force"),
        (["pretrain", "{text}", "--out", "{new}", "--rope-factor", "2"], "no effect with --rope-scaling none"),
        (
            ["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--pooler-bias", "false"],
            "--pooler-bias false is that of a dense layer, and --pooler-activation none has none",
        ),
        (
            ["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--pair-columns", "a", "b"],
            "--pair-columns has no effect here: it is for pairs of texts, and this is for classes",
        ),
        (
            ["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--label-separator", ","],
            "--label-separator , has no effect here: it is for texts with several labels",
        ),
        (
            [
                "compare",
                "{body}",
                "--task",
                "multilabel",
                "--train",
                "{labelled}",
                "--out",
                "{new}",
                "--pair-columns",
                "a",
            ],
            "--pair-columns has no effect here: it is for pairs of texts, and this is for multilabel",
        ),
        (
            ["embed", "{body}", "--file", "{text}", "--out", "{new}", "--top-k", "5"],
            "--top-k has no effect without --nearest; leave it out",
        ),
        (
            ["draw", "extrapolation", "{body}", "--text-column", "avis"],
            "avis has no effect without --file",
        ),
        (
            ["pretrain", "{text}", "--objective", "seq2seq", "--text-column", "t", "--out", "{new}"],
            "--text-column is not for translation",
        ),
        (
            ["finetune", "{body}", "--train", "{labelled}", "--out", "{new}", "--label-column", "lable"],
            "did you mean 'label'?",
        ),
        (["compare", "--train", "{labelled}", "--out", "{new}"], "nothing to compare"),
        (
            ["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--train-sizes", "many"],
            "--train-sizes is 'many'",
        ),
        (["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--train-sizes", ""], "--train-sizes is ''"),
        (
            ["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--train-sizes", ","],
            "--train-sizes is ','",
        ),
        (
            ["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--train-sizes", "20,,30"],
            "--train-sizes is '20,,30'",
        ),
        (["compare", "{body}", "--train", "{labelled}", "--out", "{new}", "--seeds", "0"], "--seeds is 0"),
        (
            ["compare", "{body}", "--train", "{rare}", "--out", "{new}", "--train-sizes", "1,20"],
            "--train-sizes 1: there are 2 classes",
        ),
        (
            ["compare", "{body}", "--train", "{rare}", "--out", "{new}", "--train-sizes", "20,80"],
            "only 72 labelled texts are there to draw from",
        ),
        (
            ["compare", "{body}", "--train", "{rare}", "--valid", "{rare}", "--out", "{new}", "--train-sizes", "20"],
            "so that twenty labels are twenty; leave out --valid",
        ),
        (
            ["compare", "{body}", "--train", "{rare}", "--out", "{new}", "--train-sizes", "20", "--tune"],
            "--tune needs validation texts",
        ),
        (["compare", "{body}", "--train", "{short}", "--out", "{new}"], ":3: 1 cell where the header has 2; add what"),
        (["compare", "{body}", "--train", "{two}", "--out", "{new}"], "every text has the label 'a'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    words: list[str], said: str, body: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: tmp_path / f"{name}.txt" for name in ("text", "one", "bad", "missing", "nothing")}
    places |= {"new": tmp_path / "new", "body": body, "config": tmp_path / "config.toml"}
    places["config2"] = tmp_path / "config2.toml"
    places |= {name: tmp_path / f"{name}.csv" for name in ("labelled", "oneclass", "rare", "short", "two", "header")}
    places["header"].write_text("text,label\n")
    places["nothing"].touch()
    places["text"].write_text("un\ndeux\ntrois\n")
    places["one"].write_text("un seul document\n")
    places["bad"].write_bytes(b"bon\n\xff\xfe\n")
    places["config"].write_text("laers = 3\n")
    places["config2"].write_text('seed = "two"\n')
    places["labelled"].write_text("text,label\n" + "".join(f"texte {i},{'ab'[i % 2]}\n" for i in range(30)))
    places["oneclass"].write_text("text,label\n" + "".join(f"texte {i},a\n" for i in range(30)))
    places["rare"].write_text("text,label\n" + "".join(f"texte {i},{'b' if i % 20 == 0 else 'a'}\n" for i in range(90)))
    places["short"].write_text("text,label\nun,a\ndeux\n")
    places["two"].write_text("text,label\nun,a\ndeux,a\n")
    assert said in refuse(capsys, *(word.format(**places) for word in words))
    assert not (tmp_path / "new" / "model.safetensors").exists()


@pytest.mark.parametrize("command", ["finetune", "compare"])
def test_what_a_body_fixes_is_no_option_of_a_graft(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run([command, "--help"])
    offered = set(re.findall(r"--([\w-]+)", capsys.readouterr().out))
    assert {"dropout", "context", "learning-rate", "pooling"} <= offered
    fixed = {f.name for f in dataclasses.fields(Shape)} - set(FREE)
    for name in sorted({*fixed, *PAIR_SETTINGS}):
        option = name.replace("_", "-")
        why = "is a fixed part of the pretrained body" if name in fixed else "is for translation"
        assert option not in offered
        for words in ([f"--{option}", 1], [f"--{option}=1"], [f"--{name}", 1]):
            assert f"greffon: --{option} {why}" in refuse(capsys, command, "body", *words)
        (tmp_path / "config.toml").write_text(f"[training]\n{option} = 1\n")
        said = refuse(capsys, command, "body", "--config", tmp_path / "config.toml")
        assert f"config.toml: {name} {why}" in said


def test_compare_says_where_freezing_belongs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text("freeze = true\n")
    for words in (["--freeze"], ["--config", tmp_path / "config.toml"]):
        said = refuse(capsys, "compare", "body", "--train", "a.csv", "--out", "new", *words)
        assert "always has a `frozen` arm" in said
        assert "`greffon finetune --freeze` trains a head alone" in said
        assert "unfreeze" not in said
    assert "compare scores once an epoch" in refuse(capsys, "compare", "body", "--evaluate-every", 3)


@pytest.mark.parametrize("command", ["classify", "translate"])
def test_standard_input_must_be_utf8(
    command: str, body: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = io.TextIOWrapper(io.BytesIO("bon\nété\n".encode("latin1")), encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdin", given)
    said = refuse(capsys, command, body, "-")
    assert "standard input:2: byte 0xe9 is not UTF-8" in said
    assert "iconv -f latin1 -t utf-8" in said


@pytest.mark.parametrize("command", ["classify", "translate"])
def test_an_empty_standard_input_is_an_error(
    command: str, body: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert f"standard input is empty: nothing to {command}" in refuse(capsys, command, body, "-")


def test_a_run_is_not_changed_by_whoever_is_refused(body: Path) -> None:
    before = greffon.show(body).changed
    (body / LOCK).touch()
    os.utime(body / LOCK, (4e9, 4e9))
    assert greffon.show(body).changed == before


def test_standard_input_is_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.TextIOWrapper(io.BytesIO("\ufeffun été\r\n\nà\u2028b".encode()), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", given)
    assert asked_texts(["-"], None, lambda file: [], "classify") == ["un été", "", "à\u2028b"]


def test_fine_tuning_is_told_in_epochs(body: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "labelled.csv"
    table.write_text("text,label\n" + "".join(f"{('bon', 'mal')[i % 2]} {i},{i % 2}\n" for i in range(32)))
    valid = tmp_path / "valid.csv"
    valid.write_text("text,label\n" + "".join(f"{('bon', 'mal')[i % 2]} {i},{i % 2}\n" for i in range(32, 40)))

    def finetune(name: str, *words: object) -> tuple[str, str]:
        given = ("finetune", body, "--train", table, "--valid", valid, "--out", tmp_path / name, "--epochs", 4,
                 "--batch-size", 8, "--head-init", "random", *words)  # fmt: skip
        assert run([str(word) for word in given]) == 0
        return capsys.readouterr()

    out, said = finetune("learns", "--learning-rate", 0.01)
    made = Run.open(tmp_path / "learns")
    assert made.recipe.training.steps == 4 * 4
    assert made.scores["step"] in (4, 8, 12, 16)
    assert f"(best after epoch {made.scores['step'] // 4} of 4)" in out
    assert "texts: 32 to train on, 8 for validation; classes: 0, 1" in said

    still = ("--learning-rate", 1e-30, "--patience", 1, "--test", table)
    out, said = finetune("still", *still)
    assert "(best before the first epoch: no epoch was better, so the head is untrained)" in out
    assert "stopping early: neither a better score nor a lower loss in 1 evaluation\n" in said
    assert "8 for validation, 32 for the test; classes" in said
    assert _when(200, 320, 4) == "after epoch 2.5 of 4"  # with --evaluate-every, it may be between two


def test_json_is_all_that_stands_on_stdout(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["generate", body, "Bonjour", "--json", "--max-new-tokens", "3"],
        ["params", "--preset", "lab", "--vocab-size", "100", "--json"],
        ["show", body, "--json"],
    ):
        assert run([str(word) for word in words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
    assert run(["generate", str(body), "Bonjour", "--json", "--max-new-tokens", "3"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"prompt", "text", "tokens", "seed"}
    assert run(["params", "--preset", "lab", "--vocab-size", "100", "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)
    assert ledger["total"] == sum(line["count"] for line in ledger["components"]) == 1_008_100


def test_a_tiny_temperature_is_as_good_as_none(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", str(body), "Bonjour", "--temperature", "1e-300"]) == 0
    sampled = capsys.readouterr().out
    assert run(["generate", str(body), "Bonjour", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == sampled


def test_a_shape_can_be_counted_without_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    totals = set()
    for heads in ("2", "4", "8"):
        assert run(["params", "--preset", "lab", "--vocab-size", "100", "--heads", heads, "--json"]) == 0
        totals.add(json.loads(capsys.readouterr().out)["total"])
    assert totals == {1_008_100}


def test_true_and_false_may_be_written_small(capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    for word in ("true", "True", "false"):
        assert run(["params", "--preset", "lab", "--vocab-size", "100", "--bias", word, "--json"]) == 0
        counts.append(json.loads(capsys.readouterr().out)["total"])
    assert counts[0] == counts[1] == 1_008_100 > counts[2]


def test_a_dry_run_says_what_it_would_cost(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    assert run(["pretrain", str(corpus), "--dry-run", "--vocab-size", "500", "--layers", "1", "--steps", "10"]) == 0
    assert re.search(r"auto: [\d,]+ parameters; about .* GB of memory and .* here", capsys.readouterr().out)


def test_every_public_name_is_there() -> None:
    for name in greffon.__all__:
        assert getattr(greffon, name) is not None
    for command in set(COMMANDS) - {"import", "tokenizer"}:
        assert callable(getattr(greffon, command))
