"""Translation: beam search with four beams, sentences a second, with the same weights for everyone.

Weights are fresh, so every sentence is written up to the same length; they are spread widely enough that
rounding hardly ever decides between two tokens, and the outputs of all contestants can be compared.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.contest import Contest, Goal
from bench.turns import Absent, Turns

PAD, START, END = 0, 1, 2
BEAM = 4


@dataclass(frozen=True)
class Size:
    """A preset of Greffon's, the sentences, and how long their translations are."""

    preset: str
    sentences: int
    vocabulary: int
    length: int = 24
    smaller: tuple[tuple[str, int], ...] = ()  # fields of the shape, for a quick trial
    megabytes: float = 20
    words: int = 8000  # of the tokenizer that cuts the sentences


def shape_of(size: Size) -> Any:
    """The preset's shape; post-norm, because Marian is."""
    from greffon.recipes import preset

    return replace(preset(size.preset, "seq2seq").shape, norm_place="post", dropout=0.0, **dict(size.smaller))


def weights_file(size: Size, folder: Path) -> Path:
    """Where the weights are, under Greffon's names."""
    return folder / f"translator-{size.preset}-{size.vocabulary}.safetensors"


def build(size: Size) -> Any:
    """A translator of Greffon's with fresh weights."""
    from greffon.assembly import translator
    from greffon.config import Data, Recipe, Training

    recipe = Recipe("seq2seq", size.preset, shape_of(size), Training(), Data(), size.vocabulary, body="encoder-decoder")
    return translator(recipe).eval()


def prepare(size: Size, folder: Path) -> None:
    """Write the sentences and the weights."""
    import torch
    from safetensors.torch import save_file

    from bench.data import sentences_file, tokenizer_file
    from greffon.run import tensors_of

    tokenizer_file(folder, size.words, size.megabytes)
    sentences_file(folder, size.sentences)
    torch.manual_seed(0)
    model = build(size)
    with torch.no_grad():
        model.body.embedding.weight.mul_(5)
    save_file(tensors_of(model), weights_file(size, folder))


def sentences(size: Size, folder: Path) -> list[list[int]]:
    """Sentences of the reviews as ids, none of which is a special one."""
    from bench.data import sentences_file, tokenizer_file
    from greffon.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tokenizer_file(folder, size.words, size.megabytes))
    texts = sentences_file(folder, size.sentences).read_text(encoding="utf-8").splitlines()
    room = shape_of(size).context - 1
    return [ids[:room] for ids in tokenizer.encode_many(texts)]


def greffon(turns: Turns, size: Size, folder: Path) -> None:
    """The package's own search."""
    import numpy as np
    from safetensors.torch import load_file

    from greffon.beam import Search, Vocabulary, search_all
    from greffon.run import fill
    from greffon.runtime import keep_memory

    keep_memory()
    path = weights_file(size, folder)
    model = build(size)
    fill(model, load_file(path), path)
    sources = [np.array(ids) for ids in sentences(size, folder)]
    limits = [size.length] * len(sources)
    vocabulary = Vocabulary(PAD, START, END, banned=(PAD, START))
    for _ in turns:
        found = search_all(model, sources, limits, Search(BEAM), vocabulary)
        turns.report(len(sources))
        turns.note(outputs=[best[0].tokens for best in found])


def marian(turns: Turns, size: Size, folder: Path) -> None:
    """`generate` of a Marian model, on sentences sorted by length in batches of 16."""
    import torch

    model = marian_model(size, folder)
    rows = sentences(size, folder)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    batches = []
    for start in range(0, len(order), 16):
        members = order[start : start + 16]
        longest = max(len(rows[i]) for i in members) + 1
        padded = [[*rows[i], END] + [PAD] * (longest - len(rows[i]) - 1) for i in members]
        real = [[1] * (len(rows[i]) + 1) + [0] * (longest - len(rows[i]) - 1) for i in members]
        batches.append((members, torch.tensor(padded), torch.tensor(real)))
    for _ in turns:
        made = [
            model.generate(
                input_ids=tokens,
                attention_mask=real,
                num_beams=BEAM,
                length_penalty=1.0,
                max_length=size.length + 1,
                bad_words_ids=[[PAD], [START]],
                do_sample=False,
            ).tolist()
            for _, tokens, real in batches
        ]
        turns.report(len(rows))
        outputs: list[list[int]] = [[] for _ in rows]
        for (members, _, _), written in zip(batches, made, strict=True):
            for i, row in zip(members, written, strict=True):
                outputs[i] = [token for token in row[1:] if token not in (PAD, END)]
        turns.note(outputs=outputs)


def marian_model(size: Size, folder: Path) -> Any:
    """A Marian model with Greffon's weights."""
    import torch
    from safetensors.torch import load_file
    from transformers import MarianConfig, MarianMTModel

    from greffon.nn.positions import sinusoids

    shape = shape_of(size)
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", shape.layers),
            ("attention_heads", shape.heads),
            ("ffn_dim", shape.feed_forward),
        )
    }
    config = MarianConfig(
        vocab_size=size.vocabulary,
        d_model=shape.width,
        **sides,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=shape.context,
        pad_token_id=PAD,
        decoder_start_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = MarianMTModel(config).eval()
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(weights_file(size, folder)).items():
            theirs[marian_name(name)].copy_(tensor)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(sinusoids(shape.context, shape.width))
    return model


NAMES = {
    "attention": "self_attn",
    "cross": "encoder_attn",
    "attention_norm": "self_attn_layer_norm",
    "cross_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "up": "fc1",
    "down": "fc2",
    "blocks": "layers",
    "body": "model",
}


def marian_name(name: str) -> str:
    """Where Marian keeps what Greffon calls so.

    >>> marian_name("body.decoder.blocks.0.feed_forward.up.weight")
    'model.decoder.layers.0.fc1.weight'
    """
    if name == "body.encoder.embedding.weight":
        return "model.shared.weight"
    return ".".join(NAMES.get(part, part) for part in name.split(".") if part != "feed_forward")


def ctranslate2(turns: Turns, size: Size, folder: Path) -> None:
    """Greffon's CTranslate2 backend, once there is one."""
    raise Absent("Greffon has no CTranslate2 backend yet")


def contest(name: str, sentences: int, vocabulary: int) -> Contest:
    """One contest for a preset."""
    smaller = (("layers", 1), ("width", 16), ("heads", 2), ("feed_forward", 32), ("context", 32))
    return Contest(
        f"beam-{name}",
        f"translation with 4 beams, `{name}`, vocabulary {vocabulary:,}",
        "sentences/s",
        {"Greffon": greffon, "generate (Marian)": marian, "Greffon, CTranslate2": ctranslate2},
        Size(name, sentences, vocabulary),
        Size(name, 3, 300, length=6, smaller=smaller, megabytes=0.05, words=300),
        prepare,
        goals=(Goal("generate (Marian)", 1.3),),
    )


CONTESTS = (contest("small", 64, 8000), contest("base", 16, 37_000))
