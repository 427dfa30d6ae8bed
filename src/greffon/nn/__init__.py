"""The network: bodies (token ids to hidden states) and heads (hidden states to logits)."""
