"""The page of a labelling session: its routes, and what they ask of the session."""

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from greffon import __version__
from greffon.core.errors import UserError
from greffon.core.json_results import to_json
from greffon.labelling.desk import Question
from greffon.labelling.heap import Text, parts_of, whole
from greffon.labelling.log import Source
from greffon.labelling.session import Session
from greffon.labelling.tables import ASIDE, LABELS
from greffon.web import schemas
from greffon.web.application import application, json_body, page
from greffon.web.limits import DEFAULT, Limits
from greffon.web.schemas import AtMost, Between
from greffon.web.thread_pool import ThreadPool

Name = Annotated[str, AtMost(200)]
Number = Annotated[int, Between(0, 2**53 - 1)]
PAGE, CLIPPED, LONGEST = 20, 400, 200_000
"""Texts of one answer, characters of a text in a list, and characters of a text on its own."""


@dataclass(frozen=True)
class Next:
    """Ask for the next text of a tab; `again` asks for a labelled one, for a second judgement."""

    client: Name
    author: Name = ""
    again: bool = False


@dataclass(frozen=True)
class MarkText:
    """Label (several as `a|b`), skip or flag a text; `how`: it was asked, asked again, or chosen from a list."""

    kind: Literal["label", "skip", "flag"]
    text: Number
    client: Name
    key: Name
    label: Annotated[str, AtMost(20_000)] = ""
    author: Name = ""
    how: Literal["asked", "again", "list"] = "asked"


@dataclass(frozen=True)
class Undo:
    """Take back the last mark of a tab."""

    client: Name
    key: Name


@dataclass(frozen=True)
class Browse:
    """List texts: by what was done with them, what the model doubts, or by words that they contain."""

    which: Literal["labelled", "skipped", "flagged", "doubts", "conflicts", "twice", "all"] = "labelled"
    query: Annotated[str, AtMost(200)] = ""
    offset: Number = 0


@dataclass(frozen=True)
class Whole:
    """Return a whole text."""

    text: Number


def make_label_app(session: Session, limits: Limits = DEFAULT, hosts: Collection[str] = ()) -> Starlette:
    """Make the application over a session; `hosts` are names for this machine besides localhost."""
    pool = ThreadPool(limits.at_once, limits.waiting)
    api = LabelApi(session, pool)
    routes = [*page("static/label", "/static/label"), *page("static", "/static", index=False), *api.routes()]
    return application(routes, pool, limits, hosts)


