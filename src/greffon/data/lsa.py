"""Where token embeddings begin: latent semantic analysis of the text itself (Deerwester et al., 1990).

Tokens that stand in the same documents get similar directions, from a truncated singular value decomposition of
the document × token matrix: seconds of work that a contrastive objective would need minutes of training for. One
feature is kept for what says nothing: the more frequent a token, the more of its length lies there, so that the
mean over a text is not drowned by function words (the weights of Arora et al., 2017).
"""

from collections.abc import Iterable

import numpy as np

RARE = 5
"""Documents below which the direction of a token is noise, and"""
RARE_WEIGHT = 0.05
"""the share of its length that such a token's direction gets."""
SMOOTHING = 1e-3
"""Relative frequency at which a token's direction gets half of its length (Arora et al., 2017: 1e-3 to 1e-4)."""
SCALE = 0.1
"""Root mean square of the features: the size that embeddings have after some training."""
MOST_DOCUMENTS = 100_000
"""Documents that are analysed at most: memory stays bounded, and more change the directions little."""
ITERATIONS = 2
"""Power iterations of the randomised decomposition (Halko et al., 2011)."""


def lsa_embeddings(documents: Iterable[np.ndarray], vocab_size: int, hidden_size: int, seed: int) -> np.ndarray | None:
    """Return an embedding of each token, (vocab_size, hidden_size), or None where the text is too small for one."""
    from scipy.sparse import csr_matrix, diags
    from sklearn.utils.extmath import randomized_svd

    kept = [np.asarray(ids, dtype=np.int32) for ids, _ in zip(documents, range(MOST_DOCUMENTS), strict=False)]
    if min(len(kept), vocab_size) <= hidden_size:
        return None
    tokens = np.concatenate(kept)
    ends = np.cumsum([0, *map(len, kept)])
    matrix = csr_matrix((np.ones(len(tokens), np.float32), tokens, ends), shape=(len(kept), vocab_size))
    matrix.sum_duplicates()
    holders = np.bincount(matrix.indices, minlength=vocab_size) + 1.0  # documents that hold each token
    matrix.data = np.log1p(matrix.data)
    matrix = (matrix @ diags(np.log(len(kept) / holders).clip(0))).tocsr()
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()) + 1e-6
    matrix = (diags(1 / lengths) @ matrix).tocsr().astype(np.float32)
    _, sizes, directions = randomized_svd(matrix, hidden_size, n_iter=ITERATIONS, random_state=seed % 2**32)
    # The first direction is that of all documents together: it tells none from another.
    found = directions[1:].T * np.sqrt(sizes[1:])
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-8
    counts = np.bincount(tokens, minlength=vocab_size) + 1.0
    weights = SMOOTHING / (SMOOTHING + counts / counts.sum())
    weights[holders < RARE] = RARE_WEIGHT
    made = np.concatenate((np.sqrt(1 - weights**2)[:, None], found * weights[:, None]), axis=1)
    scaled: np.ndarray = (SCALE * hidden_size**0.5 * made).astype(np.float32)
    return scaled
