"""The line in which `pretrain`, `finetune` and `resume` end: where the run is, and how good it became."""

from greffon.runs.run import Run


def a_token(run: Run) -> str:
    """Say of which tokens a loss is the mean: with both sides in view they are easier, so the two do not compare."""
    return "a hidden token" if run.recipe.objective == "masked" else "a token"


def outcome(run: Run, epochs: int = 0) -> str:
    """Tell the scores of a run's best weights, and when it had them: in epochs, if it was asked for those."""
    best = run.scores
    if "accuracy" in best:
        told = f"validation accuracy {best['accuracy']:.1%}"
        told += f", test accuracy {best['test_accuracy']:.1%}" if "test_accuracy" in best else ""
    else:
        told = f"held-out loss {best['loss']:.3f} nats {a_token(run)}, {best['bits_per_byte']:.3f} bits per byte"
        told += f", pairs {best['pair_accuracy']:.1%} right" if "pair_accuracy" in best else ""
        told += f", BLEU {best['bleu']:.1f}" if "bleu" in best else ""
    return f"{run.path}: {told} (best {_when(best['step'], run.recipe.training.steps, epochs)})"


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
