"""Tokenizers of checkpoints against `AutoTokenizer`, on 10,000 random texts, before and after an export."""

from pathlib import Path
from typing import Any

import checkpoints
import pytest
import tokenizers
import transformers

import greffon
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Recipe
from greffon.core.rng import generator
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run


def random_texts(count: int) -> list[str]:
    """Texts of all scripts, with spaces and signs and pieces of known words between them."""
    random = generator(0, "unicode")
    blocks = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x400, 0x460), (0x5D0, 0x600), (0x900, 0x980),
              (0x2000, 0x2070), (0x3040, 0x30A0), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xFF00, 0xFFF0),
              (0x1F300, 0x1F650), (0x9, 0xE), (0x0, 0x20)]  # fmt: skip
    words = [" ", "  ", "le chat", "L'Été", " mange", "12", "…", "\u00a0", "\u200b", "\ufeff", "e\u0301", "ﬁ"]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(random.integers(1, 7)):
            if random.random() < 0.4:
                parts.append(words[random.integers(len(words))])
            else:
                low, high = blocks[random.integers(len(blocks))]
                parts.append("".join(map(chr, random.integers(low, high, random.integers(1, 5)))))
        texts.append("".join(parts))
    return texts


TEXTS = random_texts(10_000)
FEW = TEXTS[:1000]
OF_LANGUAGES = ("mbart", "m2m_100")
"""What stands around their texts depends on languages, and is compared with these (`test_languages.py`)."""


def ids_of(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Texts as their tokenizer has them, with what it puts around them."""
    found: list[list[int]] = tokenizer(texts)["input_ids"]
    return found


def laid_out(run: Run, texts: list[str]) -> list[list[int]]:
    """Texts as ours are laid out."""
    tokenizer, body = run.tokenizer, run.recipe.body
    before = {"encoder": [tokenizer.cls], "decoder": [tokenizer.start] * tokenizer.starts}.get(body, [])
    after = {"encoder": [tokenizer.sep], "encoder-decoder": [tokenizer.end]}.get(body, [])
    return [[*before, *ids, *after] for ids in tokenizer.encode_many(texts)]


@pytest.mark.parametrize("form", ["first", "today"])
@pytest.mark.parametrize("kind", [kind for kind in checkpoints.MAKERS if kind not in OF_LANGUAGES])
def test_an_imported_tokenizer_equals_theirs(kind: str, form: str, tmp_path: Path) -> None:
    checkpoints.MAKERS[kind](tmp_path / "theirs")
    if form == "today":
        if kind == "marian":
            pytest.skip("Marian has one form")
        checkpoints.modern(tmp_path / "theirs")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = TEXTS if form == "first" else FEW
    expected = ids_of(theirs, texts)
    for text, ours, wanted in zip(texts, laid_out(run, texts), expected, strict=True):
        assert ours == wanted, ascii(text)
    if form == "first":
        there = greffon.export(run, to="huggingface", out=tmp_path / "there")
        again = transformers.AutoTokenizer.from_pretrained(there)
        assert ids_of(again, FEW) == expected[: len(FEW)]
        back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
        assert laid_out(back, FEW) == expected[: len(FEW)]
    if kind == "marian":
        assert [[*ids, 0] for ids in run.tokenizer.encode_targets(FEW)] == theirs(text_target=FEW)["input_ids"]


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_padding_and_truncation_of_a_file_are_those_of_a_batch(kind: str, tmp_path: Path) -> None:
    """Published files keep what was set when they were saved; `AutoTokenizer` sets both anew in each call."""
    checkpoints.MAKERS[kind](tmp_path / "theirs")
    if kind == "bert":
        checkpoints.modern(tmp_path / "theirs")
    file = tmp_path / "theirs" / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(file))
    library.enable_padding(length=7)
    library.enable_truncation(4)
    library.save(str(file))
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    expected = ids_of(transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs"), FEW)
    assert laid_out(run, FEW) == expected
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    alone = tokenizers.Tokenizer.from_file(str(there / "tokenizer.json"))
    assert [encoding.ids for encoding in alone.encode_batch(FEW)] == expected


PRESET_OF = {"bert-mini": ("masked", "encoder"), "gpt2-mini": ("causal", "decoder"),
             "marian-small": ("seq2seq", "encoder-decoder")}  # fmt: skip


def own_run(preset: str, path: Path, **shape: Any) -> Run:
    """A run of one of our presets, cut small, with a tokenizer of our own and fresh weights."""
    from dataclasses import replace

    from greffon.core.recipe import Masking
    from greffon.nn.build import make_model

    objective, body = PRESET_OF[preset]
    found = PRESETS[preset]()
    tokenizer = Tokenizer.train(checkpoints.TEXTS, 300)
    small = replace(found.shape, layers=2, hidden_size=16, heads=2, intermediate_size=24, context=40, **shape)
    recipe = Recipe(
        objective=objective, preset=preset, shape=small, training=found.training, data=Data(train=("/home/me/a.txt",)),
        vocab_size=tokenizer.size, tokenizer_digest=tokenizer.digest, body=body,
        masking=Masking() if objective == "masked" else None,
    )  # fmt: skip
    run = Run.create(path, recipe)
    tokenizer.save(run.path)
    run.save_model(checkpoints.noisy(make_model(recipe)), {"loss": 1.25, "step": 3})
    run.mark_finished()
    return run


@pytest.mark.parametrize("preset", PRESET_OF)
def test_our_own_tokenizer_equals_what_theirs_makes_of_it(preset: str, tmp_path: Path) -> None:
    run = own_run(preset, tmp_path / "run")
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    theirs = transformers.AutoTokenizer.from_pretrained(there)
    assert laid_out(run, FEW) == ids_of(theirs, FEW)
    assert theirs.model_max_length == 40
    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
    assert laid_out(back, FEW) == laid_out(run, FEW)
    assert back.tokenizer.absent == frozenset()
    for role in ("pad", "start", "end", "cls", "sep", "mask"):
        assert getattr(back.tokenizer, role) == getattr(run.tokenizer, role)


def test_a_mask_is_read_as_ours_is(tmp_path: Path) -> None:
    run = own_run("bert-mini", tmp_path / "run")
    theirs = transformers.AutoTokenizer.from_pretrained(greffon.export(run, to="huggingface", out=tmp_path / "there"))
    text, tokenizer = "le [MASK] mange [MASK].", run.tokenizer
    assert theirs(text)["input_ids"] == [tokenizer.cls, *tokenizer.encode_masked(text), tokenizer.sep]


def test_a_tokenizer_that_has_no_mask_is_not_for_masked_models(tmp_path: Path) -> None:
    checkpoints.gpt2(tmp_path / "theirs")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert "mask" in run.tokenizer.absent
    (tmp_path / "text.txt").write_text("\n".join(checkpoints.TEXTS))
    with pytest.raises(UserError, match=r"has no \[MASK\]"):
        greffon.pretrain([tmp_path / "text.txt"], objective="masked", tokenizer=run.path, out=tmp_path / "m", steps=2)
