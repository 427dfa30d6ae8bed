"""Presets of our own, and the first Transformer. Variants derive from each other."""

from dataclasses import replace

from greffon.core.graft import Graft
from greffon.core.preset import Preset
from greffon.core.shape import Shape
from greffon.core.training import Training


def compact() -> Preset:
    """Build the default: few bits per byte for a minute of two CPU cores (docs/findings.md).

    A causal body has exactly Llama's form, one that reads both ways has ModernBERT's.
    """
    shape = Shape(intermediate_size=352)
    return Preset(
        shape=replace(shape, activation="swiglu", norm="rms"),
        encoder_shape=replace(
            shape,
            activation="geglu",
            scale_embeddings=False,
            embedding_norm=True,
            first_norm=False,
            head_transform=True,
            head_bias=True,
        ),
        training=Training(weight_decay=0.1),
        graft=Graft(),
        finetuning=Training(batch_size=16, optimizer="adamw", learning_rate=1e-3, warmup_steps=20, patience=5),
        finetuning_dropout=0.1,
        adaptation=Training(learning_rate=2e-3, muon_learning_rate=2e-3, warmup_steps=20, steps=300, patience=3),
        contrastive=Training(batch_size=64, learning_rate=1e-4, muon_learning_rate=1e-2),
        objectives=("causal", "masked", "contrastive"),
    )


def auto() -> Preset:
    """Build the default of pretraining: the shape that suits the objective and the text.

    A body of one layer contrasts documents better than deeper ones that read less text in the same time. From a small
    text, or sentences alone, blocks learn less about words than the analysis of the text finds at once: there the body
    is wider, and what its blocks add is made a small addition to its embeddings (docs/findings.md). For other
    objectives it is `compact`.
    """
    return replace(
        compact(),
        contrastive_layers=1,
        small_text_sizes={"hidden_size": 512, "heads": 8, "intermediate_size": 512},
        small_text_contrast={"block_share": 0.25},
    )


def lab() -> Preset:
    """Build the founding model, exactly: what a first course on Transformers builds."""
    shape = Shape(
        layers=4,
        hidden_size=200,
        heads=2,
        intermediate_size=200,
        activation="relu",
        norm="layer",
        norm_place="post",
        positions="sinusoidal",
        bias=True,
        tie_embeddings=False,
        dropout=0.1,
        context=256,
    )
    default = compact()
    return replace(
        default,
        shape=shape,
        encoder_shape=None,
        training=replace(default.training, optimizer="adamw", learning_rate=1e-3, weight_decay=0.0, warmup_steps=200),
        graft=Graft(pooling="last"),
        finetuning=replace(default.finetuning, learning_rate=3e-4),
        adaptation=replace(default.adaptation, optimizer="adamw", learning_rate=3e-4),
        contrastive=replace(default.contrastive, optimizer="adamw", learning_rate=3e-4, warmup_steps=200),
    )


def base() -> Preset:
    """Build the base model of "Attention is all you need": 6 + 6 layers, three-way tied embeddings."""
    shape = Shape(
        layers=6,
        hidden_size=512,
        heads=8,
        intermediate_size=2048,
        activation="relu",
        norm="layer",
        norm_place="post",
        positions="sinusoidal",
        bias=True,
        tie_embeddings=True,
        dropout=0.1,
        context=256,
    )
    training = Training(
        batch_tokens=4096,
        optimizer="adamw",
        learning_rate=7e-4,  # 512 ** -0.5 × 4000 ** -0.5
        warmup_steps=4000,
        lr_schedule="inverse-sqrt",
        label_smoothing=0.1,
        evaluate_every=1000,
        average_checkpoints=5,
    )
    return replace(
        compact(),
        shape=shape,
        encoder_shape=None,
        training=training,
        graft=Graft(),
        objectives=("seq2seq",),
        vocab_size=37_000,
    )


def small() -> Preset:
    """Build the default for translation: tens of thousands of pairs, two CPU cores, an hour."""
    paper = base()
    shape = replace(
        paper.shape,
        layers=4,
        hidden_size=128,
        heads=4,
        intermediate_size=512,
        norm_place="pre",
        dropout=0.2,
        context=128,
    )
    training = replace(
        paper.training,
        optimizer="muon",
        learning_rate=1e-2,
        muon_learning_rate=1e-2,
        warmup_steps=100,
        lr_schedule="linear",
        evaluate_every=200,
    )
    return replace(paper, shape=shape, training=training, vocab_size=8000)