class LabelApi:
    """The endpoints of the page."""

    def __init__(self, session: Session, pool: ThreadPool) -> None:
        self.session = session
        self.pool = pool

    def routes(self) -> list[Route]:
        """List the routes."""
        posts: dict[str, tuple[type, Callable[[Any], Any]]] = {
            "next": (Next, self.next),
            "mark": (MarkText, self.mark),
            "undo": (Undo, self.undo),
            "browse": (Browse, self.browse),
            "text": (Whole, self.whole),
        }
        return [
            *(Route(f"/api/{name}", self._posted(*what), methods=["POST"]) for name, what in posts.items()),
            Route("/api/session", self._got(self.about)),
            Route("/api/progress", self._got(self.progress)),
            *(Route(f"/{name}", self._table(name)) for name in (LABELS, ASIDE)),
        ]

    def _posted(self, kind: type, answer: Callable[[Any], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            asked: Any = schemas.read(kind, await json_body(request))
            return JSONResponse(to_json(await self.pool.do(lambda: answer(asked), request.receive)))

        return endpoint

    def _got(self, answer: Callable[[], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            await request.body()
            return JSONResponse(to_json(await self.pool.do(answer, request.receive)))

        return endpoint

    def _table(self, name: str) -> Callable[[Request], Any]:
        def content() -> bytes:
            return self.session.tables()[name]

        async def endpoint(request: Request) -> Response:
            await request.body()
            table = await self.pool.do(content, request.receive)
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(table, media_type="text/csv; charset=utf-8", headers=headers)

        return endpoint

    # -- questions and marks ------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Describe the session."""
        settings = self.session.settings
        return {
            "version": __version__,
            "path": str(self.session.path),
            "body": settings.body,
            "task": settings.task,
            "labels": self.session.desk.answers.labels,
            "author": self.session.author,
            "texts": len(self.session.desk.heap),
            "strategy": settings.choosing.strategy,
            "kept_aside": settings.choosing.kept_aside,
            "commands": self._commands(),
        }

    def _commands(self) -> list[str]:
        """Return what to do with the labels in a shell."""
        body, tables = self.session.settings.body, [str(self.session.path / name) for name in (LABELS, ASIDE)]
        train, judge = map(shlex.quote, tables)
        return [
            f"greffon finetune {shlex.quote(body)} --train {train} --out runs/classifier",
            f"greffon evaluate runs/classifier {judge}",
        ]

    def next(self, asked: Next) -> dict[str, Any]:
        """Return the text that a tab is to judge."""
        with self.session.lock:
            question = self._question(asked.client, asked.author, asked.again)
        return self._answer(question)

    def _question(self, client: str, author: str, again: bool) -> Question | None:
        desk = self.session.desk
        if again:
            return desk.again(client, author)
        return desk.next(client) or desk.take_over(client)

    def mark(self, asked: MarkText) -> dict[str, Any]:
        """Write a mark, then return the next text."""
        note = ""
        with self.session.lock:
            if asked.key not in self.session.desk.marks.keys and self._is_too_late(asked):
                note = "somebody else has judged this text in the meantime; your label was not needed"
            else:
                self.session.mark(
                    asked.kind,
                    asked.text,
                    label=asked.label,
                    source=self._source(asked),
                    author=asked.author or None,
                    client=asked.client,
                    key=asked.key,
                )
            if asked.how == "list":
                return self._answer(None)
            question = self._question(asked.client, asked.author, asked.how == "again")
        return self._answer(question, note)

    def _is_too_late(self, asked: MarkText) -> bool:
        """Whether others have answered in the meantime what this tab was asked."""
        desk = self.session.desk
        if asked.how == "list" or desk.holds(asked.client, asked.text):
            return False
        if asked.how == "again" and asked.text in desk.marks.labels():
            return asked.text in desk.marks.asked_again()
        return desk.marks.current(asked.text) is not None

    def _source(self, asked: MarkText) -> Source:
        """Return how a text came to be judged; one that a tab has taken back is judged as it was asked at first."""
        desk = self.session.desk
        if asked.how == "list":
            return "chosen"
        if asked.how == "again" and not desk.holds(asked.client, asked.text) and asked.text in desk.marks.labels():
            return "again"
        return desk.asked(asked.text)

    def undo(self, asked: Undo) -> dict[str, Any]:
        """Take back the last mark of a tab, and return its text."""
        with self.session.lock:
            taken_back = self.session.undo(asked.client, key=asked.key)
            desk = self.session.desk
            question = taken_back or desk.held(asked.client) or desk.next(asked.client)
        return self._answer(question, "" if taken_back else "there is nothing to take back")

    def _answer(self, question: Question | None, note: str = "") -> dict[str, Any]:
        """Put a text beside the counts, which are up to date whatever the model is doing."""
        text = None
        if question is not None:
            text = {"index": question.index, **_shown(question.text, LONGEST)}
        return {"question": text, "note": note, "progress": self.progress()}

    # -- what is known ------------------------------------------------------------------------------

    def progress(self) -> dict[str, Any]:
        """Say where the session stands, with numbers of doubts and conflicts in place of their texts."""
        found = self.session.progress(wait=False)
        values = found.to_json()
        return values | {"doubts": len(found.doubts), "conflicts": len(found.conflicts)}

    def whole(self, asked: Whole) -> dict[str, Any]:
        """Return a whole text."""
        texts = self.session.desk.heap.texts
        if asked.text >= len(texts):
            raise UserError(f"there is no text {asked.text}; choose 0 to {len(texts) - 1}")
        return _shown(texts[asked.text], LONGEST)

    def browse(self, asked: Browse) -> dict[str, Any]:
        """List texts, some at a time."""
        progress = self.session.progress(wait=False)
        with self.session.lock:
            marks = self.session.desk.marks
            kinds = {"labelled": "label", "skipped": "skip", "flagged": "flag"}
            notes: dict[int, str] = {}
            names = self.session.desk.answers.names

            def said(label: str) -> str:
                return ", ".join(names(label)) or "no label"

            if asked.which in kinds:
                listed: Sequence[int] = marks.of_kind(kinds[asked.which])[::-1]
            elif asked.which == "doubts":
                notes = {one.index: f"the model says {said(one.suggested)}" for one in progress.doubts}
                listed = list(notes)
            elif asked.which == "conflicts":
                notes = {one.second: f"the same text is also {said(one.first_label)}" for one in progress.conflicts}
                listed = list(notes)
            elif asked.which == "twice":
                notes = {
                    text: f"first {said(a)}, then {said(b)}" for text, (a, b) in marks.judged_twice().items() if a != b
                }
                listed = list(notes)
            else:
                listed = range(len(self.session.desk.heap))
        found = self._matching(listed, asked)
        with self.session.lock:
            items = [self._item(text, notes.get(text, "")) for text in found[:PAGE]]
        return {"texts": items, "more": len(found) > PAGE}

    def _matching(self, listed: Sequence[int], asked: Browse) -> list[int]:
        """Return one page of texts that contain the query, and one more if there is any."""
        texts = self.session.desk.heap.texts
        has = re.compile(r"\s+".join(map(re.escape, asked.query.split())), re.IGNORECASE).search
        found, skipped = [], 0
        for text in listed:
            if has(whole(texts[text])):
                skipped += 1
                if skipped > asked.offset:
                    found.append(text)
                if len(found) > PAGE:
                    break
        return found

    def _item(self, text: int, note: str) -> dict[str, Any]:
        desk = self.session.desk
        mark, found = desk.marks.current(text), desk.heap.texts[text]
        return {
            "index": text,
            **_shown(found, CLIPPED),
            "clipped": max(map(len, parts_of(found))) > CLIPPED,
            "kind": mark.kind if mark else "",
            "label": mark.label if mark else "",
            "author": mark.author if mark else "",
            "time": mark.time if mark else "",
            "aside": bool(desk.is_aside[text]) and mark is not None,
            "note": note,
        }


def _shown(text: Text, longest: int) -> dict[str, Any]:
    """Return a text as `text`, a pair as `text` and `second`, each cut to a length."""
    cut = [part if len(part) <= longest else part[:longest] + "…" for part in parts_of(text)]
    return dict(zip(("text", "second"), cut, strict=False))
