"""Export a classifier or an encoder as an ONNX graph, with its tokenizer."""

import io
import warnings
from pathlib import Path
from typing import Any

import torch

from greffon.core.errors import UserError
from greffon.core.files import write_atomically, write_json
from greffon.runs.export_dir import open_directory
from greffon.runs.folding import fold_scale, fold_temperature
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.configs import config_of, labels_table
from greffon.runs.huggingface.fit import fitting_family, misfits
from greffon.runs.huggingface.tokenizer_files import check_tokenizer, write_tokenizer
from greffon.runs.run import Run

INPUTS = ("input_ids", "attention_mask")
OPSET = 18


def to_onnx(run: Run, out: Path) -> Path:
    """Write model.onnx: from token ids and an attention mask to class logits or hidden states."""
    recipe, tokenizer = run.recipe, run.tokenizer
    if recipe.objective != "classify" and recipe.body != "encoder":
        raise UserError(f"{run.path} is a {recipe.objective} run; only classifiers and encoders are exported to ONNX")
    check_tokenizer(tokenizer)
    model = fold_scale(fold_temperature(run.load_model(), run.scores), recipe)
    classifies = recipe.objective == "classify"
    # In document_ids 1 is text and 0 is padding, as in their attention mask.
    rows = (torch.full((2, 4), tokenizer.cls), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    free = {0: "texts", 1: "tokens"}
    output = "logits" if classifies else "last_hidden_state"
    graph = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # The older exporter is the one that follows a batch of any size without more packages.
        warnings.simplefilter("ignore")
        torch.onnx.register_custom_op_symbolic("aten::rms_norm", _rms_norm, OPSET)  # type: ignore[attr-defined]
        torch.onnx.export(
            model if classifies else model.body,
            rows,
            graph,  # type: ignore[arg-type]  # the older exporter takes a buffer, too
            input_names=list(INPUTS),
            output_names=[output],
            dynamic_axes={**dict.fromkeys(INPUTS, free), output: {0: "texts"} if classifies else free},
            opset_version=OPSET,
            dynamo=False,
        )
    open_directory(out, run, "onnx", inputs=INPUTS, output=output)
    write_tokenizer(tokenizer, out, recipe)
    write_json(out / "config.json", _config(run, classifies))
    write_atomically(out / "README.md", model_card(run, "ONNX", out.resolve().name, loading=_LOADING).encode())
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
        return config_of(family, recipe, "classify" if classifies else "body", run.tokenizer)
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
    return config | (labels_table(recipe.labels) if classifies else {})


_LOADING = [
    "import onnxruntime",
    "from transformers import AutoTokenizer",
    "",
    'given = AutoTokenizer.from_pretrained("DIR")(["a text"], return_tensors="np", padding=True, truncation=True)',
    'session = onnxruntime.InferenceSession("DIR/model.onnx")',
    f"found = session.run(None, {{name: given[name] for name in {INPUTS}}})[0]",
]
