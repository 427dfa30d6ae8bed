"""Translation: beam search with four beams, sentences a second, with the same weights for everyone.

Weights are fresh, so hardly a sentence ends by itself; as all sources are equally long, all translations
are written up to the same length. Weights are spread widely enough that rounding hardly ever decides
between two tokens, and the translations of all contestants can be compared.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.contest import Contest, Contestant, Goal
from bench.products import multiply_in_turns
from bench.turns import Turns

BEAM = 4
SENTENCES = 64


@dataclass(frozen=True)
class Size:
    """A preset of Greffon's, and the sentences."""

    preset: str
    sentences: int
    vocab_size: int
    length: int = 16  # tokens of a source
    smaller: tuple[tuple[str, int], ...] = ()  # fields of the shape, for a quick trial
    megabytes: float = 20


def shape_of(size: Size) -> Any:
    """The preset's shape; post-norm, because Marian is."""
    from greffon.core.presets import preset

    return replace(preset(size.preset, "seq2seq").shape, norm_place="post", dropout=0.0, **dict(size.smaller))


def run_folder(size: Size, folder: Path) -> Path:
    """Where the translator is."""
    return folder / f"translator-{size.preset}-{size.vocab_size}"


def sentences_file(size: Size, folder: Path) -> Path:
    """Where the sentences are, one a line."""
    return folder / f"sentences-{size.vocab_size}-{size.length}-{size.sentences}.txt"


def prepare(size: Size, folder: Path) -> None:
    """Write a run with fresh weights, and sentences of one length in its tokens."""
    import torch

    from bench.data import labelled_reviews, tokenizer_file
    from greffon.core.recipe import Data, Recipe
    from greffon.core.training import Training
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.runs.run import Run

    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    shape = shape_of(size)
    recipe = Recipe("seq2seq", size.preset, shape, Training(), Data(), tokenizer.size, body="encoder-decoder")
    run = Run.create(run_folder(size, folder), recipe)
    run.adopt(tokenizer)
    model = make_model(recipe)
    with torch.no_grad():
        model.body.embedding.weight.mul_(5)
    run.save_model(model, {"loss": 0.0})
    run.mark_finished()
    chosen: list[str] = []
    for text, _ in labelled_reviews("rotten_tomatoes"):
        cut = tokenizer.decode(tokenizer.encode(text)[: size.length])
        if len(tokenizer.encode(cut)) == size.length:
            chosen.append(cut)
        if len(chosen) == size.sentences:
            break
    sentences_file(size, folder).write_text("\n".join(chosen), encoding="utf-8")


def sentences(size: Size, folder: Path) -> list[str]:
    """Read the sentences."""
    return sentences_file(size, folder).read_text(encoding="utf-8").split("\n")


def greffon(**options: Any) -> Contestant:
    """`greffon.translate` on a run, by its own search or by another backend."""

    def play(turns: Turns, size: Size, folder: Path) -> None:
        from greffon.inference.translate import translate
        from greffon.runs.run import Run

        run, texts = Run.open(run_folder(size, folder)), sentences(size, folder)
        for _ in turns:
            found = translate(run, texts, beam_size=BEAM, **options)
            turns.report(len(texts))
            turns.note(outputs=[one.translation for one in found])

    return play


def marian(rows_at_once: int) -> Contestant:
    """`generate` of a Marian model, so many sentences at a time."""

    def play(turns: Turns, size: Size, folder: Path) -> None:
        generate_in_turns(turns, size, folder, rows_at_once)

    return play


