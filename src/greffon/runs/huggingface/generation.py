"""`generation_config.json` of a checkpoint, read and written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError
from greffon.core.files import read_json
from greffon.core.recipe import GenerationConfig
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run

FILE = "generation_config.json"
OTHERS: Mapping[str, tuple[Any, ...]] = {
    "constraints": (None,), "diversity_penalty": (None, 0), "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1), "exponential_decay_length_penalty": (None,), "force_words_ids": (None,),
    "guidance_scale": (None, 1), "min_length": (None, 0), "min_new_tokens": (None, 0),
    "no_repeat_ngram_size": (None, 0), "repetition_penalty": (None, 1), "sequence_bias": (None,),
    "stop_strings": (None,),
}  # fmt: skip
"""Settings that change which tokens are written and are not obeyed, with the values that change nothing.

What a command has an option for, such as num_beams and temperature, is not read: the option says it.
"""


def read_generation(
    path: Path, config: Mapping[str, Any], tokenizer: Tokenizer, vocab_size: int
) -> tuple[GenerationConfig | None, list[str]]:
    """Return what a checkpoint says about generation, if it says anything, and the settings that are not obeyed.

    A checkpoint without the file says it in config.json, as `transformers` reads it.
    """
    file = path / FILE
    settings: Mapping[str, Any] = read_json(file) if file.is_file() else config
    where = str(file if file.is_file() else path / "config.json")

    def ids(name: str, value: Any) -> tuple[int, ...]:
        found = [] if value is None else value if isinstance(value, list) else [value]
        if any(type(id) is not int or not 0 <= id < vocab_size for id in found):
            raise UserError(f"{where}: {name} is {str(value)[:60]}, no token of {vocab_size:,}; restore the right file")
        return tuple(dict.fromkeys(found))

    def id(name: str) -> int | None:
        found = ids(name, settings.get(name))
        if len(found) > 1:
            raise UserError(f"{where}: {name} has {len(found)} tokens; only one is supported")
        return found[0] if found else None

    words, longer = _bad_words(settings.get("bad_words_ids"), where)
    unwritten = {*tokenizer.unwritten(vocab_size)}
    suppressed = ids("suppress_tokens", settings.get("suppress_tokens")) + ids("bad_words_ids", words)
    ends = ids("eos_token_id", settings.get("eos_token_id"))
    renormalize = settings.get("renormalize_logits") or False
    if not isinstance(renormalize, bool):
        raise UserError(f"{where}: renormalize_logits is {str(renormalize)[:60]}, neither true nor false")
    found = GenerationConfig(
        eos_token_id=() if ends == (tokenizer.end,) else ends,
        suppress_tokens=tuple(sorted({*suppressed} - unwritten)),  # the rest is never written anyway
        begin_suppress_tokens=tuple(sorted({*ids("begin_suppress_tokens", settings.get("begin_suppress_tokens"))})),
        forced_bos_token_id=id("forced_bos_token_id"),
        forced_eos_token_id=id("forced_eos_token_id"),
        renormalize_logits=renormalize,
    )
    ignored = [name for name, idle in OTHERS.items() if settings.get(name) not in idle]
    ignored += ["bad_words_ids of several tokens"] * longer
    return found if found != GenerationConfig() else None, ignored


def _bad_words(value: Any, where: str) -> tuple[list[Any], bool]:
    """Return the words of one token, and whether there are longer ones."""
    if value is None:
        return [], False
    if not isinstance(value, list) or not all(isinstance(word, list) and word for word in value):
        raise UserError(f"{where}: bad_words_ids is no list of lists of tokens; restore the right file")
    return [word[0] for word in value if len(word) == 1], any(len(word) > 1 for word in value)


def generation_of(run: Run) -> dict[str, Any]:
    """Return a generation config with which `transformers` writes the tokens that Greffon writes."""
    tokenizer, vocab_size = run.tokenizer, run.recipe.vocab_size
    rules = run.recipe.generation or GenerationConfig()
    ends = rules.eos_token_id
    known: dict[str, Any] = {
        "pad_token_id": tokenizer.pad,
        "eos_token_id": list(ends) if len(ends) > 1 else ends[0] if ends else tokenizer.end,
        "bos_token_id": tokenizer.start,
        "max_length": run.recipe.shape.context,
    }
    if banned := [id for id in tokenizer.unwritten(vocab_size) if id not in ends]:
        known["bad_words_ids"] = [[id] for id in banned]
    for name in ("suppress_tokens", "begin_suppress_tokens"):
        if tokens := getattr(rules, name):
            known[name] = list(tokens)
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        if (token := getattr(rules, name)) is not None:
            known[name] = token
    if rules.renormalize_logits:
        known["renormalize_logits"] = True
    if run.recipe.objective == "seq2seq":
        known |= {"decoder_start_token_id": tokenizer.start, "num_beams": 4, "length_penalty": 1.0}
    return known
