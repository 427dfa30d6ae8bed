"""A model is a body and a head, and nothing more."""

import os
import shutil
from typing import Any

import torch
from torch import Tensor, nn

from greffon.core.errors import UserError, setting
from greffon.nn.blocks import Block
from greffon.nn.body import Body
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.quantize import prepack_linears, quantize_linears_int8


class Model(nn.Module):
    """A body with a head on it: `Model(body, VocabularyHead(body.hidden_size, vocab_size))`."""

    def __init__(self, body: Body | EncoderDecoder, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(
        self,
        tokens: Tensor,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        perturbation: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Return the head's logits, of tokens or of classes."""
        out: Tensor = self.head(self.states(tokens, document_ids, positions, perturbation, segments), document_ids)
        return out

    def states(
        self,
        tokens: Tensor,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        perturbation: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Return what the head reads: the hidden states, for some heads with the token embeddings beside them."""
        numbered = {} if segments is None else {"segments": segments}
        hidden: Tensor = self.body(tokens, document_ids, positions, perturbation=perturbation, **numbered)
        if getattr(self.head, "concat_embeddings", False):
            assert isinstance(self.body, Body)
            hidden = torch.cat((hidden, self.body.token_embeddings(tokens, perturbation)), dim=-1)  # (B, T, 2 W)
        return hidden

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def autocast_body(self, dtype: torch.dtype) -> None:
        """Let the body multiply matrices in a lower precision from now on; hidden states come out in fp32."""
        inner = self.body.forward

        def forward(*args: Any, **named: Any) -> Tensor:
            with torch.autocast(self.device.type, dtype):
                hidden: Tensor = inner(*args, **named)
            return hidden.float()

        self.body.forward = forward  # type: ignore[method-assign]

    def prepack(self) -> None:
        """Reorder large linear layers in memory for decoding token by token; afterwards the model cannot be trained."""
        prepack_linears(self)
        if isinstance(self.head, VocabularyHead):
            # Beam search needs the highest logits only.
            self.head.prepack(panels=isinstance(self.body, EncoderDecoder))

    def quantize_int8(self) -> None:
        """Quantize the body and a vocabulary head to 8-bit integers; afterwards the model cannot be trained."""
        quantize_linears_int8(self.body)
        if isinstance(self.head, VocabularyHead):
            self.head.quantize_int8()


def compile_blocks(model: Model) -> None:
    """Compile every block at its first use; names and weights do not change."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UserError(
            f"{setting('compile')} needs a C++ compiler, and there is no {compiler}; install one, or leave it out"
        )
    for module in model.modules():
        if isinstance(module, Block):
            module.compile()
