"""Which documents of a pretraining text are read where not all can be."""

from pathlib import Path

import numpy as np

import greffon
from greffon.objectives.corpus import training_documents
from greffon.runs.run import Run


def mixed(tmp_path: Path, **given: object) -> Run:
    texts = []
    for name, number in (("a", 40), ("b", 200)):
        text = tmp_path / f"{name}.txt"
        text.write_text("".join(f"{name}{name} {i:03d} text\n" for i in range(number)), encoding="utf-8")
        texts.append(text)
    shape = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 16, "batch_size": 4}
    return greffon.pretrain(texts, out=tmp_path / "run", steps=1, vocab_size=280, quiet=True, **shape, **given)


def first_words(run: Run, most: int) -> list[str]:
    tokenizer = run.tokenizer
    return [tokenizer.decode(ids).split()[0] for ids in training_documents(run.recipe, tokenizer, most)]


def test_each_text_of_a_mixture_gives_its_share(tmp_path: Path) -> None:
    run = mixed(tmp_path, mix=(3, 1))
    words = first_words(run, 40)
    assert (words.count("aa"), words.count("bb")) == (30, 10)
    words = first_words(run, 80)
    assert words.count("bb") == 20, "a text that has less than its share leaves the others theirs"
    assert words.count("aa") == 39, "one in a hundred is held out, and one at least"


def test_a_sample_is_spread_over_the_text(tmp_path: Path) -> None:
    run = mixed(tmp_path)
    everything = [tuple(ids) for ids in training_documents(run.recipe, run.tokenizer, 1000)]
    some = [tuple(ids) for ids in training_documents(run.recipe, run.tokenizer, 20)]
    places = [everything.index(one) for one in some]
    assert len(some) == 20
    assert set(np.diff(places)) <= {len(everything) // 20, len(everything) // 20 + 1}
