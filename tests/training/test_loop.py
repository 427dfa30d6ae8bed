import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from greffon.core.recipe import Data, Recipe
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.build import make_model
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.training import loop, optim
from greffon.training.loop import Step, fit
from greffon.training.optim import load_state_tensors, make_optimizers, state_tensors
from greffon.training.schedule import Schedule

LENGTH, VOCABULARY = 16, 50
CAUSAL = Causal(padding=0, start=1, length=LENGTH, byte_lengths=np.ones(VOCABULARY))
SHAPE = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=LENGTH, dropout=0.1)


def windows(step: int, rows: int = 4) -> list[np.ndarray]:
    """Rows of unequal length, so that batches differ in how many real targets they have."""
    random = generator(0, "windows", step)
    return [random.integers(1, VOCABULARY, random.integers(3, LENGTH + 2)) for _ in range(rows)]


def one_batch(step: int) -> Sequence[Batch]:
    return [CAUSAL.batch(windows(step))]


def make(training: Training, dropout: float = 0.0) -> tuple[Model, list[torch.optim.Optimizer]]:
    recipe = Recipe("causal", "compact", replace(SHAPE, dropout=dropout), training, Data(), VOCABULARY)
    model = make_model(recipe)
    return model, make_optimizers(model, training)


def run(model: Model, optimizers: list[torch.optim.Optimizer], training: Training, done: int, until: int) -> list[Step]:
    steps = fit(model, CAUSAL, one_batch, optimizers, training, Schedule(training, done))
    return list(itertools.islice(steps, until - done))


def test_accumulated_batches_equal_one_batch() -> None:
    training = Training(steps=6, warmup_steps=2)

    def rows_alone(step: int) -> Sequence[Batch]:
        return [CAUSAL.batch([row]) for row in windows(step)]

    found = []
    for batches in (one_batch, rows_alone):
        model, optimizers = make(training)
        losses = [step.loss for step in fit(model, CAUSAL, batches, optimizers, training)]
        found.append((losses, [p.detach() for p in model.parameters()]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for one, many in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, many, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("tied", [True, False])
def test_a_vast_vocabulary_is_read_in_passes_that_equal_one(tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(steps=6, warmup_steps=2)
    found = []
    for vast in (1000.0, 0.001):
        monkeypatch.setattr(loop, "LARGE_HEAD_RATIO", vast)
        monkeypatch.setattr(loop, "MICRO_BATCH_TARGETS", 10)
        monkeypatch.setattr(
            optim, "LARGE_EMBEDDING", 1
        )  # untied, the embedding's gradient is that of the rows looked up
        recipe = Recipe(
            "causal", "compact", replace(SHAPE, dropout=0.0, tie_embeddings=tied), training, Data(), VOCABULARY
        )
        model = make_model(recipe)
        seen: list[int] = []
        model.body.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(len(inputs[0])))
        steps = list(fit(model, CAUSAL, one_batch, make_optimizers(model, training), training))
        assert (set(seen) == {4}) is (vast > 1)
        assert sum(seen) == 4 * 6
        found.append((steps, [p.detach() for p in model.parameters()]))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert (one.tokens, one.bytes, one.padding, one.targets) == (
            other.tokens,
            other.bytes,
            other.padding,
            other.targets,
        )
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-4)
    for one, many in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, many, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_going_on_is_the_same_as_never_stopping(optimizer: str) -> None:
    training = Training(steps=9, warmup_steps=2, optimizer=optimizer)
    model, optimizers = make(training, dropout=0.1)
    whole = run(model, optimizers, training, 0, 9)

    first, its_optimizers = make(training, dropout=0.1)
    begun = run(first, its_optimizers, training, 0, 4)
    torch.randn(100)  # whatever else uses the global generator must not matter
    second, other_optimizers = make(training, dropout=0.1)
    second.load_state_dict(first.state_dict())
    load_state_tensors(
        second, other_optimizers, {k: v.clone() for k, v in state_tensors(first, its_optimizers).items()}
    )
    rest = run(second, other_optimizers, training, 4, 9)

    assert [s.loss.hex() for s in begun + rest] == [s.loss.hex() for s in whole]
    for one, other in zip(model.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_training_leaves_the_global_generator_alone() -> None:
    training = Training(steps=2)
    model, optimizers = make(training, dropout=0.5)
    torch.manual_seed(5)
    wanted = torch.randn(3)
    torch.manual_seed(5)
    run(model, optimizers, training, 0, 2)
    assert torch.equal(torch.randn(3), wanted)


def test_it_learns() -> None:
    training = Training(steps=60, warmup_steps=5, learning_rate=1e-2, muon_learning_rate=1e-2)
    model, optimizers = make(training)
    same = [CAUSAL.batch(windows(0))]
    losses = [step.loss for step in fit(model, CAUSAL, lambda step: same, optimizers, training)]
    assert losses[-1] < 0.3 * losses[0]
