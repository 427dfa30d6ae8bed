"""Text token by token: the same text as in one piece, and the model's own thoughts beside it."""

import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import greffon
from greffon.core.cancellation import Cancelled, cancellable
from greffon.core.errors import UserError
from greffon.inference.loading import load
from greffon.runs.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:the text is too small")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("stream")
    # Hardly any merges: most tokens are single bytes, so that characters come in pieces.
    (folder / "text.txt").write_text("\n".join(f"été ☃ à {i} ∎" for i in range(60)), encoding="utf-8")
    shape = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 24, "batch_size": 4}
    return greffon.pretrain([folder / "text.txt"], out=folder / "run", vocab_size=270, steps=40, quiet=True, **shape)


@settings(max_examples=25)
@given(st.text(max_size=8), st.integers(0, 1000), st.integers(1, 30), st.floats(0, 3))
def test_the_pieces_are_the_text(run: Run, prompt: str, seed: int, tokens: int, temperature: float) -> None:
    how = {"max_new_tokens": tokens, "seed": seed, "temperature": temperature}
    written = list(greffon.stream(run, prompt, **how))
    whole = greffon.generate(run, prompt, **how)
    assert prompt + "".join(one.text for one in written) == whole.text
    assert len([one for one in written if not one.end]) == whole.tokens


def test_probabilities_are_those_of_the_model(run: Run) -> None:
    everything = len(run.tokenizer.ordinary) + 1
    first = next(greffon.stream(run, "été", temperature=0.0, alternatives=everything))
    with torch.no_grad():
        logits = load(run)(torch.tensor([[run.tokenizer.start, *run.tokenizer.encode("été")]]))[0, -1]
    never = [run.tokenizer.pad, run.tokenizer.start, run.tokenizer.cls, run.tokenizer.sep, run.tokenizer.mask]
    logits[never] = -torch.inf
    expected = logits.softmax(-1).sort(descending=True).values[:everything].tolist()
    assert [one.probability for one in first.alternatives] == pytest.approx(expected, abs=1e-5)
    assert first.alternatives[0].token == first.token
    assert first.probability == first.alternatives[0].probability


def test_the_question_is_checked_before_the_first_token(run: Run) -> None:
    with pytest.raises(UserError, match="alternatives is -1; choose a number from 0"):
        greffon.stream(run, "été", alternatives=-1)
    with pytest.raises(UserError, match="max_new_tokens is 0"):
        greffon.stream(run, "été", max_new_tokens=0)


def test_work_that_is_called_off_stops_at_the_next_token(run: Run) -> None:
    called_off = threading.Event()
    with cancellable(called_off):
        steps = greffon.stream(run, "été", max_new_tokens=1000, temperature=2.0)
        assert next(steps).probability > 0
        called_off.set()
        with pytest.raises(Cancelled):
            next(steps)
    assert len(list(greffon.stream(run, "été", max_new_tokens=3, temperature=2.0))) > 1  # elsewhere nothing has changed
