"""A local page over runs, and the same as JSON: `greffon serve RUN…`.

A leaf: nothing imports it but its command, and it can be deleted without touching the rest.

    questions    what may be asked, with its bounds
    answers      from a question to an answer, by the public functions of the package
    description  the OpenAPI description, read off the two
    catalogue    the runs that are served, by name: no path of a client ever reaches the disk
    curves       what a training has logged, thinned out for a chart
    workshop     the threads that models run in, how many may wait, and how work is called off
    guards       what every request passes first: host, body, time
    app          the routes
    server       the socket, and connections that say nothing
    static/      the page: plain HTML, CSS and JavaScript, without a build step
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from greffon.core.errors import UserError

if TYPE_CHECKING:
    from greffon.runs.run import Run


def serve(runs: "Sequence[str | Path | Run]", *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve a page over runs and comparisons until Ctrl-C: `serve(["runs/body"])`; port 0 takes a free one."""
    try:
        from greffon.web.server import run_server
    except ModuleNotFoundError as missing:
        if missing.name not in ("starlette", "uvicorn"):
            raise
        raise UserError(
            "the page needs starlette and uvicorn; install them with: pip install 'greffon[serve]'"
        ) from None
    run_server(runs, host, port)
