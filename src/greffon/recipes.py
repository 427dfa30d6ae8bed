"""Presets: named shapes with the training that suits them. Variants derive from each other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from greffon.config import Graft, Shape, Training
from greffon.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """A shape, how to train it, how to graft a class head on it, and the objectives it serves."""

    shape: Shape
    training: Training
    graft: Graft
    finetuning: Training
    finetuning_dropout: float
    adaptation: Training
    objectives: tuple[str, ...]
    vocabulary: int = 8000


def compact() -> Preset:
    """Build the default: the most bits per byte for a minute of two CPU cores (docs/experiments.md)."""
    return Preset(
        shape=Shape(),
        training=Training(),
        graft=Graft(),
        finetuning=Training(rows=16, optimiser="adamw", rate=1e-3, warmup=20),
        finetuning_dropout=0.1,
        adaptation=Training(rate=2e-3, matrix_rate=2e-3, warmup=20, steps=300),
        objectives=("causal", "masked"),
    )


def lab() -> Preset:
    """Build the founding model, exactly: what a first course on Transformers builds."""
    shape = Shape(
        layers=4,
        width=200,
        heads=2,
        feed_forward=200,
        activation="relu",
        norm="layer",
        norm_place="post",
        positions="sinusoidal",
        bias=True,
        tied=False,
        dropout=0.1,
        context=256,
    )
    default = compact()
    return replace(
        default,
        shape=shape,
        training=replace(default.training, optimiser="adamw", rate=1e-3, warmup=200),
        graft=Graft(pooling="last"),
        finetuning=replace(default.finetuning, rate=3e-4),
        adaptation=replace(default.adaptation, optimiser="adamw", rate=3e-4),
    )


def base() -> Preset:
    """Build the base model of "Attention is all you need": 6 + 6 layers, three-way tied embeddings."""
    shape = Shape(
        layers=6,
        width=512,
        heads=8,
        feed_forward=2048,
        activation="relu",
        norm="layer",
        norm_place="post",
        positions="sinusoidal",
        bias=True,
        tied=True,
        dropout=0.1,
        context=256,
    )
    training = Training(
        batch_tokens=4096,
        optimiser="adamw",
        rate=7e-4,  # 512 ** -0.5 × 4000 ** -0.5
        warmup=4000,
        decay="inverse-sqrt",
        label_smoothing=0.1,
        evaluate_every=1000,
        average=5,
    )
    return replace(compact(), shape=shape, training=training, graft=Graft(), objectives=("seq2seq",), vocabulary=37_000)


def small() -> Preset:
    """Build the default for translation: tens of thousands of pairs, two CPU cores, an hour."""
    paper = base()
    shape = replace(
        paper.shape, layers=4, width=128, heads=4, feed_forward=512, norm_place="pre", dropout=0.2, context=128
    )
    training = replace(
        paper.training,
        optimiser="muon",
        rate=1e-2,
        matrix_rate=1e-2,
        warmup=100,
        decay="linear",
        evaluate_every=200,
    )
    return replace(paper, shape=shape, training=training, vocabulary=8000)


PRESETS: dict[str, Callable[[], Preset]] = {"compact": compact, "lab": lab, "small": small, "base": base}
DEFAULTS = {"seq2seq": "small"}
"""The preset of an objective where none is named; of all others, `compact`."""


def preset(name: str, objective: str) -> Preset:
    """Look up a preset for an objective; another pairing is an error that names the choices."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}")
    found = PRESETS[name]()
    if objective not in found.objectives:
        fitting = [other for other, make in PRESETS.items() if objective in make().objectives]
        raise UserError(
            f"preset {name!r} serves {' and '.join(found.objectives)}, not {objective}; "
            f"for {objective} choose {' or '.join(fitting)}"
        )
    return found
