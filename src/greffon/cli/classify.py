"""`greffon classify RUN TEXT… | --file F | --pair A B | -`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import AnswerOptions, Column, Columns, Flag, MachineOptions, OptionalFile, Run, Texts
from greffon.cli.parsing import given, parse, use_machine
from greffon.cli.texts import asked_texts, check_column
from greffon.core.conflicts import Idle, Values, refuse_idle
from greffon.core.errors import UserError, setting


@dataclass(frozen=True)
class Args:
    """Label texts with a fine-tuned run. Give the texts, a file, or - to read them from stdin, one per line."""

    run: Run
    """Fine-tuned run."""
    texts: Texts = ()
    """Texts to label, or - for stdin."""
    file: OptionalFile = None
    """File of texts: .txt (one per line, or blocks separated by blank lines), .csv, .tsv, .jsonl or .parquet; for a run
    that marks spans also .conll."""
    pair: Columns = ()
    """Two texts, for a run that labels pairs."""
    out: OptionalFile = None
    """File to write (.csv, .tsv, .jsonl or, for spans, .conll): the table of --file, or the texts, with a column
    `prediction`, in .conll with one more column of tags."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    pair_columns: Columns = ()
    """Columns with the two texts of a pair (default: those that the run was trained with)."""
    json: Flag = False
    """Print one JSON object per line."""
    labelling: AnswerOptions = field(default_factory=AnswerOptions)  # type: ignore[valid-type]
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def _into_a_file(values: Values) -> str | None:
    """Say why --json changes nothing where the answers go into a file."""
    told = f"with {setting('out')}: the ending of its file says how answers are written; give one of them"
    return told if values.get("out") else None


def main(words: Sequence[str]) -> None:
    """Print what the run says of each text."""
    args = parse(Args, "classify", words)
    use_machine(args)
    check_column(args)
    refuse_idle([Idle(("json",), _into_a_file)], given(args))

    from greffon.core.answering import Answering
    from greffon.core.json_results import json_text
    from greffon.inference.classify import answers, check_task, examples_of, grafted, read_inputs
    from greffon.inference.predictions import Predictions

    if bool(args.texts) + bool(args.pair) + (args.file is not None) > 1:
        raise UserError("too much to classify; give texts, --file F, --pair A B, or - for stdin")
    from_file, from_pair = args.file is not None, bool(args.pair)
    texts = [] if from_file or from_pair else asked_texts(args.texts, args.file, lambda file: [], "classify")
    run = grafted(args.run)
    asked = Answering(**given(args.labelling))
    check_task(run, asked.task)
    table = None if args.out is None else Predictions.open(args.out, args.file, run.recipe.answer)
    if args.file is not None and from_file:
        columns = {"text_column": args.text_column, "pair_columns": args.pair_columns or None}
        examples = read_inputs(run, args.file, columns)
        if not examples:
            raise UserError(f"{args.file} is empty: nothing to classify; give texts in it")
    elif from_pair:
        if len(args.pair) != 2:
            raise UserError(f"--pair takes two texts, not {len(args.pair)}; put each in quotes")
        examples = examples_of(run, [(args.pair[0], args.pair[1])])
    else:
        examples = examples_of(run, texts)
    found = answers(run, examples, asked)
    for answer in found if table is None else ():
        say_out(json_text(answer) if args.json else answer.line())
    if table is not None:
        table.write(examples, found)
        say_out(f"{table.path}: {len(found):,} answers")
