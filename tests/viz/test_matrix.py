from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from regard.base import ConfigError
from regard.explanation import Matrix
from regard.viz import heatmaps
from regard.viz.matrix import draw
from regard.viz.theme import DARK

WORDS = ["the", "quick", "brown", "fox", "over", "a", "lazy", "dog", "$x_1$", "extraordinarily", "incomprehensible"]


def weights(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def boxes(figure, labels):
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    return [label.get_window_extent(figure.canvas.get_renderer()) for label in labels if label.get_text()]


def overlaps(figure, labels):
    return [pair for pair in combinations(boxes(figure, labels), 2) if pair[0].overlaps(pair[1])]


def everything(axes):
    """All text that is drawn: labels, titles, the numbers of the bar."""
    figure = axes[0, 0].figure
    labels = [
        label for ax in figure.axes if ax.get_visible() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())
    ]
    titles = [ax.title if ax.get_title() else ax._left_title for ax in axes.flat if ax.get_visible()]
    return [label for label in (*labels, *titles) if label.get_visible()]


def outside(figure, labels):
    page = figure.bbox
    return [b for b in boxes(figure, labels) if b.x0 < page.x0 or b.y0 < page.y0 or b.x1 > page.x1 or b.y1 > page.y1]


def test_a_used_figure_is_refused():
    figure = Figure()
    figure.add_subplot()
    with pytest.raises(ConfigError, match="not empty"):
        heatmaps(weights(2, 3, 3), figure=figure)


@pytest.mark.parametrize(("heads", "shape"), [(1, (1, 1)), (8, (1, 8)), (9, (3, 3)), (12, (3, 4)), (16, (4, 4))])
def test_heads_in_a_row_or_a_square(heads, shape):
    given = weights(heads, 3, 4)
    axes = heatmaps(given)
    assert axes.shape == shape
    shown = [ax for ax in axes.flat if ax.get_visible()]
    assert [ax.get_title("left") for ax in shown] == [f"head {head}" for head in range(heads)]
    assert all(np.array_equal(ax.images[0].get_array(), matrix) for ax, matrix in zip(shown, given, strict=True))


def test_layers_go_down_and_heads_across():
    given = torch.from_numpy(weights(2, 3, 4, 5))
    axes = heatmaps(given, list("abcd"), list("vwxyz"))
    assert axes.shape == (2, 3)
    assert axes[1, 2].get_title("left") == "layer 1 · head 2"
    assert np.allclose(axes[1, 2].images[0].get_array(), given[1, 2])
    places = np.array([[ax.get_position().p0 for ax in line] for line in axes])
    assert (np.diff(places[..., 0], axis=1) > 0).all()
    assert (np.diff(places[..., 1], axis=0) < 0).all()


def test_labels_only_at_the_left_and_on_top():
    axes = heatmaps(weights(2, 3, 4, 5), list("abcd"), list("vwxyz"))
    for (row, column), ax in np.ndenumerate(axes):
        assert ax.yaxis.get_tick_params()["labelleft"] == (column == 0)
        assert ax.xaxis.get_tick_params()["labeltop"] == (row == 0)
    assert texts(axes[1, 0].yaxis) == list("abcd")
    assert texts(axes[0, 2].xaxis) == list("vwxyz")


@pytest.mark.parametrize(
    "given",
    [
        weights(2, 5, 10, 10),
        weights(3, 50, 50),
        {"encoder.layers.0.self_attention": weights(3, 9, 9), "encoder.layers.11.self_attention": weights(9, 9)},
        {"a.very.long.name.of.one.matrix.in.a.deep.model": weights(9, 9), "b.very.long.name.of.one": weights(9, 9)},
    ],
    ids=["layers", "long", "ragged", "names"],
)
def test_small_multiples_are_legible(given):
    length = (given if isinstance(given, np.ndarray) else next(iter(given.values()))).shape[-1]
    labels = [WORDS[place % len(WORDS)] for place in range(length)]
    axes = heatmaps(given, labels, labels)
    figure, drawn = axes[0, 0].figure, everything(axes)
    assert overlaps(figure, drawn) == []
    assert outside(figure, drawn) == []
    panels = [ax.bbox for ax in figure.axes if ax.get_visible()]
    assert not [pair for pair in combinations(panels, 2) if pair[0].overlaps(pair[1])]
    assert not [box for box in boxes(figure, drawn) if any(box.overlaps(panel) for panel in panels)]
    assert min(label.get_fontsize() for label in drawn) >= 5


def test_one_scale_with_one_bar_or_each_its_own():
    given = np.stack([np.eye(2) * 0.5, np.eye(2) * 0.2])
    shared = heatmaps(given)
    assert [ax.images[0].get_clim() for ax in shared.flat] == [(0, 0.5)] * 2
    assert len(shared[0, 0].figure.axes) == 3
    own = heatmaps(given, share=False)
    assert [ax.images[0].get_clim() for ax in own.flat] == [(0, 0.5), (0, 0.2)]
    assert len(own[0, 0].figure.axes) == 2


