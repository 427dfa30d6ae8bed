"""Presets: named shapes with the training that suits them. Variants derive from each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from greffon.core.config import Graft, PretrainingObjective, Shape, Training, override
from greffon.core.errors import UserError, did_you_mean

CONTRASTIVE_VOCAB_SIZE = 16_000
"""Tokens of a vocabulary for contrasting documents (docs/findings.md)."""


@dataclass(frozen=True)
class Preset:
    """A shape, how to train it, how to graft a head on it, and the objectives it serves."""

    shape: Shape
    training: Training
    graft: Graft
    finetuning: Training
    finetuning_dropout: float
    adaptation: Training
    contrastive: Training
    objectives: tuple[str, ...]
    vocab_size: int = 8000
    encoder_shape: Shape | None = None
    """The shape of a body that reads both ways, where it differs from that of a causal one."""

    contrastive_layers: int | None = None
    """Number of layers of a body that contrasts documents, where it differs from that of others."""
    short_text_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of a body that contrasts documents as short as a sentence, where they differ from those of longer ones."""

    def shape_for(self, objective: str, *, short_texts: bool = False) -> Shape:
        """Return the shape of a body that an objective trains, on documents as short as a sentence or longer ones."""
        if objective == "contrastive" and self.contrastive_layers is not None:
            shape = replace(self.encoder_shape or self.shape, layers=self.contrastive_layers)
            return override(shape, self.short_text_sizes if short_texts else {})
        if self.encoder_shape is not None and objective in ("masked", "contrastive"):
            return self.encoder_shape
        return self.shape

    def vocab_size_for(self, objective: str) -> int:
        """Return the size of the vocabulary: a contrast of documents is about words, and wants more of them whole."""
        return max(CONTRASTIVE_VOCAB_SIZE, self.vocab_size) if objective == "contrastive" else self.vocab_size

    def training_for(self, objective: str) -> Training:
        """Return how the shape is pretrained with an objective."""
        return self.contrastive if objective == "contrastive" else self.training


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
        finetuning=Training(batch_size=16, optimizer="adamw", learning_rate=1e-3, warmup_steps=20),
        finetuning_dropout=0.1,
        adaptation=Training(learning_rate=2e-3, muon_learning_rate=2e-3, warmup_steps=20, steps=300, patience=3),
        contrastive=Training(batch_size=64, learning_rate=1e-4, muon_learning_rate=1e-2),
        objectives=("causal", "masked", "contrastive"),
    )


def auto() -> Preset:
    """Build the default of pretraining: the shape that suits the objective and the text.

    A body of one layer contrasts documents better than deeper ones that read less text in the same time. It is wider
    where the documents are short: the mean of few words keeps what each of them says (docs/findings.md). For other
    objectives it is `compact`.
    """
    return replace(
        compact(),
        contrastive_layers=1,
        short_text_sizes={"hidden_size": 512, "heads": 8, "intermediate_size": 512},
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


PRESETS: dict[str, Callable[[], Preset]] = {
    "auto": auto,
    "compact": compact,
    "lab": lab,
    "small": small,
    "base": base,
    "bert": bert,
    "bert-mini": bert_mini,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "gpt2-mini": gpt2_mini,
    "llama": llama,
    "modernbert": modernbert,
    "marian": marian,
    "marian-small": marian_small,
    "mbart": mbart,
    "m2m100": m2m100,
}
DEFAULTS = {"seq2seq": "small"}
"""The preset of an objective where none is named; of all others, `auto`."""


def preset(name: str, objective: str) -> Preset:
    """Look up a preset for an objective; another pairing is an error that names the choices."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}")
    found = PRESETS[name]()
    if objective not in found.objectives:
        fitting = [other for other, make in PRESETS.items() if objective in make().objectives]
        if not fitting:
            raise UserError(f"unknown objective {objective!r}{did_you_mean(objective, get_args(PretrainingObjective))}")
        raise UserError(
            f"preset {name!r} serves {', '.join(found.objectives)}, not {objective}; "
            f"for {objective} choose {' or '.join(fitting)}"
        )
    return found
