"""Heads of every task on a body of every family: from text on, `transformers` and the import say what the run says."""

from pathlib import Path
from typing import Any

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from test_fit import recipe_of, run_of

import greffon
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.core.rng import generator
from greffon.inference.classify import examples_of, outputs
from greffon.runs.folding import THRESHOLD
from greffon.runs.run import Run

WHO, WHAT = ["le chat", "la mère", "Un voisin", "Paul", "the dog"], ["une pomme", "le livre", "l'été", "12 œufs"]
OWN = {"compact-causal": "causal", "compact-masked": "masked", "compact-contrastive": "contrastive",
       "bert-mini": "masked", "gpt2-mini": "causal"}  # fmt: skip
IMPORTED = ["bert", "roberta", "distilbert", "gpt2", "llama", "modernbert", "eurobert", "neox", "qwen"]


def sentences(name: str, count: int) -> list[tuple[str, str]]:
    random = generator(0, name)
    return [(WHO[random.integers(len(WHO))], WHAT[random.integers(len(WHAT))]) for _ in range(count)]


def rows_of(task: str, name: str, count: int) -> list[str]:
    """The lines of a labelled file."""
    pairs = list(enumerate(sentences(name, count)))
    if task == "tokens":
        return [f"{who.split()[-1]} B-WHO\nmange O\n{what.split()[0]} O\n" for _, (who, what) in pairs]
    if task == "classes":
        return ["text,label", *(f"{who} mange {what},{'good' if i % 3 else 'bad'}" for i, (who, what) in pairs)]
    if task == "multilabel":
        labels = ["a", "a|b", "", "b|c", "a|b|c"]
        return ["text,labels", *(f"{who} mange {what},{labels[i % 5]}" for i, (who, what) in pairs)]
    if task == "regression":
        return ["text,score", *(f"{who} mange {what},{100 + i % 7}" for i, (who, what) in pairs)]
    kind, answers = ("label", ["same", "other", "unlike"]) if task == "pairs" else ("score", ["40", "41.5", "47"])
    return [f"text_a,text_b,{kind}", *(f"{who} mange,{what},{answers[i % 3]}" for i, (who, what) in pairs)]


def settings_of(task: str, family: str) -> dict[str, Any]:
    """What must be said beyond the defaults for a head that can be exported."""
    if task.startswith("pairs"):
        return {"pair_reading": "cross"}
    # By default a head of classes starts as the probe.
    if task == "classes" and family in ("Llama", "Qwen2", "GPT-NeoX", "GPT-2"):
        return {"head_init": "random", "pooling": "last", "class_bias": False}
    if task == "classes" and family == "EuroBERT":
        return {"head_init": "random", "pooler_norm": False, "pooler_activation": "gelu", "pooler_bias": True}
    return {"head_init": "random"} if task == "classes" and family in ("BERT", "RoBERTa", "DistilBERT") else {}


TITLES = {"compact-causal": "Llama", "compact-masked": "ModernBERT", "compact-contrastive": "ModernBERT",
          "bert-mini": "BERT", "gpt2-mini": "GPT-2", "bert": "BERT", "roberta": "RoBERTa", "distilbert": "DistilBERT",
          "gpt2": "GPT-2", "llama": "Llama", "modernbert": "ModernBERT",
          "eurobert": "EuroBERT", "neox": "GPT-NeoX", "qwen": "Qwen2"}  # fmt: skip


