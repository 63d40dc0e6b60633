import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from regard.base import ConfigError, ShapeError
from regard.viz.fonts import extent, renderer
from regard.viz.theme import (
    DARK,
    LIGHT,
    as_picture,
    blank_drawing,
    darken,
    entitle,
    fitted,
    frame,
    headline,
    headroom,
    new_figure,
    panel,
    words,
)


def test_pixels_of_any_array():
    grey = np.arange(8, dtype=np.uint8).reshape(2, 4) * 36
    assert np.allclose(as_picture(grey)[..., 2], grey / 255)
    for same in (grey[..., None], grey[None], torch.from_numpy(grey), grey / 255.0, (grey / 255).tolist()):
        assert np.allclose(as_picture(same), as_picture(grey))
    coloured = np.random.default_rng(0).random((4, 5, 3))
    assert np.array_equal(as_picture(coloured), coloured)
    assert np.allclose(as_picture(torch.from_numpy(coloured).permute(2, 0, 1)), coloured)
    assert as_picture(np.zeros((3, 3, 3))).shape == (3, 3, 3)
    assert as_picture(np.zeros((1, 1))).shape == (1, 1, 3)
    assert as_picture(np.ones((2, 2), dtype=bool)).max() == 1.0


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((2, 3, 4, 5)), ShapeError, r"no picture: got shape \[2, 3, 4, 5\]; expected \[h w\].*images\[0\]"),
        (np.zeros((4, 4, 2)), ShapeError, r"no picture: got shape \[4, 4, 2\]"),
        (np.zeros((0, 4)), ShapeError, r"no picture: got shape \[0, 4\]"),
        (np.array([["a"]]), ShapeError, "made of numbers: got <U1"),
        (np.array([[-2.0, 1.5]]), ConfigError, r"out of range: got -2 to 1.5; expected 0 to 1, or bytes.*std \+ mean"),
        (np.array([[np.nan]]), ConfigError, "out of range: got nan"),
        (np.array([[255]]), ConfigError, "out of range: got 255 to 255"),
    ],
)
def test_what_is_no_picture(image, error, message):
    with pytest.raises(error, match=message):
        as_picture(image)


def test_panels_in_inches():
    figure = new_figure(4, 2, DARK)
    ax = panel(figure, 1.0, 0.5, 2.0, 1.0)
    assert to_hex(figure.get_facecolor()) == DARK.ground
    assert np.allclose(ax.get_position().bounds, (0.25, 0.25, 0.5, 0.5))
    frame(ax, LIGHT.rule, 2.0)
    assert {to_hex(spine.get_edgecolor()) for spine in ax.spines.values()} == {LIGHT.rule}


def test_words_are_literal():
    assert words("$x_1$\n a") == {
        "text": "$x_1$\n␣a", "fontfamily": ["DejaVu Sans"], "parse_math": False, "usetex": False,
    }  # fmt: skip
    ax = panel(new_figure(1, 1, LIGHT), 0, 0, 1, 1)
    entitle(ax, "$\\frac", "black")
    assert ax.get_title(loc="left") == "$\\frac"
    assert not ax._left_title.get_parse_math()


def test_words_shrink_to_fit():
    assert fitted("a", 9, 3.0) == 9
    assert extent("a long line of words", fitted("a long line of words", 9, 0.8)) == pytest.approx(0.8, rel=0.02)
    assert fitted("a long line of words", 9, 0.01) == 4


def test_headlines_have_room():
    assert headroom(None) < headroom("one line") < headroom("two\nlines")
    figure = new_figure(4, 2, LIGHT)
    headline(figure, None, 0.5, LIGHT)
    assert not figure.texts
    headline(figure, "$a$\nb", 0.5, LIGHT)
    (text,) = figure.texts
    assert text.get_text() == "$a$\nb"
    assert text.get_position() == (0.125, 0.95)


def test_a_drawing_of_nothing_says_so_and_has_room_for_its_title():
    for palette in (LIGHT, DARK):
        ax = blank_drawing("A title that is longer than the words inside of the drawing", "nothing", palette)
        assert ax.texts[0].get_text() == "nothing"
        assert to_hex(ax.figure.get_facecolor()) == palette.ground
        title = ax.figure.texts[0]
        assert title.get_window_extent(renderer(ax.figure.dpi)).x1 <= ax.figure.bbox.x1
    assert not blank_drawing("", "nothing", LIGHT).figure.texts


def test_a_drawn_figure_turns_dark():
    ax = new_figure(2, 2, LIGHT).add_subplot()
    ax.set_title("t", loc="left")
    inside = ax.text(0.5, 0.5, "1", color="black")
    darken([ax])
    assert to_hex(ax.figure.get_facecolor()) == DARK.ground
    assert to_hex(ax._left_title.get_color()) == DARK.ink
    assert inside.get_color() == "black", "numbers in cells keep their contrast"
    other = new_figure(2, 2, LIGHT).add_subplot()
    darken([other], figure=False)
    assert to_hex(other.figure.get_facecolor()) == LIGHT.ground
