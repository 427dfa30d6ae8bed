"""The documentation: links lead somewhere, commands, flags and names exist, every page is in the table of contents."""

import contextlib
import inspect
import io
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import greffon
from greffon.cli import COMMANDS, run
from greffon.cli.draw import FIGURES
from greffon.core.json_results import JsonResult
from greffon.core.schema import describe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
GENERATED = {"generated/lab", "generated/commands", "generated/python", "generated/results"}
READ = [ROOT / "README.md", *PAGES]


def by_name(page: Path) -> str:
    return page.name


def headings(page: Path) -> list[str]:
    """The anchors of a page: its headings in lower case, without punctuation, with hyphens for spaces."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        file, _, heading = target.partition("#")
        if file.startswith("http") or file.removesuffix(".md") in GENERATED:
            continue
        linked = page.parent / file if file else page
        assert linked.is_file(), f"{page.name} links to {target}"
        assert not heading or heading in headings(linked), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=by_name)
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


@cache
def flags_of(command: str) -> frozenset[str]:
    """The flags that a command lists in its own help; of `draw FIGURE`, those of every figure."""
    if command == "draw FIGURE":
        return frozenset.intersection(*(flags_of(f"draw {figure}") for figure in FIGURES))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run([*command.split(), "--help"])
    return frozenset(re.findall(r"^[\s│|]*(--[a-z][a-z0-9-]*)", said.getvalue(), flags=re.M)) | {"--help", "--config"}


ALL = [*(name for name in COMMANDS if name != "draw"), *(f"draw {figure}" for figure in FIGURES)]


def code_of(text: str) -> Iterator[str]:
    """Every line of shell and every inline code of a page."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S)
    for kind, block in fence.findall(text):
        if kind in ("", "sh", "text"):
            yield from block.replace("\\\n", " ").splitlines()
    for inline in re.findall(r"(?<!`)`([^`]+)`(?!`)", fence.sub("", text)):
        yield " ".join(inline.split())


def uses(text: str) -> Iterator[tuple[str, str]]:
    """Every (command, flag) of a page; the command is empty where a flag stands alone, as in `--int8`."""
    for code in code_of(text):
        flags = r"(?<![\w-])--[a-z][\w-]*"
        found = re.search(r"(?:^|\s|\()greffon (draw \w+|[a-z]+)\b(.*)", code)
        if found is None:
            found = re.match(rf"(draw \w+|{'|'.join(COMMANDS)})\b(.*)", code)
        if found is not None:
            for flag in re.findall(flags, found[2].partition(" #")[0]):
                yield found[1], flag
        elif code.startswith("--"):
            for flag in re.findall(flags, code):
                yield "", flag
    for command, row in re.findall(r"^\| `greffon (draw \w+|\w+)(.*)$", text, flags=re.M):
        for flag in re.findall(r"--[a-z][\w-]*", row):
            yield command, flag


@pytest.mark.parametrize("page", READ, ids=by_name)
def test_flags_exist(page: Path) -> None:
    for command, flag in uses(page.read_text(encoding="utf-8")):
        if command:
            assert flag in flags_of(command), f"{page.name}: greffon {command} has no {flag}"
        else:
            assert any(flag in flags_of(name) for name in ALL), f"{page.name}: no command has {flag}"


def test_flags_are_found_in_every_kind_of_code() -> None:
    page = """
```sh
greffon pretrain texts/ \\
  --steps 5   # not --this
torchrun --nnodes 2 -m greffon resume run --extra-steps 1
```
Then `greffon draw mask --length
3`, `finetune --freeze` and `--int8`, but not `torchrun --standalone`.
| `greffon fill RUN` | `--top-k` |
"""
    assert list(uses(page)) == [
        ("pretrain", "--steps"),
        ("resume", "--extra-steps"),
        ("draw mask", "--length"),
        ("finetune", "--freeze"),
        ("", "--int8"),
        ("", "--top-k"),
        ("fill", "--top-k"),
    ]
    assert "--steps" in flags_of("pretrain")
    assert "--length" in flags_of("draw mask")
    assert "--rows" not in flags_of("pretrain")


@pytest.mark.parametrize("page", [*READ, ROOT / "notebooks" / "lab.py"], ids=by_name)
def test_python_names_are_public(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"^\s*(?:from greffon\b.*|import greffon\..*)$", text, flags=re.M)
    for name in re.findall(r"\bgreffon\.(\w+)", text):
        if name != "json":  # a file of ONNX exports
            assert name in greffon.__all__, f"{page.name}: greffon.{name} is not public"


def test_the_reference_of_results_is_read_from_the_source() -> None:
    page = runpy.run_path(str(DOCS / "conf.py"))["results"]()
    for verb, field in (("classify", "probabilities"), ("generate", "seed"), ("translate", "score")):
        (section,) = re.findall(rf"^## {verb}\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S)
        assert f"| `{field}` |" in section


@pytest.mark.parametrize("name", ["RELIABILITY.md", "CONTRIBUTING.md"])
def test_tests_that_are_named_exist(name: str) -> None:
    named = re.findall(r"`((?:tests|bench)/[\w/]*(?:\.\w+)?)`", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_field_of_a_result_has_a_meaning() -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    for verb in conf["VERBS"]:
        for kind in conf["returned"](getattr(greffon, verb)):
            assert [field.name for field in describe(kind) if not field.doc] == [], f"{verb} returns {kind.__name__}"


def test_every_function_is_in_a_group_and_every_result_in_the_reference() -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    functions = {name for name in greffon.__all__ if inspect.isfunction(getattr(greffon, name))}
    grouped = [name for group in conf["GROUPS"].values() for name in group]
    assert functions - set(grouped) == set()
    assert len(grouped) == len(set(grouped))
    pictures = set(conf["GROUPS"]["Pictures"])  # of a library that is imported when one is drawn
    results = {name: list(conf["returned"](getattr(greffon, name))) for name in functions - pictures - {"serve"}}
    told = {kind for verb in conf["VERBS"] for kind in results[verb]}
    missing = {kind for kinds in results.values() for kind in kinds if issubclass(kind, JsonResult)} - told
    assert missing == set()
