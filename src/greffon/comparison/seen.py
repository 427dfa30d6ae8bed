"""What the bodies have seen of the test texts: in pretraining, and of each text when it is classified."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from greffon.core.choices import LongTexts
from greffon.core.errors import UserError
from greffon.core.recipe import Recipe
from greffon.data.corpora import documents, find_files, normal
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run

MOST_BYTES = 4 * 2**30
"""Text of pretraining that is larger is not read again."""


def in_pretraining(run: Run, texts: Sequence[str]) -> int | None:
    """Count the texts that are documents of the text that a body was pretrained on; None if it is not known."""
    wanted = [normal(text) for text in texts]
    known = set(wanted) - {""}
    found: set[str] = set()
    try:
        for source in lineage(run):
            data = source.recipe.data
            if source.recipe.imported or not data.train:
                return None
            if sum(file.stat().st_size for file in find_files(data.train)) > MOST_BYTES:
                return None
            for document in documents(data.train, data.text_column):
                text = normal(document)
                if text in known:
                    found.add(text)
    except UserError:  # the text, or a run that it started from, is not there any more
        return None
    return sum(text in found for text in wanted)


def lineage(run: Run) -> list[Run]:
    """List a run and those that its weights came from."""
    runs = [run]
    while runs[-1].recipe.origin:
        runs.append(Run.open(Path(runs[-1].recipe.origin)))
    return runs


def share_read(run: Run, recipe: Recipe, texts: Sequence[str]) -> float:
    """Return the share of the tokens of texts that a classifier with the body of a run reads."""
    return _share(LabelledTexts(recipe, run.tokenizer), run, texts)


def share_embedded(run: Run, texts: Sequence[str], long_texts: LongTexts) -> float:
    """Return the share of the tokens of texts that are in the vectors of a body before any fine-tuning."""
    recipe = run.recipe
    if recipe.embedding is not None:
        recipe = replace(recipe, shape=replace(recipe.shape, context=recipe.embedding.max_length))
    return _share(LabelledTexts(recipe, run.tokenizer, long_texts), run, texts)


def _share(prepared: LabelledTexts, run: Run, texts: Sequence[str]) -> float:
    if prepared.windows:
        return 1.0
    lengths = [len(ids) for ids in run.tokenizer.encode_many(list(texts))]
    return sum(min(length, prepared.room) for length in lengths) / max(1, sum(lengths))
