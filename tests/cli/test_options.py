"""Options: other tools' names get ours, values are checked by their types, and every option has a help text."""

import dataclasses
import importlib
import inspect
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import greffon
from greffon.cli import COMMANDS, run
from greffon.cli.draw import FIGURES
from greffon.cli.options import ShapeOptions, field_help
from greffon.cli.parsing import arguments, given, parse
from greffon.core.answering import Answering, Decoding, EvaluationFiles, Sampling
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.own_presets import compact, small
from greffon.core.presets import PRESETS
from greffon.core.recipe import Masking
from greffon.core.settings import Budget, Corpus, Finetuning, Labels, Launch, Pairs, Start
from greffon.core.shape import Shape
from greffon.core.synonyms import SYNONYMS
from greffon.core.training import Training
from greffon.training.head_form import PROBE_FORM

PAGES = [[name] for name in COMMANDS if name != "draw"] + [["draw", name] for name in FIGURES]


def args_of(command: str) -> type:
    return importlib.import_module(f"greffon.cli.{command}").Args  # type: ignore[no-any-return]


OFFERED = {name: {a.name: a for a in arguments(args_of(name))} for name in COMMANDS if name != "draw"}


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run([str(word) for word in words]) == 1
    out, said = capsys.readouterr()
    assert out == ""
    assert len(said.splitlines()) == 1
    return said.removeprefix("greffon: ").rstrip("\n")


