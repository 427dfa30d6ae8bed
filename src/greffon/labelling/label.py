"""Begin a labelling session, or go on with one: `greffon.label`."""

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from greffon.core.errors import UserError, setting
from greffon.core.files import sha256
from greffon.core.locks import own_directory
from greffon.data.corpora import find_files
from greffon.labelling.session import Session
from greffon.labelling.storage import SETTINGS, Settings, begin, go_on
from greffon.labelling.strategy import Choosing, Strategy
from greffon.runs.run import Run

_LEAST_TEXTS = 4
_LONGEST_LABEL = 100
_here: "weakref.WeakValueDictionary[Path, Session]" = weakref.WeakValueDictionary()


def label(
    texts: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    body: str | Path | Run | None = None,
    labels: str | Sequence[str] = (),
    strategy: Strategy | None = None,
    random_share: float | None = None,
    aside_share: float | None = None,
    aim: float | None = None,
    author: str = "",
    text_column: str = "text",
    seed: int = 0,
    quiet: bool = False,
) -> Session:
    """Begin a labelling session over text files, or go on with the one in `out`.

    `body` is a run whose vectors choose the texts and make the predictions. One text in ten (`aside_share`) is kept
    aside as a test set and never trained on:
    `with greffon.label("heap.txt", body="runs/body", labels="good,bad", out="session") as session: …`
    """
    path = Path(out)
    names = label_names(labels)
    if aim is not None and not 0 < aim < 1:
        raise UserError(f"{setting('aim')} is {aim}; give an accuracy between 0 and 1, such as 0.9")
    earlier = _here.get(path.resolve())
    if earlier is not None:
        earlier.close()  # opened twice in one process, as by running a cell of a notebook again
    sources = [texts] if isinstance(texts, str | Path) else list(texts)
    given = {"strategy": strategy, "random_share": random_share, "aside_share": aside_share}
    choosing = Choosing(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    there = (path / SETTINGS).is_file()
    asked = None
    if sources or not there:
        asked = replace(_asked(sources, body, names, there), choosing=choosing, text_column=text_column, seed=seed)
    elif body is not None:
        raise UserError(f"{setting('body')} is for a session that begins; leave it out to go on with this one")
    held = ExitStack()
    try:
        held.enter_context(own_directory(path, SETTINGS))
        settings = go_on(path, asked, names) if there else asked
        assert settings is not None
        settings = settings if aim is None else replace(settings, aim=aim)
        stored = begin(path, settings, quiet)
        if len(stored.heap) < _LEAST_TEXTS:
            raise UserError(f"there are {len(stored.heap)} texts; labelling needs {_LEAST_TEXTS} or more")
        session = Session(stored, held, author)
    except BaseException:
        held.close()
        raise
    _here[path.resolve()] = session
    return session


def label_names(labels: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of labels that are written `a,b` or given as a list.

    >>> label_names("good, bad")
    ('good', 'bad')
    """
    names = [name.strip() for name in (labels.split(",") if isinstance(labels, str) else labels)]
    if isinstance(labels, str) and not labels:
        return ()
    for name in names:
        if not name or not name.isprintable() or len(name) > _LONGEST_LABEL:
            raise UserError(f"a label is {name[:20]!r}; give printable names of 1 to {_LONGEST_LABEL} characters")
        if names.count(name) > 1:
            raise UserError(f"the label {name!r} is there twice; give each label once")
    if len(names) == 1:
        raise UserError(f"there is one label, {names[0]!r}; give two or more, such as good,bad")
    return tuple(names)


def _asked(
    sources: Sequence[str | Path],
    body: str | Path | Run | None,
    labels: tuple[str, ...],
    there: bool,
) -> Settings:
    """Describe the texts, the body and the labels that were asked for; refuse a new session that lacks one."""
    if not sources:
        raise UserError(
            "there is no session to go on with, and no text to begin one; "
            f"give texts, {setting('body')} and {setting('labels')}"
        )
    if body is None:
        raise UserError(f"{setting('body')} is missing: give a pretrained run, whose vectors choose the texts")
    if not labels and not there:
        raise UserError(f"{setting('labels')} is missing: give the names of the labels, such as good,bad")
    run = Run.open(body)
    if run.recipe.objective == "seq2seq":
        raise UserError(f"{run.path} is a translator; give a run with one body, pretrained or fine-tuned")
    weights = run.path / "model.safetensors"
    if not weights.is_file():
        raise UserError(f"{run.path} has no weights yet; wait for its first checkpoint, or give another run")
    files = tuple(str(file.resolve()) for file in find_files(sources))
    return Settings(files, "text", str(run.path.resolve()), sha256(weights), labels, Choosing())
