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


PRESETS: dict[str, Callable[[], Preset]] = {"compact": compact, "lab": lab}


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
