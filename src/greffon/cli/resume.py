"""`greffon resume RUN [--extra-steps STEPS]`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import Run, parse


@dataclass(frozen=True)
class Args:
    """Go on with a run that was stopped, or train it longer."""

    run: Run
    """The run directory."""
    extra_steps: int = 0
    """Steps to add to those of the recipe."""
    processes: int = 1
    """Processes on this machine that share the work; it need not be the number it was begun with."""
    fsdp: bool = False
    """Keep a share of the weights in each process instead of a copy, for bodies that do not fit."""


def main(words: Sequence[str]) -> None:
    """Resume a run."""
    args = parse(Args, "resume", words)

    from greffon.cli.outcome import outcome
    from greffon.training.pretrain import resume

    run = resume(args.run, extra_steps=args.extra_steps, processes=args.processes, fsdp=args.fsdp)
    say_out(outcome(run))
