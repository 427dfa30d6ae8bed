import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.data import corpora, readers
from greffon.data.corpora import Labelled, column_pairs, documents, find_files, labelled, line_pairs, texts_of

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refused(path: Path, where: str, *words: str, read: Callable[[Path], object] | None = None) -> None:
    with pytest.raises(UserError) as caught:
        read(path) if read else list(documents([path]))
    message = str(caught.value)
    assert f"{path}{where}" in message
    assert "\n" not in message
    for word in words:
        assert word in message


# Files, folders, globs


def test_folders_are_walked_sorted_and_hidden_files_skipped(write: Write, tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.jsonl", "a/y.csv.gz", "notes.md", ".hidden.txt", ".git/c.txt"):
        write(name, "x")
    names = [path.relative_to(tmp_path).as_posix() for path in find_files([tmp_path])]
    assert names == ["a/y.csv.gz", "a/z.jsonl", "b.txt"]


def test_globs_and_repeated_files(write: Write, tmp_path: Path) -> None:
    one, two = write("one.txt", "x"), write("sub/two.txt", "x")
    write("one.md", "x")
    assert find_files([str(tmp_path / "**" / "*")]) == [one, two]
    assert find_files([two, tmp_path, str(one)]) == [two, one]
    literal = write("a[1].txt", "x")
    assert find_files([literal]) == [literal]


@pytest.mark.parametrize("name", ["missing.txt", "*.txt", "folder", "notes.md", "x" * 5000])
def test_sources_that_are_not_there(write: Write, tmp_path: Path, name: str) -> None:
    write("notes.md", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError):
        find_files([str(tmp_path / name)])
    with pytest.raises(UserError, match="no text was given"):
        find_files([])


def test_the_hub_is_asked_only_when_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    path = write("snapshot/train.txt", "bonjour")
    asked = []

    def download(name: str, repo_type: str, allow_patterns: list[str]) -> str:
        asked.append((name, repo_type))
        if name == "no/body":
            raise ConnectionError("no network")
        return str(path.parent)

    monkeypatch.setattr(hub, "snapshot_download", download)
    find_files([path])
    assert asked == []
    assert list(documents(["hf:owner/name"])) == ["bonjour"]
    assert asked == [("owner/name", "dataset")]
    with pytest.raises(UserError, match=r"hf:no/body: the download failed \(no network\)"):
        documents(["hf:no/body"])


# Documents


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("un\ndeux\n", ["un", "deux"]),
        ("\n\nun\r\ndeux\n\n \n", ["un", "deux"]),  # blank lines around, but none between
        ("\ufeffun\ndeux", ["un", "deux"]),
        ("a\nb\n\n \nc\r\nd\r\n", ["a\nb", "c\nd"]),
        ("a\u2028b\x0bc\x85d\re\n", ["a\u2028b\x0bc\x85d\re"]),
    ],
)
def test_plain_text(write: Write, content: str, expected: list[str]) -> None:
    assert list(documents([write("a.txt", content)])) == expected
    assert list(documents([write("a.txt.gz", gzip.compress(content.encode()))])) == expected
    assert list(documents([write("a.txt.xz", lzma.compress(content.encode()))])) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1)))
@settings(deadline=None)
def test_csv_and_jsonl_give_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("tables")
    quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
    (folder / "a.csv").write_text("text\n" + "".join(f"{cell}\n" for cell in quoted), newline="")
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    expected = [text for text in texts if text.strip()]
    for name in ("a.csv", "a.jsonl"):
        if expected:
            assert list(documents([folder / name])) == expected
        else:
            refused(folder / name, ":1", "no text")


def test_tables(write: Write) -> None:
    cell = '\ufeffid,text\r\n1,"a, ""b""\r\nc"\r\n\r\n2,\r\n3,d\r\n'
    assert list(documents([write("a.csv", cell)])) == ['a, "b"\r\nc', "d"]
    assert list(documents([write("a.tsv", "body\tid\na,b\t1\n")], text_column="body")) == ["a,b"]
    assert list(documents([write("a.jsonl.xz", lzma.compress(b'{"text": "\\u00e9\\u0000"}\n\n'))])) == ["é\0"]


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"t{n}" for n in range(3000)], "label": [0, 1, 1] * 1000})
    parquet.write_table(table, path, row_group_size=700)
    assert list(documents([path])) == [f"t{n}" for n in range(3000)]
    assert labelled(path)[2999] == Labelled("t2999", "1", 3000)
    refused(path, "", "did you mean 'text'", read=lambda path: list(documents([path], "txt")))
    refused(path, ":1", "must be a string, not int", read=lambda path: list(documents([path], "label")))
    path.write_bytes(path.read_bytes()[:5000])
    refused(path, "", "broken parquet")


# What is refused, with its place


