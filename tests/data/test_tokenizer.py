import io
import json
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from greffon.core.errors import UserError
from greffon.data import tokenizer_backends
from greffon.data.tokenizer import SPECIALS, Tokenizer
from greffon.data.tokenizer_backends import LOWER

TEXTS = [
    "L'homme n'est qu'un roseau, le plus faible de la nature ; mais c'est un roseau pensant.",
    "Aujourd’hui, l’été : 1 234 567 étoiles ! It doesn't matter, said the fox in 1943.",
    "Quel [MASK] étrange, <s>dit-il</s>.\n\n\tTout va bien.",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, 300)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@example("▁ \x00 \r\n \u2028 \x0b e\u0301\u0300 👩‍👩‍👧 [MASK] <s> </s><pad> l’é'")
@example("  trailing   \n\n ")
@settings(deadline=None)
def test_any_text_makes_the_round_trip(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.byte_lengths[ids].sum() == len(text.encode())
    assert not set(ids) & set(range(len(SPECIALS)))


@given(st.lists(st.text("aé' [MASK]<s>\n1’.", max_size=40), max_size=5), st.integers(1, 8))
@settings(deadline=None)
def test_slicing_and_batching_change_no_token(tokenizer: Tokenizer, texts: list[str], size: int) -> None:
    alone = [tokenizer.encode(text) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_backends, "SLICE", size)
        assert tokenizer.encode_many(texts) == alone


def test_roles_and_size(tokenizer: Tokenizer) -> None:
    roles = (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.cls, tokenizer.sep, tokenizer.mask)
    assert roles == tuple(range(6))
    assert tokenizer.size == 300
    assert tokenizer.kind == "bpe"
    assert tokenizer.byte_lengths.shape == (300,)
    assert tokenizer.byte_lengths.dtype == np.int64
    assert [tokenizer.token(id) for id in roles] == list(SPECIALS)


def test_only_encode_masked_reads_the_mask(tokenizer: Tokenizer) -> None:
    assert tokenizer.mask not in tokenizer.encode("un [MASK] pensant")
    ids = tokenizer.encode_masked("un [MASK] pensant")
    assert ids == [*tokenizer.encode("un"), tokenizer.mask, *tokenizer.encode(" pensant")]
    assert tokenizer.encode_masked("[MASK][MASK]") == [tokenizer.mask] * 2
    assert tokenizer.encode_masked("rien ") == tokenizer.encode("rien ")


def test_decode_drops_specials_and_replaces_half_characters(tokenizer: Tokenizer) -> None:
    ids = np.array([tokenizer.start, *tokenizer.encode("roseau"), tokenizer.pad, tokenizer.end])
    assert tokenizer.decode(ids) == "roseau"
    star = tokenizer.encode("☃")
    assert tokenizer.decode(star[:1]) == "\ufffd"
    assert tokenizer.token(star[0]) == r"\xe2"
    assert "".join(tokenizer.token(id) for id in tokenizer.encode(" roseau")) == " roseau"
    with pytest.raises(IndexError):
        tokenizer.token(300)


def test_lone_surrogates_are_refused(tokenizer: Tokenizer) -> None:
    for use in (tokenizer.encode, tokenizer.encode_masked, lambda text: Tokenizer.train([text], 300)):
        with pytest.raises(UserError, match="U\\+D83D at position 2"):
            use("ab\ud83d")


def test_training_is_reproducible_byte_for_byte(tmp_path: Path) -> None:
    draw = random.Random(0)
    texts = ["".join(draw.choices("abcdé' ", k=30)) for _ in range(3000)]
    tokenizer = Tokenizer.train(iter(texts), 600)
    # Another process, another hash seed, one thread; and the texts in another order.
    draw.shuffle(texts)
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    program = (
        "import json, sys; from greffon.data.tokenizer import Tokenizer; "
        "print(Tokenizer.train(json.load(open(sys.argv[1])), 600).digest)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "texts.json")],
        env={"TOKENIZERS_PARALLELISM": "false", "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == tokenizer.digest


def test_small_text_takes_the_largest_vocabulary_and_warns() -> None:
    with pytest.warns(UserWarning, match=r"vocabulary of 5000: the largest possible one, (\d+)") as caught:
        tokenizer = Tokenizer.train(["un petit texte"], 5000)
    assert str(tokenizer.size) in str(caught[0].message)
    assert tokenizer.decode(tokenizer.encode("autre chose")) == "autre chose"


def test_exact_vocabulary_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Tokenizer.train(["abc"], 262).size == 262


@pytest.mark.parametrize(
    ("texts", "vocabulary", "message"),
    [(["abc"], 261, "at least 262"), ([], 300, "no text"), (["", ""], 300, "no text")],
)
def test_impossible_training_is_refused(texts: list[str], vocabulary: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Tokenizer.train(texts, vocabulary)


def test_an_error_in_the_stream_of_texts_comes_through() -> None:
    def texts():
        yield "abc"
        raise UserError("corpus.txt:2: broken")

    with pytest.raises(UserError, match=r"corpus\.txt:2"):
        Tokenizer.train(texts(), 300)


def assert_same(one: Tokenizer, other: Tokenizer) -> None:
    assert (one.digest, one.kind, one.size, one.mask) == (other.digest, other.kind, other.size, other.mask)
    assert [one.encode(text) for text in TEXTS] == [other.encode(text) for text in TEXTS]
    assert np.array_equal(one.byte_lengths, other.byte_lengths)


def test_save_and_load(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert tokenizer.save(tmp_path) == tmp_path / "tokenizer.json"
    assert tokenizer.save(tmp_path / "new" / "own.json") == tmp_path / "new" / "own.json"
    assert_same(Tokenizer.load(tmp_path), tokenizer)
    assert_same(Tokenizer.load(tmp_path / "new" / "own.json"), tokenizer)
    assert_same(pickle.loads(pickle.dumps(tokenizer)), tokenizer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "tokenizer.json"]


def test_save_where_it_cannot(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        tokenizer.save(tmp_path / "file" / "tokenizer.json")


def word_piece(path: Path) -> Path:
    foreign = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    foreign.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    foreign.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    foreign.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=names))
    foreign.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    foreign.enable_truncation(3)
    foreign.enable_padding(length=50)
    foreign.save(str(path))
    return path


def test_hugging_face_word_piece(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(word_piece(tmp_path / "bert.json"))
    assert tokenizer.kind == "tokenizer.json"
    assert (tokenizer.pad, tokenizer.start, tokenizer.end) == (0, 2, 3)
    assert (tokenizer.cls, tokenizer.sep, tokenizer.mask) == (2, 3, 4)
    ids = tokenizer.encode("L'homme n'est qu'un roseau pensant.")
    assert tokenizer.decode(ids) == "L'homme n'est qu'un roseau pensant."
    # Whitespace-split words are looked up whole, so this vocabulary does know the word "[MASK]".
    assert not {0, 2, 3, 4} & set(tokenizer.encode("un [MASK] [PAD][SEP] roseau"))
    assert tokenizer.mask in tokenizer.encode_masked("un [MASK] roseau")
    assert tokenizer.byte_lengths[1] == 0
    assert_same(Tokenizer.load(tokenizer.save(tmp_path / "copy.json")), tokenizer)


def test_hugging_face_byte_level_with_missing_roles(tmp_path: Path) -> None:
    foreign = tokenizers.Tokenizer(models.BPE())
    foreign.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    foreign.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=280, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    foreign.train_from_iterator(TEXTS, trainer)
    foreign.save(str(tmp_path / "gpt.json"))
    tokenizer = Tokenizer.load(tmp_path / "gpt.json")
    assert (tokenizer.start, tokenizer.end) == (0, 0)
    assert (tokenizer.pad, tokenizer.cls, tokenizer.sep, tokenizer.mask) == (280, 281, 282, 283)
    assert tokenizer.size == len(tokenizer.byte_lengths) == 284
    assert tokenizer.token(283) == "[MASK]"
    text = "été <|endoftext|> [MASK] ☃"
    ids = tokenizer.encode(text)
    assert tokenizer.decode([*ids, 283, 0]) == text
    assert tokenizer.byte_lengths[ids].sum() == len(text.encode())


def sentence_piece() -> bytes:
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5),
        model_writer=model,
        vocab_size=340,
        byte_fallback=True,
        user_defined_symbols=["[MASK]"],
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
    )
    return model.getvalue()


def test_sentencepiece(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(sentence_piece())
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.kind == "sentencepiece"
    assert (tokenizer.start, tokenizer.end) == (1, 2)
    assert tokenizer.pad == tokenizer.size - 1
    assert tokenizer.decode([1, *tokenizer.encode("un roseau ☃"), 2, tokenizer.pad]) == "un roseau ☃"
    # SentencePiece reads a user-defined symbol in any text; we do not.
    assert tokenizer.mask not in tokenizer.encode("un [MASK] roseau")
    assert tokenizer.encode_masked("un [MASK]")[-1] == tokenizer.mask
    assert tokenizer.token(tokenizer.encode("☃")[-1]) == r"\x83"
    (tmp_path / "copy").mkdir()
    saved = tokenizer.save(tmp_path / "copy")
    assert saved.read_bytes() == (tmp_path / "tokenizer.model").read_bytes()
    assert_same(Tokenizer.load(saved), tokenizer)


def test_sentencepiece_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.model").write_bytes(b"\n\x0e\n\x05<unk>")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"a\.model: .*greffon\[sentencepiece\]"):
        Tokenizer.load(tmp_path / "a.model")


def test_broken_files_are_refused_by_name(tokenizer: Tokenizer, tmp_path: Path) -> None:
    whole = tokenizer.save(tmp_path / "whole.json").read_bytes()
    broken = {
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "random": random.Random(1).randbytes(500),
        "nothing": b"\n\n",
        "object": b'{"a": 1}',
        "list": b"[1, 2]",
        "no-vocabulary": b'{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}',
        "latin": b'{"a": "\xe9"}',
        "model": b"\n\x05abc",
        "text": b"Bonjour",
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name}: ") as caught:
            Tokenizer.load(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="nowhere"):
        Tokenizer.load(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"folder: no tokenizer\.json"):
        Tokenizer.load(tmp_path / "folder")


CAPITALS = ["Excellent ! L'HOMME est excellent.", "ÉTÉ, Été, été", "ΣΟΦΟΣ İstanbul ẞ", "le chat"]


@given(st.lists(st.text("aAéÉßẞΣİ'’ \n1.", max_size=40), max_size=6))
@settings(max_examples=50, deadline=None)
def test_in_lower_case_capitals_are_no_other_words(texts: list[str]) -> None:
    made = Tokenizer.train(CAPITALS, 280, lowercase=True)
    lowered = [LOWER.normalize_str(text) for text in texts]
    assert made.encode_many(texts) == made.encode_many(lowered)
    assert [made.decode(ids) for ids in made.encode_many(texts)] == lowered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_backends, "MANY", 0)  # every text by the swift encoder
        assert made.encode_many(texts) == made.encode_many(lowered) == [made.encode(text) for text in lowered]


def test_lower_case_is_kept_in_the_file(tmp_path: Path) -> None:
    made = Tokenizer.train(CAPITALS, 280, lowercase=True)
    assert made.kind == "bpe"
    assert made.lowercase
    assert not made.lossless
    assert not Tokenizer.train(CAPITALS, 280).lowercase
    assert_same(Tokenizer.load(made.save(tmp_path / "lower.json")), made)
    assert made.digest != Tokenizer.train([text.lower() for text in CAPITALS], 280).digest
