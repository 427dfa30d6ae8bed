"""The CTranslate2 backend against our own search: the same weights, the same translations."""

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import greffon
from greffon.cli import run as command
from greffon.core.answering import Search
from greffon.core.errors import UserError
from greffon.core.files import cache_folder
from greffon.core.own_presets import base, small
from greffon.core.recipe import Data, GenerationConfig, Recipe
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.data.tokenizer import Tokenizer
from greffon.inference.beam import search_all
from greffon.inference.ctranslate2 import search_ctranslate2
from greffon.inference.vocabulary import vocabulary_of
from greffon.nn.build import make_model
from greffon.nn.quantize import can_quantize_int8
from greffon.runs.run import Run

WORDS = {"one": "un", "two": "deux", "red": "rouge", "blue": "bleu", "dog": "chien", "cat": "chat", "sees": "voit"}
TINY = {"layers": 2, "hidden_size": 16, "heads": 2, "intermediate_size": 32, "context": 24, "dropout": 0.0}
PRE, POST = (dataclasses.replace(preset().shape, **TINY) for preset in (small, base))

INT8_BLEU = 2.5
"""Points of BLEU by which 8-bit integers may differ from 32-bit floats. Measured on the run below, with one thread and
with two: 2.0 points (torch) and 0.5 (ctranslate2). One other sentence of its 300 moves BLEU by about 0.3, so the rest
leaves room for two sentences that another processor rounds differently."""
INT8_SCORE = 0.05
"""The same of a translation's score: at most 0.041 in five runs of different seeds, with one thread and with two."""

pytest.importorskip("ctranslate2")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The library, used by itself, changes how many threads the process has."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def make(path: Path, shape: Shape, seed: int = 0) -> Run:
    """A translator with random weights, noisy enough that no two tokens tie, and endings come."""
    tokenizer = Tokenizer.train([*WORDS, *WORDS.values()], 268)
    training = dataclasses.replace(small().training, seed=seed)
    recipe = Recipe("seq2seq", "small", shape, training, Data(), vocab_size=tokenizer.size)
    run = Run.create(path, recipe)
    run.adopt(tokenizer)
    model = make_model(run.recipe)
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    run.save_model(model, {})
    return run


@pytest.mark.parametrize(
    "shape",
    [
        PRE,
        POST,
        dataclasses.replace(PRE, bias=False, activation="gelu", positions="learned"),
        dataclasses.replace(POST, tie_embeddings=False, activation="gelu-tanh", positions="none"),
        dataclasses.replace(PRE, activation="swiglu", norm="rms", segments=2, tie_embeddings=False),
    ],
    ids=["small", "base", "no biases, learned", "untied, no positions", "swiglu, rms, segments"],
)
def test_greedy_output_is_equal(shape: Shape, tmp_path: Path) -> None:
    run = make(tmp_path / "run", shape)
    random = generator(0, "sources")
    sources = [random.integers(6, run.recipe.vocab_size, n) for n in (3, 9, 1, 6, 22, 6)]
    limits = [2, 24, 12, 9, 24, 1]  # one below the others: sought again
    words = vocabulary_of(run.tokenizer, run.recipe.vocab_size)
    wanted = search_all(run.load_model(), sources, limits, Search(beam_size=1), words)
    found = search_ctranslate2(run, sources, limits, Search(beam_size=1), words)
    assert [h.tokens for (h,) in found] == [h.tokens for (h,) in wanted]
    # Banned tokens have no share in the library's probabilities; in ours they have.
    assert [h.score for (h,) in found] == pytest.approx([h.score for (h,) in wanted], abs=0.1)
    assert search_ctranslate2(run, [], [], Search(beam_size=1), words) == []


