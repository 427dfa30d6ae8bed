"""The words that settings choose from: `--norm rms`, `--objective masked`."""

import types
from collections.abc import Mapping
from typing import Any, Literal

Activation = Literal["relu", "squared-relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu"]
Norm = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor", "rotary", "learned", "none"]
RopeScaling = Literal["none", "linear", "llama3"]
PretrainingObjective = Literal["causal", "masked", "contrastive", "seq2seq"]
Objective = Literal["causal", "masked", "contrastive", "classify", "seq2seq", "body"]
BodyKind = Literal["decoder", "encoder", "encoder-decoder"]
Optimizer = Literal["adamw", "muon"]
LrSchedule = Literal["linear", "cosine", "inverse-sqrt", "constant"]
BestMetric = Literal["loss", "bleu"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16"]
ExecutorName = Literal["local", "dask", "slurm"]
Backend = Literal["torch", "ctranslate2"]
Pooling = Literal["cls", "last", "mean", "mean-max"]
Pool = Literal["cls", "mean", "last"]
"""Poolings that need no trained head."""
PoolerActivation = Literal["none", "tanh", "relu", "gelu", "identity"]
HeadInit = Literal["probe", "random"]
Link = Literal["softmax", "sigmoid"]
"""What makes probabilities of logits."""
Selection = Literal["held-out", "folds"]
Task = Literal["classes", "multilabel", "regression", "pairs", "tokens"]
Answer = Literal["classes", "multilabel", "regression", "tokens"]
"""Kind of what a head says: pairs have classes or scores."""
PairReading = Literal["auto", "towers", "cross"]
ClassWeights = Literal["none", "balanced"]
LongTexts = Literal["windows", "truncate"]

FLAG: Mapping[str, Any] = types.MappingProxyType({"flag": True})
"""Metadata of a yes/no field that the command line offers as a bare flag: `--freeze`, not `--freeze true`."""
