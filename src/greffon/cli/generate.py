"""`greffon generate RUN PROMPT`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import Flag, MachineOptions, Prompt, Run, SamplingOptions
from greffon.cli.parsing import given, parse, use_machine


@dataclass(frozen=True)
class Args:
    """Continue a prompt with a causal run; the same seed gives the same text."""

    run: Run
    """Causal run."""
    prompt: Prompt
    """Beginning of the text."""
    json: Flag = False
    """Print JSON."""
    sampling: SamplingOptions = field(default_factory=SamplingOptions)  # type: ignore[valid-type]
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the prompt and its continuation as one text."""
    args = parse(Args, "generate", words)
    use_machine(args)

    from greffon.core.json_results import json_text
    from greffon.inference.generate import generate

    made = generate(args.run, args.prompt, **given(args, "run", "prompt", "json", "machine"))
    say_out(json_text(made) if args.json else made.text)
