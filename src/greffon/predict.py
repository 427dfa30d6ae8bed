"""Text in, answers out: what a trained run is for."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from greffon.decode import Draw, Sampling, generate_tokens
from greffon.errors import UserError, did_you_mean
from greffon.jobs import LabelledTexts, language_scores
from greffon.lint import overlap
from greffon.nn.model import Model
from greffon.nn.packed import can_round
from greffon.objectives.classify import class_probabilities
from greffon.run import Run
from greffon.runtime import keep_memory
from greffon.statistics import confusion, macro_f1, wilson_interval
from greffon.text.corpora import Labelled, labelled
from greffon.text.splits import load_splits


@lru_cache(maxsize=4)
def _load(path: Path, changed: int, packed: bool, int8: bool) -> Model:
    model = Run.open(path).load_model()
    if packed:
        model.pack()
    if int8:
        model.round()
    return model


def load(run: Run, *, packed: bool = False, int8: bool = False) -> Model:
    """Load a run's model once, until its file changes.

    To write token by token, with its maps packed; to read fast and nearly the same, in 8-bit integers.
    """
    if int8 and not can_round():
        raise UserError("PyTorch cannot compute in 8-bit integers on this machine; leave out --int8")
    keep_memory()
    file = run.path / "model.safetensors"
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return _load(run.path.resolve(), changed, packed, int8) if changed else run.load_model()


@dataclass(frozen=True)
class Classification:
    """A text, its label, and the probability of each label."""

    text: str
    label: str
    probabilities: dict[str, float]


def classify(run: str | Path | Run, texts: str | Sequence[str], *, int8: bool = False) -> list[Classification]:
    """Label texts with a fine-tuned run: `classify("runs/reviews", "Un beau livre.")[0].label`.

    With `int8` the body computes in 8-bit integers: faster, with slightly other probabilities.
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
    """Open a run that classifies, or say why it does not."""
    run = Run.open(run)
    if run.recipe.objective != "classify":
        remedy = f"fine-tune it first with `greffon finetune {run.path} --train F --valid F --out RUN`"
        if run.recipe.objective == "seq2seq":
            remedy = f"it translates: `greffon translate {run.path} TEXT`"
        raise UserError(f"{run.path} is a {run.recipe.objective} run, no classifier; {remedy}")
    return run


def evaluate(
    run: str | Path | Run,
    file: str | Path,
    *,
    text_column: str = "text",
    label_column: str = "label",
    int8: bool = False,
) -> dict[str, Any]:
    """Score a run on a file: accuracy for a classifier, loss and bits per byte for a language model.

    A masked one is asked for tokens hidden at random, always the same ones.
    """
    run = Run.open(run)
    if run.recipe.objective == "classify":
        return _evaluate_classes(run, labelled(Path(file), text_column, label_column), file, int8)
    if run.recipe.objective == "body":
        raise UserError(f"{run.path} has no head that could be scored; fine-tune it with `greffon finetune {run.path}`")
    return language_scores(load(run), run.recipe, run.tokenizer, file, text_column)


def _warn_of_known(run: Run, examples: Sequence[Labelled], file: str | Path) -> None:
    """Tell of texts that the run has learnt from, as far as its files can still be read."""
    try:
        learnt = load_splits(run.recipe.data).train
    except UserError:
        return
    shared = overlap([example.text for example in learnt], [example.text for example in examples])
    if shared:
        warnings.warn(
            f"{len(shared):,} of the {len(examples):,} texts in {file} are among those that {run.path} was trained on: "
            "its accuracy there is flattered",
            stacklevel=4,
        )


def _evaluate_classes(run: Run, examples: Sequence[Labelled], file: str | Path, int8: bool) -> dict[str, Any]:
    labels = run.recipe.labels
    for example in examples:
        if example.label not in labels:
            raise UserError(
                f"{file}:{example.line}: the run does not know the label {example.label!r}"
                f"{did_you_mean(example.label, labels)}"
            )
    _warn_of_known(run, examples, file)
    gold = [example.label for example in examples]
    found = [labels[i] for i in probabilities(run, examples, int8=int8).argmax(axis=1)]
    right = sum(a == b for a, b in zip(gold, found, strict=True))
    return {
        "accuracy": right / len(gold),
        "interval": list(wilson_interval(right, len(gold))),
        "macro_f1": macro_f1(gold, found, labels),
        "n": len(gold),
        "labels": list(labels),
        "confusion": confusion(gold, found, labels),
    }


@dataclass(frozen=True)
class Generation:
    """A prompt and its continuation as one text."""

    prompt: str
    text: str
    tokens: int
    seed: int


def generate(
    run: str | Path | Run,
    prompt: str,
    *,
    tokens: int = 40,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 0.95,
    seed: int = 0,
) -> Generation:
    """Continue a prompt: `greffon.generate("runs/body", "Bonjour les").text`. Same seed, same text."""
    return generate_many(run, [prompt], tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)[0]


def generate_many(
    run: str | Path | Run,
    prompts: Sequence[str],
    *,
    tokens: int = 40,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 0.95,
    seed: int = 0,
) -> list[Generation]:
    """Continue several prompts at once; each gets what it would get alone."""
    run = Run.open(run)
    tokenizer = run.tokenizer
    steps = [draw.tokens for draw in _draws(run, prompts, tokens, Sampling(temperature, top_k, top_p), seed)]
    generations = []
    for row, prompt in enumerate(prompts):
        drawn = list(itertools.takewhile(lambda token: token != tokenizer.end, (step[row] for step in steps)))
        generations.append(Generation(prompt, prompt + tokenizer.decode(drawn), len(drawn), seed))
    return generations


