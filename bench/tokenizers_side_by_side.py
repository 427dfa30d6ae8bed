"""`tokenizers` and `sentencepiece` on the same text: training, encoding, memory.

    python bench/tokenizers_side_by_side.py TEXT… [--megabytes 100] [--vocab-size 8000]

Each candidate runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import io
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from greffon.data.corpora import documents
from greffon.data.tokenizer import Tokenizer

CANDIDATES = ("tokenizers-bpe", "greffon-fast", "sentencepiece-bpe", "sentencepiece-unigram")


def texts(sources: list[str], megabytes: float) -> Iterator[str]:
    """Yield documents until so many megabytes are reached, from the beginning again if need be."""
    left = megabytes * 1e6
    while left > 0:
        for text in documents(sources):
            yield text
            left -= len(text.encode()) + 1
            if left <= 0:
                return


def measure(candidate: str, sources: list[str], megabytes: float, vocabulary: int) -> dict[str, float]:
    """Train and encode with one candidate in this process."""
    if candidate == "tokenizers-bpe":  # as Greffon works without its extra `fast`
        sys.modules |= dict.fromkeys(("rustbpe", "tiktoken"))
    started = time.perf_counter()
    if candidate in ("tokenizers-bpe", "greffon-fast"):
        made = Tokenizer.train(texts(sources, megabytes), vocabulary)
        encode = lambda batch: sum(map(len, made.encode_many(batch)))  # noqa: E731
    else:
        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=texts(sources, megabytes),
            model_writer=model,
            vocab_size=vocabulary,
            model_type=candidate.removeprefix("sentencepiece-"),
            byte_fallback=True,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            max_sentence_length=1_000_000,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        encode = lambda batch: sum(map(len, processor.encode(batch, num_threads=2)))  # noqa: E731
    trained = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sample = list(texts(sources, min(megabytes, 10)))
    size = sum(len(text.encode()) for text in sample)
    begun = time.perf_counter()
    tokens = sum(encode(sample[i : i + 2000]) for i in range(0, len(sample), 2000))
    return {
        "train_seconds": round(trained - started, 1),
        "peak_gigabytes": round(memory / 1e9, 2),
        "encode_megabytes_per_second": round(size / 1e6 / (time.perf_counter() - begun), 1),
        "bytes_per_token": round(size / tokens, 3),
    }


def main() -> None:
    """Measure each candidate in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--only", choices=CANDIDATES)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args.sources, args.megabytes, args.vocab_size)))
        return
    for candidate in CANDIDATES:
        words = [sys.executable, str(Path(__file__)), *args.sources, "--only", candidate]
        words += ["--megabytes", str(args.megabytes), "--vocab-size", str(args.vocab_size)]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
        print(candidate, found.stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
