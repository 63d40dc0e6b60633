"""Errors by glimpse: the numbers that were given, on paper of both kinds, and nothing over anything else."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from regard.base import ConfigError, ShapeError
from regard.viz import Chart, chart_curves, glimpse_errors, save
from regard.viz.curves import colour_of
from regard.viz.theme import DARK

ERRORS = [19.06, 6.44, 3.54, 1.57, 1.06, 0.0]


def test_one_panel_or_two(tmp_path) -> None:
    (alone,) = glimpse_errors(ERRORS)
    assert alone.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert alone.lines[0].get_ydata().tolist() == ERRORS
    shares = np.array([0, 10, 40, 30, 15, 5])
    first, second = glimpse_errors(ERRORS, stopped=shares, title="What glimpses are worth", dark=True)
    assert [bar.get_height() for bar in second.patches] == shares.tolist()
    assert [round(bar.get_x() + bar.get_width() / 2, 6) for bar in second.patches] == [1, 2, 3, 4, 5, 6]
    assert to_hex(first.figure.get_facecolor()) == DARK.ground
    assert [text.get_text() for text in first.texts][:6] == ["19", "6.4", "3.5", "1.57", "1.06", "0"]
    assert save(first, tmp_path / "errors.png").stat().st_size > 5000


@pytest.mark.parametrize("count", [1, 3, 18])
def test_words_do_not_meet(count: int) -> None:
    axes = glimpse_errors(np.linspace(99, 10, count), stopped=np.full(count, 100 / count), title="A title")
    figure = axes[0].figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    pen = figure.canvas.get_renderer()
    words = [*figure.texts]
    for ax in axes:
        words += [ax._left_title, *ax.texts, *(tick.label1 for tick in ax.xaxis._update_ticks())]
    areas = [word.get_window_extent(pen) for word in words if word.get_text()]
    assert all(
        area.x0 >= 0 and area.x1 <= figure.bbox.x1 and area.y0 >= 0 and area.y1 <= figure.bbox.y1 for area in areas
    )
    assert not any(one.overlaps(other) for one, other in combinations(areas, 2))


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (([],), ShapeError, r"errors: got \[0\]; expected a number for each glimpse"),
        (([[1.0]],), ShapeError, r"errors: got \[1, 1\]"),
        (([101.0],), ConfigError, "errors: got 101 to 101; expected per cent, 0 to 100"),
        (([float("nan")],), ConfigError, "errors: got nan"),
        (([1.0, 2.0], [1.0]), ShapeError, r"stopped: got \[1\]; expected a number for each glimpse, 2 of them"),
    ],
)
def test_errors(given, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        glimpse_errors(given[0], stopped=given[1] if len(given) > 1 else None)


# ── charts of several runs ──────────────────────────────────────────────────────────────────────────────────────────


def chart(*values, title="Error", counts=None):
    points = [(str(n), value, counts and counts[n]) for n, value in enumerate(values)]
    return Chart(title, "glimpses", "error, %", points)


def test_one_curve_for_each_run_in_its_colour():
    ax = chart_curves({"a": None, "b": chart(3.0, 2.0), "c": chart(4.0, None)}, title="t")
    assert [to_hex(line.get_color()) for line in ax.lines] == [colour_of(1), colour_of(2)]
    assert ax.lines[0].get_ydata().tolist() == [3.0, 2.0]
    assert np.isnan(ax.lines[1].get_ydata()[1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("glimpses", "error, %")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1"]
    assert [text.get_text() for text in chart_curves({"a": chart(1.0, 2.0, counts=[7, 1200])}).texts] == ["7", "1,200"]


def test_a_chart_is_checked():
    assert chart(1.0, float("nan")).points == (("0", 1.0, None), ("1", None, None))
    assert chart(None).empty
    assert chart(1.0) == chart(1.0)
    with pytest.raises(ConfigError, match=r"a point of the chart 'x' is not a triple: got \('1', 2.0\)"):
        Chart("x", "", "", [("1", 2.0)])
    with pytest.raises(ConfigError, match="there is nothing to draw: got no chart with a value"):
        chart_curves({"a": None, "b": chart(None)})
    for other in (chart(1.0, 2.0), chart(1.0, title="other"), chart(1.0, counts=[5])):
        with pytest.raises(ConfigError, match="these charts do not share their axes: got "):
            chart_curves({"a": chart(1.0), "b": other})
