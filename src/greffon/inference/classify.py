"""Label texts: `greffon.classify`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.data.corpora import Labelled
from greffon.inference.loading import load
from greffon.objectives.classify import class_probabilities
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run


@dataclass(frozen=True)
class Classification(JsonResult):
    """A text, its label, and the probability of each label."""

    text: str
    label: str
    probabilities: dict[str, float]


def classify(run: str | Path | Run, texts: str | Sequence[str], *, int8: bool = False) -> list[Classification]:
    """Label texts with a fine-tuned run: `classify("runs/reviews", "Un beau livre.")[0].label`.

    With `int8` the body computes in 8-bit integers: faster, with slightly different probabilities.
    """
    run = classifier(run)
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        return []
    labels = run.recipe.labels
    examples = [Labelled(text, label="", line=0) for text in texts]
    return [
        Classification(text, labels[int(np.argmax(row))], dict(zip(labels, row.tolist(), strict=True)))
        for text, row in zip(texts, probabilities(run, examples, int8=int8), strict=True)
    ]


def probabilities(run: Run, examples: Sequence[Labelled], *, int8: bool = False) -> np.ndarray:
    """Return the probability of each class for each text: (N, C)."""
    texts = LabelledTexts(run.recipe, run.tokenizer)
    batches, order = texts.in_order(texts.encode(examples))
    found = class_probabilities(load(run, int8=int8), batches).numpy().astype(np.float64)
    out = np.empty_like(found)
    out[order] = found
    return out


def classifier(run: str | Path | Run) -> Run:
    """Open a fine-tuned run; raise a `UserError` for any other."""
    run = Run.open(run)
    if run.recipe.objective != "classify":
        remedy = f"fine-tune it first with `greffon finetune {run.path} --train F --valid F --out RUN`"
        if run.recipe.objective == "seq2seq":
            remedy = f"it translates: `greffon translate {run.path} TEXT`"
        raise UserError(f"{run.path} is a {run.recipe.objective} run, no classifier; {remedy}")
    return run