@pytest.mark.parametrize("synonym", SYNONYMS)
def test_a_synonym_gets_our_name_wherever_there_is_such_an_option(
    synonym: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = 0
    for command, known in OFFERED.items():
        ours = next((name for name in SYNONYMS[synonym] if name in known), None)
        if ours is None or synonym in known:
            continue
        found += 1
        flag = f"--{synonym.replace('_', '-')}"
        page = f"(see `greffon {command} --help`)"
        for words in ([flag, "1"], [f"{flag}=1"]):
            said = refused(capsys, command, *words)
            assert said == f"unknown option {flag}: it is {known[ours].label} here {page}"
        (tmp_path / "c.toml").write_text(f"{synonym} = 1\n")
        said = refused(capsys, command, "--config", tmp_path / "c.toml")
        assert said == f"{tmp_path / 'c.toml'}: unknown setting {synonym!r}: it is {ours!r} here"
    assert found, f"{SYNONYMS[synonym]} is an option of no command"


def test_there_are_enough_synonyms() -> None:
    assert len(SYNONYMS) >= 40


@pytest.mark.parametrize(
    ("command", "flag", "ours"),
    [
        ("pretrain", "--lr", "--learning-rate"),
        ("pretrain", "--batch-size", None),
        ("pretrain", "--vocab-size", None),
        ("pretrain", "--hidden-size", None),
        ("pretrain", "--max-length", "--context"),
        ("generate", "--max-length", "--max-new-tokens"),
        ("pretrain", "--n-layers", "--layers"),
        ("pretrain", "--d-model", "--hidden-size"),
        ("pretrain", "--rows", "--batch-size"),
        ("tokenizer", "--vocab", "--vocab-size"),
        ("finetune", "--epochs", None),
        ("finetune", "--dropout", None),
        ("pretrain", "--warmup", "--warmup-steps"),
        ("finetune", "--weight-decay", None),
        ("generate", "--max-new-tokens", None),
    ],
)
def test_the_flags_that_people_try(
    command: str, flag: str, ours: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if ours is None:
        assert flag.removeprefix("--").replace("-", "_") in OFFERED[command]
    else:
        assert f"unknown option {flag}: it is {ours} here (see" in refused(capsys, command, flag, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pretrain", "--learning-rat", "1"], "unknown option --learning-rat; did you mean --learning-rate?"),
        (["generate", "run", "Le", "--temprature", "1"], "unknown option --temprature; did you mean --temperature?"),
        (["show", "run", "--yson"], "unknown option --yson; did you mean --json?"),
        (["pretrain", "-o", "x"], "unknown option -o; did you mean --out?"),
        (["generate", "run", "--lr", "1"], "unknown option --lr; nothing here has a name like it"),
        (["pretrain", "a.txt", "--steps"], "--steps needs a value"),
        (["pretrain", "a.txt", "--steps", "--out", "x"], "--steps needs a value"),
        (["pretrain", "a.txt", "--steps", "1.5"], "--steps: '1.5' is no whole number"),
        (["pretrain", "a.txt", "--minutes", "ten"], "--minutes: 'ten' is no number"),
        (["pretrain", "a.txt", "--mix", "3", "one"], "--mix: 'one' is no whole number"),
        (["pretrain", "a.txt", "--force=yes"], "--force is a flag and takes no value; leave out 'yes'"),
        (["pretrain", "a.txt", "--bias", "yes"], "--bias: 'yes' is not a truth value; choose true or false"),
        (["demo", "clasification"], "unknown choice 'clasification'; did you mean 'classification'?"),
        (["finetune", "--out", "x", "--train", "y"], "RUN is missing"),
        (["finetune", "run", "--out", "x"], "--train is missing"),
        (["evaluate", "run", "--file", "a.csv"], "--file is no option: FILE stands without one, in the order RUN FILE"),
        (["generate", "run", "--prompt", "Le"], "--prompt is no option: PROMPT stands without one, in the order RUN P"),
        (["pretrain", "a.txt", "--resume-from-checkpoint", "x"], "it is a command here, `greffon resume RUN` (see"),
        (["show", "a", "b"], "unexpected word 'b'; put a text with spaces in quotes"),
    ],
)
def test_mistakes_in_words(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(capsys, *words)
    assert f"(see `greffon {words[0]} --help`)" in refused(capsys, *words)


def test_words_may_stand_in_any_order() -> None:
    kind = args_of("pretrain")
    one = parse(kind, "pretrain", ["a.txt", "--valid", "c", "d", "--steps=5", "--out", "run", "b.txt", "--fsdp"])
    two = parse(kind, "pretrain", ["--steps", "5", "--fsdp", "--out=run", "--valid", "c", "d", "--", "a.txt", "b.txt"])
    assert one == two
    assert given(one) == {
        "texts": ("a.txt", "b.txt"), "out": Path("run"), "valid": ("c", "d"), "steps": 5, "fsdp": True,
    }  # fmt: skip


def test_a_dash_alone_a_negative_number_and_a_text_with_a_dash_are_no_options() -> None:
    kind = args_of("generate")
    assert parse(kind, "generate", ["run", "- a list", "--seed", "-1", "--temperature", "-.5"]).prompt == "- a list"
    assert parse(kind, "generate", ["run", "-12"]).prompt == "-12"
    assert parse(args_of("classify"), "classify", ["run", "-"]).texts == ("-",)
    assert parse(kind, "generate", ["run", "--", "--seed"]).prompt == "--seed"


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('force = true\nvalid = ["v.txt"]\ntokenizer = "tok"\nsteps = 3\n[training]\nbatch-size = 4\n')
    kind = args_of("pretrain")
    assert given(parse(kind, "pretrain", ["--config", str(file)])) == {
        "force": True, "valid": ("v.txt",), "tokenizer": Path("tok"), "steps": 3, "batch_size": 4,
    }  # fmt: skip
    assert given(parse(kind, "pretrain", [f"--config={file}", "--no-force", "--steps", "9"]))["steps"] == 9
    assert not parse(kind, "pretrain", [f"--config={file}", "--no-force"]).force
    assert parse(kind, "pretrain", [f"--config={file}", "--force"]).force


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_every_option_has_a_help_text(page: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run([*page, "--help"])
    said = re.sub(r"[│╭╰─╮╯]", " ", capsys.readouterr().out)
    entries = re.split(r"\n {1,4}(?=--[a-z])", said.split("--help ", 1)[1])[1:]
    assert entries or page in (["draw", "complexity"], ["completion"])
    for entry in entries:
        told = re.sub(r"\(default: .*?\)|\(required\)", "", " ".join(entry.split()[1:]))
        assert len(told.split()) >= 2, entry
        assert told.rstrip().endswith((".", ")")) or ". " in told, entry


@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_no_line_of_a_help_page_ends_where_the_source_does(page: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run([*page, "--help"])
    lines = [line[2:-2].rstrip() for line in capsys.readouterr().out.splitlines() if line.startswith("│ ")]
    for above, below in itertools.pairwise(lines):
        goes_on = below.startswith(" " * 8) and not above.strip().startswith("─") and "  " in above
        if goes_on:
            assert len(above) + 1 + len(below.split()[0]) > 96, f"{above}\n{below}"


def test_the_help_names_every_preset() -> None:
    for kind, name in ((Start, "preset"), (args_of("params"), "preset")):
        told = set(re.findall(r"[\w-]+", field_help(kind)[name]))
        assert set(PRESETS) - told == set()


def test_the_help_tells_the_defaults_of_both_kinds_of_bodies() -> None:
    told = {
        f.name: str(get_type_hints(ShapeOptions, include_extras=True)[f.name])
        for f in dataclasses.fields(Shape)
        if f.name in get_type_hints(ShapeOptions)
    }
    assert "(default: compact swiglu, compact encoder geglu, small relu)" in told["activation"]
    assert "(default: compact rms, compact encoder and small layer)" in told["norm"]
    assert "encoder" not in told["layers"]


@pytest.mark.parametrize(
    "kind",
    [
        Shape,
        Training,
        Graft,
        Masking,
        Start,
        Corpus,
        Pairs,
        Budget,
        Labels,
        Finetuning,
        Launch,
        Sampling,
        Decoding,
        Answering,
        EvaluationFiles,
    ],
)
def test_each_docstring_stands_alone(kind: type) -> None:
    told = field_help(kind)
    assert set(told) == {f.name for f in dataclasses.fields(kind)}
    for text in told.values():
        assert text[0].isupper()
        assert text.endswith(".")


def test_functions_and_commands_have_the_same_settings() -> None:
    for command in ("pretrain", "finetune", "resume"):
        offered = set(OFFERED[command]) - {"dry_run"}
        taken = set(inspect.signature(getattr(greffon, command)).parameters)
        assert offered - taken == set()
    shown = inspect.signature(greffon.pretrain).parameters
    assert shown["objective"].default == "causal"
    assert shown["text_column"].default == "text"
    assert shown["layers"].default is None


def test_functions_and_commands_have_the_same_defaults() -> None:
    # A command hands on only what the user gave.
    handed_on = {"compare": "compare", "generate": "generate", "params": "params", "tokenizer": "train_tokenizer"}
    for command, function in {**handed_on, "resume": "resume", "translate": "translate_best"}.items():
        shown = inspect.signature(getattr(greffon, function)).parameters
        for f in dataclasses.fields(args_of(command)):
            if (
                f.default is not dataclasses.MISSING
                and f.name in shown
                and f.name not in ("train_sizes", "texts", "n_best")
            ):
                assert shown[f.name].default == f.default, (command, f.name)


def test_a_synonym_as_a_keyword_gets_our_name(tmp_path: Path) -> None:
    for call, name, ours in (
        (lambda **given: greffon.pretrain(["a.txt"], out=tmp_path / "r", **given), "lr", "learning_rate"),
        (lambda **given: greffon.estimate(["a.txt"], **given), "n_layer", "layers"),
        (lambda **given: greffon.finetune("run", train="a.csv", out=tmp_path / "r", **given), "num_epochs", "epochs"),
        (lambda **given: greffon.params(preset="lab", **given), "d_model", "hidden_size"),
        (lambda **given: greffon.generate("run", "Le", **given), "max_length", "max_new_tokens"),
        (lambda **given: greffon.translate("run", "Two dogs", **given), "num_beams", "beam_size"),
        (lambda **given: greffon.evaluate("run", "a.csv", **given), "text_column_name", "text_column"),
        (lambda **given: greffon.classify("run", "good", **given), "threshold", "min_probability"),
        (lambda **given: greffon.compare("run", train="a.csv", out=tmp_path / "r", **given), "n_jobs", "jobs"),
        (lambda **given: greffon.resume("run", **given), "more", "extra_steps"),
        (lambda **given: greffon.fill("run", "a [MASK]", **given), "k", "top_k"),
        (lambda **given: greffon.embed("run", "a", **given), "pool", "pooling"),
        (lambda **given: greffon.rank("run", "a", ["b"], **given), "n_neighbors", "top_k"),
        (lambda **given: greffon.nearest("run", "a", ["b"], **given), "n_neighbors", "top_k"),
        (lambda **given: greffon.train_tokenizer("a.txt", out=tmp_path / "r", **given), "vocab", "vocab_size"),
        (lambda **given: greffon.export("run", out=tmp_path / "r", **given), "format", "to"),
        (lambda **given: greffon.import_checkpoint("a", out=tmp_path / "r", **given), "overwrite_output_dir", "force"),
        (lambda **given: greffon.params("run", **given), "d_model", "hidden_size"),
    ):
        with pytest.raises(UserError, match=f"^unknown setting '{name}': it is '{ours}' here$"):
            call(**{name: 1})
    assert not (tmp_path / "r").exists()
    with pytest.raises(UserError, match="unknown setting 'lenght'; did you mean 'length'"):
        greffon.draw("mask", lenght=3)


def test_help_tells_the_numbers_of_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    def told(command: str, option: str) -> str:
        with pytest.raises(SystemExit):
            run([command, "--help"])
        page = " ".join(capsys.readouterr().out.replace("│", " ").split())
        return page.partition(f" --{option} ")[2].partition(")")[0]

    shapes = compact().shape, small().shape
    assert told("pretrain", "layers").endswith(f"(default: compact {shapes[0].layers}, small {shapes[1].layers}")
    rate = f"compact and small {compact().training.learning_rate}, contrastive {compact().contrastive.learning_rate}"
    assert told("pretrain", "learning-rate").endswith(f"(default: {rate}")
    assert told("finetune", "batch-size").endswith(f"(default: compact {compact().finetuning.batch_size}")
    assert told("compare", "dropout").endswith(f"(default: compact {compact().finetuning_dropout}")
    assert told("compare", "learning-rate").endswith(f"a random head of compact {compact().finetuning.learning_rate}")
    with pytest.raises(SystemExit):
        run(["finetune", "--help"])
    page = " ".join(capsys.readouterr().out.replace("│", " ").split())
    entries = {entry.split()[0]: entry for entry in page.split(" --")}
    assert entries["head-init"].count("(default:") == 1
    own = {name.replace("_", "-") for name, value in PROBE_FORM.items() if getattr(compact().graft, name) != value}
    assert own
    assert all("(default: a random head of compact" in entries[name] for name in own)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda **given: greffon.pretrain("a.txt", steps=5.5, **given), "steps: expected int, found 5.5"),
        (lambda **given: greffon.pretrain("a.txt", steps=True, **given), "steps: expected int, found True"),
        (lambda **given: greffon.pretrain("a.txt", layers="1", **given), "layers: expected int, found '1'"),
        (lambda **given: greffon.pretrain("a.txt", preset=3, **given), "preset: expected str, found 3"),
        (lambda **given: greffon.pretrain("a.txt", valid=5, **given), "valid: expected tuple[str, ...], found 5"),
        (lambda **given: greffon.finetune("r", train="a.csv", epochs=1.5, **given), "epochs: expected int, found 1.5"),
        (
            lambda **given: greffon.compare("r", train="a.csv", train_sizes=[20, "abc"], **given),
            "train_sizes: expected int, found 'abc'",
        ),
        (
            lambda **given: greffon.compare("r", train="a.csv", train_sizes="20,100", **given),
            "train_sizes: expected tuple[int, ...], found '20,100'",
        ),
        (lambda **given: greffon.resume("r", extra_steps="3"), "extra_steps: expected int, found '3'"),
        (lambda **given: greffon.generate("r", "a", top_p="1"), "top_p: expected float, found '1'"),
        (lambda **given: greffon.compare("r", train="a.csv", **given), "no run at r; give"),
    ],
)
def test_a_keyword_of_the_wrong_type_is_told_in_one_sentence(
    call: Callable[..., object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(said)}"):
        call(out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_numbers_of_numpy_are_numbers() -> None:
    made = greffon.params(
        preset="lab", layers=np.int64(2), rope_theta=np.float32(10_000), tie_embeddings=np.bool_(False)
    )
    assert made == greffon.params(preset="lab", layers=2, tie_embeddings=False)
