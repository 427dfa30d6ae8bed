"""The report of a comparison: one self-contained HTML page made from `results.json` alone.

The schema (accuracies and differences are shares between 0 and 1):

    arms         {name: arm}; names: scratch (and scratch NAME, where the run NAME has another form), pretrained
                 (or the runs' names), frozen (or frozen NAME: logistic regression on the body's vectors), tfidf,
                 majority, pretrained + tfidf (or NAME + tfidf: both together)
      kind             "neural", "classical" or "together"
      test_accuracy    {mean, interval: [low, high], by_seed: […]}
      valid_accuracy   the same; interval is null, because epoch and C were chosen for this figure
      macro_f1         mean over seeds
      chosen_epoch     [one for each seed], empty for other than neural arms
      weights          [[of the body, of TF-IDF] for each seed], of arms that answer together
      parameters       number or null
      seconds          [one for each seed]
      curve            [{epoch, valid, test, valid_range: [low, high], test_range, seeds}] from epoch 0;
                       a run that stopped early keeps its last score, `seeds` counts those that went on
      per_class        {label: {precision, recall, f1, support}}, from the predictions of all seeds
      confusion        [[…]] gold × predicted, summed over seeds, in the order of labels
      mistakes         [{text, gold, predicted, probability, seeds}], the most confident first
      without_overlap  test accuracy without the texts that train holds too, or null
    differences  [{a, b, mean, interval, p}]: accuracy of a minus that of b, on the same texts
    baseline    {name, accuracy, interval, c, valid_accuracy, seconds} or null
    scratch      {pretrained arm: the scratch arm of its form}
    reach        {arm: {epochs, seconds} or null}: until its scratch's best mean validation accuracy
    reach_target {scratch arm: that accuracy}
    verdict      the verdict in plain words
    labels       the classes, in order
    label_curve  {arm: [{labels, mean, interval}]} or null
    data         {train, valid, test, train_test_overlap, findings: [{severity, code, message}], files}
    pretraining  {arm: seconds that its body was pretrained for; null: imported}
    settings     {seeds, epochs, training: {optimizer, rate, pooling, …: what all trainings have in common}, …}
    versions     {package: version}
"""

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from greffon.comparison.baselines import FROZEN
from greffon.comparison.figures import accuracy_figure, labels_figure
from greffon.comparison.html import Html, cards, confusion_table, forest, page, picture, section, table, tag
from greffon.comparison.verdict import (
    Results,
    find_difference,
    outcome,
    p_value,
    percent,
    points,
    shown,
    verdict,
    verdict_sentences,
)

__all__ = ["report", "verdict"]

_EXCERPT = 280
_WIDE, _NARROW = 8.0, 4.1  # inches


def report(results: Results) -> str:
    """The page as a string; needs matplotlib for its figures."""
    return page(
        "Did pretraining pay off?",
        tag("h1", "Did pretraining pay off?"),
        _verdict(results),
        tag(
            "section",
            _figure(accuracy_figure, results, "Test accuracy against epoch, mean and range over seeds"),
        ),
        _arms(results),
        _differences(results),
        _reach(results),
        _label_curve(results),
        _classes(results),
        _mistakes(results),
        _data(results),
        _method(results),
        _setting(results),
    )


def _verdict(results: Results) -> Html:
    entries = [find_difference(results, name, own) for name, own in results["scratch"].items()]
    kinds = {outcome(entry) for entry in entries if entry is not None}
    kind = kinds.pop() if len(kinds) == 1 else "even"
    return tag("section", *(tag("p", line) for line in verdict_sentences(results)), kind=f"verdict {kind}")


def _figure(draw: Callable[..., Any], results: Results, alt: str) -> Html:
    def png(width: float, dark: bool) -> bytes:
        buffer = io.BytesIO()
        draw(results, dark=dark, width=width).savefig(buffer, format="png", dpi=160, metadata={"Software": None})
        return buffer.getvalue()

    wide, narrow = ((png(width, False), png(width, True)) for width in (_WIDE, _NARROW))
    return picture(alt, wide, narrow)


