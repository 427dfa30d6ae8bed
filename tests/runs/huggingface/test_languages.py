"""Translators of many languages against `transformers`: the tokens around a text, and the text that is written."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import checkpoints
import pytest
import sentencepiece
import transformers
from test_tokenizer_files import FEW, ids_of

import greffon
from greffon.cli import run as command
from greffon.core.answering import Search
from greffon.core.errors import UserError
from greffon.data.tokenizer import ROLES
from greffon.inference.beam import search_all
from greffon.inference.translate import routed
from greffon.runs.huggingface.generation import FILE
from greffon.runs.run import Run

KINDS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "mbart": ("mbart", {"tokenizer": "MBartTokenizer"}, "fr_XX", "en_XX"),
    "mbart50": ("mbart", {}, "fr_XX", "en_XX"),
    "m2m100": ("m2m100", {}, "fr", "en"),
    "nllb": ("nllb", {}, "fra_Latn", "eng_Latn"),
    "nllb-legacy": ("nllb", {"legacy_behaviour": True}, "fra_Latn", "eng_Latn"),
}
TEXTS = ["le chat regarde l'été.", "Paul mange", "the dog looks at 12 œufs"]


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Run, Any, Path]:
    """The kind, an imported run, the model that it came from, and the folder of that one."""
    kind, settings, _, _ = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    theirs = getattr(checkpoints, kind)(folder / "theirs", **settings)
    run = greffon.import_checkpoint(folder / "theirs", out=folder / "run", quiet=True)
    return request.param, run, theirs, folder / "theirs"


def test_sources_are_read_as_theirs(made: tuple[str, Run, Any, Path], tmp_path: Path) -> None:
    kind, run, _, folder = made
    source, target = KINDS[kind][2:]
    run_with_target = {"tgt_lang": target}
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    for place in (folder, there):
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **run_with_target)
        for language in (source, target):
            tokenizer.src_lang = language
            words, found = routed(run, run.tokenizer.encode_many(FEW), language, target)
            laid = [[*ids.tolist(), words.closing] for ids in found]
            for text, one, wanted in zip(FEW, laid, ids_of(tokenizer, FEW), strict=True):
                assert one == wanted, ascii(text)
    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
    assert back.tokenizer.languages == run.tokenizer.languages
    assert back.tokenizer.encode_many(FEW) == run.tokenizer.encode_many(FEW)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_equal_theirs(made: tuple[str, Run, Any, Path], beam: int) -> None:
    kind, run, theirs, folder = made
    source, target = KINDS[kind][2:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, src_lang=source)
    languages = run.tokenizer.languages
    assert languages is not None
    first = languages.ids[target]
    words, sources = routed(run, run.tokenizer.encode_many(TEXTS), source, target)
    found = search_all(run.load_model(), sources, [12] * 3, Search(beam), words)
    how = {"decoder_start_token_id": first} if kind == "mbart" else {"forced_bos_token_id": first}
    for text, hypotheses in zip(TEXTS, found, strict=True):
        written = theirs.generate(
            **tokenizer(text, return_tensors="pt"), **how, num_beams=beam, max_new_tokens=12, do_sample=False,
            length_penalty=1.0, bad_words_ids=[[id] for id in words.banned],
        )[0].tolist()  # fmt: skip
        assert hypotheses[0].tokens == [id for id in written[1:] if id not in (run.tokenizer.end, run.tokenizer.pad)]
        kept = [id for id in hypotheses[0].tokens if id not in languages.ids.values()]
        assert run.tokenizer.decode(hypotheses[0].tokens) == tokenizer.decode(kept, skip_special_tokens=True)


def test_the_command_takes_languages(made: tuple[str, Run, Any, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, run, _, _ = made
    source, target = KINDS[kind][2:]
    assert command(["translate", str(run.path), TEXTS[0], "--source-lang", source, "--target-lang", target]) == 0
    said = capsys.readouterr().out.rstrip("\n")
    (wanted,) = greffon.translate(run, TEXTS[0], source_lang=source, target_lang=target)
    assert said == wanted.translation
    (other,) = greffon.translate(run, TEXTS[0], source_lang=target, target_lang=target)
    assert other.score != wanted.score
    (third,) = greffon.translate(run, TEXTS[0], target_lang=source)  # the tokenizer names the source
    assert third.score != wanted.score


def test_languages_in_evaluate(made: tuple[str, Run, Any, Path], tmp_path: Path) -> None:
    kind, run, _, _ = made
    source, target = KINDS[kind][2:]
    written = greffon.translate(run, TEXTS, source_lang=source, target_lang=target, beam_size=1)
    (tmp_path / "a").write_text("\n".join(TEXTS), encoding="utf-8")
    (tmp_path / "b").write_text("\n".join(" ".join(one.translation.split()) or "-" for one in written), "utf-8")
    files = {"source": tmp_path / "a", "target": tmp_path / "b", "beam_size": 1}
    right = greffon.evaluate(run, **files, source_lang=source, target_lang=target)
    assert right.chrf > 90  # not 100: a file keeps no spaces at the ends of lines
    with pytest.raises(UserError, match="target_lang=klingon is no language"):
        greffon.evaluate(run, **files, target_lang="klingon")


def test_ctranslate2_obeys_or_refuses(made: tuple[str, Run, Any, Path]) -> None:
    pytest.importorskip("ctranslate2")
    kind, run, _, _ = made
    source, target = KINDS[kind][2:]
    how = {"source_lang": source, "target_lang": target, "beam_size": 1}
    if kind in ("mbart", "nllb-legacy"):
        with pytest.raises(UserError, match=r"the end of a source.*backend=torch"):
            greffon.translate(run, TEXTS, **how, backend="ctranslate2")
        return
    found = greffon.translate(run, TEXTS, **how, backend="ctranslate2")
    assert [one.translation for one in found] == [one.translation for one in greffon.translate(run, TEXTS, **how)]


def test_wrong_languages_are_named(made: tuple[str, Run, Any, Path], tmp_path: Path) -> None:
    kind, run, _, _ = made
    source, target = KINDS[kind][2:]
    with pytest.raises(UserError, match=rf"source_lang={source}x is no language of this translator; did you mean"):
        greffon.translate(run, "le chat", source_lang=f"{source}x", target_lang=target)
    with pytest.raises(UserError, match=r"target_lang=klingon is no language"):
        greffon.translate(run, "le chat", target_lang="klingon")
    if kind != "mbart":  # its start token names a language
        with pytest.raises(UserError, match=r"this translator knows \d+ languages \(.*\); name one by target_lang"):
            greffon.translate(run, "le chat")
    checkpoints.marian(tmp_path / "theirs")
    marian = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    with pytest.raises(UserError, match="has no language tokens; leave out source_lang and target_lang"):
        greffon.translate(marian, "le chat", target_lang="fr")


def test_a_forced_language_of_the_checkpoint_is_kept(tmp_path: Path) -> None:
    checkpoints.nllb(tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    forced = tokenizer.convert_tokens_to_ids("deu_Latn")
    file = tmp_path / "theirs" / FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), "forced_bos_token_id": forced}))
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    (without,) = greffon.translate(run, "le chat")
    (named,) = greffon.translate(run, "le chat", target_lang="deu_Latn")
    assert without == named


@pytest.mark.parametrize("kind", ["MBartTokenizer", "MBart50Tokenizer"])
def test_an_mbart_is_read_from_its_sentencepiece_model_alone(kind: str, tmp_path: Path) -> None:
    """As first published. `transformers` reads signs and spaces that are not in order otherwise than SentencePiece."""
    checkpoints.mbart(tmp_path / "theirs", kind)
    whole = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "whole", quiet=True)
    first = shutil.copytree(tmp_path / "theirs", tmp_path / "first")
    (first / "tokenizer.json").unlink()
    (first / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind, "src_lang": "fr_XX"}))
    checkpoints.shared_pieces(tmp_path / "model")  # the one that the tokenizer was made of
    shutil.copy(tmp_path / "model" / "sentencepiece.bpe.model", first)
    run = greffon.import_checkpoint(first, out=tmp_path / "run", quiet=True)
    ours, others = run.tokenizer, whole.tokenizer
    assert ours.backend.pieces == others.backend.pieces
    assert ours.backend.specials == others.backend.specials
    assert ours.languages == replace(others.languages, target=ours.languages.target)
    assert [getattr(ours, role) for role in ROLES] == [getattr(others, role) for role in ROLES]
    assert ours.encode_many(checkpoints.TEXTS) == others.encode_many(checkpoints.TEXTS)
    processor = sentencepiece.SentencePieceProcessor(str(first / "sentencepiece.bpe.model"))
    assert ours.encode_many(FEW) == [[id + 1 if id else 3 for id in ids] for ids in processor.encode(FEW)]
    how = {"source_lang": "fr_XX", "target_lang": "en_XX"}
    assert greffon.translate(run, TEXTS, **how) == greffon.translate(whole, TEXTS, **how)

    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    again, theirs = (transformers.AutoTokenizer.from_pretrained(folder, src_lang="fr_XX") for folder in (there, first))
    assert type(again).__name__ == kind
    assert ids_of(again, FEW) == ids_of(theirs, FEW)
    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True).tokenizer
    assert (back.languages, back.encode_many(FEW)) == (ours.languages, ours.encode_many(FEW))


def trained(file: Path, **settings: Any) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(checkpoints.TEXTS), model_prefix=str(file.with_suffix("")), vocab_size=90,
        minloglevel=2, hard_vocab_limit=False, **settings,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.write_bytes(b""), r"sentencepiece\.bpe\.model is broken \(it is empty\); fetch it again"),
        (lambda file: file.write_bytes(file.read_bytes()[:200]), r"sentencepiece\.bpe\.model is broken"),
        (lambda file: trained(file, unk_id=2, bos_id=0, eos_id=1), "begins with <s>, </s>, <unk>, not as an mBART's"),
        (lambda file: trained(file, user_defined_symbols=["en_XX"]), "the name of a special token or a language"),
        (lambda file: trained(file, user_defined_symbols=list("αβγδεζηθικλμνξοπρστυφχψω")), "and the model knows"),
    ],
)
def test_damaged_pieces_of_an_mbart_are_refused(damage: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    checkpoints.mbart(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    checkpoints.shared_pieces(tmp_path / "theirs")
    damage(tmp_path / "theirs" / "sentencepiece.bpe.model")
    with pytest.raises(UserError, match=said):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["source.spm", "target.spm"])
def test_empty_pieces_of_a_marian_are_refused(name: str, tmp_path: Path) -> None:
    checkpoints.marian(tmp_path / "theirs")
    (tmp_path / "theirs" / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"a SentencePiece model is broken \(it is empty\); fetch it again"):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_training_without_languages_is_refused(made: tuple[str, Run, Any, Path], tmp_path: Path) -> None:
    _, run, _, _ = made
    (tmp_path / "a").write_text("\n".join(checkpoints.TEXTS), encoding="utf-8")
    with pytest.raises(UserError, match="marks languages by tokens"):
        greffon.pretrain(
            objective="seq2seq", source=tmp_path / "a", target=tmp_path / "a", tokenizer=run.path, steps=2,
            out=tmp_path / "run", quiet=True,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "name", "value", "said"),
    [
        ("vocab.json", "a", 10**9, "vocab.json has an id that is no number"),
        ("vocab.json", "a", "x", "vocab.json has an id that is no number"),
        (
            "tokenizer_config.json",
            "language_codes",
            "wmt22",
            "language_codes 'wmt22' are unknown; did you mean 'wmt21'",
        ),
        ("config.json", "decoder_layers", 3, "only equal sides are supported"),
    ],
)
def test_hostile_files_are_refused(file: str, name: str, value: Any, said: str, tmp_path: Path) -> None:
    checkpoints.m2m100(tmp_path / "theirs")
    broken = tmp_path / "theirs" / file
    broken.write_text(json.dumps({**json.loads(broken.read_text()), name: value}))
    with pytest.raises(UserError, match=said):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
