"""The report of a comparison: one self-contained HTML page made from its `Results` alone."""

from dataclasses import asdict

import numpy as np

from greffon.comparison.arm_result import ArmResult, Mistake
from greffon.comparison.curve_report import curve_section, shown_figure
from greffon.comparison.figures import accuracy_figure
from greffon.comparison.html import Html, cards, confusion_table, forest, page, section, table, tag
from greffon.comparison.names import MAJORITY, shown
from greffon.comparison.phrases import outcome, p_value, percent, points, readable
from greffon.comparison.reliability_figure import reliability_figure
from greffon.comparison.results import Results
from greffon.comparison.verdict import verdict_sentences

_EXCERPT = 280


def report(results: Results) -> str:
    """Return the page as a string; its figures need matplotlib."""
    return page(
        "Did pretraining pay off?",
        tag("h1", "Did pretraining pay off?"),
        _verdict(results),
        curve_section(results),
        tag(
            "section",
            shown_figure(accuracy_figure, results, "Test accuracy against epoch, mean and range over seeds"),
        ),
        _arms(results),
        _differences(results),
        _time_to_scratch(results),
        _tuning(results),
        _classes(results),
        _reliability(results),
        _mistakes(results),
        _data(results),
        _method(results),
        _settings(results),
    )


def _verdict(results: Results) -> Html:
    entries = [results.difference(name, own) for name, own in results.scratch.items()]
    kinds = {outcome(entry) for entry in entries if entry is not None}
    kind = kinds.pop() if len(kinds) == 1 else "even"
    return tag("section", *(tag("p", line) for line in verdict_sentences(results)), kind=f"verdict {kind}")


def _arms(results: Results) -> Html:
    overlap = results.data.train_test_overlap
    headers = ["arm", "test accuracy", "95 % interval", "macro F1", "chosen epoch", "parameters", "time"]
    headers[3:3] = ["without shared texts"] if overlap else []
    rows = []
    for name, arm in results.arms.items():
        row = _arm_row(name, arm)
        without = arm.without_overlap
        row[3:3] = [percent(without) if without is not None else "–"] if overlap else []
        rows.append(row)
    return section("The arms", cards(headers, rows), tag("p", " ".join(_arms_notes(results)), kind="note"))


def _arm_row(name: str, arm: ArmResult) -> list[object]:
    low, high = arm.test_accuracy.interval
    return [
        shown(name),
        percent(arm.test_accuracy.mean),
        f"{100 * low:.1f} to {100 * high:.1f}",
        f"{arm.macro_f1:.3f}",
        ", ".join(str(epoch) for epoch in arm.chosen_epoch) or "–",
        f"{arm.parameters:,}" if arm.parameters is not None else "–",
        _seconds(sum(arm.seconds) / len(arm.seconds)) if arm.seconds else "–",
    ]


def _arms_notes(results: Results) -> list[str]:
    notes = ["Accuracy and macro F1 of neural arms are means over the seeds; the time is the mean of one training."]
    if any(arm.is_frozen for arm in results.arms.values()):
        notes.append("Frozen: logistic regression on the body's vectors of the texts, before any fine-tuning.")
    weights = {name: np.mean(arm.weights, axis=0) for name, arm in results.arms_of("ensemble").items()}
    if weights:
        means = "; ".join(f"{name}: body {body:.2f}, TF-IDF {words:.2f}" for name, (body, words) in weights.items())
        notes.append(
            "Ensemble: the log probabilities of a body and of TF-IDF are summed, with the weights that have the lowest "
            f"loss on validation ({means}; means over the seeds). The weights also make the probabilities sharper or "
            "flatter, so their sizes do not show which member matters more; a member with weight 0 is not used."
        )
    if len(set(results.scratch.values())) > 1:
        pairs = ", ".join(f"{own} for {name}" for name, own in results.scratch.items())
        notes.append(f"Each form (direction, shape, tokenizer, settings) has a scratch arm of its own: {pairs}.")
    if results.pretraining:
        times = ", ".join(
            f"{name} {'imported' if seconds is None else _seconds(seconds)}"
            for name, seconds in results.pretraining.items()
        )
        notes.append(f"Pretraining, which is not counted, took: {times}.")
    return notes


def _differences(results: Results) -> Html:
    entries = results.differences
    if not entries:
        return Html("")
    limit = max(abs(edge) for entry in entries for edge in (*entry.interval, entry.mean))
    words = {"above": "better", "below": "worse", "even": "not told apart"}
    rows = []
    for entry in entries:
        low, high = entry.interval
        rows.append(
            [
                f"{shown(entry.a)} − {shown(entry.b)}",
                f"{points(entry.mean, signed=True)} points",
                forest(entry.mean, low, high, limit),
                f"{points(low)} to {points(high)}",
                p_value(entry.p),
                words[outcome(entry)],
            ]
        )
    note = "Both arms classify the same texts. “Better” and “worse” only where the interval excludes zero."
    headers = ["pair", "difference", "around zero", "95 % interval", "p", "reading"]
    return section("Paired differences", cards(headers, rows), tag("p", note, kind="note"))


def _time_to_scratch(results: Results) -> Html:
    if not results.time_to_scratch:
        return Html("")
    rows = []
    for name, entry in results.time_to_scratch.items():
        if entry is None:
            reached = ["not reached", "–"]
        elif entry.epochs == 0:  # then scratch itself has learnt nothing
            reached = ["before any training", "–"]
        else:
            reached = [str(entry.epochs), _seconds(entry.seconds)]
        rows.append([name, *reached])
    targets = ", ".join(f"{name} {percent(target)}" for name, target in results.scratch_target.items())
    own = "it" if len(results.scratch_target) == 1 else "that of its form"
    return section(
        "Time to scratch's best",
        tag("p", f"Scratch's best mean validation accuracy: {targets}. Until an arm's mean reaches {own}:"),
        table(["arm", "epochs", "time"], rows),
        tag("p", "Time of fine-tuning; pretraining is not counted.", kind="note"),
    )


