from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.data.lint import Finding, _edits, lint, overlap


@dataclass(frozen=True)
class Row:
    text: str
    label: str
    line: int
    file: str = ""


def rows(*pairs: tuple[str, str]) -> list[Row]:
    return [Row(text, label, line) for line, (text, label) in enumerate(pairs, start=2)]


def balanced(n: int = 40, word: str = "text") -> list[Row]:
    return rows(*((f"{word} {index}", ("negative", "positive")[index % 2]) for index in range(n)))


def found(findings: list[Finding], code: str) -> Finding:
    (finding,) = (finding for finding in findings if finding.code == code)
    return finding


def test_clean_data_has_no_findings():
    splits = {"train": balanced(), "valid": balanced(word="other"), "test": balanced(word="third")}
    assert lint(splits, {"train": [5, 512]}, context=512) == []


def test_empty_texts_are_counted_and_located():
    finding = found(lint({"train": [*balanced(), Row(" \t", "positive", 77)]}), "empty-text")
    assert finding.message == "1 of the 41 texts in train is empty (line 77)."


def test_empty_texts_are_neither_duplicates_nor_shared():
    empty = [Row("", "positive", 90), Row(" ", "negative", 91)]
    codes = {
        finding.code for finding in lint({"train": [*balanced(), *empty], "test": [*empty, Row("x", "negative", 92)]})
    }
    assert codes == {"empty-text"}


def test_duplicates_and_conflicting_labels():
    train = [*balanced(), Row("TEXT  3", "positive", 50), Row("text 3 ", "negative", 51)]
    findings = lint({"train": train})
    assert found(findings, "duplicate").message == (
        "2 of the 42 texts in train repeat an earlier one (line 50 repeats line 5)."
    )
    conflict = found(findings, "conflicting-labels").message
    assert conflict.startswith("1 of the 42")
    assert "line 5 'positive', line 51 'negative'" in conflict


def test_duplicates_are_sought_in_every_part():
    test = [*balanced(word="t"), Row("t 3", "negative", 60)]
    findings = lint({"train": balanced(), "test": test})
    assert found(findings, "duplicate").message.startswith("1 of the 41 texts in test repeats")
    assert found(findings, "conflicting-labels").message.startswith("1 of the 41 texts in test repeats")


def test_shared_texts_are_loud_and_counted_for_every_pair():
    train = balanced()
    splits = {
        "train": train,
        "valid": [*balanced(word="v"), train[0]],
        "test": [*balanced(word="t"), *train[:3]],
    }
    shared = [finding.message for finding in lint(splits) if finding.code == "shared-text"]
    assert len(shared) == 3
    assert shared[0].startswith("1 of the 41 texts in valid also stands in train (line 2 of valid)")
    assert shared[1].startswith("3 of the 43 texts in test also stand in train (first: line 2 of test)")
    assert "test also stands in valid" in shared[2]
    assert shared[1].endswith("flatters a model trained on train.")
    assert shared[2].endswith("flatters a model selected on valid.")


def test_shared_texts_come_first_among_warnings_and_in_capitals():
    train = [*balanced(), Row("alone", "positve", 90)]
    told = [str(finding) for finding in lint({"train": train, "test": [*balanced(word="t"), train[0]]})]
    assert told[0].startswith("WARNING: 1 of the 41 texts in test also stands in train")
    assert len(told) > 1
    assert all(line.startswith("warning: ") for line in told[1:])


def test_overlap_looks_past_case_spacing_and_unicode_form():
    assert overlap(["Très  bon\nlivre", ""], ["TRÈS BON LIVRE", "Tre\u0300s bon livre", "", "autre"]) == {
        0,
        1,
    }


def test_one_class_only_is_an_error():
    findings = lint({"train": rows(("a", "positive"), ("b", "positive"))})
    assert [(finding.severity, finding.code) for finding in findings] == [("error", "one-class")]
    assert "Every text to train on (2, first: line 2) has the label 'positive'" in findings[0].message
    assert "add texts of another one" in findings[0].message


def test_equal_texts_are_an_error_in_train_alone() -> None:
    equal = rows(("One  text", "negative"), ("one text", "positive"))
    told = found(lint({"train": equal, "test": equal}), "equal-texts")
    assert told == Finding(
        "error", "equal-texts", "All 2 texts to train on are equal (first: line 2): give different ones."
    )
    assert not [finding for finding in lint({"train": equal[:1]}) if finding.code == "equal-texts"]
    assert not [finding for finding in lint({"train": balanced(), "test": equal}) if finding.code == "equal-texts"]


def test_no_examples_is_an_error():
    assert lint({"train": balanced(), "test": []})[0] == Finding("error", "no-examples", "test holds no texts at all.")


