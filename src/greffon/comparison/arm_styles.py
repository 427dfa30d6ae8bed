"""Which line each arm has in the figures of a comparison; a lone `pretrained` always looks the same."""

import itertools
from collections.abc import Iterable
from dataclasses import replace

from greffon.comparison.names import MAJORITY, TFIDF, is_scratch
from greffon.comparison.results import Results
from greffon.comparison.task_results import TaskResults
from greffon.plots.style import LINES, Style

_SCRATCH = Style("#c4651a", "#f0a35e", "s", (0, (4, 1.6)))
_PRETRAINED = LINES[:4]
_TFIDF = Style("#4a4a46", "#c9c9c4", "P", (0, (5, 3)), weight=1.6)
_MAJORITY = Style("#83837e", "#98989a", "x", (0, (1, 2)), weight=1.1)
_MINOR = Style("#8d8d92", "#86868a", "", "-", weight=0.9)
_CROWDED = 6  # with more arms than this, the less important ones are drawn thin and grey


def arm_styles(results: Results | TaskResults) -> dict[str, Style]:
    """Choose a style for each arm, in the order of drawing.

    An ensemble has the colour of its body and the dashes of TF-IDF; a frozen body is thin and dotted.
    """
    if isinstance(results, TaskResults):
        neural = [name for name in results.arms if name != TFIDF and not is_scratch(name)]
        return {name: style for name, style in _base(neural, results.arms).items() if name in results.arms}
    styles = _base(results.scratch, results.arms)
    for other, arm in results.arms.items():
        if arm.body in styles and arm.is_frozen:
            styles[other] = replace(styles[arm.body], marker=".", dashes=(0, (1, 2.5)), weight=1.1)
        elif arm.body in styles:
            styles[other] = replace(styles[arm.body], marker=_TFIDF.marker, dashes=_TFIDF.dashes, weight=_TFIDF.weight)
    minor = minor_arms(results)
    thin = {name: replace(_MINOR, dashes=styles[name].dashes) for name in styles if name in minor}
    return thin | {name: style for name, style in styles.items() if name in results.arms and name not in minor}


def _base(pretrained: Iterable[str], arms: Iterable[str]) -> dict[str, Style]:
    """Choose the styles of pretrained and scratch arms, and of the classical ones."""
    markers = itertools.cycle("sDv^")
    return {
        **dict(zip(pretrained, itertools.cycle(_PRETRAINED))),
        **{name: replace(_SCRATCH, marker=next(markers)) for name in arms if is_scratch(name)},
        TFIDF: _TFIDF,
        MAJORITY: _MAJORITY,
    }


def minor_arms(results: Results) -> set[str]:
    """Name the arms that a crowded figure draws thin and grey.

    These are the frozen bodies, the majority baseline, and all ensembles but the best on validation.
    """
    if len(results.arms) <= _CROWDED:
        return set()
    ensembles = results.arms_of("ensemble")
    best = max(ensembles, key=lambda name: ensembles[name].valid_accuracy.mean, default=None)
    frozen = {name for name, arm in results.arms.items() if arm.is_frozen}
    return frozen | {MAJORITY} | (ensembles.keys() - {best})