def _arms(results: Results) -> Html:
    overlap = results["data"].get("train_test_overlap", 0)
    headers = ["arm", "test accuracy", "95 % interval", "macro F1", "chosen epoch", "parameters", "time"]
    headers[3:3] = ["without shared texts"] if overlap else []
    rows = []
    for name, arm in results["arms"].items():
        low, high = arm["test_accuracy"]["interval"]
        parameters = arm["parameters"]
        row: list[object] = [
            shown(name),
            percent(arm["test_accuracy"]["mean"]),
            f"{100 * low:.1f} to {100 * high:.1f}",
            f"{arm['macro_f1']:.3f}",
            ", ".join(str(epoch) for epoch in arm["chosen_epoch"]) or "–",
            f"{parameters:,}" if parameters is not None else "–",
            _seconds(sum(arm["seconds"]) / len(arm["seconds"])) if arm["seconds"] else "–",
        ]
        without = arm["without_overlap"]
        row[3:3] = [percent(without) if without is not None else "–"] if overlap else []
        rows.append(row)
    note = "Accuracy and macro F1 of neural arms are means over the seeds; the time is the mean cost of one run."
    if any(name.startswith(FROZEN) for name in results["arms"]):
        note += " Frozen: logistic regression on the vectors that the body makes of the texts before any fine-tuning."
    both = {name: np.mean(arm["weights"], axis=0) for name, arm in results["arms"].items() if "weights" in arm}
    if both:
        told = "; ".join(f"{shown(name)}: body {body:.2f}, TF-IDF {words:.2f}" for name, (body, words) in both.items())
        note += (
            " A body and TF-IDF together: the logarithms of their probabilities are summed, with weights that have the "
            f"lowest loss on validation ({told}, mean over the seeds). They also make answers surer or less sure, so "
            "that their sizes do not tell who matters more; 0 is left out."
        )
    bodies = results.get("pretraining", {})
    if len(set(results["scratch"].values())) > 1:
        told = ", ".join(f"{own} for {name}" for name, own in results["scratch"].items())
        note += f" Each form (direction, shape, tokenizer, settings) has a scratch arm of its own: {told}."
    if bodies:
        times = {name: "imported" if seconds is None else _seconds(seconds) for name, seconds in bodies.items()}
        took = ", ".join(f"{name} {told}" for name, told in times.items())
        note += f" Pretraining, which is not counted, took: {took}."
    return section("The arms", cards(headers, rows), tag("p", note, kind="note"))


def _differences(results: Results) -> Html:
    entries = results["differences"]
    if not entries:
        return Html("")
    reach = max(abs(edge) for entry in entries for edge in (*entry["interval"], entry["mean"]))
    words = {"above": "better", "below": "worse", "even": "not told apart"}
    rows = []
    for entry in entries:
        low, high = entry["interval"]
        a = shown(entry["a"])
        rows.append(
            [
                f"{f'({a})' if ' + ' in a else a} − {shown(entry['b'])}",
                f"{points(entry['mean'], signed=True)} points",
                forest(entry["mean"], low, high, reach),
                f"{points(low)} to {points(high)}",
                p_value(entry["p"]),
                words[outcome(entry)],
            ]
        )
    note = "Both arms answer the same texts. “Better” and “worse” only where the interval leaves zero out."
    headers = ["pair", "difference", "around zero", "95 % interval", "p", "reading"]
    return section("Paired differences", cards(headers, rows), tag("p", note, kind="note"))


def _reach(results: Results) -> Html:
    if not results.get("reach"):
        return Html("")
    rows = []
    for name, entry in results["reach"].items():
        if not entry:
            reached = ["not reached", "–"]
        elif entry["epochs"] == 0:  # then scratch itself has learnt nothing
            reached = ["before any training", "–"]
        else:
            reached = [str(entry["epochs"]), _seconds(entry["seconds"])]
        rows.append([name, *reached])
    targets = ", ".join(f"{name} {percent(target)}" for name, target in results["reach_target"].items())
    own = "it" if len(results["reach_target"]) == 1 else "that of its form"
    return section(
        "How soon scratch's best is reached",
        tag("p", f"Scratch's best mean validation accuracy: {targets}. Until an arm's mean reaches {own}:"),
        table(["arm", "epochs", "time"], rows),
        tag("p", "Time of fine-tuning; pretraining is not counted.", kind="note"),
    )


def _label_curve(results: Results) -> Html:
    curves = results.get("label_curve")
    if not curves:
        return Html("")
    sizes = sorted({point["labels"] for curve in curves.values() for point in curve})
    rows = []
    for name, curve in curves.items():
        means = {point["labels"]: percent(point["mean"]) for point in curve}
        rows.append([shown(name), *(means.get(size, "–") for size in sizes)])
    return section(
        "With fewer labels",
        _figure(labels_figure, results, "Test accuracy against the number of labelled training texts"),
        table(["arm", *(f"{size:,} labels" for size in sizes)], rows),
        tag(
            "p",
            f"Labels to learn from; all {results['data']['valid']:,} validation texts choose epoch, C and weights.",
            kind="note",
        ),
    )


