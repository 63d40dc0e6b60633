import re
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.explanation import Explanation, Matrix, Places
from regard.explanation.svg import SHADES
from regard.explanation.widget import LEVELS, figure, map_figure, matrix_figure, read, widget

VOID = {"img", "br", "path", "rect", "circle", "image", "use"}
EVIL = "<b>&\"'</script><script>alert(1)</script>"


class Page(HTMLParser):
    """The elements of a page; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID or tag == "path":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("seed", range(12))
def test_every_kind_shows_itself_without_matplotlib(seed, random_explanations):
    for kind, explanation in random_explanations(seed).items():
        text = explanation._repr_html_()
        assert text == widget(explanation)
        page = Page(text)
        tags = [tag for tag, _ in page.elements]
        assert (tags.count("script"), tags.count("style")) == (1, 1)
        assert "b" not in tags or explanation.title or kind in ("path", "hops"), "labels are escaped"
        for _, attrs in page.elements:
            for name in ("src", "href"):
                assert attrs.get(name, "#").startswith(("#", "data:image/png;base64,"))
        assert "nan" not in re.sub(r"base64,[^\"]*", "", text).lower().split("<script>")[0].split("</style>")[1]


def test_a_kind_without_a_picture_of_itself_is_shown_as_a_table():
    @dataclass(frozen=True, eq=False)
    class Other(Explanation):
        kind = "other"
        numbers: np.ndarray
        image: np.ndarray
        parts: dict
        words: tuple
        share: float
        title: str = EVIL

        def __post_init__(self):
            pass

    numbers = np.array([[0.25, 0.5]])
    text = widget(Other(numbers, np.zeros((1, 1, 3), dtype=np.uint8), {EVIL: numbers[:, :0]}, ("a", EVIL), 1 / 3))
    cells = re.findall(r"<td>(.*?)</td>", text)
    assert EVIL not in text
    assert cells[0] == "1 × 2 numbers from 0.25 to 0.5"
    assert cells[1].startswith('<img src="data:image/png;base64,')
    assert cells[2].endswith(": 1 × 0 numbers")
    assert cells[3].startswith("a, ")
    assert cells[4] == "0.333"
    Page(text)  # every element that is opened is closed


def test_a_matrix_has_its_weights_in_thousandths_and_a_chooser():
    weights = np.array([[[1.0, 0.0], [0.25, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    text = figure(Matrix(weights, ["x", EVIL], ["a", "b"], layer=EVIL), "<i>name</i>")
    assert 'data-weights="1000,;250,500"' in text
    assert 'data-weights=",1000;,1000"' in text
    assert re.findall(r'<path fill-opacity="([^"]+)" d="([^"]+)"/>', text) == [
        ("0.25", "M0 1h1v1h-1z"), ("0.5", "M1 1h1v1h-1z"), ("1", "M0 0h1v1h-1z"),
    ]  # fmt: skip
    assert text.count("<option") == 2
    assert EVIL not in text
    assert "<select" not in figure(Matrix(weights[0], ["x", "y"], ["a", "b"]))
    assert matrix_figure({}, ["a"], ["b"]) == ""
    assert "nothing to show" in figure(Matrix([], [], ["a"]))


def test_a_raster_of_places_answers_to_the_pointer():
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    weights = np.full((6, 2, 2), 0.25)
    weights[4] = [[0.1, 0.7], [0.1, 0.1]]  # the middle one
    text = figure(Places(image, weights, grid=(2, 3), box=(10, 0, 20, 30), title=EVIL), "<i>name</i>")
    assert 'data-places="2,3" data-keys="2,2"' in text
    assert f'<rect x="1" y="0" width="1" height="1" fill-opacity="{1:.2f}"/>' in text
    assert "left:0.00%;top:25.00%;width:50.00%;height:50.00%" in text
    assert "<figcaption><i>name</i></figcaption>" in text
    assert EVIL not in text
    assert 'alt="&lt;' in text
    with pytest.raises(ValueError, match=r"weights of places: got shape \[2, 2\]; expected \[r c i j\]"):
        map_figure(np.zeros((2, 2)), "", (1, 1))
    with pytest.raises(ValueError, match="weights of places are not finite"):
        map_figure(np.full((1, 1, 1, 1), np.nan), "", (1, 1))


def test_a_map_has_the_weights_of_every_place():
    weights = np.full((2, 3, 1, 4), 0.25)
    weights[1, 1, 0] = [0.1, 0.1, 0.7, 0.1]  # the middle
    weights[0, 0, 0] = [0.0, 0.5, 0.375, 0.125]
    page = map_figure(weights, "", (30, 20))
    assert 'data-places="2,3" data-keys="1,4"' in page
    digits = re.search(r'data-levels="([0-9a-f]+)"', page)[1]
    places = [digits[start : start + 4] for start in range(0, 24, 4)]
    assert places == ["0f80", "0000", "0000", "0000", "00f0", "0000"]  # even shares are clear
    assert re.findall(r'<rect x="(\d)" y="(\d)" width="1" height="1" fill-opacity="([\d.]+)"/>', page) == [
        ("2", "0", "1.00")
    ]
    assert int(digits[1], 16) == LEVELS
    assert "left:50.0%;top:75.0%" in page


def test_weights_below_zero_are_clear_and_above_zero_are_not():
    page = map_figure(np.array([[[[-1.0, 0.0, 0.5, 1.0]]]]), "", (30, 20))
    assert 'data-levels="008f"' in page


def test_the_script_knows_the_shades_and_levels():
    script = read("widget.js")
    assert f"const LEVELS = {SHADES};" in script
    assert f"parseInt(digit, 16) / {LEVELS}" in script


def test_the_style_touches_nothing_outside():
    """Rules begin with the class of a widget: a notebook keeps its own look."""
    style = re.sub(r"/\*.*?\*/", "", read("widget.css"), flags=re.DOTALL)
    style = re.sub(r"@media[^{]*\{", "", style)
    for selector in re.findall(r"([^{};]+)\{", style):
        for part in selector.split(","):
            assert part.strip().startswith((".regard", ":where(.regard)")), part
    assert "url(" not in style
    assert "@import" not in style
