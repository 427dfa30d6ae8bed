"""The documentation: links lead somewhere, commands exist, and every page is in the table of contents."""

import re
import shlex
from pathlib import Path

import pytest

from greffon.cli import COMMANDS
from greffon.cli.draw import FIGURES

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
GENERATED = {"generated/lab", "generated/commands", "generated/python"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        file = target.partition("#")[0]
        if file and not file.startswith("http") and file.removesuffix(".md") not in GENERATED:
            assert (page.parent / file).is_file(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if line.startswith("greffon ") else []
        if words:
            assert words[1] in COMMANDS, line
            assert words[1] != "draw" or words[2] in FIGURES, line


def test_every_page_is_in_the_contents() -> None:
    contents = re.findall(r"<([\w/-]+)>", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert sorted(contents) == sorted({page.stem for page in PAGES} - {"index"} | GENERATED)
