"""`greffon serve RUN…`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli.parsing import Runs, parse


@dataclass(frozen=True)
class Args:
    """Serve a local page over runs and comparisons, and the same as JSON; Ctrl-C stops it.

    Nothing leaves this machine, unless --host opens it to others.
    """

    runs: Runs = ()
    """Run directories, also of runs in progress, and directories that `compare` made."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 8000
    """The port to listen on; 0: any free one."""


def main(words: Sequence[str]) -> None:
    """Serve until Ctrl-C."""
    args = parse(Args, "serve", words)

    from greffon.web import serve

    serve(args.runs, host=args.host, port=args.port)
