import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from greffon.config import Shape, Training
from greffon.nn.body import Decoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.optim import AdamW, Muon, height, make_optimisers, orthogonalise, set_rates

TRAINING = Training(steps=100, warmup=10, rate=1.0, matrix_rate=0.5)


@pytest.mark.parametrize("form", [(8, 8), (8, 32), (32, 8), (3, 16, 24)])
def test_orthogonalise_keeps_directions_and_evens_their_size(form: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(form)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalise(matrix)
    assert found.shape == matrix.shape
    sizes = torch.linalg.svdvals(found)
    assert sizes.min() > 0.3
    assert sizes.max() < 1.4
    ideal = left @ right
    alike = (found * ideal).sum() / (found.norm() * ideal.norm())
    assert alike > 0.95


def test_schedule_climbs_falls_and_ends_at_zero() -> None:
    heights = [height(step, TRAINING) for step in range(100)]
    assert heights[0] == pytest.approx(0.1)
    assert heights[9] == heights[10] == 1.0
    assert heights[10:] == sorted(heights[10:], reverse=True)
    assert height(100, TRAINING) == 0.0
    assert height(100, replace(TRAINING, decay="cosine")) == pytest.approx(0.0)
    assert height(99, replace(TRAINING, decay="constant")) == 1.0


def test_inverse_square_root_is_the_papers_schedule() -> None:
    training = Training(steps=50_000, warmup=4000, decay="inverse-sqrt")
    peak = 512**-0.5 * 4000**-0.5
    for step in (0, 99, 3999, 4000, 10_000, 49_999):
        paper = 512**-0.5 * min((step + 1) ** -0.5, (step + 1) * 4000**-1.5)
        assert height(step, training) * peak == pytest.approx(paper)


def make_model() -> Model:
    body = Decoder(Shape(layers=2, width=16, heads=2, feed_forward=32), 40)
    return Model(body, VocabularyHead(16, 40, tied=body.embedding))


def test_every_parameter_has_exactly_one_optimiser() -> None:
    model = make_model()
    optimisers = make_optimisers(model, TRAINING)
    owned = [p for o in optimisers for group in o.param_groups for p in group["params"]]
    assert len(owned) == len(set(owned)) == len(list(model.parameters()))
    muons = [p for o in optimisers if isinstance(o, Muon) for g in o.param_groups for p in g["params"]]
    assert len(muons) == 2 * 6
    assert all(p.ndim == 2 for p in muons)


def test_lower_layers_learn_slower_and_later() -> None:
    model = make_model()
    training = replace(TRAINING, optimiser="adamw", layer_decay=0.5, unfreeze_every=20, decay="constant")
    (optimiser,) = make_optimisers(model, training)

    def rates(step: int) -> list[float]:
        set_rates([optimiser], step, training)
        return [group["lr"] for group in optimiser.param_groups]

    assert rates(15) == [0.0, 0.0, 0.0, 1.0]  # embedding, block 1, block 2, head
    assert rates(25) == [0.0, 0.0, 0.5, 1.0]
    assert rates(70) == [0.125, 0.25, 0.5, 1.0]


def test_adamw_is_pytorchs_to_the_bit() -> None:
    torch.manual_seed(0)
    start = torch.randn(7, 5)
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    settings = {"lr": 1e-2, "betas": (0.9, 0.95), "weight_decay": 0.1, "fused": True}
    optimisers = AdamW([ours], **settings), torch.optim.AdamW([theirs], **settings)
    for _ in range(5):
        gradient = torch.randn(7, 5)
        for p, optimiser in zip((ours, theirs), optimisers, strict=True):
            p.grad = gradient.clone()
            optimiser.step()
            optimiser.zero_grad()
            assert p.grad is None
        assert torch.equal(ours, theirs)


def test_training_does_not_load_the_compiler() -> None:
    code = """
import sys, torch
from greffon.optim import AdamW, Muon
for kind in (AdamW, Muon):
    p = torch.nn.Parameter(torch.randn(4, 4))
    optimiser = kind([p], lr=1e-3)
    p.square().sum().backward()
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    optimiser.step()
    optimiser.zero_grad()
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
