"""`config.json` of a family, read into a shape and a class head, and written from a recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from greffon.core.choices import Task
from greffon.core.config import from_dict
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Masking, Recipe
from greffon.core.shape import Shape
from greffon.data.tokenizer import Tokenizer
from greffon.runs.folding import THRESHOLD, threshold_of
from greffon.runs.huggingface.checkpoint import architecture_of
from greffon.runs.huggingface.families import DISTILBERT, GPT2, MODEL_TYPES
from greffon.runs.huggingface.family import Family, token_graft
from greffon.runs.huggingface.rotary_families import EUROBERT, EUROBERT_POOLINGS, MODERNBERT, POOLER_ACTIVATIONS

_WITH_CODE = ("eurobert",)
"""Model types whose published checkpoints carry the code that `transformers` has taken over, and which is left out."""


def family_of(config: Mapping[str, Any], where: str) -> Family:
    """Return the family of a checkpoint; raise a `UserError` for settings that are not supported."""
    named = config.get("model_type")
    if not isinstance(named, str) or named not in MODEL_TYPES:
        raise UserError(f"{where}: model_type {named!r} is not supported; known are {', '.join(MODEL_TYPES)}")
    family = MODEL_TYPES[named]
    if "auto_map" in config and family.kind not in _WITH_CODE:
        raise UserError(f"{where}: auto_map asks for code of the checkpoint's own, which is never run")
    for name, known in family.settings.items():
        if name in config and config[name] not in known:
            raise UserError(f"{where}: {name} is {config[name]!r}, which is not supported (only {known[0]!r} is)")
    return family


def use_of(family: Family, config: Mapping[str, Any], where: str) -> str:
    """Return the objective of the head of a checkpoint."""
    named = architecture_of(config)
    if named is None or named not in family.architectures:
        raise UserError(
            f"{where}: the architecture {_told(config)} is not supported; known are {', '.join(family.architectures)}"
        )
    use = family.architectures[named]
    if use == "classify" and config.get("problem_type") not in (None, *PROBLEMS):
        raise UserError(f"{where}: problem_type {config['problem_type']!r} is unknown; known are {', '.join(PROBLEMS)}")
    if use in ("classify", "tokens") and not isinstance(config.get("id2label") or {}, Mapping):
        raise UserError(f"{where}: id2label must be a table of names by number; restore the file from a copy")
    return use


def _told(config: Mapping[str, Any]) -> str:
    return repr(architecture_of(config) or config.get("architectures"))[:100]


PROBLEMS: dict[str, Task] = {
    "single_label_classification": "classes",
    "multi_label_classification": "multilabel",
    "regression": "regression",
}
"""The task of each `problem_type`."""


TASK, THRESHOLDS = "greffon_task", "thresholds"
"""Settings of our own: that a head reads pairs, which `problem_type` does not tell, and the thresholds of labels."""


def task_of(config: Mapping[str, Any], use: str, *, crossed: bool) -> Task:
    """Return the task of a checkpoint's head; `crossed` says that it is a cross-encoder, which reads pairs."""
    if use != "classify":
        return "tokens" if use == "tokens" else "classes"
    answer = _answer_of(config)
    return "pairs" if config.get(TASK) == "pairs" or (crossed and answer != "multilabel") else answer


def _answer_of(config: Mapping[str, Any]) -> Task:
    """Return what a head over whole texts says; without `problem_type`, a single output is a score."""
    one = len(config.get("id2label") or range(2)) == 1
    return PROBLEMS[config.get("problem_type") or ("regression" if one else "single_label_classification")]


def thresholds_of(config: Mapping[str, Any], labels: Sequence[str], where: str) -> dict[str, float]:
    """Read the thresholds of labels, as they stand among the held-out scores; none where config.json has none."""
    found = config.get(THRESHOLDS) or {}
    known = isinstance(found, Mapping) and {*found} <= {*labels}
    if not known or not all(isinstance(value, int | float) and 0 <= value <= 1 for value in found.values()):
        raise UserError(f"{where}: {THRESHOLDS} must give labels of id2label a number from 0 to 1 each")
    return {THRESHOLD + label: float(value) for label, value in found.items()}


