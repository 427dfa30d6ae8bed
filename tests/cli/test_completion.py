"""The completion scripts, in the shells that they are for."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import greffon
from greffon.cli import COMMANDS, run
from greffon.cli.completion_script import SCRIPTS, pages
from greffon.cli.draw import FIGURES
from greffon.core.errors import UserError


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")


def bash(*words: str) -> list[str]:
    """Complete the last word, as bash does: with the words typed so far in COMP_WORDS."""
    code = (
        f"{greffon.completion('bash')}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _greffon; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code, "bash", "greffon", *words], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def fish(*words: str) -> list[str]:
    line = " ".join(["greffon", *words])
    code = "printf '%s' $argv[1] | source; complete -C $argv[2]"
    done = subprocess.run(
        ["fish", "--no-config", "-c", code, greffon.completion("fish"), line],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [found.split("\t")[0] for found in done.stdout.splitlines()]


COMPLETIONS: list[tuple[Sequence[str], Sequence[str]]] = [
    (["pre"], ["pretrain"]),
    (["dr"], ["draw"]),
    (["pretrain", "--obj"], ["--objective"]),
    (["pretrain", "--objective", "ma"], ["masked"]),
    (["pretrain", "--bias", ""], ["true", "false"]),
    (["finetune", "runs/body", "--gradual"], ["--gradual-unfreezing"]),
    (["draw", "mas"], ["mask"]),
    (["draw", "mask", "--obj"], ["--objective"]),
    (["draw", "attention", "--kind", "s"], ["self", "source"]),
    (["completion", "z"], ["zsh"]),
    (["demo", "tr"], ["translation"]),
    (["export", "runs/body", "--to", "hug"], ["huggingface"]),
]


@needs("bash")
@pytest.mark.parametrize(("words", "found"), COMPLETIONS, ids=lambda value: " ".join(value))
def test_bash_completes(words: Sequence[str], found: Sequence[str]) -> None:
    assert bash(*words) == list(found)


@needs("fish")
@pytest.mark.parametrize(("words", "found"), COMPLETIONS, ids=lambda value: " ".join(value))
def test_fish_completes(words: Sequence[str], found: Sequence[str]) -> None:
    assert sorted(fish(*words)) == sorted(found)


@needs("bash")
def test_bash_leaves_files_to_the_shell() -> None:
    assert bash("pretrain", "--out", "") == []
    assert bash("pretrain", "") == []
    assert bash("pretrain", "--steps", "") == []
    assert bash("unknown", "--") == []


@needs("bash")
@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.words)
def test_bash_knows_every_option(page: object) -> None:
    assert bash(*page.words.split(), "--") == [option.name for option in page.options]


def test_every_command_and_figure_has_its_options() -> None:
    listed = [page.words for page in pages()]
    assert listed == [
        words for name in COMMANDS for words in ([f"draw {f}" for f in FIGURES] if name == "draw" else [name])
    ]
    for page in pages():
        assert all(option.short for option in page.options), page.words


@needs("zsh")
def test_zsh_completes(tmp_path: Path) -> None:
    (tmp_path / "greffon.zsh").write_text(greffon.completion("zsh"))
    terminal = _Terminal(["zsh", "-f", "-i"], tmp_path)
    terminal.type("PROMPT='> '; autoload -U compinit; compinit -u -D; source greffon.zsh; echo rea''dy\n", "ready")
    for words, found in [
        ("greffon pretr", "greffon pretrain "),
        ("greffon pretrain --objec", "greffon pretrain --objective "),
        ("greffon pretrain --objective mask", "greffon pretrain --objective masked "),
        ("greffon draw mas", "greffon draw mask "),
        ("greffon draw mask --objective caus", "greffon draw mask --objective causal "),
        ("greffon completion fi", "greffon completion fish "),
    ]:
        terminal.type(f"{words}\t", found)
        terminal.type("\x15", "")  # clears the line
    terminal.close()


class _Terminal:
    """An interactive shell in a terminal of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, {**os.environ, "TERM": "dumb", "COLUMNS": "200", "HOME": str(folder)})

    def type(self, keys: str, awaited: str) -> None:
        os.write(self.terminal, keys.encode())
        shown, until = "", time.monotonic() + 30
        while awaited not in shown and time.monotonic() < until:
            if select.select([self.terminal], [], [], 0.2)[0]:
                shown += os.read(self.terminal, 4096).decode(errors="replace")
        assert awaited in shown, shown

    def close(self) -> None:
        os.write(self.terminal, b"exit\n")
        os.close(self.terminal)
        os.waitpid(self.child, 0)


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_command_prints_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert capsys.readouterr().out == greffon.completion(shell) + "\n"


def test_an_unknown_shell_is_refused() -> None:
    with pytest.raises(UserError, match="no script for the shell 'tcsh'; choose from bash, fish, zsh"):
        greffon.completion("tcsh")
