"""Clusters of the texts by their frozen vectors, coarse and fine: what a cold start and diversity are chosen by."""

from dataclasses import dataclass

import numpy as np

from greffon.core.rng import derive

COARSEST, FINEST = 8, 1024
_SAMPLE = 20_000
"""Texts that the centres are fitted on, at most: more of them move a centre very little."""
_TOGETHER = 8192


@dataclass(frozen=True)
class Clusters:
    """One partition of the texts into `count` clusters."""

    count: int
    members: np.ndarray
    """Cluster of each text, (N,)."""
    distances: np.ndarray
    """Squared distance of each text to the centre of its cluster, (N,): the smaller, the more typical."""


def unit(vectors: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Centre vectors and bring each to length one."""
    shifted = vectors - centre
    lengths = np.linalg.norm(shifted, axis=1, keepdims=True)
    scaled: np.ndarray = (shifted / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def centre_of(vectors: np.ndarray) -> np.ndarray:
    """Return the mean of vectors that may be memory-mapped."""
    total = np.zeros(vectors.shape[1])
    for first in range(0, len(vectors), _TOGETHER):
        total += vectors[first : first + _TOGETHER].sum(axis=0, dtype=np.float64)
    return (total / max(1, len(vectors))).astype(np.float32)


def cluster(vectors: np.ndarray, seed: int) -> list[Clusters]:
    """Partition the texts into 8, 16, 32, … clusters, at most one for two texts."""
    from sklearn.cluster import MiniBatchKMeans

    n = len(vectors)
    centre = centre_of(vectors)
    chosen = np.sort(np.random.default_rng(derive(seed, "clusters")).permutation(n)[:_SAMPLE])
    sample = unit(vectors[chosen], centre)
    found, count = [], min(COARSEST, max(1, n))
    while True:
        model = MiniBatchKMeans(
            count, n_init=1, max_iter=20, batch_size=2048, random_state=derive(seed, "clusters", count) % 2**32
        ).fit(sample)
        found.append(_assign(vectors, centre, model.cluster_centers_.astype(np.float32)))
        if 2 * count > min(FINEST, n // 2):
            return found
        count *= 2


def _assign(vectors: np.ndarray, centre: np.ndarray, centres: np.ndarray) -> Clusters:
    members, distances = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    squares = (centres**2).sum(axis=1)
    for first in range(0, len(vectors), _TOGETHER):
        part = unit(vectors[first : first + _TOGETHER], centre)
        away = squares - 2 * part @ centres.T  # (n, K), but for the text's own square
        nearest = away.argmin(axis=1)
        members[first : first + len(part)] = nearest
        distances[first : first + len(part)] = away[np.arange(len(part)), nearest] + (part**2).sum(axis=1)
    return Clusters(len(centres), members, distances)
