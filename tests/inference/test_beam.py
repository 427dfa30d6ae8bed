"""Beam search against Marian's with copied weights, against greedy, and against an enumeration."""

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from greffon.core.answering import Search
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.inference.beam import Hypothesis, _batches, search_all, search_batch
from greffon.inference.vocabulary import Vocabulary
from greffon.nn.attention import Attention, watching
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.seq2seq import padded_sources

SIZE, END = 30, 2
WORDS = Vocabulary(padding=0, start=1, end=END, banned=(0, 1))
SHAPE = Shape(
    layers=2, hidden_size=16, heads=2, intermediate_size=32, context=40, positions="sinusoidal", norm_place="post",
    bias=True, activation="relu",
)  # fmt: skip


def make(shape: Shape = SHAPE, seed: int = 0, size: int = SIZE) -> Model:
    torch.manual_seed(seed)
    body = EncoderDecoder(shape, size)
    with torch.no_grad():
        for p in body.parameters():  # noisy enough that no two tokens tie, and endings come
            p.add_(0.2 * torch.randn_like(p))
    return Model(body, VocabularyHead(shape.hidden_size, size, tied=body.embedding)).eval()


def sources(lengths: list[int], size: int = SIZE) -> list[np.ndarray]:
    random = generator(0, "sources", len(lengths))
    return [random.integers(3, size, length) for length in lengths]


def marian(model: Model):
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    transformers = pytest.importorskip("transformers")
    body = model.body
    config = transformers.MarianConfig(
        vocab_size=SIZE,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=40,
        pad_token_id=0,
        decoder_start_token_id=1,
        eos_token_id=END,
        forced_eos_token_id=None,
        attn_implementation="eager",  # the one that tells its weights
    )
    theirs = transformers.MarianMTModel(config).eval()

    def copy(block, layer, cross: bool) -> None:
        pairs = [(block.attention, layer.self_attn), *([(block.cross, layer.encoder_attn)] if cross else [])]
        for ours, other in pairs:
            assert isinstance(ours, Attention)
            for name, its in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("out", "out_proj")):
                getattr(other, its).load_state_dict(getattr(ours, name).state_dict())
        rest = [
            (block.attention_norm, layer.self_attn_layer_norm),
            (block.feed_forward.up, layer.fc1),
            (block.feed_forward.down, layer.fc2),
            (block.feed_forward_norm, layer.final_layer_norm),
            *([(block.cross_norm, layer.encoder_attn_layer_norm)] if cross else []),
        ]
        for ours, other in rest:
            other.load_state_dict(ours.state_dict())

    with torch.no_grad():
        theirs.model.shared.weight.copy_(body.embedding.weight)
        for block, layer in zip(body.encoder.blocks, theirs.model.encoder.layers, strict=True):
            copy(block, layer, cross=False)
        for block, layer in zip(body.decoder.blocks, theirs.model.decoder.layers, strict=True):
            copy(block, layer, cross=True)
    # Marian keeps all sines before all cosines; we take its table, in place of interleaved ones.
    body.encoder.positions.table = theirs.model.encoder.embed_positions.weight.detach().clone()
    body.decoder.positions.table = theirs.model.decoder.embed_positions.weight.detach().clone()
    return theirs


def padded(rows: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, documents = padded_sources(rows, END, 0)
    documents = torch.ones_like(tokens) if documents is None else documents
    return tokens, (documents != PADDING).long()


@torch.no_grad()
def test_logits_equal_marians() -> None:
    model = make()
    theirs = marian(model)
    tokens, real = padded(sources([3, 9, 6]))
    target = torch.randint(3, SIZE, (3, 7))
    found = theirs(input_ids=tokens, attention_mask=real, decoder_input_ids=target).logits
    ours = model.head(model.body(tokens, target, real))
    torch.testing.assert_close(ours, found, atol=1e-5, rtol=1e-5)
    seen = theirs(input_ids=tokens[:1, :4], decoder_input_ids=target[:1], output_attentions=True)
    with watching() as weights:
        model.body(tokens[:1, :4], target[:1])
    encoder, decoder = model.body.encoder.blocks, model.body.decoder.blocks
    for layers, expected in (
        ([block.attention for block in encoder], seen.encoder_attentions),
        ([block.attention for block in decoder], seen.decoder_attentions),
        ([block.cross for block in decoder], seen.cross_attentions),
    ):
        for layer, theirs_there in zip(layers, expected, strict=True):
            torch.testing.assert_close(weights[layer], theirs_there, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (2, 1.0), (4, 1.0), (4, 0.6), (5, 0.0), (3, 2.0)])
