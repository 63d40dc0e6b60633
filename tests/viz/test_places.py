from itertools import pairwise

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from regard.base import ConfigError, ShapeError
from regard.explanation import Places
from regard.viz import save
from regard.viz.overlay import CaptionOverlay, overlays
from regard.viz.places import draw, position_maps, shades
from regard.viz.theme import DARK

CHANCE = np.random.default_rng(0)
PICTURE = CHANCE.random((16, 24, 3))
PLACES = [(0, 0), (15, 23), (7, 4)]
WEIGHTS = CHANCE.dirichlet(np.full(24, 0.1), 3).reshape(3, 4, 6)


def test_the_picture_with_marks_then_a_map_for_each_place():
    axes = position_maps(PICTURE, PLACES, WEIGHTS)
    assert len(axes) == 4
    assert np.array_equal(axes[0].images[0].get_array(), PICTURE)
    assert [text.get_text() for text in axes[0].texts] == ["1", "2", "3"]
    assert [text.xy for text in axes[0].texts] == [(0, 0), (23, 15), (4, 7)]
    for ax, (row, column), layer in zip(axes[1:], PLACES, WEIGHTS, strict=True):
        assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines] == [(column, row)] * 2
        grey, over = ax.images
        assert grey.get_array().shape == (16, 24, 3)
        assert np.ptp(grey.get_array(), axis=2).max() == 0
        assert np.allclose(over.get_array(), shades(layer))
        assert over.get_extent() == [-0.5, 23.5, 15.5, -0.5], "from edge to edge"
        assert (ax.get_xlim(), ax.get_ylim()) == ((-0.5, 23.5), (15.5, -0.5))
        assert ax.get_aspect() == 1
        assert ax.get_xlabel() == f"at most {layer.max():.2g} = {layer.max() * 24:.1f} even"


def test_numbers_of_places_stay_inside_the_picture():
    corners = [(0, 0), (0, 23), (15, 0), (15, 23), (7, 12)]
    ax = position_maps(PICTURE, corners, np.ones((5, 2, 2)))[0]
    ax.figure.canvas.draw()
    for text in ax.texts:
        found, panel = text.get_window_extent(), ax.get_window_extent()
        assert panel.x0 <= found.x0 < found.x1 <= panel.x1, text.get_text()
        assert panel.y0 <= found.y0 < found.y1 <= panel.y1, text.get_text()


def test_words_of_narrow_panels_do_not_touch():
    axes = position_maps(
        np.zeros((40, 20)), [(1, 1)] * 3, np.full((3, 2, 2), 1 / 3), titles=["stages.1.3, a place"] * 3
    )
    axes[0].figure.canvas.draw()
    for parts in ([ax._left_title for ax in axes[1:]], [ax.xaxis.label for ax in axes[1:]]):
        boxes = [part.get_window_extent() for part in parts]
        assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


def test_shades_show_what_is_more_than_even():
    colours = shades(np.array([[0.7, 0.1], [0.15, 0.05]]))
    assert colours[0, 0, 3] == pytest.approx(0.9)
    assert not colours[[0, 1, 1], [1, 0, 1], 3].any()
    assert not shades(np.full((3, 3), 1 / 9))[..., 3].any(), "nothing stands out"
    three = shades(np.array([[0.0, 0.0, 0.0, 0.0, 0.4, 0.6]]))
    assert 0 < three[0, 4, 3] < three[0, 5, 3]


def test_weights_below_zero_are_blue():
    colours = shades(np.array([[-1.0, 0.0, 0.5]]))
    red, green, blue = colours[0, 0, :3]
    assert blue > green > red
    assert colours[0, :, 3] == pytest.approx([0.9, 0.0, 0.9 * 0.5**0.7])
    assert colours[0, 2, 0] > colours[0, 2, 2]
    ax = position_maps(PICTURE, [(1, 1)], [[[-0.25, 0.5]]])[1]
    assert ax.get_xlabel() == "−0.25 to 0.5"
    assert not shades(np.zeros((2, 2)))[..., 3].any()
    assert position_maps(PICTURE, [(1, 1)], np.zeros((1, 2, 2)))[1].get_xlabel() == "at most 0 = 0.0 even"