@pytest.mark.parametrize(
    ("name", "content", "where", "words"),
    [
        ("a.txt", b"", ":1", ["no text"]),
        ("a.txt", b"\n \n", ":1", ["no text"]),
        ("a.txt", b"un\n\xe9t\xe9\n", ":2", ["0xe9", "UTF-8", "iconv -f latin1 -t utf-8"]),
        ("a.txt", b"un\ndeux\0\n", ":2", ["NUL"]),
        ("a.txt", "été".encode("utf-16"), ":1", ["UTF-8"]),
        ("a.txt.gz", b"", ":1", ["no text"]),
        ("a.txt.gz", b"not packed", ":1", ["damaged"]),
        ("a.txt.xz", b"not packed", ":1", ["damaged"]),
        ("a.txt.gz", gzip.compress(b"un\n" * 9, mtime=0)[:-9], ":", ["breaks off"]),
        ("a.txt.xz", lzma.compress(b"un\n" * 9)[:-9], ":", ["breaks off"]),
        ("a.csv", b"", ":1", ["no text"]),
        ("a.csv", b"text\n", ":1", ["no text"]),
        ("a.csv", b"txt,label\na,b\n", ":1", ["'text'", "txt, label", "did you mean 'txt'", "text_column names"]),
        ("a.csv", b"zz,label\na,b\n", ":1", ["choose from label, zz"]),
        ("a.csv", b"text,text\na,b\n", ":1", ["2 columns 'text'"]),
        ("a.csv", b'text,label\n"a\nb",c\nd\n', ":4", ["1 cell where", "header has 2"]),
        ("a.csv", b"text,label\na,b,c\n", ":2", ["3 cells"]),
        ("a.csv", b'text\na\n"b\nc\n', ":3", ["quotes"]),
        ("a.csv", b'text\n"a"b\n', ":2", ["quotes"]),
        ("a.csv", b"text\na\n\xff\n", ":3", ["UTF-8"]),
        ("a.jsonl", b'{"text": "a"}\n["b"]\n', ":2", ["JSON object"]),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', ":2", ["broken JSON"]),
        ("a.jsonl", b"[" * 100_000, ":1", ["broken JSON"]),
        ("a.jsonl", b'\n{"text": 1}\n', ":2", ["must be a string, not int"]),
        ("a.jsonl", b'{"text": null}\n', ":1", ["not null"]),
        ("a.jsonl", b'{"text": "\\ud83d"}\n', ":1", ["surrogate"]),
        ("a.jsonl", b'{"texte": "a"}\n', ":1", ["did you mean 'texte'"]),
        ("a.jsonl", b"{}\n", ":1", ["'text'"]),
    ],
)
def test_broken_files_are_named_with_their_line(
    write: Write, name: str, content: bytes, where: str, words: list[str]
) -> None:
    refused(write(name, content), where, *words)


def test_endless_lines_and_documents_are_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LONGEST", 100)
    monkeypatch.setattr(corpora, "LONGEST", 100)
    assert len(list(documents([write("fine.txt", "x" * 99 + "\nb\n")]))) == 2
    refused(write("line.txt", "a\n" + "x" * 101), ":2", "longer than")
    refused(write("document.txt", "a\n\n" + "xxxxxxxxx\n" * 20), ":14", "blank line")


# Labels and pairs


def test_labelled(write: Write) -> None:
    path = write("a.csv", 'label,text\npos,"deux\nlignes"\nneg,\n')
    assert labelled(path) == [Labelled("deux\nlignes", "pos", 2), Labelled("", "neg", 4)]
    rows = [{"t": "a", "y": 3}, {"t": "b", "y": 0.5}, {"t": "c", "y": True}, {"t": "d", "y": "x"}]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [example.label for example in labelled(path, "t", "y")] == ["3", "0.5", "true", "x"]


@pytest.mark.parametrize(
    ("name", "content", "where", "word"),
    [
        ("a.csv", "text,label\na,x\nb, \n", ":3", "label"),
        ("a.jsonl", '{"text": "a", "label": null}\n', ":1", "empty"),
        ("a.jsonl", '{"text": "a", "label": []}\n', ":1", "not list"),
        ("a.csv", "text,lable\na,x\n", ":1", "did you mean 'lable'? (label_column names another)"),
        ("a.jsonl", '{"text": "a", "lable": "x"}\n', ":1", "(label_column names another)"),
        ("a.csv", "text,label\n", ":1", "no example"),
        ("a.txt", "text\n", "", "table"),
    ],
)
def test_labels_that_are_refused(write: Write, name: str, content: str, where: str, word: str) -> None:
    refused(write(name, content), where, word, read=labelled)


def test_line_pairs(write: Write) -> None:
    french, english = write("a.fr", "un\r\n\ndeux\n"), write("a.en.gz", gzip.compress(b"one\n\ntwo"))
    assert list(line_pairs(french, english)) == [("un", "one"), ("", ""), ("deux", "two")]
    longer = write("b.en", "one\n\ntwo\nthree\nfour\n")
    refused(french, " has 3 lines", f"{longer} has 5", read=lambda path: list(line_pairs(path, longer)))
    refused(longer, " has 5 lines", f"{french} has 3", read=lambda path: list(line_pairs(path, french)))
    empty = write("empty", "")
    refused(empty, ":1", "no line", read=lambda path: list(line_pairs(path, path)))
    refused(empty.with_name("none"), "", "cannot be read", read=lambda path: list(line_pairs(path, path)))


def test_column_pairs(write: Write) -> None:
    path = write("a.tsv", "source\ttarget\nun\tone\n")
    assert list(column_pairs(path)) == [("un", "one")]
    path = write("a.jsonl", '{"fr": "un", "en": "one"}\n')
    assert list(column_pairs(path, "fr", "en")) == [("un", "one")]
    refused(path, ":1", "'source'", "source_column names another", read=lambda path: list(column_pairs(path)))
    half = write("half.csv", "source,cible\nun,one\n")
    refused(half, ":1", "'target'", "target_column names another", read=lambda path: list(column_pairs(path)))
    refused(write("a.csv", "source,target\n"), ":1", "no pair", read=lambda path: list(column_pairs(path)))


def test_texts_keep_their_rows(write: Write) -> None:
    table = write("a.csv", 'text,label\nun,a\n,b\n"deux\nlignes",c\n')
    assert texts_of(table) == ["un", "", "deux\nlignes"]
    assert texts_of(write("a.txt", "un\ndeux\n")) == ["un", "deux"]
    with pytest.raises(UserError, match="separated by ';'"):
        texts_of(write("b.csv", "text;label\nun;a\n"))
    with pytest.raises(UserError, match="is a folder"):
        labelled(table.parent)
