"""`greffon resume RUN [--extra-steps STEPS]`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import Count, LaunchOptions, Run, TrainingMachineOptions
from greffon.cli.parsing import given, parse


@dataclass(frozen=True)
class Args:
    """Continue a run that was interrupted, or train a finished one for longer."""

    run: Run
    """Run directory."""
    extra_steps: Count = 0
    """Number of steps to add to those of the recipe."""
    launch: LaunchOptions = field(default_factory=LaunchOptions)  # type: ignore[valid-type]
    machine: TrainingMachineOptions = field(default_factory=TrainingMachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Resume a run."""
    args = parse(Args, "resume", words)

    from greffon.cli.outcome import outcome
    from greffon.training.pretrain import resume

    run = resume(args.run, **given(args, "run"))
    say_out(outcome(run))
