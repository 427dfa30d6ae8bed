"""`greffon generate RUN PROMPT`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import Prompt, Run, parse


@dataclass(frozen=True)
class Args:
    """Continue a prompt with a causal run; the same seed gives the same text."""

    run: Run
    """The run directory."""
    prompt: Prompt
    """The beginning of the text."""
    max_new_tokens: int = 40
    """Tokens to add at most."""
    temperature: float = 0.8
    """How freely to draw; 0 takes the likeliest token."""
    top_k: int = 0
    """Draw from the K likeliest tokens only; 0: from all."""
    top_p: float = 0.95
    """Draw from the likeliest tokens that fill this share; 1: from all."""
    seed: int = 0
    """What all random numbers are derived from."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Print the prompt and its continuation as one text."""
    args = parse(Args, "generate", words)

    from greffon.core.json_results import json_text
    from greffon.inference.generate import generate

    made = generate(
        args.run,
        args.prompt,
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        seed=args.seed,
    )
    say_out(json_text(made) if args.json else made.text)
