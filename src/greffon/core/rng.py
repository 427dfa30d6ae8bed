"""Private random generators, derived from a seed and the place of use.

What a step sees never depends on what ran before it, so a run can be resumed at any step and two
processes draw the same numbers without communication. Nothing here touches a global generator.
"""

import hashlib

import numpy as np


def derive(seed: int, *where: int | str) -> int:
    """Return a 63-bit number that depends on the seed and the place only.

    >>> derive(0, "dropout", 7) == derive(0, "dropout", 7) != derive(0, "dropout", 8)
    True
    """
    text = "/".join(map(str, (seed, *where)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator(seed: int, *where: int | str) -> np.random.Generator:
    """Return a new NumPy generator for one place of use."""
    return np.random.default_rng(derive(seed, *where))


def _mix(x: np.ndarray, key: int) -> np.ndarray:
    """Scramble 64-bit numbers (SplitMix64's finaliser)."""
    x = (x ^ np.uint64(key)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def shuffled(indices: np.ndarray, n: int, key: int) -> np.ndarray:
    """Look up a random permutation of range(n) at some indices, in O(1) for each and without a table.

    A four-round Feistel network permutes the next power of four; results beyond n are permuted again
    until they are below n.

    >>> sorted(shuffled(np.arange(10), 10, key=3).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    half = np.uint64(max(1, (int(n - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    out = np.asarray(indices, dtype=np.uint64).copy()
    outside = np.ones(out.shape, dtype=bool)
    while outside.any():
        left, right = out[outside] >> half, out[outside] & low
        for turn in range(4):
            left, right = right, left ^ (_mix(right, derive(key, turn)) & low)
        out[outside] = (left << half) | right
        outside = out >= n
    return out.astype(np.int64)
