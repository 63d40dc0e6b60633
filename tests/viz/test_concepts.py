from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from regard.explanation import Concepts
from regard.viz.concepts import MOST_LAYERS, MOST_WORDS, draw
from regard.viz.theme import DARK

RANDOM = np.random.default_rng(0)


def example(layers, size, **options):
    names = [f"word{n}" for n in range(size)]
    return Concepts(RANDOM.dirichlet(np.ones(size), (layers, size)), names, title="A text", **options)


def curves_of(ax):
    """The lines of each layer; marks of words are straight, and have two points."""
    collections = [each for each in ax.collections if isinstance(each, LineCollection)]
    return [each for each in collections if each.get_segments() and len(each.get_segments()[0]) > 2]


def test_lines_are_as_thick_as_weights_and_go_from_below_to_above():
    ax = draw(Concepts([[[0.0, 1.0], [0.25, 0.75]]], ["black", "cat"]))
    (lines,) = curves_of(ax)
    widths, segments = lines.get_linewidths(), lines.get_segments()
    assert len(segments) == 3  # a weight of zero has no line
    assert np.allclose(np.asarray(widths), 0.4 + 4.2 * np.array([0.25, 0.75, 1.0]))
    left, right = segments[0][0, 0], segments[1][0, 0]
    assert left < right
    assert segments[2][0, 0] == right  # the thickest one begins at the second word above …
    assert np.isclose(segments[2][-1, 0], left)  # … and ends at the first word below
    assert segments[2][-1, 1] > segments[2][0, 1]  # down the page


def test_bars_are_as_long_as_shares():
    concepts = example(2, 4)
    bars = [patch.get_width() for patch in draw(concepts).patches]
    by_word = np.array(bars).reshape(2, 4, 5)  # four words, and those that are not drawn
    assert np.allclose(by_word.sum(-1), by_word.sum(-1).max())
    expected = -np.sort(-concepts.through_layers(), axis=-1)
    assert np.allclose(by_word[..., :4] / by_word.sum(-1, keepdims=True), expected)
    assert np.allclose(by_word[..., 4], 0)


def test_what_is_left_out_is_said():
    concepts = example(MOST_LAYERS + 1, MOST_WORDS + 3)
    ax = draw(concepts)
    said = " ".join(text.get_text() for text in ax.texts[-4:])
    assert "The first 12 of 15 words are drawn; the others are grey in the bars." in said
    assert "The first 8 of 9 layers are drawn." in said
    names = [text.get_text() for text in ax.texts]
    assert names.count("word11") == MOST_LAYERS + 1
    assert "word12" not in names
    grey = np.array([patch.get_width() for patch in ax.patches]).reshape(MOST_LAYERS, MOST_WORDS, -1)[..., -1]
    assert np.allclose(grey / 1.5, concepts.through_layers()[:MOST_LAYERS, :MOST_WORDS, MOST_WORDS:].sum(-1))


@pytest.mark.parametrize(
    "given",
    [
        example(3, 8, heads="mean of 8 heads"),
        example(1, 1, residual=0.0),
        example(9, 14),
        Concepts(RANDOM.random((2, 3, 3)), ["слово" * 9, "", "."], ["x" * 90, "y"], title="x" * 300),
    ],
)
@pytest.mark.parametrize("dark", [False, True])
def test_words_do_not_overlap_or_leave_the_page(given, dark):
    ax = draw(given, dark=dark)
    figure = ax.figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent(figure.canvas.get_renderer()) for text in [*ax.texts, *figure.texts]]
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= figure.bbox.x1 and b.y1 <= figure.bbox.y1 for b in boxes)
    inner = [box.shrunk(0.9, 0.7) for box in boxes]
    assert not [pair for pair in combinations(inner, 2) if pair[0].overlaps(pair[1])]


def test_dark_and_empty():
    assert to_hex(draw(example(1, 2), dark=True).figure.get_facecolor()) == DARK.ground
    assert draw(Concepts([], [])).texts[0].get_text() == "no words"
    assert draw(Concepts(np.zeros((0, 1, 1)), ["a"])).texts[0].get_text() == "no layers"
