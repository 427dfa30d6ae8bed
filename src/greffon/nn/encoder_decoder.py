"""The encoder-decoder of "Attention is all you need".

One vocabulary and one embedding serve both sides, and the head where it is tied.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from greffon.core.shape import Shape
from greffon.nn.attention import KVCache
from greffon.nn.blocks import CrossBlock, embedding_norm, final_norm
from greffon.nn.body import Encoder, initialise, quiet_residuals
from greffon.nn.dropout import Dropout
from greffon.nn.masks import PADDING
from greffon.nn.positions import make_positions


@dataclass(frozen=True)
class Source:
    """The encoded source: keys and values for the cross-attention of each layer, and the padding mask."""

    layers: list[tuple[Tensor, Tensor]]  # (N, H, S, D) each
    mask: Tensor | None  # (N, 1, 1, S); None: nothing is padding

    def take(self, sentences: Tensor) -> "Source":
        """Keep some of the sentences."""
        layers = [(keys[sentences], values[sentences]) for keys, values in self.layers]
        return Source(layers, None if self.mask is None else self.mask[sentences])


class TargetCache:
    """The cache of decoding: the source of each sentence, and keys and values of each beam."""

    def __init__(self, source: Source, layers: list[KVCache]) -> None:
        self.source = source
        self.layers = layers
        self.filled = 0

    def take_beams(self, rows: Tensor) -> None:
        """Keep other beams of the same sentences; the source does not change."""
        for layer in self.layers:
            layer.take(rows)

    def take_sentences(self, sentences: Tensor, rows: Tensor) -> None:
        """Keep some of the sentences, and their rows of beams."""
        self.source = self.source.take(sentences)
        self.take_beams(rows)


class TargetDecoder(nn.Module):
    """The layers of the causal side, which attends to its own past and to the whole source."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.positions = make_positions(shape)
        self.embedding_norm = embedding_norm(shape)
        self.dropout = Dropout(shape.dropout)
        self.blocks = nn.ModuleList(CrossBlock(shape, layer) for layer in range(shape.layers))
        self.norm = final_norm(shape)
        self.apply(lambda module: initialise(module, shape.tie_embeddings or not shape.scale_embeddings))
        quiet_residuals(self.blocks)


class EncoderDecoder(nn.Module):
    """Source and target token ids in, hidden states of the target out."""

    def __init__(self, shape: Shape, vocab_size: int) -> None:
        super().__init__()
        self.shape = shape
        self.vocab_size = vocab_size
        self.hidden_size = shape.hidden_size
        self.encoder = Encoder(shape, vocab_size)
        self.decoder = TargetDecoder(shape)

    @property
    def embedding(self) -> nn.Embedding:
        """The shared embedding of both sides."""
        return self.encoder.embedding

    def encode(self, tokens: Tensor, document_ids: Tensor | None = None) -> Source:
        """Encode the source (N, S), and compute the keys and values of each decoder layer once."""
        hidden = self.encoder(tokens, document_ids)
        layers = [block.cross.keys_values(hidden, None) for block in self._blocks]
        return Source(layers, None if document_ids is None else (document_ids != PADDING)[:, None, None, :])

    @property
    def _blocks(self) -> list[CrossBlock]:
        return [block for block in self.decoder.blocks if isinstance(block, CrossBlock)]

    def _embed(self, tokens: Tensor, start: int) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device).unsqueeze(0)
        x = self.decoder.positions.add(self.encoder.token_embeddings(tokens), positions)
        x = self.decoder.dropout(self.decoder.embedding_norm(x))
        return x, self.decoder.positions.rotation(positions)

    def forward(self, source: Tensor, target: Tensor, source_document_ids: Tensor | None = None) -> Tensor:
        """Compute the hidden states of whole targets: (N, S) and (N, T), padded on the right → (N, T, W).

        `source_document_ids` marks the `PADDING` of the source. The target needs no mask for it: its padding is on
        the right, where no real position attends.
        """
        read = self.encode(source, source_document_ids)
        x, rotation = self._embed(target, 0)
        for block, (keys, values) in zip(self._blocks, read.layers, strict=True):
            x = block.attend(x, None, rotation, True, None)
            x = block.read_source(x, keys, values, read.mask)
        out: Tensor = self.decoder.norm(x)
        return out

    def new_cache(self, source: Source, beams: int, length: int) -> TargetCache:
        """Make an empty cache for `beams` targets of up to `length` tokens for each sentence."""
        rows, shape, device = beams * len(source.layers[0][0]), self.shape, self.embedding.weight.device
        layers = [KVCache(rows, shape.groups, length, shape.head_width, device) for _ in self._blocks]
        return TargetCache(source, layers)

    def decode_step(self, tokens: Tensor, cache: TargetCache) -> Tensor:
        """Compute the hidden state of the next token of each row (N × beams, 1), and add it to the cache."""
        x, rotation = self._embed(tokens, cache.filled)
        cache.filled += 1
        source = cache.source
        for block, layer, (keys, values) in zip(self._blocks, cache.layers, source.layers, strict=True):
            x = block.attend(x, None, rotation, False, layer)
            x = block.read_source(x, keys, values, source.mask)
        out: Tensor = self.decoder.norm(x)
        return out