def test_tensors_titles_and_many_places(tmp_path):
    before = dict(matplotlib.rcParams)
    picture, weights = torch.from_numpy(PICTURE).permute(2, 0, 1), torch.from_numpy(WEIGHTS).repeat(2, 1, 1)
    axes = position_maps(picture, PLACES * 2, weights, titles=list("abcde$"), title="two rows", smooth=True, dark=True)
    assert [ax.get_title(loc="left") for ax in axes] == ["picture", *"abcde$"]
    assert axes[5].get_position().y1 < axes[4].get_position().y0
    assert axes[1].images[1].get_interpolation() == "bicubic"
    assert matplotlib.colors.to_hex(axes[0].figure.get_facecolor()) == DARK.ground
    assert save(axes, tmp_path / "maps.png").stat().st_size > 5000
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: position_maps(PICTURE, [(16, 0)], WEIGHTS[:1]), ShapeError, r"got \(16, 0\); expected within 16 × 24"),
        (
            lambda: position_maps(PICTURE, PLACES, WEIGHTS[:2]),
            ShapeError,
            r"places: got shape \[2, 4, 6\]; expected \[3 i j",
        ),
        (lambda: position_maps(PICTURE, PLACES, WEIGHTS[None]), ShapeError, r"got shape \[1, 3, 4, 6\].*maps\[0\]"),
        (lambda: position_maps(PICTURE, [], np.zeros((0, 2, 2))), ShapeError, r"got shape \[0, 2, 2\]"),
        (lambda: position_maps(PICTURE, PLACES, WEIGHTS * np.nan), ConfigError, "not finite: got 72 NaN"),
        (lambda: position_maps(PICTURE, PLACES, WEIGHTS, titles=["a"]), ShapeError, "one title: got 1; expected 3"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ── the drawing of Places ───────────────────────────────────────────────────────────────────────────────────────────


PHOTO = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def test_words_are_overlays():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), 3).reshape(3, 2, 3)
    axes = draw(Places(PHOTO, weights, ["a", "red", "dog"], box=(0, 10, 40, 40), title="a red dog"))
    told = CaptionOverlay(["a", "red", "dog"], weights.reshape(3, 6), (2, 3), (10, 0, 50, 40))
    same = overlays(PHOTO, {"": told})
    for ours, theirs in zip(axes.flat, same.flat, strict=True):
        assert np.array_equal(ours.images[0].get_array(), theirs.images[0].get_array())
    assert [ax.texts[0].get_text() for ax in axes[0, 1:]] == ["a", "red", "dog"]
    assert axes[0, 0].figure.texts[0].get_text() == "a red dog"
    assert [ax.texts[0].get_text() for ax in draw(Places(PHOTO, weights))[0, 1:]] == ["1", "2", "3"]


def test_marked_places_are_maps():
    weights = np.full((2, 4, 4), 1 / 16)
    axes = draw(Places(PHOTO, weights, ["one", "two"], points=[[10.2, 20], [39, 59.4]], box=(10, 20, 20, 30)))
    assert [ax.get_title(loc="left") for ax in axes] == ["picture", "one", "two"]
    assert axes[1].images[1].get_extent() == [19.5, 49.5, 29.5, 9.5], "the box"
    ring = axes[2].lines[0]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (59, 39)


def test_of_a_raster_four_places_are_drawn_and_of_many_some():
    axes = draw(Places(PHOTO, np.full((64, 2, 2), 0.25), grid=(8, 8), title="All"))
    assert len(axes) == 5
    assert axes[0].figure.texts[0].get_text() == "All (4 of 64 places)"
    assert len(draw(Places(PHOTO, np.full((1, 2, 2), 0.25), grid=(1, 1)))) == 2
    many = draw(Places(PHOTO, np.full((30, 2, 2), 0.25), points=np.zeros((30, 2))))
    assert len(many) == 25


def test_places_without_weights_and_on_dark_pages():
    nothing = Places(PHOTO, np.zeros((0, 2, 2)))
    assert draw(nothing)[0].texts[0].get_text() == "no weights"
    words = Places(PHOTO, np.full((1, 2, 2), 0.25), ["dog"])
    axes = draw(words, dark=True)
    assert to_hex(axes.flat[0].figure.get_facecolor()) == DARK.ground
    assert axes[0, 1].texts[0].get_color() == DARK.ink
