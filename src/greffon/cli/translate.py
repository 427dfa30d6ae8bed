"""`greffon translate RUN TEXT… | --file F | -`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.parsing import OptionalFile, Run, Texts, asked_texts, parse
from greffon.core.config import Backend


@dataclass(frozen=True)
class Args:
    """Translate sentences: those given, those of a file, or (-) those on stdin, one a line."""

    run: Run
    """The run directory."""
    texts: Texts = ()
    """Sentences, or - for stdin."""
    file: OptionalFile = None
    """A file of sentences, one a line, empty ones kept (or a table with a column of them)."""
    text_column: str = "source"
    """The column with the sentences, in files that have columns."""
    beam_size: int = 4
    """Translations sought side by side; 1 is greedy."""
    length_penalty: float = 1.0
    """How much longer translations are favoured; 0: not at all."""
    n_best: int = 1
    """Translations to give of each sentence, up to the beam; before each stands its score, the log-probability
    divided by its length to the power of the penalty."""
    backend: Backend = "torch"
    """What translates: torch, or the faster ctranslate2, into which the run is converted once."""
    int8: bool = False
    """Compute in 8-bit integers: faster with many sentences or a large model, with slightly other results."""
    json: bool = False
    """Print one JSON object a line."""


def main(words: Sequence[str]) -> None:
    """Print a translation of each sentence."""
    args = parse(Args, "translate", words)

    def read(file: Path) -> list[str]:
        from greffon.inference.translate import sentences

        return sentences(file, args.text_column)

    texts = asked_texts(args.texts, args.file, read, "translate", "sentences")

    from greffon.core.json_results import json_text
    from greffon.inference.translate import translate_best

    found = translate_best(
        args.run,
        texts,
        n_best=args.n_best,
        beam_size=args.beam_size,
        length_penalty=args.length_penalty,
        backend=args.backend,
        int8=args.int8,
    )
    for number, made in enumerate(found):
        if number and args.n_best > 1 and not args.json:
            say_out("")  # between the sentences, each with several translations
        for one in made:
            if args.json:
                say_out(json_text(one))
            else:
                say_out(one.translation if args.n_best == 1 else f"{one.score:.4f}\t{one.translation}")
