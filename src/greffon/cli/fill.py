"""`greffon fill RUN "Ce livre est [MASK]."`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import Count, Flag, MachineOptions, MaskedText, Run
from greffon.cli.parsing import parse, use_machine


@dataclass(frozen=True)
class Args:
    """Predict the token behind each [MASK] of a text with a masked run."""

    run: Run
    """Masked run."""
    text: MaskedText
    """Text that contains one or more [MASK]."""
    top_k: Count = 5
    """Number of candidates for each mask; a + marks one that continues the word before it."""
    json: Flag = False
    """Print JSON."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the candidates for each mask."""
    args = parse(Args, "fill", words)
    use_machine(args)

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
