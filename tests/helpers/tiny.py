"""Runs of every kind, too small to be good for anything but looking inside."""

from functools import cached_property
from pathlib import Path

import greffon
from greffon.core.rng import generator
from greffon.runs.run import Run

SHAPE = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 32, "context": 48}


class TinyRuns:
    """Each is trained for a few steps when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        random = generator(0, "tiny")
        animals, verbs = ["chat", "chien", "vache", "oiseau"], ["mange", "dort", "court", "chante"]
        lines = [
            " ".join(f"le {a} {b}," for a, b in zip(*_drawn(random, animals, verbs), strict=True))[:-1] + "."
            for _ in range(80)
        ]
        self.text = folder / "text.txt"
        self.text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.table = folder / "labelled.csv"
        rows = [
            f"le {animal} {verb} {i},{'poil' if animal[0] == 'c' else 'autre'}"
            for i in range(6)
            for animal in animals
            for verb in verbs
        ]
        self.table.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")

    def body(self, name: str, **given: object) -> Run:
        if "tokenizer" not in given and name != "causal":
            given["tokenizer"] = self.causal.path
        elif name == "causal":
            given["vocab_size"] = 290
        settings = {**SHAPE, "batch_size": 4, "steps": 3, "quiet": True, **given}
        return greffon.pretrain([self.text], out=self.folder / name, **settings)

    @cached_property
    def causal(self) -> Run:
        return self.body("causal")

    @cached_property
    def learned(self) -> Run:
        return self.body("learned", positions="learned")

    @cached_property
    def none(self) -> Run:
        return self.body("none", positions="none")

    @cached_property
    def long(self) -> Path:
        """Texts of more than four contexts."""
        words = self.text.read_text(encoding="utf-8").split()
        path = self.folder / "long.txt"
        path.write_text("".join(" ".join(words[i::5][:250]) + "\n" for i in range(5)), encoding="utf-8")
        return path

    @cached_property
    def masked(self) -> Run:
        return self.body("masked", objective="masked", positions="sinusoidal")

    @cached_property
    def classifier(self) -> Run:
        out = self.folder / "classifier"
        return greffon.finetune(self.causal, train=self.table, out=out, epochs=1, quiet=True)

    @cached_property
    def translator(self) -> Run:
        words = {"one": "un", "two": "deux", "red": "rouge", "dog": "chien", "cat": "chat", "sees": "voit"}
        random = generator(0, "pairs")
        lines = [random.choice(list(words), 4).tolist() for _ in range(60)]
        source, target = self.folder / "a.en", self.folder / "a.fr"
        source.write_text("\n".join(" ".join(line) for line in lines) + "\n")
        target.write_text("\n".join(" ".join(words[word] for word in line) for line in lines) + "\n")
        given = {**SHAPE, "context": 32, "batch_tokens": 200, "vocab_size": 270, "steps": 3, "quiet": True}
        out = self.folder / "translator"
        return greffon.pretrain(objective="seq2seq", source=source, target=target, out=out, **given)


def _drawn(random, *choices: list[str]) -> list[list[str]]:
    size = random.integers(3, 20)
    return [random.choice(words, size).tolist() for words in choices]
