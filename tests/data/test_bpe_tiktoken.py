import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greffon.data import tokenizer_backends
from greffon.data.bpe_tiktoken import Swift, swift
from greffon.data.bpe_training import learn_bpe
from greffon.data.tokenizer_backends import BYTE_OF, PATTERN, HuggingFace

pytest.importorskip("tiktoken", reason="needs tiktoken: pip install 'greffon[fast]'")

TEXTS = st.text(st.sampled_from("aabbc é'\n1!漢\u0301\U0001f389"), max_size=60) | st.text(max_size=30)


def swift_of(backend: HuggingFace) -> Swift | None:
    return swift(backend._tokenizer, PATTERN, BYTE_OF)


def by_the_library(backend: HuggingFace, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in backend._tokenizer.encode_batch(texts, add_special_tokens=False)]


def with_merges(merges: list[list[str]], **model: Any) -> HuggingFace:
    """A tokenizer of ours with these merges and no others."""
    specification = json.loads(learn_bpe(["x"], 262).serialised)
    vocabulary = specification["model"]["vocab"]
    for merge in merges:
        vocabulary.setdefault("".join(merge), len(vocabulary))
    specification["model"] |= {"merges": merges, **model}
    return HuggingFace(json.dumps(specification).encode())


@given(learnt=st.lists(TEXTS, min_size=1, max_size=8), texts=st.lists(TEXTS, max_size=8), size=st.integers(262, 330))
@settings(max_examples=200, deadline=None)
def test_the_ids_are_those_of_the_library(learnt: list[str], texts: list[str], size: int) -> None:
    backend = learn_bpe([text + "." for text in learnt], size)
    encoder = swift_of(backend)
    assert encoder is not None
    assert encoder.encode_many(texts + learnt) == by_the_library(backend, texts + learnt)


MERGES = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"), ("c", "a"), ("bc", "a")]


@given(st.permutations(MERGES), st.text("abc", max_size=12))
def test_merges_in_any_order_give_the_ids_of_the_library(order: list[tuple[str, str]], text: str) -> None:
    known, merges = set("abc"), []
    for merge in order:
        if known.issuperset(merge) and "".join(merge) not in known:
            known.add("".join(merge))
            merges.append([*merge])
    backend = with_merges(merges)
    encoder = swift_of(backend)
    assert encoder is not None
    assert encoder.encode_many([text]) == by_the_library(backend, [text])


def test_merges_written_as_strings_are_understood() -> None:
    specification = json.loads(with_merges([["a", "b"]]).serialised)
    specification["model"]["merges"] = ["a b"]
    backend = HuggingFace(json.dumps(specification).encode())
    encoder = swift_of(backend)
    assert encoder is not None
    assert encoder.encode_many(["abab"]) == by_the_library(backend, ["abab"]) == [[backend.pieces["ab"]] * 2]


def test_a_token_that_is_learnt_twice_is_left_to_the_library() -> None:
    assert swift_of(with_merges([["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"]])) is None


def test_a_token_that_is_never_reached_is_left_out() -> None:
    backend = with_merges([["b", "c"], ["a", "b"], ["ab", "c"]])
    encoder, ids = swift_of(backend), backend.pieces
    assert encoder is not None
    assert encoder.encode_many(["abc"]) == by_the_library(backend, ["abc"]) == [[ids["a"], ids["bc"]]]


@pytest.mark.parametrize("setting", [{"dropout": 0.1}, {"ignore_merges": True}])
def test_a_tokenizer_that_does_more_is_left_to_the_library(setting: dict[str, Any]) -> None:
    assert swift_of(with_merges([["a", "b"]])) is not None
    assert swift_of(with_merges([["a", "b"]], **setting)) is None


def test_long_texts_are_encoded_swiftly_and_short_ones_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = learn_bpe(["le chat dort"], 280)
    calls: list[int] = []
    monkeypatch.setattr(Swift, "_encode", lambda self, texts: calls.append(len(texts)) or [[0]] * len(texts))
    monkeypatch.setattr(tokenizer_backends, "MANY", 10)
    assert backend.encode_many(["le chat"]) == by_the_library(backend, ["le chat"])
    assert not calls
    assert backend.encode_many(["le chat", "dort"]) == [[0], [0]]


def test_without_the_package_the_library_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr(tokenizer_backends, "MANY", 1)
    backend = learn_bpe(["le chat dort"], 280)
    assert swift_of(backend) is None
    assert backend.encode_many(["le chat"]) == by_the_library(backend, ["le chat"])