def test_greedy_and_beam_equal_marians(beam: int, penalty: float, seed: int) -> None:
    model = make(seed=seed)
    theirs = marian(model)
    rows = sources([3, 9, 6, 6, 1])
    tokens, real = padded(rows)
    made = theirs.generate(
        input_ids=tokens,
        attention_mask=real,
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=penalty,
        max_length=21,
        bad_words_ids=[[0], [1]],
        output_scores=True,
        return_dict_in_generate=True,
        do_sample=False,
    )
    found = search_batch(model, rows, [20] * 5, Search(beam, penalty), WORDS)
    ours = [h for hypotheses in found for h in hypotheses]
    clean = [[t for t in row[1:].tolist() if t not in (0, END)] for row in made.sequences]
    assert [h.tokens for h in ours] == clean
    if beam > 1:
        assert [h.score for h in ours] == pytest.approx(made.sequences_scores.tolist(), abs=1e-4)


def greedy(model: Model, source: np.ndarray, limit: int) -> list[int]:
    """Without a memory, a batch, or beams."""
    tokens = torch.tensor([[*source, END]])
    target = [1]
    with torch.no_grad():
        while len(target) <= limit and target[-1] != END:
            logits = model.head(model.body(tokens, torch.tensor([target])))[0, -1]
            logits[[0, 1]] = -torch.inf
            target.append(int(logits.argmax()))
    return [token for token in target[1:] if token != END]


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_a_beam_of_one_is_greedy(positions: str) -> None:
    model = make(replace(SHAPE, positions=positions))
    rows = sources([2, 11, 7, 7, 5, 3])
    found = search_all(model, rows, [15] * 6, Search(beam_size=1), WORDS)
    assert [hypotheses[0].tokens for hypotheses in found] == [greedy(model, row, 15) for row in rows]


@pytest.mark.parametrize("beam", [1, 3])
def test_batched_equals_alone(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greffon.inference.beam.BATCH_TOKENS", 100)  # several batches
    model = make()
    rows = sources([2, 14, 7, 7, 1, 9, 3, 12])
    limits = [2 * len(row) + 4 for row in rows]
    together = search_all(model, rows, limits, Search(beam), WORDS)
    for row, limit, mine in zip(rows, limits, together, strict=True):
        (alone,) = search_batch(model, [row], [limit], Search(beam), WORDS)
        assert [h.tokens for h in mine] == [h.tokens for h in alone]
        assert [h.score for h in mine] == pytest.approx([h.score for h in alone], abs=1e-5)
        assert all(len(h.tokens) <= limit for h in mine)


def log_probability(model: Model, source: np.ndarray, target: list[int]) -> float:
    tokens = torch.tensor([[*source, END]])
    with torch.no_grad():
        steps = model.head(model.body(tokens, torch.tensor([[1, *target]])))[0].log_softmax(dim=-1)
    return sum(steps[i, token].item() for i, token in enumerate([*target, END]))


def test_a_wide_beam_finds_the_best_of_all() -> None:
    size, limit = 7, 4
    model = make(size=size)
    (row,) = sources([4], size)
    (found,) = search_batch(model, [row], [limit], Search(beam_size=700, length_penalty=0.0), WORDS)
    words = [t for t in range(size) if t not in (0, 1, END)]
    ended = [list(t) for n in range(limit) for t in itertools.product(words, repeat=n)]
    best = max(ended, key=lambda target: log_probability(model, row, target))
    whole = [h for h in found if len(h.tokens) < limit]
    assert whole[0].tokens == best
    assert whole[0].score == pytest.approx(log_probability(model, row, best), abs=1e-4)


def test_finished_sentences_leave_the_batch() -> None:
    model = make()
    sizes = []
    model.body.decoder.norm.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    limits = [2, 5, 9]
    search_batch(model, sources([4, 5, 6]), limits, Search(beam_size=2), replace(WORDS, banned=(0, 1, END)))
    assert sizes == [6] * 2 + [4] * 3 + [2] * 4


@pytest.mark.parametrize("wrong", [{"beam_size": 0}, {"length_penalty": -1.0}])
def test_impossible_searches_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        Search(**wrong)


def test_scores_are_ordered() -> None:
    (found,) = search_batch(make(), sources([6]), [12], Search(beam_size=5), WORDS)
    assert len(found) == 5
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    assert len({tuple(h.tokens) for h in found}) == 5
    assert isinstance(found[0], Hypothesis)


def test_sentences_of_similar_length_share_a_batch_as_far_as_its_tokens_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greffon.inference.beam.BATCH_TOKENS", 24)
    assert list(_batches([5, 2, 4, 2, 3], beam=2)) == [[1, 3, 4], [2, 0]]  # 4 × 4 tokens for 2 beams would be 32
    assert list(_batches([4, 4, 4], beam=2)) == [[0, 1, 2]]  # exactly 24
    assert list(_batches([100, 1], beam=1)) == [[1], [0]]  # a sentence that is too long stands alone
