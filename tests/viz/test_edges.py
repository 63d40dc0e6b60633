from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from regard.base import ConfigError
from regard.explanation import EdgeWeights
from regard.viz.edges import draw
from regard.viz.theme import DARK

RNG = np.random.default_rng(0)
STAR = EdgeWeights([0.1, 0.6, 0.3], [0, 1, 2], [0, 0, 0], ["paper", "one neighbour", "another one"], title="A star")


def graph(nodes, edges, heads=(), name="node {}"):
    ends = RNG.integers(0, nodes, (2, edges))
    return EdgeWeights(RNG.random((*heads, edges)), *ends, [name.format(number) for number in range(nodes)], title="t")


def extents(ax):
    figure = ax.figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    return [text.get_window_extent(figure.canvas.get_renderer()) for text in ax.texts]


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def test_lines_are_as_strong_as_their_weight():
    ax = draw(EdgeWeights([0.1, 0.2, 0.4], [0, 1, 2], [1, 2, 0], ["a", "b", "c"]))
    widths, alphas = ([getattr(arrow, f"get_{name}")() for arrow in arrows(ax)] for name in ("linewidth", "alpha"))
    assert widths == sorted(widths)
    assert alphas == sorted(alphas)
    assert alphas[-1] == 1.0
    assert [text.get_text() for text in ax.texts] == ["a", "b", "c"]


def test_an_edge_to_itself_is_a_ring_or_a_frame():
    rings = [
        patch
        for patch in draw(EdgeWeights([0.5, 0.5, 0.1], [0, 1, 0], [0, 2, 1], list("abc"))).patches
        if isinstance(patch, Circle)
    ]
    assert len(rings) == 1
    star = draw(STAR)
    assert len(arrows(star)) == 2
    assert not [patch for patch in star.patches if isinstance(patch, Circle)]
    assert star.texts[0].get_bbox_patch().get_linewidth() == pytest.approx(0.5 + 2.7 / 6)


@pytest.mark.parametrize("given", [
    STAR, graph(2, 2), graph(5, 9), graph(14, 30, name="a rather long name {}"), graph(40, 90),
    graph(120, 200, name="{}"),
    EdgeWeights(np.ones(6), [0, 0, 1, 1, 2, 2], [3, 4, 5, 6, 7, 8], [f"name {n}" for n in range(9)]),
    EdgeWeights([1.0], [0], [0], ["alone"]), EdgeWeights([], [], [], ["a", "b"]),
], ids=["star", "two", "five", "fourteen", "forty", "many", "sides", "one", "no edges"])  # fmt: skip
@pytest.mark.parametrize("dark", [False, True])
def test_names_do_not_overlap_or_leave_the_page(given, dark):
    ax = draw(given, dark=dark)
    boxes = extents(ax)
    page = ax.figure.bbox
    assert len(boxes) == len(given.nodes)
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= page.x1 and b.y1 <= page.y1 for b in boxes)
    if len(given.nodes) <= 14:  # along the radius, boxes of turned texts overlap where the texts do not
        assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_very_many_edges_are_lines_and_very_many_nodes_have_no_names():
    ax = draw(graph(300, 1000))
    assert not ax.texts
    assert not arrows(ax)
    assert len(ax.collections) == 2


def test_heads_stand_beside_each_other():
    axes = draw(graph(4, 5, heads=(3,)))
    assert [ax.get_title(loc="left") for ax in axes] == ["head 0", "head 1", "head 2"]
    assert len(draw(graph(3, 3, heads=(20,)))) == 12
    assert draw(graph(3, 3, heads=(20,)))[-1].get_title(loc="left") == "head 11, of 20"
    with pytest.raises(ConfigError, match="several heads do not fit into one ax: got 3 heads"):
        draw(graph(4, 5, heads=(3,)), ax=Figure().add_subplot())


def test_into_axes_of_the_caller_and_nothing():
    ax = Figure(figsize=(4, 4)).add_subplot()
    assert draw(graph(4, 5), ax=ax) is ax
    assert ax.get_xlim()[0] < -1.25 < 1.25 < ax.get_xlim()[1], "names fit too"
    assert draw(EdgeWeights([], [], [], [])).texts[0].get_text() == "no nodes"


def test_dark():
    ax = draw(STAR, dark=True)
    assert to_hex(ax.figure.get_facecolor()) == DARK.ground
    assert {text.get_color() for text in ax.texts} == {DARK.ink}
