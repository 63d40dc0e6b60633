import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from regard.base import ConfigError, ShapeError
from regard.explanation.widget import LEVELS
from regard.viz.embed import Picture, PlaceMap, data, map_html, picture_html, size_of, thumbnail_html


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
