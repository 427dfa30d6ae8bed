"""Say in plain words whether pretraining paid off; `results` is what `results.assemble` builds.

An effect counts only when its 95 % interval leaves zero out. Nothing is measured here.
"""

from typing import Any

from greffon.comparison.ensemble import TOGETHER

Results = dict[str, Any]

TFIDF = "TF-IDF + logistic regression"
SCRATCH = "scratch"
"""The arm with fresh weights; where forms differ there are more, `scratch NAME`, each of the form of the run NAME."""

SMALL = 0.05
"""A p below which a reader would wonder why an interval still holds zero."""


def verdict(results: Results) -> str:
    """The verdict as one text."""
    return " ".join(verdict_sentences(results))


def verdict_sentences(results: Results) -> list[str]:
    """Pretraining against scratch and run against run, the best neural arm against TF-IDF, frozen, reserves."""
    sentences = [
        _against_scratch(results),
        _against_each_other(results),
        _against_tfidf(results),
        _together(results),
        _frozen(results),
        _against_majority(results),
    ]
    return [sentence for sentence in [*sentences, *_reserves(results)] if sentence]


def neural_arms(results: Results) -> list[str]:
    """The arms that were trained over epochs, in the order of the results."""
    return [name for name, arm in results["arms"].items() if arm["kind"] == "neural"]


def is_scratch(name: str) -> bool:
    """Whether an arm is one with fresh weights."""
    return name.partition(" ")[0] == SCRATCH


def shown(name: str) -> str:
    """An arm's name as a reader knows it.

    >>> shown("tfidf"), shown("pretrained + tfidf"), shown("pretrained")
    ('TF-IDF', 'pretrained + TF-IDF', 'pretrained')
    """
    return name.removesuffix("tfidf") + "TF-IDF" if name == "tfidf" or name.endswith(TOGETHER) else name


def outcome(difference: dict[str, Any]) -> str:
    """`above`, `below` or `even`: whether the interval leaves zero out, and where.

    >>> outcome({"interval": [0.01, 0.04]}), outcome({"interval": [-0.01, 0.04]})
    ('above', 'even')
    """
    low, high = difference["interval"]
    return "above" if low > 0 else "below" if high < 0 else "even"


def points(share: float, signed: bool = False) -> str:
    """A difference in percentage points, never rounded to a zero that it is not.

    >>> points(0.031, signed=True), points(-0.004), points(0.0002), points(-0.0)
    ('+3.1', '−0.4', '0.02', '0.0')
    """
    value = round(100 * share, 3) + 0.0  # no −0.0
    digits = 1 if value == 0 or abs(value) >= 0.05 else 2 if abs(value) >= 0.005 else 3
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def p_value(p: float) -> str:
    """p to as many digits as its size deserves: 0.0002, 0.031, 0.55."""
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def percent(share: float) -> str:
    """An accuracy as a percentage: `82.1 %`."""
    return f"{100 * share:.1f} %"


def find_difference(results: Results, a: str, b: str) -> dict[str, Any] | None:
    """The paired difference a − b, if it was measured."""
    return next((entry for entry in results["differences"] if (entry["a"], entry["b"]) == (a, b)), None)


def _against_scratch(results: Results) -> str:
    """One clause for each pretrained arm, the largest difference first."""
    measured = [(name, find_difference(results, name, own)) for name, own in results["scratch"].items()]
    known = sorted(
        ((name, entry) for name, entry in measured if entry is not None),
        key=lambda pair: (-pair[1]["mean"], pair[0]),
    )
    if not known:
        return ""
    clauses = []
    for name, entry in known:
        who = name if len(known) > 1 else "Pretraining"
        by = f"{points(entry['mean'], signed=True)} points"
        evidence = f"({_evidence(entry)}, {_size(results, name)})"
        clauses.append(
            {
                "above": f"{who} helped: {by} over {entry['b']} {evidence}",
                "below": f"{who} hurt: {by} against {entry['b']} {evidence}",
                "even": f"{who} could not be told apart from {entry['b']}: {by} {evidence}",
            }[outcome(entry)]
        )
    start = "Pretraining, run by run: " if len(known) > 1 else ""
    return start + "; ".join(clauses) + "."


def _against_each_other(results: Results) -> str:
    """Where several runs are compared, the best of them, chosen on validation, against each other one."""
    pretrained = list(results["scratch"])
    if len(pretrained) < 2:
        return ""
    best, equals = _best_on_validation(results, pretrained)
    clauses = []
    for other in pretrained:
        entry = find_difference(results, best, other)
        if entry is None and (reverse := find_difference(results, other, best)) is not None:
            entry = _flipped(reverse)
        if other == best or entry is None:
            continue
        by = f"{points(entry['mean'], signed=True)} points, {_evidence(entry)}"
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
    """Which arm is best on validation, the first by name among equals, and all that are as good."""
    accuracy = {name: results["arms"][name]["valid_accuracy"]["mean"] for name in sorted(names)}
    equals = [name for name in accuracy if accuracy[name] == max(accuracy.values())]
    return equals[0], equals


