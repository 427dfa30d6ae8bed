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


def visible_texts(figure):
    figure.canvas.draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.parametrize("draw", [accuracy_figure, train_sizes_figure])
@pytest.mark.parametrize("width", [8.0, 4.1])
@pytest.mark.parametrize("arms", [None, MANY])
def test_nothing_is_clipped_and_no_names_touch(draw, width, arms):
    figure = draw(simulated(arms), width=width)
    texts = visible_texts(figure)
    pixels = np.asarray(figure.canvas.buffer_rgba())
    border = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in border), "something reaches the edge of the canvas"
    words = [text for text in texts if text.get_text().endswith(" %") and "  " in text.get_text()]
    boxes = [text.get_window_extent() for text in words]
    assert len(boxes) == (4 if arms is None else 7)
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
