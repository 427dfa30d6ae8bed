import json
import sys
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.data import bpe_training
from greffon.data.bpe_training import learn_bpe
from greffon.data.tokenizer_backends import PATTERN, HuggingFace

rustbpe = pytest.importorskip("rustbpe", reason="needs rustbpe: pip install 'greffon[fast]'")

TEXTS = st.lists(st.text(st.sampled_from("aabbc é'\n1!漢\u0301\U0001f389"), max_size=60), min_size=1, max_size=8)
FRENCH = ["l'homme et l'enfant", "l'enfant dort, l'homme lit", "un homme, une femme, un enfant"]


@pytest.fixture
def swiftly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe_training, "LARGE", 1)


def by_tokenizers(texts: list[str], vocabulary: int) -> HuggingFace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "rustbpe", None)
        return learn_bpe(texts, vocabulary)


def by_rustbpe(texts: list[str], vocabulary: int) -> HuggingFace:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe_training, "LARGE", 1)
        return learn_bpe(texts, vocabulary)


@given(texts=TEXTS, size=st.integers(262, 330))
@settings(max_examples=200, deadline=None)
def test_texts_become_the_tokens_of_the_learner(texts: list[str], size: int) -> None:
    learner = rustbpe.Tokenizer()
    learner.train_from_iterator(iter(texts), size - 6, pattern=PATTERN)
    learnt = [bytes(token) for token, _ in learner.get_mergeable_ranks()]
    assume(len(learnt) == len(set(learnt)))  # a token learnt twice is kept once
    backend = by_rustbpe([*texts, ""], size)
    wanted = [[learnt[id] for id in learner.encode(text)] for text in texts]
    pieces = {id: backend.piece_bytes(piece) for piece, id in backend.pieces.items()}
    assert [[pieces[id] for id in ids] for ids in backend.encode_many(texts)] == wanted


@given(texts=TEXTS, size=st.integers(262, 330))
@settings(max_examples=200, deadline=None)
def test_it_learns_as_many_tokens_as_the_library_and_every_text_survives(texts: list[str], size: int) -> None:
    texts = [*texts, "."]
    swift, library = by_rustbpe(texts, size), by_tokenizers(texts, size)
    assert len(swift.pieces) == len(library.pieces)
    assert [swift.decode(ids) for ids in swift.encode_many(texts)] == texts


def test_without_ties_the_file_is_the_library_s_own() -> None:
    texts = ["ab" * 9]
    made = [json.loads(backend.serialised) for backend in (by_rustbpe(texts, 265), by_tokenizers(texts, 265))]
    assert made[0]["model"]["merges"] == [["a", "b"], ["ab", "ab"], ["abab", "abab"]]
    assert made[0] == made[1]


def test_small_texts_are_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rustbpe, "Tokenizer", None)
    assert learn_bpe(FRENCH, 300).serialised == by_tokenizers(FRENCH, 300).serialised


def test_without_the_package_the_library_does_it(swiftly: None) -> None:
    assert len(by_tokenizers(FRENCH, 280).pieces) == 280


@pytest.mark.usefixtures("swiftly")
def test_the_same_texts_give_the_same_bytes() -> None:
    assert learn_bpe(FRENCH * 50, 300).serialised == learn_bpe(FRENCH * 50, 300).serialised


@pytest.mark.usefixtures("swiftly")
def test_a_text_that_cannot_be_read_is_told_as_it_is() -> None:
    def texts() -> Iterator[str]:
        yield from FRENCH
        raise UserError("the file ends in the middle")

    with pytest.raises(UserError, match="ends in the middle"):
        learn_bpe(texts(), 300)


@pytest.mark.usefixtures("swiftly")
def test_a_text_that_is_too_much_for_it_is_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match="shorten runs of spaces"):
        learn_bpe(["a" + " " * 1_200_000 + "b"], 300)


def test_a_long_text_is_taken_in_pieces_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(FRENCH * 20)
    whole = by_rustbpe([text], 300)
    monkeypatch.setattr(bpe_training, "PIECE", 50)
    assert by_rustbpe([text], 300).serialised == whole.serialised


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=200), most=st.integers(1, 300))
@settings(max_examples=200, deadline=None)
def test_of_a_vast_text_every_so_manyth_piece_is_taken(sizes: list[int], most: int) -> None:
    pieces = [chr(i) * size for i, size in enumerate(sizes)]
    kept = bpe_training._spread(iter(pieces), most)
    stride = next(n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256) if kept == pieces[::n])
    assert sum(map(len, kept)) <= most or len(kept) == 1
    assert stride == 1 or sum(map(len, pieces[:: stride // 2])) > most  # no more is left out than must be


def test_a_vast_text_is_learnt_from_its_beginning_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["debut " * 20] * 100 + ["milieu " * 20] * 100 + ["fin " * 20] * 100
    monkeypatch.setattr(bpe_training, "MOST", 5000)
    for learn in (by_rustbpe, by_tokenizers):
        assert {"debut", "Ġdebut", "Ġmilieu", "Ġfin"} <= learn(texts, 300).pieces.keys()
