"""How far do counts go? Token vectors from which tokens stand near each other, their mean, logistic regression.

    python bench/counted_vectors.py TEXT… --tokenizer TOK --train F [--valid F] --test F [--mix 1 1]

Counts of neighbours (the nearer, the more they count) become positive pointwise mutual information, and that is
factorised: what word2vec does, in seconds (Levy & Goldberg, 2014). It is the cheapest pretraining there is, and a
frozen body should be better than that. TF-IDF stands beside; C is chosen on validation everywhere.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from greffon.comparison.baselines import frozen, tfidf
from greffon.core.recipe import Data
from greffon.data.splits import load_splits
from greffon.data.token_store import TokenStore, open_store
from greffon.data.tokenizer import Tokenizer

SMOOTHING = 0.75
"""The power of a neighbour's frequency: rare ones would otherwise seem to say too much."""
MOST = 4000
"""Neighbours that are counted, the most frequent ones."""


def neighbours(stores: Sequence[TokenStore], mix: Sequence[int], size: int, window: int) -> np.ndarray:
    """Count, for every token, what stands within `window` tokens of it in the same document: (V, MOST)."""
    weights = [share / len(store.tokens) for share, store in zip(mix, stores, strict=True)]
    frequency = sum(w * np.bincount(store.tokens, minlength=size) for w, store in zip(weights, stores, strict=True))
    column = np.full(size, -1)
    often = np.argsort(-np.asarray(frequency), kind="stable")[:MOST]
    column[often] = np.arange(len(often))
    counts = np.zeros((size, len(often)), np.float32)
    for store, weight in zip(stores, weights, strict=True):
        tokens = np.asarray(store.tokens, np.int64)
        document = np.repeat(np.arange(len(store)), np.diff(store.offsets))
        for distance in range(1, window + 1):
            together = document[:-distance] == document[distance:]
            left, right = tokens[:-distance][together], tokens[distance:][together]
            for one, other in ((left, right), (right, left)):
                known = column[other] >= 0
                places = one[known] * counts.shape[1] + column[other[known]]
                np.add.at(counts.reshape(-1), places, np.float32(weight / distance))
    return counts


def vectors(counts: np.ndarray, width: int) -> np.ndarray:
    """Factorise positive pointwise mutual information: (V, MOST) → (V, width)."""
    tokens = counts.sum(axis=1, keepdims=True)
    others = counts.sum(axis=0, keepdims=True) ** SMOOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts * (others.sum() / others) / tokens)
    positive = torch.from_numpy(np.nan_to_num(np.maximum(information, 0.0), posinf=0.0))
    torch.manual_seed(0)
    u, s, _ = torch.svd_lowrank(positive, q=width + 16, niter=4)
    made: np.ndarray = (u[:, :width] * s[:width].sqrt()).numpy()
    return made


def main() -> None:
    """Count, factorise, fit, and print what each reaches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--mix", nargs="+", type=int)
    parser.add_argument("--train", required=True)
    parser.add_argument("--valid")
    parser.add_argument("--test", required=True)
    parser.add_argument("--windows", nargs="+", type=int, default=[2, 10, 50])
    parser.add_argument("--hidden-size", type=int, default=128)
    args = parser.parse_args()
    tokenizer = Tokenizer.load(args.tokenizer)
    mix = args.mix or [1] * len(args.texts)
    stores = [open_store([text], tokenizer) for text in args.texts]
    data = Data(train=(args.train,), valid=(args.valid,) if args.valid else (), test=(args.test,))
    splits = load_splits(data)
    parts = [splits.train, splits.valid, splits.test]
    labels = [[example.label for example in part] for part in parts]
    ids = [tokenizer.encode_many([example.text for example in part]) for part in parts]

    def told(name: str, found: Sequence[str]) -> None:
        right = sum(guess == label for guess, label in zip(found, labels[2], strict=True))
        print(f"{name}: {right / len(labels[2]):.1%} of {len(labels[2]):,} test texts", flush=True)

    for window in args.windows:
        made = vectors(neighbours(stores, mix, tokenizer.size, window), args.hidden_size)
        train, valid, test = (np.stack([made[some].mean(axis=0) for some in part]) for part in ids)
        told(f"counted, window {window}", frozen((train, labels[0]), (valid, labels[1]), test, "counted").predictions)
    texts = [[example.text for example in part] for part in parts]
    told("TF-IDF", tfidf(texts[0], labels[0], texts[1], labels[1], texts[2]).predictions)


if __name__ == "__main__":
    main()
