"""Where token embeddings begin: latent semantic analysis of the text itself (Deerwester et al., 1990).

Tokens that stand in the same documents get similar directions, from a truncated singular value decomposition of
the document × token matrix: seconds of work that a contrastive objective would need minutes of training for. Tokens
that share character n-grams share some of their directions, too, so that a rare form of a word learns from its
frequent ones (Bojanowski et al., 2017, with counts in the place of training).

All embeddings have one length. What a token says is in all features but the first, as much of its length as the
analysis found in it; the first feature takes the rest. So the mean over a text is not drowned by function words, nor by
rare tokens whose directions are noise, and no normalization of states can undo that.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

SCALE = 0.1
"""Root mean square of the features: the size that embeddings have after some training."""
MOST_DOCUMENTS = 100_000
"""Documents that should be analysed at most: memory stays bounded, and more change the directions little."""
ITERATIONS = 2
"""Power iterations of the randomised decomposition (Halko et al., 2011)."""
NGRAMS = (2, 5)
"""Lengths of the character n-grams, those of the TF-IDF baseline."""
NGRAM_WEIGHT = 0.1
"""Weight of the n-grams beside the token itself: of 0, 0.03, 0.1, 0.3, 1 and 3 the best on three corpora."""
RARE = 5
"""Documents below which the length of a token's direction is no measure for others."""
SATURATION = 0.9
"""Quantile of the lengths from which on a direction fills its embedding."""


def lsa_embeddings(
    documents: Iterable[np.ndarray], tokens: Sequence[str], hidden_size: int, seed: int
) -> np.ndarray | None:
    """Return an embedding of each token, (V, hidden_size), or None where the text is too small for one.

    `tokens` are the texts of the vocabulary's tokens; a special token has none.
    """
    from scipy.sparse import csr_matrix, diags
    from sklearn.utils.extmath import randomized_svd

    vocab_size = len(tokens)
    kept = [np.asarray(ids, dtype=np.int32) for ids in documents]
    if min(len(kept), vocab_size) <= hidden_size:
        return None
    ids, ends = np.concatenate(kept), np.cumsum([0, *map(len, kept)])
    matrix = csr_matrix((np.ones(len(ids), np.float32), ids, ends), shape=(len(kept), vocab_size))
    matrix.sum_duplicates()
    holders = np.bincount(matrix.indices, minlength=vocab_size) + 1.0  # documents that hold each token
    idf = np.log(len(kept) / holders).clip(0)
    matrix.data = np.log1p(matrix.data)
    matrix = (matrix @ diags(idf)).tocsr()
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()) + 1e-6
    matrix = (diags(1 / lengths) @ matrix).tocsr().astype(np.float32)
    _, sizes, directions = randomized_svd(matrix, hidden_size, n_iter=ITERATIONS, random_state=seed % 2**32)
    # The first direction is that of all documents together: it tells none from another.
    unweighted = np.divide(directions[1:], idf, out=np.zeros_like(directions[1:]), where=idf > 0).T
    spoken = (idf**2)[:, None] * unweighted + NGRAM_WEIGHT * _shared_by_ngrams(unweighted, tokens, holders / len(kept))
    strength = np.linalg.norm(spoken, axis=1)
    share = np.minimum(1.0, strength / (np.quantile(strength[holders > RARE], SATURATION) + 1e-12))[:, None]
    found = spoken * np.sqrt(sizes[1:])
    found *= share / (np.linalg.norm(found, axis=1, keepdims=True) + 1e-12)
    made = np.concatenate((np.sqrt(1 - share**2), found), axis=1)
    scaled: np.ndarray = (SCALE * hidden_size**0.5 * made).astype(np.float32)
    return scaled


def _shared_by_ngrams(directions: np.ndarray, tokens: Sequence[str], frequency: np.ndarray) -> np.ndarray:
    """Return for each token the sum over its character n-grams of the sum over all tokens that hold them.

    An n-gram is weighted by its inverse document frequency, squared, as a token is: the share of documents with any
    of its tokens, as if tokens came independently. `frequency` is the share of documents that hold each token.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    words: Any = [text if len(text.strip()) >= NGRAMS[0] else "" for text in tokens]
    counter = CountVectorizer(analyzer="char", ngram_range=NGRAMS, lowercase=False, min_df=2, binary=True)
    try:
        holds = counter.fit_transform(words).astype(np.float64)
    except ValueError:  # no n-gram stands in two tokens
        return np.zeros_like(directions)
    absent = np.exp(holds.T @ np.log1p(-np.minimum(frequency, 1 - 1e-9)))
    idf = -np.log(1 - absent + 1e-12).clip(max=0)
    shared: np.ndarray = holds @ ((idf**2)[:, None] * (holds.T @ directions))
    return shared
