"""Translate with CTranslate2: convert a run's weights, and use that library's beam search.

CTranslate2 (`pip install 'greffon[ctranslate2]'`) is a C++ engine for encoder-decoders. A run is converted
once, and the conversion is cached under a digest of its weights, tokenizer and shape. Before a conversion
is kept, its log-probabilities are compared with those of the run, so that a model that the library cannot
compute is refused instead of giving wrong translations.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from greffon.core.answering import Search
from greffon.core.errors import UserError, setting
from greffon.core.files import cache_folder, sha256, write_json
from greffon.inference.beam import BATCH_TOKENS, Hypothesis
from greffon.inference.ctranslate2_spec import ACTIVATIONS, specification
from greffon.inference.vocabulary import Vocabulary
from greffon.nn.model import Model
from greffon.runs.export_dir import MARKER, clear
from greffon.runs.huggingface.companions import give_licence
from greffon.runs.run import Run

FORMAT = 1
"""Version of the conversion, part of its digest; increase it when the same weights would be written differently."""
TOLERANCE = 1e-2
"""Largest difference between a token's log-probabilities in both libraries, in nats; beyond it the run is refused."""
PATIENCE = 1.5
"""Hypotheses to finish before a search ends, as a multiple of the beams: with 1, some good ones come too late."""
POSITIONS = ("sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor", "learned", "none")


def ctranslate2() -> Any:
    """Import CTranslate2; raise a `UserError` that says how to install it."""
    try:
        import ctranslate2
    except ImportError:
        raise UserError(
            "this needs the package ctranslate2; install it with pip install 'greffon[ctranslate2]'"
        ) from None
    return ctranslate2


