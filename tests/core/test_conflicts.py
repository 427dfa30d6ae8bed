"""Two settings of which one would be ignored are refused."""

import pytest

from greffon.core.errors import UserError
from greffon.core.settings import refuse_conflicts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"freeze": True, "layer_decay": 0.9}, "--layer-decay has no effect with --freeze"),
        ({"freeze": True, "gradual_unfreezing": True}, "--gradual-unfreezing has no effect with --freeze"),
        ({"freeze": True, "unfreeze_every": 5}, "--unfreeze-every has no effect with --freeze"),
        ({"freeze": True, "optimizer": "muon"}, "--optimizer muon has no effect with --freeze"),
        ({"freeze": True, "muon_learning_rate": 0.1}, "--muon-learning-rate has no effect with --freeze"),
        ({"optimizer": "adamw", "muon_learning_rate": 0.1}, "has no effect with --optimizer adamw"),
        ({"gradual_unfreezing": True, "unfreeze_every": 5}, "has no effect with --gradual-unfreezing"),
        ({"tie_embeddings": False, "head_bias": True}, "--head-bias has no effect with --tie-embeddings false"),
    ],
)
def test_settings_that_exclude_each_other(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError) as caught:
        refuse_conflicts(given)
    assert said in str(caught.value)
    assert str(caught.value).endswith("; give one of them")
    for name in given:
        refuse_conflicts({**given, name: None})


def test_settings_that_act_together_are_left_alone() -> None:
    refuse_conflicts({"freeze": False, "layer_decay": 0.9})
    refuse_conflicts({"freeze": True, "adversarial_epsilon": 0.1, "optimizer": "adamw"})
    refuse_conflicts({"optimizer": "muon", "muon_learning_rate": 0.1})
    refuse_conflicts({"gradual_unfreezing": True, "layer_decay": 0.9})
    refuse_conflicts({"tie_embeddings": True, "head_bias": True})
