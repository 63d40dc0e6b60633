import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from regard.base import ConfigError
from regard.explanation import Matrix, Path, Places
from regard.viz.embed import data, explanations_html, size_of, thumbnail_html


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


@pytest.mark.parametrize(("size", "width"), [((28, 28), 128), ((20, 40), 64), ((300, 200), 256), ((200, 300), 200)])
def test_thumbnails_are_neither_tiny_nor_huge(size: tuple[int, int], width: int) -> None:
    assert f'width="{width}"' in thumbnail_html(np.zeros(size[::-1]), "x")


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
    board, spoken, caption, glimpses, moving = explanations_html([raster, words, path], moving=True)
    assert 'class="places words"' in spoken
    assert '<button type="button" dir="auto" aria-pressed=true>dog</button>' in spoken
    assert 'class="places"' in board
    assert "what was looked at" in board
    assert "a &lt;dog&gt;" in caption
    for drawn, kind in ((caption, "png"), (glimpses, "png"), (moving, "gif")):
        light, dark = re.findall(rf'(?:src|srcset)="(data:image/{kind};base64,[^"]+)"', drawn)
        assert light != dark
    assert len(explanations_html([path])) == 1
    assert len(explanations_html([Path(IMAGE, [], size=4)], moving=True)) == 1


def test_drawings_are_sharp_and_animations_have_their_own_size() -> None:
    still, moving = explanations_html([Path(IMAGE, [[0.0, 0.0]], size=4, title="<b>")], "<i>name</i>", moving=True)
    assert still.index("<i>name</i>") < still.index("<span>&lt;b&gt;</span>")
    for drawn, dense in ((still, 1.5), (moving, 1.0)):
        [(body, width, least, alt)] = re.findall(
            r'<img src="[^,]+,([^"]+)" width="(\d+)" style="min-width:(\d+)px" alt="([^"]*)">', drawn
        )
        pixels = size_of(base64.b64decode(body))[0]
        assert int(width) == round(pixels / dense)  # a PNG has more pixels than the page
        assert int(least) == round(0.75 * pixels / dense)
        assert alt == ("&lt;b&gt;" if drawn is still else "step by step")
        assert drawn.index("prefers-color-scheme: dark") < drawn.index("<img")


def test_pixels_of_any_kind_become_a_thumbnail() -> None:
    grey = np.linspace(0, 1, 6).reshape(2, 3)
    body = re.search(r'base64,([^"]+)"', thumbnail_html(grey, '"<b>"'))
    assert body is not None
    again = np.asarray(Image.open(io.BytesIO(base64.b64decode(body[1]))))
    assert np.array_equal(again[..., 0], np.rint(255 * grey).astype(np.uint8))
    assert 'alt="&quot;&lt;b&gt;&quot;"' in thumbnail_html(IMAGE, '"<b>"')
