"""Overlays: the light lies on the crop that the model saw, to the pixel."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.base import ConfigError, ShapeError
from regard.data.images import fit_box
from regard.viz.heatmap import save
from regard.viz.overlay import CaptionOverlay, overlay, overlays, spread

WORDS = ["a", "dog", "runs"]


def weights(count: int = 3, places: int = 9) -> np.ndarray:
    values = np.random.default_rng(0).random((count, places))
    return values / values.sum(1, keepdims=True)


@pytest.mark.parametrize("smooth", [0.0, 0.4])
@pytest.mark.parametrize("place", [0, 4, 8])
@pytest.mark.parametrize("size", [(30, 60), (60, 30), (30, 30)])
def test_the_light_lies_on_its_place_in_the_crop(size: tuple[int, int], place: int, smooth: float) -> None:
    box = fit_box(*size)
    light = spread(np.eye(9)[place], (3, 3), size, box, smooth=smooth)
    assert light.shape == size
    assert light.max() == pytest.approx(1)
    row, column = divmod(place, 3)
    down, right = np.mgrid[: size[0], : size[1]] + 0.5
    middle = (down * light).sum() / light.sum(), (right * light).sum() / light.sum()
    wanted = box.top + (row + 0.5) * 10, box.left + (column + 0.5) * 10
    assert middle == pytest.approx(wanted, abs=0.01 if smooth == 0 or place == 4 else 1.5)
    outside = np.ones(size, bool)
    outside[int(box.top) : int(box.bottom), int(box.left) : int(box.right)] = False
    assert (light[outside] == 0).all()


def test_sharp_cells_have_the_size_of_cells() -> None:
    light = spread(np.eye(4)[1], (2, 2), (20, 40), fit_box(20, 40), smooth=0.0)
    assert light.sum() == 100
    assert (light[:10, 20:30] == 1).all()


def test_equal_weights_are_even_and_none_are_dark() -> None:
    assert np.ptp(spread(np.full(9, 1 / 9), (3, 3), (21, 21))) < 1e-12
    assert (spread(np.zeros(9), (3, 3), (6, 6)) == 0).all()


def test_smoothing_is_between_its_neighbours() -> None:
    light = spread([0.2, 0.8], (1, 2), (8, 16))
    assert (np.diff(light[0]) >= 0).all()
    assert 0.2 / 0.8 <= light[0, 0] < 0.5


def test_one_panel_a_word_of_the_picture_s_shape() -> None:
    image = np.random.default_rng(0).integers(0, 255, (20, 40, 3), np.uint8)
    axes = overlay(image, WORDS, weights(), grid=(3, 3), box=fit_box(20, 40))
    assert axes.shape == (1, 4)
    assert [ax.texts[0].get_text() for ax in axes[0, 1:]] == WORDS
    assert not axes[0, 0].texts
    np.testing.assert_allclose(axes[0, 0].images[0].get_array(), image / 255)
    for ax in axes.flat:
        box = ax.get_window_extent()
        assert box.width / box.height == pytest.approx(2, abs=1e-6)


def test_panels_are_grey_and_bright_where_the_weight_is() -> None:
    image = np.full((30, 60, 3), (255, 0, 0), np.uint8)
    axes = overlay(image, ["x"], np.eye(9)[[4]], grid=(3, 3), box=fit_box(30, 60))
    panel = np.asarray(axes[0, 1].images[0].get_array())
    assert np.ptp(panel, axis=-1).max() == 0
    assert np.unravel_index(panel[..., 0].argmax(), (30, 60)) in [(14, 29), (14, 30), (15, 29), (15, 30)]
    assert panel[0, 0, 0] < panel[0, 20, 0] < panel[15, 30, 0]  # unseen, seen, looked at
    dark = np.asarray(overlay(np.zeros_like(image), ["x"], np.eye(9)[[4]], grid=(3, 3))[0, 1].images[0].get_array())
    assert dark[15, 30, 0] > 0.25  # what is dark glows too


def test_several_captions_and_long_ones() -> None:
    image, rows = np.zeros((8, 8, 3)), {"soft": (WORDS, weights()), "hard": (WORDS[:2], torch.tensor(weights(2)))}
    axes = overlay(image, grid=(3, 3), rows=rows, per_row=2)
    assert axes.shape == (3, 3)
    names = [[text.get_text() for text in ax.texts] for ax in axes[:, 0]]
    assert names == [["soft"], [], ["hard"]]
    shown = [[ax.get_visible() for ax in line] for line in axes]
    assert shown == [[True] * 3, [False, True, False], [True] * 3]


def test_captions_of_models_that_see_differently() -> None:
    image = np.full((20, 40, 3), 0.5)
    told = {
        "soft": CaptionOverlay(WORDS, weights(), (3, 3), fit_box(20, 40)),
        "hard": CaptionOverlay(WORDS, np.eye(8)[[0, 1, 7]], (2, 4)),  # other places, over the whole picture
    }
    axes = overlays(image, told)
    assert axes.shape == (2, 4)
    assert [ax.texts[0].get_text() for ax in axes[:, 0]] == ["soft", "hard"]
    assert [[ax.texts[0].get_text() for ax in line[1:]] for line in axes] == [WORDS, WORDS]
    alone = overlay(image, WORDS, weights(), grid=(3, 3), box=fit_box(20, 40))
    soft, hard, wanted = (np.asarray(line[1].images[0].get_array())[..., 0] for line in (*axes, *alone))
    np.testing.assert_array_equal(soft, wanted)
    assert soft[0, 0] < hard[19, 39]  # outside of what one saw; inside of what the other did, though nothing is there
    assert hard.argmax() == 0  # the corner


@pytest.mark.parametrize("size", [(20, 40), (40, 20), (30, 30)])
def test_nothing_is_cut_off_and_no_words_meet(size: tuple[int, int]) -> None:
    long = ["a", "photographer", "extraordinarily", "the", "skateboarders", "of", "a", "motorcycle", "helmet"]
    told = {name: CaptionOverlay(long, weights(9), (3, 3)) for name in ("soft", "show_attend_tell_flickr8k_hard")}
    axes = overlays(np.zeros((*size, 3)), told, per_row=8)
    figure = axes[0, 0].figure
    whole, draw = figure.bbox, FigureCanvasAgg(figure).get_renderer()
    for line in axes:
        boxes = [text.get_window_extent(draw) for ax in line if ax.get_visible() for text in ax.texts]
        for box in boxes:
            assert box.x0 >= whole.x0 - 1
            assert box.x1 <= whole.x1 + 1
            assert box.y1 <= whole.y1 + 1
        assert all(one.x1 <= other.x0 + 1 for one, other in pairwise(boxes))


def test_written_to_a_file(tmp_path: Path) -> None:
    axes = overlay(np.zeros((5, 5)), ["naïve $x$ 犬"], weights(1), grid=(3, 3))
    path = save(axes, tmp_path / "out.png", dpi=40)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_wrong_calls() -> None:
    image = np.zeros((4, 4, 3))
    with pytest.raises(ShapeError, match="do not fill the grid: got 9 weights on 2 × 2 places; expected 4"):
        overlay(image, WORDS, weights(), grid=(2, 2))
    with pytest.raises(ShapeError, match=r"got 2 words and weights \[3, 9\]; expected \[2 k\]"):
        overlay(image, WORDS[:2], weights(), grid=(3, 3))
    with pytest.raises(ShapeError, match="a caption without words"):
        overlay(image, [], weights(), grid=(3, 3))
    with pytest.raises(ShapeError, match="no captions"):
        overlays(image, {})
    with pytest.raises(ShapeError, match="no captions"):
        overlay(image, grid=(3, 3), rows={})
    with pytest.raises(ShapeError, match=r"this is no picture: got shape \[2, 4, 5\]; expected \[h w\], \[h w 3\]"):
        overlay(np.zeros((2, 4, 5)), WORDS, weights(), grid=(3, 3))
    with pytest.raises(ConfigError, match="weights are not finite"):
        overlay(image, WORDS, np.full((3, 9), np.nan), grid=(3, 3))
    with pytest.raises(ConfigError, match="per_row: got 0"):
        overlay(image, WORDS, weights(), grid=(3, 3), per_row=0)
    with pytest.raises(ConfigError, match="smooth: got -1"):
        spread(np.ones(1), (1, 1), (2, 2), smooth=-1.0)
    with pytest.raises(ConfigError, match="box: got"):
        spread(np.ones(1), (1, 1), (2, 2), (1, 0, 1, 2))
