import builtins
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.plots.style import canvas, save, spread


@given(st.lists(st.floats(0, 10), max_size=5))
def test_spread_keeps_order_gap_and_bounds(values):
    places = spread(values, 1.0, 0.0, 10.0)
    order = sorted(range(len(values)), key=lambda index: values[index])
    placed = [places[index] for index in order]
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(placed))
    assert all(-1e-9 <= place <= 10 + 1e-9 for place in places)


def test_spread_leaves_distant_values_alone():
    assert spread([1.0, 5.0, 9.0], 2.0, 0.0, 10.0) == [1.0, 5.0, 9.0]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_bytes_and_leaves_no_other_file(tmp_path, suffix):
    figure, axes = canvas(dark=False, width=4)
    axes.plot([1, 2])
    first = save(figure, tmp_path / "new" / f"a.{suffix}").read_bytes()
    assert save(figure, tmp_path / "new" / f"b.{suffix}").read_bytes() == first
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [f"a.{suffix}", f"b.{suffix}"]


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    figure, _ = canvas(dark=False, width=4)
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fail(target, **_):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save(figure, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_format_names_the_choices(tmp_path):
    figure, _ = canvas(dark=False, width=4)
    with pytest.raises(UserError, match=r"ends in \.png, \.svg, \.pdf"):
        save(figure, tmp_path / "a.jpg")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'greffon\[compare\]'"):
        canvas(dark=False, width=4)
