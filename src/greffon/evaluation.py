"""Score a run on files, whatever it is: `greffon.evaluate`."""

from pathlib import Path
from typing import Any

from greffon import predict
from greffon.config import Backend
from greffon.errors import UserError
from greffon.run import Run
from greffon.translation import evaluate_pairs


def evaluate(
    run: str | Path | Run,
    file: str | Path | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    source_column: str = "source",
    target_column: str = "target",
    beam: int = 4,
    length_penalty: float = 1.0,
    backend: Backend = "torch",
    int8: bool = False,
) -> dict[str, Any]:
    """Score a run: accuracy for a classifier, bits per byte for a language model, BLEU for a translator.

    A translator takes two files aligned line by line, `source` and `target`, or a table with both.
    """
    run = Run.open(run)
    if run.recipe.objective == "seq2seq":
        return evaluate_pairs(
            run,
            file,
            source=source,
            target=target,
            source_column=source_column,
            target_column=target_column,
            beam=beam,
            length_penalty=length_penalty,
            backend=backend,
            int8=int8,
        )
    if backend != "torch":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; --backend is for translators")
    if int8 and run.recipe.objective != "classify":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; --int8 is for classifiers and translators")
    if source is not None or target is not None:
        raise UserError(f"{run.path} is a {run.recipe.objective} run, no translator; give it one FILE")
    if file is None:
        raise UserError("nothing to score the run on; give a FILE")
    return predict.evaluate(run, file, text_column=text_column, label_column=label_column, int8=int8)
