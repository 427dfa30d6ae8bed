"""How a class head is grafted on a body."""

import math
from dataclasses import dataclass, field

from greffon.core.choices import FLAG, ClassWeights, HeadInit, LongTexts, PairReading, PoolerActivation, Pooling
from greffon.core.errors import UserError, out_of_range, setting


@dataclass(frozen=True)
class Graft:
    """How a class head is grafted on a body."""

    pooling: Pooling = "mean-max"
    """Hidden states that the head reads: of the first token, of the last one, their mean, or mean and maximum (default:
    mean for a head that starts as the probe, and for contrastive bodies)."""
    concat_embeddings: bool = False
    """Let the head also read the pooled token embeddings."""
    head_dropout: float = 0.0
    """Dropout probability of the pooled features."""
    adversarial_epsilon: float = 0.0
    """Size of adversarial perturbations of the embeddings, relative to their norm; 0 disables adversarial training."""
    freeze: bool = field(default=False, metadata=FLAG)
    """Freeze the body and train the head alone."""
    pooler_activation: PoolerActivation = "none"
    """Put a dense layer with this activation before the classes (BERT: tanh, DistilBERT: relu, ModernBERT: gelu)."""
    pooler_bias: bool = True
    """Bias of the dense layer before the classes."""
    pooler_norm: bool = False
    """Normalize after the dense layer and its activation, without a bias, as ModernBERT does."""
    class_bias: bool = True
    """Bias of the classes (GPT-2 has none)."""
    head_init: HeadInit = "random"
    """Start the head as logistic regression on the body's vectors (classes, labels), or at random (default: probe for a
    pretrained body, where the head has its form). The probe has a dense layer without activation, normalized, and
    is fine-tuned at a lower learning rate and with less patience."""
    pair_reading: PairReading = "auto"
    """Read the texts of a pair each on its own (towers), or as one text (cross); auto tries both for a third of the
    epochs, and keeps what is better on validation."""
    class_weights: ClassWeights = "none"
    """Weights of the classes in the loss: none, or inverse to their frequency (balanced)."""
    long_texts: LongTexts = "windows"
    """Texts longer than the context: read in windows, whose vectors are averaged, or truncated."""

    @property
    def reads_apart(self) -> bool:
        """Whether the two texts of a pair are read each on its own, as they are where nothing else was chosen."""
        return self.pair_reading != "cross"

    def __post_init__(self) -> None:
        if not 0 <= self.head_dropout < 1:
            raise out_of_range("head_dropout", self.head_dropout, "choose a number from 0 up to, not including, 1")
        if not 0 <= self.adversarial_epsilon < math.inf:
            raise out_of_range(
                "adversarial_epsilon", self.adversarial_epsilon, "choose 0 for none, or a number like 0.1"
            )
        for name, value, what in (("pooler_norm", True, "follows"), ("pooler_bias", False, "is that of")):
            if self.pooler_activation == "none" and getattr(self, name) == value:
                raise UserError(
                    f"{setting(name, value)} {what} a dense layer, and {setting('pooler_activation', 'none')} has "
                    "none; choose identity"
                )
