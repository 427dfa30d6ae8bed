"""`greffon show RUN`, of a comparison, too."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.options import Flag, Run
from greffon.cli.parsing import parse
from greffon.core.graft import Graft
from greffon.core.recipe import Masking


@dataclass(frozen=True)
class Args:
    """Describe a run or the result of a comparison."""

    run: Run
    """Run directory, or a directory created by `greffon compare`."""
    json: Flag = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Print the main facts of a run."""
    args = parse(Args, "show", words)
    if (args.run / "comparison.json").is_file():
        _show_comparison(args.run, args.json)
        return

    from greffon.core.json_results import json_text
    from greffon.runs.summary import show

    summary = show(args.run)
    if args.json:
        say_out(json_text(summary))
        return
    shape = summary.recipe.shape
    layers = f"{shape.layers} + {shape.layers}" if summary.objective == "seq2seq" else str(shape.layers)
    state = "finished" if summary.finished else f"stopped; go on with: greffon resume {summary.path}"
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in summary.scores.items())
    facts = {
        "run": summary.path,
        "objective": f"{summary.objective}, preset {summary.preset}",
        "body": (
            f"{layers} layers, hidden size {shape.hidden_size}, {shape.heads} heads, "
            f"intermediate size {shape.intermediate_size} ({shape.activation}), "
            f"{shape.norm_place}-norm, {shape.positions} positions, context {shape.context}"
        ),
        "masking": _masking(summary.recipe.masking),
        "parameters": f"{summary.parameters:,}",
        "vocabulary": f"{summary.vocab_size:,} tokens{', all in lower case' * summary.lowercase}",
        "text": ", ".join(summary.data),
        "task": summary.task,
        "labels": ", ".join(summary.labels),
        "from": summary.recipe.origin,
        "graft": _graft(summary.recipe.graft, summary.reads),
        "imported": summary.recipe.imported,
        "training": ""
        if summary.recipe.imported
        else f"{summary.steps_done:,} of {summary.steps:,} steps, {summary.seconds / 60:.1f} minutes ({state})",
        "best": scores or ("" if summary.recipe.imported else "nothing evaluated yet"),
        "changed": summary.changed,
    }
    for name, fact in facts.items():
        if fact:
            say_out(f"{name:<11} {fact}")


def _show_comparison(path: Path, as_json: bool) -> None:
    """Print the verdict of a comparison, and what each arm reached."""
    from greffon.comparison.compare import Comparison
    from greffon.comparison.other_tasks import TaskComparison, is_task_comparison

    if is_task_comparison(path):
        other = TaskComparison.open(path)
        if as_json:
            say_out(json.dumps(other.results.to_json(), ensure_ascii=False))
            return
        say_out(other.results.verdict)
        for name, each in other.results.arms.items():
            low, high = each.test_score.interval
            say_out(f"{name:<22} {each.test_score.mean:.3f} ({low:.3f} to {high:.3f})")
        say_out(f"report: {other.report}")
        return
    found = Comparison.open(path)
    if as_json:
        say_out(json.dumps(found.results.to_json(), ensure_ascii=False))
        return
    say_out(found.results.verdict)
    for name, arm in found.results.arms.items():
        reached = arm.test_accuracy
        low, high = reached.interval
        say_out(f"{name:<22} {reached.mean:.1%} ({low:.1%} to {high:.1%})")
    say_out(f"report: {found.report}")


def _graft(graft: Graft | None, reads: str) -> str:
    """Describe the class head and how it was trained."""
    if graft is None:
        return ""
    more = [", frozen body" * graft.freeze, ", token embeddings too" * graft.concat_embeddings]
    more += [f", adversarial epsilon {graft.adversarial_epsilon:g}"] if graft.adversarial_epsilon else []
    return f"the head reads {reads}{''.join(more)}"


def _masking(masking: Masking | None) -> str:
    """Describe the masking of a masked run."""
    if masking is None:
        return ""
    what = "whole words" if masking.whole_word_masking else "tokens"
    beside = ", next sentence" * masking.next_sentence
    return f"{masking.mask_rate:.0%} of {what}{beside}"