@pytest.fixture(scope="module", params=[*OWN, *IMPORTED])
def body(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    name, path = request.param, tmp_path_factory.mktemp(request.param)
    if name in OWN:
        preset, objective = name.removesuffix(f"-{OWN[name]}"), OWN[name]
        kind = "decoder" if objective == "causal" else "encoder"
        return run_of(recipe_of(preset, objective, kind, PRESETS[preset]().shape_for(objective)), path / name)
    getattr(checkpoints, name)(path / "theirs")
    return greffon.import_checkpoint(path / "theirs", out=path / name, quiet=True)


@torch.no_grad()
def theirs(there: Path, examples: list[Any], *, tokens: bool) -> list[np.ndarray]:
    """The logits of `transformers` from texts, one by one; for spans those of the first token of each word."""
    kind = transformers.AutoModelForTokenClassification if tokens else transformers.AutoModelForSequenceClassification
    model, tokenizer = kind.from_pretrained(there).eval(), transformers.AutoTokenizer.from_pretrained(there)
    found = []
    for example in examples:
        texts = (example.text,) if example.second is None else (example.text, example.second)
        more = tokenizer(*texts, return_offsets_mapping=True, return_special_tokens_mask=True)
        given = tokenizer(*texts, return_tensors="pt")
        logits = model(**given).logits[0].numpy()
        words = [0, *(i + 1 for i, sign in enumerate(example.text) if sign == " ")]
        starts = [
            -1 if special else start
            for (start, _), special in zip(more["offset_mapping"], more["special_tokens_mask"], strict=True)
        ]
        found.append(logits[[starts.index(word) for word in words]] if tokens else logits)
    return found


def said(logits: np.ndarray, problem: str | None) -> np.ndarray:
    if problem == "regression":
        return logits
    as_tensor = torch.from_numpy(logits).double()
    return (as_tensor.sigmoid() if problem == "multi_label_classification" else as_tensor.softmax(-1)).numpy()


@pytest.mark.filterwarnings("ignore:.*are among those")
@pytest.mark.parametrize("task", ["classes", "multilabel", "regression", "pairs", "pairs-score", "tokens"])
def test_a_head_answers_there_and_back_as_here(task: str, body: Run, tmp_path: Path) -> None:
    title = TITLES[body.path.name]
    for name, count in (("train", 24), ("valid", 12), ("test", 9)):
        file = tmp_path / (f"{name}.conll" if task == "tokens" else f"{name}.csv")
        file.write_text("\n".join(rows_of(task, name, count)) + "\n", encoding="utf-8")
    named = {name: next(tmp_path.glob(f"{name}.*")) for name in ("train", "valid", "test")}
    settings = {"learning_rate": 3e-3, "batch_size": 8, "epochs": 1, "quiet": True, **settings_of(task, title)}
    run = greffon.finetune(body, train=named["train"], valid=named["valid"], out=tmp_path / "run", **settings)
    if title in ("Llama", "Qwen2") and run.recipe.answer == "regression":
        with pytest.raises(
            UserError, match=rf"scores around a mean of .* \({title} has no bias to hold it; ONNX does\)"
        ):
            greffon.export(run, to="huggingface", out=tmp_path / "there")
        return
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    config = transformers.AutoConfig.from_pretrained(there)
    assert config.architectures[0].endswith("TokenClassification" if task == "tokens" else "SequenceClassification")

    texts = [(f"{a} mange", b) if task.startswith("pairs") else f"{a} mange {b}" for a, b in sentences("new", 5)]
    if task == "tokens":  # signs and elisions are cut by each tokenizer in its own way
        texts = ["le chat mange une pomme", "Paul regarde le livre"]
    examples = examples_of(run, texts)
    for ours, logits in zip(outputs(run, examples), theirs(there, examples, tokens=task == "tokens"), strict=True):
        np.testing.assert_allclose(
            said(logits, config.problem_type), ours, atol=2e-4 if np.abs(ours).max() > 1 else 1e-5
        )

    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
    assert (back.recipe.task, back.recipe.answer, back.recipe.labels) == (
        run.recipe.task, run.recipe.answer, run.recipe.labels,
    )  # fmt: skip
    again, first = (greffon.evaluate(one, named["test"]).to_json() for one in (back, run))
    assert again.keys() == first.keys()
    assert again[again["metric"]] == pytest.approx(first[first["metric"]], abs=1e-4)
    if task == "multilabel":
        kept, chosen = ({k: v for k, v in one.scores.items() if k.startswith(THRESHOLD)} for one in (back, run))
        assert kept == chosen
        assert set(chosen.values()) != {0.5}
    card = (there / "README.md").read_text(encoding="utf-8")
    assert ('tokenizer("a text", "another"' in card) == task.startswith("pairs")


def test_a_pipeline_marks_the_spans_that_we_mark(tmp_path: Path) -> None:
    """Offsets begin after the space before a word."""
    body = run_of(recipe_of("compact", "causal", "decoder", PRESETS["compact"]().shape), tmp_path / "body")
    file = tmp_path / "train.conll"
    file.write_text("mange O\npomme B-PET\nmange O\n\nPaul O\nregarde O\nle O\nlivre B-PET\n\n" * 8, encoding="utf-8")
    run = greffon.finetune(
        body, train=file, valid=file, out=tmp_path / "run", epochs=20, batch_size=4, learning_rate=1e-2, quiet=True
    )
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    mark = transformers.pipeline("token-classification", model=str(there), aggregation_strategy="first", device="cpu")
    for text, at, word in (("mange pomme mange", 6, "pomme"), ("Paul regarde le livre", 16, "livre")):
        (ours,) = greffon.classify(run, text)
        assert [(span.start, span.text, span.label) for span in ours.spans] == [(at, word, "PET")]
        assert [(one["start"], one["end"], one["entity_group"]) for one in mark(text)] == [
            (span.start, span.end, span.label) for span in ours.spans
        ]


@pytest.mark.parametrize("thresholds", [["a"], {"nothing": 0.5}, {"good": 1.5}, {"good": "high"}])
def test_thresholds_must_make_sense(thresholds: Any, tmp_path: Path) -> None:
    several = {"problem_type": "multi_label_classification", **checkpoints.LABELS}
    checkpoints.bert(tmp_path / "theirs", "ForSequenceClassification", thresholds=thresholds, **several)
    with pytest.raises(UserError, match="thresholds must give labels of id2label a number from 0 to 1"):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
