import numpy as np
import pytest

from greffon.core.rng import generator
from greffon.data.lsa import SCALE, lsa_embeddings


def topics(number: int) -> list[np.ndarray]:
    """Documents of two topics: tokens 5-14 or 15-24, among frequent ones (0-4) that say nothing."""
    random = generator(0, "topics")
    return [
        np.concatenate((random.integers(0, 5, 20), random.integers(*((5, 15) if i % 2 else (15, 25)), 6)))
        for i in range(number)
    ]


def test_tokens_of_one_topic_point_the_same_way() -> None:
    made = lsa_embeddings(topics(400), 25, 8, seed=0)
    assert made is not None
    assert made.shape == (25, 8)
    unit = made[:, 1:] / np.linalg.norm(made[:, 1:], axis=1, keepdims=True)
    cosines = unit[5:] @ unit[5:].T
    same = np.kron(np.eye(2, dtype=bool), np.ones((10, 10), dtype=bool))
    assert cosines[same].mean() > cosines[~same].mean() + 0.15


def test_frequent_tokens_say_less_and_all_are_of_one_length() -> None:
    made = lsa_embeddings(topics(400), 25, 8, seed=0)
    assert made is not None
    np.testing.assert_allclose(np.sqrt((made**2).mean(axis=1)), SCALE, rtol=1e-4)
    said = np.linalg.norm(made[:, 1:], axis=1)
    assert said[:5].max() < said[5:].min()


def test_the_same_seed_gives_the_same_bits() -> None:
    first, second = (lsa_embeddings(topics(100), 25, 8, seed=3) for _ in range(2))
    assert first is not None
    assert np.array_equal(first, second)


@pytest.mark.parametrize(("documents", "vocab_size"), [(6, 25), (100, 8)])
def test_a_text_that_is_too_small_gives_none(documents: int, vocab_size: int) -> None:
    few = [ids % vocab_size for ids in topics(documents)]
    assert lsa_embeddings(few, vocab_size, 8, seed=0) is None
