"""Influence of each word on a classification, by leaving it out: `greffon.occlude`."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from greffon.core.errors import UserError, did_you_mean
from greffon.core.json_results import JsonResult
from greffon.data.segmentation import Words
from greffon.inference.classify import classifier
from greffon.inference.loading import load
from greffon.objectives.classify import class_probabilities
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run


@dataclass(frozen=True)
class WordInfluence(JsonResult):
    """A word with the space before it, and the fall of the label's probability when it is left out."""

    word: str
    """The word, with the space before it."""
    influence: float
    """Probability of the label minus that without the word."""


@dataclass(frozen=True)
class Occlusion(JsonResult):
    """A text, its label and probabilities, and the influence of each word on that label.

    The words together are the text, for a run that truncates long texts up to its context; `unread` is the rest.
    """

    text: str
    """The text."""
    label: str
    """The label that the influences speak for or against."""
    probabilities: dict[str, float]
    """Probability of each label of the whole text."""
    words: list[WordInfluence]
    unread: str
    """End of the text that the run does not read."""


def occlude(run: str | Path | Run, text: str, *, label: str | None = None) -> Occlusion:
    """Return the influence of each word on a label: `occlude("runs/reviews", "Un beau livre.").words`.

    The influence of a word is the probability of the label minus the probability when the word is left out:
    a positive influence speaks for the label, a negative one against it. The default label is the most
    probable one.
    """
    run = classifier(run)
    labels = run.recipe.labels
    if label is not None and label not in labels:
        raise UserError(f"{run.path} does not know the label {label!r}{did_you_mean(label, labels)}")
    prepared, tokenizer = LabelledTexts(run.recipe, run.tokenizer), run.tokenizer
    ids = np.array(tokenizer.encode(text), dtype=np.int64)
    parts = prepared.parts(ids)
    read = np.concatenate(parts)
    unread = ids[len(read) :]
    begins = np.flatnonzero(Words(tokenizer).begins(read)) if len(read) else np.empty(0, dtype=np.int64)
    words = np.split(read, begins[1:]) if len(read) else []
    whole = prepared.encoded(ids)
    ends = np.cumsum([len(part) for part in parts])
    texts = [whole]
    for at, word in zip(begins, words, strict=True):
        # The windows stay where they are: only those that the word stands in are computed again.
        left = [
            row
            if end <= at or end - len(part) >= at + len(word)
            else prepared.lay_out(_without(part, at + len(part) - end, len(word)))
            for row, part, end in zip(whole.rows, parts, ends, strict=True)
        ]
        texts.append(replace(whole, rows=tuple(left)))
    probabilities = class_probabilities(load(run), prepared.for_scoring(texts)).numpy().astype(np.float64)
    asked = int(probabilities[0].argmax()) if label is None else labels.index(label)
    influences = probabilities[0, asked] - probabilities[1:, asked]
    return Occlusion(
        text,
        labels[asked],
        dict(zip(labels, probabilities[0].tolist(), strict=True)),
        [
            WordInfluence(tokenizer.text(word), float(influence))
            for word, influence in zip(words, influences, strict=True)
        ],
        tokenizer.text(unread),
    )


def _without(part: np.ndarray, first: int, count: int) -> np.ndarray:
    """Leave out `count` tokens from `first` on, which may be before the part."""
    return np.delete(part, np.arange(max(0, first), min(len(part), first + count)))
