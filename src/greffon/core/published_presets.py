"""Presets of published models, whose checkpoints can be imported, and of small models of the same form."""

from dataclasses import replace

from greffon.core.graft import Graft
from greffon.core.own_presets import base, compact, small
from greffon.core.preset import Preset
from greffon.core.shape import Shape


def bert() -> Preset:
    """Build BERT-base as it was published: what an imported encoder is fine-tuned like."""
    shape = Shape(
        layers=12,
        hidden_size=768,
        heads=12,
        intermediate_size=3072,
        activation="gelu",
        norm="layer",
        norm_place="post",
        positions="learned",
        bias=True,
        tie_embeddings=True,
        dropout=0.1,
        context=512,
        segments=2,
        scale_embeddings=False,
        embedding_norm=True,
        norm_epsilon=1e-12,
        head_transform=True,
        head_bias=True,
    )
    default = compact()
    careful = replace(default.finetuning, learning_rate=5e-5, warmup_steps=100)
    return replace(
        default,
        shape=shape,
        encoder_shape=None,
        training=replace(
            default.training, optimizer="adamw", learning_rate=1e-4, weight_decay=0.01, warmup_steps=10_000
        ),
        graft=Graft(pooling="cls", pooler_activation="tanh"),
        finetuning=careful,
        adaptation=replace(default.adaptation, optimizer="adamw", learning_rate=5e-5),
        objectives=("masked",),
        vocab_size=30_522,
    )


def distilbert() -> Preset:
    """Build DistilBERT as it was published: half of BERT, without segments, and with ReLU in its class head."""
    full = bert()
    return replace(
        full, shape=replace(full.shape, layers=6, segments=0), graft=replace(full.graft, pooler_activation="relu")
    )


def bert_mini() -> Preset:
    """Build an encoder that fits BERT exactly and trains on two CPU cores."""
    full = bert()
    return replace(
        full,
        shape=replace(full.shape, layers=4, hidden_size=256, heads=4, intermediate_size=1024, context=128),
        training=replace(full.training, learning_rate=5e-4, warmup_steps=200),
        finetuning=replace(full.finetuning, learning_rate=3e-4, warmup_steps=20),
        adaptation=replace(full.adaptation, learning_rate=3e-4),
        vocab_size=8000,
    )


def gpt2() -> Preset:
    """Build GPT-2 (small) as it was published: what an imported decoder is fine-tuned like."""
    encoder = bert()
    shape = replace(
        encoder.shape,
        activation="gelu-tanh",
        norm_place="pre",
        context=1024,
        segments=0,
        embedding_norm=False,
        norm_epsilon=1e-5,
        head_transform=False,
        head_bias=False,
    )
    graft = Graft(pooling="last", class_bias=False)
    return replace(encoder, shape=shape, graft=graft, objectives=("causal",), vocab_size=50_257)


def gpt2_mini() -> Preset:
    """Build a decoder that fits GPT-2 exactly and trains on two CPU cores."""
    full, mini = gpt2(), bert_mini()
    return replace(
        full,
        shape=replace(full.shape, layers=4, hidden_size=256, heads=4, intermediate_size=1024, context=256, dropout=0.0),
        training=compact().training,
        finetuning=mini.finetuning,
        adaptation=mini.adaptation,
        vocab_size=8000,
    )


def llama() -> Preset:
    """Build SmolLM2-135M, a small Llama: what an imported decoder with rotary positions is fine-tuned like."""
    shape = Shape(
        layers=30,
        hidden_size=576,
        heads=9,
        key_value_heads=3,
        intermediate_size=1536,
        activation="swiglu",
        norm="rms",
        rope_theta=100_000.0,
        context=8192,
        scale_embeddings=False,
    )
    return replace(gpt2(), shape=shape, vocab_size=49_152)


def modernbert() -> Preset:
    """Build ModernBERT-base: what an imported encoder with rotary positions is fine-tuned like."""
    shape = Shape(
        layers=22,
        hidden_size=768,
        heads=12,
        intermediate_size=1152,
        activation="geglu",
        rope_theta=160_000.0,
        local_attention=128,
        context=8192,
        scale_embeddings=False,
        embedding_norm=True,
        first_norm=False,
        head_transform=True,
        head_bias=True,
    )
    graft = Graft(pooling="cls", pooler_activation="gelu", pooler_bias=False, pooler_norm=True)
    return replace(bert(), shape=shape, graft=graft, vocab_size=50_368)


def marian() -> Preset:
    """Build the Marian model of OPUS-MT: the base model with SiLU, and a bias on the tied head."""
    paper = base()
    shape = replace(paper.shape, activation="silu", positions="sinusoidal-halves", context=512, head_bias=True)
    return replace(paper, shape=shape, vocab_size=58_101)


def marian_small() -> Preset:
    """Build a translator that fits Marian exactly, of the size of `small`."""
    full, size = marian(), small()
    shape = replace(
        full.shape,
        layers=size.shape.layers,
        hidden_size=size.shape.hidden_size,
        heads=size.shape.heads,
        intermediate_size=size.shape.intermediate_size,
        dropout=size.shape.dropout,
        context=size.shape.context,
    )
    # Post-norm layers want a gentler start than Muon's.
    training = replace(full.training, learning_rate=1e-3, warmup_steps=400, evaluate_every=size.training.evaluate_every)
    return replace(size, shape=shape, training=training)


def mbart() -> Preset:
    """Build mBART-50 as it was published: pre-norm sides with normalized embeddings, and learned positions."""
    paper = marian()
    shape = replace(
        paper.shape,
        layers=12,
        hidden_size=1024,
        heads=16,
        intermediate_size=4096,
        activation="gelu",
        norm_place="pre",
        positions="learned",
        position_offset=2,
        embedding_norm=True,
        context=1024,
    )
    return replace(paper, shape=shape, vocab_size=250_054)


def m2m100() -> Preset:
    """Build M2M100 (418M) as it was published: like mBART, with sinusoidal positions; NLLB has this form, too."""
    large = mbart()
    shape = replace(
        large.shape,
        activation="relu",
        positions="sinusoidal-tensor2tensor",
        position_offset=1,  # they count from the padding, which tokenizers made here have at 0
        embedding_norm=False,
        head_bias=False,
        untied_head_bias=False,
    )
    return replace(large, shape=shape, vocab_size=128_112)
