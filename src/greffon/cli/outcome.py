"""The line in which `pretrain`, `finetune` and `resume` end: where the run is, and how good it became."""

from greffon.inference.measures import measure_of
from greffon.runs.run import Run


def a_token(run: Run) -> str:
    """Say of which tokens a loss is the mean: with both sides in view they are easier, so the two do not compare."""
    return "a hidden token" if run.recipe.objective == "masked" else "a token"


def outcome(run: Run, epochs: int = 0) -> str:
    """Tell the scores of a run's best weights, and when it had them: in epochs, if it was asked for those."""
    best = run.scores
    metric = measure_of(run.recipe).metric if run.recipe.graft is not None else "accuracy"
    if run.recipe.objective == "contrastive":
        found = f"partner found for {best['accuracy']:.1%} of the held-out views, " if "accuracy" in best else ""
        told = f"{found}held-out loss {best['loss']:.3f} nats a view"
    elif metric in best:
        told = f"{_kind(best.get('cross_validated'))} {_measured(metric, best[metric])}"
        told += f", test {_measured(metric, best[f'test_{metric}'])}" if f"test_{metric}" in best else ""
    else:
        told = f"held-out loss {best['loss']:.3f} nats {a_token(run)}, {best['bits_per_byte']:.3f} bits per byte"
        told += f", pairs {best['pair_accuracy']:.1%} right" if "pair_accuracy" in best else ""
        told += f", BLEU {best['bleu']:.1f}" if "bleu" in best else ""
    when = _when(best["step"], run.recipe.training.steps, epochs)
    if run.recipe.graft is None or run.recipe.graft.head_init != "probe":
        return f"{run.path}: {told} (best {when})"
    if best["step"]:
        trained = "head" if run.recipe.graft.freeze else "body"
        probe = _probe_score(run, metric)
        return f"{run.path}: {told} (kept the fine-tuned {trained}: best {when}; the probe had {probe})"
    if best.get("cross_validated") == 0:
        return f"{run.path}: {told} (kept the probe of the frozen body: no label is left to judge fine-tuning by)"
    return f"{run.path}: {told} (kept the probe of the frozen body: no epoch of fine-tuning was better)"


def _probe_score(run: Run, metric: str) -> str:
    """Say how good the head was as it started, on the texts that chose the epoch."""
    if (selection := run.selection) is not None:
        return _measured(metric, selection["curve"][0][metric])
    first = next(entry["valid"] for entry in run.metrics() if "valid" in entry)
    return _measured(metric, first[metric])


def _kind(folds: int | None) -> str:
    """Say on which texts a measure was taken."""
    return "validation" if folds is None else "cross-validated" if folds else "training"


def _measured(metric: str, value: float) -> str:
    """Write a measure with its name.

    >>> _measured("accuracy", 0.5), _measured("mae", 0.25), _measured("micro_f1", 0.5)
    ('accuracy 50.0%', 'mean absolute error 0.250', 'micro F1 0.500')
    """
    if metric == "accuracy":
        return f"accuracy {value:.1%}"
    name = {"mae": "mean absolute error"}.get(metric, metric.replace("_", " ").replace("f1", "F1"))
    return f"{name} {value:.3f}"


def _when(step: int, steps: int, epochs: int) -> str:
    """Say when the best step was.

    >>> _when(240, 320, 0), _when(240, 320, 4), _when(200, 320, 4)
    ('at step 240', 'after epoch 3 of 4', 'after epoch 2.5 of 4')
    """
    if not epochs:
        return f"at step {step:,}"
    if not step:
        return "before the first epoch: no epoch was better, so the head is untrained"
    return f"after epoch {round(step * epochs / steps, 2):,g} of {epochs:,}"
