"""Four questions that somebody answers by clicks alone, from the first page on, and that Python answers, too."""

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import needs_browser, open_browser, open_page, steady_box

import regard
from regard.api import first_inputs
from regard.data.images import read_image
from regard.studio.app import Studio
from regard.studio.serve import Server
from regard.studio.traces import Traces

pytestmark = [needs_browser, pytest.mark.bare]
DEADLINE = 60_000  # milliseconds; busy machines are slow
SENTENCE = "I lost my keys."


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server(Studio.of(traces=Traces()), port=0)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Any]:
    """A page that is only clicked: nothing is typed, and no address is written by hand after the first."""
    with open_browser() as browser, open_page(browser, viewport={"width": 1280, "height": 800}) as opened:
        opened.set_default_timeout(DEADLINE)
        opened.goto(server.address.url)
        yield opened


def view(page: Any, name: str) -> None:
    page.locator("nav").get_by_role("link", name=name, exact=True).click()


def by_words(model: Any, head: str) -> np.ndarray:
    """The weights of words at "layer/head": the mean over the pieces of a row, the sum over those of a column."""
    translation = model.translate(SENTENCE)
    layer, number = head.split("/")
    weights = next(each.weights for each in model.layers(translation) if each.layer == layer)[int(number)]

    def groups(tokens: list[str]) -> list[int]:
        return list(np.cumsum([token.startswith("▁") for token in tokens]) - 1)

    down, across = groups(translation.tokens), groups(translation.source_tokens[:-1])
    made = np.zeros((max(down) + 1, max(across) + 1))
    for row, word in enumerate(down):
        np.add.at(made[word], across, weights[row, : len(across)] / down.count(word))
    return made


def test_which_source_word_did_keys_look_at(page: Any) -> None:
    view(page, "Translate")
    page.get_by_role("button", name=SENTENCE, exact=True).click()
    page.wait_for_selector("[data-head]")
    page.locator(".target").get_by_role("button", name="clés.").click()
    said = page.inner_text(".target + .readout")
    weight = by_words(regard.load("tatoeba-en-fr", device="cpu"), "decoder.1.cross/3")[3, 3]
    assert said == f"“clés.” looked most at “keys.”: {weight:.3f} of its weight."


def test_which_head_is_the_cleanest(page: Any) -> None:
    view(page, "Translate")
    page.get_by_role("button", name=SENTENCE, exact=True).click()
    page.wait_for_selector("[data-head]")
    model = regard.load("tatoeba-en-fr", device="cpu")
    heads = [page.locator("[data-head]").nth(n).get_attribute("data-head") for n in range(32)]
    clean = {head: by_words(model, head).max(-1).mean() for head in heads}
    best = max(clean, key=lambda head: clean[head])
    assert page.locator("[data-head].clean").get_attribute("data-head") == best
    assert f"{clean[best]:.2f} in the mean" in page.inner_text(".seen")
    page.locator("[data-cleanest]").click()
    page.wait_for_selector(f"[data-head='{best}'][aria-pressed=true]")
    shown = page.eval_on_selector_all("rect[data-weight]", "cells => cells.map(cell => Number(cell.dataset.weight))")
    np.testing.assert_allclose(shown, by_words(model, best).ravel(), atol=1e-5)


def test_what_does_temperature_do(page: Any) -> None:
    view(page, "Playground")
    page.locator(".bench[data-result]").wait_for()
    slider = page.get_by_role("slider", name="temperature T")
    told: dict[float, tuple[float, str]] = {}
    for share in (0.1, 0.6, 0.9):
        box = steady_box(slider)
        slider.click(position={"x": share * box["width"], "y": box["height"] / 2})
        weights = page.evaluate("JSON.parse(document.querySelector('.bench').dataset.result).weights")
        told[share] = (max(weights), page.inner_text(".temper"))
    assert told[0.1][0] > told[0.6][0] > told[0.9][0]
    for largest, text in told.values():
        assert "below 1 makes the weights sharper" in text
        assert float(re.findall(r"is (\d\.\d+)", text)[-1]) == pytest.approx(largest, abs=1e-3)


def test_where_did_the_third_glimpse_look(page: Any) -> None:
    view(page, "Look")
    page.get_by_role("group", name="examples").get_by_role("button").nth(3).click()
    page.get_by_role("button", name="glimpse 3", exact=True).click()
    said = page.inner_text(".regard-path .regard-readout")
    model = regard.load("digits-in-clutter", device="cpu")
    _, _, content = first_inputs(model, 4)[3]["picture"].partition(",")
    [[recognised, *_]] = model.predictions([read_image(b64decode(content))])
    [path] = recognised.explanations
    x, y = (np.asarray(path.where)[2] + 1) / 2 * 60
    assert said.startswith(f"Glimpse 3 of 8 looked at x {x:.1f}, y {y:.1f}: pixels from the top left of 60 × 60.")
    assert f"the model said {recognised.text}." in said
