"""Settings that would have no effect are refused."""

from pathlib import Path

import pytest

from greffon.core.conflicts import (
    FINETUNING_RULES,
    GRAFT_RULES,
    LABEL_RULES,
    PRETRAINING_RULES,
    SHAPE_RULES,
    Idle,
    beside,
    refuse_idle,
    refuses,
)
from greffon.core.errors import UserError
from greffon.core.shape import Shape
from greffon.training.pretrain import make_recipe


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rope_theta": 5e5, "positions": "learned"}, "--rope-theta has no effect with --positions learned"),
        ({"partial_rotary_factor": 0.5, "positions": "none"}, "has no effect with --positions none"),
        ({"rope_scaling": "linear", "positions": "learned"}, "--rope-scaling linear has no effect with --positions"),
        ({"local_rope_theta": 5e5}, "--local-rope-theta has no effect with --local-attention 0"),
        ({"global_attention_every": 2}, "--global-attention-every has no effect with --local-attention 0"),
        ({"rope_factor": 2.0}, "--rope-factor has no effect with --rope-scaling none"),
        ({"rope_scaling": "linear", "rope_low_freq_factor": 2.0}, "has no effect with --rope-scaling linear"),
        ({"rope_high_freq_factor": 8.0}, "--rope-high-freq-factor has no effect with --rope-scaling none"),
        ({"rope_original_context": 512}, "--rope-original-context has no effect with --rope-scaling none"),
        ({"untied_head_bias": False}, "--untied-head-bias has no effect with --tie-embeddings: a tied"),
        ({"untied_head_bias": False, "tie_embeddings": False}, "--untied-head-bias has no effect with --bias false"),
        ({"qkv_bias": True, "bias": True}, "--qkv-bias has no effect with --bias"),
    ],
)
def test_settings_of_a_shape_without_what_they_shape(given: dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("un\ndeux\n")
    with pytest.raises(UserError) as caught:
        make_recipe(file, **given)
    assert said in caught.value.on_command_line()


def test_settings_of_a_shape_that_act_together_are_left_alone() -> None:
    for given in (
        {"rope_theta": 5e5, "rope_scaling": "linear", "rope_factor": 2.0},
        {"rope_scaling": "llama3", "rope_factor": 2.0, "rope_low_freq_factor": 2.0, "rope_original_context": 512},
        {"local_attention": 16, "global_attention_every": 2, "local_rope_theta": 5e5},
        {"positions": "learned", "rope_scaling": "none"},
        {"untied_head_bias": False, "tie_embeddings": False, "bias": True},
        {"qkv_bias": True},
    ):
        refuse_idle(SHAPE_RULES, given, vars(Shape()))


@pytest.mark.parametrize(
    ("own", "given", "other", "said"),
    [
        ("pairs", {"pair_columns": ("a", "b")}, "classes", "pair_columns has no effect here: it is for pairs of texts"),
        ("multilabel", {"label_separator": ","}, "pairs", "label_separator=, has no effect here: it is for texts with"),
        ("classes", {"text_column": "t"}, "pairs", "text_column=t has no effect here: pair_columns names the two"),
    ],
)
def test_settings_of_labelled_files_need_their_task(own: str, given: dict[str, object], other: str, said: str) -> None:
    refuse_idle(LABEL_RULES, given, {"task": own})
    with pytest.raises(UserError, match=f"^{said}"):
        refuse_idle(LABEL_RULES, given, {"task": other})


def test_a_pair_that_is_read_as_one_text_has_no_windows() -> None:
    said = "long_texts=windows has no effect with pair_reading=cross: long pairs are truncated"
    with pytest.raises(UserError, match=f"^{said}"):
        refuse_idle(GRAFT_RULES, {"pair_reading": "cross", "long_texts": "windows"})
    refuse_idle(GRAFT_RULES, {"pair_reading": "towers", "long_texts": "windows"})
    refuse_idle(GRAFT_RULES, {"pair_reading": "cross", "long_texts": "truncate"})
    refuse_idle(GRAFT_RULES, {"pooling": "mean", "long_texts": "windows"})


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