def _tuning(results: Results) -> Html:
    if not results.tuning:
        return Html("")
    rows = [
        [
            shown(each.arm),
            ", ".join(f"{name} {readable(value)}" for name, value in each.settings.items()) or "the usual ones",
            "–" if each.usual is None else percent(each.usual),
            percent(each.best),
        ]
        for each in results.tuning
    ]
    note = (
        f"Each arm had {results.tuning[0].trials} trials on the validation texts: trainings with one seed, or "
        "values of C. The best settings were then trained with every seed. The validation accuracy of a best trial is "
        "optimistic."
    )
    headers = ["arm", "best settings", "usual settings on validation", "best on validation"]
    return section("Search for settings", table(headers, rows), tag("p", note, kind="note"))


def _classes(results: Results) -> Html:
    parts = []
    for name, arm in results.arms.items():
        if name == MAJORITY:
            continue
        rows = [
            [label, *(f"{share:.3f}" for share in (score.precision, score.recall, score.f1)), f"{score.support:,}"]
            for label, score in arm.per_class.items()
        ]
        scores = table(["class", "precision", "recall", "F1", "texts"], rows)
        matrix = confusion_table(results.labels, arm.confusion)
        # Up to four classes both tables fit side by side.
        kind = "pair" if len(results.labels) <= 4 else ""
        parts.append(tag("h3", shown(name)))
        parts.append(tag("div", tag("div", scores), tag("div", matrix), kind=kind))
    note = "Neural arms: the predictions of all seeds together; confusion counts are summed over the seeds."
    return section("Class by class", *parts, tag("p", note, kind="note"))


def _reliability(results: Results) -> Html:
    note = "The predictions of all seeds together. Probabilities of neural arms are calibrated on the validation texts."
    alt = "Share of right predictions against their probability"
    return section("Probabilities", shown_figure(reliability_figure, results, alt), tag("p", note, kind="note"))


def _mistakes(results: Results) -> Html:
    parts = []
    for name, arm in results.arms.items():
        if name == MAJORITY or not arm.mistakes:
            continue
        quotes = [_mistake(mistake, len(arm.test_accuracy.by_seed)) for mistake in arm.mistakes]
        parts.append(tag("details", tag("summary", shown(name)), *quotes))
    return section("The most confident mistakes", *parts) if parts else Html("")


def _mistake(mistake: Mistake, seeds: int) -> Html:
    words = " ".join(mistake.text.split())
    excerpt = words if len(words) <= _EXCERPT else words[: _EXCERPT - 1].rstrip() + "…"
    of = f", {mistake.seeds} of {seeds} seeds" if seeds > 1 else ""
    answer = f"gold {mistake.gold}, predicted {mistake.predicted}"
    return tag("blockquote", excerpt, Html("<br>"), tag("small", f"{answer} ({percent(mistake.probability)}{of})"))


def _data(results: Results) -> Html:
    data = results.data
    counts = f"{data.train:,} train, {data.valid:,} valid, {data.test:,} test"
    parts = [tag("p", f"Texts: {counts}. Classes: {', '.join(results.labels)}.")]
    shared = data.train_test_overlap
    if shared:
        note = f"{shared:,} of the {data.test:,} test texts are also in train; the table of arms"
        parts.append(tag("p", f"{note} gives the accuracy without them.", kind="warning"))
    else:
        parts.append(tag("p", "No test text is also in train."))
    overlap = results.data.pretraining_overlap
    if overlap:
        counts = ", ".join(f"{name} {'unknown' if n is None else f'{n:,}'}" for name, n in overlap.items())
        parts.append(tag("p", f"Test texts that are also in the text of pretraining, without labels: {counts}."))
    findings = [
        tag("li", tag("strong", finding.severity, kind=finding.severity), ": ", finding.message)
        for finding in data.findings
    ]
    parts.append(tag("ul", *findings) if findings else tag("p", "The checks before training found nothing else."))
    files = [[name, str(path)] for name, path in data.files.items()]
    return section("The data", *parts, *([table(["part", "file"], files)] if files else []))


def _method(results: Results) -> Html:
    baseline = results.baseline
    lines = [
        "Epochs are chosen on validation, never on test: each run's test accuracy is the one at its own "
        "best validation epoch (among equals the one with the lower loss). A run that stopped early keeps "
        "its last score in the curves.",
        "95 % intervals come from a bootstrap that resamples both the seeds and the test texts; for a "
        "difference the two arms share the resampled texts.",
        "p comes from a paired permutation test, two-sided: the signs of each text's difference in "
        "seed-averaged correctness are flipped at random. It is about these trainings on other texts; the "
        "interval also allows for other seeds, so the two may disagree in close cases.",
        "All arms are trained on the same labels; the test texts are only used to score them.",
    ]
    if baseline is not None and baseline.c is not None:
        lines.append(f"{baseline.name}: words 1-2 and characters 2-5, C = {baseline.c:g} chosen on validation.")
    return section("How it was measured", tag("ul", *(tag("li", line) for line in lines)))


def _settings(results: Results) -> Html:
    settings = asdict(results.settings)
    known = settings.pop("training") | settings.pop("training_by_arm")
    known = settings | known | dict(results.versions)
    rows = [[name.replace("_", " "), readable(value)] for name, value in known.items()]
    return section("Settings and versions", table(["name", "value"], rows))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
