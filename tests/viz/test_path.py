import io
import os
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from regard.base import ConfigError, ShapeError
from regard.explanation import Path
from regard.nn.retina import retina
from regard.viz import save
from regard.viz.path import colour, draw, glimpse_animation, glimpse_path, remember, see
from regard.viz.theme import DARK, as_picture

CHANCE = np.random.default_rng(0)
GREY, COLOURED = CHANCE.random((20, 30)), CHANCE.random((16, 16, 3))
WHERE = [[0.0, 0.0], [0.5, -0.5], [-0.9, 0.2]]


def boxes(ax):
    """Left, top and side of each box, in pixels from the corner of the picture."""
    found = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    return [
        (box.get_x() + 0.5, box.get_y() + 0.5, box.get_width()) for box in found if box.get_width() == box.get_height()
    ]


def dots(ax):
    return [(line.get_xdata()[0] + 0.5, line.get_ydata()[0] + 0.5) for line in ax.lines]


def shown(ax):
    return np.asarray(ax.images[0].get_array())


def test_boxes_and_dots_are_where_the_model_looked():
    axes = glimpse_path(GREY, WHERE, size=4, scales=2)
    places = [(15.0, 10.0), (22.5, 5.0), (1.5, 12.0)]
    assert np.allclose(dots(axes[0]), places)
    expected = [(x - side / 2, y - side / 2, side) for x, y in places for side in (4, 8)]
    assert np.allclose(boxes(axes[0]), expected)
    numbers = [text for text in axes[0].texts if text.get_text()]
    assert [text.get_text() for text in numbers] == ["1", "2", "3"]
    assert np.allclose([np.add(text.xy, 0.5) for text in numbers], places)
    arrows = [text for text in axes[0].texts if text.arrow_patch is not None]
    ends = [(np.add(arrow.xyann, 0.5), np.add(arrow.xy, 0.5)) for arrow in arrows]
    assert np.allclose(ends, [places[:2], places[1:]])
    assert np.array_equal(shown(axes[0]), as_picture(GREY))


def test_patches_are_what_the_retina_sees():
    where = torch.tensor([[0.0, 0.0], [0.33, -0.71], [0.95, 0.9], [-1.3, 0.1]])
    for image in (GREY, COLOURED):
        axes = glimpse_path(image, where, size=5, scales=3)
        picture = torch.from_numpy(as_picture(image)).permute(2, 0, 1)[None].repeat(4, 1, 1, 1)
        seen = retina(picture, where.double(), size=5, scales=3).reshape(4, 3, 3, 5, 5).permute(0, 1, 3, 4, 2)
        assert len(axes) == 2 + 4 * 3
        for ax, patch in zip(axes[2:], seen.flatten(0, 1), strict=True):
            np.testing.assert_allclose(shown(ax), patch, atol=1e-5)


def test_whole_pixels_are_cut_out():
    picture = as_picture(GREY)
    sharp, blurred = see(picture, np.array([10.0, 8.0]), 4, 2)
    assert np.allclose(sharp, picture[6:10, 8:12])
    assert np.allclose(blurred, picture[4:12, 6:14].reshape(4, 2, 4, 2, 3).mean((1, 3)))
    corner = see(picture, np.array([0.0, 0.0]), 4, 1)[0]
    assert not corner[:2].any()
    assert not corner[:, :2].any()
    assert np.allclose(corner[2:, 2:], picture[:2, :2])


def test_memory_is_sharp_where_it_was_seen_sharply():
    picture = as_picture(GREY)
    centres = np.array([[10.0, 8.0], [20.0, 10.0]])
    memory, seen = remember(picture, centres, 4, 2)
    assert np.allclose(memory[6:10, 8:12], picture[6:10, 8:12])
    assert np.allclose(memory[8:12, 18:22], picture[8:12, 18:22])
    coarse = picture[4:6, 6:8].mean((0, 1))
    assert np.allclose(memory[4:6, 6:8], coarse)
    expected = np.zeros((20, 30), dtype=bool)
    expected[4:12, 6:14] = expected[6:14, 16:24] = True
    assert np.array_equal(seen, expected)
    drawn = shown(glimpse_path(GREY, centres / [15, 10] - 1, size=4, scales=2)[1])
    assert np.allclose(drawn[..., :3], memory)
    assert np.array_equal(drawn[..., 3], seen)


