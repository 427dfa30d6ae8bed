"""From a request to its result, by the public functions of the package. Runs in a worker thread."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.inference.attention import HeadHabits, Kind, attention
from greffon.inference.classify import classifier
from greffon.inference.classify import classify as classify_texts
from greffon.inference.embed import embed as embed_texts
from greffon.inference.fill_mask import Mask
from greffon.inference.fill_mask import fill as fill_masks
from greffon.inference.generate import Generation, Written
from greffon.inference.generate import generate as generate_text
from greffon.inference.generate import stream as stream_text
from greffon.inference.occlusion import Occlusion
from greffon.inference.occlusion import occlude as occlude_words
from greffon.inference.tasks.classes import Classification
from greffon.inference.tasks.tokens import MarkedSpan
from greffon.inference.translate import Translation, translator
from greffon.inference.translate import translate as translate_texts
from greffon.runs.run import Run
from greffon.web import schemas

MOST_TOKENS = 200
"""Most tokens of a text whose attention is sent: the weights grow with the square of the length."""


def generate(run: Run, asked: schemas.Generate) -> Generation:
    """Continue a prompt."""
    return generate_text(run, asked.prompt, **_drawing(asked))


def stream(run: Run, asked: schemas.Stream) -> Iterator[Written]:
    """Continue a prompt token by token."""
    return stream_text(run, asked.prompt, alternatives=asked.alternatives, **_drawing(asked))


def _drawing(asked: schemas.Generate) -> dict[str, Any]:
    """Return the settings that differ from their defaults: a form sends all of them."""
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
    return {
        f.name: getattr(asked, f.name) for f in fields(asked) if f.name in names and getattr(asked, f.name) != f.default
    }


def fill(run: Run, asked: schemas.Fill) -> list[Mask]:
    """Predict the tokens at each [MASK]."""
    return fill_masks(run, asked.text, top_k=asked.top_k)


def classify(run: Run, asked: schemas.Classify) -> list[Classification]:
    """Label texts."""
    found = classify_texts(classifier(run), asked.texts)
    return [one for one in found if isinstance(one, Classification)]


@dataclass(frozen=True)
class Answered(JsonResult):
    """What a run says of a text or a pair; what its task does not give is null."""

    task: str
    label: str | None
    labels: list[str] | None
    probabilities: dict[str, float] | None
    score: float | None
    range: tuple[float, float] | None
    """Two standard deviations of the training scores around their mean."""
    spans: list[MarkedSpan] | None


def answer(run: Run, asked: schemas.Answer) -> Answered:
    """Say what the run's task gives."""
    (found,) = classify_texts(run, [asked.text] if asked.second is None else [(asked.text, asked.second)])
    given = {name: getattr(found, name, None) for name in ("label", "labels", "probabilities", "score", "spans")}
    scale = run.recipe.score_scale
    around = (scale[0] - 2 * scale[1], scale[0] + 2 * scale[1]) if scale else None
    return Answered(task=run.recipe.task, range=around, **given)


def occlude(run: Run, asked: schemas.Occlude) -> Occlusion:
    """Label a text, and return the influence of each word."""
    return occlude_words(run, asked.text, label=asked.label)


def translate(run: Run, asked: schemas.Translate) -> list[Translation]:
    """Translate sentences; one longer than the context is refused, because a client does not see the warning."""
    room = translator(run).recipe.shape.context - 1 - (run.tokenizer.languages is not None)
    longest = max(map(len, run.tokenizer.encode_many(asked.texts)), default=0)
    if longest > room:
        raise UserError(f"a sentence has {longest:,} tokens, and {run.path} reads 1 to {room:,}; shorten it")
    return translate_texts(
        run,
        asked.texts,
        beam_size=asked.beam_size,
        length_penalty=asked.length_penalty,
        source_lang=asked.source_lang or "",
        target_lang=asked.target_lang or "",
    )


@dataclass(frozen=True)
class Attention(JsonResult):
    """Attention weights of one layer, `weights[head][query][key]`; the weights of each query add up to 1."""

    kind: Kind
    queries: list[str]
    keys: list[str]
    layers: int
    heads: int
    layer: int
    weights: list[list[list[float]]]
    habits: list[HeadHabits]


def attend(run: Run, asked: schemas.Attend) -> Attention:
    """Return the attention weights of one layer, by default the last."""
    looked_at = (
        (("text", asked.text), ("translation", asked.to or "")) if run.recipe.shape.context > MOST_TOKENS else ()
    )
    for name, text in looked_at:  # a shorter context tells its own range
        if (tokens := len(run.tokenizer.encode(text))) > MOST_TOKENS:
            raise UserError(f"the {name} has {tokens:,} tokens; give 1 to {MOST_TOKENS}")
    found = attention(run, asked.text, asked.to, kind=asked.kind)
    layer = found.layers if asked.layer is None else asked.layer
    found.chosen(layer=layer)
    return Attention(
        found.kind,
        found.queries,
        found.keys,
        found.layers,
        found.heads,
        layer,
        found.weights[layer - 1].astype(float).round(4).tolist(),
        [habit for habit in found.habits() if habit.layer == layer],
    )


@dataclass(frozen=True)
class Vectors(JsonResult):
    """A vector for each text."""

    vectors: list[list[float]]


def embed(run: Run, asked: schemas.Embed) -> Vectors:
    """Turn texts into vectors."""
    return Vectors(embed_texts(run, asked.texts, pooling=asked.pooling).astype(float).tolist())


ANSWERS: dict[str, Callable[[Run, Any], Any]] = {
    "generate": generate,
    "fill": fill,
    "classify": classify,
    "answer": answer,
    "occlude": occlude,
    "translate": translate,
    "attention": attend,
    "embed": embed,
}
"""The handler of each `POST /api/NAME`."""


def question_of(answer: Callable[[Run, Any], Any]) -> type:
    """Return the type of request that a handler takes."""
    kind: type = get_type_hints(answer)["asked"]
    return kind
