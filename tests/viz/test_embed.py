import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from regard.base import ConfigError, ShapeError
from regard.explanation import Matrix, Path, Places
from regard.explanation.widget import LEVELS
from regard.viz.embed import (
    Picture,
    PlaceMap,
    data,
    explanations_html,
    map_html,
    picture_html,
    size_of,
    thumbnail_html,
    thumbnail_of,
)


def file(kind: str = "PNG", width: int = 30, height: int = 20, shade: int = 0) -> bytes:
    content = io.BytesIO()
    Image.new("L", (width, height), shade).save(content, kind)
    return content.getvalue()


@pytest.mark.parametrize(("kind", "name"), [("PNG", "png"), ("GIF", "gif")])
def test_a_file_is_an_address(kind: str, name: str) -> None:
    content = file(kind)
    head, _, body = data(content).partition(",")
    assert head == f"data:image/{name};base64"
    assert base64.b64decode(body) == content
    assert size_of(content) == (30, 20)


@pytest.mark.parametrize("content", [b"", b"GIF", b"<svg onload=alert(1)>", file("JPEG")])
def test_nothing_but_pictures_gets_in(content: bytes) -> None:
    with pytest.raises(
        ConfigError, match=r"a picture of a page is a file: got b'.*'; expected the bytes of a PNG or GIF"
    ):
        data(content)


def test_a_picture_has_a_twin_for_dark_pages() -> None:
    light, dark = file(shade=255), file(shade=1)
    page = picture_html(Picture("<b>", light, dark, 'a "text"'), "<i>name</i>")
    assert page.index("<i>name</i>") < page.index("&lt;b&gt;")
    assert f'<source media="(prefers-color-scheme: dark)" srcset="{data(dark)}">' in page
    assert (
        f'<img src="{data(light)}" width="20" style="min-width:15px" alt="a &quot;text&quot;">' in page
    )  # sharp: more pixels than the page's
    assert "<source" not in picture_html(Picture("t", light))
    assert 'width="30"' in picture_html(Picture("t", file("GIF")))


@pytest.mark.parametrize(("size", "width"), [((28, 28), 128), ((20, 40), 64), ((300, 200), 256), ((200, 300), 200)])
def test_thumbnails_are_neither_tiny_nor_huge(size: tuple[int, int], width: int) -> None:
    assert f'width="{width}"' in thumbnail_html(file("PNG", *size), "x")


def test_a_map_has_the_weights_of_every_place() -> None:
    weights = np.full((2, 3, 1, 4), 0.25)
    weights[1, 1, 0] = [0.1, 0.1, 0.7, 0.1]  # the middle
    weights[0, 0, 0] = [0.0, 0.5, 0.375, 0.125]
    page = map_html(PlaceMap("t", file(), weights))
    assert 'data-places="2,3" data-keys="1,4"' in page
    digits = re.search(r'data-levels="([0-9a-f]+)"', page)
    assert digits is not None
    places = [digits[1][start : start + 4] for start in range(0, 24, 4)]
    assert places == ["0f80", "0000", "0000", "0000", "00f0", "0000"]  # even shares are clear
    assert re.findall(r'<rect x="(\d)" y="(\d)" width="1" height="1" fill-opacity="([\d.]+)"/>', page) == [
        ("2", "0", "1.00")
    ]
    assert int(digits[1][1], 16) == LEVELS
    assert "left:50.0%;top:75.0%" in page


def test_weights_below_zero_are_clear_and_above_zero_are_not() -> None:
    page = map_html(PlaceMap("t", file(), np.array([[[[-1.0, 0.0, 0.5, 1.0]]]])))
    assert 'data-levels="008f"' in page


@pytest.mark.parametrize(("weights", "kind", "text"), [
    (np.zeros((2, 2)), ShapeError, r"weights of places: got shape \[2, 2\]; expected \[r c i j\]"),
    (np.full((1, 1, 1, 1), np.nan), ConfigError, "weights of places are not finite"),
])  # fmt: skip
def test_weights_that_are_none(weights: np.ndarray, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        map_html(PlaceMap("t", file(), weights))


# ── explanations ────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGE = np.zeros((20, 30, 3), dtype=np.uint8)


def test_matrices_with_the_same_labels_share_a_figure() -> None:
    one, two = (Matrix([[1.0, weight]], ["x"], ["a", "b"], layer="cross") for weight in (0.0, 0.5))
    other = Matrix(np.ones((3, 1, 1)), ["x"], ["c"])
    figures = explanations_html([one, two, other], "<i>run</i>")
    assert len(figures) == 2
    assert re.findall(r"<option[^>]*>([^<]*)<", figures[0]) == ["cross", "cross (2)"]
    assert re.findall(r"<option[^>]*>([^<]*)<", figures[1]) == ["head 0", "head 1", "head 2"]
    assert all("<i>run</i>" in each for each in figures)
    assert explanations_html([Matrix([], [], ["a"])]) == []


def test_a_raster_answers_and_the_others_are_pictures_for_light_and_dark() -> None:
    raster = Places(IMAGE, np.full((4, 2, 2), 0.25), grid=(2, 2))
    words = Places(IMAGE, np.full((1, 2, 2), 0.25), ["dog"], title="a <dog>")
    path = Path(IMAGE, [[0.0, 0.0]], size=4)
    board, caption, glimpses, moving = explanations_html([raster, words, path], moving=True)
    assert 'class="places"' in board
    assert "what was looked at" in board
    assert "a &lt;dog&gt;" in caption
    for drawn, kind in ((caption, "png"), (glimpses, "png"), (moving, "gif")):
        light, dark = re.findall(rf'(?:src|srcset)="(data:image/{kind};base64,[^"]+)"', drawn)
        assert light != dark
    assert len(explanations_html([path])) == 1
    assert len(explanations_html([Path(IMAGE, [], size=4)], moving=True)) == 1


def test_pixels_of_any_kind_become_a_thumbnail() -> None:
    grey = np.linspace(0, 1, 6).reshape(2, 3)
    again = np.asarray(Image.open(io.BytesIO(thumbnail_of(grey))))
    assert np.array_equal(again[..., 0], np.rint(255 * grey).astype(np.uint8))
    assert size_of(thumbnail_of(IMAGE)) == (30, 20)
