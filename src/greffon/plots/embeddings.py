"""Vectors of texts, projected on their first two principal components."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greffon.core.choices import Pool, Task
from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled
from greffon.data.tasks import guess_task, read_examples
from greffon.data.tasks.multilabel import split_labels
from greffon.data.tasks.tokens import spans_of
from greffon.inference.embed import embed
from greffon.plots.style import LINES, dress, key_below, sheet
from greffon.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 2000
"""Most points that a figure can show."""
FREQUENT = 4
"""Number of labels that have a sign of their own where a text can have several; the others share one."""
_REST = ("(another label)", "(no label)")


def embeddings_figure(
    run: str | Path | Run,
    file: str | Path,
    *,
    pooling: Pool = "mean",
    text_column: str = "text",
    label_column: str | None = None,
) -> "Figure":
    """Draw the vectors of labelled texts in two dimensions (PCA), with a marker and a colour for each label.

    A text with several labels, or with spans, has the sign of the most frequent of them; scores have a sign for each
    third of the texts.
    """
    run = Run.open(run)
    data = Data(text_column=text_column, label_column=label_column)
    task = guess_task(Path(file), data)[0]
    if task == "pairs":
        raise UserError(f"{file} holds pairs, and the figure shows single texts; name a file of labelled texts")
    examples = read_examples(Path(file), replace(data, task=task))
    if len(examples) < 3:
        raise UserError(f"{file} has {len(examples)} texts; the figure needs 3 or more")
    if len(examples) > MOST:  # evenly, so that a sorted file keeps all its labels
        examples = [examples[i] for i in np.linspace(0, len(examples) - 1, MOST).round().astype(int)]
    own = np.array(_groups(task, examples))
    labels = sorted(set(own.tolist()), key=lambda label: (label in _REST, label))
    if len(labels) > len(LINES):
        raise UserError(f"{file} has {len(labels)} labels; a figure can tell 1 to {len(LINES)} apart")
    places, shares = principal(embed(run, [example.text for example in examples], pooling=pooling))
    note = (
        f"{len(examples):,} texts of {Path(file).name}: first two principal components of their vectors. "
        f"Labels were not used to compute them."
    )
    figure = sheet(7.2, 5.2, f"Vectors of texts by {run.name}", note)
    axes = figure.subplots()
    dress(axes, grid="both")
    handles: list[Any] = []
    for label, style in zip(labels, LINES, strict=False):
        chosen = places[own == label]
        look: dict[str, Any] = {
            "marker": style.marker,
            "edgecolors": style.light,
            "linewidths": 1.0,
            "s": 22,
            "alpha": 0.75,
        }
        # Every second sign is hollow, so that signs that lie on each other can be told apart in grey.
        fill = "none" if len(handles) % 2 else style.light
        handles.append(axes.scatter(*chosen.T, facecolors=fill, **look, label=f"{label} ({len(chosen):,})"))
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(
        xlabel=f"first component ({shares[0]:.0%} of the variance)",
        ylabel=f"second component ({shares[1]:.0%})",
    )
    key_below(figure, handles, columns=min(3, len(handles)))
    return figure


def _groups(task: Task, examples: Sequence[Labelled]) -> list[str]:
    """Name the group of each text that shares a sign."""
    if task == "classes":
        return [example.label for example in examples]
    if task == "regression":
        scores = np.array([example.score for example in examples], dtype=np.float64)
        low, high = np.quantile(scores, [1 / 3, 2 / 3], method="inverted_cdf")
        names = [f"1st third: up to {low:g}", f"2nd third: up to {high:g}", f"3rd third: above {high:g}"]
        return [names[int(score > low) + int(score > high)] for score in scores]
    several = [
        split_labels(example.label) if task == "multilabel" else [span.label for span in spans_of(example.label)]
        for example in examples
    ]
    counts = Counter(label for labels in several for label in {*labels})
    ranked = sorted(counts, key=lambda label: (-counts[label], label))
    frequent = ranked[: FREQUENT + (len(ranked) == FREQUENT + 1)]  # a single other label can be named as well
    return [
        next((label for label in frequent if label in labels), _REST[0]) if labels else _REST[1] for labels in several
    ]


def principal(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two principal components, (N, 2), and the share of the variance along each."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    left, strengths, _ = np.linalg.svd(centred, full_matrices=False)
    places = left[:, :2] * strengths[:2]
    # A direction and its opposite are the same; the same vectors shall give the same figure.
    signs = np.sign(places[np.abs(places).argmax(axis=0), [0, 1]])
    variance = strengths**2
    return places * np.where(signs == 0, 1, signs), variance[:2] / max(variance.sum(), 1e-30)
