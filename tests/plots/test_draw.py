"""Figures of real, small runs: they say what they show, nothing is clipped, bad input is told with the valid range."""

import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.inference.attention import AttentionWeights
from greffon.nn.positions import Rotary, rotary_frequencies, sinusoids
from greffon.plots.attention import weights_figure
from greffon.plots.embeddings import principal
from greffon.plots.layer_costs import QUICK, THEORY, exponents, layer_costs, slope
from greffon.plots.positions import encoding, similarity
from greffon.plots.style import plain

SENTENCE = "le chat mange, le chien dort."


def words_of(figure: Figure) -> list[str]:
    """Draw it, hold that nothing reaches the edge of the paper, and return what it says."""
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())
    edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in edges), "something reaches the edge of the paper"
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def labels_of(figure: Figure) -> list[tuple[str, str]]:
    return [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]


# -- masks ---------------------------------------------------------------------------------------


def shown(figure: Figure, panel: int = 0) -> np.ndarray:
    mesh = figure.axes[panel].collections[0]
    return np.asarray(mesh.get_array()).reshape(mesh._coordinates.shape[0] - 1, -1)


def test_the_mask_of_each_objective() -> None:
    assert (shown(greffon.mask_figure(5)) == np.tril(np.ones((5, 5)))).all()
    assert (shown(greffon.mask_figure(5, "masked")) == 1).all()
    figure = greffon.mask_figure(6, "seq2seq", padding=2)
    source, target, cross = (shown(figure, panel)[:4] for panel in range(3))
    real = np.arange(6) < 4
    assert (source == real).all()
    assert (cross == real).all()
    assert (target == np.tril(np.ones((6, 6)))[:4]).all()
    assert "padding, never read" in words_of(figure)
    assert set(labels_of(figure)) == {("token looked at", "token that looks")}


@pytest.mark.parametrize("length", [2, 64])
@pytest.mark.parametrize("objective", ["causal", "seq2seq"])
def test_masks_of_all_sizes_fit_the_paper(length: int, objective: str) -> None:
    assert "may look" in words_of(greffon.mask_figure(length, objective, padding=1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"length": 65}, "length is 65; choose from 2 to 64"),
        ({"padding": 10}, "padding is 10 of 10 tokens; choose from 0 to 9"),
        ({"objective": "casual"}, "did you mean 'causal'"),
    ],
)
def test_a_mask_that_cannot_be(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        greffon.mask_figure(**given)


# -- positions -----------------------------------------------------------------------------------


def test_similarity_is_the_cosine_of_torchs_and_of_rotated_queries() -> None:
    table = sinusoids(40, 16).numpy()
    distance, mean, low, high = similarity(table)
    waves = 10_000.0 ** (-np.arange(0, 16, 2) / 16)
    np.testing.assert_allclose(mean, np.cos(distance[:, None] * waves).mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(low, high, atol=1e-5)  # it depends on the distance alone
    turned = similarity(encoding(Rotary(rotary_frequencies(16)), 40))[1]
    np.testing.assert_allclose(turned, mean, atol=1e-5)  # the same waves
    assert mean[0] == pytest.approx(1)


@pytest.mark.parametrize("preset", ["lab", "compact", "base"])
def test_positions_of_presets(preset: str) -> None:
    figure = greffon.positions_figure(preset=preset, length=50)
    words = words_of(figure)
    assert any(preset in word for word in words)
    assert labels_of(figure)[:2] == [
        ("feature", "position"),
        ("distance between two positions", "similarity (cosine)"),
    ]


def test_learned_positions_are_those_of_the_run(tiny: TinyRuns) -> None:
    figure = greffon.positions_figure(tiny.learned)
    table = tiny.learned.load_model().body.positions.table.detach().numpy()
    np.testing.assert_allclose(np.asarray(figure.axes[0].images[0].get_array()), table, atol=1e-6)
    with pytest.raises(UserError, match="length is 49; choose from 2 to 48"):
        greffon.positions_figure(tiny.learned, length=49)
    words_of(greffon.positions_figure(tiny.translator))


def test_positions_that_are_not_there(tiny: TinyRuns) -> None:
    with pytest.raises(UserError, match="unknown preset 'labb'; did you mean 'lab'"):
        greffon.positions_figure(preset="labb")
    with pytest.raises(UserError, match="a run or a preset, not both"):
        greffon.positions_figure(tiny.causal, preset="lab")
    with pytest.raises(UserError, match="none has no positions to draw"):
        greffon.positions_figure(tiny.none)


# -- attention -----------------------------------------------------------------------------------


def test_heads_are_small_multiples_of_the_real_weights(tiny: TinyRuns) -> None:
    figure = greffon.attention_figure(tiny.causal, SENTENCE)
    found = greffon.attention(tiny.causal, SENTENCE)
    assert len(figure.axes) == 2 * 2 + 1
    np.testing.assert_allclose(np.asarray(figure.axes[3].images[0].get_array()), found.of(2, 2), atol=1e-6)
    words = words_of(figure)
    assert words.count("token that looks") == words.count("token looked at") == 2
    assert [word for word in words if word.startswith("layer 2 · head 1")]
    assert "<s>" in words
    assert len(greffon.attention_figure(tiny.causal, SENTENCE, layer=2, head=1).axes) == 1 + 1
    assert len(greffon.attention_figure(tiny.masked, SENTENCE, head=1).axes) == 2 + 1


def test_a_translators_figure_has_both_texts(tiny: TinyRuns) -> None:
    words = words_of(greffon.attention_figure(tiny.translator, "two red dog", "deux rouge", layer=1, head=1))
    assert words.count("</s>") == 2
    assert any("target to source" in word for word in words)


@pytest.mark.parametrize(("queries", "keys", "layers", "heads"), [(2, 2, 1, 1), (3, 60, 2, 4), (90, 90, 1, 2)])
def test_names_never_touch_and_nothing_is_clipped(queries: int, keys: int, layers: int, heads: int) -> None:
    names = ["antidisestablishmentarianism", "$x^2$", " 語", "\n", "a"]
    weights = np.random.default_rng(0).dirichlet(np.ones(keys), size=(layers, heads, queries))
    found = AttentionWeights(
        "cross", [names[i % 5] for i in range(queries)], [names[i % 5] for i in range(keys)], weights
    )
    figure = weights_figure(found, name="run")
    words_of(figure)
    for axes in figure.axes[:-1]:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes))
        captions = [axes.title.get_window_extent() for axes in figure.axes[:-1]]
        assert not any(a.overlaps(b) for i, a in enumerate(captions) for b in captions[i + 1 :])


