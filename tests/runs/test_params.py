from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.build import make_model
from greffon.runs.params import (
    Ledger,
    body_components,
    class_head_component,
    of_recipe,
    params,
    vocabulary_head_component,
)
from greffon.training import recipe as training_recipe
from greffon.training.pretrain import make_recipe


@pytest.mark.parametrize(
    ("vocabulary", "classes", "total"),
    [(100, None, 1_008_100), (100, 2, 988_402), (50_001, None, 21_018_401), (50_001, 2, 10_968_602)],
)
def test_founding_figures(vocabulary: int, classes: int | None, total: int) -> None:
    assert params(preset="lab", vocab_size=vocabulary, classes=classes).total == total


shapes = st.builds(
    Shape,
    layers=st.integers(1, 3),
    hidden_size=st.sampled_from([8, 24]),
    heads=st.sampled_from([1, 2, 4]),
    intermediate_size=st.integers(1, 40),
    key_value_heads=st.sampled_from([0, 1]),
    head_dim=st.sampled_from([0, 6]),
    qkv_bias=st.booleans(),
    qk_norm=st.booleans(),
    activation=st.sampled_from(["relu", "squared-relu", "gelu", "swiglu", "geglu"]),
    norm=st.sampled_from(["layer", "rms"]),
    norm_place=st.sampled_from(["pre", "post"]),
    positions=st.sampled_from(
        ["sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor", "rotary", "learned", "none"]
    ),
    bias=st.booleans(),
    tie_embeddings=st.booleans(),
    context=st.integers(1, 64),
    embedding_norm=st.booleans(),
    position_offset=st.sampled_from([0, 2]),
    head_transform=st.booleans(),
    head_bias=st.booleans(),
    untied_head_bias=st.booleans(),
)
modern = st.builds(
    Shape,
    layers=st.integers(1, 3),
    hidden_size=st.just(8),
    first_norm=st.booleans(),
    embedding_norm=st.just(True),
    local_attention=st.sampled_from([0, 4]),
    parallel_residual=st.booleans(),
    bias=st.booleans(),
)


def tensors(recipe: Recipe) -> int:
    return sum(p.numel() for p in make_model(recipe).parameters())


@given(st.one_of(shapes, modern), st.integers(1, 70))
def test_formulas_equal_tensors(shape: Shape, vocabulary: int) -> None:
    recipe = Recipe("causal", "compact", shape, Training(), Data(), vocabulary)
    ledger = Ledger((*body_components(shape, vocabulary), vocabulary_head_component(shape, vocabulary)))
    assert ledger.total == tensors(recipe)


@given(shapes, st.integers(1, 70))
def test_formulas_equal_tensors_of_translators(shape: Shape, vocabulary: int) -> None:
    recipe = Recipe("seq2seq", "small", shape, Training(), Data(), vocabulary)
    assert of_recipe(recipe).total == tensors(recipe)
    for component in of_recipe(recipe).components:
        if "=" in component.formula:
            assert eval(component.formula.partition("=")[2].replace("×", "*")) == component.count, component


def test_the_base_model_of_the_paper() -> None:
    found = params(preset="base", vocab_size=37_000)
    assert found.total == 63_082_496
    counts = {component.name: component.count for component in found.components}
    assert counts["embedding (source and target)"] == 37_000 * 512
    assert counts["vocabulary head"] == 0  # the third of the three uses of one matrix
    assert counts["decoder layer 6: cross-attention (query, key, value, out)"] == 4 * (512 * 512 + 512)
    with pytest.raises(UserError, match="translates and has no classes"):
        params(preset="base", classes=2)


grafts = st.builds(
    Graft,
    pooling=st.sampled_from(["last", "mean", "mean-max"]),
    concat_embeddings=st.booleans(),
    pooler_activation=st.sampled_from(["tanh", "relu", "gelu", "identity"]),
    pooler_bias=st.booleans(),
    pooler_norm=st.booleans(),
    class_bias=st.booleans(),
)


grafts = st.one_of(grafts, st.builds(Graft, pooling=st.sampled_from(["last", "mean", "mean-max"])))


@given(shapes, st.integers(2, 9), grafts)
def test_formulas_equal_tensors_of_classifiers(shape: Shape, classes: int, graft: Graft) -> None:
    labels = tuple(map(str, range(classes)))
    recipe = Recipe("classify", "compact", shape, Training(), Data(), 50, graft=graft, labels=labels)
    ledger = Ledger((*body_components(shape, 50), class_head_component(shape, classes, graft)))
    assert ledger.total == tensors(recipe)


@given(shapes)
def test_each_formula_works_out_to_its_count(shape: Shape) -> None:
    for component in [*body_components(shape, 33), vocabulary_head_component(shape, 33)]:
        if "=" in component.formula:
            numbers = component.formula.partition("=")[2].replace("×", "*")
            assert eval(numbers) == component.count, component


def test_heads_appear_nowhere() -> None:
    shape = Shape(hidden_size=240, heads=2)
    for heads in (1, 3, 4, 8):
        assert body_components(replace(shape, heads=heads), 100) == body_components(shape, 100)


@pytest.mark.parametrize("wrong", [{"vocab_size": 0}, {"classes": 1}, {"preset": "lob"}])
def test_bad_questions_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        params(**({"preset": "lab", "vocab_size": 100} | wrong))


@pytest.mark.parametrize("objective", ["causal", "masked", "contrastive"])
@pytest.mark.parametrize("preset", [None, "lab", "compact"])
def test_a_preset_has_what_pretraining_with_it_makes(
    objective: str, preset: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text(f"{'un deux ' * 30}\n" * 2)
    monkeypatch.setattr(training_recipe, "SMALL", 200)  # so that this is no small text
    recipe = make_recipe(tmp_path / "text.txt", objective=objective, preset=preset)
    made = make_model(recipe)
    assert params(preset=preset, objective=objective).total == sum(p.numel() for p in made.parameters())


def test_auto_is_wider_where_the_text_is_small_or_its_documents_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def form(text: str, **given: object) -> tuple[int, float]:
        (tmp_path / "text.txt").write_text(text)
        recipe = make_recipe(tmp_path / "text.txt", **{"objective": "contrastive", **given})
        return recipe.shape.hidden_size, recipe.contrast.block_share if recipe.contrast else 0.0

    short, long = "où est ma carte ?\n" * 20, f"{'un deux ' * 30}\n" * 20
    assert form(short) == form(long) == (512, 0.25)
    monkeypatch.setattr(training_recipe, "SMALL", 300)
    assert form(short) == (512, 0.25), "however long the text, its documents are short"
    assert form(long) == (128, 0.0)
    assert form(short, preset="compact") == form(short, objective="masked") == (128, 0.0)
    assert form(short, hidden_size=64) == (64, 0.0)
    assert form(short, block_share=0.5) == (512, 0.5)


def test_a_contrastive_body_counts_its_own_head() -> None:
    assert params(objective="contrastive").total == 4_329_472
    assert params(objective="contrastive").components[-1].name.startswith("contrast head")
    assert params(objective="contrastive", classes=2).components[-1].name == "class head"