def test_fewer_steps_than_places():
    axes = glimpse_path(GREY, WHERE, size=4, steps=2, labels="7")
    assert len(dots(axes[0])) == 2
    assert len(axes) == 4
    assert [ax.get_xlabel() for ax in axes[2:]] == ["", "7"]


def test_labels_of_several_steps():
    axes = glimpse_path(GREY, WHERE, size=4, scales=2, labels=[None, 3, "END"])
    assert [ax.get_xlabel() for ax in axes] == ["", "", "", "", "", "3", "", "END"], "below the last scale"
    assert [ax.get_title(loc="left") for ax in axes[2::2]] == ["1", "2", "3"]
    assert [ax.get_xlabel() for ax in glimpse_path(GREY, WHERE, size=4, steps=2, labels=["a", "b", "c"])[2:]] == [
        "a",
        "b",
    ]


def test_long_labels_stand_beside_each_other():
    axes = glimpse_path(GREY, WHERE, size=4, labels=["automobile"] * len(WHERE))
    axes[0].figure.canvas.draw()
    said = [ax.xaxis.label.get_window_extent() for ax in axes[2:]]
    assert all(left.x1 < right.x0 for left, right in pairwise(said))
    assert said[-1].x1 < axes[0].figure.bbox.x1
    assert glimpse_path(GREY, WHERE, size=4, labels="7")[-1].xaxis.label.get_fontsize() == 9


def test_one_glimpse_beyond_the_border():
    axes = glimpse_path(GREY, [[1.0, -1.4]], size=8)
    assert np.allclose(dots(axes[0]), [(30.0, -4.0)])
    assert not [text for text in axes[0].texts if text.arrow_patch is not None]
    for ax in axes[:2]:
        assert np.allclose(ax.get_xlim(), (-0.5, 33.5)), "half of a sharp patch"
        assert np.allclose(ax.get_ylim(), (19.5, -4.5)), "a fifth of the height at most"
    assert np.allclose(glimpse_path(GREY, [[0.0, 0.0]], size=8)[0].get_ylim(), (19.5, -0.5))


def test_colours_follow_time_and_numbers_can_be_read():
    assert len({colour(step, 8) for step in range(8)}) == 8
    assert colour(0, 1) == colour(0, 5)
    axes = glimpse_path(GREY, CHANCE.uniform(-1, 1, (8, 2)), size=4)
    for ax, line, text in zip(axes[2:], axes[0].lines, [t for t in axes[0].texts if t.get_text()], strict=True):
        shade = matplotlib.colors.to_rgb(line.get_color())
        assert np.allclose(matplotlib.colors.to_rgb(ax.spines["left"].get_edgecolor()), shade)
        light = [
            (0.05 + np.dot(np.power(c, 2.2), [0.2126, 0.7152, 0.0722]))
            for c in (shade, matplotlib.colors.to_rgb(text.get_color()))
        ]
        assert max(light) / min(light) > 4


def test_many_steps_are_wrapped_and_nothing_overlaps():
    axes = glimpse_path(
        COLOURED, CHANCE.uniform(-1, 1, (11, 2)), size=4, scales=2, labels=list("abcdefghijk"), title="$t$\nu"
    )
    figure = axes[0].figure
    figure.canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    pen = figure.canvas.get_renderer()
    places = [ax.get_position() for ax in axes]
    assert places[2].y0 > places[2 + 16].y0
    assert abs(places[2].x0 - places[2 + 16].x0) < 1e-9
    texts = [each for ax in axes for each in (ax._left_title, ax.xaxis.label) if each.get_text()] + figure.texts
    areas = [text.get_window_extent(pen) for text in texts]
    assert not [pair for i, pair in enumerate(areas) for other in areas[i + 1 :] if pair.overlaps(other)]
    panels = [ax.get_window_extent(pen) for ax in axes]
    assert not [one for i, one in enumerate(panels) for other in panels[i + 1 :] if one.overlaps(other)]
    assert not [area for area in areas for one in panels if area.overlaps(one)]
    assert figure.texts[0].get_text() == "$t$\nu"


