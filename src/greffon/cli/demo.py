"""`greffon demo`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from greffon.cli import say_out
from greffon.cli.parsing import parse


@dataclass(frozen=True)
class Args:
    """Run the main job on movie reviews: tokenizer, pretraining, comparison, report (about 10 minutes)."""

    what: Positional[Literal["classification"]] = "classification"
    """Which demo."""
    out: Path = Path("demo-run")
    """Where to work; repeated, the demo goes on where it was."""


def main(words: Sequence[str]) -> None:
    """Run the demo, and end on the verdict and the paths of report and figure."""
    args = parse(Args, "demo", words)

    from greffon.demonstration import demo

    made = demo(out=args.out)
    say_out(made.results["verdict"])
    say_out(f"report: {made.report}")
    say_out(f"figure: {made.figure}")
