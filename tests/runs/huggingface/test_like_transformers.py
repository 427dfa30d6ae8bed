"""Imported models against `transformers`, on random ones of small size: logits, generation, translation, identity."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkpoints
import numpy as np
import pytest
import torch
import transformers

import greffon
from greffon.core.answering import Search
from greffon.core.rng import generator
from greffon.inference.beam import search_all
from greffon.inference.sampling import GREEDY, generate_tokens
from greffon.inference.vocabulary import vocabulary_of
from greffon.nn.masks import PADDING
from greffon.runs.huggingface.families import FAMILIES
from greffon.runs.run import Run

MAKERS: dict[str, Callable[[Path], Any]] = {
    **checkpoints.MAKERS,
    "bert-untied": lambda path: checkpoints.bert(path, tie_word_embeddings=False, hidden_act="gelu_new"),
    "bert-pairs": lambda path: checkpoints.bert(path, "ForPreTraining"),
    "bert-classes": lambda path: checkpoints.bert(path, "ForSequenceClassification", **checkpoints.LABELS),
    "bert-tokens": lambda path: checkpoints.bert(path, "ForTokenClassification", **checkpoints.LABELS),
    "bert-labels": lambda path: checkpoints.bert(
        path, "ForSequenceClassification", problem_type="multi_label_classification", **checkpoints.LABELS
    ),
    "bert-score": lambda path: checkpoints.bert(path, "ForSequenceClassification", num_labels=1),
    "bert-body": lambda path: checkpoints.bert(path, "Model"),
    "roberta-tokens": lambda path: checkpoints.roberta(path, "ForTokenClassification", **checkpoints.LABELS),
    "roberta-classes": lambda path: checkpoints.roberta(path, "ForSequenceClassification", **checkpoints.LABELS),
    "distilbert-tokens": lambda path: checkpoints.distilbert(path, "ForTokenClassification", **checkpoints.LABELS),
    "distilbert-classes": lambda path: checkpoints.distilbert(path, "ForSequenceClassification", **checkpoints.LABELS),
    "gpt2-classes": lambda path: checkpoints.gpt2(
        path, "ForSequenceClassification", pad_token_id=0, **checkpoints.LABELS
    ),
    "gpt2-tokens": lambda path: checkpoints.gpt2(path, "ForTokenClassification", **checkpoints.LABELS),
    "gpt2-body": lambda path: checkpoints.gpt2(path, "Model"),
    "llama-tied": lambda path: checkpoints.llama(path, tie_word_embeddings=True, num_key_value_heads=2),
    "llama-linear": lambda path: checkpoints.llama(
        path, head_dim=12, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
    ),
    "llama-3": lambda path: checkpoints.llama(
        path, rope_parameters={"rope_type": "llama3", "factor": 8.0, "rope_theta": 5e5, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
    ),
    "llama-classes": lambda path: checkpoints.llama(path, "ForSequenceClassification", **checkpoints.LABELS),
    "llama-tokens": lambda path: checkpoints.llama(path, "ForTokenClassification", **checkpoints.LABELS),
    "llama-body": lambda path: checkpoints.llama(path, "Model"),
    "qwen2-tied": lambda path: checkpoints.qwen(path, tie_word_embeddings=True, num_key_value_heads=2),
    "qwen2-classes": lambda path: checkpoints.qwen(path, "ForSequenceClassification", **checkpoints.LABELS),
    "qwen2-tokens": lambda path: checkpoints.qwen(path, "ForTokenClassification", **checkpoints.LABELS),
    "qwen2-body": lambda path: checkpoints.qwen(path, "Model"),
    "qwen3-tied": lambda path: checkpoints.qwen(
        path, family="Qwen3", tie_word_embeddings=True, head_dim=8, rope_parameters={"rope_theta": 500.0}
    ),
    "qwen3-classes": lambda path: checkpoints.qwen(
        path, "ForSequenceClassification", "Qwen3", **checkpoints.LABELS
    ),
    "qwen3-tokens": lambda path: checkpoints.qwen(path, "ForTokenClassification", "Qwen3", **checkpoints.LABELS),
    "qwen3-body": lambda path: checkpoints.qwen(path, "Model", "Qwen3"),
    "neox-serial": lambda path: checkpoints.neox(
        path, use_parallel_residual=False, hidden_act="relu2", rotary_pct=1.0, rotary_emb_base=500
    ),
    "neox-tied": lambda path: checkpoints.neox(path, tie_word_embeddings=True),
    "neox-classes": lambda path: checkpoints.neox(path, "ForSequenceClassification", **checkpoints.LABELS),
    "neox-tokens": lambda path: checkpoints.neox(path, "ForTokenClassification", **checkpoints.LABELS),
    "neox-body": lambda path: checkpoints.neox(path, "Model"),
    "eurobert-tied": lambda path: checkpoints.eurobert(path, tie_word_embeddings=True, num_key_value_heads=2),
    "eurobert-classes": lambda path: checkpoints.eurobert(path, "ForSequenceClassification", **checkpoints.LABELS),
    "eurobert-mean": lambda path: checkpoints.eurobert(
        path, "ForSequenceClassification", classifier_pooling="mean", **checkpoints.LABELS
    ),
    "eurobert-tokens": lambda path: checkpoints.eurobert(path, "ForTokenClassification", **checkpoints.LABELS),
    "eurobert-body": lambda path: checkpoints.eurobert(path, "Model"),
    "modernbert-global": lambda path: checkpoints.modernbert(path, layer_types=["full_attention"] * 3),
    "modernbert-tokens": lambda path: checkpoints.modernbert(path, "ForTokenClassification", **checkpoints.LABELS),
    "modernbert-classes": lambda path: checkpoints.modernbert(path, "ForSequenceClassification", **checkpoints.LABELS),
    "modernbert-mean": lambda path: checkpoints.modernbert(
        path, "ForSequenceClassification", classifier_pooling="mean", classifier_bias=True,
        classifier_activation="linear", **checkpoints.LABELS,
    ),
    "modernbert-body": lambda path: checkpoints.modernbert(path, "Model"),
    "mbart": checkpoints.mbart,
    "mbart-first": lambda path: checkpoints.mbart(path, "MBartTokenizer", scale_embedding=False),
    "m2m_100": checkpoints.m2m100,
    "nllb": checkpoints.nllb,
    "marian-plain": lambda path: checkpoints.marian(path, activation_function="relu", scale_embedding=False),
}  # fmt: skip
AUTO = {
    "masked": transformers.AutoModelForMaskedLM,
    "causal": transformers.AutoModelForCausalLM,
    "classify": transformers.AutoModelForSequenceClassification,
    "seq2seq": transformers.AutoModelForSeq2SeqLM,
    "body": transformers.AutoModel,
}


@pytest.fixture(scope="module", params=MAKERS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Any]:
    """An imported run, and the model that it came from."""
    folder = tmp_path_factory.mktemp(request.param)
    theirs = MAKERS[request.param](folder / "theirs")
    return greffon.import_checkpoint(folder / "theirs", out=folder / "run", quiet=True), theirs


def rows(run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of three lengths, padded on the right, and what of them is real."""
    random, tokenizer = generator(0, "rows"), run.tokenizer
    tokens = random.integers(5, tokenizer.size - 2, (3, 20))
    real = np.arange(20) < np.array([20, 7, 13])[:, None]
    return torch.from_numpy(np.where(real, tokens, tokenizer.pad)), torch.from_numpy(real)


