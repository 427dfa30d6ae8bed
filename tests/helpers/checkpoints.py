"""Small random checkpoints as `transformers` writes them, with tokenizers trained on a few sentences."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import sentencepiece
import torch
import transformers
from tokenizers import Regex, normalizers, pre_tokenizers, processors
from tokenizers.implementations import BertWordPieceTokenizer, ByteLevelBPETokenizer, SentencePieceBPETokenizer

transformers.utils.logging.disable_progress_bar()

TEXTS = [
    f"{who} {verb} {what}."
    for who in ("le chat", "la mère", "Un voisin", "l'enfant", "Paul", "東京", "the dog")
    for verb in ("regarde", "mange", "n'aime pas", "looks at")
    for what in ("une pomme", "le livre", "l'été", "rien du tout", "12 œufs", "a house")
]
SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40,
}  # fmt: skip
LABELS = {"id2label": {0: "bad", 1: "good", 2: "unsure"}, "label2id": {"bad": 0, "good": 1, "unsure": 2}}


def noisy(model: Any) -> Any:
    """Give every parameter, norms and biases too, a value of its own."""
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # a table of sinusoids stays what it is
                p.add_(0.2 * torch.randn_like(p))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias))
    return model.eval()


def wordpiece(folder: Path) -> int:
    """Write a vocab.txt, as BERT's first checkpoints have it."""
    made = BertWordPieceTokenizer(lowercase=True)
    made.train_from_iterator(TEXTS, vocab_size=150, min_frequency=1, show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    made.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    return made.get_vocab_size()


def byte_level(folder: Path, specials: list[str], kind: str) -> int:
    """Write vocab.json and merges.txt, as the first checkpoints of GPT-2 and RoBERTa have them."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, vocab_size=300, min_frequency=1, special_tokens=specials, show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    made.save_model(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return made.get_vocab_size()


def two_sides(folder: Path) -> int:
    """Write source.spm, target.spm and vocab.json, as Marian's checkpoints have them."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces: dict[str, int] = {"</s>": 0, "<unk>": 1}
    for side, texts in (("source", TEXTS), ("target", [text.upper() for text in TEXTS])):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_prefix=str(folder / side), vocab_size=90, minloglevel=2,
            character_coverage=0.98, hard_vocab_limit=False,
        )  # fmt: skip
        (folder / f"{side}.vocab").unlink()
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        processor = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.spm"))
        for id in range(3, processor.get_piece_size()):
            pieces.setdefault(processor.id_to_piece(id), len(pieces))
    pieces[">>fr<<"] = len(pieces)
    pieces["<pad>"] = len(pieces)
    (folder / "vocab.json").write_text(json.dumps(pieces), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    return len(pieces)


def modern(folder: Path) -> None:
    """Save the tokenizer again as `transformers` does today: as a tokenizer.json."""
    made = transformers.AutoTokenizer.from_pretrained(folder)
    for name in ("vocab.txt", "vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    made.save_pretrained(folder)


def bert(folder: Path, head: str = "ForMaskedLM", **settings: Any) -> Any:
    """Save a BERT."""
    size = wordpiece(folder)
    config = transformers.BertConfig(vocab_size=size, **SMALL, **settings)
    return saved(getattr(transformers, f"Bert{head}")(config), folder)


def roberta(folder: Path, head: str = "ForMaskedLM", family: str = "Roberta", **settings: Any) -> Any:
    """Save a RoBERTa, or one of its children."""
    size = byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "RobertaTokenizer")
    config = getattr(transformers, f"{family}Config")(vocab_size=size, **SMALL, **settings)
    return saved(getattr(transformers, f"{family}{head}")(config), folder)


def distilbert(folder: Path, head: str = "ForMaskedLM", **settings: Any) -> Any:
    """Save a DistilBERT."""
    config = transformers.DistilBertConfig(
        vocab_size=wordpiece(folder), dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=40,
        **settings,
    )  # fmt: skip
    return saved(getattr(transformers, f"DistilBert{head}")(config), folder)


def gpt2(folder: Path, head: str = "LMHeadModel", **settings: Any) -> Any:
    """Save a GPT-2."""
    size = byte_level(folder, ["<|endoftext|>"], "GPT2Tokenizer")
    config = transformers.GPT2Config(
        vocab_size=size, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0, **settings
    )
    return saved(getattr(transformers, f"GPT2{head}")(config), folder)


def byte_level_json(folder: Path, specials: list[str], around: str = "", kind: str = "", **named: str) -> int:
    """Write a byte-level tokenizer.json; `around` is the template of a text, `named` are the roles of the specials."""
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS, vocab_size=300, min_frequency=1, special_tokens=specials, show_progress=False)
    library = made._tokenizer
    if around:
        library.post_processor = processors.TemplateProcessing(
            single=around, pair=f"{around} {around.replace('$A', '$B')}",
            special_tokens=[(token, made.token_to_id(token)) for token in specials],
        )  # fmt: skip
    if kind in ("Qwen2Tokenizer", "GPTNeoXTokenizer"):
        library.normalizer = normalizers.NFC()
    if kind == "Qwen2Tokenizer":  # words as Qwen cuts them: digits one by one
        words = [
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n]*",
            r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
        ]  # fmt: skip
        cut = pre_tokenizers.Split(Regex("|".join(words)), "isolated")
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_])
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": kind or "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return made.get_vocab_size()


