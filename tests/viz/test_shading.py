from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb

from regard.explanation import Shading
from regard.viz.shading import MOST_LINES, draw
from regard.viz.theme import DARK, LIGHT

RANDOM = np.random.default_rng(0)
SHORT = Shading([[0.1, 0.7, 0.2], [0.6, 0.4, 0.0]], ["not", "so", "good"], answer="negative", title="A review")
LONG = Shading(RANDOM.dirichlet(np.ones(60), 3), [f"word{n}" for n in range(59)] + ["слово" * 30], title="x" * 300)


def test_the_ground_is_as_dark_as_the_weight():
    alphas = np.array([patch.get_alpha() for patch in draw(SHORT).patches])
    together, first, second = [0.35, 0.55, 0.1], [0.1, 0.7, 0.2], [0.6, 0.4]  # a word without weight has no ground
    shares = np.concatenate([np.array(block) / max(block) for block in (together, first, second)])
    assert np.allclose(alphas, 0.45 * shares)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_words_can_be_read_on_every_ground(palette):
    """The contrast of WCAG: 4.5 at least for words of this size."""
    [*patches] = draw(Shading([[1.0]], ["word"]), dark=palette is DARK).patches
    opacity = patches[0].get_alpha()
    ground, ink, heat = (np.array(to_rgb(colour)) for colour in (palette.ground, palette.ink, palette.heat))
    for share in np.linspace(0, 1, 11):
        lights = [
            np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
            for colour in (ink, ground + opacity * share * (heat - ground))
        ]
        assert (max(lights) + 0.05) / (min(lights) + 0.05) >= 4.5


def test_what_does_not_fit_is_left_out_and_the_heading_says_so():
    many = Shading(RANDOM.dirichlet(np.ones(400), 12), ["word"] * 400)
    texts = [text.get_text() for text in draw(many).texts]
    names = [text for text in texts if text.startswith("hop ")]
    assert 0 < len(names) < 12
    assert names == [f"hop {hop + 1}" for hop in many.sharpest(len(names))]
    assert texts[0] == f"12 hops together; below, the {len(names)} sharpest of them"
    longest = Shading(np.ones((2, 2600)) / 2600, ["word"] * 2600)  # more lines than MOST_LINES: all hops together only
    assert MOST_LINES < 2600 / 20
    assert [text.get_text() for text in draw(longest).texts if text.get_text().startswith("hop ")] == []


@pytest.mark.parametrize("given", [SHORT, LONG, Shading([[1.0]], ["alone"]), Shading(np.zeros((0, 2)), ["a", "b"])])
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
    assert to_hex(draw(SHORT, dark=True).figure.get_facecolor()) == DARK.ground
    assert draw(Shading([], [])).texts[0].get_text() == "no words"