@torch.no_grad()
def logits(run: Run) -> torch.Tensor:
    """What our model says of the rows."""
    model, (tokens, real) = run.load_model(), rows(run)
    documents = torch.where(real, 1, PADDING)
    if run.recipe.objective == "seq2seq":
        return model.head(model.body(tokens, tokens[:, :7], documents))
    return model(tokens, documents)


@torch.no_grad()
def their_logits(run: Run, model: Any) -> torch.Tensor:
    """What theirs says of them."""
    tokens, real = rows(run)
    given = {"decoder_input_ids": tokens[:, :7]} if run.recipe.objective == "seq2seq" else {}
    found = model.eval()(input_ids=tokens, attention_mask=real.long(), **given)
    return found.last_hidden_state if run.recipe.objective == "body" else found[0]


def compared(run: Run, found: torch.Tensor) -> torch.Tensor:
    """Leave out what stands for padding."""
    whole = run.recipe.objective in ("classify", "seq2seq") and run.recipe.task != "tokens"
    return found if whole else found[rows(run)[1]]


def test_logits_equal_theirs(pair: tuple[Run, Any]) -> None:
    run, theirs = pair
    torch.testing.assert_close(
        compared(run, logits(run)), compared(run, their_logits(run, theirs)), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "task"),
    {
        "bert-score": "regression",
        "bert-labels": "multilabel",
        "bert-classes": "classes",
        "bert-tokens": "tokens",
    }.items(),
)
def test_the_task_of_a_head_is_read(name: str, task: str, tmp_path: Path) -> None:
    MAKERS[name](tmp_path / "theirs")
    recipe = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True).recipe
    assert recipe.task == task
    assert recipe.labels == (() if task == "regression" else ("bad", "good", "unsure"))
    assert recipe.outputs == (1 if task == "regression" else 3)


