"""Device, precision and threads, as far as they can be tried on a machine without a GPU."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import greffon
from greffon.cli import run as command
from greffon.core.device import asked_device, asked_precision, has_bf16, use, using
from greffon.core.errors import UserError
from greffon.core.recipe import Data as RecipeData
from greffon.core.recipe import Masking, Recipe
from greffon.core.settings import Machine
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.build import make_model
from greffon.nn.model import Model

there = torch.cuda.is_available()
TINY = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 32, "batch_size": 4}
needs_bf16 = pytest.mark.skipif(not has_bf16("cpu"), reason="this CPU has no bf16")


@pytest.fixture(autouse=True)
def own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GREFFON_DEVICE", raising=False)
    monkeypatch.delenv("GREFFON_PRECISION", raising=False)


def test_the_cpu_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "cpu", *([] if there or torch.backends.mps.is_available() else ["auto"])):
        monkeypatch.setenv("GREFFON_DEVICE", name)
        assert asked_device() == torch.device("cpu")
    monkeypatch.delenv("GREFFON_DEVICE")
    assert asked_device() == torch.device("cpu")


@pytest.mark.parametrize(("cuda", "mps", "found"), [(2, True, "cuda"), (0, True, "mps"), (0, False, "cpu")])
def test_auto_takes_a_gpu(cuda: int, mps: bool, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    with using(Machine(device="auto")):
        assert asked_device() == torch.device(found)
    with using(Machine(device="mps")):
        assert not mps or asked_device() == torch.device("mps")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "mps:1"])
def test_a_device_that_is_not_here_ends_in_a_sentence(
    name: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GREFFON_DEVICE", name)
    words = ["pretrain", str(corpus), "--steps", "1", "--vocab-size", "300", "--out", str(tmp_path / "run")]
    assert command(words) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("greffon: the device is ")
    assert name in last


def test_what_is_used_for_a_while_is_as_before_afterwards() -> None:
    threads = torch.get_num_threads()
    with using(Machine("cpu", "bf16", threads + 1)):
        assert (os.environ["GREFFON_DEVICE"], os.environ["GREFFON_PRECISION"]) == ("cpu", "bf16")
        assert torch.get_num_threads() == threads + 1
        use(Machine(precision="fp32"))
        assert os.environ["GREFFON_DEVICE"] == "cpu"
    assert not {"GREFFON_DEVICE", "GREFFON_PRECISION"} & {*os.environ}
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("settings", [{"device": "gpu"}, {"precision": "fp16"}, {"threads": 0}])
def test_an_unknown_choice_is_refused(settings: dict[str, object], corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=next(iter(settings))):
        greffon.pretrain([corpus], out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_cpu_without_bf16_says_so_and_takes_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    with using(Machine(precision="bf16")), pytest.warns(UserWarning, match="computes in fp32"):
        assert asked_precision(torch.device("cpu")) == torch.float32


def model_of(objective: str = "causal", **shape: object) -> Model:
    kinds = {"causal": "decoder", "masked": "encoder", "seq2seq": "encoder-decoder"}
    recipe = Recipe(objective, "compact", Shape(**{**SHAPE, **shape}), Training(steps=1), RecipeData(), 50)
    masking = Masking() if objective == "masked" else None
    return make_model(replace(recipe, body=kinds[objective], masking=masking))


SHAPE = {name: value for name, value in TINY.items() if name != "batch_size"}


def pretrain(corpus: Path, out: Path, **settings: object) -> greffon.Run:
    return greffon.pretrain([corpus], out=out, vocab_size=400, quiet=True, **{"steps": 30, **TINY, **settings})


@needs_bf16
@pytest.mark.parametrize("objective", ["causal", "masked", "contrastive"])
def test_bf16_learns_nearly_the_same_and_is_recorded(objective: str, corpus: Path, tmp_path: Path) -> None:
    exact, rough = (
        pretrain(corpus, tmp_path / precision, objective=objective, precision=precision)
        for precision in ("fp32", "bf16")
    )
    assert exact.recipe.environment["precision"] == "fp32"
    assert rough.recipe.environment == {**exact.recipe.environment, "precision": "bf16"}
    pairs = [[e["loss"] for e in run.metrics() if "loss" in e] for run in (exact, rough)]
    assert pairs[0] != pairs[1]
    assert pairs[1][:10] == pytest.approx(pairs[0][:10], rel=0.05)
    assert all(p.dtype == torch.float32 for p in rough.load_model().parameters())
    with pytest.warns(UserWarning, match="precision: bf16 before, fp32 now"):
        greffon.resume(rough, extra_steps=2, quiet=True)
    assert json.loads((rough.path / "recipe.json").read_text())["environment"]["precision"] == "fp32"


@pytest.mark.parametrize("positions", ["rotary", "learned"])
@pytest.mark.parametrize("objective", ["causal", "masked", "seq2seq"])
def test_no_tensor_stays_behind_on_another_device(objective: str, positions: str) -> None:
    """Fake tensors compute nothing, but refuse to mix devices; real ones besides the CPU are untested."""
    model = model_of(objective, positions=positions).to("meta")
    with FakeTensorMode(allow_non_fake_inputs=True):
        tokens = torch.ones((2, 8), dtype=torch.long, device="meta")
        documents = torch.ones((2, 8), dtype=torch.long, device="meta")
        second = {"causal": None, "masked": documents, "seq2seq": tokens}[objective]
        hidden = model.body(tokens, second)
        assert model.device == hidden.device == torch.device("meta")
        hidden.sum().backward()
        assert all(p.grad is None or p.grad.device.type == "meta" for p in model.parameters())
        with pytest.raises(RuntimeError, match="same device"):  # what is mixed is noticed
            hidden + torch.ones(hidden.shape)


@pytest.mark.skipif(not there, reason="needs a GPU")
def test_a_gpu_that_is_asked_for_trains(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", device="cuda", precision="bf16")
    assert run.recipe.environment["device"] == "cuda"
    assert math.isfinite(run.scores["loss"])
