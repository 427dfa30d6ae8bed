"""The commands of the README and of the guide run as they stand, on a small text and with a small budget."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from greffon.cli import COMMANDS, run
from greffon.core.rng import generator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
SMALL = ["--layers", "1", "--hidden-size", "32", "--heads", "2", "--intermediate-size", "32", "--context", "32"]


def commands() -> list[list[str]]:
    """The README's commands, then the guide's, which continue with the same runs."""
    blocks = re.findall(r"```sh\n(.*?)```", README + GUIDE, flags=re.S)
    lines = [line for block in blocks for line in block.replace(" && greffon", "\ngreffon").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("greffon ")]


def shorten(words: list[str]) -> list[str]:
    """Give a command of the README a budget for tests."""
    if words[0] == "pretrain":
        cut = words.index("--minutes")
        size = ["--batch-tokens", "200"] if "seq2seq" in words else ["--batch-size", "4"]
        vocabulary = [] if "--tokenizer" in words else ["--vocab-size", "400"]
        return [*words[:cut], *words[cut + 2 :], "--steps", "5", *vocabulary, *SMALL, *size]
    if words[0] in ("finetune", "compare") and "--epochs" not in words:
        words = [*words, "--epochs", "3"]
    if "--train-sizes" in words:
        words[words.index("--train-sizes") + 1] = "10,20"
    if words[0] == "compare" and "--seeds" not in words:
        words = [*words, "--seeds", "1"]
    return words


@pytest.fixture
def folder(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "texts").mkdir()
    two_sentences = corpus.read_text(encoding="utf-8").replace(", puis ", ". Puis ")
    (tmp_path / "texts" / "a.txt").write_text(two_sentences, encoding="utf-8")
    random = generator(0, "readme")
    for name in ("train", "valid", "test"):
        rows = [("beau", "positive") if random.random() < 0.5 else ("nul", "negative") for _ in range(40)]
        lines = [f"un livre {word} numéro {i} {name},{label}" for i, (word, label) in enumerate(rows)]
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    for part in ("train", "test"):
        (tmp_path / f"{part}.en").write_text("".join(f"Dog {i} runs.\n" for i in range(40)), encoding="utf-8")
        (tmp_path / f"{part}.fr").write_text("".join(f"Le chien {i} court.\n" for i in range(40)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_run_one_after_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands()
    assert {"pretrain", "generate", "finetune", "compare", "classify", "evaluate", "params", "translate"} <= {
        w[0] for w in found
    }
    for words in found:
        if words[0] == "serve":
            assert_serves(words)
            continue
        code = run(shorten(words))
        assert code == 0, (words, capsys.readouterr().err)
    assert (folder / "runs" / "verdict" / "report.html").is_file()
    assert "Bonjour les" in capsys.readouterr().out


def assert_serves(words: list[str]) -> None:
    """The one command that does not end by itself: ask it once, and press Ctrl-C."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "greffon", *words, "--port", "0"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    ) as server:
        try:
            said = server.stderr.readline()
            (url,) = re.findall(r"http://127\.0\.0\.1:\d+", said)
            with urllib.request.urlopen(f"{url}/api/runs", timeout=60) as answer:
                served = json.load(answer)
            assert [run["state"] for run in served["runs"]] == ["finished"] * 4
            assert [comparison["name"] for comparison in served["comparisons"]] == ["verdict"]
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 130
        assert server.stderr.read().strip() == "stopped"


def test_the_quick_start_has_five_commands() -> None:
    first = next(block for block in re.findall(r"```sh\n(.*?)```", README, flags=re.S) if block.startswith("greffon "))
    assert len(first.splitlines()) == 5
    assert all(line.startswith("greffon ") for line in first.splitlines())


def test_the_glossary_has_ten_words() -> None:
    assert len(re.findall(r"^\| \*\*\w+\*\* \|", README, flags=re.M)) == 10


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `greffon (\w+)", README, flags=re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
