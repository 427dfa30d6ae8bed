"""Count parameters: every component of a model with its formula, the numbers in it, and the count.

The formulas depend on the shape alone, not on the code of the model; tests compare them with the tensors of
real models. The number of heads appears in none of them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from greffon.core.choices import PretrainingObjective
from greffon.core.config import override
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.graft import Graft
from greffon.core.json_results import JsonResult
from greffon.core.presets import DEFAULTS, PRESETS
from greffon.core.presets import preset as look_up
from greffon.core.recipe import Recipe
from greffon.core.settings import takes
from greffon.core.shape import GATED, Shape
from greffon.nn.task_heads import head_of
from greffon.runs.run import Run


@dataclass(frozen=True)
class Component(JsonResult):
    """One component of a model, the formula of its parameters, and their number."""

    name: str
    """What the component is."""
    formula: str
    """Formula of its parameters, in symbols and in numbers."""
    count: int
    """Number of its parameters."""


@dataclass(frozen=True)
class Ledger(JsonResult):
    """Parameters of one model, component by component."""

    components: tuple[Component, ...]

    @property
    def total(self) -> int:
        """The number of parameters; tied weights count once."""
        return sum(component.count for component in self.components)

    def to_json(self) -> dict[str, Any]:
        """Return the total and the components."""
        return {"total": self.total, **super().to_json()}


Product = tuple[str | int, ...]


def _component(name: str, times: int, products: list[Product], values: dict[str, int]) -> Component:
    """Write `times × (product + product …)` in symbols and in numbers, and compute it."""
    symbols = " + ".join(" × ".join(map(str, product)) for product in products)
    filled = [[values[part] if isinstance(part, str) else part for part in product] for product in products]
    numbers = " + ".join(" × ".join(map(str, product)) for product in filled)
    if times > 1:
        bare = len(products) == 1
        symbols, numbers = (f"{times} × {x}" if bare else f"{times} × ({x})" for x in (symbols, numbers))
    return Component(name, f"{symbols} = {numbers}", times * sum(math.prod(product) for product in filled))


def _linear(inputs: str, outputs: str, shape: Shape) -> list[Product]:
    return [(inputs, outputs), (outputs,)] if shape.bias else [(inputs, outputs)]


def _norm(shape: Shape) -> Product:
    return (2, "hidden_size") if shape.norm == "layer" and shape.bias else ("hidden_size",)


def body_components(shape: Shape, vocab_size: int) -> list[Component]:
    """List the components of a body."""
    values = _values(shape, vocab_size)
    lines = [_component("embedding", 1, [("vocab_size", "hidden_size")], values)]
    return lines + _stack_components(shape, values)


def pair_body_components(shape: Shape, vocab_size: int) -> list[Component]:
    """List the components of an encoder-decoder: one embedding, two stacks."""
    values = _values(shape, vocab_size)
    return [
        _component("embedding (source and target)", 1, [("vocab_size", "hidden_size")], values),
        *_stack_components(shape, values, "encoder "),
        *_stack_components(shape, values, "decoder ", cross=True),
    ]


def _values(shape: Shape, vocab_size: int) -> dict[str, int]:
    return {
        "vocab_size": vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "context": shape.context,
        "heads": shape.heads,
        "key_value_heads": shape.groups,
        "head_dim": shape.head_width,
    }


def _stack_components(shape: Shape, values: dict[str, int], side: str = "", cross: bool = False) -> list[Component]:
    """List the components above an embedding; with `cross`, blocks have cross-attention."""
    lines = []
    if shape.positions == "learned":
        places: list[Product] = [("context", "hidden_size")]
        if shape.position_offset:
            places.append((shape.position_offset, "hidden_size"))
        lines.append(_component(f"{side}positions (learned)", 1, places, values))
    else:
        lines.append(Component(f"{side}positions ({shape.positions})", "nothing to learn", 0))
    if shape.segments and not cross:
        lines.append(_component(f"{side}segments", 1, [(shape.segments, "hidden_size")], values))
    if shape.embedding_norm:
        lines.append(_component(f"{side}embedding norm", 1, [_norm(shape)], values))
    up, down = _linear("hidden_size", "intermediate_size", shape), _linear("intermediate_size", "hidden_size", shape)
    gated = shape.activation in GATED
    linears = "up, gate, down" if gated else "up, down"
    for layer in range(1, shape.layers + 1):
        for kind in ("attention", "cross-attention") if cross else ("attention",):
            lines.append(_attention(f"{side}layer {layer}: {kind} (query, key, value, out)", shape, values))
        norms = 2 + cross - (layer == 1 and not shape.first_norm)
        lines += [
            _component(f"{side}layer {layer}: feed-forward ({linears})", 1, up * (1 + gated) + down, values),
            _component(f"{side}layer {layer}: norms", norms, [_norm(shape)], values),
        ]
    if shape.norm_place == "pre":
        lines.append(_component(f"{side}final norm", 1, [_norm(shape)], values))
    return lines


def _attention(name: str, shape: Shape, values: dict[str, int]) -> Component:
    """Count the linear layers of attention: four squares, unless heads are shared or of a width of their own."""
    biased = shape.bias or shape.qkv_bias
    square = shape.groups == shape.heads and shape.head_width * shape.heads == shape.hidden_size
    if square and biased == shape.bias and not shape.qk_norm:
        return _component(name, 4, _linear("hidden_size", "hidden_size", shape), values)
    wide: Product = ("heads", "head_dim")
    narrow: Product = ("key_value_heads", "head_dim")
    products: list[Product] = [("hidden_size", *wide), (2, "hidden_size", *narrow), (*wide, "hidden_size")]
    if biased:
        products += [wide, (2, *narrow)]
    if shape.bias:
        products.append(("hidden_size",))
    if shape.qk_norm:
        products.append((2, "head_dim"))
    return _component(name, 1, products, values)


def vocabulary_head_component(shape: Shape, vocab_size: int) -> Component:
    """Count the head of a language model."""
    values = {"vocab_size": vocab_size, "hidden_size": shape.hidden_size}
    transform: list[Product] = []
    if shape.head_transform:
        transform = [*_linear("hidden_size", "hidden_size", shape), _norm(shape)]
    if not shape.tie_embeddings:
        matrix = _linear("hidden_size", "vocab_size", replace(shape, bias=shape.bias and shape.untied_head_bias))
        return _component("vocabulary head", 1, transform + matrix, values)
    own = transform + ([("vocab_size",)] if shape.head_bias else [])
    if not own:
        return Component("vocabulary head", "tied to the embedding", 0)
    return _component("vocabulary head (tied to the embedding)", 1, own, values)


def pair_head_component(shape: Shape) -> Component:
    """Count the head of next-sentence prediction."""
    products: list[Product] = [("hidden_size", "hidden_size"), ("hidden_size",), ("hidden_size", 2), (2,)]
    return _component("pair head (hidden, out)", 1, products, {"hidden_size": shape.hidden_size})


def contrast_head_component(shape: Shape, vocab_size: int) -> Component:
    """Count the projection and the word predictor of a contrastive body."""
    products: list[Product] = [("hidden_size", "hidden_size"), ("hidden_size", "vocab_size"), ("vocab_size",)]
    return _component(
        "contrast head (projection, words)", 1, products, {"hidden_size": shape.hidden_size, "vocab_size": vocab_size}
    )


def class_head_component(shape: Shape, classes: int, graft: Graft) -> Component:
    """Count the head of a classifier; concatenated inputs (mean-max pooling, embeddings) double its width."""
    times = (1 + graft.concat_embeddings) * (2 if graft.pooling == "mean-max" else 1)
    wide: Product = (times, "hidden_size") if times > 1 else ("hidden_size",)
    inner: list[Product] = []
    if graft.pooler_activation != "none":
        inner = [(*wide, *wide), *[wide] * (graft.pooler_bias + graft.pooler_norm)]
    bias: list[Product] = [("classes",)] if graft.class_bias else []
    products = [*inner, (*wide, "classes"), *bias]
    return _component("class head", 1, products, {"hidden_size": shape.hidden_size, "classes": classes})


def grafted_head_component(recipe: Recipe, graft: Graft) -> Component:
    """Count the head of a fine-tuned run."""
    hidden_size, graft = head_of(recipe).form(recipe.shape.hidden_size, graft)
    return class_head_component(replace(recipe.shape, hidden_size=hidden_size, heads=1), recipe.outputs, graft)


@takes(Shape)
def params(
    run: "str | Path | Run | None" = None,
    *,
    preset: str | None = None,
    vocab_size: int | None = None,
    classes: int | None = None,
    objective: PretrainingObjective | None = None,
    **shape: Any,
) -> Ledger:
    """Count the parameters of a run, or of a preset: `params(preset="lab", vocab_size=100).total`.

    The shape, the head and the usual vocabulary are those that `pretrain` gives to the objective (default: the first
    one that the preset serves). Further keywords change fields of the preset's shape: `params(preset="lab", layers=4)`.
    """
    if run is not None:
        given = {"preset": preset, "vocab_size": vocab_size, "classes": classes, "objective": objective, **shape}
        for name, value in given.items():
            if value is not None:
                raise UserError(f"a run has its own {name}; leave out {setting(name)}, or leave out the run")
        return params_of_run(Run.open(run))
    name = preset or DEFAULTS.get(objective or "", "auto")
    wanted = objective or (PRESETS[name]().objectives[0] if name in PRESETS else "causal")
    found = look_up(name, wanted)
    form = override(found.shape_for(wanted), shape)
    vocab_size = found.vocab_size_for(wanted) if vocab_size is None else vocab_size
    if vocab_size < 1:
        raise out_of_range("vocab_size", vocab_size, "choose 1 or more")
    if wanted == "seq2seq":
        if classes is not None:
            raise UserError(f"preset {name!r} translates and has no classes; leave out {setting('classes')}")
        return Ledger((*pair_body_components(form, vocab_size), vocabulary_head_component(form, vocab_size)))
    if classes is None:
        head = (contrast_head_component if wanted == "contrastive" else vocabulary_head_component)(form, vocab_size)
    elif classes < 2:
        raise out_of_range("classes", classes, "choose 2 or more")
    else:
        head = class_head_component(form, classes, found.graft)
    return Ledger((*body_components(form, vocab_size), head))


def of_recipe(recipe: Recipe) -> Ledger:
    """Count the parameters of the model that a recipe describes, without building it."""
    if recipe.objective == "seq2seq":
        parts = pair_body_components(recipe.shape, recipe.vocab_size)
        return Ledger((*parts, vocabulary_head_component(recipe.shape, recipe.vocab_size)))
    body = body_components(recipe.shape, recipe.vocab_size)
    if recipe.graft is not None:
        return Ledger((*body, grafted_head_component(recipe, recipe.graft)))
    if recipe.objective == "body":
        return Ledger(tuple(body))
    if recipe.contrast is not None:
        return Ledger((*body, contrast_head_component(recipe.shape, recipe.vocab_size)))
    heads = [vocabulary_head_component(recipe.shape, recipe.vocab_size)]
    if recipe.masking is not None and recipe.masking.next_sentence:
        heads.append(pair_head_component(recipe.shape))
    return Ledger((*body, *heads))


def params_of_run(run: Run) -> Ledger:
    """Count the parameters of a run's model, and check the total against the saved file."""
    ledger = of_recipe(run.recipe)
    saved = run.path / "model.safetensors"
    if saved.is_file() and (counted := count_in_file(saved)) != ledger.total:
        raise UserError(
            f"{saved} holds {counted:,} parameters, its recipe describes {ledger.total:,}; the run is damaged"
        )
    return ledger


def count_in_file(path: Path) -> int:
    """Count the numbers in a safetensors file from its header alone."""
    try:
        with safe_open(path, framework="numpy") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (SafetensorError, OSError) as problem:
        raise UserError(f"cannot read {path}: {problem}; restore it from a copy") from None
