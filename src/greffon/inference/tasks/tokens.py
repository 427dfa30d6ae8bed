"""Spans of a text: a span is right if its beginning, its end and its label are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.tasks.tokens import Span, spans_of, spans_of_tags, spelling, tags_of_spans, words_of
from greffon.inference.calibration import ReliabilityBin, calibration_error, reliability
from greffon.inference.metrics import ClassScore, Interval
from greffon.inference.tasks.base import Found, Outputs, TaskScores, ratio, ratio_interval
from greffon.inference.tasks.classes import MIN_PROBABILITY, best_temperature, tempered
from greffon.runs.folding import TEMPERATURE


@dataclass(frozen=True)
class MarkedSpan(JsonResult):
    """A span of a text, by the offsets of its characters, and the mean probability of its words' tags."""

    start: int
    """Offset of its first character."""
    end: int
    """Offset behind its last character."""
    label: str
    """Its label."""
    text: str
    """Its characters."""
    probability: float
    """Mean probability of its words' tags."""


@dataclass(frozen=True)
class Marking(JsonResult):
    """A text and its spans."""

    text: str
    """The text."""
    spans: list[MarkedSpan]

    def above(self, least: float) -> "Marking":
        """Leave out the spans whose probability is lower."""
        return replace(self, spans=[span for span in self.spans if span.probability >= least])

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        spans = [Span(span.start, span.end, span.label) for span in self.spans]
        return {"prediction": spelling(spans)}

    def line(self) -> str:
        """Return the text with its spans in brackets."""
        told, end = "", 0
        for span in self.spans:
            told += f"{self.text[end : span.start]}[{span.label} {span.text}]"
            end = span.end
        return " ".join((told + self.text[end:]).split())


@dataclass(frozen=True)
class SpanScores(TaskScores):
    """Scores of a run that marks spans."""

    span_f1: float
    """F1 of all spans together, as seqeval counts: a span is right if its beginning, its end and its label are."""
    interval: Interval
    """95 % bootstrap interval of the F1, over texts."""
    precision: float
    """Share of the marked spans that are right."""
    recall: float
    """Share of the true spans that are marked."""
    n: int
    """Number of texts."""
    by_label: dict[str, ClassScore]
    """Precision, recall, F1 and number of true spans of each label."""
    expected_calibration_error: float
    """Mean difference between the probability of a marked span and the share of right ones, over ten bins."""
    reliability: tuple[ReliabilityBin, ...]
    """Probability of the marked spans, and the share of right ones, by bins of the probability."""
    metric: str = "span_f1"
    """Name of the first measure."""

    def lines(self) -> list[str]:
        """Return the scores for a person."""
        low, high = self.interval
        widest = max(map(len, self.by_label), default=0)
        return [
            f"span F1 {self.span_f1:.3f} (95 % interval {low:.3f} to {high:.3f}), precision {self.precision:.3f}, "
            f"recall {self.recall:.3f}, calibration error {self.expected_calibration_error:.3f}, {self.n:,} texts",
            *(
                f"  {label:<{widest}}  F1 {found.f1:.3f}, precision {found.precision:.3f}, recall {found.recall:.3f}, "
                f"{found.support:,} spans"
                for label, found in self.by_label.items()
            ),
        ]