def test_labels_that_train_never_shows_are_errors_and_come_first():
    findings = lint({"train": [*balanced(), balanced()[0]], "test": rows(("x", "neutral"), ("y", "postive"))})
    assert [finding.severity for finding in findings].count("error") == 1
    assert findings[0].message == (
        "The labels 'neutral' (once, line 2), 'postive' (once, line 3; did you mean 'positive'?) in test "
        "never occur in train."
    )
    assert findings[-1].severity == "warning"
    many = rows(*((f"text {label}", label) for label in "cdefg"))
    said = found(lint({"train": balanced(), "valid": many}), "unseen-label").message
    assert said.endswith("'e' (once, line 4) and 2 more in valid never occur in train.")
    one = found(lint({"train": balanced(), "valid": many[:1]}), "unseen-label").message
    assert one == "The label 'c' (once, line 2) in valid never occurs in train."


@pytest.mark.parametrize(
    ("odd", "suspect"),
    [
        ("postive", True),
        ("psoitive", True),
        ("Positive", True),
        (" positive", True),
        ("neutral", False),
        ("posit1ve", False),  # digits number things
    ],
)
def test_probable_typos(odd, suspect):
    findings = [finding for finding in lint({"train": [*balanced(), Row("x", odd, 60)]}) if "typo" in finding.code]
    assert bool(findings) == suspect
    if suspect:
        assert f"The label {odd!r} (once, first in train line 60) looks like a typo of 'positive' (20 times)" in (
            findings[0].message
        )


def test_frequent_neighbours_short_and_numbered_labels_are_no_typos():
    def label_codes(*labels):
        return {f.code for f in lint({"train": rows(*((f"t{i}", label) for i, label in enumerate(labels)))})}

    assert "label-typo" not in label_codes(*["hated"] * 10, *["rated"] * 9)
    assert "label-typo" not in label_codes(*["sad"] * 30, "mad")
    assert "label-typo" not in label_codes(*["topic1"] * 30, "topic2")
    assert "label-typo" in label_codes(*["hated"] * 30, *["Hated"] * 30)


def test_single_labels_and_imbalance():
    findings = lint({"train": [*rows(*((f"t{i}", "ham") for i in range(9))), Row("x", "spam", 99)]})
    assert found(findings, "single-label").message == "1 label occurs only once in train: 'spam' (line 99)."
    assert "always answering it scores 90.0 %" in found(findings, "imbalance").message
    eighty = rows(*((f"t{i}", "ham" if i < 8 else "spam") for i in range(10)))
    assert lint({"train": eighty}) == []


def test_share_of_truncated_texts():
    finding = found(lint({"train": balanced()}, {"train": [10, 513, 900, 512]}, context=512), "truncated")
    assert finding.message == (
        "2 of the 4 texts in train (50.0 %) are longer than the context of 512 tokens and will be cut "
        "(the longest: 900 tokens)."
    )


word = st.text("abc", max_size=6)


@given(word, word)
def test_edit_distance_is_a_distance_of_sorts(a, b):
    assert _edits(a, b) == _edits(b, a)
    assert (_edits(a, b) == 0) == (a == b)
    assert abs(len(a) - len(b)) <= _edits(a, b) <= max(len(a), len(b))


def test_edit_distance_counts_a_swap_once():
    assert (_edits("postive", "positive"), _edits("psoitive", "positive"), _edits("kitten", "sitting")) == (
        1,
        1,
        3,
    )


def test_many_single_labels_are_one_finding():
    findings = lint({"train": [*balanced(), *(Row(f"x{i}", f"label {'abcdefgh'[i]}zz", 50 + i) for i in range(8))]})
    single = [finding.message for finding in findings if finding.code == "single-label"]
    assert len(single) == 1
    assert single[0].startswith("8 labels occur only once in train: 'label azz' (line 50), ")
    assert single[0].endswith("and 5 more.")


def test_a_frequent_typo_is_seen_and_leads_to_the_commonest_label():
    train = [*rows(*((f"t{i}", "positive") for i in range(47)), *((f"u{i}", "negative") for i in range(40)))]
    train += rows(*((f"v{i}", "postive") for i in range(12)), *((f"w{i}", "Positive") for i in range(3)))
    said = [finding.message for finding in lint({"train": train}) if finding.code == "label-typo"]
    assert len(said) == 2
    assert all("looks like a typo of 'positive'" in message for message in said)


def test_one_class_in_validation_and_only_empty_texts_are_noticed():
    one = rows(("a", "positive"), ("b", "positive"))
    assert found(lint({"train": balanced(), "valid": one}), "one-class-apart").severity == "warning"
    empty = rows(("", "positive"), (" ", "negative"))
    assert found(lint({"train": empty}), "no-text").severity == "error"


def test_a_finding_names_the_file_as_well_as_the_line() -> None:
    train = [replace(row, file="train.csv") for row in balanced()]
    other = [Row("x", "neutral", 3, "b.csv"), Row(" ", "positive", 4, "b.csv"), replace(train[0], file="b.csv")]
    told = "\n".join(finding.message for finding in lint({"train": [*train, train[4]], "test": other}))
    assert "'neutral' (once, b.csv line 3)" in told
    assert "is empty (b.csv line 4)" in told
    assert f"(b.csv line {train[0].line} of test)" in told
    assert f"(train.csv line {train[4].line} repeats train.csv line {train[4].line})" in told