def _draws(run: Run, prompts: Sequence[str], tokens: int, sampling: Sampling, seed: int) -> Iterator[Draw]:
    """Draw token after token behind each prompt: the one way that text is generated."""
    if run.recipe.objective != "causal":
        raise UserError(f"{run.path} is a {run.recipe.objective} run and cannot generate; give a causal one")
    if tokens < 1:
        raise UserError(f"tokens is {tokens}; choose 1 or more")
    if not 0 <= seed < 2**63:
        raise UserError(f"seed is {seed}; choose a number from 0 up to 2^63")
    model, tokenizer = load(run, packed=True), run.tokenizer
    start = [tokenizer.start]
    starts = [(start * tokenizer.starts + tokenizer.encode(prompt)) or start for prompt in prompts]
    specials = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    specials |= {*range(tokenizer.size, run.recipe.vocabulary)}  # ids without a token
    return generate_tokens(
        model,
        starts,
        tokens,
        sampling,
        seed=seed,
        end=tokenizer.end,
        padding=tokenizer.pad,
        banned=sorted(specials - {tokenizer.end}),
    )


@dataclass(frozen=True)
class Candidate:
    """A token that may stand behind a mask, or come next; its own space before it is part of it."""

    token: str
    probability: float


@dataclass(frozen=True)
class Written:
    """One token as it was written: what it adds to the text, and what else the model considered.

    The probabilities are the model's own, before temperature and cuts; `alternatives` holds the likeliest
    tokens, the one that was drawn among them if it is one of those.
    """

    token: str
    text: str
    probability: float
    alternatives: list[Candidate]
    end: bool
    """Whether it says that the text is over, and adds nothing."""


def stream(
    run: str | Path | Run,
    prompt: str,
    *,
    tokens: int = 40,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 0.95,
    seed: int = 0,
    alternatives: int = 5,
) -> Iterator[Written]:
    """Continue a prompt token by token; the texts add up to what `generate` writes behind the prompt.

    The end of the text is a token, too, and adds nothing: `for written in stream("runs/body", "Bonjour"): …`.
    """
    run = Run.open(run)
    tokenizer = run.tokenizer
    choices = len(tokenizer.ordinary) + 1
    if not 0 <= alternatives <= choices:
        raise UserError(f"alternatives is {alternatives}; choose a number from 0 to {choices:,}")
    draws = _draws(run, [prompt], tokens, Sampling(temperature, top_k, top_p), seed)
    return _written(run, draws, tokens, alternatives)


def _written(run: Run, draws: Iterator[Draw], tokens: int, alternatives: int) -> Iterator[Written]:
    tokenizer = run.tokenizer
    ids: list[int] = []
    said = ""
    for number, draw in enumerate(draws, start=1):
        (token,), chances = draw.tokens, draw.probabilities[0]
        last = token == tokenizer.end or number == tokens
        if token != tokenizer.end:
            ids.append(token)
        # A piece of a character waits for the rest of it, unless no more will come.
        whole = tokenizer.decode(ids)
        settled = whole if last else whole.rstrip("\N{REPLACEMENT CHARACTER}")
        fresh = settled[len(said) :]
        said = settled
        best = chances.topk(alternatives)
        yield Written(
            tokenizer.token(token),
            fresh,
            float(chances[token]),
            [
                Candidate(tokenizer.token(i), p)
                for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ],
            end=token == tokenizer.end,
        )


@dataclass(frozen=True)
class Mask:
    """One [MASK] of a text, and what may stand behind it, the likeliest first."""

    text: str
    candidates: list[Candidate]


def fill(run: str | Path | Run, text: str, *, top: int = 5) -> list[Mask]:
    """Guess each [MASK] of a text: `fill("runs/masked", "Ce livre est [MASK].")[0].candidates[0].token`."""
    run = Run.open(run)
    if run.recipe.objective != "masked":
        raise UserError(
            f"{run.path} is a {run.recipe.objective} run and was never asked to fill masks; give one that was "
            "pretrained with --objective masked"
        )
    if "[MASK]" not in text:
        raise UserError("the text has no [MASK] to fill; write [MASK] where a word is to be guessed")
    model, tokenizer = load(run), run.tokenizer
    choices = len(tokenizer.ordinary)
    if not 1 <= top <= choices:
        raise UserError(f"top is {top}; choose a number from 1 to {choices:,}")
    ids = [tokenizer.cls, *tokenizer.encode_masked(text), tokenizer.sep]
    context = run.recipe.shape.context
    if len(ids) > context:
        raise UserError(f"the text has {len(ids):,} tokens, and {run.path} reads {context:,} at a time; shorten it")
    row = torch.tensor([ids])
    ordinary = torch.from_numpy(tokenizer.ordinary)
    with torch.no_grad():
        logits = model(row)[row == tokenizer.mask][:, ordinary]  # (masks, ordinary tokens)
    likeliest = logits.softmax(dim=-1).topk(top)
    return [
        Mask(
            text, [Candidate(tokenizer.token(int(ordinary[i])), float(p)) for p, i in zip(shares, places, strict=True)]
        )
        for shares, places in zip(likeliest.values, likeliest.indices, strict=True)
    ]