def llama(folder: Path, head: str = "ForCausalLM", **settings: Any) -> Any:
    """Save a Llama with grouped heads unless told otherwise; its texts begin with a start token, as Llama 3's do."""
    start, end, pad = specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|pad|>"]
    size = byte_level_json(folder, specials, f"{start} $A", bos_token=start, eos_token=end, pad_token=pad)
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = transformers.LlamaConfig(vocab_size=size, **SMALL, **{"num_key_value_heads": 1, **ids, **settings})
    return saved(getattr(transformers, f"Llama{head}")(config), folder)


def qwen(folder: Path, head: str = "ForCausalLM", family: str = "Qwen2", **settings: Any) -> Any:
    """Save a Qwen2 or a Qwen3 with grouped heads; nothing stands before its texts."""
    end, turn = specials = ["<|endoftext|>", "<|im_end|>"]
    size = byte_level_json(folder, specials, kind="Qwen2Tokenizer", eos_token=turn, pad_token=end)
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    known = {"num_key_value_heads": 1, **({"head_dim": 12} if family == "Qwen3" else {}), **ids, **settings}
    config = getattr(transformers, f"{family}Config")(vocab_size=size, **SMALL, **known)
    return saved(getattr(transformers, f"{family}{head}")(config), folder)


def neox(folder: Path, head: str = "ForCausalLM", **settings: Any) -> Any:
    """Save a GPT-NeoX whose rotary positions turn half of the features of a head."""
    end, pad = specials = ["<|endoftext|>", "<|padding|>"]
    size = byte_level_json(folder, specials, kind="GPTNeoXTokenizer", bos_token=end, eos_token=end, pad_token=pad)
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
    config = transformers.GPTNeoXConfig(vocab_size=size, **SMALL, **{"rotary_pct": 0.5, **ids, **settings})
    return saved(getattr(transformers, f"GPTNeoX{head}")(config), folder)


def eurobert(folder: Path, head: str = "ForMaskedLM", **settings: Any) -> Any:
    """Save a EuroBERT with grouped heads."""
    start, end, pad, mask = specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<|mask|>"]
    roles = {"bos_token": start, "eos_token": end, "pad_token": pad, "mask_token": mask}
    size = byte_level_json(folder, specials, f"{start} $A {end}", **roles)
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "mask_token_id": 3}
    known = {"num_key_value_heads": 1, "classifier_pooling": "bos", **ids, **settings}
    config = transformers.EuroBertConfig(vocab_size=size, **SMALL, **known)
    return saved(getattr(transformers, f"EuroBert{head}")(config), folder)


def modernbert(folder: Path, head: str = "ForMaskedLM", **settings: Any) -> Any:
    """Save a ModernBERT of three layers: the first is global, the others see eight tokens."""
    size = wordpiece(folder)
    modern(folder)
    known = {**SMALL, "num_hidden_layers": 3, "local_attention": 8, "pad_token_id": 0, "cls_token_id": 2}
    config = transformers.ModernBertConfig(
        vocab_size=size, sep_token_id=3, bos_token_id=2, eos_token_id=3, **{**known, **settings}
    )
    return saved(getattr(transformers, f"ModernBert{head}")(config), folder)