def shape_of(family: Family, config: Mapping[str, Any], where: str) -> Shape:
    """Read the shape of a body."""
    known = {**family.defaults, **config}
    read: dict[str, Any] = {}
    for ours, theirs in family.names.items():
        if theirs not in known:
            raise UserError(f"{where}: the setting {theirs!r} is missing; restore the file from a copy")
        read[ours] = known[theirs]
    if not isinstance(read["activation"], str) or read["activation"] not in family.activations:
        raise UserError(
            f"{where}: {family.names['activation']} {read['activation']!r} is not supported; "
            f"known are {', '.join(family.activations)}"
        )
    read["activation"] = family.activations[read["activation"]]
    head = {"head_transform": family.transform, "head_bias": family.head_bias, "untied_head_bias": family.head_bias}
    tied = known.get("tie_word_embeddings", True)
    try:
        read |= family.read(known, where)
        usual = PRESETS[family.preset]().shape
        shape = replace(usual, **{**family.fixed, **head, "tie_embeddings": tied, **read})
        return from_dict(Shape, asdict(shape), where)  # a run is written only if it can be read again
    except (TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError) as problem:
        raise UserError(f"{where}: a setting is of the wrong kind ({problem}); restore the file from a copy") from None
    except UserError as problem:
        raise UserError(f"{where}: {str(problem).removeprefix(f'{where}: ')}") from None


def labels_of(config: Mapping[str, Any], use: str, where: str) -> tuple[str, ...]:
    """Read the names of the head's outputs, in order; a score has none."""
    if use == "classify" and _answer_of(config) == "regression":
        return ()
    table = config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(2)}  # what they leave out
    places = [str(i) for i in range(len(table))]
    labels = tuple(str(table[i]) for i in places) if {*table} == {*places} else ()
    least = 1 if use == "classify" and _answer_of(config) == "multilabel" else 2
    if len(labels) < least or len({*labels}) < len(labels):
        raise UserError(f"{where}: id2label must name two or more classes, each once, from 0 on")
    return labels


def head_settings(recipe: Recipe, scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that say what a grafted head gives."""
    labels = recipe.labels or tuple(f"LABEL_{i}" for i in range(recipe.outputs))
    config: dict[str, Any] = {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    if recipe.answer != "tokens":
        config["problem_type"] = next(problem for problem, task in PROBLEMS.items() if task == recipe.answer)
    if recipe.answer == "multilabel":
        config[THRESHOLDS] = {label: threshold_of(label, scores) for label in labels}
    if recipe.task == "pairs":
        config[TASK] = recipe.task
    return config


def graft_of(family: Family, config: Mapping[str, Any], where: str, task: Task) -> Graft:
    """Describe the head of a checkpoint for a task."""
    tokens = task == "tokens"
    usual = {name: values[0] for name, values in (token_graft(family) if tokens else family.graft).items()}
    dropout = config.get("seq_classif_dropout" if family is DISTILBERT else "classifier_dropout")
    if family is MODERNBERT:
        named = config.get("classifier_activation", "gelu")
        if not isinstance(named, str) or named not in POOLER_ACTIVATIONS:
            raise UserError(f"{where}: classifier_activation {named!r} is not supported")
        usual["pooling"] = config.get("classifier_pooling", "cls") if not tokens else "mean"
        usual["pooler_activation"] = POOLER_ACTIVATIONS[named]
        usual["pooler_bias"] = config.get("classifier_bias", False)
        if usual["pooling"] not in family.graft["pooling"]:
            raise UserError(f"{where}: classifier_pooling {usual['pooling']!r} is not supported")
    elif family is EUROBERT and not tokens:
        named = config.get("classifier_pooling", "late")
        if not isinstance(named, str) or named not in EUROBERT_POOLINGS:
            known = ", ".join(EUROBERT_POOLINGS)
            raise UserError(f"{where}: classifier_pooling {named!r} is not supported; known are {known}")
        usual["pooling"] = EUROBERT_POOLINGS[named]
    if task == "pairs":
        usual["pair_reading"] = "cross"
    return from_dict(Graft, {**usual, "head_dropout": dropout or 0.0}, where)


def masking_of(use: str) -> Masking | None:
    """Return the masking settings of an imported masked model."""
    return {"masked": Masking(), "pairs": Masking(next_sentence=True)}.get(use)


def config_of(
    family: Family, recipe: Recipe, use: str, tokenizer: Tokenizer, scores: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the config.json of a model that fits a family; `scores` are its held-out scores."""
    shape = recipe.shape
    config: dict[str, Any] = {
        "architectures": [family.architecture(use)],
        "model_type": family.kind,
        "vocab_size": recipe.vocab_size,
        "pad_token_id": tokenizer.pad,
        "tie_word_embeddings": shape.tie_embeddings,
    }
    config |= {theirs: getattr(shape, ours) for ours, theirs in family.names.items()}
    config[family.names["activation"]] = next(
        theirs for theirs, ours in family.activations.items() if ours == shape.activation
    )
    config[family.names["context"]] = shape.context + shape.position_offset
    if recipe.objective == "classify":
        config |= head_settings(recipe, scores)
        dropout = recipe.graft.head_dropout if recipe.graft is not None else 0.0
        if family is not GPT2:
            config["seq_classif_dropout" if family is DISTILBERT else "classifier_dropout"] = dropout
    return config | family.write(recipe, tokenizer)
