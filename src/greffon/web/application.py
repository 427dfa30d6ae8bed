"""What every page of ours has: its files, its guards, and one sentence for each failure."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from greffon.core.cancellation import Cancelled
from greffon.core.errors import UserError
from greffon.web.catalogue import Unknown
from greffon.web.guards import BoundedBody, KnownHost, OwnOrigin, SafeHeaders
from greffon.web.limits import Limits
from greffon.web.thread_pool import Busy, Dropped, ThreadPool

LONGEST_ERROR = 500
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def application(
    routes: Sequence[BaseRoute],
    pool: ThreadPool,
    limits: Limits,
    hosts: Collection[str],
    told: Callable[[str], str] = str,
) -> Starlette:
    """Put the guards before some routes; `told` rewrites the sentence of a user's mistake for the client."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            pool.close()

    def busy(request: Request, problem: Exception) -> Response:
        error = "too many requests at once; try again in a moment"
        return JSONResponse({"error": error}, 503, {"Retry-After": str(limits.retry_seconds)})

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(SafeHeaders),
            Middleware(KnownHost, hosts=hosts),
            Middleware(OwnOrigin),
            Middleware(BoundedBody, limits=limits),
        ],
        exception_handlers={
            HTTPException: lambda _, problem: _error(problem.detail, problem.status_code, problem.headers),
            UserError: lambda _, problem: _error(told(str(problem)), 400),
            Unknown: lambda _, problem: _error(str(problem), 404),
            Busy: busy,
            Cancelled: busy,  # the server is closing
            Dropped: lambda *_: Response(status_code=499),  # nobody reads it
            ClientDisconnect: lambda *_: Response(status_code=499),
            Exception: lambda *_: _error("the server failed; see its terminal for the error", 500),
        },
    )
    app.state.pool = pool
    return app


def _error(problem: str, status: int, headers: Any = None) -> Response:
    text = problem if len(problem) <= LONGEST_ERROR else problem[: LONGEST_ERROR - 1] + "…"
    # A client may have sent half a character; it gets a question mark back.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return JSONResponse({"error": text}, status, headers)


def page(folder: str, under: str, index: bool = True) -> list[BaseRoute]:
    """Serve the files of a folder from memory, and its index.html as the page, unless another folder has the page."""
    routes: list[BaseRoute] = []
    for file in resources.files("greffon.web").joinpath(folder).iterdir():
        kind = KINDS.get(file.name[file.name.rfind(".") :])
        if kind is not None and (index or file.name != "index.html"):
            path = "/" if file.name == "index.html" else f"{under}/{file.name}"
            routes.append(Route(path, _file(file.read_bytes(), kind)))
    return routes


def _file(content: bytes, kind: str) -> Callable[[Request], Any]:
    async def send(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send


async def json_body(request: Request) -> Any:
    """Read a JSON body. Other types are refused: a foreign page could send those without a CORS preflight."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise UserError("the request is no valid JSON") from None
