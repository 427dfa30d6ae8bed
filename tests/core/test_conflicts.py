"""Settings that would have no effect are refused."""

import pytest

from greffon.core.conflicts import FINETUNING_RULES, PRETRAINING_RULES, Idle, beside, refuse_idle, refuses
from greffon.core.errors import UserError


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
        (
            {"objective": "contrastive", "tie_embeddings": False},
            "--tie-embeddings has no effect with --objective",
        ),
        (
            {"objective": "contrastive", "head_transform": True},
            "--head-transform has no effect with --objective",
        ),
    ],
)
def test_settings_that_exclude_each_other(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError) as caught:
        refuse_idle(PRETRAINING_RULES, given)
    assert said in caught.value.on_command_line()
    assert str(caught.value).endswith("; give one of them")
    for name in given:
        refuse_idle(PRETRAINING_RULES, {**given, name: None})


def test_settings_that_act_together_are_left_alone() -> None:
    for given in (
        {"freeze": False, "layer_decay": 0.9},
        {"freeze": True, "adversarial_epsilon": 0.1, "optimizer": "adamw"},
        {"optimizer": "muon", "muon_learning_rate": 0.1},
        {"gradual_unfreezing": True, "layer_decay": 0.9},
        {"tie_embeddings": True, "head_bias": True},
        {"freeze": True, "unfreeze_every": 0, "gradual_unfreezing": False},
    ):
        refuse_idle(PRETRAINING_RULES, given)


def test_the_value_of_a_setting_that_was_left_out_counts_too() -> None:
    refuse_idle(PRETRAINING_RULES, {"muon_learning_rate": 0.1}, {"optimizer": "muon"})
    with pytest.raises(UserError, match=r"^muon_learning_rate has no effect with optimizer=adamw: AdamW"):
        refuse_idle(PRETRAINING_RULES, {"muon_learning_rate": 0.1}, {"optimizer": "adamw"})
    refuse_idle(PRETRAINING_RULES, {}, {"optimizer": "adamw", "muon_learning_rate": 0.1})


@pytest.mark.parametrize("name", ["batch_tokens", "label_smoothing", "metric_for_best"])
def test_settings_of_translation_need_a_translator(name: str) -> None:
    refuse_idle(PRETRAINING_RULES, {name: "bleu"}, {"objective": "seq2seq"})
    with pytest.raises(UserError, match=f"^{name}.* has no effect here: it is for translation"):
        refuse_idle(PRETRAINING_RULES, {name: "bleu"}, {"objective": "causal"})
    with pytest.raises(UserError, match="has no effect here: it is for translation"):
        refuse_idle(FINETUNING_RULES, {name: "bleu"})


@pytest.mark.parametrize("name", ["steps", "minutes", "eval_tokens"])
def test_fine_tuning_takes_no_other_length(name: str) -> None:
    with pytest.raises(UserError, match=f"^{name} has no effect in fine-tuning"):
        refuse_idle(FINETUNING_RULES, {name: 5})


def test_a_function_refuses_what_its_caller_wrote_and_nothing_else() -> None:
    @refuses(Idle(("beams", "penalty"), beside("greedy", True, "it looks at one")))
    def search(text: str, *, beams: int = 4, penalty: float = 1.0, greedy: bool = False) -> str:
        """Search."""
        return f"{text} {beams} {penalty} {greedy}"

    assert search("a", beams=2) == "a 2 1.0 False"
    assert search("a", greedy=True) == "a 4 1.0 True"  # the defaults were not asked for
    with pytest.raises(UserError, match=r"^penalty has no effect with greedy: it looks at one; give one of them$"):
        search("a", greedy=True, penalty=1.0)
    with pytest.raises(TypeError, match="beems"):
        search("a", beems=2)  # type: ignore[call-arg]
    assert search.__doc__ == "Search."
