"""Greffon: grow a Transformer body on unlabelled text, graft a new head on it for each task.

One function a command, and the nouns they work on. They are imported when first used, so that
`import greffon` costs nothing. It only prepares OpenMP, which reads its settings when torch is loaded.
"""

import importlib
from typing import TYPE_CHECKING, Any

from greffon.core.machine import prepare_openmp as _prepare_openmp

_prepare_openmp()

__version__ = "0.1.0"

_HOME = {
    "train_tokenizer": "data.train_tokenizer",
    "pretrain": "training.pretrain",
    "estimate": "training.pretrain",
    "resume": "training.pretrain",
    "finetune": "training.finetune",
    "compare": "comparison.compare",
    "compare_task": "comparison.other_tasks",
    "completion": "cli.completion_script",
    "demo": "cli.demos.reviews",
    "demo_data": "cli.demos.reviews",
    "demo_translation": "cli.demos.translation",
    "demo_translation_data": "cli.demos.translation",
    "evaluate": "inference.evaluate",
    "classify": "inference.classify",
    "generate": "inference.generate",
    "generate_many": "inference.generate",
    "stream": "inference.generate",
    "fill": "inference.fill_mask",
    "occlude": "inference.occlusion",
    "embed": "inference.embed",
    "nearest": "inference.nearest",
    "rank": "inference.rank",
    "word_vectors": "inference.embed",
    "translate": "inference.translate",
    "translate_best": "inference.translate",
    "attention": "inference.attention",
    "draw": "plots",
    "accuracy_figure": "comparison.figures",
    "label": "labelling.label",
    "label_study": "labelling.study",
    "Session": "labelling.session",
    "mask_figure": "plots.masks",
    "positions_figure": "plots.positions",
    "attention_figure": "plots.attention",
    "complexity_figure": "plots.complexity",
    "layer_costs": "plots.layer_costs",
    "extrapolation_figure": "plots.extrapolation",
    "loss_by_position": "inference.loss_by_position",
    "curves_figure": "plots.curves",
    "embeddings_figure": "plots.embeddings",
    "params": "runs.params",
    "serve": "web",
    "export": "inference.export",
    "show": "runs.summary",
    "import_checkpoint": "runs.huggingface.import_checkpoint",
    "Run": "runs.run",
    "Recipe": "core.recipe",
    "Shape": "core.shape",
    "Training": "core.training",
    "Decoder": "nn.body",
    "Encoder": "nn.body",
    "EncoderDecoder": "nn.encoder_decoder",
    "VocabularyHead": "nn.heads",
    "Model": "nn.model",
    "Causal": "objectives.causal",
    "Masked": "objectives.masked",
    "Masking": "core.recipe",
    "PairHead": "nn.heads",
    "Seq2Seq": "objectives.seq2seq",
    "ClassHead": "nn.heads",
    "Classify": "objectives.classify",
    "Comparison": "comparison.compare",
    "Graft": "core.graft",
    "Tokenizer": "data.tokenizer",
    "UserError": "core.errors",
    "GreffonClassifier": "estimators.classifier",
    "GreffonEmbedder": "estimators.embedder",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from greffon.cli.completion_script import completion as completion
    from greffon.cli.demos.reviews import demo as demo
    from greffon.cli.demos.reviews import demo_data as demo_data
    from greffon.cli.demos.translation import demo_translation as demo_translation
    from greffon.cli.demos.translation import demo_translation_data as demo_translation_data
    from greffon.comparison.compare import Comparison as Comparison
    from greffon.comparison.compare import compare as compare
    from greffon.comparison.figures import accuracy_figure as accuracy_figure
    from greffon.comparison.other_tasks import compare_task as compare_task
    from greffon.core.errors import UserError as UserError
    from greffon.core.graft import Graft as Graft
    from greffon.core.recipe import Masking as Masking
    from greffon.core.recipe import Recipe as Recipe
    from greffon.core.shape import Shape as Shape
    from greffon.core.training import Training as Training
    from greffon.data.tokenizer import Tokenizer as Tokenizer
    from greffon.data.train_tokenizer import train_tokenizer as train_tokenizer
    from greffon.estimators.classifier import GreffonClassifier as GreffonClassifier
    from greffon.estimators.embedder import GreffonEmbedder as GreffonEmbedder
    from greffon.inference.attention import attention as attention
    from greffon.inference.classify import classify as classify
    from greffon.inference.embed import embed as embed
    from greffon.inference.embed import word_vectors as word_vectors
    from greffon.inference.evaluate import evaluate as evaluate
    from greffon.inference.export import export as export
    from greffon.inference.fill_mask import fill as fill
    from greffon.inference.generate import generate as generate
    from greffon.inference.generate import generate_many as generate_many
    from greffon.inference.generate import stream as stream
    from greffon.inference.loss_by_position import loss_by_position as loss_by_position
    from greffon.inference.nearest import nearest as nearest
    from greffon.inference.occlusion import occlude as occlude
    from greffon.inference.rank import rank as rank
    from greffon.inference.translate import translate as translate
    from greffon.inference.translate import translate_best as translate_best
    from greffon.labelling.label import label as label
    from greffon.labelling.session import Session as Session
    from greffon.labelling.study import label_study as label_study
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
    from greffon.plots import draw as draw
    from greffon.plots.attention import attention_figure as attention_figure
    from greffon.plots.complexity import complexity_figure as complexity_figure
    from greffon.plots.curves import curves_figure as curves_figure
    from greffon.plots.embeddings import embeddings_figure as embeddings_figure
    from greffon.plots.extrapolation import extrapolation_figure as extrapolation_figure
    from greffon.plots.layer_costs import layer_costs as layer_costs
    from greffon.plots.masks import mask_figure as mask_figure
    from greffon.plots.positions import positions_figure as positions_figure
    from greffon.runs.huggingface.import_checkpoint import import_checkpoint as import_checkpoint
    from greffon.runs.params import params as params
    from greffon.runs.run import Run as Run
    from greffon.runs.summary import show as show
    from greffon.training.finetune import finetune as finetune
    from greffon.training.pretrain import estimate as estimate
    from greffon.training.pretrain import pretrain as pretrain
    from greffon.training.pretrain import resume as resume
    from greffon.web import serve as serve


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'greffon' has no attribute {name!r}")
    return getattr(importlib.import_module(f"greffon.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
