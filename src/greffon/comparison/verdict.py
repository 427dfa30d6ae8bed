"""Say in plain words whether pretraining paid off, from the results of a comparison.

An effect counts only when its 95 % interval excludes zero. Nothing is measured here.
"""

from dataclasses import replace

from greffon.comparison.curve_verdict import curve_sentences
from greffon.comparison.names import MAJORITY, TFIDF, TFIDF_TITLE, shown
from greffon.comparison.phrases import evidence, outcome, percent, points
from greffon.comparison.results import Difference, Results

ALL_READ = 0.995
"""From this share of the tokens on, an arm counts as reading the whole texts."""


def verdict(results: Results) -> str:
    """Return the verdict as one text."""
    return " ".join(verdict_sentences(results))


def verdict_sentences(results: Results) -> list[str]:
    """Return the verdict sentence by sentence: the comparisons between arms first, then the caveats."""
    sentences = [
        _against_scratch(results),
        _against_each_other(results),
        _against_tfidf(results),
        _ensemble(results),
        _frozen(results),
        _against_majority(results),
    ]
    curve = curve_sentences(results)
    if curve:
        curve.append(f"With all {results.data.train:,} labels to train on and {results.data.valid:,} for validation:")
    return [sentence for sentence in [*curve, *sentences, *_caveats(results)] if sentence]


def _against_scratch(results: Results) -> str:
    """Compare each pretrained arm with its scratch arm, the largest difference first."""
    measured = [(name, results.difference(name, own)) for name, own in results.scratch.items()]
    known = sorted(
        ((name, entry) for name, entry in measured if entry is not None),
        key=lambda pair: (-pair[1].mean, pair[0]),
    )
    if not known:
        return ""
    clauses = []
    for name, entry in known:
        who = name if len(known) > 1 else "Pretraining"
        by = f"{points(entry.mean, signed=True)} points"
        details = f"({evidence(entry)}, {_size(results, name)})"
        clauses.append(
            {
                "above": f"{who} helped: {by} over {entry.b} {details}",
                "below": f"{who} hurt: {by} against {entry.b} {details}",
                "even": f"{who} could not be told apart from {entry.b}: {by} {details}",
            }[outcome(entry)]
        )
    start = "Pretraining, run by run: " if len(known) > 1 else ""
    return start + "; ".join(clauses) + "."


def _against_each_other(results: Results) -> str:
    """Compare the pretrained run that is best on validation with the other runs."""
    pretrained = list(results.scratch)
    if len(pretrained) < 2:
        return ""
    best, equals = _best_on_validation(results, pretrained)
    clauses = []
    for other in pretrained:
        entry = results.difference(best, other)
        if entry is None and (reverse := results.difference(other, best)) is not None:
            entry = _flipped(reverse)
        if other == best or entry is None:
            continue
        by = f"{points(entry.mean, signed=True)} points, {evidence(entry)}"
        clauses.append(
            {
                "above": f"beats {other} ({by})",
                "below": f"falls behind {other} on the test texts ({by})",
                "even": f"cannot be told apart from {other} ({by})",
            }[outcome(entry)]
        )
    if not clauses:
        return ""
    chosen = f"{best} is best on validation; it"
    if len(equals) > 1:
        chosen = f"{', '.join(equals[:-1])} and {equals[-1]} are equal on validation; {best}, the first by name,"
    return f"Among the pretrained runs {chosen} {', '.join(clauses)}."


def _best_on_validation(results: Results, names: list[str]) -> tuple[str, list[str]]:
    """Return the arm that is best on validation (the first by name among equals), and all its equals."""
    accuracy = {name: results.arms[name].valid_accuracy.mean for name in sorted(names)}
    equals = [name for name in accuracy if accuracy[name] == max(accuracy.values())]
    return equals[0], equals


def _against_tfidf(results: Results) -> str:
    names = list(results.arms_of("neural"))
    found = {name: results.difference(name, TFIDF) for name in names}
    known = {name: entry for name, entry in found.items() if entry is not None}
    if not known:
        return ""
    # The best arm is the best on validation: picking it on test would flatter it.
    best, _ = _best_on_validation(results, list(known))
    entry = known[best]
    by = f"{points(abs(entry.mean))} points"
    if all(outcome(each) == "below" for each in known.values()):
        whom = {1: best, 2: "both"}.get(len(known), f"all {len(known)} neural arms")
        chosen = f"{best}, the best on validation" if len(known) > 1 else best
        advice = "" if _frozen_as_good(results) or _ensemble_is_better(results) else ": use that"
        return f"{TFIDF_TITLE} beats {whom}{advice} ({by} above {chosen}; {evidence(_flipped(entry))})."
    if outcome(entry) == "above":
        return f"The best neural arm, {best}, beats {TFIDF_TITLE} by {by} ({evidence(entry)})."
    if outcome(entry) == "below":
        return f"{TFIDF_TITLE} beats the best neural arm, {best}, by {by} ({evidence(_flipped(entry))})."
    by = f"{points(entry.mean, signed=True)} points"
    return f"The best neural arm, {best}, cannot be told apart from {TFIDF_TITLE}: {by} ({evidence(entry)})."