def _against_tfidf(results: Results) -> str:
    names = neural_arms(results)
    found = {name: find_difference(results, name, "tfidf") for name in names}
    known = {name: entry for name, entry in found.items() if entry is not None}
    if not known:
        return ""
    # The best arm is the best on validation: picking it on test would flatter it.
    best, _ = _best_on_validation(results, list(known))
    entry = known[best]
    by = f"{points(abs(entry['mean']))} points"
    if all(outcome(each) == "below" for each in known.values()):
        whom = {1: best, 2: "both"}.get(len(known), f"all {len(known)} neural arms")
        chosen = f"{best}, the best on validation" if len(known) > 1 else best
        advice = "" if _frozen_as_good(results) or _better_together(results) else ": use that"
        return f"{TFIDF} beats {whom}{advice} ({by} above {chosen}; {_evidence(_flipped(entry))})."
    if outcome(entry) == "above":
        return f"The best neural arm, {best}, beats {TFIDF} by {by} ({_evidence(entry)})."
    if outcome(entry) == "below":
        return f"{TFIDF} beats the best neural arm, {best}, by {by} ({_evidence(_flipped(entry))})."
    by = f"{points(entry['mean'], signed=True)} points"
    return f"The best neural arm, {best}, cannot be told apart from {TFIDF}: {by} ({_evidence(entry)})."


def _best_together(results: Results) -> dict[str, Any] | None:
    """A body and TF-IDF together against TF-IDF alone: of several bodies, the one that is best so on validation."""
    names = [name for name, arm in results["arms"].items() if arm["kind"] == "together"]
    return find_difference(results, _best_on_validation(results, names)[0], "tfidf") if names else None


def _better_together(results: Results) -> bool:
    entry = _best_together(results)
    return entry is not None and outcome(entry) == "above"


def _together(results: Results) -> str:
    """Say whether the body knows what the words do not say."""
    entry = _best_together(results)
    if entry is None:
        return ""
    reads = {
        "above": "beat TF-IDF alone",
        "below": "fall behind TF-IDF alone",
        "even": "cannot be told apart from TF-IDF alone",
    }
    arm, body = results["arms"][entry["a"]], entry["a"].removesuffix(TOGETHER)
    of_body, of_words = (any(weights) for weights in zip(*arm["weights"], strict=True))
    if not of_body:
        return f"Together with TF-IDF, {body} has no say: on validation it adds nothing to the words."
    if not of_words:
        return f"Together with {body}, TF-IDF has no say: on validation the words add nothing to the body."
    reached, alone = (results["arms"][name]["test_accuracy"]["mean"] for name in (entry["a"], body))
    by = f"{points(entry['mean'], signed=True)} points ({_evidence(entry)})"
    better = f"; {body} alone has {percent(alone)}" if alone >= reached else ""
    return f"Together, {body} and TF-IDF {reads[outcome(entry)]}: {percent(reached)}, {by}{better}."


def _frozen_arms(results: Results) -> list[str]:
    return [name for name, arm in results["arms"].items() if arm["kind"] == "classical" and name.startswith("frozen")]


def _frozen_as_good(results: Results) -> bool:
    """Whether a frozen body is as good as TF-IDF on validation."""
    floor = results["arms"]["tfidf"]["valid_accuracy"]["mean"]
    return any(results["arms"][name]["valid_accuracy"]["mean"] >= floor for name in _frozen_arms(results))


def _frozen(results: Results) -> str:
    """Say so where a body does better frozen, under logistic regression, than fine-tuned; judged on validation."""
    frozen, neural = _frozen_arms(results), neural_arms(results)
    if not frozen or not neural:
        return ""
    accuracy = {name: results["arms"][name]["valid_accuracy"]["mean"] for name in (*frozen, *neural)}
    best, _ = _best_on_validation(results, frozen)
    if accuracy[best] <= max(accuracy[name] for name in neural):
        return ""
    test = percent(results["arms"][best]["test_accuracy"]["mean"])
    return (
        f"No fine-tuned arm is as good on validation as logistic regression on a frozen body ({best}: "
        f"{percent(accuracy[best])} there, {test} on the test texts)."
    )


def _against_majority(results: Results) -> str:
    majority = results["arms"].get("majority")
    names = neural_arms(results)
    if majority is None or not names:
        return ""
    floor = majority["test_accuracy"]["mean"]
    if any(results["arms"][name]["test_accuracy"]["interval"][0] > floor for name in names):
        return ""
    return f"No neural arm is clearly above always answering the commonest label ({percent(floor)})."


def _reserves(results: Results) -> list[str]:
    """What a careful reader must know before believing the sentences above."""
    said = []
    names = neural_arms(results)
    if any(len(results["arms"][name]["test_accuracy"]["by_seed"]) == 1 for name in names):
        said.append("With a single seed, the intervals cannot tell how much another seed would change.")
    for name in names:
        epochs = results["arms"][name]["chosen_epoch"]
        if untrained := epochs.count(0):
            said.append(f"No epoch of {name} was better than none with {untrained} of {len(epochs)} seeds.")
    shared = results["data"].get("train_test_overlap", 0)
    if shared:
        told = [(name, name) for name in names] + [("tfidf", "TF-IDF")]
        rest = [(shown, results["arms"][name]["without_overlap"]) for name, shown in told if name in results["arms"]]
        without = ", ".join(f"{shown} {percent(value)}" for shown, value in rest if value is not None)
        note = f"Beware: {shared:,} of the {results['data']['test']:,} test texts also stand in train"
        said.append(f"{note}; without them: {without}." if without else f"{note}.")
    return said


def _evidence(entry: dict[str, Any]) -> str:
    low, high = entry["interval"]
    said = f"95 % interval {points(low)} to {points(high)}, p = {p_value(entry['p'])}"
    # The one draws seeds and texts anew, the other asks of the texts alone.
    return f"{said} for these seeds alone" if outcome(entry) == "even" and entry["p"] < SMALL else said


def _flipped(entry: dict[str, Any]) -> dict[str, Any]:
    low, high = entry["interval"]
    return {**entry, "mean": -entry["mean"], "interval": [-high, -low]}


def _size(results: Results, name: str) -> str:
    seeds = len(results["arms"][name]["test_accuracy"]["by_seed"])
    return f"{seeds} seed{'s' if seeds != 1 else ''}, {results['data']['test']:,} texts"
