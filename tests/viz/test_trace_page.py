import base64
import json
import re
import struct
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.base import ConfigError
from regard.viz import SeenLayer, trace_page
from regard.viz.seen_layer import pooled

EVIL = "</script><img src=x onerror=alert(1)><!--<script>&\"'"


class Page(HTMLParser):
    """The scripts of a page by id, the other text, and all elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._script: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = (dict(attrs).get("id") or "main") if tag in ("script", "style") else self._script

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag in ("script", "style") else self._script

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.words.append(data)
        else:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    @property
    def facts(self) -> Any:
        return json.loads(self.scripts["facts"])

    def lines(self, name: str, count: int) -> NDArray[Any]:
        """The numbers of a script, as the page itself unpacks them."""
        content = zlib.decompress(base64.b64decode(self.scripts[name]))
        low, high = np.array(struct.unpack(f"<{2 * count}f", content[: 8 * count])).reshape(2, count, 1)
        steps = np.frombuffer(content[8 * count :], np.uint8).reshape(count, -1)
        return np.asarray(low + (high - low) * steps / 255)


def layer(
    name: str, heads: int, rows: int, columns: int, *, first: int = 0, labels: list[str] | None = None
) -> SeenLayer:
    rng = np.random.default_rng(len(name))
    weights = rng.dirichlet(np.full(columns, 0.1), (heads, rows))
    numbers = range(first, first + rows)
    return SeenLayer(name, weights, range(heads), numbers, labels and [labels[n] for n in numbers], labels)


def test_every_row_can_be_read_from_the_page() -> None:
    layers = [layer("decoder.0.inner", 2, 5, 5), layer("decoder.1.inner", 3, 4, 90, first=86)]
    page = Page(trace_page(layers, title="Two layers").text)
    for place, (seen, facts) in enumerate(zip(layers, page.facts["layers"], strict=True)):
        assert (facts["name"], facts["rows"], facts["kept"]) == (seen.name, list(seen.rows), len(seen.rows))
        for head, weights in enumerate(seen.weights):
            read = page.lines(f"r{place}-{head}", len(seen.rows))
            assert np.abs(read - weights).max() <= 0.5 / 255
        small = pooled(seen.weights, 64)
        assert facts["thumb"] == list(small.shape[1:])
        thumbnails = page.lines(f"t{place}", len(seen.heads)).reshape(small.shape)
        assert np.abs(thumbnails - small).max() <= 0.5 / 255
    assert [facts["short"] for facts in page.facts["layers"]] == ["0", "1"]
    assert "2 to 3 heads; 4 to 5 rows looking at 5 to 90 columns" in " ".join(page.words)


def test_nothing_is_loaded_from_anywhere() -> None:
    text = trace_page([layer("inner", 2, 3, 3)], title="One").text
    page = Page(text)
    assert not re.search(
        r"https?:|@import|url\(|\bsrc=|\bfetch\(|import\(|XMLHttpRequest|innerHTML|insertAdjacent", text
    )
    assert {tag for tag, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object", "base"})
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in str(policy)


def test_labels_cannot_leave_their_place() -> None:
    labels = [EVIL, "\u2028", "\ud800", "a"]
    harmless = trace_page([layer("inner", 1, 4, 4, labels=list("abcd"))], title="x").text
    plain = [tag for tag, _ in Page(harmless).elements]
    page = trace_page([layer("inner", 1, 4, 4, labels=labels), layer(EVIL, 1, 2, 2)], title=EVIL).text
    read = Page(page)
    assert [tag for tag, _ in read.elements if tag != "script"] == [tag for tag in plain if tag != "script"]
    assert sum(tag == "script" for tag, _ in read.elements) == plain.count("script") + 2  # of the second layer
    assert read.facts["texts"] == [[EVIL.replace(" ", "␣"), *labels[1:]]]
    assert read.facts["layers"][1]["name"] == EVIL
    assert read.words.count(EVIL) == 2  # as text, in the heading and in the title of the tab
    assert "onerror" not in "".join(str(attrs) for _, attrs in read.elements)


def test_rows_beyond_the_limit_are_left_out_and_named() -> None:
    layers = [layer("a.0", 4, 200, 400), layer("a.1", 4, 10, 400)]
    whole = trace_page(layers, title="All")
    assert (whole.rows_kept, whole.notes) == (200, ())
    limit = len(whole.text) / 2e6
    page = trace_page(layers, title="Half", limit=limit)
    assert len(page.text) <= limit * 1e6
    assert 40 <= page.rows_kept < 150  # not far from what fits
    assert f"the last {page.rows_kept} rows" in page.notes[0]
    read = Page(page.text)
    assert page.notes[0] in read.words
    assert [facts["kept"] for facts in read.facts["layers"]] == [page.rows_kept, 10]
    rows = read.lines("r0-1", page.rows_kept)
    assert np.abs(rows - layers[0].weights[1, -page.rows_kept :]).max() <= 0.5 / 255
    tiny = trace_page(layers, title="None", limit=0.01)
    assert tiny.rows_kept == 0
    assert "no row is here in full" in tiny.notes[0]
    assert {name for name in Page(tiny.text).scripts if name[0] in "tr"} == {"t0", "t1"}


def test_what_is_not_finite_is_said() -> None:
    weights = np.array([[[np.nan, 1.0], [np.inf, 0.0]]])
    page = trace_page([SeenLayer("inner", weights, [0], range(2))], title="x", notes=["A note."])
    assert page.notes == (
        "A note.",
        "inner: 2 weights are NaN or infinite; they are shown as 0.",
    )
    assert set(page.notes) <= set(Page(page.text).words)
    assert Page(page.text).lines("r0-0", 2).tolist() == [[0, 1], [0, 0]]


def test_empty_layers_and_wrong_limits() -> None:
    page = Page(trace_page([SeenLayer("inner", np.zeros((2, 0, 3)), [0, 1], [])], title="x").text)
    assert page.facts["layers"][0]["kept"] == 0
    assert page.lines("t0", 2).shape == (2, 0)
    with pytest.raises(ConfigError, match="needs layers"):
        trace_page([], title="x")
    for limit in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="limit of a page"):
            trace_page([layer("inner", 1, 1, 1)], title="x", limit=limit)


def test_letters_can_be_read_on_every_shade() -> None:
    """The contrast of letters with their ground, as WCAG defines it, in both sets of colours."""

    def luminance(colour: NDArray[Any]) -> float:
        share = colour / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def rgb(text: str) -> NDArray[Any]:
        return np.array([int(text[place : place + 2], 16) for place in (1, 3, 5)], dtype=float)

    style = trace_page([layer("inner", 1, 1, 1)], title="x").text
    shades = dict(re.findall(r"\.words \.s(\d+) \{ background: rgba\(var\(--heat\), ([\d.]+)\)", style))
    assert len(shades) == 16
    strong = [
        re.findall(r"\.s(\d+)", rule) for rule in re.findall(r"((?:\.words \.s\d+,? )+)\{ color: var\(--strong", style)
    ]
    colours = [
        {name: re.findall(rf"--{name}: ([^;]+);", style)[place] for name in ("card", "ink", "heat", "strong")}
        for place in (0, 1)
    ]
    for theme, numbers in zip(colours, strong, strict=True):
        heat = np.array([float(number) for number in theme["heat"].split(",")])
        for shade, share in shades.items():
            ground = rgb(theme["card"]) + (heat - rgb(theme["card"])) * float(share)
            letters = rgb(theme["strong" if shade in numbers else "ink"])
            low, high = sorted([luminance(ground), luminance(letters)])
            assert (high + 0.05) / (low + 0.05) >= 3.8, (theme, shade)
