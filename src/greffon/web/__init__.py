"""A local web page and a JSON API for runs: `greffon serve RUN…`.

A leaf: nothing imports it but its command, and it can be deleted without touching the rest.

    schemas      request bodies, with the bounds of their fields
    handlers     from a request to a result, by the public functions of the package
    description  the OpenAPI description, generated from schemas and handlers
    catalogue    the runs that are served, by name: no path of a client ever reaches the disk
    curves       the logged scores of a run, thinned out for a chart
    thread_pool  the threads that models run in, the queue before them, and cancellation
    guards       checks of every request: host, size, time
    application  what both pages have: files, guards, one sentence for each failure
    app          the routes of runs
    labelling    the routes of a labelling session
    server       the socket, and a deadline for idle connections
    static/      the page: plain HTML, CSS and JavaScript, without a build step
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from greffon.core.errors import UserError

if TYPE_CHECKING:
    from greffon.core.choices import Task
    from greffon.labelling.session import Session
    from greffon.runs.run import Run


def serve(
    runs: "Sequence[str | Path | Run]", *, task: "Task | None" = None, host: str = "127.0.0.1", port: int = 8000
) -> None:
    """Serve a web page for runs and comparisons until Ctrl-C: `serve(["runs/body"])`; port 0 takes a free port.

    A `task` that is named must be that of each fine-tuned run.
    """
    _check_packages()
    if task is not None:
        _check_tasks(runs, task)
    from greffon.web.server import run_server

    run_server(runs, host, port)


def serve_labelling(session: "Session", *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve the page of a labelling session until Ctrl-C."""
    _check_packages()
    from greffon.web.labelling import make_label_app
    from greffon.web.server import serve_app

    serve_app(lambda hosts: make_label_app(session, hosts=hosts), host, port, "read the texts and label them")


def _check_tasks(runs: "Sequence[str | Path | Run]", task: "Task") -> None:
    from greffon.inference.classify import check_task
    from greffon.runs.run import Run

    for path in runs:
        if isinstance(path, Run) or (Path(path) / "recipe.json").is_file():
            run = Run.open(path)
            if run.recipe.graft is not None:
                check_task(run, task)


def _check_packages() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError:
        raise UserError(
            "the page needs starlette and uvicorn; install them with: pip install 'greffon[serve]'"
        ) from None
