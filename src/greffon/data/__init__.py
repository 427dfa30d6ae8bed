"""From text files to token ids: readers, tokenizers, stores, splits, batching, lint. Knows no torch."""
