"""A model is a body and a head, and visibly nothing more."""

from torch import Tensor, nn

from greffon.nn.body import Decoder


class Model(nn.Module):
    """A body with a head on it: `Model(body, VocabularyHead(body.width, vocabulary))`."""

    def __init__(self, body: Decoder, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(self, tokens: Tensor, documents: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Return what the head makes of the hidden states: logits of tokens or of classes."""
        out: Tensor = self.head(self.body(tokens, documents, positions), documents)
        return out
