"""`greffon fill RUN "Ce livre est [MASK]."`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import MaskedText, Run, parse


@dataclass(frozen=True)
class Args:
    """Guess the tokens behind each [MASK] of a text, with a masked run."""

    run: Run
    """A masked run."""
    text: MaskedText
    """The text, with one or more [MASK] in it."""
    top_k: int = 5
    """How many candidates for each; + marks one that goes on with the word before it."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Print the candidates for each mask."""
    args = parse(Args, "fill", words)

    from greffon.core.json_results import json_text
    from greffon.inference.fill_mask import fill

    masks = fill(args.run, args.text, top_k=args.top_k)
    if args.json:
        say_out(json_text(masks))
        return
    for number, mask in enumerate(masks, start=1):
        if len(masks) > 1:
            say_out(f"[MASK] {number}")
        for candidate in mask.candidates:
            # A token that goes on with the word before it has no space of its own.
            joined = "" if candidate.token[:1].isspace() else "+"
            say_out(f"{candidate.probability:7.1%}  {joined}{candidate.token.strip() or repr(candidate.token)}")
