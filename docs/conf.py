"""The site: `make docs` builds it into build/site, with every warning an error, so that links lead somewhere.

Some pages are made anew each time, into docs/generated: the commands' own help, the public names, the executed
notebook. Nothing on the site comes from another host.
"""

import base64
import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import greffon
from greffon.cli import COMMANDS, run
from greffon.cli.draw import FIGURES

DOCS = Path(__file__).parent
GENERATED = DOCS / "generated"

project = "Greffon"
copyright = "the authors of Greffon, MIT licence"
release = greffon.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = "Greffon"
html_theme_options = {"top_of_page_buttons": []}
html_copy_source = False
myst_heading_anchors = 3
default_role = "code"  # docstrings write `name`, as people do
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True

GROUPS = {
    "Training": ("train_tokenizer", "pretrain", "estimate", "resume", "finetune"),
    "Comparing": ("compare", "compare_task", "evaluate"),
    "Answers": ("classify", "generate", "generate_many", "stream", "fill", "translate", "translate_best"),
    "Vectors": ("embed", "nearest", "rank", "word_vectors"),
    "Labelling": ("label", "label_study", "Session"),
    "In scikit-learn": ("GreffonClassifier", "GreffonEmbedder"),
    "Looking inside": ("attention", "occlude", "params", "show", "loss_by_position", "layer_costs"),
    "In and out": ("import_checkpoint", "export", "serve", "completion"),
    "Demos": ("demo", "demo_data", "demo_translation", "demo_translation_data"),
    "Pictures": tuple(name for name in greffon.__all__ if name == "draw" or name.endswith("_figure")),
}
"""The functions, in the order in which a reader meets them; what is in no group is a noun."""


def setup(app: Any) -> None:
    """Make the generated pages before anything is read."""
    app.connect("config-inited", lambda *_: generate())


def generate() -> None:
    """Write all generated pages."""
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "commands.md").write_text(commands(), encoding="utf-8")
    (GENERATED / "python.md").write_text(names(), encoding="utf-8")
    (GENERATED / "results.md").write_text(results(), encoding="utf-8")
    (GENERATED / "lab.md").write_text(notebook(DOCS.parent / "notebooks" / "lab.ipynb"), encoding="utf-8")


def commands() -> str:
    """Let every command speak for itself."""
    parts = ["# Commands\n\nWhat `greffon COMMAND --help` says, word by word.\n"]
    for name in COMMANDS:
        parts.append(f"## {name}\n\n```text\n{help_of([name])}\n```\n")
        if name == "draw":
            parts += [f"### draw {figure}\n\n```text\n{help_of([name, figure])}\n```\n" for figure in FIGURES]
    return "\n".join(parts)


def help_of(words: list[str]) -> str:
    """Catch what a command prints about itself."""
    os.environ["COLUMNS"] = "84"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run([*words, "--help"])
    return said.getvalue().strip()


def names() -> str:
    """List the public names, each with its docstring."""
    told = {name for group in GROUPS.values() for name in group} | {"__version__"}
    groups = {**GROUPS, "Nouns": tuple(name for name in greffon.__all__ if name not in told)}
    parts = ["# Python\n\nEach command is a function of the same name: `import greffon`.\n"]
    for title, members in groups.items():
        parts.append(f"## {title}\n\n```{{eval-rst}}")
        for name in members:
            kind = "autoclass" if isinstance(getattr(greffon, name), type) else "autofunction"
            parts.append(f".. {kind}:: greffon.{name}" + "\n   :members:" * (kind == "autoclass") + "\n")
        parts.append("```\n")
    return "\n".join(parts)


VERBS = (
    "classify",
    "generate",
    "stream",
    "fill",
    "translate",
    "evaluate",
    "params",
    "show",
    "compare",
    "compare_task",
    "occlude",
    "attention",
    "rank",
    "nearest",
    "word_vectors",
    "label_study",
    "loss_by_position",
    "layer_costs",
)
"""The functions whose results have a schema of their own."""


def results() -> str:
    """Describe what the functions return, and what `--json` prints, field by field."""
    parts = ["# Results\n\nThe fields of what the functions return, read from the source.\n"]
    for verb in VERBS:
        kinds = list(dict.fromkeys(returned(getattr(greffon, verb))))
        parts += [f"## {verb}\n"] * bool(kinds)
        parts += [f"`{kind.__name__}`: {summary(kind)}\n\n{fields_of(kind)}\n" for kind in kinds]
    return "\n".join(parts)


def returned(function: Any) -> Iterator[type]:
    """Find the dataclasses in what a function returns, inside lists and unions too."""
    home = vars(importlib.import_module(function.__module__))
    waiting = [get_type_hints(function, globalns=home).get("return")]
    while waiting:
        kind = waiting.pop(0)
        waiting += get_args(kind)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield kind


def fields_of(kind: type) -> str:
    """Write the fields of a result as a table: by `greffon.core.schema` where it is there, else names and types."""
    try:
        from greffon.core.schema import markdown
    except ModuleNotFoundError:
        hints = get_type_hints(kind)
        rows = [f"| `{f.name}` | `{inspect.formatannotation(hints[f.name])}` |" for f in dataclasses.fields(kind)]
        return "\n".join(["| field | type |", "| --- | --- |", *(row.replace(" | None", " or None") for row in rows)])
    return str(markdown(kind))


def summary(kind: type) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def notebook(path: Path) -> str:
    """Turn the executed notebook into a page, with its pictures beside it."""
    page, pictures = [], 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            page.append(source)
            continue
        page.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            image = output.get("data", {}).get("image/png")
            if image is not None:
                pictures += 1
                (GENERATED / f"lab-{pictures}.png").write_bytes(base64.b64decode("".join(image)))
                page.append(f"![Figure {pictures} of the lab](lab-{pictures}.png)")
            else:
                page.append(f"```text\n{text_of(output)}\n```")
    return "\n\n".join(page) + "\n"


def text_of(output: dict[str, Any]) -> str:
    """Return what a cell printed."""
    return "".join(output.get("text") or output["data"]["text/plain"]).rstrip()
