from itertools import combinations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.base import ConfigError, ShapeError
from regard.explanation import Gates
from regard.viz import save
from regard.viz.gates import draw, gate_histograms, gate_profiles
from regard.viz.theme import DARK

CHANCE = np.random.default_rng(0)
GATES = {"stages.0.0": CHANCE.random((12, 16)), "stages.2.2": CHANCE.random((12, 64))}
LABELS = np.arange(12) % 3
CLASSES = ["cat", "dog", "_$horse$"]


def areas(figure):
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    pen = figure.canvas.get_renderer()
    words = [text for legend in figure.legends for text in legend.get_texts()] + figure.texts
    for ax in (ax for ax in figure.axes if ax.get_visible()):
        ticks = [tick.label1 for axis in (ax.xaxis, ax.yaxis) for tick in axis._update_ticks()]  # those in view
        words += [ax._left_title, *ax.texts, *ticks]
    return [word.get_window_extent(pen) for word in words if word.get_text()]


def test_profiles_are_means_by_class():
    axes = gate_profiles(GATES, LABELS, classes=CLASSES)
    assert axes.shape == (1, 2)
    for ax, (name, values) in zip(axes.flat, GATES.items(), strict=True):
        *kinds, everything = ax.lines
        assert ax.get_title(loc="left") == name
        for kind, line in enumerate(kinds):
            assert np.allclose(line.get_ydata(), values[kind == LABELS].mean(0))
        assert np.allclose(everything.get_ydata(), values.mean(0))
        assert everything.get_linewidth() > kinds[0].get_linewidth()
        assert ax.get_ylim() == (0, 1)
        assert ax.get_xlim() == (-0.5, values.shape[1] - 0.5)
        assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 4
    (legend,) = axes[0, 0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cat", "dog", "_$horse$", "all"]


def test_some_classes_and_tensors():
    gates = {name: torch.from_numpy(values) for name, values in GATES.items()}
    axes = gate_profiles(gates, torch.from_numpy(LABELS), show=[2])
    assert [line.get_label() for line in axes[0, 0].lines] == ["2", "all"]
    assert np.allclose(axes[0, 1].lines[0].get_ydata(), GATES["stages.2.2"][LABELS == 2].mean(0), atol=1e-6)
    ten = {"a": CHANCE.random((10, 4))}
    assert len(gate_profiles(ten, np.arange(10))[0, 0].lines) == 5, "four unless told, and all"
    lines = gate_profiles(ten, np.arange(10), show=range(8), dark=True)[0, 0].lines
    assert len({line.get_color() for line in lines}) == 9


def test_histograms_are_shares():
    fixed = {"fixed": np.tile([0.5, 0.9], (12, 1)), **GATES}
    axes = gate_histograms(fixed, bins=10, columns=2)
    assert axes.shape == (2, 2)
    assert [ax.get_visible() for ax in axes.flat] == [True, True, True, False]
    heights = [bar.get_height() for bar in axes[0, 0].patches]
    assert np.allclose(heights, [0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0.5])
    assert [bar.get_x() for bar in axes[0, 0].patches][5] == pytest.approx(0.5)
    assert axes[0, 0].texts[0].get_text() == "±0.000 by picture"
    assert axes[0, 1].texts[0].get_text() == f"±{GATES['stages.0.0'].std(0).mean():.3f} by picture"
    assert axes[0, 1].lines[0].get_xdata()[0] == pytest.approx(GATES["stages.0.0"].mean())
    assert sum(bar.get_height() for bar in axes[0, 1].patches) == pytest.approx(1.0)


def test_words_do_not_touch(tmp_path):
    many = {f"stages.0.{n}": CHANCE.random((10, 16)) for n in range(3)}
    names = ["a class with a very long name indeed", *(f"class {n}" for n in range(9))]
    narrow, wide = (
        gate_profiles(many, np.arange(10), classes=names, show=range(8), columns=columns, title="$t$\nu", dark=True)
        for columns in (1, 2)
    )
    for axes in (narrow, wide, gate_histograms(many, columns=2)):
        boxes, page = areas(axes[0, 0].figure), axes[0, 0].figure.bbox
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
        assert min(box.y0 for box in boxes) >= page.y0
        assert max(box.x1 for box in boxes) <= page.x1
    assert matplotlib.colors.to_hex(wide[0, 0].figure.get_facecolor()) == DARK.ground
    assert save(wide, tmp_path / "gates.svg").stat().st_size > 5000


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gate_profiles({}, []), ShapeError, "nothing to draw: got no layers"),
        (lambda: gate_histograms({"a": np.ones(3)}), ShapeError, r"gates of 'a': got shape \[3\]; expected \[pictures"),
        (lambda: gate_histograms({"a": np.full((2, 2), 1.5)}), ConfigError, "gates of 'a': got numbers beyond 0 and 1"),
        (lambda: gate_histograms({"a": np.full((2, 2), np.nan)}), ConfigError, "gates of 'a'"),
        (lambda: gate_histograms({"a": np.ones((2, 2)), "b": np.ones((3, 2))}), ShapeError, "pictures: got 2, 3"),
        (lambda: gate_histograms(GATES, bins=0), ConfigError, "bins: got 0"),
        (lambda: gate_histograms(GATES, columns=0), ConfigError, "columns: got 0"),
        (
            lambda: gate_profiles(GATES, [0, 1]),
            ShapeError,
            r"number of its class: got int64 of shape \[2\]; expected \[12\]",
        ),
        (lambda: gate_profiles(GATES, LABELS / 2), ShapeError, "got float64"),
        (
            lambda: gate_profiles(GATES, LABELS, show=[5]),
            ConfigError,
            r"of this class: got 5; expected some of \[0, 1, 2\]",
        ),
        (lambda: gate_profiles(GATES, LABELS, show=[]), ConfigError, "classes to show: got 0; expected 1 to 8"),
        (
            lambda: gate_profiles(GATES, LABELS, classes=["a"]),
            ConfigError,
            "a class has no name: got 1; expected 0 to 0",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ── the drawing of Gates ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dark", [False, True])
def test_profiles_have_their_histogram_beside_them(dark):
    values = {name: np.random.default_rng(0).random((12, 8)) for name in ("a", "b", "c", "d")}
    axes = draw(Gates(values, np.arange(12) % 3, ["cat", "dog", "eel"], title="t"), dark=dark)
    assert axes.shape == (4, 2)
    for (profile, histogram), gates in zip(axes, values.values(), strict=True):
        assert [line.get_label() for line in profile.lines] == ["cat", "dog", "eel", "all"]
        counts = np.array([bar.get_width() for bar in histogram.patches])
        assert np.allclose(counts, np.histogram(gates, 25, (0, 1))[0] / np.histogram(gates, 25, (0, 1))[0].max())
        left, right = profile.get_position(), histogram.get_position()
        assert left.x1 < right.x0
        assert (left.y0, left.y1) == pytest.approx((right.y0, right.y1))
        assert profile.get_ylim() == histogram.get_ylim() == (0, 1)


def test_gates_without_names_and_without_pictures():
    axes = draw(Gates({"a": np.full((2, 3), 0.5)}, [0, 4]))
    assert [line.get_label() for line in axes[0, 0].lines] == ["0", "4", "all"]
    for nothing in (Gates({}, []), Gates({"a": np.zeros((0, 3))}, [])):
        assert draw(nothing)[0, 0].texts[0].get_text() == "no gates"
