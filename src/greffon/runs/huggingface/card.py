"""The model card of an export: what it is, from what data, by which recipe, how good, and for what."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from greffon.core.recipe import Recipe
from greffon.runs.huggingface.companions import CARD
from greffon.runs.params import of_recipe
from greffon.runs.run import Run

_PIPELINES = {
    "masked": "fill-mask",
    "causal": "text-generation",
    "classify": "text-classification",
    "contrastive": "feature-extraction",
    "seq2seq": "translation",
    "body": "feature-extraction",
}
_USES = {
    "masked": "Filling masks, vectors of texts, and as a body to fine-tune.",
    "causal": "Continuing texts like those it was trained on, and as a body to fine-tune.",
    "classify": "Labelling texts like those it was trained on, with one of the labels above.",
    "seq2seq": "Translating sentences like those it was trained on.",
    "contrastive": "Vectors of texts, and as a body to fine-tune.",
    "body": "Vectors of texts, and as a body to fine-tune.",
}
_TASK_USES = {
    "multilabel": "Giving texts like those it was trained on as many of the labels above as apply.",
    "regression": "Giving texts like those it was trained on a score.",
    "pairs": "Judging pairs of texts like those it was trained on.",
    "tokens": "Marking spans of texts like those it was trained on.",
}
_HEADS = {
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
    "classify": "AutoModelForSequenceClassification",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "contrastive": "AutoModel",
    "body": "AutoModel",
}


def model_card(run: Run, architecture: str, name: str, loading: Sequence[str] = ()) -> str:
    """Return the model card of a run; it contains measured scores only."""
    recipe = run.recipe
    lines = [
        "---",
        *_licence(run),
        "library_name: transformers",
        f"pipeline_tag: {'token-classification' if recipe.task == 'tokens' else _PIPELINES[recipe.objective]}",
        "tags:",
        "- greffon",
        "---",
        "",
        f"# {name}",
        "",
        f"A {recipe.objective} model of {of_recipe(recipe).total:,} parameters (`{architecture}`), "
        + (f"imported from `{recipe.imported}`" if recipe.imported else "trained with Greffon")
        + ".",
        *_section("Data", _data(run)),
        *_section("Recipe", _recipe(recipe)),
        *_section("Measured figures", _figures(run)),
        *_section("Intended use", _use(recipe)),
        *_section("Loading", iter(["```python", *(loading or _loading(recipe)), "```"])),
    ]
    original = run.path / CARD
    if original.is_file():
        body = original.read_text(encoding="utf-8", errors="replace").rstrip()
        title = "The card it was imported with" if recipe.imported else "The card of the checkpoint it starts from"
        lines += _section(title, iter(body.splitlines()))
    return "\n".join(lines) + "\n"


def _licence(run: Run) -> list[str]:
    """Return the line of an imported card's header that names its licence."""
    original = run.path / CARD
    text = original.read_text(encoding="utf-8", errors="replace") if original.is_file() else ""
    header = re.match(r"---\n(.*?)\n---", text, flags=re.S)
    return re.findall(r"^license: ?[\w.-]+$", header[1], flags=re.M)[:1] if header else []


def _section(title: str, body: Iterator[str]) -> list[str]:
    return ["", f"## {title}", "", *body]


def _data(run: Run) -> Iterator[str]:
    """List the files by name, without their directories."""
    data = run.recipe.data
    named = {
        "train": (*data.train, data.source, data.target),
        "validation": (*data.valid, data.valid_source, data.valid_target),
        "test": data.test,
    }
    for part, files in named.items():
        shown = [f"`{file if file.startswith('hf:') else Path(file).name}`" for file in files if file]
        if shown:
            yield f"- {part}: {', '.join(shown)}"
    if not any(named["train"]):
        yield "- not known here: see the checkpoint that it was imported from"
    if data.digest:
        yield f"- identity of texts and tokenizer: `{data.digest[:40]}`"
    for origin in _origins(run.recipe):
        yield f"- starts from: {origin}"
    if run.recipe.labels:
        yield f"- labels: {', '.join(f'`{label}`' for label in run.recipe.labels)}"


def _origins(recipe: Recipe) -> Iterator[str]:
    """Name the runs that the weights come from."""
    for path in (recipe.origin, recipe.encoder_origin, recipe.decoder_origin):
        if path:
            there = (Path(path) / "recipe.json").is_file()
            imported = Run.open(path).recipe.imported if there else ""
            yield f"`{Path(path).name}`" + (f", imported from `{imported}`" if imported else "")


def _recipe(recipe: Recipe) -> Iterator[str]:
    shape, training = recipe.shape, recipe.training
    yield (
        f"- body: {recipe.body}, {shape.layers} layers, hidden size {shape.hidden_size}, {shape.heads} heads, "
        f"feed-forward {shape.intermediate_size} ({shape.activation}), {shape.norm_place}-norm, "
        f"{shape.positions} positions"
    )
    yield f"- context: {shape.context} tokens; vocabulary: {recipe.vocab_size:,} tokens"
    if not recipe.imported:
        yield (
            f"- training: {training.steps:,} steps, {training.optimizer}, learning rate {training.learning_rate:g}, "
            f"dropout {shape.dropout:g}, seed {training.seed}"
        )


def _figures(run: Run) -> Iterator[str]:
    scores = {name: value for name, value in run.scores.items() if "/" not in name}  # others were fitted: no figures
    if not scores:
        yield "None were measured here."
        return
    yield "On held-out data, which chose the weights (test figures chose nothing):"
    yield ""
    yield "| figure | value |"
    yield "| --- | --- |"
    for name, value in scores.items():
        yield f"| {name.replace('_', ' ')} | {value:{',' if name == 'step' else '.4g'}} |"


def _use(recipe: Recipe) -> Iterator[str]:
    yield _USES[recipe.objective] if recipe.task == "classes" else _TASK_USES[recipe.task]
    if recipe.answer == "multilabel":
        yield "A label applies from its probability in `thresholds` of config.json on."
    if recipe.answer == "tokens":
        yield "Give it whole texts, not words that were split before: a word is read with the space before it."
    yield f"Only the first {recipe.shape.context} tokens of a text are read."
    yield "It repeats what its texts say and leave out; score it on texts of your own before you rely on it."


def _loading(recipe: Recipe) -> Iterator[str]:
    head = "AutoModelForTokenClassification" if recipe.task == "tokens" else _HEADS[recipe.objective]
    yield f"from transformers import AutoTokenizer, {head}"
    yield ""
    yield 'tokenizer = AutoTokenizer.from_pretrained("DIR")'
    yield f'model = {head}.from_pretrained("DIR")'
    if recipe.graft is not None:
        texts = '"a text", "another"' if recipe.task == "pairs" else '"a text"'
        yield f'logits = model(**tokenizer({texts}, return_tensors="pt")).logits'
