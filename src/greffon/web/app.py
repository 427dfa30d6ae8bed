"""The routes: the page, its files, and the JSON API."""

import json
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from greffon.core.cancellation import Cancelled
from greffon.core.errors import UserError
from greffon.core.json_results import to_json
from greffon.inference.generate import Generation, Written
from greffon.runs.run import Run
from greffon.web import schemas
from greffon.web.application import application, json_body, page
from greffon.web.catalogue import Catalogue
from greffon.web.description import description
from greffon.web.handlers import ANSWERS, question_of
from greffon.web.handlers import stream as stream_answer
from greffon.web.limits import DEFAULT, Limits
from greffon.web.thread_pool import ThreadPool, Work, gone

REPORT_POLICY = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
"""A report may come from anywhere, so it is shown in a sandbox, without scripts."""


def make_app(catalogue: Catalogue, limits: Limits = DEFAULT, hosts: Collection[str] = ()) -> Starlette:
    """Make the application over a catalogue; `hosts` are names for this machine besides localhost."""
    pool = ThreadPool(limits.at_once, limits.waiting)
    routes = [*page("static", "/static"), *Api(catalogue, pool).routes()]
    return application(routes, pool, limits, hosts, catalogue.told)


class Api:
    """The endpoints of the JSON API."""

    def __init__(self, catalogue: Catalogue, pool: ThreadPool) -> None:
        self.catalogue = catalogue
        self.pool = pool
        self.description = description()

    def routes(self) -> list[BaseRoute]:
        """List the routes."""
        return [
            Route("/api/openapi.json", self.described),
            Route("/api/runs", self.runs),
            Route("/api/runs/{name}/curve", self.curve),
            Route("/api/runs/{name}/ledger", self.ledger),
            Route("/api/comparisons/{name}/report", self.report),
            Route("/api/generate/stream", self.stream, methods=["POST"]),
            *(Route(f"/api/{name}", self._answering(answer), methods=["POST"]) for name, answer in ANSWERS.items()),
        ]

    async def described(self, request: Request) -> Response:
        """Describe the API."""
        return JSONResponse(self.description)

    async def runs(self, request: Request) -> Response:
        """Describe all runs and comparisons that are served."""
        return JSONResponse((await run_in_threadpool(self.catalogue.describe)).to_json())

    async def curve(self, request: Request) -> Response:
        """Return the logged scores of a run."""
        found = await run_in_threadpool(self.catalogue.curve, request.path_params["name"])
        return JSONResponse(found.to_json())

    async def ledger(self, request: Request) -> Response:
        """Count the parameters of a run, component by component."""
        found = await run_in_threadpool(self.catalogue.ledger, request.path_params["name"])
        return JSONResponse(found.to_json())

    async def report(self, request: Request) -> Response:
        """Show the report of a comparison, without scripts."""
        page = await run_in_threadpool(self.catalogue.report, request.path_params["name"])
        return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})

    def _answering(self, answer: Callable[[Run, Any], Any]) -> Callable[[Request], Any]:
        kind = question_of(answer)

        async def endpoint(request: Request) -> Response:
            asked: Any = schemas.read(kind, await json_body(request))
            self.catalogue.require(asked.run)
            found = await self.pool.do(lambda: answer(self.catalogue.run(asked.run), asked), request.receive)
            return JSONResponse(to_json(found))

        return endpoint

    async def stream(self, request: Request) -> Response:
        """Continue a prompt; send one line of JSON per token."""
        asked = schemas.read(schemas.Stream, await json_body(request))
        self.catalogue.require(asked.run)
        work = self.pool.begin(lambda: stream_answer(self.catalogue.run(asked.run), asked))
        return Lines(work, asked, self.catalogue.told)


class Lines(Response):
    """A generation as a stream of JSON lines, until it is complete or the client has disconnected."""

    media_type = "application/x-ndjson"

    def __init__(self, work: Work[Written], asked: schemas.Stream, told: Callable[[str], str]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.work = work
        self.asked = asked
        self.told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send line after line; an invalid request fails before the first one."""
        try:
            async with gone(receive) as left:
                left.add_done_callback(lambda _: self.work.call_off())
                results = aiter(self.work)
                first = await anext(results)
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

                async def tell(**line: Any) -> None:
                    body = json.dumps(line, ensure_ascii=False).encode() + b"\n"
                    await send({"type": "http.response.body", "body": body, "more_body": True})

                try:
                    text, tokens = await self._written(first, results, tell)
                    whole = Generation(self.asked.prompt, self.asked.prompt + text, tokens, self.asked.seed)
                    await tell(generation=whole.to_json())
                except Cancelled:
                    return  # the client has gone, or the server is closing
                except UserError as problem:
                    await tell(error=self.told(str(problem)))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.work.call_off()

    async def _written(self, first: Written, rest: AsyncIterator[Written], tell: Any) -> tuple[str, int]:
        text, tokens = "", 0
        written: Written | None = first
        while written is not None:
            text, tokens = text + written.text, tokens + (not written.end)
            await tell(written=written.to_json())
            written = await anext(rest, None)
        return text, tokens
