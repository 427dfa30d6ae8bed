"""`greffon serve RUN…`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from greffon.cli.options import Count, MachineOptions, Runs, TaskName
from greffon.cli.parsing import parse, use_machine

Host = Annotated[str, tyro.conf.arg(metavar="ADDRESS")]


@dataclass(frozen=True)
class Args:
    """Serve a web page and a JSON API for runs and comparisons. Ctrl-C stops the server.

    The server listens on this machine only, unless --host opens it to others.
    """

    runs: Runs = ()
    """Run directories, finished or in training, and directories created by `greffon compare`."""
    task: TaskName = None
    """Task of the runs, which must be that of each fine-tuned one."""
    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Count = 8000
    """Port to listen on; 0 for any free port."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Serve until Ctrl-C."""
    args = parse(Args, "serve", words)
    use_machine(args)

    from greffon.web import serve

    serve(args.runs, task=args.task, host=args.host, port=args.port)
