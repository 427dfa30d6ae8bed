import numpy as np
import pytest

from greffon.core.rng import generator
from greffon.data.lsa import SCALE, lsa_embeddings

TOKENS = ["!", "?", ".", ",", ";", *(chr(ord("a") + i) * 3 for i in range(20))]
"""No two of them share an n-gram."""


def topics(number: int) -> list[np.ndarray]:
    """Documents of two topics: tokens 5-14 or 15-24, among frequent ones (0-4) that say nothing."""
    random = generator(0, "topics")
    return [
        np.concatenate((random.integers(0, 5, 20), random.integers(*((5, 15) if i % 2 else (15, 25)), 6)))
        for i in range(number)
    ]


def test_tokens_of_one_topic_point_the_same_way() -> None:
    made = lsa_embeddings(topics(400), TOKENS, 8, seed=0)
    assert made is not None
    assert made.shape == (25, 8)
    unit = made[:, 1:] / (np.linalg.norm(made[:, 1:], axis=1, keepdims=True) + 1e-9)
    cosines = unit[5:] @ unit[5:].T
    same = np.kron(np.eye(2, dtype=bool), np.ones((10, 10), dtype=bool))
    assert cosines[same].mean() > cosines[~same].mean() + 0.15


def test_frequent_tokens_say_less_and_all_are_of_one_length() -> None:
    made = lsa_embeddings(topics(400), TOKENS, 8, seed=0)
    assert made is not None
    np.testing.assert_allclose(np.sqrt((made**2).mean(axis=1)), SCALE, rtol=1e-4)
    said = np.linalg.norm(made[:, 1:], axis=1)
    assert said[:5].max() < said[5:].min()


def test_a_rare_form_of_a_word_resembles_its_frequent_ones() -> None:
    """Token 24 stands in two documents of the other topic only; by its letters it belongs to the first topic."""
    documents = [ids[ids != 24] for ids in topics(400)]
    documents[0] = np.append(documents[0], 24)
    documents[2] = np.append(documents[2], 24)
    words = [*TOKENS[:5], *(f"plant{chr(ord('a') + i)}" for i in range(10)), *TOKENS[15:24], "plantz"]
    alone, beside = (lsa_embeddings(documents, tokens, 8, seed=0) for tokens in (TOKENS, words))
    assert alone is not None
    assert beside is not None

    def likeness(made: np.ndarray) -> float:
        unit = made[:, 1:] / (np.linalg.norm(made[:, 1:], axis=1, keepdims=True) + 1e-9)
        return float((unit[24] @ unit[5:15].T).mean() - (unit[24] @ unit[15:24].T).mean())

    assert likeness(alone) < 0 < likeness(beside)


def test_the_same_seed_gives_the_same_bits() -> None:
    first, second = (lsa_embeddings(topics(100), TOKENS, 8, seed=3) for _ in range(2))
    assert first is not None
    assert np.array_equal(first, second)


@pytest.mark.parametrize(("documents", "vocab_size"), [(6, 25), (100, 8)])
def test_a_text_that_is_too_small_gives_none(documents: int, vocab_size: int) -> None:
    few = [ids % vocab_size for ids in topics(documents)]
    assert lsa_embeddings(few, TOKENS[:vocab_size], 8, seed=0) is None