def test_tokens_are_plain() -> None:
    assert plain(" chat") == "␣chat"
    assert plain("a\n") == "a↵"
    assert plain("語") == "□"
    assert plain("x" * 40) == "x" * 17 + "…"


# -- complexity ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def costs() -> list:
    return layer_costs(QUICK)


def test_memory_follows_the_theory_exactly(costs: list) -> None:
    for one in exponents(costs):
        if one.what == "memory":
            assert one.measured == pytest.approx(one.theory, abs=0.15), one
    point = next(cost for cost in costs if cost.layer == "self-attention" and cost.length == 512)
    assert point.bytes == 4 * (512 * 512 + 512 * 16)  # the weights and what comes out


def test_time_is_measured_at_every_size(costs: list) -> None:
    assert all(0 < cost.seconds < 10 for cost in costs)
    assert len(costs) == 3 * (4 + 4 + 1)
    grown = {cost.length: cost.seconds for cost in costs if cost.layer == "recurrence" and cost.against == "length"}
    assert grown[512] > grown[128]


@given(st.floats(-2, 3), st.floats(0.1, 9))
def test_slope_finds_the_exponent(exponent: float, factor: float) -> None:
    sizes = [2, 8, 32]
    assert slope(sizes, [factor * size**exponent for size in sizes]) == pytest.approx(exponent, abs=1e-6)


def test_the_figure_says_measured_and_theory(costs: list) -> None:
    figure = greffon.complexity_figure(costs)
    words = words_of(figure)
    assert len([word for word in words if re.fullmatch(r"[●▲■◆] -?\d\.\d \(\d\.\d\)", word)]) == 2 * (4 + 4 + 1)
    assert all(
        any(word.startswith(f"{layer}: time {theory.said['time']}") for word in words)
        for layer, theory in THEORY.items()
    )
    assert "length n (log scale)" in words
    assert "memory kept (MB), log scale" in words


# -- extrapolation -------------------------------------------------------------------------------


def test_within_the_trained_length_it_is_the_held_out_loss(tiny: TinyRuns) -> None:
    """One stretch over one trained length must be the loss that `evaluate` reports of the same tokens."""
    run, length = tiny.causal, tiny.causal.recipe.shape.context
    text = tiny.text.read_text(encoding="utf-8").splitlines()
    long = [line for line in text if len(run.tokenizer.encode(line)) >= length][:5]
    ids = [[run.tokenizer.start, *run.tokenizer.encode(line)][: length + 1] for line in long]
    file = tiny.folder / "within.txt"
    file.write_text("\n".join(long) + "\n", encoding="utf-8")
    found = greffon.loss_by_position(run, file, times=1, stretches=1)
    model = run.load_model()
    import torch

    rows = torch.tensor(ids)
    with torch.no_grad():
        logits = model(rows[:, :-1])
    nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum").item()
    expected = nats / math.log(2) / run.tokenizer.byte_lengths[rows[:, 1:].numpy()].sum()
    assert found.bits_per_byte.tolist() == [pytest.approx(expected, rel=1e-4)]
    assert found.texts == 5


