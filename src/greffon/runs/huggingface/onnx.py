"""Export a classifier or an encoder as an ONNX graph, with its tokenizer."""

import io
import warnings
from pathlib import Path

import torch

from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.runs.export_dir import open_directory
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.families import fitting_family
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
    model = run.load_model()
    classifies = recipe.objective == "classify"
    # In document_ids 1 is text and 0 is padding, as in their attention mask.
    rows = (torch.full((2, 4), tokenizer.cls), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]))
    free = {0: "texts", 1: "tokens"}
    output = "logits" if classifies else "last_hidden_state"
    graph = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        # The older exporter is the one that follows a batch of any size without more packages.
        warnings.simplefilter("ignore")
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
    write_tokenizer(tokenizer, out, fitting_family(recipe), recipe.shape.context)
    write_atomically(out / "README.md", model_card(run, "ONNX", out.resolve().name, loading=_LOADING).encode())
    write_atomically(out / "model.onnx", graph.getvalue())
    return out


_LOADING = [
    "import onnxruntime",
    "from transformers import AutoTokenizer",
    "",
    'given = AutoTokenizer.from_pretrained("DIR")(["a text"], return_tensors="np", padding=True, truncation=True)',
    'session = onnxruntime.InferenceSession("DIR/model.onnx")',
    f"found = session.run(None, {{name: given[name] for name in {INPUTS}}})[0]",
]
