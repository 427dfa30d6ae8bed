import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.config import from_dict, override
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS, preset
from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training


def make(name: str) -> Recipe:
    found = PRESETS[name]()
    return Recipe(
        "classify",
        name,
        found.shape,
        found.training,
        Data(train=("a.csv",)),
        100,
        origin="runs/x",
        graft=Graft(),
        labels=("n", "p"),
    )


@pytest.mark.parametrize("name", PRESETS)
def test_a_recipe_survives_json(name: str) -> None:
    recipe = make(name)
    assert from_dict(Recipe, json.loads(json.dumps(dataclasses.asdict(recipe))), "recipe.json") == recipe


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": {"laers": 3}}, "recipe.json: shape: unknown setting 'laers'; did you mean 'layers'?"),
        ({"shape": {"norm": "lyaer"}}, "shape: norm: unknown choice 'lyaer'; did you mean 'layer'?"),
        ({"shape": {"layers": "four"}}, "shape: layers: expected int, found 'four'"),
        ({"shape": {"layers": True}}, "shape: layers: expected int, found True"),
        ({"shape": 3}, "shape: expected a table of settings, found int"),
        ({"shape": {"hidden_size": 10, "heads": 4}}, "hidden_size=10 cannot be cut into 4 heads"),
        ({"shape": {"hidden_size": 12, "heads": 4}}, "rotary positions turn pairs"),
        ({"shape": {"dropout": 1.0}}, "dropout is 1.0"),
        ({"training": {"batch_size": 0}}, "batch_size is 0; choose 1 or more"),
        ({"graft": {"adversarial_epsilon": -1.0}}, "adversarial_epsilon is -1.0; choose 0 for none"),
        ({"training": {"learning_rate": -1.0}}, "learning_rate is -1.0; choose a number above 0"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], said: str) -> None:
    values = dataclasses.asdict(make("compact")) | change
    with pytest.raises(UserError) as caught:
        from_dict(Recipe, values, "recipe.json")
    assert said in str(caught.value)


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(UserError, match="the setting 'objective' is missing"):
        from_dict(Recipe, {}, "recipe.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(f.name for f in dataclasses.fields(Recipe))), json_values)
def test_any_json_is_read_or_refused_in_one_sentence(name: str, value: object) -> None:
    try:
        from_dict(Recipe, dataclasses.asdict(make("compact")) | {name: value}, "recipe.json")
    except UserError as mistake:
        said = str(mistake)
    else:
        said = ""
    assert "\n" not in said.replace(repr(value), "")


def test_override_takes_what_is_given() -> None:
    assert override(Shape(), {"layers": 6, "hidden_size": None, "learning_rate": 1.0}) == Shape(layers=6)
    assert override(Training(), {"layers": 6, "learning_rate": 1.0}).learning_rate == 1.0


def test_presets_are_named_when_missing() -> None:
    with pytest.raises(UserError, match="unknown preset 'compct'; did you mean 'compact'"):
        preset("compct", "causal")
    with pytest.raises(UserError, match="causal, masked, contrastive, not seq2seq; for seq2seq choose small"):
        preset("lab", "seq2seq")
