"""Kill -9, SIGTERM and Ctrl-C at awkward moments: what goes on is bit for bit what never stopped."""

import pytest
from kills import Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("kills"))


@pytest.mark.parametrize(
    ("kind", "places"),
    [
        ("causal", ("tokenizer", "save", "")),
        ("masked", ("evaluation", "")),
        ("contrastive", ("save", "")),
        ("seq2seq", ("weights", "")),
        ("finetune", ("", "save")),
    ],
)
def test_killed_runs_go_on_bit_for_bit(stage: Stage, kind: str, places: tuple[str, ...]) -> None:
    stage.reference("causal")  # the body of the fine-tuning
    found = stage.ordeal(kind, kills=len(places), seed=0, places=places)
    assert len(found.kills) == len(places)
    assert found.replayed > 0
    assert found.mismatches == []


def test_a_comparison_whose_process_is_killed_keeps_what_it_has(stage: Stage) -> None:
    stage.reference("causal")
    found = stage.comparison(kills=1, seed=0, arms=2)
    assert len(found.kills) == 1
    assert found.mismatches == []
