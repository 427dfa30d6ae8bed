"""`generation_config.json` is obeyed as `transformers` obeys it, refused by name, and written back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import checkpoints
import numpy as np
import pytest
import torch
import transformers

import greffon
from greffon.core.answering import Search
from greffon.core.errors import UserError
from greffon.core.recipe import GenerationConfig
from greffon.inference.beam import search_all
from greffon.inference.sampling import GREEDY, generate_tokens
from greffon.inference.vocabulary import vocabulary_of
from greffon.runs.huggingface.generation import FILE
from greffon.runs.run import Run

PROMPTS = ("le chat", "Paul n'aime", "the dog looks at a")


def imported(kind: str, folder: Path, **settings: Any) -> tuple[Run, Any]:
    """Import a random checkpoint whose generation config has some settings, and load it with theirs."""
    getattr(checkpoints, kind)(folder / "theirs")
    file = folder / "theirs" / FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    run = greffon.import_checkpoint(folder / "theirs", out=folder / "run", quiet=True)
    auto = transformers.AutoModelForSeq2SeqLM if kind == "marian" else transformers.AutoModelForCausalLM
    return run, auto.from_pretrained(folder / "theirs")


def greedy(run: Run, prompt: list[int], rules: GenerationConfig | None, tokens: int = 12) -> list[int]:
    """Continue a prompt with our search, up to and with the token that ends it."""
    words = replace(vocabulary_of(run.tokenizer, run.recipe.vocab_size, rules), banned=())  # theirs bans none
    steps = generate_tokens(run.load_model(), [prompt], tokens, GREEDY, seed=0, vocabulary=words)
    return [step.tokens[0] for step in steps]


def free_tokens(run: Run) -> list[int]:
    """Tokens that the greedy continuations hold where nothing is forbidden, but for those that are never written."""
    never = run.tokenizer.unwritten(run.recipe.vocab_size)
    found = [token for text in PROMPTS for token in greedy(run, run.tokenizer.encode(text), None)]
    return [token for token in dict.fromkeys(found) if token not in never]


@pytest.mark.parametrize("rule", ["suppress_tokens", "begin_suppress_tokens", "eos_token_id", "bad_words_ids", "both"])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_greedy_texts_equal_theirs(kind: str, rule: str, tmp_path: Path) -> None:
    run, _ = imported(kind, tmp_path / "free")
    assert run.recipe.generation is None
    usual = free_tokens(run)
    firsts = [greedy(run, run.tokenizer.encode(text), None, 1)[0] for text in PROMPTS]
    settings: dict[str, Any] = {
        "suppress_tokens": {"suppress_tokens": usual[:3]},
        "begin_suppress_tokens": {"begin_suppress_tokens": firsts},
        "eos_token_id": {"eos_token_id": [run.tokenizer.end, *usual[1:3]]},
        "bad_words_ids": {"bad_words_ids": [[token] for token in usual[:3]]},
        "both": {"forced_bos_token_id": 7, "forced_eos_token_id": 9, "begin_suppress_tokens": firsts},
    }[rule]
    run, theirs = imported(kind, tmp_path / "ruled", **settings)
    prompts = [run.tokenizer.encode(text) for text in PROMPTS] + [[run.tokenizer.start]]
    changed = 0
    for ids in prompts:
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        made = theirs.generate(**given, max_new_tokens=12, do_sample=False, pad_token_id=0)[0, len(ids) :]
        found = greedy(run, ids, run.recipe.generation)
        assert found == made.tolist()
        changed += found != greedy(run, ids, None)
    assert changed
    if rule == "eos_token_id" and kind == "gpt2":  # its prompts begin with no start token
        text = greffon.generate(run, PROMPTS[0], max_new_tokens=12, temperature=0)
        assert text.tokens < 12
        assert [*greffon.stream(run, PROMPTS[0], max_new_tokens=12, temperature=0)][-1].end


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    "settings",
    [
        {"forced_bos_token_id": 30},
        {"forced_eos_token_id": 0, "renormalize_logits": True},
        {"suppress_tokens": [40, 41, 42], "renormalize_logits": True, "forced_bos_token_id": 31},
        {"begin_suppress_tokens": [*range(1, 60)]},
        {"eos_token_id": [0, *range(20, 60)], "forced_eos_token_id": 25},
    ],
    ids=lambda settings: "+".join(settings),
)
def test_translations_equal_theirs(settings: dict[str, Any], beam: int, tmp_path: Path) -> None:
    run, theirs = imported("marian", tmp_path, **settings)
    assert run.recipe.generation is not None
    texts = ["le chat regarde l'été.", "Paul mange", ">>fr<< the dog looks at 12 œufs"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    words = vocabulary_of(run.tokenizer, run.recipe.vocab_size, run.recipe.generation)
    sources = [np.array(run.tokenizer.encode(text)) for text in texts]
    found = search_all(run.load_model(), sources, [9] * 3, Search(beam), words)
    bad = [[token] for token in words.banned]
    for text, hypotheses in zip(texts, found, strict=True):
        made = theirs.generate(
            **tokenizer(text, return_tensors="pt"), num_beams=beam, max_new_tokens=9, do_sample=False,
            length_penalty=1.0, bad_words_ids=bad,
        )[0]  # fmt: skip
        assert hypotheses[0].tokens == [id for id in made.tolist()[1:] if id not in (*words.ends, run.tokenizer.pad)]


def test_renormalized_probabilities_add_up_to_one(tmp_path: Path) -> None:
    run, _ = imported("marian", tmp_path, suppress_tokens=[*range(5, 60)], renormalize_logits=True)
    plain = replace(run.recipe.generation, renormalize_logits=False)
    sources, scores = [np.array(run.tokenizer.encode("le chat mange"))], []
    for rules in (run.recipe.generation, plain):
        words = vocabulary_of(run.tokenizer, run.recipe.vocab_size, rules)
        everything = Search(run.recipe.vocab_size, length_penalty=0.0)
        (found,) = search_all(run.load_model(), sources, [1], everything, words)
        scores.append(sum(np.exp(one.score) for one in found))
    assert scores[0] == pytest.approx(1.0, abs=1e-5)
    assert scores[1] < 0.9


def test_what_was_read_is_written_back(tmp_path: Path) -> None:
    settings = {"eos_token_id": [1, 7], "suppress_tokens": [4, 9], "begin_suppress_tokens": [8],
                "forced_eos_token_id": 7, "renormalize_logits": True}  # fmt: skip
    run, _ = imported("llama", tmp_path, **settings)
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    written = json.loads((there / FILE).read_text())
    assert {name: written[name] for name in settings} == settings
    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
    assert back.recipe.generation == run.recipe.generation
    assert Run.open(run.path).recipe.generation == GenerationConfig(
        (1, 7), (4, 9), (8,), None, forced_eos_token_id=7, renormalize_logits=True
    )


def test_several_ends_in_config_json(tmp_path: Path) -> None:
    """The first ends the texts that we make, all of them those that are generated."""
    checkpoints.llama(tmp_path / "theirs", eos_token_id=[1, 8])
    (tmp_path / "theirs" / FILE).unlink()
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert run.tokenizer.end == 1
    assert run.recipe.generation == GenerationConfig(eos_token_id=(1, 8))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"suppress_tokens": [10**12]}, "suppress_tokens is .* no token of"),
        ({"eos_token_id": True}, "eos_token_id is True"),
        ({"forced_bos_token_id": "a"}, "forced_bos_token_id is a"),
        ({"forced_eos_token_id": [1, 2]}, "forced_eos_token_id has 2 tokens"),
        ({"renormalize_logits": 3}, "renormalize_logits is 3"),
        ({"bad_words_ids": [3]}, "bad_words_ids is no list of lists"),
        ({"begin_suppress_tokens": {"a": 1}}, "begin_suppress_tokens is"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{FILE}: {said}"):
        imported("llama", tmp_path, **settings)
    assert not (tmp_path / "run").exists()


def test_what_is_not_obeyed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported("gpt2", tmp_path, no_repeat_ngram_size=3, bad_words_ids=[[5, 6]], temperature=0.7)
    greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "again")
    said = "".join(capsys.readouterr())
    assert "not obeyed in generation: no_repeat_ngram_size, bad_words_ids of several tokens" in said
    assert "temperature" not in said