def _classes(results: Results) -> Html:
    parts = []
    for name, arm in results["arms"].items():
        if name == "majority":
            continue
        rows = [
            [label, *(f"{score[key]:.3f}" for key in ("precision", "recall", "f1")), f"{score['support']:,}"]
            for label, score in arm["per_class"].items()
        ]
        scores = table(["class", "precision", "recall", "F1", "texts"], rows)
        matrix = confusion_table(results["labels"], arm["confusion"])
        # Up to four classes both tables fit side by side.
        kind = "pair" if len(results["labels"]) <= 4 else ""
        parts.append(tag("h3", shown(name)))
        parts.append(tag("div", tag("div", scores), tag("div", matrix), kind=kind))
    note = "Neural arms: the predictions of all seeds together; confusion counts are summed over the seeds."
    return section("Class by class", *parts, tag("p", note, kind="note"))


def _mistakes(results: Results) -> Html:
    parts = []
    for name, arm in results["arms"].items():
        if name == "majority" or not arm["mistakes"]:
            continue
        quotes = [_mistake(mistake, len(arm["test_accuracy"]["by_seed"])) for mistake in arm["mistakes"]]
        parts.append(tag("details", tag("summary", shown(name)), *quotes))
    return section("The most confident mistakes", *parts) if parts else Html("")


def _mistake(mistake: dict[str, Any], seeds: int) -> Html:
    words = " ".join(mistake["text"].split())
    excerpt = words if len(words) <= _EXCERPT else words[: _EXCERPT - 1].rstrip() + "…"
    of = f", {mistake['seeds']} of {seeds} seeds" if seeds > 1 else ""
    answer = f"gold {mistake['gold']}, predicted {mistake['predicted']}"
    return tag("blockquote", excerpt, Html("<br>"), tag("small", f"{answer} ({percent(mistake['probability'])}{of})"))


def _data(results: Results) -> Html:
    data = results["data"]
    counts = ", ".join(f"{data[name]:,} {name}" for name in ("train", "valid", "test") if name in data)
    parts = [tag("p", f"Texts: {counts}. Classes: {', '.join(results['labels'])}.")]
    shared = data.get("train_test_overlap", 0)
    if shared:
        note = f"{shared:,} of the {data['test']:,} test texts also stand in train; the table of arms"
        parts.append(tag("p", f"{note} gives the accuracy without them.", kind="warning"))
    else:
        parts.append(tag("p", "No test text stands in train."))
    findings = [
        tag("li", tag("strong", finding["severity"], kind=finding["severity"]), ": ", finding["message"])
        for finding in data.get("findings", [])
    ]
    parts.append(tag("ul", *findings) if findings else tag("p", "The checks before training found nothing else."))
    files = [[name, str(path)] for name, path in data.get("files", {}).items()]
    return section("The data", *parts, *([table(["part", "file"], files)] if files else []))


def _method(results: Results) -> Html:
    baseline = results["baseline"]
    lines = [
        "Epochs are chosen on validation, never on test: each run's test accuracy is the one at its own "
        "best validation epoch (among equals the one with the lower loss). A run that stopped early keeps "
        "its last score in the curves.",
        "95 % intervals come from a bootstrap that resamples both the seeds and the test texts; for a "
        "difference the two arms share the resampled texts.",
        "p comes from a paired permutation test, two-sided: the signs of each text's difference in "
        "seed-averaged correctness are flipped at random. It asks about these runs on other texts; the "
        "interval also allows for other seeds, so that the two need not agree where they are close to the line.",
        "All arms learn from the same labels and see the test texts only to be measured.",
    ]
    if baseline:
        lines.append(f"{baseline['name']}: words 1-2 and characters 2-5, C = {baseline['c']:g} chosen on validation.")
    return section("How it was measured", tag("ul", *(tag("li", line) for line in lines)))


def _setting(results: Results) -> Html:
    settings = dict(results["settings"])
    training = settings.pop("training", {})
    known = settings | training | results["versions"]
    rows = [[name.replace("_", " "), _told(value)] for name, value in known.items()]
    return section("Settings and versions", table(["name", "value"], rows)) if rows else Html("")


def _told(value: object) -> str:
    """Write a setting as a person would."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(inner)}" for name, inner in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value)) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