def test_mapping_gives_a_row_to_each_name_and_hides_blanks():
    given = {"cross": weights(3, 4, 6), "self": weights(1, 4, 4), "pool": weights(2, 4)}
    axes = heatmaps(given)
    assert axes.shape == (3, 3)
    assert [[ax.get_visible() for ax in line] for line in axes] == [[True] * 3] + [[True, False, False]] * 2
    assert [ax.get_title("left") for ax in axes[:, 0]] == ["cross\nhead 0", "self\nhead 0", "pool"]
    assert axes[0, 1].get_title("left") == "head 1"
    assert np.array_equal(axes[0, 2].images[0].get_array(), given["cross"][2])
    assert np.array_equal(axes[2, 0].images[0].get_array(), given["pool"])
    assert axes[1, 0].xaxis.get_tick_params()["labeltop"], "4 keys under 6: other positions, other labels"
    assert not axes[2, 0].xaxis.get_tick_params()["labeltop"]
    assert overlaps(axes[0, 0].figure, everything(axes)) == []


def test_titles_and_figure_can_be_given():
    figure = Figure()
    axes = heatmaps(weights(2, 2, 3, 3), titles=[["a", "$b$"], ["c", "d"]], figure=figure)
    assert [ax.get_title("left") for ax in axes.flat] == ["a", "$b$", "c", "d"]
    assert all(ax.figure is figure for ax in axes.flat)
    assert heatmaps(weights(2, 3, 3), titles=iter("ab"), rows=iter("abc"))[0, 1].get_title("left") == "b"


# ── the drawing of a Matrix ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_matrix_is_drawn_with_its_labels_and_its_title():
    ax = draw(Matrix(weights(2, 3), ["la", "maison"], WORDS[:3], layer="cross", title="Two words"))
    assert np.allclose(ax.images[0].get_array(), weights(2, 3))
    assert texts(ax.yaxis) == ["la", "maison"]
    assert ax.get_title(loc="left") == "Two words\ncross"
    assert outside(ax.figure, [*ax.get_xticklabels(), *ax.get_yticklabels(), ax._left_title]) == []


def test_axes_and_scale_are_named():
    ax = draw(Matrix(weights(2, 3), ["▁la", "maison"], WORDS[:3], axes=("translation", "source")))
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("← translation", "source →")
    assert texts(ax.yaxis)[0] == "␣la"
    assert ax.child_axes[0].get_ylabel() == "weight"
    dark = draw(Matrix(weights(2, 3), ["la", "maison"], WORDS[:3], axes=("translation", "source")), dark=True)
    assert to_rgb(dark.xaxis.label.get_color()) == to_rgb(DARK.soft)
    assert not draw(Matrix(weights(2, 3), ["la", "maison"], WORDS[:3])).get_xlabel()


def test_a_large_matrix_has_a_bar_in_place_of_numbers():
    large = draw(Matrix(np.eye(22), WORDS * 2, WORDS * 2))
    assert len(large.child_axes) == 1
    assert not large.texts
    few = draw(Matrix(np.eye(11), WORDS, WORDS))
    assert len(few.texts) == 121
    assert len(few.child_axes) == 1


def test_heads_are_small_multiples():
    axes = draw(Matrix(weights(3, 2, 2), ["a", "b"], ["x", "y"], title="t"))
    assert [ax.get_title(loc="left") for ax in axes.flat] == ["t\nhead 0", "head 1", "head 2"]
    with pytest.raises(ConfigError, match=r"several heads do not fit into one ax: got 3 heads. Try: leave ax out"):
        draw(Matrix(weights(3, 2, 2), ["a", "b"], ["x", "y"]), ax=Figure().add_subplot())


def test_into_axes_of_the_caller():
    ax = Figure(figsize=(4, 4)).add_subplot()
    assert draw(Matrix(weights(2, 2), ["a", "b"], ["x", "y"], title="t"), ax=ax) is ax
    assert ax.figure.get_size_inches().tolist() == [4, 4]


@pytest.mark.parametrize("given", [Matrix([], [], ["x"]), Matrix([[]], ["a"], []), Matrix([], [], [])])
def test_nothing_is_said_in_words(given):
    ax = draw(given)
    assert [text.get_text() for text in ax.texts] == ["no weights"]


def test_a_dark_matrix():
    for given in (weights(2, 3), weights(2, 2, 3), weights(2, 20)[:, :3], weights(13, 3)):
        rows = [str(number) for number in range(given.shape[-2])]
        axes = np.ravel(np.asarray(draw(Matrix(given, rows, WORDS[:3], title="t"), dark=True), dtype=object))
        figure = axes[0].figure
        assert figure.get_facecolor()[:3] == pytest.approx(to_rgb(DARK.ground))
        for label in [*axes[0].get_yticklabels(), *axes[0].get_xticklabels(), axes[0]._left_title]:
            assert to_rgb(label.get_color()) == pytest.approx(to_rgb(DARK.ink))


@pytest.mark.parametrize("inches", [1.0, 5.0])
def test_panels_are_as_large_as_they_may(inches):
    axes = heatmaps(np.ones((2, 60, 40)), inches=inches)
    box = axes[0, 0].get_window_extent()
    assert box.height / axes[0, 0].figure.dpi == pytest.approx(inches, rel=0.02)
