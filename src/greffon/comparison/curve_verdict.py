"""Say in plain words what the label curve shows: from how many labels on which arm wins, and how many a body saves."""

import itertools
from collections.abc import Sequence

from greffon.comparison.curve_scores import best_two
from greffon.comparison.names import TFIDF, TFIDF_TITLE, shown
from greffon.comparison.phrases import evidence, outcome, percent, points
from greffon.comparison.results import Difference, Results, TrainSize


def curve_sentences(results: Results) -> list[str]:
    """Return the sentences about the label curve; none without one."""
    if not results.train_sizes:
        return []
    # With several bodies, the best by number of labels says enough about their ensembles.
    ensembles = list(results.arms_of("ensemble")) if len(results.scratch) == 1 else []
    arms = [*results.scratch, *ensembles]
    sentences = [_best(results.train_sizes)]
    sentences += [_against_tfidf(results.train_sizes, name) for name in arms]
    sentences += [_saving(results, name) for name in results.scratch]
    return [*(sentence for sentence in sentences if sentence), *_caveats(results)]


def _best(sizes: Sequence[TrainSize]) -> str:
    """Say which arm is the best with how many labels."""
    pairs = [(entry, *best_two(entry.arms)) for entry in sizes]
    clauses = []
    for name, group in itertools.groupby(pairs, key=lambda pair: pair[1]):
        members = list(group)
        unclear = [
            (entry.size, second)
            for entry, first, second in members
            if (found := entry.difference(first, second)) is not None and outcome(found) == "even"
        ]
        clause = f"{shown(name)} {_labels([entry.size for entry, *_ in members])}"
        if len(unclear) == len(members) and len({second for _, second in unclear}) == 1:
            clause += f" (not told apart from {shown(unclear[0][1])})"
        elif unclear:
            rivals = ", ".join(f"{shown(second)} with {size:,}" for size, second in unclear)
            clause += f" (not told apart from {rivals})"
        clauses.append(clause)
    return f"Best by number of labels: {'; '.join(clauses)}."


def _against_tfidf(sizes: Sequence[TrainSize], name: str) -> str:
    """Say with how many labels an arm is above TF-IDF, and with how many it is not."""
    words = {
        "above": "beats {}",
        "even": "cannot be told apart from {}",
        "below": "falls behind {}",
    }
    measured = [(entry.size, found) for entry in sizes if (found := entry.difference(name, TFIDF)) is not None]
    clauses: list[str] = []
    for kind, group in itertools.groupby(measured, key=lambda pair: outcome(pair[1])):
        members = list(group)
        whom = TFIDF_TITLE if not clauses else "it"
        ends = [members[0]] if len(members) == 1 else [members[0], members[-1]]
        by = "; ".join(_by(size, found, len(ends) > 1) for size, found in ends)
        clauses.append(f"{words[kind].format(whom)} {_labels([size for size, _ in members])} ({by})")
    return f"{shown(name)} {', '.join(clauses)}." if clauses else ""


def _by(size: int, found: Difference, sized: bool) -> str:
    start = f"with {size:,}: " if sized else ""
    return f"{start}{points(found.mean, signed=True)} points, {evidence(found)}"


def _saving(results: Results, name: str) -> str:
    """Say how many labels a body saves, at the middle of the sizes where it is clearly above TF-IDF."""
    sizes = results.train_sizes
    above = [
        entry.size
        for entry in sizes
        if (found := entry.difference(name, TFIDF)) is not None and outcome(found) == "above"
    ]
    if not above:
        return ""
    middle = above[(len(above) - 1) // 2]
    saving = next(each for each in results.label_savings if (each.arm, each.size) == (name, middle))
    if saving.baseline_size is None:
        needs = f"TF-IDF does not reach that with {sizes[-1].size:,}"
    else:
        needs = f"TF-IDF needs {saving.baseline_size:,}"
    return f"{shown(name)} saves labels: {percent(saving.score)} with {middle:,} labels; {needs}."


def _caveats(results: Results) -> list[str]:
    said = []
    draws = min(len(arm.by_draw) for entry in results.train_sizes for arm in entry.arms.values())
    if draws == 1:
        said.append("With a single draw of labels, the intervals cannot tell how much another draw would change.")
    return said


def _labels(sizes: Sequence[int]) -> str:
    """Write sizes that follow each other."""
    if len(sizes) == 1:
        return f"with {sizes[0]:,} labels"
    return f"with {sizes[0]:,} to {sizes[-1]:,} labels"