def test_there_and_back_is_the_identity(pair: tuple[Run, Any], tmp_path: Path) -> None:
    run, theirs = pair
    there = greffon.export(run, to="huggingface", out=tmp_path / "there")
    back = greffon.import_checkpoint(there, out=tmp_path / "back", quiet=True)
    ours = dict(run.load_model().named_parameters())
    again = dict(back.load_model().named_parameters())
    assert ours.keys() == again.keys()
    for name, p in ours.items():
        assert torch.equal(p, again[name]), name
    assert (back.recipe.shape, back.recipe.graft, back.recipe.labels) == (
        run.recipe.shape, run.recipe.graft, run.recipe.labels,
    )  # fmt: skip
    assert back.recipe.task == run.recipe.task
    kind = transformers.AutoModelForTokenClassification if run.recipe.task == "tokens" else AUTO[run.recipe.objective]
    loaded = kind.from_pretrained(there)
    if run.recipe.graft is not None:
        assert loaded.config.problem_type in (theirs.config.problem_type, "single_label_classification", "regression")
    auto = theirs if run.recipe.objective != "body" else AUTO["body"].from_pretrained(there)
    found, wanted = their_logits(run, loaded), their_logits(run, auto)
    # The product with a single row of weights depends on where these lie in memory.
    torch.testing.assert_close(found, wanted, atol=1e-6 if run.recipe.answer == "regression" else 0, rtol=0)
    pairs = run.recipe.masking is not None and run.recipe.masking.next_sentence
    known = (type(theirs).from_pretrained(there) if pairs else loaded).state_dict()
    for name, tensor in theirs.state_dict().items():  # CamemBERT comes back as RoBERTa, which it is
        unused = name == "cls.predictions.bias" and not run.recipe.shape.tie_embeddings
        if not unused and not ("pooler" in name and run.recipe.objective == "body"):
            assert torch.equal(tensor, known[name]), name


def test_the_ledger_accounts_for_all_of_it(pair: tuple[Run, Any]) -> None:
    run, _ = pair
    counted = sum(p.numel() for p in run.load_model().parameters())
    assert greffon.params(run).total == counted


def test_pairs_are_judged_the_right_way_round(tmp_path: Path) -> None:
    theirs = MAKERS["bert-pairs"](tmp_path / "theirs")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    model, (tokens, _) = run.load_model(), rows(run)
    with torch.no_grad():
        ours = model.head.pair(model.body(tokens)[:, 0])
        found = theirs(tokens).seq_relationship_logits
    torch.testing.assert_close(ours.flip(1), found, atol=1e-5, rtol=1e-5)  # their first class is "follows"


