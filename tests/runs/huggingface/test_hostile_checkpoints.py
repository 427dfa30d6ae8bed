"""Hostile and damaged checkpoints: each is refused in one sentence, in bounded memory, and nothing is written."""

import json
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import checkpoints
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

import greffon
from greffon.core.errors import UserError
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound checkpoints: an encoder, two decoders, three with heads, and an encoder in two shards."""
    path = tmp_path_factory.mktemp("sound")
    checkpoints.bert(path / "bert")
    checkpoints.llama(path / "llama")
    checkpoints.bert(path / "classes", "ForSequenceClassification", **checkpoints.LABELS)
    for make in (checkpoints.modernbert, checkpoints.eurobert):
        make(path / make.__name__, "ForSequenceClassification", **checkpoints.LABELS)
    checkpoints.neox(path / "neox")
    shards = shutil.copytree(path / "bert", path / "shards")
    tensors = load_file(shards / "model.safetensors")
    parts = {"a.safetensors": sorted(tensors)[:10], "b.safetensors": sorted(tensors)[10:]}
    for name, names in parts.items():
        save_file({key: tensors[key] for key in names}, shards / name)
    (shards / "model.safetensors").unlink()
    (shards / INDEX).write_text(json.dumps({"weight_map": {key: n for n, keys in parts.items() for key in keys}}))
    return path


@pytest.fixture
def bounded() -> Iterator[None]:
    """Let no allocation of more than a few gigabytes succeed."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def refuse(source: Path, out: Path, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as told:
        greffon.import_checkpoint(source, out=out, quiet=True)
    assert len(str(told.value).splitlines()) == 1
    assert not out.exists()


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("bert", {"hidden_size": -16}, "hidden_size is -16"),
        ("bert", {"num_hidden_layers": -1}, "layers is -1"),
        ("bert", {"num_hidden_layers": 10**12}, "layers is 1000000000000"),
        ("bert", {"hidden_size": 100_000}, r"by config\.json it would be \(\d+, 100000\)"),
        ("bert", {"intermediate_size": 1_000_000}, r"by config\.json it would be \(1000000, 16\)"),
        ("llama", {"head_dim": 100_000}, r"by config\.json it would be \(200000, 16\)"),
        ("bert", {"num_hidden_layers": 2.0}, r"config\.json: layers: expected int, found 2\.0"),
        ("bert", {"num_hidden_layers": True}, "layers: expected int, found True"),
        ("bert", {"tie_word_embeddings": "x"}, "tie_embeddings: expected bool, found 'x'"),
        ("bert", {"type_vocab_size": -2}, "segments is -2"),
        ("bert", {"hidden_act": ["gelu"]}, r"hidden_act \['gelu'\] is not supported"),
        ("bert", {"architectures": 5}, "the architecture 5 is not supported"),
        ("bert", {"architectures": {"a": 1}}, r"the architecture \{'a': 1\} is not supported"),
        ("bert", {"architectures": [[1]]}, r"the architecture \[\[1\]\] is not supported"),
        ("classes", {"id2label": 3}, "id2label must be a table"),
        ("classes", {"problem_type": ["x"]}, r"problem_type \['x'\] is unknown"),
        ("classes", {"classifier_dropout": "x"}, "head_dropout: expected float, found 'x'"),
        ("modernbert", {"classifier_activation": ["gelu"]}, r"classifier_activation \['gelu'\] is not supported"),
        ("modernbert", {"num_hidden_layers": 10**12}, "layer_types follows no regular pattern"),
        ("modernbert", {"layer_types": None, "global_attn_every_n_layers": 0}, "global_attention_every is 0"),
        ("eurobert", {"classifier_pooling": ["mean"]}, r"classifier_pooling \['mean'\] is not supported"),
        ("neox", {"num_attention_heads": 0}, "heads is 0"),
        ("neox", {"num_attention_heads": 10**12}, "heads"),
        ("neox", {"hidden_size": 100_000}, r"by config\.json it would be \(\d+, 100000\)"),
        ("llama", {"num_key_value_heads": "1"}, "of the wrong kind"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "of the rope settings is None"),
    ],
)
def test_hostile_settings_are_refused(
    name: str, changes: dict[str, Any], reason: str, folder: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(folder / name, tmp_path / "changed")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | changes))
    refuse(source, tmp_path / "run", reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (lambda there: (there / "a.safetensors").unlink(), r"lacks 'a\.safetensors', which model.*json names; fetch"),
        (lambda there: (there / "b.safetensors").unlink(), r"lacks 'b\.safetensors', which"),
        ("../outside.safetensors", r"names '\.\./outside\.safetensors', which lies elsewhere"),
        ("../nothing.safetensors", r"names '\.\./nothing\.safetensors', which lies elsewhere"),
        ("/etc/passwd", "which lies elsewhere"),
        ("x/../a.safetensors", "which lies elsewhere"),
        ("..", "which lies elsewhere"),
        ("\0", r"lacks '\\x00', which"),
        ("é" * 500, "which model.*json names; fetch it"),
        (5, "weight_map must name the file of each tensor"),
    ],
)
def test_an_index_names_files_beside_it(
    changes: str | int | Callable[[Path], None], reason: str, folder: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(folder / "shards", tmp_path / "changed")
    shutil.copy(folder / "bert" / "model.safetensors", tmp_path / "outside.safetensors")
    if callable(changes):
        changes(source)
    else:
        content = json.loads((source / INDEX).read_text())
        content["weight_map"][min(content["weight_map"])] = changes
        (source / INDEX).write_text(json.dumps(content))
    refuse(source, tmp_path / "run", reason)


@pytest.mark.parametrize("content", ['{"weight_map": [1]}', '{"weight_map": null}', '{"weight_map": {}}', "{}"])
def test_an_index_has_a_table_of_weights(content: str, folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "shards", tmp_path / "changed")
    (source / INDEX).write_text(content)
    refuse(source, tmp_path / "run", "weight_map must name the file of each tensor")


def test_shards_give_the_weights_of_one_file(folder: Path, tmp_path: Path) -> None:
    whole, parts = (
        greffon.import_checkpoint(folder / name, out=tmp_path / name, quiet=True).load_model().state_dict()
        for name in ("bert", "shards")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_shards_are_refused(share: float, folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "shards", tmp_path / "torn")
    whole = (source / "b.safetensors").read_bytes()
    (source / "b.safetensors").write_bytes(whole[: int(share * len(whole))])
    refuse(source, tmp_path / "run", r"cannot read .*b\.safetensors.*; fetch it again")


@pytest.mark.parametrize("name", ["bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.output.dense.weight"])
def test_tensors_without_rows_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "bert", tmp_path / "flat")
    tensors = load_file(source / "model.safetensors")
    save_file({**tensors, name: torch.tensor(1.0)}, source / "model.safetensors")
    refuse(source, tmp_path / "run", name.replace(".", r"\."))


def test_a_list_in_place_of_a_token_is_passed_over(folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder / "llama", tmp_path / "changed")
    settings = json.loads((source / "tokenizer_config.json").read_text())
    wrong = {"mask_token": ["x"], "sep_token": {"content": [1]}}
    (source / "tokenizer_config.json").write_text(json.dumps(settings | wrong))
    run = greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    assert {"mask", "sep"} <= Run.open(run.path).tokenizer.absent


@pytest.mark.parametrize(
    "changes", [{"continuing_subword_prefix": "##"}, {"merges": [["nothing", "here"]]}, {"vocab": 3}]
)
def test_a_tokenizer_that_the_library_cannot_open_is_refused(
    changes: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """The library panics over merges without their prefix, which is no `Exception`."""
    source = shutil.copytree(folder / "llama", tmp_path / "changed")
    content = json.loads((source / "tokenizer.json").read_text())
    (source / "tokenizer.json").write_text(json.dumps({**content, "model": {**content["model"], **changes}}))
    refuse(source, tmp_path / "run", "the tokenizer is broken .*; fetch it again")


def test_an_interrupted_reading_is_no_broken_tokenizer(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    run = greffon.import_checkpoint(folder / "llama", out=tmp_path / "run", quiet=True)
    monkeypatch.setattr(tokenizers, "Tokenizer", SimpleNamespace(from_str=interrupted))
    with pytest.raises(KeyboardInterrupt):
        greffon.import_checkpoint(folder / "llama", out=tmp_path / "other", quiet=True)
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.load(run.path)
