from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.parallel import encode_pairs, open_pairs, pair_buckets, training_pairs, valid_pairs
from greffon.data.tokenizer import Tokenizer

lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["un chien court", "a dog runs"] * 5, 300)


@given(lengths, st.integers(30, 200), st.integers(0, 3))
def test_every_pair_once_within_the_budget_and_as_many_batches_in_every_pass(
    sizes: list[tuple[int, int]], tokens: int, pass_: int
) -> None:
    sources, targets = np.array(sizes).T
    batches = pair_buckets(sources, targets, tokens, seed=1, pass_=pass_)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) * max(sources[batch].max(), targets[batch].max()) <= tokens
    assert len(batches) == len(pair_buckets(sources, targets, tokens, seed=2, pass_=pass_ + 1))


def test_little_is_padding_and_passes_differ() -> None:
    random = np.random.default_rng(0)
    targets = random.integers(5, 40, 5000)
    sources = np.maximum(1, targets + random.integers(-4, 5, 5000))
    passes = [pair_buckets(sources, targets, 2000, seed=0, pass_=n) for n in (0, 1)]
    room = sum(len(b) * (sources[b].max() + targets[b].max()) for b in passes[0])
    assert (sources.sum() + targets.sum()) / room > 0.9
    assert [b.tolist() for b in passes[0]] != [b.tolist() for b in passes[1]]
    again = pair_buckets(sources, targets, 2000, seed=0, pass_=0)
    assert [b.tolist() for b in passes[0]] == [b.tolist() for b in again]


def test_pairs_come_from_two_files_or_two_columns(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    (tmp_path / "a.tsv").write_text("en\tfr\none\tun\ntwo\tdeux\n")
    (tmp_path / "a.jsonl").write_text('{"source": "one", "target": "un"}\n{"source": "two", "target": "deux"}\n')
    wanted = [("one", "un"), ("two", "deux")]
    aligned = Data(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.fr"))
    assert list(training_pairs(aligned)) == wanted
    assert list(valid_pairs(aligned)) == []
    table = Data(train=(str(tmp_path / "a.tsv"),), source_column="en", target_column="fr")
    assert list(training_pairs(table)) == wanted
    assert list(valid_pairs(Data(valid=(str(tmp_path / "a.jsonl"),)))) == wanted


def test_pairs_survive_encoding(tokenizer: Tokenizer) -> None:
    pairs = [("a dog", "un chien"), ("a dog runs", "un chien court")]
    made = encode_pairs(pairs, tokenizer, context=50)
    assert [tuple(map(tokenizer.decode, pair)) for pair in made.pairs([0, 1])] == pairs
    assert made.source.lengths.tolist() == [len(tokenizer.encode(left)) for left, _ in pairs]
    assert made.digest == encode_pairs(iter(pairs), tokenizer, context=50).digest
    assert made.digest != encode_pairs(pairs[::-1], tokenizer, context=50).digest


def test_empty_lines_are_left_out_and_counted(tokenizer: Tokenizer) -> None:
    pairs = [("a dog", "un chien"), ("", "rien"), ("nothing", " \t"), ("a dog", "un chien")]
    with pytest.warns(UserWarning, match="the training pairs: 2 with an empty side left out, the first on line 2"):
        assert len(encode_pairs(pairs, tokenizer, context=50)) == 2
    with pytest.raises(UserError, match="there is no pair with text on both sides"):
        encode_pairs([("", "")], tokenizer, context=50)


def test_long_sentences_are_cut_and_counted(tokenizer: Tokenizer) -> None:
    pairs = [("a dog " * 30, "un chien"), ("a dog", "un chien")]
    with pytest.warns(UserWarning, match="1 of 2 are longer than the context of 8 tokens and were cut"):
        made = encode_pairs(pairs, tokenizer, context=8)
    assert made.source.lengths.max() == 7  # and its end


def test_held_out_pairs_are_apart(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"dog {i}\n" for i in range(200)))
    data = Data(source=str(tmp_path / "a"), target=str(tmp_path / "a"))
    train, held = open_pairs(data, tokenizer, context=20, share=0.05, seed=3)
    texts = [{tokenizer.decode(left) for left, _ in part.pairs(range(len(part)))} for part in (train, held)]
    assert (len(train), len(held)) == (190, 10)
    assert not texts[0] & texts[1]
    assert len(held.at_most(int(4 * held.sizes[1].mean()) + 1)) == 4
    (tmp_path / "a").write_text("alone\n")
    with pytest.raises(UserError, match="a single pair"):
        open_pairs(data, tokenizer, context=20, share=0.05, seed=3)


def test_unequal_files_name_both_counts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.fr").write_text("un\ndeux\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines but .*a\.fr has 2"):
        list(training_pairs(Data(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.fr"))))