@pytest.fixture(scope="module", params=[kind for kind, family in FAMILIES.items() if family.body == "decoder"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    theirs = checkpoints.MAKERS[request.param](folder / "theirs")
    return greffon.import_checkpoint(folder / "theirs", out=folder / "run", quiet=True), theirs


@pytest.mark.parametrize("prompt", ["le chat", "Paul n'aime", "the dog looks at a"])
def test_greedy_generation_equals_theirs(decoder: tuple[Run, Any], prompt: str) -> None:
    run, theirs = decoder
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.path.parent / "theirs")
    given = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    ids, end = given["input_ids"][0].tolist(), run.tokenizer.end
    theirs.generation_config.bad_words_ids = [[id] for id in tokenizer.all_special_ids if id != end] or None
    found = theirs.generate(**given, max_new_tokens=20, do_sample=False, pad_token_id=0)[0, len(ids) :].tolist()
    words = vocabulary_of(run.tokenizer, run.recipe.vocab_size)
    steps = generate_tokens(run.load_model(), [ids], 20, GREEDY, seed=0, vocabulary=words)
    assert [step.tokens[0] for step in steps][: len(found)] == found
    text = greffon.generate(run, prompt, max_new_tokens=20, temperature=0).text
    assert text == prompt + tokenizer.decode(found, skip_special_tokens=True)


@pytest.mark.parametrize(("groups", "share"), [(2, 1.0), (1, 0.5)])
def test_the_cache_shrinks_with_the_groups(groups: int, share: float, tmp_path: Path) -> None:
    theirs = checkpoints.llama(tmp_path / "theirs", num_key_value_heads=groups)
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    body = run.load_model().body
    cache = body.new_cache(1, 9)
    ours = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    full = 2 * run.recipe.shape.layers * 9 * run.recipe.shape.hidden_size
    assert ours == share * full
    with torch.no_grad():
        past = theirs(torch.arange(9).unsqueeze(0), use_cache=True).past_key_values
    assert ours == sum(layer.keys.numel() + layer.values.numel() for layer in past.layers)


@pytest.mark.parametrize("beam", [1, 4])
def test_beam_translation_equals_theirs(tmp_path: Path, beam: int) -> None:
    theirs = checkpoints.marian(tmp_path / "theirs")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    texts = ["le chat regarde l'été.", "Paul mange", ">>fr<< the dog looks at 12 œufs"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    words = vocabulary_of(run.tokenizer, run.recipe.vocab_size)
    sources = [np.array(run.tokenizer.encode(text)) for text in texts]
    found = search_all(run.load_model(), sources, [20] * 3, Search(beam), words)
    theirs.generation_config.bad_words_ids = [[run.tokenizer.pad]]
    for text, hypotheses in zip(texts, found, strict=True):
        given = tokenizer(text, return_tensors="pt")
        made = theirs.generate(**given, num_beams=beam, max_new_tokens=20, do_sample=False, length_penalty=1.0)[0]
        kept = [id for id in made.tolist()[1:] if id != run.tokenizer.end]
        assert hypotheses[0].tokens == kept
        assert run.tokenizer.decode(kept) == tokenizer.decode(made, skip_special_tokens=True)


def test_half_precision_shards_and_old_names_are_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    theirs = checkpoints.bert(tmp_path / "theirs")
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    whole = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "whole", quiet=True)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    names = sorted(old)
    shards = {"a.safetensors": names[:10], "b.safetensors": names[10:]}
    for file, part in shards.items():
        save_file({name: old[name] for name in part}, tmp_path / "theirs" / file)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (tmp_path / "theirs" / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "theirs" / "model.safetensors").unlink()
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert torch.equal(logits(run), logits(whole))
    theirs.half().save_pretrained(tmp_path / "half")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / "half" / name).write_bytes((tmp_path / "theirs" / name).read_bytes())
    half = greffon.import_checkpoint(tmp_path / "half", out=tmp_path / "single", quiet=True)
    assert {p.dtype for p in half.load_model().parameters()} == {torch.float32}


def test_published_sizes() -> None:
    assert greffon.params(preset="bert").total == 109_514_298  # bert-base-uncased, with its head over the vocabulary
    assert greffon.params(preset="gpt2").total == 124_439_808
    with torch.device("meta"):
        theirs = transformers.MarianMTModel(
            transformers.MarianConfig(
                d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
                encoder_ffn_dim=2048, decoder_ffn_dim=2048, max_position_embeddings=512,
            )
        )  # fmt: skip
    learned = sum(p.numel() for p in theirs.parameters() if p.requires_grad)
    assert greffon.params(preset="marian").total == learned + 58_101  # their bias of the head is a buffer
    with torch.device("meta"):
        mbart = transformers.MBartForConditionalGeneration(transformers.MBartConfig(vocab_size=250_054))
        m2m100 = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config())
    assert greffon.params(preset="mbart").total == sum(p.numel() for p in mbart.parameters()) + 250_054
    assert greffon.params(preset="m2m100").total == sum(p.numel() for p in m2m100.parameters())