def export_ctranslate2(run: str | Path | Run, out: str | Path, quantize: str | None = None) -> Path:
    """Write a translator as a CTranslate2 model, together with its tokenizer; `quantize` is None or "int8"."""
    run, out = Run.open(run), Path(out)
    if quantize not in (None, "int8"):
        raise UserError(f"cannot quantize to {quantize!r}; choose int8, or leave it out for float32")
    beside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        _convert(run, beside, quantize)
        run.tokenizer.save(beside)
        give_licence(run, beside)
        write_json(beside / MARKER, {"to": "ctranslate2", "run": run.name, "objective": run.recipe.objective})
        clear(out)
        beside.rename(out)
    except OSError as problem:
        raise UserError(f"cannot write {out}: {problem.strerror}; choose another {setting('out')}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return out


def search_ctranslate2(
    run: Run,
    sources: Sequence[np.ndarray],
    limits: Sequence[int],
    search: Search,
    vocabulary: Vocabulary,
    *,
    int8: bool = False,
) -> list[list[Hypothesis]]:
    """Search as `beam.search_all` does, with another stopping rule.

    CTranslate2 stops after a fixed number of finished hypotheses; `beam.search_all` stops once no beam can
    beat the worst of the K best. Up to that point both find the same hypotheses.
    """
    rules, other = vocabulary.generation, f"use {setting('backend', 'torch')}"
    if rules.begin_suppress_tokens:
        raise UserError(f"CTranslate2 has no begin_suppress_tokens, which this checkpoint asks for; {other}")
    if rules.forced_eos_token_id not in (None, *vocabulary.ends):
        raise UserError(f"CTranslate2 forces only a token that ends a text to stand last; {other}")
    if vocabulary.source_end is not None or vocabulary.start != run.tokenizer.start:
        raise UserError(f"CTranslate2 takes no language token at the end of a source; {other}")
    if not sources:
        return []
    with _threads() as threads:
        return _search(_opened(run, int8, threads), _names(run), sources, limits, search, vocabulary, threads)


@contextmanager
def _threads() -> Iterator[int]:
    """Yield the number of threads of torch, and restore it afterwards: CTranslate2 changes it."""
    threads = torch.get_num_threads()
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def _search(
    translator: Any,
    names: Sequence[str],
    sources: Sequence[np.ndarray],
    limits: Sequence[int],
    search: Search,
    vocabulary: Vocabulary,
    threads: int,
) -> list[list[Hypothesis]]:
    ids = {name: id for id, name in enumerate(names)}
    found: list[list[Hypothesis]] = [[] for _ in sources]
    patience = PATIENCE if search.beam_size > 1 else 1.0
    # Batches are worked on side by side, so a few sentences are shared out, too: a batch for each thread. Smaller ones
    # would read the weights as often for fewer rows.
    share = -(-sum(len(source) + 1 for source in sources) // threads)
    longest = max(map(len, sources)) + 1
    batch_tokens = max(min(share, BATCH_TOKENS // search.beam_size), longest)

    first, forces_last = vocabulary.forced_first(1), vocabulary.generation.forced_eos_token_id is not None
    if forces_last:  # its place is kept free
        limits = [max(1, limit - 1) for limit in limits]

    def hypothesis(target: Sequence[int], score: float) -> Hypothesis:
        if forces_last and target[-1] not in vocabulary.ends:  # the end is certain, and counts in the length
            score *= (len(target) / (len(target) + 1)) ** search.length_penalty
        return Hypothesis([token for token in target if token not in vocabulary.ends], score)

    def translate(members: Sequence[int], limit: int) -> list[int]:
        """Search for the targets of some sources; return the sources whose targets exceed their own limit."""
        results = translator.translate_batch(
            [[names[id] for id in sources[i]] for i in members],
            max_batch_size=batch_tokens,
            batch_type="tokens",
            beam_size=search.beam_size,
            patience=patience,
            num_hypotheses=round(search.beam_size * patience),
            length_penalty=search.length_penalty,
            target_prefix=None if first is None else [[names[first]]] * len(members),
            suppress_sequences=[[names[id]] for id in vocabulary.never],
            end_token=[names[id] for id in vocabulary.ends],
            return_end_token=True,  # the length that divides a score counts the end, as ours does
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=limit,
        )
        beyond = []
        for i, result in zip(members, results, strict=True):
            targets = [[ids[name] for name in hypothesis] for hypothesis in result.hypotheses]
            if limit > limits[i] <= max(map(len, targets)):
                beyond.append(i)
            made = [hypothesis(*one) for one in zip(targets, result.scores, strict=True)]
            found[i] = sorted(made, key=lambda one: -one.score)[: search.beam_size]
        return beyond

    # The library has one limit for all sentences. The few that exceed their own are searched again with it.
    again = translate(range(len(sources)), max(limits))
    for limit in sorted({limits[i] for i in again}):
        translate([i for i in again if limits[i] == limit], limit)
    return found


# -- opening and keeping ---------------------------------------------------------------------


def _opened(run: Run, int8: bool, threads: int) -> Any:
    """Open the converted run; it translates as many batches in parallel as torch has threads."""
    kind = "int8" if int8 else "float32"
    if kind not in ctranslate2().get_supported_compute_types("cpu"):
        raise UserError(f"CTranslate2 cannot compute in {kind} on this processor; leave out {setting('int8')}")
    folder = _kept(run)
    try:
        return _open(folder, kind, threads)
    except RuntimeError:  # torn by a crash of the system: made anew
        shutil.rmtree(folder, ignore_errors=True)
        return _open(_kept(run), kind, threads)


def _translator(folder: Path, kind: str, threads: int) -> Any:
    # One thread a batch: two batches side by side are faster than one on two threads.
    return ctranslate2().Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=threads, intra_threads=1
    )


_open = lru_cache(maxsize=4)(_translator)


def _kept(run: Run) -> Path:
    """Return the folder of a run's conversion in the cache; convert the run if it is not there."""
    if not run.has_model:
        run.load_model()  # says what is missing
    parts = [FORMAT, ctranslate2().__version__, sha256(run.path / "model.safetensors"), run.recipe.tokenizer_digest]
    identity = json.dumps([*parts, repr(run.recipe.shape)])
    models = cache_folder() / "ctranslate2"
    folder = models / hashlib.sha256(identity.encode()).hexdigest()[:32]
    if folder.is_dir():
        return folder
    beside = models / f".{folder.name}.{os.getpid()}.part"
    try:
        _convert(run, beside, None)
        if not folder.is_dir():  # another process may have been faster
            beside.rename(folder)
    except OSError as problem:
        raise UserError(
            f"{models}: the converted model cannot be written ({problem.strerror}); "
            "free some room or set GREFFON_CACHE to another folder"
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


# -- converting ------------------------------------------------------------------------------


def _convert(run: Run, folder: Path, quantize: str | None) -> None:
    """Write the model into a new folder, and check that it computes the same as the run."""
    library = ctranslate2()
    if run.recipe.objective != "seq2seq":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; CTranslate2 takes translators, of seq2seq")
    shape = run.recipe.shape
    misfits = []
    if shape.positions not in POSITIONS:
        misfits.append(f"{shape.positions} positions")
    if shape.activation not in ACTIVATIONS:
        misfits.append(f"the activation {shape.activation}")
    if misfits:
        raise UserError(f"CTranslate2 knows no encoder-decoder with {' and '.join(misfits)}; use the backend torch")
    model = run.load_model()
    spec = specification(model, library.specs)
    names, tokenizer = _names(run), run.tokenizer
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token = spec.config.decoder_start_token = names[tokenizer.start]
    spec.config.eos_token = names[tokenizer.end]
    spec.config.unk_token = names[tokenizer.pad]  # there is no unknown token, but the library wants one
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantize)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    if quantize is None:
        _compare(run, model, folder, names)


def _names(run: Run) -> list[str]:
    """Return the name of every id of the model's vocabulary; ids without a token are called `<unused …>`."""
    names = run.tokenizer.names
    return [*names, *(f"<unused {id}>" for id in range(len(names), run.recipe.vocab_size))]


@torch.no_grad()
def _compare(run: Run, model: Model, folder: Path, names: Sequence[str]) -> None:
    """Refuse a conversion that gives other log-probabilities than the run."""
    tokenizer, room = run.tokenizer, min(16, run.recipe.shape.context - 1)
    ordinary = tokenizer.ordinary
    source, target = (ordinary[np.linspace(part, len(ordinary) - 1, room).astype(int)].tolist() for part in (0, 1))
    body = model.body
    hidden = body(torch.tensor([[*source, tokenizer.end]]), torch.tensor([[tokenizer.start, *target]]))
    ours = model.head(hidden)[0].log_softmax(dim=-1).gather(1, torch.tensor([[*target, tokenizer.end]]).T)[:, 0]
    words = [[names[id] for id in side] for side in (source, target)]
    with _threads():
        (scored,) = _translator(folder, "float32", 1).score_batch([words[0]], [words[1]])
    off = float((torch.tensor(scored.log_probs) - ours).abs().max())
    if not off < TOLERANCE:
        raise UserError(
            f"CTranslate2 does not compute what {run.path} does (a log-probability is off by {off:.2g}): it has a "
            "part that cannot be converted; use the backend torch"
        )