def test_learned_positions_stop_and_the_figure_says_so(tiny: TinyRuns) -> None:
    far = greffon.loss_by_position(tiny.causal, tiny.long, times=4)
    assert far.edges.tolist() == list(range(0, 4 * 48 + 1, 6))
    assert np.isfinite(far.bits_per_byte).all()
    stopped = greffon.loss_by_position(tiny.learned, tiny.long, times=4)
    assert stopped.stopped
    assert stopped.edges[-1] == 48
    assert stopped.texts == far.texts
    figure = greffon.extrapolation_figure([tiny.causal, tiny.learned, tiny.masked], tiny.long)
    words = words_of(figure)
    assert {"learned positions end here", "trained length 48", "learned: learned positions, which end at 48"} <= set(
        words
    )
    assert labels_of(figure) == [("position in the text (tokens)", "loss (bits per byte)")]
    ends = [line.get_xdata()[-1] for line in figure.axes[0].lines[:2]]
    assert ends[0] > 4 * 48 - 6 > 48 > ends[1]


def test_what_cannot_be_extrapolated(tiny: TinyRuns) -> None:
    with pytest.raises(UserError, match="is a seq2seq run; give a language model, causal or masked"):
        greffon.loss_by_position(tiny.translator)
    with pytest.raises(UserError, match=r"no document of 193 tokens or more \(the longest has \d+\)"):
        greffon.loss_by_position(tiny.causal, tiny.text)
    with pytest.raises(UserError, match="times is 0; choose from 1 to 64"):
        greffon.loss_by_position(tiny.causal, times=0)
    with pytest.raises(UserError, match="0 runs to draw; give from 1 to 6"):
        greffon.extrapolation_figure([])


# -- curves --------------------------------------------------------------------------------------


def test_curves_are_the_logged_ones(tiny: TinyRuns) -> None:
    figure = greffon.curves_figure([tiny.causal, tiny.classifier])
    held = [entry["valid"]["loss"] for entry in tiny.causal.metrics() if "valid" in entry]
    assert figure.axes[0].lines[1].get_ydata().tolist() == held
    assert labels_of(figure) == [("step", "loss (nats)"), ("step", "held-out accuracy (%)")]
    assert {"causal", "classifier"} <= set(words_of(figure))
    assert labels_of(greffon.curves_figure(tiny.causal, by="minutes"))[1] == (
        "minutes of training",
        "held-out bits per byte",
    )