@pytest.mark.parametrize(
    ("rules", "beam"),
    [
        *itertools.product(
            [{"forced_bos_token_id": 50}, {"forced_eos_token_id": 2}, {"suppress_tokens": (182, 264, 92)}], [1, 4]
        ),
        ({"eos_token_id": (92, 264, 2)}, 1),  # a beam of several would stop at other hypotheses
    ],
)
def test_the_rules_of_a_checkpoint_are_obeyed(rules: dict[str, object], beam: int, tmp_path: Path) -> None:
    run = make(tmp_path / "run", PRE)
    random = generator(0, "sources")
    sources = [random.integers(6, run.recipe.vocab_size, n) for n in (3, 9, 1, 6, 22, 6)]
    limits = [4, 12, 12, 9, 12, 7]
    words = vocabulary_of(run.tokenizer, run.recipe.vocab_size, GenerationConfig(renormalize_logits=True, **rules))
    wanted = [best for best, *_ in search_all(run.load_model(), sources, limits, Search(beam), words)]
    found = [best for best, *_ in search_ctranslate2(run, sources, limits, Search(beam), words)]
    assert [h.tokens for h in found] == [h.tokens for h in wanted]
    assert [h.score for h in found] == pytest.approx([h.score for h in wanted], abs=1e-4)
    free = search_all(run.load_model(), sources, limits, Search(beam), vocabulary_of(run.tokenizer, 268))
    assert [h.tokens for h in wanted] != [best.tokens for best, *_ in free]


