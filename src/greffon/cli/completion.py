"""`greffon completion bash|zsh|fish`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.parsing import parse


@dataclass(frozen=True)
class Args:
    """Print a script by which a shell completes the commands, options and choices of greffon.

    bash: eval "$(greffon completion bash)" in ~/.bashrc. zsh: the same with zsh, in ~/.zshrc after compinit.
    fish: greffon completion fish > ~/.config/fish/completions/greffon.fish.
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(metavar="bash|zsh|fish")]
    """Shell to print the script for."""


def main(words: Sequence[str]) -> None:
    """Print the script."""
    args = parse(Args, "completion", words)

    from greffon.cli.completion_script import completion

    say_out(completion(args.shell))
