"""The architecture of a body; impossible ones are refused when they are described."""

from dataclasses import dataclass

from greffon.core.choices import Activation, Norm, NormPlace, Positions, RopeScaling
from greffon.core.errors import UserError, check_at_least, out_of_range, setting

GATED = ("swiglu", "geglu")
"""Activations in which a third linear layer of the feed-forward network gates the first."""
LARGEST = {"layers": 1000, "hidden_size": 100_000, "heads": 1000, "intermediate_size": 1_000_000, "context": 1_000_000}
"""Beyond any machine that this package is for: a larger number is a typing mistake."""


@dataclass(frozen=True)
class Shape:
    """The architecture of a body."""

    layers: int = 3
    """Number of Transformer blocks."""
    hidden_size: int = 128
    """Width of the hidden states."""
    heads: int = 2
    """Number of attention heads; must divide the hidden size."""
    key_value_heads: int = 0
    """Number of heads of keys and values, each shared by a group of query heads; 0 for as many as `heads`."""
    head_dim: int = 0
    """Width of an attention head; 0 for the hidden size divided by the number of heads."""
    intermediate_size: int = 512
    """Width of the feed-forward network."""
    activation: Activation = "squared-relu"
    """Activation of the feed-forward network."""
    norm: Norm = "layer"
    """Normalization: LayerNorm or RMSNorm."""
    norm_place: NormPlace = "pre"
    """Normalize before each sublayer (pre) or after it (post)."""
    positions: Positions = "rotary"
    """Position encoding."""
    bias: bool = False
    """Biases in linear layers and layer norms."""
    qkv_bias: bool = False
    """Biases of queries, keys and values, where other layers have none (Qwen2)."""
    qk_norm: bool = False
    """Normalize the queries and keys of each head by RMSNorm (Qwen3)."""
    rope_theta: float = 10_000.0
    """Base of the wavelengths of rotary positions."""
    partial_rotary_factor: float = 1.0
    """Fraction of each head's features that rotary positions rotate (GPT-NeoX: 0.25)."""
    rope_scaling: RopeScaling = "none"
    """Stretch rotary positions for a longer context: all alike (linear), or the slow ones alone (llama3)."""
    rope_factor: float = 1.0
    """Factor by which rotary positions are stretched."""
    rope_low_freq_factor: float = 1.0
    """Turns within the original context up to which wavelengths are fully stretched (llama3)."""
    rope_high_freq_factor: float = 4.0
    """Turns within the original context from which wavelengths are not stretched (llama3)."""
    rope_original_context: int = 8192
    """Context before rotary positions were stretched (llama3)."""
    local_attention: int = 0
    """Window of local attention, in tokens: half to each side, or all to the left in a causal body; 0 for none."""
    global_attention_every: int = 3
    """With local attention, every n-th layer, from the first on, attends to the whole document."""
    local_rope_theta: float = 10_000.0
    """Base of the wavelengths of rotary positions in layers with local attention."""
    parallel_residual: bool = False
    """Let attention and the feed-forward network read the same states, and add both (GPT-NeoX)."""
    first_norm: bool = True
    """Normalize before the attention of the first block; ModernBERT, which normalizes the embeddings, does not."""
    tie_embeddings: bool = True
    """Use the token embedding as the output matrix of the vocabulary head."""
    dropout: float = 0.0
    """Dropout probability inside the body."""
    context: int = 256
    """Maximum sequence length, in tokens."""
    segments: int = 0
    """Number of segment embeddings; 0 for none."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of the hidden size."""
    embedding_norm: bool = False
    """Normalize the embeddings before the first block, as BERT does."""
    norm_epsilon: float = 1e-5
    """Epsilon that normalization adds to the variance."""
    position_offset: int = 0
    """Number of learned or tensor2tensor positions before the first one in use (RoBERTa, M2M100: 2)."""
    head_transform: bool = False
    """Put a dense layer, an activation and a norm before the vocabulary head, as BERT does."""
    head_bias: bool = False
    """Bias of a vocabulary head with tied embeddings (BERT, Marian)."""
    untied_head_bias: bool = True
    """Bias of a vocabulary head with a matrix of its own, where `bias` is on (GPT-NeoX has none)."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "heads", "intermediate_size", "context"):
            check_at_least(name, getattr(self, name), 1)
            if getattr(self, name) > LARGEST[name]:
                raise out_of_range(name, getattr(self, name), f"choose {LARGEST[name]} at most")
        if not 0 <= self.segments <= LARGEST["layers"]:
            raise out_of_range("segments", self.segments, "choose 0, or 2 for pairs of texts")
        if not 0 <= self.position_offset <= LARGEST["layers"]:
            raise out_of_range("position_offset", self.position_offset, "choose 0 or more")
        if not 0 < self.norm_epsilon < 1:
            raise out_of_range("norm_epsilon", self.norm_epsilon, "choose a small number above 0, such as 1e-5")
        if not self.head_dim and self.hidden_size % self.heads:
            raise UserError(
                f"{setting('hidden_size', self.hidden_size)} cannot be cut into {self.heads} heads; "
                "choose a number that divides it"
            )
        if not 0 <= self.dropout < 1:
            raise out_of_range("dropout", self.dropout, "choose a number from 0 up to, not including, 1")
        self._check_attention()
        self._check_rope()
        if self.parallel_residual and self.norm_place == "post":
            parallel = setting("parallel_residual", True)
            raise UserError(f"{parallel} needs {setting('norm_place', 'pre')}; choose one of the two")
        if not self.first_norm and (self.norm_place == "post" or not self.embedding_norm):
            raise UserError(
                f"{setting('first_norm', False)} needs {setting('norm_place', 'pre')} and "
                f"{setting('embedding_norm', True)}, as in ModernBERT"
            )

    def _check_attention(self) -> None:
        """Refuse heads that cannot be formed, and windows without a width."""
        if not 0 <= self.head_dim <= LARGEST["hidden_size"]:
            raise out_of_range("head_dim", self.head_dim, f"choose 0, or a width of {LARGEST['hidden_size']} at most")
        if self.key_value_heads < 0 or self.heads % self.groups:
            wanted = f"choose 0, or a number that divides the {self.heads} heads"
            raise out_of_range("key_value_heads", self.key_value_heads, wanted)
        if not 0 <= self.local_attention <= LARGEST["context"]:
            raise out_of_range("local_attention", self.local_attention, "choose 0, or a window of tokens such as 128")
        if not 1 <= self.global_attention_every <= LARGEST["layers"]:
            raise out_of_range("global_attention_every", self.global_attention_every, "choose 1 or more")

    def _check_rope(self) -> None:
        """Refuse rotary positions that turn no pairs of features, or by no finite angle."""
        if self.positions != "rotary":
            return
        if self.rotated < 2 or self.rotated % 2:
            raise UserError(
                f"rotary positions turn pairs of features, but {self.rotated} of a head's {self.head_width} features "
                "would turn; choose an even number"
            )
        for name in ("rope_theta", "local_rope_theta", "rope_factor", "rope_low_freq_factor", "rope_high_freq_factor"):
            if not 0 < getattr(self, name) < 1e12:
                raise out_of_range(name, getattr(self, name), "choose a number above 0")
        if self.rope_low_freq_factor >= self.rope_high_freq_factor:
            wanted = f"choose a number below {setting('rope_high_freq_factor', self.rope_high_freq_factor)}"
            raise out_of_range("rope_low_freq_factor", self.rope_low_freq_factor, wanted)
        check_at_least("rope_original_context", self.rope_original_context, 1)

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.head_dim or self.hidden_size // self.heads

    @property
    def numbers_texts(self) -> bool:
        """Whether the two texts of a pair are of different segments; RoBERTa, known by its offset, has one for both."""
        return self.segments > 1 and not self.position_offset

    @property
    def groups(self) -> int:
        """Number of heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def rotated(self) -> int:
        """Number of features of a head that rotary positions rotate."""
        return int(self.head_width * self.partial_rotary_factor) if 0 < self.partial_rotary_factor <= 1 else 0

    def is_local(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends to a window alone."""
        return self.local_attention > 0 and layer % self.global_attention_every > 0


FREE = ("dropout", "context")
"""What fine-tuning may change in the shape of a body."""