def test_rules_that_the_library_lacks_are_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "run", PRE)
    for rules in (GenerationConfig(begin_suppress_tokens=(9,)), GenerationConfig(forced_eos_token_id=9)):
        words = vocabulary_of(run.tokenizer, run.recipe.vocab_size, rules)
        with pytest.raises(UserError, match=r"CTranslate2 .*; use backend=torch"):
            search_ctranslate2(run, [], [], Search(), words)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A translator that has learned a little: it is sure of some words, and not of others."""
    folder = tmp_path_factory.mktemp("pairs")
    random = generator(0, "bitext")
    lines = [random.choice(list(WORDS), random.integers(2, 6)).tolist() for _ in range(300)]
    (folder / "a.en").write_text("\n".join(" ".join(line) for line in lines) + "\n")
    (folder / "a.fr").write_text("\n".join(" ".join(WORDS[word] for word in line) for line in lines) + "\n")
    how = {"steps": 120, "evaluate_every": 120, "learning_rate": 0.02, "muon_learning_rate": 0.02, "batch_tokens": 200}
    files = {"source": folder / "a.en", "target": folder / "a.fr"}
    form = {**TINY, "layers": 1, "hidden_size": 32}
    return greffon.pretrain(objective="seq2seq", out=folder / "run", vocab_size=300, quiet=True, **files, **how, **form)


def texts() -> list[str]:
    random = generator(1, "texts")
    return [" ".join(random.choice(list(WORDS), random.integers(1, 7))) for _ in range(40)]


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_equal(run: Run, beam: int) -> None:
    ours = greffon.translate(run, [*texts(), " "], beam_size=beam)
    theirs = greffon.translate(run, [*texts(), " "], beam_size=beam, backend="ctranslate2")
    assert [one.translation for one in theirs] == [one.translation for one in ours]
    assert [one.score for one in theirs] == pytest.approx([one.score for one in ours], abs=0.02)
    assert len({one.translation for one in ours}) > 20


def test_int8_is_near_and_scored_beside_fp32(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run.path.parent
    words = ["evaluate", str(run.path), "--source", str(folder / "a.en"), "--target", str(folder / "a.fr"), "--json"]
    bleus = []
    backends = ["torch", "ctranslate2"] if can_quantize_int8() else ["ctranslate2"]
    for how in ([], ["--backend", "ctranslate2"], *(["--backend", backend, "--int8"] for backend in backends)):
        assert command([*words, "--beam-size", "1", *how]) == 0
        bleus.append(json.loads(capsys.readouterr().out)["bleu"])
    assert bleus[0] == bleus[1]
    assert bleus[2:] == pytest.approx([bleus[0]] * len(backends), abs=INT8_BLEU)
    for backend in backends:
        exact, rough = (greffon.translate(run, texts(), backend=backend, int8=int8) for int8 in (False, True))
        assert [one.score for one in exact] != [one.score for one in rough]
        assert [one.score for one in exact] == pytest.approx([one.score for one in rough], abs=INT8_SCORE)


@pytest.mark.skipif(not can_quantize_int8(), reason="this PyTorch cannot multiply 8-bit integers")
def test_whole_numbers_translate_the_same_alone_and_in_company(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    together = greffon.translate(run, texts()[:5], int8=True)
    alone = [greffon.translate(run, text, int8=True)[0] for text in texts()[:5]]
    assert [one.translation for one in alone] == [one.translation for one in together]
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(UserError, match="leave out int8"):
        greffon.translate(run, "one", int8=True)


def test_torch_keeps_its_threads(run: Run, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    for _ in range(2):
        greffon.translate(run, ["two red dog"], backend="ctranslate2")
        assert torch.get_num_threads() == 2
    greffon.export(run, to="ctranslate2", out=tmp_path / "exported")
    assert torch.get_num_threads() == 2


def test_a_run_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREFFON_CACHE", str(tmp_path / "cache"))
    run = make(tmp_path / "run", PRE)
    first = greffon.translate(run, "one", backend="ctranslate2")
    (folder,) = (cache_folder() / "ctranslate2").iterdir()
    written = (folder / "model.bin").stat().st_mtime_ns
    assert greffon.translate(run, "one", backend="ctranslate2", int8=True)
    assert greffon.translate(run, "one", backend="ctranslate2") == first
    assert [folder] == list((cache_folder() / "ctranslate2").iterdir())
    assert (folder / "model.bin").stat().st_mtime_ns == written
    run.save_model(make(tmp_path / "other", PRE, seed=1).load_model(), {})  # trained on: another conversion
    assert greffon.translate(run, "one", backend="ctranslate2") != first
    assert len(list((cache_folder() / "ctranslate2").iterdir())) == 2
    moved = make(tmp_path / "torn", PRE)
    (folder / "model.bin").write_bytes(b"torn")
    greffon.inference.ctranslate2._open.cache_clear()  # as in a new process
    assert greffon.translate(moved, "one", backend="ctranslate2") == first


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_an_export_works_without_greffon(quantize: str | None, run: Run, tmp_path: Path) -> None:
    import ctranslate2
    from tokenizers import Tokenizer as Theirs

    out = tmp_path / "model"
    extra = [] if quantize is None else ["--quantize", quantize]
    (run.path / "LICENSE").write_text("Apache License\n")
    assert command(["export", str(run.path), "--to", "ctranslate2", "--out", str(out), *extra]) == 0
    assert (out / "LICENSE").read_text() == "Apache License\n"
    tokenizer = Theirs.from_file(str(out / "tokenizer.json"))
    translator = ctranslate2.Translator(str(out), compute_type=quantize or "float32")
    asked = texts()[:10]
    made = translator.translate_batch([tokenizer.encode(text).tokens for text in asked], beam_size=1)
    ids = [[tokenizer.token_to_id(token) for token in one.hypotheses[0]] for one in made]
    ours = greffon.translate(run, asked, beam_size=1, backend="ctranslate2", int8=quantize == "int8")
    assert [tokenizer.decode(one) for one in ids] == [one.translation for one in ours]
    with pytest.raises(UserError, match="holds an export already"):
        greffon.export(run, to="ctranslate2", out=out)
    assert greffon.export(run, to="ctranslate2", out=out, force=True) == out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"positions": "rotary"}, "knows no encoder-decoder with rotary positions; use the backend torch"),
        ({"activation": "squared-relu"}, "knows no encoder-decoder with the activation squared-relu"),
    ],
)
def test_what_it_cannot_express_is_named(change: dict[str, str], said: str, tmp_path: Path) -> None:
    run = make(tmp_path / "run", dataclasses.replace(PRE, **change))
    with pytest.raises(UserError, match=said):
        greffon.translate(run, "one", backend="ctranslate2")
    with pytest.raises(UserError, match=said):
        greffon.export(run, to="ctranslate2", out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_conversion_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path / "run", PRE, seed=5)
    monkeypatch.setitem(greffon.inference.ctranslate2.ACTIVATIONS, "relu", "GELU")
    with pytest.raises(UserError, match=r"does not compute what .* does"):
        greffon.translate(run, "one", backend="ctranslate2")


def test_bad_questions_get_one_sentence(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown backend 'ctranslate'; did you mean 'ctranslate2'"):
        greffon.translate(run, "one", backend="ctranslate")
    with pytest.raises(UserError, match="cannot export to 'ctranslate'; did you mean"):
        greffon.export(run, to="ctranslate", out=tmp_path / "model")
    with pytest.raises(UserError, match="choose int8"):
        greffon.export(run, to="ctranslate2", out=tmp_path / "model", quantize="int4")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(UserError, match="directory with other files in it"):
        greffon.export(run, to="ctranslate2", out=tmp_path / "full")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install 'greffon\[ctranslate2\]'"):
        greffon.translate(run, "one", backend="ctranslate2")
