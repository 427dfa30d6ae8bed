import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.body import Decoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.training import optim
from greffon.training.optim import (
    AdamW,
    Muon,
    clip_gradients,
    load_state_tensors,
    make_optimizers,
    orthogonalize,
    set_learning_rates,
    state_tensors,
)
from greffon.training.schedule import Schedule

TRAINING = Training(steps=100, warmup_steps=10, learning_rate=1.0, muon_learning_rate=0.5)


def lr_multiplier(step: int, training: Training) -> float:
    return Schedule(training).lr_multiplier(step)


@pytest.mark.parametrize("form", [(8, 8), (8, 32), (32, 8), (3, 16, 24)])
def test_orthogonalise_keeps_directions_and_evens_their_size(form: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(form)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalize(matrix)
    assert found.shape == matrix.shape
    sizes = torch.linalg.svdvals(found)
    assert sizes.min() > 0.3
    assert sizes.max() < 1.4
    ideal = left @ right
    alike = (found * ideal).sum() / (found.norm() * ideal.norm())
    assert alike > 0.95


def test_schedule_climbs_falls_and_ends_at_zero() -> None:
    heights = [lr_multiplier(step, TRAINING) for step in range(100)]
    assert heights[0] == pytest.approx(0.1)
    assert heights[9] == heights[10] == 1.0
    assert heights[10:] == sorted(heights[10:], reverse=True)
    assert lr_multiplier(100, TRAINING) == 0.0
    assert lr_multiplier(100, replace(TRAINING, lr_schedule="cosine")) == pytest.approx(0.0)
    assert lr_multiplier(99, replace(TRAINING, lr_schedule="constant")) == 1.0


def test_inverse_square_root_is_the_papers_schedule() -> None:
    training = Training(steps=50_000, warmup_steps=4000, lr_schedule="inverse-sqrt")
    peak = 512**-0.5 * 4000**-0.5
    for step in (0, 99, 3999, 4000, 10_000, 49_999):
        paper = 512**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4000**-1.5)
        assert lr_multiplier(step, training) * peak == pytest.approx(paper)


def make_model() -> Model:
    body = Decoder(Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32), 40)
    return Model(body, VocabularyHead(16, 40, tied=body.embedding))


def test_every_parameter_has_exactly_one_optimizer() -> None:
    model = make_model()
    optimizers = make_optimizers(model, TRAINING)
    owned = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    assert len(owned) == len(set(owned)) == len(list(model.parameters()))
    muons = [p for o in optimizers if isinstance(o, Muon) for g in o.param_groups for p in g["params"]]
    assert len(muons) == 2 * 6
    assert all(p.ndim == 2 for p in muons)


def test_lower_layers_learn_slower_and_later() -> None:
    model = make_model()
    training = replace(TRAINING, optimizer="adamw", layer_decay=0.5, unfreeze_every=20, lr_schedule="constant")
    (optimizer,) = make_optimizers(model, training)

    def rates(step: int) -> list[float]:
        set_learning_rates([optimizer], step, Schedule(training))
        return [group["lr"] for group in optimizer.param_groups]

    assert rates(15) == [0.0, 0.0, 0.0, 1.0]  # embedding, block 1, block 2, head
    assert rates(25) == [0.0, 0.0, 0.5, 1.0]
    assert rates(70) == [0.125, 0.25, 0.5, 1.0]


def test_adamw_is_pytorchs_to_the_bit() -> None:
    torch.manual_seed(0)
    start = torch.randn(7, 5)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    settings = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": True}
    optimizers = AdamW([ours], **settings), torch.optim.AdamW([theirs], **settings)
    for _ in range(5):
        gradient = torch.randn(7, 5)
        for p, optimizer in zip((ours, theirs), optimizers, strict=True):
            p.grad = gradient.clone()
            optimizer.step()
            optimizer.zero_grad()
            assert p.grad is None
        assert torch.equal(ours, theirs)


def test_training_does_not_load_the_compiler() -> None:
    code = """
import sys, torch
from greffon.training.optim import AdamW, Muon
for kind in (AdamW, Muon):
    p = torch.nn.Parameter(torch.randn(4, 4))
    optimizer = kind([p], lr=1e-3)
    p.square().sum().backward()
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    optimizer.step()
    optimizer.zero_grad()
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def untied(
    monkeypatch: pytest.MonkeyPatch, *, by_rows: bool, gradient_accumulation: int = 1
) -> tuple[Model, list[torch.optim.Optimizer]]:
    monkeypatch.setattr(optim, "LARGE_EMBEDDING", 1 if by_rows else 1 << 60)
    monkeypatch.setattr(optim, "ROWS", 7)  # 40 rows: the last part is short
    torch.manual_seed(0)
    model = Model(
        Decoder(Shape(layers=1, hidden_size=16, heads=2, intermediate_size=32, tie_embeddings=False), 40),
        VocabularyHead(16, 40),
    )
    training = replace(TRAINING, learning_rate=0.01, weight_decay=0.1, gradient_accumulation=gradient_accumulation)
    return model, make_optimizers(model, training)


def learn(model: Model, optimizers: list[torch.optim.Optimizer], most: float) -> list[float]:
    """Take four steps of two batches each; return the norms of the gradients."""
    norms = []
    for step in range(4):
        for part in range(2):
            tokens = torch.randint(0, 40 if step % 2 else 5, (2, 6), generator=torch.Generator().manual_seed(step))
            logits = model.head(model.body(tokens))
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), (tokens.flatten() + part) % 40).backward()
        norms.append(clip_gradients(model.parameters(), most).item())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return norms


@pytest.mark.parametrize("most", [0.1, 1e9])
def test_rows_learn_as_the_whole_embedding_does(monkeypatch: pytest.MonkeyPatch, most: float) -> None:
    model, optimizers = untied(monkeypatch, by_rows=False)
    norms = learn(model, optimizers, most)
    other, others = untied(monkeypatch, by_rows=True)
    assert other.body.embedding.sparse
    assert not model.body.embedding.sparse
    assert learn(other, others, most) == pytest.approx(norms, rel=1e-5)
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    found, wanted = state_tensors(other, others), state_tensors(model, optimizers)
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, wanted[name], rtol=1e-4, atol=1e-5)


def test_only_a_matrix_that_nothing_else_reads_has_gradients_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optim, "LARGE_EMBEDDING", 1)
    model = make_model()
    make_optimizers(model, TRAINING)
    assert not model.body.embedding.sparse
    model, _ = untied(monkeypatch, by_rows=True, gradient_accumulation=2)
    assert not model.body.embedding.sparse
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    model, _ = untied(monkeypatch, by_rows=True)
    assert not model.body.embedding.sparse


def test_clipping_is_pytorch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = untied(monkeypatch, by_rows=True)
    tokens = torch.tensor([[3, 5, 3, 7]])
    model.body(tokens).square().mean().backward()
    norm = clip_gradients(model.parameters(), 1e-3)
    dense = [p.grad.to_dense() for p in model.parameters() if p.grad is not None]
    assert norm > 1e-3
    assert torch.nn.utils.get_total_norm(dense) == pytest.approx(1e-3, rel=1e-2)


def test_rows_go_on_exactly_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizers = untied(monkeypatch, by_rows=True)
    learn(model, optimizers, 1.0)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = {name: tensor.clone() for name, tensor in state_tensors(model, optimizers).items()}
    learn(model, optimizers, 1.0)
    other, others = untied(monkeypatch, by_rows=True)
    other.load_state_dict(weights)
    load_state_tensors(other, others, state)
    learn(other, others, 1.0)
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
