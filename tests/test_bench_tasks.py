"""The files of `bench.tasks` say what they claim to, and its quick run goes from data to table."""

import csv
import lzma
from pathlib import Path

import pytest

from bench import tasks
from bench.task_files import INTENTS, PASSAGE, TASKS
from greffon.core.recipe import Data
from greffon.data.tasks import guess_task, read_examples
from greffon.data.tasks.tokens import spans_of

NOUNS = {"en": ("dog", "cat", "boy"), "fr": ("chien", "chat", "garçon"), "de": ("hund", "katze", "junge")}
VERBS = {"en": ("runs", "sleeps", "sings"), "fr": ("court", "dort", "chante"), "de": ("rennt", "schläft", "singt")}
REST = {
    "en": ("two", "and", "one", "in", "the", "park"),
    "fr": ("deux", "et", "un", "dans", "le", "parc"),
    "de": ("zwei", "und", "ein", "im", "grünen", "garten"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name in ("multi30k", "banking77", "imdb"):
        (folder / name).mkdir()
    for part, count in (("train", 100), ("val", 60)):
        for language in NOUNS:
            captions = [
                f"{NOUNS[language][i % 3]} {VERBS[language][i // 3 % 3]} {' '.join(REST[language])} {i} {part}."
                for i in range(count)
            ]
            (folder / f"multi30k/{part}.{language}").write_text("\n".join(captions) + "\n", encoding="utf-8")
    for part, each in (("train", 9), ("test", 5)):
        rows = [(f"Question {i} about {k} {part}?", f"intent_{k:02}") for k in range(20) for i in range(each - k // 12)]
        _write(folder / f"banking77/{part}.csv", rows)
    for part in ("train", "valid"):
        rows = [(f"{kind} {part} {i} film " * 80, kind) for i in range(60) for kind in ("positive", "negative")]
        _write(folder / f"imdb/{part}.csv", rows)
    with lzma.open(folder / "imdb/unlabelled.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"A film about {i} people who like films, and about {i + 1} dogs.\n" for i in range(120))
    return folder


def _write(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])


def made(name: str, data: Path, out: Path, count: int = 50, part: str = "test") -> list:
    file = out / f"file.{'conll' if name == 'tokens' else 'csv'}"
    TASKS[name](data, part, count, file)
    assert guess_task(file, Data())[0] == name
    return read_examples(file, Data(task=name))


def test_half_of_the_pairs_are_translations_and_no_caption_is_used_twice(data: Path, tmp_path: Path) -> None:
    found = made("pairs", data, tmp_path)
    number = lambda text: text.split()[-2]  # noqa: E731
    assert [one.label for one in found].count("translation") == 25
    for one in found:
        assert (number(one.text) == number(one.second or "")) == (one.label == "translation")
    assert len({one.text for one in found}) == len({one.second for one in found}) == 50


def test_a_message_has_the_frequent_intents_of_its_questions(data: Path, tmp_path: Path) -> None:
    found = made("multilabel", data, tmp_path)
    questions = [question for one in found for question in one.text.split("? ")]
    assert len(questions) == len({question.rstrip("?") for question in questions})
    counts = set()
    for one in found:
        intents = {f"intent_{int(question.split()[3]):02}" for question in one.text.split("? ")}
        frequent = sorted(intent for intent in intents if int(intent[-2:]) < INTENTS)
        assert one.label == "|".join(frequent)
        counts.add(len(frequent))
    assert {0, 1, 2} <= counts


def test_a_score_counts_the_passages_of_positive_reviews(data: Path, tmp_path: Path) -> None:
    found = made("regression", data, tmp_path, 40)
    for one in found:
        passages = one.text.split(" … ")
        assert [len(passage.split()) for passage in passages] == [PASSAGE] * 4
        assert one.score == sum("positive" in passage for passage in passages)
    assert {one.score for one in found} == {0, 1, 2, 3, 4}
    assert len(found) == 40


def test_spans_are_the_foreign_words_of_a_caption(data: Path, tmp_path: Path) -> None:
    found = made("tokens", data, tmp_path)
    known = {language: {*NOUNS[language], *VERBS[language], *REST[language]} for language in NOUNS}
    seen = set()
    for one in found:
        spans = spans_of(one.label)
        inside = {(word, span.label) for span in spans for word in one.text[span.start : span.end].split()}
        for word, label in inside - {("val", "FR"), ("val", "DE")}:
            assert word in known[label.lower()], one
        outside = one.text
        for span in reversed(spans):
            outside = outside[: span.start] + outside[span.end :]
        assert not {*outside.split()} & (known["fr"] | known["de"])
        seen |= {span.label for span in spans}
    assert seen == {"FR", "DE"}


def test_the_quick_run_goes_from_data_to_table(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycrfsuite")
    before = tasks.PAGE.read_bytes()
    words = ["--data", str(data), "--quick", "--out", str(tmp_path), "--only"]
    assert tasks.main([*words, "pairs", "tokens"]) == 0
    out = capsys.readouterr().out
    for name, metric in (("pairs", "accuracy"), ("tokens", "span F1")):
        study = tasks.STUDIES[name]
        assert f"| `{name}` | {study.train // 40} and {study.test // 40} to test | {metric} |" in out
    assert tasks.PAGE.read_bytes() == before
    (data / "imdb/valid.csv").unlink()
    assert tasks.main([*words, "regression"]) == 0
    assert "regression: skipped" in capsys.readouterr().err


def test_the_page_has_a_place_for_the_table() -> None:
    page = tasks.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- tasks:start -->") == page.count("<!-- tasks:end -->") == 1