def generate_in_turns(turns: Turns, size: Size, folder: Path, rows_at_once: int) -> None:
    """Translate all sentences every turn by `generate`."""
    import torch

    from greffon.data.tokenizer import Tokenizer
    from greffon.inference.scoring import longest_target

    tokenizer = Tokenizer.load(run_folder(size, folder))
    model = marian_model(size, folder, tokenizer)
    texts = sentences(size, folder)
    specials = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    most = longest_target(size.length, shape_of(size).context)
    for _ in turns:
        outputs: list[str] = []
        for start in range(0, len(texts), rows_at_once):
            rows = [[*ids, tokenizer.end] for ids in tokenizer.encode_many(texts[start : start + rows_at_once])]
            made = model.generate(
                input_ids=torch.tensor(rows),
                attention_mask=torch.ones(len(rows), size.length + 1, dtype=torch.long),
                num_beams=BEAM,
                length_penalty=1.0,
                max_length=most + 1,
                bad_words_ids=[[token] for token in sorted(specials)],
                do_sample=False,
            )
            outputs += [tokenizer.decode(row) for row in made.tolist()]
        turns.report(len(texts))
        turns.note(outputs=outputs)


def marian_model(size: Size, folder: Path, tokenizer: Any) -> Any:
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
            ("ffn_dim", shape.intermediate_size),
        )
    }
    config = MarianConfig(
        vocab_size=tokenizer.size,
        d_model=shape.hidden_size,
        **sides,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=shape.context,
        pad_token_id=tokenizer.pad,
        decoder_start_token_id=tokenizer.start,
        eos_token_id=tokenizer.end,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = MarianMTModel(config).eval()
    theirs = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(run_folder(size, folder) / "model.safetensors").items():
            theirs[marian_name(name)].copy_(tensor)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(sinusoids(shape.context, shape.hidden_size))
    return model


def products(turns: Turns, size: Size, folder: Path) -> None:
    """The same arithmetic as nothing but products of matrices."""
    from greffon.data.tokenizer import Tokenizer

    multiply_in_turns(turns, size.sentences, flops_a_sentence(size, Tokenizer.load(run_folder(size, folder)).size))


def flops_a_sentence(size: Size, vocabulary: int) -> int:
    """Two operations a parameter and token: of a source once, of a translation once a beam; attention comes on top."""
    from greffon.inference.scoring import longest_target

    shape = shape_of(size)
    # Six squares a layer and token on both sides: four of its own attention, and two of the cross attention, whose keys
    # and values are of the source, queries and outputs of the translation.
    blocks = shape.layers * (6 * shape.hidden_size**2 + 2 * shape.hidden_size * shape.intermediate_size)
    written = BEAM * longest_target(size.length, shape.context)
    return 2 * ((size.length + 1) * blocks + written * (blocks + shape.hidden_size * vocabulary))


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


def contest(name: str, vocabulary: int) -> Contest:
    """One contest for a preset."""
    smaller = (("layers", 1), ("hidden_size", 16), ("heads", 2), ("intermediate_size", 32), ("context", 32))
    return Contest(
        f"beam-{name}",
        f"translation with 4 beams, `{name}`, vocabulary {vocabulary:,}",
        "sentences/s",
        {
            "Greffon": greffon(),
            "generate (Marian)": marian(16),
            f"generate (Marian), {SENTENCES} at a time": marian(SENTENCES),
            "Greffon, int8": greffon(int8=True),
            "Greffon, CTranslate2": greffon(backend="ctranslate2"),
            "Greffon, CTranslate2, int8": greffon(backend="ctranslate2", int8=True),
            "sgemm alone": products,
        },
        Size(name, SENTENCES, vocabulary),
        Size(name, 3, 300, length=6, smaller=smaller, megabytes=0.05),
        prepare,
        goals=(
            Goal("generate (Marian)", 1.3),
            Goal("generate (Marian)", 2.0, by="Greffon, int8"),
            Goal("Greffon", 2.0, by="Greffon, int8"),
            Goal("generate (Marian)", 3.0, by="Greffon, CTranslate2"),
            Goal("generate (Marian)", 3.0, by="Greffon, CTranslate2, int8"),
        ),
    )


CONTESTS = (contest("small", 8000), contest("base", 37_000))