class Tokens:
    """Answers and scores of a run that marks spans."""

    metric: str = "span_f1"
    higher_is_better: bool = True
    has_probabilities: bool = True
    noun: str = "tags"

    def held_out(self, recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> dict[str, float]:
        """Return the F1 of spans, the mean loss of a word's tag, and the temperature of the tags."""
        numbers = {tag: i for i, tag in enumerate(recipe.labels)}
        tags = [tags_of_spans(words_of(example.text), spans_of(example.label)) for example in examples]
        gold = np.array([numbers.get(tag, 0) for own in tags for tag in own], dtype=np.int64)
        rows = np.concatenate([np.reshape(own, (-1, len(numbers))) for own in outputs])
        losses = -np.log(np.maximum(rows[np.arange(len(gold)), gold], MIN_PROBABILITY))
        right, marked, true = _counts(_gold(examples), _found(recipe, examples, outputs))
        f1 = ratio(2 * sum(right), sum(marked) + sum(true))
        return {
            "span_f1": f1,
            "loss": float(losses.sum()) / max(1, len(gold)),
            TEMPERATURE: best_temperature(rows, gold),
        }

    def key(self, scores: Found) -> tuple[float, ...]:
        """Prefer the highest F1, then the lowest loss."""
        return scores["span_f1"], -scores["loss"]

    def calibrated(self, scores: Found, outputs: Outputs) -> Outputs:
        """Return the probabilities of the tags with the temperature."""
        temperature = scores.get(TEMPERATURE, 1.0)
        return [tempered(rows, temperature) if len(rows) else rows for rows in outputs]

    def answers(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> list[Marking]:
        """Return the spans of each text."""
        return [
            Marking(example.text, _marked(recipe, example.text, rows))
            for example, rows in zip(examples, outputs, strict=True)
        ]

    def parts(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return twice the right spans, and the true and the marked ones together."""
        right, marked, true = _counts(_gold(examples), _found(recipe, examples, outputs))
        return 2.0 * np.array(right), np.array(marked, dtype=np.float64) + np.array(true)

    def scores(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> SpanScores:
        """Score the spans."""
        gold, found = _gold(examples), _found(recipe, examples, outputs)
        right, marked, true = _counts(gold, found)
        bins = _reliability(recipe, examples, outputs)
        return SpanScores(
            span_f1=ratio(2 * sum(right), sum(marked) + sum(true)),
            interval=ratio_interval(*self.parts(recipe, scores, examples, outputs)),
            precision=ratio(sum(right), sum(marked)),
            recall=ratio(sum(right), sum(true)),
            n=len(examples),
            by_label=by_label(gold, found),
            expected_calibration_error=calibration_error(bins),
            reliability=bins,
        )


def by_label(gold: Sequence[Sequence[Span]], found: Sequence[Sequence[Span]]) -> dict[str, ClassScore]:
    """Return the scores of each label among the true and the marked spans."""
    counts: dict[str, Counter[str]] = {"right": Counter(), "marked": Counter(), "true": Counter()}
    for truth, guess in zip(gold, found, strict=True):
        counts["true"].update(span.label for span in truth)
        counts["marked"].update(span.label for span in guess)
        counts["right"].update(span.label for span in {*truth} & {*guess})
    return {
        label: ClassScore(
            precision=ratio(counts["right"][label], counts["marked"][label]),
            recall=ratio(counts["right"][label], counts["true"][label]),
            f1=ratio(2 * counts["right"][label], counts["marked"][label] + counts["true"][label]),
            support=counts["true"][label],
        )
        for label in sorted({*counts["true"], *counts["marked"]})
    }


def _gold(examples: Sequence[Labelled]) -> list[list[Span]]:
    return [spans_of(example.label) for example in examples]


def _found(recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> list[list[Span]]:
    return [
        spans_of_tags(words_of(example.text), [recipe.labels[i] for i in rows.argmax(axis=1)])
        for example, rows in zip(examples, outputs, strict=True)
    ]


def _marked(recipe: Recipe, text: str, rows: np.ndarray) -> list[MarkedSpan]:
    words = words_of(text)
    sure = rows.max(axis=1) if len(words) else np.zeros(0)
    found = []
    for span in spans_of_tags(words, [recipe.labels[i] for i in rows.argmax(axis=1)]):
        inside = [p for (begin, end), p in zip(words, sure, strict=True) if span.start <= begin and end <= span.end]
        found.append(MarkedSpan(*span, text[span.start : span.end], float(np.mean(inside))))
    return found


def _reliability(recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> tuple[ReliabilityBin, ...]:
    """Compare the probabilities of the marked spans with the share of right ones."""
    sure, right = list[float](), list[bool]()
    for example, rows in zip(examples, outputs, strict=True):
        true = {*spans_of(example.label)}
        for span in _marked(recipe, example.text, rows):
            sure.append(span.probability)
            right.append(Span(span.start, span.end, span.label) in true)
    return reliability(sure, right)


def _counts(gold: Sequence[Sequence[Span]], found: Sequence[Sequence[Span]]) -> tuple[list[int], list[int], list[int]]:
    """Return the number of right, marked and true spans of each text."""
    right = [len({*truth} & {*guess}) for truth, guess in zip(gold, found, strict=True)]
    return right, [len(guess) for guess in found], [len(truth) for truth in gold]
