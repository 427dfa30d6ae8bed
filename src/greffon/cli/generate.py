"""`greffon generate RUN PROMPT`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import Count, Flag, MachineOptions, Prompt, Real, Run
from greffon.cli.parsing import given, parse, use_machine


@dataclass(frozen=True)
class Args:
    """Continue a prompt with a causal run; the same seed gives the same text."""

    run: Run
    """Causal run."""
    prompt: Prompt
    """Beginning of the text."""
    max_new_tokens: Count = 40
    """Maximum number of tokens to generate."""
    temperature: Real = 0.8
    """Sampling temperature; 0 always takes the most likely token."""
    top_k: Count = 0
    """Sample from the K most likely tokens only; 0 disables the limit."""
    top_p: Real = 0.95
    """Sample from the most likely tokens whose probabilities add up to P (nucleus sampling); 1 disables the limit."""
    seed: Count = 0
    """Random seed."""
    json: Flag = False
    """Print JSON."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the prompt and its continuation as one text."""
    args = parse(Args, "generate", words)
    use_machine(args)

    from greffon.core.json_results import json_text
    from greffon.inference.generate import generate

    made = generate(args.run, args.prompt, **given(args, "run", "prompt", "json", "machine"))
    say_out(json_text(made) if args.json else made.text)
