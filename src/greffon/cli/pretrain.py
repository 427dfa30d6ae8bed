"""`greffon pretrain TEXT… --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from greffon.cli import say_out
from greffon.cli.parsing import Minutes, Number, OptionalFile, OutRun, Settings, Share, Texts, Word, given, parse
from greffon.core.config import PretrainingObjective


@dataclass(frozen=True)
class Args:
    """Pretrain a Transformer body on text files, or train a translator on pairs of sentences."""

    texts: Texts = ()
    """Text files, directories or globs (.txt, .csv, .tsv, .jsonl, .parquet; .gz and .xz)."""
    out: OutRun = None
    """The run directory to make."""
    objective: PretrainingObjective = "causal"
    """What to learn: the next token, tokens hidden in the text (masked, BERT), or to translate (seq2seq)."""
    preset: Word = None
    """The shape and its training: compact (default), lab, bert-mini (masked) or gpt2-mini; to translate,
    small (default), base or marian-small."""
    tokenizer: OptionalFile = None
    """An existing tokenizer, or a run that has one; by default one is trained on the text."""
    vocab_size: Number = None
    """Tokens of the tokenizer to train (default: the preset's)."""
    mix: tuple[int, ...] = ()
    """How many rows of each TEXT to take in turn, for example 3 1; by default all text is one."""
    valid: tuple[str, ...] = ()
    """Held-out text; by default 1 % of the documents."""
    text_column: str = "text"
    """The column with the text, in files that have columns."""
    steps: Number = None
    """How long: optimizer steps,"""
    tokens: Number = None
    """or tokens of text,"""
    minutes: Minutes = None
    """or minutes on this machine (default: 10)."""
    seed: int = 0
    """What all random numbers are derived from."""
    mask_rate: Share = None
    """The share of tokens to predict, for a masked one (default: 0.15)."""
    whole_word_masking: bool = False
    """Hide whole words, not pieces of them (masked)."""
    next_sentence: bool = False
    """Learn, too, whether one text follows another (masked),"""
    gist: bool = False
    """or to tell what is hidden from the mean of its whole text: for bodies that will classify (masked)."""
    init_from: OutRun = None
    """A run whose weights, shape and tokenizer to start from, instead of fresh ones."""
    source: OptionalFile = None
    """To translate: sentences, one a line, and"""
    target: OptionalFile = None
    """their translations on the same lines (or one TEXT, a table with the columns source and target)."""
    valid_source: OptionalFile = None
    """Held-out sentences, and"""
    valid_target: OptionalFile = None
    """their translations; by default 1 % of the pairs."""
    source_column: str = "source"
    target_column: str = "target"
    encoder_from: OutRun = None
    """A pretrained run whose body the encoder starts from, and"""
    decoder_from: OutRun = None
    """one for the decoder; their shape and tokenizer are taken over."""
    processes: int = 1
    """Processes on this machine that share the work; the batches and losses are those of one."""
    fsdp: bool = False
    """Keep a share of the weights in each process instead of a copy, for bodies that do not fit."""
    dry_run: bool = False
    """Say what it would cost here, and stop."""
    force: bool = False
    """Replace a run that is there already."""
    settings: Settings = field(default_factory=Settings)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Pretrain, or say what it would cost."""
    args = parse(Args, "pretrain", words)

    from greffon.cli.outcome import outcome
    from greffon.core.errors import UserError
    from greffon.training.estimate import cost_line
    from greffon.training.pretrain import estimate, pretrain

    what: dict[str, Any] = {
        name: value
        for name, value in vars(args).items()
        if name not in ("texts", "out", "processes", "fsdp", "dry_run", "force", "settings")
    }
    what |= given(args.settings)
    if args.dry_run:
        if args.processes > 1 or args.fsdp:
            raise UserError("--dry-run measures one process; leave out --processes and --fsdp")
        say_out(cost_line(estimate(args.texts, **what)))
        return
    if args.out is None:
        raise UserError("no place for the run; name a directory with --out")
    run = pretrain(args.texts, out=args.out, force=args.force, processes=args.processes, fsdp=args.fsdp, **what)
    say_out(outcome(run))
