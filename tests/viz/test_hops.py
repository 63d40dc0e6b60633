from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from regard.explanation import Hops
from regard.viz.hops import draw
from regard.viz.theme import DARK

STORY = ["Mary went to the garden.", "John took the milk.", "он ушёл", "word " * 40, ""]
LONG = Hops(
    np.random.default_rng(0).dirichlet(np.ones(50), 3), [f"sentence {n}" for n in range(50)], [3], "Where?", "here"
)
SHORT = Hops([[0.1, 0.7, 0.2, 0.0, 0.0]], STORY, [1, 2], "Where is the milk?", "garden", "One hop")


def test_bars_are_as_long_as_their_weight():
    ax = draw(SHORT)
    widths = np.array([bar.get_width() for bar in ax.containers[0]])
    assert np.allclose(widths / widths.max(), np.array([0.1, 0.7, 0.2, 0, 0]) / 0.7)
    assert len(draw(LONG).containers) == 3


def test_supporting_facts_are_marked():
    ax = draw(SHORT)
    texts = {text.get_text(): text for text in ax.texts}
    legend, *marks = sorted(line.get_ydata()[0] for line in ax.lines)
    assert marks == sorted(texts[name].get_position()[1] for name in ("John took the milk.", "он ушёл"))
    assert legend < 0  # above the story, beside its words
    assert "supporting fact" in texts
    assert "supporting fact" not in {text.get_text() for text in draw(Hops([[1.0]], ["alone"])).texts}


@pytest.mark.parametrize(
    "given", [SHORT, LONG, Hops([[1.0]], ["alone"]), Hops(np.zeros((0, 2)), ["a", "b"], answer="x")]
)
@pytest.mark.parametrize("dark", [False, True])
def test_texts_do_not_overlap_or_leave_the_page(given, dark):
    ax = draw(given, dark=dark)
    figure = ax.figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent(figure.canvas.get_renderer()) for text in [*ax.texts, *figure.texts]]
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= figure.bbox.x1 and b.y1 <= figure.bbox.y1 for b in boxes)
    inner = [box.shrunk(0.9, 0.7) for box in boxes]
    assert not [pair for pair in combinations(inner, 2) if pair[0].overlaps(pair[1])]
    bars = [bar.get_window_extent() for container in ax.containers for bar in container if bar.get_width() > 0.01]
    slots = [text.get_window_extent() for text in ax.texts if text.get_text() in given.slots]
    assert not [1 for bar in bars for slot in slots if bar.overlaps(slot)]


def test_dark_and_empty():
    assert to_hex(draw(SHORT, dark=True).figure.get_facecolor()) == DARK.ground
    assert draw(Hops([], [])).texts[0].get_text() == "an empty memory"


def test_numbers_that_would_read_zero_are_left_out():
    ax = draw(Hops([[0.004, 0.006, 0.99]], ["a", "b", "c"]))
    assert [text.get_text() for text in ax.texts if text.get_text()[0].isdigit()] == ["0.01", "0.99"]
