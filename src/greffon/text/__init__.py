"""Tokenizer, corpora, token store and batching: from text files to arrays of token ids."""
