"""Begin a labelling session, or go on with one: `greffon.label`."""

import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast, get_args

from greffon.core.config import override
from greffon.core.console import say
from greffon.core.errors import UserError, setting
from greffon.core.files import sha256
from greffon.core.locks import own_directory
from greffon.core.recipe import Data
from greffon.data.corpora import find_files
from greffon.data.tasks import guess_task
from greffon.data.tasks.multilabel import SEPARATOR
from greffon.labelling.answers import LabelTask
from greffon.labelling.session import Session
from greffon.labelling.storage import SETTINGS, Settings, begin, go_on
from greffon.labelling.strategy import Choosing, Strategy
from greffon.runs.run import Run

_LONGEST_LABEL = 100
_here: "weakref.WeakValueDictionary[Path, Session]" = weakref.WeakValueDictionary()


def label(
    texts: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    body: str | Path | Run | None = None,
    labels: str | Sequence[str] = (),
    task: LabelTask | None = None,
    strategy: Strategy | None = None,
    random_share: float | None = None,
    aside_share: float | None = None,
    aim: float | None = None,
    author: str = "",
    text_column: str | None = None,
    pair_columns: Sequence[str] | None = None,
    seed: int | None = None,
    quiet: bool = False,
) -> Session:
    """Begin a labelling session over text files, or go on with the one in `out`.

    `body` is a run whose vectors choose the texts and make the predictions. One text in ten (`aside_share`) is kept
    aside as a test set and never trained on:
    `with greffon.label("heap.txt", body="runs/body", labels="good,bad", out="session") as session: …`
    With the task `multilabel` a text has any number of the labels, or none; `pairs` (guessed from the columns `text_a`
    and `text_b`) asks for one label of two texts.

    A session that goes on keeps the settings that are not given. A new `strategy`, `random_share` or `aim` holds for
    what follows, and labels can be added; what would make another session of it is refused.
    """
    path = Path(out)
    names = label_names(labels)
    if aim is not None and not 0 < aim < 1:
        raise UserError(f"{setting('aim')} is {aim}; give an accuracy between 0 and 1, such as 0.9")
    earlier = _here.get(path.resolve())
    if earlier is not None:
        earlier.close()  # opened twice in one process, as by running a cell of a notebook again
    sources = [texts] if isinstance(texts, str | Path) else list(texts)
    choosing = _given(strategy=strategy, random_share=random_share, aside_share=aside_share)
    asked = _given(task=task, text_column=text_column, seed=seed, aim=aim)
    there = (path / SETTINGS).is_file()
    if not there:
        _check_complete(sources, body, names)
    if pair_columns is not None:
        asked["pair_columns"] = tuple(pair_columns)
    if sources:
        asked["sources"] = tuple(str(file.resolve()) for file in find_files(sources))
        if not there and task is None:
            asked["task"] = _guessed(Path(asked["sources"][0]), asked, quiet)
    if body is not None:
        asked |= _body(Run.open(body))
    new = None if there else Settings(**asked, labels=names, choosing=Choosing(**choosing))
    if new is not None:
        checked_task(new.task, names)
        if pair_columns is not None and new.task != "pairs":
            raise UserError(
                f"{setting('pair_columns')} is for pairs of texts, and this is for {new.task}; leave it out"
            )
    held = ExitStack()
    try:
        held.enter_context(own_directory(path, SETTINGS))
        settings = new or go_on(path, asked, choosing, names)
        checked_task(settings.task, settings.labels)
        session = Session(begin(path, settings, quiet), held, author)
    except BaseException:
        held.close()
        raise
    _here[path.resolve()] = session
    return session


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


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


def _guessed(file: Path, asked: Mapping[str, Any], quiet: bool) -> LabelTask:
    """Return the task that a file of texts is written for, and say by what it was recognized."""
    task, sign = guess_task(file, override(Data(), asked))
    if task not in ("multilabel", "pairs"):
        return "classes"
    if not quiet:
        say(f"task: {task}, by {sign}; {setting('task')} names another one")
    return checked_task(task)


def checked_task(task: str, labels: Sequence[str] = ()) -> LabelTask:
    """Return a task; refuse one that is not labelled here, and labels that its files cannot hold."""
    known = next((name for name in get_args(LabelTask) if name == task), None)
    if known is None:
        raise UserError(f"{task} is no task to label; choose a {setting('task')} of {', '.join(get_args(LabelTask))}")
    if task == "multilabel" and (odd := [name for name in labels if SEPARATOR in name]):
        raise UserError(f"the label {odd[0]!r} holds a {SEPARATOR!r}, which stands between labels; rename it")
    return cast(LabelTask, known)


def _check_complete(sources: Sequence[str | Path], body: str | Path | Run | None, labels: tuple[str, ...]) -> None:
    """Refuse a new session that lacks something."""
    if not sources:
        raise UserError(
            "there is no session to go on with, and no text to begin one; "
            f"give texts, {setting('body')} and {setting('labels')}"
        )
    if body is None:
        raise UserError(f"{setting('body')} is missing: give a pretrained run, whose vectors choose the texts")
    if not labels:
        raise UserError(f"{setting('labels')} is missing: give the names of the labels, such as good,bad")


def _body(run: Run) -> dict[str, str]:
    """Describe the run whose vectors are taken."""
    if run.recipe.objective == "seq2seq":
        raise UserError(f"{run.path} is a translator; give a run with one body, pretrained or fine-tuned")
    weights = run.path / "model.safetensors"
    if not weights.is_file():
        raise UserError(f"{run.path} has no weights yet; wait for its first checkpoint, or give another run")
    return {"body": str(run.path.resolve()), "weights": sha256(weights)}