def marian(folder: Path, **settings: Any) -> Any:
    """Save a Marian."""
    size = two_sides(folder)
    config = transformers.MarianConfig(
        vocab_size=size, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=40,
        pad_token_id=size - 1, decoder_start_token_id=size - 1, eos_token_id=0, forced_eos_token_id=None,
        **{"activation_function": "swish", "scale_embedding": True, **settings},
    )  # fmt: skip
    return saved(transformers.MarianMTModel(config), folder)


def shared_pieces(folder: Path) -> list[tuple[str, float]]:
    """Write sentencepiece.bpe.model, as M2M100's checkpoints have it; return its pieces in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sentencepiece.bpe"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_prefix=str(file), vocab_size=90, minloglevel=2, hard_vocab_limit=False,
        character_coverage=0.98,
    )  # fmt: skip
    file.with_suffix(".bpe.vocab").unlink()
    found = sentencepiece.SentencePieceProcessor(str(file) + ".model")
    known = [(found.id_to_piece(id), found.get_score(id)) for id in range(3, found.get_piece_size())]
    return [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *known]


TWO_SIDES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 40,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip


def mbart(folder: Path, tokenizer: str = "MBart50Tokenizer", **settings: Any) -> Any:
    """Save an mBART-50; with `MBartTokenizer`, an mBART, which marks languages in another way."""
    pieces = shared_pieces(folder)
    (folder / "sentencepiece.bpe.model").unlink()
    module = getattr(transformers.models, tokenizer.lower().removesuffix("tokenizer"))
    codes = getattr(module, f"tokenization_{tokenizer.lower().removesuffix('tokenizer')}").FAIRSEQ_LANGUAGE_CODES
    vocabulary = [*pieces, *((code, 0.0) for code in codes), ("<mask>", 0.0)]
    made = getattr(transformers, tokenizer)(vocab=vocabulary, src_lang="fr_XX")
    made.save_pretrained(folder)
    start = {"decoder_start_token_id": made.convert_tokens_to_ids("en_XX")} if tokenizer == "MBartTokenizer" else {}
    known = {**TWO_SIDES, **start, "forced_eos_token_id": None, "scale_embedding": True, **settings}
    return saved(
        transformers.MBartForConditionalGeneration(transformers.MBartConfig(vocab_size=len(made), **known)), folder
    )


def m2m100(folder: Path, **settings: Any) -> Any:
    """Save an M2M100; eight rows of its embedding have no token."""
    pieces = shared_pieces(folder)
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, (piece, _) in enumerate(pieces)}))
    files = [str(folder / name) for name in ("vocab.json", "sentencepiece.bpe.model")]
    transformers.M2M100Tokenizer(*files, src_lang="fr").save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=len(pieces) + 100 + 8, **{**TWO_SIDES, **settings})
    return saved(transformers.M2M100ForConditionalGeneration(config), folder)


def nllb(folder: Path, legacy_behaviour: bool = False, **settings: Any) -> Any:
    """Save an NLLB, which is an M2M100 with another tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trained = SentencePieceBPETokenizer()
    trained.train_from_iterator(TEXTS, vocab_size=150, special_tokens=specials, show_progress=False)
    content = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in content["merges"]]
    made = transformers.NllbTokenizer(
        vocab=content["vocab"], merges=merges, src_lang="fra_Latn", legacy_behaviour=legacy_behaviour
    )
    made.save_pretrained(folder)
    config = transformers.M2M100Config(vocab_size=len(made), **{**TWO_SIDES, **settings})
    return saved(transformers.M2M100ForConditionalGeneration(config), folder)


def saved(model: Any, folder: Path) -> Any:
    """Shake a model up and save it."""
    noisy(model).save_pretrained(folder)
    return model


MAKERS: dict[str, Callable[..., Any]] = {
    "bert": bert,
    "roberta": roberta,
    "camembert": partial(roberta, family="Camembert"),
    "xlm-roberta": partial(roberta, family="XLMRoberta"),
    "distilbert": distilbert,
    "modernbert": modernbert,
    "eurobert": eurobert,
    "gpt2": gpt2,
    "llama": llama,
    "qwen2": qwen,
    "qwen3": partial(qwen, family="Qwen3"),
    "gpt_neox": neox,
    "marian": marian,
    "mbart": mbart,
    "m2m_100": m2m100,
}
"""How to save a checkpoint of each `model_type`."""
