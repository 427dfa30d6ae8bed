"""Greffon: grow a Transformer body on unlabelled text, graft a new head on it for each task.

One function a command, and the nouns they work on. They are imported when first used, so that
`import greffon` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "tokenizer": "tokenizing",
    "pretrain": "pretraining",
    "estimate": "pretraining",
    "resume": "pretraining",
    "finetune": "finetuning",
    "compare": "experiment",
    "demo": "demonstration",
    "demo_translation": "translation_demo",
    "evaluate": "evaluation",
    "classify": "predict",
    "generate": "predict",
    "generate_many": "predict",
    "stream": "predict",
    "fill": "predict",
    "occlude": "occlusion",
    "embed": "embedding",
    "nearest": "embedding",
    "word_vectors": "embedding",
    "translate": "translation",
    "translate_best": "translation",
    "attention": "attending",
    "draw": "pictures",
    "mask_figure": "pictures.masks",
    "positions_figure": "pictures.positions",
    "attention_figure": "pictures.heads",
    "complexity_figure": "pictures.costs",
    "layer_costs": "costs",
    "extrapolation_figure": "pictures.extrapolation",
    "loss_by_position": "by_position",
    "curves_figure": "pictures.curves",
    "embeddings_figure": "pictures.plane",
    "params": "ledger",
    "serve": "web",
    "export": "exporting",
    "show": "summary",
    "import_checkpoint": "huggingface.importing",
    "Run": "run",
    "Recipe": "config",
    "Shape": "config",
    "Training": "config",
    "Decoder": "nn.body",
    "Encoder": "nn.body",
    "EncoderDecoder": "nn.encoder_decoder",
    "VocabularyHead": "nn.heads",
    "Model": "nn.model",
    "Causal": "objectives.causal",
    "Masked": "objectives.masked",
    "Masking": "config",
    "PairHead": "nn.heads",
    "Seq2Seq": "objectives.seq2seq",
    "ClassHead": "nn.heads",
    "Classify": "objectives.classify",
    "Comparison": "experiment",
    "Graft": "config",
    "Tokenizer": "text.tokenizer",
    "UserError": "errors",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from greffon.attending import attention as attention
    from greffon.by_position import loss_by_position as loss_by_position
    from greffon.config import Graft as Graft
    from greffon.config import Masking as Masking
    from greffon.config import Recipe as Recipe
    from greffon.config import Shape as Shape
    from greffon.config import Training as Training
    from greffon.costs import layer_costs as layer_costs
    from greffon.demonstration import demo as demo
    from greffon.embedding import embed as embed
    from greffon.embedding import nearest as nearest
    from greffon.embedding import word_vectors as word_vectors
    from greffon.errors import UserError as UserError
    from greffon.evaluation import evaluate as evaluate
    from greffon.experiment import Comparison as Comparison
    from greffon.experiment import compare as compare
    from greffon.exporting import export as export
    from greffon.finetuning import finetune as finetune
    from greffon.huggingface.importing import import_checkpoint as import_checkpoint
    from greffon.ledger import params as params
    from greffon.nn.body import Decoder as Decoder
    from greffon.nn.body import Encoder as Encoder
    from greffon.nn.encoder_decoder import EncoderDecoder as EncoderDecoder
    from greffon.nn.heads import ClassHead as ClassHead
    from greffon.nn.heads import PairHead as PairHead
    from greffon.nn.heads import VocabularyHead as VocabularyHead
    from greffon.nn.model import Model as Model
    from greffon.objectives.causal import Causal as Causal
    from greffon.objectives.classify import Classify as Classify
    from greffon.objectives.masked import Masked as Masked
    from greffon.objectives.seq2seq import Seq2Seq as Seq2Seq
    from greffon.occlusion import occlude as occlude
    from greffon.pictures import draw as draw
    from greffon.pictures.costs import complexity_figure as complexity_figure
    from greffon.pictures.curves import curves_figure as curves_figure
    from greffon.pictures.extrapolation import extrapolation_figure as extrapolation_figure
    from greffon.pictures.heads import attention_figure as attention_figure
    from greffon.pictures.masks import mask_figure as mask_figure
    from greffon.pictures.plane import embeddings_figure as embeddings_figure
    from greffon.pictures.positions import positions_figure as positions_figure
    from greffon.predict import classify as classify
    from greffon.predict import fill as fill
    from greffon.predict import generate as generate
    from greffon.predict import generate_many as generate_many
    from greffon.predict import stream as stream
    from greffon.pretraining import estimate as estimate
    from greffon.pretraining import pretrain as pretrain
    from greffon.pretraining import resume as resume
    from greffon.run import Run as Run
    from greffon.summary import show as show
    from greffon.text.tokenizer import Tokenizer as Tokenizer
    from greffon.tokenizing import tokenizer as tokenizer
    from greffon.translation import translate as translate
    from greffon.translation import translate_best as translate_best
    from greffon.translation_demo import demo_translation as demo_translation
    from greffon.web import serve as serve


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'greffon' has no attribute {name!r}")
    return getattr(importlib.import_module(f"greffon.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