def _best_ensemble(results: Results) -> Difference | None:
    """Return the ensemble that is best on validation against TF-IDF alone, or None without ensembles."""
    names = list(results.arms_of("ensemble"))
    return results.difference(_best_on_validation(results, names)[0], TFIDF) if names else None


def _ensemble_is_better(results: Results) -> bool:
    entry = _best_ensemble(results)
    return entry is not None and outcome(entry) == "above"


def _ensemble(results: Results) -> str:
    """Say whether adding a body to TF-IDF changes the accuracy."""
    entry = _best_ensemble(results)
    if entry is None:
        return ""
    reads = {
        "above": "beats TF-IDF alone",
        "below": "falls behind TF-IDF alone",
        "even": "cannot be told apart from TF-IDF alone",
    }
    arm = results.arms[entry.a]
    assert arm.body is not None, "every ensemble has a body"
    uses_body, uses_tfidf = (any(weights) for weights in zip(*arm.weights, strict=True))
    if not uses_body:
        return f"In the ensemble with TF-IDF, {arm.body} has weight 0: on validation it adds nothing to TF-IDF."
    if not uses_tfidf:
        return f"In the ensemble with {arm.body}, TF-IDF has weight 0: on validation it adds nothing to the body."
    reached, alone = (results.arms[name].test_accuracy.mean for name in (entry.a, arm.body))
    by = f"{points(entry.mean, signed=True)} points ({evidence(entry)})"
    better = f"; {arm.body} alone has {percent(alone)}" if alone >= reached else ""
    return f"The ensemble of {arm.body} and TF-IDF {reads[outcome(entry)]}: {percent(reached)}, {by}{better}."


def _frozen_arms(results: Results) -> list[str]:
    return [name for name, arm in results.arms.items() if arm.is_frozen]


def _frozen_as_good(results: Results) -> bool:
    """Whether a frozen body is as good as TF-IDF on validation."""
    floor = results.arms[TFIDF].valid_accuracy.mean
    return any(results.arms[name].valid_accuracy.mean >= floor for name in _frozen_arms(results))


def _frozen(results: Results) -> str:
    """Say whether logistic regression on a frozen body is better on validation than all fine-tuned arms."""
    frozen, neural = _frozen_arms(results), list(results.arms_of("neural"))
    if not frozen or not neural:
        return ""
    accuracy = {name: results.arms[name].valid_accuracy.mean for name in (*frozen, *neural)}
    best, _ = _best_on_validation(results, frozen)
    if accuracy[best] <= max(accuracy[name] for name in neural):
        return ""
    test = percent(results.arms[best].test_accuracy.mean)
    return (
        f"No fine-tuned arm is as good on validation as logistic regression on a frozen body ({best}: "
        f"{percent(accuracy[best])} there, {test} on the test texts)."
    )


def _against_majority(results: Results) -> str:
    majority = results.arms.get(MAJORITY)
    names = list(results.arms_of("neural"))
    if majority is None or not names:
        return ""
    floor = majority.test_accuracy.mean
    if any(results.arms[name].test_accuracy.interval[0] > floor for name in names):
        return ""
    return f"No neural arm is clearly above always answering the commonest label ({percent(floor)})."


def _caveats(results: Results) -> list[str]:
    """List what limits the conclusions above."""
    said = []
    names = list(results.arms_of("neural"))
    if any(len(results.arms[name].test_accuracy.by_seed) == 1 for name in names):
        said.append("With a single seed, the intervals cannot tell how much another seed would change.")
    for name in names:
        epochs = results.arms[name].chosen_epoch
        if untrained := epochs.count(0):
            said.append(f"No epoch of {name} was better than none with {untrained} of {len(epochs)} seeds.")
    less = {name: share for name, share in results.data.tokens_read.items() if share < ALL_READ}
    if less:
        counts = ", ".join(f"{name} {percent(share)}" for name, share in less.items())
        said.append(
            f"TF-IDF reads the whole test texts, and these arms only so much of their tokens: {counts} "
            "(long texts read in windows are read whole)."
        )
    known = {name: count for name, count in results.data.pretraining_overlap.items() if count}
    if known:
        counts = ", ".join(f"{name} {count:,}" for name, count in known.items())
        said.append(
            f"Beware: of the {results.data.test:,} test texts, so many are also in the text that a body was pretrained "
            f"on, without labels: {counts}."
        )
    shared = results.data.train_test_overlap
    if shared:
        rest = [(name, results.arms[name].without_overlap) for name in (*names, TFIDF) if name in results.arms]
        without = ", ".join(f"{shown(name)} {percent(value)}" for name, value in rest if value is not None)
        note = f"Beware: {shared:,} of the {results.data.test:,} test texts are also in train"
        said.append(f"{note}; without them: {without}." if without else f"{note}.")
    return said


def _flipped(entry: Difference) -> Difference:
    low, high = entry.interval
    return replace(entry, a=entry.b, b=entry.a, mean=-entry.mean, interval=(-high, -low))


def _size(results: Results, name: str) -> str:
    seeds = len(results.arms[name].test_accuracy.by_seed)
    return f"{seeds} seed{'s' if seeds != 1 else ''}, {results.data.test:,} texts"
