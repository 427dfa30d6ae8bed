from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text
from simulated import simulated, with_arm

from greffon.comparison.figures import accuracy_figure, train_sizes_figure

MANY = {
    "a-run-with-a-very-long-name-and-seed-1": 0.86,
    "lab-masked": 0.85,
    "lab-causal": 0.855,
    "base": 0.852,
    "scratch": 0.8,
}


CROWDED = simulated(
    {**MANY, "scratch base": 0.79},
    tfidf=0.853,
    ensembles={"lab-masked": 0.87, "lab-causal": 0.88, "base": 0.875},
    frozen={"lab-masked": 0.7, "lab-causal": 0.71, "base": 0.705},
)
"""Fourteen arms."""


def visible_texts(figure):
    figure.canvas.draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("draw", [accuracy_figure, train_sizes_figure])
@pytest.mark.parametrize("width", [8.0, 4.1])
@pytest.mark.parametrize("results", [simulated(), simulated(MANY), CROWDED], ids=["4", "7", "14"])
def test_nothing_is_clipped_and_no_names_touch(draw, width, results):
    figure = draw(results, width=width)
    texts = visible_texts(figure)
    pixels = np.asarray(figure.canvas.buffer_rgba())
    border = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in border), "something reaches the edge of the canvas"
    words = [text for text in texts if text.get_text().endswith(" %") and "  " in text.get_text()]
    boxes = [text.get_window_extent() for text in words]
    assert len(boxes) == len(results.arms)
    assert not any(a.overlaps(b) for index, a in enumerate(boxes) for b in boxes[index + 1 :])


def test_accuracy_figure_says_what_it_shows():
    figure = accuracy_figure(simulated(tfidf=0.755))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "epoch (0: before training)"
    assert axes.get_ylabel() == "accuracy on test (%)"
    words = {text.get_text() for text in visible_texts(figure)}
    assert {"pretrained  90.0 %", "scratch  80.0 %", "TF-IDF  75.5 %", "majority  50.0 %"} <= words
    assert {"mean of 3 seeds", "band: range over seeds", "epoch chosen on validation"} <= words


def test_the_ensemble_is_a_line_in_the_colour_of_its_body():
    figure = accuracy_figure(simulated(ensembles={"pretrained": 0.93}))
    assert "ensemble  93.0 %" in {text.get_text() for text in visible_texts(figure)}
    (axes,) = figure.axes
    curve, line = (next(line for line in axes.lines if max(line.get_ydata()) == height) for height in (90, 93))
    assert line.get_color() == curve.get_color()


def test_curves_start_at_epoch_0_and_chosen_epochs_are_ringed():
    results = with_arm(simulated(), "pretrained", chosen_epoch=(2, 5, 5))
    (axes,) = accuracy_figure(results).axes
    line, ring = axes.lines[0], axes.lines[1]
    assert list(line.get_xdata()) == list(range(7))
    assert line.get_ydata()[0] == pytest.approx(50.0)
    assert line.get_ydata()[-1] == pytest.approx(90.0)
    assert list(ring.get_xdata()) == [2, 5]


def test_lines_differ_without_colour():
    (axes,) = accuracy_figure(simulated(MANY)).axes
    curves = [line for line in axes.lines if len(line.get_xdata()) == 7]
    assert len({line.get_marker() for line in curves}) == len(curves) == 5
    assert len({str(line._unscaled_dash_pattern) for line in curves}) == 5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("draw", [accuracy_figure, train_sizes_figure])
def test_in_a_crowded_figure_the_less_important_arms_are_thin_and_grey(draw, dark):
    figure = draw(CROWDED, dark=dark)
    texts = {t.get_text().split("  ")[0]: t for t in visible_texts(figure) if t.get_text().endswith(" %")}
    regular = {name for name, text in texts.items() if text.get_fontweight() == "regular"}
    frozen = {f"frozen {name}" for name in ("lab-masked", "lab-causal", "base")}
    assert regular == {*frozen, "ensemble lab-masked", "ensemble base", "majority"}
    assert len({texts[name].get_color() for name in regular}) == 1
    (axes,) = figure.axes
    grey = [line for line in axes.lines if line.get_color() == texts["majority"].get_color()]
    assert max(line.get_linewidth() for line in grey) < min(
        line.get_linewidth() for line in axes.lines if line not in grey and len(line.get_xdata()) > 2
    )
    # The best ensemble on validation keeps the colour of its body.
    assert texts["ensemble lab-causal"].get_color() == texts["lab-causal"].get_color()


def test_a_legend_has_the_order_of_the_lines():
    figure = accuracy_figure(CROWDED, width=4.1)
    (legend,) = figure.legends
    values = [float(t.get_text().split("  ")[1][:-2]) for t in legend.get_texts() if t.get_text().endswith(" %")]
    assert len(values) == len(CROWDED.arms)
    assert values == sorted(values, reverse=True)


def test_one_seed_promises_no_band():
    words = {text.get_text() for text in visible_texts(accuracy_figure(simulated(seeds=1)))}
    assert not any("range" in word or "mean" in word for word in words)


@pytest.mark.parametrize("width", [8.0, 4.1])
def test_a_training_that_ended_early_is_told_of(width):
    results = simulated()

    def below(results):
        figure = accuracy_figure(results, width=width)
        figure.canvas.draw()
        label = figure.axes[0].xaxis.label
        box = label.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
        return label.get_text()

    assert below(results) == "epoch (0: before training)"
    *curve, last = results.arms["pretrained"].curve
    stopped = with_arm(results, "pretrained", curve=(*curve, replace(last, seeds=2)))
    assert below(stopped) == "epoch (0: before training; ended early: as it ended)"


def test_train_sizes_figure_has_a_tick_for_each_size():
    figure = train_sizes_figure(simulated())
    (axes,) = figure.axes
    visible_texts(figure)
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "400", "1,600"]
    assert "log scale" in axes.get_xlabel()
    assert axes.get_ylabel() == "accuracy on test (%)"


def test_dark_figures_have_dark_paper():
    assert sum(accuracy_figure(simulated(), dark=True).get_facecolor()[:3]) < 0.5
    assert sum(accuracy_figure(simulated()).get_facecolor()[:3]) > 2.9
