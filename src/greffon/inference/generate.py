"""Continue a prompt: `greffon.generate`, `greffon.stream`."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greffon.core.answering import Sampling
from greffon.core.conflicts import Idle, Values, beside, refuses
from greffon.core.errors import UserError, out_of_range
from greffon.core.json_results import JsonResult
from greffon.core.settings import takes
from greffon.inference.loading import load
from greffon.inference.sampling import Draw, generate_tokens
from greffon.inference.vocabulary import Vocabulary, vocabulary_of
from greffon.runs.run import Run


@dataclass(frozen=True)
class Generation(JsonResult):
    """A prompt and its continuation as one text."""

    prompt: str
    """The prompt."""
    text: str
    """The prompt and its continuation as one text."""
    tokens: int
    """Number of generated tokens."""
    seed: int
    """Random seed of the sampling."""


def _greedy(values: Values) -> str | None:
    why = "the most probable token is always taken"
    return beside("temperature", 0, why)(values) or beside("top_k", 1, why)(values)


SAMPLING_RULES = (
    Idle(("top_k",), beside("temperature", 0, "the most probable token is always taken")),
    Idle(("temperature",), beside("top_k", 1, "the most probable token is always taken")),
    Idle(("top_p",), lambda values: _greedy(values) if values["top_p"] != 1 else None),
)
"""Rules of everything that generates. A seed always has an effect: the same text again is what it promises."""


@refuses(*SAMPLING_RULES)
@takes(Sampling)
def generate(
    run: str | Path | Run,
    prompt: str,
    **settings: Any,
) -> Generation:
    """Continue a prompt: `greffon.generate("runs/body", "Bonjour les").text`. The same seed gives the same text.

    `settings` are the fields of `Sampling` in `greffon.core`, under the names of the command's options.
    """
    return _continued(run, [prompt], Sampling(**settings))[0]


@refuses(*SAMPLING_RULES)
@takes(Sampling)
def generate_many(
    run: str | Path | Run,
    prompts: Sequence[str],
    **settings: Any,
) -> list[Generation]:
    """Continue several prompts in one batch; each gets the same continuation as alone."""
    return _continued(run, prompts, Sampling(**settings))


def _continued(run: str | Path | Run, prompts: Sequence[str], sampling: Sampling) -> list[Generation]:
    run = Run.open(run)
    tokenizer, ends = run.tokenizer, _vocabulary(run).ends
    steps = [draw.tokens for draw in _draws(run, prompts, sampling)]
    generations = []
    for row, prompt in enumerate(prompts):
        drawn = list(itertools.takewhile(lambda token: token not in ends, (step[row] for step in steps)))
        generations.append(Generation(prompt, prompt + tokenizer.decode(drawn), len(drawn), sampling.seed))
    return generations


def _draws(run: Run, prompts: Sequence[str], sampling: Sampling) -> Iterator[Draw]:
    """Draw the tokens of each continuation step by step: what all functions that generate call."""
    if run.recipe.objective != "causal":
        raise UserError(f"{run.path} is a {run.recipe.objective} run and cannot generate; give a causal one")
    model, tokenizer = load(run, prepacked=True), run.tokenizer
    start = [tokenizer.start]
    starts = [(start * tokenizer.starts + tokenizer.encode(prompt)) or start for prompt in prompts]
    most, seed = sampling.max_new_tokens, sampling.seed
    return generate_tokens(model, starts, most, sampling, seed=seed, vocabulary=_vocabulary(run))


def _vocabulary(run: Run) -> Vocabulary:
    return vocabulary_of(run.tokenizer, run.recipe.vocab_size, run.recipe.generation)


@dataclass(frozen=True)
class Candidate(JsonResult):
    """A possible token and its probability; a space before the token is part of it."""

    token: str
    """The token as text."""
    probability: float
    """Its probability."""


@dataclass(frozen=True)
class Written(JsonResult):
    """One generated token, and the most probable tokens at its place.

    Probabilities are those of the model, before temperature, top-k and top-p. `alternatives` contains the
    generated token only if it is one of the most probable.
    """

    token: str
    """The token as text, as far as it can be shown alone."""
    text: str
    """What the token adds to the text; empty while a character is incomplete."""
    probability: float
    """Its probability."""
    alternatives: list[Candidate]
    end: bool
    """Whether it is the end-of-text token, which adds nothing to the text."""


@refuses(*SAMPLING_RULES)
@takes(Sampling)
def stream(
    run: str | Path | Run,
    prompt: str,
    *,
    alternatives: int = 5,
    **settings: Any,
) -> Iterator[Written]:
    """Continue a prompt token by token: `for written in stream("runs/body", "Bonjour"): …`.

    The texts of all tokens together are the continuation that `generate` returns. `alternatives` is the
    number of most probable tokens to return with each, and `settings` are those of `generate`.
    """
    run = Run.open(run)
    tokenizer = run.tokenizer
    choices = len(tokenizer.ordinary) + 1
    if not 0 <= alternatives <= choices:
        raise out_of_range("alternatives", alternatives, f"choose a number from 0 to {choices:,}")
    sampling = Sampling(**settings)
    return _written(run, _draws(run, [prompt], sampling), sampling.max_new_tokens, alternatives)


def _written(run: Run, draws: Iterator[Draw], max_new_tokens: int, alternatives: int) -> Iterator[Written]:
    tokenizer, ends = run.tokenizer, _vocabulary(run).ends
    ids: list[int] = []
    said = ""
    for number, draw in enumerate(draws, start=1):
        (token,), probabilities = draw.tokens, draw.probabilities[0]
        last = token in ends or number == max_new_tokens
        if token not in ends:
            ids.append(token)
        # A piece of a character waits for the rest of it, unless no more will come.
        whole = tokenizer.decode(ids)
        settled = whole if last else whole.rstrip("\N{REPLACEMENT CHARACTER}")
        fresh = settled[len(said) :]
        said = settled
        best = probabilities.topk(alternatives)
        yield Written(
            tokenizer.token(token),
            fresh,
            float(probabilities[token]),
            [
                Candidate(tokenizer.token(i), p)
                for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ],
            end=token in ends,
        )
