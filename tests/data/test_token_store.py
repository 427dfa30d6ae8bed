import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from greffon.core.errors import UserError
from greffon.data import token_store as store_module
from greffon.data.token_store import TokenStore, open_store
from greffon.data.tokenizer import Tokenizer

TEXTS = [f"Le document numéro {n} parle de {'chats' if n % 2 else 'chiens'}." for n in range(200)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 300)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def only_store(cache: Path) -> Path:
    """The folder of the one store; nothing half-built may lie beside it."""
    (folder,) = (cache / "stores").iterdir()
    return folder


def identity(cache: Path) -> list[tuple[int, int]]:
    parts = (path.stat() for path in sorted(only_store(cache).iterdir()))
    return [(stat.st_ino, stat.st_mtime_ns) for stat in parts]


def contents(store: TokenStore) -> list[list[int]]:
    return [store.document(i).tolist() for i in range(len(store))]


def direct(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [[tokenizer.start, *tokenizer.encode(text), tokenizer.end] for text in texts]


def test_contents_are_the_direct_encoding(
    corpus: Path, cache: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "BATCH", 500)
    heard: list[int] = []
    store = open_store([corpus], tokenizer, cache=cache, progress=heard.append)
    assert contents(store) == direct(tokenizer, TEXTS)
    assert len(store) == len(TEXTS)
    size = sum(len(text.encode()) for text in TEXTS)
    assert store.text_bytes == heard[-1] == tokenizer.byte_lengths[store.tokens].sum() == size
    assert heard == sorted(heard)
    assert len(heard) > 10
    with pytest.raises(IndexError):
        store.document(len(store))
    with pytest.raises(IndexError):
        store.document(-1)


def test_it_is_memory_mapped_read_only_and_views(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    store = open_store([corpus], tokenizer, cache=cache)
    assert isinstance(store.tokens, np.memmap)
    assert isinstance(store.offsets, np.memmap)
    assert store.tokens.dtype == np.uint16
    assert store.offsets.dtype == np.int64
    assert not store.tokens.flags.writeable
    assert np.shares_memory(store.document(7), store.tokens)


def test_a_large_vocabulary_takes_four_bytes(
    corpus: Path, cache: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "size", (1 << 16) + 1)
    store = open_store([corpus], tokenizer, cache=cache)
    assert store.tokens.dtype == np.uint32
    assert contents(store) == direct(tokenizer, TEXTS)


def test_it_is_built_once(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    first = open_store([corpus], tokenizer, cache=cache)
    before = identity(cache)
    second = open_store([str(corpus)], tokenizer, cache=cache, progress=lambda done: pytest.fail("rebuilt"))
    assert identity(cache) == before
    assert second.digest == first.digest


def test_the_environment_names_the_cache(
    corpus: Path, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREFFON_CACHE", str(tmp_path / "elsewhere"))
    open_store([corpus], tokenizer)
    assert json.loads((only_store(tmp_path / "elsewhere") / "store.json").read_text())["documents"] == 200


def test_changed_text_or_tokenizer_is_another_store(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    first = open_store([corpus], tokenizer, cache=cache)
    other = open_store([corpus], Tokenizer.train(TEXTS, 280), cache=cache)
    assert other.digest != first.digest
    corpus.write_text("\n".join([*TEXTS, "Encore un."]), encoding="utf-8")
    changed = open_store([corpus], tokenizer, cache=cache)
    assert changed.digest != first.digest
    assert len(changed) == len(first) + 1


def test_the_digest_knows_the_text_not_its_place(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    first = open_store([corpus], tokenizer, cache=cache)
    moved = corpus.with_name("moved.jsonl")
    moved.write_text("".join(json.dumps({"body": text}) + "\n" for text in TEXTS))
    assert open_store([moved], tokenizer, "body", cache=cache).digest == first.digest
    joined = corpus.with_name("joined.txt")  # the same characters, other borders between documents
    joined.write_text("\n".join([TEXTS[0] + TEXTS[1], *TEXTS[2:]]), encoding="utf-8")
    assert open_store([joined], tokenizer, cache=cache).digest != first.digest


@pytest.mark.parametrize("file", ["tokens.bin", "offsets.npy", "store.json"])
@pytest.mark.parametrize("damage", ["short", "gone"])
def test_a_torn_store_is_rebuilt(corpus: Path, cache: Path, tokenizer: Tokenizer, file: str, damage: str) -> None:
    digest = open_store([corpus], tokenizer, cache=cache).digest
    path = only_store(cache) / file
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2])
    again = open_store([corpus], tokenizer, cache=cache)
    assert again.digest == digest
    assert contents(again) == direct(tokenizer, TEXTS)
    only_store(cache)


def test_stale_half_built_stores_are_swept(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    dead, live = cache / "stores/.building-dead", cache / "stores/.building-live"
    for folder in (dead, live):
        folder.mkdir(parents=True)
        (folder / "tokens.bin").write_bytes(b"x")
    long_ago = time.time() - 2 * store_module.STALE
    for path in (dead / "tokens.bin", dead, live):  # the live one still writes its tokens
        os.utime(path, (long_ago, long_ago))
    open_store([corpus], tokenizer, cache=cache)
    assert not dead.exists()
    assert live.exists()


def test_nothing_is_left_of_a_build_that_failed(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    corpus.write_bytes(b"un\n\xff\n")
    with pytest.raises(UserError, match=r"corpus\.txt:2"):
        open_store([corpus], tokenizer, cache=cache)
    corpus.write_bytes(b"\n\n")
    with pytest.raises(UserError, match="no text"):
        open_store([corpus], tokenizer, cache=cache)
    assert list((cache / "stores").iterdir()) == []


def test_text_that_changes_during_the_build_is_refused(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    def append(done: int) -> None:
        with corpus.open("a") as file:
            file.write("\nencore")

    with pytest.raises(UserError, match="changed while it was read"):
        open_store([corpus], tokenizer, cache=cache, progress=append)
    assert list((cache / "stores").iterdir()) == []


def test_a_cache_that_cannot_be_written(corpus: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="GREFFON_CACHE"):
        open_store([corpus], tokenizer, cache=corpus)


def test_another_process_may_be_first(corpus: Path, cache: Path, tokenizer: Tokenizer) -> None:
    def overtake(done: int) -> None:
        (building,) = (cache / "stores").glob(".building-*")
        shutil.move(building, building.with_name("aside"))
        open_store([corpus], tokenizer, cache=cache)
        shutil.move(building.with_name("aside"), building)

    store = open_store([corpus], tokenizer, cache=cache, progress=overtake)
    assert contents(store) == direct(tokenizer, TEXTS)
    only_store(cache)


@pytest.mark.parametrize("torn", [False, True])
def test_two_processes_both_end_well(corpus: Path, cache: Path, tokenizer: Tokenizer, torn: bool) -> None:
    if torn:
        open_store([corpus], tokenizer, cache=cache)
        (only_store(cache) / "tokens.bin").write_bytes(b"")
    saved = tokenizer.save(corpus.with_name("tokenizer.json"))
    program = (
        "import sys; from pathlib import Path; from greffon.data.token_store import open_store; "
        "from greffon.data.tokenizer import Tokenizer; tokenizer = Tokenizer.load(Path(sys.argv[2])); "
        "print(open_store([sys.argv[1]], tokenizer, cache=Path(sys.argv[3])).digest)"
    )
    command = [sys.executable, "-c", program, str(corpus), str(saved), str(cache)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    digests = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert digests == {open_store([corpus], tokenizer, cache=cache).digest}
    only_store(cache)
