"""Export a classifier or an encoder as an ONNX graph, with its tokenizer."""

import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from greffon.core.errors import UserError
from greffon.core.files import write_atomically, write_json
from greffon.core.recipe import Recipe
from greffon.nn.model import Model
from greffon.runs.export_dir import open_directory
from greffon.runs.folding import fold_scale, fold_temperature
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.companions import give_licence
from greffon.runs.huggingface.configs import config_of, head_settings
from greffon.runs.huggingface.fit import fitting_family, misfits, refuse_apart, use_for
from greffon.runs.huggingface.tokenizer_files import check_tokenizer, write_tokenizer
from greffon.runs.run import Run

OPSET = 18


class Graph(nn.Module):
    """What becomes the graph: a classifier, or the body of an encoder."""

    def __init__(self, model: Model, recipe: Recipe) -> None:
        super().__init__()
        self.part = model if recipe.objective == "classify" else model.body

    def forward(self, tokens: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
        """Return logits or hidden states. In document_ids 1 is text and 0 is padding, as in their attention mask."""
        out: Tensor = self.part(tokens, mask, segments=segments)
        return out


def inputs_of(recipe: Recipe) -> tuple[str, ...]:
    """Return the inputs of a graph."""
    names = ["input_ids"]
    if recipe.body == "encoder" or recipe.task != "tokens":  # a causal body reads nothing behind a token
        names.append("attention_mask")
    if recipe.task == "pairs" and recipe.shape.numbers_texts:
        names.append("token_type_ids")
    return tuple(names)


def to_onnx(run: Run, out: Path) -> Path:
    """Write model.onnx: from token ids and an attention mask to logits or hidden states."""
    recipe, tokenizer = run.recipe, run.tokenizer
    if recipe.objective != "classify" and recipe.body != "encoder":
        raise UserError(f"{run.path} is a {recipe.objective} run; only classifiers and encoders are exported to ONNX")
    refuse_apart(recipe, run.path)
    check_tokenizer(tokenizer)
    model = fold_scale(fold_temperature(run.load_model(), run.scores), recipe)
    classifies = recipe.objective == "classify"
    inputs = inputs_of(recipe)
    tokens = torch.full((2, 4), tokenizer.cls)
    rows = [tokens, torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])]
    if "token_type_ids" in inputs:
        rows.append(torch.zeros_like(tokens))
    free = {0: "texts", 1: "tokens"}
    output = "logits" if classifies else "last_hidden_state"
    of_texts = classifies and recipe.task != "tokens"
    graph = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # The older exporter is the one that follows a batch of any size without more packages.
        warnings.simplefilter("ignore")
        torch.onnx.register_custom_op_symbolic("aten::rms_norm", _rms_norm, OPSET)  # type: ignore[attr-defined]
        torch.onnx.export(
            Graph(model, recipe).eval(),
            tuple(rows),
            graph,  # type: ignore[arg-type]  # the older exporter takes a buffer, too
            input_names=["input_ids", "attention_mask", "token_type_ids"][: len(rows)],
            output_names=[output],
            dynamic_axes={**dict.fromkeys(inputs, free), output: {0: "texts"} if of_texts else free},
            opset_version=OPSET,
            dynamo=False,
        )
    open_directory(out, run, "onnx", inputs=inputs, output=output)
    write_tokenizer(tokenizer, out, recipe)
    write_json(out / "config.json", _config(run, classifies))
    give_licence(run, out)
    write_atomically(out / "README.md", model_card(run, "ONNX", out.resolve().name, loading=_loading(recipe)).encode())
    write_atomically(out / "model.onnx", graph.getvalue())
    return out


def _rms_norm(graph: Any, x: Any, shape: Any, weight: Any, epsilon: Any) -> Any:
    """Write an RMS norm over the last dimension in operators of older versions of ONNX, as the exporter does not."""
    last = graph.op("Constant", value_t=torch.tensor([-1]))
    mean = graph.op("ReduceMean", graph.op("Mul", x, x), last, keepdims_i=1)
    root = graph.op("Sqrt", graph.op("Add", mean, graph.op("Cast", epsilon, to_i=1)))
    return graph.op("Mul", graph.op("Div", x, root), weight)


def _config(run: Run, classifies: bool) -> dict[str, Any]:
    """Return the config.json of the family that a model fits; of any other, its sizes and labels."""
    recipe = run.recipe
    family = fitting_family(recipe)
    if not misfits(family, recipe, run.tokenizer):
        return config_of(family, recipe, use_for(recipe) if classifies else "body", run.tokenizer, run.scores)
    shape = recipe.shape
    config: dict[str, Any] = {
        "model_type": "greffon",
        "vocab_size": recipe.vocab_size,
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": shape.context,
        "pad_token_id": run.tokenizer.pad,
    }
    return config | (head_settings(recipe, run.scores) if classifies else {})


def _loading(recipe: Recipe) -> list[str]:
    texts = '["a text"], ["another"]' if recipe.task == "pairs" else '["a text"]'
    return [
        "import onnxruntime",
        "from transformers import AutoTokenizer",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("DIR")',
        f'given = tokenizer({texts}, return_tensors="np", padding=True, truncation=True)',
        'session = onnxruntime.InferenceSession("DIR/model.onnx")',
        f"found = session.run(None, {{name: given[name] for name in {inputs_of(recipe)}}})[0]",
    ]