@pytest.mark.parametrize(
    ("columns", "loss", "score"),
    [
        ("text,score", "squared error (standardised scores)", "held-out mean absolute error"),
        ("text,labels", "loss (nats)", "held-out micro F1"),
    ],
)
def test_curves_of_other_tasks_name_their_score(
    columns: str, loss: str, score: str, tiny: TinyRuns, tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    table.write_text(columns + "\n" + "".join(f"le chat {i},{i % 2}\n" for i in range(12)), encoding="utf-8")
    run = greffon.finetune(tiny.causal, train=table, valid=table, out=tmp_path / "run", epochs=1, quiet=True)
    assert labels_of(greffon.curves_figure(run)) == [("step", loss), ("step", score)]
    both = labels_of(greffon.curves_figure([run, tiny.classifier]))
    assert both[0][1] == ("loss" if columns == "text,score" else "loss (nats)")


def test_curves_need_metrics(tiny: TinyRuns, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_bytes((tiny.causal.path / "recipe.json").read_bytes())
    with pytest.raises(UserError, match="has no metrics yet"):
        greffon.curves_figure(tmp_path / "run")
    with pytest.raises(UserError, match="unknown axis 'hours'"):
        greffon.curves_figure(tiny.causal, by="hours")


# -- embeddings ----------------------------------------------------------------------------------


@given(st.integers(3, 20), st.integers(2, 6), st.integers(0, 9))
def test_principal_agrees_with_scikit_learn(n: int, width: int, seed: int) -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(seed).normal(size=(n, width)) * np.arange(1, width + 1)
    places, shares = principal(vectors)
    theirs = PCA(2).fit(vectors)
    np.testing.assert_allclose(np.abs(places), np.abs(theirs.transform(vectors)), atol=1e-8)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, atol=1e-8)


def test_texts_on_a_plane(tiny: TinyRuns, tmp_path: Path) -> None:
    figure = greffon.embeddings_figure(tiny.causal, tiny.table)
    words = words_of(figure)
    assert {"poil (48)", "autre (48)"} <= set(words)
    assert sum(len(group.get_offsets()) for group in figure.axes[0].collections) == 96
    many = tmp_path / "many.csv"
    many.write_text("text,label\n" + "\n".join(f"le chat,{i}" for i in range(7)), encoding="utf-8")
    with pytest.raises(UserError, match="has 7 labels; a figure can tell 1 to 6 apart"):
        greffon.embeddings_figure(tiny.causal, many)


def test_texts_with_several_labels_scores_or_spans_on_a_plane(tiny: TinyRuns, tmp_path: Path) -> None:
    def signs(name: str, content: str) -> set[str]:
        (tmp_path / name).write_text(content, encoding="utf-8")
        figure = greffon.embeddings_figure(tiny.causal, tmp_path / name)
        words_of(figure)  # which holds that nothing reaches the edge
        (legend,) = figure.legends
        return {text.get_text() for text in legend.get_texts()}

    rows = ["a|b", "a", "b", "c|a", "d", "e|f", "f", "", "b", "c", "d", "a"]
    table = "text,labels\n" + "".join(f"le chat {i},{labels}\n" for i, labels in enumerate(rows))
    expected = {"a (4)", "b (2)", "c (1)", "d (2)", "(another label) (2)", "(no label) (1)"}
    assert signs("several.csv", table) == expected
    scores = "text,score\n" + "".join(f"le chat {i},{i}\n" for i in range(9))
    assert signs("scores.csv", scores) == {
        "1st third: up to 2 (3)",
        "2nd third: up to 5 (3)",
        "3rd third: above 5 (3)",
    }
    spans = "le O\nchat B-PET\n\nla O\nvache B-PET\n\nun O\n\nParis B-LOC\n"
    assert signs("spans.conll", spans) == {"LOC (1)", "PET (2)", "(no label) (1)"}
    pairs = "text_a,text_b,label\nle chat,un chat,x\n"
    (tmp_path / "pairs.csv").write_text(pairs, encoding="utf-8")
    with pytest.raises(UserError, match="holds pairs, and the figure shows single texts"):
        greffon.embeddings_figure(tiny.causal, tmp_path / "pairs.csv")


def test_draw_finds_a_figure_by_its_name() -> None:
    assert words_of(greffon.draw("mask", length=4)) == words_of(greffon.mask_figure(4))
    with pytest.raises(UserError, match="unknown figure 'masks'; did you mean 'mask'"):
        greffon.draw("masks")


# -- the command line ----------------------------------------------------------------------------


def test_every_figure_from_the_command_line(
    tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    causal, translator = str(tiny.causal.path), str(tiny.translator.path)
    for words in (
        ["mask", "--length", "6", "--objective", "seq2seq", "--padding", "2"],
        ["positions", "--preset", "lab"],
        ["attention", causal, SENTENCE],
        ["attention", translator, "two red dog", "--to", "deux", "--layer", "1", "--out", "new/cross.svg"],
        ["complexity", "--quick"],
        ["extrapolation", causal, str(tiny.learned.path), "--file", str(tiny.long), "--texts", "4"],
        ["curves", causal],
        ["embeddings", causal, "--file", str(tiny.table)],
    ):
        assert command(["draw", *words]) == 0, capsys.readouterr().err
        out = capsys.readouterr().out
        named = words[words.index("--out") + 1] if "--out" in words else f"{words[0]}.png"
        assert out.startswith(f"figure: {named}\n")
        assert (tmp_path / named).stat().st_size > 1000
        if words[0] == "attention":
            assert "layer  head  distance  entropy  previous  first  itself" in out
        if words[0] == "complexity":
            assert len(out.splitlines()) == 1 + 1 + 2 * (4 + 4 + 1)
    assert "<svg" in (tmp_path / "new" / "cross.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no figure named; choose from mask, positions"),
        (["masks"], "unknown figure 'masks'; did you mean 'mask'?"),
        (["mask", "--lenght", "3"], "did you mean --length?"),
        (["mask", "--out", "a.jpg"], "ends in .png, .svg, .pdf"),
        (["mask", "--out", "/proc/a.png"], "the figure cannot be written"),
        (["attention", "{causal}"], "TEXT is missing"),
        (["attention", "{causal}", "le chat", "--layer", "9"], "no layer 9; choose from 1 to 2"),
        (["attention", "{causal}", "le chat", "--head", "0"], "no head 0; choose from 1 to 2"),
        (["attention", "{causal}", "le chat", "--kind", "cross"], "without cross attention; choose self"),
        (["attention", "{causal}", "le chat " * 40], "reads 1 to 47; shorten it"),
        (["attention", "nowhere", "le chat"], "no run at nowhere"),
        (["positions", "--preset", "nothing"], "unknown preset"),
        (["extrapolation"], "0 runs to draw; give from 1 to 6"),
        (["curves"], "0 runs to draw; give from 1 to 6"),
        (["embeddings", "{causal}"], "name a file of labelled ones with --file"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], said: str, tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert command(["draw", *(word.format(causal=tiny.causal.path) for word in words)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