def test_dark_paper_and_no_settings_touched(tmp_path):
    before = dict(matplotlib.rcParams)
    axes = glimpse_path(GREY, WHERE, size=4, dark=True)
    assert matplotlib.colors.to_hex(axes[0].figure.get_facecolor()) == DARK.ground
    assert save(axes, tmp_path / "path.png").stat().st_size > 5000
    assert dict(matplotlib.rcParams) == before


def test_animation(tmp_path):
    path = glimpse_animation(GREY, WHERE, tmp_path / "new" / "path.gif", size=4, scales=2, labels="7", seconds=0.5)
    assert os.listdir(path.parent) == ["path.gif"]
    with Image.open(io.BytesIO(path.read_bytes())) as film:
        assert (film.format, film.n_frames, film.info["loop"]) == ("GIF", 3, 0)
        frames, durations = [], []
        for number in range(3):
            film.seek(number)
            durations.append(film.info["duration"])
            frames.append(np.asarray(film.convert("RGB")).astype(int))
    assert durations == [500, 500, 1500]
    for step, frame in enumerate(frames):  # the paper and the colours of steps are those of a drawing
        assert (frame[0] == 255).all()
        shade = np.array(matplotlib.colors.to_rgb(colour(step, 3))) * 255
        assert (np.abs(frame - shade) < 1).all(2).sum() > 100
    assert all(np.abs(one - other).max() > 50 for one, other in pairwise(frames))
    still = glimpse_animation(GREY, WHERE[:1], tmp_path / "one.GIF", size=4, dark=True)
    with Image.open(still) as film:
        assert film.n_frames == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: glimpse_path(GREY, [0.0, 0.0], size=4), ShapeError, r"glimpses\?: got shape \[2\]; expected \[t 2\]"),
        (lambda: glimpse_path(GREY, np.zeros((0, 2)), size=4), ShapeError, r"got shape \[0, 2\]"),
        (lambda: glimpse_path(GREY, [[np.nan, 0.0]], size=4), ConfigError, r"not finite: got \[nan, 0.0\]"),
        (lambda: glimpse_path(GREY, WHERE, size=0), ConfigError, "size: got 0; expected 1 or more"),
        (lambda: glimpse_path(GREY, WHERE, size=4, steps=4), ConfigError, "steps: got 4; expected 1 to 3"),
        (
            lambda: glimpse_path(GREY, WHERE, size=4, labels=["1"]),
            ShapeError,
            "label: got 1; expected 3.*says nothing",
        ),
        (lambda: glimpse_path(GREY * 9, WHERE, size=4), ConfigError, "out of range"),
        (lambda: glimpse_animation(GREY, WHERE, "path.mp4", size=4), ConfigError, "GIF: got '.mp4'; expected .gif"),
        (lambda: glimpse_animation(GREY, WHERE, "a.gif", size=4, seconds=0), ConfigError, "seconds of a frame: got 0"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ── the drawing of a Path ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dark", [False, True])
def test_a_path_is_drawn_as_its_glimpses_are(dark):
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    where = [[0.0, 0.0], [0.5, -0.5]]
    axes = draw(Path(image, where, size=4, scales=2, label="7", title="Two"), dark=dark)
    same = glimpse_path(image, where, size=4, scales=2, labels="7", title="Two", dark=dark)
    assert len(axes) == len(same) == 6
    for ours, theirs in zip(axes, same, strict=True):
        assert np.array_equal(ours.images[0].get_array(), theirs.images[0].get_array())
    assert axes[-1].get_xlabel() == "7"
    assert axes[0].figure.texts[0].get_text() == "Two"


def test_a_path_without_glimpses_is_a_picture():
    image = np.zeros((20, 30, 3), dtype=np.uint8)
    [ax] = draw(Path(image, [], size=4, title="Nobody"), dark=True)
    assert ax.get_title(loc="left") == "no glimpses"
    assert to_hex(ax.figure.get_facecolor()) == DARK.ground
